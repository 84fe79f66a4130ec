"""What a run leaves on disk, in other hands: checkpoints, budgets and replies kept: edited, linked, deleted."""

from __future__ import annotations

import json
import os
import stat
from types import SimpleNamespace

import numpy as np
import pytest
from flwr.supercore.task_identity import TaskIdentity

from wmlr import MixedLinearRegression
from wmlr.datasets import make_mixed_regression
from wmlr.federated import Federation, checkpoint
from wmlr.federated.checkpoint import Recorded, RecordedRound
from wmlr.federated.messages import pack_sums, unpack_sums
from wmlr.federated.privacy.budget import Budget
from wmlr.flower.agent_app import budget_file
from wmlr.flower.checkpoint import ATTENDANCE, CheckpointedRows
from wmlr.flower.fitting import Rules, _settings
from wmlr.flower.messages import Messenger, pack
from wmlr.flower.terms import RunTerms

DATA = make_mixed_regression(120, 3, snr=5, symmetric=True, groups=6, random_state=1)


def recorded(path, resume):
    return Recorded(Federation.split(DATA.X, DATA.y, DATA.groups), path, {"seed": 0}, resume)


def fitted(engine):
    return MixedLinearRegression(symmetric=True, random_state=0).fit_on(engine)


def without(sums, name):
    return {other: value for other, value in sums.items() if other != name}


FORGED = {
    "a part less": without,
    "an axis more": lambda sums, name: sums | {name: sums[name][..., None]},
    "a part more": lambda sums, name: sums | {"other": np.ones(3)},
    "longer": lambda sums, name: sums | {name: np.ones((*np.shape(sums[name])[:-1], 9))},
}


@pytest.mark.parametrize("forged", FORGED)
def test_sums_of_a_checkpoint_that_are_none_are_one_line(tmp_path, forged):
    """Its checksum is right: whoever changes a file can count that again."""
    path = tmp_path / "run.wmlr"
    fitted(recorded(path, False))
    engine = recorded(path, True)
    rounds, settings = engine._rounds, engine.settings
    for place, held in enumerate(rounds):
        sums = unpack_sums(held.sums)
        for name in sums:
            data = pack_sums(FORGED[forged](sums, name))
            changed = [*rounds[:place], RecordedRound(held.kind, held.query, data, held.ledger), *rounds[place + 1 :]]
            path.write_bytes(checkpoint._write(changed, settings))
            with pytest.raises(ValueError, match=rf"round {place + 1} in .* is damaged \(its sums are not those of"):
                fitted(recorded(path, True))


@pytest.mark.parametrize(
    "minutes",
    [b"", b"{", b"[]", b'{"settled": {}}', b'{"settled": {"a": -1}, "attendance": [], "seconds": 1}',
     b'{"settled": {"a": 1}, "attendance": [7], "seconds": 1}', b'{"settled": 3, "attendance": [], "seconds": 1}',
     b"[" * 100_000],
)  # fmt: skip
def test_minutes_of_a_checkpoint_that_are_none_are_one_line(tmp_path, minutes):
    numbers = np.frombuffer(minutes, np.uint8).astype(float)
    engine = SimpleNamespace(n_features=3, live=0, capabilities=None, recall=None)
    held = CheckpointedRows(engine, tmp_path / "run.wmlr", {}, False)
    for given in (numbers, numbers + 300, numbers[None], -numbers - 1):
        held._recorded = SimpleNamespace(total=lambda query, given=given: {ATTENDANCE: given})
        with pytest.raises(ValueError, match="does not say who answered"):
            held.total(None)
    held._recorded = SimpleNamespace(total=lambda query: {})
    with pytest.raises(ValueError, match="does not say who answered"):
        held.total(None)


def test_a_run_that_trusts_a_majority_is_not_taken_up_by_one_that_trusts_all():
    terms = RunTerms("row", "rows", None, None)
    wanted = MixedLinearRegression()
    careful, careless = (_settings(wanted, Rules(agents=3, terms=terms, trust=trust)) for trust in ("majority", "all"))
    assert careful != careless


