"""Normal noise among outliers: rows that follow no line, spread evenly over the range of y."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from scipy.special import expit, logit

from wmlr.families.base import Derivatives, OwnDerivatives, OwnParameter, Terms
from wmlr.families.normal import Normal
from wmlr.numerics.arrays import Array

OUTLIERS = "(outliers)"  # in brackets, as no column is called
LEAST = 1e-12  # a share that is no outlier in any data


@dataclass(frozen=True)
class NormalWithOutliers(Normal):
    """Normal noise in a component's rows but for a share of them, whose y is uniform between ``low`` and ``high``.

    Each row is an outlier by itself, whatever component it or its group has. The uniform density is taken to hold
    beyond the range as well, where new rows may lie. Quantiles and intervals are those of the other rows.

    Attributes
    ----------
    share : of the outliers among all rows, between 0 and 1.
    low, high : the range of y.
    estimated : 1 where the share is a parameter to be estimated, 0 where it is known.
    """

    share: float = 0.3
    low: float = 0.0
    high: float = 1.0
    estimated: float = 1.0

    name: ClassVar[str] = "normal-with-outliers"
    least_squares: ClassVar[bool] = False
    heavy_tails: ClassVar[bool] = True
    outlying: ClassVar[bool] = True
    log_constant: ClassVar[float] = 0.0

    def __post_init__(self) -> None:
        if not 0.0 < self.share < 1.0:
            raise ValueError(f"the share of outliers must be between 0 and 1 (got {self.share})")
        if not 0.0 < self.high - self.low < np.inf:
            raise ValueError(f"the range of y must be finite and not empty (got {self.low} to {self.high})")

    @property
    def own(self) -> OwnParameter | None:
        """The share of outliers, on the logit's scale."""
        if not self.estimated:
            return None
        return OwnParameter(OUTLIERS, self.share, float(logit(self.share)), self.own_information())

    @property
    def outlier_share(self) -> float:
        return self.share

    def improve(self, weight: float) -> NormalWithOutliers:
        return self._with(1.0 - weight)

    def own_score(self, weight: float) -> float:
        return 1.0 - weight - self.share

    def own_information(self) -> float:
        return self.share * (1.0 - self.share)

    def move_own(self, step: float) -> NormalWithOutliers:
        return self._with(float(expit(logit(self.share) + step)))

    def place(self, low: float, high: float) -> NormalWithOutliers:
        return replace(self, low=low, high=high)

    def shift(self, level: float) -> Self:
        return replace(self, low=self.low + level, high=self.high + level)

    def _with(self, share: float) -> NormalWithOutliers:
        return replace(self, share=min(max(share, LEAST), 1.0 - LEAST)) if self.estimated else self

    @property
    def log_outlying(self) -> float:
        """The log-density of an outlier, times the share."""
        return float(np.log(self.share) - np.log(self.high - self.low))

    def log_likelihood(self, y: Array, predictor: Array, sigma: Array) -> Array:
        clean = super().log_likelihood(y, predictor, sigma) + np.log1p(-self.share)
        return np.asarray(np.logaddexp(clean, self.log_outlying))

    def clean_probability(self, y: Array, predictor: Array, sigma: Array) -> Array:
        """P(no outlier | y), in each component."""
        clean = super().log_likelihood(y, predictor, sigma) + np.log1p(-self.share)
        return np.asarray(expit(clean - self.log_outlying))

    def terms(self, y: Array, predictor: Array, s2: Array) -> Terms:
        densities, residual = super().terms(y, predictor, s2)[:2]
        densities += np.log1p(-self.share)
        clean = expit(densities - self.log_outlying)
        return Terms(np.logaddexp(densities, self.log_outlying), residual, clean)

    def derivatives(self, y: Array, predictor: Array, s2: Array) -> Derivatives:
        """Those of log((1 - share) normal + share uniform); the own parameter is the logit of the share."""
        normal = super().derivatives(y, predictor, s2)
        clean = self.clean_probability(y, predictor, np.sqrt(s2))
        doubt = clean * (1.0 - clean)
        own = OwnDerivatives(
            first=(1.0 - clean) - self.share,
            with_predictor=doubt * normal.predictor,
            with_log_sigma=doubt * normal.log_sigma,
            twice=self.share * (1.0 - self.share) - doubt,
        )
        return Derivatives(
            clean * normal.predictor,
            clean * normal.log_sigma,
            clean * normal.predictor_twice - doubt * normal.predictor**2,
            clean * normal.mixed - doubt * normal.predictor * normal.log_sigma,
            clean * normal.log_sigma_twice - doubt * normal.log_sigma**2,
            own if self.estimated else None,
        )

    def sample(self, generator: np.random.Generator, predictor: Array, sigma: Array) -> Array:
        clean = super().sample(generator, predictor, sigma)
        astray = generator.random(len(predictor)) < self.share
        return np.where(astray, generator.uniform(self.low, self.high, len(predictor)), clean)
