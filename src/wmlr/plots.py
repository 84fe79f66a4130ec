"""Pictures of a fit, as matplotlib figures that need no display.

Every function returns a :class:`matplotlib.figure.Figure` made without pyplot, so nothing global changes and
nothing pops up; with ``ax`` the picture goes into axes of the caller's. The colours are those of Okabe and
Ito, told apart by every kind of colour vision.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wmlr.drawn_lines import (
    Along,
    along_feature,
    along_variable,
    separating_column,
    separating_variable,
    weighted_quantiles,
)
from wmlr.drawn_lines import variables_to_draw_along as variables_to_draw_along
from wmlr.io.files import write_bytes
from wmlr.io.frames import as_frame, is_frame
from wmlr.io.printable import shown_text
from wmlr.io.tables import MissingExtraError
from wmlr.numerics.arrays import Array, uniform_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)))
SIZE = (7.0, 4.4)
DPI = 144
LONGEST_LABEL = 60
CROWD = 1000  # above this many rows the lines are drawn over the points, below it under them


def convergence(
    histories: Mapping[str, Sequence[float]],
    *,
    ylabel: str = "relative error",
    bound: float | None = None,
    bound_label: str = "Cramér–Rao bound",
    ax: Axes | None = None,
) -> Figure:
    """Draw how several methods approach their end, on one logarithmic axis.

    Parameters
    ----------
    histories : mapping from a label to its values
        One value per iteration, the start first: relative errors, or gaps to the best likelihood. Values
        that are not positive cannot be drawn on such an axis and are left out.
    ylabel : str, default="relative error"
    bound : float, optional
        A level to draw across, such as the Cramer-Rao bound.
    bound_label : str
        What that level is.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.figure.Figure
        The iterations are on an axis that is logarithmic beyond 1, so that a method of two iterations and
        one of a hundred both show.
    """
    if not histories:
        raise ValueError("histories is empty: give at least one method's values")
    ax = _axes(ax)
    for number, (label, history) in enumerate(histories.items()):
        values = np.asarray(history, dtype=np.float64)
        values = np.where(values > 0, values, np.nan)
        ax.plot(
            np.arange(len(values)),
            values,
            color=COLOURS[number % len(COLOURS)],
            linestyle=DASHES[number % len(DASHES)],
            linewidth=1.8,
            marker="o",
            markersize=4,
            markevery=[len(values) - 1],
            label=label,
        )
    if bound is not None:
        ax.axhline(bound, color="#666666", linewidth=1, linestyle=":", label=bound_label, zorder=0)
    longest = max(len(history) for history in histories.values())
    ax.set_yscale("log")
    ax.set_xscale("symlog", linthresh=1, linscale=0.4)
    ticks = [0, *(step * 10**power for power in range(9) for step in (1, 2, 5))]
    ticks = [tick for tick in ticks if tick <= max(longest - 1, 1)]
    ax.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    ax.set_xticks([], minor=True)
    ax.set_xlim(-0.08, max(longest - 1, 1) * 1.08)
    ax.set(xlabel="iteration", ylabel=ylabel)
    ax.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return _figure(ax)


def fitted_lines(
    estimator: Any,
    X: Any,
    y: Any,
    feature: str | int | None = None,
    ax: Axes | None = None,
    *,
    groups: Any = None,
    xlabel: str | None = None,
    ylabel: str | None = None,
    **roles: Any,
) -> Figure:
    """Draw the rows, coloured by the component they seem to belong to, and the fitted lines.

    Parameters
    ----------
    estimator : a fitted MixedLinearRegression
    X, y : the rows to draw; of a model with a formula, X may be the data frame
    feature : str or int, optional
        The feature on the horizontal axis, by name or place; the others are held at their means along the
        lines. Without it, the one along which the components' lines differ most.
    ax : matplotlib.axes.Axes, optional
    groups : array-like, optional
        Rows of one group share their component.
    xlabel, ylabel : str, optional
        In place of the names the data bring along.
    **roles : array-like, optional
        What else is known of each row, ``offset=``, ``exposure=`` and ``trials=`` as in fit. The lines are drawn at the
        mean offset; successes among trials as shares.

    Returns
    -------
    matplotlib.figure.Figure
        A row's colour is the mixture of the components' colours by its responsibilities, so that doubtful
        rows look doubtful. With several features and none named, rows are drawn at their partial residuals: as far
        from the line of their likeliest component as y is from its mean there, so that what the other features do
        is taken out.
    """
    inputs = _inputs(estimator)
    formula = inputs.formula
    X = as_frame(X) if formula is not None and is_frame(X) else X
    if inputs.by_formula(X):
        target = formula.target(X) if y is None else np.asarray(y, dtype=np.float64)
        several = len(formula.variables) > 1
        chosen = separating_variable(estimator, X, roles) if feature is None else feature
        line = along_variable(estimator, X, chosen, roles)
    else:
        target = np.asarray(y, dtype=np.float64)
        several = np.shape(X)[1] > 1
        line = along_feature(estimator, X, separating_column(estimator, X) if feature is None else feature, roles)
    target = _share_of_trials(target, roles)
    label, places, reach, means = line.label, line.places, line.reach, line.means
    shares = estimator.responsibilities(X, y, groups, **roles)
    ylabel = ylabel or _short_label(_label(y) or ("y" if formula is None else formula.target_name))
    if several and feature is None:
        target = _partial_residuals(estimator, X, target, shares, line, roles)
        ylabel = f"{ylabel}, other columns held at their means"
    ax = _axes(ax)
    palette = _palette(shares.shape[1])
    crowded = len(target) > CROWD
    colours = np.clip(shares @ palette, 0, 1)
    if crowded:
        ax.scatter(places, target, s=3, c=colours, alpha=0.6, linewidths=0)
    else:
        ax.scatter(places, target, s=26, c=colours, alpha=0.9, linewidths=0.5, edgecolors="white", zorder=3)
    for j, colour in enumerate(palette):
        if crowded:
            ax.plot(reach, means[:, j], color="white", linewidth=4.2, solid_capstyle="round")
        ax.plot(reach, means[:, j], color=colour, linewidth=2.2, linestyle=DASHES[j % len(DASHES)],
                label=f"component {j + 1}, weight {estimator.weights_[j]:.2f}")  # fmt: skip
    ax.set(xlabel=xlabel or _short_label(label), ylabel=ylabel)
    ax.legend(fontsize=9, framealpha=0.85, edgecolor="none")
    return _figure(ax)


def _partial_residuals(
    estimator: Any, X: Any, target: Array, shares: Array, line: Along, roles: Mapping[str, Any]
) -> Array:
    """y without what other features do in each row's likeliest component: the line there, and what is left of y."""
    likeliest = shares.argmax(axis=1)[:, None]
    means = np.take_along_axis(np.asarray(estimator.predict_components(X, **roles)), likeliest, axis=1)[:, 0]
    return np.asarray(np.take_along_axis(line.at_rows(), likeliest, axis=1)[:, 0] + target - means)


