"""The scikit-learn face of the library."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, Unpack

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from wmlr.core.capabilities import capabilities_of
from wmlr.core.roles import RoleRows
from wmlr.core.round import Engine, Fit, Watcher
from wmlr.engines.arrays import ArrayRows, default_threads
from wmlr.estimator import storage
from wmlr.estimator.delegation import delegate, delegate_refits, fitted_attribute, in_present_spelling
from wmlr.estimator.fitted import FitRecord, FittedMixture
from wmlr.estimator.fitting import constraints_of, fit_mixture
from wmlr.estimator.gate_columns import GateColumns
from wmlr.estimator.inputs import Inputs, ModelRows, read_rows
from wmlr.estimator.known_rows import refuse_labels
from wmlr.estimator.prediction import GroupPosteriors
from wmlr.estimator.repeated_warnings import each_warning_once
from wmlr.estimator.role_columns import RoleColumns, in_roles
from wmlr.estimator.row_roles import RowRoles, needed_roles, refuse_both_offsets, split_response
from wmlr.estimator.settings import check_parameters, refuse_roles, resolve_family
from wmlr.estimator.streaming import Progress, StoredStream, refuse_unstreamable, streams, take_batch
from wmlr.estimator.training_frame import read_training_frame
from wmlr.estimator.whole_values import warn_of_whole_values
from wmlr.families import FamilyLike
from wmlr.features.maps import FeatureRows, MappedRows, fit_transformer_from_sums, with_copies, with_seeds
from wmlr.features.transformers import Described, as_named_frame, read_only
from wmlr.formulas.formula import ModelFormula
from wmlr.formulas.frame_formula import formula_of_frame
from wmlr.inference.uncertainty import aliased_columns, effective_parameters
from wmlr.methods.search.effort import Effort
from wmlr.methods.task import Solver
from wmlr.model import gates
from wmlr.model.constraints import Constraints
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array
from wmlr.numerics.coordinates import WIDE
from wmlr.numerics.sparse import unwrap
from wmlr.statistics.own_weights import OwnWeightRows

EXACT = 2  # rows for each coefficient above which lines without noise are no accident


class MixedLinearRegression(RegressorMixin, BaseEstimator):
    """Mixture of linear regressions: each row follows one of k unknown linear models.

    Parameters
    ----------
    n_components : the number k of regressions.
    method : "wmlr" (Wasserstein minimax), "em" or "gem"; for comparison "mix-irls" (one component at a time) or
        "altmin" (hard assignment); or a method with its own settings, such as ``wmlr.GEM(alpha=0.1)``.
    solver : for "wmlr": "auto" refreshes the references at each step and needs no setting; "gda" is the
        paper's gradient descent ascent; "reduction" fits two components around their common mean. Or a
        solver with its own settings, such as ``wmlr.GDA(lam=0.5)``.
    symmetric : the two components are ``beta`` and ``-beta``, equally likely, without intercept.
    fit_intercept : whether each component has an intercept; ignored when symmetric.
    equal_weights : hold the weights at 1/k; another spelling of ``gate="equal"``.
    shared_sigma : one noise deviation for all components.
    features : a scikit-learn transformer phi; the regressions are linear in phi(x).
    sigma : the noise deviation where it is known; None estimates it.
    start : "auto", "spectral", "random", or coefficients (k, d), with a last column for intercepts if wanted.
    search : how hard to look for the likeliest maximum where ``start="auto"``: "auto" stops when independent searches
        agree, "quick" after a few moves, "thorough" goes on for long; a number is a budget, in EM steps of one
        candidate; or a :class:`wmlr.Effort` with settings of its own. Among agents "quick" takes some 80 rounds
        (``Effort.among_agents(rounds)`` others), and where a round is a message to other machines, "auto" is "quick".
    n_init : independent searches; for other starts, fits from that many of them, of which the likeliest is kept.
    guard : with a deviation for each component, keep the search from spikes of the likelihood, which has no bound
        there: see the page on the mathematics.
    max_iter, tol : when to stop; ``tol`` is the gain in mean log-likelihood not worth another step, after which
        Newton's last steps take over (for gradient methods, the relative change of the coefficients).
    random_state : seeds the random starts; the same seed gives the same fit.
    n_jobs : threads; None uses what the linear algebra library would.
    verbose : print a line per iteration.
    warm_start : begin where the last fit ended.
    alpha : ridge penalty on the squared coefficients (not the intercepts): every component is scikit-learn's
        Ridge, its rows weighted by responsibility, and sigma the deviation of its residuals; for fewer rows than
        columns, and collinear ones.
    shared : names or numbers of columns whose coefficients are common to all components. Beside a formula, a term
        stands for all of its columns, and ``"~ a + b"`` for a list of terms.
    only : the components that have a column, where not all do: ``{"income": [1, 3]}``. Components are counted from 1,
        as they are shown; "(intercept)" is a column too. A shared column is then common to those that have it.
    fixed : coefficients that are known: ``{"income": {1: 0.5}}`` holds that of income at 0.5 in component 1.
        With ``only`` or ``fixed`` components keep their numbers: among those of which the same is asked, the heaviest
        comes first.
    family : the law of y around each regression: "normal", "student" (4 degrees of freedom), "laplace"; of
        counts "poisson" and "negative-binomial" (the regression is of the logarithm of their mean), of successes
        "binomial" (logit), of positive amounts "gamma" (logarithm), of shares "beta" (logit). Or a family with its own
        numbers or link such as ``wmlr.families.Student(dof=6)`` or ``wmlr.families.Binomial(link="probit")``.
        ``sigma_`` is its scale, 1 where it has none: of a gamma law the coefficient of variation, of a negative
        binomial one that of what multiplies the mean (size 1/sigma^2), of a beta law 1/sqrt(precision). Others are made
        known by :func:`wmlr.families.register`. A list has a family for each component, and may have a "point-mass"
        among families of counts: ``["poisson", "point-mass"]`` are zero-inflated counts.
    gate : the weights of the components: None estimates them, "equal" holds them at 1/k, a vector holds them at its
        numbers, in their order. A list of columns of X (names, or whole numbers), or ``"~ w"`` beside a formula, lets
        them depend on these by a multinomial logit; the columns stay features of the regressions. "group" gives each
        group weights of its own, held together by a common law: rows of a group then have components of their own.
    robust : bound the influence of each row: another spelling of ``family="student"``; a number is its degrees of
        freedom.
    outliers : gross errors are expected among the rows: such a row follows no component, and its y may be anywhere in
        the range of y. True estimates their share (``outlier_share_``), a number is the share where it is known.
        No component's deviation may then be larger than sqrt(2) times that of the usual y.
    on_empty : what to do when a component is left with less than one row: "reseed" tries other starts and
        then drops it, "drop" fits one component fewer, "raise" is an error.
    formula : such as ``"y ~ x + C(kind) | id"``: ``fit`` then takes a data frame, and the target, the columns, the
        intercept and the groups (after the bar) are the formula's to say; see :meth:`from_formula`.
    missing : "raise" at a gap (NaN, None) in the rows, or "drop" rows that have one: ``fit`` leaves them out and counts
        them, ``predict`` and its kin answer NaN.

    Attributes
    ----------
    coef_ : (k, d); intercept_, weights_, sigma_ : (k,). Where weights differ from row to row, these are their means.
    gate_coef_ : (k, g + 1), what each column of ``gate`` adds to the logit of a component against the last one, which
        has zeros; the constant last.
    outlier_share_ : the share of rows that are outliers; 0 without ``outliers=``.
    n_iter_, converged_ : how the fit ended. Converged means that a Newton step would gain less than 0.001 of
        log-likelihood in all parameters together, and that the Hessian is negative definite. With ``solver="gda"``,
        whose end is not the likelihood's maximum, the way still to go is worth less than that; with more than 2,000
        columns the Hessian is not looked at; where agents come and go, that the averaging came to its end.
    history_ : a dict per iteration: objective, log_likelihood, gradient_norm, step.
    log_likelihood_ : of the training data, in total.
    search_ : how the maximum was found (:class:`wmlr.Search`): ``reached`` of ``searches`` came to it, the ``maxima``
        that were seen, by how much the ``runner_up`` is lower. None where nothing was searched.
    degenerate_ : whether a component's deviation ended at its floor, or only the guard kept it from there, or whether
        components are single values of y.
    mixture_ : the fitted :class:`wmlr.Mixture`.
    fitted_ : the whole fitted object, which does not change (:class:`wmlr.estimator.fitted.FittedMixture`): what the
        fit found, how it reads new rows, which parameters were free. The methods below ask it.
    dropped_, gaps_ : the rows that ``missing="drop"`` left out, and how many gaps each column has.
    group_labels_, group_responsibilities_ : (G,), (G, k): each training group's posterior, after a fit with groups.
    formula_ : the formula as it was read with the data, where the fit had one.
    stream_ : where the stream stands, after :meth:`partial_fit`.

    Examples
    --------
    >>> from wmlr import MixedLinearRegression
    >>> from wmlr.datasets import load_tone
    >>> tone = load_tone()
    >>> fit = MixedLinearRegression(2, shared_sigma=False, random_state=0).fit(tone.data, tone.target)
    >>> fit.coef_.round(2).tolist()
    [[0.04], [0.99]]
    """

    fitted_: FittedMixture
    mixture_: Mixture = fitted_attribute("mixture")
    coef_: Array = fitted_attribute("mixture.coef")
    intercept_: Array = fitted_attribute("mixture.intercept")
    weights_: Array = fitted_attribute("mixture.weights")
    gate_coef_: Array = fitted_attribute("mixture.gate")
    sigma_: Array = fitted_attribute("mixture.sigma")
    outlier_share_: float = fitted_attribute("mixture.family.outlier_share")
    log_likelihood_: float = fitted_attribute("record.log_likelihood")
    n_iter_: int = fitted_attribute("record.n_iter")
    converged_: bool = fitted_attribute("record.converged")
    history_: list[dict[str, float]] = fitted_attribute("record.history")
    degenerate_: bool = fitted_attribute("record.degenerate")
    dropped_: int = fitted_attribute("record.dropped")
    gaps_: dict[str, int] = fitted_attribute("record.gaps")
    features_: Any = fitted_attribute("inputs.features")
    formula_: ModelFormula = fitted_attribute("inputs.formula")
    group_labels_: Any = fitted_attribute("groups.labels")
    group_responsibilities_: Array = fitted_attribute("groups.responsibilities")
    parameter_names_: tuple[str, ...] = fitted_attribute("parameter_names")
    aliased_: tuple[str, ...] = fitted_attribute("aliased")
    n_parameters_: float = fitted_attribute("n_parameters")
    _smaller: Mixture | None = None

    def __init__(
        self,
        n_components: int = 2,
        *,
        method: str | Solver = "wmlr",
        solver: str | Solver = "auto",
        symmetric: bool = False,
        fit_intercept: bool = True,
        equal_weights: bool = False,
        shared_sigma: bool = True,
        features: Any = None,
        sigma: float | None = None,
        start: Any = "auto",
        n_init: int = 1,
        max_iter: int = 300,
        tol: float = 1e-6,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        warm_start: bool = False,
        alpha: float = 0.0,
        shared: Any = None,
        robust: bool | float = False,
        outliers: bool | float = False,
        on_empty: str = "reseed",
        search: str | float | Effort = "auto",
        guard: bool = True,
        family: FamilyLike = "normal",
        gate: Any = None,
        formula: str | None = None,
        missing: str = "raise",
        only: Any = None,
        fixed: Any = None,
    ) -> None:
        self.n_components = n_components
        self.method = method
        self.solver = solver
        self.symmetric = symmetric
        self.fit_intercept = fit_intercept
        self.equal_weights = equal_weights
        self.shared_sigma = shared_sigma
        self.features = features
        self.sigma = sigma
        self.start = start
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.warm_start = warm_start
        self.alpha = alpha
        self.shared = shared
        self.robust = robust
        self.outliers = outliers
        self.on_empty = on_empty
        self.search = search
        self.guard = guard
        self.family = family
        self.gate = gate
        self.formula = formula
        self.missing = missing
        self.only = only
        self.fixed = fixed

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        tags.input_tags.sparse = True
        return tags

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        offset: Any = None,
        labels: Any = None,
        *,
        exposure: Any = None,
        trials: Any = None,
    ) -> Self:
        """Fit the mixture.

        Parameters
        ----------
        X, y : the rows. A scipy.sparse X stays sparse; formats other than CSR are copied to it once. With more
            than 2,000 columns no matrix of them is made (:mod:`wmlr.methods.wide`). With ``formula``, X is a data
            frame and y is left out.
        sample_weight : a weight of 2 counts as the row twice, 0 as leaving it out; with ``formula``, also a column's
            name.
        groups : labels; rows of one group share their component.
        offset : a number per row, or one for all, that is added to the linear predictor of every component; to predict,
            it is given again.
        exposure : positive numbers whose logarithm is such an offset: hours watched, or people at risk. Only one of
            the two may be given.
        trials : of a binomial whose y has the successes alone; a y of two columns has successes and failures.
        labels : the component of each row where it is known, counted from 0 as :meth:`assign` does, and -1 where it is
            not. A known row makes its group known. Components then have the numbers of the labels, and the
            likelihood is that of the rows with their labels: give them to :meth:`score` and its kin as well.
        """
        check_parameters(self)
        self.__dict__.pop("stream_", None)
        formula = gate = None
        roles: RowRoles = {"offset": offset, "exposure": exposure, "trials": trials, "labels": labels}
        refuse_both_offsets(roles)
        if self.formula is not None:
            rows, formula, gate = read_training_frame(self, X, y, sample_weight, groups, roles)
        else:
            rows = read_rows(self, X, y, sample_weight, groups, missing=self.missing, reset=True, roles=roles)
        refuse_roles(self, rows.beside)
        refuse_labels(rows, self.n_components)
        self._refuse_few(rows)
        needed = needed_roles(roles if formula is not None else split_response(y, roles)[1])
        inputs = replace(Inputs.of(self, formula=formula), target=_name_of(y), gate=gate, needed=needed)
        if gate is None:
            inputs = replace(inputs, gate=GateColumns.of(self.gate, inputs.column_names))
            rows = replace(rows, beside={**rows.beside, **inputs.with_gate(rows.X, None, rows.gaps)})
        phi = rows.X
        if self.features is not None:
            features = with_seeds(with_copies(clone(self.features)), self._features_seed())
            features.fit(as_named_frame(features, read_only(unwrap(rows.X)), inputs.names), rows.y)
            inputs = replace(inputs, features=features)
            phi = inputs.map_features(rows.X)
            inputs = replace(inputs, width=int(phi.shape[1]))
        engine: Engine = self._engine(rows, phi)
        if gates.gate(self.gate).own:
            if rows.groups is None:
                raise ValueError("gate='group' gives each group weights of its own: pass groups=")
            engine = OwnWeightRows(engine)
        with each_warning_once():
            self._fit(engine, inputs, seen=replace(rows, X=phi))
        return self

    def learn_groups(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None, **roles: Unpack[RowRoles]
    ) -> Self:
        """Remember groups that are new, or of which there are other rows now, where ``gate="group"``.

        Their weights follow from the rows given; nothing else of the model changes.
        """
        check_is_fitted(self)
        self.fitted_ = self.fitted_.with_groups(X, y, sample_weight, groups, **roles)
        return self

    @available_if(streams)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Take in a batch of rows; it is not kept.

        The first batches are kept and fitted as a whole, until there are 20 rows for every coefficient; then each
        batch is one step, and the estimate is the average of the steps. Of the rows a d by d matrix of sums
        remains. Several passes over the data come near the fit to all of it. ``fit`` forgets the stream.

        Afterwards ``n_iter_`` counts batches; ``history_`` has a record for each of the last thousand;
        ``log_likelihood_`` is that of all rows that came, each at the parameters that its batch met, and not at the
        present ones; ``converged_`` says that the last batch moved the estimate by less than ``tol`` in mean
        log-likelihood.

        Parameters
        ----------
        X, y : the rows of the batch.
        sample_weight : as in :meth:`fit`.
        groups : labels; a group must come whole, in one batch.

        Examples
        --------
        >>> from wmlr import MixedLinearRegression
        >>> from wmlr.datasets import make_mixed_regression
        >>> data = make_mixed_regression(6000, 4, 2, snr=10, random_state=0)
        >>> model = MixedLinearRegression(2, random_state=0)
        >>> for first in range(0, 6000, 500):
        ...     _ = model.partial_fit(data.X[first : first + 500], data.y[first : first + 500])
        >>> model.n_iter_, model.coef_.shape
        (10, (2, 4))
        """
        check_parameters(self)
        progress: Progress | None = getattr(self, "stream_", None)
        refuse_unstreamable(self, progress)
        rows = read_rows(self, X, y, sample_weight, groups, missing=self.missing, reset=progress is None)
        inputs = Inputs.of(self)
        constraints = constraints_of(self, inputs.column_names)
        batch = StoredStream(rows.X, rows.y, rows.weight, rows.groups)
        self.stream_, fit = take_batch(self, progress, batch, constraints)
        if fit is not None:
            self.fitted_ = self._finish_fit(fit, constraints, inputs, grouped=batch.groups is not None)
        return self

    def fit_on(self, rows: Engine, watch: Watcher | None = None, **columns: Unpack[RoleColumns]) -> Self:
        """Fit on any engine that can answer queries; ``watch`` is called after each iteration.

        ``offset=``, ``exposure=`` and ``trials=`` name columns of the engine that are no features
        (:class:`wmlr.estimator.role_columns.RoleColumns`); whatever looks at its rows again is told the same.

        With ``features``, the transformer is fitted without rows, or by their means and variances, and travels
        with every query; one that must see rows is refused.
        """
        check_parameters(self)
        if self.formula is not None:
            raise ValueError(
                f"formula={self.formula!r} is read with a data frame, by fit(frame): an engine brings its own columns"
            )
        by_majority = capabilities_of(rows).by_majority
        if by_majority is not None and gates.gate(self.gate).differs:
            raise ValueError("trust='majority' compares agents by weights that all rows share: leave out gate=")
        family = resolve_family(self.family, self.robust, self.outliers)
        rows = in_roles(rows, columns, family)
        if isinstance(rows, RoleRows):
            refuse_roles(self, rows.roles.beside)
        with each_warning_once():
            if by_majority is None:
                return self._fit_engine(rows, watch, needed_roles(columns))
            by_majority(
                self,
                lambda model: model._fit_engine(rows, watch if model is self else None, needed_roles(columns)),
            )
            return self

    def _fit_engine(self, rows: Engine, watch: Watcher | None, needed: tuple[str, ...]) -> Self:
        for name in ("stream_", "feature_names_in_"):
            self.__dict__.pop(name, None)
        self.n_features_in_ = rows.n_features
        engine = capabilities_of(rows)
        if engine.feature_names is not None:
            self.feature_names_in_ = np.array([str(name) for name in engine.feature_names], dtype=object)
        inputs = replace(Inputs.of(self, formula=engine.formula), needed=needed)
        before = engine.rounds
        gate = GateColumns.of(self.gate, inputs.column_names)
        if gate is not None:
            rows, inputs = gate.engine(rows), replace(inputs, gate=gate)
        if gates.gate(self.gate).own:
            if engine.agents is not None and not engine.grouped:
                raise ValueError(
                    "gate='group' gives each group, or each agent, weights of its own: bring agents as "
                    "Federation(..., level='agent')"
                )
            rows = OwnWeightRows(rows)
        if self.features is not None:
            features = fit_transformer_from_sums(self.features, rows, self._features_seed())
            rows = MappedRows(rows, Described.of(features))
            inputs = replace(inputs, features=features, width=rows.n_features)
        self._fit(rows, inputs, watch)
        after = capabilities_of(rows)
        if after.ledger is not None:
            self.ledger_ = after.ledger.since(before)
        if after.rounds_left is not None:
            self.privacy_ = after.privacy_spent
        return self

    @classmethod
    def from_formula(
        cls, formula: str, data: Any, n_components: int = 2, *, sample_weight: Any = None, **settings: Any
    ) -> Self:
        """Fit a formula to a data frame.

        The fitted model takes data frames with the formula's columns wherever it takes X; y and groups are
        then the frame's own, unless they are given.

        Parameters
        ----------
        formula : such as ``"tuned ~ stretchratio"``, or ``"yn ~ x + I(x**2) | id2"`` with the column of the
            groups after the bar. ``- 1`` or ``+ 0`` leaves out the intercepts.
        data : a pandas or polars DataFrame, or a dictionary of columns.
        n_components : the number of regressions.
        sample_weight : one number per row, or the name of a column.
        **settings : as for the class; ``fit_intercept`` is the formula's to say.

        Examples
        --------
        >>> import pandas as pd
        >>> from wmlr import MixedLinearRegression
        >>> from wmlr.datasets import load_tone
        >>> tone = load_tone()
        >>> data = pd.DataFrame({"stretchratio": tone.data[:, 0], "tuned": tone.target})
        >>> fit = MixedLinearRegression.from_formula("tuned ~ stretchratio", data, shared_sigma=False)
        >>> fit.parameter_names_[:2]
        ('stretchratio[1]', '(intercept)[1]')
        """
        return cls(n_components, formula=formula, **settings).fit(data, sample_weight=sample_weight)

    @classmethod
    def from_frame(
        cls,
        data: Any,
        target: str,
        n_components: int = 2,
        *,
        features: Sequence[str] | None = None,
        exclude: Collection[str] = (),
        categorical: Collection[str] = (),
        groups: str | None = None,
        sample_weight: Any = None,
        **settings: Any,
    ) -> Self:
        """Fit one column of a data frame by the others: numbers as they are, text and categories as levels.

        Parameters
        ----------
        data : a pandas or polars DataFrame or LazyFrame, or a dictionary of columns.
        target : the column to explain.
        n_components : the number of regressions.
        features : the columns to explain it by; None for all others.
        exclude : columns to leave out.
        categorical : columns of numbers that are to be taken for levels.
        groups : the column whose rows share their component.
        sample_weight : one number per row, or the name of a column, which is then no feature.
        **settings : as for the class.

        Examples
        --------
        >>> from wmlr import MixedLinearRegression
        >>> data = {"size": [40.0, 60, 80, 45, 70, 90], "place": ["a", "a", "b", "b", "a", "b"]}
        >>> data["price"] = [130.0, 190, 250, 150, 215, 280]
        >>> fit = MixedLinearRegression.from_frame(data, "price", 1)
        >>> fit.formula_.text, fit.parameter_names_[:2]
        ('price ~ size + place', ('size[1]', 'place[T.b][1]'))
        """
        weights = [sample_weight] if isinstance(sample_weight, str) else []
        formula = formula_of_frame(
            data, target, features, exclude=[*exclude, *weights], categorical=categorical, groups=groups
        )
        return cls.from_formula(formula, data, n_components, sample_weight=sample_weight, **settings)

    predict = delegate(FittedMixture.predict)
    predict_components = delegate(FittedMixture.predict_components)
    predict_density = delegate(FittedMixture.predict_density)
    predict_cdf = delegate(FittedMixture.predict_cdf)
    predict_quantile = delegate(FittedMixture.predict_quantile)
    predict_interval = delegate(FittedMixture.predict_interval)
    responsibilities = delegate(FittedMixture.responsibilities)
    assign = delegate(FittedMixture.assign)
    outlier_probabilities = delegate(FittedMixture.outlier_probabilities)
    predict_on = delegate(FittedMixture.predict_on)
    responsibilities_on = delegate(FittedMixture.responsibilities_on)
    sample = delegate(FittedMixture.sample)
    score = delegate(FittedMixture.score)
    aic = delegate(FittedMixture.aic)
    bic = delegate(FittedMixture.bic)
    icl = delegate(FittedMixture.icl)
    covariance = delegate(FittedMixture.covariance)
    covariance_on = delegate(FittedMixture.covariance_on)
    information_on = delegate(FittedMixture.information_on)
    confidence_intervals = delegate(FittedMixture.confidence_intervals)
    wald_test = delegate(FittedMixture.wald_test)
    classification = delegate(FittedMixture.classification)
    component_distances = delegate(FittedMixture.component_distances)
    summary = delegate(FittedMixture.summary)
    effects = delegate(FittedMixture.effects)
    profile = delegate(FittedMixture.profile)
    map_features = delegate(FittedMixture.map_features)
    bootstrap = in_present_spelling(delegate_refits(FittedMixture.bootstrap))
    likelihood_ratio_test = delegate_refits(FittedMixture.likelihood_ratio_test)

    def _refit_estimator(self) -> MixedLinearRegression:
        """An estimator with the settings of the fit, for rows that are made of its own columns."""
        fitted = self.fitted_
        settings: dict[str, Any] = {
            "n_components": fitted.mixture.n_components,
            "shared": fitted.constraints.shared or None,
            "only": None,
            "fixed": fitted.constraints.held_by_column(fitted.mixture.family.without_predictor),
            "fit_intercept": fitted.constraints.intercept,
            "on_empty": "drop",
            "features": None,
            "formula": None,
            "random_state": 0,
        }
        gate = fitted.inputs.gate
        if fitted.mixture.prior is not None or (gate is not None and (not gate.places or self.features is not None)):
            raise ValueError(
                "the bootstrap is for weights that all rows share, or that depend on columns of X by themselves: leave "
                f"out gate={self.gate!r}, or features="
            )
        if gate is not None:
            settings["gate"] = list(gate.places)
        model: MixedLinearRegression = clone(self)
        model.set_params(**settings, n_jobs=1, verbose=0, warm_start=False)
        return model

    @property
    def search_(self) -> Any:
        """How the maximum was found; None where nothing was searched."""
        check_is_fitted(self)
        return self.fitted_.record.search

    def save(self, path: str | Path) -> None:
        """Write the fitted model as JSON."""
        check_is_fitted(self)
        storage.save(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model that ``save`` wrote."""
        model: Self = storage.load(cls, Path(path))
        return model

    def start_from_smaller(self, fit: MixedLinearRegression) -> None:
        """Let the search begin at a fit with one component fewer as well, to which it adds one."""
        self._smaller = fit.mixture_ if fit.mixture_.n_components == self.n_components - 1 else None

    def parameters_beside(self, fit: MixedLinearRegression) -> int:
        """How many parameters are free, without a ridge, where the rows are those of another's fit."""
        constraints, d = self._constraints(fit.fitted_.inputs), fit.mixture_.n_features
        return constraints.count(self.n_components, d, aliased_columns(fit.mixture_, fit.fitted_.constraints))

    def _fit(self, rows: Engine, inputs: Inputs, watch: Watcher | None = None, seen: ModelRows | None = None) -> None:
        """Fit to an engine's rows, and put the fitted object in place."""
        constraints = replace(self._constraints(inputs), labelled=capabilities_of(rows).labelled)
        before = self.fitted_.mixture if self.warm_start and "fitted_" in vars(self) else None
        fit = fit_mixture(self, constraints, rows, watch, before=before, smaller=self._smaller)
        self.fitted_ = self._finish_fit(fit, constraints, inputs, seen, rows)

    def _constraints(self, inputs: Inputs) -> Constraints:
        intercept = None if inputs.formula is None else inputs.formula.intercept
        return constraints_of(self, inputs.column_names, intercept, inputs.gate_names)

    def _finish_fit(
        self,
        fit: Fit,
        constraints: Constraints,
        inputs: Inputs,
        seen: ModelRows | None = None,
        rows: Engine | None = None,
        grouped: bool | None = None,
    ) -> FittedMixture:
        """The fitted object of a fit, with what else its rows say at the end."""
        constraints = constraints.of_first(fit.mixture.n_components)
        classes = constraints.classes(fit.mixture.n_components)
        mixture, effective = constraints.impose(fit.mixture).ordered(classes), None
        exact = capabilities_of(rows).rounds_left is None
        if self.alpha and rows is not None and exact and rows.n_features <= WIDE:
            effective = effective_parameters(mixture, rows, constraints, float(self.alpha))
        whole = self.shared_sigma and self.sigma is None and seen is not None and warn_of_whole_values(mixture, seen)
        exact_lines = self.shared_sigma and seen is not None and len(seen.y) > EXACT * mixture.coef.size
        record = FitRecord(
            fit.log_likelihood,
            fit.n_iter,
            fit.converged,
            [dict(record) for record in fit.history],
            fit.search,
            degenerate=fit.guarded or (fit.floored and not exact_lines) or whole,
            grouped=grouped if seen is None else seen.groups is not None,
            dropped=0 if seen is None else seen.gaps.dropped,
            gaps={} if seen is None else dict(seen.gaps.columns),
            reason=fit.reason,
        )
        return FittedMixture(
            mixture=mixture,
            inputs=inputs,
            groups=None if seen is None else GroupPosteriors.of(mixture, seen),
            constraints=constraints,
            record=record,
            alpha=float(self.alpha),
            effective_parameters=effective,
        )

    def _engine(self, rows: ModelRows, phi: Any) -> ArrayRows:
        threads = default_threads() if self.n_jobs is None else self.n_jobs
        family = resolve_family(self.family, self.robust, self.outliers)
        if self.features is None:
            return rows.engine(family, threads)
        y, beside = family.sums_response(rows.y, rows.beside)
        return FeatureRows(phi, rows.X, y, rows.weight, rows.groups, beside=beside, n_jobs=threads)

    def _features_seed(self) -> int | None:
        return int(self.random_state) if isinstance(self.random_state, (int, np.integer)) else None

    def _refuse_few(self, rows: ModelRows) -> None:
        n = len(rows.y)
        counted = n if rows.weight is None else int(np.count_nonzero(rows.weight))
        if counted < self.n_components:
            few = f"n_samples = {n}" if counted == n else f"{counted} of {n} rows of positive weight"
            raise ValueError(
                f"n_components={self.n_components} needs at least as many rows (got {few}): "
                "lower n_components or bring more rows"
            )


def _name_of(y: Any) -> str | None:
    """The name of a column, where it has one."""
    name = getattr(y, "name", None)
    return name if isinstance(name, str) else None
