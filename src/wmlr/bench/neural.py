"""Networks on mixtures of curves: nats per row short of the true model on fresh rows, beside other models."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from wmlr.bench import Result, Watch
from wmlr.bench._ledger import Line, ResultLedger
from wmlr.bench._measure import Limit
from wmlr.curves import Curves, make_curves
from wmlr.estimator.regression import MixedLinearRegression
from wmlr.federated import Federation
from wmlr.numerics.arrays import Array

PART = "neural"
SEEDS = 5
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


def shortfall(test: Curves, fit: Any) -> float:
    """Nats per row that a fit has less than the truth."""
    return test.log_likelihood() - float(fit.score(test.X, test.y, groups=test.groups))


def linear(shape: str, seed: int) -> TrainingResult:
    """The mixture of straight lines or planes."""
    rows, test = draw_rows(shape, seed)
    fit = MixedLinearRegression(len(rows.weights), random_state=seed).fit(rows.X, rows.y, groups=rows.groups)
    return TrainingResult(shape, seed, LINEAR, shortfall(test, fit))


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
    return TrainingResult(shape, seed, model, shortfall(test, fit), fit.n_iter_, norms)


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


@dataclass(frozen=True)
class TrainingJob:
    """A model to be trained on one draw of a shape."""

    shape: str
    seed: int
    model: str

    def run(self) -> TrainingResult:
        if self.model == LINEAR:
            return linear(self.shape, self.seed)
        if self.model == DENSITY:
            return density_network(self.shape, self.seed)
        return network(self.shape, self.seed, self.model, SETTINGS[self.model])


PARTS: dict[str, tuple[str, ...]] = {
    "walks": tuple(map(stationary, TRAINING)),
    "game": (GDA,),
    "agents": tuple(AMONG),
    "networks": (REFRESHED, EM),
    "others": (ONE, DENSITY, LINEAR),
}
SETTINGS: dict[str, dict[str, Any]] = {
    **{stationary(model): settings | ALL_ROWS for model, settings in TRAINING.items()},
    **TRAINING,
    **AMONG,
    ONE: {"n_components": 1},
}
GROUPED_MODELS = (REFRESHED, LINEAR, *AMONG)


def jobs(seeds: int, shapes: Sequence[str], parts: Iterable[str] = PARTS) -> list[TrainingJob]:
    """Everything to be run, the longest first; stationary points on the first shape and seed alone."""
    work = []
    for part in parts:
        for model in PARTS[part]:
            if part == "walks":
                work += [TrainingJob(shape, 0, model) for shape in shapes if shape == SHAPES[0]]
                continue
            fitting = [shape for shape in shapes if shape != GROUPED or model in GROUPED_MODELS]
            work += [TrainingJob(shape, seed, model) for seed in range(seeds) for shape in fitting]
    return work


def run(
    watch: Watch, seeds: int = SEEDS, cases: str | None = None, parts: str | None = None, out: Path | None = None
) -> Result:
    """Train everything on every draw; what an earlier run kept in ``neural.jsonl`` is not trained again."""
    import wmlr.neural  # noqa: F401  says what to install before any work is done

    shapes = _choose_names("cases", cases, (*SHAPES, GROUPED))
    ledger = ResultLedger(None if out is None else out / "neural.jsonl")
    work = [
        job for job in jobs(seeds, shapes, _choose_names("parts", parts, tuple(PARTS)))
        if not ledger.has(PART, job.shape, job.model, job.seed)
    ]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for done, outcome in enumerate(Parallel(n_jobs=-1, return_as="generator_unordered")(map(_delayed, work)), 1):
            ledger.add([_line(outcome)])
            watch(f"{done} of {len(work)}: {outcome.model} on {outcome.shape}, seed {outcome.seed}")
    return make_result([_outcome(line) for line in ledger.of(PART)])


def _delayed(job: TrainingJob) -> Any:
    return delayed(TrainingJob.run)(job)


def _choose_names(option: str, words: str | None, known: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the known names that were asked for; all where none were."""
    asked = known if words is None else tuple(word.strip() for word in words.split(","))
    foreign = [word for word in asked if word not in known]
    if foreign:
        raise ValueError(f"--{option} must be among {', '.join(known)} (got {foreign[0]!r})")
    return asked


def _line(outcome: TrainingResult) -> Line:
    kept = {
        "short": outcome.short,
        "epochs": outcome.epochs,
        "gradients": outcome.gradients if _shows_gradients(outcome) else (),
    }
    return {"part": PART, "problem": outcome.shape, "who": outcome.model, "seed": outcome.seed, **kept}


def _outcome(line: Line) -> TrainingResult:
    gradients = tuple(line["gradients"])
    return TrainingResult(line["problem"], line["seed"], line["who"], line["short"], line["epochs"], gradients)


def _shows_gradients(outcome: TrainingResult) -> bool:
    """Whether the norms of its gradients are drawn."""
    return outcome.model in PARTS["walks"] or (outcome.seed == 0 and outcome.model in TRAINING)


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


def make_result(outcomes: list[TrainingResult]) -> Result:
    """The table, what it is to keep, and the numbers behind it."""
    lines = [line for shape in (*SHAPES, GROUPED) for line in compare_models(outcomes, shape)]
    for walk in (one for one in outcomes if one.model in PARTS["walks"]):
        what = f"{walk.shape}: {walk.model}, last gradient over first"
        lines.append(NeuralLine(what, np.array([gradient_ratio(walk.gradients)]), STATIONARY))
    limits = [line.limit for line in lines if line.limit is not None]
    return Result(
        suite="neural",
        title=f"Nats per row short of the truth on {TEST_ROWS:,} fresh rows, trained on {ROWS:,}",
        columns=("what", "mean", "worst", "seeds", "limit on the mean", ""),
        rows=tuple(line.cells() for line in lines),
        numbers={
            "outcomes": [asdict(replace(one, gradients=())) for one in outcomes],
            "gradients": {f"{one.shape}: {one.model}": one.gradients for one in outcomes if _shows_gradients(one)},
            "limits": [limit.plain() for limit in limits],
        },
    )


def compare_models(outcomes: list[TrainingResult], shape: str) -> list[NeuralLine]:
    """What each model is short on one shape, and the difference between models on the same rows."""
    short: dict[str, dict[int, float]] = {}
    for one in sorted((one for one in outcomes if one.shape == shape), key=lambda one: one.seed):
        short.setdefault(one.model, {})[one.seed] = one.short
    others = [model for model in (LINEAR, ONE, DENSITY) if model in short]
    ours = short.get(REFRESHED, {})

    def beyond(first: dict[int, float], second: dict[int, float]) -> Array:
        return np.array([first[seed] - second[seed] for seed in first if seed in second])

    lines = [
        *(NeuralLine(f"{shape}: {model}", np.array([*short[model].values()])) for model in others),
        *(NeuralLine(f"{shape}: {m}", np.array([*short[m].values()]), CLOSE) for m in TRAINING if m in short),
        *(NeuralLine(f"{shape}: {REFRESHED}, less {model}", beyond(ours, short[model]), 0.0) for model in others),
        *(
            NeuralLine(f"{shape}: {model}, less in one place", beyond(short[model], ours), CLOSE_AMONG_AGENTS)
            for model in AMONG
            if model in short
        ),
    ]
    return [line for line in lines if len(line.values)]


def gradient_ratio(gradients: tuple[float, ...]) -> float:
    """The last norms over the first, by their medians."""
    return float(np.median(gradients[-ENDS:]) / np.median(gradients[:ENDS]))
