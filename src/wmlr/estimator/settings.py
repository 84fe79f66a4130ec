"""Settings are looked at before any work is done, and refused with their value and what would do instead."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from wmlr import families
from wmlr.estimator.gaps import MISSING
from wmlr.families import Family, FamilyLike, NormalWithOutliers, Student
from wmlr.methods import METHODS, SOLVERS
from wmlr.methods.search.effort import EFFORTS, Effort
from wmlr.methods.task import Solver, offers
from wmlr.model import gates
from wmlr.model.gates import FixedWeights, Gate

WHOLE, NUMBER = (int, np.integer), (int, float, np.integer, np.floating)
STARTS = ("auto", "spectral", "random")
Test = Callable[[Any], bool]


@dataclass(frozen=True)
class Parameter:
    """What a setting may be: in words, and as tests of which one must hold."""

    words: str
    tests: tuple[Test, ...]
    more: str = ""

    def refuse_other(self, name: str, value: Any) -> None:
        """Raise unless the value is allowed."""
        if not any(test(value) for test in self.tests):
            raise ValueError(f"{name} must be {self.words} (got {value!r}){self.more}")


def whole(least: int) -> Test:
    """A whole number of at least so much."""
    return lambda value: isinstance(value, WHOLE) and not isinstance(value, bool) and int(value) >= least


def number(least: float = -np.inf, above: float = -np.inf) -> Test:
    """A finite number, of at least so much or above it."""

    def is_number(value: Any) -> bool:
        known = isinstance(value, NUMBER) and not isinstance(value, bool)
        return known and least <= float(value) < np.inf and float(value) > above

    return is_number


def one_of(names: Collection[str]) -> Test:
    """One of some names."""
    return lambda value: isinstance(value, str) and value in names


def has_methods(*methods: str) -> Test:
    """An object, and not a class, with these methods."""
    return lambda value: not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in methods)


def is_none(value: Any) -> bool:
    """None."""
    return value is None


def flag(value: Any) -> bool:
    """True or False."""
    return isinstance(value, (bool, np.bool_))


def text(value: Any) -> bool:
    """Text."""
    return isinstance(value, str)


def words_of(names: Collection[str]) -> str:
    """``'a', 'b' or 'c'``."""
    *first, last = map(repr, names)
    return f"{', '.join(first)} or {last}" if first else last


def list_of(names: Collection[str]) -> str:
    """``one of 'a', 'b', 'c'``."""
    return f"one of {', '.join(map(repr, names))}"


def _share(value: Any) -> bool:
    """A number between 0 and 1."""
    return number(above=0)(value) and float(value) < 1


def _component_list(value: Any) -> bool:
    """Columns and the components that have them, counted from 1."""
    if not isinstance(value, Mapping):
        return False
    lists = [components for components in value.values() if not isinstance(components, (str, Mapping))]
    try:
        return len(lists) == len(value) and all(whole(1)(one) for components in lists for one in components)
    except TypeError:
        return False


def _coefficient_values(value: Any) -> bool:
    """Columns and, of some components, counted from 1, the coefficient."""
    if not isinstance(value, Mapping) or not all(isinstance(held, Mapping) for held in value.values()):
        return False
    return all(whole(1)(one) and number()(at) for held in value.values() for one, at in held.items())


COUNT = Parameter("a whole number of at least 1", (whole(1),))
FLAG = Parameter("True or False", (flag,))
PARAMETERS: dict[str, Parameter] = {
    "n_components": COUNT,
    "n_init": COUNT,
    "max_iter": COUNT,
    "tol": Parameter("a number of at least 0", (number(least=0),)),
    "sigma": Parameter("positive or None", (is_none, number(above=0))),
    "symmetric": FLAG,
    "equal_weights": FLAG,
    "shared_sigma": FLAG,
    "fit_intercept": FLAG,
    "guard": FLAG,
    "alpha": Parameter("a number of at least 0", (number(least=0),)),
    "robust": Parameter("True, False or positive degrees of freedom", (flag, number(above=0))),
    "outliers": Parameter("True, False or their share, between 0 and 1", (flag, _share)),
    "on_empty": Parameter("'reseed', 'drop' or 'raise'", (one_of(("reseed", "drop", "raise")),)),
    "missing": Parameter(words_of(MISSING), (one_of(MISSING),)),
    "features": Parameter("a transformer with fit and transform, or None", (is_none, has_methods("fit", "transform"))),
    "formula": Parameter("text such as 'y ~ x', or None", (is_none, text)),
    "only": Parameter(
        "a dictionary of columns and the components that have them, such as {'income': [1, 3]}, or None",
        (is_none, _component_list),
    ),
    "fixed": Parameter(
        "a dictionary of columns and known coefficients of components, such as {'income': {1: 0.5}}, or None",
        (is_none, _coefficient_values),
    ),
    "search": Parameter(
        f"{', '.join(map(repr, EFFORTS))}, a positive number of EM steps, or an Effort",
        (one_of(EFFORTS), number(above=0), lambda value: isinstance(value, Effort)),
    ),
    "start": Parameter(
        "'auto', 'spectral', 'random' or an array",
        (one_of(STARTS), lambda value: value is not None and not isinstance(value, str)),
    ),
    "method": Parameter(
        list_of(("wmlr", *METHODS)),
        (one_of(("wmlr", *METHODS)), has_methods("fit")),
        ", or a method with its settings, such as GEM(alpha=0.1)",
    ),
    "solver": Parameter(
        list_of(SOLVERS), (one_of(SOLVERS), has_methods("fit")), ", or a solver with its settings, such as GDA(lam=0.5)"
    ),
}
ABILITIES: dict[str, Test] = {
    "alpha": lambda given: bool(given.alpha),
    "shared": lambda given: given.shared is not None,
    "held": lambda given: given.only is not None or given.fixed is not None,
    "family": lambda given: not resolve_family(given.family, given.robust, given.outliers).least_squares,
    "gate": lambda given: resolve_gate(given.gate, given.equal_weights).differs,
}
"""What a solver must say that it can do (in ``offers``), and when an estimator's settings ask for it."""


