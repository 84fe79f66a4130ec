"""A run that was interrupted ends where it would have ended, to the last bit."""

import json
import os
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from wmlr import MixedLinearRegression
from wmlr.core.capabilities import capabilities_of
from wmlr.core.round import run
from wmlr.datasets import make_mixed_regression
from wmlr.engines.arrays import ArrayRows
from wmlr.federated import Federation
from wmlr.federated import checkpoint as checkpoints
from wmlr.federated.checkpoint import Recorded
from wmlr.federated.messages import digest, unpack_sums
from wmlr.methods import EM, GDA, GEM, IFCA, Refreshed
from wmlr.methods.partial import partial
from wmlr.methods.task import Task
from wmlr.model.gates import EQUAL
from wmlr.statistics.information import ObservedInformation
from wmlr.statistics.moments import Moments
from wmlr.statistics.score import MixtureScore
from wmlr.statistics.symmetric_score import SymmetricScore

SYMMETRIC = Task(symmetric=True, gate=EQUAL, max_iter=5)
GENERAL = Task(n_components=2, intercept=True, max_iter=3, search="quick")
RUNS = {
    "refreshed": (Refreshed(), SYMMETRIC, {}),
    "GDA": (GDA(), SYMMETRIC, {}),
    "EM": (EM(), SYMMETRIC, {}),
    "GEM": (GEM(), SYMMETRIC, {}),
    "IFCA": (IFCA(), SYMMETRIC, {}),
    "refreshed, k=2 free": (Refreshed(), GENERAL, {}),
    "EM, k=3": (EM(), replace(GENERAL, n_components=3), {}),
    "refreshed, changing agents": (Refreshed(), SYMMETRIC, {"participation": 0.4, "dropout": 0.2, "late": 0.1}),
}
SETTINGS = {"seed": 0, "method": "refreshed"}


class Stop(Exception):  # noqa: N818
    pass


class Interrupted:
    """A federation that is gone after so many rounds."""

    def __init__(self, federation, rounds):
        self.federation, self.left = federation, rounds

    def __getattr__(self, name):
        return getattr(self.federation, name)

    def total(self, query):
        if self.left == 0:
            raise Stop
        self.left -= 1
        return self.federation.total(query)


def federation(task, more):
    data = make_mixed_regression(120, 3, task.n_components, snr=5, symmetric=task.symmetric, groups=6, random_state=1)
    return Federation.split(data.X, data.y, data.groups, level="agent", n_jobs=1, **more)


def method(solver, task, engine):
    share = capabilities_of(engine).answering
    return solver.fit(task) if share >= 1.0 else partial(solver, task, share)


def path_of(solver, task, engine):
    places = []
    fit = run(method(solver, task, engine), engine, lambda report: places.append(report.mixture))
    return fit, np.array([[*m.coef.ravel(), *m.intercept, *m.weights, *m.sigma] for m in places])


