"""What was measured, a line for each fit, appended as it comes: a run that was stopped goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Line = dict[str, Any]


class ResultLedger:
    """Lines of results, in a file if one is given."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.lines: list[Line] = []
        if path is not None and path.is_file():
            self.lines = [line for line in map(_read, path.read_text(encoding="utf-8").splitlines()) if line]
        self._done = {_key(line) for line in self.lines}

    def has(self, part: str, problem: str, who: str, seed: int) -> bool:
        """Whether this fit was measured before."""
        return (part, problem, who, seed) in self._done

    def add(self, lines: Iterable[Line]) -> None:
        """Take lines in, and write them down."""
        fresh = [line for line in lines if _key(line) not in self._done]
        self.lines += fresh
        self._done |= {_key(line) for line in fresh}
        if self.path is not None and fresh:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in fresh)

    def of(self, part: str) -> list[Line]:
        """The lines of a part."""
        return [line for line in self.lines if line["part"] == part]


def _read(text: str) -> Line | None:
    """A line, or None where a stopped run left half of one."""
    try:
        line: Line = json.loads(text)
    except json.JSONDecodeError:
        return None
    return line


def _key(line: Line) -> tuple[str, str, str, int]:
    return line["part"], line["problem"], line["who"], line["seed"]
