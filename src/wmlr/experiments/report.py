"""One report of everything there is, as Markdown and as HTML, with the machine, versions, seeds and seconds."""

from __future__ import annotations

import csv
import io
import os
import platform
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from wmlr.experiments.outcome import ResultTable
from wmlr.io.text_table import html_table
from wmlr.version import __version__

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "matplotlib")
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 14px; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid #ddd; text-align: right; }
th:first-child, td:first-child { text-align: left; }
caption, .note { text-align: left; color: #555; font-size: 13px; }
img { max-width: 100%; }
""".strip()


@dataclass(frozen=True)
class ResultSection:
    """One target in the report: its tables, the figures written, and the seconds its cells took."""

    title: str
    tables: tuple[ResultTable, ...]
    figures: tuple[Path, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class RunFacts:
    """Where and how the run was made."""

    settings: dict[str, str]
    seconds: float
    machine: dict[str, str] = field(default_factory=lambda: machine())

    def lines(self) -> list[tuple[str, str]]:
        return [*self.settings.items(), ("seconds", f"{self.seconds:.0f}"), *self.machine.items()]


def machine() -> dict[str, str]:
    """The processor, the system and the versions that made the numbers."""
    found = {
        "processor": processor(),
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "wmlr": __version__,
    }
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def markdown_table(table: ResultTable) -> str:
    head = "| " + " | ".join(table.columns) + " |"
    rule = "|" + "---|" * len(table.columns)
    body = ["| " + " | ".join(row) + " |" for row in table.rows]
    text = "\n".join([head, rule, *body])
    return text + (f"\n\n{table.note}" if table.note else "")


def comma_separated(table: ResultTable) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(table.rows)
    return out.getvalue()


def markdown(sections: Iterable[ResultSection], facts: RunFacts) -> str:
    parts = ["# Reproduction report\n"]
    for section in sections:
        parts.append(f"## {section.title}\n")
        for table in section.tables:
            parts.append(f"**{table.title}**\n\n{markdown_table(table)}\n")
        for path in section.figures:
            if path.suffix == ".png":
                parts.append(f"![{section.title}]({path.name})\n")
        parts.append(f"Cells: {section.seconds:.0f} s of processor time.\n")
    parts.append("## How it was made\n")
    parts.append("\n".join(f"- {name}: {value}" for name, value in facts.lines()) + "\n")
    return "\n".join(parts)


def html(sections: Iterable[ResultSection], facts: RunFacts) -> str:
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>Reproduction report</title>"
        f"<style>{STYLE}</style></head><body><h1>Reproduction report</h1>"
    ]
    for section in sections:
        parts.append(f"<h2>{escape(section.title)}</h2>")
        for table in section.tables:
            parts.append(html_table(table.columns, table.rows, table.title))
            parts += [f"<p class='note'>{escape(table.note)}</p>"] if table.note else []
        parts += [_html_figure(path, section.title) for path in section.figures if path.suffix == ".png"]
        parts.append(f"<p class='note'>Cells: {section.seconds:.0f} s of processor time.</p>")
    lines = "".join(f"<li>{escape(name)}: {escape(value)}</li>" for name, value in facts.lines())
    parts.append(f"<h2>How it was made</h2><ul>{lines}</ul></body></html>")
    return "\n".join(parts)


def _html_figure(path: Path, title: str) -> str:
    picture = b64encode(path.read_bytes()).decode()
    return f"<p><img alt='{escape(title)}' src='data:image/png;base64,{picture}'></p>"
