"""Rows of a table or a query in a database, streamed in every pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from wmlr.engines.arrow import HEAD_ROWS
from wmlr.engines.databases import Database, connect
from wmlr.engines.files import ColumnRows
from wmlr.engines.streamed import MEMORY, Progress, Stamp
from wmlr.io.table import Table, arrow, is_number
from wmlr.io.tables import check_table


class SqlSource:
    """A table or a query of a database as named columns.

    Parameters
    ----------
    database : an address, a file, or an open DuckDB connection; see :class:`SqlRows`.
    query : the name of a table or view, or a SELECT.
    order_by : a column by which the rows are sorted, so that those of a group follow each other.
    """

    def __init__(self, database: Any, query: str, order_by: str | None = None) -> None:
        arrow()
        self._database: Database = connect(database)
        self._rows = _relation(query)
        self.name = f"{query.strip()} of {self._database.name}"
        self.stamps: list[Stamp] = []
        first = list(islice(self._database.batches(f"SELECT * FROM {self._rows} LIMIT {HEAD_ROWS}", HEAD_ROWS), 1))
        if not first or not len(first[0]):
            raise ValueError(f"{self.name} has no rows")
        schema = first[0].schema
        self._order = "" if order_by is None else f" ORDER BY {quote(order_by)}"
        self._expressions = {field.name: self._expression(field) for field in schema}
        names = list(self._expressions)
        if order_by is not None and order_by not in names:
            raise ValueError(f"{self.name} has no column {order_by!r} for groups; it has {', '.join(names)}")
        head = islice(self._read(names, HEAD_ROWS, f" LIMIT {HEAD_ROWS}"), 1)
        self.head = check_table(Table(self.name, arrow().Table.from_batches(list(head))))
        self.n_rows: int | None = self._count("")
        self.expected_rows = self.n_rows
        self._sound: set[str] = set()

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        self._refuse_text(columns)
        return self._read(columns, rows, "")

    def _read(self, columns: Sequence[str], rows: int, limit: str) -> Iterator[Any]:
        listed = ", ".join(f"{self._expressions[name]} AS {quote(name)}" for name in columns)
        return self._database.batches(f"SELECT {listed} FROM {self._rows}{self._order}{limit}", rows)

    def _expression(self, field: Any) -> str:
        column = quote(field.name)
        return column if arrow().types.is_string(field.type) else self._database.number(column, field)

    def _count(self, condition: str) -> int:
        (batch,) = self._database.batches(f"SELECT count(*) AS n FROM {self._rows}{condition}", 1)
        return int(batch.column(0)[0].as_py())

    def _refuse_text(self, columns: Sequence[str]) -> None:
        """Raise where a column that began with numbers goes on with text, in a database that lets it."""
        for name in columns:
            condition = self._database.text_in(quote(name))
            if name in self._sound or condition is None or not is_number(self.head.content.schema.field(name).type):
                continue
            count = self._count(f" WHERE {condition}")
            if count:
                raise ValueError(
                    f"column {name!r} of {self.name} holds text in {count:,} rows: select numbers only, or leave it out"
                )
            self._sound.add(name)


def quote(name: str) -> str:
    """A column's or table's name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def _relation(query: str) -> str:
    """What stands after FROM: a name, with its schema, or a SELECT in brackets."""
    text = query.strip().rstrip(";").strip()
    if not text:
        raise ValueError("query is empty: give the name of a table, or a SELECT")
    if text.split(None, 1)[0].lower() in ("select", "with", "from", "values"):
        return f"({text}\n) AS wmlr_rows"
    return ".".join(part if part.startswith('"') else quote(part) for part in text.split("."))


class SqlRows(ColumnRows):
    """Rows of a database: DuckDB, PostgreSQL or SQLite. They stream by in every pass, in bounded memory.

    Parameters
    ----------
    database : ``postgresql://user@host/name``, a ``.duckdb`` or ``.sqlite`` file, or an open DuckDB connection.
    query : the name of a table or view, or a SELECT.
    target : the column to explain.
    features : the columns to explain it by; None takes every other numeric one.
    weight : a column that says how often each row counts.
    groups : a column of labels; rows of one group share their component. The database sorts by it.
    n_jobs, block_rows, memory, progress : as for :class:`wmlr.engines.ParquetRows`.

    Notes
    -----
    All passes over a PostgreSQL table run in one transaction and see the same rows, whoever writes meanwhile. A table
    of DuckDB or SQLite whose number of rows changes between passes is an error.

    Examples
    --------
    >>> import duckdb
    >>> from wmlr import MixedLinearRegression
    >>> from wmlr.datasets import load_tone
    >>> from wmlr.engines import SqlRows
    >>> tone = load_tone()
    >>> database = duckdb.connect()
    >>> _ = database.execute("CREATE TABLE tone (stretch DOUBLE, tuned DOUBLE)")
    >>> values = [[float(x), float(y)] for x, y in zip(tone.data[:, 0], tone.target)]
    >>> _ = database.executemany("INSERT INTO tone VALUES (?, ?)", values)
    >>> rows = SqlRows(database, "tone", target="tuned")
    >>> fit = MixedLinearRegression(2, shared_sigma=False, random_state=0).fit_on(rows)
    >>> fit.coef_.round(2).tolist()
    [[0.04], [0.99]]
    """

    def __init__(
        self,
        database: Any,
        query: str,
        target: str,
        features: Sequence[str] | None = None,
        weight: str | None = None,
        groups: str | None = None,
        n_jobs: int | None = None,
        *,
        block_rows: int | None = None,
        memory: int = MEMORY,
        progress: Progress | None = None,
    ) -> None:
        source = SqlSource(database, query, groups)
        super().__init__(source, target, features, weight, groups, n_jobs, block_rows, memory, progress)
