"""Fitted scikit-learn transformers as plain data: JSON text and arrays, no pickle, and nothing in them is run.

Only the classes in ``ALLOWED`` are written or read back, with numbers, text, arrays and each other inside; a
function may only be one of numpy's own (``np.log``, ``np.sin`` ...).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator

from wmlr.features.restoring import ALLOWED, restore_transformer
from wmlr.io.packing import pack, unpack
from wmlr.io.users_line import warn_user
from wmlr.numerics.arrays import Array

NUMBERS = "biuf"
LONGEST_VERSION = 40


@dataclass(frozen=True)
class Described:
    """A transformer as plain data, which travels in a message and stays in a model file.

    Attributes
    ----------
    structure : JSON text; an array in it is the number of one of ``arrays``.
    arrays : what the transformer holds of numbers.
    """

    structure: str
    arrays: tuple[NDArray[Any], ...]

    @classmethod
    def of(cls, transformer: Any) -> Described:
        """Describe a transformer, fitted or not.

        Raises
        ------
        ValueError
            When its class is not in ``ALLOWED``, or it holds a function that is not numpy's own.
        """
        arrays: list[NDArray[Any]] = []
        content = {"sklearn": sklearn.__version__, "transformer": _to_json(transformer, arrays, "features")}
        return cls(json.dumps(content), tuple(arrays))

    @cached_property
    def transformer(self) -> Any:
        """The transformer; a warning says so when another scikit-learn wrote it."""
        try:
            content = json.loads(self.structure)
            transformer = restore_transformer(content["transformer"], self.arrays)
            version = content["sklearn"]
            if not isinstance(version, str) or len(version) > LONGEST_VERSION:
                raise TypeError("scikit-learn's version is no text")
        except (KeyError, IndexError, TypeError, AttributeError, RecursionError, json.JSONDecodeError) as error:
            raise ValueError(f"the description of features is damaged: {type(error).__name__} {error}") from None
        if version != sklearn.__version__:
            warn_user(
                f"features were fitted with scikit-learn {version} and are read by {sklearn.__version__}: "
                "compare a prediction with one of then",
                UserWarning,
            )
        return transformer

    def transform(self, X: Any) -> Array:
        """phi(X)."""
        return transform(self.transformer, read_only(X))

    def width(self, d: int) -> int:
        """How many columns phi makes of d."""
        with np.errstate(all="ignore"):
            made = int(self.transformer.transform(np.ones((1, d))).shape[1])
        _refuse_empty(made, d)
        return made

    def to_plain(self) -> dict[str, Any]:
        """As JSON that :meth:`from_plain` reads."""
        return {"structure": json.loads(self.structure), "arrays": [pack(array) for array in self.arrays]}

    @classmethod
    def from_plain(cls, content: dict[str, Any]) -> Described:
        """What :meth:`to_plain` wrote."""
        return cls(json.dumps(content["structure"]), tuple(unpack(array) for array in content["arrays"]))


def as_named_frame(transformer: Any, X: Any, names: Any) -> Any:
    """X as a data frame, for a transformer that asks for columns by their names."""
    if names is None or not needs_column_names(transformer):
        return X
    return import_module("pandas").DataFrame(X, columns=list(names), copy=False)


def read_only(X: Any) -> Any:
    """An array that cannot be written into, over the same memory; anything else as it is."""
    if not isinstance(X, np.ndarray):
        return X
    view = X.view()
    view.flags.writeable = False
    return view


def needs_column_names(transformer: Any) -> bool:
    """Whether a ColumnTransformer that sees x itself has text, or a function, for its columns."""
    kind = type(transformer).__name__
    if kind == "ColumnTransformer":
        return any(_by_name(columns) for _, _, columns in transformer.transformers)
    if kind == "Pipeline":
        return bool(transformer.steps) and needs_column_names(transformer.steps[0][1])
    return kind == "FeatureUnion" and any(needs_column_names(part) for _, part in transformer.transformer_list)


def _by_name(columns: Any) -> bool:
    ends = (columns.start, columns.stop) if isinstance(columns, slice) else columns
    first: Any = next(iter(ends), None) if isinstance(ends, (tuple, list, np.ndarray)) else ends
    return callable(first) or isinstance(first, str)


def transform(transformer: Any, X: Any) -> Array:
    """phi(X) as a dense array of finite floats."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        made = transformer.transform(X)
    sparse = bool(issparse(made))
    try:
        phi = np.ascontiguousarray(made.toarray() if sparse else made, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"features must give numbers ({error}): encode text and categories") from None
    if phi.ndim != 2 or len(phi) != X.shape[0]:
        raise ValueError(f"features must give one row per row of X (got shape {phi.shape} for {X.shape[0]} rows)")
    _refuse_empty(phi.shape[1], X.shape[1])
    if not np.all(np.isfinite(phi)):
        row, column = (int(place) for place in np.argwhere(~np.isfinite(phi))[0])
        raise ValueError(
            f"features gives {phi[row, column]} in row {row}, column {column}: change features, or drop such rows"
        )
    return phi


