"""A service does the work, in processes that the package starts."""

import socket

import numpy as np
import pandas as pd
import pytest

import skds


@pytest.fixture
def client(service, token):
    return skds.connect(service.url, token)


def content(model, path):
    model.save(path)
    return path.read_bytes()


def assert_same(one, other, folder):
    assert content(one, folder / "one.safetensors") == content(other, folder / "other.safetensors")


def test_a_service_fits_what_would_be_fitted_here(client, screen, how, tmp_path):
    estimator = skds.StationaryDiffusion()
    model = client.fit(screen, estimator=estimator, **how)
    assert model is estimator
    here = skds.StationaryDiffusion().fit(screen, **how)
    assert_same(model, here, tmp_path)
    pd.testing.assert_frame_equal(model.effects_, here.effects_)
    assert model.notes_ == here.notes_ and here.findings_ == model.findings_
    # It has its data, and knows how its cells were read.
    np.testing.assert_array_equal(model.predict("A+B").X, here.predict("A+B").X)
    assert model.settings_ == here.settings_ and "A+B" in set(model.evaluate(screen)["perturbation"])


def test_settings_edges_and_resamples_reach_the_service(client, simulated, tmp_path):
    edges = [{"source": "x0", "target": "x1", "kind": "forbidden"}]
    settings = {"objective": "kds", "lambda_": 0.05, "bootstrap": 20, "seed": 3, "edges": edges, "device": "cpu"}
    there = client.fit(simulated.train, estimator=skds.StationaryDiffusion(**settings))
    here = skds.StationaryDiffusion(**settings).fit(simulated.train)
    assert there.effects_["low"].notna().any()
    assert_same(there, here, tmp_path)


def test_a_training_on_a_service_tells_how_far_it_is(client, simulated, tmp_path):
    settings = {"solver": "adam", "steps": 60_000, "batch": 16, "bandwidth": 3.0, "device": "cpu"}
    heard = []
    there = client.fit(
        simulated.train, estimator=skds.StationaryDiffusion(**settings), progress=lambda *at: heard.append(at)
    )
    assert heard and all(0 <= done <= total for done, total, _ in heard)
    assert any(loss is not None for _, _, loss in heard)
    assert_same(there, skds.StationaryDiffusion(**settings).fit(simulated.train), tmp_path)


def test_arrays_frames_and_files_can_be_sent(client, table, tmp_path):
    x, env = table
    data = {"env": env, "targets": [[], ["x0"], ["x2"]]}
    quick = {"objective": "kds", "lambda_": 0.1}
    here = skds.StationaryDiffusion(**quick).fit(x, **data)
    there = client.fit(x, **data, estimator=skds.StationaryDiffusion(**quick))
    assert_same(there, here, tmp_path)
    here._data.dataset.write(tmp_path / "a name with ü and spaces.npz")
    named = client.fit(tmp_path / "a name with ü and spaces.npz", estimator=skds.StationaryDiffusion(**quick))
    assert_same(named, here, tmp_path)
    frame = pd.DataFrame(x, columns=["x0", "x1", "x2"])
    labels = np.array(["control", "x0", "x2"])[env]
    by_labels = client.fit(frame, env=labels, estimator=skds.StationaryDiffusion(**quick))
    assert_same(by_labels, skds.StationaryDiffusion(**quick).fit(frame, env=labels), tmp_path)


def test_the_token_of_the_environment_is_used(service, token, simulated, monkeypatch):
    quick = skds.StationaryDiffusion(objective="kds", lambda_=0.1)
    monkeypatch.setenv("SKDS_TOKEN", token)
    assert skds.connect(service.url).fit(simulated.train, estimator=quick).names_ == simulated.train.names
    with pytest.raises(ValueError, match="token"):
        skds.connect(service.url, "another-token-0123456789").fit(simulated.train)


def test_whom_a_service_does_not_know_it_refuses(service, simulated, monkeypatch):
    monkeypatch.delenv("SKDS_TOKEN", raising=False)
    for token in (None, "another-token-0123456789", ""):
        with pytest.raises(ValueError, match="token"):
            skds.connect(service.url, token).fit(simulated.train)


def test_addresses_where_nobody_answers_are_refused(simulated):
    with pytest.raises(ValueError, match="the server is 'localhost', expected an address like http://"):
        skds.connect("localhost")
    with socket.socket() as free:
        # Bound, so that no other program takes it, and nobody listens.
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        client = skds.connect(url)
        assert repr(client) == f"<skds.Client of {url}>"
        with pytest.raises(ValueError, match=f"{url} does not answer"):
            client.fit(simulated.train)


def test_wrong_settings_and_data_are_refused_before_anything_is_sent(client, screen, simulated):
    with pytest.raises(ValueError, match="batch is 0, expected at least 2"):
        client.fit(simulated.train, estimator=skds.StationaryDiffusion(solver="adam", batch=0))
    with pytest.raises(ValueError, match="bootstrap is -1, expected a whole number"):
        client.fit(simulated.train, estimator=skds.StationaryDiffusion(bootstrap=-1))
    with pytest.raises(ValueError, match="no pert_key is given"):
        client.fit(screen)
    edges = [{"source": "x0", "target": "x9", "kind": "forbidden"}]
    with pytest.raises(ValueError, match="unknown variable 'x9'"):
        client.fit(simulated.train, estimator=skds.StationaryDiffusion(edges=edges))


def test_a_listener_that_raises_only_stops_to_listen(client, simulated):
    class Enough(Exception):
        pass

    def stop(done, total, loss):
        raise Enough

    slow = skds.StationaryDiffusion(solver="adam", steps=100_000, batch=16, bandwidth=3.0)
    with pytest.raises(Enough):
        client.fit(simulated.train, estimator=slow, progress=stop)
    assert not hasattr(slow, "model_")
    # The service takes other work meanwhile.
    quick = skds.StationaryDiffusion(objective="kds", lambda_=0.1)
    assert len(client.fit(simulated.train, estimator=quick).effects_) > 0


def test_the_command_line_is_a_client_of_the_same_service(service, token, simulated, command, monkeypatch, tmp_path):
    monkeypatch.setenv("SKDS_TOKEN", token)
    simulated.train.write(tmp_path / "train.npz")
    model = tmp_path / "model.safetensors"
    command("--server", service.url, "fit", tmp_path / "train.npz", "--lambda", "0.1", "-o", model)
    here = skds.StationaryDiffusion(lambda_=0.1).fit(simulated.train)
    assert content(here, tmp_path / "here.safetensors") == model.read_bytes()