def _share_of_trials(target: Array, roles: Mapping[str, Any]) -> Array:
    """Successes as shares of their trials, where rows have such."""
    if target.ndim == 2:
        return np.asarray(target[:, 0] / np.maximum(target.sum(axis=1), 1.0))
    return target if roles.get("trials") is None else np.asarray(target / np.maximum(roles["trials"], 1.0))


def residuals(estimator: Any, X: Any, y: Any = None, *, groups: Any = None, **roles: Any) -> Figure:
    """Draw the residuals of each component: against the fitted values, and against the noise's quantiles.

    Parameters
    ----------
    estimator : a fitted MixedLinearRegression
    X, y : the rows
    groups : array-like, optional
        Rows of one group share their component.
    **roles : array-like, optional
        What else is known of each row, ``offset=``, ``exposure=`` and ``trials=`` as in fit.

    Returns
    -------
    matplotlib.figure.Figure
        On the left each row is drawn once, in its likeliest component. On the right every row counts for
        each component by its responsibility: under the model these weighted quantiles are those of its noise
        (normal, or Student's where the fit is robust) even where the components overlap, which those of
        assigned rows are not. Where y is no line plus noise, they are quantile residuals, and normal; those of counts
        lie at random between the quantiles of the count and of the one before, always at the same places.
    """
    require()
    from matplotlib.figure import Figure

    rows = _inputs(estimator).rows(X, y, groups=groups, **roles)
    counts, beside = rows.y, rows.beside
    target = _share_of_trials(counts, beside)
    means = rows.gaps.complete(np.asarray(estimator.predict_components(X, **roles)))
    shares = rows.gaps.complete(estimator.responsibilities(X, y, groups, **roles))
    assigned = shares.argmax(axis=1)
    palette = _palette(shares.shape[1])
    family, sigma = estimator.mixture_.family, estimator.sigma_
    place = uniform_of(np.arange(len(target)))[:, None]
    with np.errstate(divide="ignore"):
        residuals = family.of_rows(beside).residuals(counts[:, None], family.predictor_of(means), sigma, place)
    figure = Figure(figsize=(8.4, 3.9), dpi=DPI, layout="constrained")
    left, right = figure.subplots(1, 2)
    size = float(np.clip(3000 / len(target), 3, 22))
    for j, colour in enumerate(palette):
        rows = assigned == j
        left.scatter(means[rows, j], (target - means[:, j])[rows], s=size, color=colour, alpha=0.7, linewidths=0,
                     label=f"component {j + 1}")  # fmt: skip
        levels, seen = weighted_quantiles(residuals[:, j], shares[:, j])
        right.plot(family.residual_quantile(levels), seen, color=colour, linewidth=2, linestyle=DASHES[j % len(DASHES)])
    left.axhline(0, color="#666666", linewidth=1, zorder=0)
    left.set_xlabel("fitted value")
    left.set_ylabel("residual")
    left.legend(fontsize=9, framealpha=0.85, edgecolor="none")
    right.axline((0, 0), slope=1, color="#666666", linewidth=1, zorder=0)
    right.set_xlabel(f"{family.title} quantile")
    right.set_ylabel("residual / sigma" if family.linear and family.one_law else "quantile residual")
    for ax in (left, right):
        _plain(ax)
    return figure


