"""Moves from one maximum towards another: a component is dropped and another seeded, or two mixtures are crossed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from wmlr.core.round import Steps
from wmlr.methods.search import seeding
from wmlr.methods.search.landscape import Landscape
from wmlr.methods.search.population import Population, match
from wmlr.methods.search.seeding import Seeds
from wmlr.numerics.arrays import Array, Integers, Sums
from wmlr.statistics.seeds import OWN, SOFT, UNEXPLAINED, UNIFORM, ComponentUse

CAPS = np.array([6.0, 20.0, 400.0])
"""Squared distances beyond which rows count alike: near misses, clear misses, gross outliers."""


@dataclass(frozen=True)
class MoveKind:
    """One way to seed a component in the place of another.

    Attributes
    ----------
    rule : how rows count, see :mod:`wmlr.statistics.seeds`.
    cap : which of ``CAPS`` for UNEXPLAINED.
    rows : how many rows are drawn, per coefficient; 0 weighs all of them.
    shifted : from the component nearest to hand, by the least change that meets the drawn rows.
    level : one value of the response, whatever the features.
    robust : rounds of reweighting that close in on a component.
    """

    name: str
    rule: int
    cap: int = 0
    rows: float = 0.0
    shifted: bool = False
    robust: int = 0
    level: bool = False

    def drawn_rows(self, columns: int) -> float:
        """How many rows are drawn for a seed with so many coefficients."""
        return 1.0 if self.shifted or self.level else float(np.ceil(self.rows * columns)) + (self.rows == 1.0)


DRAWING_MOVES = (
    MoveKind("at gross misses", UNEXPLAINED, 2, 1.0),
    MoveKind("at clear misses", UNEXPLAINED, 1, 2.0),
    MoveKind("at near misses", UNEXPLAINED, 0, 4.0),
    MoveKind("through one row", UNEXPLAINED, 2, 0.0, shifted=True),
    MoveKind("splitting, few rows", OWN, 0, 1.0),
    MoveKind("splitting, more rows", OWN, 0, 3.0),
    MoveKind("anywhere", UNIFORM, 0, 1.0),
)
"""Moves that look at few rows: for rows that are at hand."""

WEIGHING_MOVES = (
    MoveKind("weighing misses", SOFT),
    MoveKind("closing in on misses", SOFT, robust=5),
    MoveKind("weighing large misses", UNEXPLAINED, 0),
    MoveKind("closing in on large misses", UNEXPLAINED, 0, robust=5),
)
"""Moves that weigh all rows: for rows that may not be looked at singly."""

BLIND_MOVES = (
    MoveKind("anywhere, weighing", UNIFORM),
    MoveKind("splitting, weighing", OWN),
    MoveKind("closing in anywhere", UNIFORM, robust=5),
)
"""More moves for rows that may not be looked at singly, in the place of those that do."""

CLOSING_MOVES = (
    MoveKind("weighing misses, many columns", SOFT),
    MoveKind("closing in slowly on misses", SOFT, robust=12),
    MoveKind("closing in slowly on large misses", UNEXPLAINED, 0, robust=12),
)
"""Moves for many columns, of which a few rows say nothing."""

LEVEL = MoveKind("at a value of the response", OWN, level=True)
"""A move for components with deviations of their own: responses that many rows have in common."""

JITTER = MoveKind("jitter", -1)
CROSS = MoveKind("cross", -2)
EXCHANGE = MoveKind("exchanging two components", -3)
"""A move for components of which different things are asked."""

INSERT = MoveKind("the best of several trials", -4)
"""A move for rows that are all at hand (:mod:`wmlr.methods.search.insertion`)."""

ANNEAL = MoveKind("exchanging rows", -5)
"""A move for rows that are all at hand (:mod:`wmlr.methods.search.annealing`)."""

KINDS = (*DRAWING_MOVES, *WEIGHING_MOVES, *BLIND_MOVES, *CLOSING_MOVES, JITTER, CROSS, LEVEL, EXCHANGE, INSERT, ANNEAL)
NEARBY = 0.5  # of the new components begin with the variance that the rows nearest to them have
FIRST_MOVE = 100  # of a candidate's origin, so that moves and sources have numbers of their own


def choose_kinds(draws: bool, wide: bool, levels: bool = False, hurried: bool = False) -> tuple[MoveKind, ...]:
    """The moves to choose from: few rows say nothing of many columns, and may not be looked at everywhere.

    ``hurried`` leaves out those that close in by round after round.
    """
    if hurried:
        return tuple(kind for kind in choose_kinds(draws, wide, levels) if not kind.robust)
    if wide:
        return CLOSING_MOVES
    if not draws:
        return (*WEIGHING_MOVES, *BLIND_MOVES, JITTER)
    return (*DRAWING_MOVES, *WEIGHING_MOVES, JITTER, LEVEL) if levels else (*DRAWING_MOVES, *WEIGHING_MOVES, JITTER)


@dataclass(frozen=True)
class Use:
    """What :class:`ComponentUse` says of each mixture in a population."""

    loss: Array
    unexplained: Array
    own: Array


def component_use(landscape: Landscape, mixtures: Population) -> Steps[Use]:
    """Ask what each component is worth."""
    query = ComponentUse(landscape.transform, mixtures.coef, mixtures.weights, landscape.spread * mixtures.s2, CAPS)
    sums: Sums = yield landscape.on_start_scale(query)
    return Use(sums["loss"], sums["unexplained"], sums["own"])


def offspring(
    landscape: Landscape,
    parents: Population,
    use: Use,
    chosen: Integers,
    kinds: tuple[MoveKind, ...],
    generator: np.random.Generator,
    units_per_row: float,
) -> Steps[Population]:
    """One new candidate from each parent in ``chosen`` (places in ``parents``): a component dropped, another seeded."""
    count = len(chosen)
    k, q = landscape.task.n_components, landscape.dimension
    picked = generator.integers(len(kinds), size=count)
    dropped = components_to_drop(use.loss[chosen], generator)
    other = draw_each(parents.weights[chosen], generator)
    coef = parents.coef[chosen].copy()
    seeded = coef[np.arange(count), dropped].copy()
    draw = int(generator.integers(2**62))
    for robust in (0, *sorted({kind.robust for kind in kinds if kind.robust})):
        lines = np.flatnonzero([kinds[number].robust == robust and kinds[number].rule >= 0 for number in picked])
        if not len(lines):
            continue
        seeds = _seeds(landscape, parents, use, chosen[lines], dropped[lines], other[lines],
                       [kinds[number] for number in picked[lines]], generator, units_per_row)  # fmt: skip
        if robust:
            lowest = generator.choice([0.1, 0.2, 0.3], size=len(lines))
            shares = 0.5 * (lowest[None, :] / 0.5) ** np.linspace(0.0, 1.0, robust)[:, None]
            seeded[lines] = yield from seeding.fit_robustly(landscape, seeds, parents, draw, shares)
        else:
            seeded[lines], _ = yield from seeding.fit(landscape, seeds, parents, draw)
    jittered = np.flatnonzero([kinds[number].rule == JITTER.rule for number in picked])
    for line in jittered:
        size = np.sqrt(landscape.spread * parents.s2[chosen[line], dropped[line]]) * generator.choice([1.0, 3.0, 10.0])
        seeded[line] += size * generator.standard_normal(q) / np.sqrt(q)
    coef[np.arange(count), dropped] = seeded
    weights, s2 = _offspring_shares(landscape, parents, chosen, dropped, generator)
    if landscape.separate:
        near = (generator.random(count) < NEARBY) | np.array([kinds[number].level for number in picked])
        weights[near], s2[near] = yield from _nearby(
            landscape, seeded[near], dropped[near], weights[near], s2[near], generator
        )
    exchanged = np.flatnonzero([kinds[number] is EXCHANGE for number in picked])
    for line in exchanged:
        order = _exchange(k, dropped[line], generator)
        parent = chosen[line]
        coef[line], weights[line] = parents.coef[parent, order], parents.weights[parent, order]
        s2[line] = parents.s2[parent, order]
    origin = np.array([FIRST_MOVE + KINDS.index(kinds[number]) for number in picked], dtype=np.int64)
    return replace(Population.of(coef, weights, s2, parents.lineage[chosen], 0), origin=origin)


def cross(
    landscape: Landscape, parents: Population, first: Integers, second: Integers, generator: np.random.Generator
) -> Population:
    """Cross two mixtures: their components are matched one to one, and each is taken from either."""
    count, k = len(first), landscape.task.n_components
    one, two = parents.take(first), parents.take(second)
    coef, weights, s2 = one.coef.copy(), one.weights.copy(), one.s2.copy()
    exchange = landscape.task.exchange
    for line in range(count):
        order = match(one.coef[line], two.coef[line], exchange)
        other = generator.random(k) < 0.5
        if other.all() or not other.any():
            other[generator.integers(k)] ^= True
        for values, theirs in ((coef, two.coef), (weights, two.weights), (s2, two.s2)):
            values[line, other] = theirs[line, order][other]
    if landscape.task.shared_sigma or landscape.task.sigma is not None:
        s2 = np.maximum(one.s2, two.s2)
    weights = weights / weights.sum(axis=1, keepdims=True)
    return Population.of(coef, weights, s2, one.lineage, FIRST_MOVE + KINDS.index(CROSS))


def _exchange(k: int, one: int, generator: np.random.Generator) -> Integers:
    """The components' order after one of them has changed places with another."""
    order = np.arange(k)
    other = (one + 1 + int(generator.integers(k - 1))) % k
    order[[one, other]] = order[[other, one]]
    return order


