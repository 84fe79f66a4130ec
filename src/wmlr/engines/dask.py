"""Rows on a Dask cluster: every worker answers for its own partitions, and only queries and sums travel."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np

from wmlr.core.capabilities import Capabilities
from wmlr.core.query import Query
from wmlr.core.round import Rows, add
from wmlr.engines.dask_sources import extra, source
from wmlr.engines.partitions import Facts, Shard, answer, facts, keep_freed_memory, score_shard
from wmlr.numerics.arrays import Sums

FAN_IN = 8
REVIVALS = 4
"""How often, in one round, shards are made anew whose worker was lost."""
PATIENCE = 60.0
"""Seconds without a single worker after which a round is given up."""


class AskedShard:
    """A shard as one of Dask's actors, which are asked directly; a task for each round takes several times as long."""

    def __init__(self, shard: Shard) -> None:
        keep_freed_memory()
        self._shard = shard
        self._thread = ThreadPoolExecutor(1)

    async def answer(self, query: Query) -> Sums | Exception:
        """The shard's answer, or what went wrong: an exception that is raised says that the shard is lost."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._answer, query)

    def _answer(self, query: Query) -> Sums | Exception:
        try:
            return answer(self._shard, query)
        except Exception as error:
            return error


class DaskRows:
    """Rows of a Dask DataFrame, Dask arrays or a Parquet folder, on any Dask cluster.

    Every worker loads its partitions once and keeps them as contiguous arrays. A round sends the query to as
    many shards as the cluster has threads; each answers for neighbouring partitions with one BLAS thread, and
    their sums are added in a fixed order, whoever is done first. When a worker is lost, the others load what it
    held.

    Parameters
    ----------
    data : a Dask DataFrame, a Dask array (n, d), or the name of a Parquet file or folder.
    target : the name of the column to explain; of an array, a Dask array (n,).
    features : names of columns; None takes all others. Not for arrays.
    weight : the name of a column of non-negative weights, or None; of an array, a Dask array (n,).
    groups : the name of a column of labels, or None; of an array, a Dask array (n,). Rows of one group share
        their component, and must lie in one partition.
    client : a ``dask.distributed.Client``; None takes the one in force.

    Attributes
    ----------
    n_features, n_rows : the size.
    feature_names : names of the columns, or None for arrays.

    Notes
    -----
    Have at least as many partitions as threads, or some threads will be idle. Workers that have answered hold actors,
    which Dask does not move: let the DaskRows go before such a worker is to retire. wmlr must be installed on the
    workers. What was scattered by hand cannot be loaded again when its worker is lost; what is read or computed can.
    Queries and sums travel by Dask's own transport, which pickles them: like every use of Dask, this is
    for clusters whose members trust each other. wmlr itself unpickles nothing.

    Examples
    --------
    >>> import dask.array as da
    >>> from dask.distributed import Client
    >>> from wmlr import MixedLinearRegression
    >>> from wmlr.datasets import make_mixed_regression
    >>> from wmlr.engines import DaskRows
    >>> data = make_mixed_regression(4000, 3, snr=10, symmetric=True, random_state=0)
    >>> with Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None):
    ...     rows = DaskRows(da.from_array(data.X, chunks=(1000, 3)), da.from_array(data.y, chunks=1000))
    ...     fit = MixedLinearRegression(symmetric=True, random_state=0).fit_on(rows)
    >>> bool(fit.converged_)
    True
    """

    def __init__(
        self,
        data: Any,
        target: Any,
        features: Sequence[str] | None = None,
        weight: Any = None,
        groups: Any = None,
        client: Any = None,
    ) -> None:
        self._client = _connect(client)
        known = source(data, target, features, weight, groups)
        self.n_features, self.feature_names = known.n_features, known.feature_names
        self._shards = self._load(known.loads)
        self._actors: dict[int, tuple[Any, Any]] = {}

    @property
    def n_shards(self) -> int:
        """How many tasks a round has."""
        return len(self._shards)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(feature_names=self.feature_names, score=self.score, in_memory=True)

    def score(self, score: Callable[[Rows], dict[str, Any]], names: Sequence[str]) -> Any:
        """A Dask DataFrame of what a function makes of the rows, by their numbers, made where the rows are."""
        empty = import_module("pandas").DataFrame({name: np.empty(0) for name in names}, index=np.empty(0, np.int64))
        parts = self._client.map(score_shard, self._shards, score=score, names=list(names), pure=False)
        return import_module("dask.dataframe").from_delayed(parts, meta=empty, verify_meta=False)

    def total(self, query: Query) -> Sums:
        """The sum of the answers of all shards: a tree whose shape depends on their number alone.

        Few shards are asked directly; where they are many, workers add their answers.
        """
        if self.n_shards <= FAN_IN:
            return add(self._ask(query))
        answers = self._client.map(answer, self._shards, query=query, pure=False)
        while len(answers) > FAN_IN:
            bundles = [answers[first : first + FAN_IN] for first in range(0, len(answers), FAN_IN)]
            answers = [self._client.submit(add, bundle, pure=False) for bundle in bundles]
        return add(self._gather(answers))

    def _ask(self, query: Query) -> list[Sums]:
        """The answers of all shards; where a worker is lost, of those that others load in its place."""
        answers: dict[int, Sums | Exception] = {}
        with _said_plainly():
            extra("distributed").protocol.pickle.dumps(query)  # what cannot be sent would be waited for without end
        for _ in range(REVIVALS):
            missing = [number for number in range(self.n_shards) if number not in answers]
            self._make_actors([number for number in missing if number not in self._actors])
            calls = [_call(self._actors[number][1], query) for number in missing]
            for number, reply in zip(missing, map(_reply, calls)):
                if reply is None:
                    self._actors.pop(number, None)
                else:
                    answers[number] = reply
            if len(answers) == self.n_shards:
                break
        else:
            raise RuntimeError(
                f"workers were lost {REVIVALS} times in one round: their memory may be too small for their part of the "
                "rows, so cut the data into more partitions or give workers more memory"
            )
        with _said_plainly():
            return [_sums(answers[number]) for number in range(self.n_shards)]

    def _make_actors(self, numbers: Sequence[int]) -> None:
        """Actors for shards, each on the worker that holds it or can load it."""
        if not numbers:
            return
        with _said_plainly(), self._client.as_current():
            self._wait(self._shards)
            holders = self._client.who_has(self._shards)
            made = [self._make_actor(self._shards[number], holders) for number in numbers]
            self._actors |= zip(numbers, zip(made, self._gather(made)))

    def _make_actor(self, shard: Any, holders: dict[str, Sequence[str]]) -> Any:
        """An actor where the shard is: Dask would place it where there are fewest."""
        where = {"workers": list(holders[shard.key]), "allow_other_workers": True} if holders.get(shard.key) else {}
        return self._client.submit(AskedShard, shard, actor=True, pure=False, **where)

    def __repr__(self) -> str:
        return f"DaskRows({self.n_rows} rows, {self.n_features} features, {self.n_shards} shards)"

    def _load(self, loads: Sequence[Any]) -> list[Any]:
        """Shards of neighbouring partitions, each on the worker that loaded them."""
        slots = [address for address, threads in sorted(self._workers().items()) for _ in range(threads)]
        if not slots:
            raise ValueError("the cluster has no workers: add some before making DaskRows")
        shards = min(len(slots), len(loads))
        edges = np.linspace(0, len(loads), shards + 1).astype(int).tolist()
        places = [slots[number * len(slots) // shards] for number in range(shards)]
        parts = []
        for (low, high), place in zip(pairwise(edges), places):
            parts += self._client.compute(loads[low:high], workers=[place], allow_other_workers=True)
        found: list[Facts] = self._gather(self._client.map(facts, parts, pure=False))
        self.n_rows = sum(part.rows for part in found)
        _refuse(found)
        firsts = np.cumsum([0, *(part.rows for part in found)]).tolist()
        made = []
        for (low, high), place in zip(pairwise(edges), places):
            where = {"workers": [place], "allow_other_workers": True}
            made.append(self._client.submit(Shard, parts[low:high], firsts[low:high], pure=False, **where))
        self._wait(made)
        return made

    def _workers(self) -> dict[str, int]:
        return dict(self._client.nthreads())

    def _wait(self, futures: list[Any]) -> None:
        """Wait until all are done, as long as there is anybody to do them."""
        distributed = import_module("distributed")
        while True:
            try:
                with self._client.as_current():
                    distributed.wait(futures, timeout=PATIENCE)
                return
            except TimeoutError:
                if not self._workers():
                    raise RuntimeError(
                        f"the cluster has had no workers for {PATIENCE:.0f} seconds: start some and fit again"
                    ) from None

    def _gather(self, futures: list[Any]) -> list[Any]:
        """The results, or one clear sentence about what went wrong on a worker."""
        with _said_plainly():
            self._wait(futures)
            for future in futures:
                if future.status == "error":
                    raise future.exception()
            return list(self._client.gather(futures))


@contextmanager
def _said_plainly() -> Iterator[None]:
    """One clear sentence about what went wrong on a worker."""
    distributed = import_module("distributed")
    try:
        yield
    except ValueError as error:
        raise ValueError(str(error)) from None
    except distributed.scheduler.KilledWorker as error:
        raise RuntimeError(
            f"{error.allowed_failures + 1} workers died one after the other at the same task: their memory may be "
            "too small for a partition, so cut the data into more of them or give workers more memory"
        ) from None
    except distributed.CancelledError:
        raise RuntimeError("the connection to the Dask scheduler was lost: make a new client and fit again") from None
    except ModuleNotFoundError as error:
        raise RuntimeError(f"a worker has no module {error.name!r}: install wmlr and its needs on workers") from None
    except RuntimeError:
        raise
    except Exception as error:
        raise RuntimeError(f"a worker failed: {type(error).__name__}: {error}") from error


def _call(actor: Any, query: Query) -> Any | None:
    """An actor's answer, under way; None where its worker is lost."""
    try:
        return actor.answer(query)
    except RuntimeError:
        return None


