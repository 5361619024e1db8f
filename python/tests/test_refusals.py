"""Wrong input is refused with a sentence, and nothing is left behind."""

import os

import anndata
import numpy as np
import pandas as pd
import pytest

import skds

ENV = np.repeat([0, 1], 30)
TARGETS = [[], ["x1"]]


@pytest.fixture
def x():
    return np.random.default_rng(0).normal(size=(60, 3))


def refused(kind, sentence, call, *arguments, **options):
    with pytest.raises(kind, match=sentence) as found:
        call(*arguments, **options)
    assert type(found.value) is kind
    text = str(found.value)
    assert text and "\n" not in text and "internal error" not in text


def with_nan(x):
    other = x.copy()
    other[3, 1] = np.nan
    return other


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (with_nan, "holds NaN at row 3, column 1, expected a finite number"),
        (lambda x: np.where(x > 2, np.inf, x), "holds inf at row"),
        (lambda x: np.full((60, 3), "a"), "values of the type <U1, expected numbers"),
        (lambda x: np.full((60, 3), "1"), "values of the type <U1, expected numbers"),
        (lambda x: np.array([[object(), 1.0]] * 20), "values of the type object, expected numbers"),
        (lambda x: x + 1j, "values of the type complex128, expected numbers"),
        (lambda x: x.astype("datetime64[s]"), r"values of the type datetime64\[s\], expected numbers"),
        (lambda x: x[:, 0], r"has the shape \(60,\), expected rows and columns"),
        (lambda x: x.reshape(20, 3, 3), r"has the shape \(20, 3, 3\), expected rows and columns"),
        (lambda x: x[:, :0], "has 0 columns, expected at least one"),
        (lambda x: x[:0], "has no rows, expected at least 2"),
        (lambda x: None, "expected"),
        (lambda x: [], r"has the shape \(0,\), expected rows and columns"),
        (lambda x: [x[:30], x[30:, :2]], r"have \[2, 3\] columns, expected as many in each"),
        (lambda x: [x[:30], x[30:, 0]], "rows of different lengths, expected as many numbers in each"),
        (lambda x: [x[:30], x[30:]], "2 environments but no targets"),
        (lambda x: pd.DataFrame(with_nan(x)), "holds NaN at row 3, column 1"),
        (lambda x: pd.DataFrame({"a": ["u", "v"] * 30, "b": x[:, 0]}), "the column 'a' holds no numbers"),
        (lambda x: pd.DataFrame({"a": pd.array([1, None] * 30, dtype="Int64"), "b": x[:, 0]}), "holds NaN at row 1"),
        (lambda x: pd.DataFrame(x, columns=["a", "b", "a"]), "`a` appears twice"),
    ],
)
def test_tables_that_are_none_are_refused(x, quick, change, sentence):
    refused(ValueError, sentence, quick.fit, change(x))


