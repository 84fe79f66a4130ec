"""A fit as a table to read."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr

from wmlr.families.outliers import OUTLIERS
from wmlr.inference.intervals import ConfidenceIntervals, edges, number
from wmlr.inference.uncertainty import GATE, INTERCEPT, SIGMA, WEIGHT, aliased_columns
from wmlr.io.printable import printable
from wmlr.io.table import list_names
from wmlr.io.text_table import aligned_line, widths
from wmlr.model.mixture import Mixture

if TYPE_CHECKING:
    from wmlr.estimator.fitted import FittedMixture

NAMED = 3
LONGEST_FORMULA = 80
Facts = tuple[tuple[str, str], ...]
UNTESTED = (SIGMA, WEIGHT, OUTLIERS)  # that one of these is zero is no hypothesis


@dataclass(frozen=True)
class Line:
    """One parameter: its component, name, estimate and, where known, standard error and interval."""

    component: int
    name: str
    estimate: float
    error: float | None = None
    lower: float = np.nan
    upper: float = np.nan

    def cells(self) -> list[str]:
        """Name, estimate, error, z, P>|z| and interval, as text."""
        name = printable(self.name)
        if self.error is None:
            return [name, number(self.estimate)]
        z = np.nan if self.name in UNTESTED or not self.error > 0 else self.estimate / self.error
        tests = ["", ""] if np.isnan(z) else [f"{z:.3f}", f"{2.0 * float(ndtr(-abs(z))):.3f}"]
        return [name, number(self.estimate), number(self.error), *tests, number(self.lower), number(self.upper)]


@dataclass(frozen=True)
class Summary:
    """The table of a fit; ``str`` for the terminal, HTML in a notebook.

    ``strict`` says that the likelihood falls in every direction from the fit, as far as was looked: every coefficient
    and weight that has an estimate has a standard error. A sigma at its bound has none.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    components: tuple[tuple[str, tuple[Line, ...]], ...]
    level: float = 0.95
    strict: bool = True

    @classmethod
    def of(cls, fitted: FittedMixture, intervals: ConfidenceIntervals | None = None, extra: Facts = ()) -> Summary:
        """From a fitted mixture, and the intervals of its estimates where they are known."""
        mixture, record = fitted.mixture, fitted.record
        names = fitted.inputs.column_names
        if fitted.constraints.intercept:
            names.append(INTERCEPT)
        known = {} if intervals is None else {name: place for place, name in enumerate(intervals.names)}
        left_out = aliased_columns(mixture, fitted.constraints)
        held = {(component, column): value for component, column, value in fitted.constraints.held}
        blocks = []
        for j in range(mixture.n_components):
            flip = mixture.symmetric and j == 1
            values = [*mixture.coef[j], mixture.intercept[j]][: len(names)]
            values = [np.nan if column in left_out else value for column, value in enumerate(values)]
            lines = []
            law = mixture.family.of_component(j)
            scale = {SIGMA: mixture.sigma[j]} if law.has_scale else {}
            kept = [place for place in range(len(names)) if held.get((j, place)) != 0.0]
            known_here = {names[column] for component, column in held if component == j}
            shown = {names[place]: values[place] for place in kept} | scale | {WEIGHT: mixture.weights[j]}
            if mixture.gate is not None and j + 1 < mixture.n_components:
                columns = (*fitted.constraints.gate.columns, INTERCEPT)
                shown |= {f"{GATE} {name}": value for name, value in zip(columns, mixture.gate[j])}
            for name, value in shown.items():
                lead = name not in UNTESTED and flip
                place = known.get(f"{name}[{1 if lead else j + 1}]", known.get(name))
                place = None if name in known_here else place
                lines.append(_line(j, name, float(value), intervals, place, lead))
            called = "" if mixture.family.one_law else f" ({law.label})"
            header = f"component {j + 1}{called}: weight {mixture.weights[j]:.4f}"
            header += f", sigma {mixture.sigma[j]:.4f}" if scale else ""
            blocks.append((header, tuple(lines)))
        if (own := mixture.family.own) is not None:
            line = _line(len(blocks), own.name, own.value, intervals, known.get(own.name), False)
            blocks.append(("rows of no component", (line,)))
        unbounded = () if intervals is None else intervals.without_error
        facts = (
            ("components", str(mixture.n_components)),
            ("features", str(mixture.n_features)),
            ("log-likelihood", f"{record.log_likelihood:.4f}"),
            ("parameters", f"{fitted.n_parameters:.6g}"),
            *((("no estimate", list_names(fitted.aliased, NAMED)),) if fitted.aliased else ()),
            *((("no standard error", list_names(unbounded, NAMED)),) if unbounded else ()),
            *extra,
            *((("left out, with gaps", f"{record.dropped:,} rows"),) if record.dropped else ()),
            ("iterations", str(record.n_iter)),
            ("converged", "no" if not record.converged else "yes" if not unbounded else "to no strict maximum"),
            *_search_facts(record.search),
        )
        formula = fitted.inputs.formula
        title = _title(mixture) + (f": {_shorten(formula.text)}" if formula is not None else "")
        return cls(title, facts, tuple(blocks), 0.95 if intervals is None else intervals.level, not unbounded)

    @property
    def columns(self) -> list[str]:
        """The headers."""
        has_errors = any(line.error is not None for _, lines in self.components for line in lines)
        return ["", "coef", "std err", "z", "P>|z|", *edges(self.level)] if has_errors else ["", "coef"]

    def __str__(self) -> str:
        columns = self.columns
        cells = [[line.cells() for line in lines] for _, lines in self.components]
        full = [row + [""] * (len(columns) - len(row)) for rows in cells for row in rows]
        wide = widths([columns, *full], least=9)
        across = max(sum(wide) + 2 * (len(wide) - 1), 56)
        half = across // 2 - 1
        out = [printable(self.title).center(across).rstrip(), "=" * across]
        facts = [_justify(name, printable(value), half) for name, value in self.facts]
        pairs = [fact for fact in facts if len(fact) <= half]
        out += [f"{left}  {right}".rstrip() for left, right in zip_longest(pairs[::2], pairs[1::2], fillvalue="")]
        out += [fact for fact in facts if len(fact) > half]
        for (header, _), rows in zip(self.components, cells):
            out += ["-" * across, header, aligned_line(columns, wide)]
            out += [aligned_line(row, wide) for row in rows]
        return "\n".join([*out, "=" * across])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        columns = self.columns
        facts = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in self.facts)
        body = ""
        for header, lines in self.components:
            body += f'<tr><th colspan="{len(columns)}" style="text-align:left">{escape(header)}</th></tr>'
            for line in lines:
                body += "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line.cells()) + "</tr>"
        head = "".join(f"<th>{escape(column)}</th>" for column in columns)
        return f"<h4>{escape(self.title)}</h4><table>{facts}</table><table><tr>{head}</tr>{body}</table>"


