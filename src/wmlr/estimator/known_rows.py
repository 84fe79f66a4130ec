"""Checks of ``labels=``, the components that some rows are known to be of."""

from __future__ import annotations

import numpy as np

from wmlr.estimator.inputs import ModelRows
from wmlr.model.known import KNOWN


def refuse_labels(rows: ModelRows, k: int) -> None:
    """Raise at labels of more than k components, and at those that differ within a group."""
    if KNOWN not in rows.beside:
        return
    known = rows.beside[KNOWN]
    if known.max() >= k:
        raise ValueError(f"labels must be -1 or a component from 0 to {k - 1} (got {known.max():g})")
    if rows.groups is None:
        return
    labelled = known >= 0
    lowest, highest = np.full(len(rows.labels), np.inf), np.full(len(rows.labels), -np.inf)
    np.minimum.at(lowest, rows.groups[labelled], known[labelled])
    np.maximum.at(highest, rows.groups[labelled], known[labelled])
    apart = np.flatnonzero(lowest < highest)
    if len(apart):
        name = rows.labels[apart[0]]
        raise ValueError(f"rows of one group share their component, and group {name!r} has two labels")
