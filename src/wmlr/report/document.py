"""Pages that need nothing else: one file, its own style and script, and data that cannot become code."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

from wmlr.io.plain_data import plain
from wmlr.plots import COLOURS


def asset(name: str, package: str = "wmlr.report") -> str:
    """A style or a script that lies beside the code."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def document(title: str, body: str, data: Any, scripts: Sequence[str], connect: str = "'none'") -> str:
    """A whole page.

    Parameters
    ----------
    title : plain text.
    body : HTML, escaped where it holds what others wrote.
    data : plain data for the scripts.
    scripts : their text, run one after the other when the page is there.
    connect : where the scripts may fetch from; nowhere, for a page that is a file.
    """
    style = asset("style.css").replace("/* colours */", _colours())
    script = "\n".join(scripts)
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; connect-src {connect}; "
        "base-uri 'none'; form-action 'none'"
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">
<title>{escape(title)}</title>
<style>{style}</style></head>
<body>
{body}
<script type="application/json" id="data">{embed_json(data)}</script>
<script>{script}</script>
</body></html>
"""


def embed_json(data: Any) -> str:
    """Data as JSON that no HTML parser can mistake for markup."""
    text = json.dumps(plain(data, short=True), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def table(
    header: Sequence[str], rows: Iterable[Sequence[str]], caption: str, last: Sequence[str] = (), words: bool = False
) -> str:
    """A table that scrolls within itself where it is too wide; the first cell of a row is its head.

    ``last`` is a line of sums, ``words`` says that the second column is text too.
    """
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = "".join(_row(cells) for cells in rows)
    foot = f"<tfoot>{_row(last)}</tfoot>" if last else ""
    return (
        f'<div class="wide{" text" if words else ""}" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
        f"<caption><span>{escape(caption)}</span></caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody>{foot}</table></div>"
    )


def figure(view: str, title: str, note: str = "") -> str:
    """A place for a chart; what the scripts do not draw says so."""
    caption = f"<p>{escape(note)}</p>" if note else ""
    return (
        f'<figure class="chart" data-view="{escape(view)}"><figcaption><h3>{escape(title)}</h3>{caption}</figcaption>'
        "<noscript><p>The picture needs scripts to be allowed; the tables do not.</p></noscript></figure>"
    )


def pair(*figures: str) -> str:
    """Charts side by side, where there is room."""
    return f'<div class="pair">{"".join(figures)}</div>'


def beside(*tables: str) -> str:
    """Tables side by side, where they fit as they are."""
    return f'<div class="beside">{"".join(tables)}</div>'


@dataclass(frozen=True)
class Section:
    """A part of the page, with a name to jump to."""

    name: str
    title: str
    content: str

    @property
    def html(self) -> str:
        return (
            f'<section id="{self.name}" aria-labelledby="{self.name}-title">'
            f'<h2 id="{self.name}-title">{escape(self.title)}</h2>{self.content}</section>'
        )


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Names and values side by side."""
    cells = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs)
    return f'<dl class="facts">{cells}</dl>'


def _row(cells: Sequence[str]) -> str:
    first, *rest = (escape(cell) for cell in cells)
    return f'<tr><th scope="row">{first}</th>' + "".join(f"<td>{cell}</td>" for cell in rest) + "</tr>"


def _colours() -> str:
    """The components' colours as variables; black and white change places with the background."""
    pairs = ((colour, "#d0d7de" if colour == "#000000" else colour) for colour in COLOURS)
    return " ".join(f"--c{j}: light-dark({light}, {dark});" for j, (light, dark) in enumerate(pairs))


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
