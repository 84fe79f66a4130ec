"""``partial_fit``: rows that come in batches and are not kept."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.sparse import csr_array

from wmlr.core.round import Engine, Fit, run_steps
from wmlr.engines.arrays import ArrayRows, single_blas
from wmlr.engines.validation import checked_groups, checked_rows, checked_weight
from wmlr.estimator.prediction import PredictionMixin
from wmlr.estimator.settings import check_parameters
from wmlr.io.field_types import checked_fields
from wmlr.io.packing import packed, unpacked
from wmlr.methods import EM, Refreshed
from wmlr.methods.stream import Iterate, Stream, advanced, begun
from wmlr.methods.task import Solver, Task
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array, Integers
from wmlr.numerics.coordinates import WIDE
from wmlr.numerics.sparse import Csr
from wmlr.statistics.moments import Moments

ROWS_PER_NUMBER = 20
FEWEST_ROWS = 1000
MOST_ENTRIES = 2**24
GROWTH = 1.1
FIXED = ("n_components", "symmetric", "fit_intercept", "equal_weights", "shared_sigma", "sigma", "alpha")


@dataclass(frozen=True)
class Kept:
    """Rows as they came; groups are codes."""

    X: Any
    y: Array
    weight: Array | None = None
    groups: Integers | None = None

    def more(self, batch: Kept) -> Kept:
        """These rows and those of another batch."""
        weight = groups = None
        if self.weight is not None or batch.weight is not None:
            weight = np.concatenate([_ones(self), _ones(batch)])
        if self.groups is not None and batch.groups is not None:
            groups = np.concatenate([self.groups, batch.groups + self.groups.max() + 1])
        return Kept(np.concatenate([self.X, batch.X]), np.concatenate([self.y, batch.y]), weight, groups)

    def plain(self) -> dict[str, Any]:
        X: Any = self.X
        if isinstance(X, Csr):
            whole = X.matrix
            X = {"indptr": whole.indptr, "indices": whole.indices, "data": whole.data, "columns": X.shape[1]}
        return {"X": X, "y": self.y, "weight": self.weight, "groups": self.groups}

    @classmethod
    def read(cls, content: dict[str, Any]) -> Kept:
        X = content["X"]
        kept: Kept = checked_fields(cls, content | {"X": _sparse(**X) if isinstance(X, dict) else X})
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
    kept: Kept | None = None
    fitted: int = 0
    stream: Stream | None = None

    def to_plain(self) -> Any:
        """As JSON that :meth:`from_plain` reads."""
        return packed(
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
            given = unpacked(content)
            kept, stream = given["kept"], given["stream"]
            if stream is not None:
                places = {name: checked_fields(Iterate, stream[name]) for name in ("here", "mean")}
                moments = {name: np.asarray(value, np.float64) for name, value in stream["moments"].items()}
                more = {"history": tuple(stream["history"]), "moments": moments}
                stream = checked_fields(Stream, stream | places | more)
            parts = {"settings": given["settings"], "fitted": given["fitted"], "stream": stream}
            found: Progress = checked_fields(cls, parts | {"kept": None if kept is None else Kept.read(kept)})
            return found
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"the stream in the model file is damaged: {type(error).__name__} {error}") from None


def streams(estimator: Any) -> bool:
    """Whether the method has a step for a stream."""
    solver = estimator._solver()
    if not isinstance(solver, (Refreshed, EM)):
        raise ValueError(
            f"partial_fit steps by method='wmlr' with solver='auto', or by method='em'; {type(solver).__name__} needs "
            "all rows at every iteration: call fit"
        )
    return True


class StreamMixin(PredictionMixin):
    """Fitting from batches.

    Attributes
    ----------
    stream_ : :class:`Progress`, after ``partial_fit``.
    """

    if TYPE_CHECKING:
        n_components: int
        symmetric: bool
        features: Any
        shared: Any
        robust: Any
        tol: float
        log_likelihood_: float
        n_features_in_: int
        stream_: Progress

        def _solver(self) -> Solver: ...

        def _task(self, seed: int, k: int) -> Task: ...

        def _engine(self, phi: Any, y: Array, sample_weight: Any, groups: Any, X: Any) -> ArrayRows: ...

        def _fit(self, rows: Engine) -> Self: ...

        def _accept(self, fit: Fit) -> None: ...

    def _taken(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> Self:
        """A batch taken in."""
        check_parameters(self)
        self._refuse()
        settings = self._settings()
        progress: Progress | None = getattr(self, "stream_", None)
        if progress is not None:
            _refuse_change(progress.settings, settings)
        X, y = checked_rows(self, X, y, reset=progress is None)
        batch = Kept(X, y, checked_weight(sample_weight, len(y)), checked_groups(groups, len(y)))
        if progress is None:
            progress = self._first(settings, batch)
        elif progress.settings["groups"] != (batch.groups is not None):
            raise ValueError("groups must come with every batch of a stream, or with none: pass groups= as at first")
        self.stream_ = self._kept(progress, batch) if progress.stream is None else self._stepped(progress, batch)
        return self

    def _first(self, settings: dict[str, Any], batch: Kept) -> Progress:
        n, d = batch.X.shape
        if d > WIDE:
            raise ValueError(
                f"partial_fit keeps a matrix of the columns, and {d} are too many for it (at most {WIDE}): call fit"
            )
        if n < self.n_components:
            raise ValueError(
                f"the first batch needs at least as many rows as n_components={self.n_components} (got {n})"
            )
        self._forget()
        return Progress(settings | {"groups": batch.groups is not None})

    def _kept(self, progress: Progress, batch: Kept) -> Progress:
        """Keep the batch; fit what is kept when there is enough more of it, and begin when there is enough."""
        kept = batch if progress.kept is None else progress.kept.more(batch)
        rows = len(kept.y)
        enough = rows >= self._enough()
        if not enough and rows < GROWTH * progress.fitted:
            return replace(progress, kept=kept)
        engine = self._rows(kept)
        self._fit(engine)
        if not enough:
            return replace(progress, kept=kept, fitted=rows)
        task = self._stream_task()
        moments = engine.total(Moments(intercept=task.intercept))
        return replace(progress, kept=None, stream=begun(task, self.mixture_, moments, self.log_likelihood_))

    def _stepped(self, progress: Progress, batch: Kept) -> Progress:
        if progress.stream is None:
            raise RuntimeError("a stream steps only once it has begun")
        task = self._stream_task()
        newton = isinstance(self._solver(), Refreshed)
        with single_blas(self.n_features_in_):
            stream = run_steps(advanced(task, progress.stream, newton), self._rows(batch))
        found, still = stream.mixture(task), stream.moved < self.tol
        self._accept(Fit(found, stream.log_likelihood, stream.batches, still, history=stream.history))
        return replace(progress, stream=stream)

    def _stream_task(self) -> Task:
        found: Mixture = self.mixture_
        return replace(self._task(0, found.n_components), start="auto")

    def _rows(self, batch: Kept) -> ArrayRows:
        return self._engine(batch.X, batch.y, batch.weight, batch.groups, batch.X)

    def _enough(self) -> int:
        p = self.n_features_in_ + 1
        wanted = ROWS_PER_NUMBER * p * (1 if self.symmetric else self.n_components)
        return max(FEWEST_ROWS, min(wanted, MOST_ENTRIES // p))

    def _settings(self) -> dict[str, Any]:
        given = {name: getattr(self, name) for name in FIXED}
        plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in given.items()}
        return plain | {"solver": type(self._solver()).__name__}

    def _refuse(self) -> None:
        if self.robust is not False:
            raise ValueError("robust= weighs rows by all the others, which a stream does not keep: call fit")
        if self.shared is not None:
            raise ValueError("shared= is not for streams: leave it out, or call fit")
        if self.features is not None:
            raise ValueError("features= would be fitted to the first batch alone: transform the batches beforehand")

    def _forget(self) -> None:
        super()._forget()
        self.__dict__.pop("stream_", None)


def _refuse_change(before: dict[str, Any], now: dict[str, Any]) -> None:
    for name, value in now.items():
        if before[name] != value:
            raise ValueError(
                f"{name} was {before[name]!r} when the stream began and is {value!r} now: begin anew with fit, or "
                "with another estimator"
            )


def _ones(rows: Kept) -> Array:
    return np.ones(len(rows.y)) if rows.weight is None else rows.weight


def _sparse(indptr: Any, indices: Any, data: Any, columns: int) -> Csr:
    """Sparse rows of a file, whose places are looked at first."""
    matrix = csr_array((data, indices, indptr), shape=(len(indptr) - 1, columns))
    matrix.check_format(full_check=True)
    return Csr.of(matrix)
