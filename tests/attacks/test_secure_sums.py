"""Liars in a secure sum: who is blamed, and what becomes of the sum."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Message
from flwr.app.error import Error

from longer import long
from wmlr.datasets import make_mixed_regression
from wmlr.federated import Secure, SecureSumError
from wmlr.federated.privacy import masks
from wmlr.federated.privacy.agent import SecureAgent
from wmlr.federated.privacy.protocol import Keys, Letters, Masked, Revealed, pack_message, unpack_message
from wmlr.federated.privacy.server import SecureServer
from wmlr.flower.agent import Agent
from wmlr.flower.messages import pack
from wmlr.flower.terms import RunTerms

sys.path.insert(0, str(Path(__file__).parent.parent / "flower"))
from test_flower import COLUMNS, TRUSTING, central, fitted_among

AGENTS, SIZE, LIAR = 10, 6, 4
STEPS = ("keys", "letters", "masked", "revealed")


def held(spoil, agents=range(AGENTS)):
    """A secure sum in which one agent's messages are spoilt: the sum or its error, and who is blamed."""
    server, words = SecureServer(Secure(), SIZE), np.arange(AGENTS * SIZE, dtype=np.uint64).reshape(AGENTS, SIZE)

    def lie(step, post):
        return {member: spoil(step, data) if member == LIAR else data for member, data in post.items()}

    def take(states, post, act):
        done = {member: act(states[member], data, member) for member, data in post.items()}
        return {member: state for member, (state, _) in done.items()}, {
            member: data for member, (_, data) in done.items()
        }

    begun = {member: SecureAgent.begin(member) for member in agents}
    states, sent_ = {member: state for member, (state, _) in begun.items()}, {m: data for m, (_, data) in begun.items()}
    try:
        states, sent_ = take(states, server.rosters(lie("keys", sent_)), lambda agent, data, _: agent.share(data))
        states, sent_ = take(
            states, server.boxes(lie("letters", sent_)), lambda agent, data, member: agent.mask(data, words[member])
        )
        _, sent_ = take(states, server.outcomes(lie("masked", sent_)), lambda agent, data, _: agent.reveal(data))
        return server.total(lie("revealed", sent_)), server.guilty
    except SecureSumError as error:
        return error, error.guilty | server.guilty
    finally:
        assert set(server.guilty) <= {LIAR}


def right(agents=range(AGENTS)):
    return np.arange(AGENTS * SIZE, dtype=np.uint64).reshape(AGENTS, SIZE)[list(agents)].sum(axis=0)


def changed(step_, cls, change):
    return lambda step, data: pack_message(change(unpack_message(data, cls))) if step == step_ else data


def letters_to(members):
    return lambda found: Letters(
        tuple(replace(one, sealed=one.sealed[:-1] + b"?") if one.to in members else one for one in found.letters)
    )


def garbage(names):
    def change(found):
        seeds = {name: b"\x01" * masks.SHARE_BYTES if name in names else share for name, share in found.seeds.items()}
        return Revealed(seeds, found.keys)

    return change


EVERYONE = {str(member) for member in range(AGENTS)}
FATAL = {
    "letters that nobody can open": changed("letters", Letters, letters_to(set(range(AGENTS)))),
    "letters of an earlier sum": lambda step, data: OLD.setdefault(step, data) if step == "letters" else data,
    "letters to too few": changed("letters", Letters, lambda found: Letters(found.letters[:4])),
    "a public key that is none": changed("keys", Keys, lambda found: replace(found, seal=bytes(32))),
    "a key used twice": changed("keys", Keys, lambda found: replace(found, seal=found.mask)),
    "words of another size": changed("masked", Masked, lambda found: Masked(found.words[:3])),
}
BORNE = {
    "two letters that cannot be opened": changed("letters", Letters, letters_to({0, 7})),
    "accusations of everyone": changed("masked", Masked, lambda found: Masked(found.words, tuple(range(AGENTS)))),
    "an accusation of one": changed("masked", Masked, lambda found: Masked(found.words, (3,))),
    "wrong shares of everyone": changed("revealed", Revealed, garbage(EVERYONE)),
    "a wrong share of one": changed("revealed", Revealed, garbage({"2"})),
    "no shares": changed("revealed", Revealed, lambda found: Revealed({}, {})),
}
BLAMED = ("accusations of everyone", "wrong shares of everyone")
OLD: dict[str, bytes] = {}


