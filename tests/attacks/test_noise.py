"""A server that looks at the last bits of noisy answers: sums of floating-point numbers remember what was added."""

from fractions import Fraction

import numpy as np

from wmlr.core.round import Rows
from wmlr.datasets import make_mixed_regression
from wmlr.federated.privacy import Privacy
from wmlr.federated.privacy.noise import NoiseEnvelope
from wmlr.flower.agent import HIDING
from wmlr.statistics.moments import Moments
from wmlr.statistics.score import MixtureScore
from wmlr.statistics.selected_parts import Chosen

COLUMNS = 120
QUERY = Moments(fourth=True)
TERMS = Privacy(epsilon=0.9, rounds=4)


def shut(y, X, envelope):
    """An agent's answer as it leaves, by what is drawn for a fit of these terms."""
    return envelope.privatise(QUERY.answer(Rows(X, y)), TERMS.generator(0))


def clipped(y, X, envelope):
    """The numbers that noise was added to, if these are the agent's y."""
    exact = envelope.layout.flatten(QUERY.answer(Rows(X, y))) / envelope.units
    largest = float(np.abs(exact).max())
    exact *= min(1.0, envelope.longest / (largest * float(np.linalg.norm(exact / largest))))
    return np.trunc(exact / envelope.grid) * envelope.grid


def impossible(seen, exact):
    """How many numbers cannot be floating-point noise added to these exact ones.

    Where noise nearly cancels a number the sum is exact (Sterbenz, 1974), and what is left is a multiple of the noise's
    own last place: half of the wrong numbers give none (Mironov, 2012).
    """
    noise = seen - exact
    cancelled = (2.0 ** np.floor(np.log2(np.abs(noise) + 1e-300)) > np.abs(seen)) & (np.abs(seen) < np.abs(exact))
    places = [
        (Fraction(float(s)) - Fraction(float(e))) / Fraction(float(np.spacing(abs(n))))
        for s, e, n in zip(seen[cancelled], exact[cancelled], noise[cancelled])
    ]
    return sum(place.denominator != 1 for place in places)


def test_the_last_bits_of_a_noisy_answer_tell_nothing():
    """Of two values that a y may have, the wrong one is found out where its last bits cannot be: at any epsilon."""
    data = make_mixed_regression(200, COLUMNS, 2, snr=4, symmetric=True, random_state=0)
    envelope = NoiseEnvelope.of(QUERY, COLUMNS, False, TERMS, 1)
    choices = [data.y, data.y + 5.0 * (np.arange(200) == 0)]
    exact = [clipped(y, data.X, envelope) for y in choices]
    told = 0
    for trial in range(8):
        seen = shut(choices[trial % 2], data.X, envelope) / envelope.units
        right, wrong = impossible(seen, exact[trial % 2]), impossible(seen, exact[1 - trial % 2])
        told += right == 0 and wrong > 0
    assert told == 0


def test_noisy_answers_lie_on_a_grid_that_knows_nothing_of_the_rows():
    data = make_mixed_regression(200, 3, 2, snr=4, symmetric=True, random_state=0)
    for terms in (TERMS, Privacy(noise_multiplier=1e-20), Privacy(epsilon=8.0, clip=1e-30, x_scale=1e30)):
        envelope = NoiseEnvelope.of(QUERY, 3, False, terms, 1)
        steps = (
            envelope.privatise(QUERY.answer(Rows(data.X, data.y)), terms.generator(0)) / envelope.units / envelope.grid
        )
        np.testing.assert_allclose(steps, np.rint(steps), rtol=1e-12)
        assert envelope.grid <= 1e-6 * max(envelope.deviation, 1e-9 * envelope.longest)


def test_noise_is_the_operating_systems():
    """A generator for simulations is known from a few of its numbers, and tells all others."""
    first, second = (TERMS.generator(0).standard_normal(100_000) for _ in range(2))
    assert not isinstance(TERMS.generator(0), np.random.Generator)
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.02
    for moment, value in ((1, 0.0), (2, 1.0), (3, 0.0), (4, 3.0)):
        assert abs(np.mean(first**moment) - value) < 0.15


def directions_read(epsilon, n=60):
    """Cosines of each x with what is read of it, from one noisy answer at a state where its row stands alone."""
    generator = np.random.default_rng(0)
    X, y = generator.standard_normal((n, 3)), generator.standard_normal(n)
    terms, found = Privacy(epsilon=epsilon, rounds=1, clip=1e-14), []
    for x, at in zip(X, y):
        through = x * (at - 0.3) / float(x @ x) + 1e5 * np.cross(x, [1.0, 0.0, 0.0])
        query = MixtureScore(np.column_stack([through, np.zeros(3)]), np.log([0.5, 0.5]), np.array([0.1, 1e12]))
        envelope = NoiseEnvelope.of(Chosen(query, ("score",)), 3, False, terms, 1)
        alone = {"score": query.answer(Rows(X, y))["score"] * [1.0, 0.0]}
        read = envelope.layout.restore(envelope.privatise(alone, terms.generator(0)))["score"][:, 0]
        found.append(float(read @ x) / np.linalg.norm(read) / np.linalg.norm(x))
    return np.array(found)


def test_noise_under_which_no_floors_hold_hides_the_direction_of_a_row():
    """At epsilon 20 seven directions in ten were read to a cosine of .9; by chance it is one in twenty."""
    assert np.mean(directions_read(20.0) > 0.9) > 0.5
    hidden = np.concatenate([directions_read(HIDING) for _ in range(3)])
    assert np.mean(hidden > 0.9) < 0.25
    assert np.mean(hidden > 0.0) < 0.85
