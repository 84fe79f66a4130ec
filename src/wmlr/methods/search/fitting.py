"""From the search to a fit: the winner climbs on the plain likelihood of all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from wmlr.core.repeats import MOST_MERGED, ContentSketch, DifferentRows, count_different
from wmlr.core.round import Fit, Method, Report, Steps
from wmlr.methods import general
from wmlr.methods.ascent import NEARLY, PATIENCE, Move, climb, record
from wmlr.methods.curvature import AT_FLOOR, at_bounds
from wmlr.methods.general import MixturePoint
from wmlr.methods.polish import finish, has_newton_steps, usual_misfit
from wmlr.methods.search import climbing
from wmlr.methods.search.certificate import SAME, Maximum, Search, gap
from wmlr.methods.search.effort import MANY_COLUMNS, Effort
from wmlr.methods.search.generations import generations
from wmlr.methods.search.landscape import Landscape
from wmlr.methods.search.population import Population, match
from wmlr.methods.search.stages import SearchProblem, SearchSpending, SearchState, Stage, first_stage, spectral_stage
from wmlr.methods.starts import LEAST_UNITS, Within, all_rows, subspace, usual_rows
from wmlr.methods.task import Task
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array
from wmlr.numerics.coordinates import Frame
from wmlr.statistics.grain import Repeats, has_common_value

ALL_ROWS = 3_000  # up to so many, all are searched: a sample would lose small components
SEARCHED_ROWS = 4_000
ROWS_PER_COEFFICIENT = 40
HITS = 0.8  # of the first candidates at the best maximum: with fewer another may be near
MISFIT = 2.0
SURE_ROWS = 20  # rows per parameter from which on the information-matrix test has power by itself
COSTLY_STEP = 2e8  # products of columns, rows and components in one EM step of one candidate
MOST_PRODUCTS = 5e11  # in all EM steps of a search that nobody asked to be thorough: some twenty seconds
LEAST_PRODUCTS = 4e9  # before populations that agree are believed: some four tenths of a second
ROW_PRODUCTS = 30  # take as long as what an EM step does with a row beside them
CLIMBED_STEPS = 2e4  # of EM, that a search of many rows is to have at least
MORE_ROWS = 1.25  # times those of the sample, that repay beginning anew
NEARLY_ALL = 0.999  # of the rows: of those in files only a sample is held, and the same search is to be made everywhere
MOST_FROM_SMALLER = 5e10  # in one that also begins at a fit of a component fewer, one of several for a choice
SPIKE = 0.25  # of a guarded variance: a plain climb that ends below it has run into a spike
FINALISTS = 3
HURRIED_PATIENCE = 5.0  # iterations after which, where rounds are few, Newton's steps take over from a slow climb
HURRIED_GAIN = 2.0  # of log-likelihood still to be had: Newton's steps may try earlier than where rounds are cheap
UNBOUNDED = (
    "the likelihood has no bound near it, since a component would shrink onto a few rows, and the maximum of the "
    "likelihood with its guard was kept; try fewer components or shared_sigma=True (guard=False turns the guard off)"
)
SAME_ERRORS = 0.01  # of a standard error: nearer coefficients are the same


def climb_from_start(task: Task, moves: Sequence[Move[MixturePoint]]) -> Method[Fit]:
    """A fit of k components: by search where the start is "auto", else from the start that is asked for."""
    frame = yield from general.survey(task)
    task = yield from general.place_family(task, frame)
    many = not general.algebra(task).searches
    if task.start_word == "auto" and task.n_components > 1 and not many:
        return (yield from fit_likeliest(task, frame, moves, usual_rows(frame)))
    points = yield from general.begin(task, frame)
    if many:
        here, fit = yield from climb(points[0], moves, frame.weight, task.max_iter, task.tol)
        return at_bounds(here, task, replace(fit, units=frame.members))
    points = yield from general.refine(points, moves[0])
    here, fit = yield from climb(points[0], moves, frame.weight, task.max_iter, task.tol, patience=patience(task))
    fit = yield from finish(task, here, fit, moves)
    return _with_duplicates(fit, frame, task) if isinstance(task.start, Mixture) else fit


def patience(task: Task, hurried: bool = False) -> float:
    """After how many iterations a climb may leave the rest to Newton's steps; never, where there are none."""
    if not task.family.smooth or task.gate.own:
        return np.inf
    return HURRIED_PATIENCE if hurried else PATIENCE


