"""The rows a page is drawn from: all of them, or a sample that is the same every time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from wmlr.core.round import Rows
from wmlr.estimator.row_roles import RowRoles, read_beside, split_response
from wmlr.io.frames import as_frame, is_frame
from wmlr.numerics.arrays import Array, Beside, Integers, mix
from wmlr.numerics.sparse import dense

MOST_ROWS = 20_000
FEWEST_ROWS = 500
MOST_CELLS = 4_000_000


@dataclass(frozen=True, eq=False)
class RowSample:
    """Rows, and what a fitted model says of them.

    Attributes
    ----------
    X, y : the rows, X as the model takes it.
    means, shares : (m, k), each component's mean and responsibility there.
    units : (u, k), the responsibilities of the rows, or of the groups where rows share their component.
    index : the rows' numbers in the data, from 0.
    total : how many rows there are in all.
    labels : each row's group; None without groups.
    weight : how often each row counts; None where each counts once.
    called : what each row is called; None where it is only numbered.
    beside : what else is known of each row, by its role; y of rows with trials is their share of successes.
    """

    X: Any
    y: Array
    means: Array
    shares: Array
    units: Array
    index: Integers
    total: int
    labels: NDArray[Any] | None = None
    weight: Array | None = None
    called: NDArray[Any] | None = None
    beside: Beside = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.y)

    @classmethod
    def of(
        cls,
        fitted: Any,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        called: Any = None,
        **roles: Unpack[RowRoles],
    ) -> RowSample:
        """Rows in memory.

        Parameters
        ----------
        fitted : the model.
        X, y, sample_weight, groups : the rows, as the model's methods take them.
        called : what each row is called.
        **roles : what else is known of each row, as in the fit.
        """
        X = as_frame(X) if is_frame(X) else X
        _, target, labels = fitted.fitted_.inputs.with_target(X, y, groups)
        target, known = split_response(target, roles)
        target = np.asarray(target, dtype=np.float64)
        beside = read_beside(known, len(target))
        target = target / np.maximum(beside["trials"], 1.0) if "trials" in beside else target
        labels = None if labels is None else np.asarray(labels)
        chosen = sample(len(target), most_rows(X.shape[1]))
        part = X.iloc[chosen] if is_frame(X) else X[chosen]
        part = dense(part)
        some: Any = {role: np.asarray(given)[chosen] for role, given in roles.items()}
        if labels is None:
            shares = units = fitted.responsibilities(part, None if y is None else np.asarray(y)[chosen], **some)
        else:
            each = fitted.responsibilities(X, y, labels, **roles)
            shares, units = each[chosen], each[np.unique(labels, return_index=True)[1]]
        return cls(
            part,
            target[chosen],
            fitted.predict_components(part, **some),
            shares,
            units,
            chosen,
            len(target),
            None if labels is None else labels[chosen],
            None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)[chosen],
            None if called is None else np.asarray(called, dtype=object)[chosen],
            {role: values[chosen] for role, values in beside.items()},
        )

    @classmethod
    def from_blocks(cls, fitted: Any, blocks: Iterable[Rows], names: Sequence[str], total: int) -> RowSample:
        """Rows that come block by block, no group split; about as many are kept as would be in memory.

        Parameters
        ----------
        fitted : the model.
        blocks : the rows; their X has the columns ``names``.
        total : how many rows all blocks have.
        """
        pandas = import_module("pandas")
        share = min(1.0, most_rows(len(names)) / max(total, 1))
        parts: list[RowSample] = []
        first = 0
        for rows in blocks:
            index = np.arange(first, first + len(rows))
            first += len(rows)
            kept = _code(index) <= np.uint64(share * float(2**64 - 2**12))
            if not kept.any() and rows.starts is None:
                continue
            frame = pandas.DataFrame(np.asarray(rows.X), columns=list(names))
            if rows.starts is None:
                shares = units = fitted.responsibilities(frame[kept], rows.y[kept])
            else:
                codes = np.repeat(np.arange(len(rows.starts)), rows.group_sizes)
                each = fitted.responsibilities(frame, rows.y, codes)
                shares, units = each[kept], each[rows.starts]
            weight = None if rows.weight is None else rows.weight[kept]
            means = fitted.predict_components(frame[kept]) if kept.any() else np.empty((0, units.shape[1]))
            parts.append(cls(frame[kept], rows.y[kept], means, shares, units, index[kept], 0, None, weight))
        weights = [part.weight for part in parts if part.weight is not None]
        return cls(
            pandas.concat([part.X for part in parts], ignore_index=True),
            np.concatenate([part.y for part in parts]),
            np.concatenate([part.means for part in parts]),
            np.concatenate([part.shares for part in parts]),
            np.concatenate([part.units for part in parts]),
            np.concatenate([part.index for part in parts]),
            first,
            None,
            np.concatenate(weights) if weights else None,
        )

    def take(self, most: int) -> Integers:
        """The places of at most so many of these rows: those that a smaller sample would have."""
        return sample(len(self), most)


def most_rows(n_columns: int) -> int:
    """How many rows to look at: fewer, where there are very many columns."""
    return int(np.clip(MOST_CELLS // max(n_columns, 1), FEWEST_ROWS, MOST_ROWS))


def sample(n: int, most: int) -> Integers:
    """At most so many of the numbers below n, in order; chosen by a fixed scrambling of the numbers themselves."""
    everyone = np.arange(n, dtype=np.int64)
    if n <= most:
        return everyone
    return np.sort(np.argpartition(_code(everyone), most)[:most]).astype(np.int64)


def _code(numbers: Integers) -> NDArray[np.uint64]:
    return mix(numbers.astype(np.uint64))
