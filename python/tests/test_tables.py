"""Arrays, data frames and files that mean the same are the same data."""

import numpy as np
import pandas as pd
import pytest

import skds

NAMES = ["a", "b", "c"]
FLAGS = np.array([[0, 0, 0], [1, 0, 0], [0, 0, 1]])
WORDS = np.array(["control", "a", "c"])


@pytest.fixture
def frame(table):
    return pd.DataFrame(table[0], columns=NAMES, index=[f"row{i}" for i in range(len(table[0]))])


@pytest.fixture
def expected(table, quick):
    x, env = table
    return quick.fit(x, env=env, targets=FLAGS, names=NAMES)


def assert_same(found, expected):
    np.testing.assert_array_equal(found._data.dataset.x, expected._data.dataset.x)
    np.testing.assert_array_equal(found._data.dataset.env, expected._data.dataset.env)
    np.testing.assert_array_equal(found._data.dataset.targets, expected._data.dataset.targets)
    assert found.names_ == expected.names_ and found._data.labels == expected._data.labels
    pd.testing.assert_frame_equal(found.effects_, expected.effects_)


def fit(data, **options):
    return skds.StationaryDiffusion(objective="kds", lambda_=0.1).fit(data, **options)


def test_rows_of_an_environment_keep_their_order(expected, table):
    x, env = table
    np.testing.assert_array_equal(expected._data.dataset.x, np.concatenate([x[env == e] for e in range(3)]))
    np.testing.assert_array_equal(expected._data.dataset.env, np.sort(env))
    np.testing.assert_array_equal(expected._data.dataset.targets, FLAGS.astype(bool))
    assert expected._data.labels == ["control", "a", "c"]


@pytest.mark.parametrize(
    "env",
    [
        lambda env: env.tolist(),
        lambda env: env.astype(np.uint8),
        lambda env: env.astype(float),
        lambda env: pd.Series(env, dtype="Int64"),
        lambda env: pd.Series(env, index=range(100, 100 + len(env))),
    ],
    ids=["list", "uint8", "float", "Int64", "series"],
)
def test_numbers_of_environments_may_be_any_whole_numbers(expected, table, env):
    assert_same(fit(table[0], env=env(table[1]), targets=FLAGS, names=NAMES), expected)


@pytest.mark.parametrize(
    "env",
    [
        lambda env: WORDS[env],
        lambda env: WORDS[env].tolist(),
        lambda env: pd.Series(WORDS[env]),
        lambda env: pd.Series(WORDS[env], dtype="string"),
        lambda env: pd.Series(pd.Categorical(WORDS[env], categories=["never", "c", "a", "control"])),
        lambda env: pd.Categorical(WORDS[env]),
        lambda env: np.array(["NT", "a", "c"], dtype=object)[env],
    ],
    ids=["array", "list", "series", "string", "series of categories", "categorical", "usual control"],
)
def test_labels_name_the_targets_of_environments(expected, table, env):
    assert_same(fit(table[0], env=env(table[1]), names=NAMES), expected)


def test_labels_may_be_a_column_of_the_data_frame(expected, frame, table):
    labelled = frame.assign(what=WORDS[table[1]])
    assert_same(fit(labelled, env="what"), expected)
    assert_same(fit(labelled.astype({"what": "category"}), env="what"), expected)
    assert_same(fit(labelled[["what", *NAMES]], env="what"), expected)
    assert_same(fit(frame.assign(number=table[1]), env="number", targets=FLAGS), expected)
    assert_same(fit(frame, env=labelled["what"]), expected)
    assert list(labelled.columns) == [*NAMES, "what"], "the data frame stays as it is"


def test_labels_of_combinations_name_several_targets(table):
    x, env = table
    words = np.array(["ctrl", "a:c", "b"])
    model = fit(x, env=words[env], names=NAMES, separator=":")
    assert model._data.labels == ["control", "a+c", "b"]
    np.testing.assert_array_equal(model._data.dataset.targets, [[0, 0, 0], [1, 0, 1], [0, 1, 0]])


