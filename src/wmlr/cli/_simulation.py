"""The work of ``wmlr simulate``: methods by name, a table that grows with the fit, and the tables at its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.live import Live
from rich.table import Table

from wmlr.cli import _model
from wmlr.cli._console import show, terminal
from wmlr.core.roles import RoleRows, Roles
from wmlr.core.round import Report, Watcher
from wmlr.estimator.summary import Summary
from wmlr.federated import Federation
from wmlr.federated.ledger import human_bytes
from wmlr.inference.intervals import ConfidenceIntervals
from wmlr.io import tables
from wmlr.methods import EM, GDA, GEM, IFCA, FederatedEM, Refreshed
from wmlr.numerics.arrays import Beside, Integers

SHOWN = 12
COLUMNS = ("iteration", "rounds", "asked", "answered", "log-likelihood", "bytes, all agents")


def federated_method(method: str, as_printed: bool, local_steps: int) -> Any:
    space, capped = ("raw", False) if as_printed else ("whitened", True)
    made = {
        "wmlr": Refreshed(),
        "gda": GDA(local_steps=local_steps, coordinates=space),
        "em": EM(),
        "fem": FederatedEM(capped=capped, coordinates=space),
        "gem": GEM(capped=capped, coordinates=space),
        "ifca": IFCA(),
    }
    if method not in made:
        raise ValueError(f"--method must be one of {', '.join(made)} (got {method!r})")
    if local_steps > 1 and method != "gda":
        raise ValueError(f"--local-steps are steps of gradient descent ascent: use --method gda (got {method!r})")
    return made[method]


@contextmanager
def live_table(federation: Federation) -> Iterator[Watcher | None]:
    """A table that grows with every iteration, on a terminal; nothing elsewhere."""
    console = terminal()
    if console is None:
        yield None
        return
    lines: list[tuple[str, ...]] = []
    with Live(console=console, transient=True, refresh_per_second=8) as live:

        def watch(report: Report) -> None:
            lines.append(_line(report.record))
            table = Table(title=f"{federation.n_agents:,} agents", box=None, pad_edge=False)
            for column in COLUMNS:
                table.add_column(column, justify="right", no_wrap=True)
            for line in lines[-SHOWN:]:
                table.add_row(*line)
            live.update(table)

        yield watch


def _line(record: dict[str, float]) -> tuple[str, ...]:
    counts = [f"{record[name]:,.0f}" for name in ("iteration", "rounds", "asked", "answered")]
    return (*counts, f"{record['log_likelihood']:,.4f}", human_bytes(record["bytes"]))


def with_roles(wanted: Any, problem: Any) -> tuple[Any, Any, Roles | None]:
    """The table that agents hold, y as their sums see it, and which columns of the table are no features."""
    import numpy as np

    from wmlr.estimator.row_roles import read_beside
    from wmlr.estimator.settings import refuse_roles, resolve_family

    beside: Beside = read_beside(problem.roles, len(problem))
    if not beside:
        return problem.X, np.asarray(problem.y), None
    refuse_roles(wanted, beside)
    y, beside = resolve_family(wanted.family, wanted.robust, wanted.outliers).sums_response(
        np.asarray(problem.y), beside
    )
    d = int(problem.X.shape[1])
    places: dict[str, tuple[int, ...]] = {role: (d + place,) for place, role in enumerate(beside)}
    table = problem.X.assign(**{f"({role})": values for role, values in beside.items()})
    return table, y, Roles(tuple(range(d)), places, tuple(beside))


def in_roles(rows: Any, roles: Roles | None) -> Any:
    """An engine with the columns of its rows in their roles."""
    return rows if roles is None else RoleRows(rows, roles)


def confidence_intervals(fitted: Any, rows: Any) -> ConfidenceIntervals:
    """Standard errors and intervals: one round more."""
    found: ConfidenceIntervals = fitted.fitted_.confidence_intervals_on(rows)
    return found


def refuse_exact(private: bool, release: bool, agents_out: Path | None, report: Path | None) -> None:
    """Refuse to write beside a private fit what its noise hides, unless it is asked for."""
    for path, option, what in (
        (agents_out, "--agents-out", "each agent's component and number of rows"),
        (report, "--report", "rows, residuals and each agent's components"),
    ):
        if private and path is not None and not release:
            raise ValueError(f"{option} holds {what}, exactly, which epsilon does not cover: add --release to write it")


def print_tables(
    fitted: Any, federation: Federation, intervals: ConfidenceIntervals | None, release: bool = False
) -> None:
    """Print the fit, its history, the ledger, and what it cost; exact counts of a private fit only on ``release``."""
    errors = "none: another noisy round" if intervals is None else "observed information"
    print(Summary.of(fitted.fitted_, intervals, (("agents", str(federation.n_agents)), ("errors", errors))))
    print()
    history = fitted.history_
    shown = history if len(history) <= SHOWN else [history[0], *history[1 - SHOWN :]]
    show(COLUMNS, [_line(record) for record in shown])
    print()
    print(federation.ledger.table(merged=True))
    sizes = federation.sizes
    if federation.privacy is None or release:
        print(f"\n{federation.n_agents:,} agents with {_range_of(sizes)} each")
    if federation.privacy is not None:
        print(fitted.privacy_)


def _range_of(sizes: Integers) -> str:
    least, most = int(sizes.min()), int(sizes.max())
    rows = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    return f"{rows} row{'s' * (most != 1)}"


def write_agents(path: Path, federation: Federation, fitted: Any, agent_column: str) -> None:
    component, probability = federation.assign(fitted)
    columns = {agent_column: federation.agent_ids, "component": component + 1, "probability": probability}
    tables.write(path, columns | {"rows": federation.sizes})


def fit_as_plain_data(
    fitted: Any, federation: Federation, intervals: ConfidenceIntervals | None, release: bool = False
) -> dict[str, Any]:
    """The fit as plain data, for ``--json``; exact counts of a private fit only on ``release``."""
    names = [str(name) for name in fitted.feature_names_in_]
    told = {
        "features": names,
        "n_agents": federation.n_agents,
        "n_rows": int(federation.sizes.sum()) if federation.privacy is None or release else None,
        "components": _model.components(fitted, names),
        "log_likelihood": float(fitted.log_likelihood_),
        "iterations": int(fitted.n_iter_),
        "converged": bool(fitted.converged_) and Summary.of(fitted.fitted_, intervals).strict,
        "history": fitted.history_,
        "ledger": federation.ledger.records(),
        "totals": federation.ledger.totals(),
    }
    if intervals is not None:
        told["standard_errors"] = {name: float(error) for name, error in zip(intervals.names, intervals.errors)}
    if federation.ledger.influence is not None:
        told["influence"] = federation.ledger.influence.records()
    if federation.trust == "majority":
        told["left_out"] = {str(agent): reason for agent, reason in federation.left_out.items()}
    if federation.privacy is not None:
        told["privacy"] = asdict(fitted.privacy_)
    return told
