"""The fitted object: a mixture, how rows are read, which parameters were free, and what the fit saw.

It does not change. The estimator keeps settings, fits, and asks this for everything that comes after.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from wmlr.core.capabilities import capabilities_of
from wmlr.core.roles import Roles
from wmlr.core.round import Engine
from wmlr.estimator.changes import column_changes, design_changes, refuse_without_data
from wmlr.estimator.fitting import convergence_warning
from wmlr.estimator.inputs import ModelRows
from wmlr.estimator.prediction import GroupPosteriors, MixturePrediction
from wmlr.estimator.role_columns import RoleColumns, in_roles, roles_of
from wmlr.estimator.row_roles import RowRoles, refuse_forgotten
from wmlr.estimator.scoring import Scorer, score_rows
from wmlr.estimator.summary import Summary
from wmlr.features.transformers import Described
from wmlr.federated.trust import Influence
from wmlr.inference.bootstrap import KINDS, Bootstrap, Resample, bootstrap
from wmlr.inference.classification import Classification, component_distances
from wmlr.inference.component_test import ComponentRefits, ComponentTest, compare_components
from wmlr.inference.criteria import Evaluation, evaluate
from wmlr.inference.effects import Effects
from wmlr.inference.information import ERRORS, Information, check_errors, clustered_covariance
from wmlr.inference.intervals import ConfidenceIntervals
from wmlr.inference.profile import Profile
from wmlr.inference.uncertainty import (
    Constraints,
    Estimates,
    aliased_columns,
    free_parameters,
)
from wmlr.inference.wald import Vocabulary, WaldTest, wald_test
from wmlr.io.users_line import warn_user
from wmlr.numerics.arrays import Array
from wmlr.statistics.own_weights import OwnWeightRows


@dataclass(frozen=True, eq=False)
class FitRecord:
    """What a fit saw, and how it ended.

    Attributes
    ----------
    log_likelihood : of the rows of the fit, in total.
    n_iter, converged : how it ended, and reason, why where not; history : a dict per iteration.
    search : how the maximum was found; None where nothing was searched.
    degenerate : whether a component's deviation ended at its floor, or only the guard kept it from there, or whether
        components are single values of y.
    grouped : whether rows of a group shared their component; None where that is not known.
    dropped : rows that were left out of the fit because of gaps; gaps : how many gaps each column has.
    """

    log_likelihood: float
    n_iter: int
    converged: bool
    history: list[dict[str, float]] = field(default_factory=list)
    search: Any = None
    degenerate: bool = False
    grouped: bool | None = None
    dropped: int = 0
    gaps: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""

    @property
    def convergence_advice(self) -> str:
        """That it has not converged, and what to do; nothing where it has."""
        return "" if self.converged else convergence_warning(self.n_iter, self.reason)


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedMixture(MixturePrediction):
    """A fitted mixture of regressions.

    The data are given again wherever they are needed, since a fitted model does not hold them; ``sample_weight`` and
    ``groups`` as in ``fit``. A model fitted by a formula takes a data frame as X, and the target and groups from it.
    A ``model`` is an estimator with the settings of the fit, which it may change: the estimator hands it over.

    Attributes
    ----------
    constraints : which parameters were free.
    record : what the fit saw, and how it ended.
    alpha : the ridge penalty of the fit.
    effective_parameters : what the fit is worth in parameters, with a ridge; None where it was not found.
    """

    constraints: Constraints
    record: FitRecord
    alpha: float = 0.0
    effective_parameters: float | None = None

    @property
    def n_parameters(self) -> float:
        """The number of free parameters, or the effective number with a ridge."""
        if self.alpha and self.effective_parameters is not None:
            return float(self.effective_parameters)
        mixture = self.mixture
        return self.constraints.count(
            mixture.n_components, mixture.n_features, aliased_columns(mixture, self.constraints)
        )

    @property
    def aliased(self) -> tuple[str, ...]:
        """Names of the columns that follow from others and have no estimate."""
        names = self.inputs.column_names
        return tuple(names[column] for column in aliased_columns(self.mixture, self.constraints))

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of the free parameters, in the order of :meth:`covariance`."""
        return self.constraints.names(self.inputs.column_names, self.mixture.n_components)

    @property
    def estimates(self) -> Estimates:
        """Coefficients, sigma and weights, with their derivatives in the free parameters."""
        return Estimates.of(self.mixture, self.constraints, self.inputs.column_names)

    def aic(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None, **roles: Unpack[RowRoles]
    ) -> float:
        """Akaike's criterion; lower is better."""
        return -2 * self._evaluation(X, y, sample_weight, groups, roles).log_likelihood + 2 * self.n_parameters

    def bic(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        *,
        count: str = "units",
        **roles: Unpack[RowRoles],
    ) -> float:
        """Bayes's criterion; lower is better.

        Parameters
        ----------
        X, y, sample_weight, groups : the rows.
        count : "units" takes the logarithm of the number of rows, or of groups where there are groups; "rows"
            always that of the rows, as R's flexmix does. A row counts by its weight.
        """
        found = self._evaluation(X, y, sample_weight, groups, roles)
        return -2 * found.log_likelihood + float(np.log(found.count(count))) * self.n_parameters

    def icl(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        *,
        count: str = "units",
        hard: bool = False,
        **roles: Unpack[RowRoles],
    ) -> float:
        """BIC plus twice the entropy of the assignments; lower is better.

        Parameters
        ----------
        X, y, sample_weight, groups, count : as for :meth:`bic`.
        hard : take -log of the responsibility of the likeliest component in place of the entropy, as R's
            flexmix does; ``icl(X, y, count="rows", hard=True)`` is its ICL.
        """
        found = self._evaluation(X, y, sample_weight, groups, roles)
        doubt = found.doubt if hard else found.entropy
        return -2 * found.log_likelihood + float(np.log(found.count(count))) * self.n_parameters + 2 * doubt

    def covariance(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        *,
        errors: str = "observed",
        **roles: Unpack[RowRoles],
    ) -> Array:
        """Covariance of the free parameters.

        The order is that of ``parameter_names_``: coefficients component by component (the intercept last
        in each, shared ones only with the first), log sigma, then the logits of the first k-1 weights
        against the last.

        Parameters
        ----------
        X, y, sample_weight, groups : the rows, as they were fitted.
        errors : "observed" inverts the observed information; "sandwich" stays right where the noise is not as the
            model has it, a row (or a group, of a fit with groups) being the unit; "clustered" is the sandwich whose
            units are ``groups``, whether or not the fit had them.
        """
        check_errors(errors)
        rows = self._rows(X, y, sample_weight, groups, roles)
        if errors == "clustered" and rows.groups is None:
            raise ValueError("errors='clustered' needs to know the clusters: pass groups=")
        if errors != "observed" and rows.groups is not None and self.record.grouped is False:
            each = replace(rows, labels_of_rows=None).engine(self.mixture.family)
            return clustered_covariance(self.mixture, each, rows.groups, self.constraints, self.alpha)
        engine: Engine = rows.engine(self.mixture.family)
        engine = engine if self.mixture.prior is None else OwnWeightRows(engine)
        return self._information(engine).covariance(errors != "observed")

    def covariance_on(self, rows: Engine, *, errors: str = "observed", **columns: Unpack[RoleColumns]) -> Array:
        """The same, with the rows in any engine, such as the one given to ``fit_on``; its groups are the units."""
        return self.information_on(rows, **columns).covariance(check_errors(errors) != "observed")

    def information_on(self, rows: Engine, **columns: Unpack[RoleColumns]) -> Information:
        """What the rows in an engine say around the fit, and with it its covariance.

        Where agents are seen one by one, the ledger's ``influence`` says how far the fit moves without each.
        """
        refuse_forgotten(self.inputs.needed, columns)
        rows = in_roles(rows, columns, self.mixture.family)
        if self.mixture.prior is not None:
            return self._information(OwnWeightRows(rows))
        return self._information(rows if self.inputs.gate is None else self.inputs.gate.engine(rows))

    def _information(self, rows: Engine) -> Information:
        found = Information.of(self.mixture, rows, self.constraints, self.alpha)
        engine = capabilities_of(rows)
        if engine.ledger is not None:
            engine.ledger.influence = Influence.of(self.mixture, self.constraints, found, engine.rows_by_agent)
        return found

    def predict_on(self, rows: Engine, out: str | Path | None = None, **columns: Unpack[RoleColumns]) -> Any:
        """E[y|x] for rows in an engine.

        Parameters
        ----------
        rows : arrays, files or a database: read once, block by block. Or Dask and Spark.
        out : a CSV or Parquet file to write, with the columns that were read; however long, it is never in memory.
        **columns : those that are no features, as in ``fit_on``.

        Returns
        -------
        An array in the rows' order; with ``out`` its path; for Dask a Dask DataFrame by the rows' numbers, for Spark
        the DataFrame with the column ``predicted``.
        """
        refuse_forgotten([role for role in self.inputs.needed if role != "trials"], columns)
        return score_rows(self._scorer(False, roles_of(rows, columns)), rows, out)

    def responsibilities_on(self, rows: Engine, out: str | Path | None = None, **columns: Unpack[RoleColumns]) -> Any:
        """P(component | x, y) for rows in an engine, as :meth:`predict_on`; columns ``component_1`` and so on."""
        refuse_forgotten(self.inputs.needed, columns)
        return score_rows(self._scorer(True, roles_of(rows, columns)), rows, out)

    def _scorer(self, posterior: bool, roles: Roles | None = None) -> Scorer:
        features = self.inputs.features
        gate = () if self.inputs.gate is None else self.inputs.gate.places
        if self.mixture.gate is not None and not gate:
            raise ValueError(
                "the weights depend on what a formula makes of a data frame: predict with the frame itself"
            )
        return Scorer(self.mixture, None if features is None else Described.of(features), posterior, gate, roles)

    def confidence_intervals(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        level: float = 0.95,
        *,
        errors: str = "observed",
        **roles: Unpack[RowRoles],
    ) -> ConfidenceIntervals:
        """Intervals for coefficients, sigma and weights, by the delta method.

        They are symmetric for coefficients, for the logarithm of sigma and for the logit of a weight.

        Parameters
        ----------
        X, y, sample_weight, groups : the rows, as they were fitted.
        level : the coverage wanted.
        errors : as for :meth:`covariance`.
        """
        free = self.covariance(X, y, sample_weight, groups, errors=errors, **roles)
        return ConfidenceIntervals.of(self.estimates, free, level)

    def confidence_intervals_on(
        self, rows: Engine, level: float = 0.95, *, errors: str = "observed", **columns: Unpack[RoleColumns]
    ) -> ConfidenceIntervals:
        """The same, with the rows in any engine."""
        return ConfidenceIntervals.of(self.estimates, self.covariance_on(rows, errors=errors, **columns), level)

    def wald_test(
        self,
        hypothesis: Any,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        *,
        q: Any = None,
        errors: str = "observed",
        **roles: Unpack[RowRoles],
    ) -> WaldTest:
        """Test linear hypotheses about the parameters.

        Parameters
        ----------
        hypothesis : in words, such as ``"x1[1] = x1[2]"`` or ``["x1[1] = 0", "x2[1] - 2*x2[2] = 1"]``, of the
            names in ``parameter_names_`` and of ``(sigma)`` and ``(weight)[1]``; or a matrix R with a column
            per free parameter, for ``R theta = q``.
        X, y, sample_weight, groups : the rows, as they were fitted.
        q : the right-hand sides for a matrix; None for zeros.
        errors : as for :meth:`covariance`.

        Notes
        -----
        That a weight is zero, or that two components are the same altogether, is a hypothesis at the edge of
        the model, where the chi-square law does not hold: compare such models by
        :func:`wmlr.select_components`.
        """
        free = self.covariance(X, y, sample_weight, groups, errors=errors, **roles)
        theta = free_parameters(self.mixture, self.constraints)
        return wald_test(hypothesis, Vocabulary.of(self.parameter_names, theta, self.estimates), free, q)

    def bootstrap(
        self,
        model: Any,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        n_boot: int = 200,
        random_state: Any = None,
        n_jobs: int | None = None,
        *,
        kind: str = "parametric",
        **roles: Unpack[RowRoles],
    ) -> Bootstrap:
        """Refit to data drawn again, from where the fit stands, with components matched to the fit's.

        Parameters
        ----------
        X, y, sample_weight, groups : the rows, as they were fitted. A row keeps its weight, whether its y is drawn or
            it is drawn itself; it is one row with that weight, not as many rows as it weighs.
        n_boot : how many times.
        random_state : seeds the draws; the same seed gives the same result for any ``n_jobs``.
        n_jobs : processes.
        kind : "parametric" draws y from the fitted model at X; "rows" draws rows, or whole groups, with
            replacement.
        """
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(map(repr, KINDS))} (got {kind!r})")
        if n_boot < 2:
            raise ValueError(f"n_boot must be at least 2 (got {n_boot!r})")
        self._refuse_labels("a bootstrap")
        rows = self._rows(X, y, sample_weight, groups, roles)
        names = self.inputs.column_names
        given = (rows.X, rows.y, rows.groups, rows.weight)
        model = model.set_params(start=self.mixture.lines, n_init=1)
        sample = Resample(model, self.mixture, self.constraints, names, *given, kind, self.alpha, rows.beside)
        return bootstrap(sample, self.estimates, n_boot, random_state, n_jobs)

    def likelihood_ratio_test(
        self,
        model: Any,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        n_boot: int = 99,
        random_state: Any = None,
        n_jobs: int | None = None,
        *,
        checkpoint: str | Path | None = None,
        **roles: Unpack[RowRoles],
    ) -> ComponentTest:
        """Test the number of components against one more, by fits of both to data drawn from the fit.

        Where the components have different families, the one more is of the last family that is no point mass.

        Parameters
        ----------
        X, y, sample_weight, groups : the rows, as they were fitted.
        n_boot : how many times data are drawn.
        random_state : seeds the draws; the same seed gives the same result for any ``n_jobs``.
        n_jobs : processes.
        checkpoint : a file that is written after every draw; a test that was stopped goes on from there.
        """
        self._refuse_labels("this test")
        rows = self._rows(X, y, sample_weight, groups, roles)
        refits = ComponentRefits(model, self.mixture, rows.X, rows.y, rows.groups, rows.weight, rows.beside)
        return compare_components(refits, n_boot, random_state, n_jobs, checkpoint)

    def classification(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None, **roles: Unpack[RowRoles]
    ) -> Classification:
        """How sure the assignments are: relative entropy, and the table of assigned against probable components."""
        rows = self.by_own_weights(self._rows(X, y, sample_weight, groups, roles))
        shares = self.mixture.unit_responsibilities(rows.X, rows.y, rows.groups, rows.weight, rows.beside)
        return Classification.of(shares, rows.weight if rows.groups is None else None)

    def component_distances(self, X: Any, **roles: Unpack[RowRoles]) -> Array:
        """(k, k): Kullback-Leibler distances, E_i[log f_i(y) - log f_j(y)], on average over the rows of X."""
        phi, beside, _ = self.inputs.predictor_rows(X, **roles)
        return component_distances(self.mixture, phi, beside)

    def summary(
        self,
        X: Any = None,
        y: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        *,
        level: float = 0.95,
        errors: str = "observed",
        **roles: Unpack[RowRoles],
    ) -> Summary:
        """A table of the fit; with the data, standard errors and intervals beside the estimates."""
        check_errors(errors)
        if X is None:
            return Summary.of(self)
        intervals = self.confidence_intervals(X, y, sample_weight, groups, level, errors=errors, **roles)
        rows = self.inputs.rows(X, y, sample_weight, groups, **roles)
        facts = [("rows", str(len(rows.y)))]
        if rows.groups is not None:
            facts.append(("groups", str(len(rows.labels))))
        given = (X, y, sample_weight, groups)
        facts += [("AIC", f"{self.aic(*given, **roles):.4f}"), ("BIC", f"{self.bic(*given, **roles):.4f}")]
        return Summary.of(self, intervals, (*facts, ("errors", ERRORS[errors])))

    def effects(
        self,
        X: Any = None,
        y: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        *,
        level: float = 0.95,
        errors: str = "observed",
        **roles: Unpack[RowRoles],
    ) -> Effects:
        """Average marginal effects: by how much the mean of y changes with each column, on average over the rows.

        For a column of numbers it is the average derivative (of two values, the difference between them); for a
        category, the average change from the reference to each other level. Each is given for every component, and
        overall for E[y|x], into which ``gate=`` lets columns enter by the weights too. Where a column enters by
        ``features``, a formula, or with others, all of it is followed.

        Parameters
        ----------
        X, y, sample_weight, groups : the rows, as they were fitted. Without them there are no standard errors, and only
            columns that enter as they are have effects.
        level : of the intervals.
        errors : as for :meth:`covariance`; the delta method makes standard errors of it.
        """
        check_errors(errors)
        if self.constraints.gate.own:
            raise ValueError("effects() need weights for any rows, and gate='group' has each group's own: leave it out")
        target = self.inputs.target_name
        if X is None:
            refuse_without_data(self.inputs)
            return Effects.of(self.mixture, self.constraints, design_changes(self.inputs), None, None, target, level)
        free = self.covariance(X, y, sample_weight, groups, errors=errors, **roles)
        rows = self.inputs.unmapped_rows(X, y, sample_weight, groups, **roles)
        changes = column_changes(self.inputs, rows, X, self.mixture.family.linear)
        return Effects.of(self.mixture, self.constraints, changes, rows.weight, free, target, level, rows.beside)

    def profile(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None, **roles: Unpack[RowRoles]
    ) -> Profile:
        """Who is in each component: its size, and means and shares of every column, by responsibility.

        Parameters
        ----------
        X : a data frame, whose columns are all described, whether or not the model uses them; or an array. Text, dates
            and categories may be among them.
        y : the target; None where the data frame has it, by the formula or by the name that it had in the fit.
        sample_weight, groups : as in ``fit``.
        """
        frame, y = self.inputs.describe(X, y)
        given = frame if self.inputs.formula is not None else self.inputs.own_columns(X, frame)
        rows = self.by_own_weights(self.inputs.rows(given, y, sample_weight, groups, **roles))
        shares = self.mixture.responsibilities(rows.X, rows.y, rows.groups, rows.beside)
        return Profile.of(rows.gaps.complete(frame), shares, rows.weight)

    def _refuse_labels(self, what: str) -> None:
        """Raise after a fit with labels, which data drawn again would not have."""
        if self.constraints.labelled:
            raise ValueError(f"{what} draws rows without labels, and the fit had some: fit without labels=")

    def with_groups(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None, **roles: Unpack[RowRoles]
    ) -> FittedMixture:
        """The same, remembering the groups of some rows too: their weights follow from these rows (``gate="group"``).

        Parameters
        ----------
        X, y, sample_weight, groups : rows of groups that are new, or of which there are other rows now.
        """
        if self.mixture.prior is None:
            raise ValueError("groups have no weights of their own in this model: fit it with gate='group'")
        rows = self.inputs.rows(X, y, sample_weight, groups, **roles)
        found = GroupPosteriors.of(self.mixture, rows)
        if found is None:
            raise ValueError("groups are missing: pass groups=, one label per row")
        if self.groups is not None:
            kept = ~np.isin(self.groups.labels, found.labels)
            labels = np.concatenate([self.groups.labels[kept], found.labels])
            found = GroupPosteriors(labels, np.vstack([self.groups.responsibilities[kept], found.responsibilities]))
        return replace(self, groups=found)

    def _evaluation(self, X: Any, y: Any, sample_weight: Any, groups: Any, roles: RowRoles) -> Evaluation:
        rows = self.by_own_weights(self._rows(X, y, sample_weight, groups, roles))
        return evaluate(self.mixture, rows.X, rows.y, rows.groups, rows.weight, rows.beside)

    def _rows(self, X: Any, y: Any, sample_weight: Any, groups: Any, roles: RowRoles) -> ModelRows:
        """Rows for what must be computed as the fit was: by groups, where it had groups."""
        rows = self.inputs.rows(X, y, sample_weight, groups, **roles)
        if rows.groups is None and self.record.grouped:
            warn_user("the model was fitted with groups, and here they are missing: pass groups=", UserWarning)
        return rows
