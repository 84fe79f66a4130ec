import numpy as np
import pytest
from hypothesis import settings

from wmlr.datasets import make_mixed_regression

settings.register_profile("wmlr", deadline=None, derandomize=True)
settings.load_profile("wmlr")


@pytest.fixture
def generator():
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def paper_problem():
    """The paper's problem at a given size: cached, since several tests look at the same one."""
    made = {}

    def make(n, snr, seed, sigma=1.0, d=128):
        key = (n, snr, seed, sigma, d)
        if key not in made:
            if len(made) > 2:
                made.clear()
            made[key] = make_mixed_regression(n, d, snr=snr, sigma=sigma, symmetric=True, random_state=seed)
        return made[key]

    return make
