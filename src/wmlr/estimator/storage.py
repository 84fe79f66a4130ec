"""Fitted models as JSON: readable, exact to the last digit, and nothing in them is run."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import UNSET
from sklearn.base import BaseEstimator

from wmlr.estimator import model_file
from wmlr.estimator.model_file import FORMAT, ModelFile, StoredGroups
from wmlr.estimator.settings import check_parameters
from wmlr.estimator.streaming import Progress
from wmlr.families import Family, from_plain, to_plain
from wmlr.features.transformers import Described, named
from wmlr.formulas.formula import ModelFormula
from wmlr.io.field_types import checked_fields
from wmlr.io.files import write_text
from wmlr.io.packing import packed, unpacked
from wmlr.methods import IFCA, METHODS, SOLVERS, FederatedEM, PrintedEM
from wmlr.methods.search.effort import Effort
from wmlr.model.mixture import Mixture

SETTINGS = {cls.__name__: cls for cls in (*METHODS.values(), *SOLVERS.values(), PrintedEM, FederatedEM, IFCA, Effort)}


def save(estimator: Any, path: Path) -> None:
    """Write a fitted estimator."""
    content = {
        "format": FORMAT,
        "parameters": {name: _plain(value) for name, value in estimator.get_params(deep=False).items()},
        "mixture": _mixture(estimator.mixture_),
        "log_likelihood": estimator.log_likelihood_,
        "n_iter": estimator.n_iter_,
        "converged": bool(estimator.converged_),
        "history": estimator.history_,
        "degenerate": bool(getattr(estimator, "degenerate_", False)),
        "n_features_in": estimator.n_features_in_,
        "feature_names_in": _listed(getattr(estimator, "feature_names_in_", None)),
    }
    if estimator.features is not None:
        content["features"] = Described.of(estimator.features_).to_plain()
    if hasattr(estimator, "effective_parameters_"):
        content["effective_parameters"] = estimator.effective_parameters_
    if hasattr(estimator, "formula_"):
        content["formula"] = estimator.formula_.to_plain()
    if hasattr(estimator, "group_labels_"):
        content["groups"] = {
            "labels": packed(estimator.group_labels_),
            "responsibilities": estimator.group_responsibilities_.tolist(),
        }
    if getattr(estimator, "search_", None) is not None:
        content["search"] = estimator.search_.to_plain()
    if hasattr(estimator, "stream_"):
        content["stream"] = estimator.stream_.to_plain()
    write_text(path, json.dumps(content, indent=1))


def load(cls: Any, path: Path) -> Any:
    """Read an estimator of class ``cls``; a file that is damaged is refused with one line."""
    content = model_file.read(path)
    return model_file.damage_said(path, lambda: _restored(cls, content))


def _restored(cls: Any, content: ModelFile) -> Any:
    settings = {name: _rich(value) for name, value in content.parameters.items()}
    unknown = settings.keys() - set(cls._get_param_names())
    if unknown:
        raise ValueError(f"{cls.__name__} has no setting {min(unknown)!r}")
    estimator = cls(**settings)
    check_parameters(estimator)
    _check_kinds(estimator)
    estimator.mixture_ = content.mixture.mixture()
    for name in ("coef", "intercept", "weights", "sigma"):
        setattr(estimator, f"{name}_", getattr(estimator.mixture_, name))
    for name in ("log_likelihood", "n_iter", "converged", "history", "degenerate"):
        setattr(estimator, f"{name}_", getattr(content, name))
    estimator.n_features_in_ = content.n_features_in
    if content.feature_names_in is not None:
        estimator.feature_names_in_ = np.asarray(content.feature_names_in, dtype=object)
    if content.features is not None:
        estimator.features_ = Described.from_plain(content.features).transformer
    if content.effective_parameters is not None:
        estimator.effective_parameters_ = content.effective_parameters
    estimator.search_ = None if content.search is None else content.search.restored()
    _check_widths(estimator, content)
    if content.formula is not None:
        estimator.formula_ = ModelFormula.from_plain(content.formula)
        if len(estimator.formula_.names) != content.n_features_in:
            raise ValueError(f"the formula has {len(estimator.formula_.names)} columns, not {content.n_features_in}")
    if content.groups is not UNSET:
        _restore_groups(estimator, content.groups)
    if content.stream is not None:
        estimator.stream_ = Progress.from_plain(content.stream)
    return estimator


def _check_kinds(estimator: Any) -> None:
    """Raise where a setting that ``fit`` would take as it is could not have been written."""
    if estimator.n_components > model_file.MOST_COMPONENTS:
        raise ValueError(f"n_components is {estimator.n_components} (at most {model_file.MOST_COMPONENTS})")
    whole = {"random_state": True, "n_jobs": True, "verbose": False}
    for name, may_lack in whole.items():
        value = getattr(estimator, name)
        if not isinstance(value, int) and not (may_lack and value is None):
            raise ValueError(f"{name} must be a whole number (got {str(value)[:80]!r})")


def _check_widths(estimator: Any, content: ModelFile) -> None:
    """Raise where components and columns are not as many as the settings and the features say."""
    k, columns = estimator.coef_.shape
    if k > estimator.n_components:
        raise ValueError(f"there are {k} components where n_components={estimator.n_components}")
    if (estimator.features is None) != (content.features is None):
        raise ValueError("features must be there both as a setting and as fitted, or not at all")
    made = content.n_features_in if content.features is None else _made(estimator)
    if made is not None and made != columns:
        raise ValueError(f"coef has {columns} columns where the rows have {made}")
    estimator._shared_columns()


def _made(estimator: Any) -> int | None:
    """How many columns the features make; None where only rows of known categories could tell."""
    ones = np.ones((1, estimator.n_features_in_))
    try:
        with np.errstate(all="ignore"):
            seen = named(estimator.features_, ones, getattr(estimator, "feature_names_in_", None))
            return int(estimator.features_.transform(seen).shape[1])
    except ValueError:
        return None


def _restore_groups(estimator: Any, groups: StoredGroups) -> None:
    labels = unpacked(groups.labels)
    shares = model_file.finite(groups.responsibilities, "responsibilities")
    if not isinstance(labels, np.ndarray) or shares.shape != (len(labels), len(estimator.weights_)):
        raise ValueError(f"the groups have responsibilities of shape {shares.shape}")
    if np.any(shares < 0) or np.any(np.abs(shares.sum(axis=1) - 1) > model_file.ROUNDING):
        raise ValueError("the responsibilities of a group must be shares that sum to 1")
    estimator.group_labels_ = labels
    estimator.group_responsibilities_ = shares


def _mixture(mixture: Mixture) -> dict[str, Any]:
    arrays = {name: getattr(mixture, name).tolist() for name in ("coef", "intercept", "weights", "sigma")}
    return {**arrays, "symmetric": mixture.symmetric, "family": to_plain(mixture.family)}


def _listed(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return packed(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, Family):
        return {"family": to_plain(value)}
    if is_dataclass(value) and not isinstance(value, type):
        given = {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
        return {"settings": type(value).__name__, **given}
    if isinstance(value, (np.random.Generator, np.random.RandomState)):
        return None
    if isinstance(value, BaseEstimator):
        return {"transformer": Described.of(value).to_plain()}
    return value


def _rich(value: Any) -> Any:
    if isinstance(value, dict) and "array" in value:
        return unpacked(value)
    if isinstance(value, dict) and "family" in value:
        return from_plain(value["family"])
    if isinstance(value, dict) and "transformer" in value:
        return Described.from_plain(value["transformer"]).transformer
    if isinstance(value, dict) and "settings" in value:
        if value["settings"] not in SETTINGS:
            raise ValueError(f"unknown method {value['settings']!r} in the model file")
        given = {name: _rich(item) for name, item in value.items() if name != "settings"}
        numbers = {name: np.asarray(item) if isinstance(item, list) else item for name, item in given.items()}
        return checked_fields(SETTINGS[value["settings"]], numbers)
    return value
