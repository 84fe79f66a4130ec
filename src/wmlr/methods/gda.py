"""WMLR by gradient descent ascent: the paper's Algorithm 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from wmlr import theory
from wmlr.core.query import Query
from wmlr.core.round import Fit, Method, Report, Steps, Together, iteration_record
from wmlr.methods import general, symmetric, wide
from wmlr.methods.ascent import WORTH
from wmlr.methods.curvature import AT_FLOOR
from wmlr.methods.divergence import divergence_reason, has_diverged, judge_by_fall
from wmlr.methods.polish import ending, pair_ending
from wmlr.methods.starts import spectral_direction, with_likeliest_length
from wmlr.methods.task import Task, mixture, pair
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array, Sums
from wmlr.numerics.coordinates import Frame, ScaledFrame, raw_frame, white_frame
from wmlr.numerics.expectations import Drawn, Expectation, GaussHermite, automatic_nodes
from wmlr.numerics.kernels import LOG_2PI
from wmlr.statistics.local import LocalSteps
from wmlr.statistics.minimax import Minimax, SymmetricMinimax
from wmlr.statistics.moments import Moments, SecondMoments

DEFAULT_LAM = {"printed": 0.36, "halved": 0.5}
LARGEST_VARIANCE = 4.0  # times that of y: a game that runs away is stopped there
GROUP_SAMPLES = 16  # for each group, whose sums no quadrature is known for
SLOWEST = 0.999  # rate at which steps are believed to shrink: slower ones have a thousand steps to go
REMEDY = "lower GDA's alpha_max and alpha_min, or raise lam"


@dataclass(frozen=True)
class GDA:
    """``solver="gda"``.

    Attributes
    ----------
    lam : the regulariser's lambda; None is 0.36 (0.5 when halved) for the symmetric form, and for k
        components 0.25 / tau^2 (0.5 / tau^2 when halved) with tau^2 the variance inside psi.
    alpha_max, alpha_min : ascent and descent steps; None gives ``steps``.
    steps : "paper" for alpha_max = 1/(2 lam) and alpha_min = alpha_max/10; "theorem" for the convergence
        theorem's 1/L and 1/(kappa^2 L), which needs lam above 2 eta (above eta where the regulariser is as
        printed) with eta = E[y^2 |x|^2], of groups E|sum y x|^2 over the mean size; see
        :func:`wmlr.theory.step_sizes`.
    regularizer : "printed" for lam times the squared distances from the references, "halved" for lam/2
        times them, as in the authors' code and the paper's appendix.
    extragradient : take each step with the gradients found half-way, one more query per iteration.
    expectation : "exact" by Gauss-Hermite quadrature on ``nodes`` nodes (None: chosen by the signal-to-noise
        ratio; for k components on groups it is drawn, 16 times per row), "frozen" by noise drawn once as the
        authors did, "fresh" by noise drawn at every iteration.
    samples : draws per row where noise is drawn.
    reference : vectors to use in place of the spectral ones: (d,) when symmetric, else (k, d), with the
        intercept last if there is one.
    coordinates : "whitened", in which column scales and correlations do not matter, or "raw" as in the paper.
        Too many columns to whiten (:data:`wmlr.numerics.coordinates.WIDE`) are scaled, so that none of their directions
        has a mean square above one.
    local_steps : steps that every agent takes on its own rows before the iterates are averaged; more than one
        saves rounds where agents hold many more rows than there are features, and drifts where they do not.
    """

    lam: float | None = None
    alpha_max: float | None = None
    alpha_min: float | None = None
    steps: str = "paper"
    regularizer: str = "printed"
    extragradient: bool = False
    expectation: str = "exact"
    nodes: int | None = None
    samples: int = 1
    reference: Array | None = None
    coordinates: str = "whitened"
    local_steps: int = 1

    def __post_init__(self) -> None:
        for name, allowed in (
            ("steps", ("paper", "theorem")),
            ("regularizer", ("printed", "halved")),
            ("expectation", ("exact", "frozen", "fresh")),
            ("coordinates", ("whitened", "raw")),
        ):
            value = getattr(self, name)
            if value not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))} (got {value!r})")
        for name in ("lam", "alpha_max", "alpha_min", "nodes", "samples", "local_steps"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be positive (got {value!r})")

    def fit(self, task: Task) -> Method[Fit]:
        if task.wide and self.local_steps > 1 and self.coordinates == "whitened":
            raise ValueError(
                f"local_steps={self.local_steps} needs the columns whitened, and they are too many: "
                "set local_steps=1 or coordinates='raw'"
            )
        return _symmetric(self, task) if task.symmetric else _general(self, task)

    @property
    def pull(self) -> float:
        """The regulariser is ``pull * lam`` times the squared distances."""
        return 1.0 if self.regularizer == "printed" else 0.5

    def expectation_at(self, turn: int, nodes: int, seed: int, on_groups: bool = False) -> Expectation:
        if self.expectation == "exact":
            return Drawn(seed, GROUP_SAMPLES) if on_groups else GaussHermite(nodes)
        return Drawn(seed, self.samples, None if self.expectation == "frozen" else turn)

    def step_sizes(self, lam: float, eta: float, reference_norm: float) -> tuple[float, float]:
        """(alpha_max, alpha_min): as given, by the paper's rule of thumb, or by the convergence theorem."""
        if self.steps == "theorem":
            given = theory.step_sizes(lam, eta, reference_norm, regularizer=self.regularizer)
            alpha_max, alpha_min = given.alpha_max, given.alpha_min
        else:
            alpha_max = 1 / (2 * lam)
            alpha_min = (alpha_max if self.alpha_max is None else self.alpha_max) / 10
            if self.extragradient and self.regularizer == "printed":
                alpha_max /= 2
        return (
            alpha_max if self.alpha_max is None else self.alpha_max,
            alpha_min if self.alpha_min is None else self.alpha_min,
        )


