"""Where the partitions of a Dask engine come from: frames, Parquet folders, arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from wmlr.engines.databases import hide_password, without_password
from wmlr.engines.partitions import PartitionColumns, from_arrays, from_frame
from wmlr.io.table import import_extra, list_names


@dataclass(frozen=True)
class PartitionSource:
    """Partitions still to be loaded, one delayed :class:`wmlr.engines.partitions.Partition` each."""

    loads: list[Any]
    n_features: int
    feature_names: list[str] | None = None


def source(data: Any, target: Any, features: Sequence[str] | None, weight: Any, groups: Any) -> PartitionSource:
    """Look at what is known without loading anything, and refuse what makes no sense."""
    if _is_array(data):
        if features is not None:
            raise ValueError("features= names columns of a frame: choose the columns of an array beforehand")
        return PartitionSource(_array_loads(data, target, weight, groups), int(data.shape[1]))
    frame = _frame(data)
    columns = _columns(frame, target, features, weight, groups)
    load = _delay(from_frame)
    parts = enumerate(frame[columns.all].to_delayed())
    return PartitionSource(
        [load(part, columns, number) for number, part in parts], len(columns.features), [*columns.features]
    )


def _columns(frame: Any, target: Any, features: Sequence[str] | None, weight: Any, groups: Any) -> PartitionColumns:
    """The columns by their roles; a name that is not there, or no numbers, is refused before any work."""
    names = [str(name) for name in frame.columns]
    roles = {"target": target, "weight": weight, "groups": groups}
    if isinstance(features, str):
        raise ValueError(f"features must be a list of names (got {features!r})")
    taken = {name for name in roles.values() if name is not None}
    chosen = [name for name in names if name not in taken] if features is None else [str(name) for name in features]
    for role, name in [*roles.items(), *(("features", name) for name in chosen)]:
        if (name is not None or role == "target") and name not in names:
            raise ValueError(f"there is no column {name!r} for {role}; there are {list_names(names)}")
    if not chosen:
        raise ValueError("no columns are left for features")
    twice = [name for name in chosen if chosen.count(name) > 1 or name in taken]
    if twice:
        raise ValueError(f"column {twice[0]!r} is named twice: every column has one role")
    numeric = import_module("pandas").api.types.is_numeric_dtype
    for name in [*chosen, target, *([] if weight is None else [weight])]:
        if not numeric(frame.dtypes[name]):
            raise ValueError(
                f"column {name!r} holds {frame.dtypes[name]}, not numbers: encode it, or leave it out by features="
            )
    return PartitionColumns(target, tuple(chosen), weight, groups)


def _frame(data: Any) -> Any:
    """A Dask DataFrame: as it is, or read from Parquet."""
    frames = extra("dask.dataframe")
    if isinstance(data, (str, Path)):
        if "://" not in str(data) and not Path(data).exists():
            raise ValueError(f"there is no file or folder {data}")
        try:
            return frames.read_parquet(str(data))
        except Exception as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            said = without_password(reason, str(data))
            raise ValueError(f"{hide_password(str(data))} cannot be read as Parquet: {said}") from None
    if not (hasattr(data, "to_delayed") and hasattr(data, "columns")):
        raise ValueError(
            f"data must be a Dask DataFrame, a Dask array or the name of a Parquet folder (got {type(data).__name__}): "
            "dask.dataframe.from_pandas and dask.array.from_array make them"
        )
    return data


def _is_array(data: Any) -> bool:
    return isinstance(data, extra("dask.array").Array)


def _array_loads(X: Any, y: Any, weight: Any, groups: Any) -> list[Any]:
    """One load for each chunk of rows of X; the others are cut like it."""
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions (got shape {X.shape})")
    X = X if X.numblocks[1] == 1 else X.rechunk({1: -1})
    pieces: dict[str, list[Any]] = {}
    for name, values in (("target", y), ("weight", weight), ("groups", groups)):
        pieces[name] = [None] * X.numblocks[0]
        if values is None and name != "target":
            continue
        if not _is_array(values) or values.ndim != 1:
            raise ValueError(f"{name} must be a Dask array of one dimension, as X is one (got {type(values).__name__})")
        known = not (np.isnan(values.shape[0]) or np.isnan(X.shape[0]))
        if known and values.shape[0] != X.shape[0]:
            raise ValueError(f"X has {X.shape[0]} rows and {name} {values.shape[0]}")
        if known and values.chunks[0] != X.chunks[0]:
            values = values.rechunk((X.chunks[0],))
        if values.numblocks[0] != X.numblocks[0]:
            raise ValueError(f"X has {X.numblocks[0]} chunks of rows and {name} {values.numblocks[0]}: cut both alike")
        pieces[name] = _chunks(values)
    load = _delay(from_arrays)
    zipped = zip(_chunks(X), pieces["target"], pieces["weight"], pieces["groups"])
    return [load(*chunk, number) for number, chunk in enumerate(zipped)]


def _chunks(array: Any) -> list[Any]:
    return list(array.to_delayed().ravel())


def _delay(work: Any) -> Any:
    return extra("dask").delayed(work, pure=False)


def extra(name: str) -> Any:
    """A part of Dask, or how to get it."""
    return import_extra(name, "DaskRows needs Dask: pip install 'wmlr[dask]'")
