"""The round: a query goes out, every holder of rows answers, the answers add, one step is taken.

A *query* is a small frozen dataclass of arrays and numbers with a pure ``answer(rows)``; answers add.
A *method* is a generator that yields queries and receives their sums, so that it reads like the
algorithm box it implements. An *engine* has one verb, ``total(query)``: it knows who holds the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from wmlr.core.capabilities import Capabilities, capabilities_of
from wmlr.core.progress import announce_iteration, announce_pass
from wmlr.core.query import Field, Parts, Query, Wrapper
from wmlr.model.mixture import Mixture
from wmlr.numerics import compiled
from wmlr.numerics.arrays import Array, Integers, Sums, mix


@dataclass(frozen=True)
class Rows:
    """A block of rows as a query sees it.

    Attributes
    ----------
    X, y : the features and the response.
    weight : a non-negative number per row, or None when every row counts once.
    starts : the first row of each group, or None when every row has its own component. A group is
        never split over two blocks.
    index : the rows' numbers in the whole data, by which drawn noise belongs to its row.
    beside : what else is known of each row, by its role: "offset" (n,) of the predictor, "gate" (n, g), the columns
        that mixing weights depend on, and so on; queries that know nothing of a role leave it alone.
    memo : what a query computed of these rows and will want again; it is not copied with them.
    """

    X: Any
    y: Array
    weight: Array | None = None
    starts: Integers | None = None
    index: Integers | None = None
    beside: Mapping[str, Array] = field(default_factory=dict)
    memo: dict[Any, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def counts(self) -> Array:
        """How often each row counts."""
        return np.ones(len(self)) if self.weight is None else self.weight

    @property
    def total_weight(self) -> float:
        """How often all rows together count."""
        return float(len(self)) if self.weight is None else float(self.weight.sum())

    @property
    def group_sizes(self) -> Integers:
        """How many rows each group has, where they are in groups."""
        assert self.starts is not None
        return np.diff(np.append(self.starts, len(self)))

    def take(self, keep: NDArray[np.bool_]) -> Rows:
        """The rows where ``keep`` is true; whole groups stay or go."""
        starts = None
        if self.starts is not None:
            kept = keep[self.starts]
            starts = np.concatenate([[0], np.cumsum(self.group_sizes[kept])[:-1]]).astype(np.int64)[: int(kept.sum())]
        return replace(
            self,
            X=self.X[keep],
            y=self.y[keep],
            weight=None if self.weight is None else self.weight[keep],
            starts=starts,
            index=None if self.index is None else self.index[keep],
            beside={role: values[keep] for role, values in self.beside.items()},
        )


def join(blocks: Sequence[Rows]) -> Rows:
    """Small blocks as one."""
    first = np.cumsum([0, *map(len, blocks)])
    starts = [block.starts + offset for block, offset in zip(blocks, first) if block.starts is not None]
    return Rows(
        X=np.concatenate([block.X for block in blocks]),
        y=np.concatenate([block.y for block in blocks]),
        weight=np.concatenate([block.weight for block in blocks]) if blocks[0].weight is not None else None,
        starts=np.concatenate(starts) if starts else None,
        index=np.concatenate([block.index for block in blocks]) if blocks[0].index is not None else None,
        beside={role: np.concatenate([block.beside[role] for block in blocks]) for role in blocks[0].beside},
    )


class Engine(Protocol):
    """Whoever adds the answers of all holders of rows."""

    @property
    def n_features(self) -> int: ...

    def total(self, query: Query) -> Sums: ...


class EngineWrapper:
    """An engine around another: it has the other's columns, and declares what the other does."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @property
    def n_features(self) -> int:
        return self.engine.n_features

    @property
    def capabilities(self) -> Capabilities:
        return capabilities_of(self.engine)


@dataclass(frozen=True)
class Report:
    """What a method says after each iteration: numbers for the history, and the mixture it stands at."""

    record: dict[str, float]
    mixture: Mixture


def iteration_record(
    iteration: float, objective: float, log_likelihood: float, gradient_norm: float, step: float, **more: float
) -> dict[str, float]:
    """A line of the history, alike for every method; ``more`` is what only some methods have to say."""
    return {
        "iteration": iteration,
        "objective": objective,
        "log_likelihood": log_likelihood,
        "gradient_norm": gradient_norm,
        "step": step,
        **more,
    }


