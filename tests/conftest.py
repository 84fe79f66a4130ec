import os

import numpy as np
import pytest
from hypothesis import settings

from wmlr.datasets import make_mixed_regression

os.environ.setdefault("WMLR_KERNELS", "compiled")  # so that a first fit has every digit of the next
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # programs that tests start need not compile the package again

settings.register_profile("wmlr", deadline=None, derandomize=True)
settings.load_profile("wmlr")

SLOW = (
    "engines/test_spark.py",
    "neural/test_neural.py",
    "flower/test_flower.py",
    "test_docs.py",
    "attacks/test_liars.py",
    "engines/test_files.py",
    "estimator/test_estimator.py",
    "experiments/test_experiments.py",
    "engines/test_dask.py",
    "audit/test_audit.py",
    "federated/test_federated.py",
    "attacks/test_secure_sums.py",
    "bench/test_search_bench.py",
    "cli/test_cli.py",
    "report/test_report.py",
    "numerics/test_sparse.py",
    "bench/test_performance.py",
    "test_selection.py",
    "estimator/test_options.py",
    "attacks/test_model_files.py",
    "features/test_features.py",
    "engines/test_sql.py",
    "flower/test_joining.py",
    "attacks/test_pages.py",
    "estimator/test_guards.py",
    "federated/test_messages.py",
    "dashboard/test_dashboard.py",
    "numerics/test_compiling.py",
)
"""The files that take longest come first: workers that take a file each then end together."""


def pytest_collection_modifyitems(config, items):
    places = {config.rootpath / "tests" / name: place for place, name in enumerate(SLOW)}
    items.sort(key=lambda item: places.get(item.path, len(SLOW)))


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
