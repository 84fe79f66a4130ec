"""A fit on one page that needs nothing else: what it found, how sure it is, and what speaks against it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from wmlr.core.capabilities import capabilities_of
from wmlr.inference.effects import Effects
from wmlr.io.files import write_text
from wmlr.io.printable import shown_text
from wmlr.io.users_line import without_warnings
from wmlr.report import parts, sections, words
from wmlr.report.document import Section, asset, document, facts
from wmlr.report.row_sample import RowSample
from wmlr.version import __version__

if TYPE_CHECKING:
    from wmlr.estimator.summary import Summary
    from wmlr.selection import Selection

__all__ = ["RowSample", "page", "write"]

MOST_NUMBERS = 2_000_000  # rows times columns, of which average effects are found for a page
NO_ROLES: Mapping[str, Any] = MappingProxyType({})


def write(path: str | Path, fitted: Any, X: Any = None, y: Any = None, **more: Any) -> None:
    """Write the page of a fit, whole or not at all; the arguments are those of :func:`page`."""
    write_text(Path(path), page(fitted, X, y, **more))


def page(
    fitted: Any,
    X: Any = None,
    y: Any = None,
    *,
    sample_weight: Any = None,
    groups: Any = None,
    sample: RowSample | None = None,
    summary: Summary | None = None,
    selection: Selection | None = None,
    federation: Any = None,
    target: str | None = None,
    source: str | None = None,
    labels: Any = None,
    notes: Sequence[str] = (),
    roles: Mapping[str, Any] = NO_ROLES,
) -> str:
    """The page of a fit, as HTML.

    Parameters
    ----------
    fitted : a fitted :class:`wmlr.MixedLinearRegression`.
    X, y, sample_weight, groups : the rows, as they were fitted; without them the page has no pictures of rows.
    sample : in place of them, rows that were drawn already.
    summary : the table of the fit; by default it is made from the rows.
    selection : what :func:`wmlr.select_components` returned, for the choice of k.
    federation : the engine of a fit among agents, for its rounds and its agents; where it has their rows, also
        for their components.
    target : what y is called.
    source : where the rows come from, to be named on the page.
    labels : what each row is called.
    notes : remarks on the fit and its rows, to be listed.
    roles : what else is known of each row, ``offset``, ``exposure`` and ``trials`` as in the fit.

    Examples
    --------
    >>> from wmlr import MixedLinearRegression, report
    >>> from wmlr.datasets import load_tone
    >>> tone = load_tone()
    >>> fit = MixedLinearRegression(2, shared_sigma=False, random_state=0).fit(tone.data, tone.target)
    >>> text = report.page(fit, tone.data, tone.target, target="tuned")
    >>> text.startswith("<!doctype html>"), len(text) < 3_000_000
    (True, True)
    """
    if summary is None:
        summary = fitted.summary() if X is None else fitted.summary(X, y, sample_weight, groups, **roles)
    if sample is None and X is not None:
        sample = RowSample.of(fitted, X, y, sample_weight, groups, labels, **roles)
    explained = target or _explain(fitted)
    moved = words.predictor_name(fitted.mixture_.family, explained)
    deviations = {} if sample is None else parts.deviations(fitted, sample)
    labels_of_columns = words.column_labels(fitted)
    shown = words.with_labels(summary, labels_of_columns)
    spreads = {labels_of_columns.get(name, name): spread for name, spread in deviations.items()}
    data: dict[str, Any] = {
        "k": int(fitted.mixture_.n_components),
        "weights": fitted.mixture_.weights.tolist(),
        "coefficients": parts.coefficients(shown, spreads),
    }
    profile = None if sample is None else words.rows_profile(fitted, sample, explained)
    found = [
        sections.words(fitted, summary, words.kinds(fitted, summary, deviations, moved, profile), sample, notes, moved),
        sections.coefficients(shown, spreads, data),
    ]
    if X is not None and (effects := _effects(fitted, X, y, sample_weight, groups, roles)) is not None:
        found.append(sections.effects(effects))
    if sample is not None:
        data["points"] = parts.points(sample, explained)
        data["lines"] = parts.lines(fitted, sample)
        data["certainty"] = parts.certainty(sample)
        data["residuals"] = parts.residuals(fitted, sample)
        found += [sections.lines(data), *([] if profile is None else [sections.members_of(profile)])]
        if data["k"] > 1:
            data["rootogram"] = parts.rootogram(sample)
            unit = data["certainty"]["unit"]
            found += [sections.responsibilities(data), sections.separation(fitted, sample, unit)]
        found.append(sections.residuals(data))
    if fitted.history_:
        data["history"] = parts.convergence(fitted.history_)
        found.append(sections.convergence(data, fitted, summary))
    if selection is not None:
        data["choice"] = parts.choice(selection)
        found.append(sections.choice(selection))
    agents = capabilities_of(federation)
    ledger = getattr(fitted, "ledger_", None) if agents.seconds is None else agents.ledger
    if ledger:
        data["rounds"] = parts.rounds(ledger, agents.seconds or ())
        found.append(sections.rounds(data, ledger))
    if agents.ledger is not None and agents.ledger.influence is not None:
        found.append(sections.influence(agents.ledger))
    if agents.shares is not None:
        data["agents"] = parts.agents(agents.shares(fitted), federation.sizes, federation.agent_ids)
        found.append(sections.agents(data))
    elif agents.members is not None:
        found.append(sections.members(agents.members))
    kinds = "" if data["k"] == 1 else f": {data['k']} kinds of rows"
    title = f"What moves {shown_text(explained, 60)}{kinds}"
    scripts = [asset(name) for name in ("charts.js", "views.js", "report.js")]
    return document(title, _body(title, summary, source, found), data, scripts)


def _effects(fitted: Any, X: Any, y: Any, sample_weight: Any, groups: Any, roles: Mapping[str, Any]) -> Effects | None:
    """Average effects of several components, where weights are all rows' and the rows are not too many."""
    found = fitted.fitted_
    size = len(X) * fitted.n_features_in_ if hasattr(X, "__len__") else MOST_NUMBERS + 1
    if found.mixture.n_components == 1 or found.constraints.gate.differs or size > MOST_NUMBERS:
        return None
    with without_warnings():  # the summary has said it
        effects: Effects = found.effects(X, y, sample_weight, groups, **roles)
    return effects


def _explain(fitted: Any) -> str:
    formula = fitted.fitted_.inputs.formula
    return "y" if formula is None else str(formula.text.split("~")[0].strip())


def _body(title: str, summary: Summary, source: str | None, found: Sequence[Section]) -> str:
    links = "".join(f'<a href="#{one.name}">{escape(one.title)}</a>' for one in found)
    origin = f"Rows from <code>{escape(shown_text(source))}</code>. " if source else ""
    return f"""<header><h1>{escape(title)}</h1>
<button type="button" id="theme">Theme: automatic</button>
<p>{escape(shown_text(summary.title).removesuffix(" ..."))}. {origin}Made by wmlr {escape(__version__)}.
Point at a picture for its values; drag over it to zoom, double-click to see all of it again.</p>
<nav aria-label="Parts of this page">{links}</nav></header>
<main>{found[0].html}{facts(summary.facts)}{"".join(one.html for one in found[1:])}</main>"""
