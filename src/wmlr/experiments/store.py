"""Finished cells on disk: written whole or not at all, and never computed twice."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from wmlr.io.files import write_text

Values = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One computation: the name of its recipe, and arguments that JSON can hold.

    Attributes
    ----------
    recipe : a name in :data:`wmlr.experiments.recipes.RECIPES`.
    arguments : what the recipe is called with, as pairs.
    cost : about how many seconds it takes.
    """

    recipe: str
    arguments: tuple[tuple[str, Any], ...]
    cost: float = 1.0

    @classmethod
    def of(cls, recipe: str, cost: float = 1.0, **arguments: Any) -> Cell:
        return cls(recipe, tuple(sorted((name, _freeze(value)) for name, value in arguments.items())), cost)

    @property
    def keywords(self) -> Values:
        return dict(self.arguments)

    @property
    def key(self) -> str:
        """A file name: the recipe, its plain arguments, and a digest of all of them."""
        text = json.dumps([self.recipe, self.arguments], sort_keys=True)
        plain = [f"{name}{value:g}" for name, value in self.arguments if isinstance(value, int | float)]
        return "-".join([self.recipe, *plain, sha256(text.encode()).hexdigest()[:8]])


class Store:
    """A folder of cells."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, cell: Cell) -> Path:
        return self.folder / f"{cell.key}.json"

    def has(self, cell: Cell) -> bool:
        return self.path(cell).exists()

    def read(self, cell: Cell) -> Values:
        """What the cell computed, without the note of how long it took."""
        values: Values = json.loads(self.path(cell).read_text())["values"]
        return values

    def seconds(self, cell: Cell) -> float:
        """Processor time the cell took."""
        return float(json.loads(self.path(cell).read_text())["seconds"])

    def write(self, cell: Cell, values: Values, seconds: float) -> None:
        text = json.dumps(
            {"recipe": cell.recipe, "arguments": cell.keywords, "seconds": round(seconds, 3), "values": values},
            allow_nan=False,
        )
        write_text(self.path(cell), text)


def _freeze(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
