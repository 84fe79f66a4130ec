"""Agents that are there before all others: what they say of their columns is one voice among those of all."""

import sys
from pathlib import Path

import numpy as np
import pytest

from wmlr.flower.agent import Agent
from wmlr.flower.members import TooFewAgentsError

sys.path.insert(0, str(Path(__file__).parent.parent / "flower"))
from test_flower import COLUMNS, agents_of, central, fitted_among, problem

HONEST = ("b", "c", "d")
LIES = {
    "another column": (("x1", "x2", "other"), "y"),
    "another order": (("x2", "x1", "x3"), "y"),
    "another target": (COLUMNS, "z"),
    "fewer columns": (COLUMNS[:2], "y"),
    "names of millions of signs": (("x" * 10**6, "x2", "x3"), "y"),
}


@pytest.mark.parametrize("lie", LIES)
def test_who_joins_first_does_not_say_which_columns_are_fitted(lie):
    """One agent that was enlisted, and first, had all others turned away for the columns that it announced."""
    honest = agents_of(problem(), names=HONEST)
    columns, target = LIES[lie]
    liar = Agent("a", honest[0].X[:, : len(columns)], honest[0].y, columns, target)
    outcome, lines = fitted_among([liar, *honest], min_agents=3)
    assert [line.partition(":")[0] for line in lines if "not admitted" in line] == ["agent a is not admitted"]
    assert max(map(len, lines)) < 1000
    assert outcome.engine.feature_names == COLUMNS
    assert set(outcome.engine.settled) == set(HONEST)
    np.testing.assert_allclose(outcome.fitted.coef_, central(honest)[0].coef_, rtol=1e-6)


def test_liars_that_agree_on_nothing_are_turned_away_however_many_they_are():
    honest = agents_of(problem(), names=HONEST)
    liars = [Agent(f"a{place}", honest[0].X, honest[0].y, ("x1", "x2", f"x{place}"), "y") for place in range(4, 9)]
    outcome, _ = fitted_among([*liars, *honest], min_agents=3)
    assert set(outcome.engine.settled) == set(HONEST)
    with pytest.raises(TooFewAgentsError, match="3 agents joined"):
        fitted_among([*liars, *honest], min_agents=4)
