"""Sums that show no agent: exact under masks, bounded and noisy under differential privacy, and accounted for."""

import json
import math
import sys
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import chi2, chisquare
from typer.testing import CliRunner

from wmlr import MixedLinearRegression
from wmlr.core.round import Rows, Sampled, Together
from wmlr.datasets import make_mixed_regression
from wmlr.federated import Federation, Privacy, Recorded, Secure, SecureSumError, fit_privately
from wmlr.federated.messages import MessageError, query_kinds
from wmlr.federated.privacy import masks
from wmlr.federated.privacy.accountant import calibrate_noise, epsilon
from wmlr.federated.privacy.agent import SecureAgent
from wmlr.federated.privacy.fixed import DIGITS, LARGEST, check_agents, decode, encode
from wmlr.federated.privacy.layout import AnswerLayout
from wmlr.federated.privacy.noise import NoiseEnvelope
from wmlr.federated.privacy.postprocess import valid_sums
from wmlr.federated.privacy.protocol import Keys, Letters, Masked, Outcome, Roster, pack_message, unpack_message
from wmlr.federated.privacy.secure import secure_sum
from wmlr.federated.privacy.server import SecureServer, ring
from wmlr.methods import EM, GDA, GEM, IFCA, AltMin, Refreshed
from wmlr.metrics import coefficient_error
from wmlr.statistics.candidates import CandidateScores
from wmlr.statistics.moments import Moments
from wmlr.statistics.score import MixtureScore
from wmlr.statistics.selected_parts import Chosen
from wmlr.statistics.symmetric_score import SymmetricResiduals, SymmetricScore

numbers = st.floats(-1e28, 1e28)


@settings(max_examples=50)
@given(hnp.arrays(np.float64, st.tuples(st.integers(1, 6), st.just(4)), elements=numbers))
def test_sums_in_fixed_point_are_exact(vectors):
    words = sum((encode(vector) for vector in vectors), np.zeros(4 * DIGITS, dtype=np.uint64))
    wanted = [math.fsum(column) for column in vectors.T]
    size = np.abs(vectors).sum(axis=0)
    assert np.all(np.abs(decode(words) - wanted) <= 4 * np.finfo(float).eps * size + len(vectors) * 2.0**-96)


@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, -1.5, 1e-20, -1e-28, 3e27, np.pi, -(2.0**-96)])
def test_a_number_comes_back_from_its_words(value):
    assert decode(encode(np.array([value])))[0] == pytest.approx(value, rel=1e-15, abs=2.0**-97)


def test_what_does_not_fit_is_refused_and_never_wraps():
    with pytest.raises(MessageError, match="does not fit the secure sum"):
        encode(np.array([LARGEST]))
    with pytest.raises(MessageError, match="not finite"):
        encode(np.array([np.nan]))
    with pytest.raises(ValueError, match=r"at most 32767 agents \(got 40000\)"):
        check_agents(40_000)
    most = np.array([LARGEST * (1 - 1e-16), -LARGEST * (1 - 1e-16)])
    words = encode(most) * np.uint64(32_767)
    np.testing.assert_allclose(decode(words), 32_767 * most, rtol=1e-15)


QUERIES = (
    Moments(True, True),
    Together((MixtureScore(np.ones((4, 2)), np.log([0.5, 0.5]), np.ones(2), grams=True), Moments())),
    Sampled(Chosen(SymmetricResiduals(np.ones(3), 1.0), ("m", "squares", "nothing")), 0.5),
    CandidateScores(np.ones((4, 2)), np.ones((5, 3, 2)), np.full((5, 3), 1 / 3), np.ones((5, 3))),
)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("query", QUERIES)
def test_an_answer_is_a_vector_and_back(query, grouped, generator):
    starts = np.array([0, 3]) if grouped else None
    sums = query.answer(Rows(generator.standard_normal((7, 3)), generator.standard_normal(7), None, starts))
    layout = AnswerLayout.of(query, 3, grouped)
    vector = layout.flatten(sums)
    assert len(vector) == len(layout)
    back = layout.restore(vector)
    assert back.keys() == sums.keys()
    for name, value in sums.items():
        np.testing.assert_allclose(back[name], value, rtol=1e-12, atol=1e-12)
    with pytest.raises(MessageError, match="an answer of shapes"):
        layout.flatten({"h": np.ones(3)})