@pytest.mark.parametrize("name", RUNS)
def test_interrupted_at_any_round_a_run_ends_the_same(name, tmp_path):
    solver, task, more = RUNS[name]
    wanted, path = path_of(solver, task, federation(task, more))
    whole = federation(task, more)
    fit, straight = path_of(solver, task, Recorded(whole, tmp_path / "whole", SETTINGS))
    np.testing.assert_array_equal(straight, path)
    rounds = len(whole.ledger)
    for stop in range(rounds) if rounds < 30 else [0, 1, 2, 3, rounds // 2, rounds - 2, rounds - 1]:
        file = tmp_path / f"stopped at {stop}"
        with pytest.raises(Stop):
            path_of(solver, task, Recorded(Interrupted(federation(task, more), stop), file, SETTINGS))
        assert file.exists() == (stop > 0)
        again = federation(task, more)
        engine = Recorded(again, file, SETTINGS, resume=True)
        resumed, places = path_of(solver, task, engine)
        np.testing.assert_array_equal(places, path)
        assert resumed.log_likelihood == wanted.log_likelihood
        assert resumed.history == fit.history == wanted.history
        assert again.ledger.records() == whole.ledger.records()
        assert file.read_bytes() == (tmp_path / "whole").read_bytes()


def test_a_finished_run_asks_nobody_again(tmp_path):
    solver, task, more = RUNS["refreshed"]
    whole = federation(task, more)
    path_of(solver, task, Recorded(whole, tmp_path / "run", SETTINGS))
    engine = Recorded(Interrupted(federation(task, more), 0), tmp_path / "run", SETTINGS, resume=True)
    path_of(solver, task, engine)
    assert engine.replayed == len(whole.ledger) == len(engine.capabilities.ledger)


def test_the_estimator_and_its_errors_are_recorded_too(tmp_path):
    task = RUNS["refreshed"][1]
    model = MixedLinearRegression(symmetric=True, random_state=0)
    fits, errors = [], []
    for resume in (False, True):
        engine = Recorded(federation(task, {}), tmp_path / "run", SETTINGS, resume=resume)
        fits.append(model.fit_on(engine).coef_)
        errors.append(model.covariance_on(engine))
        assert engine.capabilities.agents == 20
        assert len(model.ledger_) < len(engine.capabilities.ledger)
    np.testing.assert_array_equal(*fits)
    np.testing.assert_array_equal(*errors)


def test_any_engine_can_be_recorded(tmp_path):
    data = make_mixed_regression(60, 2, snr=5, symmetric=True, random_state=1)
    engine = Recorded(ArrayRows(data.X, data.y), tmp_path / "run", SETTINGS)
    sums = engine.total(Moments())
    assert not hasattr(engine, "ledger")
    again = Recorded(ArrayRows(data.X, data.y), tmp_path / "run", SETTINGS, resume=True).total(Moments())
    np.testing.assert_array_equal(again["gram"], sums["gram"])


@pytest.fixture
def written(tmp_path):
    """A file of two rounds."""
    engine = Recorded(federation(SYMMETRIC, {}), tmp_path / "run", SETTINGS)
    engine.total(Moments())
    engine.total(SymmetricScore(np.ones(3), 1.0))
    return tmp_path / "run"


def resumed(path, settings=SETTINGS):
    return Recorded(federation(SYMMETRIC, {}), path, settings, resume=True)


def test_nothing_is_left_beside_the_file(written):
    assert os.listdir(written.parent) == ["run"]


def test_a_run_is_not_written_over(written):
    with pytest.raises(ValueError, match="already holds a run of 2 rounds: resume it, remove it, or name another"):
        Recorded(federation(SYMMETRIC, {}), written, SETTINGS)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"seed": 1, "method": "refreshed"}, "seed is 0 there and 1 here"),
        ({"seed": 0}, "method is 'refreshed' there and not set here"),
        (SETTINGS | {"tol": 0.1}, "tol is not set there and 0.1 here"),
    ],
)
def test_other_settings_are_refused(written, settings, message):
    with pytest.raises(ValueError, match=message):
        resumed(written, settings)


def test_settings_must_be_what_json_can_hold(tmp_path):
    with pytest.raises(ValueError, match="settings must be what JSON can hold"):
        Recorded(federation(SYMMETRIC, {}), tmp_path / "run", {"start": np.ones(3)})


def test_other_columns_are_refused(written):
    narrow = Federation([(np.ones((2, 2)), np.ones(2))])
    with pytest.raises(ValueError, match="n_features is 3 there and 2 here"):
        Recorded(narrow, written, SETTINGS, resume=True)


def test_another_question_is_noticed(written):
    engine = resumed(written)
    engine.total(Moments())
    with pytest.raises(ValueError, match=r"round 2 .* \(another SymmetricScore then\): a setting or the program"):
        engine.total(SymmetricScore(np.ones(3), 1.0 + 1e-15))
    with pytest.raises(ValueError, match=r"round 1 .* \(Moments then and SymmetricScore now\)"):
        resumed(written).total(SymmetricScore(np.ones(3), 1.0))


def test_another_version_is_refused(written, monkeypatch):
    monkeypatch.setattr(checkpoints, "__version__", "99.0")
    with pytest.raises(ValueError, match=r"written by wmlr .* and this is 99\.0: start anew"):
        resumed(written)
    monkeypatch.undo()
    monkeypatch.setattr(checkpoints, "FORMAT", 7)
    with pytest.raises(ValueError, match=r"another format \(1, this is 7\)"):
        resumed(written)


