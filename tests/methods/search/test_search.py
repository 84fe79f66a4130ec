"""The search for the likeliest maximum, seen from the estimator."""

import json
import re
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from longer import long
from wmlr import Effort, Federation, MixedLinearRegression
from wmlr.datasets import load_co2, load_tone, make_mixed_regression
from wmlr.engines.arrays import ArrayRows
from wmlr.engines.npy import NpyRows
from wmlr.methods.search import fitting


@pytest.fixture
def outlying():
    """Two balanced lines that every start finds, and a third of thirty rows far from both."""
    generator = np.random.default_rng(4)
    X = generator.standard_normal((600, 4))
    lines = np.array([[1.0, 1, 0, 0], [-1, 1, 0, 0], [0, -3, 4, 6]])
    labels = generator.choice(3, 600, p=[0.48, 0.47, 0.05])
    y = (X * lines[labels]).sum(axis=1) + 0.3 * generator.standard_normal(600)
    return X, y, lines


def quiet(fit, *args, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return fit(*args, **more)


def likelihood_from_the_truth(X, y, lines, **settings):
    start = np.column_stack([lines, np.zeros(len(lines))])
    return quiet(MixedLinearRegression(len(lines), method="em", start=start, **settings).fit, X, y).log_likelihood_


def test_few_large_groups_of_many_columns_are_searched_whole():
    generator = np.random.default_rng(1)
    groups = np.repeat(np.arange(20), 600)
    X, lines = generator.standard_normal((12_000, 40)), generator.standard_normal((2, 40))
    y = (X * lines[generator.choice(2, 12_000)]).sum(axis=1) + 30.0 * generator.standard_normal(12_000)
    fit = quiet(MixedLinearRegression(2, search="quick", random_state=1).fit, X, y, groups=groups)
    assert np.isfinite(fit.log_likelihood_)


@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_not_clear_on_a_sample_is_sought_on_all_rows(tmp_path, seed):
    generator = np.random.default_rng(seed)
    lines = np.array([[1.0, 1, 0, 0], [-1, 1, 0, 0], [0, -3, 4, 6]])
    labels = np.where(np.arange(9000) < 24, 2, generator.choice(2, 9000, p=[0.6, 0.4]))
    X = generator.standard_normal((9000, 4))
    y = (X * lines[labels]).sum(axis=1) + 0.5 * generator.standard_t(4, 9000)
    fit = quiet(MixedLinearRegression(3, random_state=0).fit, X, y)
    assert fit.log_likelihood_ > likelihood_from_the_truth(X, y, lines) - 0.1
    np.save(tmp_path / "rows.npy", np.column_stack([X, y]))
    streamed = quiet(MixedLinearRegression(3, random_state=0).fit_on, NpyRows(tmp_path / "rows.npy", 4))
    np.testing.assert_allclose(streamed.coef_, fit.coef_, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize(("search", "more"), [("auto", {0.999}), ("quick", set()), (Effort(steps=1.0), set())])
def test_a_search_that_is_over_on_a_sample_asks_no_more_rows(monkeypatch, search, more):
    shares, stage = [], fitting.first_stage

    def watched(problem, *others):
        shares.append(problem.landscape.share)
        return stage(problem, *others)

    monkeypatch.setattr(fitting, "first_stage", watched)
    generator = np.random.default_rng(1)
    X = generator.standard_normal((9000, 4))
    y = (X * generator.choice([1.0, -1.0], (9000, 1))).sum(axis=1) + generator.standard_t(2, 9000)
    fit = quiet(MixedLinearRegression(3, search=search, random_state=0).fit, X, y)
    assert shares[0] == pytest.approx(4000 / 9000)
    assert set(shares[1:]) == more
    assert fit.search_.sampled


@pytest.mark.parametrize("columns", [20, 60])
def test_costly_steps_do_not_lengthen_a_search_in_rounds(monkeypatch, columns):
    monkeypatch.setattr(fitting, "COSTLY_STEP", 0.0)
    generator = np.random.default_rng(0)
    lines = generator.standard_normal((3, columns))
    labels = generator.choice(3, 1500, p=[0.6, 0.25, 0.15])
    X = generator.standard_normal((1500, columns))
    y = (X * lines[labels]).sum(axis=1) + generator.standard_normal(1500)
    rows = Federation.split(X, y, np.arange(1500) % 10)
    fit = quiet(MixedLinearRegression(3, search=Effort.among_agents(30), random_state=0).fit_on, rows)
    assert len(fit.ledger_) <= 60


@pytest.mark.parametrize("shared_sigma", [True, False])
@pytest.mark.parametrize("method", ["wmlr", "em"])
@pytest.mark.parametrize("seeds", [[0], long([1, 2])])
def test_a_component_of_a_few_rows_is_found(outlying, method, shared_sigma, seeds):
    X, y, lines = outlying
    settings = {"method": method, "shared_sigma": shared_sigma}
    truth = likelihood_from_the_truth(X, y, lines, shared_sigma=shared_sigma)
    for seed in seeds:
        fit = quiet(MixedLinearRegression(3, random_state=seed, **settings).fit, X, y)
        assert fit.log_likelihood_ >= truth - 0.01


@pytest.mark.parametrize(("costly", "rows", "seed"), [(False, 900, 1), (True, 1200, 4)])
def test_unbalanced_components_in_many_columns_are_found(monkeypatch, costly, rows, seed):
    if costly:
        monkeypatch.setattr(fitting, "COSTLY_STEP", 0.0)
    generator = np.random.default_rng(seed)
    lines = generator.standard_normal((3, 60))
    labels = generator.choice(3, rows, p=[0.7, 0.2, 0.1])
    X = generator.standard_normal((rows, 60))
    y = (X * lines[labels]).sum(axis=1) + 0.01 * generator.standard_normal(rows)
    truth = likelihood_from_the_truth(X, y, lines, fit_intercept=False)
    fit = quiet(MixedLinearRegression(3, fit_intercept=False, random_state=0).fit, X, y)
    assert fit.log_likelihood_ >= truth - 0.01
    assert fit.search_.sure
    assert fit.search_.generations == 0


def test_groups_and_weights_and_shared_columns_go_through_the_search(outlying):
    X, y, lines = outlying
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(y))
    start = np.column_stack([lines, np.zeros(3)])
    for settings, more in [
        ({}, {"sample_weight": weight}),
        ({"robust": True}, {}),
        ({"alpha": 2.0}, {}),
        ({"sigma": 0.3}, {}),
        ({"equal_weights": True}, {}),
    ]:
        given = quiet(MixedLinearRegression(3, start=start, **settings).fit, X, y, **more)
        found = quiet(MixedLinearRegression(3, random_state=0, **settings).fit, X, y, **more)
        assert found.log_likelihood_ >= given.log_likelihood_ - 0.05, settings
        assert found.search_.searches >= 2
    shared = quiet(MixedLinearRegression(3, shared=[0], random_state=0).fit, X, y)
    assert np.ptp(shared.coef_[:, 0]) < 1e-9
    data = make_mixed_regression(600, 3, 3, snr=5, groups=np.repeat(np.arange(120), 5), random_state=0)
    grouped = quiet(MixedLinearRegression(3, random_state=0).fit, data.X, data.y, groups=data.groups)
    true = quiet(MixedLinearRegression(3, start=data.coef).fit, data.X, data.y, groups=data.groups)
    assert grouped.log_likelihood_ >= true.log_likelihood_ - 0.01


def test_what_all_agree_on_after_few_steps_is_sought_anew(outlying, monkeypatch):
    X, y, _ = outlying
    X, y = X[:200, :2], np.round(y[:200], 1)

    def fit():
        return quiet(MixedLinearRegression(3, random_state=0).fit, X, y)

    with monkeypatch.context() as patch:
        patch.setattr(fitting, "LEAST_PRODUCTS", 0.0)
        hasty = fit()
    assert hasty.search_.reached == hasty.search_.searches == 2
    slow = fit()
    least = fitting.LEAST_PRODUCTS / (203 * 3 * (9 + fitting.ROW_PRODUCTS))
    assert slow.search_.steps > max(hasty.search_.steps, min(least, 3 * hasty.search_.steps))
    assert slow.log_likelihood_ >= hasty.log_likelihood_ - 1e-6
    assert slow.search_.searches <= 3, "a search that goes on anew is one search"


def test_the_search_says_how_sure_it_is_and_is_kept_with_the_model(outlying, tmp_path):
    X, y, _ = outlying
    fit = quiet(MixedLinearRegression(4, random_state=0, n_init=3).fit, X, y)
    search = fit.search_
    assert search.searches == 3
    assert 1 <= search.reached <= 3
    assert search.maxima[0].log_likelihood == pytest.approx(fit.log_likelihood_)
    assert search.maxima[0].distance == 0.0
    assert all(one.found >= 1 for one in search.maxima)
    assert search.runner_up == pytest.approx(search.maxima[0].log_likelihood - search.maxima[1].log_likelihood)
    assert f"{search.reached} of 3" in str(fit.summary(X, y))
    fit.save(tmp_path / "model.json")
    assert MixedLinearRegression.load(tmp_path / "model.json").search_ == search
    assert json.loads((tmp_path / "model.json").read_text())["search"]["searches"] == 3


def test_searches_that_disagree_are_said():
    generator = np.random.default_rng(0)
    X, y = generator.standard_normal((200, 6)), generator.standard_cauchy(200)
    model = MixedLinearRegression(5, random_state=0, search="quick", n_init=4)
    with pytest.warns(ConvergenceWarning, match=r"reached by \d of 4 searches.*another may exist.*thorough"):
        model.fit(X, y)
    assert model.search_.reached < 4


def test_more_effort_never_ends_lower(outlying):
    X, y = outlying[:2]
    values = [
        quiet(MixedLinearRegression(3, random_state=0, search=effort).fit, X, y).log_likelihood_
        for effort in ("quick", "auto", "thorough", 3_000, Effort(lineages=4))
    ]
    assert max(values[1:]) - min(values[1:]) < 0.01
    assert values[0] <= values[2] + 0.01


def test_the_same_seed_gives_the_same_search_whatever_the_blocks(outlying):
    X, y = outlying[:2]
    fits = [
        quiet(MixedLinearRegression(3, random_state=5).fit_on, ArrayRows(X, y, block_rows=rows, n_jobs=jobs))
        for rows, jobs in [(600, 1), (100, 2), (37, 2)]
    ]
    for fit in fits[1:]:
        np.testing.assert_allclose(fit.coef_, fits[0].coef_, rtol=1e-8, atol=1e-8)


def test_agents_are_never_asked_for_single_rows(outlying):
    X, y = outlying[:2]
    federation = Federation.split(X, y, np.arange(len(y)) % 20)
    asked = []
    total = federation.total

    def watched(query):
        inner = query
        while hasattr(inner, "query"):
            inner = inner.query
        asked.append(inner)
        return total(inner if query is inner else query)

    federation.total = watched
    quiet(MixedLinearRegression(3, random_state=0).fit_on, federation)
    seeds = [query for query in asked if type(query).__name__ == "SeedFits"]
    assert seeds
    assert all(not query.rate.any() for query in seeds)


def test_one_regression_is_not_cut_into_duplicates():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((400, 2))
    y = X @ [1.0, 2.0] + generator.standard_normal(400)
    fit = quiet(MixedLinearRegression(3, random_state=0).fit, X, y)
    for i in range(fit.mixture_.n_components):
        for j in range(i):
            apart = np.linalg.norm(fit.coef_[i] - fit.coef_[j]) + abs(fit.intercept_[i] - fit.intercept_[j])
            assert apart > 1e-4


def test_a_sigma_each_is_kept_from_spikes_and_published_fits_stay():
    generator = np.random.default_rng(3)
    X = generator.standard_normal((500, 3))
    y = np.round(X @ [1.0, -1.0, 0.5] + generator.standard_normal(500))
    fit = quiet(MixedLinearRegression(3, shared_sigma=False, random_state=0).fit, X, y)
    assert fit.sigma_.min() >= np.sqrt(1 / 12) * (1 - 1e-3)
    tone, co2 = load_tone(), load_co2()
    published = quiet(MixedLinearRegression(2, shared_sigma=False, random_state=0).fit, tone.data, tone.target)
    assert published.log_likelihood_ == pytest.approx(141.1984, abs=1e-4)
    three = quiet(MixedLinearRegression(3, shared_sigma=False, random_state=0).fit, co2.data, co2.target)
    assert three.bic(co2.data, co2.target) == pytest.approx(161.88, abs=0.01)


def test_ctrl_c_returns_the_best_so_far(outlying):
    X, y = outlying[:2]

    class Impatient(ArrayRows):
        asked = 0

        def total(self, query):
            self.asked += 1
            if self.asked == 20:
                raise KeyboardInterrupt
            return super().total(query)

    rows = Impatient(X, y)
    fit = quiet(MixedLinearRegression(4, random_state=0, search="thorough").fit_on, rows)
    assert rows.asked > 20
    assert fit.search_.interrupted
    assert not fit.search_.sure
    assert np.all(np.isfinite(fit.coef_))


@pytest.mark.parametrize("bad", ["hard", 0, -5, True, None, [1]])
def test_a_search_that_is_none_is_refused(bad):
    with pytest.raises(ValueError, match="search must be"):
        MixedLinearRegression(2, search=bad).fit(np.eye(5), np.arange(5.0))


@pytest.mark.parametrize("seeds", [[0], long([1, 2])])
def test_a_value_that_many_rows_have_in_common_is_found_as_a_component(generator, seeds):
    X = generator.standard_normal((600, 4))
    level = generator.random(600)
    y = np.round(30 + 12 * X[:, 0] + 9 * generator.standard_normal(600))
    y[level < 0.3] = np.round(4 + X[level < 0.3, 1] + 2 * generator.standard_normal(int((level < 0.3).sum())))
    y[level < 0.12] = 0.0
    for seed in seeds:
        fit = quiet(MixedLinearRegression(3, shared_sigma=False, random_state=seed).fit, X, y)
        narrow = int(fit.sigma_.argmin())
        assert fit.sigma_[narrow] == pytest.approx(1 / np.sqrt(12), rel=1e-6)
        assert fit.intercept_[narrow] == pytest.approx(0.0, abs=0.05)
        assert fit.weights_[narrow] == pytest.approx(np.mean(y == 0.0), abs=0.03)


def test_symmetric_fits_say_how_many_starts_agree(tmp_path):
    data = make_mixed_regression(400, 5, snr=4, symmetric=True, random_state=1)
    fit = MixedLinearRegression(symmetric=True, random_state=0).fit(data.X, data.y)
    assert (fit.search_.reached, fit.search_.searches) == (3, 3)
    assert fit.search_.maxima[0].log_likelihood == pytest.approx(fit.log_likelihood_)
    assert [line["iteration"] for line in fit.history_] == list(range(len(fit.history_)))
    assert re.search(r"searches that agree:\s+3 of 3", str(fit.summary()))
    fit.save(tmp_path / "fit.json")
    assert MixedLinearRegression.load(tmp_path / "fit.json").search_ == fit.search_
    more = MixedLinearRegression(symmetric=True, random_state=0, n_init=5, method="em").fit(data.X, data.y)
    assert more.search_.searches == 5
    assert more.log_likelihood_ == pytest.approx(fit.log_likelihood_, abs=1e-4)
    given = MixedLinearRegression(symmetric=True, start=np.ones((1, 5))).fit(data.X, data.y)
    assert given.search_ is None


def test_a_better_random_start_wins_over_the_spectral_one():
    """Rows of two pairs: the moments point to the longer one, and the other has more rows."""
    better = disputed = 0
    for seed in range(6):
        generator = np.random.default_rng(seed)
        X, own = generator.standard_normal((200, 4)), generator.random(200) < 0.6
        signs = np.where(generator.random(200) < 0.5, 1.0, -1.0)
        y = signs * np.where(own, X[:, 0], 1.6 * X[:, 1]) + 0.05 * generator.standard_normal(200)
        fit = quiet(MixedLinearRegression(symmetric=True, random_state=0, search="thorough").fit, X, y)
        first = quiet(MixedLinearRegression(symmetric=True, start="spectral").fit, X, y)
        assert fit.log_likelihood_ >= first.log_likelihood_ - 1e-6
        better += fit.log_likelihood_ > first.log_likelihood_ + 0.1
        disputed += fit.search_.reached < fit.search_.searches
        assert fit.history_[-1]["log_likelihood"] == pytest.approx(fit.log_likelihood_)
    assert better > 0
    assert disputed > better


def test_a_search_among_agents_keeps_to_its_rounds_and_more_of_them_never_end_lower(outlying):
    X, y, lines = outlying
    federation = Federation.split(X, y, np.arange(600) % 50)
    spent, values = [], []
    for rounds in (5, 45, 90):
        effort = Effort.among_agents(rounds)
        fit = quiet(MixedLinearRegression(3, random_state=0, search=effort).fit_on, federation)
        spent.append(len(fit.ledger_))
        values.append(fit.log_likelihood_)
    assert spent[0] < spent[1] <= 80
    assert values[1] == pytest.approx(likelihood_from_the_truth(X, y, lines), abs=0.1)
    assert values[2] >= values[1] - 0.1


@pytest.mark.parametrize("k", [3, 4])
def test_spare_components_cost_agents_no_second_search(k):
    generator = np.random.default_rng(0)
    X = generator.standard_normal((300, 2))
    signs = np.where(np.arange(300) < 150, 2.0, -2.0)
    y = signs * X[:, 0] + X[:, 1] + 0.5 * generator.standard_normal(300)
    model = MixedLinearRegression(k, sigma=1.0, search="quick", random_state=0)
    with pytest.warns(UserWarning, match="is the same regression as another: 2 components are fitted instead"):
        fit = model.fit_on(Federation.split(X, y, np.arange(300) % 30))
    assert len(fit.ledger_) <= 80
    assert fit.converged_
    assert fit.search_.reached == 2
    alone = MixedLinearRegression(2, sigma=1.0, random_state=0).fit(X, y)
    assert fit.log_likelihood_ == pytest.approx(alone.log_likelihood_, abs=1e-6)


@pytest.mark.parametrize("seed", [1, 7])
def test_a_slow_end_among_agents_is_taken_by_steps_like_newtons(seed):
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((300, 1))
    y = 2.0 * X[:, 0] + generator.standard_t(30, 300)
    model = MixedLinearRegression(3, search="quick", random_state=0)
    fit = quiet(model.fit_on, Federation.split(X, y, np.arange(300) % 30))
    assert fit.converged_
    assert len(fit.ledger_) <= 80


@pytest.mark.parametrize("seed", range(3))
def test_an_exact_fit_to_all_rows_but_one_is_no_easy_problem(seed):
    """The likeliest second component explains the odd row and as many others as the first one does, too."""
    generator = np.random.default_rng(seed)
    level = np.arange(600) < 200
    X = np.column_stack([generator.standard_normal((600, 8)), level, generator.permutation(np.arange(600) % 2)])
    y = X @ np.array([*np.linspace(-2, 2, 8), 3.0, 1.0]) + 10.0
    y[0] += 4.0
    fit = quiet(MixedLinearRegression(2, random_state=0).fit, X, y)
    odd = fit.assign(X[:1], y[:1])[0]
    explained = np.abs(y - X @ fit.coef_[odd] - fit.intercept_[odd]) < 1e-3
    assert explained.sum() == 401
    assert fit.weights_[odd] == pytest.approx(1 / 200, rel=0.01)
