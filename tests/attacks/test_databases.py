"""A database is read and nothing else: no password is shown, no file of its own choosing opened, nothing written."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from types import SimpleNamespace

import duckdb
import pytest

from wmlr.cli.fit import without_password
from wmlr.engines import SparkRows, SqlRows, dask_sources
from wmlr.engines.databases import hide_password

NOWHERE = "127.0.0.1:1"


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://u:hid/den@{NOWHERE}/d",
        f"postgresql://u:hid#den@{NOWHERE}/d",
        f"postgresql://u:hid?den@{NOWHERE}/d",
        f"postgresql://u:hid@den@{NOWHERE}/d",
        f"postgresql://u:hid den@{NOWHERE}/d",
        f"postgresql://u:hid%zzden@{NOWHERE}/d",
        f"postgresql://u:hid\u2100den@{NOWHERE}/d",
        f"postgresql://u:hidden@[{NOWHERE}/d",
        f"postgresql://{NOWHERE}/d?user=u&password=hidden",
        f"postgresql://{NOWHERE}/d?sslpassword=hidden&connect_timeout=hidden",
        "postgresql://u:hidden/d",
        f"POSTGRESQL://u:hidden@{NOWHERE}/d",
        f" postgresql://u:hidden@{NOWHERE}/d",
        f"postgresql+psycopg2://u:hidden@{NOWHERE}/d",
        "mysql://u:hid/den@host/d",
        "host=127.0.0.1 port=1 user=u password=hidden",
        "u:hidden@host/d",
    ],
)
def test_no_part_of_a_password_is_in_what_is_said(address):
    with pytest.raises(ValueError, match=r"database|opened") as caught:
        SqlRows(address, "t", "y")
    said = str(caught.value)
    assert "hid" not in said
    assert "den" not in said


@pytest.mark.parametrize("kind", ["AnalysisException", "IllegalArgumentException", "Py4JError"])
@pytest.mark.parametrize(
    "address",
    ["s3a://key:hidden@bucket/a/b", "s3a://key:hid/den@bucket/a.parquet", "jdbc:postgresql://u:hidden@h/db"],
)
def test_no_part_of_a_password_is_in_what_spark_says(address, kind):
    """Whatever Spark, or Java, has made of an address: two slashes of it become one."""
    errors = pytest.importorskip("pyspark.errors")
    raised = getattr(errors, kind, None) or pytest.importorskip("py4j.protocol").Py4JError

    def refuse(path):
        raise raised(f"Relative path in absolute URI: {path.replace('//', '/')}")

    session = SimpleNamespace(read=SimpleNamespace(parquet=refuse))
    with pytest.raises(ValueError, match="Spark cannot read") as caught:
        SparkRows(address, "y", session=session)
    assert "hid" not in str(caught.value)
    assert "den" not in str(caught.value)
    assert "hid" not in without_password(address)


@pytest.mark.parametrize(
    "address",
    ["nowhere://key:hidden@bucket/a", "nowhere://key:hid/den@bucket/a.parquet", f"http://u:hidden@{NOWHERE}/a.parquet"],
)
def test_no_part_of_a_password_is_in_what_dask_says(address):
    pytest.importorskip("dask.dataframe")
    with pytest.raises(ValueError, match="cannot be read as Parquet") as caught:
        dask_sources.source(address, "y", None, None, None)
    assert "hid" not in str(caught.value)
    assert "den" not in str(caught.value)


def test_addresses_without_secrets_are_shown_as_they_are():
    for address in (
        "postgresql://u@host:5432/d",
        "postgresql://[::1]:5432/d",
        "postgresql:///d",
        "hdfs://a,b:1/d/e",
    ):
        assert hide_password(address) == address
    assert hide_password("postgresql://u:hidden@host/d") == "postgresql://u:***@host/d"
    assert hide_password("data.csv") == "data.csv"


def test_a_database_file_names_no_other_file_to_be_read(tmp_path):
    """A view is a program that came with the file: it would read what it likes, or fetch extensions."""
    secret, place = tmp_path / "secret.csv", tmp_path / "given.duckdb"
    secret.write_text("x,y\n1,2\n2,3\n3,5\n")
    with duckdb.connect(str(place)) as connection:
        connection.execute("CREATE TABLE t AS SELECT range::DOUBLE AS x, range * 2.0 AS y FROM range(9)")
        connection.execute(f"CREATE VIEW v AS SELECT * FROM read_csv('{secret}')")
    assert SqlRows(place, "t", "y").n_rows == 9
    with pytest.raises(ValueError, match=r"did not answer.*give the open connection"):
        SqlRows(place, "v", "y")
    with duckdb.connect(str(place), read_only=True) as connection:
        assert SqlRows(connection, "v", "y").n_rows == 3


BROKEN_OUT = "SELECT * FROM t) AS r; {}; SELECT * FROM (SELECT 1.0 AS x, 2.0 AS y"


def test_a_query_that_breaks_out_of_its_brackets_writes_nothing(tmp_path):
    written = tmp_path / "written.csv"
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t AS SELECT range::DOUBLE AS x, range * 2.0 AS y FROM range(9)")
        for more in ("DROP TABLE t", f"COPY t TO '{written}'", "SET threads = 1"):
            with pytest.raises(ValueError, match="one SELECT"):
                SqlRows(connection, BROKEN_OUT.format(more), "y")
        with pytest.raises(ValueError, match="one SELECT"):
            SqlRows(connection, '"t"; DROP TABLE t; SELECT * FROM "t"', "y")
        assert connection.execute("SELECT count(*) FROM t").fetchall() == [(9,)]
    assert not written.exists()


def test_sqlite_runs_no_second_statement(tmp_path):
    place = tmp_path / "rows.db"
    _sqlite(place)
    SqlRows(place, BROKEN_OUT.format("DROP TABLE t"), "y")
    assert SqlRows(place, "t", "y").n_rows == 9


def test_a_query_may_end_with_a_remark(tmp_path):
    place = tmp_path / "rows.db"
    _sqlite(place)
    assert SqlRows(place, "SELECT * FROM t -- all of it", "y").n_rows == 9


@pytest.mark.parametrize("name", ["what?.db", "a?mode=rwc&b=.db", "no#1.db", "50%41.db", "file:x.db"])
def test_the_file_that_is_named_is_the_one_that_is_read(tmp_path, monkeypatch, name):
    """Signs that mean something in an address are letters in a file's name; nothing else is opened or made."""
    monkeypatch.chdir(tmp_path)
    _sqlite(Path(name).absolute())
    assert SqlRows(Path(name), "t", "y").n_rows == 9
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_database_file_loads_no_code(tmp_path):
    place = tmp_path / "rows.db"
    _sqlite(place, "CREATE VIEW v AS SELECT load_extension('/tmp/x') AS x, 1.0 AS y")
    with pytest.raises(ValueError, match="load_extension"):
        SqlRows(place, "v", "y")


def test_names_of_columns_are_names(tmp_path):
    name = 'a" , (SELECT 1); DROP TABLE t --'
    for place, connect in ((tmp_path / "n.duckdb", duckdb.connect), (tmp_path / "n.db", sqlite3.connect)):
        connection = connect(str(place))
        quoted = name.replace('"', '""')
        connection.execute(f'CREATE TABLE t ("{quoted}" DOUBLE, y DOUBLE)')
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(float(i), 2.0 * i) for i in range(9)])
        connection.commit()
        connection.close()
        assert SqlRows(place, "t", "y").feature_names == [name]


def _sqlite(place: Path, *more: str) -> None:
    connection = sqlite3.connect(place)
    connection.execute("CREATE TABLE t (x REAL, y REAL)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", [(i, 2 * i) for i in range(9)])
    for statement in more:
        connection.execute(statement)
    connection.commit()
    connection.close()
