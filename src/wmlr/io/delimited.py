"""How a CSV file is written: as told, or as its first line tells."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from shlex import quote
from typing import Any

from wmlr.io.table import arrow

DELIMITERS = (",", ";", "\t", "|")
DECIMALS = (".", ",")
LONGEST = 2**16
MOST_BYTES = 2**26
LINES = 8
MOST_COLUMNS = 50_000
MOST_ZEROS = 7  # behind the decimals of a number that stands for a gap


@dataclass(frozen=True)
class CsvFormat:
    """How a CSV file is written.

    Attributes
    ----------
    delimiter : what separates the columns; None for what the first line has: commas, semicolons, tabs or bars.
    decimal : the sign before the decimals of a number.
    encoding : of the text, as Python names it.
    gap_signs : what stands for a gap besides nothing, NA, NaN, null and their kin.
    """

    delimiter: str | None = None
    decimal: str = "."
    encoding: str = "utf-8"
    gap_signs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise ValueError(f"a delimiter is one character (got {self.delimiter!r})")
        if self.decimal not in DECIMALS:
            raise ValueError(f"--decimal must be a point or a comma (got {self.decimal!r})")
        try:
            codecs.lookup(self.encoding)
        except LookupError:
            raise ValueError(f"there is no encoding {self.encoding!r}: try latin-1, cp1252 or utf-16") from None

    def separator(self, path: Path) -> str:
        """What separates the columns of a file.

        A line without commas can only be separated by something else: with one column there is nothing to fit by.

        Raises
        ------
        ValueError
            When the first line is no text in this encoding.
        """
        line = first_line(path, self.encoding)
        if self.delimiter is not None:
            return self.delimiter
        signs = ("\t", *DELIMITERS) if path.suffix.lower() == ".tsv" else DELIMITERS
        return next((sign for sign in signs if len(next(csv.reader([line], delimiter=sign), [])) > 1), signs[0])

    def options(self, path: Path, block: int, types: Mapping[str, Any], **more: Any) -> tuple[Any, Any, Any]:
        """How Arrow is to read a file, parse it, and make entries of its cells.

        Parameters
        ----------
        path : the file.
        block : how many bytes to parse at a time, or more where its lines are long.
        types : of columns whose type is known.
        **more : further ``ConvertOptions``.
        """
        reader, sign = import_module("pyarrow.csv"), self.separator(path)
        signs = [spelling for one in self.gap_signs for spelling in _spellings(one, self.decimal)]
        gaps = [*reader.ConvertOptions().null_values, "na", "Na", "<NA>", *signs]
        return (
            reader.ReadOptions(block_size=block_bytes(path, block, sign), encoding=self.encoding),
            reader.ParseOptions(delimiter=sign, newlines_in_values=True),
            reader.ConvertOptions(
                column_types=dict(types),
                null_values=gaps,
                strings_can_be_null=True,
                decimal_point=self.decimal,
                **more,
            ),
        )


PLAIN_CSV = CsvFormat()


def _spellings(sign: str, decimal: str) -> list[str]:
    """A sign for gaps; a number also with other zeros behind its decimals, as programs write the same number."""
    whole, _, decimals = sign.partition(decimal)
    digits = whole.removeprefix("-") + decimals
    if not (digits.isascii() and digits.isdigit()):
        return [sign]
    kept = decimals.rstrip("0")
    longer = [f"{whole}{decimal}{kept}{'0' * zeros}" for zeros in range(MOST_ZEROS)]
    return [sign, *longer, *([] if kept else [whole])]


def first_line(path: Path, encoding: str = "utf-8") -> str:
    """The first line of a text file, which may be compressed; a mark of UTF-8 before it is no part of it.

    Of a very long line it is the beginning; of a file that cannot be read it is nothing, as its reader will say why.
    """
    try:
        with arrow().input_stream(str(path)) as stream:
            head: bytes = stream.read(LONGEST)
    except (arrow().ArrowException, OSError):
        return ""
    if codecs.lookup(encoding) != codecs.lookup("utf-8"):
        return head.decode(encoding, errors="ignore").lstrip("\ufeff").partition("\n")[0].rstrip("\r")
    text = head.partition(b"\n")[0]
    if b"\n" not in head and b"\r" in head.rstrip(b"\r"):
        raise ValueError(
            f"{path} cannot be read as CSV: its lines end in carriage returns alone; write it with line feeds, for "
            f"example by tr '\\r' '\\n' < {quote(path.name)} > unix.csv"
        )
    if text.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ValueError(_advice(path, "it is UTF-16", "UTF-16"))
    try:
        return text.decode("utf-8-sig", errors="ignore" if len(text) == LONGEST else "strict").rstrip("\r")
    except UnicodeDecodeError as error:
        found = f"its first line is not UTF-8 (byte {text[error.start]:#04x})"
        raise ValueError(_advice(path, found)) from None


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


def other_encoding(path: Path, what: str) -> ValueError:
    """What to raise where ``what`` of a file is not UTF-8."""
    return ValueError(_advice(path, f"{what} is not UTF-8"))


def _advice(path: Path, found: str, code: str = "ISO-8859-1") -> str:
    return (
        f"{path} cannot be read as CSV: {found}; --encoding {code} reads it where that is what it is, or save it as "
        f"UTF-8, for example by iconv -f {code} -t UTF-8 {quote(path.name)} > utf8.csv"
    )
