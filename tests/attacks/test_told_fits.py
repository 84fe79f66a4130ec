"""A server that says what is to be fitted: features that pick out rows, settings without end, words for a terminal."""

import gzip
import os
import pickle
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Binarizer, FunctionTransformer, SplineTransformer
from test_curious_servers import FIRST, REFUSED, SYMMETRIC, Server, held_with_inventions, private_terms, stock
from test_letters import with_box
from test_lying_servers import letting_in, server

from wmlr import Effort, MixedLinearRegression
from wmlr.cli._federated import prefixed_printer
from wmlr.core.round import Rows
from wmlr.federated.messages import unpack_sums
from wmlr.federated.privacy import Secure
from wmlr.federated.privacy.budget import Budget
from wmlr.federated.privacy.noise import NoiseEnvelope
from wmlr.flower import link
from wmlr.flower.agent import Agent
from wmlr.flower.agent_app import agent_app
from wmlr.flower.assignment import Assignment
from wmlr.flower.link import open_link
from wmlr.flower.policy import Policy
from wmlr.flower.processes import Child
from wmlr.flower.terms import RunTerms
from wmlr.io import tables
from wmlr.statistics.score import MixtureScore


def ranges(agent, count=100):
    """Indicators of so many ranges of each column: with many, most hold one row."""
    low, high = agent.X.min(axis=0) - 1e-9, agent.X.max(axis=0) + 1e-9
    return SplineTransformer(degree=0, knots=np.linspace(low, high, count), extrapolation="constant")


def first_answer(agent, features):
    """What an agent answers to the first question of a fit on features that the server gives."""
    spy = Server(agent, MixedLinearRegression(symmetric=True, features=features, random_state=0))
    if spy.card == REFUSED:
        return REFUSED
    return spy.ask(agent.run(spy.run, spy.terms, spy.task.to_bytes()).replay.advance([]))


PICKING = {
    "ranges of every column": ranges,
    "beyond a value": lambda agent: Binarizer(threshold=float(np.sort(agent.X.ravel())[-2])),
    "behind another step": lambda agent: make_pipeline(FunctionTransformer(np.exp), Binarizer(threshold=9.0)),
}


@pytest.mark.parametrize("name", PICKING)
def test_features_that_a_server_gives_do_not_leave_in_the_clear(name):
    agent = stock()
    assert first_answer(agent, PICKING[name](agent)) == REFUSED


def test_features_that_a_server_gives_read_rows_where_nothing_stands_against_them():
    agent = stock(min_rows=1)
    sums = unpack_sums(first_answer(agent, ranges(agent))["sums"])
    read = sums["xy"][np.isclose(np.diag(sums["gram"]), 1.0)]
    assert len(read) > 30
    assert np.all(np.isclose(read[:, None], agent.y[None, :]).any(axis=1))


ENDLESS = {
    "searches": {"n_init": 10**9},
    "lineages": {"search": Effort(lineages=10**9)},
    "candidates": {"search": Effort(first=10**9)},
    "iterations": {"max_iter": 2**63},
}


@pytest.mark.parametrize("name", ENDLESS)
def test_a_fit_without_end_is_not_joined(name):
    """Starts are drawn before the first question: a thousand million of them fill an agent's memory."""
    spy = Server(stock(), MixedLinearRegression(2, random_state=0, **ENDLESS[name]))
    assert spy.card == REFUSED
    assert "at most" in spy.log[-1]


def test_candidates_of_many_columns_are_not_drawn():
    """A hundred searches of twenty components, of a thousand columns: gigabytes before the first question."""
    generator = np.random.default_rng(0)
    agent = Agent("wide", generator.random((60, 1000)), generator.random(60), tuple(f"x{i}" for i in range(1000)), "y")
    spy = Server(agent, MixedLinearRegression(20, n_init=100, random_state=0))
    assert spy.card == REFUSED
    assert "may have at most 8,388,608 numbers" in spy.log[-1]
    assert "columns" in Server(agent, MixedLinearRegression(5, random_state=0)).card


def test_no_number_of_candidates_is_made_up_for_by_a_negative_one():
    """A thousand million first candidates, and as many chains fewer than none, were within the bound on their sum."""
    task = Assignment.of(MixedLinearRegression(2, search=Effort(first=4_000, chains=4_321), random_state=0), True, 1.0)
    assert "columns" in Server(stock(), task).card
    task = Assignment.of(MixedLinearRegression(2, search=Effort(first=99_999, chains=4_321), random_state=0), True, 1.0)
    told = task.to_bytes().replace(b'"chains":4321', b'"chains":-999')
    spy = Server(stock(), task)
    assert spy.card == REFUSED
    assert spy.say("join", {"terms": spy.terms.to_text(), "task": told, "run": "run"}) == REFUSED
    assert "Effort.chains must not be negative" in spy.log[-1]


