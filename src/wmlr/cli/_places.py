"""Where commands write: looked at before any work is done."""

from __future__ import annotations

import errno
import os
from functools import partial
from pathlib import Path
from typing import Annotated

from wmlr.cli._options import option_under
from wmlr.io.files import refuse_special


def file(path: Path | None) -> Path | None:
    """A place for a regular file, in a folder that is there and may be written to."""
    if path is not None:
        if str(path) == "-":
            raise ValueError("- would be a file of that name: name another, or leave the option out")
        refuse_special(path)
        if not path.absolute().parent.exists():
            raise ValueError(
                f"there is no folder {path.parent} for {path.name}: make it first, by mkdir -p {path.parent}"
            )
        _refuse_closed(path.absolute().parent)
    return path


def folder(path: Path | None) -> Path | None:
    """A folder that may be written to, or made."""
    if path is not None and path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file: name a folder")
    if path is not None:
        _refuse_closed(path.absolute())
    return path


def _refuse_closed(place: Path) -> None:
    """Raise where no file could be written into a folder, or the folder could not be made."""
    there = next(one for one in (place, *place.parents) if one.exists())
    if not there.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(there))
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(there))


option = option_under("What to write")
to_file = partial(option, metavar="FILE", callback=file)

Model = Annotated[Path | None, to_file("Write the model here, as JSON.", "--out", "-o")]
