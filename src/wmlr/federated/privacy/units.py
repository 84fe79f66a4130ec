"""The units in which the numbers of an answer are measured, so that one bound can hold for all of them.

They follow from the query and from three public numbers: what a column of X, y, and an agent's number of rows
usually are. In its unit, a number of a usual agent's answer is about 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wmlr.core.round import Together
from wmlr.features.maps import Spread
from wmlr.federated.parts import WRAPPERS
from wmlr.federated.privacy.layout import Layout
from wmlr.numerics.arrays import Array
from wmlr.statistics.local import LocalSteps


@dataclass(frozen=True)
class Scales:
    """Public numbers: root mean squares of the columns of X and of y, and the rows of an agent."""

    x: float = 1.0
    y: float = 1.0
    rows: float = 1.0


def entry_units(query: Any, layout: Layout, scales: Scales) -> Array:
    """The unit of each number of an answer's vector."""
    of_part = {name: _unit(query, name, scales, layout.shapes[name]) for name in layout.shapes}
    return np.concatenate([np.zeros(0), *(np.full(size, of_part[name]) for name, size in layout.sizes.items())])


def _unit(query: Any, name: str, scales: Scales, shape: tuple[int, ...]) -> float:
    if isinstance(query, Together):
        number, own = name.split("/", 1)
        return _unit(query.queries[int(number)], own, scales, shape)
    if isinstance(query, WRAPPERS):
        return _unit(query.query, name, scales, shape)
    x, y, rows = scales.x, scales.y, scales.rows
    inner = query.query if isinstance(query, LocalSteps) else query
    y = y / getattr(inner, "unit", 1.0)
    s2 = float(np.mean(getattr(inner, "s2", y * y)))
    sigma, root = float(np.sqrt(s2)), float(np.sqrt(rows))
    if isinstance(query, Spread):
        return {"rows": rows, "sum": x * rows}.get(name, x * x * rows)
    units = {
        "gram": x * x * rows,
        "grams": x * x * rows,
        "fourth": x * x * y * y * rows,
        "lost": x * x * y * y * rows,
        "pairs": x * x * y * y * rows * max(1.0, rows / max(shape[-1:] or (1,))),
        "pair_count": rows * rows,
        "x": x * rows,
        "xx": x * x * rows,
        "xxyy": x * x * y * y * rows,
        "xyy": x * y * y * rows,
        "xy": x * y * rows,
        "h": x * y * rows,
        "moments": x * y * rows,
        "y": y * rows,
        "yy": y * y * rows,
        "rr": y * y * rows,
        "tyu": y * y * rows,
        "uu": y * y * rows,
        "missing_along": y * y * rows,
        "m": x * sigma * root,
        "score": x * sigma * root,
        "gradients": x * rows,
        "squares": s2 * rows,
        "change": y / x * rows,
        "information": x * x * rows / s2,
        "outer": x * x * rows / s2,
    }
    return float(units.get(name, rows))
