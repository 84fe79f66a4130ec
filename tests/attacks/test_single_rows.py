"""Forged sums lead a fit to any state: what statistics declare of the rows their numbers stand on must hold there.

The rows are such that none outweighs another by itself: columns are about 1 or -1, y is from 1 to 2 or from -1 to -2. A
number whose parts come from few of them does so because of the state that the server chose.
"""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import lsq_linear
from test_curious_servers import fewest_rows

from wmlr.core.roles import InRoles, Roles
from wmlr.core.round import Rows, Sampled, add
from wmlr.engines.arrays import MOST_SAMPLES
from wmlr.families import ComponentFamilies, registered
from wmlr.federated.floors import BLOCKS, effective_rows, largest_part
from wmlr.federated.privacy import Secure
from wmlr.flower.agent import LARGEST_PART, Agent
from wmlr.flower.refusals import RefusalError, RowsRefusalError
from wmlr.flower.terms import RunTerms
from wmlr.model.known import KNOWN
from wmlr.numerics.expectations import GaussHermite
from wmlr.statistics.candidates import CandidateScores
from wmlr.statistics.cluster_score import ClusterScore
from wmlr.statistics.information import ObservedInformation
from wmlr.statistics.irls import InverseSquareScore, RedescendingScore, ResidualHistogram
from wmlr.statistics.local import LocalSteps
from wmlr.statistics.minimax import Minimax, SymmetricMinimax
from wmlr.statistics.missing import MissingInformation
from wmlr.statistics.mixing import GATE, LogitGate
from wmlr.statistics.moments import FourthMoments, Moments
from wmlr.statistics.own_weights import OWN, ByRow, GroupGate
from wmlr.statistics.products import PosteriorProducts
from wmlr.statistics.q_score import HeldScore
from wmlr.statistics.robust import Histogram, Trimmed
from wmlr.statistics.score import MixtureLikelihood, MixtureScore
from wmlr.statistics.seeds import ComponentUse, NearestSquares, SeedFits
from wmlr.statistics.symmetric_score import SymmetricLengths, SymmetricResiduals, SymmetricScore
from wmlr.statistics.whitened import Whitened

N, P, K = 60, 3, 2
STATES = 40
FEW, MANY = 2.0, 20.0  # what is read of single rows, and what an agent believes it stands on


def drawn_rows(generator, response="noise"):
    X = generator.choice([-1.0, 1.0], (N, P)) * generator.uniform(0.7, 1.4, (N, P))
    y = RESPONSES[response](generator)
    beside = {GATE: X[:, :1].copy(), "trials": np.full(N, 9.0)}
    if response in ("counts", "successes"):
        beside["offset"] = generator.uniform(-1.0, 1.0, N) * generator.choice([0.0, 1.0, 20.0])
        beside["trials"][7] = generator.choice([9.0, 1e6])
    return Rows(X, y, beside=beside, index=np.arange(N))


RESPONSES = {
    "noise": lambda g: g.choice([-1.0, 1.0], N) * g.uniform(1.0, 2.0, N),
    "counts": lambda g: np.where(np.arange(N) == 7, 9.0, g.integers(1, 4, N)).astype(float),
    "successes": lambda g: np.where(np.arange(N) == 7, 9.0, g.integers(1, 4, N)).astype(float),
    "amounts": lambda g: g.uniform(1.0, 2.0, N),
    "shares": lambda g: g.uniform(0.3, 0.6, N),
}


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


def with_outliers(g):
    return registered()["normal-with-outliers"](share=float(g.uniform(0.01, 0.9)), low=-3.0, high=3.0)


def by_component(g):
    members = [registered()["poisson"](), registered()["point-mass"](at=float(g.choice([1.0, 9.0, 5.0])))]
    return ComponentFamilies(tuple(members[one] for one in g.permutation(2)))


