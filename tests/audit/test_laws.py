"""Distances, errors and information of random mixtures, against brute force."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit import laws
from audit.likelihood import Model
from audit.test_audit import EXAMPLES, SAMPLED
from wmlr import Mixture, theory
from wmlr.families import NORMAL, Student
from wmlr.inference.fisher import fisher_information
from wmlr.metrics import wasserstein2

FEWER = settings(SAMPLED, max_examples=max(EXAMPLES // 5, 1))
FEW = settings(SAMPLED, max_examples=max(EXAMPLES // 25, 1))
NOISES = st.sampled_from([None, 2.5, 4.0, 30.0])


@st.composite
def mixtures(draw: Any, dof: st.SearchStrategy[float | None] = NOISES) -> Mixture:
    """At x = 0 a mixture on the line, its components near and far, narrow and wide."""
    k, generator = draw(st.integers(1, 3)), np.random.default_rng(draw(st.integers(0, 2**20)))
    coef = generator.standard_normal((k, 2))
    weights = generator.dirichlet(np.full(k, 2.0))
    place = generator.standard_normal(k) * 10 ** generator.uniform(-1, 2)
    mixture = Mixture(coef, place, weights, 10 ** generator.uniform(-1.5, 1, k))
    drawn = draw(dof)
    return replace(mixture, family=NORMAL if drawn is None else Student(drawn))


@given(a=mixtures(), b=mixtures())
@FEW
def test_the_distance_of_two_mixtures_is_that_of_their_quantiles(a, b):
    spread = max(float(np.ptp(np.append(m.intercept, 0.0)) + m.sigma.max()) for m in (a, b))
    assert wasserstein2(a, b, np.zeros((1, 2))) == pytest.approx(laws.wasserstein2(a, b), rel=1e-3, abs=1e-3 * spread)


@given(mixture=mixtures(st.sampled_from([None, 1.0, 2.5, 4.0, 30.0])))
@FEWER
def test_the_bayes_error_is_what_the_other_components_hold(mixture):
    expected = laws.bayes_error(mixture.intercept, mixture.sigma, mixture.weights, laws.degrees(mixture))
    assert theory.bayes_error(mixture, np.zeros((1, 2))) == pytest.approx(expected, rel=1e-4, abs=1e-9)


@given(mixture=mixtures(), known=st.booleans(), equal=st.booleans())
@FEWER
def test_the_information_of_a_row_is_the_mean_square_of_its_score(mixture, known, equal):
    k = mixture.n_components
    mixture = replace(mixture, weights=np.full(k, 1 / k)) if equal else mixture
    mixture = replace(mixture, sigma=np.full(k, 0.7)) if known else mixture
    model = Model(
        k, 2, equal_weights=equal, shared_sigma=False, sigma=0.7 if known else None, dof=laws.degrees(mixture)
    )
    theta = model.pack(mixture.coef, mixture.intercept, np.log(mixture.weights)[:, None], mixture.sigma)
    x = np.array([0.5, -1.0])
    found = fisher_information(
        mixture, x[None], equal_weights=equal, shared_sigma=False, sigma_known=known, intercept=True
    )
    expected = laws.fisher_information(model, theta, x)
    scale = np.sqrt(np.diag(expected)) + 1e-12
    np.testing.assert_allclose(found / np.outer(scale, scale), expected / np.outer(scale, scale), atol=2e-5)
