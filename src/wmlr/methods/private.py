"""Private fits: methods that ask little, for a number of rounds settled before, and bear the noise they get.

The noise of a round does not fall with the step, so the last rounds are averaged: by steps of 1/2, 1/3, ..., each of
which is an estimate of its own. Scores are asked for as residuals, which are small where the fit is near, and so is
then the noise that hides them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wmlr.core.query import Query
from wmlr.core.round import Finished, Fit, Method, Report, Steps, iteration_record, pass_on, with_relay
from wmlr.methods import general
from wmlr.methods.ascent import WORTH, Here
from wmlr.methods.curvature import MixtureSurface, PairSurface, Surface
from wmlr.methods.general import MixturePoint
from wmlr.methods.partial import partial
from wmlr.methods.polish import CERTAIN
from wmlr.methods.symmetric import SymmetricPoint, information
from wmlr.methods.task import Solver, Task, offers, pair
from wmlr.numerics.arrays import Array, Sums
from wmlr.numerics.coordinates import Frame, orient_columns, white_frame
from wmlr.statistics.moments import FourthMoments, Moments
from wmlr.statistics.selected_parts import Chosen
from wmlr.statistics.symmetric_score import SymmetricResiduals

PAIRS = ("pairs", "pair_count")
RESIDUALS = ("m", "squares", "missing", "missing_along", "log_likelihood")
LEAST_SHARE, MOST_SHARE = 0.02, 0.98
ALMOST_ALL = 1.0 - 1e-9  # of the agents: answers are noisy, so that no move is judged by one round
NOISE = (
    "the noise of the private rounds leaves some {:.3g} of log-likelihood of which nobody can say whether it is still "
    "to be gained: allow a larger epsilon, or bring more agents"
)
UNJUDGED = "under the noise of private rounds nobody can say whether this method has converged: use method='wmlr'"
SPENT = "the private rounds were spent: allow more of them"


def private(solver: Solver, task: Task, rounds: int, grouped: bool) -> Method[Fit]:
    """A solver's method within so many rounds.

    Refreshed WMLR and EM have private forms of their own. Another method runs as it does where agents change, and
    stops where the rounds end.
    """
    if task.family.outlying:
        raise ValueError("outliers= looks at how far out y lies, which private rounds must not show: use robust=True")
    if task.gate.differs:
        raise ValueError("a private fit is for weights that all rows share: leave out gate=")
    task = replace(task, wide=False, exact=False)
    if not task.family.weights_alike:
        raise ValueError(f"a private fit is for family='normal' or 'student' (got {task.family.name!r})")
    own = offers(solver, "average")
    searching = not task.symmetric and task.n_components > 1 and bool(task.start_word)
    if searching and (task.n_components > 2 if own else task.start != "random"):
        others = "" if own or task.n_components > 2 else ", or use method='wmlr'"
        raise ValueError(
            f"a private fit of {task.n_components} components needs a start: give start= as coefficients "
            f"(looking for one takes some thirty rounds){others}"
        )
    if not own:
        return _within(_without_verdict(partial(solver, task, ALMOST_ALL)), rounds)
    steps = _steps_left(rounds - (1 if task.symmetric else 3 if searching else 2), task)
    return _within(_symmetric(task, steps, grouped) if task.symmetric else _general(task, steps, grouped), rounds)


def _without_verdict(method: Method[Fit]) -> Method[Fit]:
    """A method that goes by its own steps: under noise, that they are short says nothing."""
    fit = yield from method
    return replace(fit, converged=False, reason=fit.reason or UNJUDGED)


def _judge(surface: Surface[Here], here: Here, scores: list[Array], fit: Fit) -> Fit:
    """A fit that ends here, by the mean of the scores met on the way there, the noise's own part in it included.

    The curvature, for which no round is spent, is taken to be a quarter of what it were, were the components known.
    """
    score = np.mean(scores, axis=0)
    left = 0.5 * float(score @ np.linalg.solve(CERTAIN * surface.complete(here), score))
    reason = "" if left < WORTH else NOISE.format(left)
    return replace(fit, converged=not reason, reason=reason)


def _within(method: Method[Fit], rounds: int) -> Method[Fit]:
    """The method, until the rounds are spent; then the fit is where it stands."""
    last: Report | None = None
    asked = 0

    def keep(report: Report) -> Report:
        nonlocal last
        last = report
        return report

    def count(query: Query) -> Steps[Sums]:
        nonlocal asked
        if asked < rounds:
            asked += 1
            return pass_on(query)
        if last is None:
            raise ValueError(
                f"the {rounds} private rounds were spent before there was anything to report: give start=, allow more "
                "rounds, or use method='wmlr'"
            )
        record = last.record
        raise Finished(Fit(last.mixture, record["log_likelihood"], int(record["iteration"]), False, reason=SPENT))

    return with_relay(method, count, keep)


def _gains(steps: int) -> list[float]:
    """Whole steps first, then an average."""
    whole = (steps + 1) // 2
    return [1.0] * whole + [1.0 / (count + 2) for count in range(steps - whole)]


def _moments(task: Task, names: tuple[str, ...], fourth: bool = False) -> Steps[tuple[Frame, Sums]]:
    """The white frame, from the few sums it needs; the others are filled in."""
    sums = yield Chosen(Moments(task.intercept, fourth), ("weight", "gram", "yy", *names))
    size = len(sums["gram"])
    filled = {"rows": sums["weight"], "units": sums["weight"], "xy": np.zeros(size), "y": np.zeros(())} | sums
    return white_frame(filled, task.intercept, task.ridge, noisy=True), sums


def _pair_moments(frame: Frame, sums: Sums, yy: float) -> tuple[Array, float]:
    """The vector b of +b and -b, and the variance left of ``yy``, from second moments within groups or fourth ones.

    Within groups the sum over pairs of rows estimates bb' for any law of x; where rows stand alone E[y^2 ww'] is
    2 bb' more than E[y^2] for a normal x.
    """
    if "pairs" in sums:
        matrix = frame.mean_matrix_of(sums["pairs"]) * frame.weight / max(float(sums["pair_count"]), 1.0)
        part = 1.0
    else:
        matrix, part = frame.mean_matrix_of(sums["fourth"]) - yy * frame.gram, 0.5
    values, vectors = np.linalg.eigh(matrix)
    share = float(np.clip(part * values[-1] / yy, LEAST_SHARE, MOST_SHARE))
    return orient_columns(vectors[:, -1:])[:, 0] * float(np.sqrt(share * yy)), (1.0 - share) * yy


def _symmetric(task: Task, steps: int, grouped: bool) -> Method[Fit]:
    frame, sums = yield from _moments(task, PAIRS if grouped else ("fourth",), fourth=True)
    if task.start_word:
        b, s2 = _pair_moments(frame, sums, frame.yy)
    else:
        b = frame.inside(np.asarray(task.start)[0])
        s2 = max(frame.yy - float(b @ b), (1.0 - MOST_SHARE) * frame.yy)
    s2 = s2 if task.sigma is None else task.sigma**2
    gains = _gains(steps)
    surface = PairSurface(task)
    scores: list[Array] = []
    for iteration, gain in enumerate(gains):
        sums = yield Chosen(SymmetricResiduals(frame.to_data(b), s2), RESIDUALS)
        here = _point(frame, b, s2, sums)
        scores = _scores_to_average(scores, surface.score(here), gain)
        yield _report(iteration, here, gain)
        b = b + gain * here.stein_step()[0]
        if task.sigma is None:
            s2 = max(s2 + gain * (float(sums["squares"]) / frame.weight - s2), frame.floor)
    yield _report(len(gains), replace(here, b=b, s2=s2), 0.0)
    fit = Fit(pair(frame, b, s2), here.log_likelihood, len(gains), True, frame.members)
    return _judge(surface, here, scores, fit)


def _scores_to_average(scores: list[Array], score: Array, gain: float) -> list[Array]:
    """The scores met since averaging began; before, the last alone."""
    return [*scores, score] if gain < 1.0 and scores and len(scores[-1]) == len(score) else [score]


def _steps_left(steps: int, task: Task) -> int:
    if steps < 1:
        raise ValueError("a private fit has no round left after its start: allow more rounds")
    return min(steps, task.max_iter)


def _point(frame: Frame, b: Array, s2: float, sums: Sums) -> SymmetricPoint:
    """Where the fit stands, with the noisy score there."""
    across, along = information(sums, frame.weight, float(b @ b))
    m, left = frame.mean_of(sums["m"]) - frame.shrink(b), float(sums["squares"]) / frame.weight
    return SymmetricPoint.white(frame, b, s2, m, left, float(sums["log_likelihood"]), across, along)


def _report(iteration: int, here: SymmetricPoint | MixturePoint, step: float) -> Report:
    record = iteration_record(
        iteration, here.log_likelihood / here.frame.weight, here.log_likelihood, here.gradient_norm, step
    )
    return Report(record, here.mixture())


def _general(task: Task, steps: int, grouped: bool) -> Method[Fit]:
    frame, _ = yield from _moments(task, ("xy",))
    if not task.start_word or task.n_components == 1:
        here = (yield from general.begin(task, frame))[0]
    else:
        here = yield from _two(task, frame, grouped)
    yield _report(0, here, 0.0)
    gains = _gains(steps)
    surface = MixtureSurface(task)
    scores: list[Array] = []
    for iteration, gain in enumerate(gains):
        here = yield from general.scaled_move(task, gain)(here)
        scores = _scores_to_average(scores, surface.score(here), gain)
        yield _report(iteration + 1, here, gain)
    fit = Fit(here.mixture(), here.log_likelihood, len(gains), True, frame.members)
    return _judge(surface, here, scores, fit)


def _two(task: Task, frame: Frame, grouped: bool) -> Steps[MixturePoint]:
    """Two components around the least-squares fit: what is left of y is a symmetric pair."""
    mean = frame.least_squares
    names = ("rr", *PAIRS) if grouped else ("rr", "fourth")
    sums = yield Chosen(FourthMoments(frame.to_data(mean)), names)
    b, s2 = _pair_moments(frame, sums, max(float(sums["rr"]) / frame.weight, frame.floor))
    start = np.stack([mean + b, mean - b], axis=1)
    weights, variances = general.constrain(task, frame, np.full(2, 0.5), np.full(2, 0.5 * s2), np.full(2, 0.5))
    return (yield from general.evaluate(frame, start, weights, variances, task.family))