def components_to_drop(loss: Array, generator: np.random.Generator) -> Integers:
    """One of each mixture, of losses (c, k): any component half of the time, else rather the least useful."""
    useless = 1.0 / (loss + 1e-3 * loss.max(axis=1, keepdims=True) + 1e-9)
    return draw_each(0.5 * useless / useless.sum(axis=1, keepdims=True) + 0.5 / loss.shape[1], generator)


def draw_each(chances: Array, generator: np.random.Generator) -> Integers:
    """An index for each row of (c, k), drawn with these probabilities."""
    below = np.cumsum(chances, axis=1)
    drawn = generator.random((len(chances), 1)) * below[:, -1:]
    return np.asarray((below[:, :-1] <= drawn).sum(axis=1), dtype=np.int64)


def _seeds(
    landscape: Landscape,
    parents: Population,
    use: Use,
    chosen: Integers,
    dropped: Integers,
    other: Integers,
    kinds: list[MoveKind],
    generator: np.random.Generator,
    units_per_row: float,
) -> Seeds:
    count, q = len(chosen), landscape.dimension
    rows = landscape.rows_looked_at
    rule = np.array([kind.rule for kind in kinds], dtype=np.int64)
    cap = np.array([kind.cap for kind in kinds], dtype=np.int64)
    wanted = np.array([kind.drawn_rows(q) for kind in kinds])
    total = np.where(
        rule == UNIFORM, rows, np.where(rule == OWN, use.own[chosen, other], use.unexplained[chosen, dropped, cap])
    )
    wanted = np.where(wanted > 0, np.maximum(wanted, 1.5 / units_per_row), 0.0)
    rate = np.where(wanted > 0, wanted / np.maximum(total, 1e-300), 0.0)
    tail = np.where(wanted > 0, 0.0, generator.integers(1, 4, count).astype(np.float64))
    centre = np.tile(landscape.centre, (count, 1))
    shifted = np.array([kind.shifted for kind in kinds])
    centre[shifted] = parents.coef[chosen[shifted], other[shifted]]
    along = np.zeros_like(centre)
    level = np.array([kind.level for kind in kinds])
    if level.any():
        centre[level], along[level] = seeding.levels(landscape, int(level.sum()))
    component = np.where(rule == OWN, other, dropped)
    return Seeds(centre, chosen, component, rule, CAPS[cap], rate, tail, along)


