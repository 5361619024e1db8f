"""A service does the work."""

from __future__ import annotations

import json
import os
from typing import Any

from skds import _inputs, _skds
from skds._estimator import StationaryDiffusion
from skds._inputs import Cells
from skds._options import device_name, edges_to_json, whole
from skds._progress import Listener, listening


class Client:
    """A service that ``skds serve`` runs: made by :func:`connect`."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self.url = url
        self._client = _skds.Client(url, token)

    def __repr__(self) -> str:
        return f"<skds.Client of {self.url}>"

    def fit(
        self,
        X: Any,
        *,
        estimator: StationaryDiffusion | None = None,
        env: Any = None,
        targets: Any = None,
        names: Any = None,
        pert_key: str | None = None,
        control: str | None = None,
        separator: str | None = None,
        layer: str | None = None,
        genes: Any = None,
        normalize: str | None = None,
        min_cells: int | None = None,
        progress: bool | Listener | None = None,
    ) -> StationaryDiffusion:
        """Fits a model on the service. Ctrl-C leaves the job running there.

        Parameters
        ----------
        X, env, targets, names, pert_key, control, separator, layer, genes, normalize, min_cells, progress
            As in :meth:`StationaryDiffusion.fit`.
        estimator : StationaryDiffusion, optional
            The settings; those of ``StationaryDiffusion()`` by default. It becomes the fitted model.

        Returns
        -------
        StationaryDiffusion
            The fitted model, with its data: predictions are computed here.
        """
        estimator = StationaryDiffusion() if estimator is None else estimator
        cells = Cells(pert_key, control, separator, layer, genes, normalize, min_cells)
        data = _inputs.read(X, env=env, targets=targets, names=names, cells=cells)
        name = os.path.splitext(os.path.basename(X))[0] if isinstance(X, (str, os.PathLike)) else "data"
        with listening(progress, "fit") as listener:
            model, report = self._client.fit(
                data.dataset,
                name,
                estimator._settings(targets),
                edges_to_json(estimator.edges),
                None if estimator.bootstrap is None else whole(estimator.bootstrap, "bootstrap"),
                device_name(estimator.device),
                listener,
            )
        return estimator._fitted(model, json.loads(report), data)


def connect(url: str, token: str | None = None) -> Client:
    """Connects to a service.

    Parameters
    ----------
    url : str
        Its address, such as ``http://127.0.0.1:8765``.
    token : str, optional
        A token of the service; ``SKDS_TOKEN`` of the environment by default.

    Returns
    -------
    Client
        ``connect(url).fit(data)`` returns a fitted :class:`StationaryDiffusion`.
    """
    return Client(url, token if token is not None else os.environ.get("SKDS_TOKEN"))
