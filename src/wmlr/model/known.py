"""Rows whose component is known: in every other their density is nil."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from wmlr.families.point_mass import NEVER
from wmlr.numerics.arrays import Array

KNOWN = "known"  # the role of the component that a row is known to be of, counted from 0; -1 where it is not known


def with_known_components(densities: Array, beside: Mapping[str, Array]) -> Array:
    """Log-densities (n, ..., k), those of a row in components that it is known not to be of as good as nil."""
    if KNOWN not in beside:
        return densities
    known = beside[KNOWN].reshape(-1, *[1] * (densities.ndim - 1))
    return np.where((known >= 0) & (known != np.arange(densities.shape[-1])), NEVER, densities)
