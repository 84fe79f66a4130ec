"""Rows with gaps: refused, or left out and counted."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from wmlr import MixedLinearRegression, select_components
from wmlr.datasets import make_mixed_regression


@pytest.fixture(scope="module")
def frame():
    data = make_mixed_regression(400, 2, 2, snr=8, random_state=0)
    generator = np.random.default_rng(0)
    return pd.DataFrame({"a": data.X[:, 0], "b": data.X[:, 1], "kind": generator.choice(["u", "v"], 400), "y": data.y})


@pytest.fixture(scope="module")
def holes(frame):
    found = frame.copy()
    found.loc[[3, 10], "a"] = np.nan
    found.loc[10, "b"] = np.nan
    found.loc[20, "kind"] = None
    found.loc[[30, 31], "y"] = np.nan
    return found


LOST = [3, 10, 30, 31]


def same(one, other):
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-8)
    assert one.log_likelihood_ == pytest.approx(other.log_likelihood_)


@pytest.mark.parametrize("kind", ["frame", "array", "sparse", "masked"])
def test_rows_with_gaps_are_dropped_counted_and_blank(frame, holes, kind):
    make = {
        "frame": lambda rows: rows[["a", "b"]],
        "array": lambda rows: rows[["a", "b"]].to_numpy(),
        "sparse": lambda rows: csr_array(rows[["a", "b"]].to_numpy()),
        "masked": lambda rows: np.ma.masked_invalid(rows[["a", "b"]].to_numpy()),
    }[kind]
    whole = frame.drop(index=LOST)
    wanted = MixedLinearRegression(2, random_state=0).fit(make(whole), whole["y"])
    fit = MixedLinearRegression(2, random_state=0, missing="drop").fit(make(holes), holes["y"])
    same(fit, wanted)
    assert fit.dropped_ == 4
    first = "a" if kind == "frame" else "column 0"
    assert fit.gaps_[first] == 2
    assert fit.gaps_["y"] == 2
    means = fit.predict(make(holes))
    assert np.flatnonzero(np.isnan(means)).tolist() == [3, 10]
    np.testing.assert_allclose(np.delete(means, LOST), wanted.predict(make(whole)), rtol=1e-7)
    assert fit.predict_components(make(holes)).shape == (400, 2)
    assert fit.assign(make(holes), holes["y"])[LOST].tolist() == [-1] * 4
    assert np.isnan(fit.responsibilities(make(holes), holes["y"])[LOST]).all()
    region = fit.predict_interval(make(holes), 0.9)
    assert len(region) == 400
    assert np.isnan(region[3]).all()
    assert fit.bic(make(holes), holes["y"]) == pytest.approx(wanted.bic(make(whole), whole["y"]))
    np.testing.assert_allclose(
        fit.covariance(make(holes), holes["y"]), wanted.covariance(make(whole), whole["y"]), rtol=1e-6, atol=1e-12
    )
    assert "left out, with gaps:" in str(fit.summary(make(holes), holes["y"]))


def test_a_formula_drops_rows_with_gaps_in_its_own_columns_alone(frame, holes):
    fit = MixedLinearRegression(2, formula="y ~ a + kind", missing="drop", random_state=0).fit(holes)
    whole = frame.drop(index=[3, 10, 20, 30, 31])
    same(fit, MixedLinearRegression(2, formula="y ~ a + kind", random_state=0).fit(whole))
    assert fit.dropped_ == 5
    assert fit.gaps_ == {"a": 2, "kind": 1, "y": 2}
    assert np.flatnonzero(np.isnan(fit.predict(holes))).tolist() == [3, 10, 20]
    assert np.flatnonzero(fit.assign(holes) < 0).tolist() == [3, 10, 20, 30, 31]
    assert fit.score(holes) == pytest.approx(fit.score(whole))
    assert np.isnan(fit.predict_density(holes)[[3, 30]]).all()


def test_weights_and_groups_may_have_gaps_too(frame):
    weight, groups = np.ones(400), np.repeat(np.arange(100.0), 4)
    weight[5], groups[9] = np.nan, np.nan
    fit = MixedLinearRegression(2, missing="drop", random_state=0).fit(frame[["a", "b"]], frame["y"], weight, groups)
    assert fit.dropped_ == 2
    assert fit.gaps_ == {"sample_weight": 1, "groups": 1}


def test_gaps_are_refused_by_default_with_what_to_do(holes):
    with pytest.raises(ValueError, match=r"row 3, column 'a'\): drop or fill such rows, or set missing='drop'"):
        MixedLinearRegression().fit(holes[["a", "b"]], holes["y"].fillna(0))
    with pytest.raises(ValueError, match="missing must be 'raise' or 'drop'"):
        MixedLinearRegression(missing="omit").fit(holes[["a"]], holes["y"])
    with pytest.raises(ValueError, match="every row has a gap"):
        MixedLinearRegression(missing="drop").fit(holes[["a"]] * np.nan, holes["y"])
    with pytest.raises(ValueError, match="infinity"):
        MixedLinearRegression(missing="drop").fit(holes[["a"]].fillna(np.inf), holes["y"])


def test_a_saved_model_keeps_its_counts_and_its_blanks(holes, tmp_path):
    fit = MixedLinearRegression(2, formula="y ~ a + kind", missing="drop", random_state=0).fit(holes)
    fit.save(tmp_path / "model.json")
    again = MixedLinearRegression.load(tmp_path / "model.json")
    assert (again.dropped_, dict(again.gaps_)) == (fit.dropped_, dict(fit.gaps_))
    np.testing.assert_array_equal(again.predict(holes), fit.predict(holes))
    assert str(again.summary()) == str(fit.summary())


def test_rows_that_are_all_blank_have_blank_predictions(holes):
    fit = MixedLinearRegression(2, missing="drop", random_state=0).fit(holes[["a"]], holes["y"])
    blank = np.full((3, 1), np.nan)
    assert np.isnan(fit.predict(pd.DataFrame(blank, columns=["a"]))).all()
    assert np.isnan(fit.predict_quantile(pd.DataFrame(blank, columns=["a"]), [0.1, 0.9])).all()


def test_selection_drops_rows_with_gaps(holes):
    base = MixedLinearRegression(missing="drop", random_state=0)
    found = select_components(holes, n_components=[1, 2], estimator=base, formula="y ~ a + b", criterion="cv")
    assert found.best == 2
    assert found.estimator.dropped_ == 4
