"""What a fitted mixture says about y: means, density, quantiles, regions, and whose row it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import softmax

from wmlr.inference.intervals import checked_level
from wmlr.model.mixture import Mixture
from wmlr.model.predictive import Predictive, Region
from wmlr.numerics.arrays import Array, Integers


class PredictionMixin:
    """Prediction from ``mixture_``.

    ``groups`` in these methods is for rows of groups that were there when the model was fitted: such a row's
    components weigh by the group's posterior. A group not seen before has the mixture's own weights.

    Attributes
    ----------
    group_labels_ : (G,) labels of the groups of the last fit in memory, if it had groups.
    group_responsibilities_ : (G, k) P(component | the group's rows).
    """

    mixture_: Mixture
    group_labels_: Any
    group_responsibilities_: Array

    if TYPE_CHECKING:

        def _seen(self, X: Any) -> Any: ...

        def _seen_rows(self, X: Any, y: Any, groups: Any) -> tuple[Any, Array, Integers | None]: ...

        def _framed(self, X: Any, y: Any, groups: Any, *, target: bool) -> tuple[Any, Any, Any]: ...

    def predict(self, X: Any, groups: Any = None) -> Array:
        """E[y|x], the weighted mean of the components; for a known group, given its rows too."""
        law = self._predictive(X, groups)
        return np.asarray((law.means * law.weights).sum(axis=1))

    def predict_components(self, X: Any) -> Array:
        """Each component's mean at X: (n, k)."""
        phi = self._seen(X)
        return self.mixture_.means(phi)

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
        found = self._predictive(X, groups).quantile(levels)
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
        law = self._predictive(X, groups)
        checked_level(level)
        return law.highest_density(level) if kind == "hdr" else law.central(level)

    def responsibilities(self, X: Any, y: Any = None, groups: Any = None) -> Array:
        """P(component | x, y): (n, k).

        A model that was fitted by a formula takes y from the data frame, by the formula.
        """
        phi, y, codes = self._seen_rows(X, y, groups)
        return self.mixture_.responsibilities(phi, y, codes)

    def assign(self, X: Any, y: Any = None, groups: Any = None) -> Integers:
        """The likeliest component of each row."""
        return np.asarray(self.responsibilities(X, y, groups).argmax(axis=1), dtype=np.int64)

    def sample(self, X: Any, random_state: Any = None) -> tuple[Array, Integers]:
        """Draw y at X, and the component each draw came from."""
        phi = self._seen(X)
        return self.mixture_.sample(phi, np.random.default_rng(random_state))

    def _at(self, X: Any, y: Any, groups: Any, what: str) -> Array:
        X, y, groups = self._framed(X, y, groups, target=True)
        if y is None:
            raise ValueError("y is missing: give the values to look at, one per row or a grid (1, m)")
        law = self._predictive(X, groups)
        values = np.asarray(y, dtype=np.float64)
        n = len(law.means)
        if values.ndim > 2 or (values.ndim > 0 and len(values) not in ((1, n) if values.ndim == 2 else (n,))):
            raise ValueError(f"y must have {n} rows, or be a grid of shape (1, m) (got shape {values.shape})")
        columns = values if values.ndim == 2 else np.reshape(values, (-1, 1))
        found: Array = getattr(law, what)(np.broadcast_to(columns, (n, columns.shape[1])))
        return found if values.ndim == 2 else found[:, 0]

    def _predictive(self, X: Any, groups: Any) -> Predictive:
        X, _, groups = self._framed(X, None, groups, target=False)
        means = self.predict_components(X)
        weights = np.broadcast_to(self.mixture_.weights, means.shape)
        if groups is not None:
            weights = self._group_weights(groups, len(means))
        return Predictive(means, weights, self.mixture_.sigma, self.mixture_.noise)

    def _group_weights(self, groups: Any, n: int) -> Array:
        if not hasattr(self, "group_labels_"):
            raise ValueError("this model remembers no groups: fit(X, y, groups=...) does; or leave out groups")
        labels = np.asarray(groups)
        if labels.shape != (n,):
            raise ValueError(f"groups must have one label per row (got shape {labels.shape} for {n} rows)")
        places = {label: place for place, label in enumerate(np.asarray(self.group_labels_).tolist())}
        known = np.vstack([self.group_responsibilities_, self.mixture_.weights])
        return known[[places.get(label, -1) for label in labels.tolist()]]

    def _remember(self, phi: Any, y: Array, groups: Any, weight: Array | None) -> None:
        """Keep each training group's posterior."""
        if groups is None:
            return
        labels, codes = np.unique(np.asarray(groups), return_inverse=True)
        densities = self.mixture_.log_densities(phi, y)
        joint = np.zeros((len(labels), self.mixture_.n_components))
        np.add.at(joint, codes, densities if weight is None else densities * weight[:, None])
        with np.errstate(divide="ignore"):
            self.group_responsibilities_ = np.asarray(softmax(joint + np.log(self.mixture_.weights), axis=1))
        self.group_labels_ = labels

    def _forget(self) -> None:
        """Drop what belongs to an earlier fit only."""
        for name in ("group_labels_", "group_responsibilities_", "formula_", "effective_parameters_"):
            self.__dict__.pop(name, None)
