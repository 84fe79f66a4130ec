"""Rows on a Spark cluster give the fit that arrays give, and an executor that is lost changes nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from wmlr import MixedLinearRegression, SparkRows, bench
from wmlr.bench import _cluster
from wmlr.cli import app
from wmlr.datasets import make_mixed_regression
from wmlr.engines import spark as engine
from wmlr.io.table import MissingExtraError

pytestmark = [
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java: apt-get install default-jre-headless"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

FEATURES = ["a", "b.`1", "c d"]  # dots and backticks, which Spark takes for more than signs
FEW_ROUNDS = {"method": "em", "start": "random", "tol": 0.0, "max_iter": 5, "random_state": 0}
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java compiles each method once, and little: sessions of a minute spend more on compiling than they get back."""


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """Two executors in processes of their own, for all tests: Java takes most of the time, and starts once."""
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master("local-cluster[2,1,512]").appName("wmlr")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "4",
        "spark.task.maxFailures": "2",
        "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.executor.memory": "512m",
        "spark.driver.extraJavaOptions": QUICK_START,
        "spark.executor.extraJavaOptions": QUICK_START,
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    running = builder.getOrCreate()
    running.sparkContext.setLogLevel("OFF")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def data():
    return make_mixed_regression(4000, 3, snr=6, groups=10, random_state=1)


def test_an_offset_is_a_column_of_the_cluster(session):
    generator = np.random.default_rng(0)
    X, offset = generator.standard_normal((300, 1)), generator.standard_normal(300)
    y = generator.poisson(np.exp(np.where(np.arange(300) % 3, 0.2, 2.0) + 0.5 * X[:, 0] + offset))
    frame = pd.DataFrame({"x": X[:, 0], "log time": offset, "y": y})
    settings = {"family": "poisson", "start": [[0.5, 0.2], [0.5, 2.0]]}
    rows = SparkRows(session.createDataFrame(frame), "y")
    found = MixedLinearRegression(2, **settings).fit_on(rows, offset="log time")
    wanted = MixedLinearRegression(2, **settings).fit(X, y, offset=offset)
    np.testing.assert_allclose(found.coef_, wanted.coef_, rtol=1e-8)
    predicted = found.predict_on(rows, offset="log time").toPandas()["predicted"]
    np.testing.assert_allclose(np.sort(predicted), np.sort(wanted.predict(X, offset=offset)), rtol=1e-7)


@pytest.fixture(scope="module")
def table(data):
    frame = pd.DataFrame(data.X, columns=FEATURES).assign(y=data.y, id=data.groups, w=1 + np.arange(4000) % 3)
    named = frame.assign(name="n" + frame["id"].astype(str)).sample(frac=1, random_state=0)
    return pa.Table.from_pandas(named, preserve_index=False)


@pytest.fixture(scope="module")
def frame(session, table):
    return session.createDataFrame(table).repartition(3).cache()


def test_a_cluster_gives_the_fit_and_the_errors_of_arrays(frame, data):
    rows = SparkRows(frame, "y", FEATURES, weight="w")
    start = np.column_stack([data.coef, [0.0, 0.0]])
    fit = MixedLinearRegression(2, start=start).fit_on(rows)
    weight = 1 + np.arange(4000) % 3
    same = MixedLinearRegression(2, start=start).fit(data.X, data.y, sample_weight=weight)
    np.testing.assert_allclose(fit.coef_, same.coef_, rtol=1e-9)
    np.testing.assert_allclose(fit.log_likelihood_, same.log_likelihood_, rtol=1e-12)
    np.testing.assert_allclose(
        fit.covariance_on(rows), same.covariance(data.X, data.y, sample_weight=weight), rtol=1e-6, atol=1e-12
    )
    assert rows.n_rows == 4000
    assert rows.n_units == weight.sum()
    rows.release()
    assert MixedLinearRegression(1).fit_on(rows).converged_


def test_groups_are_brought_together(frame, data):
    rows = SparkRows(frame, "y", FEATURES, groups="name")
    fit = MixedLinearRegression(2, **FEW_ROUNDS).fit_on(rows)
    same = MixedLinearRegression(2, **FEW_ROUNDS).fit(data.X, data.y, groups=data.groups)
    assert rows.n_groups == 400
    np.testing.assert_allclose(fit.coef_, same.coef_, rtol=1e-9)