def fit_likeliest(task: Task, frame: Frame, moves: Sequence[Move[MixturePoint]], within: Within) -> Method[Fit]:
    """Search, climb from the best, and say how sure that is.

    An easy problem ends early: where independent searches agree from the first candidates on, most of which end at the
    same maximum, and the fit passes the information-matrix test or no other maximum was seen at all; but not where a
    value of the response may be a component of its own, which hardly any first candidate shows, nor where sigma is at
    its floor, since exact fits to some of the rows are many. Of many columns few candidates find the maximum even where
    it is clear, and the test must do, unless most that were not left behind end there. Where steps are costly and the
    spectral directions are not clear, the other sources are asked once, and the best of all must do; where rounds are
    few, the spectral directions alone. What is not clear on a sample is sought anew on more rows.
    """
    generator, spent = task.generator(), SearchSpending()
    problem = yield from _search_problem(task, frame, within)
    effort, costly = _effort(problem), _too_costly(problem, task)
    few = effort.rounds is not None
    hurried = costly and effort.early
    if hurried and isinstance(task.search, str):
        effort = effort.of_costly_steps
    from_sample = not (few or costly or task.family.weights_alike)
    ending = _Ending(task, frame, moves, problem.landscape, from_sample, few)
    fit: Fit | None = None
    state: SearchState | None = None
    value = -np.inf
    stages = _first_stages(problem, costly)[: 1 if hurried and few else None]
    larger = None if few or costly else _on_more_rows(problem)
    for stage in stages if larger is None else (*stages, first_stage):
        if larger is not None and state is not None and state.settled:
            if spent.is_over(effort):
                break
            problem, effort = larger, _effort(larger)
            ending, fit, value = replace(ending, landscape=problem.landscape), None, -np.inf
            state = replace(state, known=replace(state.known, found=np.ones_like(state.known.found)))
        state = yield from spent.count(stage(problem, effort, generator, state))
        clear = state.lineages_agree and (state.hit_share >= HITS or (problem.wide and state.settled))
        easy = effort.early and not problem.levels and clear
        last = hurried and (easy or stage is stages[-1])
        if easy or last or (hurried and _has_power(task.n_components * frame.dimension, frame.members)):
            maxima = yield from ending.maxima(state, FINALISTS if costly and not few else 1)
            if fit is None or not fit.converged or maxima.value[0] > value + SAME * problem.landscape.share:
                found, value = (yield from ending.fit(maxima, surely=not (costly or few))), float(maxima.value[0])
                if not (hurried and fit is not None and fit.converged and fit.log_likelihood > found.log_likelihood):
                    fit = found
            if last or _is_alone(state, fit, problem) or _consistent(fit, state, problem):
                return replace(fit, search=_certificate(state, fit, problem, spent))
    assert state is not None
    state = yield from spent.count(generations(problem, effort, state, generator, spent, stages))
    if fit is None or float(state.maxima.value[0]) > value + SAME * problem.landscape.share:
        fit = yield from ending.fit((yield from ending.maxima(state, 1 if few else FINALISTS)))
    return replace(fit, search=_certificate(state, fit, problem, spent))


def _effort(problem: SearchProblem) -> Effort:
    """How hard the task asks to search, in EM steps where it gives a word for it."""
    task = problem.landscape.task
    cheap = task.draws and task.family.least_squares and not task.gate.differs
    effort = Effort.of(task.search, task.searches, problem.landscape.dimension, task.draws, cheap)
    share = problem.landscape.share  # a step on a sample counts as that share of one
    if task.search in ("auto", "quick"):
        effort = replace(effort, steps=share * _most_products(task) / max(_step_cost(problem), 1.0))
        effort = effort if task.smaller is None else replace(effort, restarts=0)
    if task.search in ("auto", "thorough"):
        least = LEAST_PRODUCTS / max(_step_cost(problem, ROW_PRODUCTS), 1.0)
        many_rows = problem.landscape.distinct > ALL_ROWS
        effort = replace(effort, least_steps=share * (max(least, CLIMBED_STEPS) if many_rows else least))
    return effort


