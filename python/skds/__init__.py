"""Learn causal models of systems with feedback, and predict what interventions do to them.

>>> import skds
>>> train, test, _ = skds.simulate(dim=5, rows=200, train_envs=4, test_envs=1, edges=1, seed=3)
>>> model = skds.StationaryDiffusion().fit(train)
>>> moved = model.predict({"x2": 2.0})

The lower level is :func:`loss` (with gradients), :func:`simulate`, :func:`experiment` and :func:`devices`; :func:`connect` has a
service do the work.
"""

from skds._client import Client, connect
from skds._do import Do
from skds._estimator import NotFitted, StationaryDiffusion, load
from skds._html import Svg
from skds._inputs import LeftOut
from skds._skds import Dataset, Error, __version__
from skds._studies import Device, Simulated, devices, experiment, loss, simulate

__all__ = [
    "Client",
    "Dataset",
    "Device",
    "Do",
    "Error",
    "LeftOut",
    "NotFitted",
    "Simulated",
    "StationaryDiffusion",
    "Svg",
    "__version__",
    "connect",
    "devices",
    "experiment",
    "load",
    "loss",
    "simulate",
]
