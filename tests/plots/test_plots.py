"""Pictures: what they show agrees with the fit, and nothing global is touched."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from wmlr import MixedLinearRegression, Mixture, families, plots, select_components
from wmlr.datasets import load_tone, make_mixed_regression
from wmlr.estimator.row_roles import read_beside
from wmlr.families import Student


@pytest.fixture(scope="module")
def tone() -> tuple[Any, Any, Any]:
    data = load_tone()
    fit = MixedLinearRegression(2, shared_sigma=False, random_state=0).fit(data.data, data.target)
    return fit, data.data, data.target


@pytest.fixture(scope="module")
def three() -> tuple[Any, Any, Any]:
    data = make_mixed_regression(600, 4, 3, snr=6, random_state=0)
    return MixedLinearRegression(3, random_state=0).fit(data.X, data.y), data.X, data.y


def test_convergence_draws_every_method_and_the_bound() -> None:
    figure = plots.convergence({"slow": [1, 0.5, 0.2, 0.1], "fast": [1, 0.01]}, bound=0.005)
    (ax,) = figure.axes
    assert ax.get_yscale() == "log"
    assert [line.get_label() for line in ax.lines] == ["slow", "fast", "Cramér–Rao bound"]
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), [1, 0.01])
    assert ax.get_xticks().tolist() == [0, 1, 2]


def test_convergence_leaves_out_what_a_log_axis_cannot_show() -> None:
    (ax,) = plots.convergence({"exact": [1.0, 0.0]}).axes
    assert np.isnan(ax.lines[0].get_ydata()[1])
    with pytest.raises(ValueError, match="histories is empty"):
        plots.convergence({})


def test_lines_are_those_of_the_fit(tone: tuple[Any, Any, Any]) -> None:
    fit, X, y = tone
    (ax,) = plots.fitted_lines(fit, X, y).axes
    for j, line in enumerate(ax.lines):
        x = line.get_xdata()
        np.testing.assert_allclose(line.get_ydata(), fit.intercept_[j] + fit.coef_[j, 0] * x)
    assert ax.lines[0].get_xdata()[[0, -1]].tolist() == [X.min(), X.max()]


def test_points_carry_the_colour_of_their_component(tone: tuple[Any, Any, Any]) -> None:
    fit, X, y = tone
    (ax,) = plots.fitted_lines(fit, X, y).axes
    colours = ax.collections[0].get_facecolors()[:, :3]
    sure = fit.responsibilities(X, y)[:, 1] > 0.999
    assert sure.any()
    blue_of_orange = int(plots.COLOURS[1][5:], 16) / 255
    np.testing.assert_allclose(colours[sure, 2], blue_of_orange, atol=2e-3)


def test_other_features_stay_at_their_means(three: tuple[Any, Any, Any]) -> None:
    fit, X, y = three
    (ax,) = plots.fitted_lines(fit, X, y, feature=2).axes
    x = ax.lines[0].get_xdata()
    others = [0, 1, 3]
    at_zero = fit.intercept_[0] + fit.coef_[0, others] @ X[:, others].mean(axis=0)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), at_zero + fit.coef_[0, 2] * x)
    assert ax.get_xlabel() == "x2"


def test_many_features_are_drawn_along_the_one_that_separates_most_by_partial_residuals(
    three: tuple[Any, Any, Any],
) -> None:
    fit, X, y = three
    (ax,) = plots.fitted_lines(fit, X, y).axes
    widest = int(np.ptp(fit.coef_ * X.std(axis=0), axis=0).argmax())
    assert ax.get_xlabel() == f"x{widest}"
    places, drawn = np.asarray(ax.collections[0].get_offsets()).T
    np.testing.assert_allclose(places, X[:, widest])
    likeliest = fit.assign(X, y)
    held = np.where(np.arange(X.shape[1]) == widest, X, X.mean(axis=0))
    rows = np.arange(len(y))
    left = y - fit.predict_components(X)[rows, likeliest]
    np.testing.assert_allclose(drawn, fit.predict_components(held)[rows, likeliest] + left)


def test_features_go_by_name_where_there_are_names(three: tuple[Any, Any, Any]) -> None:
    import pandas

    _, X, y = three
    frame = pandas.DataFrame(X, columns=list("abcd"))
    fit = MixedLinearRegression(3, random_state=0).fit(frame, y)
    (ax,) = plots.fitted_lines(fit, frame, pandas.Series(y, name="price"), feature="c").axes
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("c", "price")
    with pytest.raises(ValueError, match="feature must be one of a, b, c, d"):
        plots.fitted_lines(fit, frame, y, feature="e")
    with pytest.raises(ValueError, match="feature must be below 4"):
        plots.fitted_lines(fit, frame, y, feature=4)


def test_weighted_residual_quantiles_are_normal_though_components_overlap() -> None:
    data = make_mixed_regression(4000, 3, snr=1.5, symmetric=True, random_state=1)
    fit = MixedLinearRegression(2, symmetric=True, random_state=0).fit(data.X, data.y)
    _, right = plots.residuals(fit, data.X, data.y).axes
    for line in right.lines[:2]:
        expected, seen = line.get_xdata(), line.get_ydata()
        inner = np.abs(expected) < 2
        assert np.abs(expected - seen)[inner].max() < 0.15


def test_residuals_of_a_robust_fit_are_held_against_students_quantiles() -> None:
    like = Mixture(
        np.array([[2.0], [-2.0]]), np.array([0.0, 1.0]), np.full(2, 0.5), np.full(2, 0.5), family=Student(4.0)
    )
    generator = np.random.default_rng(0)
    X = generator.standard_normal((20_000, 1))
    y, _ = like.sample(X, generator)
    fit = MixedLinearRegression(2, robust=True, random_state=0).fit(X, y)
    _, right = plots.residuals(fit, X, y).axes
    assert right.get_xlabel() == "Student's t (4) quantile"
    for line in right.lines[:2]:
        expected, seen = line.get_xdata(), line.get_ydata()
        assert np.abs(seen / expected - 1)[np.abs(expected) > 2].max() < 0.2


def test_every_row_is_drawn_once_among_the_residuals(tone: tuple[Any, Any, Any]) -> None:
    fit, X, y = tone
    left, _ = plots.residuals(fit, X, y).axes
    assert sum(len(points.get_offsets()) for points in left.collections) == len(y)


def test_criterion_marks_the_best(tone: tuple[Any, Any, Any]) -> None:
    _, X, y = tone
    selection = select_components(X, y, range(1, 4))
    (ax,) = plots.criterion(selection).axes
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), selection.values)
    assert ax.lines[1].get_xdata().tolist() == [selection.best]


def test_a_picture_goes_into_axes_that_are_given(tone: tuple[Any, Any, Any]) -> None:
    from matplotlib.figure import Figure

    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert plots.fitted_lines(*tone, ax=left) is figure
    assert plots.convergence({"a": [1, 0.1]}, ax=right) is figure


def test_pyplot_is_never_involved(tone: tuple[Any, Any, Any], tmp_path: Path) -> None:
    before = "matplotlib.pyplot" in sys.modules
    plots.save(plots.fitted_lines(*tone), tmp_path / "lines.png")
    assert (tmp_path / "lines.png").read_bytes().startswith(b"\x89PNG")
    assert ("matplotlib.pyplot" in sys.modules) == before


def test_an_unknown_ending_is_refused_before_anything_is_written(tmp_path: Path, tone: tuple[Any, Any, Any]) -> None:
    with pytest.raises(ValueError, match="does not end like a picture"):
        plots.save(plots.fitted_lines(*tone), tmp_path / "lines.doc")
    assert not list(tmp_path.iterdir())


def test_without_matplotlib_one_line_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"^plots need matplotlib: pip install 'wmlr\[plots\]'$"):
        plots.convergence({"a": [1.0]})


def test_effects_and_profiles_are_drawn_where_their_numbers_are() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=200), "kind": rng.choice(["u", "v"], 200)})
    frame["y"] = np.where(rng.random(200) < 0.5, 2, -1) * frame.x + (frame.kind == "v") + 0.2 * rng.normal(size=200)
    fit = MixedLinearRegression.from_frame(frame, "y", 2, random_state=0)
    found = fit.effects(frame)
    (ax,) = plots.effects(found).axes
    assert [label.get_text() for label in ax.get_yticklabels()] == list(found.names)
    drawn = [container.lines[0].get_xdata() for container in ax.containers]
    np.testing.assert_allclose(drawn, found.values)
    profile = fit.profile(frame)
    (ax,) = plots.profile(profile).axes
    assert next(label.get_text() for label in ax.get_yticklabels()) == profile.columns[0].labels[0]
    mean, deviation = frame.y.mean(), frame.y.std(ddof=0)
    shares = fit.responsibilities(frame)
    expected = (np.average(frame.y, weights=shares[:, 1]) - mean) / deviation
    row = [label for column in profile.columns for label in column.labels].index("y")
    assert abs(ax.lines[1].get_xdata()[row] - expected) < 1e-6


def test_residuals_of_counts_are_normal_at_random_places_of_their_stretch() -> None:
    generator = np.random.default_rng(0)
    X, trials = generator.standard_normal((1500, 1)), generator.integers(1, 6, 1500).astype(float)
    for family, roles in (("poisson", {"exposure": trials}), ("binomial", {"trials": trials})):
        law = families.family(family)
        truth = Mixture(np.array([[0.5]]), np.array([-0.2]), np.ones(1), np.ones(1), family=law)
        y, _ = truth.sample(X, generator, beside=read_beside(roles, 1500))
        fit = MixedLinearRegression(1, family=family).fit(X, y, **roles)
        (_, right) = plots.residuals(fit, X, y, **roles).axes
        expected, seen = right.lines[0].get_data()
        inner = np.abs(expected) < 2
        assert np.abs(expected - seen)[inner].max() < 0.15
        assert len(plots.rootogram(fit, X, y, **roles).axes) == 1
        assert plots.fitted_lines(fit, X, y, **roles).axes


@pytest.mark.parametrize("draw", [plots.fitted_lines, plots.residuals, plots.rootogram])
def test_what_is_not_fitted_cannot_be_drawn(draw: Any) -> None:
    with pytest.raises(NotFittedError, match="not fitted yet"):
        draw(MixedLinearRegression(2), np.zeros((3, 1)), np.zeros(3))
