"""Rows of a Spark DataFrame: every executor answers for its own partitions, and only queries and sums travel."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np

from wmlr.core.capabilities import Capabilities
from wmlr.core.round import Rows, Together
from wmlr.engines import spark_partitions as executor
from wmlr.engines.databases import hide_password
from wmlr.engines.partitions import PartitionColumns
from wmlr.engines.samples import SamplesWanted
from wmlr.engines.streamed import MEMORY, RowsInPasses
from wmlr.io.table import import_extra, list_names
from wmlr.numerics.arrays import Sums

FAN_IN = 64
"""Answers of more partitions than this are added on the executors first, this many at a time."""

NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "boolean")


class SparkRows(RowsInPasses):
    """Rows of a Spark DataFrame, a table, or a Parquet folder, on any Spark cluster.

    The columns are checked and brought into arrays once, which Spark keeps on its executors (and makes again where
    an executor is lost). A round is one job: the query goes out with the tasks, each partition's sums come back as
    bytes, and they are added in the order of the partitions. Samples are gathered once, and kept by the driver.

    Parameters
    ----------
    data : a Spark DataFrame, or the name of a table or of a Parquet file or folder.
    target : the column to explain.
    features : the columns to explain it by; None takes every other numeric one.
    weight : a column that says how often each row counts.
    groups : a column of labels; rows of one group share their component, and are brought into one partition.
    session : a SparkSession; None takes the active one.
    missing : "raise" refuses gaps, "drop" leaves out the rows that have one.
    memory : bytes that samples on the driver may take.

    Attributes
    ----------
    n_features, n_rows, n_groups : the size; n_units : how many rows or groups the likelihood counts, by weight.
    feature_names : the columns y is explained by; left_out : those that hold no numbers.
    dropped : how many rows were left out for their gaps.

    Notes
    -----
    wmlr must be installed on the executors. Queries travel by Spark's own closures, which it pickles: like every use of
    Spark, this is for clusters whose members trust each other. :meth:`release` gives the executors' memory back.
    """

    def __init__(
        self,
        data: Any,
        target: str,
        features: Sequence[str] | None = None,
        weight: str | None = None,
        groups: str | None = None,
        *,
        session: Any = None,
        missing: str = "raise",
        memory: int = MEMORY,
    ) -> None:
        super().__init__(memory)
        if missing not in ("raise", "drop"):
            raise ValueError(f"missing must be 'raise' or 'drop' (got {missing!r})")
        frame = read_frame(data, session)
        self._columns, self.left_out = _choose(frame, target, features, weight, groups)
        whole = frame.dropna(subset=[quote(name) for name in self._columns.all]) if missing == "drop" else frame
        self._frame, given, frame = whole, frame, whole
        self.feature_names = list(self._columns.features)
        self.n_features = len(self.feature_names)
        arranged = _arrange(frame, self._columns)
        self._packed = _map_batches(arranged, executor.packer(self._columns), executor.PACKED).persist()
        facts = _collect(self._packed.select("number", "piece", "n", "units", "n_groups", "single"))
        if not facts:
            raise ValueError("there are no rows in any partition")
        facts.sort()
        self.n_rows = int(sum(row["n"] for row in facts))
        self.n_units = float(sum(row["units"] for row in facts))
        self.n_groups = None if groups is None else sum(row["n_groups"] for row in facts)
        self.n_partitions = len({row["number"] for row in facts})
        self._itemsize = 4 if facts[0]["single"] else 8
        if not self.n_units:
            raise ValueError(f"the weights in column {weight!r} are zero for every row: nothing is left to fit")
        ends = np.cumsum([row["n"] for row in facts]).tolist()
        places = [(row["number"], row["piece"]) for row in facts]
        self._firsts = dict(zip(places, [0, *ends[:-1]]))
        self.dropped = given.count() - self.n_rows if missing == "drop" else 0

    def __repr__(self) -> str:
        return f"SparkRows({self.n_rows} rows, {self.n_features} features, {self.n_partitions} partitions)"

    @property
    def nbytes(self) -> int:
        return self.n_rows * self.n_features * self._itemsize

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, score=self.score)

    def score(self, score: Callable[[Rows], dict[str, Any]], names: Sequence[str]) -> Any:
        """The DataFrame with the columns that a function makes of its rows, made on the executors."""
        taken = [name for name in names if name in self._frame.columns]
        if taken:
            raise ValueError(
                f"the data have a column {taken[0]!r} already: rename it, so that the new one can be added"
            )
        frame = self._frame
        if self._columns.groups is not None:
            frame = frame.repartition(frame.rdd.getNumPartitions(), quote(self._columns.groups))
        types = import_module("pyspark.sql.types")
        fields = [types.StructField(name, types.DoubleType()) for name in names]
        schema = types.StructType([*frame.schema.fields, *fields])
        return _map_batches(frame, executor.scorer(self._columns, score, list(names)), schema)

    def release(self) -> None:
        """Let the executors forget the arrays; a later round makes them again."""
        self._packed.unpersist()

    def _pass(self, query: Together, wanted: SamplesWanted) -> Sums:
        """One job: the sums of all partitions, and their parts of the samples that are wanted."""
        task = executor.answerer(query, wanted, self._firsts, self.n_features)
        answers = _map_batches(self._packed, task, executor.ANSWERED)
        if self.n_partitions > FAN_IN:
            bundle = import_module("pyspark.sql.functions").floor(answers["number"] / FAN_IN)
            answers = answers.groupBy(bundle.alias("bundle")).applyInArrow(executor.sum_answers, executor.ANSWERED)
        self.passes += 1
        rows = sorted(_collect(answers), key=lambda row: int(row["number"]))
        found = executor.merge(executor.from_bytes(bytes(row["answer"])) for row in rows)
        for place, (kind, share) in enumerate(wanted.items()):
            self._samples.hold(kind, share, [executor.sample_of(found, f"sample{place}")])
        return {name.removeprefix("sums/"): value for name, value in found.items() if name.startswith("sums/")}


@contextmanager
def open_session() -> Iterator[Any]:
    """The active session, or one as Spark's own configuration says; ended afterwards if it was begun here."""
    sql = _extra("pyspark.sql")
    active = sql.SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    session = sql.SparkSession.builder.appName("wmlr").config("spark.ui.showConsoleProgress", "false").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()


