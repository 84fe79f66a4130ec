"""Engines: who holds the rows and adds the answers."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from wmlr.engines.arrays import ArrayRows

if TYPE_CHECKING:
    from wmlr.engines.dask import DaskRows
    from wmlr.engines.files import CsvRows, ParquetRows
    from wmlr.engines.npy import NpyRows
    from wmlr.engines.spark import SparkRows
    from wmlr.engines.sql import SqlRows

_HOMES = {
    "CsvRows": "wmlr.engines.files",
    "DaskRows": "wmlr.engines.dask",
    "NpyRows": "wmlr.engines.npy",
    "ParquetRows": "wmlr.engines.files",
    "SparkRows": "wmlr.engines.spark",
    "SqlRows": "wmlr.engines.sql",
}

__all__ = ["ArrayRows", "CsvRows", "DaskRows", "NpyRows", "ParquetRows", "SparkRows", "SqlRows"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
