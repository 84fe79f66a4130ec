"""Mixtures of regressions of a learned phi(x; w)."""

import doctest
import subprocess
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.optimize import approx_fprime, minimize
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from longer import long
from wmlr import Federation, MixedLinearRegression, curves
from wmlr.bench import neural as suite
from wmlr.core.round import Rows, Sampled
from wmlr.curves import make_curves
from wmlr.engines import ArrayRows
from wmlr.neural import NeuralMixedRegression, ResidualMLP, estimator, pictures, starts
from wmlr.neural.layout import ParameterLayout
from wmlr.neural.local import LocalTraining
from wmlr.neural.network import Network, NetworkPhi, flat, threads
from wmlr.neural.queries import Likelihood, NetworkMinimax, Responses, Rest, Score, Units
from wmlr.neural.training import LAM
from wmlr.numerics.expectations import Drawn, GaussHermite
from wmlr.statistics import minimax

SMALL = {"width": 12, "depth": 1, "n_outputs": 6, "n_init": 1, "warmup_epochs": 4, "trial_epochs": 0}
TINY = SMALL | {"width": 4, "n_outputs": 3, "max_epochs": 1, "warmup_epochs": 1}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Networks as small as these gain nothing from more."""
    with threads(1):
        yield


@pytest.fixture(scope="module")
def sines():
    return make_curves("sines", 900, random_state=0)


@pytest.fixture(scope="module")
def few():
    return make_curves("sines", 150, random_state=0)


@pytest.fixture
def short_start(monkeypatch):
    """One bandwidth in place of four, for tests that hold wherever training begins."""
    monkeypatch.setattr(starts, "BANDWIDTHS", (1.0,))


@pytest.fixture
def start_on_lines(monkeypatch):
    """No waves at all, for tests in which nothing depends on where training begins."""
    monkeypatch.setattr(starts, "BANDWIDTHS", ())


def tiny(k=2, d=2, seed=0, **settings):
    """A small network with heads, and theta somewhere."""
    layout = ParameterLayout(Network(d, 5, 1, 4), k, **settings)
    generator = np.random.default_rng(seed)
    w = flat(layout.network.fresh(seed))
    theta = layout.pack(w, generator.standard_normal((k, 5)), generator.uniform(0.5, 1.0, k), np.arange(1, k + 1) / 6)
    return layout, theta


def some_rows(n=40, d=2, seed=1, weight=False, groups=False):
    generator = np.random.default_rng(seed)
    X, y = generator.standard_normal((n, d)), generator.standard_normal(n)
    starts = np.arange(0, n, 5) if groups else None
    return Rows(X, y, generator.uniform(0.5, 2, n) if weight else None, starts, np.arange(n))


def units_of(rows):
    return Units(rows.X.mean(axis=0), rows.X.std(axis=0), float(rows.y.mean()), float(rows.y.std()))


@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.parametrize("weight", [False, True])
def test_the_score_is_the_slope_of_the_likelihood(groups, weight):
    layout, theta = tiny(3, shared_sigma=False)
    rows = some_rows(weight=weight, groups=groups)
    units = units_of(rows)

    def value(at):
        return float(Likelihood(layout, units, at).answer(rows)["log_likelihood"])

    found = Score(layout, units, theta).answer(rows)
    np.testing.assert_allclose(found["score"], approx_fprime(theta, value, 1e-6), atol=2e-4)
    assert found["log_likelihood"] == pytest.approx(value(theta))


@pytest.mark.parametrize("groups", [False, True])
def test_the_likelihood_is_that_of_the_mixture_on_phi(groups):
    from wmlr.neural.starts import mixture_of

    layout, theta = tiny(3)
    rows = some_rows(groups=groups)
    units = units_of(rows)
    phi = NetworkPhi(layout.network, theta[: layout.edges[1]], units.centre, units.scale).transform(rows.X)
    codes = np.arange(40) // 5 if groups else None
    wanted = mixture_of(layout, units, theta).log_likelihood(phi, rows.y, codes).sum()
    found = float(Likelihood(layout, units, theta).answer(rows)["log_likelihood"])
    assert found - len(rows) * np.log(units.deviation) == pytest.approx(wanted)


@pytest.mark.parametrize("k", [2, 3])
def test_with_phi_the_identity_the_game_is_the_linear_one(k):
    layout = ParameterLayout(Network(3, outputs=3, module=nn.Identity()), k)
    generator = np.random.default_rng(0)
    rows = some_rows(d=3)
    units = Units(np.zeros(3), np.ones(3), 0.0, 1.0)
    beta, weights, sigma = generator.standard_normal((k, 4)), np.full(k, 1 / k), 0.7
    theta = layout.pack(np.zeros(0), beta, np.array([sigma]), weights)
    gamma = np.stack([theta, theta])
    gamma[:, : 4 * k] += generator.standard_normal((2, 4 * k))
    vectors = gamma[:, : 4 * k].reshape(2 * k, 4).T
    query = minimax.Minimax(beta.T, vectors, np.log(weights), np.full(k, sigma**2), sigma**2, GaussHermite(12))
    wanted = query.answer(rows)
    found = NetworkMinimax(layout, units, theta, gamma, GaussHermite(12), "heads").answer(rows)
    assert found["value"] == pytest.approx(float(wanted["value"]))
    slopes = wanted["gradients"].T
    np.testing.assert_allclose(found["theta"][: 4 * k], -slopes[:k].ravel(), rtol=1e-8)
    np.testing.assert_allclose(found["gamma"][:, : 4 * k].reshape(2 * k, 4), slopes[k:], rtol=1e-8)


@pytest.mark.parametrize("discriminator", ["heads", "network"])
def test_the_expectation_over_the_model_is_the_integral(discriminator):
    layout, theta = tiny(2, d=1)
    generator = np.random.default_rng(3)
    mask = layout.heads() if discriminator == "heads" else layout.free()
    gamma = theta + 0.1 * generator.standard_normal((2, layout.size)) * mask
    units = Units(np.zeros(1), np.ones(1), 0.0, 1.0)

    def log_density(at, y):
        return float(Likelihood(layout, units, at).answer(Rows(np.array([[0.3]]), np.array([y])))["log_likelihood"])

    def integrand(y):
        return np.exp(log_density(theta, y)) * (log_density(gamma[0], y) - log_density(gamma[1], y))

    expected = quad(integrand, -15, 15, limit=200)[0]
    query = NetworkMinimax(layout, units, theta, gamma, GaussHermite(40), discriminator)
    found = query.answer(Rows(np.array([[0.3]]), np.array([0.5])))
    assert found["value"] == pytest.approx(log_density(gamma[0], 0.5) - log_density(gamma[1], 0.5) - expected, abs=1e-5)


@pytest.mark.parametrize("discriminator", ["heads", "network"])
def test_the_inner_problem_is_concave(discriminator):
    layout, theta = tiny(2)
    rows = some_rows(200)
    units = units_of(rows)
    generator = np.random.default_rng(4)
    sigma, weights = layout.parts(theta)[2:]
    lam = LAM[discriminator] / float(weights @ sigma**2)
    mask = layout.heads() if discriminator == "heads" else layout.free()

    def value(gamma):
        answer = NetworkMinimax(layout, units, theta, gamma, GaussHermite(8), discriminator).answer(rows)
        return float(answer["value"] / answer["units"]) - lam * float(np.sum((gamma - theta) ** 2))

    for _ in range(20):
        step = generator.standard_normal((2, layout.size)) * mask
        step *= 0.2 / np.linalg.norm(step)
        middle = theta + 0.5 * generator.uniform(-1, 1) * step
        assert value(middle + step) + value(middle - step) < 2 * value(middle)


def test_vectors_on_the_models_own_phi_teach_phi_nothing(sines):
    """Heads that solve the moment equation on any phi leave the paper's game at its value, zero, whatever w."""
    rows = Rows(sines.X, sines.y, index=np.arange(len(sines.y)))
    units = units_of(rows)
    layout = ParameterLayout(Network(1, 8, 1, 4), 2)
    w = flat(layout.network.fresh(5))
    phi = NetworkPhi(layout.network, w, units.centre, units.scale).transform(rows.X)
    target = (rows.y - units.mean) / units.deviation
    fit = MixedLinearRegression(2, search="quick", random_state=0).fit(phi, target)
    theta = layout.pack(w, np.column_stack([fit.coef_, fit.intercept_]), fit.sigma_, fit.weights_)
    first = layout.edges[1]

    def falling(heads):
        answer = Score(layout, units, np.concatenate([w, heads])).answer(rows)
        return -float(answer["log_likelihood"]) / len(rows), -answer["score"][first:] / len(rows)

    found = minimize(falling, theta[first:], jac=True, method="BFGS", options={"gtol": 1e-8, "maxiter": 5000})
    theta = np.concatenate([w, found.x])
    score = Score(layout, units, theta).answer(rows)["score"] / len(rows)
    assert np.linalg.norm(score[:first]) > 0.1
    assert np.linalg.norm(score[first:]) < 1e-5
    slopes = {}
    for discriminator, mask in (("heads", layout.heads()), ("network", layout.free())):
        at = np.stack([theta, theta])
        up = NetworkMinimax(layout, units, theta, at, GaussHermite(128), discriminator).answer(rows)["gamma"] / len(
            rows
        )
        gamma = at + 0.01 * up * mask
        answer = NetworkMinimax(layout, units, theta, gamma, GaussHermite(128), discriminator).answer(rows)
        slopes[discriminator] = -answer["theta"][:first] / len(rows)
    assert np.linalg.norm(slopes["heads"]) < 1e-3 * np.linalg.norm(slopes["network"])
    assert np.linalg.norm(slopes["network"]) > 1e-2
    assert slopes["network"] @ score[:first] > 0


