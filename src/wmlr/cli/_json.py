"""The option ``--json``: the same on every command that prints a table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

from wmlr.cli import _places

if TYPE_CHECKING:
    from wmlr.io.tables import Put

Json = Annotated[bool, _places.option("Print JSON in place of tables.", "--json")]


def print_json(told: Any) -> None:
    """Print plain data to stdout."""
    print(text(told, indent=1))


@contextmanager
def json_list() -> Iterator[Put]:
    """A function that prints one part of a table after the other, as a list with an object for each row."""
    begun: list[bool] = []

    def put(columns: Any) -> None:
        for cells in zip(*(values.tolist() for values in columns.values())):
            print(",\n" if begun else "[\n", text(dict(zip(columns, cells))), sep="", end="")
            begun.append(True)

    yield put
    print("\n]" if begun else "[]")


def text(told: Any, indent: int | None = None) -> str:
    """Plain data as JSON that every parser takes: what is no finite number is null."""
    from wmlr.io.plain_data import plain

    return json.dumps(plain(told), indent=indent, allow_nan=False)
