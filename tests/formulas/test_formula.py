"""Formulas: the same fit as by arrays, names everywhere, frames accepted, JSON that runs nothing."""

import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import wmlr
from wmlr import MixedLinearRegression
from wmlr.datasets import load_tone
from wmlr.formulas.formula import ModelFormula
from wmlr.formulas.split import split_bar

NPREG = "yn ~ x + I(x**2) | id2"


@pytest.fixture(scope="module")
def tone():
    raw = load_tone()
    return pd.DataFrame({"stretchratio": raw.data[:, 0], "tuned": raw.target})


@pytest.fixture(scope="module")
def npreg():
    return pd.read_csv(Path(__file__).parents[1] / "data" / "npreg.csv")


@pytest.fixture(scope="module")
def fit(tone):
    return MixedLinearRegression.from_formula("tuned ~ stretchratio", tone, 2, shared_sigma=False, random_state=0)


@pytest.fixture(scope="module")
def grouped(npreg):
    return MixedLinearRegression.from_formula(NPREG, npreg, 2, shared_sigma=False, random_state=0)


@pytest.fixture(scope="module")
def mixed():
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "x": generator.normal(size=400),
            "z": generator.normal(size=400),
            "kind": generator.choice(["low", "mid", "top"], 400),
            "n": generator.integers(3, size=400),
        }
    )
    steps = frame["kind"].map({"low": 0.0, "mid": 2.0, "top": -1.0})
    signs = np.where(generator.random(400) < 0.6, 1, -1)
    return frame.assign(y=signs * 4 * frame["x"] + steps + 0.5 * generator.normal(size=400))


def test_tone_by_formula_is_the_published_fit(fit):
    assert fit.log_likelihood_ == pytest.approx(141.1984, abs=1e-4)
    np.testing.assert_allclose(fit.weights_, [0.6977, 0.3023], atol=5e-5)
    np.testing.assert_allclose(fit.intercept_, [1.91638, -0.01927], atol=5e-5)
    np.testing.assert_allclose(fit.coef_[:, 0], [0.04255, 0.99230], atol=5e-5)
    np.testing.assert_allclose(fit.sigma_, [0.04619, 0.13283], atol=5e-5)
    assert list(fit.feature_names_in_) == ["stretchratio"]
    assert "stretchratio" in str(fit.summary())
    assert "tuned ~ stretchratio" in str(fit.summary())


def test_npreg_with_its_groups_is_the_published_fit(grouped, npreg):
    assert grouped.log_likelihood_ == pytest.approx(-561.5537, abs=1e-4)
    np.testing.assert_allclose(grouped.coef_, [[4.7050, 0.0451], [9.8812, -0.9737]], atol=5e-4)
    np.testing.assert_allclose(grouped.intercept_, [-0.1298, 14.6390], atol=5e-4)
    np.testing.assert_allclose(grouped.sigma_, [3.364, 3.380], atol=1e-3)
    assert list(grouped.feature_names_in_) == ["x", "I(x ** 2)"]
    assert grouped.bic(npreg) == pytest.approx(-2 * grouped.log_likelihood_ + 9 * np.log(50))
    assert "groups" in str(grouped.summary(npreg))
    by_rows = MixedLinearRegression.from_formula("yn ~ x + I(x**2)", npreg, 2, shared_sigma=False, random_state=0)
    assert by_rows.log_likelihood_ == pytest.approx(-642.5320, abs=1e-4)