def test_the_games_slope_is_the_score_times_the_information():
    """So a direction in which the likelihood is flat counts for less again by its flatness, whatever the step size."""
    layout, theta = tiny(2)
    rows = some_rows(12)
    units = units_of(rows)
    exact, lam, mask = GaussHermite(24), 1e6, layout.free()
    both = np.stack([theta, theta])
    query = NetworkMinimax(layout, units, theta, both, exact)
    gamma = both + query.answer(rows)["gamma"] / len(rows) * mask / (2 * lam)
    slope = -replace(query, gamma=gamma).answer(rows)["theta"] / len(rows)

    offsets, shares = exact.offsets(None, len(rows))
    means = opened(layout, units, theta, rows.X)
    _, _, sigma, weights = layout.parts(theta)
    information = np.zeros((layout.size, layout.size))
    for place, X in enumerate(rows.X):
        for component in range(2):
            for offset, share in zip(offsets[0], shares):
                y = units.mean + units.deviation * (means[place, component] + sigma[component] * offset)
                one = Score(layout, units, theta).answer(Rows(X[None], np.array([y])))["score"]
                information += weights[component] * share * np.outer(one, one) / len(rows)
    score = Score(layout, units, theta).answer(rows)["score"] / len(rows)
    np.testing.assert_allclose(slope, information @ score / lam, rtol=1e-3, atol=1e-6 * np.abs(slope).max())


