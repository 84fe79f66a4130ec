"""Rows in an engine are scored as rows in memory are, into arrays, files or a cluster's own table."""

from __future__ import annotations

import sqlite3

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import PolynomialFeatures

from wmlr import Federation, MixedLinearRegression, SqlRows
from wmlr.datasets import make_mixed_regression
from wmlr.engines import ArrayRows, CsvRows, DaskRows, NpyRows, ParquetRows


@pytest.fixture(scope="module")
def data():
    return make_mixed_regression(2000, 2, snr=6, groups=5, random_state=2)


@pytest.fixture(scope="module")
def frame(data):
    table = pd.DataFrame(data.X, columns=["a", "b"]).assign(
        y=data.y, id=data.groups, place="p" + pd.Series(data.groups).astype(str)
    )
    return table.sort_values("id", kind="stable", ignore_index=True)


@pytest.fixture(scope="module")
def fit(data):
    return MixedLinearRegression(2, random_state=0).fit(data.X, data.y)


@pytest.fixture(scope="module")
def engines(frame, tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    frame.to_parquet(folder / "rows.parquet")
    frame.to_csv(folder / "rows.csv", index=False)
    np.save(folder / "rows.npy", frame[["a", "b", "y"]].to_numpy())
    with sqlite3.connect(folder / "rows.sqlite") as connection:
        frame.to_sql("rows", connection, index=False)
    connection.close()
    named = {"features": ["a", "b"], "block_rows": 300}
    return {
        "arrays": ArrayRows(frame[["a", "b"]].to_numpy(), frame["y"].to_numpy(), block_rows=300),
        "parquet": ParquetRows(folder / "rows.parquet", "y", **named),
        "csv": CsvRows(folder / "rows.csv", "y", **named),
        "npy": NpyRows(folder / "rows.npy", -1, block_rows=300),
        "sqlite": SqlRows(folder / "rows.sqlite", "rows", "y", **named),
    }


@pytest.mark.parametrize("name", ["arrays", "parquet", "csv", "npy", "sqlite"])
def test_every_engine_scores_as_arrays_do(name, engines, fit, frame):
    X, y = frame[["a", "b"]].to_numpy(), frame["y"].to_numpy()
    np.testing.assert_allclose(fit.predict_on(engines[name]), fit.predict(X), rtol=1e-12)
    np.testing.assert_allclose(fit.responsibilities_on(engines[name]), fit.responsibilities(X, y), atol=1e-12)


@pytest.mark.parametrize("out", ["scored.parquet", "scored.csv"])
def test_a_file_of_scores_has_the_columns_that_were_read(out, engines, fit, frame, tmp_path):
    path = fit.responsibilities_on(engines["parquet"], tmp_path / out)
    scored = pd.read_parquet(path) if out.endswith("parquet") else pd.read_csv(path)
    assert scored.columns.tolist() == ["a", "b", "y", "component_1", "component_2"]
    np.testing.assert_allclose(scored["y"], frame["y"])
    shares = fit.responsibilities(frame[["a", "b"]].to_numpy(), frame["y"].to_numpy())
    np.testing.assert_allclose(scored[["component_1", "component_2"]], shares, atol=1e-12)


def test_groups_of_the_rows_share_their_probabilities(frame, data, tmp_path):
    frame.to_parquet(tmp_path / "rows.parquet")
    rows = ParquetRows(tmp_path / "rows.parquet", "y", ["a", "b"], groups="place", block_rows=300)
    fit = MixedLinearRegression(2, random_state=0).fit_on(rows)
    X, y = frame[["a", "b"]].to_numpy(), frame["y"].to_numpy()
    shares = fit.responsibilities(X, y, groups=frame["place"])
    np.testing.assert_allclose(fit.responsibilities_on(rows), shares, atol=1e-12)
    apart = ArrayRows(data.X, data.y, groups=np.unique(data.groups, return_inverse=True)[1])
    np.testing.assert_allclose(fit.responsibilities_on(apart), fit.responsibilities(data.X, data.y, groups=data.groups))


def test_features_are_made_on_the_way(data):
    fit = MixedLinearRegression(2, features=PolynomialFeatures(2, include_bias=False), random_state=0)
    fit.fit(data.X, data.y)
    np.testing.assert_allclose(fit.predict_on(ArrayRows(data.X, data.y)), fit.predict(data.X), rtol=1e-12)


def test_a_dask_cluster_gives_a_table_of_its_own(fit, frame):
    import dask.dataframe as dd
    from dask.distributed import Client

    with Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None):
        rows = DaskRows(dd.from_pandas(frame[["a", "b", "y"]], npartitions=4), "y")
        scored = fit.predict_on(rows).compute()
        with pytest.raises(ValueError, match="leave out out="):
            fit.predict_on(rows, "scored.csv")
    assert scored.columns.tolist() == ["predicted"]
    np.testing.assert_allclose(scored["predicted"], fit.predict(frame[["a", "b"]].to_numpy()), rtol=1e-12)


def test_agents_rows_are_scored_where_they_are(fit, data):
    with pytest.raises(ValueError, match="stay with those who hold them"):
        fit.predict_on(Federation.split(data.X, data.y, data.groups))


def test_rows_of_other_columns_are_refused(fit, data):
    with pytest.raises(ValueError, match="the rows have 1 features"):
        fit.predict_on(ArrayRows(data.X[:, :1], data.y))


def test_a_column_is_never_overwritten_and_nothing_half_written_is_left(fit, frame, tmp_path):
    frame.rename(columns={"b": "predicted"}).to_parquet(tmp_path / "rows.parquet")
    rows = ParquetRows(tmp_path / "rows.parquet", "y", ["a", "predicted"])
    with pytest.raises(ValueError, match="have a column 'predicted' already"):
        fit.predict_on(rows, tmp_path / "out.csv")
    assert [one.name for one in tmp_path.iterdir()] == ["rows.parquet"]