@pytest.mark.long
def test_many_partitions_add_their_answers_on_the_executors(frame, data, monkeypatch):
    monkeypatch.setattr(engine, "FAN_IN", 2)
    rows = SparkRows(frame, "y", FEATURES)
    fit = MixedLinearRegression(2, **FEW_ROUNDS).fit_on(rows)
    monkeypatch.setattr(engine, "FAN_IN", 64)
    again = MixedLinearRegression(2, **FEW_ROUNDS).fit_on(rows)
    np.testing.assert_allclose(fit.coef_, again.coef_, rtol=1e-10)


def count_frozen(batches):
    import gc

    list(batches)
    yield pa.record_batch([pa.array([gc.get_freeze_count()])], ["frozen"])


def test_garbage_is_not_sought_in_what_executors_imported(frame):
    """Spark collects it after every task; to look through all modules took ten times what the task did."""
    assert MixedLinearRegression(1).fit_on(SparkRows(frame, "y", FEATURES)).converged_
    assert max(row["frozen"] for row in frame.select("y").mapInArrow(count_frozen, "frozen bigint").collect()) > 10_000


def test_tables_and_folders_are_read_by_their_names(session, frame, tmp_path):
    frame.createOrReplaceTempView("rows")
    assert SparkRows("rows", "y").feature_names == [*FEATURES, "id", "w"]
    assert SparkRows("rows", "y").left_out == ["name (string)"]
    frame.write.parquet(str(tmp_path / "folder"))
    assert SparkRows(str(tmp_path / "folder"), "y", FEATURES).n_rows == 4000


def test_what_is_no_number_is_named_before_a_fit(session, frame):
    with pytest.raises(ValueError, match="there is no column 'why' for target; there are a, b"):
        SparkRows(frame, "why")
    with pytest.raises(ValueError, match="column 'name' holds string, not numbers"):
        SparkRows(frame, "y", ["a", "name"])
    with pytest.raises(ValueError, match="column 'a' is named twice"):
        SparkRows(frame, "y", ["a", "a"])
    with pytest.raises(ValueError, match="needs a Spark DataFrame"):
        SparkRows(np.eye(3), "y")
    with pytest.raises(ValueError, match="no rows"):
        SparkRows(frame.where("a > 1e9"), "y", FEATURES)
    gaps = frame.selectExpr("a", "CASE WHEN id = 3 THEN NULL ELSE y END AS y")
    with pytest.raises(ValueError, match=r"partition \d: .*y"):
        SparkRows(gaps, "y")


def test_predictions_are_a_column_of_the_frame(frame, data):
    fit = MixedLinearRegression(2, search="quick", random_state=0).fit(data.X, data.y, groups=data.groups)
    rows = SparkRows(frame, "y", FEATURES, groups="id")
    scored = fit.responsibilities_on(rows).toPandas()
    assert scored.columns.tolist() == [*frame.columns, "component_1", "component_2"]
    shares = fit.responsibilities(scored[FEATURES].to_numpy(), scored["y"].to_numpy(), groups=scored["id"])
    np.testing.assert_allclose(scored[["component_1", "component_2"]], shares, atol=1e-10)
    predicted = fit.predict_on(SparkRows(frame, "y", FEATURES)).toPandas()
    np.testing.assert_allclose(predicted["predicted"], fit.predict(predicted[FEATURES].to_numpy()), rtol=1e-10)


@pytest.mark.long
def test_single_floats_stay_single(frame):
    rows = SparkRows(frame.selectExpr("CAST(a AS FLOAT) AS a", "CAST(b AS FLOAT) AS b", "y"), "y")
    assert rows.nbytes == 4000 * 2 * 4
    assert MixedLinearRegression(1).fit_on(rows).converged_


def test_a_missing_extra_is_named(monkeypatch, frame):
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'wmlr\[spark\]'"):
        SparkRows(frame, "y")