def opened(layout, units, theta, X):
    """The heads' curves at X, in units in which y has deviation 1."""
    batch = units.batch(layout, Rows(X, np.zeros(len(X))))
    return layout.unpack(torch.as_tensor(theta), batch.X)[0].numpy()


def test_training_comes_closer_to_the_truth_than_lines_and_one_curve(sines, short_start):
    test = make_curves("sines", 4000, random_state=1)
    settings = SMALL | {"width": 24, "n_outputs": 12, "max_epochs": 25, "n_init": 2, "random_state": 0}
    short = {}
    for name, model in {
        "lines": MixedLinearRegression(2, random_state=0),
        "one": NeuralMixedRegression(1, **settings),
        "wmlr": NeuralMixedRegression(2, **settings),
        "em": NeuralMixedRegression(2, method="em", **settings),
    }.items():
        model.fit(sines.X, sines.y)
        short[name] = test.log_likelihood() - model.score(test.X, test.y)
    assert short["wmlr"] < 0.15
    assert short["em"] < 0.15
    assert min(short["lines"], short["one"]) > 0.3
    np.testing.assert_allclose(np.sort(model.weights_), [0.4, 0.6], atol=0.06)
    assert model.sigma_[0] == pytest.approx(0.2, rel=0.3)


@pytest.mark.parametrize("solver", ["auto", "gda"])
def test_gradients_fall_to_a_stationary_point(solver, few, short_start):
    whole = {"batch_size": None, "max_epochs": 150, "patience": None, "weight_decay": 0.0, "learning_rate": 0.02}
    settings = SMALL | whole | {"warmup_epochs": 100}
    fit = NeuralMixedRegression(2, solver=solver, random_state=0, **settings).fit(few.X, few.y)
    norms = [record["gradient_norm"] for record in fit.history_]
    assert np.median(norms[-10:]) < 0.2 * np.median(norms[:10])