def test_a_symmetric_matrix_travels_as_its_triangle():
    layout = AnswerLayout.of(Moments(fourth=True), 5, grouped=True)
    assert layout.symmetric_parts == {"gram", "fourth", "pairs"}
    assert layout.sizes["gram"] == 15
    assert AnswerLayout.of(QUERIES[-1], 3, grouped=False).symmetric_parts == set()


def test_enough_shares_give_a_secret_back_and_fewer_nothing():
    secret = masks.new_secret()
    shares = dict(enumerate(masks.split_secret(secret, 4, 7), start=1))
    for kept in ((1, 2, 3, 4), (7, 5, 2, 6), (4, 3, 7, 1)):
        assert masks.combine_shares({place: shares[place] for place in kept}) == secret
    few = {place: shares[place] for place in (1, 2, 3)}
    try:
        assert masks.combine_shares(few) != secret
    except MessageError as error:
        assert "do not fit" in str(error)  # noqa: PT017
    assert masks.split_secret(secret, 4, 7) != list(shares.values())


def test_masks_of_a_pair_cancel_and_letters_stay_sealed():
    ours, theirs = masks.new_secret(), masks.new_secret()
    there = masks.pair_mask(ours, masks.public_key(theirs), b"session", (3, 8), 50)
    back = masks.pair_mask(theirs, masks.public_key(ours), b"session", (8, 3), 50)
    assert not np.any(there + back)
    assert np.any(there)
    assert np.any(there != masks.pair_mask(ours, masks.public_key(theirs), b"other session", (3, 8), 50))
    letter = masks.seal(ours, b"a share", b"for 3")
    assert masks.unseal(ours, letter, b"for 3") == b"a share"
    for key, data, purpose in (
        (theirs, letter, b"for 3"),
        (ours, letter, b"for 4"),
        (ours, letter[:-1], b"for 3"),
        (ours, b"", b""),
    ):
        with pytest.raises(MessageError, match="changed on its way"):
            masks.unseal(key, data, purpose)
    with pytest.raises(MessageError, match="not one"):
        masks.common_key(ours, b"short", b"")


def words_of(agents, size=12, seed=0):
    return np.random.default_rng(seed).integers(0, 2**63, (agents, size)).astype(np.uint64)


@pytest.mark.parametrize(
    ("agents", "answering", "settings_"),
    [
        (2, (0, 1), Secure()),
        (3, (0, 2), Secure()),
        (7, range(7), Secure()),
        (7, (0, 2, 3, 5, 6), Secure()),
        (25, [agent for agent in range(25) if agent not in (3, 17)], Secure(neighbours=8)),
    ],
)
def test_the_secure_sum_is_the_sum_of_those_who_answer(agents, answering, settings_):
    words = words_of(agents)
    held = secure_sum(lambda agent: words[agent], 12, range(agents), answering, settings_)
    np.testing.assert_array_equal(held.words, words[list(answering)].sum(axis=0, dtype=np.uint64))
    assert held.bytes_up > 12 * 8


