"""flexmix's gamma family, which has the inverse as link: the same density, and a shape that is not the likeliest."""

import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest

from wmlr import MixedLinearRegression
from wmlr.families import Gamma
from wmlr.model.mixture import Mixture

SCRIPT = """
suppressPackageStartupMessages(library(flexmix))
data <- read.csv("amounts.csv")
fit <- flexmix(y ~ x, data = data, k = 2, cluster = data$kind, model = FLXMRglm(family = "Gamma"))
cat(format(c(logLik(fit), prior(fit), parameters(fit)), digits = 16))
"""


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed")
def test_amounts_have_flexmix_s_density_and_a_likelier_fit(tmp_path):
    generator = np.random.default_rng(5)
    x, kind = generator.uniform(size=400), 1 + (generator.random(400) < 0.4)
    mean = 1.0 / np.where(kind == 1, 0.3 + 0.4 * x, 2.0 + x)
    y = generator.gamma(10.0, mean / 10.0)
    pd.DataFrame({"x": x, "y": y, "kind": kind}).to_csv(tmp_path / "amounts.csv", index=False)
    told = subprocess.run(["Rscript", "-e", SCRIPT], cwd=tmp_path, capture_output=True, text=True, check=True)
    value, first, second, *parameters = map(float, told.stdout.split())
    intercept, coef, shape = np.reshape(parameters, (2, 3)).T
    family = Gamma(link="inverse")
    theirs = Mixture(coef[:, None], intercept, np.array([first, second]), shape**-0.5, family=family)
    densities = theirs.log_densities(x[:, None], y, {})
    assert np.logaddexp.reduce(densities + np.log(theirs.weights), axis=1).sum() == pytest.approx(
        value, abs=1e-3
    )  # theirs is of a step before
    ours = MixedLinearRegression(2, family=family, shared_sigma=False, random_state=0).fit(x[:, None], y)
    assert value < ours.log_likelihood_ < value + 2.0
    np.testing.assert_allclose(np.sort(ours.coef_[:, 0]), np.sort(coef), atol=0.1)