@pytest.mark.parametrize("settings", [{}, {"method": "em"}, {"solver": "gda", "ascent_steps": 2, "refresh": None}])
def test_the_seed_decides_everything(few, settings, short_start):
    fits = [
        NeuralMixedRegression(2, max_epochs=1, random_state=seed, **SMALL, **settings).fit(few.X, few.y)
        for seed in (3, 3, 4)
    ]
    np.testing.assert_array_equal(fits[0].predict_components(few.X), fits[1].predict_components(few.X))
    assert not np.array_equal(fits[0].coef_, fits[2].coef_)


def test_batches_of_one_group_do_not_throw_the_heads_about(short_start):
    generator = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 20)
    X = np.linspace(-3, 3, 40)[groups, None] + 0.1 * generator.standard_normal((800, 1))  # each group has its own x
    y = (groups % 3 - 1) * np.sin(2 * X[:, 0]) + 0.2 * generator.standard_normal(800)
    settings = SMALL | {"batch_size": 20, "width": 24, "n_outputs": 24, "max_epochs": 2}
    fit = NeuralMixedRegression(3, random_state=0, **settings).fit(X, y, groups=groups)
    held = [record["held_log_likelihood"] for record in fit.history_]
    assert min(held) > fit.held_log_likelihood_ - 1.0


def test_torch_is_left_as_it_was(few, start_on_lines):
    before, state = torch.get_num_threads(), torch.random.get_rng_state()
    NeuralMixedRegression(2, random_state=0, n_jobs=1, **TINY).fit(few.X, few.y)
    assert torch.get_num_threads() == before
    assert torch.equal(torch.random.get_rng_state(), state)
    with threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


def test_groups_share_their_component(short_start):
    rows = make_curves("responses", 900, groups=15, random_state=0)
    fit = NeuralMixedRegression(3, max_epochs=5, random_state=0, **SMALL | {"n_init": 2})
    fit.fit(rows.X, rows.y, groups=rows.groups)
    found = fit.assign(rows.X, rows.y, groups=rows.groups)
    pairs = {(int(a), int(b)) for a, b in zip(found, rows.labels)}
    assert len(pairs) <= 5
    known = fit.predict(rows.X, groups=rows.groups)
    assert np.mean((rows.y - known) ** 2) < 0.7 * np.mean((rows.y - fit.predict(rows.X)) ** 2)
    game = NeuralMixedRegression(3, solver="gda", random_state=0, **TINY).fit(rows.X, rows.y, groups=rows.groups)
    assert np.isfinite(game.score(rows.X, rows.y, groups=rows.groups))


def test_known_noise_and_equal_weights_are_held(few, start_on_lines):
    fit = NeuralMixedRegression(2, sigma=0.2, equal_weights=True, random_state=0, **TINY).fit(few.X, few.y)
    np.testing.assert_allclose(fit.sigma_, 0.2)
    np.testing.assert_allclose(fit.weights_, 0.5)
    apart = NeuralMixedRegression(2, shared_sigma=False, random_state=0, **TINY).fit(few.X, few.y)
    assert apart.sigma_[0] != apart.sigma_[1]


def test_a_model_read_back_is_the_same(few, start_on_lines, tmp_path):
    groups = np.arange(150) // 10
    fit = NeuralMixedRegression(2, random_state=0, **TINY).fit(few.X, few.y, groups=groups)
    fit.save(tmp_path / "model.npz")
    back = NeuralMixedRegression.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(back.predict_components(few.X), fit.predict_components(few.X))
    np.testing.assert_array_equal(back.predict(few.X, groups=groups), fit.predict(few.X, groups=groups))
    assert back.get_params() == fit.get_params()
    assert back.history_ == fit.history_
    with np.load(tmp_path / "model.npz", allow_pickle=False) as file:
        assert all(file[name].dtype != object for name in file.files)


def test_a_module_of_ones_own_is_given_again(few, start_on_lines, tmp_path):
    own = nn.Sequential(nn.Linear(1, 6), nn.Tanh())
    fit = NeuralMixedRegression(2, phi=own, random_state=0, **TINY).fit(few.X, few.y)
    assert fit.coef_.shape == (2, 6)
    assert clone(fit).phi is not own
    fit.save(tmp_path / "model.npz")
    with pytest.raises(ValueError, match="holds the weights of a module of your own: give it again as phi="):
        NeuralMixedRegression.load(tmp_path / "model.npz")
    back = NeuralMixedRegression.load(tmp_path / "model.npz", phi=nn.Sequential(nn.Linear(1, 6), nn.Tanh()))
    np.testing.assert_array_equal(back.predict(few.X), fit.predict(few.X))
    with pytest.raises(ValueError, match="parameters where phi and the heads have"):
        NeuralMixedRegression.load(tmp_path / "model.npz", phi=nn.Sequential(nn.Linear(1, 7), nn.Tanh()))