def test_a_fit_by_formula_takes_frames_wherever_it_takes_rows(grouped, npreg):
    X = np.column_stack([npreg["x"], npreg["x"] ** 2])
    y, groups = npreg["yn"].to_numpy(), npreg["id2"].to_numpy()
    names = ["x", "I(x ** 2)"]
    plain = MixedLinearRegression(2, shared_sigma=False, random_state=0)
    plain.fit(pd.DataFrame(X, columns=names), y, groups=groups)
    X = pd.DataFrame(X, columns=names)
    np.testing.assert_array_equal(grouped.coef_, plain.coef_)
    for method in ("responsibilities", "assign", "covariance", "aic", "bic", "icl"):
        np.testing.assert_array_equal(getattr(grouped, method)(npreg), getattr(plain, method)(X, y, groups=groups))
    assert grouped.score(npreg) == plain.score(X, y, groups=groups) == pytest.approx(grouped.log_likelihood_ / 200)
    assert grouped.score(npreg.drop(columns="id2")) == plain.score(X, y)
    np.testing.assert_array_equal(grouped.predict(npreg), plain.predict(X, groups))
    np.testing.assert_array_equal(grouped.predict(npreg[["x"]]), plain.predict(X))
    np.testing.assert_array_equal(grouped.predict_components(npreg), plain.predict_components(X))
    np.testing.assert_array_equal(grouped.predict_density(npreg), plain.predict_density(X, y, groups))
    np.testing.assert_array_equal(
        grouped.predict_quantile(npreg, [0.1, 0.9]), plain.predict_quantile(X, [0.1, 0.9], groups)
    )
    assert str(grouped.confidence_intervals(npreg)) == str(plain.confidence_intervals(X, y, groups=groups))
    assert grouped.wald_test("I(x ** 2)[1] = 0", npreg).p_value > 0.1
    assert grouped.bootstrap(npreg, n_boot=3, random_state=0).draws.shape == (3, 10)
    np.testing.assert_array_equal(grouped.predict(X), plain.predict(X))
    sampled, _ = grouped.sample(npreg, random_state=0)
    assert sampled.shape == (200,)


def test_polars_and_dictionaries(grouped, npreg):
    columns = {name: npreg[name].to_numpy() for name in npreg}
    other = MixedLinearRegression.from_formula(NPREG, pl.DataFrame(columns), 2, shared_sigma=False, random_state=0)
    np.testing.assert_array_equal(other.coef_, grouped.coef_)
    np.testing.assert_array_equal(grouped.predict(pl.DataFrame(columns)), grouped.predict(npreg))
    np.testing.assert_array_equal(grouped.predict(columns), grouped.predict(npreg))


def test_the_formula_decides_on_the_intercept(tone, mixed):
    without = MixedLinearRegression.from_formula("tuned ~ stretchratio - 1", tone, random_state=0)
    assert not without.fitted_.constraints.intercept
    assert np.all(without.intercept_ == 0)
    same = MixedLinearRegression.from_formula("tuned ~ 0 + stretchratio", tone, random_state=0)
    np.testing.assert_array_equal(same.coef_, without.coef_)
    every = MixedLinearRegression.from_formula("y ~ 0 + x + kind", mixed, random_state=0)
    fewer = MixedLinearRegression.from_formula("y ~ x + kind", mixed, random_state=0)
    assert list(every.feature_names_in_) == ["x", "kind[low]", "kind[mid]", "kind[top]"]
    assert list(fewer.feature_names_in_) == ["x", "kind[T.mid]", "kind[T.top]"]
    assert every.log_likelihood_ == pytest.approx(fewer.log_likelihood_, abs=1e-4)
    pair = MixedLinearRegression.from_formula("y ~ x + kind", mixed, symmetric=True, random_state=0)
    assert list(pair.feature_names_in_) == ["x", "kind[low]", "kind[mid]", "kind[top]"]
    with pytest.raises(ValueError, match="fit_intercept is the formula's to say"):
        MixedLinearRegression.from_formula("tuned ~ stretchratio", tone, fit_intercept=False)


def test_categories_keep_their_columns(mixed):
    fit = MixedLinearRegression.from_formula("y ~ x + kind + C(n)", mixed, random_state=0)
    assert "C(n)[T.2][1]" in fit.parameter_names_
    few = mixed.iloc[:2]
    np.testing.assert_allclose(fit.predict(few), fit.predict(mixed)[:2])
    with pytest.raises(ValueError, match=r"levels that were not there in the fit: \{'new'\}"):
        fit.predict(few.assign(kind="new"))
    level = fit.wald_test("kind[T.mid][1] = kind[T.mid][2]", mixed)
    assert level.df == 1


