"""What exact sums tell of a y that has few values, to a server that knows all columns."""

import numpy as np
import pytest
from lattices import agent_with, rows_of, solve_by_bounds, solve_by_lattice, told
from test_curious_servers import REFUSED, Server

from wmlr import MixedLinearRegression
from wmlr.federated.privacy import Privacy, Secure
from wmlr.flower.refusals import RefusalError
from wmlr.flower.terms import RunTerms
from wmlr.statistics.moments import Moments
from wmlr.statistics.score import MixtureScore

FEW_VALUES = r"y has few values, or is rounded, and \d+ rows are few: .* masks .* noise .* --min-rows 1"


@pytest.mark.parametrize(
    ("rows", "columns", "most", "fourth"),
    [(40, 3, 1, False), (80, 3, 1, True), (40, 10, 10, False), (40, 20, 1000, False)],
)
def test_a_y_of_few_values_is_not_solved_for_by_lattices(rows, columns, most, fourth):
    """Without floors every y is read from the first answer; with them there is none."""
    X, y = rows_of(rows, columns, most)
    np.testing.assert_array_equal(solve_by_lattice(*told(agent_with(X, y, min_rows=1), fourth), most), y)
    with pytest.raises(RefusalError, match=FEW_VALUES):
        told(agent_with(X, y), fourth)


def test_zeros_and_ones_are_not_solved_for_by_their_bounds():
    """Half as many sums as rows give every y, of any number of rows, though no row has a leverage of .8."""
    X, y = rows_of(400, 230, 1)
    np.testing.assert_array_equal(solve_by_bounds(*told(agent_with(X, y, min_rows=1))), y)
    with pytest.raises(RefusalError, match=FEW_VALUES):
        told(agent_with(X, y))
    told(agent_with(X, y + 1e-3 * np.random.default_rng(2).standard_normal(400)))


@pytest.mark.parametrize("values", ["shares", "standardized", "halves", "logarithms"])
def test_a_y_that_is_whole_numbers_in_other_units_is_not_shown(values):
    X, counts = rows_of(60, 12, 8)
    X[:, 0] = 10.0 + np.arange(60) % 7
    y = {
        "shares": counts / X[:, 0],
        "standardized": (counts - counts.mean()) / counts.std(),
        "halves": counts / 2,
        "logarithms": np.log1p(counts),
    }[values]
    with pytest.raises(RefusalError, match=FEW_VALUES):
        told(agent_with(X, y))
    told(agent_with(X, np.random.default_rng(2).standard_normal(60)))


def test_an_agent_with_few_values_joins_under_masks_or_noise_alone():
    X, y = rows_of(100, 3, 1)
    fit = MixedLinearRegression(symmetric=True, random_state=0)
    plain = Server(agent_with(X, y), fit)
    assert plain.card == REFUSED
    assert plain.log[0].startswith("refused: y has few values")
    assert "wmlr server --secure" in plain.log[0]
    masked, noisy = RunTerms(secure=Secure()), RunTerms(privacy=Privacy(epsilon=2.0))
    for agent, terms in (
        (agent_with(X, y), masked),
        (agent_with(X, y), noisy),
        (agent_with(X, y, min_rows=1), RunTerms()),
    ):
        assert Server(agent, fit, terms).card["name"] == "north"


def test_noise_of_next_to_nothing_hides_no_values():
    X, y = rows_of(100, 3, 1)
    almost_none = RunTerms(privacy=Privacy(noise_multiplier=1e-9))
    with pytest.raises(RefusalError, match=FEW_VALUES):
        agent_with(X, y).answer(Moments(), almost_none)
    agent_with(X, y).answer(Moments(), RunTerms(privacy=Privacy(noise_multiplier=0.5)))


def test_numbers_of_all_answers_count_before_values_could_be_solved_for():
    """The first answers leave, and are asked for again; of others no more than y has room for."""
    X, y = rows_of(600, 3, 1)
    agent, states = agent_with(X, y), np.random.default_rng(3).standard_normal((40, 3, 2))
    agent.answer(Moments(), RunTerms())
    first = agent.bits_shown
    agent.answer(Moments(), RunTerms())
    assert 0 < agent.bits_shown == first

    def go_on():
        for coef in states:
            agent.answer(MixtureScore(0.1 * coef, np.log([0.5, 0.5]), np.full(2, 4.0)), RunTerms())

    with pytest.raises(RefusalError, match=FEW_VALUES):
        go_on()
    assert first < agent.bits_shown <= agent.most_bits
