"""A server that leads a told fit, by sums that it forges, to where single numbers tell single values of y.

The agent is a stock one, in the clear, at ``--min-rows 50``: it is told a fit and sent sums, and answers the question
that its own replay of the fit comes to. The server knows the fit's code and, where said, the columns of all rows. Each
attack is run against floors that are off as well, to show what it would read.
"""

import numpy as np
import pytest
from scipy.special import expit
from test_curious_servers import COLUMNS, REFUSED, Server, stock

from wmlr import IFCA, MixedLinearRegression
from wmlr.core.round import Rows
from wmlr.federated.messages import pack_sums, unpack_sums
from wmlr.flower.agent import Agent
from wmlr.flower.refusals import RowsRefusalError
from wmlr.flower.replay import Replay
from wmlr.flower.terms import RunTerms
from wmlr.methods.search.seeding import PULL
from wmlr.statistics.candidates import CandidateScores
from wmlr.statistics.q_score import HeldScore
from wmlr.statistics.score import MixtureScore
from wmlr.statistics.seeds import OWN, SURE, ComponentUse, NearestSquares, SeedFits
from wmlr.statistics.symmetric_score import SymmetricLengths, SymmetricScore

N, P = 200, 3
SMALL = 1e-4  # the variance that y is said to have: no component is narrower than a millionth of it


class Steered:
    """A told fit that goes where forged sums lead it; the agent is asked only where the server wants an answer."""

    def __init__(self, agent, wanted, run="run"):
        self.server = Server(agent, wanted, run=run, errors=False)
        self.mine = Replay(self.server.task, self.server.terms, COLUMNS)
        self.entries, self.sent = [], 0
        self.query = self.mine.advance([])

    def forge(self, sums):
        """Go on with sums that never were; None where the fit is over."""
        self.entries.append(pack_sums(sums))
        self.query = self.mine.advance(self.entries[-1:])

    def answer(self):
        """What the agent answers to the question that the fit has come to; None where it refuses."""
        reply = self.server.ask(self.query, self.sent, self.entries[self.sent :])
        self.sent = len(self.entries)
        return None if reply == REFUSED else unpack_sums(reply["sums"])


def empty(query):
    """Sums of nothing, of the shapes that a query wants."""
    return {name: np.zeros(part.shape) for name, part in query.parts(P, False).items()}


def forged_moments(query):
    """Columns that are white already, and a y that they say nothing of."""
    return empty(query) | {
        "gram": N * np.eye(P),
        "yy": np.array(SMALL * N),
        **{name: np.array(float(N)) for name in ("weight", "rows", "units")},
        **({"fourth": N * np.eye(P)} if query.fourth else {}),
    }


def places_of(X, row, generator):
    """Three vectors next to each other, between which the sign of x'v changes in one row alone."""
    along = X[row] / np.linalg.norm(X[row])
    v = generator.standard_normal(P)
    v -= along * (v @ along)
    others = np.delete(X, row, axis=0)
    step = along * 0.5 * np.min(np.abs(others @ v) / np.abs(others @ along))
    return [v - step, v, v + step]


