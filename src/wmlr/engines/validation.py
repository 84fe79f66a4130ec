"""Checks of X, y, weights and groups before a fit: what cannot be fitted is refused, with its column and row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d, validate_data

from wmlr.engines.arrays import collect_answers
from wmlr.io.users_line import warn_user
from wmlr.numerics.arrays import Array, Integers
from wmlr.numerics.sparse import Csr, unwrap

LARGEST, SMALLEST = 1e70, 1e-70  # a fourth power of these, summed over rows, is still a number
OTHER_THAN_NUMBERS = (
    "object", "str", "string", "categor", "enum", "date", "time", "duration", "period",
)  # fmt: skip
PIECE = 2**20  # entries of X that a thread squares at a time
HEAD = 256  # rows that tell of most columns whether they hold anything
FLOATS: dict[str, Any] = {"dtype": [np.float64, np.float32], "accept_sparse": "csr", "ensure_all_finite": False}


def check_features(estimator: Any, X: Any, reset: bool, gaps: bool = False) -> Any:
    """X as a two-dimensional float array, not copied when it already is one; every entry finite.

    Of a sparse X the CSR form stays sparse as it is; another format is copied to it. With ``gaps``, NaN stays.
    """
    X = _readable(X, gaps)
    checked = validate_data(estimator, unwrap(X), reset=reset, **FLOATS)
    return _finite(estimator, checked, gaps)


def check_rows(estimator: Any, X: Any, y: Any, reset: bool, gaps: bool = False) -> tuple[Any, Array]:
    """X and y of the same length, every entry finite and, where the columns are learned, of a size that can be squared.

    With ``gaps`` NaN stays, and sizes are to be looked at when such rows have been left out.
    """
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target y is None."
        )
    X = unwrap(_readable(X, gaps))
    y = without_mask(y, "y", gaps)
    form = str(getattr(X, "format", "")) if issparse(X) else "csr"
    if reset and form != "csr":
        warn_user(
            f"X is sparse in the format {form!r} and is copied to 'csr' once: X.tocsr() beforehand saves that",
            DataConversionWarning,
        )
    y = column_or_1d(check_array(y, ensure_2d=False, dtype=None, ensure_all_finite=False, input_name="y"), warn=True)
    if y.dtype.kind in "mM":
        raise ValueError(
            f"y holds dates or times ({y[0]!s} in row 0): give them as numbers, such as the days since the first"
        )
    if y.dtype.kind not in "biuf":
        try:
            y = y.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"y must be numbers (got {y[:1].tolist()[0]!r} in row 0); {_encoding(y)}") from None
    refuse_infinite(y[:, None], "y", None, gaps=gaps)
    X = validate_data(estimator, X, reset=reset, **FLOATS)
    check_consistent_length(X, y)
    y = np.asarray(y, dtype=np.float64)
    if not reset or gaps:
        return _finite(estimator, X, gaps), y
    size = None if issparse(X) else _root_of_squares(X, effective_n_jobs(estimator.n_jobs))
    if size is None or not np.isfinite(size):
        X = _finite(estimator, X, gaps)
    refuse_sizes(X, y, getattr(estimator, "feature_names_in_", None), size)
    return X, y


def _finite(estimator: Any, X: Any, gaps: bool) -> Any:
    """X with every entry finite, as the queries want it; with ``gaps``, or NaN."""
    columns = getattr(estimator, "feature_names_in_", None)
    if not issparse(X):
        refuse_infinite(X, "X", columns, gaps=gaps)
        return X
    rows = Csr.of(X)
    bad = np.flatnonzero(np.isinf(rows.data) if gaps else ~np.isfinite(rows.data))
    if len(bad):
        row = int(np.searchsorted(rows.indptr, bad[0], side="right")) - 1
        refuse_infinite(rows[row : row + 1].dense(), "X", columns, row, gaps)
    return rows


def _encoding(y: Any) -> str:
    """How text may become numbers."""
    levels = sorted({str(value) for value in y})
    if len(levels) != 2:
        return "encode the target before fitting"
    return f"make its two values 0 and 1, as by y == {levels[1]!r}, for family='binomial'"


def refuse_infinite(values: Any, name: str, columns: Sequence[str] | None, first: int = 0, gaps: bool = False) -> None:
    """Raise with the first row and column that is not a finite number (or, with ``gaps``, that is infinite).

    The rows are counted from ``first``.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum(dtype=np.float64)):
            return
    bad = np.isinf(values) if gaps else ~np.isfinite(values)
    if not bad.any():
        return
    row, column = (int(place) for place in np.argwhere(bad)[0])
    kind = "NaN" if np.isnan(values[row, column]) else "infinity"
    label = column if columns is None else repr(columns[column])
    where = f"row {first + row}" if name == "y" else f"row {first + row}, column {label}"
    instead = "drop or fill such rows, or set missing='drop'" if kind == "NaN" else "drop or fill such rows"
    raise ValueError(f"Input {name} contains {kind} ({where}): {instead}")


