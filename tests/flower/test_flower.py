"""Fitting over Flower: agents on a Grid in this process, and real servers and agents over the loopback address."""

import itertools
import json
import multiprocessing
import os
import re
import signal
import socket
import ssl
import stat
import sys
import threading
import time
from dataclasses import replace
from functools import cache
from importlib.machinery import SourceFileLoader
from multiprocessing import forkserver
from pathlib import Path
from types import SimpleNamespace

import httpx
import numpy as np
import pandas as pd
import pytest
from cryptography import x509
from flwr.app import Context, Error, Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.protobuf.constants import PROTOBUF_MEDIA_TYPE
from flwr.supercore.task_identity import TaskIdentity
from typer.testing import CliRunner

from longer import long
from wmlr import MixedLinearRegression
from wmlr.cli import app, main
from wmlr.datasets import make_mixed_regression
from wmlr.families import Poisson
from wmlr.federated import Federation, Privacy, Secure
from wmlr.federated.messages import pack_sums, unpack_sums
from wmlr.flower.agent import Agent
from wmlr.flower.agent_app import _from_node_config, agent_app
from wmlr.flower.answering import Memory, respond
from wmlr.flower.assignment import Assignment
from wmlr.flower.fitting import Rules, fit_among
from wmlr.flower.keys import Certificates, make_keys, public_keys
from wmlr.flower.members import TooFewAgentsError
from wmlr.flower.policy import Policy
from wmlr.flower.processes import free_port
from wmlr.flower.replay import fingerprint
from wmlr.flower.server_app import MODEL, RULES, configured_model, configured_rules
from wmlr.flower.terms import RunTerms
from wmlr.methods import Refreshed
from wmlr.methods.private import private
from wmlr.methods.task import Task
from wmlr.metrics import coefficient_error
from wmlr.statistics.moments import Moments

COLUMNS = ("x1", "x2", "x3")
NAMES = ("north", "south", "west")
TRUSTING = {"min_rows": 1, "min_agents": 2, "policy": Policy(any_question=True)}
GUARDS = ("epsilon", "delta", "clip", "x-scale", "y-scale", "agent-rows", "private-rounds", "secure")
OTHERS = {*GUARDS, "components", "level", "weighting", "out", "checkpoint"}
CELLS = RunTerms().to_text().replace('"row"', '"cell"')


def estimator():
    return MixedLinearRegression(symmetric=True, random_state=0, tol=1e-13)


def problem(n=600, snr=4, seed=0, **more):
    return make_mixed_regression(n, 3, 2, snr=snr, symmetric=True, random_state=seed, **more)


