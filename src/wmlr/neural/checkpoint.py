"""Trained models and the state of training in a file: arrays beside a JSON text, nothing pickled."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np

from wmlr.estimator.model_file import damage_said, finite
from wmlr.estimator.prediction import GroupPosteriors
from wmlr.io.files import read_bytes, write_bytes
from wmlr.io.packing import pack, unpack
from wmlr.neural.layout import ParameterLayout
from wmlr.neural.network import Network
from wmlr.neural.queries import Units
from wmlr.neural.training import TrainingPlan, TrainingState
from wmlr.numerics.arrays import Array

MODEL, STATE = "wmlr-neural-1", "wmlr-neural-state-1"
ARRAYS = ("theta", "average", "first", "second", "gamma", "reference", "gram", "best")
NUMBERS = ("best_held", "best_epoch", "steps", "epoch")
FREE = ("phi", "checkpoint", "verbose", "n_jobs", "device", "random_state")


@dataclass(frozen=True)
class StoredTraining:
    """The file of a training under way, and the state found in it; without a file, nothing.

    The file belongs to one set of settings and one set of rows, told by their moments.
    """

    path: Path | None
    sign: str
    state: TrainingState | None

    @classmethod
    def of(cls, estimator: Any, plan: TrainingPlan) -> StoredTraining:
        """For a fit; raises when the file there belongs to another one."""
        if estimator.checkpoint is None:
            return cls(None, "", None)
        path = Path(estimator.checkpoint)
        told = {name: pack(value) for name, value in _settings(estimator).items() if name not in FREE}
        units = plan.units
        moments = [*units.centre.tolist(), *units.scale.tolist(), units.mean, units.deviation]
        sign = hashlib.sha256(json.dumps([told, moments, plan.seed, plan.grouped]).encode()).hexdigest()
        if not path.exists():
            return cls(path, sign, None)
        content, arrays = _read_file(path, STATE)
        if content["sign"] != sign:
            raise ValueError(f"{path} was left by a fit with other settings or rows: delete it or name another file")
        parts: dict[str, Any] = arrays | {name: content[name] for name in NUMBERS}
        return cls(path, sign, TrainingState(**parts, history=tuple(content["history"])))

    def write(self, state: TrainingState) -> None:
        """Keep where training stands."""
        if self.path is not None:
            content = {"sign": self.sign, "history": list(state.history)}
            content |= {name: getattr(state, name) for name in NUMBERS}
            _write(self.path, STATE, content, {name: getattr(state, name) for name in ARRAYS})


def save(estimator: Any, path: Path) -> None:
    """Write a trained estimator."""
    layout, units = estimator._layout, estimator._units
    content = {
        "settings": {name: pack(value) for name, value in _settings(estimator).items()},
        "own_phi": estimator.phi is not None,
        "inputs": layout.network.inputs,
        "mean": units.mean,
        "deviation": units.deviation,
        "history": estimator.history_,
        "n_iter": estimator.n_iter_,
        "best_epoch": estimator.best_epoch_,
        "converged": bool(estimator.converged_),
        "held_log_likelihood": estimator.held_log_likelihood_,
        "feature_names_in": pack(getattr(estimator, "feature_names_in_", None)),
    }
    arrays = {"theta": estimator._theta, "centre": units.centre, "scale": units.scale}
    if hasattr(estimator, "group_labels_"):
        content["group_labels"] = pack(estimator.group_labels_)
        arrays["group_responsibilities"] = estimator.group_responsibilities_
    _write(path, MODEL, content, arrays)


def load(cls: Any, path: Path, phi: Any) -> Any:
    """Read an estimator of class ``cls``; a file that is damaged is refused with one line."""
    content, arrays = _read_file(path, MODEL)
    return damage_said(path, lambda: _restore(cls, path, phi, content, arrays))


def _restore(cls: Any, path: Path, phi: Any, content: dict[str, Any], arrays: dict[str, Array]) -> Any:
    for name, numbers in arrays.items():
        finite(numbers, name)
    if content["own_phi"] and phi is None:
        raise ValueError(f"{path} holds the weights of a module of your own: give it again as phi=")
    estimator = cls(**{name: unpack(value) for name, value in content["settings"].items()})
    if content["own_phi"]:
        estimator.set_params(phi=phi)
    estimator.n_features_in_ = content["inputs"]
    names = unpack(content["feature_names_in"])
    if names is not None:
        estimator.feature_names_in_ = names
    for name in ("history", "n_iter", "best_epoch", "converged", "held_log_likelihood"):
        setattr(estimator, f"{name}_", content[name])
    layout = _layout(estimator, content["inputs"])
    if len(arrays["theta"]) != layout.size:
        raise ValueError(
            f"{path} holds {len(arrays['theta'])} parameters where phi and the heads have {layout.size}: "
            "give the module it was trained with"
        )
    units = Units(arrays["centre"], arrays["scale"], content["mean"], content["deviation"])
    estimator._settle(layout, units, arrays["theta"])
    if "group_labels" in content:
        groups = GroupPosteriors(unpack(content["group_labels"]), arrays["group_responsibilities"])
        estimator.fitted_ = replace(estimator.fitted_, groups=groups)
    return estimator


def _layout(estimator: Any, inputs: int) -> ParameterLayout:
    network: Network = estimator._network(inputs)
    return ParameterLayout(
        network, estimator.n_components, estimator.shared_sigma, estimator.sigma is not None, estimator.equal_weights
    )


def _settings(estimator: Any) -> dict[str, Any]:
    given: dict[str, Any] = estimator.get_params(deep=False)
    given |= {"phi": None, "checkpoint": None}
    if not isinstance(given["random_state"], (int, np.integer)):
        given["random_state"] = None
    return given


def _write(path: Path, form: str, content: dict[str, Any], arrays: dict[str, Array]) -> None:
    sink = io.BytesIO()
    text = np.frombuffer(json.dumps({"format": form, **content}).encode(), dtype=np.uint8)
    np.savez(sink, allow_pickle=False, json=text, **arrays)
    write_bytes(path, sink.getvalue())


def _read_file(path: Path, form: str) -> tuple[dict[str, Any], dict[str, Array]]:
    try:
        data = io.BytesIO(read_bytes(path))
        if any(one.file_size != one.compress_size for one in ZipFile(data).infolist()):
            raise ValueError("it holds what is compressed, which no checkpoint is")
        with np.load(data, allow_pickle=False) as file:
            arrays = {name: np.asarray(file[name]) for name in file.files}
        content: dict[str, Any] = json.loads(arrays.pop("json").tobytes())
    except (ValueError, KeyError, EOFError, AttributeError, TypeError, MemoryError, BadZipFile) as error:
        raise ValueError(f"{path} is not a file of a neural mixture: {error}") from None
    if content.get("format") != form:
        raise ValueError(f"{path} has format {content.get('format')!r}, wanted {form!r}")
    return content, arrays