FAMILIES = {
    "counts": [lambda g: registered()["poisson"](), lambda g: registered()["negative-binomial"](), by_component],
    "amounts": [lambda g: registered()["gamma"](), lambda g: registered()["student"](dof=float(g.uniform(0.5, 9)))],
    "shares": [lambda g: registered()["beta"]()],
    "successes": [lambda g: registered()["binomial"](link=str(g.choice(["logit", "probit", "cloglog"])))],
    "noise": [with_outliers, lambda g: registered()["laplace"]()],
}


def of_families(response):
    """Scores, information and candidates of the families of one kind of response, with and without a gate."""

    def query(g):
        family = FAMILIES[response][g.integers(len(FAMILIES[response]))](g)
        coef, logs, s2 = mixture(g)
        gate = logit_gate(g) if g.random() < 0.3 else None
        kind = g.integers(4)
        if kind == 0:
            return ObservedInformation(coef, np.exp(logs), s2, family, gate)
        if kind == 1:
            return CandidateScores(np.eye(P), coef.T[None], np.exp(logs)[None], s2[None], family)
        if kind == 2:
            return PosteriorProducts(coef, logs, s2, np.ones((P, K)), family, gate)
        return MixtureScore(coef, logs, s2, bool(g.random() < 0.5), family, gate)

    return query


def cluster_score(g):
    coef, logs, s2 = mixture(g)
    return ClusterScore(coef, logs, s2, grams=True)


def reached(g):
    return g.standard_normal((P, 1)), np.array([scale(g)])


IRLS = {
    "histograms of residuals": lambda g: ResidualHistogram(mixture(g)[0], *reached(g), np.sort(g.uniform(0, 4, 3))),
    "redescending scores": lambda g: RedescendingScore(
        g.standard_normal(P), scale(g), *reached(g), trimmed=bool(g.random() < 0.5)
    ),
    "inverse squares": lambda g: InverseSquareScore(*mixture(g), reach=scale(g) if g.random() < 0.5 else None),
}


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
    "hard assignment": cluster_score,
    "classes of y": lambda g: Histogram(np.sort(g.uniform(-3, 3, 2))),
    "trimmed": lambda g: Trimmed(Moments(), *np.sort(g.uniform(-2.2, 2.2, 2)).tolist()),
    "fourth moments": lambda g: FourthMoments(g.standard_normal(P) * scale(g)),
    **IRLS,
} | {f"families of {response}": of_families(response) for response in FAMILIES}


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
    for _ in range(STATES // 4 if name == "local steps" else STATES):
        response = name.removeprefix("families of ") if name.startswith("families") else "noise"
        rows, query = drawn_rows(generator, response), STATISTICS[name](generator)
        declared = fewest_rows(query, rows)
        if declared < MANY or largest_part(query, rows, generator.permutation(N) % BLOCKS) > LARGEST_PART:
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


def agent_of(X, y):
    return Agent("north", X, y, tuple(f"x{i}" for i in range(X.shape[1])), "y", min_rows=20)


def test_a_point_mass_of_the_servers_choosing_counts_no_single_row():
    """The weight of a point mass in least squares is nothing, and its mass is the number of rows with that value."""
    generator = np.random.default_rng(0)
    y = np.where(np.arange(200) == 7, 19.0, generator.poisson(3.0, 200))
    agent = agent_of(generator.standard_normal((200, 2)), y)
    for value in (19.0, 30.0):
        family = ComponentFamilies((registered()["poisson"](), registered()["point-mass"](at=value)))
        with pytest.raises(ValueError, match="fewer than 20"):
            agent.answer(MixtureScore(np.zeros((2, 2)), np.log([0.5, 0.5]), np.ones(2), family=family), RunTerms())


def test_rows_on_a_line_do_not_hide_the_one_that_is_off_it():
    """Many rows have y = 0, and a component lies there: its residuals are those of the row that is next to it."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((200, 2))
    y = np.where(np.arange(200) < 120, 0.0, generator.uniform(1.0, 9.0, 200))
    agent, line = agent_of(X, y), np.zeros((2, 2))
    nearest = np.argmin(np.where(y > 0, y, np.inf))
    query = MixtureScore(line, np.log([0.5, 0.5]), np.array([0.01, 25.0]))
    score = query.answer(Rows(X, y))["score"][:, 0]
    np.testing.assert_allclose(score / score[0], X[nearest] / X[nearest, 0], rtol=1e-3)
    with pytest.raises(ValueError, match="of a number would come of a few rows"):
        agent.answer(query, RunTerms())


@pytest.mark.parametrize("query", ["moments", "scores", "candidates", "information"])
def test_rows_that_share_their_component_do_not_hide_the_one_that_differs(query):
    """All y but one are the same: the sums of what is left over are that row's, whatever component all rows share."""
    generator = np.random.default_rng(0)
    X, y = generator.standard_normal((200, 2)), np.where(np.arange(200) == 7, 5.0, 1.0)
    coef, weights, s2 = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 1.2]]), np.array([0.5, 0.5]), np.array([4.0, 4.0])
    asked = {
        "moments": Moments(),
        "scores": MixtureScore(coef, np.log(weights), s2),
        "candidates": CandidateScores(np.eye(3)[:, :2], coef[None, :2].transpose(0, 2, 1), weights[None], s2[None]),
        "information": ObservedInformation(coef, weights, s2),
    }[query]
    y = y - 1.0 if query in ("moments", "candidates") else y
    with pytest.raises(RefusalError, match="of a number would come of a few rows"):
        agent_of(X, y).answer(asked, RunTerms(level="agent"))
    agent_of(X, generator.standard_normal(200)).answer(asked, RunTerms(level="agent"))


