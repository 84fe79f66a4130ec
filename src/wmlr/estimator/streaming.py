"""``partial_fit``: rows that come in batches and are not kept."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from wmlr.core.round import Fit, run_steps
from wmlr.engines.arrays import ArrayRows, default_threads, single_blas
from wmlr.estimator.fitting import fit_mixture, task_of
from wmlr.estimator.settings import ABILITIES, option_of, resolve_solver, who_offers
from wmlr.io.field_types import check_fields
from wmlr.io.packing import pack, unpack
from wmlr.methods.stream import Iterate, Stream, advance_stream, begin_stream
from wmlr.methods.task import Task, offers
from wmlr.model.constraints import Constraints
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array, Integers
from wmlr.numerics.coordinates import WIDE
from wmlr.numerics.sparse import Csr, block_rows
from wmlr.statistics.moments import Moments

ROWS_PER_NUMBER = 20  # to estimate, before the first fit
FEWEST_ROWS = 1000  # before the first fit
MOST_ENTRIES = 2**24  # of X that wait for it: 128 MB
GROWTH = 1.1  # of the rows that wait, between attempts at a first fit
FIXED = ("n_components", "symmetric", "fit_intercept", "equal_weights", "shared_sigma", "sigma", "alpha")


@dataclass(frozen=True)
class StoredStream:
    """Rows as they came; groups are codes."""

    X: Any
    y: Array
    weight: Array | None = None
    groups: Integers | None = None

    def more(self, batch: StoredStream) -> StoredStream:
        """These rows and those of another batch."""
        weight = groups = None
        if self.weight is not None or batch.weight is not None:
            weight = np.concatenate([_ones(self), _ones(batch)])
        if self.groups is not None and batch.groups is not None:
            groups = np.concatenate([self.groups, batch.groups + self.groups.max() + 1])
        return StoredStream(np.concatenate([self.X, batch.X]), np.concatenate([self.y, batch.y]), weight, groups)

    def engine(self, n_jobs: int | None) -> ArrayRows:
        """The rows as an engine."""
        threads = default_threads() if n_jobs is None else n_jobs
        return ArrayRows(self.X, self.y, self.weight, self.groups, n_jobs=threads, block_rows=block_rows(self.X))

    def plain(self) -> dict[str, Any]:
        X: Any = self.X
        if isinstance(X, Csr):
            whole = X.matrix
            X = {"indptr": whole.indptr, "indices": whole.indices, "data": whole.data, "columns": X.shape[1]}
        return {"X": X, "y": self.y, "weight": self.weight, "groups": self.groups}

    @classmethod
    def read(cls, content: dict[str, Any]) -> StoredStream:
        X = content["X"]
        kept: StoredStream = check_fields(cls, content | {"X": _sparse(**X) if isinstance(X, dict) else X})
        if any(len(part) != kept.X.shape[0] for part in (kept.y, kept.weight, kept.groups) if part is not None):
            raise ValueError("the rows of the stream in the model file have columns of different lengths")
        return kept


@dataclass(frozen=True)
class Progress:
    """How far a stream has come: first rows are kept and fitted as a whole, then every batch is one step.

    Attributes
    ----------
    settings : what may not change from batch to batch.
    kept : the rows so far, as long as they are too few to begin with.
    fitted : how many of them the last fit saw.
    stream : where the steps stand, once they have begun.
    """

    settings: dict[str, Any]
    kept: StoredStream | None = None
    fitted: int = 0
    stream: Stream | None = None

    def to_plain(self) -> Any:
        """As JSON that :meth:`from_plain` reads."""
        return pack(
            {
                "settings": self.settings,
                "kept": None if self.kept is None else self.kept.plain(),
                "fitted": self.fitted,
                "stream": None if self.stream is None else asdict(self.stream),
            }
        )

    @classmethod
    def from_plain(cls, content: Any) -> Progress:
        """What :meth:`to_plain` wrote."""
        try:
            given = unpack(content)
            kept, stream = given["kept"], given["stream"]
            if stream is not None:
                places = {name: check_fields(Iterate, stream[name]) for name in ("here", "mean")}
                moments = {name: np.asarray(value, np.float64) for name, value in stream["moments"].items()}
                more = {"history": tuple(stream["history"]), "moments": moments}
                stream = check_fields(Stream, stream | places | more)
            parts = {"settings": given["settings"], "fitted": given["fitted"], "stream": stream}
            found: Progress = check_fields(cls, parts | {"kept": None if kept is None else StoredStream.read(kept)})
            return found
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"the stream in the model file is damaged: {type(error).__name__} {error}") from None


def streams(estimator: Any) -> bool:
    """Whether the method has a step for a stream."""
    solver = resolve_solver(estimator.method, estimator.solver)
    if not offers(solver, "stream"):
        raise ValueError(
            f"partial_fit steps by {who_offers('stream')}; {type(solver).__name__} needs all rows at every iteration: "
            "call fit"
        )
    return True


def take_batch(
    estimator: Any, progress: Progress | None, batch: StoredStream, constraints: Constraints
) -> tuple[Progress, Fit | None]:
    """Take in a batch: the stream as it then stands, and the fit where there is a new one.

    Parameters
    ----------
    estimator : whose settings are those of the stream.
    progress : where the stream stood; None at its first batch.
    batch : the rows.
    constraints : which parameters are free.
    """
    settings = _settings(estimator)
    if progress is None:
        progress = _first(estimator, settings, batch)
    elif progress.settings["groups"] != (batch.groups is not None):
        raise ValueError("groups must come with every batch of a stream, or with none: pass groups= as at first")
    if progress.stream is None:
        return _keep(estimator, progress, batch, constraints)
    return _step(estimator, progress, batch, constraints)


def refuse_unstreamable(estimator: Any, progress: Progress | None) -> None:
    """Raise where settings are not for streams, or are not those that the stream began with."""
    if ABILITIES["family"](estimator):
        option = option_of("family", estimator)
        raise ValueError(f"{option}= weighs rows by all the others, which a stream does not keep: call fit")
    for ability in ("shared", "held", "gate"):
        if ABILITIES[ability](estimator):
            raise ValueError(f"{option_of(ability, estimator)}= is not for streams: leave it out, or call fit")
    if estimator.features is not None:
        raise ValueError("features= would be fitted to the first batch alone: transform the batches beforehand")
    if estimator.formula is not None:
        raise ValueError("formula= would learn levels from the first batch alone: transform the batches beforehand")
    if progress is not None:
        _refuse_change(progress.settings, _settings(estimator))


def _first(estimator: Any, settings: dict[str, Any], batch: StoredStream) -> Progress:
    n, d = batch.X.shape
    if d > WIDE:
        raise ValueError(
            f"partial_fit keeps a matrix of the columns, and {d} are too many for it (at most {WIDE}): call fit"
        )
    if n < estimator.n_components:
        raise ValueError(
            f"the first batch needs at least as many rows as n_components={estimator.n_components} (got {n})"
        )
    return Progress(settings | {"groups": batch.groups is not None})


def _keep(
    estimator: Any, progress: Progress, batch: StoredStream, constraints: Constraints
) -> tuple[Progress, Fit | None]:
    """Keep the batch; fit what is kept when there is enough more of it, and begin when there is enough."""
    kept = batch if progress.kept is None else progress.kept.more(batch)
    rows = len(kept.y)
    enough = rows >= _rows_needed(estimator, kept.X.shape[1])
    if not enough and rows < GROWTH * progress.fitted:
        return replace(progress, kept=kept), None
    engine = kept.engine(estimator.n_jobs)
    before = estimator.fitted_.mixture if estimator.warm_start and "fitted_" in vars(estimator) else None
    fit = fit_mixture(estimator, constraints, engine, before=before)
    if not enough:
        return replace(progress, kept=kept, fitted=rows), fit
    task = _stream_task(estimator, constraints, kept, fit.mixture)
    moments = engine.total(Moments(intercept=task.intercept))
    stream = begin_stream(task, fit.mixture.ordered(), moments, fit.log_likelihood)
    return replace(progress, kept=None, stream=stream), fit


def _step(estimator: Any, progress: Progress, batch: StoredStream, constraints: Constraints) -> tuple[Progress, Fit]:
    if progress.stream is None:
        raise RuntimeError("a stream steps only once it has begun")
    task = _stream_task(estimator, constraints, batch, estimator.fitted_.mixture)
    newton = offers(resolve_solver(estimator.method, estimator.solver), "newton")
    with single_blas(batch.X.shape[1]):
        stream = run_steps(advance_stream(task, progress.stream, newton), batch.engine(estimator.n_jobs))
    found, still = stream.mixture(task), stream.moved < estimator.tol
    fit = Fit(found, stream.log_likelihood, stream.batches, still, history=stream.history)
    return replace(progress, stream=stream), fit


def _stream_task(estimator: Any, constraints: Constraints, rows: StoredStream, mixture: Mixture) -> Task:
    task = task_of(estimator, constraints, rows.X.shape[1], mixture.n_components)
    return replace(task, start="auto")


def _rows_needed(estimator: Any, d: int) -> int:
    p = d + 1
    wanted = ROWS_PER_NUMBER * p * (1 if estimator.symmetric else estimator.n_components)
    return max(FEWEST_ROWS, min(wanted, MOST_ENTRIES // p))


def _settings(estimator: Any) -> dict[str, Any]:
    given = {name: getattr(estimator, name) for name in FIXED}
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in given.items()}
    return plain | {"solver": type(resolve_solver(estimator.method, estimator.solver)).__name__}


def _refuse_change(before: dict[str, Any], now: dict[str, Any]) -> None:
    for name, value in now.items():
        if before[name] != value:
            raise ValueError(
                f"{name} was {before[name]!r} when the stream began and is {value!r} now: begin anew with fit, or "
                "with another estimator"
            )


def _ones(rows: StoredStream) -> Array:
    return np.ones(len(rows.y)) if rows.weight is None else rows.weight


def _sparse(indptr: Any, indices: Any, data: Any, columns: int) -> Csr:
    """Sparse rows of a file, whose places are looked at first."""
    matrix = csr_array((data, indices, indptr), shape=(len(indptr) - 1, columns))
    matrix.check_format(full_check=True)
    return Csr.of(matrix)
