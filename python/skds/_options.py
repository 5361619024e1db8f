"""Settings as the native part takes them: the names of the command line's options, as JSON."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping
from typing import Any

#: The settings of a fit, by their names here; ``lambda`` is a word of Python.
SETTINGS = (
    "method",
    "alpha",
    "layers",
    "epochs",
    "power_iterations",
    "solver",
    "tune",
    "model",
    "hidden",
    "activation",
    "features",
    "diffusion",
    "law",
    "objective",
    "kernel",
    "bandwidth",
    "estimator",
    "penalty",
    "lambda_",
    "ingoing",
    "steps",
    "batch",
    "envs_per_step",
    "learning_rate",
    "learn_scale",
    "standardize",
    "stabilize",
    "seed",
)


def plain(value: Any) -> Any:
    """A value as JSON has it: numbers of NumPy become Python's."""
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        return value.item()
    return value


def to_json(values: dict[str, Any]) -> str:
    """The values that are given, as JSON."""
    given = {name.rstrip("_"): plain(value) for name, value in values.items() if value is not None}
    for name, value in given.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{name} is {value}, expected a finite number")
    try:
        return json.dumps(given)
    except TypeError:
        kinds = (f"{name} is a {type(value).__name__}" for name, value in given.items() if not is_plain(value))
        raise ValueError(f"{next(kinds, 'a setting has another type')}, expected text, a number or a truth value") from None


def is_plain(value: Any) -> bool:
    """Whether JSON can hold the value."""
    try:
        json.dumps(value)
    except TypeError:
        return False
    return True


def whole(value: Any, what: str) -> int:
    """A count, or a sentence."""
    count = plain(value)
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count < 1 << 63:
        raise ValueError(f"{what} is {value!r}, expected a whole number of at least 0")
    return count


def finite(value: Any, what: str) -> float:
    """A number, or a sentence."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{what} is {value!r}, expected a finite number")
    return number


def quieten_mesa() -> None:
    """Turns off a layer of Mesa that only reorders devices, and complains on standard error where there is no desktop session."""
    if sys.platform == "linux" and "XDG_RUNTIME_DIR" not in os.environ:
        os.environ.setdefault("NODEVICE_SELECT", "1")


def device_name(device: Any) -> str | None:
    """A device as the native part names it."""
    quieten_mesa()
    return None if device is None else str(device)


def edges_to_json(edges: Any) -> str | None:
    """What is known of effects, as the native part takes it."""
    if edges is None:
        return None
    rows = edges.to_dict("records") if hasattr(edges, "to_dict") else edges
    if not isinstance(rows, (list, tuple)) or not all(isinstance(row, Mapping) for row in rows):
        raise ValueError(f"the edges are a {type(edges).__name__}, expected a data frame or a list of mappings")
    clean = [{name: plain(value) for name, value in row.items() if value is not None and value == value} for row in rows]
    return json.dumps(clean)
