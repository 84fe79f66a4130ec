"""A server that wants an agent's rows: whatever it asks, forges, repeats or invents, it gets sums of many rows.

The agent is a stock one; the server knows its code, and says to it what it likes.
"""

import asyncio
import json
import socket
import ssl
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from flwr.app import Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from scipy import stats
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from typer.testing import CliRunner

from wmlr import GDA, MixedLinearRegression
from wmlr.cli import app
from wmlr.core.query import Query
from wmlr.core.round import Rows, Sampled, Together
from wmlr.datasets import make_mixed_regression
from wmlr.features.maps import Mapped
from wmlr.features.transformers import Described
from wmlr.federated.floors import Disclosure, fewest_rows, shares_in, weights_in
from wmlr.federated.messages import MessageError, pack_sums, query_kinds, unpack_sums
from wmlr.federated.messages import pack as pack_query
from wmlr.federated.privacy import Privacy, Secure
from wmlr.federated.privacy.agent import SecureAgent
from wmlr.federated.privacy.budget import Budget
from wmlr.federated.privacy.fixed import DIGITS, decode, encode
from wmlr.federated.privacy.noise import NoiseEnvelope
from wmlr.federated.privacy.protocol import Keys, Masked, Roster, pack_message, unpack_message
from wmlr.federated.privacy.server import SecureServer
from wmlr.federated.wire import MAGIC, PREFIX, VERSION
from wmlr.flower import keys as flower_keys
from wmlr.flower import superlink
from wmlr.flower.admission import Member, agent_from_card
from wmlr.flower.agent import Agent
from wmlr.flower.agent_app import agent_app
from wmlr.flower.answering import Memory, respond
from wmlr.flower.assignment import Assignment
from wmlr.flower.joining import RefusedError, join, tls_mismatch
from wmlr.flower.keys import make_keys
from wmlr.flower.letterboxes import ACTIVATE
from wmlr.flower.link import Connection
from wmlr.flower.messages import pack, unpack
from wmlr.flower.policy import Policy
from wmlr.flower.replay import Replay, fingerprint
from wmlr.flower.superlink import HEADER, MOST_BYTES_OF_STRANGERS, PUSH_OBJECT, Door
from wmlr.flower.terms import RunTerms
from wmlr.flower.vouching import Vouching
from wmlr.statistics.grain import Grain
from wmlr.statistics.moments import Moments
from wmlr.statistics.robust import Histogram, Trimmed
from wmlr.statistics.score import MixtureScore
from wmlr.statistics.symmetric_score import SymmetricScore

COLUMNS = ("x1", "x2", "x3")
SYMMETRIC = MixedLinearRegression(symmetric=True, random_state=0)


def stock(**limits):
    """An agent as ``wmlr agent --min-rows 50`` makes it."""
    data = make_mixed_regression(200, 3, 2, snr=4, symmetric=True, random_state=0)
    return Agent("north", data.X, data.y, COLUMNS, "y", **({"min_rows": 50} | limits))


class Server:
    """What a server can do to an agent: send it a message, and read the reply as it came over the wire."""

    def __init__(self, agent, wanted=SYMMETRIC, terms=None, run="run", errors=True):
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
        self.log = []
        self.app = agent_app(lambda _: agent, self.log.append)
        self.context = Context(1, 7, {}, RecordDict(), {})
        self.task = Assignment.of(wanted, errors, 1.0) if isinstance(wanted, MixedLinearRegression) else wanted
        self.terms, self.run = terms or RunTerms(), run
        self.card = self.say("join", {"terms": self.terms.to_text(), "task": self.task.to_bytes(), "run": run})

    def say(self, action, content):
        message = Message(pack(content), 7, f"query.{action}")
        message.metadata.__dict__["_message_id"] = "letter"
        return unpack(self.app(message, self.context))

    def ask(self, query, first=0, entries=(), **more):
        asked = {"first": first, "entries": list(entries), "label": query.label, "mark": fingerprint(query)}
        return self.say("round", asked | more)


