"""What JSON can hold of a formula, and what it may not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

SAFE = (
    ast.Expression, ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.Call, ast.keyword,
    ast.List, ast.Tuple, ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop,
)  # fmt: skip


def packed(value: Any) -> Any:
    """A value as JSON that :func:`unpacked` reads back with its type.

    Raises
    ------
    ValueError
        When it is not made of numbers, text, arrays, lists and dictionaries.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufU":
        return {"array": value.tolist(), "dtype": value.dtype.str}
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        return {"array": [packed(item) for item in value], "dtype": "O"}
    if isinstance(value, np.ndarray) and value.dtype.kind in "mM":
        return {"array": value.astype(np.int64).tolist(), "dtype": value.dtype.str}
    if isinstance(value, (list, tuple)):
        return [packed(item) for item in value]
    if isinstance(value, dict):
        return {"pairs": [[packed(key), packed(item)] for key, item in value.items()]}
    raise ValueError(f"a model file cannot hold {type(value).__name__} {value!r}")


def unpacked(value: Any) -> Any:
    """The value that :func:`packed` wrote."""
    if isinstance(value, list):
        return [unpacked(item) for item in value]
    if isinstance(value, dict) and "array" in value:
        kind = np.dtype(value["dtype"])
        return np.array(value["array"], np.int64 if kind.kind in "mM" else kind).astype(kind)
    if isinstance(value, dict):
        return {unpacked(key): unpacked(item) for key, item in value["pairs"]}
    return value


def refuse_code(expressions: Iterable[str], functions: Iterable[str]) -> None:
    """Raise unless expressions are arithmetic and calls of known functions, so that a file runs nothing else."""
    known = set(functions)
    for text in expressions:
        tree = ast.parse(re.sub("`[^`]*`", "column", text), mode="eval")
        called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        for node in ast.walk(tree):
            name = node.id if isinstance(node, ast.Name) else ""
            fine = isinstance(node, SAFE) and not name.startswith("_") and (id(node) not in called or name in known)
            if not fine and not _harmless(node):
                raise ValueError(
                    f"a model file may not hold {text!r}: only arithmetic, columns and the formula's own functions"
                )


def _harmless(node: ast.AST) -> bool:
    """``np.log`` and other numpy functions of numbers, or a contrast such as ``contr.sum``."""
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
        return False
    if node.value.id == "np":
        return isinstance(getattr(np, node.attr, None), np.ufunc)
    return node.value.id == "contr" and not node.attr.startswith("_")
