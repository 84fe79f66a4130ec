"""Threads share out the candidates of a search where the rows are one block, and nothing else changes."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from wmlr import MixedLinearRegression
from wmlr.core.round import Rows, Sampled, add, content_codes
from wmlr.engines.arrays import ArrayRows
from wmlr.numerics.sparse import Csr
from wmlr.statistics import candidates
from wmlr.statistics.candidates import CandidateScores
from wmlr.statistics.information import ObservedInformation
from wmlr.statistics.moments import Moments


@pytest.fixture
def rows(generator):
    X = generator.standard_normal((900, 3))
    return X, X @ np.array([1.0, -1.0, 0.5]) + generator.standard_normal(900)


@pytest.fixture
def query(generator):
    coef = generator.standard_normal((40, 3, 3))
    return CandidateScores(np.eye(3), coef, np.full((40, 3), 1 / 3), generator.uniform(0.5, 2.0, (40, 3)))


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_pieces_laid_end_to_end_are_the_whole_answer_to_the_last_bit(rows, query, share):
    asked = Sampled(query, share)
    assert len(asked.pieces(900)) > 1
    one, two = (ArrayRows(*rows, n_jobs=threads).total(asked) for threads in (1, 2))
    assert one.keys() == two.keys()
    for name in one:
        assert np.array_equal(one[name], two[name]), name


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("share", [0.05, 0.1, 0.6])
def test_a_sample_is_the_rows_that_the_query_keeps_of_all_with_their_numbers(rows, generator, share, grouped):
    X, y = rows
    weight = generator.random(900)
    groups = generator.integers(0, 120, 900) if grouped else None
    asked = Sampled(Moments(intercept=True, fourth=True), share, seed=7)
    engine = ArrayRows(X, y, weight, groups, n_jobs=2, block_rows=100)
    engine.total(Sampled(asked.query, share / 2, seed=7))
    drawn = list(engine._sample(asked))
    numbers = np.concatenate([block.index for block in drawn])
    assert np.array_equal(np.concatenate([block.X for block in drawn]), X[numbers])
    assert np.array_equal(np.concatenate([block.weight for block in drawn]), weight[numbers])
    expected = add([asked.answer(block) for block in engine])
    found = engine.total(asked)
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-12, atol=1e-12, err_msg=name)
    if grouped:
        assert set(numbers) == set(np.flatnonzero(np.isin(groups, groups[numbers])))


@pytest.mark.parametrize("grouped", [False, True])
def test_threads_share_out_the_curvature_of_few_rows_and_change_no_bit(generator, grouped):
    X, y = generator.standard_normal((5000, 3)), generator.standard_normal(5000)
    groups = np.arange(5000) // 7 if grouped else None
    query = ObservedInformation(generator.standard_normal((4, 2)), np.array([0.4, 0.6]), np.array([1.0, 2.0]))
    one, two = (ArrayRows(X, y, None, groups, n_jobs=threads).total(query) for threads in (1, 2))
    whole = query.answer(ArrayRows(X, y, None, groups)._all())
    for name in whole:
        assert np.array_equal(one[name], two[name]), name
        np.testing.assert_allclose(one[name], whole[name], rtol=1e-10, atol=1e-8, err_msg=name)


@pytest.mark.parametrize("d", [1, 7, 20])
def test_a_row_has_the_same_code_however_the_features_lie_in_memory(generator, d):
    X, y = generator.integers(-2, 3, (300, d)).astype(np.float64), generator.standard_normal(300)
    codes = content_codes(Rows(X, y), 5)
    assert len(set(codes.tolist())) == 300
    for same in (np.asfortranarray(X), X.astype(np.float32), Csr.of(csr_array(X)), np.where(X == 0, -0.0, X)):
        assert np.array_equal(content_codes(Rows(same, y), 5), codes)


def test_a_piece_holds_as_many_candidates_as_fit_and_at_least_one(query):
    assert [len(piece.coef) for piece in query.pieces(candidates.BLOCK_NUMBERS // 3 // 16)] == [16, 16, 8]
    assert [len(piece.coef) for piece in query.pieces(1e9)] == [1] * 40
    assert query.pieces(10) == (query,)


def test_a_search_by_two_threads_is_that_of_one(generator):
    X = generator.standard_normal((700, 2))
    coef = np.array([[2.0, 0.0], [-1.0, 1.0], [0.0, -2.0]])[generator.integers(3, size=700)]
    y = (X * coef).sum(axis=1) + 0.7 * generator.standard_normal(700)
    fits = [MixedLinearRegression(3, random_state=0, n_jobs=threads).fit(X, y) for threads in (1, 2)]
    assert np.array_equal(fits[0].coef_, fits[1].coef_)
    assert fits[0].search_ == fits[1].search_


@pytest.mark.parametrize("columns", [3, 80])
def test_blocks_of_few_wide_rows_are_kept_with_what_queries_remember_of_them(generator, columns):
    X = generator.standard_normal((900, columns))
    engine = ArrayRows(X, X[:, 0], block_rows=300)
    coef = generator.standard_normal((1, 2, columns))
    query = CandidateScores(np.eye(columns), coef, np.full((1, 2), 0.5), np.ones((1, 2)))
    first, again = engine.total(query), engine.total(query)
    remembered = [bool(block.memo) for block in engine]
    assert remembered == [columns == 80] * 3
    for name in first:
        assert np.array_equal(first[name], again[name]), name