def read_by_second_differences(agent):
    """Values of |y|, by a server that knows all columns, from one question of a told search; and those it went for."""
    fit, X = Steered(agent, MixedLinearRegression(2, fit_intercept=False, random_state=0)), agent.X
    fit.forge(forged_moments(fit.query))
    seeds, generator = fit.query.query, np.random.default_rng(1)
    assert isinstance(seeds, SeedFits)
    candidates, q = len(seeds.centre) // 2, seeds.centre.shape[1]
    rows = list(range(candidates // 3))
    places = [place for row in rows for place in places_of(X, row, generator)]
    places += [np.ones(P)] * (candidates - len(places))
    inside = np.linalg.solve(seeds.transform, np.array(places).T).T
    fit.forge(
        {
            "grams": np.tile(np.eye(q)[np.triu_indices(q)], (2 * candidates, 1)),
            "moments": (1.0 + PULL) * (np.stack([inside, -inside], axis=1).reshape(-1, q) - seeds.centre),
            "amount": np.full(2 * candidates, 50.0),
        }
    )
    assert isinstance(fit.query.query, NearestSquares)
    told = fit.answer()
    if told is None:
        return np.zeros(0), np.abs(agent.y[rows])
    coef = fit.query.query.coef[:, 0] @ seeds.transform.T
    left = (told["squares"] - np.sum((X @ coef.T) ** 2, axis=0))[: 3 * len(rows)].reshape(-1, 3)
    steps = np.linalg.norm(np.diff(coef[: 3 * len(rows)].reshape(-1, 3, P), axis=1)[:, 0], axis=1)
    return -np.diff(left, 2)[:, 0] / 4 / (np.linalg.norm(X[rows], axis=1) * steps), np.abs(agent.y[rows])


def test_a_told_search_led_to_states_next_to_each_other_reads_no_y():
    read, true = read_by_second_differences(stock(min_rows=1))
    assert len(true) >= 5
    np.testing.assert_allclose(read, true, rtol=1e-3)
    assert len(read_by_second_differences(stock())[0]) == 0


def hair_widths(rounds):
    return np.geomspace(1e-9, 1e-1, rounds)


FARTHEST = 1e6  # the variance of the other component: as good as flat


def read_by_narrowing(agent, method, rounds=120):
    """Values of |y|, smallest first: a component at y = 0 is made narrow, and widened until it takes row by row."""
    start = np.vstack([np.zeros(P), [1.0, -0.7, 0.4]])
    told = {"solver": IFCA()} if method == "ifca" else {"method": method}
    wanted = MixedLinearRegression(
        2, fit_intercept=False, start=start, tol=0.0, max_iter=500, random_state=0, shared_sigma=False, **told
    )
    fit = Steered(agent, wanted)
    fit.forge(forged_moments(fit.query))
    seen, generator = [], np.random.default_rng(0)
    for s2 in hair_widths(rounds):
        while "Score" not in fit.query.label or not np.isclose(fit.query.s2[0], s2, rtol=1e-6, atol=0.0):
            fit.forge(_leading_to(fit.query, s2, generator))
        sums = fit.answer()
        if sums is None:
            return np.zeros(0)
        seen.append(float(sums["log_likelihood"]))
    return _unfold(np.array(seen), hair_widths(rounds), len(agent))


def _leading_to(query, s2, generator):
    """Sums that leave coefficients where they are, but for rounding, and make one component as wide as wanted."""
    sums = empty(query)
    half = np.full(2, 0.5 * N)
    for name in ("mass", "units", "explained"):
        sums |= {name: half} if name in sums else {}
    if "grams" in sums:
        sums["grams"] = np.tile(0.5 * N * np.eye(P), (2, 1, 1))
    if "squares" in sums:
        sums["squares"] = half * [s2, FARTHEST]
    if "score" in sums:
        sums["score"] = 1e-12 * generator.standard_normal(sums["score"].shape)
    return sums


def _unfold(seen, widths, n):
    """The squared distances whose log(1 + sqrt(V / s2) exp(-a / 2 s2)) sum to what was seen, the nearest first."""
    level = n * (np.log(0.5) - 0.5 * np.log(2 * np.pi * FARTHEST))
    gain, found = seen - level, []

    def taken(a):
        return np.logaddexp(0.0, 0.5 * np.log(FARTHEST / widths) - 0.5 * a / widths)

    gain = gain - gain[0]
    for _ in range(3):
        left = gain - sum(map(taken, found))
        place = int(np.argmax(left > 1e-2))
        a = 2.0 * widths[place] * (0.5 * np.log(FARTHEST / widths[place]) - np.log(np.expm1(left[place])))
        found.append(max(a, 0.0))
    return np.sqrt(found)


@pytest.mark.parametrize("method", ["altmin", "ifca"])
def test_a_likelihood_beside_hard_choices_reads_no_y(method):
    """Rows choose by coefficients alone: variances of the server's choosing changed no choice, and told who is near."""
    read = read_by_narrowing(stock(min_rows=1), method)
    np.testing.assert_allclose(read[:3], np.sort(np.abs(stock().y))[:3], rtol=1e-4)
    assert len(read_by_narrowing(stock(), method)) == 0


LONE = 1e-5  # x'direction of the one row whose sign is in doubt


def read_by_lengths(agent, row):
    """|y| of a row, by a server that knows all columns: at sixteen lengths of a direction its sign alone is unsure."""
    X, generator = agent.X, np.random.default_rng(row + 1)
    others, across = np.delete(X, row, axis=0), generator.standard_normal((2000, P))
    across -= np.outer(across @ X[row], X[row]) / (X[row] @ X[row])
    across /= np.linalg.norm(across, axis=1)[:, None]
    direction = across[np.abs(others @ across.T).min(axis=0).argmax()] + LONE * X[row] / (X[row] @ X[row])
    yy = (1e3 * LONE) ** 2  # as forged sums tell it
    shares = expit(np.linspace(-3.9, 6.9, 16))  # more than a fit asks for, and surer ones
    query, u = SymmetricLengths(direction, np.sqrt(shares * yy), (1.0 - shares) * yy), X @ direction
    try:
        told = agent.answer(query, RunTerms())
    except RowsRefusalError:
        return None
    sure = query.lengths / query.s2 > 20.0 / yy**0.5
    c, s2 = (query.lengths / query.s2)[sure], query.s2[sure]
    squares = query.lengths[sure] ** 2 * (u @ u) / s2
    left = told["log_likelihood"][sure] + 0.5 * (squares + N * np.log(2 * np.pi * s2)) + N * np.log(2.0)
    terms = np.column_stack([c / c.max(), s2.min() / s2])  # the sums of |y u| and of y^2, which are not known
    within = terms @ np.linalg.pinv(terms)

    def misfit(value):
        rest = left - np.log1p(np.exp(-2.0 * c * value * np.abs(u[row])))
        return float(np.linalg.norm(rest - within @ rest))

    return min(np.geomspace(0.03, 10.0, 4000), key=misfit)


def test_likelihoods_of_many_lengths_read_no_y():
    """Of sixteen likelihoods in one answer the surest alone was declared, where the row counts as all others do."""
    agent = stock(min_rows=1)
    read = [read_by_lengths(agent, row) for row in range(5)]
    np.testing.assert_allclose(read, np.abs(agent.y[:5]), rtol=0.01)
    agent = stock()
    assert [read_by_lengths(agent, row) for row in range(5)] == [None] * 5


def derivatives(query, X, y):
    """Of each number of an answer in each y, and how large what is added up is: (numbers, n), (numbers,)."""
    step, rows = 1e-5, [slice(row, row + 1) for row in range(len(y))]

    def numbers(row, moved):
        return np.concatenate([np.ravel(v) for v in query.answer(Rows(X[row], y[row] + moved)).values()])

    ahead, back = (np.array([numbers(row, moved) for row in rows]) for moved in (step, -step))
    return (ahead - back).T / (2.0 * step), np.abs(ahead).sum(axis=0)


def drawn_mixture(generator):
    coef = generator.standard_normal((P, 2)) * np.exp(generator.uniform(-1, 1))
    return coef, np.log(generator.dirichlet([3.0, 3.0])), np.exp(generator.uniform(-3, 1.5, 2))


def drawn_candidate(generator):
    coef, logs, s2 = drawn_mixture(generator)
    return CandidateScores(np.eye(P), coef.T[None], np.exp(logs)[None], s2[None])


def drawn_lengths(generator):
    lengths, s2 = np.exp(generator.uniform(-2, 1, (2, 6)))
    return SymmetricLengths(generator.standard_normal(P), lengths, s2)


DRAWN = {
    "scores": lambda g: MixtureScore(*drawn_mixture(g)),
    "held scores": lambda g: HeldScore(*drawn_mixture(g), g.standard_normal((P, 2))),
    "candidates": drawn_candidate,
    "signs": lambda g: SymmetricScore(g.standard_normal(P), float(np.exp(g.uniform(-1, 2)))),
    "lengths": drawn_lengths,
}


def deviations_left(min_rows, draw, rounds=30):
    """What remains unknown of each y, in deviations, to who knows all columns and every y but for that deviation.

    All numbers of all answers are used, to rounding. Drawn states that stand on too few rows are passed over.
    """
    generator = np.random.default_rng(0)
    X, y = generator.standard_normal((N, P)), generator.standard_normal(N)
    agent = Agent("north", X, y, COLUMNS, "y", min_rows=min_rows)
    equations, refused = [np.eye(N)], 0
    while refused < 4 and len(equations) <= rounds:
        query = draw(generator)
        try:
            agent.answer(query, RunTerms())
        except RowsRefusalError as error:
            refused += "one row could be told" in str(error)
        else:
            slopes, sizes = derivatives(query, X, y)
            equations.append(slopes / (1e-15 * sizes[:, None] + 1e-300))
    inverse = np.linalg.inv(np.linalg.qr(np.vstack(equations))[1])
    return np.sqrt((inverse**2).sum(axis=1))


@pytest.mark.parametrize("name", DRAWN)
def test_all_numbers_together_tell_who_knows_the_columns_no_y(name):
    """Likelihoods, squares and masses as well as scores, at random states, by their derivatives in every y."""
    left, without = deviations_left(50, DRAWN[name]), deviations_left(1, DRAWN[name])
    assert np.sum(without < 0.25) > N / 4
    assert np.sum(left < 0.1) == 0
    assert np.sum(left < 0.5) < N / 20
    assert np.median(left) > 0.8


def test_no_loss_is_bounded_for_one_row_alone():
    """What two components' use says twice agrees, but for the rows whose loss stops to grow: one stood alone."""
    generator = np.random.default_rng(0)
    X, y = generator.standard_normal((N, P)), generator.standard_normal(N)
    agent = Agent("north", X, y, COLUMNS, "y", min_rows=50)
    far = np.array([2.0, 0.0, 0.0])
    at = np.sort(0.5 * ((y - X @ far) ** 2 - (y - X @ -far) ** 2))
    s2 = 0.5 * (at[-1] + at[-2]) / -np.log(1.0 - SURE)  # at which one row alone is surer
    coef, half = np.array([[far, -far]]), np.full((1, 2), 0.5)
    for caps in (np.array([1e6]), np.array([1e9])):
        with pytest.raises(RowsRefusalError, match="one row could be told"):
            agent.answer(ComponentUse(np.eye(P), coef, half, np.full((1, 2), s2), caps), RunTerms())
    agent.answer(ComponentUse(np.eye(P), coef, half, np.full((1, 2), 4.0 * s2), np.array([1e6])), RunTerms())


def read_below_rounding(agent, mine):
    """xx' of the row nearest to the border of two components, of which it has so little as is taken for nothing."""
    v, most = np.array([1.0, 0.5, -0.3]), 5e-13
    doubt = np.abs(agent.y * (agent.X @ v))
    told = []
    for share in (most**3, most):
        s2 = 2.0 * doubt.min() / -np.log(share)
        mixture = np.array([[v, -v]]), np.full((1, 2), 0.5), np.full((1, 2), s2)
        numbers, nothing = np.zeros(1, dtype=np.int64), np.zeros(1)
        whose = np.full(1, mine), np.full(1, OWN)
        query = SeedFits(np.eye(P), np.zeros((1, P)), *mixture, numbers, *whose, *[nothing] * 4)
        told.append(agent.answer(query, RunTerms()))
    row = agent.X[doubt.argmin()]
    return (told[1]["grams"] - told[0]["grams"])[0] / most, np.outer(row, row)[np.triu_indices(P)]


def test_no_row_is_read_by_weights_that_are_taken_for_the_same():
    """Answers had three digits more than the weights in which they were compared."""
    generator = np.random.default_rng(0)
    X, y = generator.standard_normal((400, P)), generator.standard_normal(400)
    for min_rows, reads in ((1, True), (50, False)):
        agent = Agent("north", X, y, COLUMNS, "y", min_rows=min_rows)
        read = [read_below_rounding(agent, mine) for mine in (0, 1)]
        near = [np.abs(np.abs(found) - np.abs(true)).max() < 0.1 for found, true in read]
        assert any(near) == reads, read


def read_beside_a_level(agent):
    """Sums over the rows whose y is among the largest: beside a level of 2^54, y is rounded to a multiple of four."""
    fit = Steered(agent, MixedLinearRegression(2, start=1e-3 * np.eye(2, P + 1), random_state=0))
    for level in (2.0**54, 0.0, 0.0):
        sums = {name: np.zeros(part.shape) for name, part in fit.query.parts(P, False).items()}
        counts = {name: np.array(float(N)) for name in ("weight", "rows", "units")}
        far = {"y": np.array(N * level), "yy": np.array(N * (level**2 + 1e6))}
        fit.forge(sums | counts | far | {"gram": N * np.eye(P + 1)})
    return fit.answer()


def test_no_level_rounds_y_until_few_rows_are_left():
    """A level of the server's choosing made all y the same but those of nine rows, whose x were then added up."""
    generator = np.random.default_rng(3)
    X, y = generator.standard_normal((N, P)), generator.standard_normal(N)
    told = read_beside_a_level(Agent("north", X, y, COLUMNS, "y", min_rows=1))
    largest = np.abs(y) > 2.0
    np.testing.assert_allclose(told["score"][:P].sum(axis=1), 4.0 * np.sign(y[largest]) @ X[largest], rtol=1e-6)
    assert np.sum(largest) < 10
    assert read_beside_a_level(Agent("north", X, y, COLUMNS, "y", min_rows=50)) is None


def test_weights_that_are_no_numbers_are_refused(monkeypatch):
    query = MixtureScore(np.zeros((P, 2)), np.log([0.5, 0.5]), np.ones(2))
    stock(min_rows=10).answer(query, RunTerms())
    for wrong in (np.nan, np.inf):
        monkeypatch.setattr(MixtureScore, "shares", lambda _, rows, wrong=wrong: np.full((len(rows), 2), wrong))
        with pytest.raises(RowsRefusalError):
            stock(min_rows=10).answer(query, RunTerms())
