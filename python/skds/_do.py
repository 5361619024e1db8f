"""What is done to a system."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from skds._options import finite


@dataclasses.dataclass(frozen=True)
class Do:
    """An intervention, by the names of variables.

    Parameters
    ----------
    set : mapping of str to float
        Means to reach. The model finds the shift of the drift that gives a variable this mean.
    shift : mapping of str to float
        Numbers to add to the drift.
    scale : mapping of str to float
        Factors of the noise.
    environment : int, optional
        Start from the intervention that the fit found for this training environment.
    name : str, optional
        What the prediction is called.

    Examples
    --------
    >>> import skds
    >>> str(skds.Do(set={"KLF1": 0.0}, scale={"GATA1": 2}))
    'KLF1=0.0 GATA1*2'
    """

    set: Mapping[str, float] = dataclasses.field(default_factory=dict)
    shift: Mapping[str, float] = dataclasses.field(default_factory=dict)
    scale: Mapping[str, float] = dataclasses.field(default_factory=dict)
    environment: int | None = None
    name: str | None = None

    def __str__(self) -> str:
        if self.name is not None:
            return self.name
        parts = [] if self.environment is None else [f"environment {self.environment}"]
        for mark, numbers in (("=", self.set), ("+", self.shift), ("*", self.scale)):
            parts += [f"{variable}{mark}{number}" for variable, number in numbers.items()]
        return " ".join(parts) or "nothing"

    def _as_action(self) -> dict[str, Any]:
        kinds = {"set": "mean", "shift": "shift", "scale": "scale"}
        numbers = {
            name: {str(v): finite(x, f"the {kind} of {str(v)!r}") for v, x in getattr(self, name).items()}
            for name, kind in kinds.items()
        }
        return numbers if self.environment is None else {**numbers, "environment": int(self.environment)}


def actions(perturbations: Any) -> tuple[list[str], list[dict[str, Any]]]:
    """The name of each perturbation, and what the native part is told of it."""
    if isinstance(perturbations, (str, Do, Mapping)):
        perturbations = [perturbations]
    if not isinstance(perturbations, Iterable):
        raise ValueError(f"the perturbations are {perturbations!r}, expected labels, mappings of names to means, or skds.Do")
    names, told = [], []
    for perturbation in perturbations:
        if isinstance(perturbation, str):
            names.append(perturbation)
            told.append({"label": perturbation})
            continue
        if isinstance(perturbation, Mapping):
            perturbation = Do(set=perturbation)
        if not isinstance(perturbation, Do):
            raise ValueError(f"a perturbation is {perturbation!r}, expected a label, a mapping of names to means, or skds.Do")
        names.append(str(perturbation))
        told.append(perturbation._as_action())
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the perturbation {twice!r} is given twice, expected each once")
    if not names:
        raise ValueError("there are no perturbations, expected at least one")
    return names, told