@dataclass(frozen=True)
class MinimaxState:
    """beta (r, k) and gamma (r, 2k) of the minimax problem, in units of y of the method's choosing."""

    beta: Array
    gamma: Array
    weights: Array
    s2: Array


@dataclass(frozen=True)
class Gradients:
    """Gradients and value of the minimax objective at a state, and the likelihood's next weights and variances."""

    beta: Array
    gamma: Array
    objective: float
    log_likelihood: float
    weights: Array
    s2: Array

    @property
    def norm(self) -> float:
        return float(np.sqrt(np.sum(self.beta**2) + np.sum(self.gamma**2)))


@dataclass(frozen=True)
class Survey:
    """What the first rounds tell: coordinates, the spectral direction, E[y^2 |w|^2], whether there are groups.

    For groups ``fourth`` is the sum of |sum y w|^2 over them, per row, which bounds how psi bends.
    """

    frame: Frame | ScaledFrame
    direction: Array
    fourth: float
    on_groups: bool


def _survey(solver: GDA, task: Task) -> Steps[Survey]:
    raw = solver.coordinates == "raw"
    if task.wide:
        frame = yield from wide.survey(replace(task, ridge=0.0), stretched=True, raw=raw)
        direction = np.zeros(frame.dimension)
        if task.symmetric:
            direction = yield from wide.spectral_direction(frame, task)
        return Survey(frame, direction, frame.trace, frame.grouped)
    sums = yield Moments(intercept=task.intercept, fourth=True)
    white = raw_frame(sums, task.intercept) if raw else white_frame(sums, task.intercept)
    direction = spectral_direction(white, sums) if task.symmetric else np.zeros(white.dimension)
    on_groups = "pairs" in sums
    fourth = sums["fourth"] + sums["pairs"] if on_groups else sums["fourth"]
    return Survey(white, direction, float(np.trace(white.mean_matrix_of(fourth))), on_groups)


