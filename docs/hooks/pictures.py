"""Draws the pictures of "The idea in pictures": ``python docs/hooks/pictures.py`` writes docs/images/*.svg."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from scipy.optimize import brentq, minimize

from wmlr import GDA, MixedLinearRegression, Mixture
from wmlr.core.round import Report
from wmlr.engines.arrays import ArrayRows
from wmlr.numerics.arrays import Array
from wmlr.numerics.expectations import GaussHermite
from wmlr.plots import COLOURS

FOLDER = Path(__file__).parent.parent / "images"
GREY = "#8A8A8A"
BLUE, RED, GREEN = COLOURS[:3]


def mixture() -> Figure:
    """A cloud of points as it is given, and as it is explained."""
    X, y = cloud()
    fit = MixedLinearRegression(2, random_state=0).fit(X, y)
    shares = fit.responsibilities(X, y)
    figure, (left, right) = panels(2)
    left.scatter(X, y, s=12, color=GREY, linewidths=0)
    left.set_title("what you have")
    colours = np.array([mpl.colors.to_rgb(name) for name in (BLUE, RED)])
    right.scatter(X, y, s=12, color=shares @ colours, linewidths=0)
    ends = np.array([[-2.4], [2.4]])
    for line, colour in zip(fit.predict_components(ends).T, (BLUE, RED)):
        right.plot(ends[:, 0], line, color=colour, linewidth=2)
    right.set_title("what is found: k lines, and whose row each row is")
    for ax in (left, right):
        ax.set_xlabel("x")
        ax.set_ylabel("y")
        ax.set_ylim(-5, 5)
    return figure


def cloud() -> tuple[Array, Array]:
    generator = np.random.default_rng(3)
    X = generator.uniform(-2.4, 2.4, (260, 1))
    truth = Mixture.of([[1.4], [-0.9]], 0.45, [0.6, 0.4])
    return X, truth.sample(X, generator)[0]


def transport() -> Figure:
    """At one x, the law of y that the data have and the one that the model has, and how far to carry it."""
    y = np.linspace(-5, 5, 400)
    data = bump(y, 2.2) / 2 + bump(y, -2.2) / 2
    model = bump(y, 1.2) / 2 + bump(y, -1.2) / 2
    figure, (ax,) = panels(1, (7.0, 2.9))
    ax.fill_between(y, data, color=BLUE, alpha=0.25, linewidth=0)
    ax.plot(y, data, color=BLUE, label="the data's")
    ax.plot(y, model, color=RED, linestyle=(0, (5, 2)), label="the model's")
    for sign in (1, -1):
        arrow(ax, (1.2 * sign, 0.16), (2.2 * sign, 0.16), GREY)
    ax.set_xlabel("y, at one x")
    ax.set_ylabel("density")
    ax.set_yticks([])
    ax.legend(frameon=False)
    return figure


def bump(y: Array, centre: float, width: float = 0.7) -> Array:
    return np.asarray(np.exp(-0.5 * ((y - centre) / width) ** 2) / (width * np.sqrt(2 * np.pi)))


class Line:
    """The minimax problem of a symmetric pair in one dimension: everything can be looked at."""

    def __init__(self, lam: float = 0.5, reference: float = 1.0) -> None:
        generator = np.random.default_rng(5)
        self.x = generator.standard_normal(400)
        self.y = 2.0 * self.x * generator.choice([-1, 1], 400) + generator.standard_normal(400)
        self.lam, self.reference = lam, reference

    def apart(self, gamma: float, beta: float) -> float:
        """Mean of log cosh(y gamma x) over the data, less its expectation under the model."""
        v = gamma * self.x
        expected = GaussHermite(48).log_cosh(beta * self.x, v, 1.0, None, None, None)[0]
        return float(np.mean(np.logaddexp(self.y * v, -self.y * v) - np.log(2) - expected))

    def moment(self, gamma: float, beta: float) -> float:
        """Its slope in gamma: mean of y tanh(y gamma x) x, less its expectation."""
        v = gamma * self.x
        expected = GaussHermite(48).log_cosh(beta * self.x, v, 1.0, None, None, None)[2]
        return float(np.mean((self.y * np.tanh(self.y * v) - expected) * self.x))

    def worst(self, beta: float) -> float:
        """The largest difference an examiner near the reference can find."""

        def minus(gamma: Array) -> float:
            pull = self.lam * float(np.sum((gamma - self.reference) ** 2))
            return -(self.apart(gamma[0], beta) - self.apart(gamma[1], beta) - pull)

        return -float(minimize(minus, np.full(2, self.reference), method="Nelder-Mead").fun)


def minimax() -> Figure:
    """What the examiner looks for, and what is left for it to find at each beta."""
    problem = Line()
    root = brentq(lambda beta: problem.moment(problem.reference, beta), 1.0, 3.0)
    figure, (left, right) = panels(2)
    y = np.linspace(-5, 5, 400)
    data, model = bump(y, 2.2) / 2 + bump(y, -2.2) / 2, bump(y, 1.2) / 2 + bump(y, -1.2) / 2
    psi = np.logaddexp(1.6 * y, -1.6 * y) - np.logaddexp(0.7 * y, -0.7 * y)
    left.plot(y, data, color=BLUE, label="data")
    left.plot(y, model, color=RED, linestyle=(0, (5, 2)), label="model")
    left.plot(y, 0.05 * psi, color=GREEN, label="ψ, which the examiner chooses")
    left.set_title("the examiner: where does ψ tell them apart?")
    left.set_xlabel("y, at one x")
    left.set_yticks([])
    left.set_ylim(0, 0.5)
    left.legend(frameon=False, loc="upper center", fontsize=8)
    betas = np.linspace(0.0, 3.4, 35)
    right.plot(betas, [problem.worst(beta) for beta in betas], color=GREEN)
    right.plot(root, 0.0, marker="o", color=RED, markersize=8, clip_on=False, zorder=5)
    right.annotate(
        "nothing left to find", (root, 0.0), (root - 1.1, 1.1), arrowprops={"arrowstyle": "-", "color": GREY}
    )
    right.set_title("the model: where is the examiner's best smallest?")
    right.set_xlabel("β")
    right.set_ylabel("max over γ of the objective")
    right.set_ylim(bottom=0)
    return figure


def descent() -> Figure:
    """Two ways down: gradients on both sides, or a step on the moment equation with the reference refreshed."""
    problem = Line()
    paths = {
        "gradients on both sides": visited(problem, GDA(lam=0.5)),
        "reference refreshed": visited(problem, "auto"),
    }
    figure, (left, right) = panels(2)
    for (label, path), colour in zip(paths.items(), (BLUE, RED)):
        left.plot(range(len(path)), path, color=colour, marker="o", markersize=4, label=f"{label}: {len(path) - 1}")
    left.set_xlabel("iteration")
    left.set_ylabel("β")
    left.set_title("iterations to the end")
    left.legend(frameon=False, fontsize=8)
    betas = np.linspace(0.2, 3.4, 60)
    right.axhline(0, color="black", linewidth=0.8)
    right.plot(betas, [problem.moment(0.3, beta) for beta in betas], color=BLUE, label="reference fixed at 0.3")
    right.plot(betas, [problem.moment(beta, beta) for beta in betas], color=RED, label="reference refreshed: the score")
    right.set_xlabel("β")
    right.set_ylabel("m(β), the moment left over")
    right.set_title("the equation that both solve")
    right.legend(frameon=False, fontsize=8)
    return figure


def visited(problem: Line, solver: Any) -> Array:
    """Where a fit of the problem has been, from one start."""
    reached: list[float] = []

    def watch(report: Report) -> None:
        reached.append(abs(float(report.mixture.coef[0, 0])))

    fit = MixedLinearRegression(2, solver=solver, symmetric=True, sigma=1.0, start=np.array([[0.6]]), max_iter=60)
    fit.fit_on(ArrayRows(problem.x[:, None], problem.y), watch)
    return np.array(reached)


def round_() -> Figure:
    """A query goes out, answers add, a step is taken."""
    figure = Figure(figsize=(8.4, 3.4), layout="constrained")
    ax = figure.subplots()
    ax.set_xlim(0, 12)
    ax.set_ylim(-0.2, 5.2)
    ax.axis("off")
    box(
        ax,
        (0.2, 0.1),
        3.0,
        4.3,
        "server\n\nholds β, σ², weights\n\nadds the answers,\ntakes one step,\nasks again",
        BLUE,
    )
    for place, name in enumerate(("rows in memory", "blocks of a file", "Dask partitions", "an agent's rows")):
        middle = 3.95 - 1.15 * place
        box(ax, (8.4, middle - 0.4), 3.4, 0.8, name, GREY)
        arrow(ax, (3.35, middle + 0.17), (8.25, middle + 0.17), BLUE)
        arrow(ax, (8.25, middle - 0.17), (3.35, middle - 0.17), RED)
    ax.text(5.8, 4.5, "query: the state, a few numbers", color=BLUE, ha="center", fontsize=9)
    ax.text(5.8, -0.05, "answer: a sum over rows", color=RED, ha="center", fontsize=9)
    return figure


def box(ax: Axes, corner: tuple[float, float], width: float, height: float, text: str, colour: str) -> None:
    ax.add_patch(
        FancyBboxPatch(corner, width, height, "round,pad=0.05", facecolor="white", edgecolor=colour, linewidth=1.5)
    )
    ax.text(corner[0] + width / 2, corner[1] + height / 2, text, ha="center", va="center", fontsize=10)


def arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float], colour: str) -> None:
    ax.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=11, color=colour, linewidth=1.1))


def panels(count: int, size: tuple[float, float] = (9.0, 3.6)) -> tuple[Figure, Any]:
    figure = Figure(figsize=size, layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, count))
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.title.set_fontsize(10)
    return figure, axes


PICTURES: dict[str, Callable[[], Figure]] = {
    "mixture": mixture,
    "transport": transport,
    "minimax": minimax,
    "descent": descent,
    "round": round_,
}


def main() -> None:
    mpl.rcParams.update({"svg.hashsalt": "wmlr", "font.size": 9})
    for name, draw in PICTURES.items():
        draw().savefig(FOLDER / f"{name}.svg", metadata={"Date": None})
        print(f"wrote {FOLDER / name}.svg")


if __name__ == "__main__":
    main()