@pytest.mark.parametrize("content", [b"", b"no such thing", b"PK\x03\x04broken"])
def test_a_file_of_something_else_is_refused(content, tmp_path):
    (tmp_path / "model.npz").write_bytes(content)
    with pytest.raises(ValueError, match="is not a file of a neural mixture"):
        NeuralMixedRegression.load(tmp_path / "model.npz")


def test_a_pickle_in_a_file_is_not_opened(tmp_path):
    np.savez(tmp_path / "model.npz", json=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ValueError, match="is not a file of a neural mixture: Object arrays cannot be loaded"):
        NeuralMixedRegression.load(tmp_path / "model.npz")


class StoppedError(Exception):
    pass


@pytest.mark.parametrize("settings", [{}, {"solver": "gda", "refresh": 7}])
def test_training_goes_on_where_it_was_interrupted(settings, few, start_on_lines, tmp_path):
    engine = ArrayRows(few.X, few.y)
    model = NeuralMixedRegression(2, random_state=0, **TINY | {"max_epochs": 4}, **settings)
    whole = clone(model).fit_on(engine)

    def stop(record):
        if record["iteration"] == 2:
            raise StoppedError

    kept = clone(model).set_params(checkpoint=tmp_path / "state.npz")
    with pytest.raises(StoppedError):
        kept.fit_on(engine, stop)
    seen = []
    kept.fit_on(engine, lambda record: seen.append(record["iteration"]))
    assert seen == [3, 4]
    np.testing.assert_array_equal(kept.coef_, whole.coef_)
    assert kept.history_ == whole.history_
    with pytest.raises(ValueError, match="was left by a fit with other settings or rows"):
        kept.fit_on(ArrayRows(few.X[:100], few.y[:100]))


@pytest.mark.parametrize(
    ("level", "settings"),
    [("agent", {}), ("row", {"solver": "gda"}), long("row", {}), long("agent", {"solver": "gda"})],
)
def test_agents_train_what_one_place_trains(level, settings, short_start):
    rows = make_curves("responses", 300, groups=10, random_state=0)
    model = NeuralMixedRegression(2, random_state=0, **TINY, **settings)
    here = clone(model).fit_on(ArrayRows(rows.X, rows.y, groups=rows.groups if level == "agent" else None))
    federation = Federation.split(rows.X, rows.y, rows.groups, level=level)
    there = clone(model).fit_on(federation)
    if level == "row" or not settings:
        np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-5, atol=1e-7)
    assert there.ledger_.totals()["answered"] == 30 * len(there.ledger_)


def own_steps(query, rows, rate, steps, **game):
    """The same steps, one agent at a time and by plain loops."""
    theta, gamma = query.theta.copy(), getattr(query, "gamma", None)
    for _ in range(steps):
        if gamma is None:
            answer = replace(query, theta=theta).answer(rows)
            theta = theta + rate * answer["score"] / float(answer["units"])
        else:
            answer = replace(query, theta=theta, gamma=gamma).answer(rows)
            up = answer["gamma"] / float(answer["units"]) - game["pull"] * (gamma - game["reference"])
            theta = theta - rate * answer["theta"] / float(answer["units"])
            gamma = gamma + game["ascent"] * game["mask"] * up
    return theta, gamma


