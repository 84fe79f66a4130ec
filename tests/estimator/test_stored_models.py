"""Model files of earlier commits: what they hold is read as it was written.

``python tests/estimator/test_stored_models.py NAME`` writes a file that is not there yet, with what it predicts.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from wmlr import EM, MixedLinearRegression
from wmlr.families import Student

FOLDER = Path(__file__).parents[1] / "data" / "written"
ROWS, SHOWN = 120, 12


def table():
    generator = np.random.default_rng(5)
    x, z = generator.standard_normal((2, ROWS))
    z = z + np.repeat(generator.standard_normal(ROWS // 6), 6)
    first = generator.random(ROWS) < 1.0 / (1.0 + np.exp(-z))
    y = np.where(first, 1.0 + 2.0 * x, -1.0 - x + 0.5 * z) + 0.3 * generator.standard_normal(ROWS)
    count = generator.poisson(np.exp(np.where(first, 1.5 + 0.3 * x, 0.2)))
    kind = np.where(generator.random(ROWS) < 0.4, "top", "low")
    return pd.DataFrame({"x": x, "z": z, "y": y, "count": count, "kind": kind, "who": np.arange(ROWS) // 6})


MODELS = {
    "gate of a column": ({"gate": ["z"]}, "y", {}),
    "weights of each group": ({"gate": "group"}, "y", {"groups": "who"}),
    "equal weights, symmetric": ({"symmetric": True, "fit_intercept": False}, "y", {}),
    "known weights": ({"gate": [0.7, 0.3], "shared_sigma": False}, "y", {}),
    "a family each": ({"family": ["poisson", "point-mass"]}, "count", {}),
    "student, by an object": ({"family": Student(5.0), "method": EM()}, "y", {}),
    "outliers": ({"outliers": True}, "y", {}),
    "held coefficients": ({"only": {"z": [2]}, "alpha": 0.5}, "y", {}),
    "shared column": ({"shared": ["x"]}, "y", {}),
    "poisson with an exposure": ({"family": "poisson"}, "count", {"exposure": np.full(ROWS, 2.0)}),
    "formula": ({"formula": "y ~ x * C(kind) + I(z**2) | who"}, None, {}),
    "formula with a gate": ({"formula": "y ~ x + z", "gate": "~ z"}, None, {}),
}


def file_of(name):
    return FOLDER / f"{name.replace(',', '').replace(' ', '_')}.json"


def inputs(name):
    """X, y and what else the rows of a model have, as its fit took them."""
    frame, (_, target, roles) = table(), MODELS[name]
    roles = {role: frame[value] if isinstance(value, str) else value for role, value in roles.items()}
    return (frame, None, roles) if target is None else (frame[["x", "z"]], frame[target], roles)


def predictions(fit, name):
    """Numbers that a fit gives of its rows: means, posteriors, standard errors."""
    X, y, roles = inputs(name)
    beside = {role: value for role, value in roles.items() if role != "groups"}
    return {
        "means": fit.predict_components(X, **beside)[:SHOWN].tolist(),
        "responsibilities": fit.responsibilities(X, y, **roles)[:SHOWN].tolist(),
        "log_likelihood": fit.log_likelihood_,
        "parameters": list(fit.parameter_names_),
        "variances": np.diag(fit.covariance(X, y, **roles)).tolist(),
    }


def write(name):
    X, y, roles = inputs(name)
    fit = MixedLinearRegression(2, random_state=0, **MODELS[name][0]).fit(X, y, **roles)
    fit.save(file_of(name))
    content = {"model": json.loads(file_of(name).read_text()), "expected": predictions(fit, name)}
    file_of(name).write_text(json.dumps(content) + "\n", encoding="utf-8")


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_an_earlier_commit_gives_the_numbers_it_gave(name, tmp_path):
    content = json.loads(file_of(name).read_text(encoding="utf-8"))
    (tmp_path / "model.json").write_text(json.dumps(content["model"]), encoding="utf-8")
    fit = MixedLinearRegression.load(tmp_path / "model.json")
    fit.save(tmp_path / "again.json")
    for model in (fit, MixedLinearRegression.load(tmp_path / "again.json")):
        found, expected = predictions(model, name), content["expected"]
        assert found["parameters"] == expected["parameters"]
        assert found["log_likelihood"] == expected["log_likelihood"]
        np.testing.assert_allclose(found["means"], expected["means"], rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found["responsibilities"], expected["responsibilities"], rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(found["variances"], expected["variances"], rtol=1e-6)


def test_no_file_is_left_without_its_model():
    assert sorted(FOLDER.iterdir()) == sorted(map(file_of, MODELS))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for wanted in sys.argv[1:] or MODELS:
        write(wanted)
