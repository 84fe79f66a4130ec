"""Fitted models as JSON: readable, exact to the last digit, and nothing in them is run."""

from __future__ import annotations

import json
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from wmlr.files import write_text
from wmlr.formula import ModelFormula
from wmlr.methods import IFCA, METHODS, SOLVERS, FederatedEM, PrintedEM
from wmlr.model import Mixture
from wmlr.packing import packed, unpacked
from wmlr.streaming import Progress
from wmlr.transformers import Described

FORMAT = "wmlr-model-1"
SETTINGS = {cls.__name__: cls for cls in (*METHODS.values(), *SOLVERS.values(), PrintedEM, FederatedEM, IFCA)}


def save(estimator: Any, path: Path) -> None:
    """Write a fitted estimator."""
    content = {
        "format": FORMAT,
        "parameters": {name: _plain(value) for name, value in estimator.get_params(deep=False).items()},
        "mixture": {name: _listed(value) for name, value in asdict(estimator.mixture_).items()},
        "log_likelihood": estimator.log_likelihood_,
        "n_iter": estimator.n_iter_,
        "converged": bool(estimator.converged_),
        "history": estimator.history_,
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
    if hasattr(estimator, "stream_"):
        content["stream"] = estimator.stream_.to_plain()
    write_text(path, json.dumps(content, indent=1))


def load(cls: Any, path: Path) -> Any:
    """Read an estimator of class ``cls``."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is not a model file: {error}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        found = content.get("format") if isinstance(content, dict) else type(content).__name__
        raise ValueError(f"{path} is not a model written by this version (format {found!r}, wanted {FORMAT!r})")
    estimator = cls(**{name: _rich(value) for name, value in content["parameters"].items()})
    given: dict[str, Any] = content["mixture"]
    numbers: dict[str, Any] = {
        name: np.asarray(value, np.float64) for name, value in given.items() if isinstance(value, list)
    }
    estimator.mixture_ = Mixture(**(given | numbers))
    for name in ("coef", "intercept", "weights", "sigma"):
        setattr(estimator, f"{name}_", getattr(estimator.mixture_, name))
    for name in ("log_likelihood", "n_iter", "converged", "history"):
        setattr(estimator, f"{name}_", content[name])
    estimator.n_features_in_ = content["n_features_in"]
    if content["feature_names_in"] is not None:
        estimator.feature_names_in_ = np.asarray(content["feature_names_in"], dtype=object)
    if "features" in content:
        estimator.features_ = Described.from_plain(content["features"]).transformer
    if "effective_parameters" in content:
        estimator.effective_parameters_ = content["effective_parameters"]
    if "formula" in content:
        estimator.formula_ = ModelFormula.from_plain(content["formula"])
    if "groups" in content:
        estimator.group_labels_ = unpacked(content["groups"]["labels"])
        estimator.group_responsibilities_ = np.asarray(content["groups"]["responsibilities"])
    if "stream" in content:
        estimator.stream_ = Progress.from_plain(content["stream"])
    return estimator


def _listed(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return packed(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
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
    if isinstance(value, dict) and "transformer" in value:
        return Described.from_plain(value["transformer"]).transformer
    if isinstance(value, dict) and "settings" in value:
        if value["settings"] not in SETTINGS:
            raise ValueError(f"unknown method {value['settings']!r} in the model file")
        given = {name: _rich(item) for name, item in value.items() if name != "settings"}
        numbers = {name: np.asarray(item) if isinstance(item, list) else item for name, item in given.items()}
        return SETTINGS[value["settings"]](**numbers)
    return value
