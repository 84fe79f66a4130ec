"""Columns of an engine's rows that are offsets, exposures or trials: the fit is that of the rows in memory."""

import sqlite3

import numpy as np
import pandas as pd
import pytest

from wmlr import MixedLinearRegression, Mixture
from wmlr.engines import CsvRows, ParquetRows, SqlRows
from wmlr.families import family
from wmlr.federated import Federation

N = 240


def table(given):
    generator, law = np.random.default_rng(2), family(given)
    X = generator.standard_normal((N, 2))
    beside = {"offset": 0.4 * generator.standard_normal(N)}
    if law.takes_trials:
        beside["trials"] = generator.integers(4, 12, N).astype(float)
    lines, high = np.array([[0.5, -0.3], [-0.4, 0.4]]), np.array([2.0, 0.2])
    truth = Mixture(lines, high, np.array([0.6, 0.4]), np.full(2, 0.3), family=law)
    y, _ = truth.sample(X, generator, beside=beside)
    frame = pd.DataFrame({"a": X[:, 0], "hours": np.exp(beside["offset"]), "b": X[:, 1], **beside, "y": y})
    return frame, np.column_stack([lines, high])


def sql(frame, path):
    with sqlite3.connect(path / "rows.db") as base:
        frame.to_sql("rows", base, index=False)
    return SqlRows(path / "rows.db", "SELECT * FROM rows", "y")


def parquet(frame, path):
    frame.to_parquet(path / "rows.parquet")
    return ParquetRows(path / "rows.parquet", "y")


def csv(frame, path):
    frame.to_csv(path / "rows.csv", index=False)
    return CsvRows(path / "rows.csv", "y")


def agents(frame, path):
    return Federation.split(frame.drop(columns="y"), frame["y"], np.arange(N) % 4)


@pytest.mark.parametrize("engine", [sql, parquet, csv, agents])
@pytest.mark.parametrize("given", ["poisson", "binomial", "normal"])
def test_a_fit_with_columns_in_roles_is_that_of_the_rows_in_memory(given, engine, tmp_path):
    frame, start = table(given)
    roles = [role for role in ("offset", "trials") if role in frame]
    kept = frame.drop(columns="hours")
    rows = engine(kept, tmp_path)
    central, away = (MixedLinearRegression(2, family=given, start=start) for _ in range(2))
    X, beside = frame[["a", "b"]], {role: frame[role] for role in roles}
    central.fit(X, frame["y"], **beside)
    columns = dict(zip(roles, roles))
    away.fit_on(rows, **columns)
    assert list(away.feature_names_in_) == ["a", "b"]
    np.testing.assert_allclose(away.coef_, central.coef_, rtol=1e-7, atol=1e-8)
    assert away.log_likelihood_ == pytest.approx(central.log_likelihood_, rel=1e-9)
    errors = central.covariance(X, frame["y"], **beside)
    np.testing.assert_allclose(away.covariance_on(rows, **columns), errors, rtol=1e-5, atol=1e-9)
    if engine is not agents:
        np.testing.assert_allclose(away.predict_on(rows, **columns), central.predict(X, **beside), rtol=1e-6)
        shares = central.responsibilities(X, frame["y"], **beside)
        np.testing.assert_allclose(away.responsibilities_on(rows, **columns), shares, atol=1e-6)


def test_an_exposure_is_an_offset_by_its_logarithm(tmp_path):
    frame, start = table("poisson")
    rows = parquet(frame.drop(columns="offset"), tmp_path)
    one = MixedLinearRegression(2, family="poisson", start=start).fit_on(rows, exposure="hours")
    other = MixedLinearRegression(2, family="poisson", start=start).fit_on(rows, exposure=1)
    central = MixedLinearRegression(2, family="poisson", start=start).fit(frame[["a", "b"]], frame["y"],
                                                                          exposure=frame["hours"])  # fmt: skip
    np.testing.assert_array_equal(one.coef_, other.coef_)
    np.testing.assert_allclose(one.coef_, central.coef_, rtol=1e-7)
    frame.loc[3, "hours"] = 0.0
    with pytest.raises(ValueError, match="exposure must be positive"):
        MixedLinearRegression(2, family="poisson").fit_on(parquet(frame, tmp_path), exposure="hours")


def test_columns_that_are_not_there_or_of_no_use_are_refused(tmp_path):
    frame, _ = table("poisson")
    rows = parquet(frame, tmp_path)
    with pytest.raises(ValueError, match="offset= names a column that is not there"):
        MixedLinearRegression(2, family="poisson").fit_on(rows, offset="time")
    with pytest.raises(ValueError, match="two names of one thing"):
        MixedLinearRegression(2, family="poisson").fit_on(rows, offset="hours", exposure="hours")
    with pytest.raises(ValueError, match="family='binomial'"):
        MixedLinearRegression(2, family="poisson").fit_on(rows, trials="hours")
    with pytest.raises(ValueError, match="symmetric"):
        MixedLinearRegression(2, symmetric=True).fit_on(rows, offset="hours")