def _most_products(task: Task) -> float:
    """In all EM steps of a search that nobody asked to be thorough."""
    return MOST_PRODUCTS if task.smaller is None else MOST_FROM_SMALLER


def _on_more_rows(problem: SearchProblem) -> SearchProblem | None:
    """The same on as many rows as can be climbed often enough, for what is not clear on a sample; if these are more.

    A sample holds too little of components of few rows, and its highest maximum often is not that of all rows.
    """
    landscape, task = problem.landscape, problem.landscape.task
    if task.search == "quick" or landscape.share >= 1.0 or not task.in_one_place:
        return None
    affordable = _most_products(task) / (CLIMBED_STEPS * task.n_components * (landscape.dimension**2 + ROW_PRODUCTS))
    share = min(affordable / landscape.distinct, NEARLY_ALL)
    if share < MORE_ROWS * landscape.share:
        return None
    return replace(problem, landscape=replace(landscape, share=share))


def _is_alone(state: SearchState, fit: Fit, problem: SearchProblem) -> bool:
    """Whether all first candidates ended at the same maximum, or of many columns most of those not left behind."""
    if not state.settled:
        return False
    return state.hit_share >= HITS if problem.wide else state.has_one_maximum and not fit.floored


def _first_stages(problem: SearchProblem, costly: bool) -> tuple[Stage, ...]:
    """What comes before the generations: the spectral directions alone where there are such, then all directions."""
    spectral = problem.directions is not None and (problem.smaller is None or costly)
    return (spectral_stage, first_stage) if spectral else (first_stage,)


def _step_cost(problem: SearchProblem, more: float = 0.0) -> float:
    """Products in one EM step of one candidate: the Gram matrices, and what it takes to solve with them.

    And so many ``more`` for each row and component.
    """
    landscape = problem.landscape
    rows = landscape.share * landscape.distinct + landscape.dimension
    return float(rows * landscape.task.n_components * (landscape.dimension**2 + more))


def _too_costly(problem: SearchProblem, task: Task) -> bool:
    """Whether so many columns make EM steps of many candidates take too long: a few must do."""
    return problem.directions is not None and _step_cost(problem) > COSTLY_STEP and task.search != "thorough"


def _search_problem(task: Task, frame: Frame, within: Within) -> Steps[SearchProblem]:
    k, q = task.n_components, frame.dimension
    rows = max(SEARCHED_ROWS, ROWS_PER_COEFFICIENT * k * q)
    distinct = yield from _different_rows(task, frame)
    share = 1.0 if distinct <= ALL_ROWS else min(1.0, max(rows / distinct, LEAST_UNITS / max(frame.members, 1.0)))
    directions = None
    if q > k + 2 and not task.components_differ:
        directions = yield from subspace(frame, task, within)
    landscape = Landscape.of(frame, task, share, all_rows if task.family.outlying else within, distinct)
    smaller = None if task.smaller is None else _inside(frame, task.smaller)
    levels = yield from _may_have_levels(landscape)
    return SearchProblem(landscape, directions, frame.members / max(frame.rows, 1.0), task.draws, smaller, levels)


def _different_rows(task: Task, frame: Frame) -> Steps[float]:
    """How many rows the search looks at, of those that have the same content one."""
    if not task.draws or frame.grouped or task.gate.own:
        return frame.rows
    if task.in_one_place and task.in_memory:
        return float((yield DifferentRows())["rows"])
    distinct = count_different((yield ContentSketch())["seen"])
    return distinct if distinct <= MOST_MERGED * frame.rows else frame.rows


def _may_have_levels(landscape: Landscape) -> Steps[bool]:
    """Whether a value of the response may be a component of its own: only one that many rows have in common."""
    few = landscape.dimension <= MANY_COLUMNS
    if not (landscape.task.draws and few and landscape.separate and landscape.constant is not None):
        return False
    return has_common_value((yield Repeats()))


