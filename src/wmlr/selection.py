"""Choosing the number of components."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Unpack

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from wmlr.core.round import EmptyComponentError
from wmlr.estimator.regression import MixedLinearRegression
from wmlr.estimator.repeated_warnings import WarningsOfFits
from wmlr.estimator.row_roles import RowRoles
from wmlr.families import Family, of_components
from wmlr.formulas.split import split_bar
from wmlr.io.frames import as_frame
from wmlr.io.text_table import ShownAsTable
from wmlr.io.users_line import warn_user, without_warnings
from wmlr.numerics.arrays import Array, Integers

WORTH = 0.01  # nats by which another start must be better
ROWS_PER_PARAMETER = 3  # with fewer, criteria prefer many components to one where there is but one
REACH = 30.0  # nats: on real data nine of ten quick searches end no further below the longer one
MOST_COMPONENTS = 5
CRITERIA = ("bic", "aic", "icl", "cv")
FitRows = Callable[[MixedLinearRegression], MixedLinearRegression]  # fits a model to the rows, wherever they are


@dataclass(frozen=True, eq=False, repr=False)
class Selection(ShownAsTable):
    """The criterion for each number of components; the smallest wins.

    Attributes
    ----------
    n_components : the numbers tried; values : the criterion for each (minus the held-out mean
        log-likelihood for "cv").
    best : the winning number; estimator : its fit on all rows.
    lines : for each number tried, its log-likelihood, number of parameters and all criteria found.
    agreed : for each, how many searches reached its maximum, as "2 of 2".
    remarks : for each, what speaks against it: too few rows for its parameters, a component that shrank onto a few rows
        or values, or one that was left out. Such a fit is never the best where there is another.
    """

    criterion: str
    n_components: tuple[int, ...]
    values: Array
    best: int
    estimator: MixedLinearRegression
    lines: tuple[dict[str, float], ...] = ()
    agreed: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def table(self) -> list[dict[str, Any]]:
        """A line per number of components, as plain data; ``best`` marks the winner."""
        found: list[dict[str, Any]] = [{"n_components": k, **line} for k, line in zip(self.n_components, self.lines)]
        for name, values in (("agreed", self.agreed), ("remark", self.remarks)):
            found = [line | {name: value} for line, value in zip(found, values)] if values else found
        return [line | {"best": line["n_components"] == self.best} for line in found]

    def set_aside(self) -> dict[int, str]:
        """What speaks against the numbers that the criterion alone would have preferred to the best."""
        least = self.values[self.n_components.index(self.best)]
        against = zip(self.n_components, self.values, self.remarks)
        return {k: remark for k, value, remark in against if remark and value < least}

    def cells(self) -> tuple[list[str], list[list[str]]]:
        """The table as text: its headers, and its rows."""
        names = list(self.lines[0]) if self.lines else []
        rows = [
            [
                str(line["n_components"]),
                *(_format(name, line[name]) for name in names),
                *([line["agreed"]] if self.agreed else []),
                "best" if line["best"] else line.get("remark", ""),
            ]
            for line in self.table()
        ]
        searches = ["searches that agree"] if self.agreed else []
        return ["components", *(name.replace("_", " ") for name in names), *searches, ""], rows

    def _cells(self) -> tuple[list[str], list[list[str]], str]:
        return (*self.cells(), f"components by {self.criterion}")


def select_components(
    X: Any,
    y: Any = None,
    n_components: int | Iterable[int] = MOST_COMPONENTS,
    criterion: str = "bic",
    *,
    estimator: MixedLinearRegression | None = None,
    groups: Any = None,
    folds: int = 5,
    formula: str | None = None,
    sample_weight: Any = None,
    **roles: Unpack[RowRoles],
) -> Selection:
    """Fit each number of components and keep the best by a criterion.

    Parameters
    ----------
    X, y : the rows; with a formula, X is a data frame and y is left out.
    n_components : the numbers to try; a single one tries 1 up to that, as far as there are three rows for a parameter.
    criterion : "bic", "aic", "icl" or "cv" (cross-validated log-likelihood).
    estimator : the estimator to take all other settings from; where it has no ``random_state``, 0. Of a list of
        families k components have the first k, and the last one that is no point mass again where there are more.
    groups : labels; rows of one group share their component. A formula names its own after a bar.
    folds : for "cv"; whole groups are held out.
    formula : what to fit to the data frame, as in :meth:`MixedLinearRegression.from_formula`.
    sample_weight : a weight of 2 counts as the row twice, in the fits and in the criterion.
    **roles : what else is known of each row, ``offset=``, ``exposure=`` and ``trials=`` as in ``fit``.
    """
    if criterion not in CRITERIA:
        raise ValueError(f"criterion must be one of {', '.join(map(repr, CRITERIA))} (got {criterion!r})")
    tried = _numbers(n_components)
    base = clone(MixedLinearRegression() if estimator is None else estimator)
    if base.random_state is None:
        base.set_params(random_state=0)
    if formula is not None:
        base.set_params(formula=formula)
    if base.formula is not None:
        X = as_frame(X)
        group = split_bar(base.formula)[1]
        groups = X[group].to_numpy() if groups is None and group in X.columns else groups
    elif y is None:
        raise ValueError("y is missing: give the targets, or a formula that names them")
    data = SelectionData(X, y, sample_weight, groups, dict(roles))
    heard = WarningsOfFits(data.fit)
    counted = data.count if isinstance(n_components, int | np.integer) else None
    fits = fit_each(base, tried, heard, counted, None if criterion == "cv" else partial(data.price, criterion))
    tried = tried[: len(fits)]
    lines = [_line(fit, data) for fit in fits]
    if criterion == "cv":
        with without_warnings():  # of parts of the rows: too many components seldom converge
            for line, value in zip(lines, _held_out_scores(base, tried, data, folds)):
                line["cv"] = -value
    found = choice(criterion, tried, fits, lines, data.count())
    heard.repeat(found.estimator)
    return found


def choice(
    criterion: str,
    tried: tuple[int, ...],
    fits: Sequence[MixedLinearRegression],
    lines: Sequence[dict[str, float]],
    rows: float = np.inf,
) -> Selection:
    """The least criterion wins among fits of so many rows that nothing speaks against."""
    values = np.array([line[criterion] for line in lines])
    remarks = tuple(remark(fit, k, rows) or fall_remark(fit, fits) for fit, k in zip(fits, tried))
    sound = np.array([not text for text in remarks])
    best = int(np.argmin(np.where(sound, values, np.inf) if sound.any() else values))
    agreed = tuple(_agreement(fit) for fit in fits)
    return Selection(criterion, tried, values, tried[best], fits[best], tuple(lines), agreed, remarks)


@dataclass(frozen=True, eq=False)
class SelectionData:
    """The rows that every number of components is fitted to."""

    X: Any
    y: Any
    sample_weight: Any
    groups: Any
    roles: dict[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> tuple[Any, Any, Any, Any]:
        """X, y, weights and groups, as the estimator's methods take them."""
        return self.X, self.y, self.sample_weight, self.groups

    def count(self) -> float:
        """How many rows there are, by their weight."""
        return float(_num_samples(self.X) if self.sample_weight is None else np.sum(self.sample_weight))

    def price(self, criterion: str) -> float:
        """What a parameter costs by a criterion, in nats."""
        return 1.0 if criterion == "aic" else bic_price(self.count() if self.groups is None else len(set(self.groups)))

    def take(self, rows: Integers) -> SelectionData:
        """Some of the rows."""
        X, y, weight, groups = (None if part is None else _safe_indexing(part, rows) for part in self.rows)
        roles = {role: given if np.ndim(given) == 0 else np.asarray(given)[rows] for role, given in self.roles.items()}
        return SelectionData(X, y, weight, groups, roles)

    def fit(self, model: MixedLinearRegression) -> MixedLinearRegression:
        """Fit a model to them."""
        return model.fit(*self.rows, **self.roles)


