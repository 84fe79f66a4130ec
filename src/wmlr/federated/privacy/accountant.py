"""What noise is worth: epsilon for so many noisy rounds, by the accountant of the ``dp-accounting`` package.

Neighbours differ by one agent with all its rows, whose answers are there or are nothing; how many agents there are is
public. Every round is a Gaussian mechanism, and rounds with noise z compose to one with noise z / sqrt(rounds), whose
epsilon is known exactly (Balle and Wang, 2018). Taking part in some rounds only is not counted in favour: the server
knows whom it asks.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from math import sqrt
from typing import Any

from wmlr.io.tables import MissingExtraError


def epsilon(noise_multiplier: float, rounds: int, delta: float) -> float:
    """The epsilon of so many rounds with the same noise, at a delta.

    Examples
    --------
    >>> round(epsilon(4.0, 4, 1e-5), 2)
    1.99
    """
    if rounds == 0:
        return 0.0
    return float(_library().get_epsilon_gaussian(noise_multiplier / sqrt(rounds), delta))


@cache
def calibrate_noise(target: float, rounds: int, delta: float) -> float:
    """The least noise multiplier with which so many rounds keep to a target epsilon."""
    return float(_library().get_sigma_gaussian(target, delta)) * sqrt(rounds)


def _library() -> Any:
    try:
        return import_module("dp_accounting")
    except ImportError:
        raise MissingExtraError("differential privacy needs dp-accounting: pip install 'wmlr[privacy]'") from None
