"""The ledger: what every round asked, who answered, and what travelled.

A number is 8 bytes. A symmetric matrix travels as its triangle. Down is what each agent asked receives, up
what each agent that answers sends; the envelope of a real message is not counted. A secure sum sends more: keys,
shares and masked words, which are counted as they are.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from itertools import groupby
from typing import Any

import numpy as np

from wmlr.core.query import Query
from wmlr.io.printable import printable
from wmlr.io.text_table import html_table
from wmlr.numerics.arrays import Array, Sums

BYTES = 8
ROUNDING = 1e-9
COUNTS = ("asked", "answered", "late", "floats_down", "floats_up", "bytes_down", "bytes_up", "bytes")
HEADER = (
    "round", "query", "asked", "answered", "late",
    "floats down/agent", "floats up/agent", "bytes down/agent", "bytes up/agent", "bytes, all agents",
)  # fmt: skip


@dataclass(frozen=True)
class Round:
    """One query and its answers.

    Attributes
    ----------
    query : the kind of statistic asked for.
    asked, answered, late : numbers of agents; a late answer is paid for and left out.
    floats_down, floats_up : numbers to, and from, each agent.
    extra_down, extra_up : bytes to, and from, each agent that a secure sum takes besides.
    secure : whether the server saw no answer but their sum.
    noise : the noise multiplier, where answers were clipped and noisy.
    """

    query: str
    asked: int
    answered: int
    late: int
    floats_down: int
    floats_up: int
    extra_down: int = 0
    extra_up: int = 0
    secure: bool = False
    noise: float = 0.0

    @property
    def bytes_down(self) -> int:
        """To each agent asked."""
        return BYTES * self.floats_down + self.extra_down

    @property
    def bytes_up(self) -> int:
        """From each agent that answered."""
        return BYTES * self.floats_up + self.extra_up

    @property
    def bytes(self) -> int:
        """Of all agents, both ways."""
        return self.asked * self.bytes_down + (self.answered + self.late) * self.bytes_up


class Ledger(Sequence[Round]):
    """Rounds in the order they were held, and their running totals.

    Attributes
    ----------
    influence : how far the fit moves without each agent, once standard errors were asked for; None before, or where no
        agent is seen by itself.
    left_out : why an agent's answers were not used, by agent.
    judged : whether agents' answers were compared; the table then says whose move the fit furthest.
    """

    def __init__(self, rounds: Sequence[Round] = ()) -> None:
        self.influence: Any = None
        self.left_out: dict[Hashable, str] = {}
        self.judged = False
        self._rounds: list[Round] = []
        self._totals = dict.fromkeys(
            ("rounds", "asked", "answered", "floats_down", "floats_up", "bytes_down", "bytes_up", "bytes"), 0.0
        )
        for entry in rounds:
            self.write(entry)

    def write(self, entry: Round) -> None:
        """Add a round."""
        self._rounds.append(entry)
        self._totals["rounds"] += 1
        for name in self._totals.keys() - {"rounds"}:
            self._totals[name] += getattr(entry, name)

    def totals(self) -> dict[str, float]:
        """Sums over the rounds so far.

        ``asked`` and ``answered`` count agents over all rounds; floats and bytes, down and up, are those of one
        agent that takes part in every round; ``bytes`` are those of all agents, both ways.
        """
        return dict(self._totals)

    def since(self, first: int) -> Ledger:
        """The rounds from number ``first`` on."""
        found = Ledger(self._rounds[first:])
        found.influence, found.left_out, found.judged = self.influence, dict(self.left_out), self.judged
        return found

    def kinds(self) -> dict[str, int]:
        """How many rounds asked for each statistic."""
        counts: dict[str, int] = {}
        for entry in self._rounds:
            counts[entry.query] = counts.get(entry.query, 0) + 1
        return counts

    def records(self) -> list[dict[str, Any]]:
        """A dict per round, as JSON or a data frame would have it."""
        guards = ({"secure": entry.secure, "noise": entry.noise} for entry in self._rounds)
        return [dict(zip(("round", "query", *COUNTS), cells)) | guard for cells, guard in zip(self._lines(), guards)]

    def table(self, merged: bool = False) -> str:
        """The rounds as lines of text, the totals below; ``merged`` adds up successive rounds of one kind.

        Columns marked ``/agent`` are what one agent receives or sends; asked, answered and late count agents.
        """
        lines = [[_format(cell) for cell in cells] for cells in self._lines(merged)]
        shown = [list(HEADER), *lines, self._sum_line()]
        widths = [max(len(cells[column]) for cells in shown) for column in range(len(HEADER))]
        text = [_join(cells, widths) for cells in shown]
        rule = "-" * max(map(len, text))
        return printable("\n".join([text[0], rule, *text[1:-1], rule, text[-1], *self._remarks()]))

    def _lines(self, merged: bool = False) -> Iterator[tuple[Any, ...]]:
        last = 0
        for _, group in groupby(enumerate(self._rounds), key=lambda line: line[1].query if merged else line[0]):
            rounds = [entry for _, entry in group]
            first, last = last + 1, last + len(rounds)
            sums = (sum(getattr(entry, name) for entry in rounds) for name in COUNTS)
            yield (first if first == last else f"{first}-{last}", rounds[0].query, *sums)

    def _sum_line(self) -> list[str]:
        sums = self._totals | {"late": sum(entry.late for entry in self._rounds)}
        numbers = (_format(int(sums[name])) for name in COUNTS)
        return ["all", f"{human_bytes(sums['bytes'])} in all", *numbers]

    def _remarks(self) -> Iterator[str]:
        """What was done so that no agent's own answer be seen."""
        secure = sum(entry.secure for entry in self._rounds)
        noisy = [entry.noise for entry in self._rounds if entry.noise > 0]
        if secure:
            yield f"secure sums in {secure} of {len(self)} rounds: the server saw no agent's own answer"
        if noisy:
            yield f"noise of {max(noisy):.4g} times the clip in {len(noisy)} of {len(self)} rounds"
        for agent, reason in self.left_out.items():
            yield f"agent {agent} was left out: {reason}"
        if self.judged and self.influence is not None:
            yield str(self.influence)

    def __len__(self) -> int:
        return len(self._rounds)

    def __getitem__(self, place: Any) -> Any:
        return self._rounds[place]

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        sums = self._totals
        return f"Ledger({len(self)} rounds, {sums['answered']:.0f} answers, {human_bytes(sums['bytes'])})"

    def _repr_html_(self) -> str:
        rows = [[_format(cell) for cell in cells] for cells in self._lines()]
        return html_table(HEADER, rows, total=self._sum_line())


