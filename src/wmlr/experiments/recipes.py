"""Every recipe a cell may name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wmlr.experiments import central, complexity, correlation, federated, gap, rate

RECIPES: dict[str, Callable[..., dict[str, Any]]] = {
    "central_comparison": central.comparison,
    "central_repeated": central.repeat_table4,
    "central_search": central.search,
    "federated_compared": federated.compare_methods,
    "federated_gem": federated.gem,
    "federated_inner_em": federated.inner_em,
    "federated_grid": federated.grid,
    "rate": rate.measure_rate,
    "sized": complexity.errors_at_size,
    "gap": gap.measure_gap,
    "turned": correlation.errors_by_angle,
}