def _reply(call: Any | None) -> Sums | Exception | None:
    """What an actor answered; None where its worker was lost."""
    try:
        return None if call is None else call.result()
    except Exception:
        return None


def _sums(answered: Sums | Exception) -> Sums:
    if isinstance(answered, Exception):
        raise answered
    return answered


def _refuse(found: Sequence[Facts]) -> None:
    """Refuse data without rows that count, and groups in more than one partition."""
    if not any(part.rows for part in found):
        raise ValueError(f"there are no rows in any of the {len(found)} partitions")
    if not any(part.counts for part in found):
        raise ValueError("the weight is zero for every row: nothing is left to fit")
    labels = [part.labels for part in found if part.labels is not None]
    if not labels:
        return
    pandas = import_module("pandas")
    owners = np.repeat([number for number, part in enumerate(found) if part.labels is not None], [*map(len, labels)])
    everyone: Any = pandas.Series(np.concatenate(labels))
    again = np.flatnonzero(everyone.duplicated().to_numpy())
    if again.size:
        label = everyone[again[0]]
        first = int(np.flatnonzero((everyone == label).to_numpy())[0])
        raise ValueError(
            f"group {label} is in partitions {owners[first]} and {owners[again[0]]}"
            f"{f', and {again.size - 1:,} more are split' if again.size > 1 else ''}: rows of one group must lie in "
            "one partition; a frame's set_index brings them together"
        )


def _connect(client: Any) -> Any:
    distributed = extra("distributed")
    if client is None:
        try:
            client = distributed.get_client()
        except ValueError:
            raise ValueError(
                "DaskRows needs a cluster: make a dask.distributed.Client first, or pass client="
            ) from None
    if getattr(client, "asynchronous", False):
        raise ValueError("DaskRows waits for its sums: give it a client made without asynchronous=True")
    return client