@pytest.mark.parametrize("level", ["row", "agent"])
@pytest.mark.parametrize("discriminator", [None, "network", "heads"])
def test_local_steps_are_those_of_each_agent(level, discriminator):
    layout, theta = tiny(2)
    generator = np.random.default_rng(0)
    sizes = [4, 7, 2]
    firsts = np.array([0, 4, 11])
    rows = some_rows(13)
    rows = replace(rows, starts=firsts if level == "agent" else None)
    units = units_of(rows)
    rate = generator.uniform(0, 0.02, layout.size)
    query, game = Score(layout, units, theta), {}
    if discriminator is not None:
        reference = np.stack([theta, theta])
        mask = layout.heads() if discriminator == "heads" else layout.free()
        expectation = GaussHermite(4) if level == "row" else Drawn(0, 5)
        query = NetworkMinimax(layout, units, theta, reference + 0.01, expectation, discriminator)
        game = {"ascent": 0.02, "pull": 3.0, "reference": reference, "mask": mask}
    answer = LocalTraining(query, 3, rate, **game).answer_each(rows, firsts)
    change, gamma_change = 0.0, 0.0
    for first, size in zip(firsts, sizes):
        own = Rows(rows.X[first : first + size], rows.y[first : first + size], index=np.arange(first, first + size))
        own = replace(own, starts=np.zeros(1, dtype=np.int64) if level == "agent" else None)
        count = size if level == "row" else 1
        moved, gamma = own_steps(query, own, rate, 3, **game)
        change = change + count * (moved - theta)
        gamma_change = gamma_change + (0 if gamma is None else count * (gamma - query.gamma))
    np.testing.assert_allclose(answer["change"], change, rtol=1e-6, atol=1e-10)
    if discriminator is not None:
        np.testing.assert_allclose(answer["gamma_change"], gamma_change, rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("discriminator", [None, "network"])
def test_local_steps_begin_along_the_slopes_of_all_agents(discriminator):
    layout, theta = tiny(2)
    rows = some_rows(13)
    units = units_of(rows)
    rate = np.random.default_rng(0).uniform(0, 0.02, layout.size)
    query, game = Score(layout, units, theta), {}
    if discriminator is not None:
        both = np.stack([theta, theta])
        query = NetworkMinimax(layout, units, theta, both + 0.01, GaussHermite(4), discriminator)
        game = {"ascent": 0.02, "pull": 3.0, "reference": both, "mask": layout.free()}
    mean, gamma_mean = query.mean_slopes(query.answer(rows))
    firsts = np.array([0, 4, 11])
    one = LocalTraining(query, 1, rate, **game, mean=mean, gamma_mean=gamma_mean).answer_each(rows, firsts)
    np.testing.assert_allclose(one["change"], 13 * rate * mean, rtol=1e-9, atol=1e-12)
    alone = [
        LocalTraining(query, 3, rate, **game, **means).answer(rows)
        for means in ({}, {"mean": mean, "gamma_mean": gamma_mean})
    ]
    for name in query.state:
        np.testing.assert_allclose(alone[0][name], alone[1][name], rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize(("settings", "less"), [long({"method": "em"}, 0.0), ({}, 0.0), long({"solver": "gda"}, 0.1)])
def test_local_steps_train_among_agents(settings, less):
    sines = make_curves("sines", 450, random_state=0)
    federation = Federation.split(sines.X, sines.y, np.arange(450) % 15)
    lines = MixedLinearRegression(2, random_state=0).fit(sines.X, sines.y).score(sines.X, sines.y)
    fit = NeuralMixedRegression(2, local_steps=3, random_state=0, **SMALL, max_epochs=8, **settings)
    fit.fit_on(federation)
    assert any("LocalTraining" in entry.query for entry in fit.ledger_)
    assert fit.score(sines.X, sines.y) > lines - less


def test_a_walk_of_any_number_of_local_steps_is_as_long_as_one_step_of_all(start_on_lines):
    """Longer ones, of the heads too, led away from a good start, and training ended no better than it had begun."""
    sines = make_curves("sines", 400, random_state=0)
    federation = Federation.split(sines.X, sines.y, np.arange(400) % 10)

    def fit(steps, rate):
        model = NeuralMixedRegression(2, local_steps=steps, learning_rate=rate, random_state=0)
        return model.set_params(**TINY | {"max_epochs": 6}).fit_on(federation)._theta

    still = fit(1, 1e-12)
    moved = [np.linalg.norm(fit(steps, 1e-5) - still) for steps in (1, 5)]
    assert moved[0] > 0
    assert moved[1] == pytest.approx(moved[0], rel=0.3)


def test_agents_are_told_their_component(start_on_lines):
    rows = make_curves("responses", 300, groups=10, random_state=0)
    federation = Federation.split(rows.X, rows.y, rows.groups, level="agent")
    fit = NeuralMixedRegression(3, random_state=0, **TINY).fit_on(federation)
    labels, chances = federation.assign(fit)
    np.testing.assert_array_equal(labels[rows.groups], fit.assign(rows.X, rows.y, groups=rows.groups))
    assert np.all((chances > 1 / 3) & (chances <= 1))


def test_held_out_rows_and_the_rest_are_all_rows_once():
    rows = some_rows(400, groups=True)
    whole, part, rest = (
        query.answer(rows) for query in (Responses(), Sampled(Responses(), 0.3, 5), Rest(Responses(), 0.3, 5))
    )
    assert 0 < part["weight"] < 400
    for name, value in whole.items():
        assert part[name] + rest[name] == pytest.approx(float(value))


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [NeuralMixedRegression(2, random_state=0, batch_size=16, **TINY | {"warmup_epochs": 0})],
    expected_failed_checks=lambda _: {
        "check_sample_weight_equivalence_on_dense_data": "a row of weight 2 is one place in a batch, two rows are two",
    },
)
def test_the_face_is_scikit_learns(estimator, check, start_on_lines):
    check(estimator)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"n_components": 0}, "n_components must be a whole number of at least 1 (got 0)"),
        ({"method": "gem"}, "method must be 'wmlr' or 'em' (got 'gem')"),
        ({"solver": "newton"}, "solver must be 'auto' or 'gda' (got 'newton')"),
        ({"refresh": 0}, "refresh must be a whole number of at least 1 (got 0)"),
        ({"learning_rate": 0}, "learning_rate must be positive (got 0)"),
        ({"sigma": -1.0}, "sigma must be positive or None (got -1.0)"),
        ({"validation_fraction": 1.0}, "validation_fraction must be at least 0 and below 1 (got 1.0)"),
        ({"phi": np.tanh}, "phi must be a torch.nn.Module or None"),
        ({"phi": nn.Sequential(nn.Linear(1, 2), nn.BatchNorm1d(2))}, "use LayerNorm"),
        ({"phi": nn.Linear(4, 2)}, "phi does not take 1 columns"),
        ({"phi": nn.Flatten(0)}, "phi must give one row of features per row (got shape (2,) for 2 rows)"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, said, sines):
    with pytest.raises(ValueError, match="") as error:
        NeuralMixedRegression(**settings).fit(sines.X, sines.y)
    assert said in str(error.value)