@pytest.mark.parametrize("lie", list(FATAL))
def test_who_spoils_a_secure_sum_is_blamed_and_the_next_one_is_right(lie):
    OLD.clear()
    if lie == "letters of an earlier sum":
        held(FATAL[lie])
    found, guilty = held(FATAL[lie])
    assert isinstance(found, SecureSumError)
    assert set(guilty) == {LIAR}
    honest = [member for member in range(AGENTS) if member not in guilty]
    again, guilty = held(FATAL[lie], honest)
    np.testing.assert_array_equal(again, right(honest))
    assert not guilty


@pytest.mark.parametrize("lie", list(BORNE))
def test_lies_that_few_tell_do_not_spoil_a_secure_sum(lie):
    found, guilty = held(BORNE[lie])
    np.testing.assert_array_equal(found, right())
    assert set(guilty) == ({LIAR} if lie in BLAMED else set())


@pytest.mark.parametrize("action", ["shares", "masked", "reveal"])
def test_a_liar_in_secure_sums_on_a_grid_is_left_out_and_nobody_else(action):
    data = make_mixed_regression(600, 3, 2, snr=4, symmetric=True, random_state=0)
    agents = [
        Agent(name, data.X[first : first + 100], data.y[first : first + 100], COLUMNS, "y")
        for name, first in zip("abcdef", range(0, 600, 100))
    ]
    old = {}

    def spoil(node, message, reply):
        kind = message.metadata.message_type
        if node == 103 and kind == f"query.{action}" and "data" in reply.content["wmlr"]:
            reply.content["wmlr"]["data"] = old.setdefault(kind, bytes(reply.content["wmlr"]["data"]))
        return reply

    outcome, lines = fitted_among(
        agents, spoil=spoil, terms=RunTerms(secure=Secure()), patience=20.0, round_timeout=5.0, errors=False
    )
    left = [line for line in lines if "is left out from here on" in line]
    assert [line.split()[1] for line in left] == ["c"], lines
    assert set(outcome.engine.settled) == set("abdef")
    np.testing.assert_allclose(outcome.fitted.coef_, central([*agents[:2], *agents[3:]])[0].coef_, rtol=1e-6)


def garbled(message, reply):
    reply.content["wmlr"]["data"] = b"garbage"
    return reply


HANGING = {
    "silence": lambda message, reply: None,
    "a line that breaks": lambda message, reply: Message(Error(5, "gone"), reply_to=message),
    "garbage": garbled,
    "refusals": lambda message, reply: Message(pack({"refusal": "refused"}), reply_to=message),
}


def judged_by_majority(lie, from_message):
    """A fit under masks by the majority of nine, of whom one lies from a message on; and how many it was sent."""
    data = make_mixed_regression(1800, 3, 2, snr=5, symmetric=True, random_state=3)
    agents = [
        Agent(name, data.X[first : first + 200], data.y[first : first + 200], COLUMNS, "y", **TRUSTING)
        for name, first in zip("abcdefghi", range(0, 1800, 200))
    ]
    sent = 0

    def spoil(node, message, reply):
        nonlocal sent
        if node != 105 or message.metadata.message_type in ("query.join", "query.end"):
            return reply
        sent += 1
        return reply if sent < from_message else lie(message, reply)

    given = {"terms": RunTerms(secure=Secure()), "trust": "majority", "round_timeout": 0.3, "patience": 0.6}
    return fitted_among(agents, spoil=spoil, **given)[0], agents, sent


@pytest.mark.parametrize("lie", ["silence", "garbage", long("a line that breaks"), long("refusals")])
def test_one_agent_that_hangs_its_group_does_not_end_a_fit_by_majority(lie):
    outcome, agents, _ = judged_by_majority(HANGING[lie], 7)
    assert set(outcome.engine.settled) == set("abcdfghi")
    np.testing.assert_allclose(outcome.fitted.coef_, central([*agents[:4], *agents[5:]])[0].coef_, rtol=1e-6)


def test_one_agent_that_hangs_its_group_at_the_standard_errors_is_left_out_of_them():
    whole, _, sent = judged_by_majority(None, np.inf)
    outcome, _, _ = judged_by_majority(HANGING["silence"], sent - 1)
    np.testing.assert_allclose(outcome.fitted.coef_, whole.fitted.coef_, rtol=1e-9)
    np.testing.assert_allclose(outcome.errors["x1[1]"], whole.errors["x1[1]"], rtol=0.2)