@pytest.mark.parametrize(
    ("env", "targets", "sentence"),
    [
        (ENV, None, "2 environments but no targets, expected which variables each intervenes on"),
        (ENV[1:], TARGETS, "59 environment numbers for 60 rows, expected one for each"),
        (ENV + 0.5, TARGETS, "an environment number is 0.5, expected whole numbers from 0, or labels"),
        (np.where(ENV, np.nan, 0), TARGETS, "an environment number is nan"),
        (-ENV, TARGETS, "an environment number is -1, expected 0 to 1"),
        (2 * ENV, TARGETS, "an environment number is 2, expected 0 to 1"),
        (ENV[:, None], TARGETS, r"env has the shape \(60, 1\), expected one number per row"),
        (3, TARGETS, r"env has the shape \(\), expected one number per row"),
        (ENV, [[], ["x9"]], "unknown target 'x9', expected one of 'x0', 'x1', 'x2'"),
        (ENV, [[], [7]], "a target is 7, expected the number of a variable below 3"),
        (ENV, {1: [-1]}, "a target is -1, expected"),
        (ENV, {-1: ["x1"]}, "given for the environment -1, expected whole numbers from 0"),
        (ENV, {"A": ["x1"]}, "given for the environment 'A', expected whole numbers from 0"),
        (ENV, np.zeros((2, 4)), r"targets have the shape \[2, 4\]"),
        (ENV, np.zeros(3), r"targets have the shape \(3,\), expected environments and variables"),
        (ENV, np.full((2, 3), 2), "targets hold 2, expected 0 and 1, or lists of names"),
        (ENV, [None, ["x1"]], "expected: 0 and 1, or lists of names"),
        (ENV, 5, "expected: 0 and 1, or lists of names"),
        (ENV, "x1", "expected: 0 and 1, or lists of names"),
        (np.where(ENV, "x9", "control"), None, "not measured: 'x9'"),
        (np.where(ENV, "x1", "x2"), None, "has no control cells"),
        (np.where(ENV, "x1", "control")[1:], None, "59 labels for 60 rows, expected one for each"),
        (np.where(ENV, "x1", "control"), TARGETS, "targets are given with labels as env, expected none"),
        ("what", None, "1 labels for 60 rows"),
    ],
)
def test_environments_and_targets_that_do_not_fit_are_refused(x, quick, env, targets, sentence):
    refused(ValueError, sentence, quick.fit, x, env=env, targets=targets)


def test_options_that_belong_to_other_data_are_refused(x, quick, screen, simulated, tmp_path):
    frame = pd.DataFrame(x)
    train = simulated.train
    refused(ValueError, "has no column 'what', expected one of '0', '1', '2'", quick.fit, frame, env="what")
    refused(ValueError, "env is given with a list of environments", quick.fit, [x[:30], x[30:]], env=ENV)
    refused(ValueError, "found 1 names, expected 3", quick.fit, x, names=["a"])
    refused(ValueError, "`a` appears twice", quick.fit, x, names=["a", "a", "b"])
    refused(ValueError, "pert_key is given with a ndarray", quick.fit, x, pert_key="guide")
    refused(ValueError, "genes is given with a Dataset", quick.fit, train, genes="all")
    refused(ValueError, "env is given with a AnnData", quick.fit, screen, env=ENV, pert_key="guide")
    refused(ValueError, "names is given with a Dataset", quick.fit, train, names=train.names)
    screen.write_h5ad(tmp_path / "screen.h5ad")
    train.write(tmp_path / "train.npz")
    path = tmp_path / "screen.h5ad"
    refused(ValueError, "targets are given with .*h5ad, expected none", quick.fit, path, targets="a.csv")
    refused(ValueError, "env is given with the file", quick.fit, path, env=ENV)
    refused(ValueError, "pert_key is given with the file", quick.fit, tmp_path / "train.npz", pert_key="guide")
    refused(TypeError, "unexpected keyword argument 'colour'", quick.fit, x, colour="red")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"pert_key": None}, "no pert_key is given, expected one of 'guide'"),
        ({"pert_key": "guides"}, "obs has no column 'guides', expected one of 'guide'"),
        ({"pert_key": 5}, "obs has no column 5, expected one of 'guide'"),
        ({"control": "mock"}, "no control cells: found the labels .*'A\\+B'.* with the control label 'mock'"),
        ({"layer": "counts"}, "there is no layer 'counts', expected none: there are no layers"),
        ({"genes": ["A", "KLF1"]}, "no gene 'KLF1', which is given as a variable"),
        ({"genes": ["H"]}, "no perturbation left whose genes are variables"),
        ({"genes": []}, "no genes are chosen by '', expected at least one"),
        ({"genes": "hvg:0"}, "the genes are 'hvg:0', expected hvg: and a number above 0"),
        ({"genes": "A+B"}, "expected all, targets, hvg:K or file:PATH, joined"),
        ({"genes": 5}, "the genes are 5, expected text or a list of names"),
        ({"min_cells": 100}, "no perturbation with at least 100 cells .* too few cells: 'A \\(60\\)'"),
        ({"min_cells": 1000}, "120 control cells, expected at least 1000"),
        ({"min_cells": "many"}, 'invalid type: string "many"'),
        ({"min_cells": -1}, "invalid value: integer `-1`"),
        ({"normalize": "log2"}, "unknown normalization 'log2', expected one of auto, log1p, none"),
        ({"separator": ""}, "the separator is empty"),
    ],
)
def test_cells_that_cannot_be_read_as_asked_are_refused(screen, quick, options, sentence):
    refused(ValueError, sentence, quick.fit, screen, **{"pert_key": "guide", **options})