def test_what_a_run_leaves_is_for_its_own_user(tmp_path):
    before = os.umask(0)
    try:
        fitted(recorded(tmp_path / "run.wmlr", False))
        Budget.read(tmp_path / "budget.json").spend(4.0)
        _audited(tmp_path / "audit", "1")
    finally:
        os.umask(before)
    for path in (tmp_path / "run.wmlr", tmp_path / "budget.json", *(tmp_path / "audit").iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def _audited(folder, letter):
    """A reply that a post of its own keeps."""
    message = SimpleNamespace(content=pack({"sums": letter.encode()}), has_error=lambda: False)
    grid = SimpleNamespace(push_messages=lambda messages: [letter], pull_messages=lambda letters: [message])
    messenger = Messenger(grid, 60.0, folder)
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
    messenger.send("evaluate", {1: {"a": 1}})
    messenger.fetch(letter)


def test_replies_that_were_kept_are_kept_by_the_next_run(tmp_path):
    for letter in ("1", "2", "3"):
        _audited(tmp_path, letter)
    assert sorted(path.read_bytes() for path in tmp_path.iterdir()) == [b"1", b"2", b"3"]


def test_a_link_to_a_budget_is_that_budget(tmp_path):
    """Else the link would become a file of its own, in which nothing is spent."""
    path, link = tmp_path / "budget.json", tmp_path / "link.json"
    link.symlink_to(path)
    for budget in (Budget.read(link), Budget.read(path)):
        with budget.lock():
            budget.spend(4.0)
    assert link.is_symlink()
    assert Budget.read(path).answers == Budget.read(link).answers == {4.0: 2}


def test_a_budget_of_two_names_is_refused(tmp_path):
    path, other = tmp_path / "budget.json", tmp_path / "other.json"
    Budget.read(path).spend(4.0)
    other.hardlink_to(path)
    with pytest.raises(ValueError, match="has several names"):
        Budget.read(other)


def test_data_under_another_name_has_the_same_budget(tmp_path):
    data, link = tmp_path / "rows.csv", tmp_path / "link.csv"
    data.write_text("x,y\n1,2\n")
    link.symlink_to(data)
    assert budget_file(str(link)) == budget_file(str(data))


def test_data_of_two_names_has_no_budget_of_either(tmp_path):
    data, other = tmp_path / "rows.csv", tmp_path / "other.csv"
    data.write_text("x,y\n1,2\n")
    assert budget_file(str(data)) == tmp_path / "rows.csv.budget.json"
    other.hardlink_to(data)
    for name in (data, other):
        with pytest.raises(ValueError, match=r"has several names.*name one for all with --budget"):
            budget_file(str(name))
    assert budget_file(str(tmp_path)).name == f"{tmp_path.name}.budget.json"


@pytest.mark.parametrize("left", [None, "[]", '[{"noise_multiplier": 4.0, "answers": 1}]'])
def test_a_budget_that_is_taken_away_while_an_agent_runs_is_not_forgotten(tmp_path, left):
    path = tmp_path / "budget.json"
    budget = Budget.read(path)
    for _ in range(3):
        with budget.lock():
            budget.spend(4.0)
    path.unlink()
    if left is not None:
        path.write_text(left)
    with budget.lock():
        budget.spend(4.0)
    assert Budget.read(path).answers == {4.0: 4}


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_pipe_in_place_of_a_budgets_lock_is_refused_and_not_waited_for(tmp_path, make):
    make(tmp_path / "budget.json.lock")
    with pytest.raises(ValueError, match=r"budget\.json\.lock is"), Budget.read(tmp_path / "budget.json").lock():
        pass


@pytest.mark.parametrize("count", [10**400, 10**25, -1, 1.5, "1", None])
def test_counts_that_are_none_are_one_line(tmp_path, count):
    path = tmp_path / "budget.json"
    path.write_text(json.dumps([{"noise_multiplier": 1e-100, "answers": count}]))
    with pytest.raises(ValueError, match="is not what an agent has spent"):
        Budget.read(path).epsilon(1e-5)
