"""Data as people have it, as the native part takes it: files, arrays, data frames and AnnData."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from skds import _skds
from skds._options import to_json
from skds._skds import Dataset


class LeftOut(UserWarning):
    """Cells or perturbations that are not part of the data and why, or data that does not suit a model."""


@dataclasses.dataclass
class Cells:
    """How cells become data: what :meth:`StationaryDiffusion.fit` takes."""

    pert_key: str | None = None
    control: str | None = None
    separator: str | None = None
    layer: str | None = None
    genes: Any = None
    normalize: str | None = None
    min_cells: int | None = None

    def to_json(self) -> str:
        """The settings of the native part."""
        genes = self.genes
        if genes is not None and not isinstance(genes, str):
            if not isinstance(genes, Iterable):
                raise ValueError(f"the genes are {genes!r}, expected text or a list of names")
            genes = [str(gene) for gene in genes]
        names = {
            "perturbation": self.pert_key,
            "control": self.control,
            "separator": self.separator,
            "layer": self.layer,
            "genes": genes,
            "normalization": self.normalize,
            "least_cells": self.min_cells,
        }
        return to_json(names)

    def given(self) -> list[str]:
        """The names of the options that are given."""
        return [field.name for field in dataclasses.fields(self) if getattr(self, field.name) is not None]


@dataclasses.dataclass
class Data:
    """Data of the native part, and what is known of it here."""

    dataset: Dataset
    #: The label of each environment.
    labels: list[str]
    #: What was read and left out, a sentence each.
    notes: list[str] = dataclasses.field(default_factory=list)
    #: The names of the rows, if they have any.
    rows: list[str] | None = None
    #: ``anndata`` or ``frame``: the form of predictions.
    form: str = "frame"


def are_unknown(targets: Any) -> bool:
    """Whether nobody knows which variables interventions act on."""
    return isinstance(targets, str) and targets == "unknown"


def is_anndata(value: Any) -> bool:
    """Whether this is an AnnData, without importing anndata."""
    return any(kind.__module__.split(".")[0] == "anndata" and kind.__name__ == "AnnData" for kind in type(value).__mro__)


def read(
    data: Any,
    *,
    env: Any = None,
    targets: Any = None,
    names: Any = None,
    cells: Cells | None = None,
    role: str = "fit",
    model: Any = None,
) -> Data:
    """Data in any form."""
    cells = cells or Cells()
    if are_unknown(targets) and isinstance(data, (Data, Dataset, str, os.PathLike)):
        targets = None
    given_env = {"env": env, "targets": targets, "names": names}
    if isinstance(data, (Data, Dataset, str, os.PathLike)) or is_anndata(data):
        extra = [name for name, value in given_env.items() if value is not None]
        if isinstance(data, (str, os.PathLike)) and extra == ["targets"] and isinstance(targets, (str, os.PathLike)):
            extra = []
        if extra:
            raise ValueError(f"{extra[0]} is given with {_kind(data)}, expected it with an array or a data frame")
    if isinstance(data, Data):
        return data
    if isinstance(data, Dataset):
        return Data(_without_cells(data, cells), _labels(data))
    if isinstance(data, (str, os.PathLike)):
        return _from_file(os.fspath(data), targets, cells, role, model)
    if is_anndata(data):
        return _from_anndata(data, cells, role, model)
    return _from_table(data, env, targets, names, cells, role, model)


def _kind(data: Any) -> str:
    return f"the file {data}" if isinstance(data, (str, os.PathLike)) else f"a {type(data).__name__}"


def _without_cells(data: Any, cells: Cells) -> Any:
    given = cells.given()
    if given:
        raise ValueError(f"{given[0]} is given with {_kind(data)}, expected it with cells that have labels")
    return data


def _labels(dataset: Dataset) -> list[str]:
    """The targets of each environment, joined by ``+``."""
    names = dataset.names
    return ["+".join(names[j] for j in np.flatnonzero(row)) or "control" for row in dataset.targets]


def _warn(notes: list[str]) -> None:
    # The line that called this package.
    level, frame = 1, sys._getframe()
    while frame is not None and os.path.dirname(frame.f_code.co_filename) == os.path.dirname(__file__):
        level, frame = level + 1, frame.f_back
    for note in notes:
        if note.startswith(("Left out", "Warning: ")):
            warnings.warn(note, LeftOut, stacklevel=level)


def _from_file(path: str, targets: Any, cells: Cells, role: str, model: Any) -> Data:
    if path.lower().endswith(".h5ad"):
        if targets is not None:
            raise ValueError(f"targets are given with {path}, expected none: the labels of cells say what was perturbed")
        dataset, labels, _, notes = _skds.cells_in_file(path, cells.to_json(), role, model)
        _warn(notes)
        return Data(dataset, labels, notes, form="anndata")
    _without_cells(path, cells)
    dataset = Dataset.read(path, targets)
    return Data(dataset, _labels(dataset))


def _remembered(cells: Cells, model: Any) -> Cells:
    """The options, and where they say nothing what the model's data had."""
    if model is None or model.cells is None:
        return cells
    before = json.loads(model.cells)
    pert_key = cells.pert_key or before.get("perturbation")
    return dataclasses.replace(cells, pert_key=pert_key, layer=cells.layer or before.get("layer"))


