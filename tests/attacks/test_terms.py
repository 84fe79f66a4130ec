"""A server that chooses the terms of a run, and tells each agent another tale: noise, thresholds, losses, old keys."""

from dataclasses import replace

import numpy as np
import pytest
from test_curious_servers import COLUMNS, REFUSED, Server, private_terms, rows_of, stock, vouched
from test_curious_servers import keys as keys

from wmlr.federated.messages import unpack_sums
from wmlr.federated.privacy import Privacy, Secure, SecureSumError, masks
from wmlr.federated.privacy.agent import SecureAgent
from wmlr.federated.privacy.budget import Budget
from wmlr.federated.privacy.noise import NoiseEnvelope
from wmlr.federated.privacy.protocol import (
    Keys,
    Letter,
    Letters,
    Masked,
    Outcome,
    Revealed,
    Roster,
    bound_session,
    fewest_summed,
    pack_message,
    unpack_message,
)
from wmlr.flower.replay import Replay, fingerprint
from wmlr.flower.terms import RunTerms


def first_noisy_answer(agent, terms):
    """The first question of a fit under these terms, and the answer as the server receives it; None if refused."""
    server = Server(agent, terms=terms)
    mine = Replay(server.task, terms, COLUMNS)
    query = mine.advance([])
    reply = server.ask(query)
    mine.stop()
    return query, unpack_sums(reply["sums"]) if "sums" in reply else None


def test_no_clip_makes_noise_vanish():
    """Squares of numbers in units of 1e200 are nothing: an answer was taken for short, and kept its length."""
    query, seen = first_noisy_answer(
        stock(max_epsilon=1.0), RunTerms(privacy=Privacy(epsilon=0.9, rounds=4, rows=1e30, clip=1e-30))
    )
    true = query.answer(rows_of(stock()))
    ratios = np.concatenate([np.ravel(seen[name] / true[name]) for name in seen])
    assert np.std(ratios) > 0.5 * abs(np.mean(ratios))
    fine = NoiseEnvelope.of(query, 3, False, Privacy(epsilon=0.9, rounds=4), 1)
    for unit, longest in ((1e200, 1e-310), (1e-200, 1.0), (1.0, 1e-200)):
        envelope = replace(fine, units=np.full(len(fine.units), unit), longest=longest, deviation=0.0)
        assert np.linalg.norm(envelope.privatise(true, np.random.default_rng()) / unit / longest) <= 1.0 + 1e-9


def test_terms_hold_numbers_that_are_finite():
    text = private_terms(noise_multiplier=10.0).to_text()
    for old, new in (
        ('"rounds": 4', '"rounds": NaN'),
        ('"rounds": 4', '"rounds": Infinity'),
        ('"rounds": 4', '"rounds": 1e400'),
        ('"clip": 2.0', '"clip": 1e-310'),
        ('"rows": 200.0', '"rows": 1e200'),
    ):
        assert old in text
        with pytest.raises(ValueError, match=r"terms cannot be read|must be from"):
            RunTerms.of(text.replace(old, new))


@pytest.mark.parametrize("noise", [1e150, 1e101, 1e100])
def test_no_noise_of_a_servers_choosing_spoils_a_budget(tmp_path, noise):
    """Noise that costs nothing was written down, and the file refused from then on: who named another lost count."""
    path = tmp_path / "budget.json"
    budget = Budget.read(path)
    budget.spend(100.0)
    agent = stock(max_epsilon=1.0, budget=budget)
    _, seen = first_noisy_answer(agent, RunTerms(privacy=Privacy(noise_multiplier=noise, rounds=4)))
    assert (seen is None) == (noise > 1e100)
    assert Budget.read(path).answers == {100.0: 1} | ({} if seen is None else {noise: 1})
    assert first_noisy_answer(agent, RunTerms(privacy=Privacy(noise_multiplier=100.0, rounds=4)))[1] is not None


TALES = {0: (2, 3), 1: (2, 4), 2: (3, 4), 3: (2, 4), 4: (2, 3)}  # whom each of five agents is told to be lost