@pytest.mark.parametrize("setting", [{"n_jobs": 10**6}, {"verbose": 3}, {"warm_start": True}])
def test_a_server_does_not_say_what_is_the_agents_own_business(setting):
    task = Assignment.of(SYMMETRIC, True, 1.0)
    spy = Server(stock(), Assignment(task.settings | setting))
    assert spy.card == REFUSED
    assert f"no settings {next(iter(setting))}" in spy.log[-1]


CODE = "np.lib._utils_impl.os.system('touch ran')"


@pytest.mark.parametrize(
    "setting",
    [
        {"formula": f"Q({CODE}) ~ ."},
        {"formula": f"y ~ I({CODE})"},
        {"gate": f"~ I({CODE})"},
        {"gate": f"~ {CODE}"},
        {"shared": f"~ I({CODE})"},
        {"shared": (f"I({CODE})",)},
        {"only": ((f"I({CODE})", (1,)),)},
        {"family": "os.system"},
        {"method": "__import__('os').system('touch ran')"},
        {"start": "__import__('os').system('touch ran')"},
        {"search": "__import__('os').system('touch ran')"},
        {"missing": f"{CODE}"},
    ],
)
def test_code_in_the_settings_of_a_fit_is_not_run(setting, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    task = Assignment.of(MixedLinearRegression(2, random_state=0), True, 1.0)
    spy = Server(stock(), Assignment(task.settings | setting))
    assert spy.card == REFUSED or spy.ask(FIRST) == REFUSED
    assert list(tmp_path.iterdir()) == []


def test_what_a_server_says_at_the_end_is_printed_by_its_numbers():
    heard = []
    agent = stock()
    spy = Server(agent)
    spy.app = agent_app(lambda _: agent, None, lambda *told: heard.append(told))
    spy.say("end", {"reason": "\x1b]0;rm -rf\x07\x1b[2J" + "x" * 100_000, "done": True})
    (said, done), *_ = heard
    assert done
    assert said.isprintable()
    assert len(said) <= 200


def test_errors_that_nobody_foresaw_count_as_refusals():
    agent = stock(max_epsilon=1.0, policy=Policy(max_trouble=3))
    for run in range(3):
        assert Server(agent, terms=private_terms(noise_multiplier=1e-200), run=f"run {run}").card == REFUSED
    assert "answers nothing more" in Server(agent, terms=private_terms(epsilon=0.5)).log[-1]


def test_noise_too_small_to_hide_a_row_is_taken_for_none():
    """A server that asks for noise of next to nothing would see exact answers that stand on one row."""
    agent = stock()
    row = agent.X[7]
    coef = np.column_stack([row * agent.y[7] / float(row @ row), np.zeros(3)])
    alone = MixtureScore(coef, np.log([0.5, 0.5]), np.array([1e-12, 25.0]), grams=True)
    for noise in (1e-6, 0.1, 0.6, 1.9):
        with pytest.raises(ValueError, match=r"stand on 1\.\d rows, fewer than 50"):
            agent.answer(alone, private_terms(noise_multiplier=noise))
    assert set(agent.answer(alone, private_terms(epsilon=2.0))) == set(alone.parts(3, False))


def test_an_agent_remembers_few_runs_at_a_time():
    """A server can name as many runs as it likes, and say megabytes in each."""
    with server(letting_in()) as (connection, _), open_link(connection) as agent:
        agent.register()
        for run in range(1000):
            agent.context(run)
        assert len(agent._contexts) <= link.MOST_CONTEXTS
        assert agent.context(999) is agent.context(999)


def test_answers_that_unfold_are_not_unfolded(monkeypatch):
    """Zeros that were compressed twice: sixty thousand bytes would become gigabytes, before they are counted."""
    monkeypatch.setattr(link, "MOST_BYTES", 2**20)
    bomb = gzip.compress(gzip.compress(bytes(2**24)))
    assert len(bomb) < 2**10
    packed = (200, [bomb], {"content-encoding": "gzip, gzip"})
    for opened in (with_box({"take": packed}), server(letting_in() | {"pull-messages": packed})):
        with opened as (connection, _), open_link(connection) as agent:
            agent.register()
            with pytest.raises(ValueError, match=r"no letter|protobuf"):
                agent.take()


def test_nothing_in_the_folder_where_a_server_is_started_is_run(tmp_path, monkeypatch):
    """Data come with whatever lies beside them: a csv.py that Python would take for its own."""
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "csv.py").write_text("open('ran', 'w')")
    monkeypatch.chdir(tmp_path / "here")
    child = Child("wmlr.flower.processes", [], tmp_path)
    child.start()
    child._process.wait(60)
    assert child._process.returncode == 0, child.last_lines()
    assert not (tmp_path / "here" / "ran").exists()