class Play:
    """A secure sum taken step by step, every state kept as bytes in between."""

    def __init__(self, words, settings_=Secure()):  # noqa: B008
        self.words, self.server = words, SecureServer(settings_, words.shape[1])
        begun = {agent: SecureAgent.begin(agent, settings_) for agent in range(len(words))}
        self.states = {agent: state.to_bytes() for agent, (state, _) in begun.items()}
        self.sent = {agent: data for agent, (_, data) in begun.items()}

    def step(self, take, deliver, lose=()):
        post = deliver({agent: data for agent, data in self.sent.items() if agent not in lose})
        self.sent = {}
        for agent, data in post.items():
            state, self.sent[agent] = take(SecureAgent.from_bytes(self.states[agent]), data, agent)
            self.states[agent] = state.to_bytes()

    def shares(self, lose=()):
        self.step(lambda agent, data, _: agent.share(data), self.server.rosters, lose)

    def mask(self, lose=()):
        self.step(lambda agent, data, me: agent.mask(data, self.words[me]), self.server.boxes, lose)

    def reveal(self, lose=()):
        self.step(lambda agent, data, _: agent.reveal(data), self.server.outcomes, lose)

    def total(self, lose=()):
        return self.server.total({agent: data for agent, data in self.sent.items() if agent not in lose})


def test_agents_may_be_lost_between_any_two_steps():
    words = words_of(12)
    play = Play(words)
    play.shares(lose=[11])
    play.mask(lose=[10])
    play.reveal(lose=[1])
    total = play.total(lose=[0])
    np.testing.assert_array_equal(total, words[[0, *range(2, 10)]].sum(axis=0, dtype=np.uint64))


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (("shares", "mask:012"), "3 of 6 agents have sent shares and the secure sum needs 4"),
        (("shares", "mask", "reveal:012"), "3 of 6 agents have answered and the secure sum needs 4"),
        (("shares", "mask", "reveal", "total:012"), "3 of 6 agents have given their shares and the secure sum needs 4"),
        (("shares:01234",), "a secure sum of 1 agents would show an agent's own answer"),
    ],
)
def test_below_the_threshold_there_is_no_sum(steps, message):
    play = Play(words_of(6))
    *before, (last, lost) = ((name, map(int, agents)) for name, _, agents in (step.partition(":") for step in steps))
    for name, _ in before:
        getattr(play, name)()
    with pytest.raises(SecureSumError, match=message):
        getattr(play, last)(lose=list(lost))


def test_what_the_server_receives_looks_random_and_never_the_same():
    words = np.zeros((3, 20_000), dtype=np.uint64)
    seen = []
    for _ in range(2):
        play = Play(words)
        play.shares()
        play.mask()
        masked = [unpack_message(data, Masked).words for data in play.sent.values()]
        for own in masked:
            counts = np.bincount(np.frombuffer(own.tobytes(), dtype=np.uint8), minlength=256)
            assert chisquare(counts).pvalue > 1e-6
            bits = np.unpackbits(np.frombuffer(own.tobytes(), dtype=np.uint8)).reshape(-1, 64).mean(axis=0)
            assert np.sum((bits - 0.5) ** 2) * 4 * len(own) < chi2.ppf(1 - 1e-6, 64)
        assert np.mean(sum(masked, np.zeros(20_000, dtype=np.uint64)) == 0) < 1e-3
        for first, second in ((0, 1), (0, 2), (1, 2)):
            both = np.corrcoef(masked[first].astype(np.float64), masked[second].astype(np.float64))[0, 1]
            assert abs(both) < 5 / np.sqrt(20_000)
        seen += masked
        play.reveal()
        assert not np.any(play.total())
    for first in range(3):
        assert np.mean(seen[first] == seen[first + 3]) < 1e-3


