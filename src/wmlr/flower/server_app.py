"""The ServerApp: a fit as the run's configuration describes it, for plain ``flwr run``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from wmlr.estimator.role_columns import RoleColumns
from wmlr.federated.privacy import Secure
from wmlr.flower.fitting import DeployedFit, Rules, fit_among
from wmlr.flower.terms import RunTerms
from wmlr.options import guards, model

WEIGHTS = ("equal_weights", "gate")
MODEL = ("symmetric", "method", "solver", "family", *WEIGHTS, "no_intercept", "separate_sigma", "seed", "max_iter")
RULES = ("agents", "min_agents", "answering", "round_timeout", "patience", "errors", "resume")

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Fit, print the table and the ledger, and write the model where ``out`` says."""
    given = {name.replace("-", "_"): value for name, value in context.run_config.items()}
    out = given.get("out")
    outcome = fit_among(grid, configured_model(given), configured_rules(given), _print)
    print(outcome_text(outcome))
    if out:
        outcome.fitted.save(Path(str(out)))
        print(f"wrote {out}")


def configured_model(given: Mapping[str, Any]) -> Any:
    """The estimator that a run's configuration describes."""
    options = {name: given[name] for name in MODEL if name in given}
    return model.estimator(int(given.get("components", 2)), **options)


def configured_rules(given: Mapping[str, Any]) -> Rules:
    """The rules that a run's configuration describes."""
    options: dict[str, Any] = {name: given[name] for name in RULES if name in given}
    options |= {name: Path(str(given[name])) for name in ("checkpoint", "audit") if given.get(name)}
    roles = {name: str(given[name]) for name in RoleColumns.__annotations__ if given.get(name)}
    return Rules(terms=configured_terms(given), roles=roles, **options)


def configured_terms(given: Mapping[str, Any]) -> RunTerms:
    """The terms that a run's configuration describes; a number of 0 is none."""

    def number(name: str) -> float | None:
        return float(given[name]) if given.get(name) else None

    privacy = guards.privacy(
        number("epsilon"),
        number("noise_multiplier"),
        number("delta") or 1e-5,
        number("clip") or 2.0,
        int(given.get("private_rounds", 8)),
        number("x_scale") or 1.0,
        number("y_scale"),
        number("agent_rows"),
    )
    secure = Secure() if given.get("secure") else None
    return RunTerms(str(given.get("level", "row")), str(given.get("weighting", "rows")), secure, privacy)


def outcome_text(outcome: DeployedFit) -> str:
    """A fit, its ledger and its seconds, as text."""
    seconds = outcome.engine.seconds
    paces = f"{len(seconds)} rounds, {sum(seconds):.1f} s: {sum(seconds) / max(len(seconds), 1):.2f} s per round"
    spent = outcome.engine.privacy_spent
    cost = [] if spent is None else [str(spent)]
    return "\n\n".join([str(outcome.summary), outcome.engine.ledger.table(merged=True), paces, *cost])


def _print(text: str) -> None:
    print(f"wmlr server: {text}", file=sys.stderr, flush=True)