@pytest.mark.parametrize(
    "targets",
    [
        FLAGS.tolist(),
        FLAGS.astype(bool),
        FLAGS.astype(float),
        {1: ["a"], 2: ["c"]},
        {1: "a", 2: "c"},
        {0: [], 1: [0], 2: [2]},
        {np.int64(1): np.array(["a"]), np.int64(2): ("c",)},
        [[], ["a"], ["c"]],
        [(), "a", "c"],
        [[], [0], [2]],
        pd.DataFrame(FLAGS, columns=NAMES),
        pd.DataFrame(FLAGS, columns=NAMES)[["c", "a", "b"]],
        pd.DataFrame(FLAGS.astype(bool)),
    ],
    ids=["0 and 1", "bool", "float", "dict", "dict of names", "dict of numbers", "dict of arrays", "lists", "names"]
    + ["numbers", "frame", "frame in another order", "frame without names"],
)
def test_targets_may_be_flags_or_names(expected, table, frame, targets):
    x, env = table
    assert_same(fit(x, env=env, targets=targets, names=NAMES), expected)
    assert_same(fit(frame, env=env, targets=targets), expected)


def test_each_environment_may_be_an_array(expected, table):
    x, env = table
    parts = [x[env == e] for e in range(3)]
    assert_same(fit(parts, targets=FLAGS, names=NAMES), expected)
    assert_same(fit(tuple(parts), targets={1: "a", 2: "c"}, names=NAMES), expected)
    assert_same(fit([pd.DataFrame(part, columns=NAMES) for part in parts], targets=FLAGS), expected)
    # Data frames are joined by the names of their columns.
    turned = [pd.DataFrame(part, columns=NAMES)[order] for part, order in zip(parts, (NAMES, NAMES[::-1], NAMES))]
    assert_same(fit(turned, targets=FLAGS), expected)


def test_labels_make_no_counts_and_leave_no_small_environments_out(quick):
    x = np.random.default_rng(3).poisson(4, size=(25, 2))
    labels = np.repeat(["control", "x0", "x1"], [15, 6, 4])
    model = quick.fit(x, env=labels)
    np.testing.assert_array_equal(model._data.dataset.x, x)
    assert model._data.labels == ["control", "x0", "x1"]
    # As cells, they are counts, and few.
    with pytest.warns(skds.LeftOut, match=r"fewer than 5 cells\): 'x1 \(4\)'"):
        model = quick.fit(x, env=labels, min_cells=5, normalize="log1p")
    totals = x.sum(axis=1, keepdims=True)
    logs = np.log1p(x / (totals / np.median(totals)))
    np.testing.assert_allclose(model._data.dataset.x, logs[:21], rtol=1e-14)


def test_one_array_is_one_environment_at_rest(table):
    model = fit(table[0])
    assert model._data.dataset.shape == (75, 3, 1) and model.names_ == ["x0", "x1", "x2"]
    assert model._data.dataset.observational == 0
    np.testing.assert_array_equal(model._data.dataset.x, table[0])


@pytest.mark.parametrize("form", ["float32", "int64", "F", "view", "list", "bool"])
def test_numbers_of_any_kind_and_layout_are_taken(table, form):
    x = np.round(table[0] * 4)
    if form == "bool":
        x = x > 0
    given = {"F": np.asfortranarray, "view": lambda x: np.repeat(x, 2, axis=1)[:, ::2], "list": np.ndarray.tolist}
    given = given[form](x) if form in given else x.astype(form)
    np.testing.assert_array_equal(fit(given)._data.dataset.x, x.astype(float))


def test_nullable_columns_are_numbers(frame):
    whole = (frame * 10).round()
    assert_same(fit(whole.astype("Int64")), fit(whole))
    assert_same(fit(whole.astype("Float32")), fit(whole))


@pytest.mark.parametrize("extension", ["npz", "csv"])
def test_files_hold_the_same_data(expected, tmp_path, extension):
    path = tmp_path / f"data.{extension}"
    expected._data.dataset.write(path)
    targets = tmp_path / "data.targets.csv"
    options = {"targets": targets} if extension == "csv" else {}
    assert_same(fit(path, **options), expected)
    assert_same(fit(str(path), **{name: str(value) for name, value in options.items()}), expected)
    assert_same(fit(skds.Dataset.read(path, **options)), expected)