def test_an_agent_gives_no_share_that_it_should_not():
    play = Play(words_of(4))
    play.shares()
    rosters_gone = SecureAgent.from_bytes(play.states[0])
    with pytest.raises(MessageError, match="has sent its shares and is asked for what follows keys"):
        rosters_gone.share(b"")
    play.mask()
    agent = SecureAgent.from_bytes(play.states[0])
    everyone = (0, 1, 2, 3)
    for outcome, error, message in (
        (Outcome(everyone, (3,)), MessageError, "does not hold once each"),
        (Outcome((0, 1, 2), ()), MessageError, "does not hold once each"),
        (Outcome((0, 1, 2, 3, 9), ()), MessageError, "does not hold once each"),
        (Outcome((1, 2, 3), (0,)), SecureSumError, "3 agents have answered"),
        (Outcome((0, 1), (2, 3)), SecureSumError, "2 agents have answered and the secure sum needs 3"),
        (Letters(()), MessageError, "Outcome are wanted"),
    ):
        with pytest.raises(error, match=message):
            agent.reveal(pack_message(outcome))
    done, _ = agent.reveal(pack_message(Outcome((0, 1, 2), (3,))))
    with pytest.raises(MessageError, match="has sent its done"):
        done.reveal(pack_message(Outcome(everyone, ())))
    assert done.held == {}


def test_an_agent_looks_at_its_roster():
    agents = [SecureAgent.begin(me) for me in range(4)]
    keys = tuple(unpack_message(data, Keys) for _, data in agents)
    agent = agents[0][0]
    for roster, message in (
        (Roster(b"s", 3, keys[1:]), "has not its own keys once"),
        (Roster(b"s", 3, (*keys, keys[0])), "has not its own keys once"),
        (Roster(b"s", 3, (*keys[:3], replace(keys[3], mask=keys[2].mask))), "the same key"),
        (Roster(b"s", 2, keys), "a threshold of 2 is not the part of 4 agents agreed on"),
        (Roster(b"s", 5, keys), "a threshold of 5 is not the part of 4 agents agreed on"),
    ):
        with pytest.raises(MessageError, match=message):
            agent.share(pack_message(roster))


def test_a_server_looks_at_what_it_receives():
    play = Play(words_of(3))
    with pytest.raises(SecureSumError, match="agent 1: it has sent the keys of agent 0"):
        play.server.rosters({0: play.sent[0], 1: play.sent[0], 2: play.sent[2]})
    play.shares()
    with pytest.raises(SecureSumError, match="agent 1: it has not sent one letter to each"):
        play.server.boxes({0: play.sent[0], 1: play.sent[0], 2: play.sent[2]})
    play.mask()
    with pytest.raises(SecureSumError, match="words where 12 are wanted"):
        play.server.outcomes({0: pack_message(Masked(np.zeros(3, dtype=np.uint64))), 1: play.sent[1]})
    play.reveal()
    play.sent[0] = play.sent[2] = play.sent[1]
    with pytest.raises(SecureSumError, match="do not fit together"):
        play.total()


def test_pairs_on_a_ring_are_mutual():
    paired = ring(range(50), 10)
    for member, others in paired.items():
        assert member in others
        assert len(set(others)) == 11
        assert all(member in paired[other] for other in others)


@pytest.mark.parametrize(("name", "value"), [("threshold", 0.5), ("threshold", 1.1), ("neighbours", 1)])
def test_secure_settings_are_named(name, value):
    with pytest.raises(ValueError, match=rf"{name} must be .*\(got {value}\)"):
        Secure(**{name: value})


def problem(agents=9, rows=12, k=2, symmetric=True, d=3, seed=0):
    data = make_mixed_regression(agents * rows, d, k, snr=5, symmetric=symmetric, groups=rows, random_state=seed)
    return data, (data.X, data.y, data.groups)


@pytest.mark.parametrize("more", [{}, {"weighting": "agents"}, {"level": "row"}])
@pytest.mark.parametrize("solver", [Refreshed(), GDA(local_steps=2)])
def test_a_secure_fit_is_the_plain_one(solver, more):
    _, split = problem(5)
    more = {"level": "agent"} | more
    model = MixedLinearRegression(symmetric=True, method=solver, max_iter=3, random_state=0)
    plain = model.fit_on(Federation.split(*split, **more)).coef_
    federation = Federation.split(*split, secure=True, **more)
    secure = model.fit_on(federation)
    np.testing.assert_allclose(secure.coef_, plain, rtol=1e-8)
    assert all(line.secure for line in federation.ledger)
    assert "the server saw no agent's own answer" in federation.ledger.table()
    assert federation.ledger.totals()["bytes_up"] > 1000 * len(federation.ledger)


