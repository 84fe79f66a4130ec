"""Statistics and engines that only this file knows: what they declare of themselves is all that the others go by."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pytest

from wmlr import MixedLinearRegression
from wmlr.core.capabilities import Capabilities, capabilities_of
from wmlr.core.query import Field, Kind, Part, Parts, Query, kept_agents, unit
from wmlr.core.round import Rows, Sampled, Together
from wmlr.datasets import make_mixed_regression
from wmlr.engines import ArrayRows, ParquetRows
from wmlr.features.maps import Mapped, MappedRows
from wmlr.federated import Federation, Privacy
from wmlr.io import tables
from wmlr.numerics.arrays import Array, Sums
from wmlr.statistics.robust import Trimmed


@dataclass(frozen=True)
class Cubes(Query):
    """sum |y - centre|^3, and the rows."""

    centre: Annotated[Array, Field("c")]

    def parts(self, columns: int, grouped: bool) -> Parts:
        return {"rows": Part((), unit(), Kind.COUNT), "cubes": Part(self.centre.shape, unit(y=3), Kind.AMOUNT)}

    def answer(self, rows: Rows) -> Sums:
        gaps = np.abs(rows.y[:, None] - self.centre) ** 3
        return {"rows": np.array(float(len(rows))), "cubes": gaps.sum(axis=0)}


@pytest.fixture(scope="module")
def data():
    return make_mixed_regression(240, 3, 2, snr=5, symmetric=True, groups=20, random_state=0)


@pytest.mark.parametrize("guard", [{}, {"secure": True}, {"privacy": Privacy(noise_multiplier=1e-9, clip=1e4, seed=0)}])
def test_a_statistic_of_ones_own_is_summed_among_agents_however_they_are_guarded(data, guard):
    query = Cubes(np.array([0.0, 1.0]))
    federation = Federation.split(data.X, data.y, data.groups, **guard)
    wanted = query.answer(Rows(data.X, data.y))
    for name, value in federation.total(Together((query, Trimmed(query, -1e9, 1e9)))).items():
        np.testing.assert_allclose(value, wanted[name.split("/")[1]], rtol=1e-6)


def test_a_statistic_of_ones_own_is_summed_in_memory_and_from_a_file_also_of_a_sample(data, tmp_path):
    query, rows = Cubes(np.array([0.0, 1.0])), Rows(data.X, data.y)
    tables.write(tmp_path / "rows.parquet", {f"x{j}": data.X[:, j] for j in range(3)} | {"y": data.y})
    for engine in (
        ArrayRows(data.X, data.y, block_rows=50),
        ParquetRows(tmp_path / "rows.parquet", "y", block_rows=70),
    ):
        for asked in (query, Sampled(query, 0.5, 1)):
            found, wanted = engine.total(asked), asked.answer(rows)
            assert found.keys() == wanted.keys()
            for name, value in found.items():
                np.testing.assert_allclose(value, wanted[name], rtol=1e-12)


class Halves:
    """An engine with two halves of the rows, that counts how often it was asked."""

    def __init__(self, X, y):
        self.n_features, self.asked = X.shape[1], 0
        self.blocks = [Rows(X[cut], y[cut], None, None, cut) for cut in np.array_split(np.arange(len(y)), 2)]

    @property
    def capabilities(self):
        return Capabilities(totals={"asked": float(self.asked)}, hides_rows=True)

    def total(self, query):
        self.asked += 1
        first, second = (query.answer(block) for block in self.blocks)
        return {name: first[name] + second[name] for name in first}


def test_an_engine_of_ones_own_gives_the_fit_and_its_totals_are_in_the_history(data):
    engine = Halves(data.X, data.y)
    fit = MixedLinearRegression(symmetric=True, random_state=0).fit_on(engine)
    central = MixedLinearRegression(symmetric=True, random_state=0).fit(data.X, data.y)
    np.testing.assert_allclose(fit.coef_, central.coef_, rtol=1e-8)
    assert fit.history_[-1]["asked"] == engine.asked
    for errors in ("observed", "sandwich"):
        wanted = central.covariance(data.X, data.y, errors=errors)
        np.testing.assert_allclose(fit.covariance_on(engine, errors=errors), wanted, rtol=1e-6, atol=1e-12)


def test_an_engine_that_declares_nothing_answers_every_round():
    assert capabilities_of(object()) == Capabilities()


class Doubled:
    def transform(self, X):
        return np.hstack([X, 2.0 * X])

    def width(self, d):
        return 2 * d


def test_a_sample_is_chosen_by_x_and_not_by_its_features_also_among_several_queries(data):
    rows = Rows(data.X, data.y)
    query = Cubes(np.zeros(1))
    engine = MappedRows(Halves(data.X, data.y), Doubled())
    sums = engine.total(Together((Sampled(query, 0.3, 1), query)))
    assert sums["0/rows"] == len(Sampled(query, 0.3, 1).rows(rows)) != len(rows)
    inside = Sampled(Mapped(Doubled(), query), 0.3, 1)
    np.testing.assert_array_equal(inside.rows(rows).y, Sampled(query, 0.3, 1).rows(rows).y)


def test_agents_of_whom_no_row_is_kept_are_left_out():
    kept = np.array([True, False, False, False, True, True])
    firsts, present = kept_agents(kept, np.array([0, 2, 4]))
    assert firsts.tolist() == [0, 1]
    assert present.tolist() == [0, 2]
