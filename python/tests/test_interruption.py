"""Long work shows how far it is, leaves other threads alone, can be stopped, and goes on where it stopped."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

import skds
from skds import _progress

#: A training that takes long enough to be looked at.
STEPS = 40_000


class Enough(Exception):
    """Somebody has seen enough."""


def training(steps=STEPS, **settings):
    return skds.StationaryDiffusion(**{"solver": "adam", "steps": steps, "batch": 16, "bandwidth": 3.0, **settings})


def stop(done, total, loss):
    if done < total:
        raise Enough


def steps_taken(estimator, data, checkpoint):
    """Where an unfinished training stopped, as the refusal to replace it says."""
    with pytest.raises(ValueError, match="expected no checkpoint: resume the fit or restart it") as refused:
        estimator.fit(data, checkpoint=checkpoint)
    return int(re.search(r"stopped at step (\d+)", str(refused.value))[1])


def content(model, folder):
    model.save(folder / "content.safetensors")
    found = (folder / "content.safetensors").read_bytes()
    (folder / "content.safetensors").unlink()
    return found


@pytest.fixture(scope="module")
def uninterrupted(simulated):
    return training().fit(simulated.train)


def test_a_listener_is_told_how_far_a_fit_is(simulated):
    heard = []
    training().fit(simulated.train, progress=lambda *at: heard.append(at))
    counts = [done for done, _, _ in heard]
    assert counts == sorted(set(counts)) and counts[-1] == STEPS
    assert len(counts) > 1, "the fit is looked at while it runs"
    assert {total for _, total, _ in heard} == {STEPS}
    assert all(isinstance(done, int) and 0 <= done <= total for done, total, _ in heard)
    assert all(isinstance(loss, float) for _, _, loss in heard)


def test_every_kind_of_work_tells_how_far_it_is(fitted, screen, simulated, how):
    works = {
        "fit": lambda told: skds.StationaryDiffusion().fit(screen, **how, progress=told),
        "predict": lambda told: fitted.predict("A", progress=told),
        "changes": lambda told: fitted.changes("A", progress=told),
        "sample": lambda told: fitted.sample(10, progress=told),
        "evaluate": lambda told: fitted.evaluate(screen, progress=told),
        "suggest": lambda told: fitted.suggest(refits=5, progress=told),
        "simulate": lambda told: skds.simulate(dim=4, rows=9, train_envs=1, test_envs=1, edges=1, progress=told),
    }
    for name, work in works.items():
        heard = []
        work(lambda *at, heard=heard: heard.append(at))
        assert heard and all(0 <= done <= total for done, total, _ in heard), name


def test_progress_is_a_bar_without_a_terminal_or_nothing(simulated, capfd, monkeypatch):
    monkeypatch.setattr(_progress, "PATIENCE", 0)
    training().fit(simulated.train, progress=True)
    shown = capfd.readouterr()
    assert "fit:" in shown.err and f"/{STEPS}" in shown.err and "loss" in shown.err and shown.out == ""
    for quiet in (False, None):
        training(2_000).fit(simulated.train, progress=quiet)
        assert capfd.readouterr() == ("", ""), "there is no terminal here"


def test_a_bar_is_shown_where_people_look(simulated, capfd, monkeypatch):
    monkeypatch.setattr(_progress, "PATIENCE", 0)
    monkeypatch.setattr(_progress, "in_notebook", lambda: True)
    training().fit(simulated.train)
    assert "fit:" in capfd.readouterr().err


def test_quick_work_shows_no_bar(simulated, capfd):
    skds.StationaryDiffusion(objective="kds", lambda_=0.1).fit(simulated.train, progress=True)
    assert capfd.readouterr().err.strip() == ""


def test_a_stopped_fit_leaves_no_bar_open(simulated, capfd, monkeypatch):
    monkeypatch.setattr(_progress, "PATIENCE", 0)
    closed = []
    bar = _progress._Bar

    class Watched(bar):
        def __call__(self, done, total, loss):
            super().__call__(done, total, loss)
            raise Enough

        def close(self):
            closed.append(self.bar is not None)
            super().close()

    monkeypatch.setattr(_progress, "_Bar", Watched)
    with pytest.raises(Enough):
        training().fit(simulated.train, progress=True)
    assert closed[-1], "the bar was open, and is closed"


def test_an_exception_stops_the_fit_and_its_checkpoint_goes_on(simulated, uninterrupted, tmp_path):
    path = tmp_path / "model.safetensors"
    estimator = training()
    with pytest.raises(Enough):
        estimator.fit(simulated.train, progress=stop, checkpoint=path)
    assert [file.name for file in tmp_path.iterdir()] == ["model.checkpoint.safetensors"]
    assert not hasattr(estimator, "model_")
    taken = steps_taken(training(), simulated.train, path)
    assert 0 < taken < STEPS
    heard = []
    resumed = training().fit(simulated.train, checkpoint=path, resume=True, progress=lambda *at: heard.append(at))
    assert all(done > taken for done, _, _ in heard), "it goes on, and does not start over"
    assert list(tmp_path.iterdir()) == [], "a complete model needs no checkpoint"
    assert content(resumed, tmp_path) == content(uninterrupted, tmp_path)


def test_without_a_path_the_estimator_keeps_its_unfinished_training(simulated, uninterrupted, tmp_path):
    estimator = training()
    with pytest.raises(Enough):
        estimator.fit(simulated.train, progress=stop)
    kept = estimator._kept.name
    assert os.listdir(kept) == ["model.checkpoint.safetensors"]
    estimator.fit(simulated.train, resume=True)
    assert os.listdir(kept) == []
    assert content(estimator, tmp_path) == content(uninterrupted, tmp_path)
    # Without resume, the same object starts over, which takes nothing from anybody.
    with pytest.raises(Enough):
        estimator.fit(simulated.train, progress=stop)
    assert content(estimator.fit(simulated.train), tmp_path) == content(uninterrupted, tmp_path)
    del estimator
    assert not os.path.exists(kept), "what is kept lives as long as the estimator"


def test_an_unfinished_training_is_not_replaced_by_accident(simulated, tmp_path):
    path, checkpoint = tmp_path / "model.safetensors", tmp_path / "model.checkpoint.safetensors"
    with pytest.raises(Enough):
        training().fit(simulated.train, progress=stop, checkpoint=path)
    before = checkpoint.read_bytes()
    with pytest.raises(ValueError, match="resume and restart are both given, expected one of them"):
        training().fit(simulated.train, checkpoint=path, resume=True, restart=True)
    steps_taken(training(), simulated.train, path)
    with pytest.raises(ValueError, match="written with other settings: found batch = 16, expected 17"):
        training(batch=17).fit(simulated.train, checkpoint=path, resume=True)
    with pytest.raises(ValueError, match="written for other data"):
        training().fit(simulated.test, checkpoint=path, resume=True)
    assert checkpoint.read_bytes() == before
    short = training(100).fit(simulated.train, checkpoint=path, restart=True)
    assert not checkpoint.exists()
    assert content(short, tmp_path) == content(training(100).fit(simulated.train), tmp_path)


def test_nothing_to_resume_is_said(simulated, tmp_path):
    with pytest.raises(ValueError, match="model.checkpoint.safetensors: does not exist, expected the checkpoint"):
        training(100).fit(simulated.train, checkpoint=tmp_path / "model.safetensors", resume=True)
    with pytest.raises(ValueError, match="this object has no interrupted training"):
        training(100).fit(simulated.train, resume=True)
    with pytest.raises(FileNotFoundError, match="cannot write"):
        training(100).fit(simulated.train, checkpoint=tmp_path / "none" / "model.safetensors")
    assert list(tmp_path.iterdir()) == []


INTERRUPTED = """
import signal, sys, skds
# A shell that starts tests in the background lets them ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

