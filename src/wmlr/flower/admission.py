"""Who may take part: an agent from what it says of itself, or a sentence on why not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

LONGEST_NAME = 64
MOST_COLUMNS = 100_000


@dataclass(frozen=True)
class Member:
    """An agent as the server knows it; in a private run it does not say how many rows it has.

    ``floor`` is the fewest rows that a number may stand on that it shows in the clear.
    """

    node: int
    name: str
    rows: int
    columns: tuple[str, ...]
    target: str
    floor: int = 0


def agent_from_card(
    node: int, enlisted: str, content: Mapping[str, Any], pattern: Member | None, private: bool = False
) -> Member:
    """An agent from its card.

    Parameters
    ----------
    node : its number in Flower.
    enlisted : the name its key was enlisted under; without one it is called as it says.
    content : its card.
    pattern : an agent whose columns all others must have; None before it is known who that is.
    private : whether agents keep to themselves how many rows they have.

    Raises
    ------
    ValueError
        With what is wrong with it.
    """
    if isinstance(content.get("refusal"), str):
        raise ValueError("it refuses, and its own log says why")
    member = _read_card(node, enlisted or claimed_name(content), content, 0 if private else 1)
    if pattern is not None:
        refuse_other_columns(member, pattern)
    return member


def most_common(members: Iterable[Member]) -> Member:
    """The first agent whose columns and target most of them have."""
    given = list(members)
    counts = Counter((member.columns, member.target) for member in given)
    return max(given, key=lambda member: counts[member.columns, member.target])


def refuse_other_columns(member: Member, pattern: Member) -> None:
    """Raise ValueError where an agent has not the columns and the target of another."""
    if member.columns != pattern.columns:
        raise ValueError(_other_columns(member, pattern))
    if member.target != pattern.target:
        raise ValueError(
            f"its target is {short(member.target)!r} where agent {pattern.name} has {short(pattern.target)!r}"
        )


def claimed_name(content: Mapping[str, Any]) -> str:
    """What an agent calls itself, if that can be a name."""
    name = content.get("name")
    if not isinstance(name, str) or len(name) > LONGEST_NAME:
        return ""
    return name if all(letter.isalnum() or letter in "-_." for letter in name) else ""


def short(text: str, most: int = 200) -> str:
    """What came from elsewhere, on one line of a log."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text)
    plain = " ".join(plain.split())
    return plain if len(plain) <= most else f"{plain[: most - 3]}..."


def _read_card(node: int, name: str, content: Mapping[str, Any], fewest: int) -> Member:
    rows, columns, target = content.get("rows"), content.get("columns"), content.get("target")
    if not name:
        raise ValueError("it says no name of letters, digits, - and _")
    if not isinstance(rows, int) or isinstance(rows, bool) or not fewest <= rows < 2**53:
        raise ValueError(f"it announces an impossible number of rows ({short(repr(rows))})")
    if not isinstance(columns, list) or not all(isinstance(column, str) for column in columns):
        raise ValueError("it announces no columns")
    if not 0 < len(columns) <= MOST_COLUMNS or not isinstance(target, str):
        raise ValueError(f"it announces {len(columns)} columns")
    floor = content.get("floor", 0)
    floor = floor if isinstance(floor, int) and 0 < floor < 2**53 else 0
    return Member(node, name, rows, tuple(columns), target, floor)


def _other_columns(member: Member, pattern: Member) -> str:
    if len(member.columns) != len(pattern.columns):
        return f"it has {len(member.columns)} features where agent {pattern.name} has {len(pattern.columns)}"
    place = next(i for i, pair in enumerate(zip(member.columns, pattern.columns)) if pair[0] != pair[1])
    return (
        f"its feature {place + 1} is {short(member.columns[place])!r} where agent {pattern.name} has "
        f"{short(pattern.columns[place])!r}: --features sets columns and their order"
    )