def test_a_secure_round_with_losses_sums_those_who_answered():
    _, split = problem(9)
    more = {"participation": 0.9, "dropout": 0.2, "seed": 5}
    plain = Federation.split(*split, **more)
    secure = Federation.split(*split, secure=Secure(0.6), **more)
    query = Moments(fourth=True)
    ours = secure.total(query)
    while len(plain.ledger) < len(secure.ledger):
        wanted = plain.total(query)
    assert secure.ledger[-1].answered < secure.ledger[-1].asked == 8
    for name, value in wanted.items():
        np.testing.assert_allclose(ours[name], value, rtol=1e-12)


@pytest.mark.parametrize("level", ["row", "agent"])
def test_a_secure_sum_of_a_sample_is_of_the_same_sample(level):
    _, split = problem(9)
    query = Sampled(Moments(fourth=True), 0.3, 4)
    ours = Federation.split(*split, level=level, secure=True).total(query)
    for name, value in Federation.split(*split, level=level).total(query).items():
        np.testing.assert_allclose(ours[name], value, rtol=1e-12, atol=1e-12)


def test_too_few_agents_make_no_secure_round():
    _, split = problem(9)
    federation = Federation.split(*split, secure=True, dropout=0.95)
    with pytest.raises(RuntimeError, match="not enough agents answered in 100 rounds"):
        federation.total(Moments())
    with pytest.raises(SecureSumError, match="would show an agent's own answer"):
        Federation([(np.ones((3, 2)), np.ones(3))], secure=True).total(Moments())


def test_the_accountant_composes_all_rounds():
    dp = pytest.importorskip("dp_accounting")
    accountant = dp.pld.PLDAccountant(dp.NeighboringRelation.ADD_OR_REMOVE_ONE)
    accountant.compose(dp.GaussianDpEvent(8.0), 4)
    assert epsilon(8.0, 4, 1e-5) == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-6)
    assert epsilon(8.0, 0, 1e-5) == 0.0
    assert epsilon(8.0, 16, 1e-5) == pytest.approx(epsilon(4.0, 4, 1e-5), rel=1e-6)
    assert epsilon(calibrate_noise(1.5, 7, 1e-6), 7, 1e-6) == pytest.approx(1.5, rel=1e-5)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "give epsilon or noise_multiplier"),
        ({"epsilon": 1.0, "noise_multiplier": 1.0}, "one of the two"),
        ({"epsilon": -1.0}, r"epsilon must be positive \(got -1.0\)"),
        ({"epsilon": 1.0, "delta": 0.0}, r"delta must be above 0 and below 1 \(got 0.0\)"),
        ({"epsilon": 1.0, "rounds": 0}, "rounds must be at least 1"),
        ({"epsilon": 1.0, "clip": np.inf}, "clip must be positive"),
        ({"epsilon": 1.0, "y_scale": 0.0}, "y_scale must be positive"),
    ],
)
def test_privacy_settings_are_named(given, message):
    with pytest.raises(ValueError, match=message):
        Privacy(**given)


QUIET = Privacy(noise_multiplier=1e-9, rounds=50, clip=2.0, y_scale=5.0, rows=12.0, seed=0)


