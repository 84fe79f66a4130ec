"""The compiled loops give what the NumPy twin gives, and step aside where they should."""

from __future__ import annotations

import math
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longer import long
from wmlr import numerics
from wmlr.core.query import Query
from wmlr.core.round import Rows, Together, content_codes
from wmlr.engines.arrays import ArrayRows, add_answers
from wmlr.families import family
from wmlr.numerics import kernels, loops
from wmlr.numerics.arrays import Sums
from wmlr.numerics.compiled import load_loops
from wmlr.numerics.expectations import Drawn, GaussHermite
from wmlr.statistics import compiled
from wmlr.statistics.candidates import CandidateScores
from wmlr.statistics.minimax import Minimax, SymmetricMinimax
from wmlr.statistics.moments import Moments, positive_gram
from wmlr.statistics.score import MixtureScore
from wmlr.statistics.symmetric_score import SymmetricResiduals, SymmetricScore


@pytest.fixture(autouse=True, scope="module")
def _however_small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "WORTHWHILE", 0)
        yield


@dataclass(frozen=True)
class Problem:
    """Random rows, and coefficients with which y u / sigma^2 reaches about ``reach``."""

    rows: Rows
    B: np.ndarray
    G: np.ndarray
    mean: np.ndarray
    log_weights: np.ndarray
    s2: np.ndarray
    tau2: float
    nodes: int

    @property
    def size(self) -> float:
        """What rounding errors in the sums are small against."""
        w = np.ones(len(self.rows)) if self.rows.weight is None else self.rows.weight
        y = self.rows.y
        U = kernels.forward(self.rows.X, np.column_stack([self.B, self.G, self.mean]))
        return float(w @ (1.0 + y * y + (U * U).max(axis=1))) / min(1.0, self.s2.min(), self.tau2)

    def queries(self) -> dict[str, Query]:
        B, G, s2 = self.B, self.G, self.s2
        exact = GaussHermite(self.nodes)
        pair = G[:, [0, -1]]
        return {
            "score": SymmetricScore(B[:, 0], float(s2[0])),
            "score less a mean": SymmetricScore(B[:, 0], float(s2[0]), self.mean),
            "residuals": SymmetricResiduals(B[:, 0], float(s2[0])),
            "residuals less a mean": SymmetricResiduals(B[:, 0], float(s2[0]), self.mean),
            "minimax of two": SymmetricMinimax(B[:, 0], pair, float(s2[0]), exact, 1.7),
            "minimax of two less a mean": SymmetricMinimax(B[:, 0], pair, float(s2[0]), exact, 0.6, self.mean),
            "minimax of two, noise drawn": SymmetricMinimax(B[:, 0], pair, float(s2[0]), Drawn(3), 1.7, self.mean),
            "mixture": MixtureScore(B, self.log_weights, s2),
            "minimax of k": Minimax(B, G, self.log_weights, s2, self.tau2, exact, 1.3),
        }


