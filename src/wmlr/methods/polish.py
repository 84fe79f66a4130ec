"""The end of a fit: Newton's last steps, the way off a saddle, and the judgement whether the fit has converged.

A fit has converged where Newton's step promises less than ``WORTH`` of log-likelihood in all parameters together, in
total, and minus the Hessian is positive definite. With a ridge the variances in the penalty are references that follow
the estimate (:mod:`wmlr.methods.ridge`): there are equations, whose derivative stands for the Hessian.

The Hessian is a dear pass over the rows. Where they are many it is first taken from a small sample, then from samples
each ``GROWTH`` times as large; one is believed while its eigenvalues are above nil by more than sampling may have
made, which falls with the square root of its size, and its steps gain what they promise. Else more rows are asked.
What the score changes by along each step is learnt (BFGS), so that a small sample's curvature leads to the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eig, eigh

from wmlr.core.round import Fit, Method, Report, Sampled, Steps
from wmlr.methods.ascent import ENOUGH, PATIENCE, WORTH, Here, Move, climb, record
from wmlr.methods.curvature import MixtureSurface, PairSurface, Surface, at_bounds
from wmlr.methods.general import MixturePoint
from wmlr.methods.symmetric import SymmetricPoint
from wmlr.methods.task import Task
from wmlr.numerics.arrays import Array
from wmlr.numerics.coordinates import FrameMoments
from wmlr.numerics.solving import least_squares

CHEAP = 5e6  # multiplications for the curvature of all rows: below it no sample is worth while
LARGEST = 800  # parameters: beyond it a matrix of curvatures is not asked for
ROWS_PER_COLUMN = 24  # of a sample: its Gram is then within about two fifths of all rows'
LEAST_ROWS = 3_000  # of a sample; fewer save nothing
LEAST_UNITS = 1_000  # of a sample, where rows come in groups
LARGEST_SHARE = 0.5  # of the rows that a sample may have
ROUNDED = 1.0 + 1e-9  # times a share, for which it may stand
GROWTH = 8.0  # of samples: all of them together cost a seventh more than the last
CLOSE = 1e-12  # of log-likelihood per row, where steps are cheap: the last digits
CERTAIN = 0.25  # of an eigenvalue of the smallest sample: ten to twenty of its standard errors
FLAT = 1e-9  # eigenvalues in the metric of complete data that rounding alone makes
STEPS = 12  # of Newton's, which double the digits each
USUAL_RATIO = 5.0  # of the curvature that a step shows to what a sample says: beyond it the likelihood is no parabola
LIFT = 0.1  # least eigenvalue, in the metric of complete data, of a step before a maximum: ten times EM's length
SLOW = 0.2  # of the gain expected before: where more is expected, the curvature is asked for anew
HALVINGS = 6  # of a step that lowers the likelihood
ESCAPES = 5  # from saddles, one after the other
LONGEST_ESCAPE = 0.5  # in deviations of the direction, as known data would have them
ESCAPE_LENGTHS = 24  # tried, each half of the one before: down to rounding
FURTHER = 4.0  # of Newton's steps: a parabola falls there by eight times what one step promises
LONG = 1e-3  # of a step, squared, as known data would have it: a shorter one leads nowhere else
ROUNDING = 1e-13  # eigenvalues in the metric of complete data, and gains beside the objective, that are rounding
ALONE = 0.99  # of a direction's length, squared: it is one component's coefficients

SADDLE = (
    "the fit stands on a saddle of the likelihood, and no step along its direction of ascent gained: "
    "try other starts (n_init=), or fewer components"
)
UPWARD = "it ended on a saddle of the likelihood: try other starts (n_init=), or method='em'"
PLATEAU = (
    "the likelihood is flat in some direction at the end, so that the components cannot be told apart: "
    "try fewer components"
)
SEPARATION = (
    "a coefficient has no finite estimate, and ran away (separation: where its column differs, a component has only "
    "zeros, only successes, or no rows): its size means nothing, and summary leaves its standard error out; set a "
    "ridge, such as alpha=1, or take fewer columns or components"
)
GATE_SEPARATION = (
    "a coefficient of the gate has no finite estimate, and ran away (separation: the gate's columns tell components "
    "apart without a doubt): its size means nothing, and summary leaves its standard error out; take fewer columns "
    "into the gate, or fewer components"
)
UNIDENTIFIED = (
    "the rows of some component say nothing of one of its coefficients: its size means nothing, and summary leaves "
    "its standard error out; set a ridge, such as alpha=1, or take fewer columns or components"
)
NO_GAIN = "no step gains what the curvature promises: try other starts (n_init=), or shared_sigma=True"


@dataclass(frozen=True)
class Curvature:
    """Minus the Hessian at a point, its complete-data counterpart, and by how much its eigenvalues are uncertain.

    ``uncertain`` is nil where every row was asked. ``drift`` makes it the derivative of a ridge's equations; it is
    definite where its eigenvalues, relative to the complete-data ones, are to the right of nil: there EM's steps lead.
    ``outer`` is the scores' variance where it is known, ``units`` how many units were asked. ``learned`` takes the
    matrix's place in Newton's steps where steps have shown more.
    """

    matrix: Array
    complete: Array
    uncertain: float = 0.0
    drift: Array | None = None
    outer: Array | None = None
    units: float = 0.0
    learned: Array | None = None

    @property
    def whole(self) -> bool:
        """Whether every row was asked."""
        return not self.uncertain

    @property
    def _known(self) -> Array:
        """What steps go by: the matrix, with what they have shown."""
        return self.matrix if self.learned is None else self.learned

    @cached_property
    def misfit(self) -> float | None:
        """The largest eigenvalue of the scores' variance in units of the curvature: 1 where the model is right.

        White's information-matrix equality (1982). A maximum that is not the likeliest joins rows of several
        components, and their scores vary by more than the curvature says.
        """
        size = len(self.matrix)
        if self.outer is None or size == 0 or _factor(self.matrix) is None:
            return None
        return float(eigh(self.outer, self.matrix, eigvals_only=True, subset_by_index=[size - 1, size - 1])[0])

    @cached_property
    def definite(self) -> bool:
        """Whether every eigenvalue, relative to the complete-data ones, is certainly above nil."""
        least = max(FLAT, self.uncertain)
        if self.drift is not None:
            return self.ascent()[0] > least
        return _factor(self.matrix - least * self.complete) is not None

    def ascent(self) -> tuple[float, Array]:
        """The smallest relative eigenvalue, and its direction with complete-data length one."""
        if self.drift is None:
            values, vectors = eigh(self.matrix, self.complete)
            return float(values[0]), np.asarray(vectors[:, 0])
        values, vectors = eig(self.matrix + self.drift, self.complete)
        first = int(values.real.argmin())
        direction = vectors[:, first].real
        length = float(np.sqrt(max(direction @ self.complete @ direction, 1e-300)))
        return float(values[first].real), np.asarray(direction / length)

    def make_definite(self) -> Curvature:
        """With so much of the complete-data curvature added that it is definite: between Newton's step and EM's."""
        return replace(self, matrix=self.matrix + (LIFT - self.ascent()[0]) * self.complete, learned=None)

    def newton(self, score: Array) -> tuple[Array, float]:
        """Newton's step, and the gain it promises; with a ridge, what its length is worth were the components known."""
        if self.drift is not None:
            step = least_squares(self.matrix + self.drift, score, 1e-14)
            return step, 0.5 * float(step @ self.complete @ step)
        factor = _factor(self._known)
        if factor is None:
            return np.zeros_like(score), np.inf
        step = np.asarray(cho_solve(factor, score))
        return step, 0.5 * float(score @ step)

    def learn(self, step: Array, change: Array) -> Curvature:
        """With what the score has fallen by along a step (BFGS); as it was, where that is not like a parabola's."""
        matrix = self._known
        image = matrix @ step
        known, shown = float(step @ image), float(step @ change)
        if self.drift is not None or not known / USUAL_RATIO < shown < known * USUAL_RATIO:
            return self
        return replace(self, learned=matrix + np.outer(change, change) / shown - np.outer(image, image) / known)

    def visible_newton(self, score: Array) -> tuple[Array, float]:
        """Newton's step where there is any curvature beyond rounding, and the gain it promises."""
        values, vectors = eigh(self.matrix, self.complete)
        seen = values > ROUNDING
        slopes = vectors[:, seen].T @ score
        step = np.asarray(vectors[:, seen] @ (slopes / values[seen]))
        return step, 0.5 * float(score @ step)


