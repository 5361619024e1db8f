"""Cells in every form that anndata writes and holds are the same data."""

import json
import warnings

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sparse

import skds
from skds import _inputs

FORMS = [
    f"{form}-{compression}-{text}.h5ad"
    for form in ("dense", "csr", "csc")
    for compression in ("none", "gzip", "lzf")
    for text in ("categorical", "string")
]
OPTIONS = {"pert_key": "perturbation", "genes": "all"}


def data_of(source, **options):
    """The data that a fit sees, and the labels of its environments."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", skds.LeftOut)
        model = skds.StationaryDiffusion(objective="kds", lambda_=0.1).fit(source, **{**OPTIONS, **options})
    return model._data


def assert_same(found, expected):
    assert found.labels == expected.labels
    assert found.dataset.names == expected.dataset.names
    np.testing.assert_array_equal(found.dataset.x, expected.dataset.x)
    np.testing.assert_array_equal(found.dataset.env, expected.dataset.env)
    np.testing.assert_array_equal(found.dataset.targets, expected.dataset.targets)


def dense(matrix):
    return matrix.toarray() if sparse.issparse(matrix) else np.asarray(matrix)


@pytest.fixture(scope="module")
def adata(golden):
    return anndata.read_h5ad(golden / "csr-none-categorical.h5ad")


@pytest.fixture(scope="module")
def expected(adata):
    return data_of(adata)


@pytest.mark.parametrize("name", FORMS)
def test_a_file_is_read_as_anndata_reads_it(golden, name, expected):
    path = golden / name
    in_memory = anndata.read_h5ad(path)
    assert_same(data_of(path), expected)
    assert_same(data_of(str(path)), expected)
    assert_same(data_of(in_memory), expected)
    backed = anndata.read_h5ad(path, backed="r")
    assert backed.isbacked
    assert_same(data_of(backed), expected)
    # A part of the file, in another order.
    part = np.arange(in_memory.n_obs)[::-2]
    view = backed[part, ["F", "B", "A"]]
    with_few = {"genes": ["A", "B"], "min_cells": 5}
    assert_same(data_of(view, **with_few), data_of(in_memory[part, ["F", "B", "A"]].copy(), **with_few))
    backed.file.close()


@pytest.mark.parametrize("name", ["dense-gzip-string.h5ad", "csr-lzf-categorical.h5ad", "csc-none-string.h5ad"])
def test_layers_are_read_in_place_of_x(golden, name):
    adata = anndata.read_h5ad(golden / name)
    twice = adata.copy()
    twice.X = twice.layers["doubled"]
    expected = data_of(twice, normalize="none")
    options = {"layer": "doubled", "normalize": "none"}
    assert_same(data_of(golden / name, **options), expected)
    assert_same(data_of(adata, **options), expected)
    assert_same(data_of(anndata.read_h5ad(golden / name, backed="r"), **options), expected)
    np.testing.assert_array_equal(expected.dataset.x, 2 * data_of(adata, normalize="none").dataset.x)


def test_numbers_are_logarithms_of_counts_in_units_of_the_median_depth(adata, expected):
    counts = dense(adata.X).astype(float)
    totals = counts.sum(axis=1)
    logs = np.log1p(counts / (totals / np.median(totals[totals > 0]))[:, None])
    labels = adata.obs["perturbation"].astype(str).replace({"B+NT": "B"}).to_numpy()
    order = [np.flatnonzero(labels == label) for label in ("NT", "A", "A+B", "B")]
    assert expected.labels == ["control", "A", "A+B", "B"]
    np.testing.assert_allclose(expected.dataset.x, logs[np.concatenate(order)], rtol=1e-14)
    assert list(expected.dataset.env) == [e for e, cells in enumerate(order) for _ in cells]
    assert expected.rows == [adata.obs_names[i] for i in np.concatenate(order)]
    a, b = (list(adata.var_names).index(gene) for gene in "AB")
    flags = np.zeros((4, 6), bool)
    flags[[1, 2], a] = flags[[2, 3], b] = True
    np.testing.assert_array_equal(expected.dataset.targets, flags)


def test_the_golden_numbers_are_those_that_anndata_read_when_they_were_written(golden, adata):
    written = json.loads((golden / "expected.json").read_text())
    np.testing.assert_array_equal(dense(adata.X).ravel(), written["x"])
    raw = data_of(adata, normalize="none")
    cells = [list(adata.obs_names).index(name) for name in raw.rows]
    np.testing.assert_array_equal(raw.dataset.x, np.reshape(written["x"], adata.shape)[cells])


def test_logarithms_are_taken_once(golden):
    path = golden / "logged.h5ad"
    adata = anndata.read_h5ad(path)
    found = data_of(adata)
    cells = [list(adata.obs_names).index(name) for name in found.rows]
    np.testing.assert_array_equal(found.dataset.x, dense(adata.X)[cells])
    assert_same(data_of(path), found)
    with pytest.raises(ValueError, match="expected counts to normalise: it has been normalised before"):
        data_of(adata, normalize="log1p")


NUMBERS = ["int8", "int32", "int64", "uint16", "float32", "float64"]


@pytest.mark.parametrize(
    ("form", "layout"),
    # scipy has no sparse matrices in half precision.
    [("float16", "C"), ("float16", "F"), *((form, layout) for form in NUMBERS for layout in ("C", "F", "csr", "csc"))],
)
def test_every_type_of_number_and_layout_of_memory_is_read(adata, expected, form, layout):
    counts = dense(adata.X).astype(form)
    if layout in ("C", "F"):
        matrix = np.asarray(counts, order=layout)
    else:
        matrix = {"csr": sparse.csr_matrix, "csc": sparse.csc_matrix}[layout](counts)
        assert matrix.dtype == form
    assert_same(data_of(anndata.AnnData(matrix, obs=adata.obs, var=adata.var)), expected)


def test_dense_numbers_may_lie_apart_in_memory(adata, expected):
    wide = np.zeros((adata.n_obs, 2 * adata.n_vars))
    wide[:, ::2] = dense(adata.X)
    assert_same(data_of(anndata.AnnData(wide[:, ::2], obs=adata.obs, var=adata.var)), expected)


def test_other_sparse_forms_are_read(adata, expected):
    for form in (sparse.coo_matrix, sparse.lil_matrix, sparse.csr_array, sparse.csc_array):
        matrix = form(dense(adata.X))
        if matrix.format in ("coo", "lil"):
            matrix = matrix.tocsc()
        assert_same(data_of(anndata.AnnData(matrix, obs=adata.obs, var=adata.var)), expected)
    # anndata holds no other forms, but whoever hands over a matrix may.
    matrix = sparse.coo_matrix(dense(adata.X))
    genes, labels = list(adata.var_names), [str(label) for label in adata.obs["perturbation"]]
    dataset = _inputs._in_memory(matrix, genes, labels, _inputs.Cells(genes="all"), "fit", None)[0]
    np.testing.assert_array_equal(dataset.x, expected.dataset.x)
    # Indices may be wide, and out of order in a line.
    matrix = sparse.csr_matrix(dense(adata.X))
    wide = sparse.csr_matrix(matrix.shape, dtype=matrix.dtype)
    wide.data, wide.indices, wide.indptr = matrix.data, matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    for line in range(matrix.shape[0]):
        part = slice(wide.indptr[line], wide.indptr[line + 1])
        wide.data[part], wide.indices[part] = wide.data[part][::-1].copy(), wide.indices[part][::-1].copy()
    other = anndata.AnnData(wide, obs=adata.obs, var=adata.var)
    assert other.X.indices.dtype == np.int64 and not other.X.has_canonical_format
    assert_same(data_of(other), expected)


def test_a_matrix_with_duplicate_entries_is_their_sum(adata):
    x = dense(adata.X).astype(float)
    rows, columns = np.nonzero(x)
    halves = np.concatenate([x[rows, columns] - 0.5, np.full(len(rows), 0.5)])
    order = np.argsort(np.concatenate([rows, rows]), kind="stable")
    indices = np.concatenate([columns, columns])[order]
    starts = np.concatenate([[0], 2 * np.bincount(rows, minlength=len(x)).cumsum()])
    twice = sparse.csr_matrix((halves[order], indices, starts), shape=x.shape)
    assert twice.nnz == 2 * len(rows)
    found = data_of(anndata.AnnData(twice, obs=adata.obs, var=adata.var), normalize="none")
    assert_same(found, data_of(anndata.AnnData(x, obs=adata.obs, var=adata.var), normalize="none"))


@pytest.mark.parametrize("text", ["categorical", "string", "object", "unused"])
def test_labels_may_be_any_kind_of_text(adata, expected, text):
    other = adata.copy()
    labels = adata.obs["perturbation"]
    other.obs["perturbation"] = {
        "categorical": lambda: labels.astype("category"),
        "string": lambda: labels.astype("string"),
        "object": lambda: labels.astype(object),
        "unused": lambda: labels.astype("category").cat.add_categories(["never"]),
    }[text]()
    assert_same(data_of(other), expected)


def test_missing_labels_leave_cells_out(adata):
    for kind in ("category", object, "string"):
        other = adata.copy()
        labels = other.obs["perturbation"].astype(object)
        labels.iloc[[0, 3]] = None
        other.obs["perturbation"] = labels.astype(kind)
        with pytest.warns(skds.LeftOut) as found:
            model = skds.StationaryDiffusion(objective="kds", lambda_=0.1).fit(other, **OPTIONS)
        assert any("2 cells without a label" in str(warning.message) for warning in found)
        assert not {"cell0", "cell3"} & set(model._data.rows)


def test_labels_in_memory_count_and_not_those_of_the_backed_file(golden, adata):
    backed = anndata.read_h5ad(golden / "csr-gzip-string.h5ad", backed="r")
    changed = adata.copy()
    for one in (backed, changed):
        one.obs["mine"] = [str(label).replace("A", "D") for label in one.obs["perturbation"]]
    found = data_of(backed, pert_key="mine")
    assert found.labels == ["control", "B", "B+D", "D"]
    assert_same(found, data_of(changed, pert_key="mine"))


def test_controls_and_separators_can_be_named(adata):
    other = adata.copy()
    renamed = {"NT": "mock", "A+B": "A|B", "B+NT": "B|mock"}
    other.obs["perturbation"] = [renamed.get(label, label) for label in other.obs["perturbation"].astype(str)]
    assert_same(data_of(other, control="mock", separator="|"), data_of(adata))


def test_a_model_remembers_how_its_cells_were_read(adata, silent):
    other = adata.copy()
    other.obs["perturbation"] = [str(label).replace("+", "|") for label in adata.obs["perturbation"]]
    options = {"layer": "doubled", "normalize": "none", "separator": "|"}
    model = skds.StationaryDiffusion(objective="kds", lambda_=0.1).fit(other, **OPTIONS, **options)
    moved = model.predict("A|B")
    np.testing.assert_array_equal(model.predict("A|B", data=other).X, moved.X)
    np.testing.assert_array_equal(model.predict("A+B", data=adata, separator="+").X, moved.X)
    assert set(model.evaluate(other)["perturbation"]) == {"A", "A+B", "B"}


def test_predictions_of_a_file_are_those_of_its_cells(golden, adata, silent):
    options = {**OPTIONS, "genes": ["targets", "D", "hvg:1"]}
    estimator = skds.StationaryDiffusion(objective="kds", lambda_=0.1)
    from_file = estimator.fit(golden / "csc-gzip-string.h5ad", **options).predict(["A", "A+B"])
    from_memory = estimator.fit(adata, **options).predict(["A", "A+B"])
    np.testing.assert_array_equal(from_file.X, from_memory.X)
    assert list(from_file.var_names) == list(from_memory.var_names)
    pd.testing.assert_frame_equal(from_file.uns["skds"]["levels"], from_memory.uns["skds"]["levels"])


def test_genes_are_a_text_or_a_list_or_a_file(adata, tmp_path):
    (tmp_path / "genes.txt").write_text("A\nB\nE\n")
    by_file = data_of(adata, genes=f"file:{tmp_path / 'genes.txt'}")
    by_list = data_of(adata, genes=["E", "A", "B"])
    assert by_list.dataset.names == ["A", "B", "E"]
    assert_same(by_file, by_list)
    assert_same(data_of(adata, genes=np.array(["targets", "E"])), by_list)
    assert_same(data_of(adata, genes=pd.Index(["B", "A", "E"])), by_list)
    assert set(data_of(adata, genes="targets").dataset.names) == {"A", "B"}
    with_variable = data_of(adata, genes="targets+hvg:5").dataset.names
    assert {"A", "B"} < set(with_variable)
    assert len(with_variable) in (5, 6)


def test_a_column_may_be_named_as_on_the_command_line(adata, golden, expected):
    assert_same(data_of(adata, pert_key="obs:perturbation"), expected)
    assert_same(data_of(golden / "csr-none-string.h5ad", pert_key="obs:perturbation"), expected)