def _inside(frame: Frame, mixture: Mixture) -> Population:
    """A mixture in a frame's coordinates, as a population of one."""
    coef = general.coefficients_inside(frame, mixture).T
    return Population.of(coef[None], mixture.weights[None], mixture.sigma[None] ** 2, np.zeros(1, dtype=np.int64), 0)


@dataclass(frozen=True)
class _Ending:
    """Climbs from where a search ended.

    From a sample's maximum, where it is to be climbed to the end (``from_sample``), Newton's steps lead to that of all
    rows, which is near: a climb there would be costly. Where rounds are ``few``, a climb onto a few rows goes no
    further.
    """

    task: Task
    frame: Frame
    moves: Sequence[Move[MixturePoint]]
    landscape: Landscape
    from_sample: bool = False
    few: bool = False

    @property
    def ends_on_sample(self) -> bool:
        """Whether the climb ends on a sample of the rows, but for Newton's steps."""
        return self.from_sample and self.landscape.share < 1.0

    def maxima(self, state: SearchState, finalists: int) -> Steps[Population]:
        """Where to climb from: the best maximum, or of a sample's the best few, settled where that is wanted."""
        chosen = 1 if state.settled and self.landscape.share >= 1.0 else min(finalists, len(state.maxima))
        best = state.maxima.take(np.arange(chosen))
        if self.ends_on_sample and not state.settled:
            best = yield from climbing.converge(self.landscape, best)
        return best

    def fit(self, maxima: Population, surely: bool = False) -> Method[Fit]:
        """The plain climb on all rows from the one of these that is best there.

        Where much depends on its misfit, that is to be known ``surely``.
        """
        points = []
        for place in range(len(maxima)):
            points.append((yield from self._point(maxima, place)))
        here = yield from self._best(points)
        near = self.ends_on_sample and has_newton_steps(self.task, here)
        if near:
            yield Report(record(0, here, self.frame.weight, 0.0), here.mixture())
            fit = Fit(here.mixture(), here.log_likelihood, 0, True)
        else:
            here, fit = yield from climb(
                here,
                self.moves,
                self.frame.weight,
                self.task.max_iter,
                self.task.tol,
                patience=patience(self.task, self.few),
                nearly=HURRIED_GAIN if self.few else NEARLY,
            )
        if self.few and self.landscape.guard and self._ran_into_spike(fit, maxima, here.floor):
            return (yield from self._fit_guarded(maxima.take(np.array([0])), replace(fit, units=self.frame.members)))
        fit = yield from finish(self.task, here, fit, self.moves, climbed=not near, surely=surely, hurried=self.few)
        fit = _with_duplicates(fit, self.frame, self.task)
        if self.landscape.guard and self._ran_into_spike(fit, maxima, here.floor):
            return (yield from self._fit_guarded(maxima.take(np.array([0])), fit))
        return fit

    def _best(self, points: list[MixturePoint]) -> Steps[MixturePoint]:
        """The point that a few moves from each show to be best."""
        if len(points) > 1:
            points = yield from general.refine(points, self.moves[0])
        shared, guard = self.landscape.reference, self.landscape.guard_penalty
        return max(points, key=lambda here: here.penalised_likelihood(shared) - guard(here.s2[None])[0])

    def _point(self, maxima: Population, place: int) -> Steps[MixturePoint]:
        B, weights, s2 = maxima.coef[place].T, maxima.weights[place], maxima.s2[place]
        B = self.task.constraints.nearest(self.frame.basis, B, weights)
        gate = maxima.gate[place] if self.landscape.gate is not None else None
        return (yield from general.evaluate(self.frame, B, weights, s2, self.task.family, gate))

    def _ran_into_spike(self, fit: Fit, maxima: Population, floor: Array) -> bool:
        """Whether the plain likelihood led away onto a few rows, which the guarded one did not.

        A component that shrank to its floor has, and one that holds hardly more rows than it has coefficients.
        """
        order = match(maxima.coef[0], _inside(self.frame, fit.mixture).coef[0], self.task.exchange)
        mixture, guarded = fit.mixture, maxima.s2[0]
        shrunk = mixture.sigma[order] ** 2 < SPIKE * guarded
        few = mixture.weights[order] * self.frame.rows < self.frame.dimension + 1
        least = AT_FLOOR * np.broadcast_to(floor, guarded.shape)[order]
        floored = (mixture.sigma[order] ** 2 <= least) & (guarded > least)
        return bool(np.any(floored | (shrunk & few)))

    def _fit_guarded(self, best: Population, spiked: Fit) -> Method[Fit]:
        """The guarded maximum, to its end on all rows."""
        whole = replace(self.landscape, share=1.0)
        best = yield from climbing.converge(whole, best, settled=climbing.SETTLED_GAIN if self.few else 1e-7)
        here = yield from self._point(best, 0)
        mixture = here.mixture()
        return replace(
            spiked,
            mixture=mixture,
            log_likelihood=here.log_likelihood,
            converged=False,
            guarded=True,
            reason=UNBOUNDED,
            floored=bool(np.any(here.s2 <= AT_FLOOR * here.floor)),
        )