def test_agents_with_weights_of_their_own_hold_the_floors_of_single_rows():
    """gate="group": an agent's rows share nothing but the weights, and each has a component of its own."""
    generator, terms = np.random.default_rng(0), RunTerms(level="agent")
    X = generator.standard_normal((200, 2))
    y = np.where(np.arange(200) < 120, 0.0, generator.uniform(1.0, 9.0, 200))
    gate, logs = GroupGate(np.ones(2)), np.log([0.5, 0.5])
    line = ByRow(MixtureScore(np.zeros((2, 2)), logs, np.array([0.01, 25.0]), gate=gate))
    with pytest.raises(ValueError, match="of a number would come of a few rows"):
        agent_of(X, y).answer(line, terms)
    y, across = generator.standard_normal(200), np.array([X[7, 1], -X[7, 0]])
    for moved in (0.0, 0.5):  # where a row is on it, and where none is
        through = X[7] * (y[7] + moved) / float(X[7] @ X[7]) + 1e6 * across
        coef = np.column_stack([through, np.zeros(2)])
        with pytest.raises(ValueError, match="fewer than 20"):
            agent_of(X, y).answer(ByRow(MixtureScore(coef, logs, np.array([1e-12, 1.0]), gate=gate)), terms)
    wide = ByRow(MixtureScore(np.array([[1.0, -1.0], [0.0, 0.0]]), logs, np.ones(2), gate=gate))
    assert agent_of(X, y).answer(wide, terms)["mass"].sum() == pytest.approx(200)


def test_columns_in_roles_that_they_cannot_have_are_refusals_that_follow_from_rows():
    """Whether a column is positive everywhere is a bit of its rows, which a server could ask of every column."""
    generator = np.random.default_rng(0)
    X, y = generator.standard_normal((200, 3)), generator.standard_normal(200)
    for role in ("exposure", "trials"):
        family = registered()["binomial"]() if role == "trials" else registered()["normal"]()
        query = MixtureScore(np.zeros((2, 2)), np.log([0.5, 0.5]), np.ones(2), family=family)
        asked = InRoles(Roles((0, 1), {role: (2,)}, (role,), family.linear), query)
        with pytest.raises(RowsRefusalError):
            agent_of(X, y).answer(asked, RunTerms())


