"""A fit tries many starts, and what one has to say the others say too: it is said once."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread


@contextmanager
def each_warning_once() -> Iterator[None]:
    """Hold back warnings, and give each of them once at the end; filters that raise, raise at once."""
    if current_thread() is not main_thread():  # the filters are the whole process's: another thread leaves them
        yield
        return
    with warnings.catch_warnings(record=True) as held:
        try:
            yield
        finally:
            said = {(one.category, str(one.message)): one for one in held}
    for one in said.values():
        warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
