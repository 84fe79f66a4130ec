"""Every two values of any two options, in some fit: it fits, or is refused in one sentence."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import PolynomialFeatures

from longer import long
from wmlr import EM, GDA, GEM, AltMin, Effort, MixedLinearRegression, MixIRLS, Reduction, Refreshed
from wmlr.datasets import make_mixed_regression
from wmlr.estimator.settings import check_parameters
from wmlr.families import Student

DATA = make_mixed_regression(90, 2, 2, snr=6, random_state=0)
FRAME = pd.DataFrame({"a": DATA.X[:, 0], "b": DATA.X[:, 1], "y": DATA.y})
POLYNOMIAL = PolynomialFeatures(2, include_bias=False)
OPTIONS = {
    "n_components": [2, 1, 3],
    "method": ["wmlr", "em", "gem", "mix-irls", "altmin", EM(), GEM(), MixIRLS(), AltMin(), Refreshed()],
    "solver": ["auto", "gda", "reduction", Refreshed(), GDA(), Reduction()],
    "symmetric": [False, True],
    "fit_intercept": [True, False],
    "equal_weights": [False, True],
    "shared_sigma": [True, False],
    "features": [None, POLYNOMIAL],
    "sigma": [None, 1.0],
    "start": ["auto", "spectral", "random", np.array([[1.0, 0.0], [0.0, 1.0]])],
    "n_init": [1, 2],
    "max_iter": [40, 1],
    "tol": [1e-6, 0.0, 1e-2],
    "random_state": [0, None, np.random.RandomState(0)],
    "n_jobs": [None, 1],
    "verbose": [0],
    "warm_start": [False, True],
    "alpha": [0.0, 1.0],
    "shared": [None, [0], ["a"]],
    "robust": [False, True, 5.0],
    "outliers": [False, True, 0.05],
    "on_empty": ["reseed", "drop", "raise"],
    "search": ["auto", "quick", 30.0, Effort()],
    "guard": [True, False],
    "family": ["normal", "student", Student(6.0)],
    "gate": [None, "equal", [0.4, 0.6]],
    "formula": [None, "y ~ a + b"],
    "missing": ["raise", "drop"],
    "only": [None, {0: [1]}, {1: [1, 2], "(intercept)": [2]}],
    "fixed": [None, {0: {1: 0.5}}],
}
NAMES = list(OPTIONS)
OBJECTS = {"EM": "em", "GEM": "gem", "MixIRLS": "mix-irls", "AltMin": "altmin"}
SOLVERS = {"Refreshed": "auto", "GDA": "gda", "Reduction": "reduction"}


def settings(choice):
    return {name: OPTIONS[name][place] for name, place in choice.items()}


def refusal(choice):
    """The sentence that refuses settings, or nothing."""
    try:
        check_parameters(MixedLinearRegression(**settings(choice)))
    except ValueError as error:
        assert_one_sentence(error)
        return str(error)
    return ""


def assert_one_sentence(error):
    text = str(error)
    assert text
    assert "\n" not in text
    assert len(text) < 500


def with_defaults(pair):
    """The choice of a pair and, of the other options, what is usual or what its solver needs."""
    choice = dict.fromkeys(NAMES, 0) | dict(pair)
    solver = OPTIONS["solver"][choice["solver"]]
    if (solver == "reduction" or isinstance(solver, Reduction)) and "gate" not in dict(pair):
        choice = choice | {"equal_weights": 1} | dict(pair)
    return choice


def pairs_of(choice):
    return {((one, choice[one]), (two, choice[two])) for one, two in itertools.combinations(NAMES, 2)}


PAIRS = [
    ((one, i), (two, j))
    for one, two in itertools.combinations(NAMES, 2)
    for i, j in itertools.product(range(len(OPTIONS[one])), range(len(OPTIONS[two])))
]


def covering_choices():
    """Choices of all options in which every pair that may stand together does, by greedy filling."""
    refused = {pair for pair in PAIRS if refusal(with_defaults(pair))}
    left = [pair for pair in PAIRS if pair not in refused]
    uncovered = set(left)
    while uncovered:
        seed = next(pair for pair in left if pair in uncovered)
        choice = dict(seed)
        for name in NAMES:
            if name not in choice:
                choice[name] = _best(name, choice, uncovered, refused)
        covered = pairs_of(choice) & uncovered
        uncovered -= covered
        yield choice


def _best(name, choice, uncovered, refused):
    """The value of an option that covers most, and that nothing chosen so far refuses."""

    def gain(place):
        known = [
            tuple(sorted([(name, place), (other, value)], key=lambda one: NAMES.index(one[0])))
            for other, value in choice.items()
        ]
        if any(pair in refused for pair in known):
            return -1
        return sum(pair in uncovered for pair in known)

    return max(range(len(OPTIONS[name])), key=gain)


CHOICES = list(covering_choices())


def fitted(given):
    """The fit of settings, or the sentence that refused it."""
    frame = FRAME if given["formula"] is not None else FRAME[["a", "b"]]
    y = None if given["formula"] is not None else FRAME["y"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)
        try:
            return MixedLinearRegression(**given).fit(frame, y)
        except ValueError as error:
            assert_one_sentence(error)
            return str(error)


def test_every_pair_of_option_values_is_refused_alone_or_stands_in_some_choice():
    covered = set().union(*(pairs_of(choice) for choice in CHOICES))
    assert all(pair in covered or refusal(with_defaults(pair)) for pair in PAIRS)


@pytest.mark.parametrize("number", range(len(CHOICES)))
def test_a_choice_of_options_fits_or_is_refused_in_one_sentence(number):
    given = settings(CHOICES[number])
    fit = fitted(given)
    if isinstance(fit, str):
        return
    assert np.isfinite(fit.coef_).all()
    assert fit.weights_.sum() == pytest.approx(1.0)
    assert np.all(fit.sigma_ > 0)
    assert np.isfinite(fit.log_likelihood_)
    assert len(fit.parameter_names_) >= len(fit.aliased_)
    assert str(fit.summary())
    rows = (FRAME,) if given["formula"] is not None else (FRAME[["a", "b"]], FRAME["y"])
    np.testing.assert_allclose(fit.responsibilities(*rows).sum(axis=1), 1.0)
    assert fit.score(*rows) * len(FRAME) == pytest.approx(fit.log_likelihood_, rel=1e-6, abs=1e-6) or given["alpha"]


GIVEN = [n for n, one in enumerate(CHOICES) if one["method"] > 4 or one["solver"] > 2]


@pytest.mark.parametrize("number", [long(n) if place % 4 else n for place, n in enumerate(GIVEN)])
def test_objects_for_method_and_solver_do_what_their_names_do(number):
    given = settings(CHOICES[number])
    if not isinstance(given["random_state"], int):
        given["random_state"] = 0
    named = dict(given)
    kind = type(given["method"]).__name__
    if kind == "Refreshed":
        named["method"] = "wmlr"
    elif kind in OBJECTS:
        named["method"] = OBJECTS[kind]
    if type(given["solver"]).__name__ in SOLVERS:
        named["solver"] = SOLVERS[type(given["solver"]).__name__]
    one, other = fitted(given), fitted(named)
    assert isinstance(one, str) == isinstance(other, str)
    if not isinstance(one, str):
        np.testing.assert_array_equal(one.coef_, other.coef_)


def test_every_option_of_the_estimator_is_among_them():
    assert set(MixedLinearRegression().get_params(deep=False)) == set(NAMES)
