"""Writes the .h5ad files of this folder with anndata, and what anndata reads from them.

python3 -m pip install anndata==0.12.19 && python3 make.py
"""

import itertools
import json
import pathlib

import anndata
import numpy as np
import pandas as pd
import scipy.sparse as sparse

HERE = pathlib.Path(__file__).parent
LABELS = ["NT", "A", "B", "A+B", "B+NT", "Q", "C"]
CELLS = [26, 22, 21, 20, 4, 7, 3]


def screen(form, text, counts=True):
    """84 cells of 6 genes: controls, perturbations of A, B and both, of a gene Q that was not measured, and few of C."""
    rng = np.random.default_rng(5)
    labels = np.repeat(LABELS, CELLS)
    rng.shuffle(labels)
    rates = np.array([3.0, 0.5, 1.5, 2.0, 4.0, 1.0])
    x = rng.poisson(np.outer(rng.uniform(0.5, 2.0, len(labels)), rates)).astype(np.float32)
    x[np.char.find(labels.astype(str), "A") >= 0, 0] *= 3
    genes = ["A", "B", "C", "D", "E", "F"]
    obs = pd.DataFrame(index=[f"cell{i}" for i in range(len(labels))])
    obs["perturbation"] = pd.Categorical(labels) if text == "categorical" else labels.astype(object)
    obs["passed"] = rng.uniform(size=len(labels)) < 0.9
    obs["batch"] = pd.array(rng.integers(0, 3, len(labels)), dtype="Int64")
    obs.loc[obs.index[3], "batch"] = pd.NA
    obs["score"] = rng.normal(size=len(labels))
    scaled = x if counts else np.log1p(x / x.sum(1, keepdims=True) * 10)
    matrix = {"dense": lambda m: m, "csr": sparse.csr_matrix, "csc": sparse.csc_matrix}[form](scaled)
    return anndata.AnnData(matrix, obs=obs, var=pd.DataFrame(index=genes))


expected = {}
for form, compression, text in itertools.product(["dense", "csr", "csc"], [None, "gzip", "lzf"], ["categorical", "string"]):
    name = f"{form}-{compression or 'none'}-{text}.h5ad"
    adata = screen(form, text)
    adata.layers["doubled"] = adata.X * 2
    adata.write_h5ad(HERE / name, compression=compression, convert_strings_to_categoricals=text == "categorical")
    back = anndata.read_h5ad(HERE / name)
    dense = back.X.toarray() if sparse.issparse(back.X) else back.X
    expected[name] = {
        "x": np.asarray(dense, float).ravel().tolist(),
        "labels": [str(label) for label in back.obs["perturbation"]],
        "genes": list(back.var_names),
    }
# All have the same content.
first = next(iter(expected.values()))
assert all(entry == first for entry in expected.values())
screen("csr", "categorical", counts=False).write_h5ad(HERE / "logged.h5ad")
older = screen("csr", "categorical")
first["batch"] = ["" if pd.isna(value) else str(value) for value in older.obs["batch"]]
first["passed"] = [str(value) for value in older.obs["passed"]]
json.dump(first, open(HERE / "expected.json", "w"))
