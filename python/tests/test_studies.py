"""Losses with gradients, simulated systems, experiments and devices."""

import numpy as np
import pandas as pd
import pytest

import skds

RNG = np.random.default_rng(11)
LINEAR = {"weights": -np.eye(3) + 0.2 * RNG.normal(size=(3, 3)), "biases": RNG.normal(size=3)}
SHIFT = np.array([[0, 0, 0], [0, 0.7, 0]])
PARAMETERS = {
    "diagonal noise": {**LINEAR, "log_noise": 0.3 * RNG.normal(size=3)},
    "full noise": {**LINEAR, "noise": np.eye(3) + 0.2 * RNG.normal(size=(3, 3))},
    "interventions": {**LINEAR, "log_noise": 0.2 * RNG.normal(size=3), "shift": SHIFT, "log_scale": 0.4 * SHIFT},
    "mlp": {
        "hidden_weights": 0.5 * RNG.normal(size=(3, 4, 3)),
        "hidden_biases": 0.5 * RNG.normal(size=(3, 4)),
        "output_weights": 0.5 * RNG.normal(size=(3, 4)),
        "biases": RNG.normal(size=3),
        "log_noise": 0.2 * RNG.normal(size=3),
        "shift": SHIFT,
    },
}
ROWS = RNG.normal(size=(24, 3))
DATA = {"env": np.repeat([0, 1], 12), "targets": [[], ["x1"]]}


def loss(params, **options):
    return skds.loss(ROWS, params, **{**DATA, "bandwidth": 1.7, **options})


def numerical(params, name, at, step=1e-5, **options):
    """The derivative by one number, by central differences."""

    def shifted(by):
        changed = np.array(params[name], float)
        changed[at] += by
        return loss({**params, name: changed}, gradient=False, **options)

    return (shifted(step) - shifted(-step)) / (2 * step)


@pytest.mark.parametrize("objective", ["skds", "kds"])
@pytest.mark.parametrize("kind", list(PARAMETERS))
@pytest.mark.parametrize(
    ("kernel", "estimator"),
    [("rbf", "v"), ("tilted-rbf", "u"), ("imq-plus", "linear")],
)
def test_gradients_are_those_of_finite_differences(kind, objective, kernel, estimator):
    params = PARAMETERS[kind]
    options = {"objective": objective, "kernel": kernel, "estimator": estimator}
    value, gradient = loss(params, **options)
    assert value == loss(params, gradient=False, **options)
    assert {name: array.shape for name, array in gradient.items()} == {
        name: np.shape(array) for name, array in params.items()
    }
    size = max(abs(array).max() for array in gradient.values())
    assert size > 1e-3
    for name, array in params.items():
        # Only the targets of an environment are free.
        free = np.argwhere(SHIFT) if name in ("shift", "log_scale") else np.argwhere(np.ones_like(array))
        for at in map(tuple, free):
            expected = numerical(params, name, at, **options)
            assert gradient[name][at] == pytest.approx(expected, rel=1e-6, abs=1e-7 * size), (name, at)


@pytest.mark.parametrize("activation", ["sigmoid", "tanh"])
def test_the_nonlinearity_of_an_mlp_can_be_chosen(activation):
    params = PARAMETERS["mlp"]
    value, gradient = loss(params, activation=activation)
    expected = numerical(params, "hidden_biases", (1, 2), activation=activation)
    assert gradient["hidden_biases"][1, 2] == pytest.approx(expected, rel=1e-6)
    assert (value == loss(params, gradient=False)) == (activation == "sigmoid"), "the sigmoid is the default"


def test_the_loss_of_a_model_is_that_of_its_parameters(simulated):
    train = simulated.train
    model = skds.StationaryDiffusion(objective="kds", lambda_=0.1).fit(train)
    tensors = {name: np.reshape(entries, shape) for name, shape, entries in model.model_.tensors()}
    options = {"objective": "skds", "kernel": "rbf", "bandwidth": 2.0, "estimator": "u"}
    of_model, of_tensors = (skds.loss(train, one, **options) for one in (model, tensors))
    assert of_model[0] == of_tensors[0]
    for name, array in of_tensors[1].items():
        np.testing.assert_array_equal(of_model[1][name], array)
    # Noise of no other size fits as well.
    other = {**tensors, "log_noise": tensors["log_noise"] + 1}
    options = {**options, "objective": "kds", "estimator": "v", "gradient": False}
    assert skds.loss(train, tensors, **options) < skds.loss(train, other, **options)


