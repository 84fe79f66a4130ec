"""Fitted scikit-learn transformers from plain data: through their own validated constructors, with a closed list of
what each may have learned, and never wider, deeper or longer than a fit could make them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from math import comb
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray

from wmlr.formulas.expressions import BINARY, UNARY
from wmlr.io.packing import dtype

MODULES = {
    "preprocessing": (
        "Binarizer", "FunctionTransformer", "KBinsDiscretizer", "MaxAbsScaler", "MinMaxScaler", "Normalizer",
        "OneHotEncoder", "OrdinalEncoder", "PolynomialFeatures", "PowerTransformer", "QuantileTransformer",
        "RobustScaler", "SplineTransformer", "StandardScaler",
    ),
    "kernel_approximation": (
        "AdditiveChi2Sampler", "Nystroem", "PolynomialCountSketch", "RBFSampler", "SkewedChi2Sampler",
    ),
    "decomposition": ("PCA", "TruncatedSVD"),
    "random_projection": ("GaussianRandomProjection",),
    "feature_selection": ("VarianceThreshold",),
    "pipeline": ("FeatureUnion", "Pipeline"),
    "compose": ("ColumnTransformer",),
}  # fmt: skip
ALLOWED = {name: f"sklearn.{module}" for module, names in MODULES.items() for name in names}
DEEPEST = 32
MOST_COLUMNS = 100_000
MOST_ROWS = 10_000_000
MOST_DEGREES = 30
LONGEST_LABEL = 10_000
LEARNED: dict[str, tuple[str, ...]] = {
    "Binarizer": (),
    "FunctionTransformer": (),
    "KBinsDiscretizer": ("bin_edges_", "n_bins_", "_encoder"),
    "MaxAbsScaler": ("n_samples_seen_", "max_abs_", "scale_"),
    "MinMaxScaler": ("n_samples_seen_", "scale_", "min_", "data_min_", "data_max_", "data_range_"),
    "Normalizer": (),
    "OneHotEncoder": (
        "_infrequent_enabled", "categories_", "_drop_idx_after_grouping", "drop_idx_", "_n_features_outs",
        "_infrequent_indices", "_default_to_infrequent_mappings",
    ),
    "OrdinalEncoder": (
        "_infrequent_enabled", "categories_", "_missing_indices", "_infrequent_indices",
        "_default_to_infrequent_mappings",
    ),
    "PolynomialFeatures": ("_min_degree", "_max_degree", "n_output_features_", "_n_out_full"),
    "PowerTransformer": ("lambdas_", "_scaler"),
    "QuantileTransformer": ("n_quantiles_", "references_", "quantiles_"),
    "RobustScaler": ("center_", "scale_"),
    "SplineTransformer": ("bsplines_", "n_features_out_"),
    "StandardScaler": ("n_samples_seen_", "mean_", "var_", "scale_"),
    "AdditiveChi2Sampler": ("sample_interval_",),
    "Nystroem": ("normalization_", "components_", "component_indices_", "_n_features_out"),
    "PolynomialCountSketch": ("indexHash_", "bitHash_", "_n_features_out"),
    "RBFSampler": ("_gamma", "random_weights_", "random_offset_", "_n_features_out"),
    "SkewedChi2Sampler": ("random_weights_", "random_offset_", "_n_features_out"),
    "PCA": (
        "_fit_svd_solver", "mean_", "noise_variance_", "n_samples_", "n_components_", "components_",
        "explained_variance_", "explained_variance_ratio_", "singular_values_",
    ),
    "TruncatedSVD": ("components_", "explained_variance_", "explained_variance_ratio_", "singular_values_"),
    "GaussianRandomProjection": ("n_components_", "components_", "_n_features_out"),
    "VarianceThreshold": ("variances_",),
    "FeatureUnion": (),
    "Pipeline": (),
    "ColumnTransformer": (
        "_columns", "_transformer_to_input_indices", "_remainder", "sparse_output_", "transformers_",
        "output_indices_", "_n_features", "_name_to_fitted_passthrough",
    ),
}  # fmt: skip
OF_ALL = ("n_features_in_", "feature_names_in_", "_sklearn_output_config")
ONLY: dict[str, tuple[Any, ...]] = {
    "memory": (None,), "kw_args": (None,), "inv_kw_args": (None,), "kernel_params": (None,),
    "feature_names_out": (None, "one-to-one"), "feature_name_combiner": ("concat",),
    "verbose_feature_names_out": (True, False),
}  # fmt: skip
BOUNDED = {"degree": MOST_DEGREES, "n_components": MOST_COLUMNS, "n_knots": MOST_COLUMNS, "sample_steps": MOST_DEGREES}


def restore_transformer(content: Any, arrays: Sequence[NDArray[Any]]) -> Any:
    """The transformer that plain data describe.

    Raises
    ------
    ValueError
        When they describe anything else, or one that no fit could have made.
    """
    transformer = Reader(arrays).value(content, 0)
    if type(transformer).__name__ not in ALLOWED:
        raise ValueError("the description of features is of no transformer")
    _refuse_broken(transformer)
    return transformer


class Reader:
    """Plain data, read from the outside in.

    Parameters
    ----------
    arrays : the numbers that the data refer to.
    """

    def __init__(self, arrays: Sequence[NDArray[Any]]) -> None:
        self.arrays = arrays

    def value(self, value: Any, depth: int) -> Any:
        """Anything that a transformer may hold."""
        if depth > DEEPEST:
            raise ValueError(f"the description of features is nested more than {DEEPEST} deep")
        if isinstance(value, list):
            return [self.value(item, depth + 1) for item in value]
        if not isinstance(value, dict):
            return _short(value)
        if "class" in value:
            return self.transformer(value, depth + 1)
        ((kind, content),) = [(kind, content) for kind, content in value.items() if kind != "dtype"]
        if kind == "array":
            return self.numbers(content)
        if kind == "objects":
            return self.objects(content, value["dtype"], depth)
        if kind == "tuple":
            return tuple(self.value(item, depth + 1) for item in content)
        if kind == "pairs":
            return {self.value(key, depth + 1): self.value(item, depth + 1) for key, item in content}
        if kind == "slice":
            if len(content) != 3 or not all(item is None or isinstance(item, (int, str)) for item in content):
                raise ValueError(f"the description of features holds a slice of {str(content)[:80]}")
            return slice(*content)
        if kind == "spline":
            return self.spline(*(self.value(item, depth + 1) for item in content))
        if kind == "ufunc" and (content in UNARY or content in BINARY):
            return getattr(np, content)
        if kind in ("type", "kind") and dtype(content).kind in "biuf":
            return dtype(content).type if kind == "type" else dtype(content)
        raise ValueError(f"the description of features holds an unknown {str(kind)[:40]} {str(content)[:80]!r}")

    def numbers(self, place: Any) -> NDArray[Any]:
        if not isinstance(place, int) or isinstance(place, bool) or place < 0:
            raise ValueError(f"the description of features names array {str(place)[:40]!r}")
        found = self.arrays[place]
        if not isinstance(found, np.ndarray) or found.dtype.kind not in "biuf" or not np.all(np.isfinite(found)):
            raise ValueError(f"the description of features holds an array {place} that is not of finite numbers")
        return found

    def objects(self, content: Any, kind: Any, depth: int) -> NDArray[Any]:
        filled = np.empty(len(content), dtype=object)
        filled[:] = [self.value(item, depth + 1) for item in content]
        if dtype(kind).kind == "O":
            return filled
        if not all(isinstance(item, str) for item in filled):
            raise ValueError("the description of features holds texts that are none")
        return filled.astype(np.str_)

    def spline(self, t: Any, c: Any, k: Any, extrapolate: Any) -> Any:
        """A spline whose knots, coefficients and degree belong together."""
        whole = isinstance(k, (int, np.integer)) and not isinstance(k, bool) and 0 <= k <= MOST_DEGREES
        arrays = isinstance(t, np.ndarray) and isinstance(c, np.ndarray) and t.ndim == 1 and c.ndim == 2
        if not whole or not arrays or not (extrapolate == "periodic" or isinstance(extrapolate, bool)):
            raise ValueError(f"the description of features holds a spline of degree {str(k)[:40]} without its numbers")
        if len(c) < len(t) - k - 1:
            raise ValueError(f"the description of features holds a spline of {len(t)} knots and {len(c)} coefficients")
        from scipy.interpolate import BSpline

        return BSpline(t.astype(np.float64), c.astype(np.float64), int(k), extrapolate=extrapolate)

    def transformer(self, content: dict[str, Any], depth: int) -> Any:
        name = content["class"]
        if name not in ALLOWED:
            raise ValueError(
                f"the description of features names {str(name)[:80]!r}, which is none of {', '.join(sorted(ALLOWED))}"
            )
        cls = getattr(import_module(ALLOWED[name]), name)
        settings = {key: self.value(value, depth) for key, value in content["settings"].items()}
        if settings.get("memory") is not None:
            raise ValueError("the description of features names a cache of pickles (memory): set it to None")
        unknown = settings.keys() - set(cls._get_param_names())
        if unknown:
            raise ValueError(f"scikit-learn {sklearn.__version__} has no setting {min(unknown)!r} in {name}")
        _refuse_settings(name, settings)
        instead = {"n_jobs": None, "copy": True}  # no threads by a file's wish, and no writing into the rows
        made = cls(**settings | {key: value for key, value in instead.items() if key in settings})
        if hasattr(cls, "_parameter_constraints"):
            made._validate_params()
        for key, value in content["fitted"].items():
            if key not in OF_ALL and key not in LEARNED[name]:
                raise ValueError(
                    f"the description of features gives {name} an attribute {str(key)[:80]!r} it may not have"
                )
            found = self.value(value, depth)
            if key.startswith("_n_") and not (isinstance(found, list) or _is_count(found, MOST_COLUMNS)):
                raise ValueError(f"{name} has {key}={str(found)[:40]}")
            setattr(made, key, found)
        return _check_sizes(made)


def _short(value: Any) -> Any:
    if isinstance(value, str) and len(value) > LONGEST_LABEL:
        raise ValueError(f"the description of features holds a text of {len(value):,} characters")
    return value


def _refuse_settings(name: str, settings: dict[str, Any]) -> None:
    for key, may in ONLY.items():
        if key in settings and not any(settings[key] is one or settings[key] == one for one in may):
            raise ValueError(f"{key} of {name} may not come from a file as {str(settings[key])[:80]!r}")
    for key, most in BOUNDED.items():
        given = settings.get(key)
        for value in given if isinstance(given, tuple) else (given,):
            if isinstance(value, (int, float)) and not 0 <= value <= most:
                raise ValueError(f"{key} of {name} must be between 0 and {most} (got {value})")


def _check_sizes(made: Any) -> Any:
    """A transformer whose sizes are those that its settings make; what can be learned anew is."""
    name, columns = type(made).__name__, getattr(made, "n_features_in_", None)
    if columns is None:
        return made
    if not _is_count(columns, MOST_ROWS) or columns == 0:
        raise ValueError(f"{name} has n_features_in_={str(columns)[:40]}")
    if name == "PolynomialFeatures":
        degree = made.degree if isinstance(made.degree, int) else max(made.degree)
        width = comb(int(columns) + degree, degree)
        if width > MOST_COLUMNS:
            raise ValueError(f"{name} of degree {degree} would make {width:,} columns of {columns}")
        again = type(made)(**made.get_params(deep=False)).fit(np.zeros((1, int(columns))))
        if hasattr(made, "feature_names_in_"):
            again.feature_names_in_ = made.feature_names_in_
        return again
    if name == "SplineTransformer":
        _check_splines(made, int(columns))
    if name == "PolynomialCountSketch":
        shape = (made.degree, columns + (made.coef0 != 0))
        hashes = (np.asarray(made.indexHash_), np.asarray(made.bitHash_))
        if any(one.shape != shape for one in hashes) or not _within(hashes[0], made.n_components):
            raise ValueError(f"{name} has hashes of another shape than {shape}")
    if name == "OneHotEncoder":
        counts = [len(known) for known in made.categories_]
        if len(made._n_features_outs) != len(counts) or not all(
            0 <= one <= most for one, most in zip(made._n_features_outs, counts)
        ):
            raise ValueError(f"{name} has other numbers of columns than its categories make")
    return made


def _check_splines(made: Any, columns: int) -> None:
    from scipy.interpolate import BSpline

    splines = made.bsplines_
    if len(splines) != columns or not all(
        isinstance(spline, BSpline) and spline.k == made.degree for spline in splines
    ):
        raise ValueError(f"SplineTransformer has not {columns} splines of degree {made.degree}")
    widths = {spline.c.shape[1] for spline in splines}
    made_of_each = widths.pop() - (0 if made.include_bias else 1)
    if widths or made.n_features_out_ != columns * made_of_each or made.n_features_out_ > MOST_COLUMNS:
        raise ValueError(f"SplineTransformer has {made.n_features_out_} columns, which its splines do not make")


def _is_count(value: Any, most: int) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and bool(0 <= value <= most)


def _within(places: NDArray[Any], count: int) -> bool:
    return bool(np.all((places >= 0) & (places < count)))


def _refuse_broken(transformer: Any) -> None:
    """Raise where a transformer stumbles over a row of ones in a way that no row should bring about."""
    columns = getattr(transformer, "n_features_in_", None)
    if columns is None:
        return
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            transformer.transform(np.ones((1, int(columns))))
            with suppress(AttributeError):  # a function has no names for what it makes
                transformer.get_feature_names_out(getattr(transformer, "feature_names_in_", None))
    except ValueError:
        return  # a category that is unknown, or columns asked for by name: a matter of the row
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError) as error:
        raise ValueError(f"the description of features is damaged: {type(error).__name__} {str(error)[:200]}") from None