FIRST = Moments(fourth=True)
REFUSED = {"refusal": "refused"}
ROW = {"coef": np.ones((3, 200)), "log_weights": np.full(200, -np.log(200.0)), "s2": np.full(200, 1e-9)}
QUESTIONS = {
    "two million edges": Histogram(np.linspace(-10, 10, 2_000_000)),
    "one component per row, with Grams": MixtureScore(**ROW, grams=True),
    "trimmed moments": Trimmed(Moments(), -1.0, 1.0),
    "trimmed moments, a little wider": Trimmed(Moments(), -1.0, 1.001),
    "a sample": Sampled(Moments(), 0.01),
    "a sample of features": Mapped(Described.of(StandardScaler().fit(np.eye(3))), Sampled(FIRST, 0.01)),
    "the first question inside another": Together((FIRST, Histogram(np.linspace(-9, 9, 999)))),
    "another state": SymmetricScore(np.ones(3), 1e-9),
    "without the fourth moments": Moments(),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_agent_answers_what_its_own_fit_asks_and_nothing_else(name):
    server = Server(stock())
    assert server.ask(QUESTIONS[name]) == REFUSED
    assert set(unpack_sums(server.ask(FIRST)["sums"])) == set(FIRST.parts(3, False))


def test_the_name_of_the_right_question_gets_the_right_answer_whatever_is_sent_with_it():
    agent = stock()
    server = Server(agent)
    sums = unpack_sums(server.ask(FIRST, queries=[b"WMLR"])["sums"])
    for name, value in FIRST.answer(Rows(agent.X, agent.y)).items():
        np.testing.assert_allclose(sums[name], value)


def honest_sums(agent, query):
    return pack_sums(query.answer(Rows(agent.X, agent.y)))


def test_a_question_asked_again_gets_the_same_bytes_and_the_past_cannot_be_changed():
    agent = stock()
    server = Server(agent)
    first = server.ask(FIRST)
    assert server.ask(FIRST) == first
    true, forged = honest_sums(agent, FIRST), honest_sums(stock(), FIRST)[:-8] + np.float64(1e6).tobytes()
    assert server.ask(SymmetricScore(np.ones(3), 1.0), 0, [true]) == REFUSED
    assert server.ask(FIRST, 0, [forged]) == {"seen": 1}
    assert server.ask(FIRST, 0, []) == {"seen": 1}


def test_questions_refused_or_repeated_come_to_an_end():
    agent = stock(policy=Policy(max_trouble=5))
    server = Server(agent)
    replies = [server.ask(QUESTIONS["a sample"]) for _ in range(5)]
    assert replies == [REFUSED] * 5
    assert server.ask(FIRST) == REFUSED
    assert "answers nothing more" in server.log[-1]
    assert Server(agent, run="another").card == REFUSED


def test_refusals_that_follow_from_rows_come_to_an_end_sooner():
    """Each of them says something of the rows: after four the agent answers nothing more."""
    agent = stock()
    agent.y[7] = 1e6
    replies = [Server(agent, run=f"run {run}").ask(FIRST) for run in range(4)]
    assert replies == [REFUSED] * 4
    assert agent.trouble >= agent.policy.max_trouble
    assert "answers nothing more" in Server(agent, run="another").log[-1]


def test_answers_that_cannot_be_made_are_refusals_that_follow_from_rows():
    """Numbers too large for a secure sum tell how large the rows' are, under masks as well."""
    agent = stock(min_rows=1)
    agent.y[7] = 1e60
    agent.answer(FIRST, RunTerms(secure=Secure()))
    server = Server(agent, terms=RunTerms(secure=Secure()))
    with pytest.raises(KeyError, match="data"):  # no words came
        words_under_masks(server, FIRST, [])
    assert agent.trouble == 5
    assert "does not fit the secure sum" in server.log[-1]


def test_a_refusal_is_one_word_whatever_the_reason():
    nan = stock()
    agents = {
        "rows": stock(min_rows=5000),
        "secure": stock(only_secure=True),
        "noise": stock(max_epsilon=1.0),
        "components": stock(policy=Policy(max_components=1)),
        "question": stock(),
        "shape": stock(),
        "nan": nan,
        "text": stock(),
        "secret": stock(),
    }
    replies, logs = [], []
    for name, agent in agents.items():
        server = Server(agent)
        reply = server.card
        if name == "question":
            reply = server.ask(QUESTIONS["a sample"])
        elif name == "shape":
            reply = server.ask(FIRST, 0, [pack_sums({"gram": np.ones(3)})])
        elif name == "nan":
            agent.y[3] = np.nan
            reply = server.ask(FIRST)
        elif name == "text":
            reply = server.say("round", {"first": "x", "entries": "y"})
        elif name == "secret":
            reply = server.say("keys", {"me": 1})
        replies.append(reply)
        logs.append(server.log[-1])
    assert replies == [REFUSED] * len(agents)
    assert len(set(logs)) == len(agents)
    assert all(line.startswith("refused: ") for line in logs)


@pytest.mark.parametrize(
    ("wanted", "policy", "reason"),
    [
        (MixedLinearRegression(200, random_state=0), Policy(), "200 components are more than"),
        (SYMMETRIC, Policy(methods=("em",)), "the method is Refreshed, and --methods allows em"),
        (MixedLinearRegression(2, start=np.eye(2, 3), random_state=0), Policy(own_start=True), "gives the start"),
        (Assignment.of(SYMMETRIC, True, 1.0, follows=False), Policy(), "the server asks what it likes"),
        (replace(Assignment.of(SYMMETRIC, True, 1.0), version="99.0"), Policy(), "the server has wmlr 99.0"),
        (Assignment({"n_components": 2, "os": "x"}), Policy(), "no settings os"),
        (Assignment.of(MixedLinearRegression(random_state=None), True, 1.0), Policy(), "does not say how it draws"),
        (
            Assignment.of(SYMMETRIC.__class__(**(SYMMETRIC.get_params() | {"tol": -1.0})), True, 1.0),
            Policy(),
            "tol must",
        ),
    ],
)
def test_a_fit_that_the_operator_does_not_allow_is_not_joined(wanted, policy, reason):
    server = Server(stock(policy=policy), wanted)
    assert server.card == REFUSED
    assert reason in server.log[-1]


def test_questions_of_the_servers_own_have_no_more_components_than_the_operator_allows():
    server = Server(
        stock(min_rows=1, policy=Policy(any_question=True)), Assignment.of(SYMMETRIC, True, 1.0, follows=False)
    )
    many, few = MixtureScore(**ROW), MixtureScore(np.ones((3, 2)), np.log([0.5, 0.5]), np.ones(2))
    assert server.say("round", {"query": pack_query(many)}) == REFUSED
    assert "200 components are more than --max-components 20" in server.log[-1]
    assert "sums" in server.say("round", {"query": pack_query(few)})


def test_no_more_questions_are_answered_than_the_operator_allows():
    agent = stock(policy=Policy(max_rounds=1))
    server = Server(agent)
    assert "sums" in server.ask(FIRST)
    assert Server(agent, run="again").ask(FIRST) == REFUSED


def test_fits_begun_under_ever_new_names_come_to_an_end():
    """Each could be held among other partners: the difference of two sums is the answer of who was left out."""
    agent = stock(policy=Policy(max_runs=5))
    replies = [Server(agent, run=f"run {number}").ask(FIRST) for number in range(9)]
    assert [reply == REFUSED for reply in replies] == [False] * 5 + [True] * 4
    assert Policy().max_runs == 20


@pytest.mark.parametrize(
    "entry",
    [b"", b"WMLR", b"again", b"interrupted", b"\x00" * 99, pack_sums({"gram": np.zeros((3, 3))})],
)
def test_sums_that_cannot_be_are_the_end_of_the_fit(entry):
    server = Server(stock())
    assert server.ask(FIRST, 0, [entry]) == REFUSED
    assert server.ask(FIRST, 1, []) == REFUSED


LONG = json.dumps(
    {"what": "sums", "content": {"dict": {"a": {"array": "<f8" * 7_000_000, "shape": [1], "order": "C"}}}}
)


def test_a_type_of_twenty_million_letters_is_refused_before_it_is_read():
    started = time.monotonic()
    with pytest.raises(MessageError, match="header"):
        unpack_sums(PREFIX.pack(MAGIC, VERSION, len(LONG)) + LONG.encode())
    assert time.monotonic() - started < 1.0


@pytest.mark.parametrize(
    "settings",
    [
        {"solver": GDA(local_steps=10_000, expectation="fresh", samples=4096), "symmetric": True},
        {"solver": GDA(expectation="fresh", samples=100_000), "symmetric": True},
        {"solver": GDA(nodes=100_000), "symmetric": True},
        {"features": PolynomialFeatures(60)},
    ],
)
def test_work_without_end_is_refused_before_it_begins(settings):
    agent = stock()
    server = Server(agent, MixedLinearRegression(**settings, random_state=0))
    started = time.monotonic()
    entries, reply = [], server.card
    while reply != REFUSED and len(entries) < 6:
        replay = agent.run("run", server.terms, server.task.to_bytes()).replay
        first = replay.read
        query = replay.advance(entries[first:])
        replay.read = len(entries)
        reply = server.ask(query, len(entries), [])
        entries += [reply["sums"]] if "sums" in reply else []
    assert reply == REFUSED
    assert time.monotonic() - started < 20.0


def rows_of(agent):
    return Rows(agent.X, agent.y)


def test_what_leaves_in_the_clear_stands_on_enough_of_the_rows_answered_for():
    agent = stock()
    rows, inside = rows_of(agent), np.sort(agent.y)
    assert fewest_rows(FIRST, rows) == 200
    assert fewest_rows(Grain(), rows) == 200
    assert fewest_rows(Histogram(np.array([inside[3], inside[100]])), rows) == 3
    assert fewest_rows(Trimmed(FIRST, inside[5], inside[150]), rows) == 54
    assert fewest_rows(Trimmed(FIRST, inside[0], inside[196]), rows) == 3
    phi = Described.of(StandardScaler().fit(agent.X))
    for query in (Mapped(phi, Sampled(FIRST, 0.03, 1)), Sampled(Mapped(phi, FIRST), 0.03, 1)):
        seen = []

        class Spy(Moments):
            def answer(self, rows, seen=seen):
                seen.append(len(rows))
                return super().answer(rows)

        inner = query.query.query
        spied = replace(query, query=replace(query.query, query=Spy(inner.intercept, inner.fourth)))
        spied.answer(rows)
        assert fewest_rows(query, rows) == seen[0] < 50


def test_a_component_that_stands_on_one_row_does_not_leave():
    agent = stock()
    row = agent.X[7]
    through = row * agent.y[7] / float(row @ row)
    coef = np.column_stack([through, np.zeros(3)])
    alone = MixtureScore(coef, np.log([0.5, 0.5]), np.array([1e-12, 25.0]), grams=True)
    assert fewest_rows(alone, rows_of(agent)) < 1.5
    with pytest.raises(ValueError, match=r"stand on 1\.\d rows, fewer than 50"):
        agent.answer(alone, RunTerms())
    assert set(agent.answer(alone, RunTerms(secure=Secure()))) == set(alone.parts(3, False))


def test_every_statistic_says_what_its_numbers_stand_on():
    for kind in query_kinds().values():
        holds_queries = kind.children is not Query.children
        assert holds_queries or kind.shares is not Query.shares, kind.__name__


def forged(sums, generator):
    """Sums that never were: those that would turn the fit, changed by as much as they are."""
    turn = {"h": 1.0, "m": 1.0}
    return pack_sums(
        {
            name: value * (1.0 + turn.get(name, 0.0) * generator.standard_normal(value.shape))
            for name, value in sums.items()
        }
    )


def forge(server, agent, rounds, seed):
    """Steer an agent's fit by sums that never were, and keep the questions that it answered."""
    generator = np.random.default_rng(seed)
    mine = Replay(server.task, server.terms, COLUMNS)
    answered, entries = [], []
    for _ in range(rounds):
        try:
            query = mine.advance(entries[-1:])
        except ValueError:
            break
        reply = server.ask(query, max(0, len(entries) - 1), entries[-1:])
        if "sums" not in reply:
            break
        answered.append(query)
        entries.append(forged(unpack_sums(reply["sums"]), generator))
    mine.stop()
    return answered


def largest_leverage(agent, answered):
    """Of all combinations of what was answered, the largest part that one row has in one of them.

    That is to who knows nothing of the rows, and to who knows their columns.
    """
    alone, known = Disclosure(len(agent), 1.0), Disclosure(len(agent), 1.0)
    rows = rows_of(agent)
    of_shares = alone.leverage(alone.places @ one for query in answered for one in shares_in(query, rows))[0]
    return of_shares, known.leverage(one for query in answered for one in weights_in(query, rows, known.places))[0]


LONG_FIT = MixedLinearRegression(symmetric=True, method="em", start="random", tol=0.0, max_iter=400, random_state=0)


def test_forged_sums_steer_the_fit_but_no_combination_of_the_answers_stands_on_one_row():
    yields = {}
    for min_rows in (20, 1):
        agent, answered = stock(min_rows=min_rows), []
        for seed in range(3):
            answered += forge(Server(agent, LONG_FIT, run=f"run {seed}"), agent, 60, seed)
        yields[min_rows] = largest_leverage(agent, answered)
        assert len(answered) > 5
    assert yields[20][0] <= 0.5
    assert yields[20][1] <= 0.8
    assert min(yields[1]) > 0.9


def private_terms(**given):
    return RunTerms(privacy=Privacy(**({"rounds": 4, "y_scale": 5.0, "rows": 200.0} | given)))


def words_under_masks(server, query, entries):
    """What a server receives of an agent in a secure sum with two honest partners."""
    sums = SecureServer(Secure(), DIGITS * len(NoiseEnvelope.of(query, 3, False, None, 1).layout))
    partners = {number: SecureAgent.begin(number) for number in (1, 2)}
    begun = {0: server.say("keys", {"me": 0})["data"]}
    rosters = sums.rosters(begun | {number: data for number, (_, data) in partners.items()})
    letters = {number: one.share(rosters[number])[1] for number, (one, _) in partners.items()}
    letters[0] = server.say("shares", {"data": rosters[0]})["data"]
    asked = {"first": max(0, len(entries) - 1), "entries": entries[-1:], "label": query.label}
    reply = server.say("masked", asked | {"data": sums.boxes(letters)[0], "mark": fingerprint(query)})
    return unpack_message(reply["data"], Masked).words


def test_forged_sums_under_masks_get_words_that_might_be_anybodys():
    """The server's forged sums lead the fit on, and all that it gets are words as a die would throw them."""
    agent, generator = stock(), np.random.default_rng(0)
    server = Server(agent, LONG_FIT, terms=RunTerms(secure=Secure()))
    mine, entries, seen, exact = Replay(server.task, server.terms, COLUMNS), [], [], []
    for _ in range(40):
        query = mine.advance(entries[-1:])
        answer = agent.answer(query, server.terms)
        layout = NoiseEnvelope.of(query, 3, False, None, 1).layout
        seen.append(words_under_masks(server, query, entries))
        exact.append(encode(layout.flatten(answer)))
        entries.append(forged(answer, generator))
    mine.stop()
    words, answers = (np.concatenate(parts) / 2.0**64 for parts in (seen, exact))
    assert stats.kstest(words, "uniform").pvalue > 1e-3
    assert stats.kstest(answers, "uniform").pvalue < 1e-30
    assert abs(np.corrcoef(words, answers)[0, 1]) < 4.0 / np.sqrt(len(words))


def odds_of_one_value(truth, terms, seed, **limits):
    """The log odds, to a server that knows all rows of an agent but one y, of the second of the two that it may be.

    It steers the fit by forged sums, and weighs every answer by its exact distribution.
    """
    data = make_mixed_regression(200, 3, 2, snr=4, symmetric=True, random_state=0)
    moved = data.y + 5.0 * (np.arange(200) == 0)
    agents = [Agent("north", data.X, y, COLUMNS, "y", **({"min_rows": 50} | limits)) for y in (data.y, moved)]
    server, generator = Server(agents[truth], terms=terms, run=f"run {seed}"), np.random.default_rng(seed)
    mine, entries, odds = Replay(server.task, terms, COLUMNS), [], 0.0
    for _ in range(4):
        query = mine.advance(entries[-1:])
        sums = unpack_sums(server.ask(query, max(0, len(entries) - 1), entries[-1:])["sums"])
        full = NoiseEnvelope.of(query, 3, False, terms.privacy, 1)
        seen = full.layout.flatten(sums) / full.units
        exact = [full.layout.flatten(one.answer(query, terms)) / full.units for one in agents]
        exact = [one * min(1.0, full.longest / np.linalg.norm(one)) for one in exact]
        first, second = (np.sum((seen - one) ** 2) for one in exact)
        odds += (first - second) / (2.0 * full.deviation**2)
        entries.append(forged(agents[0].answer(query, terms), generator))
    mine.stop()
    return odds


def test_forged_sums_under_noise_tell_a_value_no_better_than_epsilon_allows():
    """To change a row is to take the agent away and bring another: twice epsilon. Without noise one look is enough."""
    trials, epsilon = 24, 0.9

    def advantage(terms, trials, **limits):
        said = [
            [odds_of_one_value(truth, terms, 2 * t + truth, **limits) > 0 for t in range(trials)] for truth in (0, 1)
        ]
        return np.mean(said[1]) - np.mean(said[0])

    found = advantage(private_terms(epsilon=epsilon), trials, max_epsilon=1.0)
    assert found <= np.tanh(epsilon) + 3.0 * np.sqrt(0.5 / trials)
    assert found <= 3.0 * np.sqrt(0.5 / trials)  # one row of 200 is far from all of them
    assert advantage(private_terms(noise_multiplier=1e-4), 3, max_epsilon=1e12, min_rows=1) == 1.0


def test_a_delta_of_almost_one_buys_nothing():
    server = Server(stock(max_epsilon=1.0), terms=private_terms(epsilon=0.5, delta=0.9))
    assert server.card == REFUSED
    assert "delta of 0.9 is above --max-delta 1e-05" in server.log[-1]


def test_the_cost_is_counted_over_all_runs_and_terms_and_over_restarts(tmp_path):
    path, paid = tmp_path / "budget.json", 0
    for run, noise in enumerate(np.geomspace(60.0, 4.0, 40)):
        agent = stock(max_epsilon=1.0, budget=Budget.read(path))
        server = Server(agent, terms=private_terms(noise_multiplier=float(noise)), run=f"run {run}")
        if server.card == REFUSED:
            continue
        run = agent.run(f"run {run}", server.terms, server.task.to_bytes())
        first = run.replay.advance([])
        assert "sums" in server.ask(first)
        paid += 1
    assert 0 < paid < 40
    assert 0.3 < Budget.read(path).epsilon(1e-5) <= 1.0 + 1e-6


def test_a_noisy_answer_asked_for_again_has_the_same_noise_and_costs_once():
    agent = stock(max_epsilon=1.0)
    server = Server(agent, terms=private_terms(epsilon=0.9))
    first = agent.run("run", server.terms, server.task.to_bytes()).replay.advance([])
    replies = [server.ask(first) for _ in range(5)]
    assert all(reply == replies[0] for reply in replies)
    assert sum(agent.budget.answers.values()) == 1


def test_a_budget_that_was_changed_by_hand_is_refused(tmp_path):
    path = tmp_path / "budget.json"
    wrong = ((-1, 2), (1, -2), (1e-320, 2), (1e300, 2))
    lines = [json.dumps([{"noise_multiplier": noise, "answers": answers}]) for noise, answers in wrong]
    for text in ("", "{}", *lines):
        path.write_text(text)
        with pytest.raises(ValueError, match="is not what an agent has spent"):
            Budget.read(path)


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    make_keys(folder / "ours", ["north", "south", "west"])
    make_keys(folder / "theirs", ["south", "west"])
    return folder


def vouched(keys, name, where="ours"):
    return Vouching.of(keys / where / "agents" / name, keys / where / "ca.crt")


def roster(keys, partners, session=b"run", size=None):
    """A roster of the agent under attack and of partners, each with its keys and what the server shows of it."""
    agent = stock(only_secure=True, vouching=vouched(keys, "north"))
    server = Server(agent, terms=RunTerms(secure=Secure()))
    begun = server.say("keys", {"me": 0})
    members, shown = [unpack_message(begun["data"], Keys)], [(0, begun["certificate"], begun["signature"])]
    for number, partner in enumerate(partners, 1):
        data = SecureAgent.begin(number)[1]
        members.append(unpack_message(data, Keys))
        if isinstance(partner, Vouching):
            own = partner.show(session, data)
            shown.append((number, own["certificate"], own["signature"]))
        elif partner is not None:
            shown.append((number, *partner(data)))
    content = dict(zip(("numbers", "certificates", "signatures"), map(list, zip(*shown))))
    threshold = size or len(members) * 2 // 3 + 1
    letter = {"data": pack_message(Roster(b"s" * 16, min(threshold, len(members)), tuple(members))), **content}
    return server.say("shares", letter), server


def test_agents_that_their_operators_vouch_for_are_summed_with(keys):
    reply, _ = roster(keys, [vouched(keys, "south"), vouched(keys, "west")])
    assert "data" in reply


def server_certificate(keys):
    public = x509.load_pem_x509_certificate((keys / "ours" / "server.crt").read_bytes()).public_bytes(Encoding.PEM)
    return lambda data: (public, vouched(keys, "south").show(b"run", data)["signature"])


INVENTED = {
    "one invented partner": lambda keys: [None],
    "two invented partners": lambda keys: [None, None],
    "one real and one invented": lambda keys: [vouched(keys, "south"), None],
    "another authority": lambda keys: [vouched(keys, "south", "theirs"), vouched(keys, "west", "theirs")],
    "the same agent twice": lambda keys: [vouched(keys, "south"), vouched(keys, "south")],
    "the agent itself twice": lambda keys: [vouched(keys, "south"), vouched(keys, "north")],
    "a certificate without its key": lambda keys: [
        vouched(keys, "south"),
        lambda data: (vouched(keys, "west").certificate.public_bytes(Encoding.PEM), b"0" * 96),
    ],
    "the server's own certificate": lambda keys: [vouched(keys, "south"), server_certificate(keys)],
    "too small a sum": lambda keys: [vouched(keys, "south")],
}


@pytest.mark.parametrize("name", INVENTED)
def test_an_agent_is_not_summed_with_partners_that_the_server_invents(keys, name):
    reply, server = roster(keys, INVENTED[name](keys))
    assert reply == REFUSED
    assert "vouched" in server.log[-1] or "two places" in server.log[-1] or "--min-agents" in server.log[-1]


def test_a_signature_of_another_run_vouches_for_nobody(keys):
    reply, _ = roster(keys, [vouched(keys, "south"), vouched(keys, "west")], session=b"another run")
    assert reply == REFUSED


def test_a_certificate_that_has_expired_vouches_for_nobody(keys, monkeypatch):
    monkeypatch.setattr(flower_keys, "AUTHORITY_DAYS", 0)
    make_keys(keys / "ours", ["late"])
    reply, _ = roster(keys, [vouched(keys, "south"), vouched(keys, "late")])
    assert reply == REFUSED


def test_an_agent_with_names_of_millions_of_signs_is_a_short_line_for_others():
    card = {"name": "south", "rows": 9, "columns": ["x"], "target": "y"}
    long = "x" * 10**6
    for pattern in (Member(1, "north", 9, (long,), "y"), Member(1, "north", 9, ("x",), long)):
        with pytest.raises(ValueError, match="where agent north has 'xxx") as refused:
            agent_from_card(2, "", card, pattern)
        assert len(str(refused.value)) < 1000


def test_an_agent_that_joined_for_masks_gives_no_answer_without(keys):
    _, server = roster(keys, [vouched(keys, "south"), vouched(keys, "west")])
    assert server.ask(FIRST) == REFUSED


def held_with_inventions(server, agent, partners, answered=None):
    """A secure sum of an agent and of partners that the server made up, whose answers are zeros; None if refused."""
    query = agent.run(server.run, server.terms, server.task.to_bytes()).replay.advance([])
    layout = NoiseEnvelope.of(query, 3, False, server.terms.privacy, 1).layout
    sums = SecureServer(Secure(), DIGITS * len(layout))
    begun = {0: server.say("keys", {"me": 0})["data"]}
    invented = {number: SecureAgent.begin(number) for number in range(1, partners + 1)}
    rosters = sums.rosters(begun | {number: data for number, (_, data) in invented.items()})
    shared = {number: one.share(rosters[number]) for number, (one, _) in invented.items()}
    letters = {0: server.say("shares", {"data": rosters[0]})["data"]}
    boxes = sums.boxes(letters | {number: data for number, (_, data) in shared.items()})
    zeros = encode(np.zeros(len(layout)))
    masked = {number: one.mask(boxes[number], zeros) for number, (one, _) in shared.items()}
    asked = {"data": boxes[0], "first": 0, "entries": [], "label": query.label, "mark": fingerprint(query)}
    words = {0: server.say("masked", asked)["data"]} | {number: data for number, (_, data) in masked.items()}
    outcomes = sums.outcomes({number: words[number] for number in answered or words})
    reply = server.say("reveal", {"data": outcomes[0]})
    if reply == REFUSED:
        return query, None
    revealed = {n: masked[n][0].reveal(data)[1] for n, data in outcomes.items() if n}
    return query, decode(sums.total({0: reply["data"]} | revealed))


def test_noise_is_not_left_to_partners_that_nobody_vouches_for():
    """Thirty invented partners were to bring most of the noise, and brought none."""
    agent = stock(max_epsilon=1.0)
    server = Server(agent, terms=replace(private_terms(epsilon=0.9), secure=Secure()))
    query, found = held_with_inventions(server, agent, 30)
    full = NoiseEnvelope.of(query, 3, False, server.terms.privacy, 1)
    exact = full.layout.flatten(agent.answer(query, server.terms)) / full.units
    exact *= min(1.0, full.longest / np.linalg.norm(exact))
    assert np.sqrt(np.mean((found / full.units - exact) ** 2)) > 0.5 * full.deviation


def test_a_sum_in_which_others_are_said_to_be_lost_is_of_enough_agents_or_refused():
    agent = stock()
    for partners, answered in ((3, [0, 1, 2]), (2, [0, 1])):
        server = Server(agent, terms=RunTerms(secure=Secure()), run=f"run of {partners}")
        found = held_with_inventions(server, agent, partners, answered)[1]
        assert (found is None) == (len(answered) < agent.min_agents)


def test_memory_that_was_lost_is_no_way_back():
    agent = stock()
    joined = respond(
        "join", {"terms": RunTerms().to_text(), "task": Server(agent).task.to_bytes(), "run": "r"}, agent, Memory()
    )
    asked = {"first": 0, "entries": [], "label": FIRST.label, "mark": fingerprint(FIRST)}
    answered = respond("round", asked, agent, joined.memory)
    assert respond("round", asked, agent, joined.memory).content == answered.content


def written(folder):
    data = make_mixed_regression(240, 2, 2, snr=4, symmetric=True, groups=20, random_state=0)
    lines = ["x1,x2,y,shop", *(f"{a},{b},{y},{g}" for (a, b), y, g in zip(data.X, data.y, data.groups))]
    (folder / "shops.csv").write_text("\n".join(lines))
    return str(folder / "shops.csv")


PRIVATE = ("--epsilon", "8", "--y-scale", "5", "--agent-rows", "20", "--private-rounds", "4", "--symmetric")


@pytest.mark.parametrize("option", ["--report", "--agents-out"])
def test_a_private_simulation_writes_nothing_exact_unless_it_is_released(option, tmp_path):
    words = ["simulate", written(tmp_path), "--target", "y", "--agent-column", "shop", *PRIVATE]
    out = tmp_path / ("out.html" if option == "--report" else "out.csv")
    refused = CliRunner().invoke(app, [*words, option, str(out)], prog_name="wmlr")
    assert refused.exit_code == 2
    assert "add --release to write it" in refused.stderr
    assert not out.exists()
    released = CliRunner().invoke(app, [*words, option, str(out), "--release"], prog_name="wmlr")
    assert released.exit_code == 0
    assert out.exists()


def test_a_private_simulation_prints_no_exact_count(tmp_path):
    words = ["simulate", written(tmp_path), "--target", "y", "--agent-column", "shop", *PRIVATE]
    printed = CliRunner().invoke(app, words, prog_name="wmlr")
    assert "rows each" not in printed.stdout
    told = json.loads(CliRunner().invoke(app, [*words, "--json"], prog_name="wmlr").stdout)
    assert told["n_rows"] is None
    assert not any(isinstance(value, (int, float)) and value == 240 for value in told.values())
    released = CliRunner().invoke(app, [*words, "--release"], prog_name="wmlr")
    assert "rows each" in released.stdout


def test_a_private_simulation_does_not_say_how_many_rows_have_gaps(tmp_path):
    place, model = tmp_path / "gaps.csv", tmp_path / "model.json"
    lines = Path(written(tmp_path)).read_text().splitlines()
    place.write_text("\n".join([lines[0], *("," + line.partition(",")[2] for line in lines[1:38]), *lines[38:]]))
    words = ["simulate", str(place), "--target", "y", "--agent-column", "shop", *PRIVATE, "--out", str(model)]
    printed = CliRunner().invoke(app, [*words, "--json"], prog_name="wmlr")
    assert printed.exit_code == 0
    assert "gaps and" not in printed.output
    assert json.loads(model.read_text())["dropped"] == 0
    released = CliRunner().invoke(app, [*words, "--release"], prog_name="wmlr")
    assert "37 of 240 rows have gaps" in released.stderr
    assert json.loads(model.read_text())["dropped"] == 37


def knock(door, headers, chunks, path="/v1/fleet/push-messages"):
    """The status with which a door answers a request, and how many bytes of it were read."""
    sent, waiting, read = [], list(chunks), 0

    async def receive():
        nonlocal read
        body = waiting.pop(0)
        if body is None:
            await asyncio.sleep(60)
        read += len(body)
        return {"type": "http.request", "body": body, "more_body": bool(waiting)}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "path": path, "headers": headers}
    asyncio.run(door(scope, receive, send))
    return sent[0]["status"], read