def test_data_of_a_loss_is_given_in_any_form(tmp_path):
    params = PARAMETERS["interventions"]
    expected = loss(params, gradient=False)
    data = skds.Dataset(ROWS, DATA["env"], np.array([[0, 0, 0], [0, 1, 0]], bool))
    data.write(tmp_path / "data.npz")
    lists = {name: np.asarray(array).tolist() for name, array in params.items()}
    narrow = {name: np.asfortranarray(array) for name, array in params.items()}
    for X in (data, tmp_path / "data.npz"):
        for given in (params, lists, narrow, {**params, "noise": None}):
            assert skds.loss(X, given, bandwidth=1.7, gradient=False) == expected
    frame = pd.DataFrame(ROWS, columns=["x0", "x1", "x2"])
    assert skds.loss(frame, params, **DATA, bandwidth=1.7, gradient=False) == expected
    words = pd.Categorical(np.array(["control", "x1"])[DATA["env"]])
    assert skds.loss(frame.assign(what=words), params, env="what", bandwidth=1.7, gradient=False) == expected


def test_single_precision_is_close_to_double():
    for params in PARAMETERS.values():
        (double, exact), (single, rough) = (loss(params, precision=name) for name in ("f64", "f32"))
        assert single != double and single == pytest.approx(double, rel=1e-4, abs=1e-5)
        for name, array in exact.items():
            np.testing.assert_allclose(rough[name], array, rtol=1e-3, atol=1e-4)
    assert loss(params, gradient=False) == double, "double is the default"


def test_bandwidths_follow_from_the_data():
    params = PARAMETERS["diagonal noise"]
    auto = skds.loss(ROWS, params, bandwidth="auto", gradient=False)
    assert skds.loss(ROWS, params, gradient=False) == auto
    distances = np.sqrt(((ROWS[:, None] - ROWS[None]) ** 2).sum(axis=2))[np.triu_indices(len(ROWS), 1)]
    median = skds.loss(ROWS, params, bandwidth=float(np.median(distances)), gradient=False)
    assert auto == pytest.approx(median, rel=0.05)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"colour": np.zeros(3)}, "unknown tensor `colour`, expected only `weights`"),
        ({"weights": np.eye(4)}, r"`weights` has shape \[4, 4\], expected \[3, 3\]"),
        ({"weights": np.ones(3)}, r"`weights` has shape \[3\], expected \[3, 3\]"),
        ({"shift": np.zeros((3, 3))}, r"`shift` has shape \[3, 3\], expected \[2, 3\] for the environments"),
        ({"weights": None}, "has no drift, expected `weights`"),
        ({"noise": np.eye(3)}, "both `log_noise` and `noise`, expected one of them"),
        ({"biases": np.full(3, "a")}, "the parameter 'biases' has values of the type <U1, expected numbers"),
        ({"biases": np.zeros(3) + 1j}, "the parameter 'biases' has values of the type complex128"),
        ({"biases": np.full(3, np.nan)}, r"biases\[0\] is NaN, expected a finite number"),
        (dict.fromkeys(LINEAR, np.zeros((0, 0))), "expected"),
        ({"weights": np.eye(4), "biases": np.zeros(4), "log_noise": np.zeros(4)}, "4 variables, expected 3 like"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        loss({**PARAMETERS["diagonal noise"], **changes})


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"precision": "f16"}, "the precision is 'f16', expected f32 or f64"),
        ({"objective": "zds"}, "unknown objective 'zds', expected one of skds, kds"),
        ({"kernel": "quadratic"}, "unknown kernel 'quadratic', expected one of rbf, tilted-rbf, imq-plus"),
        ({"estimator": "w"}, "unknown estimator 'w'"),
        ({"bandwidth": -1}, "found '-1', expected a finite number above 0 or 'auto'"),
        ({"bandwidth": float("nan")}, "bandwidth is nan, expected a finite number"),
        ({"device": "abacus"}, "unknown device 'abacus', expected one of auto, cpu, gpu"),
        ({"seed": -1}, "integer `-1`"),
        ({"env": None}, "shape|environment"),
        ({"targets": None}, "2 environments but no targets"),
    ],
)
def test_options_of_a_loss_that_are_unknown_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        loss({**PARAMETERS["interventions"]}, **options)