def _symmetric(solver: GDA, task: Task) -> Method[Fit]:
    survey = yield from _survey(solver, task)
    frame, direction = survey.frame, survey.direction
    b, s2 = yield from with_likeliest_length(frame, direction, task)
    unit = float(np.sqrt(s2))
    snr = float(np.sqrt(max(frame.yy / s2 - 1.0, 0.0)))
    reference = direction if solver.reference is None else frame.inside(np.ravel(solver.reference))
    if task.start_word == "random":
        draws = task.generator().standard_normal((frame.dimension, 3)) / np.sqrt(frame.dimension)
        beta, gamma = draws[:, :1], draws[:, 1:]
    else:
        beta = (b if task.start_word else frame.inside(np.asarray(task.start)[0]))[:, None] / unit
        gamma = np.stack([reference, reference], axis=1)
    lam = DEFAULT_LAM[solver.regularizer] if solver.lam is None else solver.lam
    alphas = solver.step_sizes(lam, survey.fourth / unit**2, float(np.linalg.norm(reference)))
    nodes = solver.nodes or automatic_nodes(snr)
    yy = frame.yy / unit**2
    doubled = np.stack([reference, reference], axis=1)

    def gradients(state: MinimaxState, turn: int) -> Steps[Gradients]:
        s2, b, gram = float(state.s2[0]), state.beta[:, 0], frame.known_gram
        beta, expectation = frame.to_data(b), solver.expectation_at(turn, nodes, task.seed)
        query = SymmetricMinimax(beta, frame.to_data(state.gamma), s2, expectation, unit)
        beside = SecondMoments(beta) if gram is None else None
        found, slopes = yield from _slopes(solver, frame, state, doubled, lam, alphas, query, beside)
        apart = state.gamma - doubled
        uu = float(found["uu"]) / frame.weight if gram is None else float(b @ gram @ b)
        likelihood = float(found["log_cosh"]) - 0.5 * frame.weight * (
            (yy + uu) / s2 + LOG_2PI + np.log(s2) + 2 * np.log(unit)
        )
        left = float(np.clip(yy - 2 * float(found["tyu"]) / frame.weight + uu, frame.floor / unit**2, LARGEST_VARIANCE))
        return Gradients(
            *slopes,
            objective=float(found["value"]) / frame.weight - solver.pull * lam * float(np.sum(apart**2)),
            log_likelihood=likelihood,
            weights=state.weights,
            s2=state.s2 if task.sigma is not None else np.full(2, left),
        )

    def place(state: MinimaxState) -> Mixture:
        return pair(frame, state.beta[:, 0] * unit, float(state.s2[0]) * unit**2)

    def judge(state: MinimaxState) -> Steps[str]:
        if task.wide:
            return ""
        here = yield from symmetric.evaluate(frame, state.beta[:, 0] * unit, float(state.s2[0]) * unit**2, task)
        return (yield from pair_ending(task, frame).saddle(here))

    first = MinimaxState(beta, gamma, np.full(2, 0.5), np.full(2, s2 / unit**2))
    return (yield from _descend(solver, task, frame, unit, first, gradients, place, judge, alphas))


def _general(solver: GDA, task: Task) -> Method[Fit]:
    survey = yield from _survey(solver, task)
    frame = survey.frame
    unit = frame.scale
    near = (yield from general.begin(task, frame))[0]
    given = solver.reference
    reference = (near.B if given is None else frame.inside(np.asarray(given).T)) / unit
    beta = near.B / unit
    gamma = np.tile(reference, 2)
    tau2 = float(near.weights @ near.s2) / unit**2
    lam = 0.5 * solver.pull / tau2 if solver.lam is None else solver.lam
    alphas = solver.step_sizes(lam, survey.fourth / unit**2, float(np.linalg.norm(reference)))
    snr = float(np.sqrt(max(1.0 / tau2 - 1.0, 0.0)))
    nodes = solver.nodes or automatic_nodes(snr)
    doubled = np.tile(reference, 2)

    def gradients(state: MinimaxState, turn: int) -> Steps[Gradients]:
        query = Minimax(
            frame.to_data(state.beta), frame.to_data(state.gamma), np.log(state.weights), state.s2, tau2,
            solver.expectation_at(turn, nodes, task.seed, survey.on_groups), unit,
        )  # fmt: skip
        found, slopes = yield from _slopes(solver, frame, state, doubled, lam, alphas, query)
        apart = state.gamma - doubled
        units, weight = found["units"] / found["units"].sum(), frame.weight
        squares, mass = found["squares"] / weight, found["mass"] / weight
        weights, s2 = general.constrain(task, frame, units, squares, mass, unit)
        return Gradients(
            *slopes,
            objective=float(found["value"]) / frame.weight - solver.pull * lam * float(np.sum(apart**2)),
            log_likelihood=float(found["log_likelihood"]) - frame.weight * np.log(unit),
            weights=weights,
            s2=s2,
        )

    def place(state: MinimaxState) -> Mixture:
        return mixture(frame.to_data(state.beta) * unit, state.weights, state.s2 * unit**2, task.intercept)

    def judge(state: MinimaxState) -> Steps[str]:
        if task.wide or bool(np.any(state.weights * frame.members < 1.0)):
            return ""
        here = yield from general.evaluate(frame, state.beta * unit, state.weights, state.s2 * unit**2)
        return (yield from ending(task, frame).saddle(here))

    first = MinimaxState(beta, gamma, near.weights, near.s2 / unit**2)
    return (yield from _descend(solver, task, frame, unit, first, gradients, place, judge, alphas))


