"""Engines: who holds the rows and adds the answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wmlr.engines.arrays import ArrayRows
from wmlr.lazy import names_of

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

__getattr__ = names_of(__name__, _HOMES)