class Touching:
    def __reduce__(self):
        return os.mkdir, ("ran",)


def test_a_pickle_in_a_parquet_file_is_not_opened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    hidden = {
        "ARROW:extension:name": "arrow.py_extension_type",
        "ARROW:extension:metadata": pickle.dumps(Touching()),
    }
    field = pa.field("x", pa.float64(), metadata=hidden)
    table = pa.table([pa.array([1.0, 2.0]), pa.array([1.0, 3.0])], pa.schema([field, pa.field("y", pa.float64())]))
    parquet.write_table(table, "rows.parquet")
    with suppress(ValueError):
        assert tables.read("rows.parquet").names == ["x", "y"]
    assert [path.name for path in tmp_path.iterdir()] == ["rows.parquet"]


def test_two_agents_of_one_budget_spend_it_together(tmp_path):
    path = tmp_path / "budget.json"
    agents = [stock(max_epsilon=1.0, budget=Budget.read(path)) for _ in range(2)]
    terms = private_terms(noise_multiplier=10.0, rounds=1)
    spent = 0
    with suppress(ValueError):
        for turn in range(100):
            agents[turn % 2].spend(terms)
            spent += 1
    assert sum(Budget.read(path).answers.values()) == spent
    assert 0.9 < Budget.read(path).epsilon(1e-5) <= 1.0 + 1e-6


def test_an_agent_says_that_nobody_vouches_for_its_partners():
    """Where a server invents them it sees the answer itself, floors or not: the operator must know."""
    agent = stock()
    spy = Server(agent, terms=RunTerms(secure=Secure()))
    assert "partners that nobody vouches for" in spy.log[-1]
    query, found = held_with_inventions(spy, agent, 2)
    layout = NoiseEnvelope.of(query, 3, False, None, 1).layout
    np.testing.assert_allclose(found, layout.flatten(query.answer(Rows(agent.X, agent.y))), atol=1e-9)


def test_what_a_server_is_said_to_be_is_printed_by_its_numbers(capsys):
    """The reason of a refusal is for the agent's own operator, and has the server's words in it."""
    agent = stock()
    spy = Server(agent)
    spy.app = agent_app(lambda _: agent, prefixed_printer("wmlr agent north"))
    version = "\x1b[2J\x1b]0;rm -rf\x07\nwmlr agent north: all is well" + "x" * 100_000
    task = replace(spy.task, version=version).to_bytes()
    assert spy.say("join", {"terms": RunTerms().to_text(), "task": task, "run": "run"}) == REFUSED
    (line,) = capsys.readouterr().err.splitlines()
    assert line.isprintable()
    assert line.startswith(r"wmlr agent north: refused: the server has wmlr \x1b[2J")
    assert len(line) < 5000


def test_the_lock_of_a_budget_empties_no_file(tmp_path):
    (tmp_path / "kept").write_text("rows")
    (tmp_path / "budget.json.lock").symlink_to(tmp_path / "kept")
    stock(max_epsilon=1.0, budget=Budget.read(tmp_path / "budget.json")).spend(private_terms(epsilon=0.5))
    assert (tmp_path / "kept").read_text() == "rows"


def test_lines_of_a_budget_with_the_same_noise_add_up(tmp_path):
    path = tmp_path / "budget.json"
    path.write_text('[{"noise_multiplier": 5, "answers": 9}, {"noise_multiplier": 5, "answers": 1}]')
    assert Budget.read(path).answers == {5.0: 10}


FREEZING = """
import numpy as np
from wmlr import MixedLinearRegression
from wmlr.federated.messages import pack_sums
from wmlr.flower.assignment import Assignment
from wmlr.flower.refusals import RefusalError
from wmlr.flower.replay import Replay
from wmlr.flower.terms import RunTerms

wanted = MixedLinearRegression(2, family="beta", alpha=4.0, random_state=0)
fit = Replay(Assignment.of(wanted, True, 1.0), RunTerms(), ("a", "b"))
sums = {name: np.zeros(part.shape) for name, part in fit.advance([]).parts(2, False).items()}
sums |= {"weight": np.array(-1e-276), "y": np.array(1e27), "gram": -1e-293 * np.eye(3)}
try:
    fit.advance([pack_sums(sums)])
except RefusalError as error:
    print(error)
"""


def test_no_sums_hold_an_agent_for_ever():
    """Means over next to no rows are no numbers, and least squares never ended: not even a signal was heard."""
    done = subprocess.run([sys.executable, "-c", FREEZING], capture_output=True, text=True, timeout=60)
    assert "the fit cannot go on with these sums" in done.stdout
