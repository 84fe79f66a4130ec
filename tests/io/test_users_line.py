"""Warnings point at the user's line."""

import inspect
import warnings

import numpy as np
import pytest

from wmlr import MixedLinearRegression, select_components
from wmlr.io.users_line import warn_user


def here(records):
    assert records
    return all(one.filename == __file__ for one in records)


def test_a_warning_names_the_line_that_called():
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        warn_user("look here")
        line = inspect.currentframe().f_lineno - 1
    assert here(said)
    assert said[0].lineno == line


@pytest.mark.parametrize("formula", [None, "y ~ x"])
def test_the_warnings_of_a_fit_name_the_line_of_the_fit(formula):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 1)), rng.normal(size=60)
    frame = {"x": x[:, 0], "y": y}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = MixedLinearRegression(2, max_iter=1, search="quick", formula=formula, random_state=0)
        model.fit(frame) if formula else model.fit(x, y)
        line = inspect.currentframe().f_lineno - 1
    assert here(said)
    assert {one.lineno for one in said} == {line}


def test_choosing_by_cross_validation_says_each_thing_once():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(24, 2)), rng.poisson(3.0, 24)
    model = MixedLinearRegression(shared_sigma=False, search="quick")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        select_components(x, y, [1, 2, 3], "cv", estimator=model, folds=3)
    texts = [str(one.message) for one in said]
    assert len(texts) == len(set(texts))
    assert all(one.filename == __file__ for one in said)