def _refuse_empty(made: int, given: int) -> None:
    if not made:
        raise ValueError(f"features leaves none of {given} columns: keep at least one, or set features=None")


def _to_json(value: Any, arrays: list[NDArray[Any]], where: str) -> Any:
    """A value as JSON; arrays of numbers go to ``arrays``."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind in NUMBERS:
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, np.ndarray) and value.dtype.kind in "OU" and value.ndim == 1:
        return {"objects": [_to_json(item, arrays, where) for item in value], "dtype": value.dtype.str}
    if isinstance(value, list):
        return [_to_json(item, arrays, where) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [_to_json(item, arrays, where) for item in value]}
    if isinstance(value, dict):
        return {"pairs": [[_to_json(key, arrays, where), _to_json(item, arrays, where)] for key, item in value.items()]}
    if isinstance(value, slice):
        return {"slice": [value.start, value.stop, value.step]}
    if type(value).__name__ == "BSpline":
        parts = [_to_json(part, arrays, where) for part in (value.t, value.c, value.k, value.extrapolate)]
        return {"spline": parts}
    name = getattr(value, "__name__", "")
    if isinstance(value, np.ufunc) and getattr(np, name, None) is value:
        return {"ufunc": name}
    if isinstance(value, type) and issubclass(value, np.generic):
        return {"type": np.dtype(value).str}
    if isinstance(value, np.dtype):
        return {"kind": value.str}
    if isinstance(value, (np.random.Generator, np.random.RandomState)):
        return None
    if isinstance(value, BaseEstimator):
        return _describe_transformer(value, arrays)
    raise ValueError(
        f"{where} holds {_call(value)}, which is neither numbers nor text nor a known transformer: transform X "
        "before fitting, or use a numpy function such as np.log"
    )


def _describe_transformer(transformer: Any, arrays: list[NDArray[Any]]) -> dict[str, Any]:
    cls = type(transformer)
    name = cls.__name__
    if getattr(import_module(ALLOWED[name]), name) is not cls if name in ALLOWED else True:
        raise ValueError(
            f"features={name} ({cls.__module__}) cannot be written down: only scikit-learn's "
            f"{', '.join(sorted(ALLOWED))} can; transform X before fitting"
        )
    settings = transformer.get_params(deep=False) | ({"memory": None} if name == "Pipeline" else {})
    fitted = {key: value for key, value in vars(transformer).items() if key not in settings}
    return {
        "class": name,
        "settings": {key: _to_json(value, arrays, f"{key} of {name}") for key, value in settings.items()},
        "fitted": {key: _to_json(value, arrays, f"{key} of {name}") for key, value in fitted.items()},
    }


def _call(value: Any) -> str:
    return f"{type(value).__name__} {getattr(value, '__name__', value)!r}"[:120]