def rootogram(
    estimator: Any, X: Any, y: Any = None, *, groups: Any = None, bins: int = 25, least: float = 1e-4, **roles: Any
) -> Figure:
    """Draw how probable each component is for the rows: bars as high as the square roots of the counts.

    A component that is well apart from the others has rows near 0 and near 1, and few between.

    Parameters
    ----------
    estimator : a fitted MixedLinearRegression
    X, y : the rows
    groups : array-like, optional
        Rows of one group share their component.
    bins : int, default=25
    least : float, default=1e-4
        Smaller probabilities are left out, as they would hide all else.
    **roles : array-like, optional
        What else is known of each row, as in fit.

    Returns
    -------
    matplotlib.figure.Figure
        One picture per component.
    """
    require()
    from matplotlib.figure import Figure

    shares = estimator.responsibilities(X, y, groups, **roles)
    k = shares.shape[1]
    across = min(k, 3)
    down = -(-k // across)
    figure = Figure(figsize=(2.8 * across, 2.6 * down), dpi=DPI, layout="constrained")
    axes = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True).ravel()
    for j, (ax, colour) in enumerate(zip(axes, _palette(k))):
        counts, edges = np.histogram(shares[shares[:, j] > least, j], bins=bins, range=(0.0, 1.0))
        ax.bar(edges[:-1], np.sqrt(counts), width=np.diff(edges), align="edge", color=colour, edgecolor="white")
        ax.set_title(f"component {j + 1}", fontsize=10)
        _plain(ax)
    for ax in axes[k:]:
        ax.remove()
    figure.supxlabel("posterior probability")
    figure.supylabel("square root of rows")
    return figure