@dataclass(frozen=True)
class Fit:
    """What a method returns.

    ``units`` is the number of rows or groups, whatever they weigh; ``floored`` and ``widest`` say that a variance
    ended at its floor, or at its ceiling; ``scarce`` that a component with a sigma of its own rests on hardly more rows
    than it has coefficients;
    ``reason`` says why the fit did not converge, and what to do, where more iterations would not help. ``collapsed``
    names two components that are the same regression; ``guarded`` says that the plain likelihood ran into a spike, and
    the guarded maximum was kept; ``diverged`` that steps were too long. ``misfit`` is the largest eigenvalue of the
    scores' variance in units of the curvature (1 where the model is right), of so many parameters on so many units;
    ``search`` says how the maximum was found.
    """

    mixture: Mixture
    log_likelihood: float
    n_iter: int
    converged: bool
    units: float = 0.0
    floored: bool = False
    reason: str = ""
    guarded: bool = False
    collapsed: tuple[int, int] | None = None
    diverged: bool = False
    widest: bool = False
    scarce: bool = False
    misfit: float | None = None
    misfit_parameters: int = 0
    misfit_units: float = 0.0
    search: Any = None
    history: tuple[dict[str, float], ...] = ()


class EmptyComponentError(ValueError):
    """Raised where a component was left without rows, and none can be left out."""


Outcome = TypeVar("Outcome")
Value = TypeVar("Value")
Method = Generator[Query | Report, Sums, Outcome]
Steps = Generator[Query, Sums, Outcome]
Watcher = Callable[[Report], None]


def add(answers: Iterable[Sums]) -> Sums:
    """Add answers key by key, in the order they come."""
    total: Sums = {}
    for answer in answers:
        for name, value in answer.items():
            total[name] = total[name] + value if name in total else value
    return total


def _spending_since(engine: Engine) -> Callable[[Report], Report]:
    """Adds to reports what the engine's running totals have grown by since now."""
    before = dict(capabilities_of(engine).totals)

    def with_spending(report: Report) -> Report:
        spent = {name: count - before[name] for name, count in capabilities_of(engine).totals.items()}
        return replace(report, record=report.record | spent)

    return with_spending


def advance(method: Generator[Query | Report, Any, Outcome], reply: Any) -> Query | Report:
    """What a method says next to a reply; an interrupt that came in its place is raised inside the method."""
    return method.throw(reply) if isinstance(reply, KeyboardInterrupt) else method.send(reply)


class Finished(Exception):  # noqa: N818
    """Raised by a relay to end the method that it serves, with a value in place of the method's own."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


def pass_on(query: Query) -> Generator[Query, Any, Any]:
    """A relay that asks a query as it is."""
    return (yield query)


def with_relay(
    method: Generator[Any, Any, Outcome],
    relay: Callable[[Any], Generator[Any, Any, Any]] = pass_on,
    report: Callable[[Report], Report | None] = lambda report: report,
    reply: Any = None,
) -> Generator[Any, Any, Outcome]:
    """A method whose queries go through a relay, which asks for what it will and gives the method its reply.

    Parameters
    ----------
    method : a generator of queries and reports.
    relay : takes a query, yields what is asked in its place, and returns the reply to the method. An interrupt that
        reaches it is handed on into the method.
    report : takes a report, and returns the one that is made in its place, if any. Both may raise :class:`Finished`.
    reply : what the method hears first, where it has already begun.
    """
    while True:
        try:
            yielded = advance(method, reply)
        except StopIteration as stop:
            outcome: Outcome = stop.value
            return outcome
        try:
            if not isinstance(yielded, Report):
                reply = yield from relay(yielded)
            else:
                reply = None if (passed := report(yielded)) is None else (yield passed)
        except KeyboardInterrupt as interrupt:
            reply = interrupt
        except Finished as finished:
            method.close()
            value: Outcome = finished.value
            return value


def without_reports(method: Method[Outcome]) -> Steps[Outcome]:
    """A method's queries alone."""
    return with_relay(method, report=lambda report: None)


def _with_history(method: Method[Fit], with_spending: Callable[[Report], Report], watch: Watcher | None) -> Steps[Fit]:
    """A method's queries alone: its reports are watched, and become the history of its fit.

    A climb that begins anew, after a search, forgets the one before it.
    """
    history: list[dict[str, float]] = []

    def keep(report: Report) -> None:
        report = with_spending(report)
        if report.record.get("iteration") == 0:
            history.clear()
        history.append(report.record)
        announce_iteration(report.record.get("iteration", len(history)))
        if watch is not None:
            watch(report)

    fit = yield from with_relay(method, report=keep)
    return replace(fit, history=tuple(history))


