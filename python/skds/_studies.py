"""Losses, simulated systems, experiments and devices: for people who study methods."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from skds import _inputs, _skds
from skds._estimator import StationaryDiffusion
from skds._options import device_name, quieten_mesa, to_json
from skds._progress import Listener, listening
from skds._skds import Dataset


def loss(
    X: Any,
    params: Any,
    objective: str | None = None,
    kernel: str | None = None,
    estimator: str | None = None,
    device: Any = None,
    *,
    bandwidth: float | str | None = None,
    env: Any = None,
    targets: Any = None,
    precision: str | None = None,
    activation: str | None = None,
    gradient: bool = True,
    seed: int = 0,
) -> tuple[float, dict[str, np.ndarray]] | float:
    """A loss and its gradient by every parameter, from closed forms.

    Parameters
    ----------
    X : array, DataFrame, Dataset or path
        The samples; ``env`` and ``targets`` are as in :meth:`StationaryDiffusion.fit`.
    params : mapping of str to array, or StationaryDiffusion
        The parameters, by the names and shapes of model files: ``weights`` (d, d) or ``hidden_weights`` (d, h, d), ``hidden_biases`` (d, h) and
        ``output_weights`` (d, h); ``biases`` (d); ``log_noise`` (d) or ``noise`` (d, d); optionally ``shift`` and ``log_scale`` (environments, d). Row j of
        ``weights`` holds the effects on variable j.
    objective : {'skds', 'kds'}, optional
        The loss; SKDS by default.
    kernel : {'rbf', 'tilted-rbf', 'imq-plus'}, optional
        The kernel; RBF by default.
    estimator : {'linear', 'u', 'v'}, optional
        The pairs of rows: neighbouring ones (the default), all different ones, or all.
    device : str or Device, optional
        Where to compute; the CPU by default.
    bandwidth : float or 'auto', optional
        The bandwidth, in the units of ``X``; by default the median distance.
    precision : {'f32', 'f64'}, optional
        By default double on the CPU, and single on a GPU.
    activation : {'sigmoid', 'tanh', 'relu'}, optional
        Of an MLP.
    gradient : bool
        Whether the gradient is wanted.
    seed : int
        The seed of the rows by which ``'auto'`` estimates a bandwidth.

    Returns
    -------
    value : float
        The loss.
    gradient : dict of str to array
        By the names of the parameters; only if ``gradient``.

    Examples
    --------
    >>> import numpy as np, skds
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> params = {"weights": -np.eye(2), "biases": np.zeros(2), "log_noise": np.full(2, np.log(2) / 2)}
    >>> value, gradient = skds.loss(X, params, estimator="v", bandwidth=1.0)
    >>> value < 0.01, gradient["weights"].shape
    (True, (2, 2))
    """
    data = _inputs.read(X, env=env, targets=targets)
    asked = to_json(
        {
            "objective": objective,
            "kernel": kernel,
            "bandwidth": bandwidth,
            "estimator": estimator,
            "device": device_name(device),
            "precision": precision,
            "activation": activation,
            "seed": seed,
        }
    )
    model, tensors = None, []
    if isinstance(params, StationaryDiffusion):
        model = params._model()
    else:
        if not isinstance(params, Mapping):
            raise ValueError(f"the parameters are a {type(params).__name__}, expected a mapping of names to arrays, or a model")
        tensors = [_tensor(name, array) for name, array in params.items() if array is not None]
    value, arrays = _skds.loss(data.dataset, tensors, asked, bool(gradient), model)
    if not gradient:
        return value
    return value, {name: np.asarray(entries).reshape(shape) for name, shape, entries in arrays}


def _tensor(name: str, array: Any) -> tuple[str, list[int], np.ndarray]:
    values = _inputs.as_floats(array, f"the parameter {name!r}")
    return str(name), list(values.shape), np.ascontiguousarray(values).reshape(-1)


class Simulated(NamedTuple):
    """A simulated system: data to learn from, interventions on other variables, and the graph."""

    train: Dataset
    test: Dataset
    #: Row j, column i: whether variable i acts on variable j.
    graph: np.ndarray


def simulate(system: str = "sde", *, graph: str = "er", seed: int = 0, progress: bool | Listener | None = None, **settings: Any) -> Simulated:
    """Simulates a random system with interventions on single variables.

    Parameters
    ----------
    system : {'sde', 'scm', 'sergio'}
        A linear diffusion, linear structural equations, or gene expression.
    graph : {'er', 'sf', 'sbm'}
        A random, scale-free or block graph.
    seed : int
        The seed of all random choices.
    progress : bool or callable, optional
        As in :meth:`StationaryDiffusion.fit`.
    **settings
        The other settings of ``skds simulate``, such as ``dim``, ``rows``, ``train_envs``, ``test_envs``, ``edges`` and ``acyclic``.

    Returns
    -------
    Simulated
        ``train``, ``test`` (interventions on other variables) and ``graph``.

    Examples
    --------
    >>> import skds
    >>> train, test, graph = skds.simulate(dim=4, rows=50, train_envs=2, test_envs=2, edges=1)
    >>> train
    <skds.Dataset of 150 rows, 4 variables and 3 environments>
    """
    with listening(progress, "simulate") as listener:
        return Simulated(*_skds.simulated(to_json({"system": system, "graph": graph, "seed": seed, **settings}), listener))


def experiment(
    plan: str | os.PathLike,
    output: str | os.PathLike,
    *,
    datasets: int | None = None,
    shard: str | None = None,
    progress: bool | Listener | None = None,
) -> pd.DataFrame:
    """Compares methods on many systems, as ``skds experiment run`` does.

    Each method on each dataset is a cell with a file of its own, so what has been computed is not computed again.

    Parameters
    ----------
    plan : path
        A TOML file with systems, seeds and methods.
    output : path
        The folder of the results.
    datasets : int, optional
        Use only the first datasets of each system.
    shard : str, optional
        ``k/n``: the k-th of n parts. Parts can run anywhere and share the folder.
    progress : bool or callable, optional
        As in :meth:`StationaryDiffusion.fit`.

    Returns
    -------
    DataFrame
        One row per system, seed, method and test intervention, with ``mse``, ``w2``, ``sinkhorn`` and the seconds of the fit.
    """
    with listening(progress, "experiment") as listener:
        cells = json.loads(_skds.experiment(os.fspath(plan), os.fspath(output), datasets, shard, listener))
    rows = [
        {
            "system": cell["system"],
            "seed": cell["seed"],
            "method": cell["method"],
            "target": row["target"],
            **(row["scores"] or {}),
            "fit_seconds": cell["fit_seconds"],
            "why_not": row.get("failed") or row["unstable"],
        }
        for cell in cells
        for row in cell["rows"]
    ]
    columns = ["system", "seed", "method", "target", "mse", "w2", "sinkhorn", "fit_seconds", "why_not"]
    return pd.DataFrame(rows, columns=columns)


@dataclasses.dataclass(frozen=True)
class Device:
    """A device that computes; pass it as ``device``."""

    #: Its place in the list of GPUs; none for the CPU.
    index: int | None
    name: str
    #: ``cpu``, ``discrete``, ``integrated``, ``virtual``, ``software`` or ``unknown``.
    kind: str
    backend: str
    driver: str

    def __str__(self) -> str:
        return "cpu" if self.index is None else str(self.index)


def devices() -> list[Device]:
    """The devices of this machine: the CPU, and every GPU with a driver.

    Examples
    --------
    >>> import skds
    >>> skds.devices()[0].kind
    'cpu'
    """
    quieten_mesa()
    cpu = Device(None, "CPU engine", "cpu", "Rust", "")
    return [cpu, *(Device(*row) for row in _skds.devices())]