def component_test(test: Any, ax: Axes | None = None) -> Figure:
    """Draw a likelihood-ratio test of k components against k + 1: the draws' statistics, and the data's.

    Parameters
    ----------
    test : what likelihood_ratio_test returned
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    ax = _axes(ax)
    k = test.n_components
    ax.hist(test.draws, bins="auto", color=COLOURS[0], edgecolor="white", label=f"drawn with {k}: {len(test.draws)}")
    ax.axvline(test.statistic, color=COLOURS[1], linewidth=2, label=f"the data: p = {test.p_value:.3g}")
    ax.set(xlabel=f"2 log likelihood ratio of {k + 1} against {k} components", ylabel="draws")
    ax.legend(frameon=False, fontsize=9)
    return _figure(ax)


def criterion(selection: Any, ax: Axes | None = None) -> Figure:
    """Draw the criterion of :func:`wmlr.select_components` against the number of components.

    Parameters
    ----------
    selection : what select_components returned
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    ax = _axes(ax)
    best = selection.n_components.index(selection.best)
    ax.plot(selection.n_components, selection.values, color=COLOURS[0], linewidth=1.8, marker="o", markersize=5)
    ax.plot(selection.best, selection.values[best], color=COLOURS[1], marker="o", markersize=11, linestyle="none",
            markerfacecolor="none", markeredgewidth=2, label=f"best: {selection.best}")  # fmt: skip
    ax.set_xticks(selection.n_components)
    ax.set_xlabel("number of components")
    held_out = selection.criterion == "cv"
    ax.set_ylabel("minus held-out log-likelihood per row" if held_out else selection.criterion.upper())
    ax.legend(frameon=False, fontsize=9)
    return _figure(ax)


