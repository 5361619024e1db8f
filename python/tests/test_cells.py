"""From an AnnData to a model, its effects, predictions, scores and suggestions."""

import xml.etree.ElementTree as xml

import anndata
import networkx
import numpy as np
import pandas as pd
import pytest

import skds


def test_ten_lines_lead_from_cells_to_predictions(screen, how, tmp_path):
    model = skds.StationaryDiffusion().fit(screen, **how)
    assert list(model.effects_.columns[:5]) == ["source", "target", "strength", "low", "high"]
    assert len(model.effects_) > 0 and set(model.effects_["source"]) <= set(model.names_)
    assert (np.diff(model.effects_["standard"].abs()) <= 0).all(), "strongest first"
    moved = model.predict(["A", "A+B"])
    scores = model.evaluate(screen)
    graph = model.to_networkx(threshold=0.1)
    next_ones = model.suggest(refits=4)
    model.save(tmp_path / "model.safetensors")
    again = skds.load(tmp_path / "model.safetensors")
    assert moved.n_obs == 2 * 120 and len(scores) > 0 and len(graph) == len(model.names_) and len(next_ones) > 0
    pd.testing.assert_frame_equal(again.effects_, model.effects_)


def test_targets_and_variable_genes_become_variables(fitted, screen):
    assert len(fitted.names_) == fitted.n_features_in_
    assert set("ABCD") <= set(fitted.names_)
    # In the order of the AnnData.
    assert fitted.names_ == [gene for gene in screen.var_names if gene in fitted.names_]
    assert fitted.notes_[0].startswith("Read 420 cells of ")


def test_a_prediction_is_a_group_of_moved_control_cells(fitted, screen):
    moved = fitted.predict(["A", "A+B"])
    controls = list(screen.obs_names[screen.obs["guide"] == "NT"])
    assert moved.shape == (2 * len(controls), len(fitted.names_))
    assert list(moved.var_names) == fitted.names_
    assert list(moved.obs_names) == [f"{name}:{cell}" for name in ["A", "A+B"] for cell in controls]
    assert moved.obs_names.is_unique
    assert list(moved.obs["prediction"].cat.categories) == ["A", "A+B"]
    assert list(moved.obs["cell"]) == 2 * controls
    levels = moved.uns["skds"]["levels"]
    assert list(levels["prediction"]) == ["A", "A+B", "A+B"] and list(levels["variable"]) == ["A", "A", "B"]
    for row in levels.itertuples():
        group = moved[moved.obs["prediction"] == row.prediction]
        assert np.mean(group[:, row.variable].X) == pytest.approx(row.mean, abs=1e-9)
        assert row.observed


def test_a_target_reaches_the_mean_that_it_has_in_the_data(fitted, screen):
    counts = screen.X.toarray().astype(float)
    totals = counts.sum(axis=1)
    cells = (screen.obs["guide"] == "A").to_numpy()
    shares = counts[:, 0] / (totals / np.median(totals))
    levels = fitted.predict("A").uns["skds"]["levels"]
    assert levels["mean"][0] == pytest.approx(np.log1p(shares[cells]).mean(), rel=1e-9)


def test_predictions_come_back_from_a_file(fitted, tmp_path):
    moved = fitted.predict(["A", skds.Do(set={"B": 2.0}, name="less B")])
    moved.write_h5ad(tmp_path / "moved.h5ad")
    back = anndata.read_h5ad(tmp_path / "moved.h5ad")
    np.testing.assert_array_equal(back.X, moved.X)
    assert list(back.obs["prediction"]) == list(moved.obs["prediction"])
    assert list(back.obs_names) == list(moved.obs_names)
    assert list(back.uns["skds"]["levels"]["variable"]) == ["A"]


