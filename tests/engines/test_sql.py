"""Rows of a database give the fit that arrays give, in bounded memory, and what is not a number is named."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from wmlr import MixedLinearRegression
from wmlr.datasets import make_mixed_regression
from wmlr.engines import SqlRows
from wmlr.engines.databases import hide_password
from wmlr.io.table import MissingExtraError

COLUMNS = ("x0", "x1", "x2", "y", "id", "city", "times")


@pytest.fixture(scope="module")
def data():
    made = make_mixed_regression(3000, 3, snr=8, groups=10, random_state=3)
    order = np.random.default_rng(0).permutation(len(made.y))
    city = np.array(["Köln", 'O"Hare'])[np.arange(len(made.y)) % 2]
    times = np.arange(len(made.y)) % 3 + 1
    columns = (*made.X.T, made.y, made.groups, city, times)
    return {name: np.asarray(values)[order] for name, values in zip(COLUMNS, columns)}


@pytest.fixture(scope="module")
def rows_of(data):
    return list(zip(*(values.tolist() for values in data.values())))


@pytest.fixture(scope="module")
def duck(data, tmp_path_factory):
    path = tmp_path_factory.mktemp("duck") / "rows.duckdb"
    table = pa.table(data)
    with duckdb.connect(str(path)) as connection:
        connection.register("given", table)
        connection.execute("CREATE TABLE rows AS SELECT * FROM given")
    return str(path)


@pytest.fixture(scope="module")
def sqlite(rows_of, tmp_path_factory):
    path = tmp_path_factory.mktemp("lite") / "rows.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE rows (x0, x1, x2, y, id INTEGER, city TEXT, times)")
        connection.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?)", rows_of)
    connection.close()
    return str(path)


def _postgres() -> str | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return str(found[-1]) if found else shutil.which("postgres")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def postgres(data):
    """A server of its own, on loopback, ended by its process id."""
    program = _postgres()
    if program is None:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="wmlr-postgres-"))  # short, for its socket, and open to its own user
    place, port = folder / "data", _free_port()
    as_user: dict[str, str] = {}
    if os.getuid() == 0:
        as_user = {"user": "postgres", "group": "postgres"}
        shutil.chown(folder, "postgres")
    initdb = str(Path(program).with_name("initdb"))
    subprocess.run([initdb, "-D", place, "-A", "trust", "-U", "wmlr"], check=True, capture_output=True, **as_user)
    options = ["-p", str(port), "-k", str(folder), "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]
    server = subprocess.Popen([program, "-D", place, *options], stderr=subprocess.DEVNULL, **as_user)
    address = f"postgresql://wmlr:secret@127.0.0.1:{port}/postgres"
    try:
        _fill(address, data)
        yield address
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(30)
        shutil.rmtree(folder)


def _fill(address, data):
    from adbc_driver_postgresql import dbapi

    for _ in range(100):
        try:
            connection = dbapi.connect(address)
            break
        except dbapi.Error:
            time.sleep(0.1)
    with connection, connection.cursor() as cursor:
        cursor.adbc_ingest("given", pa.table(data), mode="create")
        cursor.execute("CREATE TABLE rows AS SELECT x0, x1::numeric, x2::real, y, id, city, times FROM given")
        cursor.execute("CREATE SEQUENCE counted")
        connection.commit()


@pytest.fixture(params=["duck", "sqlite", "postgres"])
def database(request):
    return request.getfixturevalue(request.param)


def _features(data, database):
    X = np.column_stack([data["x0"], data["x1"], data["x2"]])
    if database.startswith("postgresql"):
        X[:, 2] = X[:, 2].astype(np.float32)
    return X


def test_a_database_gives_the_fit_of_arrays(database, data):
    rows = SqlRows(database, "rows", "y", ["x0", "x1", "x2"], weight="times", block_rows=700)
    fit = MixedLinearRegression(2, random_state=0).fit_on(rows)
    X = _features(data, database)
    same = MixedLinearRegression(2, random_state=0).fit(X, data["y"], sample_weight=data["times"])
    np.testing.assert_allclose(fit.coef_, same.coef_, rtol=1e-6)
    np.testing.assert_allclose(fit.log_likelihood_, same.log_likelihood_, rtol=1e-10)


def test_groups_that_lie_apart_are_sorted_by_the_database(database, data):
    rows = SqlRows(database, "rows", "y", ["x0", "x1", "x2"], groups="id", block_rows=700)
    fit = MixedLinearRegression(2, random_state=0).fit_on(rows)
    same = MixedLinearRegression(2, random_state=0).fit(_features(data, database), data["y"], groups=data["id"])
    np.testing.assert_allclose(fit.coef_, same.coef_, rtol=1e-6)
    assert rows.n_groups == 300


def test_a_query_may_choose_and_name_the_columns(database, data):
    query = 'SELECT x0 AS "a""b", y FROM rows WHERE city = \'Köln\';'
    rows = SqlRows(database, query, "y")
    assert rows.feature_names == ['a"b']
    assert rows.n_rows == 1500
    chosen = data["city"] == "Köln"
    fit = MixedLinearRegression(1).fit_on(rows)
    line = np.polyfit(data["x0"][chosen], data["y"][chosen], 1)
    np.testing.assert_allclose([fit.coef_[0, 0], fit.intercept_[0]], line, rtol=1e-8)


def test_text_columns_are_left_out_and_named(database):
    rows = SqlRows(database, "rows", "y")
    assert rows.feature_names == ["x0", "x1", "x2", "id", "times"]
    assert rows.left_out[0].startswith("city (")


def test_an_open_connection_is_read_through_a_cursor_of_its_own(data):
    with duckdb.connect() as connection:
        connection.register("given", pa.table(data))
        connection.execute("CREATE TABLE mine AS SELECT * FROM given")
        rows = SqlRows(connection, "mine", "y", ["x0"])
        assert MixedLinearRegression(1).fit_on(rows).converged_


def test_text_among_the_numbers_of_sqlite_is_refused_and_never_read_as_zero(tmp_path):
    path = tmp_path / "mixed.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (x, y)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(i, i * 0.5) for i in range(3000)])
        connection.execute("INSERT INTO t VALUES ('n/a', 1.0)")
    connection.close()
    with pytest.raises(ValueError, match=r"column 'x' of t of .* holds text in 1 rows"):
        MixedLinearRegression(1).fit_on(SqlRows(path, "t", "y"))


def test_whole_numbers_that_go_on_as_fractions_are_read_in_full(tmp_path):
    path = tmp_path / "mixed.db"
    x = np.arange(3000.0)
    y = np.where(x < 2000, x, x + 0.25)
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (x, y)")
        pairs = [(int(a), int(b) if b == int(b) else b) for a, b in zip(x, y)]
        connection.executemany("INSERT INTO t VALUES (?, ?)", pairs)
    connection.close()
    fit = MixedLinearRegression(1).fit_on(SqlRows(path, "t", "y"))
    slope, start = np.polyfit(x, y, 1)
    np.testing.assert_allclose([fit.coef_[0, 0], fit.intercept_[0]], [slope, start], atol=1e-6)


def test_a_missing_number_is_named_with_its_row(database):
    query = "SELECT CASE WHEN id = 7 THEN NULL ELSE x0 END AS x, y FROM rows"
    with pytest.raises(ValueError, match=r"column 'x' of .* has no number in row"):
        MixedLinearRegression(1).fit_on(SqlRows(database, query, "y"))


@pytest.mark.parametrize(
    ("query", "target", "match"),
    [
        ("nowhere", "y", "nowhere"),
        ("rows", "why", "has no column 'why' for target"),
        ("SELECT * FROM rows WHERE id < -1", "y", "has no rows"),
        ("  ", "y", "query is empty"),
    ],
)
def test_what_is_not_there_is_said(database, query, target, match):
    with pytest.raises(ValueError, match=match):
        SqlRows(database, query, target)


def test_an_unknown_place_is_refused_without_its_password():
    with pytest.raises(ValueError, match=r"no database is known by 'mysql://a:\*\*\*@host/b'"):
        SqlRows("mysql://a:hidden@host/b", "t", "y")
    assert hide_password("postgresql://a@host/b") == "postgresql://a@host/b"


def test_a_server_that_is_not_there_is_said_without_its_password():
    with pytest.raises(ValueError, match=r"a:\*\*\*@127\.0\.0\.1.* cannot be opened") as caught:
        SqlRows(f"postgresql://a:hidden@127.0.0.1:{_free_port()}/b", "t", "y")
    assert "hidden" not in str(caught.value)


def test_a_file_that_is_not_there_is_not_made(tmp_path):
    for name in ("new.sqlite", "new.duckdb"):
        with pytest.raises(ValueError, match="there is no file"):
            SqlRows(tmp_path / name, "t", "y")
    assert not list(tmp_path.iterdir())


def test_other_writers_change_nothing_in_the_middle_of_a_fit(postgres):
    from adbc_driver_postgresql import dbapi

    rows = SqlRows(postgres, "rows", "y", ["x0"])
    first = MixedLinearRegression(1).fit_on(rows).coef_
    with dbapi.connect(postgres) as connection, connection.cursor() as cursor:
        cursor.execute("UPDATE rows SET y = y + 100 * x0")
        connection.commit()
        again = MixedLinearRegression(1).fit_on(rows).coef_
        cursor.execute("UPDATE rows SET y = y - 100 * x0")
        connection.commit()
    np.testing.assert_array_equal(first, again)


def test_a_missing_driver_is_named(monkeypatch, duck):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'wmlr\[sql\]'"):
        SqlRows(duck, "rows", "y")


MEASURE = """
import sys
from wmlr import MixedLinearRegression
from wmlr.engines import SqlRows

