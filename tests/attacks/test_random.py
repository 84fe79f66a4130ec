"""Random fits and random messages end right, or in one line; ``make fuzz`` tries many more."""

import random_fits
import random_messages


def test_a_thousand_random_fits_end_right_or_are_refused_in_one_line():
    found = random_fits.fits(1000, 7)
    assert {said: times for said, times in found.items() if said not in random_fits.FINE} == {}
    assert found["right"] > 500


def test_a_thousand_random_messages_are_read_right_or_refused_in_one_line():
    found = random_messages.trials(1000, 7)
    assert {said: times for said, times in found.items() if said not in ("read", "refused")} == {}
    assert min(found["read"], found["refused"]) > 10