def _offspring_shares(
    landscape: Landscape, parents: Population, chosen: Integers, dropped: Integers, generator: np.random.Generator
) -> tuple[Array, Array]:
    """Weights and variances of the offspring: the new component begins with its share, and some deviation."""
    count, k = len(chosen), landscape.task.n_components
    weights, s2 = parents.weights[chosen].copy(), parents.s2[chosen].copy()
    at = np.arange(count)
    weights[at, dropped] = np.maximum(weights[at, dropped], 0.5 / k) * generator.choice([1.0, 0.3], size=count)
    weights = landscape.task.gate.step(weights)
    if landscape.separate:
        options = usual_variances(s2, dropped)
        s2[at, dropped] = options[generator.integers(len(options), size=count), at]
    return weights, s2


def usual_variances(s2: Array, dropped: Integers) -> Array:
    """What variances (., c) a new component may have beside others (c, k): the dropped one's, or one between theirs."""
    least, most = s2.min(axis=1), s2.max(axis=1)
    return np.stack([s2[np.arange(len(s2)), dropped], np.median(s2, axis=1), least, most, np.sqrt(least * most)])


def _nearby(
    landscape: Landscape, seeded: Array, dropped: Integers, weights: Array, s2: Array, generator: np.random.Generator
) -> Steps[tuple[Array, Array]]:
    """Weights and variances where the new component begins with a share of the rows, and the noise of those nearest."""
    share = seeding.draw_shares(landscape, len(seeded), generator)
    at = np.arange(len(seeded))
    s2 = s2.copy()
    s2[at, dropped] = yield from seeding.variance_around(landscape, seeded, share)
    rest = weights.copy()
    rest[at, dropped] = 0.0
    rest *= ((1.0 - share) / rest.sum(axis=1))[:, None]
    rest[at, dropped] = share
    return landscape.task.gate.step(rest), s2