def _from_anndata(adata: Any, cells: Cells, role: str, model: Any) -> Data:
    cells = _remembered(cells, model)
    if isinstance(cells.pert_key, str) and cells.pert_key.startswith("obs:"):
        cells = dataclasses.replace(cells, pert_key=cells.pert_key[4:])
    if cells.pert_key is None or not isinstance(cells.pert_key, str) or cells.pert_key not in adata.obs.columns:
        found = "no pert_key is given" if cells.pert_key is None else f"obs has no column {cells.pert_key!r}"
        raise ValueError(f"{found}, expected one of {_listed(adata.obs.columns)}")
    labels = texts(adata.obs[cells.pert_key])
    genes = [str(gene) for gene in adata.var_names]
    if cells.layer is not None and cells.layer not in adata.layers:
        known = f"one of {_listed(adata.layers.keys())}" if len(adata.layers) else "none: there are no layers"
        raise ValueError(f"there is no layer {cells.layer!r}, expected {known}")
    if adata.isbacked and cells.layer is None and not adata.is_view:
        read = _skds.cells_in_file(os.fspath(adata.filename), cells.to_json(), role, model, genes, labels)
    else:
        if adata.isbacked and cells.layer is None:
            # Part of a file: only that part comes into memory. Layers are there already.
            adata = adata.to_memory()
        matrix = adata.X if cells.layer is None else adata.layers[cells.layer]
        if matrix is None:
            raise ValueError("the AnnData has no X, expected a matrix of cells and genes, or the layer to read in its place")
        read = _in_memory(matrix, genes, labels, cells, role, model)
    dataset, environments, rows, notes = read
    _warn(notes)
    return Data(dataset, environments, notes, [str(adata.obs_names[i]) for i in rows], "anndata")


def _listed(names: Any, most: int = 20) -> str:
    names = [repr(str(name)) for name in names]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def texts(column: Any) -> list[str]:
    """A column of labels as text; missing ones are empty."""
    column = pd.Series(column)
    if isinstance(column.dtype, pd.CategoricalDtype):
        categories = [str(category) for category in column.cat.categories]
        return [categories[code] if code >= 0 else "" for code in column.cat.codes]
    missing = column.isna().to_numpy()
    return ["" if hidden else str(value) for value, hidden in zip(column.to_list(), missing)]


