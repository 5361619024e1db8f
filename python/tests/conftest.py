"""Data that tests share, and programs that they start."""

import pathlib
import signal
import subprocess
import sys
import warnings

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sparse

import skds

#: Where programs are started: beside them there is no folder of the package that could stand for the installed one.
HERE = pathlib.Path(__file__).parent
GENES = list("ABCDEFGHIJKL")
LABELS = {"NT": 120, "A": 60, "B": 60, "C": 60, "A+B": 60, "D": 60}


def screen_of_cells():
    rng = np.random.default_rng(1)
    labels = np.repeat(list(LABELS), list(LABELS.values()))
    rng.shuffle(labels)
    rates = np.outer(rng.uniform(0.5, 2, len(labels)), np.exp(rng.uniform(0.5, 2.5, len(GENES))))
    for j in range(4):
        hit = np.array([GENES[j] in label.split("+") for label in labels])
        rates[hit, j] *= 4
        rates[hit, j + 5] *= 2
    counts = rng.poisson(rates).astype(np.float32)
    obs = pd.DataFrame({"guide": pd.Categorical(labels)}, index=[f"cell{i}" for i in range(len(labels))])
    return anndata.AnnData(sparse.csr_matrix(counts), obs=obs, var=pd.DataFrame(index=GENES))


@pytest.fixture
def screen():
    """420 cells of 12 genes: controls, perturbations of A, B, C and D, and of A with B."""
    return screen_of_cells()


@pytest.fixture(scope="session")
def how():
    """How the cells of the screen are read."""
    return {"pert_key": "guide", "control": "NT", "genes": "targets+hvg:5"}


@pytest.fixture
def quick():
    """An estimator that compares nothing."""
    return skds.StationaryDiffusion(objective="kds", lambda_=0.1)


@pytest.fixture(scope="session")
def fitted_once(how):
    return skds.StationaryDiffusion().fit(screen_of_cells(), **how)


@pytest.fixture
def fitted(fitted_once):
    """A model of the screen."""
    return fitted_once


@pytest.fixture(scope="session")
def simulated():
    """A system of 4 variables, with interventions on three of them to learn from."""
    return skds.simulate(dim=4, rows=60, train_envs=3, test_envs=1, edges=1, seed=2)


@pytest.fixture
def table():
    """Rows of three variables at rest and under two interventions, in a mixed order, with the environment of each."""
    rng = np.random.default_rng(7)
    env = rng.permutation(np.repeat([0, 1, 2], [30, 20, 25]))
    x = rng.normal(size=(len(env), 3))
    x[:, 1] += 0.8 * x[:, 0]
    x[env == 1, 0] += 3
    x[env == 2, 2] -= 4
    return x, env


@pytest.fixture(scope="session")
def golden():
    """The folder of .h5ad files that anndata wrote."""
    return pathlib.Path(__file__).parents[2] / "tests" / "golden" / "h5ad"


@pytest.fixture
def silent():
    """Cells are left out of some data, which is of no interest to a test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", skds.LeftOut)
        yield


@pytest.fixture
def command():
    """Runs the command line of the package, and gives what it wrote to standard output."""

    def run(*arguments, code=0):
        words = [sys.executable, "-m", "skds", *map(str, arguments)]
        ended = subprocess.run(words, capture_output=True, text=True, timeout=120, cwd=HERE)
        assert ended.returncode == code, ended.stderr
        return ended.stdout if code == 0 else ended.stderr

    return run


class Service:
    """A service in a process of its own."""

    def __init__(self, folder, *more):
        words = ["serve", "--listen", "127.0.0.1:0", "--device", "cpu", "--data", str(folder), *more]
        self.process = subprocess.Popen([sys.executable, "-m", "skds", *words], stdout=subprocess.PIPE, text=True, cwd=HERE)
        line = self.process.stdout.readline()
        assert line.startswith("listening on http://"), line
        self.url = line.removeprefix("listening on ").strip()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=60)
        self.process.stdout.close()
        return code


@pytest.fixture(scope="session")
def token():
    return "a-token-for-tests-0123456789"


@pytest.fixture(scope="session")
def service(tmp_path_factory, token):
    """A service that asks for a token."""
    folder = tmp_path_factory.mktemp("service")
    (folder / "token").write_text(token)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SKDS_TOKEN", raising=False)
        running = Service(folder / "data", "--token-file", str(folder / "token"))
    yield running
    assert running.stop() == 0
