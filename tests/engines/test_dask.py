"""A Dask cluster gives what memory gives, whatever the partitions, and survives the loss of a worker."""

import os
import resource
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from sklearn.preprocessing import PolynomialFeatures
from threadpoolctl import threadpool_info

from wmlr import EM, GDA, MixedLinearRegression, bench
from wmlr.bench import _cluster
from wmlr.bench import dask as suite
from wmlr.core.query import Query
from wmlr.core.repeats import Merged
from wmlr.core.round import Sampled, Together
from wmlr.datasets import make_mixed_regression
from wmlr.engines import ArrayRows, DaskRows
from wmlr.engines.dask import FAN_IN
from wmlr.engines.partitions import Shard, from_arrays
from wmlr.statistics.moments import Moments
from wmlr.statistics.score import MixtureScore

QUICK = {"search": "quick", "random_state": 0}
QUIET = {"dashboard_address": ":0", "silence_logs": 50}


@pytest.fixture(scope="module")
def client():
    """Two worker processes, as in the benchmark."""
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, **QUIET) as cluster, Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def threaded():
    """Workers with many threads, in this process."""
    many = {"n_workers": 2, "threads_per_worker": 5, "processes": False}
    with LocalCluster(**many, **QUIET) as cluster, Client(cluster, set_as_default=False) as client:
        yield client


@pytest.fixture(scope="module")
def data():
    return make_mixed_regression(3000, 4, 3, snr=6, groups=5, random_state=0)


def uneven(X, y, chunks):
    edges = np.linspace(0, len(y) ** 0.5, chunks + 1) ** 2
    sizes = tuple(int(size) for size in np.diff(edges.round()))
    return da.from_array(X, chunks=(sizes, X.shape[1])), da.from_array(y, chunks=(sizes,))


def frame_of(data, **more):
    return pd.DataFrame(data.X, columns=["a", "b", "c", "d"]).assign(y=data.y, **more)


