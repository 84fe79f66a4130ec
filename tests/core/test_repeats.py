import numpy as np
import pytest
from scipy import sparse

from wmlr import MixedLinearRegression
from wmlr.core.repeats import REPEATS, ContentSketch, DifferentRows, Merged, count_different, merge
from wmlr.core.round import Rows, Sampled
from wmlr.engines.arrays import ArrayRows
from wmlr.engines.npy import NpyRows
from wmlr.features.maps import MappedRows
from wmlr.statistics.candidates import CandidateScores
from wmlr.statistics.moments import Moments
from wmlr.statistics.seeds import SeedFits, uniforms

LEVELS = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])


def repeated(generator, n=400, values=12):
    """Rows of few levels and few values of y."""
    X = LEVELS[generator.integers(4, size=n)]
    return X, generator.integers(values, size=n).astype(float)


def seeds(rate):
    count, nothing = len(rate), np.zeros(len(rate))
    empty = np.zeros((0, 2, 2)), np.zeros((0, 2)), np.zeros((0, 2))
    none = np.zeros(count, dtype=np.int64)
    return SeedFits(
        np.eye(2), np.zeros((count, 2)), *empty, none, none - 1, none, np.ones(count), rate, nothing, nothing, seed=3
    )


def test_merged_rows_weigh_what_their_copies_do(generator):
    X, y = repeated(generator)
    weight = generator.random(len(y))
    rows = merge(Rows(X, y, weight, index=np.arange(len(y)), beside={"offset": X[:, 0]}))
    assert len(rows) == len(np.unique(np.column_stack([X, y]), axis=0))
    assert rows.beside[REPEATS].sum() == len(y)
    for x, value, heavy, copies, number in zip(rows.X, rows.y, rows.weight, rows.beside[REPEATS], rows.index):
        same = (x == X).all(axis=1) & (y == value)
        assert heavy == pytest.approx(weight[same].sum())
        assert (copies, number) == (same.sum(), np.flatnonzero(same)[0])


