"""The estimator follows scikit-learn's conventions, and everything can be copied and pickled."""

import copy
import inspect
import json
import pickle
import re

import numpy as np
import pandas as pd
import pytest
import sklearn.base
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import skds
from skds import _skds
from skds._options import SETTINGS

#: Targets of a fit are part of its data here.
ELSEWHERE = {"targets"}


def settings_of_the_library():
    with pytest.raises(ValueError) as refused:
        _skds.checked_settings(json.dumps({"no such setting": 1}))
    return re.findall(r"`(\w+)`", str(refused.value).split("expected one of")[1])


def test_every_setting_of_the_library_is_a_parameter():
    ours = [name.rstrip("_") for name in SETTINGS]
    assert [name for name in settings_of_the_library() if name not in ELSEWHERE] == ours
    for name in ours:
        # Each is known, and none is text without a meaning.
        assert _skds.checked_settings(json.dumps({name: None}))


def test_what_a_model_remembers_are_its_settings_and_what_was_chosen(fitted, quick, simulated):
    names = set(settings_of_the_library())
    assert set(fitted.settings_) - names == {"chosen"}
    assert set(quick.fit(simulated.train).settings_) <= names
    trained = skds.StationaryDiffusion(solver="adam", steps=10, batch=8).fit(simulated.train)
    assert set(trained.settings_) <= names and trained.settings_["steps"] == 10


def test_parameters_are_those_of_the_constructor():
    given = list(inspect.signature(skds.StationaryDiffusion.__init__).parameters)[1:]
    assert sorted(given) == sorted(skds.StationaryDiffusion().get_params())
    assert set(skds.StationaryDiffusion().get_params().values()) == {None}
    marks = {name: object() for name in given}
    estimator = skds.StationaryDiffusion(**marks)
    assert all(getattr(estimator, name) is mark for name, mark in marks.items())
    assert all(estimator.get_params(deep=False)[name] is mark for name, mark in marks.items())
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        skds.StationaryDiffusion(colour="red")


def test_parameters_can_be_set_by_name():
    estimator = skds.StationaryDiffusion(seed=1)
    assert estimator.set_params(lambda_=0.5, model="mlp") is estimator
    assert (estimator.lambda_, estimator.model, estimator.seed) == (0.5, "mlp", 1)
    assert repr(estimator) == "StationaryDiffusion(model='mlp', lambda_=0.5, seed=1)"
    with pytest.raises(ValueError, match="unknown parameter 'colour', expected one of method, .*lambda_, .*device"):
        estimator.set_params(colour="red")


def test_clones_have_the_parameters_and_nothing_else(quick, simulated):
    edges = pd.DataFrame([{"source": "x0", "target": "x1", "kind": "forbidden"}])
    quick.set_params(edges=edges, seed=3).fit(simulated.train)
    other = sklearn.base.clone(quick)
    assert other is not quick and not hasattr(other, "model_")
    assert {**other.get_params(), "edges": None} == {**quick.get_params(), "edges": None}
    pd.testing.assert_frame_equal(other.edges, edges)
    pd.testing.assert_frame_equal(other.fit(simulated.train).effects_, quick.effects_)


def test_a_fit_leaves_the_parameters_alone_and_returns_the_estimator(simulated):
    edges = [{"source": "x0", "target": "x1", "kind": "forbidden", "weight": None}]
    estimator = skds.StationaryDiffusion(objective="kds", edges=edges, seed=np.int64(2), lambda_=np.float32(0.5))
    before = dict(estimator.get_params())
    attributes = set(vars(estimator))
    assert estimator.fit(simulated.train, None) is estimator
    assert all(estimator.get_params()[name] is value for name, value in before.items())
    assert edges == [{"source": "x0", "target": "x1", "kind": "forbidden", "weight": None}]
    plain = skds.StationaryDiffusion().fit(simulated.train)
    assert set(plain.get_params().values()) == {None}, "what a fit chooses is in settings_"
    found = set(vars(estimator)) - attributes
    assert {"effects_", "findings_", "names_", "notes_", "settings_", "n_features_in_"} <= found
    assert all(name.endswith("_") or name.startswith("_") for name in found)


