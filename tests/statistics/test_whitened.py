"""Rows in other coordinates."""

import numpy as np
import pytest

from wmlr.core.round import Rows
from wmlr.statistics import whitened
from wmlr.statistics.moments import Moments
from wmlr.statistics.whitened import Whitened


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return Rows(rng.normal(2000.0, 1.0, size=(50, 3)), rng.normal(size=50))


def test_rows_in_other_coordinates_are_made_once_for_many_queries(rows):
    centre, basis = rows.X.mean(axis=0), np.eye(3)[:, :2]
    first = Whitened(Moments(), centre, basis, 1.5).view(rows)
    assert Whitened(Moments(intercept=True), centre.copy(), basis.copy(), 1.5).view(rows) is first
    np.testing.assert_array_equal(first.X, (rows.X - centre) @ basis)
    np.testing.assert_array_equal(first.y, rows.y - 1.5)


@pytest.mark.parametrize(
    ("centre", "basis", "level"), [(2.0, 1.0, 1.5), (1.0, 2.0, 1.5), (1.0, 1.0, 0.0), (0.0, 1.0, 1.5)]
)
def test_other_coordinates_are_other_rows(rows, centre, basis, level):
    Whitened(Moments(), np.ones(3), np.eye(3), 1.5).view(rows)
    seen = Whitened(Moments(), np.full(3, centre), basis * np.eye(3), level).view(rows)
    np.testing.assert_array_equal(seen.X, (rows.X - centre) * basis)
    np.testing.assert_array_equal(seen.y, rows.y - level)


def test_what_would_take_much_memory_is_not_kept(rows, monkeypatch):
    monkeypatch.setattr(whitened, "KEPT_BYTES", 8 * 50 * 3 - 1)
    asked = Whitened(Moments(), rows.X.mean(axis=0))
    assert asked.view(rows) is not asked.view(rows)
    assert not rows.memo
