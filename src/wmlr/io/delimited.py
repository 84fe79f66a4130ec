"""What the first line of a CSV file tells: how it is written, and what separates its columns."""

from __future__ import annotations

import csv
from pathlib import Path

from wmlr.io.table import arrow

DELIMITERS = (",", ";", "\t", "|")
LONGEST = 2**16
MOST_BYTES = 2**26
LINES = 8
MOST_COLUMNS = 50_000


def separator(path: Path, delimiter: str | None = None) -> str:
    """What separates the columns of a CSV file: as told, or what its first line has.

    A line without commas can only be separated by something else: with one column there is nothing to fit by.

    Raises
    ------
    ValueError
        When a delimiter is told that is none, or the first line is no text in UTF-8.
    """
    if delimiter is not None and len(delimiter) != 1:
        raise ValueError(f"a delimiter is one character (got {delimiter!r})")
    line = first_line(path)
    if delimiter is not None:
        return delimiter
    signs = ("\t", *DELIMITERS) if path.suffix.lower() == ".tsv" else DELIMITERS
    return next((sign for sign in signs if len(next(csv.reader([line], delimiter=sign), [])) > 1), signs[0])


def first_line(path: Path) -> str:
    """The first line of a text file, which may be compressed; a mark of UTF-8 before it is no part of it.

    Of a very long line it is the beginning; of a file that cannot be read it is nothing, as its reader will say why.
    """
    try:
        with arrow().input_stream(str(path)) as stream:
            head: bytes = stream.read(LONGEST)
    except (arrow().ArrowException, OSError):
        return ""
    text = head.partition(b"\n")[0]
    if b"\n" not in head and b"\r" in head.rstrip(b"\r"):
        raise ValueError(
            f"{path} cannot be read as CSV: its lines end in carriage returns alone; write it with line feeds, for "
            f"example by tr '\\r' '\\n' < {path.name} > unix.csv"
        )
    if text.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError(_advice(path, "it is UTF-16", "UTF-16"))
    try:
        return text.decode("utf-8-sig", errors="ignore" if len(text) == LONGEST else "strict").rstrip("\r")
    except UnicodeDecodeError as error:
        found = f"its first line is not UTF-8 (byte {text[error.start]:#04x})"
        raise ValueError(_advice(path, found, "ISO-8859-1")) from None


def block_bytes(path: Path, usual: int, sign: str) -> int:
    """How much of a file to parse at a time, so that its first line and some more fit into it.

    Raises
    ------
    ValueError
        When the first line names more columns than can be fitted by them all.
    """
    length = columns = 0
    try:
        with arrow().input_stream(str(path)) as stream:
            while chunk := stream.read(LONGEST):
                length += len(chunk)
                columns += chunk.partition(b"\n")[0].count(sign.encode())
                if b"\n" in chunk or length > MOST_BYTES:
                    break
    except (arrow().ArrowException, OSError):
        return usual
    if length > MOST_BYTES:
        raise ValueError(f"{path} has a first line of more than {MOST_BYTES:,} bytes: it is no table with a header")
    refuse_wide(str(path), columns + 1)
    return max(usual, LINES * length)


def refuse_wide(source: str, columns: int) -> None:
    """Raise where a file has more columns than can be fitted by them all."""
    if columns > MOST_COLUMNS:
        raise ValueError(
            f"{source} has {columns:,} columns, and at most {MOST_COLUMNS:,} are read: write those you need into a "
            "file of their own, or fit a scipy.sparse X in Python"
        )


def _advice(path: Path, found: str, code: str) -> str:
    return (
        f"{path} cannot be read as CSV: {found}; save it as UTF-8, for example by "
        f"iconv -f {code} -t UTF-8 {path.name} > utf8.csv"
    )
