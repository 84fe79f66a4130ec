"""The parts of a page as HTML: places for pictures, a word on each, and the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from wmlr.federated.ledger import COUNTS, HEADER, Ledger, human_bytes
from wmlr.federated.trust.influence import HEADER as INFLUENCE
from wmlr.inference.classification import Classification, component_distances
from wmlr.inference.effects import Effects
from wmlr.inference.intervals import edges, number
from wmlr.inference.profile import Profile
from wmlr.io.printable import shown_text
from wmlr.methods.search.certificate import Search
from wmlr.report import parts
from wmlr.report.document import Section, beside, figure, pair, table
from wmlr.report.parts import AGENTS
from wmlr.report.row_sample import RowSample
from wmlr.report.words import ComponentWords

SHOWN_MAXIMA = 8
SURE = 0.9
FLAT = "came to rest where the likelihood is flat in some direction, so that some estimates have no error"
MEMBERS = 120

if TYPE_CHECKING:
    from wmlr.estimator.summary import Summary
    from wmlr.selection import Selection

Data = Mapping[str, Any]

MOST_INFLUENTIAL = 100


def words(
    fitted: Any,
    summary: Summary,
    kinds: Sequence[ComponentWords],
    sample: RowSample | None,
    notes: Sequence[str],
    target: str,
) -> Section:
    """The fit in sentences, and every note on it."""
    return Section("words", "In words", "".join(_sentences(fitted, summary, kinds, sample, target)) + _notes(notes))


def _sentences(
    fitted: Any, summary: Summary, kinds: Sequence[ComponentWords], sample: RowSample | None, target: str
) -> Iterator[str]:
    rows = dict(summary.facts).get("rows")
    among = "The rows" if rows is None else f"{int(rows):,} rows"
    if len(kinds) == 1:
        yield _paragraph(f"{among} follow one line.", "lead")
    else:
        each = f"in each, {shown_text(target, 60)} follows a line of its own"
        yield _paragraph(f"{among} are of {len(kinds)} kinds, the components: {each}.", "lead")
    for j, kind in enumerate(kinds):
        head = f"Component {j + 1}: {kind.share:.0%} of the rows" if len(kinds) > 1 else "All rows"
        traits = ""
        if kind.traits:
            listed = escape(shown_text(", ".join(kind.traits), 400))
            traits = f"<p>Its rows on average (all rows in brackets): {listed}.</p>"
        effects = "".join(f"<li>{escape(shown_text(effect, 200))}</li>" for effect in kind.effects)
        told = f"<ul>{effects}</ul>" if effects else "<p>No column moves it clearly.</p>"
        yield f'<div class="kind kind-{j % 8}"><h3>{escape(head)}</h3>{told}{traits}</div>'
    if sample is not None and len(kinds) > 1:
        unit = "groups" if len(sample.units) != len(sample) else "rows"
        sure = float((sample.units.max(axis=1) >= SURE).mean())
        yield _paragraph(
            f"For {sure:.0%} of the {unit} it is at least {SURE:.0%} sure which component they are of. "
            + _trust(fitted, summary)
        )
    else:
        yield _paragraph(_trust(fitted, summary))


def _trust(fitted: Any, summary: Summary) -> str:
    """How far the fit itself is to be trusted, in a sentence or two."""
    ended = "" if fitted.converged_ else "The fit stopped before it converged. "
    ended = ended or ("" if summary.strict else f"The fit {FLAT}. ")
    if fitted.search_ is None:
        return ended
    doubt = "" if fitted.search_.sure else " Another may exist."
    return f"{ended}The fit was {fitted.search_.sentence()}.{doubt}"


def _notes(notes: Sequence[str]) -> str:
    """Every remark of the command, as a list."""
    if not notes:
        return ""
    lines = "".join(f"<li>{escape(shown_text(text, 2000))}</li>" for text in notes)
    return f'<div class="notes"><h3>To know</h3><ul>{lines}</ul></div>'


def coefficients(summary: Summary, deviations: Mapping[str, float], data: Data) -> Section:
    """Every estimate with its interval."""
    blocks, left_out = parts.component_lines(summary, deviations)
    drawn = data["coefficients"]
    note = f"{summary.level:.0%} intervals, from the {dict(summary.facts).get('errors', 'fit')}."
    if len(summary.columns) == 2:
        note = "Estimates alone: for intervals the rows are needed, or one more round among agents."
    if drawn["left_out"]:
        note += f" Drawn are the {len(drawn['names'])} features that move y most, of {_all(drawn):,}."
    tables = [
        table(
            ["parameter", *summary.columns[1:]],
            [[shown_text(cell) for cell in _full(line.cells(), len(summary.columns))] for line in lines],
            header,
        )
        for header, lines in blocks
    ]
    rest = _paragraph(f"{left_out:,} features that move y less are left out of the tables.") if left_out else ""
    return Section("coefficients", "Coefficients", figure("coefficients", "Estimates", note) + beside(*tables) + rest)


def _all(drawn: Data) -> int:
    return int(len(drawn["names"]) + drawn["left_out"])


def effects(found: Effects) -> Section:
    """The average effect of each column, by component and on the mean of all."""
    head = ["column", *(f"component {j + 1}" for j in range(len(found.values) - 1)), "all rows", *edges(found.level)]
    rows = [
        [
            shown_text(name, 60),
            *(_with_error(value, error) for value, error in zip(found.values[:, place], found.errors[:, place])),
            number(found.lower[-1, place]),
            number(found.upper[-1, place]),
        ]
        for place, name in enumerate(found.names[:MEMBERS])
    ]
    note = _paragraph(
        f"By how much the mean of {shown_text(found.target, 60)} changes with each column, the others as they are: for "
        "one more of a number, or from one level to another. Standard errors are in brackets; the interval is that of "
        "all rows."
    )
    more = len(found.names) - MEMBERS
    rest = _paragraph(f"{more:,} more columns are not shown.") if more > 0 else ""
    return Section("effects", "Average effects", note + table(head, rows, "Average effects by component") + rest)


def _with_error(value: float, error: float) -> str:
    return number(value) if np.isnan(error) else f"{number(value)} ({number(error)})"


def lines(data: Data) -> Section:
    """The rows, and the lines along a feature that the reader chooses."""
    if not data["lines"]["axes"]:
        return Section("lines", "Fitted lines", _paragraph("There is no numeric feature to draw along."))
    note = (
        "A row has its components' colours, mixed by its responsibilities: doubtful rows look doubtful. Along a line "
        f"the other features are held at their mean.{_rows_drawn(data)}"
    )
    if data["lines"]["left_out"]:
        note += f" {data['lines']['left_out']:,} features are not offered: they are no numbers, or move y least."
    return Section("lines", "Fitted lines", figure("lines", "Rows and fitted lines", note))


def members_of(profile: Profile) -> Section:
    """Who is in each component: means and shares of every column, those that differ most first."""
    head = ["", *(f"component {j + 1}" for j in range(len(profile.sizes))), "all rows", "difference"]
    rows = [
        [shown_text(label, 60), *map(column.cell, [*column.by_component[:, place], column.overall[place]]), ""]
        for column in profile.columns
        for place, label in enumerate(column.labels)
    ]
    firsts = np.cumsum([0, *(len(column.labels) for column in profile.columns[:-1])])
    for place, column in zip(firsts, profile.columns):
        rows[int(place)][-1] = f"{column.difference:.2f}"
    note = _paragraph(
        "Means, and shares of levels, each row counted by its responsibility. The difference is 0 where the components "
        "are alike in a column, and 1 where the column alone tells them apart."
    )
    rest = _paragraph(f"{len(rows) - MEMBERS:,} more lines are not shown.") if len(rows) > MEMBERS else ""
    return Section("who", "Who is in each", note + table(head, rows[:MEMBERS], "Columns by component") + rest)


def responsibilities(data: Data) -> Section:
    """How sure the model is of whose rows these are."""
    found = data["certainty"]
    unit, count = found["unit"], found["units"]
    of = f"{count:,} groups" if unit == "group" else _rows(count, data["points"]["total"])
    rows = [
        [f"component {j + 1}", f"{assigned:,}", f"{assigned / max(count, 1):.1%}", f"{sure:,}"]
        for j, (assigned, sure) in enumerate(zip(found["assigned"], found["sure"]))
    ]
    head = ["likeliest", f"{unit}s", "share", "surely (0.9 or more)"]
    spread = figure("histogram", "How they are spread", f"The probability of each component given the {unit}.")
    ordered = figure("sorted", f"How sure the model is of a {unit}", "The largest responsibility, in falling order.")
    return Section(
        "responsibilities",
        "Responsibilities",
        pair(spread, ordered) + table(head, rows, f"Likeliest component of {of}"),
    )


def separation(fitted: Any, sample: RowSample, unit: str) -> Section:
    """How well the components are told apart: by their rows, and as laws."""
    rows_alone = len(sample.units) == len(sample)
    assigned = Classification.of(sample.units, sample.weight if rows_alone else None)
    apart = component_distances(fitted.mixture_, fitted.map_features(sample.X), sample.beside)
    every = [f"component {j + 1}" for j in range(len(apart))]
    probable = [
        [name, f"{size:,.6g}", *("" if np.isnan(value) else f"{value:.3f}" for value in line)]
        for name, size, line in zip(every, assigned.sizes, assigned.probabilities)
    ]
    distances = [
        [name, *("" if i == j else number(value) for j, value in enumerate(line))]
        for i, (name, line) in enumerate(zip(every, apart))
    ]
    note = _paragraph(
        f"The relative entropy is {assigned.relative_entropy:.3f}: 1 where every {unit}'s component is certain, 0 "
        f"where nothing is known of it. Of {unit}s assigned to their likeliest component, {assigned.error:.1%} are "
        "expected to be of another."
    )
    roots = "Bars as high as the square roots of the counts: few between 0 and 1 where a component is well apart."
    return Section(
        "apart",
        "How well the components are told apart",
        note
        + figure("rootogram", "Rootogram of posterior probabilities", roots)
        + beside(
            table(["assigned to", f"{unit}s", *every], probable, "Mean probability of each component, by assignment"),
            table(["from", *every], distances, "Kullback-Leibler distances, mean over rows"),
        ),
    )


def residuals(data: Data) -> Section:
    """What the model leaves, component by component."""
    sample, total = data["points"]["looked"], data["points"]["total"]
    quantiles = f" The quantiles are those of {sample:,} of them." if sample < total else ""
    content = _paragraph(
        "First the rows that seem to belong to a component; then the quantiles of all rows, each counted by its "
        "responsibility, against those of the model's noise. Where the model is right, the band holds 95% of a "
        f"sample's quantiles, one at a time.{_rows_drawn(data)}{quantiles}"
    )
    for j, found in enumerate(data["residuals"]):
        content += pair(
            figure(f"residuals-{j}", f"Component {j + 1}: residual against fitted value"),
            figure(f"quantiles-{j}", f"Component {j + 1}: quantiles", f"Of {found['count']:,.1f} rows' worth."),
        )
    return Section("residuals", "Residuals", content)


def convergence(data: Data, fitted: Any, summary: Summary) -> Section:
    """How the fit came to its end."""
    ended = "stopped before it converged" if not fitted.converged_ else "converged" if summary.strict else FLAT
    note = f"The fit {ended}, after {fitted.n_iter_:,} iterations.{_omission_note(data['history'], 'iterations')}"
    content = figure("convergence", "Iteration by iteration", note) + _maxima(fitted.search_)
    return Section("convergence", "Convergence", content)


def _maxima(search: Search | None) -> str:
    """How sure the maximum is: who else found it, and which others there are."""
    if search is None:
        return ""
    rows = [
        [str(place + 1), f"{one.log_likelihood:.4f}", f"{one.found:,}", f"{one.distance:.2f}"]
        for place, one in enumerate(search.maxima[:SHOWN_MAXIMA])
    ]
    sentence = f"The maximum was {search.sentence()}."
    doubt = (
        ""
        if search.sure
        else " Another may exist: search harder, by n_init (--n-init) or search='thorough' (--search)."
    )
    columns = ["maximum", "log-likelihood", "times found", "distance, in sigmas"]
    return _paragraph(sentence + doubt) + table(columns, rows, "The distinct maxima that were seen, likeliest first")


def choice(selection: Selection) -> Section:
    """The criteria for each number of components."""
    columns, rows = selection.cells()
    name = selection.criterion.upper()
    return Section(
        "choice",
        "Number of components",
        figure("choice", "Criteria", f"{selection.best} components have the least {name}; less is better.")
        + table(columns, rows, f"Criteria by number of components, chosen by {name}"),
    )


def rounds(data: Data, ledger: Ledger) -> Section:
    """What every round asked and sent."""
    totals = ledger.totals()
    late = sum(entry.late for entry in ledger)
    sent = f"{human_bytes(totals['bytes'])} in {len(ledger):,} rounds: all agents, both ways."
    sums = totals | {"late": late}
    last = ["all", human_bytes(totals["bytes"]), *(f"{int(sums[name]):,}" for name in COUNTS)]
    charts = [
        figure("bytes", "Bytes by round", sent + _omission_note(data["rounds"], "rounds")),
        figure("attendance", "Agents asked and answering", f"{late:,} answers came late." if late else ""),
    ]
    if data["rounds"]["seconds"] is not None:
        charts.append(figure("seconds", "Seconds by round"))
    head = ["rounds", *HEADER[1:]]
    lines = table(head, _merge(ledger), "The ledger; successive rounds of one kind are one line", last, words=True)
    remarks = "".join(_paragraph(text) for text in ledger._remarks())
    return Section("rounds", "Rounds among agents", pair(*charts) + lines + remarks)


def influence(ledger: Ledger) -> Section:
    """How far the fit moves without each agent."""
    lines = [[shown_text(cell) for cell in line] for line in ledger.influence.lines(MOST_INFLUENTIAL)]
    caption = "What leaving out one agent would do, to first order; who moves the fit furthest first"
    left = "".join(
        _paragraph(f"Agent {shown_text(str(agent))} was left out: {why}.") for agent, why in ledger.left_out.items()
    )
    return Section("influence", "Influence of agents", table(INFLUENCE, lines, caption) + left)


def _merge(ledger: Ledger) -> Iterator[list[str]]:
    for query, group in groupby(ledger.records(), key=lambda record: record["query"]):
        records = list(group)
        first, last = records[0]["round"], records[-1]["round"]
        sums = (sum(record[name] for record in records) for name in COUNTS)
        yield [
            f"{first}" if first == last else f"{first} to {last}",
            shown_text(query),
            *(f"{value:,}" for value in sums),
        ]


def agents(data: Data) -> Section:
    """Whose rows the agents have."""
    found = data["agents"]
    head = ["agent", "component", "probability", "rows"]
    rest = _paragraph(f"{found['left_out']:,} more agents are not listed.") if found["left_out"] else ""
    charts = pair(
        figure("agents", "Agents by component", "Each agent in its likeliest component."),
        figure("agents-sure", "How sure that is", "The probability of an agent's likeliest component."),
    )
    listed = table(head, found["lines"], "Agents and their likeliest component")
    return Section("agents", "Agents", f"{charts}<details><summary>Agent by agent</summary>{listed}{rest}</details>")


def members(rows: Mapping[str, int]) -> Section:
    """The agents on other machines, each with the rows it answers for where it told how many."""
    told = sum(rows.values())
    lines = [
        [shown_text(name, 60), f"{count:,}" if count else "not told"] for name, count in list(rows.items())[:AGENTS]
    ]
    last = ["all", f"{told:,}" if told else "not told"]
    rest = _paragraph(f"{len(rows) - AGENTS:,} more agents are not listed.") if len(rows) > AGENTS else ""
    caption = f"{len(rows):,} agent{'' if len(rows) == 1 else 's'}, whose rows stayed with them"
    return Section("agents", "Agents", table(["agent", "rows"], lines, caption, last) + rest)


def _rows_drawn(data: Data) -> str:
    """A word on the rows that are drawn, where it is not all of them."""
    count, total = len(data["points"]["rows"]), data["points"]["total"]
    return "" if count == total else f" Drawn are {count:,} of {total:,} rows, chosen by a fixed rule."


def _rows(count: int, total: int) -> str:
    return f"{count:,} rows" if count == total else f"{count:,} of {total:,} rows"


def _omission_note(found: Data, what: str) -> str:
    return f" {found['left_out']:,} {what} between those drawn are left out." if found["left_out"] else ""


def _paragraph(text: str, kind: str = "") -> str:
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def _full(cells: list[str], count: int) -> list[str]:
    return cells + [""] * (count - len(cells))