async def behind_the_door(scope, receive, send):
    while (await receive())["more_body"]:
        pass
    granted = (b"flwr-public-key", b"forged") not in scope["headers"]
    await send({"type": "http.response.start", "status": 200 if granted else 401, "headers": []})


def test_a_stranger_fills_no_memory_of_the_server():
    door = Door(behind_the_door, "word", MOST_BYTES_OF_STRANGERS)
    chunk = b"x" * 2**16
    assert knock(door, [], [chunk] * 2) == (200, 2**17)
    status, read = knock(door, [], [chunk] * 1000)
    assert (status, read) == (413, MOST_BYTES_OF_STRANGERS + 2**16)
    assert knock(door, [(b"content-length", b"999999999999")], [chunk]) == (413, 0)
    assert knock(door, [(b"content-length", b"many")], [chunk])[0] == 413
    enlisted = [(b"flwr-public-key", b"enlisted")]
    assert knock(door, enlisted, [chunk], ACTIVATE)[0] == 200
    for known in (enlisted, [(HEADER.encode(), b"word")]):
        assert knock(door, known, [chunk] * 1000, PUSH_OBJECT) == (200, 1000 * 2**16)
        assert knock(door, known, [chunk] * 1100, PUSH_OBJECT)[0] == 413


@pytest.mark.parametrize("name", ["flwr-public-key", "flwr-task-token", "flwr-superexec-signature", HEADER])
def test_a_key_that_is_only_said_to_be_one_is_a_strangers(name):
    """Flower looks at keys when it has read all of a request: 64 MB on every line that anybody opens."""
    door = Door(behind_the_door, "word", MOST_BYTES_OF_STRANGERS)
    shown = [(name.encode(), b"forged")]
    knock(door, shown, [b""], ACTIVATE)
    assert knock(door, shown, [bytes(2**16)] * 1000) == (413, MOST_BYTES_OF_STRANGERS + 2**16)