def test_labels_mappings_and_do_say_the_same_where_they_mean_the_same(fitted):
    level = float(fitted.predict("A").uns["skds"]["levels"]["mean"][0])
    by_label = fitted.predict("A").X
    np.testing.assert_allclose(fitted.predict({"A": level}).X, by_label, atol=1e-12)
    np.testing.assert_allclose(fitted.predict(skds.Do(set={"A": level})).X, by_label, atol=1e-12)
    assert list(fitted.predict({"A": 1.5}).obs["prediction"].cat.categories) == ["A=1.5"]
    # Nothing is done, and nothing moves.
    still = fitted.predict(skds.Do(name="still"))
    first, end = fitted._data.dataset.rows(fitted._data.dataset.observational)
    np.testing.assert_allclose(still.X, fitted._data.dataset.x[first:end], atol=1e-9)


def test_order_and_separator_of_a_label_do_not_matter(fitted):
    usual = fitted.predict("A+B").X
    np.testing.assert_array_equal(fitted.predict("B+A").X, usual)
    np.testing.assert_array_equal(fitted.predict("A_B", separator="_").X, usual)


def test_shifts_and_scales_move_means_and_widths(fitted):
    rest = fitted.predict(skds.Do()).X
    shifted = fitted.predict(skds.Do(shift={"A": 1.0})).X
    a = fitted.names_.index("A")
    assert shifted[:, a].mean() > rest[:, a].mean() + 0.05
    wider = fitted.predict(skds.Do(scale={"A": 3.0})).X
    assert wider[:, a].std() > 1.5 * rest[:, a].std()
    environment = fitted.predict(skds.Do(environment=1)).X
    assert abs(environment.mean(axis=0) - rest.mean(axis=0)).max() > 0.1


def test_changes_are_the_differences_of_means(fitted):
    changes = fitted.changes(["A", {"B": 1.0}])
    assert list(changes.index) == ["A", "B=1.0"] and list(changes.columns) == fitted.names_
    first, end = fitted._data.dataset.rows(fitted._data.dataset.observational)
    rest = fitted._data.dataset.x[first:end].mean(axis=0)
    np.testing.assert_allclose(changes.loc["A"], fitted.predict("A").X.mean(axis=0) - rest, atol=1e-12)


def test_nothing_falls_below_zero_if_that_is_asked(fitted):
    pushed = {"A": 0.1}
    assert fitted.predict(pushed).X.min() < 0
    assert fitted.predict(pushed, nonnegative=True).X.min() >= 0