def assert_same(fit, other):
    np.testing.assert_allclose(fit.coef_, other.coef_, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(fit.weights_, other.weights_, rtol=1e-8)
    assert fit.log_likelihood_ == pytest.approx(other.log_likelihood_, rel=1e-11)
    assert fit.n_iter_ == other.n_iter_


@pytest.mark.parametrize("chunks", [1, 7])
@pytest.mark.parametrize(
    "settings",
    [
        {"n_components": 3, "search": "quick"},
        {"n_components": 3, "method": "em", "shared_sigma": False, "n_init": 2, "search": "quick"},
        {"symmetric": True, "solver": GDA(expectation="frozen"), "max_iter": 5},
    ],
    ids=["refreshed", "em", "drawn noise"],
)
def test_whatever_the_partitions_the_fit_is_that_of_memory(client, data, settings, chunks):
    estimator = MixedLinearRegression(random_state=0, **settings)
    there = estimator.fit_on(DaskRows(*uneven(data.X, data.y, chunks), client=client))
    here = MixedLinearRegression(random_state=0, **settings).fit(data.X, data.y)
    assert_same(there, here)


def test_frames_and_parquet_folders_are_read_by_the_names_of_their_columns(client, data, tmp_path):
    frame = frame_of(data, other=1.0, w=np.linspace(0, 1, len(data.y)))
    rows = DaskRows(dd.from_pandas(frame, npartitions=4), "y", features=["b", "d"], weight="w")
    assert (rows.n_rows, rows.n_features, rows.feature_names) == (3000, 2, ["b", "d"])
    here = MixedLinearRegression(2, **QUICK).fit(data.X[:, [1, 3]], data.y, sample_weight=frame["w"])
    assert_same(MixedLinearRegression(2, **QUICK).fit_on(rows), here)

    dd.from_pandas(frame.drop(columns=["other", "w"]), npartitions=3).to_parquet(tmp_path / "rows", write_index=False)
    rows = DaskRows(tmp_path / "rows", "y")
    assert rows.feature_names == ["a", "b", "c", "d"]
    here = MixedLinearRegression(3, **QUICK).fit(data.X, data.y)
    assert_same(MixedLinearRegression(3, **QUICK).fit_on(rows), here)


def test_groups_within_partitions_share_their_component(client, data):
    generator = np.random.default_rng(0)
    order = np.concatenate([first + generator.permutation(1000) for first in (0, 1000, 2000)])
    labels = np.array([f"group {code}" for code in data.groups[order]])
    frame = frame_of(data).iloc[order].reset_index(drop=True).assign(g=labels)
    rows = DaskRows(dd.from_pandas(frame, npartitions=3, sort=False), "y", groups="g")
    here = MixedLinearRegression(3, **QUICK).fit(data.X, data.y, groups=data.groups)
    there = MixedLinearRegression(3, **QUICK).fit_on(rows)
    np.testing.assert_allclose(there.coef_, here.coef_, rtol=1e-7)
    apart = MixedLinearRegression(3, **QUICK).fit(data.X, data.y)
    assert np.abs(apart.coef_ - here.coef_).max() > 1e-4


def test_a_group_in_two_partitions_is_refused_by_name(client, data):
    groups = da.from_array(np.arange(3000) // 7, chunks=1000)
    with pytest.raises(ValueError, match=r"group 142 is in partitions 0 and 1, and 1 more are split: .* one partition"):
        DaskRows(da.from_array(data.X, chunks=(1000, 4)), da.from_array(data.y, chunks=1000), groups=groups)


def test_more_shards_than_fit_one_sum_are_added_as_a_tree(threaded, data):
    rows = DaskRows(*uneven(data.X, data.y, 23), client=threaded)
    assert rows.n_shards == 10 > FAN_IN
    sums, here = rows.total(Moments(True, True)), ArrayRows(data.X, data.y).total(Moments(True, True))
    for name, value in here.items():
        np.testing.assert_allclose(sums[name], value, rtol=1e-10, atol=1e-8)
    again = rows.total(Moments(True, True))
    assert all(np.array_equal(sums[name], again[name]) for name in sums)


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


@dataclass(frozen=True)
class BlasThreads(Query):
    """How many BLAS threads there are while rows answer."""

    def answer(self, rows):
        return {"most": np.array([max(blas_threads())]), "blocks": np.ones(1)}


def test_every_task_has_one_blas_thread(threaded, data):
    before = blas_threads()
    rows = DaskRows(*uneven(data.X, data.y, 10), client=threaded)
    for _ in range(3):
        sums = rows.total(BlasThreads())
        assert sums["most"] == sums["blocks"]
    assert blas_threads() == before


def test_copies_of_a_row_in_one_shard_are_asked_as_one():
    X, y = np.repeat(np.eye(3), 400, axis=0), np.tile([1.0, 2.0], 600)
    parts = [from_arrays(X[a::4], y[a::4], None, None, a) for a in range(4)]
    shard = Shard(parts, range(0, 1200, 300))
    query = MixtureScore(np.ones((4, 2)) * [1, -1], np.log([0.5, 0.5]), np.ones(2))
    for name, value in shard.total(Merged(Sampled(query, 1.0, 7), 0.01)).items():
        np.testing.assert_allclose(value, ArrayRows(X, y).total(query)[name], rtol=1e-12)
    ((kept, sample),) = shard._samples.kept.items()
    assert (kept, len(sample)) == ((1.0, 7, True), 6)


def test_samples_are_those_of_memory_and_kept_once():
    data = make_mixed_regression(5000, 3, 2, snr=4, random_state=1)
    parts = [from_arrays(data.X[a : a + 100], data.y[a : a + 100], None, None, a // 100) for a in range(0, 5000, 100)]
    shard = Shard(parts, range(0, 5000, 100))
    query = MixtureScore(np.ones((4, 2)) * [1, -1], np.log([0.5, 0.5]), np.ones(2))
    memory = ArrayRows(data.X, data.y)
    for asked in (Sampled(query, 0.3, 7), Together((query, Sampled(query, 0.3, 7), Sampled(query, 0.1, 7)))):
        expected = memory.total(asked)
        for name, value in shard.total(asked).items():
            np.testing.assert_allclose(value, expected[name], rtol=1e-10)
    assert sorted(shard._samples.kept) == [(0.1, 7, False), (0.3, 7, False)]
    assert len(shard.blocks) == 1, "small partitions are joined"
    assert shard.__sizeof__() > data.X.nbytes


@dataclass(frozen=True)
class Failing(Query):
    def answer(self, rows):
        raise FloatingPointError("no such number")


def test_what_fails_on_a_worker_is_one_sentence(threaded, data):
    rows = DaskRows(*uneven(data.X, data.y, 2), client=threaded)
    with pytest.raises(RuntimeError, match=r"^a worker failed: FloatingPointError: no such number$"):
        rows.total(Failing())
    assert rows.total(Moments())["rows"] == 3000


def broken(frame, column, row, value):
    frame = frame.astype({column: float})
    frame.loc[row, column] = value
    return frame


@pytest.mark.parametrize(
    ("change", "settings", "message"),
    [
        (lambda f: f, {"target": "z"}, r"no column 'z' for target; there are a, b, c, d, y"),
        (lambda f: f, {"target": "y", "features": ["a", "q"]}, "no column 'q' for features"),
        (lambda f: f, {"target": "y", "features": ["a", "a"]}, "'a' is named twice"),
        (lambda f: f, {"target": "y", "features": ["y"]}, "'y' is named twice"),
        (lambda f: f, {"target": "y", "features": []}, "no columns are left"),
        (lambda f: f.assign(e="text"), {"target": "y"}, "column 'e' holds .*, not numbers"),
        (
            lambda f: broken(f, "c", 1700, np.nan),
            {"target": "y"},
            "partition 1: Input X contains NaN .row 200, column 'c'",
        ),
        (lambda f: broken(f, "y", 10, np.inf), {"target": "y"}, "partition 0: Input y contains infinity .row 10"),
        (
            lambda f: f.assign(w=-1.0),
            {"target": "y", "weight": "w"},
            r"partition 0: weights must .* \(got -1.0 in row 0",
        ),
        (lambda f: f.assign(w=0), {"target": "y", "weight": "w"}, "the weight is zero for every row"),
        (lambda f: f.iloc[:0], {"target": "y"}, "there are no rows"),
        (lambda f: broken(f.assign(g=1), "g", 3, np.nan), {"target": "y", "groups": "g"}, "row 3 has no group"),
    ],
)
def test_bad_frames_are_refused_with_a_sentence(client, data, change, settings, message):
    with pytest.raises(ValueError, match=message):
        DaskRows(dd.from_pandas(change(frame_of(data)), npartitions=2), client=client, **settings)


def test_bad_arrays_and_places_are_refused_with_a_sentence(client, data, tmp_path):
    X, y = uneven(data.X, data.y, 3)
    for arguments, message in (
        ((X, y[:-1]), "X has 3000 rows and target 2999"),
        ((X, data.y), "target must be a Dask array"),
        ((X[:, 0], y), "two dimensions"),
        ((X, y, ["a"]), "features= names columns"),
        ((data.X, data.y), r"got ndarray\): dask.dataframe.from_pandas"),
        ((tmp_path / "nowhere", "y"), "there is no file or folder"),
    ):
        with pytest.raises(ValueError, match=message):
            DaskRows(*arguments, client=client)
    (tmp_path / "bad.parquet").write_text("not Parquet")
    with pytest.raises(ValueError, match="cannot be read as Parquet"):
        DaskRows(tmp_path / "bad.parquet", "y", client=client)


def test_float32_features_stay_so_and_columns_may_be_cut(threaded, data):
    X = da.from_array(data.X.astype(np.float32), chunks=(1000, 2))
    rows = DaskRows(X, da.from_array(data.y, chunks=700), client=threaded)
    shard = threaded.gather(rows._shards[0])
    assert all(block.X.dtype == np.float32 and block.X.flags.c_contiguous for block in shard.blocks)
    here = MixedLinearRegression(3, **QUICK).fit(data.X.astype(np.float32), data.y)
    np.testing.assert_allclose(MixedLinearRegression(3, **QUICK).fit_on(rows).coef_, here.coef_, rtol=1e-5)


def test_features_are_made_on_the_workers(threaded, data):
    settings = {"n_components": 2, "features": PolynomialFeatures(2, include_bias=False), **QUICK}
    there = MixedLinearRegression(**settings).fit_on(DaskRows(*uneven(data.X, data.y, 4), client=threaded))
    assert_same(there, MixedLinearRegression(**settings).fit(data.X, data.y))


@pytest.mark.long
def test_the_benchmark_compares_workers_with_threads(client, tmp_path, monkeypatch):
    monkeypatch.setattr(_cluster, "MixedLinearRegression", partial(MixedLinearRegression, search="quick"))
    result = suite.run(lambda text: None, n_samples=3200, n_features=3, times=1, rounds=5, client=client)
    assert all(len(row) == len(result.columns) for row in result.rows)
    assert bench.write(result, tmp_path).is_file()
    assert [fit["apart"] < 1e-8 for fit in result.numbers["fits"]] == [True, True]
    assert len(result.numbers["round_seconds"]) == 5
    assert result.numbers["limits"][0]["bound"] == "at most 1.3"


def test_a_worker_killed_in_the_middle_of_a_fit_changes_nothing(client, data):
    rows = DaskRows(dd.from_pandas(frame_of(data), npartitions=5), "y", client=client)
    settings = {"method": EM(), "start": "random", "tol": 0.0, "max_iter": 6, "random_state": 0}
    whole = MixedLinearRegression(3, **settings).fit_on(rows)
    killed = []

    def kill(report):
        if report.record["iteration"] == 3:
            killed.append(min(client.run(os.getpid).values()))
            os.kill(killed[0], signal.SIGKILL)

    lossy = MixedLinearRegression(3, **settings).fit_on(rows, kill)
    client.wait_for_workers(2, timeout=30)
    assert killed[0] not in client.run(os.getpid).values()
    assert_same(lossy, whole)


@dataclass(frozen=True)
class Fatal(Query):
    """Kills as many workers that answer it as there are files."""

    folder: str

    def answer(self, rows):
        for file in sorted(Path(self.folder).iterdir()):
            with suppress(FileNotFoundError):
                file.unlink()
                os.kill(os.getpid(), signal.SIGKILL)
        return {"rows": np.array(float(len(rows)))}


def test_a_worker_killed_while_it_answers_is_replaced_in_the_same_round(client, data, tmp_path):
    rows = DaskRows(dd.from_pandas(frame_of(data), npartitions=4), "y", client=client)
    (tmp_path / "1").touch()
    assert rows.total(Fatal(str(tmp_path)))["rows"] == 3000
    client.wait_for_workers(2, timeout=30)
    assert rows.total(Moments())["rows"] == 3000


@dataclass(frozen=True)
class Unsendable(Query):
    lock: object


def test_what_cannot_be_sent_is_one_sentence(client, data):
    rows = DaskRows(*uneven(data.X, data.y, 2), client=client)
    with pytest.raises(RuntimeError, match=r"^a worker failed: TypeError: cannot pickle"):
        rows.total(Unsendable(Lock()))
    assert rows.total(Moments())["rows"] == 3000


def test_shards_are_asked_where_they_are_and_not_copied(data):
    many = {"n_workers": 2, "threads_per_worker": 2, "processes": False}
    with LocalCluster(**many, **QUIET) as cluster, Client(cluster, set_as_default=False) as client:
        rows = DaskRows(*uneven(data.X, data.y, 8), client=client)
        rows.total(Moments())
        assert rows.n_shards == 4
        holders = client.who_has(rows._shards)
        assert all(len(holders[shard.key]) == 1 for shard in rows._shards)


def test_freed_memory_stays_with_a_worker_for_its_next_block(client, data):
    """Dask's workers give freed memory back at once, so that each block's arrays would be made of new pages."""
    DaskRows(dd.from_pandas(frame_of(data), npartitions=2), "y", client=client)
    faults = client.run(page_faults)
    assert len(faults) == 2
    assert max(faults.values()) < 200


def page_faults():
    """New pages for ten arrays of 4 MB one after the other."""
    np.ones(2**19)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        np.ones(2**19)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def test_without_dask_or_a_cluster_one_line_says_what_to_do(monkeypatch, data):
    X, y = uneven(data.X, data.y, 2)
    with monkeypatch.context() as patch:
        patch.setattr("distributed.get_client", lambda: (_ for _ in ()).throw(ValueError("no global client")))
        with pytest.raises(ValueError, match="DaskRows needs a cluster"):
            DaskRows(X, y)
    for name in ("dask", "dask.array", "dask.dataframe", "distributed"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"^DaskRows needs Dask: pip install 'wmlr\[dask\]'$"):
        DaskRows(X, y)
