"""The scikit-learn face of the library."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from wmlr.core.capabilities import capabilities_of
from wmlr.core.progress import announce_fit
from wmlr.core.round import Engine, Fit, Watcher, run, run_together
from wmlr.engines.arrays import ArrayRows, default_threads, single_blas
from wmlr.engines.validation import checked_features, checked_groups, checked_rows, checked_weight
from wmlr.estimator import storage
from wmlr.estimator.inferential import InferenceMixin
from wmlr.estimator.repeated_warnings import each_warning_once
from wmlr.estimator.restarts import filled
from wmlr.estimator.settings import check_parameters, chosen_family, chosen_solver
from wmlr.estimator.streaming import StreamMixin, streams
from wmlr.estimator.summary import feature_names
from wmlr.families import Family
from wmlr.features.maps import FeatureRows, MappedRows, copying, learned, phi_names, seeded
from wmlr.features.transformers import Described, named, read_only, transformed
from wmlr.formulas.formula import FormulaMixin
from wmlr.inference.criteria import Evaluation, evaluated
from wmlr.inference.uncertainty import Constraints, aliased, effective_parameters
from wmlr.methods import EM, Refreshed
from wmlr.methods.adapted import adapted_method, adapted_task
from wmlr.methods.search.effort import Effort
from wmlr.methods.task import Solver, Task
from wmlr.numerics.arrays import Array, Integers
from wmlr.numerics.coordinates import WIDE
from wmlr.numerics.sparse import block_rows, unwrapped

SEARCHING = (Refreshed, EM)


class MixedLinearRegression(StreamMixin, InferenceMixin, FormulaMixin, RegressorMixin, BaseEstimator):
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
    equal_weights : hold the weights at 1/k.
    shared_sigma : one noise deviation for all components.
    features : a scikit-learn transformer phi; the regressions are linear in phi(x).
    sigma : the noise deviation where it is known; None estimates it.
    start : "auto", "spectral", "random", or coefficients (k, d), with a last column for intercepts if wanted.
    search : how hard to look for the likeliest maximum where ``start="auto"``: "auto" stops when independent searches
        agree, "quick" after a few moves, "thorough" goes on for long; a number is a budget, in EM steps of one
        candidate; or a :class:`wmlr.Effort` with settings of its own. Among agents "quick" takes some 80 rounds, and
        where each round is a message to other machines, "auto" is "quick".
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
    shared : names or numbers of columns whose coefficients are common to all components.
    family : the law of y around each regression: "normal", "student" (4 degrees of freedom), or a family with its
        own numbers such as ``wmlr.families.Student(dof=6)``; ``sigma_`` is its scale. Others are made known by
        :func:`wmlr.families.register`.
    robust : bound the influence of each row: another spelling of ``family="student"``; a number is its degrees of
        freedom.
    on_empty : what to do when a component is left with less than one row: "reseed" tries other starts and
        then drops it, "drop" fits one component fewer, "raise" is an error.

    Attributes
    ----------
    coef_ : (k, d); intercept_, weights_, sigma_ : (k,).
    n_iter_, converged_ : how the fit ended. Converged means that a Newton step would gain less than 0.001 of
        log-likelihood in all parameters together, and that the Hessian is negative definite. With ``solver="gda"``,
        whose end is not the likelihood's maximum, the way still to go is worth less than that; with more than 2,000
        columns the Hessian is not looked at; where agents come and go, that the averaging came to its end.
    history_ : a dict per iteration: objective, log_likelihood, gradient_norm, step.
    log_likelihood_ : of the training data, in total.
    search_ : how the maximum was found (:class:`wmlr.Search`): ``reached`` of ``searches`` came to it, the ``maxima``
        that were seen, by how much the ``runner_up`` is lower. None where nothing was searched.
    degenerate_ : whether a component's deviation ended at its floor, or only the guard kept it from there.
    mixture_ : the fitted :class:`wmlr.Mixture`.
    group_labels_, group_responsibilities_ : (G,), (G, k): each training group's posterior, after a fit with groups.
    formula_ : the formula, after :meth:`from_formula`.
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
        family: str | Family = "normal",
        on_empty: str = "reseed",
        search: str | float | Effort = "auto",
        guard: bool = True,
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
        self.family = family
        self.on_empty = on_empty
        self.search = search
        self.guard = guard

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the mixture.

        Parameters
        ----------
        X, y : the rows. A scipy.sparse X stays sparse; formats other than CSR are copied to it once. With more
            than 2,000 columns no matrix of them is made (:mod:`wmlr.methods.wide`).
        sample_weight : a weight of 2 counts as the row twice, 0 as leaving it out.
        groups : labels; rows of one group share their component.
        """
        check_parameters(self)
        self._forget()
        X, y = checked_rows(self, X, y, reset=True)
        phi = self._learned(X, y)
        engine = self._engine(phi, y, sample_weight, groups, X)
        rows = len(y) if engine.weight is None else int(np.count_nonzero(engine.weight))
        if rows < self.n_components:
            counted = f"n_samples = {len(y)}" if rows == len(y) else f"{rows} of {len(y)} rows of positive weight"
            raise ValueError(
                f"n_components={self.n_components} needs at least as many rows (got {counted}): "
                "lower n_components or bring more rows"
            )
        with each_warning_once():
            self._fit(engine)
        self._remember(phi, y, groups, engine.weight)
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
        return self._taken(X, y, sample_weight, groups)

    def fit_on(self, rows: Engine, watch: Watcher | None = None) -> Self:
        """Fit on any engine that can answer queries; ``watch`` is called after each iteration.

        With ``features``, the transformer is fitted without rows, or by their means and variances, and travels
        with every query; one that must see rows is refused.
        """
        check_parameters(self)
        self._forget()
        self.n_features_in_ = rows.n_features
        with each_warning_once():
            return self._fit_on(rows, watch)

    def _fit_on(self, rows: Engine, watch: Watcher | None) -> Self:
        if self.features is None:
            return self._fit(rows, watch)
        rounds = capabilities_of(rows).rounds
        self.features_ = learned(self.features, rows, self._features_seed())
        self._fit(self._viewed(rows), watch)
        self._keep_ledger(rows, rounds)
        return self

    def _keep_ledger(self, rows: Engine, rounds: int) -> None:
        """Keep what the ledger of an engine that has one wrote since so many rounds."""
        ledger = capabilities_of(rows).ledger
        if ledger is not None:
            self.ledger_ = ledger.since(rounds)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> float:
        """Mean log-likelihood per row, so that cross-validation can choose k."""
        phi, y, codes = self._seen_rows(X, y, groups)
        weight = checked_weight(sample_weight, len(y))
        total = evaluated(self.mixture_, phi, y, codes, weight).log_likelihood
        return total / (len(y) if weight is None else float(weight.sum()))

    def aic(self, X: Any, y: Any = None, groups: Any = None, sample_weight: Any = None) -> float:
        """Akaike's criterion; lower is better."""
        return -2 * self._total(X, y, groups, sample_weight).log_likelihood + 2 * self.n_parameters_

    def bic(
        self, X: Any, y: Any = None, groups: Any = None, sample_weight: Any = None, *, count: str = "units"
    ) -> float:
        """Bayes's criterion; lower is better.

        Parameters
        ----------
        X, y, groups, sample_weight : the rows.
        count : "units" takes the logarithm of the number of rows, or of groups where there are groups; "rows"
            always that of the rows, as R's flexmix does. A row counts by its weight.
        """
        found = self._total(X, y, groups, sample_weight)
        return -2 * found.log_likelihood + float(np.log(found.counted(count))) * self.n_parameters_

    def icl(
        self,
        X: Any,
        y: Any = None,
        groups: Any = None,
        sample_weight: Any = None,
        *,
        count: str = "units",
        hard: bool = False,
    ) -> float:
        """BIC plus twice the entropy of the assignments; lower is better.

        Parameters
        ----------
        X, y, groups, sample_weight, count : as for :meth:`bic`.
        hard : take -log of the responsibility of the likeliest component in place of the entropy, as R's
            flexmix does; ``icl(X, y, count="rows", hard=True)`` is its ICL.
        """
        found = self._total(X, y, groups, sample_weight)
        doubt = found.doubt if hard else found.entropy
        return -2 * found.log_likelihood + float(np.log(found.counted(count))) * self.n_parameters_ + 2 * doubt

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
    def n_parameters_(self) -> float:
        """The number of free parameters; columns in ``aliased_`` have none.

        With ``alpha`` the effective number, as far as the fit could see it: the trace of each ridge regression's
        hat matrix, its rows weighted by responsibility, and a whole number for sigmas and weights.
        """
        check_is_fitted(self)
        mixture = self.mixture_
        if self.alpha and hasattr(self, "effective_parameters_"):
            return float(self.effective_parameters_)
        return self._constraints().count(mixture.n_components, mixture.n_features, aliased(mixture))

    @property
    def aliased_(self) -> tuple[str, ...]:
        """Names of the columns that follow from others (constant ones, from the intercept): they have no estimate.

        Of such columns the first keeps its coefficient, as in R, and ``coef_`` is 0 for the others.
        """
        check_is_fitted(self)
        names = feature_names(self)
        return tuple(names[column] for column in aliased(self.mixture_))

    def start_from_smaller(self, fit: MixedLinearRegression) -> None:
        """Let the search begin at a fit with one component fewer as well, to which it adds one."""
        self._smaller = fit.mixture_ if fit.mixture_.n_components == self.n_components - 1 else None

    def _task(self, seed: int, k: int) -> Task:
        start = self.start if k == self.n_components else "auto"
        if self.warm_start and hasattr(self, "mixture_") and self.mixture_.n_components == k:
            start = np.column_stack([self.mixture_.coef, self.mixture_.intercept])
        intercept = self.fit_intercept and not self.symmetric
        if not isinstance(start, str):
            start = self._given_start(np.asarray(start, dtype=np.float64), intercept)
        return Task(
            n_components=k,
            symmetric=self.symmetric,
            intercept=intercept,
            equal_weights=self.equal_weights or self.symmetric,
            shared_sigma=self.shared_sigma,
            sigma=None if self.sigma is None else float(self.sigma),
            start=start,
            max_iter=self.max_iter,
            tol=float(self.tol),
            seed=seed,
            ridge=float(self.alpha),
            shared=self._shared_columns(),
            family=chosen_family(self.family, self.robust),
            wide=self._n_features() > WIDE,
            search=self.search,
            searches=self.n_init,
            guard=self.guard,
            smaller=getattr(self, "_smaller", None) if k == self.n_components else None,
        )

    def _shared_columns(self) -> tuple[int, ...]:
        """Numbers of the columns named in ``shared``."""
        if self.shared is None:
            return ()
        d = self._n_features()
        names = [str(name) for name in getattr(self, "feature_names_in_", range(d))]
        if self.features is not None:
            names = phi_names(self.features_, getattr(self, "feature_names_in_", None), d)
        places = set()
        for item in self.shared:
            place = names.index(str(item)) if str(item) in names else -1 if isinstance(item, str) else int(item)
            if not 0 <= place < d:
                raise ValueError(f"shared names a column that is not there (got {item!r}; columns: {', '.join(names)})")
            places.add(place)
        return tuple(sorted(places))

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
        if hasattr(self, "_n_phi"):
            return int(self._n_phi)
        return self.mixture_.n_features if hasattr(self, "mixture_") else int(self.n_features_in_)

    def _fit(self, rows: Engine, watch: Watcher | None = None) -> Self:
        self._n_phi = rows.n_features
        solver = self._solver()
        watch = watch if watch is not None or not self.verbose else _printer()
        engine = capabilities_of(rows)
        exact, rounds = engine.rounds_left is None, engine.rounds

        def attempt(seeds: list[int], k: int) -> Fit:
            announce_fit(k)
            first = adapted_task(self._task(seeds[0], k), engine)
            searched = isinstance(first.start, str) and first.start == "auto" and isinstance(solver, SEARCHING)
            tasks = [first] if searched else [replace(first, seed=seed) for seed in seeds]
            methods = [adapted_method(solver, task, engine) for task in tasks]
            if len(methods) == 1:
                return run(methods[0], rows, watch)
            fits = run_together(methods, rows, [watch] * len(methods))
            return max(fits, key=lambda fit: fit.log_likelihood)

        with single_blas(rows.n_features if rows.n_features <= WIDE else 0):
            best = filled(attempt, self._seeds(), self.n_components, self.on_empty, again=exact)
        self._accept(best)
        if self.alpha and exact and rows.n_features <= WIDE:
            effective = effective_parameters(self.mixture_, rows, self._constraints(), float(self.alpha))
            self.effective_parameters_ = effective
        if not best.converged and self.tol > 0:
            warnings.warn(
                f"stopped after {best.n_iter} iterations without converging: {best.reason or 'raise max_iter'}",
                ConvergenceWarning,
                stacklevel=3,
            )
        if best.search is not None and not best.search.sure:
            warnings.warn(
                f"the best maximum was {best.search.sentence()}: another may exist; raise n_init, or set "
                "search='thorough'",
                ConvergenceWarning,
                stacklevel=3,
            )
        self._keep_ledger(rows, rounds)
        if not exact:
            self.privacy_ = capabilities_of(rows).privacy_spent
        return self

    def _accept(self, fit: Fit) -> None:
        self.__dict__.pop("effective_parameters_", None)
        self.mixture_ = fit.mixture.ordered()
        self.coef_ = self.mixture_.coef
        self.intercept_ = self.mixture_.intercept
        self.weights_ = self.mixture_.weights
        self.sigma_ = self.mixture_.sigma
        self.log_likelihood_ = fit.log_likelihood
        self.n_iter_ = fit.n_iter
        self.converged_ = fit.converged
        self.search_ = fit.search
        self.degenerate_ = fit.guarded or fit.floored
        self.history_ = [dict(record) for record in fit.history]

    def _solver(self) -> Solver:
        return chosen_solver(self.method, self.solver)

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
            shared=self._shared_columns(),
        )

    def _engine(self, phi: Any, y: Array, sample_weight: Any, groups: Any, X: Any) -> ArrayRows:
        threads = default_threads() if self.n_jobs is None else self.n_jobs
        more = checked_weight(sample_weight, len(y)), checked_groups(groups, len(y))
        if self.features is None:
            return ArrayRows(X, y, *more, n_jobs=threads, block_rows=block_rows(X))
        return FeatureRows(phi, X, y, *more, n_jobs=threads)

    def map_features(self, X: Any) -> Any:
        """phi(x), the columns that the coefficients belong to; X itself without ``features``."""
        return self._seen(X)

    def _learned(self, X: Any, y: Array) -> Any:
        """Fit phi, and map the rows by it."""
        if self.features is not None:
            self.features_ = seeded(copying(clone(self.features)), self._features_seed())
            self.features_.fit(self._shown(X), y)
        return self._transformed(X)

    def _features_seed(self) -> int | None:
        return int(self.random_state) if isinstance(self.random_state, (int, np.integer)) else None

    def _transformed(self, X: Any) -> Any:
        if self.features is None:
            return X
        return transformed(self.features_, self._shown(X))

    def _shown(self, X: Any) -> Any:
        """X as the transformer may see it: with names where it asks for them, and not to be written into."""
        return named(self.features_, read_only(unwrapped(X)), getattr(self, "feature_names_in_", None))

    def _viewed(self, rows: Engine) -> Engine:
        """An engine's rows as phi shows them."""
        return rows if self.features is None else MappedRows(rows, Described.of(self.features_))

    def _seen(self, X: Any) -> Any:
        check_is_fitted(self)
        X, _, _ = self._framed(X, None, None, target=False)
        return self._transformed(checked_features(self, X, reset=False))

    def _seen_rows(self, X: Any, y: Any, groups: Any) -> tuple[Any, Array, Integers | None]:
        check_is_fitted(self)
        X, y, groups = self._framed(X, y, groups, target=True)
        X, y = checked_rows(self, X, y, reset=False)
        return self._transformed(X), y, checked_groups(groups, len(y))

    def _total(self, X: Any, y: Any, groups: Any, sample_weight: Any) -> Evaluation:
        phi, y, codes = self._fitted_rows(X, y, groups)
        return evaluated(self.mixture_, phi, y, codes, checked_weight(sample_weight, len(y)))

    def _fitted_rows(self, X: Any, y: Any, groups: Any) -> tuple[Any, Array, Integers | None]:
        """Rows for what must be computed as the fit was: by groups, where it had groups."""
        phi, y, codes = self._seen_rows(X, y, groups)
        if codes is None and getattr(self, "group_labels_", None) is not None:
            warnings.warn(
                "the model was fitted with groups, and here they are missing: pass groups=", UserWarning, stacklevel=4
            )
        return phi, y, codes


def _printer() -> Watcher:
    def say(report: Any) -> None:
        record = report.record
        print(
            f"iteration {record['iteration']:.0f}  log-likelihood {record['log_likelihood']:.6f}  "
            f"gradient {record['gradient_norm']:.3e}"
        )

    return say