def test_no_agent_moves_a_sum_by_more_than_the_clip(generator):
    query = Together((Moments(fourth=True), SymmetricScore(np.ones(3), 1.0)))
    envelope = NoiseEnvelope.of(query, 3, True, QUIET, 5)
    for size in (0.0, 1e-3, 1.0, 1e3, 1e12):
        rows = Rows(
            generator.standard_normal((12, 3)) * size, generator.standard_normal(12) * size, None, np.zeros(1, int)
        )
        closed = envelope.privatise(query.answer(rows), generator) / envelope.units
        assert np.linalg.norm(closed) <= envelope.longest * (1 + 1e-6)
        if size == 1e-3:
            wanted = envelope.layout.flatten(query.answer(rows)) / envelope.units
            np.testing.assert_allclose(closed, wanted, atol=1e-6)
        if size == 1e3:
            assert np.linalg.norm(closed) == pytest.approx(envelope.longest, rel=1e-6)


@pytest.mark.parametrize("answering", [6, 9])
def test_the_noise_of_the_fewest_agents_is_enough(answering):
    privacy = replace(QUIET, noise_multiplier=3.0)
    query = Moments()
    envelope = NoiseEnvelope.of(query, 3, False, privacy, 6)
    nothing = query.answer(Rows(np.zeros((0, 3)), np.zeros(0)))
    generator = np.random.default_rng(0)
    draws = np.array([
        sum(envelope.privatise(nothing, generator) / envelope.units for _ in range(answering)) for _ in range(400)
    ])  # fmt: skip
    least = 3.0 * envelope.longest
    assert draws.std() == pytest.approx(least * np.sqrt(answering / 6), rel=0.05)
    error = envelope.errors(answering)
    assert float(error["yy"]) == pytest.approx(least * np.sqrt(answering / 6) * 25 * 12)


def test_an_answer_that_is_not_finite_counts_as_nothing(generator):
    envelope = NoiseEnvelope.of(Moments(), 3, False, QUIET, 5)
    sums = Moments().answer(Rows(np.ones((2, 3)), np.ones(2))) | {"yy": np.array(np.inf)}
    assert np.abs(envelope.privatise(sums, generator)).max() < 1e-3


def test_noisy_sums_are_made_into_what_sums_can_be(generator):
    query = Together((Moments(), MixtureScore(np.ones((3, 2)), np.log([0.5, 0.5]), np.ones(2), grams=True)))
    layout = AnswerLayout.of(query, 3, False)
    sums = layout.restore(generator.standard_normal(len(layout)))
    errors = layout.restore(np.full(len(layout), 0.1))
    better = valid_sums(layout.parts, sums, errors)
    assert np.linalg.eigvalsh(better["0/gram"]).min() >= 0.1
    assert np.linalg.eigvalsh(better["1/grams"]).min() >= 0.1
    for name in ("0/weight", "0/yy", "1/mass", "1/squares"):
        assert np.all(better[name] >= 0.1)
    for name in ("0/xy", "1/score", "1/log_likelihood"):
        np.testing.assert_array_equal(better[name], sums[name])


def test_every_kind_has_units_and_a_layout():
    assert {type(query).__name__ for query in QUERIES} <= query_kinds().keys()
    for query in QUERIES:
        envelope = NoiseEnvelope.of(query, 3, True, QUIET, 3)
        assert np.all(envelope.units > 0)
        assert len(envelope.units) == len(envelope.layout)


@pytest.mark.parametrize("secure", [False, True])
def test_without_noise_a_private_fit_is_near_the_plain_one(secure):
    _, split = problem(12 if secure else 60, rows=30)
    privacy = replace(QUIET, clip=50.0, rows=30.0, rounds=6)
    federation = Federation.split(*split, level="agent", secure=secure, privacy=privacy)
    fit = fit_privately(MixedLinearRegression(symmetric=True, random_state=0), federation)
    plain = MixedLinearRegression(symmetric=True, random_state=0).fit(*split[:2], groups=split[2])
    assert coefficient_error(fit.coef_, plain.coef_) < 1e-3
    assert fit.sigma_[0] == pytest.approx(plain.sigma_[0], rel=0.05)
    assert fit.method == "wmlr"
    assert len(fit.ledger_) == 6
    assert all(line.secure == secure and line.noise > 0 for line in fit.ledger_)


