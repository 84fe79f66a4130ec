"""Runs over a grid side by side, of which one is sought: those that can no longer be the fastest are stopped.

The paper chooses, among the runs within 50% of the best final error, the one that converges first. Two rules say that a
run has lost. Both take it that runs which converge end at the same point, as gradient steps on one objective do.

- Another run has converged, by the appendix's definition in fewer iterations than this one has made, and this one was
  still outside the 5% of that definition then.
- For the later half of its iterations, another run's error has been below what this one's is now, and below what it was
  at the start, by more than the 50% (by 5% while this one's is over 0.5, and it has found nothing yet): what this run
  has yet to do, the other one did in half the time. A run that turns away from the truth first, as most do from a poor
  start, is not behind one that does not move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from wmlr.core.query import Query
from wmlr.core.round import Finished, Fit, Method, Report, Steps, pass_on, with_relay
from wmlr.experiments.problems import SLACK, Watch, converged_at
from wmlr.numerics.arrays import Sums

NEAR = 1.5
USEFUL = 0.5
FIRST_LOOK = 200
BETWEEN_LOOKS = 1.02


@dataclass
class Race:
    """Runs by name, each with the watch that notes its errors.

    Attributes
    ----------
    watches : of all runs, by their names.
    kept : names of runs that go on to their ends, whatever the others do.
    stopped : names of runs that have lost.
    """

    watches: dict[str, Watch]
    kept: Sequence[str]
    stopped: set[str] = field(default_factory=set)
    _converged: dict[str, int] = field(default_factory=dict)

    def enter(self, name: str, method: Method[Fit]) -> Method[Fit]:
        """The method, stopped before it asks for another pass once it has lost."""
        last: list[Report] = []
        look = FIRST_LOOK

        def keep(report: Report) -> Report:
            last[:] = [report]
            return report

        def stop(query: Query) -> Steps[Sums]:
            nonlocal look
            if last and name not in self.kept and (done := len(self.watches[name].errors) - 1) >= look:
                look = int(BETWEEN_LOOKS * done)
                if self.has_lost(name):
                    self.stopped.add(name)
                    raise Finished(Fit(last[0].mixture, float("nan"), done, False))
            return pass_on(query)

        fit = yield from with_relay(method, stop, keep)
        iterations = converged_at(self.watches[name].errors)
        if fit.converged and iterations is not None and self.watches[name].errors[-1] < USEFUL:
            self._converged[name] = iterations
        return fit

    def has_lost(self, name: str) -> bool:
        """Whether a run can no longer be the fastest."""
        errors = self.watches[name].errors
        for winner, iterations in self._converged.items():
            late = errors[iterations:]
            if late and max(late) > SLACK * self.watches[winner].errors[-1]:
                return True
        half, now = len(errors) // 2, len(errors)  # runs later in the order of the grid are one iteration behind
        far = min(errors[0], errors[-1]) / (SLACK if errors[-1] > USEFUL else NEAR)
        return any(
            len(other.errors) >= now - 1 and max(other.errors[half:now]) < far
            for rival, other in self.watches.items()
            if rival != name
        )