def test_cells_without_numbers_are_refused(screen, quick):
    empty = anndata.AnnData(obs=screen.obs, var=screen.var)
    refused(ValueError, "the AnnData has no X, expected a matrix", quick.fit, empty, pert_key="guide")
    for matrix in (screen.X.copy(), screen.X.toarray()):
        screen.X = matrix
        (matrix.data if hasattr(matrix, "nnz") else matrix)[...] = np.nan
        sentence = "the matrix holds NaN at cell 0, gene .*, expected a finite number"
        refused(ValueError, sentence, quick.fit, screen, pert_key="guide")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"model": "forest"}, "unknown model 'forest', expected one of linear, mlp, basis"),
        ({"objective": 3}, "unknown objective '3', expected one of skds, kds"),
        ({"kernel": "x"}, "unknown kernel 'x', expected one of"),
        ({"bandwidth": -1}, "found '-1', expected a finite number above 0 or 'auto'"),
        ({"bandwidth": "wide"}, "found 'wide', expected a finite number above 0 or 'auto'"),
        ({"estimator": "w"}, "unknown estimator 'w'"),
        ({"penalty": "w"}, "unknown penalty 'w'"),
        ({"lambda_": -1}, "lambda is -1, expected a finite number of at least 0"),
        ({"lambda_": float("nan")}, "lambda is nan, expected a finite number"),
        ({"lambda_": np.float32("inf")}, "lambda is inf, expected a finite number"),
        ({"lambda_": "x"}, 'invalid type: string "x"'),
        ({"lambda_": np.ones(2)}, "lambda is a ndarray, expected text, a number or a truth value"),
        ({"lambda_": object()}, "lambda is a object, expected"),
        ({"seed": -1}, "invalid value: integer `-1`"),
        ({"steps": 1.5}, "invalid type: floating point `1.5`"),
        ({"steps": -5}, "invalid value: integer `-5`"),
        ({"batch": 0}, "batch is 0, expected at least 2"),
        ({"learning_rate": 0}, "the learning rate is 0, expected a finite number above 0"),
        ({"envs_per_step": 0}, "expected 'all' or a number above 0"),
        ({"tune": "yes"}, 'invalid type: string "yes", expected a boolean'),
        ({"hidden": 0, "model": "mlp", "lambda_": 0.1}, "hidden is 0, expected at least 1"),
        ({"law": "civil"}, "unknown law 'civil', expected one of diffusion, structural"),
        ({"method": "guess"}, "unknown method 'guess', expected one of llc, gies, igsp, dcdi, nodags"),
        ({"solver": "x"}, "unknown solver 'x', expected one of auto, exact, adam"),
        ({"device": "abacus"}, "unknown device 'abacus', expected one of auto, cpu, gpu"),
        ({"bootstrap": 1}, "bootstrap is 1, expected at least 20"),
        ({"bootstrap": -3}, "bootstrap is -3, expected a whole number"),
        ({"bootstrap": "x"}, "bootstrap is 'x', expected a whole number"),
        ({"bootstrap": True}, "bootstrap is True, expected a whole number"),
        ({"bootstrap": 20, "solver": "adam"}, "given with the solver adam, expected an exact solver"),
        (
            {"edges": [{"source": "x0", "target": "x9", "kind": "forbidden"}]},
            "unknown variable 'x9', expected one of x0",
        ),
        ({"edges": [{"source": "x0", "target": "x1", "kind": "odd"}]}, "unknown kind 'odd', expected one of required"),
        ({"edges": [{"source": "x0"}]}, "missing field `target`"),
        ({"edges": pd.DataFrame({"from": ["x0"], "to": ["x1"]})}, "unknown field `from`"),
        ({"edges": 5}, "the edges are a int, expected a data frame or a list of mappings"),
        ({"edges": "edges.csv"}, "the edges are a str, expected a data frame or a list of mappings"),
        ({"edges": [5]}, "the edges are a list, expected a data frame or a list of mappings"),
    ],
)
def test_settings_that_are_unknown_are_refused(x, settings, sentence):
    estimator = skds.StationaryDiffusion(**settings)
    refused(ValueError, sentence, estimator.fit, x)
    assert not hasattr(estimator, "model_") and not hasattr(estimator, "effects_")