def fit_each(
    base: MixedLinearRegression,
    tried: Sequence[int],
    fit: FitRows,
    rows: Callable[[], float] | None = None,
    price: Callable[[], float] | None = None,
) -> list[MixedLinearRegression]:
    """The fits of each number of components, in the order given; none is less likely than one with fewer.

    Each search is also started from the fit with one component fewer, which gets another; and where a fit is still
    less likely than the next one with a component dropped, it climbs from there. With ``rows``, which counts them, the
    numbers end where there are not three rows for each parameter: those fits take longest, and none may be the best.
    With the ``price`` of a parameter in nats, ``search="auto"`` looks quickly at every number first, and longer at
    those alone that may still be the best.
    """
    looks = price is not None and base.search == "auto" and len(set(tried)) > 1
    first = clone(base).set_params(search="quick") if looks else base
    fits: dict[int, MixedLinearRegression] = {}
    for k in sorted(set(tried)):
        model = _with_components(first, k)
        if rows is not None and fits and not base.alpha and _warn_of_too_many(model, next(iter(fits.values())), rows()):
            tried = [one for one in tried if one < k]
            break
        if k - 1 in fits:
            model.start_from_smaller(fits[k - 1])
        fits[k] = _fit_unless_empty(model, fit, fits.get(k - 1))
    if looks and price is not None:
        _search_longer(base, fits, fit, price())
    for k in sorted(fits, reverse=True):
        larger = fits.get(k + 1)
        if larger is not None and 1 < k < larger.mixture_.n_components:
            fits[k] = _likelier(fits[k], larger, fit)
    return [fits[k] for k in tried]