def _executors(parent: int) -> list[int]:
    """The processes of executors below a process."""
    found, waiting = [], [parent]
    while waiting:
        with suppress(FileNotFoundError, ProcessLookupError):  # of one that has ended meanwhile
            for children in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
                for child in map(int, children.read_text().split()):
                    waiting.append(child)
                    if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{child}/cmdline").read_bytes():
                        found.append(child)
    return found


def test_rows_with_gaps_are_left_out_and_counted_where_asked(session, table):
    gappy = table.to_pandas()
    gappy.loc[[3, 7], "a"] = np.nan
    frame = session.createDataFrame(pa.Table.from_pandas(gappy, preserve_index=False))
    with pytest.raises(ValueError, match="missing must be 'raise' or 'drop'"):
        SparkRows(frame, "y", FEATURES, missing="ignore")
    rows = SparkRows(frame, "y", FEATURES, missing="drop")
    assert (rows.dropped, rows.n_rows) == (2, len(table) - 2)


def test_the_command_fits_a_table_and_a_folder(session, table, tmp_path):
    frame = session.createDataFrame(table)
    frame.createOrReplaceTempView("curves")
    frame.write.parquet(str(tmp_path / "rows.parquet"))
    rows = table.to_pandas()
    quick = MixedLinearRegression(2, search="quick", random_state=0)
    wanted = quick.fit(rows[FEATURES].to_numpy(), rows["y"].to_numpy())
    wanted.save(tmp_path / "model.json")
    begun = ["--start", str(tmp_path / "model.json")]
    for name, how in (("curves", ["--search", "quick"]), (str(tmp_path / "rows.parquet"), begun)):
        words = ["fit", name, "--spark", "--target", "y", "--features", ",".join(FEATURES), *how, "--json"]
        said = json.loads(CliRunner().invoke(app, words, prog_name="wmlr").stdout)
        assert said["log_likelihood"] == pytest.approx(wanted.log_likelihood_, abs=1e-6)
        assert said["n_rows"] == len(table)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere", "--target", "y"], "Spark cannot read 'nowhere'"),
        (["curves", "--formula", "y ~ a"], "--formula needs the rows here"),
        (["curves", "--target", "y", "--stream"], "leave out --stream"),
        (["curves", "--target", "y", "--report", "page.html"], "--report draws some of the rows"),
        (["curves", "--target", "y", "--exclude", "z"], "there is no column 'z' to leave out"),
    ],
)
def test_what_the_command_cannot_do_on_a_cluster_is_said_in_one_line(session, table, words, said):
    session.createDataFrame(table).createOrReplaceTempView("curves")
    outcome = CliRunner().invoke(app, ["fit", *words, "--spark"], prog_name="wmlr")
    assert outcome.exit_code == 2
    assert said in outcome.stderr


@pytest.mark.long
def test_the_benchmark_compares_spark_with_threads(session, tmp_path, monkeypatch):
    monkeypatch.setattr(_cluster, "MixedLinearRegression", partial(MixedLinearRegression, search="quick"))
    size = {"n_samples": 12_000, "n_features": 3, "times": 1, "parts": 2, "rounds": 2}
    result = bench.run("spark", session=session, **size)
    assert all(len(row) == len(result.columns) for row in result.rows)
    assert bench.write(result, tmp_path).is_file()
    assert [limit["met"] for limit in result.numbers["limits"]] == [True]


def test_an_executor_killed_in_the_midst_of_a_fit_changes_nothing(session, data):
    columns = pa.table({**{name: data.X[:, j] for j, name in enumerate(FEATURES)}, "y": data.y})
    rows = SparkRows(session.createDataFrame(columns).repartition(4), "y", FEATURES)
    victims = _executors(os.getpid())
    assert len(victims) == 2, victims

    def kill() -> None:
        while rows.passes < 3:
            time.sleep(0.01)
        os.kill(victims[0], signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    fit = MixedLinearRegression(2, **FEW_ROUNDS).fit_on(rows)
    killer.join()
    same = MixedLinearRegression(2, **FEW_ROUNDS).fit(data.X, data.y)
    np.testing.assert_allclose(fit.coef_, same.coef_, rtol=1e-9)
    assert rows.passes > 3
    assert victims[0] not in _executors(os.getpid())
