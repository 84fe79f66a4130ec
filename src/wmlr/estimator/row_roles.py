"""What a user gives of each row besides X, y, weights and groups, and what the rows then have beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypedDict

import numpy as np

from wmlr.engines.validation import without_mask
from wmlr.model.known import KNOWN
from wmlr.numerics.arrays import Array

NEEDED = {
    "offset": "an offset or exposure: give offset= or exposure=",
    "trials": "trials: give trials= (or successes and failures as y)",
}
"""Without them rows have an offset of 0 and one trial, which is right only where the fit's had so too."""


class RowRoles(TypedDict, total=False):
    """Further keywords of ``fit`` and of whatever looks at rows again.

    Attributes
    ----------
    offset : (n,) a number that is added to the linear predictor of every component, or one for all rows.
    exposure : (n,) a positive number whose logarithm is such an offset: hours watched, or people at risk.
    trials : (n,) of a binomial, where y has the successes alone.
    labels : (n,) the component that a row is known to be of, counted from 0, and -1 where it is not known.
    """

    offset: Any
    exposure: Any
    trials: Any
    labels: Any


def needed_roles(given: Mapping[str, Any]) -> tuple[str, ...]:
    """What a fit to rows with these roles needs of any others: an offset, of either name, and trials."""
    here = {"offset" if role == "exposure" else role for role, value in given.items() if value is not None}
    return tuple(role for role in NEEDED if role in here)


def refuse_both_offsets(given: Mapping[str, Any]) -> None:
    """Raise where an offset is given under both its names, of which one may stand for the other."""
    if given.get("offset") is not None and given.get("exposure") is not None:
        raise ValueError(
            "offset= and exposure= are two names of one thing, and both are given: leave one out, or give their sum as "
            "offset=offset + log(exposure)"
        )


def refuse_forgotten(needed: Iterable[str], given: Mapping[str, Any]) -> None:
    """Raise where rows come without what those of the fit had, or with two offsets."""
    refuse_both_offsets(given)
    for role in needed:
        if role not in needed_roles(given):
            raise ValueError(f"the fit had {NEEDED[role]} for these rows as well")


def read_beside(given: RowRoles, n: int, gaps: bool = False) -> dict[str, Array]:
    """Each role's numbers, checked; with ``gaps``, NaN stays.

    Raises
    ------
    ValueError
        At numbers that are not finite, exposures that are not positive, trials that are no counts, and labels that
        are no numbers of components.
    """
    found: dict[str, Array] = {}
    if given.get("offset") is not None:
        found["offset"] = _numbers("offset", given["offset"], n, gaps)
    if given.get("exposure") is not None:
        exposure = _numbers("exposure", given["exposure"], n, gaps)
        _refuse_rows("exposure", exposure, exposure <= 0, "be positive", ": leave out rows without any")
        found["offset"] = np.log(exposure) + found.get("offset", 0.0)  # a formula's own stays beside it
    if given.get("trials") is not None:
        found["trials"] = _numbers("trials", given["trials"], n, gaps)
        _refuse_rows("trials", found["trials"], (found["trials"] < 0) | (found["trials"] % 1 != 0), "be whole numbers")
    if given.get("labels") is not None:
        known = _numbers("labels", given["labels"], n, gaps)
        _refuse_rows("labels", known, (known < -1) | (known % 1 != 0), "be -1 or a component's number from 0")
        found[KNOWN] = known
    return found


def with_offset(given: RowRoles, offset: Array | None) -> RowRoles:
    """The roles with a formula's offset, beside one that is given."""
    if offset is None:
        return given
    further = given.get("offset")
    return {**given, "offset": offset if further is None else offset + np.asarray(further, dtype=np.float64)}


def split_response(y: Any, given: RowRoles) -> tuple[Any, RowRoles]:
    """Successes, and the roles with their trials, where y has two columns: successes and failures."""
    shape = () if y is None else np.asarray(y).shape
    if len(shape) != 2 or shape[1] != 2:
        return y, given
    pairs = np.asarray(without_mask(y, "y", gaps=True), dtype=np.float64)
    _refuse_rows("failures", pairs[:, 1], pairs[:, 1] < 0, "not be negative")
    return pairs[:, 0], {**given, "trials": pairs.sum(axis=1)}


def _numbers(name: str, given: Any, n: int, gaps: bool) -> Array:
    values = np.asarray(without_mask(given, name, gaps), dtype=np.float64)
    values = np.full(n, values) if values.ndim == 0 else values
    if values.shape != (n,):
        raise ValueError(f"{name} must be one number per row (got shape {values.shape} for {n} rows)")
    _refuse_rows(name, values, np.isinf(values) if gaps else ~np.isfinite(values), "be finite")
    return values


def _refuse_rows(name: str, values: Array, bad: Any, must: str, remedy: str = "") -> None:
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(f"{name} must {must} (got {values[row]} in row {row}){remedy}")
