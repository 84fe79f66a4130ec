"""What the rows of a fit had besides X and y is not silently forgotten afterwards."""

import numpy as np
import pytest
from typer.testing import CliRunner

from wmlr import MixedLinearRegression
from wmlr.cli import app
from wmlr.engines import ArrayRows


@pytest.fixture(scope="module")
def counts():
    generator = np.random.default_rng(0)
    X = generator.standard_normal((200, 1))
    exposure = generator.uniform(1.0, 50.0, 200)
    rate = np.exp(np.where(generator.random(200) < 0.5, -1.0 + X[:, 0], 1.0 - X[:, 0]))
    return X, generator.poisson(rate * exposure).astype(float), exposure


@pytest.fixture(scope="module")
def fitted(counts):
    X, y, exposure = counts
    return MixedLinearRegression(2, family="poisson", search="quick", random_state=0).fit(X, y, exposure=exposure)


@pytest.mark.parametrize("reloaded", [False, True])
@pytest.mark.parametrize("name", ["responsibilities", "assign", "bic", "covariance", "summary", "score"])
def test_likelihoods_without_the_exposure_are_refused(fitted, counts, name, reloaded, tmp_path):
    X, y, exposure = counts
    if reloaded:
        fitted.save(tmp_path / "m.json")
        fitted = MixedLinearRegression.load(tmp_path / "m.json")
    with pytest.raises(ValueError, match="the fit had an offset or exposure: give offset= or exposure="):
        getattr(fitted, name)(X, y)
    getattr(fitted, name)(X, y, exposure=exposure)
    getattr(fitted, name)(X, y, offset=np.log(exposure))


def test_means_without_the_exposure_are_refused_and_rates_asked_for(fitted, counts):
    X, _, exposure = counts
    with pytest.raises(ValueError, match="the fit had an offset or exposure"):
        fitted.predict(X)
    np.testing.assert_allclose(fitted.predict(X, exposure=exposure), fitted.predict(X, offset=0) * exposure)


def test_an_engine_s_rows_come_with_their_exposure_too(counts):
    X, y, exposure = counts
    rows = ArrayRows(np.column_stack([X, exposure]), y)
    fit = MixedLinearRegression(2, family="poisson", search="quick", random_state=0).fit_on(rows, exposure=1)
    for ask in (fit.predict_on, fit.responsibilities_on, fit.covariance_on):
        with pytest.raises(ValueError, match="the fit had an offset or exposure"):
            ask(rows)
        ask(rows, exposure=1)


def test_likelihoods_of_successes_need_their_trials():
    generator = np.random.default_rng(1)
    X, trials = generator.standard_normal((80, 1)), np.full(80, 9.0)
    y = generator.binomial(9, 0.3, 80).astype(float)
    fit = MixedLinearRegression(1, family="binomial").fit(X, y, trials=trials)
    with pytest.raises(ValueError, match="the fit had trials: give trials="):
        fit.score(X, np.minimum(y, 1.0))
    assert fit.score(X, np.column_stack([y, trials - y])) == fit.score(X, y, trials=trials)
    assert np.all(fit.predict(X) < 1.0)


def test_the_command_line_names_its_options(fitted, counts, tmp_path):
    X, y, exposure = counts
    table = np.column_stack([X, y, exposure])
    np.savetxt(tmp_path / "rows.csv", table, delimiter=",", header="x,claims,holders", comments="")
    words = ["--target", "claims", "--features", "x", "--family", "poisson", "--exposure", "holders"]
    model, rows = str(tmp_path / "m.json"), str(tmp_path / "rows.csv")
    assert CliRunner().invoke(app, ["fit", rows, *words, "--search", "quick", "--out", model]).exit_code == 0
    result = CliRunner().invoke(app, ["predict", model, rows])
    assert result.exit_code == 2
    assert "give --offset or --exposure for these rows as well" in result.stderr
    assert CliRunner().invoke(app, ["predict", model, rows, "--exposure", "holders"]).exit_code == 0


def test_an_offset_under_both_its_names_is_refused():
    rng = np.random.default_rng(0)
    X, y, hours = rng.normal(size=(40, 1)), rng.poisson(2.0, 40), np.full(40, 2.0)
    model = MixedLinearRegression(1, family="poisson")
    with pytest.raises(ValueError, match="two names of one thing"):
        model.fit(X, y, offset=np.log(hours), exposure=hours)
    with pytest.raises(ValueError, match="two names of one thing"):
        model.fit(X, y).predict(X, offset=0.0, exposure=hours)


def test_a_text_of_two_values_is_refused_with_the_way_to_zeros_and_ones(tmp_path):
    X, y = np.arange(6.0)[:, None], np.array(["no", "yes"] * 3)
    with pytest.raises(ValueError, match="as by y == 'yes'"):
        MixedLinearRegression(1, family="binomial").fit(X, y)
    path = tmp_path / "answers.csv"
    path.write_text("x,out\n" + "".join(f"{i},{text}\n" for i, text in enumerate(y)))
    result = CliRunner().invoke(app, ["fit", str(path), "-t", "out", "--family", "binomial", "-k", "1"])
    assert result.exit_code == 2
    assert """--formula 'I(out == "yes") ~ ...'""" in result.stderr


def test_an_exposure_of_nil_is_refused_with_a_remedy():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(10, 1)), rng.poisson(2.0, 10)
    with pytest.raises(ValueError, match="in row 0\\): leave out rows without any"):
        MixedLinearRegression(1, family="poisson").fit(X, y, exposure=np.zeros(10))


@pytest.mark.parametrize("formula", ["seizure.rate ~ x", "`seizure.rate` ~ log(`rel.hum`)"])
def test_a_formula_names_columns_with_dots(formula):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(10, 1)), rng.poisson(2.0, 10)
    frame = {"x": X[:, 0], "seizure.rate": y, "rel.hum": np.exp(X[:, 0])}
    named = MixedLinearRegression(1, family="poisson", formula=formula).fit(frame)
    np.testing.assert_allclose(named.coef_, MixedLinearRegression(1, family="poisson").fit(X, y).coef_, rtol=1e-6)
