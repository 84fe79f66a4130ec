"""Project noisy sums onto valid ones: amounts that are not negative, positive definite Gram matrices.

It looks at nothing but the noisy sums, so it costs no privacy.
"""

from __future__ import annotations

import numpy as np

from wmlr.core.query import Kind, Parts
from wmlr.numerics.arrays import Array, Sums


def valid_sums(parts: Parts, sums: Sums, errors: Sums) -> Sums:
    """Amounts raised to their noise, and Gram matrices made positive definite; ``errors`` are the noise's deviations.

    An eigenvalue of a Gram that is lost in the noise is raised to the noise: its direction is then held to be no
    better known than that.
    """
    return {name: _valid(value, errors[name], parts[name].kind) for name, value in sums.items()}


def _valid(value: Array, error: Array, kind: Kind) -> Array:
    if kind is Kind.GRAM:
        values, vectors = np.linalg.eigh(value)
        least = float(error.max(initial=0.0)) * float(np.sqrt(value.shape[-1]))
        raised = np.maximum(values, least)
        return np.asarray((vectors * raised[..., None, :]) @ np.swapaxes(vectors, -1, -2))
    return np.maximum(value, error) if kind.is_amount else value