def test_a_damaged_file_is_refused(written, generator):
    whole = written.read_bytes()
    for place in [*range(60), *generator.integers(len(whole), size=60).tolist(), len(whole) - 1]:
        broken = bytearray(whole)
        broken[place] ^= 0x10
        for data in (bytes(broken), whole[:place]):
            written.write_bytes(data)
            with pytest.raises(ValueError, match=r"not a checkpoint|another format|damaged"):
                resumed(written)


def rewritten(path, change):
    """The file with another header, and a checksum that fits it."""
    data = path.read_bytes()
    start = checkpoints.PREFIX.size
    length = struct.unpack_from("<Q", data, start - 8)[0]
    header = json.loads(data[start : start + length])
    change(header)
    text = json.dumps(header).encode()
    body = text + data[start + length :]
    check = checkpoints.sha256(body).digest()
    path.write_bytes(checkpoints.PREFIX.pack(checkpoints.MAGIC, checkpoints.FORMAT, check, len(text)) + body)


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header.pop("rounds"),
        lambda header: header.pop("settings"),
        lambda header: header["rounds"][0].pop("query"),
        lambda header: header["rounds"][0]["ledger"][0].pop("asked"),
        lambda header: header["rounds"][0]["ledger"][0].update(asked="many"),
        lambda header: header["rounds"][0].update(bytes=10),
        lambda header: header["rounds"][0].update(bytes=-1),
        lambda header: header.update(rounds=3),
    ],
)
def test_a_file_made_by_others_is_refused(written, change):
    rewritten(written, change)
    with pytest.raises(ValueError, match=r"not a checkpoint this version can read|damaged"):
        resumed(written)


def test_a_folder_is_not_a_checkpoint(tmp_path):
    with pytest.raises(ValueError, match="is a folder"):
        Recorded(federation(SYMMETRIC, {}), Path(tmp_path), SETTINGS, resume=True)


START = np.array([[1.0, 4.0, 0.0], [1.0, -4.0, 0.0]])
EARLIER = {  # what commit dbcbfeb wrote: settings, the log-likelihood it came to, and the first slope
    "em": ({"method": "em", "start": START}, -219.77110190120362, 1.93026564),
    "robust": ({"method": "em", "robust": 4.0, "start": START}, -221.1791389219615, 1.93946958),
    "refreshed": ({"shared_sigma": False, "start": START}, -219.3066864583302, 1.92545409),
    "poisson": ({"method": "em", "family": "poisson", "start": START / 20}, -157.47615023916453, 0.29428014),
}


class FromFile:
    """The sums of a recorded run, in order; queries are known by their names, as their last bits are the machine's."""

    n_features = 2

    def __init__(self, rounds):
        self.left = list(rounds)

    def total(self, query):
        held = self.left.pop(0)
        assert held.kind == query.label
        return unpack_sums(held.sums)


@pytest.mark.parametrize("name", EARLIER)
def test_a_run_that_an_earlier_commit_recorded_comes_to_the_same_fit(name, monkeypatch):
    settings, log_likelihood, slope = EARLIER[name]
    monkeypatch.setattr(checkpoints, "__version__", "0.1.0")
    path = Path(__file__).parents[1] / "data" / "checkpoints" / f"{name}.wmlr"
    engine = FromFile(checkpoints._read_rounds(path, {"run": name, "n_features": 2}))
    fit = MixedLinearRegression(2, max_iter=4, tol=0, random_state=0, **settings).fit_on(engine)
    assert not engine.left
    assert fit.log_likelihood_ == pytest.approx(log_likelihood, abs=1e-9)
    assert fit.coef_[0, 0] == pytest.approx(slope, abs=1e-7)


def test_queries_have_the_digests_that_earlier_files_know_them_by():
    B, half, s2 = np.arange(6.0).reshape(3, 2), np.full(2, 0.5), np.array([1.0, 2.0])
    assert digest(MixtureScore(B, np.log(half), s2, True)).startswith("d6618f6835a4f500")
    assert digest(ObservedInformation(B, half, s2)).startswith("2f2b2db819473118")
