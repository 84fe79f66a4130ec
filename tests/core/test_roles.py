"""Columns of a table that are no features."""

import numpy as np
import pytest

from wmlr.core.roles import InRoles, RoleRows, Roles
from wmlr.core.round import Rows, Sampled, join
from wmlr.engines.arrays import ArrayRows
from wmlr.statistics.moments import Moments

GENERATOR = np.random.default_rng(0)
TABLE = GENERATOR.normal(size=(40, 4))
Y = GENERATOR.normal(size=40)
ROLES = Roles((0, 1), {"offset": (3,), "gate": (2, 3)}, ("offset",))


def test_columns_are_taken_apart_by_their_roles() -> None:
    seen = ROLES.split_columns(Rows(TABLE, Y))
    assert np.array_equal(seen.X, TABLE[:, :2])
    assert np.shares_memory(seen.X, TABLE)
    assert np.array_equal(seen.beside["offset"], TABLE[:, 3])
    assert np.array_equal(seen.beside["gate"], TABLE[:, 2:])


def test_features_may_stand_anywhere_in_the_table() -> None:
    assert np.array_equal(Roles((2, 0)).split_columns(Rows(TABLE, Y)).X, TABLE[:, [2, 0]])


def test_a_query_in_roles_sees_the_features_alone() -> None:
    engine = RoleRows(ArrayRows(TABLE, Y, block_rows=7), ROLES)
    direct = ArrayRows(TABLE[:, :2], Y).total(Moments(intercept=True))
    for name, value in engine.total(Moments(intercept=True)).items():
        assert value == pytest.approx(direct[name])
    query = InRoles(ROLES, Moments(intercept=True))
    assert query.parts(4, False).keys() == Moments(intercept=True).parts(2, False).keys()


def test_a_sample_in_roles_is_a_sample_of_the_table() -> None:
    engine = RoleRows(ArrayRows(TABLE, Y), ROLES)
    query = Sampled(Moments(intercept=True), 0.5)
    kept = query.keeps(Rows(TABLE, Y))
    direct = ArrayRows(TABLE[kept][:, :2], Y[kept]).total(Moments(intercept=True))
    assert engine.total(query)["xy"] == pytest.approx(direct["xy"])


def test_what_is_beside_the_features_stays_with_its_rows() -> None:
    rows = Rows(TABLE[:, :2], Y, beside={"offset": TABLE[:, 3], "gate": TABLE[:, 2:]})
    keep = Y > 0
    assert np.array_equal(rows.take(keep).beside["gate"], TABLE[keep, 2:])
    assert np.array_equal(
        join([rows.take(keep), rows.take(~keep)]).beside["offset"], np.r_[TABLE[keep, 3], TABLE[~keep, 3]]
    )


def test_blocks_and_groups_carry_what_is_beside_the_features() -> None:
    groups = np.arange(40) % 10
    engine = ArrayRows(TABLE[:, :2], Y, None, groups, beside={"offset": TABLE[:, 3]}, block_rows=8)
    for block in engine:
        assert np.array_equal(block.beside["offset"], TABLE[block.index, 3])