@pytest.fixture(scope="module")
def many():
    """Five hundred agents with ten rows each."""
    return problem(500, rows=10, d=4)


def test_a_private_fit_is_useful_among_many_agents(many):
    data, split = many
    privacy = Privacy(epsilon=4.0, rounds=6, clip=1.5, y_scale=5.0, rows=10.0, seed=1)
    federation = Federation.split(*split, level="agent", privacy=privacy)
    fit = fit_privately(MixedLinearRegression(symmetric=True, random_state=0), federation)
    assert coefficient_error(fit.coef_, data.coef) < 0.03
    assert fit.privacy_.epsilon == pytest.approx(4.0, rel=1e-4)
    assert (fit.privacy_.rounds, fit.privacy_.delta) == (6, 1e-5)
    assert "epsilon 4 at delta 1e-05" in str(fit.privacy_)
    assert "noise of" in federation.ledger.table()
    again = Federation.split(*split, level="agent", privacy=replace(privacy, seed=2))
    other = fit_privately(MixedLinearRegression(symmetric=True, random_state=0), again)
    assert not np.array_equal(other.coef_, fit.coef_)


@pytest.mark.parametrize("solver", [Refreshed(), EM(), GEM(), GDA(nodes=4), IFCA(), AltMin()])
@pytest.mark.parametrize("symmetric", [True, False])
def test_every_method_bears_noise_and_keeps_within_its_rounds(solver, symmetric):
    data, split = problem(60, rows=10, symmetric=symmetric)
    privacy = Privacy(noise_multiplier=4.0, rounds=7, y_scale=5.0, rows=10.0, seed=1)
    federation = Federation.split(*split, level="agent", privacy=privacy)
    start = "auto" if symmetric or isinstance(solver, Refreshed) else data.coef
    model = MixedLinearRegression(symmetric=symmetric, method=solver, start=start, random_state=0)
    fit = fit_privately(model, federation)
    assert np.all(np.isfinite(fit.coef_))
    assert np.all(fit.sigma_ > 0)
    assert 0 < len(federation.ledger) <= 7
    assert model.method is solver


def test_free_components_are_found_among_many_agents():
    data, split = problem(500, rows=10, symmetric=False, d=3)
    for level in ("agent", "row"):
        privacy = Privacy(noise_multiplier=0.8, rounds=8, clip=1.5, y_scale=7.0, rows=10.0, seed=1)
        federation = Federation.split(*split, level=level, privacy=privacy)
        fit = fit_privately(MixedLinearRegression(random_state=0), federation)
        assert coefficient_error(fit.coef_, data.coef) < 0.15


def test_a_private_search_for_many_components_is_refused(many):
    federation = Federation.split(*many[1], privacy=QUIET)
    with pytest.raises(ValueError, match="a private fit of 3 components needs a start"):
        fit_privately(MixedLinearRegression(3), federation)
    assert federation.rounds_left == QUIET.rounds
    few = Federation.split(*problem(9)[1], privacy=replace(QUIET, rounds=3))
    with pytest.raises(ValueError, match="a private fit of 2 components needs a start"):
        fit_privately(MixedLinearRegression(method="gem"), few)
    assert few.rounds_left == 3
    two = Federation.split(*problem(9)[1], privacy=replace(QUIET, rounds=2))
    with pytest.raises(ValueError, match="the 2 private rounds were spent before"):
        fit_privately(MixedLinearRegression(method="gem", symmetric=True), two)
    one = Federation.split(*problem(9)[1], privacy=replace(QUIET, rounds=1))
    with pytest.raises(ValueError, match="no round left after its start"):
        fit_privately(MixedLinearRegression(symmetric=True), one)
    assert one.rounds_left == 1


