"""Fits that others have printed, from the default start: log-likelihoods as in flexmix's vignettes, or higher."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from longer import long
from wmlr import MixedLinearRegression

DATA = Path(__file__).parents[1] / "data"
SEEDS = [range(2), long(range(2, 10))]


def read(name):
    return pd.read_csv(DATA / f"{name}.csv")


def seizure():
    data = read("seizure")
    treated, day = (data["Treatment"] == "Yes").to_numpy(float), np.log(data["Day"].to_numpy(float))
    return (np.column_stack([treated, day, treated * day]), data["Seizures"]), {"exposure": data["Hours"]}


def trials(data, successes, groups, shared):
    y = np.column_stack([data[successes], data["Total"] - data[successes]])
    return (shared.to_numpy(float)[:, None], y), {"groups": data[groups]}


def betablocker():
    data = read("betablocker")
    return trials(data, "Deaths", "Center", data["Treatment"] != "Control")


def mehta(without=0):
    data = read("mehta")
    data = data[data["Site"] != without]
    return trials(data, "Response", "Site", data["Drug"] != "Control")


def npreg():
    data = read("npreg")
    return (data[["x"]].to_numpy(), data["yp"]), {}


def curves(**roles):
    data = read("npreg")
    return (np.column_stack([data["x"], data["x"] ** 2]), data["yn"]), {
        role: data[name] for role, name in roles.items()
    }


def fabric():
    data = read("fabricfault")
    return (np.log(data[["Length"]].to_numpy(float)), data["Faults"]), {}


@pytest.mark.parametrize(
    ("rows", "settings", "printed"),
    [
        (curves, {"n_components": 2, "shared_sigma": False}, -642.5320),
        (lambda: curves(groups="id2"), {"n_components": 2, "shared_sigma": False}, -561.5537),
        (npreg, {"n_components": 2, "family": "poisson"}, -440.6424),
        (fabric, {"n_components": 2, "family": "poisson", "shared": [0]}, -86.33119),
        (seizure, {"n_components": 2, "family": "poisson"}, -376.1762),
        (betablocker, {"n_components": 2, "family": "binomial", "shared": [0]}, -181.3308),
        (betablocker, {"n_components": 3, "family": "binomial", "shared": [0]}, -159.3605),
        (betablocker, {"n_components": 4, "family": "binomial", "shared": [0]}, -155.7540),
        (mehta, {"n_components": 3, "family": "binomial", "shared": [0]}, -66.8056),
        (lambda: mehta(15), {"n_components": 2, "family": "binomial", "shared": [0]}, -56.5844),
    ],
    ids=[
        "curves",
        "curves-groups",
        "npreg",
        "fabric",
        "seizure",
        "betablocker-2",
        "betablocker-3",
        "betablocker-4",
        "mehta-3",
        "mehta-2",
    ],
)
@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_random_state_reaches_what_is_printed(rows, settings, printed, seeds):
    given, roles = rows()
    found = [MixedLinearRegression(**settings, random_state=seed).fit(*given, **roles) for seed in seeds]
    assert min(fit.log_likelihood_ for fit in found) >= printed - 5.1e-5


def error_of(fit, X, y, **roles):
    """The shared coefficient, and its standard error."""
    return float(fit.coef_[0, 0]), float(np.sqrt(fit.covariance(X, y, **roles)[0, 0]))


def test_criteria_and_errors_are_the_printed_ones():
    (X, y), roles = betablocker()
    fit = MixedLinearRegression(3, family="binomial", shared=[0], random_state=0).fit(X, y, **roles)
    assert fit.bic(X, y, **roles, count="rows") == pytest.approx(341.4262, abs=1e-4)
    assert error_of(fit, X, y, **roles) == pytest.approx((-0.2582, 0.0499), abs=5.1e-5)
    (X, y), roles = seizure()
    fit = MixedLinearRegression(2, family="poisson", random_state=0).fit(X, y, **roles)
    assert fit.bic(X, y, **roles) == pytest.approx(796.8272, abs=2e-4)
    (X, y), roles = fabric()
    fit = MixedLinearRegression(2, family="poisson", shared=[0], random_state=0).fit(X, y)
    assert error_of(fit, X, y) == pytest.approx((0.79913, 0.23491), abs=6e-5)
