"""Databases that answer a query by Arrow batches: DuckDB, PostgreSQL and SQLite, and what each calls a number."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

from wmlr.io.table import arrow, import_extra


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
    scheme = text.partition(":")[0]
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


_LETTERS = r"(?:[^\s:/?#@\[\]%]|%[0-9A-Fa-f]{2})"
_HOST = rf"(?:\[[0-9A-Fa-f:.]+\]|{_LETTERS}*)(?::[0-9]+)?"
ADDRESS = re.compile(
    rf"(?P<scheme>[a-z][a-z0-9+.-]*)://(?:(?P<user>{_LETTERS}*)(?::(?P<password>(?:{_LETTERS}|:)*))?@)?"
    rf"(?P<place>{_HOST}(?:,{_HOST})*(?:/(?:{_LETTERS}|/)*)?)(?:\?(?P<options>(?:{_LETTERS}|[:/])*))?"
)
"""An address as libpq reads it; what is not of this form may have its password anywhere."""


def hide_password(address: str) -> str:
    """An address as it may be shown: nothing of it that is, or might be, a secret."""
    parts = ADDRESS.fullmatch(address)
    if parts is None:
        scheme, mark, _ = address.partition("://")
        return f"{scheme.strip()}{mark}***" if mark else "***" if re.search("[@=]", address) else address
    user = "" if parts["user"] is None else f"{parts['user']}{':***' if parts['password'] else ''}@"
    return f"{parts['scheme']}://{user}{parts['place']}{'?***' if parts['options'] else ''}"


def without_password(text: str, address: str) -> str:
    """What others say of an address, with it and its password as they may be shown."""
    text = text.replace(address, hide_password(address))
    for secret in _secrets(address):
        text = text.replace(secret, "***")
    return text


def _secrets(address: str) -> list[str]:
    """What of an address no message may repeat, as it is written and as it is meant; the longest first."""
    parts = ADDRESS.fullmatch(address)
    if parts is None:
        return []
    given = [parts["password"] or "", *(option.partition("=")[2] for option in (parts["options"] or "").split("&"))]
    return sorted({form for value in given for form in (value, unquote(value)) if form}, key=len, reverse=True)


DATA_ONLY = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
    "lock_configuration": "true",
}
"""A DuckDB file may hold views, which are programs: they read its own tables, and no other file or address."""


class DuckDb:
    """A DuckDB file, opened for reading its own tables, or an open connection, with whatever that may do."""

    def __init__(self, place: Any) -> None:
        self._duckdb = duckdb = extra("duckdb")
        self.name = str(place) if isinstance(place, Path) else "DuckDB"
        self._remedy = ""
        self._error = duckdb.Error
        try:
            if isinstance(place, Path):
                self._remedy = (
                    "; to read other files through it, open it with duckdb.connect, and give the open connection"
                )
                self._connection = duckdb.connect(str(place.absolute()), read_only=True, config=DATA_ONLY)
            else:
                self._connection = place.cursor()
        except self._error as error:
            raise ValueError(f"{self.name} cannot be opened: {first_line(error)}") from None

    def batches(self, query: str, rows: int) -> Iterator[Any]:
        try:
            statements = self._connection.extract_statements(query)
            if [statement.type for statement in statements] != [self._duckdb.StatementType.SELECT]:
                raise ValueError(
                    f"{self.name} is read by one SELECT, or by the name of a table: this is more than that"
                )
            yield from self._connection.sql(query).to_arrow_reader(rows)
        except self._duckdb.PermissionException as error:
            raise ValueError(f"{self.name} did not answer: {first_line(error)}{self._remedy}") from None
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
        self._address = address
        module = extra(driver)
        try:
            self._connection = module.connect(address)
            if first is not None:
                with self._connection.cursor() as cursor:
                    cursor.execute(first)
        except module.Error as error:
            raise ValueError(f"{name} cannot be opened: {self._explain(error)}") from None
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
            raise ValueError(f"{self.name} did not answer: {self._explain(error)}") from None

    def _explain(self, error: Exception) -> str:
        return without_password(first_line(error), self._address)


class PostgreSql(_Adbc):
    """A PostgreSQL server; rows come by COPY in batches of some megabytes."""

    def __init__(self, address: str) -> None:
        if ADDRESS.fullmatch(address) is None:
            raise ValueError(
                f"{hide_password(address)} is no address of a database: it is postgresql://user:password@host/name, "
                "with signs such as / ? # @ : % in a name or a password as %2F %3F %23 %40 %3A %25"
            )
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
        address = f"{place.absolute().as_uri()}?mode=ro"
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
    package = name.split(".")[0].replace("_", "-")
    return import_extra(name, f"reading this database needs {package}: pip install 'wmlr[sql]'")