def _title(mixture: Mixture) -> str:
    """What is mixed: the laws of y, and the scale on which coefficients count, where these are not plain lines."""
    law = mixture.family
    if law.linear:
        return "Mixture of linear regressions"
    laws = [law.of_component(j) for j in range(mixture.n_components)]
    lines = " and ".join(dict.fromkeys(one.label for one in laws if one.has_predictor))
    others = "".join(f", and a {one.label}" for one in laws if not one.has_predictor)
    return f"Mixture of {lines} regressions, {law.predictor_scale} link{others}"


def _line(
    j: int, name: str, value: float, intervals: ConfidenceIntervals | None, place: int | None, flip: bool
) -> Line:
    if intervals is None:
        return Line(j, name, value)
    if place is None:
        return Line(j, name, value, np.nan)
    lower, upper = float(intervals.lower[place]), float(intervals.upper[place])
    return Line(j, name, value, float(intervals.errors[place]), *((-upper, -lower) if flip else (lower, upper)))


def _search_facts(search: Any) -> tuple[tuple[str, str], ...]:
    """How many searches agreed, and how the next maximum compares."""
    if search is None:
        return ()
    return (("searches that agree", f"{search.reached} of {search.searches}"), ("next maximum", search.next_maximum))


def _shorten(formula: str) -> str:
    """A formula that fits above a table; a long one to the last term that has room."""
    if len(formula) <= LONGEST_FORMULA:
        return formula
    head = formula[:LONGEST_FORMULA].rpartition(" + ")[0] or formula[:LONGEST_FORMULA]
    return f"{head} + ..."


def _justify(name: str, value: str, width: int) -> str:
    return f"{name}:{value.rjust(max(width - len(name) - 1, len(value) + 1))}"


def feature_names(fit: Any) -> list[str]:
    """Names of the columns the coefficients of a fitted estimator belong to."""
    names: list[str] = fit.fitted_.inputs.column_names
    return names
