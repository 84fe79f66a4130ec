"""Fitted models as JSON: readable, exact to the last digit, and nothing in them is run."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wmlr.methods import METHODS, SOLVERS, PrintedEM
from wmlr.model import Mixture

FORMAT = "wmlr-model-1"
SETTINGS = {cls.__name__: cls for cls in (*METHODS.values(), *SOLVERS.values(), PrintedEM)}


def write_text(path: Path, text: str) -> None:
    """Write to a temporary file beside ``path``, then rename, so that nothing half-written is left."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def save(estimator: Any, path: Path) -> None:
    """Write a fitted estimator."""
    if estimator.features is not None:
        raise ValueError(
            "a model with features= holds a transformer that JSON cannot: transform X before fitting, "
            "or keep the model with joblib where its file can be trusted"
        )
    mixture = estimator.mixture_
    content = {
        "format": FORMAT,
        "parameters": {name: _plain(value) for name, value in estimator.get_params(deep=False).items()},
        "mixture": {name: _plain(value) for name, value in asdict(mixture).items()},
        "log_likelihood": estimator.log_likelihood_,
        "n_iter": estimator.n_iter_,
        "converged": bool(estimator.converged_),
        "history": estimator.history_,
        "n_features_in": estimator.n_features_in_,
        "feature_names_in": _plain(getattr(estimator, "feature_names_in_", None)),
    }
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
    fields = content["mixture"]
    arrays = {name: np.asarray(value, dtype=np.float64) for name, value in fields.items() if name != "symmetric"}
    estimator.mixture_ = Mixture(**arrays, symmetric=bool(fields["symmetric"]))
    for name in ("coef", "intercept", "weights", "sigma"):
        setattr(estimator, f"{name}_", getattr(estimator.mixture_, name))
    for name in ("log_likelihood", "n_iter", "converged", "history"):
        setattr(estimator, f"{name}_", content[name])
    estimator.n_features_in_ = content["n_features_in"]
    if content["feature_names_in"] is not None:
        estimator.feature_names_in_ = np.asarray(content["feature_names_in"], dtype=object)
    return estimator


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if is_dataclass(value) and not isinstance(value, type):
        return {"settings": type(value).__name__} | {name: _plain(item) for name, item in asdict(value).items()}
    if isinstance(value, (np.random.Generator, np.random.RandomState)):
        return None
    return value


def _rich(value: Any) -> Any:
    if isinstance(value, dict) and "settings" in value:
        fields = {name: item for name, item in value.items() if name != "settings"}
        if value["settings"] not in SETTINGS:
            raise ValueError(f"unknown method {value['settings']!r} in the model file")
        return SETTINGS[value["settings"]](**fields)
    return value
