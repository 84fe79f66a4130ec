"""Whether the components of a fit are nothing but the values that y takes."""

from __future__ import annotations

import numpy as np

from wmlr.estimator.inputs import ModelRows
from wmlr.io.users_line import warn_user
from wmlr.model.mixture import Mixture
from wmlr.statistics.grain import coarsest, grain_of

SAME = 0.9  # of the rows have the commonest y of their component


def warn_of_whole_values(mixture: Mixture, rows: ModelRows) -> bool:
    """Warn, and say yes, where components with one sigma have drawn together on single values of y.

    Counts and ratings have few values. With enough components each may have one of them for its own; sigma then falls
    below the deviation that rounding y leaves, and the likelihood of a density at single points has no bound.
    """
    family = mixture.family
    if not family.has_scale or family.discrete or mixture.n_components < 2 or rows.groups is not None:
        return False
    sigma, grain = float(mixture.sigma.max()), coarsest(grain_of(rows.y))
    level = float(np.mean(family.log_deviation(rows.y)))
    if not 0.0 < sigma < grain * np.exp(-level) / np.sqrt(12.0) or _share_of_commonest(mixture, rows) < SAME:
        return False
    warn_user(
        f"sigma is {sigma:.2g}, less than rounding y to {grain:g} leaves: the components are values of y, not lines "
        "through it; try fewer components, or a family for counts or shares",
        UserWarning,
    )
    return True


def _share_of_commonest(mixture: Mixture, rows: ModelRows) -> float:
    labels = mixture.responsibilities(rows.X, rows.y, beside=rows.beside).argmax(axis=1)
    counts = [np.unique(rows.y[labels == j], return_counts=True)[1] for j in range(mixture.n_components)]
    return float(sum(count.max(initial=0) for count in counts)) / len(rows.y)
