"""What a query says of itself: the queries inside it, the rows it looks at, and what its answer is made of.

Whoever reads a query or its answer (an agent before it answers, a server before it adds, the noise that hides an
answer) goes by these declarations alone. A statistic that declares no parts cannot be asked for across a border.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from wmlr.numerics.arrays import Array, Integers, Sums

if TYPE_CHECKING:
    from wmlr.core.round import Rows, SampleQuestion


MOST_PRODUCTS = 2048  # of columns: of so many rows at most it is known in what combinations they stand alone


@dataclass(frozen=True)
class PublicScales:
    """Public numbers: root mean squares of the columns of X and of y, and the rows of an agent."""

    x: float = 1.0
    y: float = 1.0
    rows: float = 1.0


Unit = Callable[[PublicScales], float]


def unit(x: float = 0.0, y: float = 0.0, rows: float = 1.0, times: float = 1.0) -> Unit:
    """The unit x^x y^y rows^rows times a number: what a number of a usual agent's answer is about as large as."""
    return lambda scales: times * float(scales.x**x * scales.y**y * scales.rows**rows)


class Kind(Enum):
    """What the numbers of a part are."""

    NUMBER = auto()
    """Anything."""
    AMOUNT = auto()
    """A sum of what is never negative."""
    COUNT = auto()
    """Every row looked at counts once, in one place of the last axis or shared out over it."""
    UNITS = auto()
    """Units (rows, or groups of them) over the last axis: no more than rows."""
    SYMMETRIC = auto()
    """Symmetric matrices in the last two axes."""
    GRAM = auto()
    """Positive semi-definite matrices in the last two axes."""
    TRIANGLE = auto()
    """Upper triangles of positive semi-definite matrices along the last axis."""

    @property
    def is_amount(self) -> bool:
        """Whether its numbers are never negative."""
        return self in (Kind.AMOUNT, Kind.COUNT, Kind.UNITS)

    @property
    def is_matrix(self) -> bool:
        """Whether its numbers are those of symmetric matrices."""
        return self in (Kind.SYMMETRIC, Kind.GRAM, Kind.TRIANGLE)


@dataclass(frozen=True)
class Part:
    """One array of an answer: its shape, what its numbers are measured in, and what they are."""

    shape: tuple[int, ...]
    unit: Unit
    kind: Kind = Kind.NUMBER

    @property
    def size(self) -> int:
        """How many numbers it holds."""
        return int(np.prod(self.shape, dtype=object))


Parts = Mapping[str, Part]


@dataclass(frozen=True)
class Field:
    """What a field of a query may hold, written in its type: ``coef: Annotated[Array, Field("p k")]``.

    Attributes
    ----------
    shape : a letter for each axis of an array. p is the number of columns, with or without one for the intercept;
        other letters are the same length wherever they stand in one query.
    above, least, most : bounds of its numbers, the first one not reached.
    rising : each number is larger than the one before, and there are two at least.
    """

    shape: str = ""
    above: float | None = None
    least: float | None = None
    most: float | None = None
    rising: bool = False