def effects(found: Any, ax: Axes | None = None) -> Figure:
    """Draw average marginal effects with their intervals, a line for each column, by component and overall.

    Parameters
    ----------
    found : what ``fit.effects(X, y)`` returned
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    ax = _axes(ax)
    places = np.arange(len(found.names), dtype=np.float64)
    for j, (name, values) in enumerate(zip(found.components, found.values)):
        overall = j + 1 == len(found.values)
        colour = "#444444" if overall else COLOURS[j % len(COLOURS)]
        widths = np.nan_to_num(np.stack([values - found.lower[j], found.upper[j] - values]))
        shift = 0.6 * (j / max(len(found.values) - 1, 1) - 0.5)
        ax.errorbar(values, places + shift, xerr=widths, color=colour, marker="D" if overall else "o", markersize=5,
                    linestyle="none", capsize=2, label=name if overall else f"component {name}")  # fmt: skip
    ax.axvline(0.0, color="#999999", linewidth=0.8, linestyle="--")
    ax.set_yticks(places, [_short_label(name) for name in found.names])
    ax.invert_yaxis()
    ax.set_xlabel(f"average effect on {_short_label(found.target)}")
    ax.legend(frameon=False, fontsize=9)
    return _figure(ax)


def profile(found: Any, ax: Axes | None = None, most: int = 12) -> Figure:
    """Draw who is in each component: how far its mean or share lies from that of all rows, in standard deviations.

    Parameters
    ----------
    found : what ``fit.profile(frame)`` returned
    ax : matplotlib.axes.Axes, optional
    most : int
        Columns at most, those that differ most first.

    Returns
    -------
    matplotlib.figure.Figure
    """
    ax = _axes(ax)
    lines = [(label, column.standardised[:, place]) for column in found.columns[:most]
             for place, label in enumerate(column.labels)]  # fmt: skip
    places = np.arange(len(lines))
    for j in range(len(found.sizes)):
        ax.plot([apart[j] for _, apart in lines], places, "o", color=COLOURS[j % len(COLOURS)],
                label=f"component {j + 1}")  # fmt: skip
    ax.axvline(0.0, color="#999999", linewidth=0.8, linestyle="--")
    ax.set_yticks(places, [_short_label(label) for label, _ in lines])
    ax.invert_yaxis()
    ax.set_xlabel("difference from all rows, in standard deviations")
    ax.legend(frameon=False, fontsize=9)
    return _figure(ax)


def maxima(fit: Any, ax: Axes | None = None) -> Figure:
    """Draw the maxima that a fit's search saw: their log-likelihoods, and how far they lie from the best.

    Parameters
    ----------
    fit : fitted MixedLinearRegression
        One whose ``search_`` is not None. The size of a point is how many candidates ended there.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    search = fit.search_
    if search is None:
        raise ValueError("this fit was not searched for: fit with start='auto' and more than one component")
    ax = _axes(ax)
    distances = [one.distance for one in search.maxima]
    values = [one.log_likelihood for one in search.maxima]
    sizes = [30.0 * np.sqrt(one.found) for one in search.maxima]
    ax.scatter(distances[1:], values[1:], s=sizes[1:], color=COLOURS[0], alpha=0.7, linewidths=0)
    ax.scatter(distances[:1], values[:1], s=sizes[:1], color=COLOURS[1], label=search.sentence())
    ax.set(xlabel="distance of the lines from the best, in deviations of the noise", ylabel="log-likelihood")
    ax.legend(frameon=False, fontsize=9, loc="lower right")
    return _figure(ax)


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure, whole or not at all; the name's ending chooses the format."""
    path = Path(path)
    check_format(path)
    write_bytes(path, image(figure, path.suffix[1:]))


def image(figure: Figure, kind: str = "png") -> bytes:
    """A figure as the bytes of a picture file."""
    sink = io.BytesIO()
    figure.savefig(sink, format=kind.lower())
    return sink.getvalue()


def check_format(path: Path) -> None:
    """Raise before the work is done if a picture of that name could not be written."""
    require()
    from matplotlib.figure import Figure

    kinds = sorted(Figure().canvas.get_supported_filetypes())
    if path.suffix[1:].lower() not in kinds:
        raise ValueError(f"{path} does not end like a picture: use one of .{', .'.join(kinds)}")


def require() -> None:
    """Raise one clear line unless matplotlib is installed."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise MissingExtraError("plots need matplotlib: pip install 'wmlr[plots]'") from None


def _axes(ax: Axes | None) -> Axes:
    require()
    if ax is not None:
        return ax
    from matplotlib.figure import Figure

    return Figure(figsize=SIZE, dpi=DPI, layout="constrained").subplots()


def _figure(ax: Axes) -> Figure:
    _plain(ax)
    return ax.get_figure(root=True)  # type: ignore[return-value]


def _plain(ax: Axes) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="#E6E6E6", linewidth=0.7)
    ax.set_axisbelow(True)


def _palette(k: int) -> Array:
    """The colours of k components as rows of red, green and blue."""
    hexes = [COLOURS[j % len(COLOURS)][1:] for j in range(k)]
    return np.array([[int(code[i : i + 2], 16) / 255 for i in (0, 2, 4)] for code in hexes])


def _inputs(estimator: Any) -> Any:
    """The columns that a fit saw."""
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(estimator)
    return estimator.fitted_.inputs


def _short_label(name: str) -> str:
    """A name out of the data as a label: not endless, and its dollars no marks of mathematics."""
    return shown_text(name, LONGEST_LABEL).replace("$", r"\$")


def _label(y: Any) -> str | None:
    name = getattr(y, "name", None)
    return None if name is None else str(name)
