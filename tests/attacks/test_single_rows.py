"""Forged sums lead a fit to any state: what statistics declare of the rows their numbers stand on must hold there.

The rows are such that none outweighs another by itself: columns are about 1 or -1, y is from 1 to 2 or from -1 to -2. A
number whose parts come from few of them does so because of the state that the server chose.
"""

import numpy as np
import pytest
from test_curious_servers import fewest_rows

from wmlr.core.round import Rows
from wmlr.families import registered
from wmlr.federated.floors import effective_rows
from wmlr.numerics.expectations import GaussHermite
from wmlr.statistics.candidates import CandidateScores
from wmlr.statistics.grain import Repeats
from wmlr.statistics.information import ObservedInformation
from wmlr.statistics.local import LocalSteps
from wmlr.statistics.minimax import Minimax, SymmetricMinimax
from wmlr.statistics.missing import MissingInformation
from wmlr.statistics.mixing import GATE, LogitGate
from wmlr.statistics.products import PosteriorProducts
from wmlr.statistics.q_score import HeldScore
from wmlr.statistics.residual_form import MixtureLikelihood, SymmetricResiduals
from wmlr.statistics.score import MixtureScore, SymmetricScore
from wmlr.statistics.seeds import ComponentUse, NearestSquares, SeedFits

N, P, K = 60, 3, 2
STATES = 120
FEW, MANY = 2.0, 20.0  # what is read of single rows, and what an agent believes it stands on


def drawn_rows(generator):
    X = generator.choice([-1.0, 1.0], (N, P)) * generator.uniform(0.7, 1.4, (N, P))
    y = generator.choice([-1.0, 1.0], N) * generator.uniform(1.0, 2.0, N)
    return Rows(X, y, beside={GATE: X[:, :1].copy()}, index=np.arange(N))


def scale(g):
    return float(np.exp(g.uniform(np.log(1e-4), np.log(1e3))))


def mixture(g):
    coef = g.standard_normal((P, K)) * scale(g) ** 0.5
    return coef, np.log(g.dirichlet(np.ones(K))), np.array([scale(g), scale(g)])


def seed_fits(g):
    coef, logs, s2 = mixture(g)
    c = 2
    return SeedFits(
        np.eye(P),
        g.standard_normal((c, P)),
        coef.T[None],
        np.exp(logs)[None],
        s2[None],
        np.zeros(c, dtype=np.int64),
        g.integers(0, K, c),
        g.integers(0, 5, c),
        np.full(c, 4.0),
        np.zeros(c),
        np.zeros(c),
        np.array([scale(g), 0.0]),
    )


def logit_gate(g):
    coef = np.zeros((2, K))
    coef[:, 0] = g.standard_normal(2) * scale(g)
    return LogitGate(np.eye(2), coef)


def minimax(g):
    coef, logs, s2 = mixture(g)
    gamma = g.standard_normal((P, 2 * K)) * scale(g) ** 0.5
    return Minimax(coef, gamma, logs, s2, scale(g), GaussHermite(6))


def symmetric_minimax(g):
    return SymmetricMinimax(
        g.standard_normal(P), g.standard_normal((P, 2)) * scale(g), scale(g), GaussHermite(6), float(g.uniform(0.1, 9))
    )


def local_steps(g):
    query = (minimax if g.random() < 0.5 else symmetric_minimax)(g)
    return LocalSteps(query, int(g.integers(1, 4)), scale(g), scale(g), 0.0, np.zeros_like(query.gamma))


def held(g):
    coef, logs, s2 = mixture(g)
    return HeldScore(coef, logs, s2, g.standard_normal((P, K)))


def family_score(g):
    family = registered()[str(g.choice(["student", "laplace"]))]()
    return MixtureScore(*mixture(g), grams=True, family=family)