def run(method: Method[Fit], engine: Engine, watch: Watcher | None = None) -> Fit:
    """Carry a method through to its end on an engine; its reports become the history."""
    return run_steps(_with_history(method, _spending_since(engine), watch), engine)


def run_steps(steps: Steps[Outcome], engine: Engine) -> Outcome:
    """Carry steps through to their end on an engine."""
    reply: Any = None
    while True:
        try:
            query: Any = advance(steps, reply)
        except StopIteration as stop:
            outcome: Outcome = stop.value
            return outcome
        announce_pass()
        try:
            reply = engine.total(query)
        except KeyboardInterrupt as interrupt:  # a search then ends with the best so far; other methods let it pass
            reply = interrupt


@dataclass(frozen=True)
class Together(Query):
    """Several queries answered in one pass over the rows."""

    queries: tuple[Query, ...]

    def answer(self, rows: Rows) -> Sums:
        alike: dict[type[Query], list[int]] = {}
        for number, query in enumerate(self.queries):
            alike.setdefault(type(query), []).append(number)
        answers: dict[int, Sums] = {}
        for kind, numbers in alike.items():
            answers |= zip(numbers, kind.answer_alike([self.queries[number] for number in numbers], rows))
        return _number_parts(answers[number] for number in range(len(self.queries)))

    def answer_each(self, rows: Rows, firsts: Integers) -> Sums:
        return _number_parts(query.answer_each(rows, firsts) for query in self.queries)

    def parts(self, columns: int, grouped: bool) -> Parts:
        return _number_parts(query.parts(columns, grouped) for query in self.queries)

    def children(self) -> tuple[Query, ...]:
        return self.queries

    @property
    def members(self) -> tuple[Query, ...]:
        return self.queries

    def join_answers(self, answers: Sequence[Sums]) -> Sums:
        return _number_parts(answers)

    def residual_form(self) -> Query:
        return Together(tuple(query.residual_form() for query in self.queries))

    def from_residual_form(self, sums: Sums, moments: Sums) -> Sums:
        own = zip(self.queries, self.split_sums(sums))
        return _number_parts(query.from_residual_form(part, moments) for query, part in own)

    def looks_at_all(self, part: str) -> bool:
        number, _, own = part.partition("/")
        return self.queries[int(number)].looks_at_all(own)

    def wrap(self, wrapper: Callable[[Query], Query]) -> Query:
        return Together(tuple(query.wrap(wrapper) for query in self.queries))

    @property
    def label(self) -> str:
        return " + ".join(query.label for query in self.queries)

    def em_steps(self, answer: Sums) -> float:
        return sum(query.em_steps(part) for query, part in zip(self.queries, self.split_sums(answer)))

    def split_sums(self, sums: Sums) -> list[Sums]:
        """The sums of each query again."""
        parts: list[Sums] = [{} for _ in self.queries]
        for key, value in sums.items():
            number, name = key.split("/", 1)
            parts[int(number)][name] = value
        return parts


def side_by_side(
    methods: Sequence[Steps[Outcome]], apart: int = 0, ends: Callable[[], bool] = lambda: False
) -> Steps[list[Outcome]]:
    """Several generators of queries that share each round, each beginning ``apart`` rounds after the one before.

    What those return, in their order, that have returned before it ``ends``; the others are closed.
    """
    outcomes: dict[int, Outcome] = {}
    replies: dict[int, Any] = {}
    begun = rounds = 0
    while (replies or begun < len(methods)) and not ends():
        more = len(methods) if apart == 0 else int(rounds % apart == 0 or not replies)
        replies |= dict.fromkeys(range(begun, min(begun + more, len(methods))))
        begun, asked = begun + more, dict[int, Query]()
        for number, reply in replies.items():
            try:
                asked[number] = methods[number].send(reply)
            except StopIteration as stop:
                outcomes[number] = stop.value
        together = Together(tuple(asked.values()))
        sums = (yield together) if asked else {}
        replies = dict(zip(asked, together.split_sums(sums)))
        rounds += 1
    for number in replies:
        methods[number].close()
    return [outcomes[number] for number in sorted(outcomes)]