@pytest.mark.parametrize("level", ["row", "agent"])
@pytest.mark.parametrize("role", [KNOWN, OWN, "weights", "anything"])
def test_no_column_has_a_role_that_servers_do_not_give(role, level):
    """Components known by a column told, of rows that share theirs, whether one of them has a certain value there."""
    generator = np.random.default_rng(0)
    X, y = generator.standard_normal((200, 3)), generator.standard_normal(200)
    X[:, 2] = -1.0
    query = MixtureScore(np.zeros((2, 2)), np.log([0.5, 0.5]), np.ones(2))
    asked = InRoles(Roles((0, 1), {role: (2,)}, (role,)), query)
    if role == KNOWN and level == "agent":
        rows = Rows(X, y, starts=np.zeros(1, dtype=np.int64))
        there = replace(rows, X=np.where((np.arange(200) == 7)[:, None] & (np.arange(3) == 2), 1.0, X))
        assert [asked.answer(one)["mass"].round(2).tolist() for one in (rows, there)] == [[100, 100], [0, 200]]
    with pytest.raises(ValueError, match="no role that a server gives"):
        agent_of(X, y).answer(asked, RunTerms(level=level))


@pytest.mark.parametrize(
    "asked",
    [
        InRoles(Roles((0,) * 50_000), SymmetricScore(np.zeros(50_000), 1.0)),
        InRoles(Roles((0, 1), {"gate": (2,) * 50_000}), SymmetricScore(np.zeros(2), 1.0)),
        Whitened(SymmetricScore(np.zeros(50_000), 1.0), np.zeros(3), np.zeros((3, 50_000))),
        MixtureScore(np.zeros((3, 50_000)), np.full(50_000, -11.0), np.ones(50_000)),
    ],
    ids=["features", "gate", "coordinates", "components"],
)
def test_no_question_makes_a_small_table_a_large_one(asked):
    """Three columns of 20,000 rows became 50,000, of 8 GB, within the bound on the work."""
    agent = agent_of(np.ones((20_000, 3)), np.ones(20_000))
    for secure in (None, Secure()):
        with pytest.raises(ValueError, match=r"twice|memory|components are more than"):
            agent.answer(asked, RunTerms(secure=secure))