def test_states_of_transforms_are_the_fits(mixed):
    fit = MixedLinearRegression.from_formula("y ~ scale(z) + poly(x, 3)", mixed.assign(x=mixed["x"].abs()))
    few = mixed.assign(x=mixed["x"].abs()).iloc[5:9]
    np.testing.assert_allclose(fit.predict(few), fit.predict(mixed.assign(x=mixed["x"].abs()))[5:9])


def test_weights_may_be_a_column(tone):
    weighted = tone.assign(times=np.arange(150) % 3)
    by_name = MixedLinearRegression.from_formula(
        "tuned ~ stretchratio", weighted, sample_weight="times", random_state=0
    )
    repeated = tone.loc[np.repeat(np.arange(150), weighted["times"])]
    by_rows = MixedLinearRegression.from_formula("tuned ~ stretchratio", repeated, random_state=0)
    np.testing.assert_allclose(by_name.coef_, by_rows.coef_, atol=1e-4)


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("tuned ~ stretch", "no column 'stretch' for the formula 'tuned ~ stretch'; they have stretchratio, tuned"),
        ("tune ~ stretchratio", "no column 'tune'"),
        ("tuned ~ bs(z, df=4)", "no column 'z'"),
        ("tuned ~ stretchratio | listener", "no column 'listener'"),
        ("tuned ~ stretchratio |", "one column after one bar"),
        ("tuned ~ sqrt(stretchratio)", r"calls sqrt\(\), which formulaic does not know"),
        ("tuned ~ stretchratio +", "cannot be read"),
        ("tuned ~ 1", "names no column to explain tuned by"),
        ("stretchratio", "one target and its columns"),
        ("tuned + stretchratio ~ tuned", "one target and its columns"),
    ],
)
def test_formulas_that_cannot_be_fitted(tone, formula, said):
    with pytest.raises(ValueError, match=said):
        MixedLinearRegression.from_formula(formula, tone)


def test_data_that_cannot_be_fitted(tone, fit):
    with pytest.raises(ValueError, match="column 'stretchratio' has no value in row 3"):
        MixedLinearRegression.from_formula(
            "tuned ~ stretchratio", tone.assign(stretchratio=tone["stretchratio"].where(tone.index != 3))
        )
    with pytest.raises(ValueError, match=r"with named columns \(got ndarray\)"):
        MixedLinearRegression.from_formula("tuned ~ stretchratio", tone.to_numpy())
    with pytest.raises(ValueError, match=r"column 'log\(stretchratio - 2\)'"), np.errstate(all="ignore"):
        MixedLinearRegression.from_formula("tuned ~ log(stretchratio - 2)", tone)
    with pytest.raises(ValueError, match="they have tuned"):
        fit.predict(tone[["tuned"]])


def test_the_bar_is_outside_brackets():
    assert split_bar("y ~ x | id") == ("y ~ x ", "id")
    assert split_bar("y ~ I(a | b)") == ("y ~ I(a | b)", None)
    assert split_bar("y ~ `a|b` | `my id`") == ("y ~ `a|b` ", "my id")
    assert ModelFormula("y ~ x | id").group == "id"


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ x + kind + C(n)",
        "log(y + 99) ~ center(z) + poly(z**2, 2) + bs(x, df=4) | n",
        "y ~ . - n",
        "y ~ x * C(kind, contr.sum)",
        "y ~ np.exp(x) - 1",
    ],
)
def test_json_keeps_the_formula(mixed, tmp_path, formula):
    fit = MixedLinearRegression.from_formula(formula, mixed, random_state=0)
    fit.save(tmp_path / "m.json")
    again = MixedLinearRegression.load(tmp_path / "m.json")
    assert again.formula_ == fit.formula_
    few = mixed.iloc[::100]
    np.testing.assert_array_equal(again.predict(few), fit.predict(few))
    assert again.score(mixed) == fit.score(mixed)
    assert str(again.summary(mixed)) == str(fit.summary(mixed))
    assert again.parameter_names_ == fit.parameter_names_
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fit)).predict(few), fit.predict(few))