def sum_of_two(settings, threshold, least):
    """What a server gets of the first two of five agents, each of whom hears of other losses; their own words."""
    words = np.random.default_rng(0).integers(0, 2**64, (5, 6), dtype=np.uint64)
    begun = [SecureAgent.begin(me, settings, least) for me in range(5)]
    roster = Roster(b"s" * 16, threshold, tuple(unpack_message(data, Keys) for _, data in begun))
    shared = [agent.share(pack_message(roster)) for agent, _ in begun]
    letters = [letter for _, data in shared for letter in unpack_message(data, Letters).letters]
    boxes = [pack_message(Letters(tuple(one for one in letters if one.to == me))) for me in range(5)]
    masked = [agent.mask(boxes[me], words[me]) for me, (agent, _) in enumerate(shared)]
    revealed = []
    for me, (agent, _) in enumerate(masked):
        outcome = Outcome(tuple(other for other in range(5) if other not in TALES[me]), TALES[me])
        revealed.append(unpack_message(agent.reveal(pack_message(outcome))[1], Revealed))

    def secret(kind, member):
        told = {
            me + 1: getattr(one, kind)[str(member)]
            for me, one in enumerate(revealed)
            if str(member) in getattr(one, kind)
        }
        return masks.combine_shares(dict(list(told.items())[:threshold]))

    session, found = bound_session(roster, settings), np.zeros(6, dtype=np.uint64)
    for me in (0, 1):
        found += unpack_message(masked[me][1], Masked).words
        found -= masks.stream(masks.derive_key(secret("seeds", me), session), 6)
        for lost in (2, 3, 4):
            found += masks.pair_mask(secret("keys", lost), roster.members[me].mask, session, (lost, me), 6)
    return found, words[0] + words[1]


def test_a_server_that_tells_agents_of_different_losses_gets_no_sum_of_fewer_than_they_want():
    found, right = sum_of_two(Secure(threshold=0.6), 3, least=2)
    np.testing.assert_array_equal(found, right)  # two are as few as these agents want
    with pytest.raises(SecureSumError, match="a secure sum of 2 agents, where --min-agents is 3"):
        sum_of_two(Secure(threshold=0.6), 3, least=3)


def test_the_threshold_of_a_sum_is_the_one_that_noise_is_shared_by():
    """Noise that five were to bring is too little in a sum of three."""
    with pytest.raises(ValueError, match="a threshold of 3 is not the part of 5 agents agreed on"):
        sum_of_two(Secure(threshold=1.0), 3, least=2)


@pytest.mark.parametrize("agents", range(3, 31))
def test_whatever_losses_honest_sums_have_they_are_of_as_many_as_agents_want(agents):
    threshold = Secure().least(agents)
    assert fewest_summed(agents, threshold, agents, 3) >= 3
    assert fewest_summed(agents, threshold, max(agents - 1, 3), 3) >= 3


def test_agents_with_different_rosters_open_none_of_each_others_letters():
    """Else votes of agents that are not in a sum would take the masks of those off that are."""
    begun = [SecureAgent.begin(me) for me in range(4)]
    keys = tuple(unpack_message(data, Keys) for _, data in begun)
    small, large = (pack_message(Roster(b"s" * 16, 3, some)) for some in (keys[:3], keys))
    agent, _ = begun[0][0].share(small)
    letters = [begun[me][0].share(large)[1] for me in (1, 2)]
    box = [letter for data in letters for letter in unpack_message(data, Letters).letters if letter.to == 0]
    with pytest.raises(SecureSumError, match="1 agents have sent shares"):
        agent.open(pack_message(Letters(tuple(box))))