MUCH = {
    "seeds": lambda c: SeedFits(
        np.eye(3), np.zeros((c, 3)), np.zeros((0, 2, 3)), *[np.zeros((0, 2))] * 2, *[np.zeros(c, dtype=np.int64)] * 3,
        *[np.zeros(c)] * 4,
    ),
    "the nearest of many": lambda c: NearestSquares(np.eye(3), np.zeros((c // 2, 2, 3))),
    "what is left without components": lambda c: ComponentUse(
        np.eye(3), np.zeros((c // 4, 2, 3)), *[np.ones((c // 4, 2))] * 2, np.ones(1)
    ),
    "expectations": lambda c: Minimax(
        np.zeros((3, 10)), np.zeros((3, 20)), np.full(10, np.log(0.1)), np.ones(10), 1.0, GaussHermite(c // 100)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MUCH)
def test_no_question_about_many_states_fills_an_agents_memory(name):
    """Of twenty thousand rows and as many candidates as a search may have, each row became forty thousand numbers."""
    agent = agent_of(np.ones((20_000, 3)), np.ones(20_000))
    for secure in (None, Secure()):
        with pytest.raises(ValueError, match="memory"):
            agent.answer(MUCH[name](40_000), RunTerms(secure=secure))
    agent.answer(MUCH[name](200), RunTerms(secure=Secure()))


@pytest.mark.parametrize("bins", [5_000, 2_000_000])
def test_no_histogram_fills_an_agents_memory_while_it_is_looked_at(bins):
    """Whose rows are in which bin was a matrix of bins times bins, and then of rows times bins."""
    agent = agent_of(np.ones((100_000, 1)), np.linspace(0.0, 1.0, 100_000))
    with pytest.raises(RowsRefusalError, match="memory"):
        agent.answer(Histogram(np.linspace(0.0, 1.0, bins)), RunTerms())


def test_samples_that_a_server_names_are_not_all_kept():
    """A copy of the rows for every seed: two thousand questions were two thousand copies."""
    agent = agent_of(np.random.default_rng(0).random((100, 2)), np.arange(100.0))
    for seed in range(100):
        agent.answer(Sampled(Moments(), 0.5, seed), RunTerms(secure=Secure()))
    (engine,) = agent._engines.values()
    assert len(engine._samples.kept) <= MOST_SAMPLES
    assert len(engine._lowest) <= MOST_SAMPLES


def test_a_refusal_does_not_tell_whether_there_is_a_row():
    """A component as narrow as a hair: the answer was withheld where a row lies on it, and nowhere else."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal((200, 2))
    y = generator.standard_normal(200)
    across = np.array([X[7, 1], -X[7, 0]])
    for moved in (0.0, 0.5, 0.001):
        through = X[7] * (y[7] + moved) / float(X[7] @ X[7]) + 1e6 * across
        coef = np.column_stack([through, np.zeros(2)])
        for query in (
            MixtureScore(coef, np.log([0.5, 0.5]), np.array([1e-12, 1.0])),
            MixtureLikelihood(coef, np.log([0.5, 0.5]), np.array([1e-12, 1.0])),
            Trimmed(Moments(), -10.0, float(y.max() + moved - 1e-4)),
        ):
            with pytest.raises(ValueError, match="fewer than 20"):
                agent_of(X, y).answer(query, RunTerms())


def test_who_knows_the_columns_does_not_solve_for_y():
    """Two components so wide that columns alone share out the rows: every question is p equations for n values of y."""
    generator, wide, p = np.random.default_rng(0), 1e7, 8
    X, y = generator.standard_normal((200, p)), generator.standard_normal(200)

    def read(min_rows):
        agent = Agent("north", X, y, tuple(f"x{i}" for i in range(p)), "y", min_rows=min_rows)
        equations, sums = [np.zeros((0, 200))], [np.zeros(0)]
        with suppress(ValueError):
            for _ in range(60):
                u = 0.4 * generator.standard_normal(p)
                query = MixtureScore(np.column_stack([wide * u, np.zeros(p)]), np.log([0.5, 0.5]), np.full(2, wide**2))
                sums.append(agent.answer(query, RunTerms())["score"][:, 1])
                equations.append((X / (1.0 + np.exp(-0.5 * (X @ u) ** 2))[:, None]).T)
        found = np.linalg.lstsq(np.vstack(equations), np.concatenate(sums), rcond=None)[0]
        return np.abs(found - y), len(sums) - 1

    errors, rounds = read(1)
    assert rounds == 60
    assert errors.max() < 0.01
    errors, rounds = read(50)
    assert rounds < 25
    assert np.sqrt(np.mean(errors**2)) > 0.5


def test_under_masks_a_sum_may_be_of_one_row_and_nobody_knows_whose():
    """No floors hold under masks: forged sums lead to sums over all agents that one row makes up."""
    generator = np.random.default_rng(0)
    agents = [agent_of(generator.standard_normal((200, 2)), generator.standard_normal(200)) for _ in range(3)]
    X, y = np.vstack([agent.X for agent in agents]), np.concatenate([agent.y for agent in agents])
    second, first = np.sort(X[:, 0])[-2:]
    slope = 60.0 / (first - second)
    beyond = LogitGate(np.eye(2), np.column_stack([[slope, -slope * (first + second) / 2], [0.0, 0.0]]))
    query = MixtureScore(np.zeros((2, 2)), np.log([0.5, 0.5]), np.full(2, 9.0), gate=beyond)
    asked = InRoles(Roles((0, 1), {GATE: (0,)}), query)
    sums = add(agent.answer(asked, RunTerms(secure=Secure())) for agent in agents)
    row = int(np.argmax(X[:, 0]))
    np.testing.assert_allclose(sums["score"][:, 0] / sums["mass"][0], y[row] * X[row], rtol=1e-9)
    with pytest.raises(ValueError, match="fewer than 20"):
        agents[0].answer(asked, RunTerms())


def nearest_squares(v):
    return [NearestSquares(np.eye(P), np.array([[one, -one] for one in v]))]


def lengths(v):
    return [SymmetricLengths(one, np.ones(1), np.full(1, 1e-9)) for one in v]


def likelihoods(v):
    return [MixtureLikelihood(np.column_stack([one, -one]), np.log([0.5, 0.5]), np.full(2, 1e-9)) for one in v]


def component_use(v):
    """Variances so large that all rows are shared out alike, and a component far away, to be left out."""
    far = np.array([[one, -one, np.full(P, 1e3)] for one in v])
    return [ComponentUse(np.eye(P), far, np.ones((3, 3)) / 3, np.full((3, 3), 1e12), np.array([1e6]))]


SECOND_DIFFERENCES = {  # questions, the number of an answer, and its unit in sums of squares from the nearest line
    "squares from the nearest": (nearest_squares, lambda sums: sums["squares"], 1.0),
    "likelihoods of lengths": (lengths, lambda sums: sums["log_likelihood"], -2e-9),
    "likelihoods": (likelihoods, lambda sums: sums["log_likelihood"], -2e-9),
    "what others leave unexplained": (component_use, lambda sums: sums["unexplained"][:, 2, 0], 1e12),
}


@pytest.mark.parametrize("name", SECOND_DIFFERENCES)
def test_no_likelihood_tells_y_where_a_row_changes_sides(name):
    """Sums of squares from the nearer of v and -v are straight in v, but where x'v changes sign: by |y| of that row."""
    generator = np.random.default_rng(1)
    X, y = generator.standard_normal((400, P)), generator.standard_normal(400)
    ask, number, in_squares = SECOND_DIFFERENCES[name]
    for row in range(3):
        along = X[row] / np.linalg.norm(X[row])
        v = generator.standard_normal(P)
        v -= along * (v @ along)
        others = np.delete(X, row, axis=0)
        step = along * 0.5 * np.min(np.abs(others @ v) / np.abs(others @ along))
        places = [v - step, v, v + step]
        queries = ask(places)
        told = np.concatenate([np.ravel(number(query.answer(Rows(X, y)))) for query in queries]) * in_squares
        second = np.diff([one - np.sum((X @ at) ** 2) for one, at in zip(told, places)], 2)
        assert -second[0] / 4 / np.abs(X[row] @ step) == pytest.approx(np.abs(y[row]), rel=1e-3)
        agent = agent_of(X, y)
        with pytest.raises(RowsRefusalError):
            [agent.answer(query, RunTerms()) for query in queries]


def test_dispersions_of_the_servers_choosing_do_not_count_values():
    """At one mean, log Gamma(y + size) for many sizes gives how many counts are above 0, 1, 2 ..., down to one row."""
    generator, n = np.random.default_rng(0), 300
    y = np.where(np.arange(n) == 7, 14, generator.poisson(2.0, n)).astype(float)
    X, sizes = np.column_stack([np.ones(n), generator.standard_normal(n)]), np.geomspace(1e-3, 1e3, 80)
    agent = agent_of(X, y)

    def counted(answer):
        """Of the counts above each of 0 to 3, from as many sizes as are answered."""
        told, family = [], registered()["negative-binomial"]()
        with suppress(RowsRefusalError):
            for size in sizes:
                asked = MixtureScore(np.zeros((2, 1)), np.zeros(1), np.array([1.0 / size]), family=family)
                told.append(float(answer(asked)["log_likelihood"]))
        at = sizes[: len(told)]
        rest = np.array(told) + (y.sum() + n * at) * np.log1p(1.0 / at) + y.sum() * np.log(at)
        above = np.column_stack([*(np.log(value + at) for value in range(20)), np.ones(len(at))])
        return len(told), lsq_linear(above, rest, ([0.0] * 20 + [-np.inf], np.inf), tol=1e-15).x[:4]

    true = [np.sum(y > value) for value in range(4)]
    np.testing.assert_allclose(counted(lambda query: query.answer(Rows(X, y)))[1], true, atol=0.5)
    assert counted(lambda query: agent.answer(query, RunTerms()))[0] < 20


LIKELIHOODS = {
    "hard choices": ClusterScore,
    "inverse squares": InverseSquareScore,
    "scores": MixtureScore,
    "held scores": lambda coef, logs, s2: HeldScore(coef, logs, s2, np.zeros_like(coef)),
    "information": lambda coef, logs, s2: ObservedInformation(coef, np.exp(logs), s2),
    "minimax": lambda coef, logs, s2: Minimax(coef, np.hstack([coef, -3 * coef]), logs, s2, 1.0, GaussHermite(6)),
}


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_no_likelihood_beside_other_numbers_has_posteriors_that_are_not_declared(name):
    """Two lines that share the rows out evenly; one is made as narrow as a hair, which changes the likelihood alone."""
    rows = drawn_rows(np.random.default_rng(0))
    coef, logs = np.column_stack([np.full(P, 0.1), np.full(P, -0.1)]), np.log([0.5, 0.5])
    for s2, enough in ((np.array([3.0, 4.0]), True), (np.array([1e-12, 4.0]), False)):
        assert (fewest_rows(LIKELIHOODS[name](coef, logs, s2), rows) > 10) == enough


def test_of_many_rows_none_is_read_by_choices_that_change_one_at_a_time():
    """Whose weights were remembered was one row in ten: what the others chose next was read from differences."""
    generator, n = np.random.default_rng(0), 20_000
    X, y, v = generator.standard_normal((n, P)), generator.standard_normal(n), generator.standard_normal(P)
    agent, step = agent_of(X, y), 1e-4 * generator.standard_normal(P)

    def read(answer):
        """Rows told by differences of Grams from one question to the next."""
        found, before = 0, None
        with suppress(RowsRefusalError):
            for turn in range(12):
                at = v + turn * step
                sums = answer(ClusterScore(np.column_stack([at, -at]), np.log([0.5, 0.5]), np.ones(2), grams=True))
                if before is not None and abs(abs(sums["mass"][0] - before["mass"][0]) - 1.0) < 1e-9:
                    changed = (sums["grams"][0] - before["grams"][0]) * np.sign(sums["mass"][0] - before["mass"][0])
                    sizes, axes = np.linalg.eigh(changed)
                    x = axes[:, -1] * np.sqrt(sizes[-1])
                    found += min(np.abs(X - x).max(axis=1).min(), np.abs(X + x).max(axis=1).min()) < 1e-6
                before = sums
        return found

    assert read(lambda query: query.answer(Rows(X, y))) > 1
    assert read(lambda query: agent.answer(query, RunTerms())) == 0


def test_answers_at_states_that_hardly_differ_count_as_others():
    """Numbers have sixteen digits: the difference of two answers, ten thousand million times as large, is a third."""
    generator, p = np.random.default_rng(0), 3
    X, y = generator.standard_normal((200, p)), generator.standard_normal(200)
    agent = Agent("north", X, y, tuple(f"x{i}" for i in range(p)), "y", min_rows=10)
    coef = np.column_stack([np.full(p, 1.0), np.zeros(p)])
    answered = 0
    with suppress(ValueError):
        for _ in range(60):
            moved = coef * (1.0 + 1e-10 * generator.standard_normal(coef.shape))
            agent.answer(MixtureScore(moved, np.log([0.5, 0.5]), np.full(2, 0.5)), RunTerms())
            answered += 1
    assert 1 < answered < 30