def test_json_holds_no_code(mixed, tmp_path):
    fit = MixedLinearRegression.from_formula("y ~ x", mixed, random_state=0)
    fit.save(tmp_path / "m.json")
    content = json.loads((tmp_path / "m.json").read_text())
    for code in (
        "I(open('/tmp/x'))",
        "I(x.__class__)",
        "np.save('f', x)",
        "I((lambda: x)())",
        "I(__import__('os'))",
        "I([x for x in x])",
    ):
        content["formula"]["text"] = f"y ~ {code}"
        (tmp_path / "bad.json").write_text(json.dumps(content))
        with pytest.raises(ValueError, match="may not hold"):
            MixedLinearRegression.load(tmp_path / "bad.json")
    odd = MixedLinearRegression.from_formula("y ~ np.nan_to_num(x)", mixed, random_state=0)
    assert np.all(np.isfinite(odd.predict(mixed)))
    with pytest.raises(
        ValueError, match=r"can be fitted but cannot be saved: .*np\.nan_to_num.*put what it computes into"
    ):
        odd.save(tmp_path / "odd.json")
    assert not (tmp_path / "odd.json").exists()


def test_the_target_is_taken_through_the_formula_or_not_at_all(mixed):
    charges = mixed.assign(charges=np.exp(mixed["y"]))
    fit = MixedLinearRegression.from_formula("np.log(charges) ~ x", charges, random_state=0)
    right = MixedLinearRegression.from_formula("y ~ x", charges, random_state=0)
    np.testing.assert_allclose(fit.responsibilities(charges), right.responsibilities(charges), atol=1e-9)
    for method in ("responsibilities", "assign", "score", "bic", "predict_density", "predict_cdf", "covariance"):
        np.testing.assert_array_equal(getattr(fit, method)(charges, charges["charges"]), getattr(fit, method)(charges))
        with pytest.raises(ValueError, match=r"explains np\.log\(charges\) and takes it from the data frame"):
            getattr(fit, method)(charges, charges["charges"] + 1)
    assert fit.predict_density(charges, [[1.0, 2.0]]).shape == (400, 2)
    np.testing.assert_array_equal(right.assign(charges, charges["y"]), right.assign(charges))
    design = pd.DataFrame({"x": charges["x"]})
    np.testing.assert_array_equal(fit.assign(design, charges["y"]), fit.assign(charges))


def test_a_new_fit_forgets_the_formula(tone):
    fit = MixedLinearRegression.from_formula("tuned ~ stretchratio", tone, random_state=0)
    with pytest.raises(ValueError, match="a formula needs a data frame"):
        fit.fit(tone[["stretchratio"]].to_numpy(), tone["tuned"])
    fit.set_params(formula=None).fit(tone[["stretchratio"]].to_numpy(), tone["tuned"])
    assert not hasattr(fit, "formula_")


def test_selection_by_formula(npreg):
    chosen = wmlr.select_components(npreg, n_components=[1, 2, 3], formula=NPREG)
    assert chosen.best == 2
    assert chosen.estimator.formula_.text == NPREG
    assert chosen.estimator.predict(npreg).shape == (200,)


def test_without_formulaic_one_line_says_so():
    code = (
        "import sys; sys.modules['formulaic'] = None\n"
        "import wmlr\n"
        "try:\n    wmlr.MixedLinearRegression.from_formula('y ~ x', {'x': [1.0], 'y': [1.0]})\n"
        "except ImportError as error:\n    print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "formulas need formulaic: pip install 'wmlr[formula]'"


def test_a_column_may_have_the_name_of_a_contrast():
    data = {"Treatment": ["no", "yes", "no", "yes"], "day": [1.0, 2.0, 3.0, 5.0], "y": [1.0, 2.0, 3.5, 4.0]}
    found = ModelFormula.read("y ~ Treatment * day", data)
    assert found.variables == ["Treatment", "day"]
    assert found.numeric(pd.DataFrame(data)) == ["day"]