def without_mask(values: Any, name: str, gaps: bool = False) -> Any:
    """Values without a mask: masked entries, which arithmetic would take for numbers, are refused or, if gaps, NaN."""
    if not np.ma.isMaskedArray(values) or not np.ma.is_masked(values):
        return values
    if gaps:
        return np.ma.filled(values.astype(np.float64), np.nan)
    place = [int(one) for one in np.argwhere(np.ma.getmaskarray(values))[0]]
    where = f"row {place[0]}" + (f", column {place[1]}" if len(place) > 1 else "")
    raise ValueError(f"{name} is masked in {where}: drop such rows, or fill them by {name}.filled(...)")


def _readable(X: Any, gaps: bool) -> Any:
    """X without a mask; raises at a frame that is not read yet, at text and dates, and at columns of the same name."""
    refuse_lazy(X)
    X = np.asarray(X, dtype=object) if _is_list_with_text(X) else X
    _refuse_repeated_names(X)
    _refuse_other_than_numbers(X)
    return without_mask(X, "X", gaps)


def _refuse_repeated_names(X: Any) -> None:
    columns = getattr(X, "columns", None)
    if columns is None or isinstance(X, Csr):
        return
    twice = [name for name, count in Counter(columns).items() if count > 1]
    if twice:
        raise ValueError(f"X has more than one column named {twice[0]!r}: rename them, or leave one out")


def refuse_sizes(X: Any, y: Array, columns: Sequence[str] | None, size: float | None = None) -> None:
    """Raise where numbers are so large or small that their products leave the range of floating point.

    ``size`` is the root of the sum of all squares of X, where it is known.
    """
    _refuse_size("y", _largest(y))
    if isinstance(X, Csr):
        _refuse_size("X", _largest(X.data))
        return
    few = np.abs(X[:HEAD]).max(axis=0, initial=0.0)
    size = _root_of_squares(X) if size is None else size
    doubtful = range(X.shape[1]) if size > LARGEST else np.flatnonzero(few < SMALLEST).tolist()
    for place in doubtful:
        _refuse_size(f"column {place if columns is None else repr(columns[place])}", _largest(X[:, place]))


def _root_of_squares(X: Array, threads: int = 1) -> float:
    """A bound on the largest entry, from one pass over X where its entries lie side by side.

    Several threads are those of the fit to come: the linear algebra library's would spin beside it for a while.
    """
    if X.flags.c_contiguous or X.flags.f_contiguous:
        flat = X.ravel(order="K")
        pieces = [flat[first : first + PIECE] for first in range(0, flat.size, PIECE)]
        squares = collect_answers(lambda number: float(np.vdot(pieces[number], pieces[number])), len(pieces), threads)
        return float(np.sqrt(sum(squares)))
    with np.errstate(invalid="ignore"):
        return _largest(X)


def _largest(values: Any) -> float:
    return float(max(values.max(), -values.min())) if values.size else 0.0


def _refuse_size(name: str, size: float) -> None:
    if size != 0.0 and not SMALLEST <= size <= LARGEST:
        raise ValueError(
            f"{name} has entries of size {size:.2g}, whose products leave the range of floating point: change its unit "
            f"(between {SMALLEST:g} and {LARGEST:g} is fine)"
        )