def test_odd_rows_get_a_defined_answer():
    generator = np.random.default_rng(0)
    X = np.column_stack([generator.standard_normal(60), np.ones(60)])
    for y in (np.full(60, 3.0), np.zeros(60)):
        fit = NeuralMixedRegression(2, random_state=0, **TINY).fit(X, y)
        np.testing.assert_allclose(fit.predict(X), y, atol=0.2)
        assert np.all(np.isfinite(fit.sigma_))
    scaled = X * [1e4, 1e-4]
    y = np.sin(X[:, 0])
    model = NeuralMixedRegression(2, validation_fraction=0.0, random_state=0, **TINY)
    here, there = (clone(model).fit(rows, y) for rows in (X, scaled))
    # the search of the start draws rows by their content, units included, and may end at a neighbouring maximum
    np.testing.assert_allclose(there.predict(scaled), here.predict(X), atol=0.02)


def test_the_residual_network_is_bounded():
    made = ResidualMLP(3, width=8, depth=2, outputs=5)
    assert float(made(torch.randn(50, 3) * 100).abs().max()) <= 1.0


def test_without_torch_one_line_says_so_and_the_rest_goes_on():
    script = """
import sys

class Without:
    def find_spec(self, name, *more):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Without())
import wmlr, wmlr.estimator, wmlr.federated, wmlr.features, wmlr.curves, wmlr.cli, wmlr.plots
try:
    import wmlr.neural
except ImportError as error:
    print(error)
from wmlr.cli import app
app(["bench", "neural"])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "neural mixtures need PyTorch: pip install 'wmlr[neural]'\n"
    assert done.stderr == "wmlr: neural mixtures need PyTorch: pip install 'wmlr[neural]'\n"
    assert done.returncode == 1


@pytest.mark.parametrize("module", [estimator, curves])
def test_examples_in_docstrings_run(module):
    found = doctest.testmod(module)
    assert found.attempted > 0
    assert found.failed == 0


def outcomes(**short):
    """What a benchmark of two seeds might have found, all models alike but for those given."""
    norms = tuple(np.geomspace(1.0, 1e-3, 100))
    plain = {"linear": 0.5, "one": 0.4, "density": 0.02, "network": 0.01, "agents": 0.03} | short
    names = {suite.LINEAR: "linear", suite.ONE: "one", suite.DENSITY: "density"}
    names |= dict.fromkeys(suite.TRAINING, "network") | dict.fromkeys(suite.AMONG, "agents")
    found = [
        suite.TrainingResult(shape, seed, model, plain[key] + 0.001 * seed, 60, norms if key == "network" else ())
        for shape in (*suite.SHAPES, suite.GROUPED)
        for seed in range(2)
        for model, key in names.items()
    ]
    return [
        *found,
        *(suite.TrainingResult("sines", 0, suite.stationary(name), 0.0, 100, norms) for name in suite.TRAINING),
    ]


@pytest.mark.parametrize(
    ("short", "missed"),
    [
        ({}, []),
        ({"network": 0.05}, ["network, WMLR refreshed", "gradient EM", "minimax GDA", "less density network"]),
        ({"density": 0.009}, ["less density network"]),
        ({"one": 0.009}, ["less one network"]),
        ({"linear": 0.009}, ["less linear WMLR"]),
        ({"agents": 0.07}, ["100 agents, less in one place", "5 local steps, less in one place"]),
    ],
)
def test_the_benchmark_says_which_limits_are_missed(short, missed):
    result = suite.make_result(outcomes(**short))
    verdicts = {row[0]: row[-1] for row in result.rows}
    found = {name for name, verdict in verdicts.items() if verdict == "MISSED"}
    wanted = {name for name, verdict in verdicts.items() if verdict and any(name.endswith(end) for end in missed)}
    assert found == wanted
    assert [limit["met"] for limit in result.numbers["limits"]] == [v == "met" for v in verdicts.values() if v]
    assert len(result.numbers["gradients"]["sines: network, minimax GDA"]) == 100


def test_the_benchmark_trains_every_model(monkeypatch, start_on_lines):
    for name, value in {"ROWS": 60, "TEST_ROWS": 100, "AGENTS": 6, "EPOCHS": 1}.items():
        monkeypatch.setattr(suite, name, value)
    monkeypatch.setattr("wmlr.neural.NeuralMixedRegression", partial(NeuralMixedRegression, **TINY))
    found = [suite.linear("responses", 0), suite.density_network("sines", 0)]
    small = TINY | {"local_steps": 2}
    found += [suite.network("responses", 0, next(iter(suite.AMONG)), small), suite.network("sines", 0, suite.EM, TINY)]
    assert np.all(np.isfinite([one.short for one in found]))


def test_the_benchmark_goes_on_where_it_stopped_and_trains_what_is_asked_for(monkeypatch, tmp_path):
    trained = []
    monkeypatch.setattr(suite, "_delayed", lambda job: (trained.append(job), (_train_nothing, (job,), {}))[1])
    monkeypatch.setattr(suite, "Parallel", lambda **how: lambda work: (f(*given, **named) for f, given, named in work))
    result = suite.run(lambda text: None, 2, "responses", "networks,agents", tmp_path)
    assert [(job.shape, job.seed) for job in trained] == [("responses", seed) for _ in range(3) for seed in range(2)]
    assert {job.model for job in trained} == {suite.REFRESHED, *suite.AMONG}
    trained.clear()
    suite.run(lambda text: None, 3, "responses", "networks", tmp_path)
    assert trained == [suite.TrainingJob("responses", 2, suite.REFRESHED)]
    assert [row[3] for row in result.rows if row[0].endswith("refreshed")] == ["2"]
    with pytest.raises(ValueError, match="--parts must be among walks"):
        suite.run(lambda text: None, parts="stations")


def _train_nothing(job):
    return suite.TrainingResult(job.shape, job.seed, job.model, 0.01)


def test_the_table_goes_between_its_marks():
    result = suite.make_result(outcomes())
    kept = {"title": result.title, "columns": result.columns, "rows": result.rows}
    page = pictures.with_table("a\n<!-- results -->\nold\n<!-- end of results -->\nb\n", kept)
    assert "old" not in page
    assert result.rows[0][0] in page
    assert pictures.with_table(page, kept) == page
    with pytest.raises(ValueError, match="the page has no place for the table"):
        pictures.with_table("# A page", kept)


def test_pictures_are_drawn(tmp_path, start_on_lines):
    with pytest.raises(ValueError, match=r"run `wmlr bench neural --out"):
        pictures.write(tmp_path, tmp_path / "neural.json", tmp_path / "page.md")
    kept = {"numbers": suite.make_result(outcomes()).numbers}
    drawn = pictures.sines(120, **TINY), pictures.surfaces(120, **TINY), pictures.agents(12, 5, **TINY)
    assert [len(figure.axes) for figure in drawn] == [2, 7, 2]
    assert len(pictures.gradients(kept).axes[0].lines) == 3
