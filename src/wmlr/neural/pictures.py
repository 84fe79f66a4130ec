"""The pictures and the table of ``docs/nonlinear.md``.

``python -m wmlr.neural.pictures docs/images docs/bench/neural.json docs/nonlinear.md`` draws the pictures into the
first, and puts the table of the second, which ``wmlr bench neural`` wrote, into the third.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from wmlr.curves import Curves, make_curves
from wmlr.experiments.outcome import ResultTable
from wmlr.experiments.report import markdown_table
from wmlr.federated import Federation
from wmlr.io.files import write_text
from wmlr.neural.estimator import NeuralMixedRegression
from wmlr.numerics.arrays import Array
from wmlr.plots import COLOURS, DPI, convergence, fitted_lines, require, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKS = "<!-- results -->", "<!-- end of results -->"
GREY = "#BBBBBB"
SHOWN_AGENTS = 4
GRID = 60


def sines(n_samples: int = 2_000, **settings: Any) -> Figure:
    """Two intertwined branches: the rows as given, and the curves found among them."""
    rows = make_curves("sines", n_samples, random_state=0)
    fit = NeuralMixedRegression(2, random_state=0, **settings).fit(rows.X, rows.y)
    figure, (left, right) = _panels(1, 2, (9.0, 3.8))
    left.scatter(rows.X, rows.y, s=4, color="#777777", linewidths=0)
    left.set(title="the rows", xlabel="x0", ylabel="y")
    _draw_found(right, fit, rows, None)
    return figure


def surfaces(n_samples: int = 8_000, **settings: Any) -> Figure:
    """Three surfaces over a plane, each above what was found of it."""
    rows = make_curves("surfaces", n_samples, random_state=0)
    fit = NeuralMixedRegression(3, random_state=0, **settings).fit(rows.X, rows.y)
    ticks = np.linspace(-2.0, 2.0, GRID)
    places = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
    truth, found = rows.means(places), fit.predict_components(places)
    order = linear_sum_assignment(((truth[:, :, None] - found[:, None, :]) ** 2).mean(axis=0))[1]
    levels = np.linspace(truth.min(), truth.max(), 15)
    figure, axes = _panels(2, 3, (9.0, 5.6))
    for column, component in enumerate(order):
        for ax, name, values in zip(axes[:, column], ("true", "found"), (truth[:, column], found[:, component])):
            shown = ax.contourf(ticks, ticks, values.reshape(GRID, GRID), levels, cmap="viridis", extend="both")
            share = rows.weights[column] if name == "true" else fit.weights_[component]
            ax.set_title(f"{name}, weight {share:.2f}")
            ax.set_aspect("equal")
    figure.colorbar(shown, ax=axes, label="y")
    return figure


def agents(n_agents: int = 200, n_rows: int = 15, **settings: Any) -> Figure:
    """Agents whose rows each follow one of three response curves, trained where the rows are."""
    rows = make_curves("responses", n_agents * n_rows, groups=n_rows, random_state=0)
    assert rows.groups is not None
    federation = Federation.split(rows.X, rows.y, rows.groups, level="agent")
    fit = NeuralMixedRegression(3, random_state=0, **settings).fit_on(federation)
    figure, (left, right) = _panels(1, 2, (9.0, 3.8))
    left.scatter(rows.X, rows.y, s=4, color=GREY, linewidths=0)
    for agent, colour in zip(range(SHOWN_AGENTS), ("#000000", *COLOURS[3:])):
        own = rows.groups == agent
        left.scatter(rows.X[own], rows.y[own], s=22, color=colour, linewidths=0, label=f"agent {agent + 1}")
    left.set(title=f"rows of {n_agents} agents, {SHOWN_AGENTS} of them marked", xlabel="x0", ylabel="y")
    left.legend(fontsize=8, framealpha=0.85, edgecolor="none")
    _draw_found(right, fit, rows, rows.groups)
    return figure


def gradients(results: dict[str, Any]) -> Figure:
    """How the norm of the gradient falls in each training on all rows, from the benchmark's numbers."""
    series = results["numbers"]["gradients"]
    shown = {name.removesuffix(", all rows per step"): norms for name, norms in series.items() if "all rows" in name}
    figure = convergence(shown, ylabel="norm of the gradient")
    figure.axes[0].set_xlabel("step, on all rows")
    return figure


def _draw_found(ax: Axes, fit: NeuralMixedRegression, rows: Curves, groups: Any) -> None:
    """Rows in the colours of the curves found, and the true curves as thin lines."""
    fitted_lines(fit, rows.X, rows.y, ax=ax, groups=groups)
    reach: Array = np.linspace(rows.X.min(), rows.X.max(), 300)[:, None]
    for number, curve in enumerate(rows.means(reach).T):
        ax.plot(reach, curve, color="black", linewidth=0.8, label=None if number else "the truth")
    ax.legend(fontsize=8, framealpha=0.85, edgecolor="none")
    ax.set_title("curves found" if groups is None else "curves found, and whose agent is which")


def _panels(rows: int, columns: int, size: tuple[float, float]) -> tuple[Figure, Any]:
    require()
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=DPI, layout="constrained")
    return figure, figure.subplots(rows, columns, sharex=True, sharey=True)


def with_table(page: str, results: dict[str, Any]) -> str:
    """A page with the benchmark's table between its two marks."""
    before, mark, rest = page.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not mark or not end:
        raise ValueError(f"the page has no place for the table: put it between {MARKS[0]} and {MARKS[1]}")
    table = ResultTable(results["title"], tuple(results["columns"]), tuple(map(tuple, results["rows"])))
    return f"{before}{mark}\n\n{markdown_table(table)}\n\n{end}{after}"


def write(folder: Path, results: Path, page: Path) -> list[Path]:
    """Draw every picture into a folder, and renew the page's table."""
    require()
    if not results.is_file():
        raise ValueError(f"there is no {results}: run `wmlr bench neural --out {results.parent}` first")
    found = json.loads(results.read_text(encoding="utf-8"))
    text = with_table(page.read_text(encoding="utf-8"), found)
    made = {"sines": sines(), "surfaces": surfaces(), "agents": agents(), "gradients": gradients(found)}
    paths = {folder / f"neural-{name}.png": figure for name, figure in made.items()}
    for path, figure in paths.items():
        save(figure, path)
    write_text(page, text)
    return [*paths, page]


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: python -m wmlr.neural.pictures docs/images docs/bench/neural.json docs/nonlinear.md")
    for written in write(*map(Path, sys.argv[1:])):
        print(f"wrote {written}")
