"""Settings are looked at before any work is done, and refused with their value."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse
from torch import nn

from wmlr.estimator.settings import NUMBER

COUNTS = {
    "n_components": 1, "width": 1, "depth": 0, "n_outputs": 1, "ascent_steps": 1, "nodes": 1, "max_epochs": 1,
    "warmup_epochs": 0, "n_init": 1, "trial_epochs": 0, "local_steps": 1,
}  # fmt: skip
OPTIONAL_COUNTS = {"refresh": 1, "batch_size": 1, "patience": 1}
CHOICES = {
    "method": ("wmlr", "em"), "solver": ("auto", "gda"), "discriminator": ("network", "heads"),
    "dtype": ("float64", "float32"),
}  # fmt: skip


def check(estimator: Any) -> None:
    """Refuse settings that make no sense."""
    for name, least in (COUNTS | OPTIONAL_COUNTS).items():
        value = getattr(estimator, name)
        if value is None and name in OPTIONAL_COUNTS:
            continue
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
            raise ValueError(f"{name} must be a whole number of at least {least} (got {value!r})")
    for name, allowed in CHOICES.items():
        value = getattr(estimator, name)
        if value not in allowed:
            raise ValueError(f"{name} must be {' or '.join(map(repr, allowed))} (got {value!r})")
    for name in ("learning_rate", "sigma", "lam"):
        value = getattr(estimator, name)
        if value is None and name != "learning_rate":
            continue
        if not isinstance(value, NUMBER) or not 0 < value < np.inf:
            raise ValueError(f"{name} must be positive{'' if name == 'learning_rate' else ' or None'} (got {value!r})")
    for name in ("weight_decay", "averaging"):
        value = getattr(estimator, name)
        if not isinstance(value, NUMBER) or not 0 <= value < np.inf:
            raise ValueError(f"{name} must be a number of at least 0 (got {value!r})")
    share = estimator.validation_fraction
    if not isinstance(share, NUMBER) or not 0 <= share < 1:
        raise ValueError(f"validation_fraction must be at least 0 and below 1 (got {share!r})")
    if estimator.phi is not None and not isinstance(estimator.phi, nn.Module):
        raise ValueError(f"phi must be a torch.nn.Module or None (got {estimator.phi!r})")


def refuse_sparse(X: Any) -> None:
    """Raise where X is sparse: a network's first layer wants all of it."""
    if issparse(X):
        raise TypeError("Sparse data was passed for X, but dense data is required. Use '.toarray()' to convert it.")


def seed_of(random_state: Any) -> int:
    """A number that decides everything random in a fit."""
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    return int(np.random.default_rng(random_state).integers(2**31))