def _in_memory(matrix: Any, genes: list[str], labels: list[str], cells: Cells, role: str, model: Any) -> tuple:
    """Cells in a dense or sparse matrix, of which nothing is copied that has a form the native part reads."""
    if hasattr(matrix, "tocsr") and hasattr(matrix, "format"):
        if matrix.format not in ("csr", "csc"):
            matrix = matrix.tocsr()
        return _skds.cells_in_memory(
            _numbers(matrix.data),
            genes,
            labels,
            cells.to_json(),
            role,
            model,
            matrix.format,
            _places(matrix.indices),
            _places(matrix.indptr),
        )
    values = np.asarray(matrix)
    if values.shape != (len(labels), len(genes)):
        raise ValueError(f"the matrix has the shape {values.shape}, expected {(len(labels), len(genes))}: cells and genes")
    return _skds.cells_in_memory(_numbers(values).reshape(-1), genes, labels, cells.to_json(), role, model)


def _numbers(values: Any) -> np.ndarray:
    values = np.asarray(values)
    if values.dtype not in (np.float32, np.float64):
        values = as_floats(values, "the matrix")
    return np.ascontiguousarray(values)


def _places(places: Any) -> np.ndarray:
    wide = places if places.dtype in (np.int32, np.int64) else places.astype(np.int64)
    return np.ascontiguousarray(wide)


def as_floats(values: Any, what: str) -> np.ndarray:
    """Numbers in double precision, or a sentence."""
    try:
        values = np.asarray(values)
    except ValueError:
        raise ValueError(f"{what} has rows of different lengths, expected as many numbers in each") from None
    if values.dtype.kind not in "fiub":
        try:
            # Text, dates and complex numbers would turn into other numbers.
            return values.astype(np.float64, casting="unsafe" if values.dtype == object else "safe")
        except (TypeError, ValueError):
            raise ValueError(f"{what} has values of the type {values.dtype}, expected numbers") from None
    return values.astype(np.float64, copy=False)


def _from_table(data: Any, env: Any, targets: Any, names: Any, cells: Cells, role: str, model: Any) -> Data:
    rows = None
    if isinstance(data, (list, tuple)) and data and all(np.ndim(part) == 2 for part in data):
        if env is not None:
            raise ValueError("env is given with a list of environments, expected none: each array is an environment")
        env = np.repeat(np.arange(len(data)), [len(part) for part in data])
        widths = {np.shape(part)[1] for part in data}
        if len(widths) > 1:
            raise ValueError(f"the environments have {sorted(widths)} columns, expected as many in each")
        frames = all(isinstance(part, pd.DataFrame) for part in data)
        data = pd.concat(data, ignore_index=True) if frames else np.concatenate([np.asarray(part) for part in data])
    if isinstance(data, pd.DataFrame):
        if isinstance(env, str):
            if env not in data.columns:
                raise ValueError(f"the data frame has no column {env!r}, expected one of {_listed(data.columns)}")
            data, env = data.drop(columns=env), data[env]
        names = [str(name) for name in data.columns] if names is None else names
        rows = [str(row) for row in data.index]
        kinds = data.dtypes.items()
        text = [name for name, kind in kinds if kind.kind == "c" or not pd.api.types.is_numeric_dtype(kind)]
        if text:
            raise ValueError(f"the column {text[0]!r} holds no numbers, expected numbers: give the name of a column of labels as env")
        data = data.to_numpy(dtype=np.float64, na_value=np.nan)
    x = as_floats(data, "the data")
    if x.ndim != 2:
        raise ValueError(f"the data has the shape {x.shape}, expected rows and columns")
    names = None if names is None else [str(name) for name in names]
    if env is not None and _are_labels(env):
        if targets is not None:
            raise ValueError("targets are given with labels as env, expected none: the labels name the targets")
        labels, variables = texts(env), names or [f"x{j}" for j in range(x.shape[1])]
        if len(labels) != len(x):
            raise ValueError(f"there are {len(labels)} labels for {len(x)} rows, expected one for each")
        # Numbers of a table stay as they are, and all columns are variables, unless something else is asked for; other tables of a
        # model are treated like that of its fit.
        labelled = dataclasses.replace(cells, min_cells=2 if cells.min_cells is None else cells.min_cells)
        if role == "fit":
            genes = "all" if cells.genes is None else cells.genes
            labelled = dataclasses.replace(labelled, genes=genes, normalize=cells.normalize or "none")
        dataset, environments, order, notes = _in_memory(x, variables, labels, labelled, role, model)
        _warn(notes)
        return Data(dataset, environments, notes, None if rows is None else [rows[i] for i in order])
    _without_cells(data, cells)
    env = None if env is None else _environments(env)
    if are_unknown(targets):
        flags = np.zeros((1 if env is None else 1 + int(env.max(initial=0)), x.shape[1]), dtype=bool)
    else:
        flags = None if targets is None else target_flags(targets, x.shape[1], names, env)
    dataset = Dataset(np.ascontiguousarray(x), env, flags, names)
    if rows is not None and env is not None:
        rows = [rows[i] for i in np.argsort(env, kind="stable")]
    return Data(dataset, _labels(dataset), rows=rows)