def resolve_family(family: FamilyLike, robust: bool | float, outliers: bool | float) -> Family:
    """What ``family``, ``robust`` and ``outliers`` mean together."""
    chosen = families.family(family)
    if not chosen.has_predictor:
        raise ValueError(f"family={chosen.name!r} is one component among others: give a list of a family for each")
    if outliers is not False:
        if robust is not False or not chosen.least_squares:
            other = f"robust={robust!r}" if robust is not False else f"family={chosen.name!r}"
            raise ValueError(
                f"outliers={outliers!r} stand beside normal noise, and {other} is another: leave out one of them"
            )
        return NormalWithOutliers() if outliers is True else NormalWithOutliers(float(outliers), estimated=0.0)
    if robust is False:
        return chosen
    if not chosen.least_squares:
        raise ValueError(
            f"robust={robust!r} is another spelling of Student's noise, and family={chosen.name!r} is given as well: "
            "leave out one of them"
        )
    return Student() if robust is True else Student(float(robust))


def resolve_gate(gate: Any, equal_weights: bool) -> Gate:
    """What ``gate`` and ``equal_weights`` mean together."""
    chosen = gates.gate(gate)
    if equal_weights and gate is not None and chosen != gates.EQUAL:
        raise ValueError(
            f"equal_weights=True is gate='equal', and gate={gate!r} is given as well: leave out one of them"
        )
    return gates.EQUAL if equal_weights else chosen


def option_of(ability: str, given: Any) -> str:
    """The setting by which an estimator asks for an ability."""
    if ability == "held":
        return "only" if given.only is not None else "fixed"
    spelled = [name for name in ("robust", "outliers") if getattr(given, name) is not False]
    return spelled[0] if ability == "family" and spelled else ability


def resolve_solver(method: str | Solver, solver: str | Solver) -> Solver:
    """What ``method`` and ``solver`` mean together, whether they are names or bring settings of their own."""
    given = solver if isinstance(method, str) and method == "wmlr" else method
    if not isinstance(given, str):
        return given
    named: Solver = (SOLVERS if given is solver else METHODS)[given]()
    return named


