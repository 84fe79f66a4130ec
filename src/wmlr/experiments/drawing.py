"""The figures, in the paper's layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

COLOURS = {"F-WMLR": "#c0392b", "F-GEM": "#2456a6", "F-EM": "#222222", "refreshed, agent level": "#1e8449"}
STYLES = {20.0: ":", 10.0: "-", 5.0: "-.", 1.0: "--"}
DOTS = 130
FASTEST = "#c0392b"
MOST_NAMES = 8


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def save(figure: Any, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and SVG."""
    paths = [folder / f"{name}.png", folder / f"{name}.svg"]
    figure.savefig(paths[0], dpi=DOTS, bbox_inches="tight", metadata={"Software": None})
    figure.savefig(paths[1], bbox_inches="tight", metadata={"Date": None})
    _pyplot().close(figure)
    return paths


def convergence(curves: list[dict[str, Any]], length: int) -> Any:
    """Figure 1: one line per method and SNR."""
    figure, axes = _pyplot().subplots(figsize=(7, 4.6))
    for line in curves:
        iteration, error = _extend_curve(line["curve"], length)
        axes.plot(
            iteration, error, color=COLOURS[line["method"]], linestyle=STYLES[line["snr"]], linewidth=1.8,
            label=f"{line['method']}, SNR = {line['snr']:g}",
        )  # fmt: skip
    axes.set(xlabel="iteration", ylabel="relative error of β", yscale="log", xlim=(0, length))
    axes.set_title("Distance to β*, federated")
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    return figure


def panels(found: list[dict[str, Any]], labels: dict[str, str], symbols: dict[str, str]) -> Any:
    """Figure 2: a panel per method and SNR, a line per hyper-parameter, the fastest in red.

    A run that lost the race ends in a cross. Many values have a scale of colours in place of names.
    """
    pyplot = _pyplot()
    figure, grid = pyplot.subplots(3, 3, figsize=(13, 10), constrained_layout=True)
    for axes, panel in zip(grid.ravel(), found):
        finite = {value: run for value, run in panel["runs"].items() if run["error"] < 10}
        scale = _scale([float(value) for value in panel["runs"]])
        symbol = symbols[panel["method"]]
        for value, run in finite.items():
            iteration, error = run["curve"]["iteration"], run["curve"]["error"]
            first = value == panel["fastest"]
            (line,) = axes.plot(
                iteration, error, color=FASTEST if first else scale.to_rgba(float(value)), zorder=3 if first else 2,
                linewidth=2.4 if first else 1.2, label=f"{symbol} = {float(value):.2g}",
            )  # fmt: skip
            if run.get("stopped"):
                axes.plot(iteration[-1:], error[-1:], "x", color=line.get_color(), markersize=5, zorder=2)
        errors = [error for run in finite.values() for error in run["curve"]["error"]]
        axes.set(yscale="log", xlabel="iteration", ylabel="relative error of β")
        axes.set_ylim(bottom=min(min(errors, default=1.0), max(errors, default=1.0) / 30) / 1.2)
        if panel["method"] == "gem":
            axes.set_xscale("symlog", linthresh=10)
            axes.set_xlim(left=0)
        title = f"{labels[panel['method']]}, SNR = {panel['snr']:g}"
        if len(finite) > MOST_NAMES:
            figure.colorbar(scale, ax=axes, label=symbol, pad=0.01)
            title += f", fastest {symbol} = {float(panel['fastest']):.2g}" if panel["fastest"] else ""
        else:
            axes.legend(fontsize=7)
        axes.set_title(title, fontsize=10)
        axes.grid(alpha=0.25)
    return figure


def _scale(values: list[float]) -> Any:
    """Colours for values equally far apart in the logarithm."""
    from matplotlib import cm, colors

    low, high = min(values), max(values)
    return cm.ScalarMappable(colors.LogNorm(low, max(high, 1.001 * low)), _pyplot().get_cmap("viridis"))


def lines(series: list[dict[str, Any]], *, x: str, y: str, title: str, log_x: bool = True, log_y: bool = True) -> Any:
    """Labelled lines: each has ``x``, ``y``, ``label`` and a matplotlib ``style``; ``low`` and ``high`` are bars."""
    figure, axes = _pyplot().subplots(figsize=(6.4, 4.4), constrained_layout=True)
    for line in series:
        (drawn,) = axes.plot(
            line["x"], line["y"], line.get("style", "-"), label=line["label"], linewidth=1.6, markersize=4
        )
        if "low" in line:
            axes.fill_between(line["x"], line["low"], line["high"], color=drawn.get_color(), alpha=0.15, linewidth=0)
    axes.set(xlabel=x, ylabel=y)
    axes.set_title(title, fontsize=11)
    if log_x:
        axes.set_xscale("log")
    if log_y:
        axes.set_yscale("log")
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8)
    return figure


def _extend_curve(curve: dict[str, list[float]], length: int) -> tuple[list[float], list[float]]:
    """A curve cut at ``length``, or held at its last value until there."""
    kept = [(place, error) for place, error in zip(curve["iteration"], curve["error"]) if place <= length]
    places, errors = [place for place, _ in kept], [error for _, error in kept]
    if places[-1] < length and curve["iteration"][-1] <= length:
        places, errors = [*places, length], [*errors, errors[-1]]
    return places, errors
