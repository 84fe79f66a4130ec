"""Features phi(x): the regressions are linear in phi, the rows stay as they are.

A fitted scikit-learn transformer travels as plain data around each query, so that any holder of rows answers
for phi(x) and no engine needs to know of it. The paper's section on non-linear models, phi fixed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Protocol

import numpy as np
from sklearn.base import clone

from wmlr.core.capabilities import Capabilities, capabilities_of
from wmlr.core.query import Field, Kind, Part, Parts, Query, Wrapper, all_alike, unit
from wmlr.core.round import Engine, Rows, Sampled
from wmlr.engines.arrays import ArrayRows
from wmlr.features.transformers import Described, needs_column_names
from wmlr.numerics.arrays import Array, Sums

BY_ITSELF = (
    "AdditiveChi2Sampler", "Binarizer", "FunctionTransformer", "GaussianRandomProjection", "Normalizer",
    "PolynomialCountSketch", "PolynomialFeatures", "RBFSampler", "SkewedChi2Sampler", "SplineTransformer",
    "StandardScaler",
)  # fmt: skip
INSTEAD = {
    "GaussianRandomProjection": "give it n_components as a number",
    "MaxAbsScaler": "a largest value is no sum; use StandardScaler",
    "MinMaxScaler": "a smallest and a largest value are no sums; use StandardScaler",
    "Nystroem": "it needs rows as landmarks; use RBFSampler",
    "PCA": "use GaussianRandomProjection with n_components",
    "PowerTransformer": "use FunctionTransformer(np.log1p)",
    "QuantileTransformer": "quantiles are no sums; use StandardScaler",
    "RobustScaler": "quantiles are no sums; use StandardScaler",
    "SplineTransformer": "give it knots as an array",
    "TruncatedSVD": "use GaussianRandomProjection with n_components",
}
NOTHING = (None, "passthrough", "drop")


class Phi(Protocol):
    """Anything that maps rows of x to rows of phi(x)."""

    def transform(self, X: Any) -> Array: ...

    def width(self, d: int) -> int: ...


@dataclass(frozen=True)
class Mapped(Wrapper):
    """A query about phi(x), asked of those who hold x."""

    phi: Phi
    query: Query
    maps_columns = True

    def view(self, rows: Rows) -> Rows:
        return replace(rows, X=self.phi.transform(rows.X))

    def width(self, columns: int) -> int:
        return self.phi.width(columns)


class MappedRows:
    """An engine's rows as phi shows them; everything else of the engine is as it was.

    A sample is chosen by x and not by phi(x), whose last digits may differ from one block size to the next.
    """

    def __init__(self, rows: Engine, phi: Phi) -> None:
        self.rows = rows
        self.phi = phi
        self.n_features = phi.width(rows.n_features)

    def total(self, query: Query) -> Sums:
        if query.is_sampled:
            return self.rows.total(query.wrap(lambda inner: Mapped(self.phi, inner)))
        return self.rows.total(Mapped(self.phi, query))

    def answers(self, query: Query) -> dict[Hashable, Sums]:
        """Each agent's own answer, where the engine has agents."""
        found: dict[Hashable, Sums] = self.rows.answers(Mapped(self.phi, query))  # type: ignore[attr-defined]
        return found

    @property
    def capabilities(self) -> Capabilities:
        return capabilities_of(self.rows)


class FeatureRows(ArrayRows):
    """phi(x) in memory; a sample is chosen by x, as an engine that maps on its way would choose it."""

    def __init__(self, phi: Array, X: Any, y: Array, *more: Any, **named: Any) -> None:
        super().__init__(phi, y, *more, **named)
        self._raw = ArrayRows(X, y, *more, **named)

    def _sample(self, query: Sampled) -> ArrayRows:
        return self._samples.get(query.choice, lambda: self._raw._sample(query).with_features(self.X))


@dataclass(frozen=True)
class Spread(Query):
    """Per column: the number of rows, the sum of x less ``centre``, and the sum of its square."""

    centre: Annotated[Array, Field("p")]

    def parts(self, columns: int, grouped: bool) -> Parts:
        return {
            "rows": Part((), unit(), Kind.COUNT),
            "sum": Part((columns,), unit(x=1)),
            "squares": Part((columns,), unit(x=2), Kind.AMOUNT),
        }

    shares = all_alike

    def answer(self, rows: Rows) -> Sums:
        gaps = np.asarray(rows.X - self.centre, dtype=np.float64)
        count = np.array(float(len(rows)))
        return {"rows": count, "sum": gaps.sum(axis=0), "squares": np.einsum("ij,ij->j", gaps, gaps)}


def column_spread(rows: Engine) -> tuple[Array, Array]:
    """Each column's mean and standard deviation, in two rounds so that no digits cancel."""
    sums = rows.total(Spread(np.zeros(rows.n_features)))
    centre = sums["sum"] / float(sums["rows"])
    sums = rows.total(Spread(centre))
    count = float(sums["rows"])
    shift = sums["sum"] / count
    return centre + shift, np.sqrt(np.maximum(sums["squares"] / count - shift**2, 0.0))