def who_offers(ability: str) -> str:
    """The named methods and solvers that can do something, as one would write them."""
    methods, solvers = (
        words_of([name for name, cls in known.items() if offers(cls, ability)]) for known in (METHODS, SOLVERS)
    )
    return f"method={methods}, or method='wmlr' with solver={solvers}"


def check_parameters(estimator: Any) -> None:
    """Refuse settings that make no sense, each by itself or together, before any work is done."""
    for name, parameter in PARAMETERS.items():
        parameter.refuse_other(name, getattr(estimator, name))
    solver = resolve_solver(estimator.method, estimator.solver)
    for clashes, sentence in _clashes(estimator, solver):
        if clashes:
            raise ValueError(sentence)


def refuse_roles(estimator: Any, beside: Collection[str]) -> None:
    """Raise where something is known of the rows, by these roles, that the settings have no use for."""
    family = resolve_family(estimator.family, estimator.robust, estimator.outliers)
    if "trials" in beside and not family.takes_trials:
        raise ValueError(
            f"y of two columns (successes and failures), and trials, are for family='binomial' (got {family.name!r})"
        )
    if ("offset" in beside or "exposure" in beside) and estimator.symmetric:
        raise ValueError("offset= moves both of a symmetric pair alike: take it off y, or set symmetric=False")


def _clashes(given: Any, solver: Solver) -> list[tuple[bool, str]]:
    """Settings that make no sense together: whether they are there, and the sentence that refuses them."""
    used = {ability: option_of(ability, given) for ability, is_used in ABILITIES.items() if is_used(given)}
    gate = resolve_gate(given.gate, given.equal_weights)
    fixed = len(gate.weights) if isinstance(gate, FixedWeights) else given.n_components
    listed = len(given.family) if isinstance(given.family, (list, tuple)) else given.n_components
    needs = sorted(getattr(solver, "needs", ()))
    free = [option for ability, option in used.items() if ability != "alpha"]
    named = [one for components in (given.only or {}).values() for one in components]
    named += [one for held in (given.fixed or {}).values() for one in held]
    own_solver = not (isinstance(given.solver, str) and given.solver == "auto")
    return [
        (
            given.symmetric and given.n_components != 2,
            f"symmetric=True means two components (got n_components={given.n_components})",
        ),
        (
            own_solver and not (isinstance(given.method, str) and given.method == "wmlr"),
            f"solver={given.solver!r} is of method='wmlr' (got method={given.method!r})",
        ),
        *((given.symmetric, f"{name}= is for free components: set symmetric=False") for name in free),
        *((not offers(solver, one), f"{option}= needs {who_offers(one)}") for one, option in used.items()),
        (
            max(named, default=0) > given.n_components,
            f"{option_of('held', given)}= names component {max(named, default=0)}, and there are "
            f"{given.n_components}, counted from 1",
        ),
        (
            listed != given.n_components,
            f"family= names {listed} families, and there are {given.n_components} components: give one for each",
        ),
        (
            fixed != given.n_components,
            f"gate= gives {fixed} fixed weights, and there are {given.n_components} components: give as many",
        ),
        (
            given.symmetric and given.gate is not None and gate != gates.EQUAL,
            f"symmetric=True has equal weights: leave out gate (got {given.gate!r})",
        ),
        (
            given.sigma is not None and not given.shared_sigma,
            "sigma= is the known noise of all components: leave out shared_sigma=False, or sigma",
        ),
        (
            given.symmetric and not given.shared_sigma,
            "symmetric=True has one sigma: leave out shared_sigma=False",
        ),
        (
            not isinstance(given.start, str) and given.n_init > 1,
            f"n_init={given.n_init} starts from one given array would all be the same: leave it out",
        ),
        (
            not all(gate == gates.EQUAL if name == "equal_weights" else getattr(given, name) for name in needs),
            f"solver={type(solver).__name__.lower()!r} needs {' and '.join(f'{name}=True' for name in needs)}",
        ),
        (
            given.formula is not None and given.features is not None,
            f"features is the formula's to say: write the columns into it (got features={given.features!r})",
        ),
        (
            given.formula is not None and not given.fit_intercept,
            f"fit_intercept is the formula's to say: write - 1 for none (got fit_intercept={given.fit_intercept!r})",
        ),
    ]
