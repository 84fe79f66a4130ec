"""Random problems: data, and a combination of options to fit them with."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st

from audit.likelihood import Array, Data, Model


@dataclass(frozen=True)
class Problem:
    """Settings of an estimator, data for it, and the lines (k, d + 1) they follow, the intercept last."""

    settings: dict[str, Any]
    data: Data
    lines: Array
    seed: int

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What hypothesis prints of a failure: the options, and the data by their seed."""
        kinds = [name for name in ("weight", "groups") if getattr(self.data, name) is not None]
        printer.text(f"{self.settings}, X {self.data.X.shape}, {kinds}, seed {self.seed}")

    @property
    def fit_arguments(self) -> dict[str, Any]:
        return {"sample_weight": self.data.weight, "groups": self.data.groups}

    def model(self, k: int) -> Model:
        """The independent code's view, for the number of components that were left."""
        robust = self.settings["robust"]
        symmetric = self.settings["symmetric"]
        return Model(
            k=k,
            d=self.data.X.shape[1],
            intercept=self.settings["fit_intercept"] and not symmetric,
            symmetric=symmetric,
            equal_weights=self.settings["equal_weights"],
            shared_sigma=self.settings["shared_sigma"],
            sigma=self.settings["sigma"],
            shared=tuple(self.settings["shared"] or ()),
            held={(j - 1, c): value for c, held in (self.settings["fixed"] or {}).items() for j, value in held.items()},
            dof=None if robust is False else 4.0 if robust is True else robust,
            alpha=self.settings["alpha"],
        )


CHOICES: dict[str, tuple[Any, ...]] = {
    "shape": (1, 2, 3, "symmetric"),
    "method": ("wmlr", "em"),
    "fit_intercept": (True, False),
    "equal_weights": (False, True),
    "noise": ("shared", "separate", "known"),
    "shared": (None, None, "first", "last"),
    "held": (None, None, None, "nil", "value"),
    "alpha": (0.0, 0.0, 0.0, 0.5, 5.0),
    "robust": (False, False, True, 8.0, "outliers"),
    "grouped": (False, True),
    "weighted": (None, "unequal", "some nil", "small"),
    "d": (1, 2, 3),
    "snr": (2.0, 4.0, 10.0),
}


@st.composite
def problems(draw: Any) -> Problem:
    """A combination of all the options, each as likely as any other, and data drawn for it."""
    chosen, code = {}, draw(st.integers(0, prod(map(len, CHOICES.values())) - 1))
    for name, values in CHOICES.items():
        code, place = divmod(code, len(values))
        chosen[name] = values[place]
    symmetric = chosen["shape"] == "symmetric"
    d, known = chosen["d"], chosen["noise"] == "known"
    shared = None if symmetric or d == 1 else {"first": [0], "last": [d - 1]}.get(chosen["shared"])
    held = None if symmetric else {"nil": {0: {1: 0.0}}, "value": {d - 1: {1: 0.7}}}.get(chosen["held"])
    nothing_left = d == 1 and not chosen["fit_intercept"]
    held = None if nothing_left or not set(held or ()).isdisjoint(shared or ()) else held
    settings = {
        "n_components": 2 if symmetric else chosen["shape"],
        "method": chosen["method"],
        "symmetric": symmetric,
        "fit_intercept": chosen["fit_intercept"],
        "equal_weights": chosen["equal_weights"] and not symmetric,
        "shared_sigma": symmetric or chosen["noise"] != "separate",
        "sigma": 1.0 if known else None,
        "shared": shared,
        "fixed": held,
        "alpha": chosen["alpha"],
        "robust": False if symmetric or chosen["robust"] == "outliers" else chosen["robust"],
        "outliers": chosen["robust"] == "outliers" and not symmetric,
    }
    seed = draw(st.integers(0, 2**20))
    data, lines = drawn(settings, d, seed, chosen["grouped"], chosen["weighted"], chosen["snr"])
    return Problem(settings, data, lines, seed)


def drawn(
    settings: dict[str, Any], d: int, seed: int, grouped: bool, weighted: str | None, snr: float
) -> tuple[Data, Array]:
    """Data for the settings, and the lines they follow."""
    generator = np.random.default_rng(seed)
    k, n = settings["n_components"], int(generator.integers(30, 60)) * settings["n_components"] + 20
    X = generator.standard_normal((n, d)) @ generator.uniform(-1, 1, (d, d)) + generator.standard_normal((n, d))
    X = X * 10 ** generator.uniform(-1, 1, d) + generator.uniform(-2, 2, d) * (settings["fit_intercept"])
    coef = generator.standard_normal((k, d)) * snr / np.sqrt(d) / X.std(axis=0)
    intercept = generator.standard_normal(k) * snr if settings["fit_intercept"] else np.zeros(k)
    if settings["symmetric"]:
        coef, intercept = np.stack([coef[0], -coef[0]]), np.zeros(2)
    for column in settings["shared"] or ():
        coef[:, column] = coef[0, column]
    for column, known in (settings["fixed"] or {}).items():
        for j, value in known.items():
            coef[j - 1, column] = value
    sigma = np.ones(k) if settings["shared_sigma"] else generator.uniform(0.6, 1.5, k)
    groups = np.sort(generator.integers(0, n // 3, n)) if grouped else None
    if groups is not None:
        groups = np.unique(groups, return_inverse=True)[1]
    weights = np.full(k, 1 / k) if settings["equal_weights"] else generator.dirichlet(np.full(k, 8.0))
    labels = generator.choice(k, n if groups is None else groups.max() + 1, p=weights)
    labels = labels if groups is None else labels[groups]
    dof = 4.0 if settings["robust"] else 1e6
    y = (X * coef[labels]).sum(axis=1) + intercept[labels] + sigma[labels] * generator.standard_t(dof, n)
    if settings["outliers"]:
        y = np.where(generator.random(n) < 0.1, 15 * y.std() * generator.standard_normal(n), y)
    weight = {
        None: None,
        "unequal": generator.uniform(0.3, 3.0, n),
        "some nil": np.where(generator.random(n) < 0.1, 0.0, generator.uniform(0.5, 2.0, n)),
        "small": np.full(n, 1 / n) if groups is None else None,
    }[weighted]
    return Data(X, y, weight, groups), np.column_stack([coef, intercept])