def test_numpy_reads_what_is_written(expected, tmp_path):
    expected._data.dataset.write(tmp_path / "data.npz")
    with np.load(tmp_path / "data.npz") as arrays:
        np.testing.assert_array_equal(arrays["x"], expected._data.dataset.x)
        np.testing.assert_array_equal(arrays["env"], expected._data.dataset.env)
        np.testing.assert_array_equal(arrays["targets"], FLAGS)
        assert arrays["names"].tolist() == NAMES


def test_numpy_writes_what_is_read(expected, table, tmp_path):
    x, env = table
    np.savez(tmp_path / "data.npz", x=x, env=env, targets=FLAGS, names=NAMES)
    assert_same(fit(tmp_path / "data.npz"), expected)
    np.savez_compressed(tmp_path / "small.npz", x=x, env=env.astype(np.int32), targets=FLAGS.astype(bool), names=NAMES)
    assert_same(fit(tmp_path / "small.npz"), expected)


def test_a_dataset_gives_its_parts(expected, table):
    data = expected._data.dataset
    assert data.shape == (75, 3, 3) and data.names == NAMES and data.observational == 0
    assert [data.rows(e) for e in range(3)] == [(0, 30), (30, 50), (50, 75)]
    assert repr(data) == "<skds.Dataset of 75 rows, 3 variables and 3 environments>"
    assert_same(fit(skds.Dataset(table[0], table[1], FLAGS.astype(bool), NAMES)), expected)
    # What is handed out is a copy.
    data.x[:] = 0
    assert abs(data.x).max() > 1


def test_predictions_of_a_data_frame_carry_its_rows(frame, table):
    model = fit(frame, env=WORDS[table[1]])
    moved = model.predict(["a", {"b": 2.0}])
    at_rest = frame.index[table[1] == 0]
    assert list(moved.index.names) == ["prediction", "row"] and list(moved.columns) == NAMES
    assert list(moved.index) == [(name, row) for name in ("a", "b=2.0") for row in at_rest]
    assert moved.loc["b=2.0"]["b"].mean() == pytest.approx(2.0, abs=1e-9)
    assert moved.loc["a"]["a"].mean() == pytest.approx(frame["a"][table[1] == 1].mean(), abs=1e-9)
    assert moved.attrs["levels"] == [
        {"prediction": "a", "variable": "a", "mean": pytest.approx(frame["a"][table[1] == 1].mean()), "observed": True}
    ]
    by_number = fit(frame, env=table[1], targets=FLAGS).predict(["a", {"b": 2.0}])
    pd.testing.assert_frame_equal(by_number, moved)


def test_predictions_of_an_array_number_its_rows(expected):
    moved = expected.predict("c")
    assert list(moved.index) == [("c", str(i)) for i in range(30)]


def test_a_mapping_reaches_its_means_together(expected):
    moved = expected.predict({"a": 1.0, "c": -2.0})
    assert moved["a"].mean() == pytest.approx(1.0, abs=1e-9) and moved["c"].mean() == pytest.approx(-2.0, abs=1e-9)


def test_data_for_predictions_is_given_as_for_a_fit(expected, table, frame):
    x, env = table
    usual = expected.predict(["a", "b"])
    for data, options in (
        (x, {"env": env, "targets": FLAGS, "names": NAMES}),
        (expected._data.dataset, {}),
        ([x[env == e] for e in range(3)], {"targets": FLAGS, "names": NAMES}),
    ):
        pd.testing.assert_frame_equal(expected.predict(["a", "b"], data, **options), usual)
    by_labels = expected.predict(["a", "b"], frame, env=WORDS[env])
    np.testing.assert_array_equal(by_labels.to_numpy(), usual.to_numpy())
    changes = expected.changes("a", x, env=env, targets=FLAGS, names=NAMES)
    pd.testing.assert_frame_equal(changes, expected.changes("a"))