def test_no_round_is_held_beyond_those_settled():
    federation = Federation.split(*problem(9)[1], privacy=replace(QUIET, noise_multiplier=2.0, rounds=2))
    federation.total(Moments())
    assert federation.rounds_left == 1
    federation.total(Moments())
    with pytest.raises(RuntimeError, match=r"the 2 private rounds are spent \(epsilon .* at delta 1e-05"):
        federation.total(Moments())
    assert Federation.split(*problem(9)[1]).rounds_left is None
    assert Federation.split(*problem(9)[1]).privacy_spent is None


def test_agents_that_count_alike_are_weighed_by_public_numbers_alone(generator):
    sizes = generator.integers(1, 20, size=30)
    ids = np.repeat(np.arange(30), sizes)
    X, y = generator.standard_normal((len(ids), 2)), generator.standard_normal(len(ids))
    privacy = replace(QUIET, clip=1e3)
    sums = Federation.split(X, y, ids, weighting="agents", privacy=privacy).total(Moments())
    assert float(sums["weight"]) == pytest.approx(30 * privacy.rows, rel=1e-4)
    half = Federation.split(X, y, ids, participation=0.5, privacy=privacy).total(Moments())
    answered = Federation.split(X, y, ids, participation=0.5).participation.draw(0, 30).answered
    assert float(half["weight"]) == pytest.approx(2 * sizes[answered].sum(), rel=1e-4)


def test_a_resumed_private_run_has_spent_what_it_had(tmp_path):
    _, split = problem(9)
    settings_ = {"seed": 0}
    first = Recorded(Federation.split(*split, privacy=QUIET), tmp_path / "run", settings_)
    sums = first.total(Moments())
    second = Recorded(Federation.split(*split, privacy=QUIET), tmp_path / "run", settings_, resume=True)
    np.testing.assert_array_equal(second.total(Moments())["gram"], sums["gram"])
    assert second.capabilities.rounds_left == first.capabilities.rounds_left == 49


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(ImportError, match=r"needs dp-accounting: pip install 'wmlr\[privacy\]'"):
        epsilon(1.0, 1, 1e-5)
    monkeypatch.delitem(sys.modules, "wmlr.federated.privacy.masks")
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    with pytest.raises(ImportError, match=r"need cryptography: pip install 'wmlr\[privacy\]'"):
        import_module("wmlr.federated.privacy.masks")


@pytest.fixture
def sales(tmp_path):
    data, _ = problem(12, rows=8, d=2)
    lines = [f"{a!r},{b!r},{y!r},shop{g}" for (a, b), y, g in zip(data.X.tolist(), data.y.tolist(), data.groups)]
    path = tmp_path / "sales.csv"
    path.write_text("\n".join(["a,b,y,shop", *lines]) + "\n")
    return path


def simulate(file, *words):
    from wmlr.cli import app

    common = ["simulate", file, "--target", "y", "--agent-column", "shop", "--symmetric", "--level", "agent"]
    return CliRunner().invoke(app, [*map(str, common), *map(str, words)], prog_name="wmlr")


def test_the_command_guards_answers(sales):
    plain = simulate(sales)
    assert "std err" in plain.stdout
    secure = simulate(sales, "--secure")
    assert secure.exit_code == 0, secure.stderr
    assert "secure sums in" in secure.stdout
    assert plain.stdout.split("iteration")[0] == secure.stdout.split("iteration")[0]
    noisy = simulate(sales, "--epsilon", 8, "--private-rounds", 4, "--y-scale", 5, "--agent-rows", 8, "--json")
    told = json.loads(noisy.stdout)
    assert told["privacy"]["epsilon"] == pytest.approx(8.0, rel=1e-3)
    assert told["privacy"]["rounds"] == len(told["ledger"]) == 4
    assert "standard_errors" not in told
    named = json.loads(simulate(sales, "--json").stdout)["standard_errors"]
    assert set(named) == {"a[1]", "b[1]", "(sigma)"}
    bad = simulate(sales, "--epsilon", 8)
    assert bad.exit_code == 2
    assert "--y-scale" in bad.stderr