def test_a_stranger_that_never_finishes_is_turned_away(monkeypatch):
    monkeypatch.setattr(superlink, "PATIENCE_WITH_STRANGERS", 0.05)
    door = Door(behind_the_door, "word", MOST_BYTES_OF_STRANGERS)
    assert knock(door, [], [b"x", None, b"x"]) == (413, 1)


def test_an_agent_without_tls_says_what_its_server_speaks(tmp_path):
    made = make_keys(tmp_path, ["north"])
    trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trusted.load_cert_chain(made.folder / "server.crt", made.folder / "server.key")
    for secure in (True, False):
        with socket.create_server(("127.0.0.1", 0)) as listening:

            def serve(listening=listening, secure=secure):
                with suppress(OSError):
                    there, _ = listening.accept()
                    if secure:
                        trusted.wrap_socket(there, server_side=True).close()
                    else:
                        there.recv(99)
                        there.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                        there.close()

            thread = threading.Thread(target=serve)
            thread.start()
            where = f"127.0.0.1:{listening.getsockname()[1]}"
            told = tls_mismatch(Connection(where, None if secure else made.folder / "ca.crt"))
            thread.join()
        assert ("speaks TLS: add --tls ca.crt" if secure else "does not speak TLS") in told
    assert tls_mismatch(Connection("127.0.0.1:1")) == ""


def test_an_agent_without_tls_ends_where_its_server_speaks_it(tmp_path):
    made = make_keys(tmp_path, ["north"])
    trusted = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trusted.load_cert_chain(made.folder / "server.crt", made.folder / "server.key")
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            with suppress(OSError):
                while True:
                    there, _ = listening.accept()
                    with suppress(OSError), there:
                        trusted.wrap_socket(there, server_side=True).close()

        threading.Thread(target=serve, daemon=True).start()
        started = time.monotonic()
        with pytest.raises(RefusedError, match="speaks TLS: add --tls"):
            join(stock(), Connection(f"127.0.0.1:{listening.getsockname()[1]}"), lambda text: None)
        assert time.monotonic() - started < 60