STATISTICS = {
    "scores": lambda g: MixtureScore(*mixture(g), grams=True),
    "scores of other families": family_score,
    "scores with a gate": lambda g: MixtureScore(*mixture(g), gate=logit_gate(g)),
    "scores of the symmetric mixture": lambda g: SymmetricScore(g.standard_normal(P), scale(g)),
    "residuals of the symmetric mixture": lambda g: SymmetricResiduals(g.standard_normal(P), scale(g)),
    "missing information": lambda g: MissingInformation(g.standard_normal(P), scale(g)),
    "held scores": held,
    "products": lambda g: PosteriorProducts(*mixture(g), np.ones((P, K))),
    "information": lambda g: ObservedInformation(*(lambda c, w, s: (c, np.exp(w), s))(*mixture(g))),
    "information with a gate": lambda g: ObservedInformation(
        *(lambda c, w, s: (c, np.exp(w), s))(*mixture(g)), gate=logit_gate(g)
    ),
    "minimax": minimax,
    "symmetric minimax": symmetric_minimax,
    "local steps": local_steps,
    "seeds": seed_fits,
    "use of components": lambda g: ComponentUse(
        np.eye(P), *(lambda c, w, s: (c.T[None], np.exp(w)[None], s[None]))(*mixture(g)), np.array([1.0, 100.0])
    ),
    "candidates": lambda g: CandidateScores(
        np.eye(P), *(lambda c, w, s: (c.T[None], np.exp(w)[None], s[None]))(*mixture(g))
    ),
    "values in common": lambda g: Repeats(),
}


def contributions(query, rows):
    """What each row adds to each number of an answer but for likelihoods: (n, numbers)."""
    alone = []
    for row in range(N):
        sums = query.answer(rows.take(np.arange(N) == row))
        kept = [np.ravel(value) for name, value in sums.items() if name not in ("log_likelihood", "loss", "value")]
        alone.append(np.concatenate(kept))
    return np.array(alone)


@pytest.mark.parametrize("name", STATISTICS)
def test_no_number_stands_on_one_row_where_many_are_declared(name):
    generator = np.random.default_rng(0)
    for _ in range(STATES):
        rows, query = drawn_rows(generator), STATISTICS[name](generator)
        declared = fewest_rows(query, rows)
        if declared < MANY:
            continue
        parts = contributions(query, rows)
        counted = np.abs(parts).max(axis=0) > 1e-12 * np.abs(parts).max(initial=1e-300)
        found = effective_rows(parts[:, counted])
        assert found.min(initial=N) > FEW, (declared, found.min(), query)


def test_a_likelihood_of_counts_that_one_row_makes_up_does_not_leave():
    """exp(x'b) of one row dwarfs all others where b is long: the likelihood is that row's, to the last digit."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((N, P))
    rows = Rows(X, generator.poisson(2.0, N).astype(float), beside={})
    for length, enough in ((0.2, True), (30.0, False)):
        coef = np.outer(X[7], [length, length])
        query = MixtureLikelihood(coef, np.log([0.5, 0.5]), np.ones(2), registered()["poisson"]())
        assert (fewest_rows(query, rows) > MANY) == enough


def test_no_likelihood_tells_whether_there_is_a_row_on_a_line():
    """A component as narrow as a hair, through one row: the likelihood jumps where the row is there."""
    generator = np.random.default_rng(0)
    rows = drawn_rows(generator)
    x = rows.X[7]
    across = np.array([x[1], -x[0], 0.0])
    through = x * rows.y[7] / float(x @ x) + 1000.0 * across
    coef, s2 = np.column_stack([through, np.zeros(P)]), np.array([1e-12, 4.0])
    assert fewest_rows(MixtureLikelihood(coef, np.log([0.5, 0.5]), s2), rows) < FEW
    assert fewest_rows(NearestSquares(np.eye(P), coef.T[None]), rows) < FEW
    wide = np.column_stack([np.full(P, 0.1), np.zeros(P)])
    assert fewest_rows(MixtureLikelihood(wide, np.log([0.5, 0.5]), np.array([3.0, 4.0])), rows) > MANY
