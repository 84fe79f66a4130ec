"""Files are written beside their place and then moved there, so that nothing half-written is ever left."""

from __future__ import annotations

import os
from pathlib import Path


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, making its folder where there is none."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name a file in it")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(data)
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a text whole or not at all."""
    write_bytes(path, text.encode())
