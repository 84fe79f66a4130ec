"""Numbers in fixed point: sums of them are exact, and can be masked word by word.

Each number becomes four signed digits of 48 bits, from 2^-96 to 2^96, each in a word of 64 bits. The words of many
agents add without carrying: what is left of a word holds the digits of 32,767 agents. So the sum of answers of any
scale is exact to 2^-96 per agent, no scale need be agreed on, and no overflow goes unseen: a number that does not
fit is refused before it is sent.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wmlr.federated.messages import MessageError
from wmlr.numerics.arrays import Array

Words = NDArray[np.uint64]

DIGITS = 4
BASE = 2.0**48
LARGEST = BASE**2
MOST_AGENTS = 2**15 - 1


def encode(vector: Array) -> Words:
    """The words of a vector: (4 n,)."""
    if not np.all(np.isfinite(vector)):
        raise MessageError("an answer holds a number that is not finite")
    size = float(np.abs(vector).max(initial=0.0))
    if size >= LARGEST:
        raise MessageError(f"an answer holds {size:.3g}, which does not fit the secure sum (below {LARGEST:.3g})")
    digits = np.empty((DIGITS, len(vector)))
    rest = vector / BASE
    for place in range(DIGITS - 1):
        digits[place] = np.trunc(rest)
        rest = (rest - digits[place]) * BASE
    digits[-1] = np.rint(rest)
    return digits.astype(np.int64).view(np.uint64).ravel()


def decode(words: Words) -> Array:
    """The vector whose words, or sums of words, these are."""
    digits = words.view(np.int64).reshape(DIGITS, -1).astype(np.float64)
    vector = np.zeros(digits.shape[1])
    for digit in digits[::-1]:
        vector = vector / BASE + digit
    return vector * BASE


def check_agents(count: int) -> None:
    """Raise where so many agents' digits could overflow a word."""
    if count > MOST_AGENTS:
        raise ValueError(f"a secure sum takes at most {MOST_AGENTS} agents (got {count}): lower participation")