@pytest.mark.parametrize(
    "ask",
    [
        lambda model: model.predict("A"),
        lambda model: model.changes("A"),
        lambda model: model.sample(3),
        lambda model: model.evaluate("test.npz"),
        lambda model: model.suggest(),
        lambda model: model.to_networkx(),
        lambda model: model.plot_effects(),
        lambda model: model.plot_choice(),
        lambda model: model.save("model.safetensors"),
        lambda model: skds.loss(np.zeros((4, 2)), model),
    ],
    ids=["predict", "changes", "sample", "evaluate", "suggest", "graph", "effects", "choice", "save", "loss"],
)
def test_a_model_is_fitted_before_it_is_asked(ask, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(skds.NotFitted, match="the model is not fitted, expected a call of fit first") as found:
        ask(skds.StationaryDiffusion())
    assert isinstance(found.value, ValueError) and isinstance(found.value, AttributeError)
    assert os.listdir() == []
    assert not hasattr(skds.StationaryDiffusion(), "effects_")


@pytest.mark.parametrize(
    ("perturbations", "sentence"),
    [
        ("KLF1", "unknown variable 'KLF1', expected one of A, B, C, D"),
        ("A+KLF1", "unknown variable 'KLF1'"),
        ("", "names no variable, expected one, or several joined by \\+"),
        (["A", "A"], "the perturbation 'A' is given twice, expected each once"),
        ([{"A": 1.0}, {"A": 1.0}], "the perturbation 'A=1.0' is given twice"),
        ([], "there are no perturbations, expected at least one"),
        (5, "the perturbations are 5, expected labels"),
        ([5], "a perturbation is 5, expected a label"),
        ({"KLF1": 1.0}, "unknown variable 'KLF1'"),
        ({"A": float("nan")}, "the mean of 'A' is nan, expected a finite number"),
        ({"A": "high"}, "the mean of 'A' is 'high', expected a finite number"),
        (skds.Do(shift={"A": np.inf}), "the shift of 'A' is inf, expected a finite number"),
        (skds.Do(scale={"A": -1}), "a scale is -1, expected a finite number above 0"),
        (skds.Do(environment=99), "environment 99 is unknown, expected a number below 6"),
        (skds.Do(environment=-1), "integer `-1`"),
        (skds.Do(set={"A": 1}, shift={"A": 1}), "both a shift and a mean for 'A', expected one of them"),
    ],
)
def test_perturbations_that_mean_nothing_are_refused(fitted, perturbations, sentence):
    refused(ValueError, sentence, fitted.predict, perturbations)


def test_questions_that_do_not_fit_the_model_are_refused(fitted, screen, x):
    refused(TypeError, "unknown argument 'colour'", fitted.predict, "A", colour="red")
    refused(TypeError, "unknown argument 'genes'", fitted.evaluate, screen, genes="all")
    refused(ValueError, "pert_key is given without data", fitted.predict, "A", pert_key="guide")
    refused(ValueError, "env is given without data", fitted.predict, "A", env=ENV)
    refused(ValueError, "integer `-1`", fitted.predict, "A", seed=-1)
    refused(ValueError, "has 3 variables, expected", fitted.predict, "A", x)
    few = screen[:, ["A", "B"]]
    refused(ValueError, "has no genes 'C'.* expected all variables of the model", fitted.predict, "A", few)
    refused(FileNotFoundError, "cannot read none.h5ad", fitted.predict, "A", "none.h5ad")
    refused(ValueError, "has 3 variables, expected", fitted.evaluate, x)
    refused(ValueError, "has no genes 'C'", fitted.evaluate, few)
    controls = screen[screen.obs["guide"] == "NT"]
    refused(ValueError, "no perturbation with at least 20 cells .*, expected one to predict", fitted.evaluate, controls)
    refused(ValueError, "the perturbation is a label, expected a mapping", fitted.sample, 5, "A")
    refused(ValueError, "there are 2 perturbations, expected one", fitted.sample, 5, [{"A": 1.0}, {"B": 1.0}])
    refused(ValueError, "found 0 samples to draw, expected at least 1", fitted.sample, 0)
    refused(ValueError, "n is -1, expected a whole number", fitted.sample, -1)
    refused(ValueError, "n is 'many', expected a whole number", fitted.sample, "many")
    refused(ValueError, "most is -1, expected a whole number", fitted.plot_effects, -1)


def test_questions_about_suggestions_that_have_no_answer_are_refused(fitted, screen, how):
    refused(ValueError, "0 suggestions are asked for, expected at least 1", fitted.suggest, 0)
    refused(ValueError, "k is 'x', expected a whole number", fitted.suggest, "x")
    refused(ValueError, "1 refits are asked for, expected 2 to 10000", fitted.suggest, refits=1)
    refused(ValueError, "the wanted state names no variable", fitted.suggest, towards={})
    refused(ValueError, "unknown variable 'KLF1'", fitted.suggest, towards={"KLF1": 1.0})
    refused(ValueError, "the mean of 'A' is nan, expected a finite", fitted.suggest, towards={"A": float("nan")})
    trained = skds.StationaryDiffusion(solver="adam", steps=20, batch=16).fit(screen, **how)
    refused(ValueError, "the model was trained by adam, which takes too long to repeat", trained.suggest)
    assert len(trained.suggest(towards={"A": 2.0})) > 0, "a state to reach needs no refits"


def test_a_loaded_model_needs_data_to_start_from(fitted, tmp_path):
    fitted.save(tmp_path / "model.safetensors")
    loaded = skds.load(tmp_path / "model.safetensors")
    sentence = "the model was read from a file and has no data, expected data to start from"
    refused(ValueError, sentence, loaded.predict, "A")
    refused(ValueError, sentence, loaded.changes, "A")
    refused(ValueError, sentence, loaded.suggest)


def test_files_that_cannot_be_read_are_refused(quick, screen, tmp_path):
    for name in ("data.npz", "data.csv", "data.h5ad", "data.txt"):
        refused(FileNotFoundError, f"cannot read .*{name}: No such file", quick.fit, tmp_path / name)
    for name in ("", "folder.npz", "folder.csv", "folder.h5ad"):
        (tmp_path / name).mkdir(exist_ok=True)
        refused(IsADirectoryError, "cannot read .*is a directory", quick.fit, tmp_path / name)
    refused(FileNotFoundError, "cannot read", skds.load, tmp_path / "none.safetensors")
    refused(IsADirectoryError, "cannot read", skds.load, tmp_path)
    (tmp_path / "noise.npz").write_bytes(b"noise" * 100)
    refused(ValueError, "is not an .npz file", quick.fit, tmp_path / "noise.npz")
    (tmp_path / "noise.safetensors").write_bytes(b"hi")
    refused(ValueError, "is not a safetensors file", skds.load, tmp_path / "noise.safetensors")
    (tmp_path / "words.csv").write_text("a,b\n1,2\n3,x\n")
    refused(ValueError, 'line 3: column `b` holds "x", expected a number', quick.fit, tmp_path / "words.csv")
    screen.write_h5ad(tmp_path / "screen.h5ad")
    path = tmp_path / "screen.h5ad"
    refused(ValueError, "no column of perturbations is given for .* expected one of .*'guide'", quick.fit, path)
    refused(ValueError, "obs has no column 'guides'", quick.fit, path, pert_key="guides")
    refused(ValueError, "has no layer 'counts', expected none", quick.fit, path, pert_key="guide", layer="counts")


def test_damaged_files_of_cells_are_refused(quick, screen, tmp_path):
    whole, broken = tmp_path / "screen.h5ad", tmp_path / "broken.h5ad"
    screen.write_h5ad(whole)
    content = whole.read_bytes()
    broken.write_bytes(b"noise" * 100)
    refused(ValueError, "is not an .h5ad file that can be read", quick.fit, broken, pert_key="guide")
    rng = np.random.default_rng(3)
    for length in rng.integers(0, len(content), 12):
        broken.write_bytes(content[:length])
        with pytest.raises(ValueError, match="broken.h5ad"):
            quick.fit(broken, pert_key="guide")
    refusals = 0
    for _ in range(60):
        damaged = bytearray(content)
        at = int(rng.integers(0, len(content) - 64))
        damaged[at : at + 64] = rng.bytes(64)
        broken.write_bytes(damaged)
        try:
            # Damage may hit what is never read, and numbers may become others.
            quick.fit(broken, pert_key="guide")
        except (ValueError, OSError) as error:
            refusals += 1
            assert "internal error" not in str(error)
    assert refusals > 0


def test_models_are_saved_whole_or_not_at_all(fitted, tmp_path):
    (tmp_path / "folder.safetensors").mkdir()
    before = sorted(tmp_path.rglob("*"))
    for name in ("model.txt", "model", "model.npz", ".safetensors"):
        refused(ValueError, "has another extension than expected: .safetensors", fitted.save, tmp_path / name)
    refused(FileNotFoundError, "cannot write", fitted.save, tmp_path / "none" / "model.safetensors")
    refused(IsADirectoryError, "cannot write", fitted.save, tmp_path / "folder.safetensors")
    picture = fitted.plot_effects()
    refused(ValueError, "is no name for the picture, expected one that ends in .svg", picture.save, tmp_path / "a.png")
    refused(ValueError, "expected .npz, .csv or .h5ad", fitted._data.dataset.write, tmp_path / "data.txt")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_refused_fit_leaves_the_earlier_model_and_no_files(x, quick, tmp_path):
    quick.fit(x)
    before = (quick.model_, quick.effects_, quick.names_)
    refused(ValueError, "holds NaN", quick.fit, with_nan(x), checkpoint=tmp_path / "model.safetensors")
    quick.set_params(solver="adam", batch=0)
    refused(ValueError, "batch is 0", quick.fit, x, checkpoint=tmp_path / "model.safetensors")
    assert (quick.model_, quick.effects_, quick.names_) == before
    assert list(tmp_path.iterdir()) == []


def test_a_computation_that_fails_is_an_error_of_its_own(x):
    # A training that goes beyond all numbers.
    wild = skds.StationaryDiffusion(solver="adam", steps=500, batch=8, learning_rate=1e30, bandwidth=3, lambda_=0.0)
    refused(skds.Error, "expected|finite|not", wild.fit, x)
    assert not issubclass(skds.Error, ValueError)


def test_datasets_are_checked_when_they_are_made(x):
    flags = np.zeros((2, 3), bool)
    refused(ValueError, "an environment number is 1, expected", skds.Dataset, x, ENV.astype(np.int64), flags[:1])
    refused(ValueError, "environment 9 is asked for, expected one below 1", skds.Dataset(x).rows, 9)
    for wrong in ("x", x.astype(np.float32), x[:, 0]):
        with pytest.raises(TypeError):
            skds.Dataset(wrong)