def _with_duplicates(fit: Fit, frame: Frame, task: Task) -> Fit:
    """The fit, with two components that have the same deviation, and coefficients a hundredth of an error apart.

    Only components of which the same is asked can be one too many.
    """
    mixture, exchange = fit.mixture, task.exchange
    coef = _inside(frame, mixture).coef[0]
    errors = frame.spread * mixture.sigma**2 / np.maximum(mixture.weights * frame.rows, 1e-300)
    for i in range(mixture.n_components):
        for j in range(i):
            alike = abs(np.log(mixture.sigma[i] / mixture.sigma[j])) < SAME_ERRORS
            gaps = np.sum((coef[i] - coef[j]) ** 2) / max(errors[i], errors[j]) + exchange[i, j]
            if alike and gaps < SAME_ERRORS**2:
                return replace(fit, collapsed=(j, i))
    return fit


def _has_power(parameters: int, units: float) -> bool:
    """Whether there are enough rows, or groups, for the information-matrix test to tell by itself."""
    return units >= SURE_ROWS * parameters


def _consistent(fit: Fit, state: SearchState, problem: SearchProblem) -> bool:
    """Whether the curvature at the fit agrees with the scores' variance, as it does where the model is right.

    Few rows for each parameter show less, and independent searches must agree too. A wrong maximum of many columns
    joins rows that disagree in many directions, so that the largest of its misfits is far beyond what is usual.
    """
    if fit.misfit is None or not fit.converged or fit.floored:
        return False
    bound = usual_misfit(fit.misfit_parameters, fit.misfit_units)
    if _has_power(fit.misfit_parameters, fit.misfit_units) and fit.misfit <= bound:
        return True
    return state.settled and state.lineages_agree and fit.misfit <= (bound if problem.wide else MISFIT)


def _certificate(state: SearchState, fit: Fit, problem: SearchProblem, spent: SearchSpending) -> Search:
    landscape, maxima = problem.landscape, state.maxima
    plain = landscape.plain_value(maxima) / landscape.share
    plain = plain - plain[0] + fit.log_likelihood
    found = []
    for place in range(len(maxima)):
        order = match(maxima.coef[0], maxima.coef[place], landscape.task.exchange)
        gaps = np.sum((maxima.coef[0] - maxima.coef[place][order]) ** 2, axis=1) / (landscape.spread * maxima.s2[0])
        found.append(Maximum(float(plain[place]), int(maxima.found[place]), float(np.sqrt(gaps.max()))))
    reached = int(np.sum(state.reached >= maxima.value[0] - SAME * landscape.share))
    return Search(
        searches=len(state.reached),
        reached=reached,
        maxima=tuple(found),
        runner_up=gap(tuple(found)),
        steps=spent.steps,
        generations=state.generations,
        sampled=landscape.share < 1.0,
        consistent=_consistent(fit, state, problem),
        interrupted=spent.interrupted,
    )
