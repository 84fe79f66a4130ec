"""Trained models and the state of training in a file: arrays beside a JSON text, nothing pickled."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any
from zipfile import ZIP_STORED, ZipFile

import msgspec
import numpy as np
from msgspec import Meta

from wmlr.estimator.model_file import StoredMixture, finite, report_damage
from wmlr.estimator.prediction import GroupPosteriors
from wmlr.io.files import read_bytes, write_bytes
from wmlr.io.packing import pack, unpack
from wmlr.model.mixture import Mixture
from wmlr.neural.layout import ParameterLayout
from wmlr.neural.network import Network, ResidualMLP
from wmlr.neural.queries import Units
from wmlr.neural.settings import check as check_settings
from wmlr.neural.training import TrainingPlan, TrainingState
from wmlr.numerics.arrays import Array

MODEL, STATE = "wmlr-neural-1", "wmlr-neural-state-1"
ARRAYS = ("theta", "average", "first", "second", "gamma", "reference", "gram", "best")
NUMBERS = ("best_held", "best_epoch", "steps", "epoch")
FREE = ("phi", "checkpoint", "verbose", "n_jobs", "device", "random_state")
HERE_ALONE = ("phi", "checkpoint", "verbose", "n_jobs", "device")  # settings that no file decides


class NeuralFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a file of a trained model holds beside its arrays."""

    format: str
    settings: dict[str, Any]
    own_phi: bool
    inputs: Annotated[int, Meta(ge=1)]
    mean: float
    deviation: Annotated[float, Meta(gt=0.0)]
    history: list[dict[str, float]]
    n_iter: Annotated[int, Meta(ge=0)]
    best_epoch: Annotated[int, Meta(ge=0)]
    converged: bool
    held_log_likelihood: float
    feature_names_in: Any = None
    group_labels: Any = None


class StateFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a file of a training under way holds beside its arrays."""

    format: str
    sign: str
    best_held: float
    best_epoch: Annotated[int, Meta(ge=0)]
    steps: Annotated[int, Meta(ge=0)]
    epoch: Annotated[int, Meta(ge=0)]
    history: list[dict[str, float]]


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
        if content.get("sign") != sign:
            raise ValueError(f"{path} was left by a fit with other settings or rows: delete it or name another file")
        return cls(path, sign, report_damage(path, lambda: _restore_state(plan, content, arrays)))

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
    return report_damage(path, lambda: _restore(cls, path, phi, content, arrays))


def _restore(cls: Any, path: Path, phi: Any, content: dict[str, Any], arrays: dict[str, Array]) -> Any:
    found = msgspec.convert(content, NeuralFile)
    for name, numbers in arrays.items():
        _check_numbers(numbers, name)
    if found.own_phi and phi is None:
        raise ValueError(f"{path} holds the weights of a module of your own: give it again as phi=")
    estimator = _restore_settings(cls, found.settings)
    if found.own_phi:
        estimator.set_params(phi=phi)
    estimator.n_features_in_ = found.inputs
    names = unpack(found.feature_names_in)
    if names is not None:
        if np.shape(names) != (found.inputs,) or not all(isinstance(name, str) for name in names):
            raise ValueError(f"feature_names_in are no names of {found.inputs} features")
        estimator.feature_names_in_ = names
    for name in ("history", "n_iter", "best_epoch", "converged", "held_log_likelihood"):
        setattr(estimator, f"{name}_", getattr(found, name))
    count, theta = len(np.atleast_1d(arrays["theta"])), arrays["theta"]
    if not found.own_phi and count < _count_weights(estimator, found.inputs):
        raise ValueError(f"{path} holds {count} parameters, fewer than its network has")
    layout = _layout(estimator, found.inputs)
    if theta.shape != (layout.size,):
        raise ValueError(
            f"{path} holds {count} parameters where phi and the heads have {layout.size}: "
            "give the module it was trained with"
        )
    with np.errstate(all="ignore"):
        estimator._settle(layout, _restore_units(found, arrays), theta)
    _refuse_degenerate(estimator.fitted_.mixture)
    if found.group_labels is not None:
        estimator.fitted_ = replace(estimator.fitted_, groups=_restore_groups(found, arrays, estimator.n_components))
    return estimator


def _refuse_degenerate(mixture: Mixture) -> None:
    """Raise where a mixture has numbers that no model file may hold."""
    names = ("coef", "intercept", "weights", "sigma")
    StoredMixture(**{name: getattr(mixture, name).tolist() for name in names}).mixture()


def _restore_settings(cls: Any, given: dict[str, Any]) -> Any:
    """An estimator that is not fitted; where it would write, and by what it computes, no file says."""
    usual = cls().get_params(deep=False)
    settings = {name: unpack(value) for name, value in given.items() if name not in HERE_ALONE}
    if not settings.keys() <= usual.keys():
        raise ValueError(f"there are no settings {', '.join(sorted(settings.keys() - usual.keys()))}")
    if not isinstance(settings.get("random_state"), (int, type(None))):
        raise ValueError("random_state must be a number or None")
    estimator = cls(**settings)
    check_settings(estimator)
    return estimator


def _count_weights(estimator: Any, inputs: int) -> int:
    return ResidualMLP.count_parameters(inputs, estimator.width, estimator.depth, estimator.n_outputs)


def _restore_units(found: NeuralFile, arrays: dict[str, Array]) -> Units:
    centre, scale = arrays["centre"], arrays["scale"]
    if centre.shape != (found.inputs,) or scale.shape != (found.inputs,) or not np.all(scale > 0):
        raise ValueError(f"centre and scale are none of {found.inputs} features")
    finite([found.mean, found.deviation], "mean and deviation")
    return Units(centre, scale, found.mean, found.deviation)


def _restore_groups(found: NeuralFile, arrays: dict[str, Array], k: int) -> GroupPosteriors:
    labels, shares = unpack(found.group_labels), arrays["group_responsibilities"]
    if not isinstance(labels, np.ndarray) or shares.shape != (len(labels), k):
        raise ValueError(f"group_responsibilities are none of {k} components")
    if np.any(shares < 0) or not np.allclose(shares.sum(axis=1), 1.0, atol=1e-6):
        raise ValueError("group_responsibilities do not sum to 1")
    return GroupPosteriors(labels, shares)


def _restore_state(plan: TrainingPlan, content: dict[str, Any], arrays: dict[str, Array]) -> TrainingState:
    found, size = msgspec.convert(content, StateFile), plan.layout.size
    for name, numbers in arrays.items():
        _check_numbers(numbers, name)
    if arrays.keys() != set(ARRAYS):
        raise ValueError(f"the arrays are {', '.join(ARRAYS)}")
    for name in ("theta", "average", "first", "second", "best"):
        if arrays[name].shape != (size,):
            raise ValueError(f"{name} is none of {size} parameters")
    heads = plan.layout.network.outputs + 1
    for name, shape in (("gamma", (2, size)), ("reference", (2, size)), ("gram", (heads, heads))):
        if arrays[name].shape not in (shape, (0, 0)):
            raise ValueError(f"{name} has shape {arrays[name].shape}, wanted {shape}")
    parts: dict[str, Any] = arrays | {name: getattr(found, name) for name in NUMBERS}
    return TrainingState(**parts, history=tuple(found.history))


def _check_numbers(numbers: Array, name: str) -> None:
    if numbers.dtype != np.float64:
        raise ValueError(f"{name} is an array of {numbers.dtype}, wanted float64")
    finite(numbers, name)


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
    data = read_bytes(path)
    try:
        _refuse_unfolding(data)
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays = {name: np.asarray(file[name]) for name in file.files}
        content = json.loads(arrays.pop("json").tobytes())
        if not isinstance(content, dict):
            raise ValueError(f"it says {type(content).__name__} of itself")
    except Exception as error:  # forged bytes make the readers of archives, headers and JSON raise anything
        said = " ".join(str(error).split())[:600] or type(error).__name__
        raise ValueError(f"{path} is not a file of a neural mixture: {said}") from None
    if content.get("format") != form:
        raise ValueError(f"{path} has format {str(content.get('format'))[:80]!r}, wanted {form!r}")
    return content, arrays


def _refuse_unfolding(data: bytes) -> None:
    """Raise where an archive would be more than its own bytes: compressed, or the same bytes under many names."""
    parts = ZipFile(io.BytesIO(data)).infolist()
    if any(part.compress_type != ZIP_STORED or part.file_size != part.compress_size for part in parts):
        raise ValueError("it holds what is compressed, which no checkpoint is")
    if sum(part.file_size for part in parts) > len(data):
        raise ValueError("its parts are more bytes than it has")