def test_partners_whose_keys_are_old_do_not_count(keys):
    """Their operators vouch for them, in this very run; but they are not there."""
    agent = stock(only_secure=True, vouching=vouched(keys, "north"))
    server = Server(agent, terms=RunTerms(secure=Secure()))
    begun = server.say("keys", {"me": 0})
    members, shown = [unpack_message(begun["data"], Keys)], [(0, begun["certificate"], begun["signature"])]
    for number, name in ((1, "south"), (2, "west")):
        data = SecureAgent.begin(number)[1]  # of an earlier sum: the server has found out their masks since
        own = vouched(keys, name).show(b"run", data)
        members.append(unpack_message(data, Keys))
        shown.append((number, own["certificate"], own["signature"]))
    content = dict(zip(("numbers", "certificates", "signatures"), map(list, zip(*shown))))
    assert "data" in server.say("shares", {"data": pack_message(Roster(b"s" * 16, 2, tuple(members))), **content})
    query = agent.run(server.run, server.terms, server.task.to_bytes()).replay.advance([])
    box = Letters(tuple(Letter(number, 0, b"?" * 160) for number in (1, 2)))
    asked = {"first": 0, "entries": [], "label": query.label, "mark": fingerprint(query)}
    assert server.say("masked", asked | {"data": pack_message(box)}) == REFUSED
    assert "1 agents have sent shares" in server.log[-1]


def answer_of_one(settings, threshold):
    """What a server that pairs 22 agents as it likes gets of the first of them, and the words that this one sent.

    The first is paired with six; each of these with the first and with five others, who are told that it is lost.
    """
    words = np.random.default_rng(0).integers(0, 2**64, (22, 6), dtype=np.uint64)
    begun = [SecureAgent.begin(me, settings, 3) for me in range(22)]
    keys = [unpack_message(data, Keys) for _, data in begun]
    told = {first: range(7 + 5 * place, 12 + 5 * place) for place, first in enumerate((1, 3, 5))}
    paired = {0: [*range(7)]}
    for first, others in told.items():
        paired |= {one: [0, one, *others] for one in (first, first + 1)}
        paired |= {one: [first, first + 1, *others] for one in others}
    session = b"s" * 16
    shared, letters = {}, {}
    for me, members in paired.items():
        roster = Roster(session, threshold, tuple(keys[member] for member in members))
        shared[me], data = begun[me][0].share(pack_message(roster))
        letters |= {(me, letter.to): letter for letter in unpack_message(data, Letters).letters}
    revealed, sent = {}, None
    for me, members in paired.items():
        box = tuple(letters[other, me] for other in members if other != me)
        state, data = shared[me].mask(pack_message(Letters(box)), words[me])
        sent = unpack_message(data, Masked).words if me == 0 else sent
        lost = tuple(members[:2]) if me >= 7 else ()
        outcome = Outcome(tuple(member for member in members if member not in lost), lost)
        revealed[me] = unpack_message(state.reveal(pack_message(outcome))[1], Revealed)
    seeds = {place + 1: revealed[other].seeds["0"] for place, other in enumerate(paired[0])}
    found = sent - masks.stream(masks.derive_key(masks.combine_shares(seeds), session), 6)
    for one in paired[0][1:]:
        shares = {place + 1: revealed[other].keys[str(one)] for place, other in enumerate(paired[one]) if place > 1}
        found = found + masks.pair_mask(masks.combine_shares(shares), keys[0].mask, session, (one, 0), 6)
    return found, words[0]


def test_a_server_that_pairs_agents_with_few_others_is_refused():
    """Paired with six, whom others believe lost, an agent is summed with nobody: so it wants to be paired with more."""
    found, right = answer_of_one(Secure(threshold=0.6, neighbours=6), 5)
    np.testing.assert_array_equal(found, right)
    for settings in (Secure(threshold=0.6, neighbours=6), Secure(neighbours=29), Secure(threshold=0.6)):
        server = Server(stock(), terms=RunTerms(secure=settings))
        assert server.card == REFUSED
        assert "paired with thirty others" in server.log[-1]
    assert "columns" in Server(stock(), terms=RunTerms(secure=Secure())).card
    with pytest.raises(SecureSumError, match="1 agents have sent shares"):
        answer_of_one(Secure(threshold=0.6, neighbours=30), 5)
