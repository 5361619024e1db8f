"""The package and the command line are one program: the same data and settings give the same bytes."""

import json
import warnings

import anndata
import pytest

import skds


def assert_same_file(model, path, tmp_path):
    model.save(tmp_path / "python.safetensors")
    assert (tmp_path / "python.safetensors").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("form", ["csr", "dense"])
def test_the_model_file_of_cells_equals_the_command_lines(screen, command, how, tmp_path, form):
    if form == "dense":
        screen.X = screen.X.toarray()
    screen.write_h5ad(tmp_path / "screen.h5ad", compression="gzip" if form == "csr" else None)
    model = tmp_path / "command.safetensors"
    cells = ["--perturbation", "obs:guide", "--control", "NT", "--genes", "targets+hvg:5"]
    command("fit", tmp_path / "screen.h5ad", *cells, "-o", model)
    assert_same_file(skds.StationaryDiffusion().fit(screen, **how), model, tmp_path)
    assert_same_file(skds.StationaryDiffusion().fit(tmp_path / "screen.h5ad", **how), model, tmp_path)


def test_every_option_about_cells_means_the_same(golden, command, tmp_path, silent):
    path, model = golden / "csc-lzf-string.h5ad", tmp_path / "command.safetensors"
    cells = ["--perturbation", "perturbation", "--layer", "doubled", "--normalize", "none", "--min-cells", "5"]
    command("fit", path, *cells, "--separator", "+", "--genes", "all", "--lambda", "0.2", "--seed", "3", "-o", model)
    options = {"pert_key": "perturbation", "layer": "doubled", "normalize": "none", "min_cells": 5, "separator": "+"}
    estimator = skds.StationaryDiffusion(lambda_=0.2, seed=3)
    assert_same_file(estimator.fit(anndata.read_h5ad(path), genes="all", **options), model, tmp_path)


def test_the_model_file_of_a_table_equals_the_command_lines(simulated, command, tmp_path):
    train = simulated.train
    train.write(tmp_path / "train.npz")
    command("fit", tmp_path / "train.npz", "-o", tmp_path / "command.safetensors")
    by_arrays = skds.StationaryDiffusion().fit(train.x, env=train.env, targets=train.targets)
    assert_same_file(by_arrays, tmp_path / "command.safetensors", tmp_path)
    assert_same_file(skds.StationaryDiffusion().fit(train), tmp_path / "command.safetensors", tmp_path)


def test_the_model_file_of_a_csv_table_with_known_edges_equals_the_command_lines(simulated, command, tmp_path):
    simulated.train.write(tmp_path / "train.csv")
    lines = ["source,target,kind,weight", "x0,x1,forbidden,", "x1,x2,candidate,2", "x2,x3,required,"]
    (tmp_path / "edges.csv").write_text("\n".join(lines))
    settings = ["--objective", "kds", "--lambda", "0.05", "--bootstrap", "20", "--seed", "4", "--no-stabilize"]
    files = ["--targets", tmp_path / "train.targets.csv", "--edges", tmp_path / "edges.csv"]
    command("fit", tmp_path / "train.csv", *files, *settings, "-o", tmp_path / "command.safetensors")
    edges = [
        {"source": "x0", "target": "x1", "kind": "forbidden"},
        {"source": "x1", "target": "x2", "kind": "candidate", "weight": 2},
        {"source": "x2", "target": "x3", "kind": "required", "weight": float("nan")},
    ]
    estimator = skds.StationaryDiffusion(
        objective="kds", lambda_=0.05, bootstrap=20, seed=4, stabilize=False, edges=edges
    )
    model = estimator.fit(tmp_path / "train.csv", targets=tmp_path / "train.targets.csv")
    assert model.effects_["low"].notna().any()
    assert_same_file(model, tmp_path / "command.safetensors", tmp_path)


def test_the_model_file_of_a_training_equals_the_command_lines(simulated, command, tmp_path):
    simulated.train.write(tmp_path / "train.npz")
    settings = ["--solver", "adam", "--steps", "60", "--batch", "32", "--learning-rate", "0.01"]
    more = ["--bandwidth", "3", "--envs-per-step", "all", "--device", "cpu"]
    command("fit", tmp_path / "train.npz", *settings, *more, "-o", tmp_path / "command.safetensors")
    estimator = skds.StationaryDiffusion(
        solver="adam", steps=60, batch=32, learning_rate=0.01, bandwidth=3, envs_per_step="all", device="cpu"
    )
    assert_same_file(estimator.fit(tmp_path / "train.npz"), tmp_path / "command.safetensors", tmp_path)
    # A training that keeps its checkpoints elsewhere is the same.
    kept = estimator.fit(simulated.train, checkpoint=tmp_path / "kept.safetensors")
    assert_same_file(kept, tmp_path / "command.safetensors", tmp_path)


def test_the_command_line_reads_a_model_of_the_package(fitted, screen, command, tmp_path):
    fitted.save(tmp_path / "model.safetensors")
    screen.write_h5ad(tmp_path / "screen.h5ad")
    lines = command("evaluate", tmp_path / "model.safetensors", tmp_path / "screen.h5ad", "--json").splitlines()
    report = next(found for found in map(json.loads, lines) if "predictions" in found)
    ours = fitted.evaluate(screen)
    law = ours[ours["method"] == "skds, samples of its law"].set_index("perturbation")
    for prediction in report["predictions"]:
        assert prediction["mse"] == law.loc["+".join(prediction["targets"]), "mse"]


def test_the_command_says_its_version_and_refuses_what_is_wrong(command, tmp_path):
    assert command("--version").strip() == f"skds {skds.__version__}"
    sentence = command("fit", tmp_path / "none.npz", "-o", tmp_path / "m.safetensors", code=2)
    assert sentence.startswith("error: cannot read ") and "Traceback" not in sentence
    assert list(tmp_path.iterdir()) == []


def test_the_package_and_the_command_line_refuse_the_same_data_in_the_same_words(command, tmp_path, golden):
    path, model = golden / "dense-none-string.h5ad", tmp_path / "m.safetensors"
    said = command("fit", path, "--perturbation", "batch", "-o", model, code=2)
    with warnings.catch_warnings(), pytest.raises(ValueError) as refused:
        skds.StationaryDiffusion().fit(path, pert_key="batch")
    assert said.strip() == f"error: {refused.value}"
