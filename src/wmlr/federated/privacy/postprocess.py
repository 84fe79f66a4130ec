"""Noisy sums made into what sums can be, so that every method bears them. It looks at nothing but the noisy sums."""

from __future__ import annotations

import numpy as np

from wmlr.core.round import Query
from wmlr.federated.parts import AMOUNTS, GRAMS, parts_of
from wmlr.numerics.arrays import Array, Sums


def mended(query: Query, sums: Sums, errors: Sums) -> Sums:
    """Amounts are lifted to their noise, Gram matrices made positive definite; ``errors`` are the noise's deviations.

    An eigenvalue of a Gram that is lost in the noise is lifted to the noise: its direction is then held to be no
    better known than that.
    """
    grams = parts_of(query, GRAMS)
    return {name: _mended(name, value, errors[name], name in grams) for name, value in sums.items()}


def _mended(name: str, value: Array, error: Array, gram: bool) -> Array:
    if gram:
        values, vectors = np.linalg.eigh(value)
        least = float(error.max(initial=0.0)) * float(np.sqrt(value.shape[-1]))
        lifted = np.maximum(values, least)
        return np.asarray((vectors * lifted[..., None, :]) @ np.swapaxes(vectors, -1, -2))
    return np.maximum(value, error) if name.rsplit("/", 1)[-1] in AMOUNTS else value
