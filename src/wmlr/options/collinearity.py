"""Columns that nearly follow from the others: what one of them does, the others held, cannot be told."""

from __future__ import annotations

from collections.abc import Collection
from shlex import quote
from typing import Any

import numpy as np

LEFT = 0.01  # of a column's variance, once all others are known
NOTHING = 1e-9  # below which a column follows exactly, and the fit names it itself
MOST_COLUMNS = 500
NAMED = 4


def shared_variance_note(X: Any, levels: Collection[str] = ()) -> str:
    """A sentence on columns of a frame of numbers that nearly follow from the others; nothing where none does.

    Parameters
    ----------
    X : the columns.
    levels : those that stand for levels of text, which follow from each other by their making.
    """
    values = np.asarray(X, dtype=np.float64)
    spread = values.std(axis=0) if len(values) else np.zeros(values.shape[1])
    kept = np.flatnonzero(spread > 0)
    if not 2 <= len(kept) <= min(MOST_COLUMNS, len(values) - 2):
        return ""
    correlations = np.corrcoef(values[:, kept], rowvar=False)
    sizes, directions = np.linalg.eigh(correlations)
    if sizes[0] < NOTHING:
        return ""
    left = 1.0 / (directions**2 / sizes).sum(axis=1)
    names = [str(X.columns[place]) for place in kept]
    found = [place for place in np.argsort(left) if left[place] < LEFT and names[place] not in levels]
    if not found:
        return ""
    shown = [names[place] for place in found[:NAMED]]
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return (
        f"{', '.join(shown)}{more} nearly follow{'s' if len(found) == 1 else ''} from the other columns (but for "
        f"{left[found[0]]:.2g} of {shown[0]}'s variance): their effects cannot be told apart; leave one out, as by "
        f"--exclude {quote(shown[-1])}"
    )