def bic_price(units: float) -> float:
    """What a parameter costs by BIC, in nats."""
    return float(np.log(units)) / 2


def _with_components(base: MixedLinearRegression, k: int) -> MixedLinearRegression:
    model: MixedLinearRegression = clone(base).set_params(n_components=k, family=of_components(base.family, k))
    return model


def _fit_unless_empty(
    model: MixedLinearRegression, fit: FitRows, instead: MixedLinearRegression | None
) -> MixedLinearRegression:
    """A fit, or another one where a component empties and, being of another family, cannot be left out."""
    try:
        return fit(model)
    except EmptyComponentError:
        if model.on_empty == "raise" or instead is None:
            raise
        return instead


def _search_longer(
    base: MixedLinearRegression, fits: dict[int, MixedLinearRegression], fit: FitRows, price: float
) -> None:
    """Put fits by themselves in the place of quick ones for all numbers of components that these may make the best.

    That is those within reach of the best; where a longer search gained much, the quick ones were worth little, and
    twice as much is within reach.
    """
    reach, searched = REACH, {1}
    while wanted := [k for k in _within_reach(fits, price, reach) if k not in searched]:
        k = wanted[0]
        quick = fits[k].set_params(search=base.search)
        found = _fit_unless_empty(_with_components(base, k), fit, quick)
        reach = max(reach, 2 * float(found.log_likelihood_ - quick.log_likelihood_))
        fits[k] = max(quick, found, key=_rank)
        searched.add(k)


def _within_reach(fits: Mapping[int, MixedLinearRegression], price: float, reach: float) -> list[int]:
    """The numbers of components that are no further than that from the best, in nats."""
    worth = {k: float(fit.log_likelihood_) - price * fit.n_parameters_ for k, fit in fits.items()}
    best = max(worth[k] for k in [k for k, fit in fits.items() if not fit.degenerate_] or fits)
    return [k for k in sorted(fits) if worth[k] >= best - reach]


def _rank(fit: MixedLinearRegression) -> tuple[bool, int, float]:
    """Which of two fits of as many components is kept: a sound one, one with all of them, the likelier one."""
    return not fit.degenerate_, fit.mixture_.n_components, float(fit.log_likelihood_)


def _likelier(found: MixedLinearRegression, larger: MixedLinearRegression, fit: FitRows) -> MixedLinearRegression:
    """A fit, or one that starts from a larger one with a component dropped, where that ends higher."""
    if found.symmetric or not (isinstance(found.start, str) and found.start == "auto"):
        return found
    lines = np.column_stack([larger.coef_, larger.intercept_])
    wanted, laws = _laws(found), _laws(larger)
    for dropped in range(len(lines)):
        if [*laws[:dropped], *laws[dropped + 1 :]][: len(wanted)] != wanted:
            continue
        model = clone(found).set_params(start=np.delete(lines, dropped, axis=0), n_init=1)
        other = fit(model)
        same_size = other.mixture_.n_components == found.mixture_.n_components
        if same_size and not other.degenerate_ and other.log_likelihood_ > found.log_likelihood_ + WORTH:
            passed = None if found.search_ is None else found.search_.with_higher_maximum(other.log_likelihood_)
            other.fitted_ = replace(other.fitted_, record=replace(other.fitted_.record, search=passed))
            found = other.set_params(start="auto", n_init=found.n_init)
    return found


