"""Random problems: data, and a combination of options to fit them with."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st

from audit.families import NOISES, WITHOUT_SCALE, mean
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
        kinds = [name for name in ("weight", "groups") if getattr(self.data, name) is not None] + [*self.data.roles]
        printer.text(f"{self.settings}, X {self.data.X.shape}, {kinds}, seed {self.seed}")

    @property
    def fit_arguments(self) -> dict[str, Any]:
        return {"sample_weight": self.data.weight, "groups": self.data.groups, **self.data.roles}

    def model(self, k: int) -> Model:
        """The independent code's view, for the number of components that were left."""
        given, symmetric = self.settings, self.settings["symmetric"]
        gate, share = given["gate"], given["outliers"]
        robust = 4.0 if given["family"] == "student" else given["robust"]
        return Model(
            k=k,
            d=self.data.X.shape[1],
            intercept=given["fit_intercept"] and not symmetric,
            symmetric=symmetric,
            equal_weights=given["equal_weights"],
            shared_sigma=given["shared_sigma"],
            sigma=given["sigma"],
            shared=tuple(given["shared"] or ()),
            held={place: value for place, value in self.held.items() if place[0] < k},
            family=given["family"],
            dof=None if robust is False else 4.0 if robust is True else robust,
            alpha=given["alpha"],
            share=None if isinstance(share, bool) else share,
            gate=tuple(gate) if self.gate_columns else (),
            weights=None if gate is None or self.gate_columns else tuple(gate),
        )

    @property
    def held(self) -> dict[tuple[int, int], float]:
        """Known coefficients by component and column, both counted from 0; nil where a component lacks a column."""
        known = {(j - 1, c): value for c, at in (self.settings["fixed"] or {}).items() for j, value in at.items()}
        for column, having in (self.settings["only"] or {}).items():
            lacking = set(range(1, self.settings["n_components"] + 1)) - set(having)
            known |= {(j - 1, column): 0.0 for j in lacking}
        return known

    @property
    def components_differ(self) -> bool:
        """Whether different things are asked of components."""
        known = self.settings["gate"] is not None and not self.gate_columns
        return bool(self.held) or known or self.data.labels is not None

    @property
    def gate_columns(self) -> list[int]:
        """The columns that weights depend on."""
        gate = self.settings["gate"]
        return [column for column in gate or () if isinstance(column, int)]