def test_parameters_are_a_mapping_or_a_model():
    with pytest.raises(ValueError, match="the parameters are a list, expected a mapping of names to arrays"):
        loss([1, 2])


def test_a_minimum_of_the_loss_is_found_by_its_gradient():
    rows = np.random.default_rng(0).normal(size=(200, 2))
    params = {"weights": -np.eye(2), "biases": np.array([0.5, -0.5]), "log_noise": np.zeros(2)}
    values = []
    for _ in range(60):
        value, gradient = skds.loss(rows, params, estimator="v", bandwidth=1.0)
        values.append(value)
        params = {name: array - 0.1 * gradient[name] for name, array in params.items()}
    assert values[-1] < 0.2 * values[0]


def test_simulations_follow_from_their_seed():
    settings = {"dim": 5, "rows": 20, "train_envs": 2, "test_envs": 1, "edges": 1}
    one, same, other = (skds.simulate(seed=seed, **settings) for seed in (3, 3, 4))
    assert one.train.shape == (60, 5, 3) and one.test.shape[2] == 1
    assert one.graph.shape == (5, 5) and one.graph.dtype == bool and not one.graph.diagonal().any()
    np.testing.assert_array_equal(one.train.x, same.train.x)
    np.testing.assert_array_equal(one.test.x, same.test.x)
    np.testing.assert_array_equal(one.graph, same.graph)
    assert not np.array_equal(one.train.x, other.train.x)
    # Interventions to learn from and to predict are on different variables.
    assert not (one.train.targets.any(axis=0) & one.test.targets.any(axis=0)).any()


def test_every_kind_of_system_is_simulated():
    for system, graph in (("sde", "er"), ("scm", "sf"), ("sergio", "sbm")):
        found = skds.simulate(system, graph=graph, dim=6, rows=10, train_envs=2, test_envs=1, edges=1, blocks=2)
        assert found.train.shape == (30, 6, 3) and np.isfinite(found.train.x).all()
    acyclic = skds.simulate(dim=6, rows=4, train_envs=1, test_envs=1, edges=2, acyclic=True).graph
    assert not np.linalg.matrix_power(acyclic.astype(int), 6).any() and acyclic.any()


def test_simulations_and_the_command_line_draw_the_same(command, tmp_path):
    sizes = ["--dim", 4, "--rows", 10, "--train-envs", 2, "--test-envs", 1]
    command("simulate", "sde", *sizes, "--seed", 9, "-o", tmp_path)
    ours = skds.simulate(dim=4, rows=10, train_envs=2, test_envs=1, seed=9)
    theirs = skds.Dataset.read(next(tmp_path.rglob("train.npz")))
    np.testing.assert_array_equal(theirs.x, ours.train.x)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"colour": "red"}, "unknown field `colour`, expected one of `system`, `graph`"),
        ({"system": "weather"}, "unknown system 'weather', expected one of sde, scm, sergio"),
        ({"dim": 1}, "found 1 variables, expected at least 2"),
        ({"dim": 3, "train_envs": 3, "test_envs": 1}, "expected at most one environment per variable"),
        ({"margin": float("nan")}, "margin is nan, expected a finite number"),
        ({"rows": "many"}, 'invalid type: string "many"'),
        ({"seed": -1}, "integer `-1`"),
    ],
)
def test_systems_that_cannot_be_are_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        skds.simulate(**settings)


PLAN = """
datasets = 1

[[system]]
name = "SDE"
settings = { system = "sde", graph = "er", dim = 5, rows = 60, train_envs = 3, test_envs = 2, edges = 1 }

[[method]]
name = "KDS"
kind = "fit"
settings = { objective = "kds", lambda = 0.1 }

[[method]]
name = "observational"
kind = "observational"
"""