def _laws(fit: MixedLinearRegression) -> list[Family]:
    """The family of each component."""
    return [fit.mixture_.family.of_component(j) for j in range(fit.mixture_.n_components)]


def _warn_of_too_many(model: MixedLinearRegression, fit: MixedLinearRegression, rows: float) -> bool:
    """Whether a model has too many parameters for the rows of another's fit."""
    parameters = model.parameters_beside(fit)
    if not too_many(parameters, rows):
        return False
    warn_user(
        f"{model.n_components} components and more are not tried, with {parameters:,} parameters for {rows:,.0f} rows: "
        "take fewer columns to look further",
        UserWarning,
    )
    return True


def too_many(parameters: float, rows: float) -> bool:
    """Whether there are fewer than three rows for each parameter."""
    return rows < ROWS_PER_PARAMETER * parameters


def remark(fit: MixedLinearRegression, k: int, rows: float = np.inf) -> str:
    """What speaks against a fit of so many rows; nothing where all is well."""
    if k > 1 and too_many(fit.n_parameters_, rows):
        return "not three rows for each parameter"
    if fit.mixture_.n_components < k:
        apart = fit.mixture_.n_components
        return "all components are the same" if apart == 1 else f"only {apart} components are apart"
    if not fit.degenerate_:
        return ""
    return "components are values of y" if fit.shared_sigma else "a component shrinks onto a few rows or values"


def fall_remark(fit: MixedLinearRegression, others: Sequence[MixedLinearRegression]) -> str:
    """That a fit is less likely than one of fewer components, so that it is no maximum; with a ridge it may be both."""
    k = fit.mixture_.n_components
    smaller = [one for one in others if one.mixture_.n_components < k and not (one.degenerate_ or one.alpha)]
    likelier = [one for one in smaller if one.log_likelihood_ > fit.log_likelihood_ + WORTH]
    if not likelier:
        return ""
    return f"less likely than {likelier[0].mixture_.n_components}: no maximum, raise n_init"


def _numbers(n_components: int | Iterable[int]) -> tuple[int, ...]:
    """The numbers of components to try."""
    up_to = range(1, n_components + 1) if isinstance(n_components, int | np.integer) else None
    tried = tuple(int(k) for k in (n_components if up_to is None else up_to))  # type: ignore[union-attr]
    if not tried or min(tried) < 1:
        raise ValueError(f"n_components must be whole numbers of at least 1 (got {n_components})")
    return tried


def _agreement(fit: MixedLinearRegression) -> str:
    return "" if fit.search_ is None else f"{fit.search_.reached} of {fit.search_.searches}"


def _line(fit: MixedLinearRegression, data: SelectionData) -> dict[str, float]:
    found = {"log_likelihood": float(fit.log_likelihood_), "n_parameters": float(fit.n_parameters_)}
    return found | {name: float(getattr(fit, name)(*data.rows, **data.roles)) for name in ("aic", "bic", "icl")}


def _held_out_scores(base: MixedLinearRegression, tried: Sequence[int], data: SelectionData, folds: int) -> list[float]:
    """Of each number of components, the mean log-likelihood of rows that its fit has not seen."""
    n = _num_samples(data.X)
    labels = None if data.groups is None else np.asarray(data.groups)
    if labels is not None and len(np.unique(labels)) < folds:
        raise ValueError(
            f"criterion='cv' leaves out whole groups, {folds} times in turn, and there are {len(np.unique(labels))}: "
            "use criterion='bic', or fewer folds"
        )
    weight = np.ones(n) if data.sample_weight is None else np.asarray(data.sample_weight, dtype=np.float64)
    data = replace(data, sample_weight=weight, groups=labels)
    splitter = KFold(folds, shuffle=True, random_state=0) if labels is None else GroupKFold(folds)
    total = np.zeros(len(tried))
    for train, test in splitter.split(np.empty((n, 0)), groups=labels):
        held = data.take(test)
        fits = fit_each(base, tried, data.take(train).fit)
        total += [fit.fitted_.evaluation(*held.rows, **held.roles).log_likelihood for fit in fits]
    return [float(value) for value in total / weight.sum()]


def _format(name: str, value: float) -> str:
    return f"{value:.0f}" if name == "n_parameters" else f"{value:.4f}"