def test_sums_over_merged_rows_are_those_over_all(generator):
    X, y = repeated(generator)
    k = 2
    scores = CandidateScores(
        np.eye(3, 2), generator.standard_normal((3, k, 2)), np.full((3, k), 0.5), np.full((3, k), 4.0)
    )
    for weight in (None, generator.random(len(y))):
        rows = ArrayRows(X, y, weight, block_rows=50)
        for query in (Moments(intercept=True), scores):
            whole, merged = rows.total(query), rows.total(Merged(Sampled(query, 1.0)))
            for name in whole:
                if name not in ("rows", "units"):
                    np.testing.assert_allclose(merged[name], whole[name], rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("rows", [
    Rows(np.arange(40.0)[:, None], np.arange(40.0)),
    Rows(np.zeros((40, 1)), np.zeros(40), starts=np.arange(0, 40, 4)),
    Rows(sparse.csr_array(np.zeros((40, 1))), np.zeros(40)),
])  # fmt: skip
def test_rows_that_differ_belong_together_or_are_sparse_stay_as_they_are(rows):
    assert merge(rows) is rows
    assert DifferentRows().answer(rows)["rows"] == 40


def test_copies_are_found_among_very_many_rows(generator):
    X, y = repeated(generator, n=150_000)
    assert DifferentRows().answer(Rows(X, y))["rows"] == len(np.unique(np.column_stack([X, y]), axis=0))
    other = generator.standard_normal(150_000)
    assert DifferentRows().answer(Rows(X, other))["rows"] == 150_000
    assert DifferentRows().answer(Rows(other[:, None], y))["rows"] == 150_000


def test_what_stands_beside_a_row_makes_it_differ(generator):
    X, y = repeated(generator)
    offset = generator.standard_normal(len(y))
    assert len(merge(Rows(X, y))) < 50
    assert len(merge(Rows(X, y, beside={"offset": offset}))) == len(y)


def test_rows_are_compared_as_they_are_whatever_is_made_of_their_columns(generator):
    X, y = repeated(generator)

    class Never:
        def transform(self, X):
            raise AssertionError("columns were made to compare rows")

        def width(self, d):
            return d

    found = MappedRows(ArrayRows(X, y), Never()).total(DifferentRows())
    assert found["rows"] == len(np.unique(np.column_stack([X, y]), axis=0))


def test_a_draw_of_few_rows_is_one_of_different_rows(generator):
    X, y = repeated(generator, n=4000)
    rate = np.full(200, 5 / 4000)
    merged = merge(Rows(X, y))
    drawn = seeds(rate)._draw(merged, np.ones((200, len(merged))))
    assert (drawn > 0).sum(axis=1).mean() == pytest.approx(5.0, abs=0.6)
    np.testing.assert_allclose((drawn * merged.weight)[drawn > 0], 1.0)
    together = uniforms(Rows(X, y), 3, np.arange(200)) < 5 / 4000  # copies would be drawn together, and mostly none
    assert np.mean([len(np.unique(np.column_stack([X, y])[line], axis=0)) == 0 for line in together]) > 0.8


@pytest.mark.parametrize("shared", [True, False])
def test_a_search_of_repeated_rows_finds_the_components(generator, shared):
    """Beyond 3,000 rows a sample by content would hold all copies of some rows and none of others."""
    n = 6000
    X = np.column_stack([generator.integers(3, size=n), generator.integers(2, size=n)]).astype(float)
    label = generator.random(n) < 0.15
    y = np.round(np.where(label, 30 - 6 * X[:, 0], 18 + X[:, 0] + 2 * X[:, 1]) + 2.0 * generator.standard_normal(n))
    assert len(np.unique(np.column_stack([X, y]), axis=0)) < 400
    fit = MixedLinearRegression(2, shared_sigma=shared, random_state=0).fit(X, y)
    order = np.argsort(fit.weights_)
    np.testing.assert_allclose(fit.weights_[order], [0.15, 0.85], atol=0.02)
    np.testing.assert_allclose(fit.coef_[order], [[-6.0, 0.0], [1.0, 2.0]], atol=0.35)
    assert not fit.search_.sampled
    assert fit.search_.reached == fit.search_.searches


@pytest.mark.parametrize("different", [1, 40, 3_000, 150_000])
def test_a_sketch_tells_how_many_rows_are_different_wherever_their_copies_lie(generator, different):
    contents = generator.standard_normal((different, 2))
    X = contents[np.r_[np.arange(different), generator.integers(different, size=different)]]
    parts = [ContentSketch().answer(Rows(part, part[:, 0]))["seen"] for part in np.array_split(X, 7) if len(part)]
    assert count_different(sum(parts)) == pytest.approx(different, rel=0.1)
    whole = ContentSketch().answer(Rows(X, X[:, 0]))["seen"]
    np.testing.assert_array_equal(sum(parts) > 0, whole > 0)


def test_repeated_rows_in_a_file_are_searched_as_those_in_memory(generator, tmp_path):
    n = 9000
    X = np.column_stack([generator.integers(3, size=n), generator.integers(2, size=n)]).astype(float)
    label = generator.random(n) < 0.15
    y = np.round(np.where(label, 30 - 6 * X[:, 0], 18 + X[:, 0] + 2 * X[:, 1]) + 2.0 * generator.standard_normal(n))
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    model = MixedLinearRegression(2, shared_sigma=False, random_state=0)
    rows = NpyRows(tmp_path / "X.npy", tmp_path / "y.npy", block_rows=700, n_jobs=1)
    fit, there = model.fit_on(rows), MixedLinearRegression(2, shared_sigma=False, random_state=0).fit(X, y)
    assert fit.log_likelihood_ == pytest.approx(there.log_likelihood_, abs=1e-3)
    assert not fit.search_.sampled
    assert rows._samples.nbytes < 400 * X.itemsize * 2


def test_a_sample_of_many_copies_holds_as_many_different_rows_as_it_is_asked_for(generator, tmp_path):
    """By its share of all rows a sample by content would hold next to none of them."""
    contents = np.column_stack([generator.standard_normal((5_000, 2)), np.zeros(5_000)])
    contents[:, 2] = contents[:, 0] * np.where(np.arange(5_000) % 3, 2.0, -2.0) + 0.1 * generator.standard_normal(5_000)
    table = contents[np.concatenate([generator.permutation(5_000) for _ in range(24)])]
    np.save(tmp_path / "table.npy", table)
    rows = NpyRows(tmp_path / "table.npy", 2, block_rows=10_000)
    fit = MixedLinearRegression(2, random_state=0).fit_on(rows)
    np.testing.assert_allclose(np.sort(fit.coef_[:, 0]), [-2.0, 2.0], atol=0.02)
    (held,) = [sample for kind, sample in rows._samples._held.items() if kind.merged]
    assert 1_500 < len(held.rows) <= 5_000
    assert held.rows.weight.sum() == 24 * len(held.rows)


def test_repeating_every_row_changes_nothing_but_the_likelihood_s_size(generator):
    X, y = generator.standard_normal((150, 2)), generator.standard_normal(150)
    y += np.where(generator.random(150) < 0.4, 3 * X[:, 0], -2 * X[:, 1])
    once = MixedLinearRegression(2, random_state=0).fit(X, y)
    often = MixedLinearRegression(2, random_state=0).fit(np.repeat(X, 30, axis=0), np.repeat(y, 30))
    np.testing.assert_allclose(often.coef_, once.coef_, atol=1e-5)
    assert often.log_likelihood_ == pytest.approx(30 * once.log_likelihood_, rel=1e-9)
