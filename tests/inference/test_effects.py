"""Average marginal effects, and who is in each component."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import PolynomialFeatures

from wmlr import MixedLinearRegression


@pytest.fixture(scope="module")
def houses():
    generator = np.random.default_rng(0)
    n = 800
    size, rooms = generator.uniform(40, 160, n), generator.integers(1, 7, n)
    place = generator.choice(["city", "coast", "land"], n)
    old = generator.random(n) < 0.5
    side = generator.random(n) < np.where(place == "coast", 0.9, 0.3)
    slope = np.where(side, 3.0, 1.0)
    shift = np.where(place == "coast", 20.0, 0.0) - 8.0 * old
    price = 50 + slope * size + 0.004 * (size - 100) ** 2 + shift + 4.0 * generator.standard_normal(n)
    when = pd.Timestamp("2020-01-01") + pd.to_timedelta(generator.integers(0, 900, n), "D")
    frame = pd.DataFrame({"size": size, "rooms": rooms, "place": place, "old": old, "when": when, "price": price})
    return frame.assign(id=[f"house {number}" for number in range(n)])


@pytest.fixture(scope="module")
def bent(houses):
    formula = "price ~ size + I(size**2) + place + old"
    return MixedLinearRegression(2, formula=formula, random_state=0).fit(houses)


def test_the_effect_of_a_plain_column_is_its_coefficient_with_its_error(houses):
    fit = MixedLinearRegression(2, random_state=0).fit(houses[["size", "rooms"]], houses["price"])
    found = fit.effects(houses[["size", "rooms"]], houses["price"])
    assert found.names == ("size", "rooms")
    assert found.target == "price"
    np.testing.assert_allclose(found.values[:2], fit.coef_, rtol=1e-9)
    np.testing.assert_allclose(found.values[2], fit.weights_ @ fit.coef_, rtol=1e-9)
    errors = fit.confidence_intervals(houses[["size", "rooms"]], houses["price"]).to_frame()["error"]
    np.testing.assert_allclose(found.errors[0], errors[["size[1]", "rooms[1]"]], rtol=1e-6)
    np.testing.assert_allclose(found.errors[1], errors[["size[2]", "rooms[2]"]], rtol=1e-6)
    without = fit.effects()
    np.testing.assert_allclose(without.values, found.values)
    assert np.all(np.isnan(without.errors))


def test_a_formulas_effects_are_averages_of_its_derivatives_and_of_changes_of_level(houses, bent):
    found = bent.effects(houses).to_frame()["effect"]
    names = list(bent.feature_names_in_)
    linear, square = (
        bent.coef_[:, names.index(name)] for name in ("size", "I(size**2)" if "I(size**2)" in names else "I(size ** 2)")
    )
    wanted = linear + 2 * square * houses["size"].mean()
    np.testing.assert_allclose([found["size", "1"], found["size", "2"]], wanted, rtol=1e-4)
    coast = bent.coef_[:, names.index("place[T.coast]")]
    assert found["place: coast - city", "1"] == pytest.approx(coast[0])
    assert found["place: coast - city", "overall"] == pytest.approx(bent.weights_ @ coast)
    with pytest.raises(ValueError, match="differ from row to row: give the data"):
        bent.effects()


def test_the_overall_error_is_the_spread_of_the_effect_over_refits(houses):
    columns = houses[["size"]]
    fit = MixedLinearRegression(2, random_state=0).fit(columns, houses["price"])
    found = fit.effects(columns, houses["price"])
    draws = fit.bootstrap(columns, houses["price"], n_boot=150, random_state=0).draws
    names = list(fit.fitted_.estimates.names)
    weights = draws[:, [names.index("(weight)[1]"), names.index("(weight)[2]")]]
    slopes = draws[:, [names.index("size[1]"), names.index("size[2]")]]
    spread = (weights * slopes).sum(axis=1).std()
    assert found.errors[2, 0] == pytest.approx(spread, rel=0.2)


def test_features_are_followed_back_to_their_columns(houses):
    columns = houses[["size"]] / 100
    plain = MixedLinearRegression(2, random_state=0, features=PolynomialFeatures(2, include_bias=False))
    plain.fit(columns, houses["price"])
    found = plain.effects(columns, houses["price"])
    wanted = plain.coef_[:, 0] + 2 * plain.coef_[:, 1] * columns["size"].mean()
    np.testing.assert_allclose(found.values[:2, 0], wanted, rtol=1e-4)
    assert np.all(found.errors > 0)


def test_symmetric_shared_and_penalized_fits_have_effects(houses):
    X, y = houses[["size", "rooms"]] - houses[["size", "rooms"]].mean(), houses["price"] - houses["price"].mean()
    for settings in ({"symmetric": True}, {"shared": ["rooms"]}, {"alpha": 5.0}, {"equal_weights": True}):
        fit = MixedLinearRegression(2, random_state=0, **settings).fit(X, y)
        found = fit.effects(X, y, errors="sandwich")
        np.testing.assert_allclose(found.values[:2], fit.coef_, atol=1e-9)
        assert np.all(found.errors[:2] > 0)
    assert "average marginal effects on price" in str(found)


def test_a_profile_describes_every_column_by_responsibility(houses, bent):
    found = bent.profile(houses)
    shares = bent.responsibilities(houses)
    np.testing.assert_allclose(found.sizes, shares.sum(axis=0))
    assert found.left_out == ("id",)
    size = found["size"]
    np.testing.assert_allclose(
        size.by_component[:, 0], (shares * houses[["size"]].to_numpy()).sum(axis=0) / found.sizes
    )
    place = found["place"]
    coast = place.levels.index("coast")
    inside = (shares * (houses[["place"]] == "coast").to_numpy()).sum(axis=0) / found.sizes
    np.testing.assert_allclose(place.by_component[:, coast], inside)
    assert place.by_component.sum(axis=1) == pytest.approx(1.0)
    assert [one.difference for one in found.columns] == sorted((one.difference for one in found.columns), reverse=True)
    assert place.difference > found["rooms"].difference
    assert found["when"].kind == "date"
    assert "20" in str(found)


def test_the_difference_of_a_yes_and_no_is_the_same_as_number_and_as_category():
    generator = np.random.default_rng(1)
    from wmlr.inference.profile import Profile

    yes = generator.random(300) < 0.4
    shares = generator.dirichlet([1.0, 2.0], 300)
    frame = pd.DataFrame({"number": yes.astype(float), "category": np.where(yes, "yes", "no"), "gone": np.nan})
    found = Profile.of(frame, shares, generator.uniform(0.5, 2, 300))
    assert found["number"].difference == pytest.approx(found["category"].difference)
    assert found.left_out == ("gone",)


def test_a_profile_of_a_model_without_a_formula_takes_the_target_by_its_name(houses):
    fit = MixedLinearRegression(2, random_state=0).fit(houses[["size", "rooms"]], houses["price"])
    found = fit.profile(houses)
    np.testing.assert_allclose(
        found.sizes, fit.responsibilities(houses[["size", "rooms"]], houses["price"]).sum(axis=0)
    )
    array = MixedLinearRegression(2, random_state=0).fit(houses[["size"]].to_numpy(), houses["price"].to_numpy())
    assert {one.name for one in array.profile(houses[["size"]].to_numpy(), houses["price"].to_numpy()).columns} == {
        "x0", "y",
    }  # fmt: skip
    with pytest.raises(ValueError, match="y is missing"):
        array.profile(houses[["size"]].to_numpy())


@pytest.fixture(scope="module")
def gated(houses):
    settings = {"formula": "price ~ size", "gate": "~ rooms + place", "random_state": 0}
    return MixedLinearRegression(2, **settings).fit(houses)


def test_a_gates_columns_have_effects_by_the_weights(houses, gated):
    found = gated.effects(houses).to_frame()
    assert list(found.index.levels[0].sort_values()) == ["place: coast - city", "place: land - city", "rooms", "size"]
    step = 1e-4
    rises = gated.predict(houses.assign(rooms=houses["rooms"] + step)) - gated.predict(houses)
    assert found.loc[("rooms", "overall"), "effect"] == pytest.approx(rises.mean() / step, abs=1e-3)
    np.testing.assert_allclose(found.loc["rooms"].loc[["1", "2"], "effect"], 0.0, atol=1e-9)
    there, here = (gated.predict(houses.assign(place=place)) for place in ("coast", "city"))
    assert found.loc[("place: coast - city", "overall"), "effect"] == pytest.approx((there - here).mean())
    with pytest.raises(ValueError, match="give the data"):
        gated.effects()


def test_errors_of_effects_by_weights_are_those_of_the_delta_method(houses, gated):
    """The derivatives are taken again, by moving each parameter a little."""
    free, mixture = gated.covariance(houses), gated.mixture_
    places = {"size[1]": ("coef", (0, 0)), "size[2]": ("coef", (1, 0))}
    places |= {f"(intercept)[{j + 1}]": ("intercept", (j,)) for j in range(2)}
    columns = (*gated.fitted_.inputs.gate_names, "(intercept)")
    places |= {f"gate {name}[1]": ("gate", (0, column)) for column, name in enumerate(columns)}
    assert set(gated.parameter_names_) == {*places, "log (sigma)"}

    def moved(name, by):
        if name == "log (sigma)":
            return mixture
        field, place = places[name]
        values = np.array(getattr(mixture, field))
        values[place] += by
        return replace(mixture, **{field: values})

    def overall(one):
        fitted = replace(gated.fitted_, mixture=one)
        high, low = (fitted.predict(houses.assign(place=place)) for place in ("coast", "city"))
        return (high - low).mean()

    step = 1e-5
    sides = [[overall(moved(name, by)) for by in (step, -step)] for name in gated.parameter_names_]
    slopes = np.diff(sides, axis=1)[:, 0] / (2 * step)
    found = gated.effects(houses).to_frame().loc[("place: coast - city", "overall"), "error"]
    assert found == pytest.approx(float(np.sqrt(slopes @ free @ slopes)), rel=1e-4)