WEIGHTS = {1: (1.0,), 2: (0.3, 0.7), 3: (0.2, 0.3, 0.5)}  # where they are known
CHOICES: dict[str, tuple[Any, ...]] = {
    "shape": (1, 2, 3, "symmetric"),
    "method": ("wmlr", "em"),
    "fit_intercept": (True, False),
    "noise": ("shared", "separate", "known"),
    "family": ("normal",) * 6 + ("student", "laplace", "poisson", "negative-binomial", "binomial", "gamma", "beta"),
    "gate": (None, None, None, "equal", "known", "column", "column apart"),
    "shared": (None, None, "first", "last"),
    "held": (None, None, None, None, "nil", "value", "only"),
    "alpha": (0.0, 0.0, 0.0, 0.5, 5.0),
    "robust": (False, False, True, 8.0, "outliers", "known outliers"),
    "offset": (False, False, True),
    "labels": (None, None, "few", "many"),
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
    settings, seed = settings_of(chosen), draw(st.integers(0, 2**20))
    data, lines = drawn(settings, chosen, seed)
    return Problem(settings, data, lines, seed)


def settings_of(chosen: dict[str, Any]) -> dict[str, Any]:
    """What an estimator is told, of choices that make sense together."""
    symmetric, d = chosen["shape"] == "symmetric", chosen["d"]
    k = 2 if symmetric else chosen["shape"]
    family = "normal" if symmetric else chosen["family"]
    alone = family != "normal" or symmetric
    free = (d > 1 or chosen["fit_intercept"]) and not symmetric  # where a column may be taken away
    apart = chosen["gate"] == "column apart" and free
    gated = not symmetric and (apart or chosen["gate"] == "column")
    shared = None if symmetric or d == 1 else {"first": [0], "last": [d - 1]}.get(chosen["shared"])
    value = 0.7 if family in NOISES else 0.05
    only = {0: []} if apart else {0: [*range(2, k + 1)]} if chosen["held"] == "only" and k > 1 else None
    only = only if free else None
    shared = None if apart and shared == [0] else shared
    held = {"nil": {0: {1: 0.0}}, "value": {d - 1: {1: value}}}.get(chosen["held"])
    held = held if free and only is None and set(held or ()).isdisjoint(shared or ()) else None
    return {
        "n_components": k,
        "method": chosen["method"],
        "symmetric": symmetric,
        "fit_intercept": chosen["fit_intercept"],
        "equal_weights": chosen["gate"] == "equal" and not symmetric,
        "gate": [0] if gated else [*WEIGHTS[k]] if chosen["gate"] == "known" and not symmetric else None,
        "family": family,
        "shared_sigma": symmetric or chosen["noise"] != "separate",
        "sigma": None if chosen["noise"] != "known" or family in WITHOUT_SCALE else 1.0 if family in NOISES else 1 / 3,
        "shared": shared,
        "fixed": held,
        "only": only,
        "alpha": chosen["alpha"],
        "robust": False if alone or "outliers" in str(chosen["robust"]) else chosen["robust"],
        "outliers": False if alone else {"outliers": True, "known outliers": 0.1}.get(chosen["robust"], False),
    }


def drawn(settings: dict[str, Any], chosen: dict[str, Any], seed: int) -> tuple[Data, Array]:
    """Data for the settings, and the lines they follow."""
    generator = np.random.default_rng(seed)
    d, family, noise = chosen["d"], settings["family"], settings["family"] in NOISES
    k, n = settings["n_components"], int(generator.integers(30, 60)) * settings["n_components"] + 20
    X = generator.standard_normal((n, d)) @ generator.uniform(-1, 1, (d, d)) + generator.standard_normal((n, d))
    X = X * 10 ** generator.uniform(-1, 1, d) + generator.uniform(-2, 2, d) * (settings["fit_intercept"])
    snr = chosen["snr"] if noise else min(chosen["snr"], 4.0) / 5
    coef = generator.standard_normal((k, d)) * snr / np.sqrt(d) / X.std(axis=0)
    intercept = generator.standard_normal(k) * snr if settings["fit_intercept"] else np.zeros(k)
    if settings["symmetric"]:
        coef, intercept = np.stack([coef[0], -coef[0]]), np.zeros(2)
    for column in settings["shared"] or ():
        coef[:, column] = coef[0, column]
    for (j, column), value in Problem(settings, None, None, seed).held.items():
        coef[j, column] = value
    sigma = np.ones(k) if settings["shared_sigma"] else generator.uniform(0.6, 1.5, k)
    sigma = sigma if noise else sigma / 3
    groups = np.sort(generator.integers(0, n // 3, n)) if chosen["grouped"] else None
    if groups is not None:
        groups = np.unique(groups, return_inverse=True)[1]
    weights = np.full(k, 1 / k) if settings["equal_weights"] else generator.dirichlet(np.full(k, 8.0))
    labels = generator.choice(k, n if groups is None else groups.max() + 1, p=weights)
    labels = labels if groups is None else labels[groups]
    dof = 4.0 if settings["robust"] or family == "student" else 1e6
    offset = generator.standard_normal(n) * 0.5 if chosen["offset"] and not settings["symmetric"] else None
    eta = (X * coef[labels]).sum(axis=1) + intercept[labels] + (0.0 if offset is None else offset)
    trials = generator.integers(1, 25, n).astype(float) if family == "binomial" else None
    y = responses(generator, family, eta, sigma[labels], trials, dof)
    if settings["outliers"]:
        y = np.where(generator.random(n) < 0.1, 15 * y.std() * generator.standard_normal(n), y)
    weight = {
        None: None,
        "unequal": generator.uniform(0.3, 3.0, n),
        "some nil": np.where(generator.random(n) < 0.1, 0.0, generator.uniform(0.5, 2.0, n)),
        "small": np.full(n, 1 / n) if groups is None else None,
    }[chosen["weighted"]]
    share = {None: 0.0, "few": 0.05, "many": 0.5}[None if settings["symmetric"] else chosen["labels"]]
    known = np.where(generator.random(n) < share, labels, -1) if share else None
    return Data(X, y, weight, groups, offset, trials, known), np.column_stack([coef, intercept])


def responses(
    generator: np.random.Generator, family: str, eta: Array, sigma: Array, trials: Array | None, dof: float
) -> Array:
    """y of each row, of the component that it has."""
    centre, size = mean(family, eta), sigma**-2.0
    if family == "poisson":
        return generator.poisson(3 * centre).astype(float)
    if family == "negative-binomial":
        return generator.poisson(generator.gamma(size, 3 * centre / size)).astype(float)
    if family == "binomial":
        return generator.binomial(trials.astype(int), centre).astype(float)
    if family == "gamma":
        return generator.gamma(size, centre / size)
    if family == "beta":
        return np.clip(generator.beta(centre * size, (1 - centre) * size), 1e-6, 1 - 1e-6)
    return eta + sigma * (
        generator.laplace(size=len(eta)) if family == "laplace" else generator.standard_t(dof, len(eta))
    )
