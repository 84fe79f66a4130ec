"""Least squares that end."""

import numpy as np
import pytest

from wmlr.numerics.solving import least_squares


def test_the_solution_is_the_shortest_of_the_nearest():
    matrix = np.array([[1.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    np.testing.assert_allclose(least_squares(matrix, np.array([1.0, 3.0, 7.0])), [1.0, 1.0])


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_equations_with_numbers_that_are_not_finite_are_refused(wrong):
    with pytest.raises(np.linalg.LinAlgError, match="not finite"):
        least_squares(np.array([[1.0, wrong], [0.0, 1.0]]), np.ones(2))