class Query:
    """A statistic over rows whose answers add: a frozen dataclass of arrays and numbers.

    Attributes
    ----------
    travels : whether it may be asked for across a border.
    scalars_choose : whether its single numbers share out the rows as no other number of its answer does, so that their
        differences at states next to each other are those of the rows that change sides.
    """

    travels: ClassVar[bool] = True
    scalars_choose: ClassVar[bool] = False

    def answer(self, rows: Rows) -> Sums:
        """The sums over these rows."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it sums: give it answer(rows)")

    @classmethod
    def answer_alike(cls, queries: Sequence[Self], rows: Rows) -> list[Sums]:
        """The answers of several queries of this class, which may share work."""
        return [query.answer(rows) for query in queries]

    def parts(self, columns: int, grouped: bool) -> Parts:
        """What an answer holds, from rows of so many columns, which stand alone or share their components."""
        raise NotImplementedError(f"{type(self).__name__} does not declare its answer: give it parts(columns, grouped)")

    def shares(self, rows: Rows) -> Array:
        """How much each of n rows counts in each component, bin or candidate of an answer: (n, c)."""
        raise NotImplementedError(f"{type(self).__name__} does not declare how rows count in it: give it shares(rows)")

    def scalar_shares(self, rows: Rows) -> Array:
        """The same for single numbers of an answer that say no more than its likelihoods at some states: (n, c)."""
        return np.zeros((len(rows), 0))

    def share_slopes(self, rows: Rows) -> Array:
        """Derivatives of a row's shares in its y, (n, c): who knows the columns can solve by those as well."""
        return np.zeros((len(rows), 0))

    def factors(self, rows: Rows) -> Array:
        """What the rows' shares are multiplied by in its sums, as whoever knows the columns knows it: (n, m).

        A constant, the columns and, where the answer has matrices, the first of their products.
        """
        matrices = any(part.kind.is_matrix for part in self.parts(rows.X.shape[1], grouped=False).values())
        return product_factors(self, rows) if matrices else linear_factors(self, rows)

    def children(self) -> tuple[Query, ...]:
        """The queries inside it."""
        return ()

    def keeps(self, rows: Rows) -> NDArray[np.bool_] | None:
        """True for the rows that are looked at; None where all are."""
        return None

    def rows(self, rows: Rows) -> Rows:
        """The rows that the queries inside it look at."""
        return rows

    @property
    def chooses_rows(self) -> bool:
        """Whether it may leave rows out."""
        return False

    def width(self, columns: int) -> int:
        """How many columns the queries inside it see."""
        return columns

    def check(self) -> None:
        """Raise ValueError where fields that are right by themselves do not fit together."""

    @property
    def repeats(self) -> float:
        """How often a row is gone over: by steps, nodes or draws."""
        return max((child.repeats for child in self.children()), default=1.0)

    @property
    def components(self) -> int:
        """How many components it has posteriors of, which a row's known component would decide."""
        return max((child.components for child in self.children()), default=1)

    @property
    def numbers_per_row(self) -> int:
        """How many numbers of each row are held at once while it is answered."""
        return self.components

    @property
    def members(self) -> tuple[Query, ...]:
        """The queries that it puts side by side; itself, where it is one."""
        return (self,)

    def join_answers(self, answers: Sequence[Sums]) -> Sums:
        """Its answer, from those of its members."""
        return answers[0]

    @property
    def sample(self) -> SampleQuestion | None:
        """What it asks of a sample of the rows, which may be of all; None where it asks for none."""
        return None

    def residual_form(self) -> Query:
        """What to ask in its place where other rows answer than told the second moments of the columns."""
        return self

    def from_residual_form(self, sums: Sums, moments: Sums) -> Sums:
        """Its own answer from that to its residual form, and the second moments told earlier."""
        return sums

    @property
    def tells_influence(self) -> bool:
        """Whether agents' own answers say how far the fit moves without each of them."""
        return any(child.tells_influence for child in self.children())

    def looks_at_all(self, part: str) -> bool:
        """Whether every row counts in a part of its answer."""
        return not self.chooses_rows and all(child.looks_at_all(part) for child in self.children())

    @property
    def of_each_agent(self) -> bool:
        """Whether the answer is about each agent's rows as a whole, so that they cannot be cut into blocks."""
        return any(child.of_each_agent for child in self.children())

    @property
    def is_costly(self) -> bool:
        """Whether a row takes so long that threads are to share out even a few thousand."""
        return any(child.is_costly for child in self.children())

    @property
    def is_sampled(self) -> bool:
        """Whether it, or a query inside it, looks at a sample of the rows, which engines keep."""
        return any(child.is_sampled for child in self.children())

    @property
    def maps_columns(self) -> bool:
        """Whether it, or a query inside it, looks at columns that whoever asks makes of the rows'."""
        return any(child.maps_columns for child in self.children())

    def answer_each(self, rows: Rows, firsts: Integers) -> Sums:
        """The summed answers of several agents, whose rows begin where ``firsts`` says."""
        return self.answer(rows)

    def pieces(self, rows: float) -> tuple[Query, ...]:
        """Queries whose answers about so many rows, laid end to end, are its own: what threads may share out."""
        return (self,)

    def wrap(self, wrapper: Callable[[Query], Query]) -> Query:
        """The query inside a wrapper; what engines look for in it (samples, several queries) stays outside."""
        return wrapper(self)

    @property
    def grams(self) -> bool:
        """Whether it asks for weighted Grams, from which a move follows, before it asks about the point it leads to."""
        return False

    def em_steps(self, answer: Sums) -> float:
        """How many steps of EM on all rows this answer was worth, in the search for a maximum."""
        return sum(child.em_steps(answer) for child in self.children())

    @property
    def label(self) -> str:
        """What it asks for, in a word."""
        inside = ", ".join(child.label for child in self.children())
        return f"{type(self).__name__}({inside})" if inside else type(self).__name__


class Wrapper(Query):
    """A query asked of some of the rows, or of other columns of them."""

    query: Any

    def view(self, rows: Rows) -> Rows:
        """The rows as the query inside sees them."""
        return rows

    def rows(self, rows: Rows) -> Rows:
        kept = self.keeps(rows)
        return self.view(rows if kept is None else rows.take(kept))

    def answer(self, rows: Rows) -> Sums:
        sums: Sums = self.query.answer(self.rows(rows))
        return sums

    def answer_each(self, rows: Rows, firsts: Integers) -> Sums:
        kept = self.keeps(rows)
        if kept is not None:
            firsts, _ = kept_agents(kept, firsts)
        sums: Sums = self.query.answer_each(self.rows(rows), firsts)
        return sums

    def children(self) -> tuple[Query, ...]:
        return (self.query,)

    def parts(self, columns: int, grouped: bool) -> Parts:
        parts: Parts = self.query.parts(self.width(columns), grouped)
        return parts


def join_pieces(answers: Sequence[Sums]) -> Sums:
    """The answers of a query's pieces as one."""
    if len(answers) == 1:
        return answers[0]
    return {name: np.concatenate([answer[name] for answer in answers]) for name in answers[0]}


def all_alike(query: Query, rows: Rows) -> Array:
    """The shares of a statistic in which all rows count alike: ``shares = all_alike`` declares it."""
    return np.ones((len(rows), 1))


def linear_factors(query: Query, rows: Rows) -> Array:
    """A constant and the rows' columns: ``factors = linear_factors`` declares that no products of them count."""
    beside = [values.reshape(len(rows), -1) for values in rows.beside.values()]
    return np.column_stack([np.ones(len(rows)), np.asarray(rows.X), *beside])


def product_factors(query: Query, rows: Rows) -> Array:
    """The first of the products of these: ``factors = product_factors`` declares that they count."""
    columns = linear_factors(query, rows)
    left, right = (places[:MOST_PRODUCTS] for places in np.triu_indices(columns.shape[1]))
    return np.asarray(columns[:, left] * columns[:, right])


def kept_agents(kept: NDArray[np.bool_], firsts: Integers) -> tuple[Integers, Integers]:
    """Where agents begin among the rows that are kept, and which of the agents have any."""
    owners = np.searchsorted(firsts, np.flatnonzero(kept), side="right") - 1
    present, begins = np.unique(owners, return_index=True)
    return begins.astype(np.int64), present.astype(np.int64)