def _factor(matrix: Array) -> tuple[Array, bool] | None:
    scale = np.sqrt(np.maximum(np.abs(np.diag(matrix)), 1e-300))
    try:
        factor, lower = cho_factor(matrix / np.outer(scale, scale), lower=True)
    except np.linalg.LinAlgError:
        return None
    return np.asarray(factor * scale[:, None]), lower


@dataclass(frozen=True)
class Verdict(Generic[Here]):
    """Whether a method has converged; else a higher point to go on from, if there is one, and why not."""

    converged: bool
    higher: Here | None = None
    reason: str = ""


@dataclass(frozen=True)
class Ending(Generic[Here]):
    """How fits of one kind of point end.

    Attributes
    ----------
    surface : the objective's score and curvature.
    moves : what climbs on from where a saddle was left.
    rows, units, weight : the size of the data.
    hurried : whether rounds are few: steps like Newton's are then taken before the likelihood curves downwards.
    """

    surface: Surface[Here]
    moves: Sequence[Move[Here]]
    rows: float
    units: float
    weight: float
    task: Task
    hurried: bool = False

    def reach_maximum(
        self, here: Here, fit: Fit, climbed: bool = True, surely: bool = False
    ) -> Method[tuple[Here, Fit]]:
        """From where a climb ended to the maximum, and what is to be said of it.

        Where nothing has ``climbed`` to here, a point that is no maximum's need not be a saddle: a climb then comes
        first. To speak ``surely`` of the misfit, more rows are asked where a sample's is too large.
        """
        for _ in range(ESCAPES):
            bend = yield from self.curvature(here)
            there, bend, expected, ended = yield from self._newton(here, bend, fit)
            if bend.definite and expected < WORTH:
                if reason := (yield from self._runaway(there, bend)):
                    return there, replace(ended, converged=False, reason=reason)
                bend = (yield from self._surer(there, bend)) if surely else bend
                misfit = bend.misfit
                ended = replace(ended, misfit=misfit, misfit_parameters=len(bend.matrix), misfit_units=bend.units)
                return there, replace(ended, converged=True, reason="")
            if bend.definite:  # Newton's steps lead into a strait that the safe moves may pass through, from before it
                if ended.n_iter >= self.task.max_iter or not self.moves:
                    return there, replace(ended, converged=False, reason=NO_GAIN)
                higher, patience = here, np.inf
            elif not climbed:
                higher, patience = there, float(PATIENCE)
            else:
                least, direction = bend.ascent()
                if least > -FLAT:
                    reason = yield from self._flat(there, bend, direction)
                    return there, replace(ended, converged=False, reason=reason)
                left = yield from self._leave_saddle(there, direction)
                if left is None:
                    return there, replace(ended, converged=False, reason=SADDLE)
                higher, patience = left, float(PATIENCE)
            here, fit = yield from climb(
                higher, self.moves, self.weight, self.task.max_iter, self.task.tol, ended.n_iter + 1, patience
            )
            if not fit.converged:
                return here, fit
            climbed = True
        return here, replace(fit, converged=False, reason=NO_GAIN if bend.definite else SADDLE)

    def _surer(self, here: Here, bend: Curvature) -> Steps[Curvature]:
        """The curvature from ever more rows, until the scores vary no more than it says or all rows were asked."""
        share = bend.units / self.units
        while (
            not bend.whole
            and (misfit := bend.misfit) is not None
            and misfit > usual_misfit(len(bend.matrix), bend.units)
        ):
            share *= GROWTH
            bend = yield from self._ask(here, share if share < LARGEST_SHARE else 1.0, bend.uncertain)
        return bend

    def verdict(self, here: Here) -> Steps[Verdict[Here]]:
        """Whether a method that stands still here has converged; where it stands on a saddle, a higher point."""
        bend = yield from self.curvature(here)
        if bend.definite:
            reason = yield from self._runaway(here, bend)
            return Verdict(not reason and bend.newton(self.surface.score(here))[1] < WORTH, reason=reason)
        least, direction = bend.ascent()
        if least > -FLAT:
            return Verdict(False, reason=(yield from self._flat(here, bend, direction)))
        return Verdict(False, (yield from self._leave_saddle(here, direction)), SADDLE)

    def saddle(self, here: Here) -> Steps[str]:
        """Why a point is no maximum, for methods that end near one but not at it; nothing where it may be."""
        bend = yield from self.curvature(here)
        if bend.definite:
            return (yield from self._runaway(here, bend))
        least, direction = bend.ascent()
        return (yield from self._flat(here, bend, direction)) if least > -FLAT else UPWARD

    def describe_runaway(self, here: Here) -> Steps[str]:
        """What to say of a climb that ran out of iterations, if Newton's steps from there see no end either."""
        bend = yield from self.curvature(here)
        for _ in range(STEPS):
            step, expected = bend.newton(self.surface.score(here))
            if not bend.definite or expected < WORTH:
                break
            there, _ = yield from self._search_along(here, step, bend)
            if there is None:
                return ""
            here, bend = there, (yield from self.curvature(there))
        return (yield from self._runaway(here, bend))

    def _runaway(self, here: Here, bend: Curvature) -> Steps[str]:
        """What to say of coefficients that have no finite estimate: the likelihood rises beyond Newton's steps."""
        if not may_separate(self.task):
            return ""
        step, gain = bend.visible_newton(self.surface.score(here))
        rounding = ROUNDING * (abs(here.objective) + self.weight)
        if gain <= rounding or step @ bend.complete @ step < LONG:
            return ""
        there = yield from self.surface.move(here, FURTHER * step)
        if there.objective <= here.objective:
            return ""
        coefficients, gate = self.surface.lengths(here, step)
        return SEPARATION if coefficients.sum() >= gate else GATE_SEPARATION

    def _flat(self, here: Here, bend: Curvature, direction: Array) -> Steps[str]:
        """Why the likelihood is flat along a direction of length one."""
        if reason := (yield from self._runaway(here, bend)):
            return reason
        coefficients, gate = self.surface.lengths(here, direction)
        if gate > ALONE:
            return GATE_SEPARATION
        if coefficients.max() > ALONE:
            return SEPARATION if self.task.family.discrete else UNIDENTIFIED
        return PLATEAU

    def curvature(self, here: Here, above: float = 0.0) -> Steps[Curvature]:
        """The curvature here: of a sample where every row would be dear and the sample is clear enough.

        A sample has more than the share ``above`` of the rows.
        """
        for share, uncertain in self._samples(here):
            if share > ROUNDED * above:
                bend = yield from self._ask(here, share, uncertain)
                if bend.definite:
                    return bend
        return (yield from self._ask(here, 1.0, 0.0))

    def _ask(self, here: Here, share: float, uncertain: float) -> Steps[Curvature]:
        """The curvature of a share of the rows."""
        surface, whole = self.surface, share >= 1.0
        question = surface.question(here, whole)
        sums = yield question if whole else Sampled(question, share, self.task.seed)
        matrix, outer = surface.curvature(here, sums, share), surface.outer(here, sums, share)
        return Curvature(
            matrix, surface.complete(here), 0.0 if whole else uncertain, surface.drift(here), outer, share * self.units
        )

    def _samples(self, here: Here) -> Iterator[tuple[float, float]]:
        """Shares of the rows that are worth asking before all of them, with what each leaves uncertain."""
        size = self.surface.size(here)
        least = max(LEAST_ROWS / self.rows, ROWS_PER_COLUMN * size / self.rows, LEAST_UNITS / max(self.units, 1.0))
        share = least
        while share < LARGEST_SHARE and not self._cheap(here):
            yield share, CERTAIN * float(np.sqrt(least / share))
            share *= GROWTH

    def _cheap(self, here: Here) -> bool:
        return self.rows * self.surface.size(here) ** 2 <= CHEAP

    def _newton(self, here: Here, bend: Curvature, fit: Fit) -> Method[tuple[Here, Curvature, float, Fit]]:
        """Newton's steps while they are worth taking; where they are cheap, as far as they go."""
        begun, cheap = here, self._cheap(here)
        enough = CLOSE * self.weight if cheap else ENOUGH
        expected = np.inf
        for _ in range(STEPS):
            before = expected
            if not bend.definite and not (self.hurried and bend.drift is None):
                break
            bent = bend if bend.definite else bend.make_definite()
            step, expected = bent.newton(self.surface.score(here))
            if not cheap and expected > max(SLOW * before, enough):
                bend = yield from self.curvature(here, above=0.0 if bend.whole else bend.units / self.units)
                bent = bend if bend.definite else bend.make_definite()
                step, expected = bent.newton(self.surface.score(here))
            if not expected > enough:
                break
            there, part = yield from self._search_along(here, step, bend)
            if there is None and not bend.whole:
                bend = yield from self._ask(here, 1.0, 0.0)
                continue
            if there is None:
                break
            before_step, here = self.surface.score(here), there
            score = self.surface.score(here)
            bounded = len(score) != len(bend.matrix)  # a variance came to one of its bounds, and is free no longer
            if not bounded and bend.definite:
                bend = bend.learn(part * step, before_step - score)
            if bounded or (cheap and (expected > WORTH or bend.newton(score)[1] > enough)):
                bend = yield from self.curvature(here)
        if here is not begun:
            moved = float(np.linalg.norm(here.place - begun.place))
            fit = self._note(here, fit)
            yield Report(record(fit.n_iter, here, self.weight, moved), here.mixture())
        return here, bend, expected, fit

    def _note(self, here: Here, fit: Fit) -> Fit:
        return replace(fit, mixture=here.mixture(), log_likelihood=here.log_likelihood, n_iter=fit.n_iter + 1)

    def _search_along(self, here: Here, step: Array, bend: Curvature) -> Steps[tuple[Here | None, float]]:
        """The first of the step and its halves that does not lower the objective, or comes nearer to a ridge's root.

        And what part of the step that is.
        """
        for halved in range(HALVINGS):
            there = yield from self.surface.move(here, 0.5**halved * step)
            if bend.drift is None and there.objective >= here.objective:
                return there, 0.5**halved
            if bend.drift is not None and self._nearer(there, here, bend):
                return there, 0.5**halved
        return None, 0.0

    def _nearer(self, there: Here, here: Here, bend: Curvature) -> bool:
        """Whether the score is smaller there, measured alike at both places."""
        scores = [self.surface.score(point) for point in (there, here)]
        if len(scores[0]) != len(scores[1]):
            return there.objective >= here.objective
        sizes = [float(score @ np.linalg.solve(bend.complete, score)) for score in scores]
        return sizes[0] < sizes[1]

    def _leave_saddle(self, here: Here, direction: Array) -> Steps[Here | None]:
        """A higher point along a direction in which the likelihood curves upwards; the longest step that gains."""
        length = LONGEST_ESCAPE * float(np.sqrt(self.weight))
        for _ in range(ESCAPE_LENGTHS):
            best = here
            for sign in (1.0, -1.0):
                there = yield from self.surface.move(here, sign * length * direction)
                best = there if there.objective > best.objective else best
            if best is not here:
                return best
            length *= 0.5
        return None


