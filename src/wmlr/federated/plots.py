"""Error against bytes: what a federated fit costs in what it sends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from wmlr import plots
from wmlr.core.round import Report
from wmlr.metrics import coefficient_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class ErrorTrace:
    """Watches a fit: the error of the coefficients after each iteration, and the bytes sent until then.

    Parameters
    ----------
    coef : (k, d), the true coefficients.

    Attributes
    ----------
    errors : relative errors, the start's first.
    bytes : those of all agents, both ways, until then; rounds : the rounds until then.

    Examples
    --------
    >>> from wmlr import MixedLinearRegression
    >>> from wmlr.datasets import make_mixed_regression
    >>> from wmlr.federated import ErrorTrace, Federation
    >>> data = make_mixed_regression(3000, 4, snr=5, symmetric=True, groups=10, random_state=0)
    >>> federation = Federation.split(data.X, data.y, data.groups, level="agent")
    >>> trace = ErrorTrace(data.coef)
    >>> fit = MixedLinearRegression(symmetric=True, random_state=0).fit_on(federation, trace)
    >>> trace.rounds
    [3, 4]
    """

    def __init__(self, coef: ArrayLike) -> None:
        self.coef = np.asarray(coef, dtype=np.float64)
        self.errors: list[float] = []
        self.bytes: list[float] = []
        self.rounds: list[int] = []

    def __call__(self, report: Report) -> None:
        self.errors.append(float(coefficient_error(report.mixture.coef, self.coef)))
        self.bytes.append(float(report.record.get("bytes", 0.0)))
        self.rounds.append(int(report.record.get("rounds", 0)))


def error_against_bytes(
    traces: Mapping[str, ErrorTrace],
    *,
    bound: float | None = None,
    bound_label: str = "least squares with true labels",
    ax: Axes | None = None,
) -> Figure:
    """Draw how the error falls with what all agents together receive and send.

    Parameters
    ----------
    traces : mapping from a label to the trace of its fit
    bound : float, optional
        A level to draw across, such as the error of least squares with the true labels.
    bound_label : str
        What that level is.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    if not traces:
        raise ValueError("traces is empty: give at least one fit's trace")
    plots.require()
    if ax is None:
        from matplotlib.figure import Figure

        ax = Figure(figsize=plots.SIZE, dpi=plots.DPI, layout="constrained").subplots()
    for number, (label, trace) in enumerate(traces.items()):
        ax.plot(
            np.array(trace.bytes) / 1e6,
            trace.errors,
            color=plots.COLOURS[number % len(plots.COLOURS)],
            linestyle=plots.DASHES[number % len(plots.DASHES)],
            linewidth=1.8,
            marker="o",
            markersize=4,
            markevery=[0, len(trace.errors) - 1],
            label=f"{label}, {trace.rounds[-1]:,} rounds",
        )
    if bound is not None:
        ax.axhline(bound, color="#666666", linewidth=1, linestyle=":", label=bound_label, zorder=0)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("megabytes, all agents, down and up")
    ax.set_ylabel("relative error")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="#E6E6E6", linewidth=0.7)
    ax.set_axisbelow(True)
    ax.legend(frameon=False, fontsize=8)
    figure: Figure = ax.get_figure(root=True)  # type: ignore[assignment]
    return figure