def _number_parts(parts: Iterable[Mapping[str, Value]]) -> dict[str, Value]:
    return {f"{number}/{name}": value for number, part in enumerate(parts) for name, value in part.items()}


def run_together(
    methods: Sequence[Method[Fit]], engine: Engine, watchers: Sequence[Watcher | None] | None = None
) -> list[Fit]:
    """Run several methods side by side, sharing each pass over the rows."""
    watched = zip(methods, [None] * len(methods) if watchers is None else watchers)
    with_spending = _spending_since(engine)
    return run_steps(side_by_side([_with_history(method, with_spending, watch) for method, watch in watched]), engine)


@dataclass(frozen=True)
class Sampled(Wrapper):
    """A query asked of a fixed share of the rows, chosen by their content and not by their place."""

    query: Query
    share: Annotated[float, Field(above=0.0, most=1.0)]
    seed: int = 0

    @property
    def choice(self) -> tuple[float, int]:
        """What tells the rows that it looks at from those of other samples."""
        return self.share, self.seed

    def keeps(self, rows: Rows) -> NDArray[np.bool_] | None:
        return None if self.share >= 1.0 else self.chooses(content_codes(rows, self.seed))

    def chooses(self, codes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Whether rows with these codes are in the sample."""
        return codes < np.uint64(self.share * float(2**64 - 2**12))

    def lowest_codes(self, rows: Rows) -> tuple[Integers, NDArray[np.uint64]]:
        """The places of the rows in the sample, and their codes."""
        codes = content_codes(rows, self.seed)
        places = np.flatnonzero(self.chooses(codes))
        return places, codes[places]

    @property
    def sample(self) -> SampleQuestion:
        return SampleQuestion(self, SampleKind(self.seed, False))

    @property
    def is_sampled(self) -> bool:
        return self.share < 1.0

    @property
    def chooses_rows(self) -> bool:
        return self.share < 1.0

    def wrap(self, wrapper: Callable[[Query], Query]) -> Query:
        return replace(self, query=self.query.wrap(wrapper))

    def pieces(self, rows: float) -> tuple[Query, ...]:
        return tuple(replace(self, query=piece) for piece in self.query.pieces(rows))

    def em_steps(self, answer: Sums) -> float:
        return self.share * self.query.em_steps(answer)

    @property
    def label(self) -> str:
        return f"{self.query.label} (sample)" if self.share < 1.0 else self.query.label


def _some_columns(X: Any, step: int) -> Iterable[Array]:
    """Columns without negative zeros; of rows in memory all in one pass over them."""
    if isinstance(X, np.ndarray):
        return np.ascontiguousarray(np.add(X[:, ::step], 0.0, dtype=np.float64).T)
    return (np.add(X[:, column], 0.0, dtype=np.float64) for column in range(0, X.shape[1], step))


class SampleKind(NamedTuple):
    """What a sample is told by: the seed that chooses it, and whether copies of a row are one."""

    seed: int
    merged: bool


@dataclass(frozen=True)
class SampleQuestion:
    """A query of a sample: of which kind, and about what part of its rows are different, where it merges them.

    One that is about the sample ``as_a_whole`` cannot be asked block by block.
    """

    query: Sampled
    kind: SampleKind
    part: float = 1.0

    @property
    def as_a_whole(self) -> bool:
        return self.query.of_each_agent

    @property
    def of_some(self) -> bool:
        """Whether it looks at fewer rows than there are."""
        return self.kind.merged or self.query.share < 1.0


def content_codes(rows: Rows, seed: int) -> NDArray[np.uint64]:
    """A scrambled number of each row's content, y and about eight columns, the same wherever the row stands.

    A group has one.
    """
    step = max(1, rows.X.shape[1] // 8)
    code = compiled.code_rows(rows.X, rows.y, seed, step) if isinstance(rows.X, np.ndarray) else None
    if code is None:
        code = mix(np.ascontiguousarray(rows.y, dtype=np.float64).view(np.uint64) ^ np.uint64(seed))
        for values in _some_columns(rows.X, step):
            code ^= values.view(np.uint64)
            code = mix(code)
    if rows.starts is not None and len(rows):
        code = np.repeat(np.minimum.reduceat(code, rows.starts), rows.group_sizes)
        code = mix(code)
    return code
