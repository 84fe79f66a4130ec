"""Small tables of text: aligned for the terminal, HTML for a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from wmlr.io.printable import printable


def widths(rows: Iterable[Sequence[str]], least: int = 0) -> list[int]:
    """The width of each column; all but the first are at least ``least`` wide."""
    first, *rest = (max(map(len, column)) for column in zip(*rows))
    return [first, *(max(width, least) for width in rest)]


def aligned_line(cells: Sequence[str], wide: Sequence[int]) -> str:
    """One line: the first cell to the left, the others to the right."""
    padded = [cells[0].ljust(wide[0]), *(cell.rjust(width) for cell, width in zip(cells[1:], wide[1:]))]
    return "  ".join(padded).rstrip()


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> str:
    """A table with a rule under its header; names in it, which may come from files, are shown safely."""
    shown = [[printable(cell).replace("\n", "\\x0a") for cell in row] for row in (header, *rows)]
    wide = widths(shown)
    first, *rest = (aligned_line(row, wide) for row in shown)
    lines = [first, "-" * (sum(wide) + 2 * (len(wide) - 1)), *rest]
    return "\n".join([printable(title), *lines] if title else lines)


def html_table(header: Sequence[str], rows: Sequence[Sequence[str]], title: str = "", total: Sequence[str] = ()) -> str:
    """The same as HTML; ``total`` is a last line that stands out as the header does."""
    caption = f"<caption>{escape(title)}</caption>" if title else ""
    body = "".join(_html_line(row, "td") for row in rows) + (_html_line(total, "th") if total else "")
    return f"<table>{caption}{_html_line(header, 'th')}{body}</table>"


def _html_line(cells: Sequence[str], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"


class ShownAsTable:
    """What is shown as a table: in a terminal, and in a notebook."""

    def _cells(self) -> tuple[Sequence[str], Sequence[Sequence[str]], str]:
        """The header, the rows, and a title, which may be empty."""
        raise NotImplementedError

    def __str__(self) -> str:
        return text_table(*self._cells())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html_table(*self._cells())