def floats_in(message: Any) -> int:
    """How many numbers a query or an answer holds; a symmetric matrix counts its triangle."""
    if isinstance(message, np.ndarray):
        return _floats_in_array(message)
    if is_dataclass(message):
        return sum(floats_in(getattr(message, field.name)) for field in fields(message))
    if isinstance(message, Mapping):
        return sum(floats_in(value) for value in message.values())
    if isinstance(message, (tuple, list)):
        return sum(floats_in(value) for value in message)
    return 0 if message is None or isinstance(message, str) else 1


def entry(query: Query, answer: Sums, asked: int, answered: int, late: int = 0, noise: float = 0.0) -> Round:
    """The ledger's line for a query and the sum of its answers."""
    return Round(query.label, asked, answered, late, floats_in(query), floats_in(answer), noise=noise)


def human_bytes(count: float) -> str:
    """A number of bytes as people read it."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.4g} TB"


def _floats_in_array(values: Array) -> int:
    if values.ndim < 2 or values.shape[-1] != values.shape[-2]:
        return int(values.size)
    size = float(np.abs(values).max(initial=0.0))
    if not np.allclose(values, np.swapaxes(values, -1, -2), rtol=0.0, atol=ROUNDING * size):
        return int(values.size)
    order = values.shape[-1]
    return int(values.size) // (order * order) * (order * (order + 1) // 2) if order else 0


def _format(cell: Any) -> str:
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def _join(cells: list[str], widths: list[int]) -> str:
    padded = [
        cell.ljust(width) if column == 1 else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths))
    ]
    return "  ".join(padded).rstrip()