def test_held_out_rows_are_given_in_any_form(simulated, tmp_path):
    train, test, _ = simulated
    model = skds.StationaryDiffusion().fit(train)
    scores = model.evaluate(test)
    assert set(scores["method"]) == {"skds", "no effect", "skds, samples of its law"}
    test.write(tmp_path / "test.npz")
    pd.testing.assert_frame_equal(model.evaluate(tmp_path / "test.npz"), scores)
    arrays = model.evaluate(test.x, env=test.env, targets=test.targets, names=test.names)
    pd.testing.assert_frame_equal(arrays, scores)
    pd.testing.assert_frame_equal(model.evaluate(test, data=train), scores)


def test_parameters_say_what_the_fit_does(simulated):
    train = simulated.train
    weak, strong = (skds.StationaryDiffusion(objective="kds", lambda_=size).fit(train) for size in (0.001, 10.0))
    assert len(strong.effects_) < len(weak.effects_)
    one, other = (skds.StationaryDiffusion(solver="adam", steps=30, batch=8, seed=seed).fit(train) for seed in (1, 2))
    assert not one.effects_.equals(other.effects_)
    again = skds.StationaryDiffusion(solver="adam", steps=30, batch=8, seed=1).fit(train)
    pd.testing.assert_frame_equal(one.effects_, again.effects_)


@pytest.mark.parametrize(
    "settings",
    [
        {"model": "mlp", "hidden": 3, "activation": "tanh", "lambda_": 0.01, "bandwidth": 3.0, "steps": 20, "batch": 8},
        {"model": "basis", "features": "polynomial:2", "objective": "skds", "lambda_": 0.1, "bandwidth": 3},
        {"law": "structural", "lambda_": 0.1},
        {"method": "gies"},
    ],
    ids=["mlp", "basis", "structural", "gies"],
)
def test_every_kind_of_model_predicts_and_comes_back_from_a_file(simulated, tmp_path, settings):
    model = skds.StationaryDiffusion(**settings).fit(simulated.train)
    moved = model.predict({"x0": 1.0})
    assert moved.shape == (60, 4) and np.isfinite(moved.to_numpy()).all()
    model.save(tmp_path / "model.safetensors")
    loaded = skds.load(tmp_path / "model.safetensors")
    pd.testing.assert_frame_equal(loaded.predict({"x0": 1.0}, data=simulated.train), moved)


def test_targets_may_be_unknown(table, command, tmp_path):
    x, env = table[0], table[1]
    model = skds.StationaryDiffusion(lambda_=0.1).fit(x, env=env, targets="unknown")
    assert model.settings_["targets"] == "unknown"
    # Shifts of all variables are learnt but for those at rest.
    assert (model.params_["shift"][0] == 0).all() and (model.params_["shift"][1:] != 0).all()
    parts = [np.asarray(x)[np.asarray(env) == e] for e in range(3)]
    again = skds.StationaryDiffusion(lambda_=0.1).fit(parts, targets="unknown")
    assert all((again.params_[name] == model.params_[name]).all() for name in model.params_)
    with pytest.raises(ValueError, match="the labels name the targets"):
        skds.StationaryDiffusion().fit(x, env=[f"e{e}" for e in env], targets="unknown")
    none = np.zeros((3, 3), dtype=bool)
    skds.Dataset(np.asarray(x, dtype=float), env, none).write(tmp_path / "data.npz")
    command("fit", tmp_path / "data.npz", "--targets", "unknown", "--lambda", "0.1", "-o", tmp_path / "theirs.safetensors")
    model.save(tmp_path / "ours.safetensors")
    assert (tmp_path / "ours.safetensors").read_bytes() == (tmp_path / "theirs.safetensors").read_bytes()


def test_an_exact_fit_keeps_nothing_to_resume(table, tmp_path):
    with pytest.raises(ValueError, match="exact solver, which keeps no checkpoints"):
        skds.StationaryDiffusion(lambda_=0.1).fit(table[0], checkpoint=tmp_path / "model.safetensors", resume=True)
