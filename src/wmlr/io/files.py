"""Files are written beside their place and then moved there, so that nothing half-written is ever left."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """A place to write to, beside ``path``, which becomes ``path`` once everything went well.

    The folder is made where there is none.
    """
    refuse_special(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{token_hex(8)}.part")  # a name that nobody can put a link at before
    try:
        yield part
        os.replace(part, path)
    except BaseException as error:
        part.unlink(missing_ok=True)
        name_place(error, path)
        raise


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    with atomic_write(path) as part:
        part.write_bytes(data)


def read_bytes(path: Path) -> bytes:
    """What a regular file holds; a pipe or a device is refused, and not waited for."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name a file in it")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a regular file: name another")
    return path.read_bytes()


def write_private(path: Path, data: bytes) -> None:
    """Write a file that nobody else may read, at no moment."""
    with atomic_write(path) as part, open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)


def refuse_special(path: Path) -> None:
    """Raise where a place is taken by anything but a regular file, which a file would put out of the way."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name a file in it")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} is not a regular file, and would be replaced by one: name another place")


def name_place(error: BaseException, path: Path) -> None:
    """Let an error of the system say which file it is about."""
    if isinstance(error, OSError) and error.strerror:
        error.filename = str(path)


def write_text(path: Path, text: str) -> None:
    """Write a text whole or not at all."""
    write_bytes(path, text.encode())