@pytest.fixture
def plan(tmp_path):
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path / "plan.toml"


def cells_in(folder):
    return {path.name: path.stat().st_mtime_ns for path in (folder / "cells").iterdir()}


def test_experiments_compare_methods_and_compute_nothing_twice(plan, tmp_path):
    heard = []
    results = skds.experiment(plan, tmp_path / "results", progress=lambda done, total, _: heard.append((done, total)))
    columns = ["system", "seed", "method", "target", "mse", "w2", "sinkhorn", "fit_seconds", "why_not"]
    assert list(results.columns) == columns and len(results) == 4
    assert results.groupby("method").size().to_dict() == {"KDS": 2, "observational": 2}
    assert np.isfinite(results[["mse", "w2", "sinkhorn"]].to_numpy()).all() and results["why_not"].isna().all()
    mean = results.groupby("method")["mse"].mean()
    assert mean["KDS"] < mean["observational"]
    assert heard[-1] == (2, 2)
    assert (tmp_path / "results" / "results.csv").exists()
    before = cells_in(tmp_path / "results")
    assert len(before) == 2
    again = skds.experiment(str(plan), str(tmp_path / "results"))
    pd.testing.assert_frame_equal(again, results)
    assert cells_in(tmp_path / "results") == before
    # A cell that is missing is computed, and only that.
    missing = next((tmp_path / "results" / "cells").glob("*KDS*"))
    missing.unlink()
    once_more = skds.experiment(plan, tmp_path / "results")
    pd.testing.assert_frame_equal(once_more.drop(columns="fit_seconds"), results.drop(columns="fit_seconds"))
    after = cells_in(tmp_path / "results")
    assert {name for name in before if after[name] != before[name]} == {missing.name}


def test_parts_of_an_experiment_share_a_folder(plan, tmp_path):
    plan.write_text(PLAN.replace("datasets = 1", "datasets = 3"))
    folder, counts = tmp_path / "parts", []
    for shard in ("1/2", "2/2"):
        skds.experiment(plan, folder, shard=shard)
        counts.append(len(cells_in(folder)))
    assert 0 < counts[0] < counts[1] == 6, "each part computes what is its own"
    whole = skds.experiment(plan, tmp_path / "whole", datasets=3)
    parts = skds.experiment(plan, folder)
    pd.testing.assert_frame_equal(parts.drop(columns="fit_seconds"), whole.drop(columns="fit_seconds"))
    assert len(skds.experiment(plan, tmp_path / "few", datasets=1)) == 4


def test_plans_that_cannot_be_run_are_refused(plan, tmp_path):
    for arguments, options, kind, sentence in (
        (("none.toml", tmp_path / "a"), {}, FileNotFoundError, "cannot read none.toml"),
        ((tmp_path, tmp_path / "a"), {}, IsADirectoryError, "cannot read"),
        ((plan, tmp_path / "a"), {"shard": "3/2"}, ValueError, "the shard is '3/2', expected I/N"),
        ((plan, tmp_path / "a"), {"datasets": 0}, ValueError, "asked for 0 datasets"),
        ((plan, tmp_path / "a"), {"datasets": 2}, ValueError, "asked for 2 datasets"),
        ((plan, plan), {}, OSError, "cannot create"),
    ):
        with pytest.raises(kind, match=sentence):
            skds.experiment(*arguments, **options)
    plan.write_text(PLAN.replace("lambda", "lambada"))
    with pytest.raises(ValueError, match="lambada"):
        skds.experiment(plan, tmp_path / "a")
    assert [path.name for path in tmp_path.iterdir()] == ["plan.toml"]


def test_devices_begin_with_the_cpu():
    cpu, *others = skds.devices()
    assert (cpu.index, cpu.kind, str(cpu)) == (None, "cpu", "cpu")
    assert [device.index for device in others] == list(range(len(others)))
    assert [str(device) for device in others] == [str(device.index) for device in others]
    assert skds.devices() == [cpu, *others]
    params = PARAMETERS["diagonal noise"]
    options = {"bandwidth": 1.0, "gradient": False}
    assert skds.loss(ROWS, params, device=cpu, **options) == skds.loss(ROWS, params, **options)
