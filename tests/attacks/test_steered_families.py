"""A server that leads a told fit of a family with weights to where all rows but one add the same to its scores.

The agent is a stock one, in the clear, at ``--min-rows 50``; the server knows the fit's code, and no row. Each attack
is run against floors that are off as well, to show what it would read.
"""

import numpy as np
import pytest
from test_curious_servers import COLUMNS
from test_steered_fits import N, P, Steered

from wmlr import MixedLinearRegression
from wmlr.core.round import Rows
from wmlr.families import Binomial, Laplace
from wmlr.federated.floors import Disclosure, shares_in
from wmlr.flower.agent import Agent
from wmlr.statistics.information import ObservedInformation

GAP = 40  # places from one end, of the row that is gone for


def told(agent, family, places):
    """What the agent answers at each of some coefficients of one component, to which forged sums lead; up to None."""
    fit = Steered(agent, MixedLinearRegression(1, family=family, method="em", tol=0.0, max_iter=500, random_state=0))
    answers, rising = [], -1e9
    for place in places:
        while "Score" not in fit.query.label or not np.allclose(fit.query.coef[:, 0], place, rtol=1e-9, atol=1e-9):
            sums = {name: np.full(part.shape, float(N)) for name, part in fit.query.parts(P, False).items()}
            sums |= {"gram": N * np.eye(P + 1)} if "gram" in sums else {}
            sums |= {"xy": np.zeros(P + 1), "y": np.array(0.0)} if "xy" in sums else {}
            sums |= {"grams": N * np.eye(P + 1)[None]} if "grams" in sums else {}
            if "score" in sums:
                rising += 1.0
                sums |= {"score": N * (place[:, None] - fit.query.coef), "log_likelihood": np.array(rising)}
            fit.forge(sums)
        answers.append(fit.answer())
        if answers[-1] is None:
            break
    return answers


def told_beyond_bounds(min_rows, parts):
    """Answers where all probabilities are 0 or 1, by the side of an edge in the first column; the edges, and a row.

    The edges lie before and behind the row, these parts of the way to the next one.
    """
    generator = np.random.default_rng(0)
    X, y = generator.standard_normal((N, P)), (generator.random(N) < 0.5).astype(float)
    agent = Agent("north", X, y, COLUMNS, "y", min_rows=min_rows)
    order, steep = np.argsort(X[:, 0]), 1e6
    at = X[order[GAP], 0]
    edges = [at + part * abs(X[order[GAP + (1 if part > 0 else -1)], 0] - at) for part in parts]
    answers = told(agent, "binomial", [np.array([steep, 0.0, 0.0, -steep * edge]) for edge in edges])
    return answers, edges, X[order[GAP]]


def read_by_kinks(min_rows):
    """A row, from four answers.

    Predictors on the wrong side are called back, in proportion to the steepness: the score is straight in the edge but
    where a row changes sides, and there its slope changes by the row.
    """
    answers, edges, row = told_beyond_bounds(min_rows, (-0.3, -0.1, 0.1, 0.3))
    if answers[-1] is None:
        return None
    first, second, third, fourth = (answer["score"][:, 0] for answer in answers)
    kink = (fourth - third) / (edges[3] - edges[2]) - (second - first) / (edges[1] - edges[0])
    return kink[:P] / kink[P], row


def read_by_sides(min_rows):
    """A row between two heaps of y, from two answers: least absolute deviations add up what is on either side."""
    generator = np.random.default_rng(2)
    X = generator.standard_normal((N, P))
    y = generator.choice([-1.0, 1.0], N) * generator.uniform(4.0, 8.0, N)
    y[GAP] = 0.3
    agent = Agent("north", X, y, COLUMNS, "y", min_rows=min_rows)
    below, above = np.array([[0.0, 0.0, 0.0, -2.5], [0.0, 0.0, 0.0, 2.5]])
    answers = told(agent, "laplace", [below, above])
    if answers[-1] is None:
        return None
    change = (answers[0]["score"] - answers[1]["score"])[:, 0]
    return change[:P] / change[P], X[GAP]


@pytest.mark.parametrize("read", [read_by_kinks, read_by_sides])
def test_no_row_is_read_where_all_others_add_the_same_to_a_score(read):
    """Rows counted by the family's weights, which are alike where probabilities are 0 or 1, or smooth over a kink."""
    found, true = read(1)
    np.testing.assert_allclose(found, true, atol=1e-4)
    assert read(50) is None


def test_no_likelihood_counts_the_rows_beyond_an_edge():
    """Each row whose y is not the one of its side took as much off the likelihood: two answers told one row."""
    (before, after), *_ = told_beyond_bounds(1, (-0.3, 0.3))
    assert abs(float(after["log_likelihood"] - before["log_likelihood"])) == pytest.approx(36.0)
    assert told_beyond_bounds(50, (-0.3, 0.3))[0][-1] is None


@pytest.mark.parametrize("family", [Binomial(), Laplace()], ids=lambda family: family.name)
def test_standard_errors_count_rows_by_what_they_add_to_a_score(family):
    """One row changes its side, and all others add what they did."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((N, P))
    rows = Rows(X, np.where(np.arange(N) % 3, 0.0, 1.0))
    line = X[:, 0] if family.name == "binomial" else rows.y - X[:, 0]
    edges = np.sort(line)[GAP - 1 : GAP + 2]
    steep = 1e6 if family.name == "binomial" else 1.0
    shown = Disclosure(N)
    for edge in (edges[:2].mean(), edges[1:].mean()):
        coef = steep * np.array([[1.0, 0.0, 0.0, -edge if family.name == "binomial" else edge]]).T
        query = ObservedInformation(coef, np.ones(1), np.ones(1), family)
        leverage, basis = shown.leverage(shown.places @ shares for shares in shares_in(query, rows))
        shown.show(basis)
    assert leverage > 0.99