def agents_of(data, names=NAMES, **limits):
    """The rows of a problem among agents, of sizes that differ."""
    edges = np.cumsum([0, *(len(data.y) * np.arange(1, len(names) + 1) // np.arange(1, len(names) + 1).sum())])
    edges[-1] = len(data.y)
    return [
        Agent(
            name,
            data.X[low:high],
            data.y[low:high],
            COLUMNS,
            "y",
            **({"min_rows": 1, "policy": Policy(any_question=True)} | limits),
        )
        for name, low, high in zip(names, edges, edges[1:])
    ]


class LocalGrid(Grid):
    """Flower's Grid, with agents' apps in this process; replies wait to be pulled as from afar."""

    def __init__(self, agents, spoil=None):
        self.nodes = {}
        self.spoil = spoil or (lambda node, message, reply: reply)
        self.replies = {}
        self.contexts = {}
        self.told = []
        self._numbers = itertools.count(1)
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
        for agent in agents:
            self.connect(agent)

    def connect(self, agent):
        node = 100 + next(self._numbers)
        self.nodes[node] = agent_app(lambda _: agent, lambda text: self.told.append((agent.name, text)))
        self.contexts[node] = Context(1, node, {}, RecordDict(), {})
        return node

    def set_run(self, run):
        raise NotImplementedError

    run = property(lambda self: None)

    def create_message(self, *given, **more):
        raise NotImplementedError

    def get_nodes(self):
        return [SimpleNamespace(node_id=node, name="", last_activated_at="") for node in self.nodes]

    def get_node_ids(self):
        return list(self.nodes)

    def push_messages(self, messages):
        return [self._push(message) for message in messages]

    def _push(self, message):
        number, node = f"letter-{next(self._numbers)}", message.metadata.dst_node_id
        message.metadata.__dict__["_message_id"] = number
        if node in self.nodes:
            reply = self.spoil(node, message, self.nodes[node](message, self.contexts[node]))
        else:
            reply = Message(Error(5, "node unavailable"), reply_to=message)
        if reply is not None:
            self.replies[number] = reply
        return number

    def pull_messages(self, message_ids):
        return [self.replies.pop(number) for number in message_ids if number in self.replies]

    def send_and_receive(self, messages, *, timeout=None):
        raise NotImplementedError


def rules(**given):
    return Rules(**({"agents": 3, "round_timeout": 0.5, "patience": 1.0} | given))


def fitted_among(agents, wanted=None, spoil=None, **given):
    lines = []
    grid = LocalGrid(agents, spoil)
    wanted = wanted or estimator()
    return fit_among(grid, wanted, rules(agents=len(agents), **given), lines.append), lines


def central(agents, wanted=None, level="row", weighting="rows"):
    wanted = wanted or estimator()
    federation = Federation([(agent.X, agent.y) for agent in agents], level=level, weighting=weighting)
    return wanted.fit_on(federation), federation


@pytest.mark.parametrize(
    ("level", "weighting", "secure"),
    [
        *[("row", "rows", False), ("row", "agents", True), ("agent", "rows", True), ("agent", "agents", False)],
        *[long("row", "rows", True), long("row", "agents", False)],
        *[long("agent", "rows", False), long("agent", "agents", True)],
    ],
)
def test_agents_on_a_grid_give_the_fit_of_a_federation(level, weighting, secure):
    agents = agents_of(problem())
    terms = RunTerms(level, weighting, Secure() if secure else None)
    outcome, _ = fitted_among(agents, terms=terms)
    theirs, federation = central(agents, level=level, weighting=weighting)
    np.testing.assert_allclose(outcome.fitted.coef_, theirs.coef_, rtol=1e-9)
    np.testing.assert_allclose(outcome.fitted.sigma_, theirs.sigma_, rtol=1e-9)
    assert outcome.fitted.n_iter_ == theirs.n_iter_
    covariance = theirs.covariance_on(federation)
    np.testing.assert_allclose(outcome.errors["x1[1]"], np.sqrt(covariance[0, 0]), rtol=1e-6)
    ours = [line["query"] for line in outcome.engine.ledger.records()]
    assert ours == [line["query"] for line in federation.ledger.records()]
    assert all(line["secure"] == secure for line in outcome.engine.ledger.records())


def test_three_components_start_and_end_as_in_a_federation():
    data = make_mixed_regression(900, 3, 3, snr=8, random_state=1)
    agents = agents_of(data, min_rows=1)
    wanted = MixedLinearRegression(3, random_state=0, max_iter=20)
    outcome, _ = fitted_among(agents, wanted)
    theirs, _ = central(agents, MixedLinearRegression(3, random_state=0, max_iter=20, search="quick"))
    np.testing.assert_allclose(outcome.fitted.coef_, theirs.coef_, rtol=1e-7)


def test_the_quick_search_finds_a_small_component_over_flower_within_its_rounds():
    generator = np.random.default_rng(4)
    X = generator.standard_normal((600, 3))
    lines = np.array([[1.0, 1, 0], [-1, 1, 0], [0, -3, 6]])
    labels = generator.choice(3, 600, p=[0.48, 0.46, 0.06])
    y = (X * lines[labels]).sum(axis=1) + 0.3 * generator.standard_normal(600)
    wanted = MixedLinearRegression(3, random_state=0, search="quick")
    outcome, _ = fitted_among(agents_of(SimpleNamespace(X=X, y=y)), wanted)
    assert coefficient_error(outcome.fitted.coef_, lines) < 0.1
    assert outcome.fitted.search_.reached >= 1
    assert outcome.fitted.converged_
    assert len(outcome.engine.ledger) <= 80


def lying(sums, kind):
    """Bytes that an agent with something to hide might send in place of its sums."""
    name = max(sums, key=lambda part: np.size(sums[part]))
    if kind == "garbage":
        return os.urandom(400)
    if kind == "cut":
        return pack_sums(sums)[:-5]
    if kind == "shape":
        return pack_sums(sums | {name: np.zeros(np.size(sums[name]) + 1)})
    if kind == "huge":
        return pack_sums(sums | {name: sums[name] + 1e200})
    if kind == "missing":
        return pack_sums({part: value for part, value in sums.items() if part != name})
    if kind == "rows":
        return pack_sums({part: 2.0 * np.asarray(value) for part, value in sums.items()})
    data = bytearray(pack_sums(sums | {name: np.full(np.shape(sums[name]), 1234.5)}))
    at = bytes(data).index(np.float64(1234.5).tobytes())
    data[at : at + 8] = np.float64(np.nan).tobytes()
    return bytes(data)


LIES = ("garbage", "cut", "shape", "huge", "missing", "nan")


def spoiling(liar, change):
    """Changes what one agent replies to a question, by the number of the question."""
    turns = itertools.count()

    def spoil(node, message, reply):
        if node != liar or message.metadata.message_type != "query.round":
            return reply
        record = reply.content["wmlr"]
        if "sums" not in record:
            return reply
        changed = change(next(turns), unpack_sums(record["sums"]))
        if changed is None:
            return None
        record["sums"] = changed
        return reply

    return spoil


@pytest.mark.parametrize("lie", LIES)
def test_a_wrong_reply_is_dropped_and_named_and_the_run_goes_on(lie):
    agents = agents_of(problem())
    spoil = spoiling(101, lambda turn, sums: lying(sums, lie))
    outcome, lines = fitted_among(agents, spoil=spoil)
    assert any(line.startswith("agent north: reply dropped: ") for line in lines), lines
    assert any("agent north is left out from here on" in line for line in lines)
    assert not any("reply dropped" in line and "north" not in line for line in lines)
    theirs, _ = central(agents[1:])
    np.testing.assert_allclose(outcome.fitted.coef_, theirs.coef_, rtol=1e-6)
    assert outcome.engine.settled == {"south": len(agents[1]), "west": len(agents[2])}


def test_sums_of_more_rows_than_announced_are_dropped():
    spoil = spoiling(102, lambda turn, sums: lying(sums, "rows"))
    _, lines = fitted_among(agents_of(problem()), spoil=spoil)
    assert any(line.startswith("agent south: reply dropped: ") for line in lines), lines


def test_a_round_without_an_agent_is_weighed_up_to_all_rows():
    agents = agents_of(problem())
    spoil = spoiling(103, lambda turn, sums: os.urandom(9) if turn == 0 else pack_sums(sums))
    outcome, _ = fitted_among(agents, spoil=spoil, answering=0.9, errors=False)
    first = outcome.engine.ledger[0]
    assert (first.asked, first.answered) == (3, 2)
    assert outcome.fitted.history_[0]["log_likelihood"] == pytest.approx(
        central(agents)[0].history_[0]["log_likelihood"], rel=0.2
    )


def test_an_agent_that_falls_silent_is_left_behind_and_may_come_back():
    agents = agents_of(problem())
    silent = spoiling(102, lambda turn, sums: None if turn == 2 else pack_sums(sums))
    grid, lines = LocalGrid(agents), []
    held = {}

    def spoil(node, message, reply):
        kept = silent(node, message, reply)
        if kept is None:
            held[message.metadata.message_id] = reply
        elif held and node == 101:
            grid.replies.update(held)
            held.clear()
        return kept

    grid.spoil = spoil
    wanted = estimator()
    outcome = fit_among(grid, wanted, rules(), lines.append)
    assert "agent south did not answer in time: the run goes on without it" in lines
    assert any("agent south answered too late" in line for line in lines)
    assert any(line.startswith("agents came or went") for line in lines)
    assert sum(line["late"] for line in outcome.engine.ledger.records()) == 1
    np.testing.assert_allclose(outcome.fitted.coef_, central(agents)[0].coef_, rtol=1e-6)
    assert set(outcome.engine.settled) == set(NAMES)


def test_an_agent_that_joins_later_is_asked_from_then_on():
    agents = agents_of(problem())
    grid, lines = LocalGrid(agents[:2]), []
    asked = itertools.count()

    def spoil(node, message, reply):
        if message.metadata.message_type == "query.round" and next(asked) == 3:
            grid.connect(agents[2])
            time.sleep(0.6)
        return reply

    grid.spoil = spoil
    outcome = fit_among(grid, estimator(), rules(agents=2), lines.append)
    assert set(outcome.engine.settled) == set(NAMES)
    np.testing.assert_allclose(outcome.fitted.coef_, central(agents)[0].coef_, rtol=1e-6)
    assert outcome.engine.ledger[0].asked == 2
    assert outcome.engine.ledger[-1].asked == 3


def test_below_the_fewest_agents_a_run_waits_and_ends_with_a_checkpoint(tmp_path):
    agents, path = agents_of(problem()), tmp_path / "run.wmlr"
    quiet = spoiling(101, lambda turn, sums: None if turn >= 3 else pack_sums(sums))
    with pytest.raises(TooFewAgentsError, match=r"2 agents answered .* at least 3 must; the rounds so far are in"):
        fitted_among(agents, spoil=quiet, min_agents=3, checkpoint=path)
    assert path.exists()
    outcome, _ = fitted_among(agents, min_agents=3, checkpoint=path, resume=True)
    whole, _ = fitted_among(agents, min_agents=3)
    assert outcome.replayed == 3
    assert [one["log_likelihood"] for one in outcome.fitted.history_] == [
        one["log_likelihood"] for one in whole.fitted.history_
    ]
    np.testing.assert_array_equal(outcome.fitted.coef_, whole.fitted.coef_)
    assert len(outcome.engine.seconds) == len(outcome.engine.ledger)


def test_a_run_that_agents_refuse_names_the_cure():
    agents = agents_of(problem(), min_rows=40)
    with pytest.raises(TooFewAgentsError, match=r"some refuse, .* let three agents or more join, .* --min-rows"):
        fitted_among(agents, MixedLinearRegression(2, random_state=0), min_agents=3)


def test_a_run_that_agents_refuse_waits_for_nobody_else():
    """Whom a round's own agents refuse, others that might join would have to answer without them."""
    started = time.monotonic()
    with pytest.raises(TooFewAgentsError, match="some refuse"):
        fitted_among(agents_of(problem(), min_rows=40), min_agents=3, patience=60.0, round_timeout=60.0)
    assert time.monotonic() - started < 30.0


def test_a_run_whose_agents_changed_is_taken_up_as_it_was_left(tmp_path):
    agents, path = agents_of(problem()), tmp_path / "run.wmlr"
    gone = spoiling(101, lambda turn, sums: None if turn >= 2 else pack_sums(sums))
    whole, lines = fitted_among(agents, spoil=gone, checkpoint=path)
    assert any(line.startswith("agents came or went") for line in lines)
    again, _ = fitted_among(agents, checkpoint=path, resume=True)
    assert again.replayed == len(again.engine.ledger) == len(whole.engine.ledger)
    np.testing.assert_array_equal(again.fitted.coef_, whole.fitted.coef_)
    assert again.engine.settled == whole.engine.settled == {"south": len(agents[1]), "west": len(agents[2])}


def test_an_agent_with_other_columns_is_refused_by_name():
    agents = agents_of(problem())
    agents[1].columns = ("x1", "x3", "x2")
    agents[2] = Agent("west", agents[2].X[:, :2], agents[2].y, COLUMNS[:2], "y")
    outcome, lines = fitted_among(agents)
    assert "agent west is not admitted: it has 2 features where agent north has 3" in lines
    assert any(line.startswith("agent south is not admitted: its feature 2 is 'x3' where agent north has 'x2'")
               for line in lines)  # fmt: skip
    assert outcome.engine.settled == {"north": len(agents[0])}


def test_two_agents_cannot_have_one_name():
    agents = agents_of(problem(), names=("north", "north"))
    outcome, lines = fitted_among(agents)
    assert any(line.startswith("agent north is not admitted: there is an agent of this name") for line in lines)
    assert len(outcome.engine.settled) == 1


def asking(query, first=0, entries=()):
    """A server's question after so many rounds."""
    return {"first": first, "entries": list(entries), "label": query.label, "mark": fingerprint(query)}


def test_agents_hear_that_the_fit_is_done():
    heard = []
    agent = agents_of(problem())[0]
    grid = LocalGrid([])
    grid.nodes[7] = agent_app(lambda _: agent, None, lambda *told: heard.append(told))
    grid.contexts[7] = Context(1, 7, {}, RecordDict(), {})
    fit_among(grid, estimator(), rules(agents=1), lambda text: None)
    assert heard == [("the fit is done", True)]


def call(terms=None, wanted=None, errors=True):
    """What a server says to an agent that joins."""
    task = Assignment.of(wanted or estimator(), errors, 1.0)
    return {"terms": (terms or RunTerms()).to_text(), "task": task.to_bytes(), "run": "run"}


def test_an_agent_joins_no_fit_with_fewer_rows_than_its_operator_allows():
    agent = agents_of(problem(), min_rows=5000)[2]
    with pytest.raises(ValueError, match="300 rows are fewer than the 5000"):
        respond("join", call(), agent, Memory())


@pytest.mark.parametrize(
    "terms", ["", "{}", "[1]", '{"level": "row"}', RunTerms().to_text().replace("row", "cell"), None, 7]
)
def test_terms_that_are_none_are_refused(terms):
    with pytest.raises(ValueError, match=r"terms|level"):
        respond("join", call() | {"terms": terms}, agents_of(problem())[0], Memory())


def test_settings_survive_their_journey():
    settings = {"family": [Poisson(), "point-mass"], "only": {"x3": []}, "fixed": {"x1": {1: 0.5}}, "gate": ["x3"]}
    made = MixedLinearRegression(2, random_state=0, **settings)
    again = Assignment.from_bytes(Assignment.of(made, True, 1.0).to_bytes()).estimator()
    assert again.only == settings["only"]
    assert again.fixed == settings["fixed"]
    assert list(again.family) == settings["family"]
    assert list(again.gate) == ["x3"]
    broken = Assignment({**Assignment.of(made, True, 1.0).settings, "only": 3})
    with pytest.raises(ValueError, match="'only' is no list of columns"):
        broken.estimator()


def test_a_column_that_an_agent_does_not_have_is_no_offset():
    agent = agents_of(problem())[0]
    there, missing = (Assignment.of(estimator(), True, 1.0, roles={"offset": name}) for name in ("x2", "hours"))
    assert agent.card(RunTerms(), Assignment.from_bytes(there.to_bytes()))["columns"] == list(COLUMNS)
    assert "with x2 as offset" in str(there)
    with pytest.raises(ValueError, match="'hours' as offset, and the columns here are x1, x2, x3"):
        agent.card(RunTerms(), missing)


def test_terms_survive_their_journey():
    terms = RunTerms("agent", "agents", Secure(threshold=0.8), Privacy(epsilon=2.0, rounds=5, clip=3))
    assert RunTerms.of(terms.to_text()) == terms


def test_an_agent_holds_to_its_own_limits():
    task = Assignment.of(estimator(), True, 1.0)
    careful = agents_of(problem(), only_secure=True, max_epsilon=1.0)[0]
    with pytest.raises(ValueError, match="under masks only"):
        careful.card(RunTerms(), task)
    with pytest.raises(ValueError, match="noisy answers only"):
        careful.card(RunTerms(secure=Secure()), task)
    with pytest.raises(ValueError, match=r"cost to epsilon 2, above --max-epsilon 1"):
        careful.card(RunTerms(secure=Secure(), privacy=Privacy(epsilon=2.0)), task)
    assert careful.card(RunTerms(secure=Secure(), privacy=Privacy(epsilon=0.9)), task)["rows"] == 0
    plain = agents_of(problem())[0]
    joined = respond("join", call(RunTerms(secure=Secure())), plain, Memory())
    with pytest.raises(ValueError, match="under masks only"):
        respond("round", asking(Moments(fourth=True)), plain, joined.memory)


def test_a_private_run_spends_what_was_agreed_on_and_not_more():
    agents = agents_of(problem(), names=[f"a{number}" for number in range(6)])
    terms = RunTerms(privacy=Privacy(epsilon=2.0, rounds=4, y_scale=4.0, rows=100.0))
    outcome, _ = fitted_among(agents, terms=terms)
    spent = outcome.engine.privacy_spent
    assert spent.rounds == 4
    assert spent.epsilon == pytest.approx(2.0, rel=1e-2)
    assert outcome.errors is None
    assert np.all(np.isfinite(outcome.fitted.coef_))
    fresh = agents_of(problem())[0]
    memory = replace(respond("join", call(terms), fresh, Memory()).memory, answered=4)
    first = next(private(Refreshed(), Task(symmetric=True), 4, False))
    with pytest.raises(ValueError, match="the 4 noisy answers that were agreed on"):
        respond("round", asking(first), fresh, memory)


def test_noise_is_in_every_single_answer_where_the_server_sees_it():
    agent = agents_of(problem())[2]
    privacy = Privacy(epsilon=1.0, rounds=4, rows=300.0, y_scale=4.0)
    joined = respond("join", call(RunTerms(privacy=privacy)), agent, Memory())
    first = next(private(Refreshed(), Task(symmetric=True), 4, False))
    noisy = unpack_sums(respond("round", asking(first), agent, joined.memory).content["sums"])
    off = np.abs(noisy["gram"] - first.answer(agent._rows(RunTerms()))["gram"])
    assert off.min() > 0
    assert off.max() > 300.0


def test_a_secure_sum_bears_an_agent_lost_between_its_messages():
    agents = agents_of(problem(), names=("a", "b", "c", "d"))
    masked = itertools.count()

    def spoil(node, message, reply):
        lost = node == 104 and message.metadata.message_type == "query.masked" and next(masked) == 1
        return None if lost else reply

    terms = RunTerms(secure=Secure())
    outcome, lines = fitted_among(agents, spoil=spoil, terms=terms)
    assert "agent d did not answer in time: the run goes on without it" in lines
    assert outcome.engine.ledger[1].answered == 3
    np.testing.assert_allclose(outcome.fitted.coef_, central(agents[:3])[0].coef_, rtol=1e-6)


def test_a_secure_round_that_an_agent_spoils_is_held_again_without_it():
    agents = agents_of(problem(), names=("a", "b", "c", "d"))

    def spoil(node, message, reply):
        if node == 102 and message.metadata.message_type == "query.shares":
            reply.content["wmlr"]["data"] = os.urandom(99)
        return reply

    outcome, lines = fitted_among(agents, spoil=spoil, terms=RunTerms(secure=Secure()))
    assert any(line.startswith("agent b: reply dropped: ") for line in lines), lines
    assert set(outcome.engine.settled) == {"a", "c", "d"}
    np.testing.assert_allclose(outcome.fitted.coef_, central([agents[0], *agents[2:]])[0].coef_, rtol=1e-6)


def run_command(*words):
    return CliRunner().invoke(app, list(words), prog_name="wmlr")


def test_keys_are_made_once_and_are_their_owners_alone(tmp_path):
    folder = tmp_path / "keys"
    printed = run_command(
        "server", "keys", "--out", str(folder), "--agents", "2", "--host", "fit.example.org", "--host", "::1"
    )
    assert printed.exit_code == 0, printed.stderr
    secret = [folder / "ca.key", folder / "server.key", folder / "agents" / "agent-1", folder / "agents" / "agent-2"]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in secret)
    certificate = x509.load_pem_x509_certificate((folder / "server.crt").read_bytes())
    authority = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
    certificate.verify_directly_issued_by(authority)
    named = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert named.get_values_for_type(x509.DNSName) == ["fit.example.org", "localhost"]
    assert [str(one) for one in named.get_values_for_type(x509.IPAddress)] == ["::1", "127.0.0.1"]
    before = {path: path.read_bytes() for path in secret if path.name != "server.key"}
    made = make_keys(folder, ["agent-1", "agent-2", "late"])
    assert (made.agents, made.kept) == (("late",), ("agent-1", "agent-2"))
    assert all(path.read_bytes() == content for path, content in before.items())
    assert list(public_keys(folder / "agents")) == ["agent-1", "agent-2", "late"]
    assert Certificates.of(folder).authority == folder / "ca.crt"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("server", "keys"), "Missing option '--out'"),
        (("server", "keys", "--out", "k", "--names", "../a"), "an agent's name is letters"),
        (("server", "keys", "--out", "k", "--host", "ü.example"), "--host must be a name or an address"),
        (("server", "keys", "--out", "k", "--components", "3"), "No such option '--components'"),
        (("server", "--days", "3"), "No such option '--days'"),
        (("server", "fit"), "No such command 'fit'"),
        (("server",), "say how many agents take part, by --agents N"),
        (("server", "--agents", "1", "--secure"), "with --agents 1 that sum is the answer itself"),
        (("server", "--agents", "3", "--host", "0.0.0.0"), "0.0.0.0 is another machine: add --tls"),
        (("server", "--agents", "3", "--keys", "k"), "--keys are shown over TLS only"),
        (("server", "--agents", "3", "--tls", "k"), "there is no k/ca.crt"),
        (("server", "--agents", "3", "--min-agents", "4"), "--min-agents must be from 1 to --agents"),
        (("server", "--agents", "3", "--level", "both"), "level must be row or agent (got 'both')"),
        (("server", "--agents", "3", "--resume"), "--resume takes up the run of a --checkpoint FILE"),
        (("server", "--agents", "3", "--epsilon", "-1", "--y-scale", "1", "--agent-rows", "9"), "epsilon must be"),
        (("server", "--agents", "3", "--epsilon", "1"), "noise is measured by public numbers"),
        (("server", "--agents", "3", "--symmetric", "--components", "3"), "--symmetric means two components"),
        (("server", "--agents", "3", "--out", "."), "is a folder: name a file in it"),
        (("server", "--agents", "3", "--report", "run.pdf"), "run.pdf does not end like a page"),
        (("server", "keys", "--out", "k", "--report", "run.html"), "No such option '--report'"),
        (("agent", "--data", "tone", "--target", "tuned", "--server", "there"), "--server must be HOST:PORT"),
        (("agent", "--data", "tone", "--target", "tuned", "--server", "a.b:1"), "a.b is another machine"),
        (("agent", "--data", "tone", "--target", "tuned", "--server", "a.b:1", "--tls", "no"), "there is no file no"),
        (("agent", "--data", "tone", "--target", "y", "--server", "localhost:1"), "tone has no column 'y'"),
        (("agent", "--data", "tone", "--target", "tuned", "--server", "localhost:1", "--min-rows", "999"),
         "tone has 150 rows and --min-rows is 999"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_clear_line_before_anything_starts(words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run_command(*words)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_taken_port_is_said(monkeypatch):
    monkeypatch.setattr("wmlr.flower.serving.RELEASE", 0.2)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = run_command("server", "--agents", "1", "--port", str(taken.getsockname()[1]))
    assert result.exit_code == 2
    assert "choose another --port" in result.stderr


@pytest.mark.parametrize(
    "words", [("server",), ("agent", "--data", "tone", "--target", "tuned", "--server", "localhost:1")]
)
def test_without_flower_one_line_says_what_to_install(words, monkeypatch):
    monkeypatch.setattr("wmlr.flower.find_spec", lambda name: None)
    result = run_command(*words)
    assert result.exit_code == 1
    assert result.stderr == "wmlr: a real federation needs Flower: pip install 'wmlr[flower]'\n"


def test_the_app_is_one_that_flwr_run_takes():
    from flwr.cli.build import build_fab_from_disk
    from flwr.cli.config_utils import load_and_validate

    folder = Path(__file__).parents[2] / "examples" / "flower"
    config, warnings = load_and_validate(folder / "pyproject.toml")
    assert not warnings
    assert build_fab_from_disk(folder)
    given = {name.replace("-", "_"): value for name, value in config["tool"]["flwr"]["app"]["config"].items()}
    assert configured_rules(given) == Rules(agents=2, round_timeout=120.0)
    assert configured_model(given).get_params() == MixedLinearRegression(random_state=0).get_params()
    names = {name.replace("_", "-") for name in (*MODEL, *RULES)}
    assert config["tool"]["flwr"]["app"]["config"].keys() <= names | OTHERS


def test_an_agent_of_a_plain_supernode_reads_the_file_its_operator_named(tmp_path):
    context = Context(1, 7, {"target": "tuned"}, RecordDict(), {})
    with pytest.raises(ValueError, match="names no data"):
        _from_node_config(context)
    context.node_config["data"] = "tone"
    agent = _from_node_config(context)
    assert (agent.name, len(agent), agent.columns) == ("node-7", 150, ("stretchratio",))


SLOW = ("--symmetric", "--method", "em", "--start", "random")
QUICK = ("--pause", "0.2", "--min-rows", "1", "--any-question")
GENEROUS = 240.0
TRACED = Path(__file__).parents[1] / "traced"


def run_program(folder, out, err, words, liar, environment):
    """In a process of its own: be the program ``wmlr``, apart from the terminal."""
    os.environ.update(environment)
    if "WMLR_TRACED" in environment:
        SourceFileLoader("traced", str(TRACED / "sitecustomize.py")).load_module()
    os.setsid()
    os.chdir(folder)
    for path, stream in ((out, sys.stdout), (err, sys.stderr)):
        with path.open("wb") as file:
            os.dup2(file.fileno(), stream.fileno())
    sys.argv = ["wmlr", *words]
    be_a_liar() if liar else main()


@cache
def start_imported_processes():
    """Processes that begin with all modules imported, by a fork of one that did nothing else: quicker by seconds."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "wmlr.cli.agent", "wmlr.cli.server", "wmlr.flower.joining",
                                    "wmlr.flower.serving"])  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(map(os.path.abspath, sys.path)))
        forkserver.ensure_running()
    return context


class Program:
    """A ``wmlr`` of its own, with what it says in files; it is ended by its id."""

    def __init__(self, folder, name, *words, liar=False, **environment):
        self.out, self.err = folder / f"{name}.out", folder / f"{name}.err"
        self.out.touch()
        self.err.touch()
        given = folder, self.out, self.err, [*map(str, words)], liar, environment
        self.process = start_imported_processes().Process(target=run_program, args=given)
        self.process.start()

    def said(self):
        return self.err.read_text() + self.out.read_text()

    def wait_for(self, words, times=1):
        """Wait until it has said something so many times."""
        until = time.monotonic() + GENEROUS
        while len(re.findall(words, self.said())) < times:
            assert time.monotonic() < until, f"{words!r} never came: {self.said()}"
            assert self.process.is_alive(), f"it ended before {words!r}: {self.said()}"
            time.sleep(0.05)

    def finish(self, code=0):
        """Wait for its end, and return what it printed."""
        self.process.join(GENEROUS)
        assert not self.process.is_alive(), f"it did not end: {self.said()}"
        assert self.process.exitcode == code, self.said()
        return self.out.read_text()

    def children(self):
        """The ids of the processes it has started."""
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def crash(self):
        """End it and what it has started, as a power cut would."""
        for pid in [self.process.pid, *self.children()]:
            os.kill(pid, signal.SIGKILL)
        self.process.join()

    def interrupt(self):
        os.kill(self.process.pid, signal.SIGINT)

    def end(self):
        self.process.terminate()
        self.process.join(20)
        self.process.kill()
        self.process.join()


class Stage:
    """One deployment: a folder, a port, agents' files, and the programs that were started."""

    def __init__(self, folder, data, names=NAMES):
        self.folder, self.port, self.names = folder, free_port(), names
        self.programs, self.environment = [], {}
        self.agents = agents_of(data, names)
        for agent in self.agents:
            lines = [",".join([*COLUMNS, "y"])]
            lines += [",".join(map(repr, map(float, row))) for row in np.column_stack([agent.X, agent.y])]
            (folder / f"{agent.name}.csv").write_text("\n".join(lines))

    def start(self, name, *words, liar=False):
        program = Program(self.folder, name, *words, liar=liar, **self.environment)
        self.programs.append(program)
        return program

    def server(self, name, *words):
        return self.start(name, "server", "--port", self.port, *words)

    def agent(self, name, *words, liar=False):
        where = ("--server", f"127.0.0.1:{self.port}")
        return self.start(name, "agent", "--data", f"{name}.csv", "--target", "y", "--name", name, *where, *QUICK,
                          *words, liar=liar)  # fmt: skip

    def trace(self):
        """Let all programs from now on write down which files of the library they call."""
        folder = self.folder / "traced"
        folder.mkdir()
        path = os.pathsep.join([str(TRACED), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.environment = {"PYTHONPATH": path, "WMLR_TRACED": str(folder)}

    def called(self):
        return {line for file in (self.folder / "traced").iterdir() for line in file.read_text().splitlines()}

    def close(self):
        for program in self.programs:
            program.end()


def with_keys(stage):
    """Agents with keys, and one without; the server is killed in the middle and taken up again."""
    folder = stage.folder
    make_keys(folder / "keys", stage.names)
    make_keys(folder / "elsewhere", ["stranger"])
    secret = ("--tls", "keys", "--keys", "keys/agents", "--agents", "3", "--min-agents", "3")
    run = (*SLOW, *secret, "--plain", "--checkpoint", "run.wmlr", "--report", "run.html", "--json")
    first = stage.server("first", *run)
    agents = [stage.agent(name, "--tls", "keys/ca.crt", "--key", f"keys/agents/{name}") for name in stage.names]
    (folder / "stranger.csv").write_bytes((folder / f"{stage.names[0]}.csv").read_bytes())
    stranger = stage.agent("stranger", "--tls", "keys/ca.crt", "--key", "elsewhere/agents/stranger", "--patience", "1")
    first.wait_for("listening on")
    door = knocked(stage.port, folder / "keys" / "ca.crt")
    first.wait_for("iteration 3:")
    first.process.kill()
    first.process.join()
    second = stage.server("second", *run, "--resume")
    told = json.loads(second.finish())
    for agent in agents:
        agent.finish()
    stranger.finish(code=1)
    return SimpleNamespace(told=told, agents=agents, stranger=stranger, second=second, door=door)


def knocked(port, authority):
    """The status with which a SuperLink answers a command from whoever comes along."""
    trusted = ssl.create_default_context(cafile=str(authority))
    paths = ("/v1/control/register-node", "/v1/control/start-run", "/v1/runtime/acquire-task", "/docs")
    headers = {"content-type": PROTOBUF_MEDIA_TYPE}
    return [
        httpx.post(f"https://127.0.0.1:{port}{path}", verify=trusted, headers=headers).status_code for path in paths
    ]


def with_trouble(stage):
    """An agent that lies four times, and one that crashes in the middle."""
    server = stage.server("server", *SLOW, "--plain", "--agents", "3", "--round-timeout", "15", "--json")
    agents = {name: stage.agent(name, liar=name == "liar") for name in stage.names}
    server.wait_for("reply dropped", times=4)
    agents["south"].crash()
    told = json.loads(server.finish())
    for name in stage.names:
        if name != "south":
            agents[name].finish()
    return SimpleNamespace(told=told, server=server)


def with_privacy(stage):
    """Agents that stay for two fits: one under masks, one with noise; then both sides are stopped by Ctrl-C."""
    agents = [stage.agent(name, "--stay") for name in stage.names]
    three = ("--symmetric", "--agents", "3")
    masked = stage.server("masked", *three, "--no-errors", "--audit", "audit", "--json")
    told = json.loads(masked.finish())
    noise = ("--epsilon", "2", "--private-rounds", "3", "--y-scale", "4", "--agent-rows", "200")
    noisy = stage.server("noisy", *three, "--plain", *noise, "--report", "noisy.html")
    printed = noisy.finish()
    assert not any(agent.children() for agent in agents)
    for agent in agents:
        agent.interrupt()
    waiting = stage.server("waiting", "--agents", "9")
    waiting.wait_for("listening")
    nodes = waiting.children()
    waiting.interrupt()
    for program in (waiting, *agents):
        program.finish(code=130)
    return SimpleNamespace(told=told, printed=printed, agents=agents, nodes=nodes, audit=stage.folder / "audit")


def counts():
    """Counts of two kinds, the first the likelier the larger x3; x2 is an offset."""
    generator = np.random.default_rng(3)
    X = generator.standard_normal((900, 3))
    first = generator.random(900) < 1 / (1 + np.exp(-0.5 - 1.5 * X[:, 2]))
    line = np.where(first, 0.5 + 0.6 * X[:, 0], 2.5 - 0.4 * X[:, 0]) + X[:, 1]
    return SimpleNamespace(X=X, y=generator.poisson(np.exp(line)).astype(float))


def with_counts(stage):
    """Counts whose components' weights depend on a column, with another as offset, under masks."""
    stage.trace()
    model = ("--family", "poisson", "--gate", "x3", "--offset", "x2")
    server = stage.server("server", "--agents", "3", *model, "--json", "--out", "m.json", "--checkpoint", "run.wmlr")
    agents = [stage.agent(name) for name in stage.names]
    told = json.loads(server.finish())
    for agent in agents:
        agent.finish()
    return SimpleNamespace(told=told, model=MixedLinearRegression.load(stage.folder / "m.json"))


STAGES = {
    "keys": (with_keys, NAMES, lambda: problem(snr=0.7)),
    "trouble": (with_trouble, ("liar", "south", "west"), lambda: problem(snr=0.7)),
    "privacy": (with_privacy, NAMES, lambda: problem(snr=4)),
    "counts": (with_counts, NAMES, counts),
}


@pytest.fixture(scope="module")
def deployed(tmp_path_factory):
    """The outcome of a deployment; all of them run at the same time, since they mostly wait."""
    results, stages = {}, {}

    def play(name, act):
        try:
            results[name] = act(stages[name])
        except BaseException as error:
            results[name] = error

    start_imported_processes()  # before there are threads
    threads = {}
    for name, (act, names, data) in STAGES.items():
        stages[name] = Stage(tmp_path_factory.mktemp(name), data(), names)
        threads[name] = threading.Thread(target=play, args=(name, act))
        threads[name].start()

    def outcome(name):
        threads[name].join(2 * GENEROUS)
        assert name in results, f"{name} hangs: {[program.said() for program in stages[name].programs]}"
        if isinstance(results[name], BaseException):
            raise results[name]
        return stages[name], results[name]

    yield outcome
    for stage in stages.values():
        stage.close()
    for thread in threads.values():
        thread.join(GENEROUS)


def slow_estimator():
    return MixedLinearRegression(symmetric=True, method="em", start="random", random_state=0)


def coefficients(told):
    return np.array([list(part["coef"].values()) for part in told["components"]])


@pytest.mark.long
def test_a_round_over_flower_goes_through_the_files_that_the_map_names(deployed):
    stage, _ = deployed("counts")
    told = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
    way = told[told.index("Over Flower, `wmlr server`") : told.index("## To add a method")]
    named = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", way))
    assert len(named) > 15
    assert named - stage.called() == set()


def test_a_server_killed_and_taken_up_ends_where_a_central_fit_does(deployed):
    stage, result = deployed("keys")
    theirs, federation = central(stage.agents, slow_estimator())
    np.testing.assert_allclose(coefficients(result.told), theirs.coef_, rtol=1e-8)
    path = [one["log_likelihood"] for one in result.told["history"]]
    np.testing.assert_allclose(path, [one["log_likelihood"] for one in theirs.history_], rtol=1e-10)
    assert result.told["replayed"] >= 4
    assert len(result.told["ledger"]) == len(federation.ledger) + 2
    errors = np.sqrt(np.diag(theirs.covariance_on(federation)))
    assert result.told["standard_errors"]["x1[1]"] == pytest.approx(errors[0], rel=1e-6)
    assert result.told["agents"] == {agent.name: len(agent) for agent in stage.agents}
    for agent in result.agents:
        assert "the server says: the fit is done" in agent.said()
    page = (stage.folder / "run.html").read_text()
    sections = ["words", "coefficients", "convergence", "rounds", "influence", "agents"]
    assert re.findall(r'<section id="(\w+)"', page) == sections
    for agent in stage.agents:
        assert f'<th scope="row">{agent.name}</th><td>{len(agent):,}</td>' in page
    assert f"{int(result.told['totals']['bytes']):,}" in page
    assert f"in {len(result.told['ledger'])} rounds" in page
    assert 'data-view="seconds"' in page


def test_an_agent_whose_key_is_not_enlisted_is_refused(deployed):
    _, result = deployed("keys")
    assert "does not let this agent in" in result.stranger.said()
    assert "stranger" not in result.second.said()


def test_nobody_else_commands_the_server(deployed):
    _, result = deployed("keys")
    assert result.door[:2] == [403, 403]
    assert result.door[2] in (401, 403)
    assert result.door[3] == 403


def test_a_run_goes_on_past_a_liar_and_a_crash(deployed):
    stage, result = deployed("trouble")
    said = result.server.said()
    assert said.count("agent liar: reply dropped: ") == 4
    assert "does not begin as a message" in said
    assert "not finite" in said
    assert "larger than" in said
    assert "has shape" in said
    assert "agent south did not answer in time: the run goes on without it" in said
    left = [agent for agent in stage.agents if agent.name != "south"]
    assert result.told["agents"] == {agent.name: len(agent) for agent in left}
    theirs, _ = central(left, slow_estimator().set_params(tol=1e-13))
    np.testing.assert_allclose(coefficients(result.told), theirs.coef_, rtol=2e-2)
    assert result.told["ledger"][0]["answered"] == 2
    assert result.told["ledger"][-1]["answered"] == 2


def test_a_secure_fit_is_the_plain_one_and_shows_no_agent_to_the_server(deployed):
    from wmlr.federated.privacy.fixed import encode
    from wmlr.federated.privacy.layout import AnswerLayout
    from wmlr.federated.privacy.protocol import Masked, unpack_message

    stage, result = deployed("privacy")
    theirs, _ = central(stage.agents, MixedLinearRegression(symmetric=True, random_state=0))
    np.testing.assert_allclose(coefficients(result.told), theirs.coef_, rtol=1e-9)
    assert all(line["secure"] for line in result.told["ledger"])
    kept = sorted(result.audit.iterdir())
    assert not any(path.suffix == ".sums" for path in kept)
    first = [unpack_message(path.read_bytes(), Masked).words for path in kept if "-masked-" in path.name][:3]
    query = Moments(fourth=True)
    own = [
        encode(AnswerLayout.of(query, 3, False).flatten(query.answer(agent._rows(RunTerms()))))
        for agent in stage.agents
    ]
    assert {len(words) for words in first} == {len(words) for words in own}
    for masked in first:
        assert len(np.unique(masked >> np.uint64(56))) > 0.2 * min(len(masked), 256)
        for words in own:
            assert np.mean(masked == words) < 0.05


def test_a_private_fit_says_what_it_cost_on_both_sides(deployed):
    stage, result = deployed("privacy")
    cost = r"epsilon (\S+) at delta 1e-05 for each agent with all its rows: 3 rounds"
    assert float(re.search(cost, result.printed)[1]) == pytest.approx(2.0, rel=1e-2)
    for agent in result.agents:
        assert re.search(cost, agent.said()), agent.said()
    page = (stage.folder / "noisy.html").read_text()
    assert re.search(cost, page)
    assert "Estimates alone" in page
    assert page.count("not told") == 4


def test_ctrl_c_ends_everything_that_was_started(deployed):
    _, result = deployed("privacy")
    assert len(result.nodes) == 1
    for pid in result.nodes:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_counts_with_a_gate_and_an_offset_are_fitted_among_agents_under_masks(deployed):
    stage, result = deployed("counts")
    settings = {"family": "poisson", "gate": ["x3"], "only": {"x3": []}, "random_state": 0, "search": "quick"}
    X, y = (np.concatenate([getattr(agent, part) for agent in stage.agents]) for part in ("X", "y"))
    frame, offset = pd.DataFrame(X, columns=COLUMNS).drop(columns="x2"), X[:, 1]
    theirs = MixedLinearRegression(2, **settings).fit(frame, y, offset=offset)
    assert result.told["features"] == ["x1", "x3"]
    np.testing.assert_allclose(coefficients(result.told), theirs.coef_, atol=1e-5)
    assert result.told["log_likelihood"] == pytest.approx(theirs.log_likelihood_, abs=1e-5)
    np.testing.assert_allclose(result.model.gate_coef_, theirs.gate_coef_, atol=1e-4)
    found = theirs.confidence_intervals(frame, y, offset=offset)
    errors = dict(zip(found.names, found.errors))
    assert result.told["standard_errors"]["gate x3[1]"] == pytest.approx(errors["gate x3[1]"], rel=1e-4)
    assert all(line["secure"] for line in result.told["ledger"])


def be_a_liar():
    """An agent that replaces four of its answers."""
    from wmlr.flower import answering

    lies = iter(("garbage", "nan", None, "huge", "shape"))
    honest = answering.pack_sums

    def pack_lies(sums):
        lie = next(lies, None)
        return honest(sums) if lie is None else lying(sums, lie)

    answering.pack_sums = pack_lies
    main()


@pytest.mark.parametrize("secure", [False, True])
def test_a_liar_on_a_grid_is_named_and_the_fit_is_that_of_the_others(secure):
    names = tuple("abcdefghi" if secure else "abcdef")  # a secure sum is of groups, which the liar spoils one of
    data = make_mixed_regression(200 * len(names), 3, 2, snr=5, symmetric=True, random_state=3)
    agents = [
        Agent(name, data.X[first : first + 200], data.y[first : first + 200], COLUMNS, "y", **TRUSTING)
        for name, first in zip(names, range(0, len(data.y), 200))
    ]
    agents[4] = replace(agents[4], y=7.0 * agents[4].y[::-1] + 2.0)
    with pytest.warns(UserWarning, match="agents left out of the fit: e: "):
        outcome, lines = fitted_among(agents, terms=RunTerms(secure=Secure() if secure else None), trust="majority")
    honest = [agent for agent in agents if agent.name != "e"]
    np.testing.assert_allclose(outcome.fitted.coef_, central(honest)[0].coef_, rtol=1e-6)
    assert set(outcome.engine.settled) == set(names) - {"e"}
    assert any(line.startswith("agent e is left out of the fit: ") for line in lines)
    assert outcome.engine.ledger.influence is not None
