"""Theorem 1 measured: the bound on the duality gap of the approximate transport map, and the gap itself.

Given x everything lies on a line. P is the target's law of y, Q the learned one. The map of eq. (approximate
transport map), y + tanh(y u*/sigma^2)(u - u*) for the symmetric pair, is rearranged to be increasing, as the
theorem asks of a convex potential's derivative; phi is its integral and psi = y^2/2 - phi. With the
c-transform's cost |y - y'|^2/2 the dual value is

    D = E_P[y^2/2 - phi(y)] + E_Q[y'^2/2 - phi*(y')],   phi* the convex conjugate,

and the gap is W2^2 - 2D, averaged over x; the appendix proves its bound for W2^2. P and Q are taken as
equally weighted quantiles, for which weak duality holds exactly: the gap is never negative.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr

from wmlr import theory
from wmlr.experiments import drawing
from wmlr.experiments.outcome import Numbers, ResultTable, Target, exponent, format_fixed
from wmlr.experiments.plan import Plan
from wmlr.experiments.store import Cell, Store
from wmlr.metrics import wasserstein2_rows
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array

SEPARATIONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
SHRINK, TURN = 0.8, 0.5


def measure_gap(separation: float, rows: int, atoms: int, d: int, seed: int) -> dict[str, Any]:
    """The gap and its bound for |beta*| = separation times sigma and a learned vector shorter and turned."""
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((rows, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True) / np.sqrt(d)
    target = np.zeros(d)
    target[0] = separation
    learned = SHRINK * separation * np.eye(d)[0] * np.cos(TURN) + SHRINK * separation * np.eye(d)[1] * np.sin(TURN)
    true, other = Mixture.symmetric_pair(target, 1.0), Mixture.symmetric_pair(learned, 1.0)
    distances = wasserstein2_rows(other, true, X)
    pairs = [transport(float(a), float(b), atoms) for a, b in zip(X @ target, X @ learned)]
    largest = float(np.abs(X @ target).max())
    error = theory.bayes_error(true, X)
    return {
        "w2_squared": float(np.mean(distances**2)),
        "atoms_w2_squared": float(np.mean([squared for squared, _ in pairs])),
        "dual": float(np.mean([2 * dual for _, dual in pairs])),
        "gap": float(np.mean([squared - 2 * dual for squared, dual in pairs])),
        "least_gap": float(min(squared - 2 * dual for squared, dual in pairs)),
        "bound": theory.duality_gap_bound(largest, 1.0, error),
        "bayes_error": error,
        "largest_mean": largest,
    }


def transport(target: float, learned: float, atoms: int) -> tuple[float, float]:
    """(W2^2, D) between the pairs +-target and +-learned with unit noise, on ``atoms`` quantiles of each."""
    y, other = quantiles(target, atoms), quantiles(learned, atoms)
    image = np.sort(y + np.tanh(y * target) * (learned - target))
    steps = 0.5 * (image[1:] + image[:-1]) * np.diff(y)
    phi = np.concatenate([[0.0], np.cumsum(steps)])
    slopes = np.diff(phi) / np.diff(y)
    highest = np.searchsorted(slopes, other)
    conjugate = y[highest] * other - phi[highest]
    dual = float(np.mean(0.5 * y**2 - phi) + np.mean(0.5 * other**2 - conjugate))
    return float(np.mean((y - other) ** 2)), dual


def quantiles(mean: float, atoms: int) -> Array:
    """Of the pair N(mean, 1) and N(-mean, 1) at the middles of ``atoms`` equal shares."""
    half = abs(mean) + 9.0
    grid = np.linspace(-half, half, 20_001)
    levels = 0.5 * (ndtr(grid - mean) + ndtr(grid + mean))
    return np.asarray(np.interp((np.arange(atoms) + 0.5) / atoms, levels, grid))


def _cell(plan: Plan, separation: float) -> Cell:
    rows, atoms = (50, 1_000) if plan.quick else (400, 4_000)
    return Cell.of("gap", 0.01 * rows, separation=separation, rows=rows, atoms=atoms, d=8, seed=0)


def cells(plan: Plan) -> list[Cell]:
    return [_cell(plan, separation) for separation in SEPARATIONS]


def numbers(plan: Plan, store: Store) -> Numbers:
    return {"cells": [{"separation": value} | store.read(_cell(plan, value)) for value in SEPARATIONS]}


def tables(found: Numbers) -> list[ResultTable]:
    rows = tuple(
        (
            f"{cell['separation']:g}",
            exponent(cell["bayes_error"]),
            exponent(cell["w2_squared"]),
            exponent(cell["dual"]),
            exponent(cell["gap"]),
            exponent(cell["bound"]),
            format_fixed(cell["gap"] / cell["w2_squared"]),
        )
        for cell in found["cells"]
    )
    columns = ("separation", "P_err", "E W2²", "dual value", "gap", "bound", "gap / W2²")
    note = (
        f"Learned vector {SHRINK:g} times as long as the target and turned by {TURN:g} radians; rows of length sqrt(d)."
    )
    return [ResultTable("Theorem 1: duality gap and its bound", columns, rows, note)]


def figures(found: Numbers) -> dict[str, Any]:
    x = [cell["separation"] for cell in found["cells"]]
    names = (
        ("bound", "Theorem 1's bound", "k--"),
        ("w2_squared", "E W2²", "o-"),
        ("gap", "gap of the dual value", "o-"),
    )
    series = [
        {"x": x, "y": [cell[key] for cell in found["cells"]], "label": text, "style": how} for key, text, how in names
    ]
    return {"duality-gap": drawing.lines(series, x="|β*| / σ", y="squared distance", title="Duality gap and its bound")}


TARGET = Target("duality-gap", "The duality-gap theorem, measured", cells, numbers, tables, figures)
