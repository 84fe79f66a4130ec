"""Random fits and random messages end right, or in one line; ``make fuzz`` tries many more."""

import numpy as np
import pytest
import random_fits
import random_messages


def test_hundreds_of_random_fits_end_right_or_are_refused_in_one_line():
    found = random_fits.fits(400, 7)
    assert {said: times for said, times in found.items() if said not in random_fits.FINE} == {}
    assert found["right"] > 200


def test_a_thousand_random_messages_are_read_right_or_refused_in_one_line():
    found = random_messages.trials(1000, 7)
    assert {said: times for said, times in found.items() if said not in ("read", "refused")} == {}
    assert min(found["read"], found["refused"]) > 10


@pytest.mark.parametrize(("seed", "turn"), [(101, 492), (106, 28), (109, 367), (113, 138), (119, 494), (120, 178)])
def test_a_penalty_on_numbers_that_dwarf_it_ends_right(seed, turn):
    """Columns of 1e60, of equal entries and of weights of 1e9, whose penalty is lost in their rounding."""
    assert random_fits.outcome(np.random.default_rng([seed, turn])) == "right"


def test_a_climb_that_goes_straight_on_overflows_nowhere():
    assert random_fits.outcome(np.random.default_rng([212, 212])) in random_fits.FINE


def test_a_pair_among_agents_that_is_one_component_is_fitted_as_one():
    assert random_fits.outcome(np.random.default_rng([1, 3298])) == "right"
