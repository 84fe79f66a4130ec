"""What a fitted mixture says about y: means, density, quantiles, regions, and which component a row belongs to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from wmlr.estimator.gaps import Gaps
from wmlr.estimator.inputs import Inputs, ModelRows
from wmlr.estimator.row_roles import RowRoles, split_response
from wmlr.inference.criteria import Evaluation, evaluate
from wmlr.inference.intervals import check_level
from wmlr.model.amounts import predictive
from wmlr.model.counts import CountPredictive
from wmlr.model.mixture import Mixture
from wmlr.model.own_weights import group_counts
from wmlr.model.predictive import Predictive, Region
from wmlr.numerics.arrays import Array, Integers
from wmlr.numerics.sparse import dense


@dataclass(frozen=True, eq=False)
class GroupPosteriors:
    """What a fit with groups learned of each group.

    Attributes
    ----------
    labels : (G,) of the groups; responsibilities : (G, k) P(component | the group's rows).
    """

    labels: NDArray[Any]
    responsibilities: Array

    @classmethod
    def of(cls, mixture: Mixture, rows: ModelRows) -> GroupPosteriors | None:
        """The posterior of each group of some rows; None where they have no groups."""
        if rows.groups is None:
            return None
        if mixture.prior is not None:
            return cls(rows.labels, own_weights(mixture, rows))
        return cls(rows.labels, mixture.unit_responsibilities(rows.X, rows.y, rows.groups, rows.weight, rows.beside))

    def weights(self, labels: NDArray[Any], otherwise: Array) -> Array:
        """(n, k) those of each row's group; of a group that the fit did not see, the row's ``otherwise`` (n, k)."""
        places = {label: place for place, label in enumerate(self.labels.tolist())}
        found = np.array([places.get(label, -1) for label in labels.tolist()], dtype=np.int64)
        return np.where((found >= 0)[:, None], self.responsibilities[found], otherwise)


def own_weights(mixture: Mixture, rows: ModelRows) -> Array:
    """(G, k): the expected weights of each group of some rows, where groups have weights of their own."""
    assert rows.groups is not None
    assert mixture.prior is not None
    order = np.argsort(rows.groups, kind="stable")
    starts = np.flatnonzero(np.diff(rows.groups[order], prepend=-1))
    densities = mixture.log_densities(rows.X, rows.y, rows.beside)[order]
    weight = None if rows.weight is None else rows.weight[order]
    counts = group_counts(mixture.prior, densities, starts, weight)
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class MixturePrediction:
    """Prediction from a mixture and the way new rows are read.

    ``groups`` in ``predict`` and its kin is for rows of groups that were there when the model was fitted: such a row's
    components weigh by the group's posterior. A group not seen before has the mixture's own weights. Where gaps may be
    dropped (``missing="drop"``), a row with a gap has NaN for an answer, and -1 for a component. Further keywords say
    more of each row, as in ``fit`` (:class:`wmlr.estimator.row_roles.RowRoles`): ``offset=`` or ``exposure=``, which
    must be given where the fit had one (``offset=0`` for none), and ``trials=``, 1 in means where they are not given.

    Attributes
    ----------
    mixture : the components.
    inputs : how X, y and groups become what the mixture is about.
    groups : the posteriors of the groups of the fit; None where it had none.
    """

    mixture: Mixture
    inputs: Inputs
    groups: GroupPosteriors | None = None

    def map_features(self, X: Any) -> Any:
        """phi(x), the columns that the coefficients belong to; X itself without ``features``."""
        phi, gaps = self.inputs.features_of(X)
        return phi if gaps.kept is None else gaps.expand(dense(phi))

    def predict(self, X: Any, groups: Any = None, **roles: Unpack[RowRoles]) -> Array:
        """E[y|x], the weighted mean of the components; for a known group, given its rows too."""
        predictors, weights, _, gaps = self._predictors_and_weights(X, groups, roles)
        return gaps.expand((self.mixture.family.mean(predictors) * weights).sum(axis=1))

    def predict_components(self, X: Any, **roles: Unpack[RowRoles]) -> Array:
        """Each component's mean at X: (n, k)."""
        phi, beside, gaps = self.inputs.predictor_rows(X, **roles)
        return gaps.expand(self.mixture.means(phi, beside))

    def predict_density(self, X: Any, y: Any = None, groups: Any = None, **roles: Unpack[RowRoles]) -> Array:
        """The density of y given x.

        Parameters
        ----------
        X : n rows.
        y : one value per row, or a number, for (n,) densities; or values (n, m), or (1, m) for the same at
            every row, for (n, m). A formula such as ``log(y) ~ x`` has its y, and its density, on the scale of log(y).
        groups : labels of groups seen in the fit.
        """
        return np.exp(self._at(X, y, groups, "log_density", roles))

    def predict_cdf(self, X: Any, y: Any = None, groups: Any = None, **roles: Unpack[RowRoles]) -> Array:
        """P(Y <= y | x); y as for :meth:`predict_density`."""
        return self._at(X, y, groups, "cdf", roles)

    def predict_quantile(self, X: Any, q: Any = 0.5, groups: Any = None, **roles: Unpack[RowRoles]) -> Array:
        """Quantiles of y given x: (n,) for a number q, (n, m) for m of them."""
        levels = np.atleast_1d(np.asarray(q, dtype=np.float64))
        if levels.ndim != 1 or not np.all((levels > 0) & (levels < 1)):
            raise ValueError(f"q must be between 0 and 1 (got {q!r})")
        distribution, gaps = self._predictive(X, groups, roles)
        found = gaps.expand(distribution.quantile(levels))
        return found[:, 0] if np.ndim(q) == 0 else found

    def predict_interval(
        self, X: Any, level: float = 0.95, kind: str = "hdr", groups: Any = None, **roles: Unpack[RowRoles]
    ) -> Region:
        """Where a new y is expected at each row, with probability ``level`` under the model.

        Parameters
        ----------
        X : n rows.
        level : the probability.
        kind : "hdr", the smallest such region, which is several intervals where the components are far
            apart; or "central", one interval with the same probability on either side.
        groups : labels of groups seen in the fit.
        """
        if kind not in ("hdr", "central"):
            raise ValueError(f"kind must be 'hdr' or 'central' (got {kind!r})")
        distribution, gaps = self._predictive(X, groups, roles)
        check_level(level)
        region = distribution.highest_density(level) if kind == "hdr" else distribution.central(level)
        return gaps.expand_region(region)

    def responsibilities(self, X: Any, y: Any = None, groups: Any = None, **roles: Unpack[RowRoles]) -> Array:
        """P(component | x, y): (n, k).

        A model that was fitted by a formula takes y from the data frame, by the formula.
        """
        rows = self.by_own_weights(self.inputs.rows(X, y, groups=groups, **roles))
        return rows.gaps.expand(self.mixture.responsibilities(rows.X, rows.y, rows.groups, rows.beside))

    def assign(self, X: Any, y: Any = None, groups: Any = None, **roles: Unpack[RowRoles]) -> Integers:
        """The likeliest component of each row, counted from 0; -1 for a row with a gap.

        A row in no group that is likelier an outlier (``outliers=``) has -1 as well.
        """
        rows = self.by_own_weights(self.inputs.rows(X, y, groups=groups, **roles))
        shares = self.mixture.responsibilities(rows.X, rows.y, rows.groups, rows.beside)
        found = shares.argmax(axis=1)
        if rows.groups is None and self.mixture.family.outlying:
            clean = shares * self.mixture.clean_probabilities(rows.X, rows.y, rows.beside)
            found = np.where(clean.max(axis=1) < 1.0 - clean.sum(axis=1), -1, found)
        return rows.gaps.expand(found.astype(np.int64), -1)

    def outlier_probabilities(self, X: Any, y: Any = None, groups: Any = None, **roles: Unpack[RowRoles]) -> Array:
        """P(the row is an outlier | x, y): (n,); 0 for models that were fitted without ``outliers=``.

        The responsibilities of a row that certainly is one are the weights: it says nothing of its component.
        Predictions are of rows that are none.
        """
        rows = self.by_own_weights(self.inputs.rows(X, y, groups=groups, **roles))
        if not self.mixture.family.outlying:
            return rows.gaps.expand(np.zeros(len(rows.y)))
        shares = self.mixture.responsibilities(rows.X, rows.y, rows.groups, rows.beside)
        clean = shares * self.mixture.clean_probabilities(rows.X, rows.y, rows.beside)
        return rows.gaps.expand(np.clip(1.0 - clean.sum(axis=1), 0.0, 1.0))

    def sample(self, X: Any, random_state: Any = None, **roles: Unpack[RowRoles]) -> tuple[Array, Integers]:
        """Draw y at X, and the component each draw came from, counted from 0."""
        phi, beside, gaps = self.inputs.predictor_rows(X, **roles)
        y, labels = self.mixture.sample(phi, np.random.default_rng(random_state), beside=beside)
        return gaps.expand(y), gaps.expand(labels, -1)

    def score(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None, **roles: Unpack[RowRoles]
    ) -> float:
        """Mean log-likelihood per row, so that cross-validation can choose k."""
        found = self.evaluation(X, y, sample_weight, groups, **roles)
        return found.log_likelihood / found.rows

    def evaluation(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None, **roles: Unpack[RowRoles]
    ) -> Evaluation:
        """Log-likelihood, counts and entropy of some rows under the mixture."""
        rows = self.by_own_weights(self.inputs.rows(X, y, sample_weight, groups, **roles))
        return evaluate(self.mixture, rows.X, rows.y, rows.groups, rows.weight, rows.beside)

    def by_own_weights(self, rows: ModelRows) -> ModelRows:
        """Rows with the weights of their groups beside them, where groups have weights of their own.

        A group that is not remembered has the mean weights of all.
        """
        if self.mixture.prior is None or rows.labels_of_rows is None:
            return rows
        weights = np.broadcast_to(self.mixture.weights, (len(rows.y), self.mixture.n_components))
        if self.groups is not None:
            weights = self.groups.weights(np.asarray(rows.labels_of_rows), weights)
        return replace(rows, labels_of_rows=None, beside={**rows.beside, "weights": weights})

    def _at(self, X: Any, y: Any, groups: Any, what: str, roles: RowRoles) -> Array:
        X, y, groups = self.inputs.with_target(X, y, groups)
        if self.mixture.family.takes_trials:
            y, roles = split_response(y, roles)
        if y is None:
            raise ValueError("y is missing: give the values to look at, one per row or a grid (1, m)")
        distribution, gaps = self._predictive(X, groups, roles)
        values = np.asarray(y, dtype=np.float64)
        n = gaps.n_rows
        if values.ndim > 2 or (values.ndim > 0 and len(values) not in ((1, n) if values.ndim == 2 else (n,))):
            raise ValueError(f"y must have {n} rows, or be a grid of shape (1, m) (got shape {values.shape})")
        columns = values if values.ndim == 2 else np.reshape(values, (-1, 1))
        columns = gaps.complete(np.broadcast_to(columns, (n, columns.shape[1])))
        found = gaps.expand(getattr(distribution, what)(columns))
        return found if values.ndim == 2 else found[:, 0]

    def _predictive(self, X: Any, groups: Any, roles: RowRoles) -> tuple[Predictive | CountPredictive, Gaps]:
        predictors, weights, beside, gaps = self._predictors_and_weights(X, groups, roles)
        return predictive(predictors, weights, self.mixture.sigma, self.mixture.family, beside), gaps

    def _predictors_and_weights(
        self, X: Any, groups: Any, roles: RowRoles
    ) -> tuple[Array, Array, dict[str, Array], Gaps]:
        """Each component's linear predictor and weight (n, k) at the complete rows of X, and which rows are not."""
        X, groups = self.inputs.with_groups(X, groups)
        phi, beside, gaps = self.inputs.predictor_rows(X, **roles)
        predictors = self.mixture.predictors(phi, beside)
        weights = np.broadcast_to(np.exp(self.mixture.log_weights(beside)), predictors.shape)
        if groups is not None:
            if self.groups is None:
                raise ValueError("this model remembers no groups: fit(X, y, groups=...) does; or leave out groups")
            labels, n = np.asarray(groups), gaps.n_rows
            if labels.shape != (n,):
                raise ValueError(f"groups must have one label per row (got shape {labels.shape} for {n} rows)")
            weights = self.groups.weights(gaps.complete(labels), weights)
        return predictors, weights, beside, gaps