def read_frame(data: Any, session: Any) -> Any:
    """A DataFrame, whatever names it."""
    sql = _extra("pyspark.sql")
    if not isinstance(data, str):
        if not hasattr(data, "mapInArrow"):
            raise ValueError(f"SparkRows needs a Spark DataFrame, or the name of a table (got {type(data).__name__})")
        return data
    session = session or sql.SparkSession.getActiveSession()
    if session is None:
        raise ValueError("SparkRows needs a session: make a SparkSession first, or pass session=")
    try:
        return session.read.parquet(data) if re.search(r"[/\\]|\.parquet$", data) else session.table(data)
    except _errors() as error:
        shown = hide_password(data)
        said = _first_words(error) if shown == data else type(error).__name__
        raise ValueError(f"Spark cannot read {shown!r}: {said}") from None


def _choose(
    frame: Any, target: str, features: Sequence[str] | None, weight: str | None, groups: str | None
) -> tuple[PartitionColumns, list[str]]:
    """The columns by their parts; what is not there, or holds no numbers, is refused before any work."""
    kinds = dict(frame.dtypes)
    if isinstance(features, str):
        raise ValueError(f"features must be a list of names (got {features!r})")
    taken = {name: role for name, role in ((target, "target"), (weight, "weight"), (groups, "groups")) if name}
    others = [name for name in kinds if name not in taken]
    chosen = [name for name in others if _is_number(kinds[name])] if features is None else list(features)
    for name, role in [*taken.items(), *((name, "features") for name in chosen)]:
        if name not in kinds:
            raise ValueError(f"there is no column {name!r} for {role}; there are {list_names(list(kinds))}")
        if role != "groups" and not _is_number(kinds[name]):
            raise ValueError(f"column {name!r} holds {kinds[name]}, not numbers: encode it, or leave it out")
        if role == "features" and (name in taken or chosen.count(name) > 1):
            raise ValueError(f"column {name!r} is named twice: every column has one part")
    if not chosen:
        raise ValueError("no numeric columns are left for features")
    left_out = [f"{name} ({kinds[name]})" for name in others if features is None and name not in chosen]
    return PartitionColumns(target, tuple(chosen), weight, groups), left_out


def _is_number(kind: str) -> bool:
    return kind in NUMBERS or kind.startswith("decimal")


def _arrange(frame: Any, columns: PartitionColumns) -> Any:
    """The columns as floats, rows of a group in one partition and in an order that a lost executor cannot change."""
    functions = import_module("pyspark.sql.functions")
    kinds = dict(frame.dtypes)
    given = {name: functions.col(quote(name)) for name in columns.all}
    floats = {name: column if kinds[name] == "float" else column.cast("double") for name, column in given.items()}
    if columns.groups is not None and columns.groups not in columns.features:
        floats[columns.groups] = given[columns.groups]
    chosen = frame.select(*(column.alias(name) for name, column in floats.items()))
    if columns.groups is None:
        return chosen
    order = [quote(name) for name in (columns.groups, columns.target, *columns.features)]
    return chosen.repartition(chosen.rdd.getNumPartitions(), order[0]).sortWithinPartitions(*order)


def _map_batches(frame: Any, task: Any, schema: Any) -> Any:
    """The frame of what a task makes of each partition's Arrow batches.

    Spark itself takes dots and backticks in the names for more than signs: columns travel by their places.
    """
    names = list(frame.columns)
    numbered = frame.toDF(*(f"column{place}" for place in range(len(names))))
    with (
        warnings.catch_warnings()
    ):  # Spark says of every job that it does not know the newest pandas; none is used here
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        return numbered.mapInArrow(executor.by_names(task, names), schema)


def quote(name: str) -> str:
    """A column's name as Spark writes it."""
    return "`" + name.replace("`", "``") + "`"


def _collect(frame: Any) -> list[Any]:
    """The rows of a job, or one sentence about what went wrong on an executor."""
    try:
        return list(frame.collect())
    except _errors() as error:
        found = re.findall(r"^(ValueError|ModuleNotFoundError): (.*)$", str(error), re.MULTILINE)
        if not found:
            raise RuntimeError(f"Spark gave the job up: {_first_words(error)}") from error
        kind, text = found[-1]
        if kind == "ValueError":
            raise ValueError(text) from None
        raise RuntimeError(f"an executor said: {text}: install wmlr and its needs on the executors") from None


def _errors() -> tuple[type[Exception], ...]:
    """What Spark raises, and what Java does where Spark has no word for it."""
    return import_module("pyspark.errors").PySparkException, import_module("py4j.protocol").Py4JError


def _first_words(error: Exception) -> str:
    """The first line of what went wrong; of Java's, whose first names a call, the next one."""
    lines = [line.strip(": ") for line in str(error).strip().splitlines()]
    told = [line for line in lines if line and not line.startswith("An error occurred while calling")]
    return told[0] if told else type(error).__name__


def _extra(name: str) -> Any:
    return import_extra(name, "SparkRows needs pyspark: pip install 'wmlr[spark]'")
