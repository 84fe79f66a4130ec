import numpy as np
import pytest
from scipy.special import logsumexp

from wmlr.core.round import Rows, add
from wmlr.federated.messages import pack, unpack
from wmlr.statistics.candidates import CandidateScores
from wmlr.statistics.information import ObservedInformation
from wmlr.statistics.mixing import GateMoments, LogitGate
from wmlr.statistics.score import MixtureScore

K, D, G = 3, 2, 2


def made(n=40, groups=False, weighted=False):
    generator = np.random.default_rng(0)
    X, W = generator.standard_normal((n, D)), generator.standard_normal((n, G)) + 1.0
    y = generator.standard_normal(n) * 2
    weight = generator.integers(0, 3, n).astype(float) if weighted else None
    starts = np.arange(0, n, 4) if groups else None
    return Rows(X, y, weight, starts, beside={"gate": W})


def place():
    generator = np.random.default_rng(1)
    coef, s2 = generator.standard_normal((D + 1, K)), np.array([0.5, 1.0, 2.0])
    gate = np.column_stack([generator.standard_normal((G + 1, K - 1)), np.zeros(G + 1)])
    return coef, s2, gate


def log_likelihood(rows, coef, s2, gate):
    """By hand: each unit's weights are the softmax of its columns, a group's those of its weighted mean."""
    densities = np.array(
        [
            [
                -0.5 * ((yi - x @ coef[:-1, j] - coef[-1, j]) ** 2 / s2[j] + np.log(2 * np.pi * s2[j]))
                for j in range(len(s2))
            ]
            for x, yi in zip(rows.X, rows.y)
        ]
    )
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    starts = np.arange(len(rows)) if rows.starts is None else rows.starts
    total = 0.0
    for first, last in zip(starts, [*starts[1:], len(rows)]):
        own = slice(first, last)
        amount = weight[own].sum()
        if amount == 0:
            continue
        columns = weight[own] @ rows.beside["gate"][own] / amount
        logits = columns @ gate[:-1] + gate[-1]
        logs = logits - logsumexp(logits)
        counted = 1.0 if rows.starts is not None else amount
        within = weight[own] @ densities[own] if rows.starts is not None else densities[first]
        total += counted * logsumexp(within + logs)
    return total


@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_likelihood_and_its_derivatives_in_the_gate_are_those_by_hand(groups, weighted):
    rows, (coef, s2, gate) = made(groups=groups, weighted=weighted), place()
    query = MixtureScore(coef, np.zeros(K), s2, gate=LogitGate(np.eye(G + 1), gate))
    sums = query.answer(rows)
    assert sums["log_likelihood"] == pytest.approx(log_likelihood(rows, coef, s2, gate), rel=1e-12)
    slopes = []
    for j in range(K - 1):
        for i in range(G + 1):
            step = np.zeros_like(gate)
            step[i, j] = 1e-6
            up, down = (log_likelihood(rows, coef, s2, gate + sign * step) for sign in (1, -1))
            slopes.append((up - down) / 2e-6)
    np.testing.assert_allclose(sums["gate_score"], slopes, rtol=1e-6, atol=1e-6)


def test_the_observed_information_is_minus_the_hessian():
    rows, (coef, s2, gate) = made(groups=True, weighted=True), place()
    query = ObservedInformation(coef, np.full(K, 1 / K), s2, gate=LogitGate(np.eye(G + 1), gate))
    information = query.answer(rows)["information"]
    sizes = [K * (D + 1), K, (K - 1) * (G + 1)]
    theta = np.concatenate([coef.T.ravel(), 0.5 * np.log(s2), gate[:, :-1].T.ravel()])

    def value(vector):
        b, logs, logits = np.split(vector, np.cumsum(sizes)[:-1])
        full = np.column_stack([logits.reshape(K - 1, G + 1).T, np.zeros(G + 1)])
        return log_likelihood(rows, b.reshape(K, D + 1).T, np.exp(2 * logs), full)

    h, size = 1e-4, len(theta)
    steps = h * np.eye(size)
    hessian = [
        [
            (value(theta + a + b) - value(theta + a - b) - value(theta - a + b) + value(theta - a - b)) / (4 * h * h)
            for b in steps
        ]
        for a in steps[:: size // 5]
    ]
    np.testing.assert_allclose(information[:: size // 5], -np.array(hessian), rtol=1e-4, atol=2e-4)


def test_answers_of_blocks_add_up_and_candidates_are_mixtures_side_by_side():
    rows, (coef, s2, gate) = made(groups=True), place()
    basis = np.random.default_rng(2).standard_normal((G + 1, G + 1))
    state = np.linalg.solve(basis, gate)
    query = MixtureScore(coef, np.zeros(K), s2, gate=LogitGate(basis, state))
    halves = [rows.take(np.arange(len(rows)) < 20), rows.take(np.arange(len(rows)) >= 20)]
    whole, parts = query.answer(rows), add(query.answer(half) for half in halves)
    for name, value in whole.items():
        np.testing.assert_allclose(value, parts[name], rtol=1e-10, atol=1e-10)
    both = np.stack([state, 0.5 * state])
    many = CandidateScores(
        np.eye(D + 1), np.stack([coef.T] * 2), np.full((2, K), 1 / K), np.stack([s2] * 2), gate=LogitGate(basis, both)
    )
    found = many.answer(rows)
    for name in ("units", "gate_score", "gate_information"):
        np.testing.assert_allclose(found[name][0], whole[name], rtol=1e-9, atol=1e-9)


def test_a_query_with_a_gate_travels_and_one_without_is_written_as_before():
    coef, s2, gate = place()
    plain = MixtureScore(coef, np.zeros(K), s2)
    assert b"gate" not in pack(plain)
    found = unpack(pack(MixtureScore(coef, np.zeros(K), s2, gate=LogitGate(np.eye(G + 1), gate))))
    np.testing.assert_array_equal(found.gate.coef, gate)
    with pytest.raises(ValueError, match="none of 3 components"):
        MixtureScore(coef, np.zeros(K), s2, gate=LogitGate(np.eye(2), gate)).check()


def test_rows_without_the_columns_are_told_so():
    coef, s2, gate = place()
    rows = made()
    bare = Rows(rows.X, rows.y)
    with pytest.raises(ValueError, match="gate= names them"):
        MixtureScore(coef, np.zeros(K), s2, gate=LogitGate(np.eye(G + 1), gate)).answer(bare)
    with pytest.raises(ValueError, match="depend on 3 columns, not on 2"):
        MixtureScore(coef, np.zeros(K), s2, gate=LogitGate(np.eye(4), np.zeros((4, K)))).answer(rows)
    sums = GateMoments(G).answer(rows)
    assert sums["gram"][-1, -1] == len(rows)