def test_a_second_fit_replaces_the_first(quick, simulated, table):
    quick.fit(simulated.train)
    quick.fit(table[0], names=["a", "b", "c"])
    assert quick.names_ == ["a", "b", "c"] and quick.n_features_in_ == 3
    expected = sklearn.base.clone(quick).fit(table[0], names=["a", "b", "c"])
    pd.testing.assert_frame_equal(quick.effects_, expected.effects_)
    assert quick.findings_ == expected.findings_


def test_scikit_learn_knows_whether_it_is_fitted(quick, simulated):
    with pytest.raises(NotFittedError):
        check_is_fitted(quick)
    check_is_fitted(quick.fit(simulated.train))


@pytest.mark.parametrize("copied", [lambda o: pickle.loads(pickle.dumps(o)), copy.deepcopy, copy.copy])
def test_a_fitted_estimator_can_be_copied(fitted, copied):
    other = copied(fitted)
    assert other is not fitted and other.get_params() == fitted.get_params()
    pd.testing.assert_frame_equal(other.effects_, fitted.effects_)
    assert (other.findings_, other.notes_, other.names_) == (fitted.findings_, fitted.notes_, fitted.names_)
    np.testing.assert_array_equal(other.predict("A+B").X, fitted.predict("A+B").X)
    assert list(other.predict("A").obs_names) == list(fitted.predict("A").obs_names)


def test_a_pickled_model_saves_the_same_bytes(fitted, tmp_path):
    fitted.save(tmp_path / "one.safetensors")
    pickle.loads(pickle.dumps(fitted)).save(tmp_path / "other.safetensors")
    assert (tmp_path / "one.safetensors").read_bytes() == (tmp_path / "other.safetensors").read_bytes()


def test_a_copy_has_a_place_of_its_own_for_unfinished_trainings(simulated):
    estimator = skds.StationaryDiffusion(solver="adam", steps=10, batch=8).fit(simulated.train)
    other = pickle.loads(pickle.dumps(estimator)).fit(simulated.train)
    assert other._kept.name != estimator._kept.name


def test_an_estimator_that_is_not_fitted_can_be_copied():
    estimator = skds.StationaryDiffusion(lambda_=0.5, edges=[{"source": "a", "target": "b", "kind": "required"}])
    for other in (pickle.loads(pickle.dumps(estimator)), copy.deepcopy(estimator), sklearn.base.clone(estimator)):
        assert other.get_params() == estimator.get_params()
        assert not hasattr(other, "model_")


@pytest.mark.parametrize("copied", [lambda o: pickle.loads(pickle.dumps(o)), copy.deepcopy])
def test_a_dataset_can_be_copied(fitted, simulated, copied):
    for data in (simulated.train, simulated.test, fitted._data.dataset):
        other = copied(data)
        assert (other.shape, other.names, other.preparation) == (data.shape, data.names, data.preparation)
        np.testing.assert_array_equal(other.x, data.x)
        np.testing.assert_array_equal(other.env, data.env)
        np.testing.assert_array_equal(other.targets, data.targets)
    # Cells come with how they were prepared, so a model of the copy is the same.
    assert json.loads(copied(fitted._data.dataset).preparation)["perturbation"] == "guide"


def test_what_is_done_can_be_written_down():
    do = skds.Do(set={"KLF1": 0.0}, shift={"B": 1}, scale={"GATA1": 2}, environment=3)
    assert str(do) == "environment 3 KLF1=0.0 B+1 GATA1*2"
    assert str(skds.Do()) == "nothing" and str(skds.Do(set={"A": 1}, name="mine")) == "mine"
    assert do == copy.deepcopy(do) and do != skds.Do()
    with pytest.raises(AttributeError):
        do.name = "other"


def test_the_package_names_what_it_has():
    assert all(hasattr(skds, name) for name in skds.__all__)
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", skds.__version__)