def memory(what):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith(what))

def fit(path, table):
    return MixedLinearRegression(1).fit_on(SqlRows(path, table, "y", block_rows=16384))

fit(sys.argv[1], "few")
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")
before = memory("VmRSS")
fit(sys.argv[1], "many")
print(memory("VmHWM") - before)
"""


def test_a_table_of_any_size_takes_the_memory_of_a_few_blocks(tmp_path):
    path = tmp_path / "many.sqlite"
    with sqlite3.connect(path) as connection:
        for table, count in (("few", 40_000), ("many", 200_000)):
            connection.execute(
                f"CREATE TABLE {table} AS "
                f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {count}) "
                "SELECT i % 17 AS a, i % 31 AS b, i % 7 AS c, i % 11 AS d, i % 13 AS e, (i * 7919) % 101 AS y FROM n"
            )
    connection.close()
    found = subprocess.run([sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=True)
    assert float(found.stdout) < 200_000 * 6 * 8 / 2**20  # what all rows would take: 9 MB


def test_nothing_is_written_to_a_server(postgres):
    """A transaction that may only read, and one statement at a time."""
    out = "SELECT x0, y FROM rows) AS r; COMMIT; DROP TABLE rows; SELECT * FROM (SELECT 1.0 AS x0, 2.0 AS y"
    for query in (out, "SELECT x0, y, nextval('counted') AS made FROM rows"):
        with pytest.raises(ValueError, match=r"multiple commands|read-only transaction"):
            SqlRows(postgres, query, "y")
    assert SqlRows(postgres, "rows", "y").n_rows == 3000
