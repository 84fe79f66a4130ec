"""On how few of an agent's rows its numbers stand, one by one and all together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from wmlr.core.query import Query
from wmlr.core.round import Rows, add
from wmlr.model.known import KNOWN
from wmlr.numerics.arrays import Array, Integers, Sums

NOTHING = 1e-13  # of a column of weights: what rounding leaves of one that earlier ones combine to
MOST_PLACES = 2048  # places in which rows' weights in all that was shown are remembered
MOST_LEVERAGE = 0.5  # above it one row outweighs all others in some combination of what was shown
MOST_TO_KNOWERS = 0.8  # of a row to who knows all columns: its y is then known to half its deviation
ROUNDING = 1e-9  # of the numbers that are added
HIDDEN_PART = 1e-12  # of the numbers that are added: more than weights can differ by that are taken for the same
LEAST_GRAIN = 1e-290
BLOCKS = 32  # of rows, whose answers are compared
MOST_HELD = 2**27
"""Numbers that an agent's rows may become while it answers: a gigabyte; or as many as they are, a few times over."""


def effective_rows(shares: Array) -> Array:
    """How many rows weighted sums stand on, (sum w)^2 / sum w^2 for each column of weights (n, c) (Kish, 1965).

    A sum of one row has 1, one of n rows that count alike n. A column in which no row counts has 0.
    """
    sizes = np.abs(shares).max(axis=0, initial=0.0)
    shares = np.abs(shares) / np.where(sizes > 0, sizes, 1.0)
    return np.asarray(shares.sum(axis=0) ** 2 / np.maximum((shares**2).sum(axis=0), 1.0))


def fewest_rows(query: Query, rows: Rows) -> float:
    """The fewest rows that any number of an answer stands on; infinity where no row is looked at.

    Rows that are left out count as well: what they sum to follows from an answer of all rows. Numbers that no row
    counts in stand on none: were they shown, and withheld where there is one, that would tell whether it is there.
    Where rows share their component they all count in it or none does, and such numbers are left out.
    """
    found = [*shares_in(query, rows), *shares_in(query, rows, scalars=True)]
    counts = np.concatenate([np.zeros(0), *map(effective_rows, found)])
    return float(np.min(counts if stand_alone(query, rows) else counts[counts > 0], initial=np.inf))


def stand_alone(query: Query, rows: Rows) -> bool:
    """Whether rows have components of their own in some statistic of a query, whatever they share outside it."""
    seen = query.rows(rows)
    children = query.children()
    return any(stand_alone(child, seen) for child in children) if children else seen.starts is None


def largest_part(query: Query, rows: Rows, block: Integers) -> float:
    """The largest part that the rows of one block, of the :data:`BLOCKS` drawn for all rows, have in any number.

    Whatever statistics declare, a number that one row outweighs all others in is a number that its block does so in.
    Rows that share their component add to its numbers in proportion to what they add where it is known to be theirs;
    numbers that are no sums over blocks even then, such as squares of all rows' sums, are left out.
    """
    if rows.starts is None or stand_alone(query, rows):
        return float(np.max(_largest_parts(_of_blocks(query, rows, block)), initial=0.0))
    known = [rows] if query.components == 1 else [_all_of(rows, one) for one in range(query.components)]
    return max(_largest_shared_part(query, one, block) for one in known)


def round_answer(sums: Sums, query: Query, rows: Rows, block: Integers) -> Sums:
    """An answer without the digits in which weights that were taken for the same could be told apart."""
    sizes = add({name: np.abs(value) for name, value in query.answer(one).items()} for one in _blocks(rows, block))
    found = {}
    for name, value in sums.items():
        grain = np.exp2(np.ceil(np.log2(np.maximum(HIDDEN_PART * sizes[name], LEAST_GRAIN))))
        found[name] = np.round(value / grain) * grain
    return found


def _largest_shared_part(query: Query, rows: Rows, block: Integers) -> float:
    numbers, whole = _of_blocks(query, rows, block), _numbers(query, rows)
    sums = ~(np.abs(numbers.sum(axis=0) - whole) > ROUNDING * np.abs(numbers).sum(axis=0))
    return float(np.max(_largest_parts(numbers[:, sums]), initial=0.0))


def _largest_parts(numbers: Array) -> Array:
    """Of each number that is not nil everywhere; one that floating point cannot hold is taken for one block's."""
    if not np.all(np.isfinite(numbers)):
        return np.ones(1)
    sizes = np.abs(numbers)
    sizes = sizes[:, np.any(sizes, axis=0)]
    return np.asarray(sizes.max(axis=0, initial=0.0) / sizes.sum(axis=0))


def _of_blocks(query: Query, rows: Rows, block: Integers) -> Array:
    return np.array([_numbers(query, one) for one in _blocks(rows, block)])


def _blocks(rows: Rows, block: Integers) -> Iterator[Rows]:
    return (_some(rows, block == one) for one in np.unique(block))


def _numbers(query: Query, rows: Rows) -> Array:
    return np.concatenate([np.ravel(value) for value in query.answer(rows).values()])


def _all_of(rows: Rows, component: int) -> Rows:
    """The rows, all of which are known to be of one component."""
    return replace(rows, beside={**rows.beside, KNOWN: np.full(len(rows), float(component))})


