"""Fitted models as JSON: readable, exact to the last digit, and nothing in them is run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import UNSET
from sklearn.base import BaseEstimator

from wmlr.estimator import model_file
from wmlr.estimator.fitted import FitRecord, FittedMixture
from wmlr.estimator.fitting import constraints_of
from wmlr.estimator.gate_columns import GateColumns
from wmlr.estimator.inputs import Inputs
from wmlr.estimator.model_file import FORMAT, ModelFile, StoredGroups
from wmlr.estimator.prediction import GroupPosteriors
from wmlr.estimator.settings import check_parameters
from wmlr.estimator.streaming import Progress
from wmlr.families import Family, from_plain, to_plain
from wmlr.features.transformers import Described, as_named_frame
from wmlr.formulas.formula import ModelFormula
from wmlr.formulas.split import with_terms
from wmlr.io.field_types import check_fields
from wmlr.io.files import write_text
from wmlr.io.packing import pack, unpack
from wmlr.methods import IFCA, METHODS, SOLVERS, FederatedEM, PrintedEM
from wmlr.methods.search.effort import Effort
from wmlr.model.mixture import Mixture

SETTINGS = {cls.__name__: cls for cls in (*METHODS.values(), *SOLVERS.values(), PrintedEM, FederatedEM, IFCA, Effort)}


def save(estimator: Any, path: Path) -> None:
    """Write a fitted estimator."""
    fitted: FittedMixture = estimator.fitted_
    record, inputs = fitted.record, fitted.inputs
    content: dict[str, Any] = {
        "format": FORMAT,
        "parameters": {name: _to_json(value) for name, value in estimator.get_params(deep=False).items()},
        "mixture": _mixture(fitted.mixture),
        "log_likelihood": record.log_likelihood,
        "n_iter": record.n_iter,
        "converged": bool(record.converged),
        "history": record.history,
        "degenerate": bool(record.degenerate),
        "grouped": record.grouped,
        "dropped": record.dropped,
        "gaps": dict(record.gaps),
        "n_features_in": inputs.checker.n_features_in_,
        "feature_names_in": _to_list(inputs.names),
        "target": inputs.target,
        "ids": inputs.ids,
    }
    if inputs.needed:
        content["needed"] = list(inputs.needed)
    if inputs.features is not None:
        content["features"] = Described.of(inputs.features).to_plain()
    if fitted.effective_parameters is not None:
        content["effective_parameters"] = fitted.effective_parameters
    if inputs.formula is not None:
        content["formula"] = inputs.formula.to_plain()
    if inputs.gate_formula is not None:
        content["gate_formula"] = inputs.gate_formula.to_plain()
    if fitted.groups is not None:
        content["groups"] = {
            "labels": pack(fitted.groups.labels),
            "responsibilities": fitted.groups.responsibilities.tolist(),
        }
    if record.search is not None:
        content["search"] = record.search.to_plain()
    if hasattr(estimator, "stream_"):
        content["stream"] = estimator.stream_.to_plain()
    write_text(path, json.dumps(content, indent=1))


def load(cls: Any, path: Path) -> Any:
    """Read an estimator of class ``cls``; a file that is damaged is refused with one line."""
    content = model_file.read_model_file(path)
    return model_file.report_damage(path, lambda: _restore(cls, content))


def _restore(cls: Any, content: ModelFile) -> Any:
    settings = {name: _from_json(value) for name, value in content.parameters.items()}
    unknown = settings.keys() - set(cls._get_param_names())
    if unknown:
        raise ValueError(f"{cls.__name__} has no setting {min(unknown)!r}")
    formula = None if content.formula is None else ModelFormula.from_plain(content.formula)
    given = settings.get("formula")
    if isinstance(given, str):
        given = with_terms(given, settings.get("shared"))
    if given not in (None, None if formula is None else formula.text):
        raise ValueError("the formula among the settings is not that of the fit")
    if formula is not None:
        settings |= {"formula": formula.text, "fit_intercept": True}
    estimator = cls(**settings)
    check_parameters(estimator)
    _check_kinds(estimator)
    estimator.n_features_in_ = content.n_features_in
    if content.feature_names_in is not None:
        estimator.feature_names_in_ = np.asarray(content.feature_names_in, dtype=object)
    estimator.fitted_ = _restore_fitted(estimator, content, formula)
    if content.stream is not None:
        estimator.stream_ = Progress.from_plain(content.stream)
    return estimator


def _restore_fitted(estimator: Any, content: ModelFile, formula: ModelFormula | None) -> FittedMixture:
    """The fitted object; raises where its parts do not fit each other or the settings."""
    mixture = content.mixture.mixture()
    features = None if content.features is None else Described.from_plain(content.features).transformer
    inputs = Inputs.of(estimator, mixture.n_features, features, formula)
    inputs = replace(inputs, target=content.target, ids=content.ids, needed=tuple(content.needed))
    gate = _gate(estimator, content, inputs, mixture)
    inputs = replace(inputs, gate=gate)
    _check_widths(estimator, mixture, inputs)
    if formula is not None and len(formula.names) != content.n_features_in:
        raise ValueError(f"the formula has {len(formula.names)} columns, not {content.n_features_in}")
    groups = None if content.groups is UNSET else _groups(content.groups, mixture.n_components)
    return FittedMixture(
        mixture=mixture,
        inputs=inputs,
        groups=groups,
        constraints=constraints_of(
            estimator, inputs.column_names, None if formula is None else formula.intercept, inputs.gate_names
        ),
        record=FitRecord(
            content.log_likelihood,
            content.n_iter,
            content.converged,
            content.history,
            None if content.search is None else content.search.restore(),
            content.degenerate,
            True if groups is not None else content.grouped,
            content.dropped,
            content.gaps,
        ),
        alpha=float(estimator.alpha),
        effective_parameters=content.effective_parameters,
    )


def _gate(estimator: Any, content: ModelFile, inputs: Inputs, mixture: Mixture) -> GateColumns | None:
    """The columns that mixing weights depend on; raises where the mixture has others."""
    if content.gate_formula is not None:
        formula = ModelFormula.from_plain(content.gate_formula)
        gate: GateColumns | None = GateColumns(formula.names, (), formula)
    else:
        names = [f"x{place}" for place in range(estimator.n_features_in_)] if inputs.names is None else inputs.names
        gate = GateColumns.of(estimator.gate, [str(name) for name in names])
    width = None if mixture.gate is None else mixture.gate.shape[1] - 1
    if width != (None if gate is None else len(gate.names)):
        raise ValueError("the gate has not the columns that the settings say")
    return gate


def _check_kinds(estimator: Any) -> None:
    """Raise where a setting that ``fit`` would take as it is could not have been written."""
    if estimator.n_components > model_file.MOST_COMPONENTS:
        raise ValueError(f"n_components is {estimator.n_components} (at most {model_file.MOST_COMPONENTS})")
    whole = {"random_state": True, "n_jobs": True, "verbose": False}
    for name, may_lack in whole.items():
        value = getattr(estimator, name)
        if not isinstance(value, int) and not (may_lack and value is None):
            raise ValueError(f"{name} must be a whole number (got {str(value)[:80]!r})")


def _check_widths(estimator: Any, mixture: Mixture, inputs: Inputs) -> None:
    """Raise where components and columns are not as many as the settings and the features say."""
    k, columns = mixture.coef.shape
    if k > estimator.n_components:
        raise ValueError(f"there are {k} components where n_components={estimator.n_components}")
    if (estimator.features is None) != (inputs.features is None):
        raise ValueError("features must be there both as a setting and as fitted, or not at all")
    made = estimator.n_features_in_ if inputs.features is None else _width_of_features(inputs)
    if made is not None and made != columns:
        raise ValueError(f"coef has {columns} columns where the rows have {made}")


def _width_of_features(inputs: Inputs) -> int | None:
    """How many columns the features make; None where only rows of known categories could tell."""
    ones = np.ones((1, inputs.checker.n_features_in_))
    try:
        with np.errstate(all="ignore"):
            return int(inputs.features.transform(as_named_frame(inputs.features, ones, inputs.names)).shape[1])
    except ValueError:
        return None


def _groups(groups: StoredGroups, k: int) -> GroupPosteriors:
    labels = unpack(groups.labels)
    shares = model_file.finite(groups.responsibilities, "responsibilities")
    if not isinstance(labels, np.ndarray) or shares.shape != (len(labels), k):
        raise ValueError(f"the groups have responsibilities of shape {shares.shape}")
    if np.any(shares < 0) or np.any(np.abs(shares.sum(axis=1) - 1) > model_file.ROUNDING):
        raise ValueError("the responsibilities of a group must be shares that sum to 1")
    return GroupPosteriors(labels, shares)


def _mixture(mixture: Mixture) -> dict[str, Any]:
    arrays = {name: getattr(mixture, name).tolist() for name in ("coef", "intercept", "weights", "sigma")}
    gate = {} if mixture.gate is None else {"gate": mixture.gate.tolist()}
    prior = {} if mixture.prior is None else {"prior": mixture.prior.tolist()}
    return {**arrays, "symmetric": mixture.symmetric, "family": to_plain(mixture.family), **gate, **prior}


def _to_list(value: Any) -> Any:
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


def _to_json(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return pack(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [_to_json(item) for item in value]
    if isinstance(value, Mapping):
        return {"pairs": [[_to_json(key), _to_json(item)] for key, item in value.items()]}
    if isinstance(value, Family):
        return {"family": to_plain(value)}
    if is_dataclass(value) and not isinstance(value, type):
        given = {one.name: _to_json(getattr(value, one.name)) for one in fields(value)}
        return {"settings": type(value).__name__, **given}
    if isinstance(value, (np.random.Generator, np.random.RandomState)):
        return None
    if isinstance(value, BaseEstimator):
        return {"transformer": Described.of(value).to_plain()}
    return value


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_json(item) for item in value]
    if isinstance(value, dict) and "array" in value:
        return unpack(value)
    if isinstance(value, dict) and "pairs" in value:
        return {key: _from_json(item) for key, item in value["pairs"]}
    if isinstance(value, dict) and "family" in value:
        return from_plain(value["family"])
    if isinstance(value, dict) and "transformer" in value:
        return Described.from_plain(value["transformer"]).transformer
    if isinstance(value, dict) and "settings" in value:
        if value["settings"] not in SETTINGS:
            raise ValueError(f"unknown method {value['settings']!r} in the model file")
        given = {name: _from_json(item) for name, item in value.items() if name != "settings"}
        numbers = {name: np.asarray(item) if isinstance(item, list) else item for name, item in given.items()}
        return check_fields(SETTINGS[value["settings"]], numbers)
    return value
