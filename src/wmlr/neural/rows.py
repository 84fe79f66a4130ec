"""Who answers a training step: mini-batches of arrays in memory, or every holder of rows in a round.

Both keep a share of the units back, chosen by their content, so that a fit in one place and one among agents
hold out the same rows.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from wmlr.core.query import Query
from wmlr.core.round import Engine, EngineWrapper, Rows, Sampled
from wmlr.engines.arrays import ArrayRows
from wmlr.neural.queries import Rest, sample_mask
from wmlr.numerics.arrays import Array, Integers, Sums

HOLDING_SEED = 20_240_229
ROUNDS_PER_EPOCH = 10
LEAST_STEPS = 10
LEAST_BATCH = 16


class TrainingRows(Protocol):
    """Rows to train on, and rows held out."""

    @property
    def steps_per_epoch(self) -> int: ...

    @property
    def n_features(self) -> int: ...

    def step_sums(self, query: Query, step: int) -> Sums:
        """The sums of one step's rows; asked again with the same step, the same rows."""
        ...

    def total(self, query: Query) -> Sums:
        """The sums of all rows to train on."""
        ...

    def held_out_sums(self, query: Query) -> Sums:
        """The sums of the rows held out; of those to train on, where none are."""
        ...


class Batches:
    """Arrays in memory, dealt in mini-batches of whole units in an order that the seed and the epoch decide."""

    def __init__(
        self, X: Any, y: Array, weight: Array | None, groups: Integers | None, share: float, size: int | None, seed: int
    ) -> None:
        order = np.arange(len(y)) if groups is None else np.argsort(groups, kind="stable")
        starts = None if groups is None else np.flatnonzero(np.diff(groups[order], prepend=-1))
        rows = Rows(X[order], y[order], None if weight is None else weight[order], starts, order)
        back = sample_mask(rows, share, HOLDING_SEED)
        self._train = rows.take(~back) if back.any() and not back.all() else rows
        self._held = rows.take(back) if back.any() and not back.all() else None
        self._whole = _engine(self._train)
        self._seed = seed
        n = len(self._train)
        units = n if groups is None else len(self._starts())
        self.steps_per_epoch = 1
        if size is not None:
            self.steps_per_epoch = min(units, max(1, round(n / size), min(LEAST_STEPS, n // LEAST_BATCH)))
        self._dealt: tuple[int, list[Integers]] | None = None

    @property
    def n_features(self) -> int:
        return self._whole.n_features

    def step_sums(self, query: Query, step: int) -> Sums:
        if self.steps_per_epoch == 1:
            return query.answer(self._train)
        epoch, place = divmod(step, self.steps_per_epoch)
        if self._dealt is None or self._dealt[0] != epoch:
            count = len(self._train) if self._train.starts is None else len(self._starts())
            shuffled = np.random.default_rng([self._seed, epoch]).permutation(count)
            self._dealt = epoch, np.array_split(shuffled, self.steps_per_epoch)
        return query.answer(self._rows_of(np.sort(self._dealt[1][place])))

    def total(self, query: Query) -> Sums:
        return self._whole.total(query)

    def held_out_sums(self, query: Query) -> Sums:
        return query.answer(self._train if self._held is None else self._held)

    def _starts(self) -> Integers:
        return np.zeros(0, dtype=np.int64) if self._train.starts is None else self._train.starts

    def _rows_of(self, units: Integers) -> Rows:
        rows = self._train
        if rows.starts is None:
            places, starts = units, None
        else:
            sizes = rows.group_sizes[units]
            starts = np.cumsum(sizes) - sizes
            places = np.repeat(rows.starts[units] - starts, sizes) + np.arange(int(sizes.sum()))
        return Rows(
            X=rows.X[places],
            y=rows.y[places],
            weight=None if rows.weight is None else rows.weight[places],
            starts=starts,
            index=None if rows.index is None else rows.index[places],
        )


class Rounds(EngineWrapper):
    """Any engine: every step is a round in which all who are there answer for all their rows."""

    def __init__(self, engine: Engine, share: float) -> None:
        super().__init__(engine)
        self.share = share
        self.steps_per_epoch = ROUNDS_PER_EPOCH

    def step_sums(self, query: Query, step: int) -> Sums:
        return self.total(query)

    def total(self, query: Query) -> Sums:
        return self.engine.total(query.wrap(self._rest) if query.is_sampled else self._rest(query))

    def held_out_sums(self, query: Query) -> Sums:
        if self.share <= 0:
            return self.total(query)
        return self.engine.total(Sampled(query, self.share, HOLDING_SEED))

    def _rest(self, query: Query) -> Query:
        return query if self.share <= 0 else Rest(query, self.share, HOLDING_SEED)


def _engine(rows: Rows) -> ArrayRows:
    groups = None
    if rows.starts is not None:
        groups = np.repeat(np.arange(len(rows.starts)), rows.group_sizes)
    return ArrayRows(rows.X, rows.y, rows.weight, groups, n_jobs=1)