def fit_transformer_from_sums(transformer: Any, rows: Engine, seed: int | None = None) -> Any:
    """Fit a transformer where the rows may not be seen: on nothing, or on means and variances.

    A pipeline is fitted step by step, each on what the steps before make of the rows.

    Raises
    ------
    ValueError
        When the transformer needs the rows themselves; the sentence says what to use instead.
    """
    fitted = with_seeds(with_copies(clone(transformer)), seed)
    for part in _leaves(fitted):
        _refuse_rows(part)
    if needs_column_names(fitted):
        raise ValueError("features asks for columns by name, and here they have numbers: give it 0, 1, ... instead")
    Described.of(fitted)
    return _fit_on_moments(fitted, rows)


def with_seeds(transformer: Any, seed: int | None) -> Any:
    """The transformer with its unset random states set, where there is a seed to set them by."""
    if seed is not None:
        given = transformer.get_params(deep=True)
        names = sorted(name for name in given if name.split("__")[-1] == "random_state" and given[name] is None)
        draws = np.random.default_rng([seed, 1]).integers(2**31, size=len(names))
        transformer.set_params(**{name: int(draw) for name, draw in zip(names, draws)})
    return transformer


def with_copies(transformer: Any) -> Any:
    """The transformer with ``copy=False`` turned off wherever it has that: the rows belong to the caller."""
    given = transformer.get_params(deep=True)
    transformer.set_params(
        **{name: True for name, value in given.items() if name.split("__")[-1] == "copy" and value is False}
    )
    return transformer


def phi_names(transformer: Any, names: Sequence[str] | None, count: int) -> list[str]:
    """Names of phi's columns: the transformer's own where it has them, else phi0, phi1 ..."""
    try:
        return [str(name) for name in transformer.get_feature_names_out(names)]
    except (AttributeError, ValueError):
        return [f"phi{column}" for column in range(count)]


def _fit_on_moments(transformer: Any, rows: Engine) -> Any:
    """Fitted on two rows that have the means and variances of all rows, where it asks for these."""
    if type(transformer).__name__ == "Pipeline":
        return _fitted_steps(transformer, rows)
    _refuse_late(transformer)
    centre, scale = np.ones(rows.n_features), np.zeros(rows.n_features)
    if any(_needs_moments(part) for part in _leaves(transformer)):
        centre, scale = column_spread(rows)
    return transformer.fit(np.stack([centre - scale, centre + scale]))


def _fitted_steps(pipeline: Any, rows: Engine) -> Any:
    seen = rows
    done = []
    for name, step in pipeline.steps:
        if step not in NOTHING:
            step = _fit_on_moments(step, seen)
            seen = MappedRows(seen, Described.of(step))
        done.append((name, step))
    pipeline.steps = done
    return pipeline


def _refuse_rows(part: Any) -> None:
    """Raise unless a transformer can be fitted without rows."""
    name = type(part).__name__
    by_itself = name in BY_ITSELF
    if name == "SplineTransformer":
        by_itself = not isinstance(part.knots, str)
    if name == "GaussianRandomProjection":
        by_itself = part.n_components != "auto"
    if not by_itself:
        instead = INSTEAD.get(name, "transform the rows where they are, and set features=None")
        raise ValueError(f"features={name} must see rows to be fitted, and they stay where they are: {instead}")


def _refuse_late(transformer: Any) -> None:
    """Raise where means are asked for behind another step, inside parts that are fitted all at once."""
    for part in _inside(transformer):
        _refuse_late(part)
        later = [leaf for step in _inside(part)[1:] for leaf in _leaves(step)]
        if type(part).__name__ == "Pipeline" and any(_needs_moments(leaf) for leaf in later):
            raise ValueError(
                f"a scaler behind another step inside {type(transformer).__name__} needs the rows: "
                "put it first, or after the whole in a Pipeline"
            )


def _needs_moments(part: Any) -> bool:
    scale: Any = getattr(part, "gamma", None)
    return type(part).__name__ == "StandardScaler" or (isinstance(scale, str) and scale == "scale")


def _inside(transformer: Any) -> list[Any]:
    """The transformers a transformer is made of."""
    name = type(transformer).__name__
    parts: list[Any] = []
    if name == "ColumnTransformer":
        parts = [part for _, part, _ in transformer.transformers] + [transformer.remainder]
    elif name == "FeatureUnion":
        parts = [part for _, part in transformer.transformer_list]
    elif name == "Pipeline":
        parts = [part for _, part in transformer.steps]
    return [part for part in parts if part not in NOTHING]


def _leaves(transformer: Any) -> Iterator[Any]:
    """The innermost transformers."""
    if type(transformer).__name__ not in ("ColumnTransformer", "FeatureUnion", "Pipeline"):
        yield transformer
    for part in _inside(transformer):
        yield from _leaves(part)
