"""Networks on mixtures of curves: nats per row short of the true model on fresh rows, beside other models."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from wmlr.bench import Result, Watch
from wmlr.bench._measure import Limit
from wmlr.curves import Curves, make_curves
from wmlr.estimator.regression import MixedLinearRegression
from wmlr.federated import Federation
from wmlr.numerics.arrays import Array

SEEDS = 5
GDA_SEEDS = 1
ROWS = 8_000
WALKED = 1_000
TEST_ROWS = 20_000
AGENTS = 100
EPOCHS = 40
SHAPES = ("sines", "surfaces")
GROUPED = "responses"
CLOSE = 0.03
CLOSE_AMONG_AGENTS = 0.05
ENDS = 10
STATIONARY = 0.05

LINEAR, DENSITY, ONE = "linear WMLR", "density network", "one network"
REFRESHED, EM, GDA = "network, WMLR refreshed", "network, gradient EM", "network, minimax GDA"
TRAINING: dict[str, dict[str, Any]] = {REFRESHED: {}, EM: {"method": "em"}, GDA: {"solver": "gda"}}
AMONG: dict[str, dict[str, Any]] = {
    f"network, {AGENTS} agents": {"max_epochs": 30},
    f"network, {AGENTS} agents, 5 local steps": {"local_steps": 5, "max_epochs": 15},
}
ALL_ROWS = {"batch_size": None, "max_epochs": 300, "patience": None, "weight_decay": 0.0, "learning_rate": 0.02}


@dataclass(frozen=True)
class TrainingResult:
    """What one model reached on one draw of the rows; ``gradients`` has the norm at each epoch."""

    shape: str
    seed: int
    model: str
    short: float
    epochs: int = 0
    gradients: tuple[float, ...] = ()


def draw_rows(shape: str, seed: int, rows: int = ROWS) -> tuple[Curves, Curves]:
    """Rows to train on, and fresh ones; an agent's rows follow one curve where the shape is ``GROUPED``."""
    size = ROWS // AGENTS if shape == GROUPED else None
    train, test = seed, 1000 + seed
    return (
        make_curves(shape, rows, groups=size, random_state=train),
        make_curves(shape, TEST_ROWS, groups=size, random_state=test),
    )


def short_of(test: Curves, fit: Any) -> float:
    """Nats per row that a fit has less than the truth."""
    return test.log_likelihood() - float(fit.score(test.X, test.y, groups=test.groups))


def linear(shape: str, seed: int) -> TrainingResult:
    """The mixture of straight lines or planes."""
    rows, test = draw_rows(shape, seed)
    fit = MixedLinearRegression(len(rows.weights), random_state=seed).fit(rows.X, rows.y, groups=rows.groups)
    return TrainingResult(shape, seed, LINEAR, short_of(test, fit))


def network(shape: str, seed: int, model: str, settings: dict[str, Any]) -> TrainingResult:
    """A network with heads, trained in one place, or among agents where the model says so."""
    from wmlr.neural import NeuralMixedRegression

    rows, test = draw_rows(shape, seed, WALKED if model in map(stationary, TRAINING) else ROWS)
    given = {"n_components": len(rows.weights), "max_epochs": EPOCHS, "random_state": seed} | settings
    fit = NeuralMixedRegression(**given)
    if model in AMONG:
        whose = np.arange(ROWS) % AGENTS if rows.groups is None else rows.groups
        level = "row" if rows.groups is None else "agent"
        fit.fit_on(Federation.split(rows.X, rows.y, whose, level=level, n_jobs=1))
    else:
        fit.fit(rows.X, rows.y, groups=rows.groups)
    norms = tuple(record["gradient_norm"] for record in fit.history_)
    return TrainingResult(shape, seed, model, short_of(test, fit), fit.n_iter_, norms)


def density_network(shape: str, seed: int) -> TrainingResult:
    """A mixture density network of the same size, for the same epochs."""
    from wmlr.bench._density_network import Recipe, held_out_score
    from wmlr.neural import NeuralMixedRegression
    from wmlr.neural.network import threads

    rows, test = draw_rows(shape, seed)
    like = NeuralMixedRegression()
    recipe = Recipe(
        len(rows.weights), like.width, like.depth, like.n_outputs, like.learning_rate, like.batch_size or ROWS,
        EPOCHS, like.warmup_epochs + like.trial_epochs, like.n_init, like.validation_fraction, like.patience or EPOCHS,
        like.weight_decay, like.averaging,
    )  # fmt: skip
    with threads(1):
        score = held_out_score(recipe, rows.X, rows.y, test.X, test.y, seed)
    return TrainingResult(shape, seed, DENSITY, test.log_likelihood() - score, EPOCHS)


def stationary(model: str) -> str:
    """The name of a training on all of fewer rows at every step, without weight decay, to its end."""
    return f"{model}, all rows per step"