def _slopes(
    solver: GDA,
    frame: Frame | ScaledFrame,
    state: MinimaxState,
    reference: Array,
    lam: float,
    alphas: tuple[float, float],
    query: SymmetricMinimax | Minimax,
    beside: SecondMoments | None = None,
) -> Steps[tuple[Sums, tuple[Array, Array]]]:
    """A query's sums, and the gradients in beta and gamma; several local steps are read as one long one."""
    k = state.beta.shape[1]
    alpha_max, alpha_min = alphas
    strength = 2 * solver.pull * lam
    if solver.local_steps == 1:
        found = yield from _sums_of_query(query, beside)
        mean = frame.mean_of(found["gradients"])
        return found, (-mean[:, :k], mean[:, k:] - strength * (state.gamma - reference))
    metric = frame.metric if solver.coordinates == "whitened" else None
    local = LocalSteps(query, solver.local_steps, alpha_min, alpha_max, strength, frame.to_data(reference), metric)
    found = yield from _sums_of_query(local, beside)
    change = frame.inside(found["change"] / frame.weight)
    return found, (-change[:, :k] / alpha_min, change[:, k:] / alpha_max)


def _sums_of_query(query: Query, beside: SecondMoments | None) -> Steps[Sums]:
    """A query's sums, and in the same round the sum of u^2 where it is wanted."""
    if beside is None:
        return (yield query)
    both = Together((query, beside))
    own, second = both.split_sums((yield both))
    return own | {"uu": second["uu"]}


def _descend(
    solver: GDA,
    task: Task,
    frame: Frame | ScaledFrame,
    unit: float,
    state: MinimaxState,
    gradients: Callable[[MinimaxState, int], Steps[Gradients]],
    place: Callable[[MinimaxState], Mixture],
    judge: Callable[[MinimaxState], Steps[str]],
    alphas: tuple[float, float],
) -> Method[Fit]:
    """beta goes down and gamma up the gradients found at the same state, both at once.

    The minimax point is not the likelihood's maximum. The run has converged where the way that its steps still have
    to go, as they shrink, is worth less than ``WORTH`` of log-likelihood, and the likelihood has no saddle there.
    """
    alpha_max, alpha_min = alphas
    steps: list[float] = []
    still, reason = False, ""
    iteration = 0
    found = yield from gradients(state, 0)
    best = found.log_likelihood
    yield Report(_record(0, found, 0.0), place(state))
    while iteration < task.max_iter and not still:
        ahead = _move(state, found, alpha_min, alpha_max)
        if solver.extragradient and not _is_lost(frame, unit, ahead):
            half = yield from gradients(ahead, iteration)
            ahead = _move(state, half, alpha_min, alpha_max)
        if _is_lost(frame, unit, ahead):
            reason = divergence_reason(iteration + 1, REMEDY)
            break
        steps = [*steps[-1:], float(np.linalg.norm(ahead.beta - state.beta))]
        still = _still(state.beta, ahead.beta, task.tol) and _still(state.gamma, ahead.gamma, task.tol)
        still = still and _way_left(steps, ahead, frame.weight) < WORTH
        state = ahead
        iteration += 1
        found = yield from gradients(state, iteration)
        best = max(best, found.log_likelihood)
        yield Report(_record(iteration, found, alpha_min), place(state))
    if still and task.exact:
        reason = yield from judge(state)
    converged = still and not reason
    floored = task.sigma is None and bool(np.any(state.s2 * unit**2 <= AT_FLOOR * frame.floor))
    fit = Fit(place(state), found.log_likelihood, iteration, converged, frame.members, floored, reason)
    return judge_by_fall(fit, best, found.log_likelihood, frame.weight, REMEDY)


def _is_lost(frame: Frame | ScaledFrame, unit: float, state: MinimaxState) -> bool:
    return not np.all(np.isfinite(state.gamma)) or has_diverged(frame, state.beta * unit, state.s2)


def _way_left(steps: list[float], state: MinimaxState, weight: float) -> float:
    """The log-likelihood that a move as long as all steps to come would be worth, were the components known."""
    rate = min(steps[-1] / steps[0], SLOWEST) if len(steps) > 1 and steps[0] > 0 else SLOWEST
    return 0.5 * weight * (steps[-1] * rate / (1.0 - rate)) ** 2 / float(np.min(state.s2))


def _still(before: Array, after: Array, tol: float) -> bool:
    return float(np.linalg.norm(after - before)) <= tol * float(np.linalg.norm(after))


def _move(state: MinimaxState, along: Gradients, alpha_min: float, alpha_max: float) -> MinimaxState:
    return replace(
        state,
        beta=state.beta - alpha_min * along.beta,
        gamma=state.gamma + alpha_max * along.gamma,
        weights=along.weights,
        s2=along.s2,
    )


def _record(iteration: int, found: Gradients, step: float) -> dict[str, float]:
    return iteration_record(iteration, found.objective, found.log_likelihood, found.norm, step)
