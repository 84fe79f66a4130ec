"""A net under gradient methods, whose steps may be too long: it ends a run that leaves the data behind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wmlr.core.round import Fit
from wmlr.numerics.arrays import Array
from wmlr.numerics.coordinates import Frame, ScaledFrame

FAR = 1e4  # times the size of y: no line that fits anything is so high
FALL_PER_ROW = 0.01  # of log-likelihood per row below the best: more than steps that oscillate lose


def has_diverged(frame: Frame | ScaledFrame, B: Array, s2: Array) -> bool:
    """Whether parameters are not finite, or the lines they make run far beyond the data."""
    if not (np.all(np.isfinite(B)) and np.all(np.isfinite(s2))):
        return True
    gram = frame.known_gram
    if gram is None:
        return False
    heights = np.einsum("ri,rs,si->i", B, gram, B)
    return bool(np.any(heights > (FAR * frame.scale) ** 2))


def divergence_reason(iteration: int, remedy: str) -> str:
    """Why a run that went astray was ended."""
    return f"the coefficients ran far beyond the data at iteration {iteration}, so its steps are too long: {remedy}"


def describe_fall(best: float, last: float, weight: float, remedy: str) -> str:
    """What to say of a run that ended well below where it has been; nothing where it did not."""
    if last >= best - FALL_PER_ROW * weight:
        return ""
    return f"the log-likelihood fell from {best:.6g} to {last:.6g} on the way, so its steps are too long: {remedy}"


def judge_by_fall(fit: Fit, best: float, last: float, weight: float, remedy: str) -> Fit:
    """The fit, with what a fall from the ``best`` value on the way to the ``last`` says of it.

    Steps that are too long may lose a component that the data have: an empty one is then no finding.
    """
    reason = describe_fall(best, last, weight, remedy)
    emptied = bool(np.any(fit.mixture.weights * fit.units < 1.0))
    if fit.converged and not (reason and emptied):
        return fit
    reason = fit.reason or reason
    return replace(fit, converged=False, reason=reason, diverged=remedy in reason)
