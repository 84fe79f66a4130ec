"""What a fitted mixture says about y: means, density, quantiles, regions, and which component a row belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmlr.estimator.gaps import Gaps
from wmlr.estimator.inputs import Inputs, ModelRows
from wmlr.inference.criteria import Evaluation, evaluate
from wmlr.inference.intervals import check_level
from wmlr.model.counts import CountPredictive, predictive
from wmlr.model.mixture import Mixture
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
        return cls(rows.labels, mixture.unit_responsibilities(rows.X, rows.y, rows.groups, rows.weight))

    def weights(self, groups: Any, otherwise: Array, n: int) -> Array:
        """(n, k) the posterior of each row's group; a group that the fit did not see has the weights ``otherwise``."""
        labels = np.asarray(groups)
        if labels.shape != (n,):
            raise ValueError(f"groups must have one label per row (got shape {labels.shape} for {n} rows)")
        places = {label: place for place, label in enumerate(self.labels.tolist())}
        known = np.vstack([self.responsibilities, otherwise])
        return known[[places.get(label, -1) for label in labels.tolist()]]


@dataclass(frozen=True, eq=False)
class MixturePrediction:
    """Prediction from a mixture and the way new rows are read.

    ``groups`` in ``predict`` and its kin is for rows of groups that were there when the model was fitted: such a row's
    components weigh by the group's posterior. A group not seen before has the mixture's own weights. Where gaps may be
    dropped (``missing="drop"``), a row with a gap has NaN for an answer, and -1 for a component.

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
        return phi if gaps.kept is None else gaps.spread(dense(phi))

    def predict(self, X: Any, groups: Any = None) -> Array:
        """E[y|x], the weighted mean of the components; for a known group, given its rows too."""
        means, weights, gaps = self._means_and_weights(X, groups)
        return gaps.spread((means * weights).sum(axis=1))

    def predict_components(self, X: Any) -> Array:
        """Each component's mean at X: (n, k)."""
        phi, gaps = self.inputs.features_of(X)
        return gaps.spread(self.mixture.means(phi))

    def predict_density(self, X: Any, y: Any = None, groups: Any = None) -> Array:
        """The density of y given x.

        Parameters
        ----------
        X : n rows.
        y : one value per row, or a number, for (n,) densities; or values (n, m), or (1, m) for the same at
            every row, for (n, m). A formula such as ``log(y) ~ x`` has its y, and its density, on the scale of log(y).
        groups : labels of groups seen in the fit.
        """
        return np.exp(self._at(X, y, groups, "log_density"))

    def predict_cdf(self, X: Any, y: Any = None, groups: Any = None) -> Array:
        """P(Y <= y | x); y as for :meth:`predict_density`."""
        return self._at(X, y, groups, "cdf")

    def predict_quantile(self, X: Any, q: Any = 0.5, groups: Any = None) -> Array:
        """Quantiles of y given x: (n,) for a number q, (n, m) for m of them."""
        levels = np.atleast_1d(np.asarray(q, dtype=np.float64))
        if levels.ndim != 1 or not np.all((levels > 0) & (levels < 1)):
            raise ValueError(f"q must be between 0 and 1 (got {q!r})")
        distribution, gaps = self._predictive(X, groups)
        found = gaps.spread(distribution.quantile(levels))
        return found[:, 0] if np.ndim(q) == 0 else found

    def predict_interval(self, X: Any, level: float = 0.95, kind: str = "hdr", groups: Any = None) -> Region:
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
        distribution, gaps = self._predictive(X, groups)
        check_level(level)
        region = distribution.highest_density(level) if kind == "hdr" else distribution.central(level)
        return gaps.spread_region(region)

    def responsibilities(self, X: Any, y: Any = None, groups: Any = None) -> Array:
        """P(component | x, y): (n, k).

        A model that was fitted by a formula takes y from the data frame, by the formula.
        """
        rows = self.inputs.rows(X, y, groups=groups)
        return rows.gaps.spread(self.mixture.responsibilities(rows.X, rows.y, rows.groups))

    def assign(self, X: Any, y: Any = None, groups: Any = None) -> Integers:
        """The likeliest component of each row, counted from 0; -1 for a row with a gap.

        A row in no group that is likelier an outlier (``outliers=``) has -1 as well.
        """
        rows = self.inputs.rows(X, y, groups=groups)
        shares = self.mixture.responsibilities(rows.X, rows.y, rows.groups)
        found = shares.argmax(axis=1)
        if rows.groups is None and self.mixture.family.outlying:
            clean = shares * self.mixture.clean_probabilities(rows.X, rows.y)
            found = np.where(clean.max(axis=1) < 1.0 - clean.sum(axis=1), -1, found)
        return rows.gaps.spread(found.astype(np.int64), -1)

    def outlier_probabilities(self, X: Any, y: Any = None, groups: Any = None) -> Array:
        """P(the row is an outlier | x, y): (n,); 0 for models that were fitted without ``outliers=``.

        The responsibilities of a row that certainly is one are the weights: it says nothing of its component.
        Predictions are of rows that are none.
        """
        rows = self.inputs.rows(X, y, groups=groups)
        if not self.mixture.family.outlying:
            return rows.gaps.spread(np.zeros(len(rows.y)))
        shares = self.mixture.responsibilities(rows.X, rows.y, rows.groups)
        clean = shares * self.mixture.clean_probabilities(rows.X, rows.y)
        return rows.gaps.spread(np.clip(1.0 - clean.sum(axis=1), 0.0, 1.0))

    def sample(self, X: Any, random_state: Any = None) -> tuple[Array, Integers]:
        """Draw y at X, and the component each draw came from, counted from 0."""
        phi, gaps = self.inputs.features_of(X)
        y, labels = self.mixture.sample(phi, np.random.default_rng(random_state))
        return gaps.spread(y), gaps.spread(labels, -1)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> float:
        """Mean log-likelihood per row, so that cross-validation can choose k."""
        found = self.evaluation(X, y, sample_weight, groups)
        return found.log_likelihood / found.rows

    def evaluation(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Evaluation:
        """Log-likelihood, counts and entropy of some rows under the mixture."""
        rows = self.inputs.rows(X, y, sample_weight, groups)
        return evaluate(self.mixture, rows.X, rows.y, rows.groups, rows.weight)

    def _at(self, X: Any, y: Any, groups: Any, what: str) -> Array:
        X, y, groups = self.inputs.with_target(X, y, groups)
        if y is None:
            raise ValueError("y is missing: give the values to look at, one per row or a grid (1, m)")
        distribution, gaps = self._predictive(X, groups)
        values = np.asarray(y, dtype=np.float64)
        n = gaps.n_rows
        if values.ndim > 2 or (values.ndim > 0 and len(values) not in ((1, n) if values.ndim == 2 else (n,))):
            raise ValueError(f"y must have {n} rows, or be a grid of shape (1, m) (got shape {values.shape})")
        columns = values if values.ndim == 2 else np.reshape(values, (-1, 1))
        columns = gaps.complete(np.broadcast_to(columns, (n, columns.shape[1])))
        found = gaps.spread(getattr(distribution, what)(columns))
        return found if values.ndim == 2 else found[:, 0]

    def _predictive(self, X: Any, groups: Any) -> tuple[Predictive | CountPredictive, Gaps]:
        means, weights, gaps = self._means_and_weights(X, groups)
        return predictive(means, weights, self.mixture.sigma, self.mixture.family), gaps

    def _means_and_weights(self, X: Any, groups: Any) -> tuple[Array, Array, Gaps]:
        """Each component's mean and weight (n, k) at the complete rows of X, and which rows are not."""
        X, groups = self.inputs.with_groups(X, groups)
        phi, gaps = self.inputs.features_of(X)
        means = self.mixture.means(phi)
        weights = np.broadcast_to(self.mixture.weights, means.shape)
        if groups is not None:
            if self.groups is None:
                raise ValueError("this model remembers no groups: fit(X, y, groups=...) does; or leave out groups")
            weights = gaps.complete(self.groups.weights(groups, self.mixture.weights, gaps.n_rows))
        return means, weights, gaps