def test_other_cells_can_be_the_start(fitted, screen):
    half = screen[: screen.n_obs // 2]
    moved = fitted.predict("C", data=half)
    controls = half.obs_names[half.obs["guide"] == "NT"]
    assert [name.split(":")[1] for name in moved.obs_names] == list(controls)
    # The variables are found by name, whatever their order.
    turned = half[:, half.var_names[::-1]].copy()
    np.testing.assert_allclose(fitted.predict("C", data=turned).X, moved.X, atol=1e-12)
    # A label means what it means in the data that is given.
    cells = (half.obs["guide"] == "C").to_numpy()
    counts = half.X.toarray().astype(float)
    depth = np.median(screen.X.toarray().astype(float).sum(axis=1))
    logs = np.log1p(counts[:, 2] / (counts.sum(axis=1) / depth))
    assert moved.uns["skds"]["levels"]["mean"][0] == pytest.approx(logs[cells].mean(), rel=1e-9)


def test_evaluation_compares_the_model_with_floors(fitted, screen):
    scores = fitted.evaluate(screen)
    assert list(scores.columns) == ["perturbation", "method", "mse", "w2", "sinkhorn"]
    methods = scores.groupby("perturbation")["method"].agg(set)
    single = {"skds", "no effect", "skds, samples of its law"}
    assert set(methods.index) == {"A", "A+B", "B", "C", "D"}
    assert methods["A+B"] == single | {"additive"}
    assert all(methods[name] == single for name in "ABCD")
    assert np.isfinite(scores[["mse", "w2", "sinkhorn"]].to_numpy()).all()
    mean = scores.groupby("method")["mse"].mean()
    assert mean["skds"] < 0.5 * mean["no effect"], "the model knows the data that it was fitted to"


def test_held_out_cells_need_no_controls(screen, how):
    known = screen[screen.obs["guide"] != "A+B"].copy()
    held_out = screen[screen.obs["guide"] == "A+B"].copy()
    scores = skds.StationaryDiffusion().fit(known, **how).evaluate(held_out)
    assert set(scores["perturbation"]) == {"A+B"}
    assert set(scores["method"]) == {"skds", "no effect", "additive", "skds, samples of its law"}


def test_the_graph_has_all_variables_and_the_strong_effects(fitted):
    threshold = fitted.effects_["standard"].abs().median()
    everything, strong = fitted.to_networkx(), fitted.to_networkx(threshold=threshold)
    assert isinstance(strong, networkx.DiGraph) and list(strong.nodes) == fitted.names_
    assert everything.number_of_edges() == len(fitted.effects_)
    expected = fitted.effects_[fitted.effects_["standard"].abs() >= threshold]
    assert 0 < len(expected) < len(fitted.effects_)
    assert set(strong.edges) == set(zip(expected["source"], expected["target"]))
    first = expected.iloc[0]
    edge = strong.edges[first["source"], first["target"]]
    assert (edge["strength"], edge["weight"]) == (first["strength"], first["standard"])


def test_intervals_lie_around_effects_if_they_are_asked_for(screen, how):
    model = skds.StationaryDiffusion(objective="kds", lambda_=0.02, bootstrap=20).fit(screen, **how)
    effects = model.effects_
    assert effects["low"].notna().all() and (effects["low"] <= effects["high"]).all()
    covered = (effects["low"] <= effects["strength"]) & (effects["strength"] <= effects["high"])
    assert covered.mean() > 0.5
    assert "low" in model._repr_html_()


def test_known_effects_are_kept_out_of_the_model(screen, how):
    free = skds.StationaryDiffusion(objective="kds", lambda_=0.02)
    strongest = free.fit(screen, **how).effects_.iloc[0]
    pair = (strongest["source"], strongest["target"])
    forbidden = {"source": pair[0], "target": pair[1], "kind": "forbidden", "weight": None}
    for edges in ([forbidden], pd.DataFrame([forbidden])):
        model = skds.StationaryDiffusion(objective="kds", lambda_=0.02, edges=edges).fit(screen, **how)
        assert pair not in set(zip(model.effects_["source"], model.effects_["target"]))


def test_pictures_are_valid_svg(fitted, tmp_path):
    for picture in (fitted.plot_effects(), fitted.plot_effects(most=3), fitted.plot_choice()):
        assert xml.fromstring(picture._repr_svg_()).tag == "{http://www.w3.org/2000/svg}svg"
        picture.save(tmp_path / "picture.svg")
        assert (tmp_path / "picture.svg").read_text() == picture.text
        assert repr(picture).startswith("<skds picture")
    words = {text.strip() for text in xml.fromstring(fitted.plot_effects().text).itertext()}
    assert set(fitted.names_) <= words


def test_a_model_without_a_choice_has_no_picture_of_it(screen, how, quick):
    assert quick.fit(screen, **how).plot_choice() is None


def test_a_saved_model_predicts_what_the_fitted_one_does(fitted, screen, tmp_path):
    fitted.save(tmp_path / "model.safetensors")
    loaded = skds.load(tmp_path / "model.safetensors")
    assert loaded.names_ == fitted.names_ and loaded.settings_ == fitted.settings_
    pd.testing.assert_frame_equal(loaded.effects_, fitted.effects_)
    # It knows how its cells were read: nothing has to be said again.
    np.testing.assert_array_equal(loaded.predict("A+B", data=screen).X, fitted.predict("A+B").X)
    scores = loaded.evaluate(screen, data=screen)
    pd.testing.assert_frame_equal(scores, fitted.evaluate(screen))
    pd.testing.assert_frame_equal(loaded.sample(7, {"A": 1.0}), fitted.sample(7, {"A": 1.0}))
    loaded.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "model.safetensors").read_bytes()