def _some(rows: Rows, chosen: NDArray[np.bool_]) -> Rows:
    """Some rows, as a group where all of them are one."""
    taken = replace(rows, starts=None).take(chosen)
    return taken if rows.starts is None else replace(taken, starts=np.zeros(1, dtype=np.int64))


def shares_in(query: Query, rows: Rows, scalars: bool = False, choosing: bool = False) -> Iterator[Array]:
    """How much each row counts in the numbers of an answer: (n, c) for each statistic in the query.

    With ``scalars``, in those single ones that say no more than likelihoods; with ``choosing``, of these only in those
    that share out the rows in a way of their own.
    """
    seen, chosen = query.rows(rows), query.keeps(rows)
    kept = np.ones(len(rows), dtype=bool) if chosen is None else chosen
    if chosen is not None or query.chooses_rows:
        yield np.column_stack([kept, ~kept]).astype(np.float64)
    found = [shares for child in query.children() for shares in shares_in(child, seen, scalars, choosing)]
    if len(seen) and scalars:
        found += [_affordable_shares(query, query.scalar_shares, seen)] if query.scalars_choose or not choosing else []
    elif len(seen) and (not query.children() or type(query).shares is not Query.shares):
        found.append(_affordable_shares(query, query.shares, seen))
    for shares in found:
        whole = np.zeros((len(rows), shares.shape[1]))
        whole[kept] = shares
        yield whole


def _affordable_shares(query: Query, shares: Callable[[Rows], Array], rows: Rows) -> Array:
    """How rows count, if that takes no more memory than an agent has."""
    columns = shares(_some(rows, np.arange(len(rows)) == 0)).shape[1]
    if len(rows) * max(columns, query.numbers_per_row) > MOST_HELD:
        raise ValueError(f"{query.label} takes too much memory to be looked at, for {len(rows):,} rows")
    return shares(rows)


def weights_in(query: Query, rows: Rows, folded: csr_array) -> Iterator[Array]:
    """What is known of how rows count in the numbers of an answer, to whoever knows the rows' columns.

    These are the shares, and how they change, times the :meth:`~wmlr.core.query.Query.factors`: (m, c) in the m places
    of ``folded`` (m, n) that rows are added to.
    """
    seen, chosen = query.rows(rows), query.keeps(rows)
    if chosen is not None:
        yield folded @ np.column_stack([chosen, ~chosen]).astype(np.float64)
        folded = folded[:, chosen]
    for child in query.children():
        yield from weights_in(child, seen, folded)
    if len(seen) and (not query.children() or type(query).shares is not Query.shares):
        shares = np.hstack([query.shares(seen), query.share_slopes(seen)])
        shares = np.hstack([shares, query.scalar_shares(seen)]) if query.scalars_choose else shares
        numbers, alone = np.arange(len(seen)) // MOST_PLACES, replace(seen, starts=None)
        pieces = [(one, alone.take(one)) for one in (numbers == piece for piece in range(int(numbers[-1]) + 1))]
        for share in shares.T:
            yield sum(folded[:, one] @ (share[one, None] * query.factors(some)) for one, some in pieces)


class Disclosure:
    """All that has left in the clear, as the weights of rows in it; and how near it comes to a single row.

    Of what was shown, whoever sees it can form any combination, and who knows the rows' columns knows which: X'Wy for
    many W gives every y. The combination in which a row weighs most has the row's *leverage* as the row's part of its
    squared weights, the squared length of the row's direction inside all weights: at 1 the row stands alone there.
    Of many rows some are added up, with signs, in places that nobody else knows: a row that stands alone in some
    combination is then alone in its place.

    Parameters
    ----------
    rows : how many there are.
    most : the largest leverage that a row may have.
    """

    def __init__(self, rows: int, most: float = MOST_LEVERAGE) -> None:
        self.most = most
        generator, places = np.random.default_rng(), min(rows, MOST_PLACES)
        signs = generator.choice([-1.0, 1.0], rows)
        self.places = csr_array((signs, (generator.permutation(rows) % places, np.arange(rows))), (places, rows))
        self._basis = np.zeros((places, 0))

    def leverage(self, weights: Iterable[Array]) -> tuple[float, Array]:
        """The largest leverage of a row with these weights shown as well, and the basis of all that is then shown."""
        basis, largest = self._basis, self._largest(self._basis)
        for part in weights:
            rest = _scale_columns(part)
            rest = rest / np.linalg.norm(rest, axis=0)
            for _ in range(2):
                rest = rest - basis @ (basis.T @ rest)
            left, sizes, _ = np.linalg.svd(rest, full_matrices=False)
            basis = np.hstack([basis, left[:, sizes > NOTHING]])
            largest = self._largest(basis)
            if largest > self.most:
                break
        return largest, basis

    @property
    def numbers(self) -> int:
        """How many numbers were shown that do not follow from others."""
        return int(self._basis.shape[1])

    def show(self, basis: Array) -> None:
        """What :meth:`leverage` was asked about is shown."""
        self._basis = basis

    @staticmethod
    def _largest(basis: Array) -> float:
        return float(np.max((basis**2).sum(axis=1), initial=0.0))


def _scale_columns(shares: Array) -> Array:
    sizes = np.abs(shares).max(axis=0, initial=0.0)
    if not np.all(np.isfinite(sizes)):
        raise ValueError("how rows count in an answer is not a number")
    return np.asarray(shares[:, sizes > 0] / sizes[sizes > 0])
