"""Confidence intervals, by the delta method or from draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit, ndtri

from wmlr.inference.uncertainty import SIGMA, Estimates, standard_errors
from wmlr.io.table import import_extra
from wmlr.io.text_table import ShownAsTable
from wmlr.numerics.arrays import Array


@dataclass(frozen=True, eq=False, repr=False)
class ConfidenceIntervals(ShownAsTable):
    """An interval for each estimate.

    Attributes
    ----------
    names : of the estimates, such as ``x1[2]`` for the coefficient of x1 in the second component.
    estimates, errors, lower, upper : one number per name; NaN where an error is not defined.
    level : the share of repetitions in which such an interval covers the truth.
    """

    names: tuple[str, ...]
    estimates: Array
    errors: Array
    lower: Array
    upper: Array
    level: float = 0.95

    @classmethod
    def of(cls, estimates: Estimates, covariance: Array, level: float = 0.95) -> ConfidenceIntervals:
        """Normal intervals: symmetric for coefficients, for log sigma, and for the logits of weights.

        So an interval for sigma stays above 0, and one for a weight between 0 and 1. A sigma that may be nil, as a
        negative binomial's, has one from 0 on where an interval that is symmetric for sigma^2 reaches 0.

        Parameters
        ----------
        estimates : what was estimated.
        covariance : of the free parameters.
        level : the coverage wanted.
        """
        reach = float(ndtri((1 + check_level(level)) / 2))
        values, errors = estimates.values, standard_errors(estimates.covariance(covariance))
        bounds = np.array([values - reach * errors, values + reach * errors])
        sides = np.array([[-reach], [reach]])
        scales = np.array(estimates.scales)
        log = np.isin(scales, ("log", "square"))
        with np.errstate(over="ignore"):
            bounds[:, log] = values[log] * np.exp(sides * errors[log] / values[log])
        vanishing = (scales == "square") & (2.0 * reach * errors >= values)
        bounds[0, vanishing] = 0.0
        least = values[vanishing]
        bounds[1, vanishing] = np.sqrt(least * (least + 2.0 * reach * errors[vanishing]))
        share = (scales == "logit") & (values > 0) & (values < 1)
        inside = values[share]
        bounds[:, share] = expit(logit(inside) + sides * errors[share] / (inside * (1 - inside)))
        return cls(estimates.names, values, errors, bounds[0], bounds[1], level)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, name: str) -> tuple[float, float]:
        """The interval of one estimate."""
        if name not in self.names:
            raise KeyError(f"there is no estimate {name!r}; there are {', '.join(self.names)}")
        place = self.names.index(name)
        return float(self.lower[place]), float(self.upper[place])

    @property
    def without_error(self) -> tuple[str, ...]:
        """The coefficients and weights that have an estimate and no error: the rows do not bound them."""
        unknown = np.isnan(self.errors) & np.isfinite(self.estimates)
        return tuple(name for name, lacks in zip(self.names, unknown) if lacks and not name.startswith(SIGMA))

    def to_frame(self) -> Any:
        """As a pandas DataFrame, with the names as index."""
        pandas = import_extra("pandas", "to_frame() needs pandas: pip install 'wmlr[io]'")
        columns = {"estimate": self.estimates, "error": self.errors, "lower": self.lower, "upper": self.upper}
        return pandas.DataFrame(columns, index=list(self.names))

    def _cells(self) -> tuple[list[str], list[list[str]], str]:
        columns = (self.estimates, self.errors, self.lower, self.upper)
        rows = [[name, *map(number, values)] for name, *values in zip(self.names, *columns)]
        return ["", "estimate", "std err", *edges(self.level)], rows, ""


def check_level(level: float) -> float:
    """A level between 0 and 1, or an error."""
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1 (got {level!r})")
    return float(level)


def edges(level: float) -> tuple[str, str]:
    """The headers of an interval's two columns."""
    return f"[{(1 - level) / 2:.4g}", f"{(1 + level) / 2:.4g}]"


def number(value: float) -> str:
    """Four decimals; nothing where there is no number, and powers of ten where four would hide it."""
    if np.isnan(value):
        return ""
    return f"{value:.4f}" if value == 0 or 1e-3 <= abs(value) < 1e7 else f"{value:.3e}"
