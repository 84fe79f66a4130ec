"""Databases that answer a query by Arrow batches: DuckDB, PostgreSQL and SQLite, and what each calls a number."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from wmlr.io.table import MissingExtraError, arrow


class Database(Protocol):
    """Somewhere to send a query.

    ``name`` is what it is called in messages, without a password.
    """

    name: str

    def batches(self, query: str, rows: int) -> Iterator[Any]:
        """Record batches of the answer, of about so many rows; never the whole answer at once."""
        ...

    def number(self, column: str, field: Any) -> str:
        """An expression that reads a column of numbers as such, whatever kind of number the database keeps."""
        ...

    def text_in(self, column: str) -> str | None:
        """A condition on rows in which a column of numbers holds something else; None where it cannot."""
        ...


def connect(place: Any) -> Database:
    """The database behind an address, a file's name or an open connection."""
    if not isinstance(place, str | Path):
        return _of_connection(place)
    text = str(place)
    scheme = urlsplit(text).scheme
    if scheme in ("postgresql", "postgres"):
        return PostgreSql(text)
    if scheme == "duckdb" or text.endswith((".duckdb", ".ddb")):
        return DuckDb(_file(text, "duckdb"))
    if scheme == "sqlite" or text.endswith((".db", ".sqlite", ".sqlite3")):
        return Sqlite(_file(text, "sqlite"))
    raise ValueError(
        f"no database is known by {hide_password(text)!r}: give postgresql://..., a .duckdb, .sqlite or .db file, or "
        "duckdb:/// or sqlite:/// before another file's name"
    )


def _of_connection(connection: Any) -> Database:
    owner = type(connection).__module__.split(".")[0]
    if owner in ("duckdb", "_duckdb"):
        return DuckDb(connection)
    raise ValueError(
        f"SqlRows needs an address, a file or an open DuckDB connection (got {type(connection).__name__}): "
        "for PostgreSQL and SQLite give the address"
    )


def _file(text: str, scheme: str) -> Path:
    place = Path(text.removeprefix(f"{scheme}://").removeprefix("/") if text.startswith(f"{scheme}:///") else text)
    if text.startswith(f"{scheme}:////"):
        place = Path("/") / place
    if not place.is_file():
        raise ValueError(f"there is no file {place}: a database that is read must be there")
    return place


def hide_password(address: str) -> str:
    """An address as it may be shown."""
    parts = urlsplit(address)
    if parts.password is None:
        return address
    return address.replace(f":{parts.password}@", ":***@", 1)


class DuckDb:
    """A DuckDB file, opened for reading, or an open connection."""

    def __init__(self, place: Any) -> None:
        duckdb = extra("duckdb")
        self.name = str(place) if isinstance(place, Path) else "DuckDB"
        self._error = duckdb.Error
        try:
            self._connection = duckdb.connect(str(place), read_only=True) if isinstance(place, Path) else place.cursor()
        except self._error as error:
            raise ValueError(f"{self.name} cannot be opened: {first_line(error)}") from None

    def batches(self, query: str, rows: int) -> Iterator[Any]:
        try:
            yield from self._connection.sql(query).to_arrow_reader(rows)
        except self._error as error:
            raise ValueError(f"{self.name} did not answer: {first_line(error)}") from None

    def number(self, column: str, field: Any) -> str:
        return f"CAST({column} AS DOUBLE)" if arrow().types.is_decimal(field.type) else column

    def text_in(self, column: str) -> str | None:
        return None


class _Adbc:
    """A database that speaks through an ADBC driver, all passes in one transaction: they see the same rows."""

    def __init__(self, name: str, driver: str, address: str, first: str | None, options: dict[str, str]) -> None:
        self.name = name
        self._options = options
        module = extra(driver)
        try:
            self._connection = module.connect(address)
            if first is not None:
                with self._connection.cursor() as cursor:
                    cursor.execute(first)
        except module.Error as error:
            raise ValueError(f"{name} cannot be opened: {first_line(error)}") from None
        self._error = module.Error

    def batches(self, query: str, rows: int) -> Iterator[Any]:
        try:
            with self._connection.cursor() as cursor:
                options = {key: value.format(rows=rows) for key, value in self._options.items()}
                cursor.adbc_statement.set_options(**options)
                cursor.execute(query)
                for batch in cursor.fetch_record_batch():
                    for first in range(0, len(batch), rows):
                        yield batch.slice(first, rows)
        except (self._error, OSError) as error:
            raise ValueError(f"{self.name} did not answer: {first_line(error)}") from None


class PostgreSql(_Adbc):
    """A PostgreSQL server; rows come by COPY in batches of some megabytes."""

    def __init__(self, address: str) -> None:
        super().__init__(
            hide_password(address),
            "adbc_driver_postgresql.dbapi",
            address,
            "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY",
            {"adbc.postgresql.batch_size_hint_bytes": str(2**22)},
        )

    def number(self, column: str, field: Any) -> str:
        return f"CAST({column} AS double precision)" if _is_numeric_text(field) else column

    def text_in(self, column: str) -> str | None:
        return None


class Sqlite(_Adbc):
    """An SQLite file, whose columns may hold anything: numbers are cast, and text among them is looked for."""

    def __init__(self, place: Path) -> None:
        address = f"file:{place}?mode=ro"
        super().__init__(
            str(place), "adbc_driver_sqlite.dbapi", address, None, {"adbc.sqlite.query.batch_rows": "{rows}"}
        )

    def number(self, column: str, field: Any) -> str:
        return f"CAST({column} AS REAL)"

    def text_in(self, column: str) -> str | None:
        return f"typeof({column}) IN ('text', 'blob')"


def first_line(error: Exception) -> str:
    """What went wrong, without the query that follows it."""
    return str(error).strip().split("\n")[0]


def _is_numeric_text(field: Any) -> bool:
    """Whether a field holds PostgreSQL's ``numeric``, which comes as text."""
    metadata = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
    return metadata.get("POSTGRESQL:type") == "numeric" or metadata.get("ADBC:postgresql:typname") == "numeric"


def extra(name: str) -> Any:
    """A driver, or how to get it."""
    try:
        return import_module(name)
    except ImportError:
        package = name.split(".")[0].replace("_", "-")
        raise MissingExtraError(f"reading this database needs {package}: pip install 'wmlr[sql]'") from None
