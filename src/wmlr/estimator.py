"""The scikit-learn face of the library."""

from __future__ import annotations

from numbers import Integral, Real
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from wmlr import storage
from wmlr.engines.arrays import ArrayRows, default_threads
from wmlr.methods import METHODS, SOLVERS
from wmlr.round import Array, Engine, Fit, Integers, Watcher, run
from wmlr.summary import Summary
from wmlr.task import Solver, Task
from wmlr.uncertainty import Constraints, covariance
from wmlr.validation import checked_features, checked_groups, checked_rows, checked_weight


class MixedLinearRegression(RegressorMixin, BaseEstimator):
    """Mixture of linear regressions: each row follows one of k unknown linear models.

    Parameters
    ----------
    n_components : the number k of regressions.
    method : "wmlr" (Wasserstein minimax), "em" or "gem"; or a method with its own settings, such as
        ``wmlr.GEM(alpha=0.1)``.
    solver : for "wmlr": "auto" refreshes the references at each step and needs no setting; "gda" is the
        paper's gradient descent ascent; "reduction" fits two components around their common mean. Or a
        solver with its own settings, such as ``wmlr.GDA(lam=0.5)``.
    symmetric : the two components are ``beta`` and ``-beta``, equally likely, without intercept.
    fit_intercept : whether each component has an intercept; ignored when symmetric.
    equal_weights : hold the weights at 1/k.
    shared_sigma : one noise deviation for all components.
    features : a scikit-learn transformer phi; the regressions are linear in phi(x).
    sigma : the noise deviation where it is known; None estimates it.
    start : "auto", "spectral", "random", or coefficients (k, d), with a last column for intercepts if wanted.
    n_init : fits from that many starts, of which the likeliest is kept.
    max_iter, tol : when to stop; ``tol`` is the gain in mean log-likelihood not worth another step (for
        gradient methods, the relative change of the coefficients).
    random_state : seeds the random starts; the same seed gives the same fit.
    n_jobs : threads; None uses what the linear algebra library would.
    verbose : print a line per iteration.
    warm_start : begin where the last fit ended.

    Attributes
    ----------
    coef_ : (k, d); intercept_, weights_, sigma_ : (k,).
    n_iter_, converged_ : how the fit ended.
    history_ : a dict per iteration: objective, log_likelihood, gradient_norm, step.
    log_likelihood_ : of the training data, in total.
    mixture_ : the fitted :class:`wmlr.Mixture`.

    Examples
    --------
    >>> from wmlr import MixedLinearRegression
    >>> from wmlr.datasets import load_tone
    >>> tone = load_tone()
    >>> fit = MixedLinearRegression(2, shared_sigma=False, random_state=0).fit(tone.data, tone.target)
    >>> fit.coef_.round(2).tolist()
    [[0.04], [0.99]]
    """

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

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the mixture.

        Parameters
        ----------
        X, y : the rows.
        sample_weight : a weight of 2 counts as the row twice, 0 as leaving it out.
        groups : labels; rows of one group share their component.
        """
        self._check_parameters()
        X, y = checked_rows(self, X, y, reset=True)
        phi = self._transformed(X, fit=True)
        engine = self._engine(phi, y, sample_weight, groups)
        if len(y) < self.n_components:
            raise ValueError(
                f"n_components={self.n_components} needs at least as many rows (got n_samples = {len(y)}): "
                "lower n_components or bring more rows"
            )
        return self._fit(engine)

    def fit_on(self, rows: Engine, watch: Watcher | None = None) -> Self:
        """Fit on any engine that can answer queries; ``watch`` is called after each iteration."""
        self._check_parameters()
        if self.features is not None:
            raise ValueError("features= transforms arrays: transform the rows where they are, and set it to None")
        self.n_features_in_ = rows.n_features
        return self._fit(rows, watch)

    def predict(self, X: Any) -> Array:
        """E[y|x], the weighted mean of the components."""
        phi = self._seen(X)
        return self.mixture_.predict(phi)

    def predict_components(self, X: Any) -> Array:
        """Each component's mean at X: (n, k)."""
        phi = self._seen(X)
        return self.mixture_.means(phi)

    def responsibilities(self, X: Any, y: Any, groups: Any = None) -> Array:
        """P(component | x, y): (n, k)."""
        phi, y, codes = self._seen_rows(X, y, groups)
        return self.mixture_.responsibilities(phi, y, codes)

    def assign(self, X: Any, y: Any, groups: Any = None) -> Integers:
        """The likeliest component of each row."""
        return np.asarray(self.responsibilities(X, y, groups).argmax(axis=1), dtype=np.int64)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean log-likelihood per row, so that cross-validation can choose k."""
        phi, y, _ = self._seen_rows(X, y, None)
        return float(np.average(self.mixture_.log_likelihood(phi, y), weights=checked_weight(sample_weight, len(y))))

    def aic(self, X: Any, y: Any, groups: Any = None) -> float:
        """Akaike's criterion; lower is better."""
        return -2 * self._total(X, y, groups)[0] + 2 * self.n_parameters_

    def bic(self, X: Any, y: Any, groups: Any = None) -> float:
        """Bayes's criterion, counting rows, or groups where there are groups; lower is better."""
        total, units = self._total(X, y, groups)
        return -2 * total + float(np.log(units)) * self.n_parameters_

    def icl(self, X: Any, y: Any, groups: Any = None) -> float:
        """BIC plus twice the entropy of the assignments; lower is better."""
        phi, y, codes = self._seen_rows(X, y, groups)
        joint = self.mixture_.joint(phi, y, codes)
        shares = np.exp(joint - self.mixture_.log_likelihood(phi, y, codes)[:, None])
        entropy = -float(np.sum(shares * np.log(np.maximum(shares, 1e-300))))
        return self.bic(X, y, groups) + 2 * entropy

    def sample(self, X: Any, random_state: Any = None) -> tuple[Array, Integers]:
        """Draw y at X, and the component each draw came from."""
        return self.mixture_.sample(self._seen(X), np.random.default_rng(random_state))

    def covariance(self, X: Any, y: Any, groups: Any = None, *, robust: bool = False) -> Array:
        """Covariance of the free parameters, from the observed information at the fit.

        The order is that of ``parameter_names_``: coefficients component by component (the intercept last
        in each), log sigma, then the logits of the first k-1 weights against the last.
        """
        phi, y, codes = self._seen_rows(X, y, groups)
        return covariance(self.mixture_, ArrayRows(phi, y, groups=codes), self._constraints(), robust)

    def summary(self, X: Any = None, y: Any = None, groups: Any = None) -> Summary:
        """A table of the fit; with the data, standard errors and intervals beside the estimates."""
        check_is_fitted(self)
        errors = None if X is None else np.sqrt(np.maximum(np.diag(self.covariance(X, y, groups)), 0.0))
        return Summary.of(self, errors)

    def save(self, path: str | Path) -> None:
        """Write the fitted model as JSON."""
        check_is_fitted(self)
        storage.save(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a model that ``save`` wrote."""
        model: Self = storage.load(cls, Path(path))
        return model

    @property
    def n_parameters_(self) -> int:
        """The number of free parameters."""
        check_is_fitted(self)
        return self._constraints().count(self.mixture_.n_components, self.mixture_.n_features)

    def _task(self, seed: int) -> Task:
        start = self.start
        if self.warm_start and hasattr(self, "mixture_"):
            start = np.column_stack([self.mixture_.coef, self.mixture_.intercept])
        intercept = self.fit_intercept and not self.symmetric
        if not isinstance(start, str):
            start = self._given_start(np.asarray(start, dtype=np.float64), intercept)
        return Task(
            n_components=self.n_components,
            symmetric=self.symmetric,
            intercept=intercept,
            equal_weights=self.equal_weights or self.symmetric,
            shared_sigma=self.shared_sigma,
            sigma=None if self.sigma is None else float(self.sigma),
            start=start,
            max_iter=self.max_iter,
            tol=float(self.tol),
            seed=seed,
        )

    def _given_start(self, start: Array, intercept: bool) -> Array:
        start = np.atleast_2d(start)
        d = self._n_features()
        if start.shape == (1, d) and self.symmetric:
            start = np.vstack([start, -start])
        if start.shape == (self.n_components, d + 1) and not intercept:
            start = start[:, :d]
        if start.shape == (self.n_components, d) and intercept:
            start = np.column_stack([start, np.zeros(self.n_components)])
        wanted = (self.n_components, d + int(intercept))
        if start.shape != wanted or not np.all(np.isfinite(start)):
            raise ValueError(f"start must be finite numbers of shape {(self.n_components, d)} (got {start.shape})")
        return start

    def _n_features(self) -> int:
        return int(getattr(self, "_n_phi", self.n_features_in_))

    def _fit(self, rows: Engine, watch: Watcher | None = None) -> Self:
        self._n_phi = rows.n_features
        solver = self._solver()
        seeds = self._seeds()
        watch = watch if watch is not None or not self.verbose else _printer()
        fits: list[Fit] = [run(solver.fit(self._task(seed)), rows, watch) for seed in seeds]
        best = max(fits, key=lambda fit: fit.log_likelihood)
        self._accept(best)
        return self

    def _accept(self, fit: Fit) -> None:
        self.mixture_ = fit.mixture.ordered()
        self.coef_ = self.mixture_.coef
        self.intercept_ = self.mixture_.intercept
        self.weights_ = self.mixture_.weights
        self.sigma_ = self.mixture_.sigma
        self.log_likelihood_ = fit.log_likelihood
        self.n_iter_ = fit.n_iter
        self.converged_ = fit.converged
        self.history_ = [dict(record) for record in fit.history]

    def _solver(self) -> Solver:
        if not isinstance(self.method, str):
            return self.method
        if self.method == "wmlr":
            return self.solver if not isinstance(self.solver, str) else SOLVERS[self.solver]()
        solver: Solver = METHODS[self.method]()
        return solver

    def _seeds(self) -> list[int]:
        state = self.random_state
        if state is None:
            generator = np.random.default_rng()
        elif isinstance(state, np.random.Generator):
            generator = state
        elif isinstance(state, np.random.RandomState):
            generator = np.random.default_rng(state.randint(2**31))
        else:
            generator = np.random.default_rng(state)
        return [int(seed) for seed in generator.integers(2**62, size=self.n_init)]

    def _constraints(self) -> Constraints:
        return Constraints(
            intercept=self.fit_intercept and not self.symmetric,
            symmetric=self.symmetric,
            equal_weights=self.equal_weights or self.symmetric,
            shared_sigma=self.shared_sigma,
            sigma_known=self.sigma is not None,
        )

    def _engine(self, X: Any, y: Array, sample_weight: Any, groups: Any) -> ArrayRows:
        threads = default_threads() if self.n_jobs is None else self.n_jobs
        return ArrayRows(X, y, checked_weight(sample_weight, len(y)), checked_groups(groups, len(y)), n_jobs=threads)

    def _transformed(self, X: Any, fit: bool) -> Any:
        if self.features is None:
            return X
        if fit:
            self.features_ = clone(self.features).fit(X)
        return np.ascontiguousarray(self.features_.transform(X), dtype=np.float64)

    def _seen(self, X: Any) -> Any:
        check_is_fitted(self)
        return self._transformed(checked_features(self, X, reset=False), fit=False)

    def _seen_rows(self, X: Any, y: Any, groups: Any) -> tuple[Any, Array, Integers | None]:
        check_is_fitted(self)
        X, y = checked_rows(self, X, y, reset=False)
        return self._transformed(X, fit=False), y, checked_groups(groups, len(y))

    def _total(self, X: Any, y: Any, groups: Any) -> tuple[float, int]:
        phi, y, codes = self._seen_rows(X, y, groups)
        values = self.mixture_.log_likelihood(phi, y, codes)
        return float(values.sum()), len(values)

    def _check_parameters(self) -> None:
        for name, least in (("n_components", 1), ("n_init", 1), ("max_iter", 1)):
            value = getattr(self, name)
            if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
                raise ValueError(f"{name} must be a whole number of at least {least} (got {value!r})")
        if not isinstance(self.tol, Real) or not self.tol >= 0:
            raise ValueError(f"tol must be a number of at least 0 (got {self.tol!r})")
        if self.sigma is not None and not (isinstance(self.sigma, Real) and 0 < self.sigma < np.inf):
            raise ValueError(f"sigma must be positive or None (got {self.sigma!r})")
        if self.symmetric and self.n_components != 2:
            raise ValueError(f"symmetric=True means two components (got n_components={self.n_components})")
        if isinstance(self.start, str) and self.start not in ("auto", "spectral", "random"):
            raise ValueError(f"start must be 'auto', 'spectral', 'random' or an array (got {self.start!r})")
        if isinstance(self.method, str) and self.method not in ("wmlr", *METHODS):
            raise ValueError(f"method must be 'wmlr', 'em' or 'gem' (got {self.method!r})")
        if isinstance(self.solver, str) and self.solver not in SOLVERS:
            raise ValueError(f"solver must be one of {', '.join(map(repr, SOLVERS))} (got {self.solver!r})")


def _printer() -> Watcher:
    def say(report: Any) -> None:
        record = report.record
        print(
            f"iteration {record['iteration']:.0f}  log-likelihood {record['log_likelihood']:.6f}  "
            f"gradient {record['gradient_norm']:.3e}"
        )

    return say