def jobs(seeds: int, shapes: tuple[str, ...]) -> list[Any]:
    """Everything to be run, the longest first.

    The game, agents and stationary points take the first seed alone.
    """
    work = [delayed(network)(shapes[0], 0, stationary(model), each | ALL_ROWS) for model, each in TRAINING.items()]
    work += [delayed(network)(shape, seed, GDA, TRAINING[GDA]) for seed in range(GDA_SEEDS) for shape in shapes]
    for model, settings in AMONG.items():
        work += [delayed(network)(shape, 0, model, settings) for shape in (*shapes, GROUPED)]
    work += [delayed(network)(GROUPED, 0, REFRESHED, {}), delayed(linear)(GROUPED, 0)]
    for seed in range(seeds):
        for shape in shapes:
            work += [delayed(network)(shape, seed, model, TRAINING[model]) for model in (REFRESHED, EM)]
            work += [delayed(network)(shape, seed, ONE, {"n_components": 1})]
            work += [delayed(density_network)(shape, seed), delayed(linear)(shape, seed)]
    return work


def run(watch: Watch, seeds: int = SEEDS, shapes: tuple[str, ...] = SHAPES) -> Result:
    """Train everything on every draw."""
    import wmlr.neural  # noqa: F401  says what to install before any work is done

    outcomes: list[TrainingResult] = []
    work = jobs(seeds, shapes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for outcome in Parallel(n_jobs=-1, return_as="generator_unordered")(work):
            outcomes.append(outcome)
            watch(f"{len(outcomes)} of {len(work)}: {outcome.model} on {outcome.shape}, seed {outcome.seed}")
    return make_result(outcomes, shapes)


@dataclass(frozen=True)
class NeuralLine:
    """A number per seed, and the most that their mean is to be."""

    what: str
    values: Array
    most: float | None = None

    @property
    def limit(self) -> Limit | None:
        return None if self.most is None else Limit(self.what, float(self.values.mean()), most=self.most)

    def cells(self) -> tuple[str, ...]:
        """Of the table."""
        limit = self.limit
        judged = ("", "") if limit is None else (limit.bound, limit.verdict)
        return (self.what, f"{self.values.mean():.4f}", f"{self.values.max():.4f}", str(len(self.values)), *judged)


def make_result(outcomes: list[TrainingResult], shapes: tuple[str, ...]) -> Result:
    """The table, what it is to keep, and the numbers behind it."""
    lines = [line for shape in (*shapes, GROUPED) for line in compare_models(outcomes, shape)]
    walks = [one for one in outcomes if one.model in map(stationary, TRAINING)]
    for walk in walks:
        what = f"{walk.shape}: {walk.model}, last gradient over first"
        lines.append(NeuralLine(what, np.array([fallen(walk.gradients)]), STATIONARY))
    limits = [line.limit for line in lines if line.limit is not None]
    series = [one for one in outcomes if one.seed == 0 and one.model in TRAINING] + walks
    return Result(
        suite="neural",
        title=f"Nats per row short of the truth on {TEST_ROWS:,} fresh rows, trained on {ROWS:,}",
        columns=("what", "mean", "worst", "seeds", "limit on the mean", ""),
        rows=tuple(line.cells() for line in lines),
        numbers={
            "outcomes": [asdict(replace(one, gradients=())) for one in outcomes],
            "gradients": {f"{one.shape}: {one.model}": one.gradients for one in series},
            "limits": [limit.plain() for limit in limits],
        },
    )


def compare_models(outcomes: list[TrainingResult], shape: str) -> list[NeuralLine]:
    """What each model is short on one shape, and the difference between models on the same rows."""
    short: dict[str, Array] = {}
    for model in dict.fromkeys(one.model for one in outcomes if one.shape == shape):
        here = sorted((one.seed, one.short) for one in outcomes if (one.shape, one.model) == (shape, model))
        short[model] = np.array([value for _, value in here])
    others = [model for model in (LINEAR, ONE, DENSITY) if model in short]
    ours = short[REFRESHED]
    return [
        *(NeuralLine(f"{shape}: {model}", short[model]) for model in others),
        *(NeuralLine(f"{shape}: {model}", short[model], CLOSE) for model in TRAINING if model in short),
        *(NeuralLine(f"{shape}: {REFRESHED}, less {model}", ours - short[model], 0.0) for model in others),
        *(
            NeuralLine(
                f"{shape}: {model}, less in one place", short[model] - ours[: len(short[model])], CLOSE_AMONG_AGENTS
            )
            for model in AMONG
            if model in short
        ),
    ]


def fallen(gradients: tuple[float, ...]) -> float:
    """The last norms over the first, by their medians."""
    return float(np.median(gradients[-ENDS:]) / np.median(gradients[:ENDS]))
