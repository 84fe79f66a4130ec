"""What a fitted mixture says about its own estimates: errors, intervals, tests, a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from wmlr.core.round import Engine
from wmlr.engines.arrays import ArrayRows
from wmlr.engines.validation import checked_weight
from wmlr.estimator.summary import Summary, feature_names
from wmlr.inference.bootstrap import KINDS, Bootstrap, Sample, bootstrap
from wmlr.inference.information import Information
from wmlr.inference.intervals import ConfidenceIntervals
from wmlr.inference.uncertainty import Constraints, Estimates, free_parameters
from wmlr.inference.wald import Vocabulary, WaldTest, wald_test
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array, Integers


class InferenceMixin:
    """Inference from the observed information at ``mixture_``.

    The data are given again, since a fitted model does not hold them; ``sample_weight`` as in ``fit``. A
    model fitted by a formula takes a data frame as X, and the target and the groups from it.
    """

    mixture_: Mixture
    alpha: float

    if TYPE_CHECKING:

        def _seen_rows(self, X: Any, y: Any, groups: Any) -> tuple[Any, Array, Integers | None]: ...

        def _fitted_rows(self, X: Any, y: Any, groups: Any) -> tuple[Any, Array, Integers | None]: ...

        def _constraints(self) -> Constraints: ...

        def bic(self, X: Any, y: Any = None, groups: Any = None, sample_weight: Any = None) -> float: ...

        def aic(self, X: Any, y: Any = None, groups: Any = None, sample_weight: Any = None) -> float: ...

    @property
    def parameter_names_(self) -> tuple[str, ...]:
        """Names of the free parameters, in the order of :meth:`covariance`."""
        check_is_fitted(self)
        return self._constraints().names(feature_names(self), self.mixture_.n_components)

    def covariance(
        self, X: Any, y: Any = None, groups: Any = None, *, robust: bool = False, sample_weight: Any = None
    ) -> Array:
        """Covariance of the free parameters, from the observed information at the fit.

        The order is that of ``parameter_names_``: coefficients component by component (the intercept last
        in each, shared ones only with the first), log sigma, then the logits of the first k-1 weights
        against the last.

        Parameters
        ----------
        X, y, groups, sample_weight : the rows, as they were fitted.
        robust : the sandwich, clustered by group where there are groups.
        """
        phi, y, codes = self._fitted_rows(X, y, groups)
        return self.covariance_on(ArrayRows(phi, y, checked_weight(sample_weight, len(y)), codes), robust=robust)

    def covariance_on(self, rows: Engine, *, robust: bool = False) -> Array:
        """The same, with the rows in any engine, such as the one given to ``fit_on``."""
        return self.information_on(rows).covariance(robust)

    def information_on(self, rows: Engine) -> Information:
        """What the rows in an engine say around the fit: its covariance, and where agents are seen, their influence."""
        check_is_fitted(self)
        return Information.of(self.mixture_, rows, self._constraints(), float(self.alpha))

    def confidence_intervals(
        self,
        X: Any,
        y: Any = None,
        groups: Any = None,
        level: float = 0.95,
        robust: bool = False,
        *,
        sample_weight: Any = None,
    ) -> ConfidenceIntervals:
        """Intervals for coefficients, sigma and weights, by the delta method.

        They are symmetric for coefficients, for the logarithm of sigma and for the logit of a weight.

        Parameters
        ----------
        X, y, groups, sample_weight : the rows, as they were fitted.
        level : the coverage wanted.
        robust : use the sandwich covariance.
        """
        free = self.covariance(X, y, groups, robust=robust, sample_weight=sample_weight)
        return ConfidenceIntervals.of(self._estimates(), free, level)

    def wald_test(
        self,
        hypothesis: Any,
        X: Any,
        y: Any = None,
        groups: Any = None,
        *,
        q: Any = None,
        robust: bool = False,
        sample_weight: Any = None,
    ) -> WaldTest:
        """Test linear hypotheses about the parameters.

        Parameters
        ----------
        hypothesis : in words, such as ``"x1[1] = x1[2]"`` or ``["x1[1] = 0", "x2[1] - 2*x2[2] = 1"]``, of the
            names in ``parameter_names_`` and of ``(sigma)`` and ``(weight)[1]``; or a matrix R with a column
            per free parameter, for ``R theta = q``.
        X, y, groups, sample_weight : the rows, as they were fitted.
        q : the right-hand sides for a matrix; None for zeros.
        robust : use the sandwich covariance.

        Notes
        -----
        That a weight is zero, or that two components are the same altogether, is a hypothesis at the edge of
        the model, where the chi-square law does not hold: compare such models by
        :func:`wmlr.select_components`.
        """
        free = self.covariance(X, y, groups, robust=robust, sample_weight=sample_weight)
        theta = free_parameters(self.mixture_, self._constraints())
        return wald_test(hypothesis, Vocabulary.of(self.parameter_names_, theta, self._estimates()), free, q)

    def bootstrap(
        self,
        X: Any,
        y: Any = None,
        n_boot: int = 200,
        groups: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        *,
        kind: str = "parametric",
        sample_weight: Any = None,
    ) -> Bootstrap:
        """Refit to data drawn again, from where the fit stands, with components matched to the fit's.

        Parameters
        ----------
        X, y, groups, sample_weight : the rows, as they were fitted. A row keeps its weight, whether its y is drawn or
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
        phi, y, codes = self._fitted_rows(X, y, groups)
        weight = checked_weight(sample_weight, len(y))
        mixture = self.mixture_
        settings = {
            "n_components": mixture.n_components,
            "start": np.column_stack([mixture.coef, mixture.intercept]),
            "shared": self._constraints().shared or None,
            "on_empty": "drop",
            "features": None,
            "random_state": 0,
        }
        model = clone(self).set_params(**settings, n_init=1, n_jobs=1, verbose=0, warm_start=False)
        sample = Sample(model, mixture, self._constraints(), feature_names(self), phi, y, codes, weight, kind)
        return bootstrap(sample, self._estimates(), n_boot, random_state, n_jobs)

    def summary(
        self,
        X: Any = None,
        y: Any = None,
        groups: Any = None,
        *,
        level: float = 0.95,
        robust: bool = False,
        sample_weight: Any = None,
    ) -> Summary:
        """A table of the fit; with the data, standard errors and intervals beside the estimates."""
        check_is_fitted(self)
        if X is None:
            return Summary.of(self)
        intervals = self.confidence_intervals(X, y, groups, level, robust, sample_weight=sample_weight)
        _, values, codes = self._seen_rows(X, y, groups)
        facts = [("rows", str(len(values)))]
        if codes is not None:
            facts.append(("groups", str(int(codes.max()) + 1)))
        rows = (X, y, groups, sample_weight)
        facts += [("AIC", f"{self.aic(*rows):.4f}"), ("BIC", f"{self.bic(*rows):.4f}")]
        facts.append(("errors", "sandwich" if robust else "observed information"))
        return Summary.of(self, intervals, tuple(facts))

    def _estimates(self) -> Estimates:
        return Estimates.of(self.mixture_, self._constraints(), feature_names(self))