def _are_labels(env: Any) -> bool:
    values = env if isinstance(env, (pd.Series, pd.Categorical)) else np.asarray(env)
    return isinstance(values.dtype, pd.CategoricalDtype) or not pd.api.types.is_numeric_dtype(values.dtype)


def _environments(env: Any) -> np.ndarray:
    numbers = np.asarray(env)
    if numbers.ndim != 1:
        raise ValueError(f"env has the shape {numbers.shape}, expected one number per row")
    with np.errstate(invalid="ignore"):
        whole = numbers.astype(np.int64)
    if not np.array_equal(whole, numbers):
        other = numbers[whole != numbers][0]
        raise ValueError(f"an environment number is {other}, expected whole numbers from 0, or labels")
    return whole


def target_flags(targets: Any, dim: int, names: list[str] | None, env: np.ndarray | None) -> np.ndarray:
    """Environments × variables: whether the environment intervenes on the variable."""
    known = list(names) if names is not None else [f"x{j}" for j in range(dim)]
    if isinstance(targets, pd.DataFrame):
        targets = targets.reindex(columns=known).to_numpy() if set(targets.columns) == set(known) else targets.to_numpy()
    if isinstance(targets, Mapping):
        wrong = [e for e in targets if not isinstance(e, (int, np.integer)) or e < 0]
        if wrong:
            raise ValueError(f"targets are given for the environment {wrong[0]!r}, expected whole numbers from 0")
        count = 1 + max([int(e) for e in targets] + ([] if env is None else [int(env.max(initial=0))]))
        targets = [targets.get(e, ()) for e in range(count)]
    if not isinstance(targets, (np.ndarray, list, tuple)) or any(row is None for row in targets):
        raise ValueError("targets are given in another form than expected: 0 and 1, or lists of names for each environment")
    if not isinstance(targets, np.ndarray) and any(not _is_row(row, dim) for row in targets):
        flags = np.zeros((len(targets), dim), dtype=bool)
        for e, row in enumerate(targets):
            for target in [row] if isinstance(row, (str, int, np.integer)) else row:
                flags[e, _place(target, known, dim)] = True
        return flags
    flags = np.asarray(targets)
    if flags.ndim != 2:
        raise ValueError(f"targets have the shape {flags.shape}, expected environments and variables")
    if not np.isin(flags, (0, 1)).all():
        raise ValueError(f"targets hold {flags[~np.isin(flags, (0, 1))][0]}, expected 0 and 1, or lists of names")
    return np.ascontiguousarray(flags.astype(bool))


def _is_row(row: Any, dim: int) -> bool:
    """Whether this is a row of 0 and 1, not a list of targets."""
    if isinstance(row, (str, int, np.integer)) or len(row) != dim:
        return False
    return dim > 1 and all(isinstance(value, (bool, np.bool_, int, np.integer, float)) and value in (0, 1) for value in row)


def _place(target: Any, names: list[str], dim: int) -> int:
    if isinstance(target, (int, np.integer)) and not isinstance(target, bool):
        if 0 <= target < dim:
            return int(target)
        raise ValueError(f"a target is {target}, expected the number of a variable below {dim}")
    if target in names:
        return names.index(target)
    raise ValueError(f"unknown target {target!r}, expected one of {_listed(names)}")
