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
    "attacks/test_liars.py",
    "experiments/test_experiments.py",
    "test_docs.py",
    "flower/test_flower.py",
    "engines/test_files.py",
    "estimator/test_estimator.py",
    "engines/test_dask.py",
    "bench/test_performance.py",
    "numerics/test_sparse.py",
    "test_selection.py",
    "federated/test_federated.py",
    "report/test_report.py",
    "cli/test_cli.py",
    "numerics/test_compiling.py",
    "attacks/test_secure_sums.py",
    "attacks/test_model_files.py",
    "estimator/test_options.py",
    "bench/test_search_bench.py",
    "attacks/test_pages.py",
    "federated/test_messages.py",
    "audit/test_audit.py",
    "features/test_features.py",
    "test_wheel.py",
    "test_package.py",
    "methods/test_ridge.py",
    "cli/test_cli_families.py",
    "attacks/test_bad_input.py",
    "estimator/test_stream.py",
    "cli/test_cli_everyday.py",
    "inference/test_inference.py",
    "methods/test_wide.py",
    "methods/test_convergence.py",
    "methods/test_paper_setting.py",
    "inference/test_uncertainty.py",
    "attacks/test_unfolding.py",
    "engines/test_sql.py",
    "families/test_by_component.py",
    "attacks/test_curious_servers.py",
    "attacks/test_single_rows.py",
    "methods/search/test_search.py",
    "methods/test_methods.py",
    "attacks/test_known_columns.py",
    "federated/test_privacy.py",
    "flower/test_joining.py",
    "attacks/test_random.py",
    "numerics/test_expectations.py",
    "dashboard/test_dashboard.py",
    "attacks/test_steered_fits.py",
    "numerics/test_compiled.py",
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
