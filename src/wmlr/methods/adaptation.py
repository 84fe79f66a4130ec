"""Methods adapted to what an engine can do: the one place where partial participation and privacy are allowed for."""

from __future__ import annotations

from dataclasses import replace

from wmlr.core.capabilities import Capabilities
from wmlr.core.round import Fit, Method
from wmlr.methods.centring import with_centred_columns
from wmlr.methods.partial import partial
from wmlr.methods.private import private
from wmlr.methods.task import Solver, Task


def adapt_task(task: Task, engine: Capabilities) -> Task:
    """The task as an engine bears it: where rows are hidden no query looks at single ones, slow rounds are few."""
    search = "quick" if engine.slow_rounds and task.search == "auto" else task.search
    return replace(
        task,
        draws=not engine.hides_rows,
        in_one_place=engine.in_one_place,
        in_memory=engine.in_memory,
        search=search,
    )


def adapt_method(solver: Solver, task: Task, engine: Capabilities) -> Method[Fit]:
    """A solver's method within the rounds that are left, among rows that may change from round to round."""
    if engine.rounds_left is not None:
        return private(solver, task, engine.rounds_left, engine.grouped)
    share = engine.answering
    return with_centred_columns(solver.fit if share >= 1.0 else lambda task: partial(solver, task, share), task)
