"""The estimator: fit, effects, predictions, what to try next."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from skds import _answers, _inputs, _skds
from skds._do import actions
from skds._html import Svg, model_to_html
from skds._inputs import Cells
from skds._options import SETTINGS, device_name, edges_to_json, finite, quieten_mesa, to_json, whole
from skds._progress import Listener, listening


class NotFitted(ValueError, AttributeError):
    """A model is asked something before it was fitted."""


class StationaryDiffusion:
    """A stationary diffusion: a causal model of a system with feedback, learnt from samples and interventions.

    Without parameters, :meth:`fit` does what ``skds fit`` does: it compares several kinds of linear model by interventions that it leaves
    out, keeps those that predict best, and says which error to expect. Parameters are the options of ``skds fit``, with ``_`` for ``-``
    and ``lambda_`` for ``--lambda``.

    Parameters
    ----------
    model : {'linear', 'mlp', 'basis'}, optional
        The drift.
    objective : {'kds', 'skds'}, optional
        The loss.
    bandwidth : float or 'auto', optional
        The bandwidth of the kernel, in standard deviations.
    lambda_ : float, optional
        The weight of the penalty.
    seed : int, optional
        The seed of all random choices.
    bootstrap : int, optional
        Add 95 % intervals for every effect, from fits to so many resamples of the rows.
    edges : data frame or list of mappings, optional
        What is known of effects: ``source``, ``target``, ``kind`` (``forbidden``, ``required`` or ``candidate``) and optionally ``weight``.
    device : str or Device, optional
        Where to compute: ``'auto'``, ``'cpu'``, ``'gpu'``, or a device of :func:`skds.devices`.
    method, alpha, layers, epochs, power_iterations, solver, tune, hidden, activation, features, diffusion, law, kernel, estimator, penalty, \
