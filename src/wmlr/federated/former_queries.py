"""Queries as they were packed before they held a family, so that runs recorded then can be taken up again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from wmlr.core.query import Query, Wrapper
from wmlr.core.round import Together
from wmlr.families import NORMAL, Family, Student
from wmlr.federated.messages import query_codec
from wmlr.federated.wire import Codec
from wmlr.numerics.arrays import Array, Sums
from wmlr.statistics import candidates, information, products, score


@dataclass(frozen=True)
class StudentScore:
    """:class:`wmlr.statistics.score.MixtureScore` under Student's noise."""

    coef: Array
    log_weights: Array
    s2: Array
    dof: float
    grams: bool


@dataclass(frozen=True)
class StudentInformation:
    """:class:`wmlr.statistics.information.ObservedInformation` under Student's noise."""

    coef: Array
    weights: Array
    s2: Array
    dof: float


@dataclass(frozen=True)
class CandidateScores:
    """:class:`wmlr.statistics.candidates.CandidateScores`; without degrees of freedom the noise is normal."""

    transform: Array
    coef: Array
    weights: Array
    s2: Array
    dof: float | None


@dataclass(frozen=True)
class PosteriorProducts:
    """:class:`wmlr.statistics.products.PosteriorProducts`; without degrees of freedom the noise is normal."""

    coef: Array
    log_weights: Array
    s2: Array
    V: Array
    dof: float | None


FORMER = (StudentScore, StudentInformation, CandidateScores, PosteriorProducts)


def former_digest(query: Query) -> str | None:
    """The fingerprint that a query had then; None where there was no such query."""
    try:
        was = _former(query)
    except LookupError:
        return None
    now = query_codec()
    kinds = {**now.kinds, **{kind.__name__: kind for kind in FORMER}}
    codec = Codec(now.what, kinds, {**now.stands_for, Query: (*now.stands_for[Query], *FORMER)})
    return sha256(codec.encode(was)).hexdigest()


def with_present_names(sums: Sums) -> Sums:
    """Sums that were recorded then, with the names that their parts have now."""
    now = {name: f"{name.removesuffix('grip')}curvature_weight" for name in sums if name.split("/")[-1] == "grip"}
    return {now.get(name, name): value for name, value in sums.items()}


def _former(query: Any) -> Any:
    """What stood for a query; LookupError where it is about a family that was not known then."""
    if isinstance(query, Together):
        return replace(query, queries=tuple(_former(part) for part in query.queries))
    if isinstance(query, Wrapper):
        wrapper: Any = query
        return replace(wrapper, query=_former(query.query))
    if isinstance(query, candidates.CandidateScores):
        return CandidateScores(query.transform, query.coef, query.weights, query.s2, _dof(query.family))
    if isinstance(query, products.PosteriorProducts):
        return PosteriorProducts(query.coef, query.log_weights, query.s2, query.V, _dof(query.family))
    if isinstance(query, score.MixtureScore) and (dof := _dof(query.family)) is not None:
        return StudentScore(query.coef, query.log_weights, query.s2, dof, query.grams)
    if isinstance(query, information.ObservedInformation) and (dof := _dof(query.family)) is not None:
        return StudentInformation(query.coef, query.weights, query.s2, dof)
    return query


def _dof(family: Family) -> float | None:
    if isinstance(family, Student):
        return family.dof
    if family == NORMAL:
        return None
    raise LookupError(family.name)