def refuse_lazy(X: Any) -> None:
    """Raise at a frame of which no row has been read."""
    if type(X).__name__ == "LazyFrame":
        raise ValueError("X is a LazyFrame, of which no row has been read: pass X.collect()")


def _refuse_other_than_numbers(X: Any) -> None:
    """Raise with the first column that holds text or dates, and say what makes numbers of them."""
    for name, kind, column in _columns_to_look_at(X):
        if "date" in kind or "time" in kind or "duration" in kind:
            raise ValueError(
                f"column {name!r} holds dates or times ({_first(column)!s}): give what matters of them as a number, "
                "such as the year or the days since the first, or leave it out"
            )
        for row, value in enumerate(column):
            if isinstance(value, str):
                try:
                    float(value)
                except ValueError:
                    raise ValueError(
                        f"column {name!r} holds text ({value!r} in row {row}): encode it as numbers, leave it out, or "
                        "let MixedLinearRegression.from_frame(frame, target) or a formula make numbers of its levels"
                    ) from None


def _is_list_with_text(X: Any) -> bool:
    """Whether X is a list of rows some of which hold text."""
    return isinstance(X, (list, tuple)) and any(
        isinstance(row, (list, tuple)) and any(isinstance(value, str) for value in row) for row in X
    )


def _first(column: Any) -> Any:
    return next(iter(column), "none")


def _columns_to_look_at(X: Any) -> list[tuple[Any, str, Any]]:
    """Name, kind and values of the columns that may hold something else than numbers."""
    if hasattr(X, "columns") and hasattr(X, "dtypes") and not isinstance(X, Csr):
        kinds = {name: str(kind).lower() for name, kind in zip(X.columns, X.dtypes)}
        return [(name, kind, X[name]) for name, kind in kinds.items() if kind.startswith(OTHER_THAN_NUMBERS)]
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "OUSmM":
        return [(number, str(X.dtype), X[:, number]) for number in range(X.shape[1])]
    return []


def check_weight(sample_weight: Any, n: int, gaps: bool = False) -> Array | None:
    """Non-negative weights, one per row, not all zero; with ``gaps``, NaN stays."""
    if sample_weight is None:
        return None
    sample_weight = without_mask(sample_weight, "sample_weight", gaps)
    if np.isscalar(sample_weight):
        sample_weight = np.full(n, sample_weight)
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.ndim != 1:
        raise ValueError("Sample weights must be 1D array or scalar")
    if weight.shape != (n,):
        raise ValueError(f"sample_weight.shape == {weight.shape}, expected {(n,)}!")
    bad = (np.isinf(weight) if gaps else ~np.isfinite(weight)) | (weight < 0)
    if bad.any():
        worst = int(np.flatnonzero(bad)[0])
        raise ValueError(f"sample_weight must be finite and not negative (got {weight[worst]} in row {worst})")
    if not np.any(weight > 0):
        raise ValueError("sample_weight is zero for every row: nothing is left to fit")
    return weight


def check_labels(groups: Any, n: int) -> NDArray[Any]:
    """One label per row."""
    labels = np.asarray(without_mask(groups, "groups"))
    if labels.shape != (n,):
        raise ValueError(f"groups must have one label per row (got shape {labels.shape} for {n} rows)")
    return labels


def without_label(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """The rows whose label is missing."""
    if labels.dtype.kind == "O":
        return np.array([label is None or label != label or str(label) in ("<NA>", "NaT") for label in labels], bool)
    return np.asarray(labels != labels)


def check_groups(groups: Any, n: int) -> Integers | None:
    """Codes 0 ... G-1 in the order of the sorted group labels."""
    if groups is None:
        return None
    labels = check_labels(groups, n)
    missing = np.flatnonzero(without_label(labels))
    if len(missing):
        raise ValueError(
            f"groups has no label in row {missing[0]}: drop such rows, name their group, or set missing='drop'"
        )
    try:
        return np.unique(labels, return_inverse=True)[1].astype(np.int64)
    except TypeError:
        first = labels[0]
        row = next(row for row, label in enumerate(labels) if type(label) is not type(first))
        raise ValueError(
            f"groups has labels of different types ({first!r} in row 0, {labels[row]!r} in row {row}): make them one, "
            "for example by astype(str)"
        ) from None
