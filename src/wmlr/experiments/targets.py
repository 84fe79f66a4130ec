"""The targets of ``wmlr reproduce``, in the order in which they are told."""

from __future__ import annotations

from wmlr.experiments import complexity, correlation, figure1, figure2, gap, rate, table1, table2, table3, table4
from wmlr.experiments.outcome import Target

TARGETS: dict[str, Target] = {
    module.TARGET.name: module.TARGET
    for module in (table1, table4, table2, table3, figure1, figure2, rate, complexity, gap, correlation)
}


def targets_named(name: str) -> list[Target]:
    """The targets behind a name; "all" is every one."""
    if name == "all":
        return list(TARGETS.values())
    if name not in TARGETS:
        raise ValueError(f"target must be 'all' or one of {', '.join(TARGETS)} (got {name!r})")
    return [TARGETS[name]]
