"""Solve exact sums for a y of few values, by lattices and by linear programming, knowing all columns.

Run as a program, it prints the table of docs/security.md: ``python tests/attacks/lattices.py``.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numba import njit
from scipy.optimize import linprog

from wmlr.flower.agent import Agent
from wmlr.flower.refusals import RefusalError
from wmlr.flower.terms import RunTerms
from wmlr.statistics.moments import Moments

STAGES = (2, 5, 8, 11)  # digits of the sums that are solved for, more and more of them
MOST_STEPS = 10**6


@njit
def reduce_rows(rows, deep):
    """Reduce integer rows as a basis of their lattice (Lenstra, Lenstra and Lovasz, 1982), with deep insertions or not.

    Schnorr and Euchner (1994).
    """
    count, width = rows.shape
    across, squares, slopes = np.zeros((count, width)), np.zeros(count), np.zeros((count, count))
    place = steps = 0
    while place < count and steps < MOST_STEPS:
        steps += 1
        large = True
        while large:
            large = False
            rest = rows[place].astype(np.float64)
            slopes[place, :place] = 0.0
            for _ in range(2):
                for i in range(place):
                    slope = np.dot(rest, across[i]) / squares[i]
                    slopes[place, i] += slope
                    rest -= slope * across[i]
            for i in range(place - 1, -1, -1):
                times = np.rint(slopes[place, i])
                if times != 0.0:
                    large = large or abs(times) > 1e3
                    rows[place] -= np.int64(times) * rows[i]
                    slopes[place, :i] -= times * slopes[i, :i]
                    slopes[place, i] -= times
        across[place], squares[place] = rest, np.dot(rest, rest)
        size, target = np.sum(rows[place].astype(np.float64) ** 2), place
        for i in range(place):
            if (deep or i == place - 1) and size < 0.99 * squares[i]:
                target = i
                break
            size -= slopes[place, i] ** 2 * squares[i]
        moved = rows[place].copy()
        for i in range(place, target, -1):
            rows[i] = rows[i - 1]
        rows[target] = moved
        place = place + 1 if target == place else target


def solve_by_lattice(weights: Any, sums: Any, most: int, deep: bool = False) -> Any:
    """The y of 0, 1, ... ``most`` for which weights' y gives the sums; None where none is found.

    The short vector is most - 2 y (Lagarias and Odlyzko, 1985).
    """
    n = len(weights)
    short = np.vstack([np.eye(n + 1, dtype=np.int64)[:n] * 2, np.full(n + 1, most)])
    for digits in STAGES:
        whole = np.rint(np.vstack([weights, sums]) * 10.0**digits).astype(np.int64)
        last = short[:, n] // most
        taken = np.column_stack([(short[:, :n] - most * last[:, None]) // 2, last])
        lattice = np.hstack([short, (taken.astype(object) @ whole.astype(object)).astype(np.int64)])
        reduce_rows(lattice, deep and digits == STAGES[-1])
        short = lattice[:, : n + 1]
    rounding = 1e-12 * most * np.abs(weights).sum(axis=0)
    for line in short[np.abs(short[:, n]) == most]:
        found = (most - np.sign(line[n]) * line[:n]) / 2.0
        if np.all((found >= 0) & (found <= most)) and np.all(np.abs(weights.T @ found - sums) <= rounding):
            return found
    return None


def solve_by_bounds(weights: Any, sums: Any) -> Any:
    """The y between 0 and 1 for which weights' y gives the sums; the only one, from half as many sums as rows on."""
    return np.rint(linprog(np.zeros(len(weights)), A_eq=weights.T, b_eq=sums, bounds=(0, 1)).x)


def rows_of(rows: int, columns: int, most: int) -> tuple[Any, Any]:
    """Columns, and a y of 0, 1, ... ``most``."""
    generator = np.random.default_rng(1)
    return generator.standard_normal((rows, columns)), generator.integers(0, most + 1, rows).astype(float)


def agent_with(X: Any, y: Any, **limits: Any) -> Agent:
    """An agent in the clear."""
    return Agent("north", X, y, tuple(f"x{i}" for i in range(X.shape[1])), "y", **limits)


def told(agent: Agent, fourth: bool = False) -> tuple[Any, Any]:
    """The weights of y, and the sums, in the answer to the first question of a fit."""
    sums = agent.answer(Moments(fourth=fourth), RunTerms())
    weights, values = np.column_stack([agent.X, np.ones(len(agent))]), np.append(sums["xy"], sums["y"])
    if fourth:  # zeros and ones are their own squares
        left, right = np.triu_indices(agent.X.shape[1])
        weights = np.column_stack([weights, agent.X[:, left] * agent.X[:, right]])
        values = np.append(values, sums["fourth"][left, right])
    return weights, values


def fewest_shown(columns: int, most: int, fourth: bool) -> int:
    """The fewest rows, in tens, of which an agent with floors answers the first question."""
    for rows in range(10, 10_000, 10):
        try:
            told(agent_with(*rows_of(rows, columns, most)), fourth)
        except RefusalError:
            continue
        return rows
    raise AssertionError


def main() -> None:
    """Print the table."""
    print("y | columns | first question | read without floors | not read | with floors, answered from")
    print("---|---|---|---|---|---")
    for most, columns, fourth, tried in (
        (1, 3, False, (40, 50, 60, 70, 80)),
        (1, 3, True, (60, 80, 90, 100)),
        (1, 10, True, (100, 150)),
        (10, 10, False, (40, 60, 70, 80)),
        (1000, 20, False, (40, 60, 80)),
    ):
        read, lost = "none", "none of those tried"
        for rows in tried:
            X, y = rows_of(rows, columns, most)
            weights, sums = told(agent_with(X, y, min_rows=1), fourth)
            begun = time.perf_counter()
            found = solve_by_lattice(weights, sums, most)
            if found is None and rows < 100:
                found = solve_by_lattice(weights, sums, most, deep=True)
            seconds = time.perf_counter() - begun
            if found is None:
                lost = f"{rows} rows"
                break
            read = f"{np.count_nonzero(found == y)} of {rows}, {seconds:.1f} s"
        asked, floor = "symmetric" if fourth else "moments", fewest_shown(columns, most, fourth)
        print(f"0 to {most} | {columns} | {asked} | {read} | {lost} | {floor} rows", flush=True)


if __name__ == "__main__":
    main()
