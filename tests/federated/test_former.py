"""Runs that were recorded before queries held a family are known again."""

import numpy as np
import pytest

from wmlr.core.round import Sampled, Together
from wmlr.families import NORMAL, Laplace, Student
from wmlr.federated.former_queries import former_digest, with_present_names
from wmlr.federated.messages import digest
from wmlr.statistics.candidates import CandidateScores
from wmlr.statistics.information import ObservedInformation
from wmlr.statistics.products import PosteriorProducts
from wmlr.statistics.robust import Trimmed
from wmlr.statistics.score import MixtureScore

B, HALF, S2, HEAVY = np.arange(6.0).reshape(3, 2), np.full(2, 0.5), np.array([1.0, 2.0]), Student(4.0)
LOGS = np.log(HALF)


def candidates(family):
    return CandidateScores(np.eye(3), np.ones((4, 2, 3)), np.full((4, 2), 0.5), np.ones((4, 2)), family)


THEN = {  # how the digests began that commit 8720fe2 wrote of the same queries
    "d6618f6835a4f500": MixtureScore(B, LOGS, S2, True),
    "2f2b2db819473118": ObservedInformation(B, HALF, S2),
    "df9030b009290d70": MixtureScore(B, LOGS, S2, True, HEAVY),
    "2c70ca00fabdd671": ObservedInformation(B, HALF, S2, HEAVY),
    "7905db247e98553f": candidates(NORMAL),
    "227298ed9abc2f2e": Sampled(Trimmed(candidates(HEAVY), -1.0, 1.0), 0.5, 3),
    "a3f6322c19fbc268": PosteriorProducts(B, LOGS, S2, B),
    "c45f1f849bc90546": Together((PosteriorProducts(B, LOGS, S2, B, HEAVY), MixtureScore(B, LOGS, S2))),
}


@pytest.mark.parametrize("then", THEN)
def test_a_query_is_known_by_the_digest_it_had(then):
    assert former_digest(THEN[then])[:16] == then


def test_a_query_that_needs_no_family_has_the_digest_it_had():
    for query in (MixtureScore(B, LOGS, S2, True), ObservedInformation(B, HALF, S2)):
        assert digest(query) == former_digest(query)


def test_a_family_that_was_not_there_has_no_former_digest():
    assert former_digest(MixtureScore(B, LOGS, S2, family=Laplace())) is None


def test_recorded_sums_have_the_names_of_today():
    sums = {"mass": np.ones(1), "grip": np.zeros(1), "0/grip": np.full(1, 2.0)}
    assert with_present_names(sums) == {
        "mass": np.ones(1),
        "curvature_weight": np.zeros(1),
        "0/curvature_weight": np.full(1, 2.0),
    }