def make(
    seed: int, n: int = 90, d: int = 7, k: int = 3, *, weighted: bool = False, grouped: bool = False,
    intercept: bool = False, reach: float = 1.0, nodes: int = 8, dtype: type = np.float64,
) -> Problem:  # fmt: skip
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).astype(dtype)
    y = 2.0 * rng.standard_normal(n)
    weight = rng.random(n) * (rng.random(n) > 0.2) if weighted else None
    starts = np.unique(np.append(rng.integers(0, n, max(1, n // 5)), 0)) if grouped else None
    B, G = (rng.standard_normal((d + intercept, columns)) / np.sqrt(d) for columns in (k, 2 * k))
    return Problem(
        Rows(X, y, weight, starts, np.arange(n)),
        B,
        G * min(reach, 100.0),
        0.3 * B[:, -1],
        np.log(rng.dirichlet(np.full(k, 2.0))),
        (0.2 + rng.random(k)) / reach,
        0.5 / min(reach, 100.0),
        nodes,
    )


problems = st.builds(
    make,
    seed=st.integers(0, 2**31),
    n=st.integers(1, 300),
    d=st.integers(1, 40),
    k=st.integers(1, 5),
    weighted=st.booleans(),
    grouped=st.booleans(),
    intercept=st.booleans(),
    reach=st.sampled_from([1.0, 30.0, 1e4]),
    nodes=st.integers(1, 12),
)


def twin(query: Query, rows: Rows) -> Sums:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WMLR_KERNELS", "numpy")
        return query.answer(rows)


DEAR = ("minimax of two, noise drawn", "minimax of k")
"""Loops that take longest to compile for another layout, which the other games are in every run."""


def check(problem: Problem, tolerance: float = 1e-10, without: tuple[str, ...] = ()) -> None:
    size = problem.size
    for name, query in problem.queries().items():
        if name in without:
            continue
        found, wanted = query.answer(problem.rows), twin(query, problem.rows)
        assert found.keys() == wanted.keys()
        for key, value in wanted.items():
            assert found[key].shape == value.shape
            assert found[key].dtype == np.float64
            np.testing.assert_allclose(
                found[key], value, rtol=tolerance, atol=1e-3 * tolerance * size, err_msg=f"{name}: {key}"
            )


@settings(max_examples=60, deadline=None)
@given(problems)
def test_the_loops_equal_their_twin(problem: Problem) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(problem)


@pytest.mark.parametrize("without", [DEAR, long(())], ids=["", "all"])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_single_precision_features_give_double_precision_sums(
    grouped: bool, intercept: bool, without: tuple[str, ...]
) -> None:
    check(make(3, 500, 21, weighted=grouped, grouped=grouped, intercept=intercept, dtype=np.float32), 1e-9, without)


def test_a_group_longer_than_a_tile_stays_whole() -> None:
    problem = make(4, 3000, 30)
    starts = np.array([0, 1, 2, 2500, 2600])
    check(replace(problem, rows=Rows(problem.rows.X, problem.rows.y, starts=starts)))


def test_features_may_be_columns_of_a_wider_array_or_not_writable() -> None:
    problem = make(5, 200, 20)
    wide = np.full((200, 33), np.nan)
    wide[:, 5:25] = problem.rows.X
    view = wide[:, 5:25]
    assert not view.flags.c_contiguous
    fixed = problem.rows.X.copy()
    fixed.flags.writeable = False
    check(problem)
    compiled_for = loops.symmetric_score.signatures
    for X in (view, fixed):
        check(replace(problem, rows=Rows(X, problem.rows.y)))
    assert loops.symmetric_score.signatures == compiled_for


@pytest.mark.parametrize("without", [DEAR, long(())], ids=["", "all"])
@pytest.mark.parametrize("d", [1, 3, 22])
@pytest.mark.parametrize("grouped", [False, True])
def test_features_may_lie_by_columns(d: int, grouped: bool, without: tuple[str, ...]) -> None:
    problem = make(9, 2300, d, weighted=True, grouped=grouped)
    rows = problem.rows
    longer = np.full((2500, d), np.nan, order="F")
    longer[100:2400] = rows.X
    by_columns = replace(rows, X=longer[100:2400])
    assert _asked(problem, by_columns) is not None
    check(replace(problem, rows=by_columns), without=without)


def _asked(problem: Problem, rows: Rows) -> list[Sums] | None:
    return compiled.symmetric_scores(rows, [problem.B[:, 0]], [1.0], None)


@pytest.mark.parametrize("grouped", [False, True])
def test_states_that_share_a_product_have_the_sums_they_have_alone(grouped: bool) -> None:
    problem = make(7, 700, 30, weighted=grouped, grouped=grouped)
    queries = [SymmetricScore(problem.B[:, 0] * (1 + place), 0.5 + place) for place in range(5)]
    together = Together((queries[0], Moments(), *queries[1:]))
    found = together.split_sums(together.answer(problem.rows))
    for query, sums in zip(queries, [found[0], *found[2:]]):
        for name, value in query._plain(problem.rows).items():
            np.testing.assert_allclose(sums[name], value, rtol=1e-10, atol=1e-10)
    assert found[1]["gram"].shape == Moments().answer(problem.rows)["gram"].shape


def test_what_the_loops_leave_to_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    from scipy import sparse

    problem = make(6)
    X, y = problem.rows.X, problem.rows.y
    assert _asked(problem, problem.rows) is not None
    for other in (X[:, ::-1], X.astype(np.longdouble), X.astype(">f8"), sparse.csr_array(X)):
        assert _asked(problem, Rows(other, y)) is None
    drawn = SymmetricMinimax(problem.B[:, 0], problem.G[:, :2], 1.0, Drawn(0, samples=2))
    assert compiled.symmetric_minimax(problem.rows, drawn.beta, drawn.gamma, 1.0, drawn.expectation, 1.0, None) is None
    np.testing.assert_array_equal(drawn.answer(problem.rows)["value"], twin(drawn, problem.rows)["value"])
    k_components = problem.queries()["minimax of k"]
    assert isinstance(k_components, Minimax)
    grouped = Rows(X, y, starts=np.array([0, 5]))
    assert compiled.minimax(problem.rows, *vars(k_components).values()) is not None
    assert compiled.minimax(grouped, *vars(k_components).values()) is None
    monkeypatch.setattr(compiled, "WORTHWHILE", X.size + compiled.EXPONENTIAL * len(y) + 1)
    assert _asked(problem, problem.rows) is None


def test_without_numba_numpy_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = make(7)
    query = problem.queries()["score"]
    wanted = twin(query, problem.rows)
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, "wmlr.numerics.loops")
    monkeypatch.delattr(numerics, "loops")
    load_loops.cache_clear()
    try:
        assert _asked(problem, problem.rows) is None
        np.testing.assert_array_equal(query.answer(problem.rows)["h"], wanted["h"])
    finally:
        load_loops.cache_clear()


def test_small_problems_do_not_load_the_compiler() -> None:
    program = """
import sys, numpy as np
from wmlr.engines.arrays import ArrayRows
from wmlr.statistics.symmetric_score import SymmetricScore
X = np.random.default_rng(0).standard_normal((2000, 50))
ArrayRows(X, X[:, 0], n_jobs=2).total(SymmetricScore(np.ones(50), 1.0))
assert "numba" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("name", list(make(0).queries()))
@pytest.mark.parametrize("grouped", [False, True])
def test_threads_change_nothing_and_blocks_only_the_last_digits(name: str, grouped: bool) -> None:
    problem = make(8, 4000, 17, weighted=True)
    X, y, weight = problem.rows.X, problem.rows.y, problem.rows.weight
    groups = np.arange(4000) // 9 if grouped else None
    query = problem.queries()[name]
    one, two, three = (ArrayRows(X, y, weight, groups, n_jobs=jobs, block_rows=700).total(query) for jobs in (1, 2, 3))
    whole = ArrayRows(X, y, weight, groups, block_rows=4000).total(query)
    for key, value in one.items():
        np.testing.assert_array_equal(two[key], value)
        np.testing.assert_array_equal(three[key], value)
        np.testing.assert_allclose(whole[key], value, rtol=1e-10, atol=1e-13 * problem.size)


def test_a_number_that_is_missing_is_not_lost() -> None:
    problem = make(9)
    for spoilt in (np.nan, np.inf):
        y = problem.rows.y.copy()
        y[40] = spoilt
        for query in problem.queries().values():
            with np.errstate(all="ignore"):
                sums = query.answer(Rows(problem.rows.X, y))
            assert not all(np.all(np.isfinite(value)) for value in sums.values())


wide_range = np.concatenate(
    [np.linspace(-700.0, 700.0, 4001), np.geomspace(1e-300, 700.0, 1000), -np.geomspace(1e-300, 700.0, 1000)]
)


@pytest.mark.parametrize("reach", [1.0, 30.0, 1e4])
def test_candidates_have_the_shares_of_their_twin(reach: float) -> None:
    problem = make(11, n=700, d=6, k=4, reach=reach)
    coef = np.stack([problem.B.T, problem.G[:, :4].T])
    query = CandidateScores(np.eye(6), coef, np.exp([problem.log_weights] * 2), np.stack([problem.s2, problem.s2]))
    found, wanted = query.answer(problem.rows), twin(query, problem.rows)
    for key, value in wanted.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-10, atol=1e-13 * problem.size)
    problem.rows.y[40] = np.nan
    assert not np.isfinite(query.answer(Rows(problem.rows.X, problem.rows.y))["log_likelihood"]).any()


@pytest.mark.parametrize("given", ["poisson", "negative-binomial", "binomial", "gamma"])
def test_the_loops_of_families_equal_their_twin(given: str) -> None:
    rng, law = np.random.default_rng(3), family(given)
    predictor = rng.standard_normal((400, 3, 2)) * np.array([0.5, 5.0, 300.0])[:, None]
    s2 = 10.0 ** rng.uniform(-3, 1, (3, 2))
    trials = rng.integers(1, 40, 400).astype(np.float64)
    y = (
        rng.integers(0, trials + 1).astype(np.float64)
        if law.takes_trials
        else rng.poisson(30.0, 400).astype(np.float64)
    )
    y = y + 0.3 if given == "gamma" else y
    law = law.of_rows({"trials": trials})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WMLR_KERNELS", "compiled")
        found = law.terms(y[:, None, None], predictor, s2)
        patch.setenv("WMLR_KERNELS", "numpy")
        wanted = law.terms(y[:, None, None], predictor, s2)
    assert not np.array_equal(found.weight, wanted.weight)
    for one, other in zip(found, wanted):
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_responsibilities_are_those_of_their_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    joint = 50.0 * np.random.default_rng(0).standard_normal((3, 5, 1100))
    joint[0, 0, :7] = -np.inf
    found = joint.copy()
    monkeypatch.setenv("WMLR_KERNELS", "compiled")
    logs = kernels.shares_of_log_joint(found)
    monkeypatch.setenv("WMLR_KERNELS", "numpy")
    expected = joint.copy()
    np.testing.assert_allclose(logs, kernels.shares_of_log_joint(expected), rtol=1e-14)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-300)


def test_responses_are_pulled_as_by_their_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    given = np.random.default_rng(0).uniform(size=(3, 2, 4, 6000))
    monkeypatch.setenv("WMLR_KERNELS", "compiled")
    found = kernels.weigh_responses(*given)
    monkeypatch.setenv("WMLR_KERNELS", "numpy")
    for ours, theirs in zip(found, kernels.weigh_responses(*given)):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("d", [1, 7, 40])
def test_rows_have_the_codes_of_their_twin_to_the_bit(
    monkeypatch: pytest.MonkeyPatch, generator: np.random.Generator, d: int, kind: type
) -> None:
    X = generator.standard_normal((500, d)).astype(kind)
    X[::7], X[1::7, 0] = 0.0, -0.0
    kept = X.copy()
    kept.setflags(write=False)
    y = np.where(np.arange(500) % 5, generator.standard_normal(500), 0.0)
    monkeypatch.setattr(numerics.compiled, "REPAID", 0)
    coded = []
    for answering, some in (("numpy", X), ("compiled", X), ("compiled", kept)):
        monkeypatch.setenv("WMLR_KERNELS", answering)
        coded.append(content_codes(Rows(some, y), 2**63 + 11))
    assert np.array_equal(coded[0], coded[1])
    assert np.array_equal(coded[0], coded[2])


def test_elementary_functions() -> None:
    np.testing.assert_allclose([loops.exp(x) for x in wide_range], np.exp(wide_range), rtol=1e-14)
    t, decay = np.transpose([loops.tanh_decay(z) for z in wide_range])
    np.testing.assert_allclose(t, np.tanh(wide_range), rtol=1e-14)
    np.testing.assert_allclose(decay, 1.0 + np.exp(-2.0 * np.abs(wide_range)), rtol=1e-14)
    above_one = np.concatenate([1.0 + np.geomspace(1e-15, 1.0, 1000), np.geomspace(1.0, 1e300, 1000)])
    np.testing.assert_allclose([loops.log(x) for x in above_one], np.log(above_one), rtol=1e-13)


def test_elementary_functions_at_the_ends() -> None:
    assert loops.exp(-math.inf) == loops.exp(-1e9) == 0.0
    assert loops.exp(0.0) == 1.0
    assert loops.log(1.0) == 0.0
    assert math.isnan(loops.exp(math.nan))
    assert loops.tanh_decay(math.inf) == (1.0, 1.0)
    assert loops.tanh_decay(-1e9) == (-1.0, 1.0)
    assert loops.tanh_decay(0.0) == (0.0, 2.0)
    assert math.isnan(loops.tanh_decay(math.nan)[0])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_a_gram_of_positive_weights(weighted: bool, intercept: bool) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5))
    weight = rng.random(60) if weighted else None
    wanted = kernels.gram(X, weight, intercept)
    np.testing.assert_allclose(positive_gram(X, weight, intercept), wanted, rtol=1e-12, atol=1e-13)
    single = X.astype(np.float32)
    wanted = kernels.gram(single.astype(np.float64), weight, intercept)
    np.testing.assert_allclose(positive_gram(single, weight, intercept), wanted, rtol=1e-12, atol=1e-13)


def test_threads_may_ask_within_threads_and_errors_come_through() -> None:
    def nested(number: int) -> Sums:
        return add_answers(lambda inner: {"n": np.array(float(number * inner))}, 20, 3)

    assert add_answers(nested, 20, 3)["n"] == sum(range(20)) ** 2

    def refuse(number: int) -> Sums:
        raise ValueError(f"block {number}")

    with pytest.raises(ValueError, match="block"):
        add_answers(refuse, 10, 3)