def test_without_data_only_samples_of_the_law_are_evaluated(fitted, screen, tmp_path):
    fitted.save(tmp_path / "model.safetensors")
    scores = skds.load(tmp_path / "model.safetensors").evaluate(screen)
    assert set(scores["method"]) == {"skds, samples of its law"}


def test_samples_follow_the_law_of_the_model(fitted):
    drawn = fitted.sample(4000, {"A": 3.0}, seed=5)
    assert list(drawn.columns) == fitted.names_ and len(drawn) == 4000
    assert drawn["A"].mean() == pytest.approx(3.0, abs=0.1)
    pd.testing.assert_frame_equal(drawn, fitted.sample(4000, {"A": 3.0}, seed=5))
    assert not drawn.equals(fitted.sample(4000, {"A": 3.0}, seed=6))


def test_suggestions_name_what_the_data_does_not_have(fitted, screen, how):
    made = set(screen.obs["guide"])
    singles = fitted.suggest(refits=4, seed=1)
    assert list(singles.columns) == ["perturbation", "score", "reaches", "observed"]
    assert set(singles["perturbation"]) == set(fitted.names_) - made
    pairs = fitted.suggest(3, pairs=True, refits=4)
    assert len(pairs) == 3 and pairs.attrs["candidates"] > 3
    assert (np.diff(pairs["score"]) <= 0).all(), "where refits disagree most"
    assert not set(pairs["perturbation"]) & made
    assert all(len(row.reaches) == 1 + row.perturbation.count("+") for row in pairs.itertuples())
    assert "variance" in pairs.attrs["meaning"]
    pd.testing.assert_frame_equal(pairs, fitted.suggest(3, pairs=True, refits=4))


def test_suggestions_lead_to_a_wanted_state(fitted):
    wanted = fitted.predict("C+D")
    state = dict(zip(fitted.names_, wanted.X.mean(axis=0)))
    ranked = fitted.suggest(50, pairs=True, towards=state)
    assert ranked["perturbation"][0] == "C+D", "the pair that leads there ranks first"
    assert ranked["score"][0] == pytest.approx(0, abs=1e-6)
    assert (np.diff(ranked["score"]) >= 0).all()
    assert "distance" in ranked.attrs["meaning"]


def test_suggestions_of_a_loaded_model_need_its_data(fitted, screen, tmp_path):
    fitted.save(tmp_path / "model.safetensors")
    loaded = skds.load(tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="has no data, expected data to start from"):
        loaded.suggest()
    pd.testing.assert_frame_equal(loaded.suggest(refits=4, data=screen), fitted.suggest(refits=4))


def test_what_is_left_out_is_said_as_a_warning(screen, quick):
    labels = screen.obs["guide"].astype(str)
    labels.iloc[np.flatnonzero(labels == "C")[:30]] = "unmeasured"
    labels.iloc[np.flatnonzero(labels == "D")[:50]] = ""
    screen.obs["guide"] = labels
    with pytest.warns(skds.LeftOut) as found:
        model = quick.fit(screen, pert_key="guide", genes="all")
    sentences = [str(warning.message) for warning in found]
    assert any("(genes that were not measured): 'unmeasured (30)'" in s for s in sentences), sentences
    assert any("fewer than 20 cells): 'D (10)'" in sentence for sentence in sentences), sentences
    assert any("50 cells without a label" in sentence for sentence in sentences), sentences
    assert all(sentence in model.notes_ for sentence in sentences)
    assert {warning.filename for warning in found} == {__file__}, "the warning points to the line of the caller"
    # With a smaller bound, few cells are enough.
    with pytest.warns(skds.LeftOut) as found:
        quick.fit(screen, pert_key="guide", genes="all", min_cells=5)
    assert not any("fewer than" in str(warning.message) for warning in found)


def test_complete_data_gives_no_warning(screen, how, quick, recwarn):
    quick.fit(screen, **how)
    assert not [warning for warning in recwarn if issubclass(warning.category, skds.LeftOut)]
