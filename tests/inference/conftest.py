"""A fit of two components whose errors, intervals and tests are looked at."""

import pytest

from wmlr import MixedLinearRegression
from wmlr.datasets import make_mixed_regression


@pytest.fixture(scope="package")
def data():
    return make_mixed_regression(900, 2, 2, snr=4, weights=[0.6, 0.4], random_state=0)


@pytest.fixture(scope="package")
def fit(data):
    return MixedLinearRegression(2, shared_sigma=False, random_state=0, tol=1e-10).fit(data.X, data.y)