def ending(
    task: Task, frame: FrameMoments, moves: Sequence[Move[MixturePoint]] = (), hurried: bool = False
) -> Ending[MixturePoint]:
    """How fits of k components end."""
    return Ending(MixtureSurface(task), moves, frame.rows, frame.members, frame.weight, task, hurried)


def pair_ending(task: Task, frame: FrameMoments, moves: Sequence[Move[SymmetricPoint]] = ()) -> Ending[SymmetricPoint]:
    """How fits of beta and -beta end."""
    return Ending(PairSurface(task), moves, frame.rows, frame.members, frame.weight, task)


def usual_misfit(parameters: int, units: float) -> float:
    """The largest misfit that a right model has, of so many parameters on so many units."""
    return float((1.0 + 3.0 * np.sqrt(parameters / max(units, 1.0))) ** 2)


def may_separate(task: Task) -> bool:
    """Whether a coefficient may be without a finite estimate though rows speak of it."""
    return not task.ridge and (task.family.discrete or bool(task.gate.columns))


def _may_run_away(task: Task, here: MixturePoint) -> bool:
    return may_separate(task) and has_newton_steps(task, here)


def has_newton_steps(task: Task, here: MixturePoint) -> bool:
    """Whether Newton's steps can end a fit that stands here."""
    emptied = bool(np.any(here.weights * here.frame.members < 1.0))
    return not emptied and task.family.smooth and not task.gate.own and MixtureSurface(task).size(here) <= LARGEST


def finish(
    task: Task,
    here: MixturePoint,
    fit: Fit,
    moves: Sequence[Move[MixturePoint]],
    climbed: bool = True,
    surely: bool = False,
    hurried: bool = False,
) -> Method[Fit]:
    """The end of a climb of k components, and what is to be said of the fit; see :meth:`Ending.reach_maximum`."""
    frame = here.frame
    if fit.converged and has_newton_steps(task, here):
        here, fit = yield from ending(task, frame, moves, hurried).reach_maximum(here, fit, climbed, surely)
    elif climbed and task.tol > 0 and not (fit.converged or fit.reason) and _may_run_away(task, here):
        fit = replace(fit, reason=(yield from ending(task, frame, moves).describe_runaway(here)))
    return at_bounds(here, task, replace(fit, units=frame.members))


def finish_pair(task: Task, here: SymmetricPoint, fit: Fit, moves: Sequence[Move[SymmetricPoint]]) -> Method[Fit]:
    """The end of a climb of beta and -beta, and what is to be said of the fit."""
    if fit.converged:
        here, fit = yield from pair_ending(task, here.frame, moves).reach_maximum(here, fit)
    return replace(fit, units=here.frame.members)