def say(done, total, loss):
    print(done, flush=True)

data = skds.Dataset.read(sys.argv[1])
model = skds.StationaryDiffusion(solver="adam", steps=4_000_000, batch=16, bandwidth=3.0)
model.fit(data, checkpoint=sys.argv[2], progress=say)
"""


def test_ctrl_c_stops_a_fit_and_keeps_its_checkpoint(simulated, tmp_path):
    simulated.train.write(tmp_path / "train.npz")
    path = tmp_path / "model.safetensors"
    words = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "train.npz"), str(path)]
    here = pathlib.Path(__file__).parent
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=here) as process:
        assert int(process.stdout.readline()) > 0
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert said.rstrip().endswith("KeyboardInterrupt"), said
    assert process.returncode == -signal.SIGINT
    left = sorted(file.name for file in tmp_path.iterdir())
    assert left == ["model.checkpoint.safetensors", "train.npz"]
    # Fewer steps than were wanted then, and some more than were taken.
    taken = steps_taken(training(4_000_000), simulated.train, path)
    resumed = training(taken + 500).fit(simulated.train, checkpoint=path, resume=True)
    assert content(resumed, tmp_path) == content(training(taken + 500).fit(simulated.train), tmp_path)


def test_the_command_line_goes_on_with_a_training_of_the_package(simulated, command, uninterrupted, tmp_path):
    simulated.train.write(tmp_path / "train.npz")
    with pytest.raises(Enough):
        training().fit(simulated.train, progress=stop, checkpoint=tmp_path / "model.safetensors")
    settings = ["--solver", "adam", "--steps", STEPS, "--batch", "16", "--bandwidth", "3"]
    command("fit", tmp_path / "train.npz", *settings, "-o", tmp_path / "model.safetensors", "--resume")
    assert (tmp_path / "model.safetensors").read_bytes() == content(uninterrupted, tmp_path)


@pytest.mark.parametrize(
    "work",
    [
        lambda fitted, screen, told: fitted.suggest(refits=2000, progress=told),
        lambda fitted, screen, told: skds.simulate("sergio", dim=30, rows=2000, train_envs=10, progress=told),
    ],
    ids=["suggest", "simulate"],
)
def test_other_long_work_stops_too(fitted, screen, work):
    with pytest.raises(Enough):
        work(fitted, screen, stop)


def test_other_threads_run_during_a_fit(simulated):
    marks, ended = [], threading.Event()

    def mark():
        while not ended.wait(0.001):
            marks.append(time.monotonic())

    other = threading.Thread(target=mark)
    other.start()
    try:
        start = time.monotonic()
        training().fit(simulated.train, progress=False)
        end = time.monotonic()
    finally:
        ended.set()
        other.join()
    # In most tenths of the time, and not only before and after the work.
    tenths = {int(10 * (at - start) / (end - start)) for at in marks if start <= at < end}
    assert len(tenths) >= 6, sorted(tenths)


def test_two_threads_fit_at_a_time(simulated):
    expected = training(2_000).fit(simulated.train).effects_
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(training(2_000).fit(simulated.train).effects_)) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 3 and all(effects.equals(expected) for effects in found)
