"""What exact sums tell of a y that has few values, to a server that knows all columns."""

import numpy as np
import pytest
from test_curious_servers import COLUMNS

from wmlr.flower.agent import Agent
from wmlr.flower.terms import RunTerms
from wmlr.statistics.moments import Moments

DIGITS = 10**11  # of the sums that are solved for
P = len(COLUMNS)


def read_zeros_and_ones(rows):
    """All y of an agent, from its answer to the first question of a fit, by the lattice of what adds up to it.

    The short vector is 1 - 2 y (Lagarias and Odlyzko, 1985).
    """
    matrices = pytest.importorskip("sympy.polys.matrices")
    integers = pytest.importorskip("sympy").ZZ
    generator = np.random.default_rng(1)
    X, y = generator.standard_normal((rows, P)), (generator.random(rows) < 0.4).astype(float)
    told = Agent("north", X, y, COLUMNS, "y").answer(Moments(), RunTerms())
    added = np.column_stack([np.rint(X * DIGITS), np.full(rows, 1e4)])
    wanted = np.append(np.rint(told["xy"][:P] * DIGITS), 1e4 * told["yy"])
    lattice = np.block([[2.0 * np.eye(rows), added], [np.ones((1, rows)), wanted[None]]])
    reduced = matrices.DomainMatrix([[integers(int(v)) for v in line] for line in lattice], lattice.shape, integers)
    for line in reduced.lll().to_Matrix().tolist():
        for signs in (np.array(line[:rows], dtype=float), -np.array(line[:rows], dtype=float)):
            found = (1.0 - signs) / 2.0
            if np.all(np.abs(signs) == 1.0) and np.allclose(X.T @ found, told["xy"][:P], atol=1e-7):
                return found, y
    return None, y


def test_zeros_and_ones_of_few_rows_follow_from_one_answer_for_who_knows_the_columns():
    """Nothing stands against that in the clear but rows: of 40 all are read."""
    found, true = read_zeros_and_ones(40)
    np.testing.assert_array_equal(found, true)