ingoing, steps, batch, envs_per_step, learning_rate, learn_scale, standardize, stabilize : optional
        The other options of ``skds fit``.

    Attributes
    ----------
    effects_ : DataFrame
        Effects between variables, strongest first.
    findings_ : list of str
        What was chosen and how far to trust it, a sentence each.
    notes_ : list of str
        How the data was read, and what was left out.
    names_ : list of str
        The variables.
    settings_ : dict
        The settings of the fit, and what it chose.
    params_ : dict of str to array
        The parameters by the names of model files, such as ``weights`` (row j holds the effects on variable j) and ``shift``. Of an average, the means.

    Examples
    --------
    >>> import skds
    >>> train, test, graph = skds.simulate(dim=5, rows=200, train_envs=4, test_envs=1, edges=1, seed=3)
    >>> model = skds.StationaryDiffusion(objective="kds").fit(train)
    >>> list(model.effects_.columns[:5])
    ['source', 'target', 'strength', 'low', 'high']
    >>> moved = model.predict({"x0": 1.0})
    >>> bool(abs(moved["x0"].mean() - 1.0) < 1e-9)
    True
    """

    def __init__(
        self,
        *,
        model=None,
        objective=None,
        kernel=None,
        bandwidth=None,
        estimator=None,
        penalty=None,
        lambda_=None,
        law=None,
        seed=None,
        bootstrap=None,
        edges=None,
        device=None,
        method=None,
        alpha=None,
        layers=None,
        epochs=None,
        power_iterations=None,
        solver=None,
        tune=None,
        hidden=None,
        activation=None,
        features=None,
        diffusion=None,
        ingoing=None,
        steps=None,
        batch=None,
        envs_per_step=None,
        learning_rate=None,
        learn_scale=None,
        standardize=None,
        stabilize=None,
    ):
        self.model = model
        self.objective = objective
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.estimator = estimator
        self.penalty = penalty
        self.lambda_ = lambda_
        self.law = law
        self.seed = seed
        self.bootstrap = bootstrap
        self.edges = edges
        self.device = device
        self.method = method
        self.alpha = alpha
        self.layers = layers
        self.epochs = epochs
        self.power_iterations = power_iterations
        self.solver = solver
        self.tune = tune
        self.hidden = hidden
        self.activation = activation
        self.features = features
        self.diffusion = diffusion
        self.ingoing = ingoing
        self.steps = steps
        self.batch = batch
        self.envs_per_step = envs_per_step
        self.learning_rate = learning_rate
        self.learn_scale = learn_scale
        self.standardize = standardize
        self.stabilize = stabilize

    # Parameters, by scikit-learn's conventions.

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name."""
        return {name: getattr(self, name) for name in self._parameters()}

    def set_params(self, **params: Any) -> StationaryDiffusion:
        """Sets parameters, and returns the estimator."""
        known = self._parameters()
        for name, value in params.items():
            if name not in known:
                raise ValueError(f"unknown parameter {name!r}, expected one of {', '.join(known)}")
            setattr(self, name, value)
        return self

    @classmethod
    def _parameters(cls) -> list[str]:
        return [*SETTINGS, "bootstrap", "edges", "device"]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items() if value is not None)
        return f"StationaryDiffusion({given})"

    # Fitting.

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
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
        checkpoint: str | os.PathLike | None = None,
        resume: bool = False,
        restart: bool = False,
    ) -> StationaryDiffusion:
        """Learns a model.

        Parameters
        ----------
        X : AnnData, DataFrame, array, list of arrays, Dataset or path
            The samples: cells with labels, a table, one array per environment, or an ``.npz``, ``.csv`` or ``.h5ad`` file.
        y : ignored
            Here for scikit-learn's conventions.
        env : array, Series or column name, optional
            For tables, the environment of each row: numbers from 0 (at rest), or labels such as ``'control'`` and ``'KLF1+CEBPA'``.
        targets : array, mapping, list or 'unknown', optional
            Which variables each environment intervenes on: an array of 0 and 1 (environments × variables), or names for each environment. For
            a ``.csv`` file, the file of its targets. With ``'unknown'``, every environment but the first may intervene on any variable.
        names : list of str, optional
            The names of the variables of an array.
        pert_key : str, optional
            For cells, the column of ``obs`` with perturbations: genes, combinations, or a control.
        control : str, optional
            The label of controls. Without it, ``control``, ``ctrl``, ``NT``, ``non-targeting`` and the like.
        separator : str, optional
            What separates the genes of a combination, ``+`` by default.
        layer : str, optional
            The layer to use in place of ``X``.
        genes : str or list of str, optional
            The genes that become variables: ``'targets'``, ``'hvg:K'``, ``'all'``, ``'file:PATH'``, joined by ``+``, or a list of these and of names.
            Without it, ``'targets+hvg:50'``.
        normalize : {'auto', 'log1p', 'none'}, optional
            What to do with counts. ``'auto'``, the default for cells, scales every cell to the median count and takes log(1 + x) if the matrix holds
            counts.
        min_cells : int, optional
            Leave out perturbations with fewer cells, 20 by default.
        progress : bool or callable, optional
            ``True`` shows a bar, ``False`` nothing; a function is called with the count, the total and the loss. By default, a bar is shown on terminals
            and in notebooks. An exception that the function raises stops the fit.
        checkpoint : path, optional
            The model file beside which an interrupted training (models trained by Adam) is kept. ``skds fit --resume`` continues it, too. Without it,
            it is kept as long as this object.
        resume : bool
            Continue an interrupted training.
        restart : bool
            Replace the interrupted training at ``checkpoint``.

        Returns
        -------
        StationaryDiffusion
            This estimator.
        """
        if resume and restart:
            raise ValueError("resume and restart are both given, expected one of them")
        cells = Cells(pert_key, control, separator, layer, genes, normalize, min_cells)
        data = _inputs.read(X, env=env, targets=targets, names=names, cells=cells)
        if resume and checkpoint is None and not (hasattr(self, "_kept") and os.listdir(self._kept.name)):
            raise ValueError("resume is given, but this object has no interrupted training: call fit without it")
        if checkpoint is None and not hasattr(self, "_kept"):
            self._kept = tempfile.TemporaryDirectory(prefix="skds-", ignore_cleanup_errors=True)
        beside = os.path.join(self._kept.name, "model.safetensors") if checkpoint is None else os.fspath(checkpoint)
        # Nobody can have left anything in the folder of this object but this object.
        quieten_mesa()
        unfinished = "resume" if resume else "replace" if restart or checkpoint is None else "refuse"
        with listening(progress, "fit") as listener:
            model, report = _skds.fit(
                data.dataset,
                self._settings(targets),
                edges_to_json(self.edges),
                None if self.bootstrap is None else whole(self.bootstrap, "bootstrap"),
                device_name(self.device),
                beside,
                unfinished,
                listener,
            )
        return self._fitted(model, json.loads(report), data)

    def _settings(self, targets: Any = None) -> str:
        given = {name: getattr(self, name) for name in SETTINGS}
        return to_json({**given, "targets": "unknown" if _inputs.are_unknown(targets) else None})

    def _fitted(self, model: Any, report: dict[str, Any] | None, data: _inputs.Data | None) -> StationaryDiffusion:
        self.model_ = model
        self.names_ = model.names
        self.n_features_in_ = len(self.names_)
        self.settings_ = json.loads(model.settings)
        self.report_ = report
        self.findings_ = [] if report is None else report["findings"]
        self.notes_ = [] if data is None else data.notes
        self._data = data
        self.effects_ = _answers.effects(model)
        self.params_ = {name: np.asarray(values).reshape(shape) for name, shape, values in model.tensors()}
        return self

    def _model(self) -> Any:
        if not hasattr(self, "model_"):
            raise NotFitted("the model is not fitted, expected a call of fit first")
        return self.model_

    def _start(self, data: Any, cells: Cells, **table: Any) -> _inputs.Data:
        """The data that predictions start from: that of the fit, unless other data is given."""
        model = self._model()
        if data is not None:
            return _inputs.read(data, cells=cells, role="start", model=model, **table)
        given = cells.given() + [name for name, value in table.items() if value is not None]
        if given:
            raise ValueError(f"{given[0]} is given without data, expected the data that it is about")
        if self._data is None:
            raise ValueError("the model was read from a file and has no data, expected data to start from (data=...)")
        return self._data

    # Predictions.

    def predict(
        self,
        perturbations: Any,
        data: Any = None,
        *,
        separator: str | None = None,
        seed: int = 0,
        nonnegative: bool = False,
        device: Any = None,
        progress: bool | Listener | None = None,
        **options: Any,
    ) -> Any:
        """Moves the observed rows at rest as the model predicts for each perturbation.

        Parameters
        ----------
        perturbations : str, mapping, Do, or a list of these
            A label such as ``'KLF1'`` or ``'KLF1+CEBPA'`` perturbs these variables as strongly as the data does: a variable that the data perturbs
            reaches the mean that it has there, any other changes as those did (by the median size, in the direction of most). A mapping gives the means to reach, and
            :class:`skds.Do` shifts and scales, too.
        data : AnnData, DataFrame, array or path, optional
            Start from the rows at rest in this data, and not in that of the fit. ``env``, ``targets``, ``pert_key`` and so on are as in :meth:`fit`.
        separator : str, optional
            What separates the variables of a label, ``+`` by default.
        seed : int
            The seed of simulations.
        nonnegative : bool
            Hold every variable at or above 0.
        device : str or Device, optional
            Where simulations run.
        progress : bool or callable, optional
            As in :meth:`fit`.

        Returns
        -------
        AnnData or DataFrame
            The moved rows, one group per prediction. For cells, an AnnData with the column ``prediction`` in ``obs``, and the means that targets
            reach in ``uns['skds']``. Otherwise, a data frame whose index has the levels ``prediction`` and ``row``.
        """
        names, arrays, levels, start = self._predicted(
            perturbations, data, separator, seed, nonnegative, device, progress, options
        )
        values = np.concatenate(arrays)
        count = len(arrays[0])
        labels = np.repeat(np.arange(len(names)), count)
        rows = start.rows
        if rows is None:
            origin = [str(i) for i in range(count)]
        else:
            first, end = start.dataset.rows(start.dataset.observational)
            origin = rows[first:end]
        if start.form != "anndata":
            index = pd.MultiIndex.from_arrays(
                [np.asarray(names, dtype=object)[labels], np.tile(np.asarray(origin, dtype=object), len(names))],
                names=["prediction", "row"],
            )
            frame = pd.DataFrame(values, index=index, columns=self.names_)
            # Data frames compare their attributes, so these are plain.
            frame.attrs["levels"] = levels.to_dict("records")
            return frame
        return _answers.to_anndata(values, names, labels, origin, self.names_, levels)

    def _predicted(
        self, perturbations: Any, data: Any, separator: Any, seed: int, nonnegative: bool, device: Any, progress: Any, options: Any
    ) -> tuple:
        names, told = actions(perturbations)
        table = {name: options.pop(name, None) for name in ("env", "targets", "names")}
        start = self._start(data, _cells_of(options, separator if data is not None else None), **table)
        asking = to_json({"seed": seed, "nonnegative": nonnegative, "device": device_name(device)})
        with listening(progress, "predict") as listener:
            arrays, levels = self.model_.predict(
                start.dataset, names, json.dumps(told), separator or self._separator(), asking, listener
            )
        return names, arrays, _answers.levels(names, json.loads(levels)), start

    def _separator(self) -> str:
        cells = self.model_.cells
        return (json.loads(cells).get("separator") if cells else None) or "+"

    def changes(self, perturbations: Any, data: Any = None, **options: Any) -> pd.DataFrame:
        """How the mean of every variable changes under each perturbation.

        Takes what :meth:`predict` takes.

        Returns
        -------
        DataFrame
            Perturbations × variables, in the units of the data.
        """
        common = {name: options.pop(name, default) for name, default in _PREDICT.items()}
        names, arrays, _, start = self._predicted(perturbations, data, *common.values(), options)
        first, end = start.dataset.rows(start.dataset.observational)
        rest = start.dataset.x[first:end].mean(axis=0)
        return pd.DataFrame([rows.mean(axis=0) - rest for rows in arrays], index=names, columns=self.names_)

    def sample(self, n: int = 1000, perturbation: Any = None, *, seed: int = 0, nonnegative: bool = False, device: Any = None, progress: bool | Listener | None = None) -> pd.DataFrame:
        """Draws from the model's own stationary law, as it is or under a perturbation.

        Parameters
        ----------
        n : int
            The number of samples.
        perturbation : mapping or Do, optional
            What is done: means to reach, or shifts and scales.
        seed, nonnegative, device, progress
            As in :meth:`predict`.

        Returns
        -------
        DataFrame
            One sample per row.
        """
        if isinstance(perturbation, str):
            raise ValueError("the perturbation is a label, expected a mapping of names to means, or skds.Do: samples of a law have no data to tell how strong it is")
        told = [{}] if perturbation is None else actions(perturbation)[1]
        if len(told) > 1:
            raise ValueError(f"there are {len(told)} perturbations, expected one")
        asking = to_json({"seed": seed, "nonnegative": nonnegative, "device": device_name(device)})
        with listening(progress, "sample") as listener:
            drawn = self._model().sample(whole(n, "n"), json.dumps(told[0]), asking, listener)
        return pd.DataFrame(drawn, columns=self.names_)

    def evaluate(
        self,
        held_out: Any,
        data: Any = None,
        *,
        env: Any = None,
        targets: Any = None,
        names: Any = None,
        seed: int = 0,
        nonnegative: bool = False,
        device: Any = None,
        progress: bool | Listener | None = None,
        **options: Any,
    ) -> pd.DataFrame:
        """Compares predictions with what happened, beside floors that need no model.

        The model is told which variables were perturbed, and their means.

        Parameters
        ----------
        held_out : AnnData, DataFrame, array or path
            Perturbed rows. Controls of an AnnData are left out. ``env``, ``targets``, ``names``, ``pert_key`` and so on are as in :meth:`fit`; for cells they
            are those of the fit unless others are given.
        data : AnnData, Dataset or path, optional
            Predict from the rows at rest in this data, and not in that of the fit.
        seed, nonnegative, device, progress
            As in :meth:`predict`.

        Returns
        -------
        DataFrame
            ``mse``, ``w2`` and ``sinkhorn`` for each ``perturbation`` and ``method``: the model from observed rows (``skds``), samples of its law,
            ``no effect`` (only the targets move) and, for combinations, ``additive`` (the sum of what single perturbations do). In standard deviations
            at rest; smaller is better.

        Examples
        --------
        >>> import skds
        >>> train, test, _ = skds.simulate(dim=5, rows=200, train_envs=4, test_envs=1, edges=1, seed=3)
        >>> scores = skds.StationaryDiffusion().fit(train).evaluate(test)
        >>> sorted(scores["method"].unique())
        ['no effect', 'skds', 'skds, samples of its law']
        """
        model, cells = self._model(), _cells_of(options, None)
        test = _inputs.read(held_out, env=env, targets=targets, names=names, cells=cells, role="test", model=model)
        start = self._data if data is None else _inputs.read(data, cells=cells, role="start", model=model)
        asking = to_json({"seed": seed, "nonnegative": nonnegative, "device": device_name(device)})
        with listening(progress, "evaluate") as listener:
            found = model.evaluate(test.dataset, None if start is None else start.dataset, asking, listener)
        return _answers.scores(json.loads(found))

    def suggest(
        self,
        k: int = 10,
        *,
        pairs: bool = False,
        towards: Mapping[str, float] | None = None,
        refits: int = 10,
        data: Any = None,
        seed: int = 0,
        progress: bool | Listener | None = None,
        **options: Any,
    ) -> pd.DataFrame:
        """Ranks perturbations that the data does not have, by how much they would tell or by where they lead.

        Without ``towards``, the fit is repeated on parts of the data: two thirds of the interventions and half of the rows. The score of a perturbation is
        the variance between these refits of the means that they predict, in standard units, averaged over the other variables. Where refits
        disagree most, an experiment tells most.

        With ``towards``, the score is the squared distance to the wanted means that remains, over that at rest: 0 reaches them.

        Parameters
        ----------
        k : int
            How many.
        pairs : bool
            Consider pairs, too: of the 40 variables that rank first alone.
        towards : mapping of str to float, optional
            Means to reach.
        refits : int
            How often to repeat the fit.
        data : AnnData, DataFrame, array or path, optional
            The training data, for a model that was read from a file.
        seed : int
            The seed of refits.
        progress : bool or callable, optional
            As in :meth:`fit`.

        Returns
        -------
        DataFrame
            ``perturbation``, ``score``, the mean that each target is taken to ``reach``, and whether the data shows it (``observed``). The meaning of the score
            is in ``attrs['meaning']``.
        """
        model = self._model()
        table = {name: options.pop(name, None) for name in ("env", "targets", "names")}
        start = self._start(data, _cells_of(options, None), **table)
        wanted = None if towards is None else {str(v): finite(mean, f"the mean of {str(v)!r}") for v, mean in towards.items()}
        counts = {"count": whole(k, "k"), "refits": whole(refits, "refits"), "seed": whole(seed, "seed")}
        asked = {**counts, "pairs": bool(pairs), "towards": wanted}
        with listening(progress, "suggest") as listener:
            found = json.loads(model.suggest(start.dataset, json.dumps(asked), edges_to_json(self.edges), listener))
        rows = [
            {
                "perturbation": "+".join(row["targets"]),
                "score": row["score"],
                "reaches": tuple(level["mean"] for level in row["levels"]),
                "observed": all(level["observed"] for level in row["levels"]),
            }
            for row in found["suggestions"]
        ]
        frame = pd.DataFrame(rows, columns=["perturbation", "score", "reaches", "observed"])
        frame.attrs.update(meaning=found["meaning"], candidates=found["candidates"])
        return frame

    # What a model looks like.

    def to_networkx(self, threshold: float = 0.0) -> Any:
        """The effects as a directed graph of networkx.

        Parameters
        ----------
        threshold : float
            Leave out weaker effects, in standard units where the model knows them.

        Returns
        -------
        networkx.DiGraph
            All variables; edges have ``strength`` (in the data's units), ``weight`` (in standard units), ``low`` and ``high``.
        """
        try:
            import networkx
        except ImportError:
            raise ImportError("to_networkx needs the package networkx, which is not installed: pip install networkx") from None
        self._model()
        graph = networkx.DiGraph()
        graph.add_nodes_from(self.names_)
        size = self.effects_["standard"].fillna(self.effects_["strength"]).abs()
        for row in self.effects_[size >= threshold].itertuples():
            weight = row.strength if pd.isna(row.standard) else row.standard
            graph.add_edge(row.source, row.target, strength=row.strength, weight=weight, low=row.low, high=row.high)
        return graph

    def plot_effects(self, most: int = 40) -> Svg:
        """A heat map of the effects in standard units: rows are targets, columns are sources.

        Parameters
        ----------
        most : int
            Show the variables with the strongest effects, at most 60.

        Returns
        -------
        Svg
            Shown in notebooks; ``save(path)`` writes it.
        """
        return Svg(self._model().effects_svg(whole(most, "most")))

    def plot_choice(self) -> Svg | None:
        """What was compared to choose the model; none if the settings were given or the model was read from a file."""
        self._model()
        svg = None if self.report_ is None else self.report_["choice_svg"]
        return None if svg is None else Svg(svg)

    def _repr_html_(self) -> str:
        return model_to_html(self)

    # Files.

    def save(self, path: str | os.PathLike) -> None:
        """Writes the model file that ``skds`` and :func:`skds.load` read."""
        self._model().save(os.fspath(path))

    def __getstate__(self) -> dict[str, Any]:
        # What an interrupted training has kept belongs to this object alone.
        return {name: value for name, value in self.__dict__.items() if name != "_kept"}


def load(path: str | os.PathLike) -> StationaryDiffusion:
    """Reads a model file.

    Parameters
    ----------
    path : path
        A file that :meth:`StationaryDiffusion.save` or ``skds fit`` wrote.

    Returns
    -------
    StationaryDiffusion
        A fitted model without data: :meth:`~StationaryDiffusion.predict` then needs ``data``.
    """
    model = _skds.Model.read(os.fspath(path))
    settings = json.loads(model.settings)
    known = {name.rstrip("_"): name for name in SETTINGS}
    given = {known[name]: value for name, value in settings.items() if name in known}
    return StationaryDiffusion(**given)._fitted(model, None, None)


#: What predictions have in common, in the order of ``_predicted``.
_PREDICT = {"separator": None, "seed": 0, "nonnegative": False, "device": None, "progress": None}


def _cells_of(options: dict[str, Any], separator: str | None) -> Cells:
    """The options about cells; no other may be left."""
    names = ("pert_key", "control", "separator", "layer", "normalize", "min_cells")
    known = {name: options.pop(name, None) for name in names}
    if options:
        raise TypeError(f"unknown argument {next(iter(options))!r}, expected one of env, targets, names, {', '.join(names)}")
    return Cells(**{**known, "separator": known["separator"] or separator})
