"""Modules that are loaded when they are used: names of this package's rooms, and what others import and seldom use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from threading import RLock
from types import ModuleType
from typing import Any

SELDOM_USED = ("numpy.f2py", "numpy.testing", "pandas", "scipy.stats")
"""What SciPy and scikit-learn import and seldom use: a third of the time and memory with which a command begins."""

_loading = RLock()


def names_of(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A package's ``__getattr__`` by which names come from their modules, or are modules, when they are asked for.

    Parameters
    ----------
    package : its name.
    homes : the module of each name.
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = import_module(homes[name])
        return home if homes[name] == f"{package}.{name}" else getattr(home, name)

    return find


def defer(modules: Sequence[str] = SELDOM_USED) -> None:
    """Let modules that whoever imports them seldom uses be loaded at their first use: for a program, at its start."""
    wanted = frozenset(modules) - sys.modules.keys()
    if wanted:
        sys.meta_path.insert(0, _Finder(wanted))


class _Finder(MetaPathFinder):
    def __init__(self, wanted: frozenset[str]) -> None:
        self.wanted = wanted

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in self.wanted:
            return None
        found = PathFinder.find_spec(name, path, target)
        if found is not None and found.loader is not None:
            found.loader = _Later(found.loader)
        return found


class _Later(Loader):
    """Makes an empty module, and leaves what is in it to its first use."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self.loader
        module.__class__ = _Deferred


class _Deferred(ModuleType):
    """A module that is loaded by whoever first asks for a name in it; others wait until it is."""

    def __getattr__(self, name: str) -> Any:
        with _loading:
            if type(self) is _Deferred and not self.__dict__.get("_begun"):
                self.__dict__["_begun"] = True
                try:
                    self.__spec__.loader.exec_module(self)  # type: ignore[union-attr]
                except BaseException:
                    self.__dict__["_begun"] = False
                    raise
                self.__class__ = ModuleType  # type: ignore[assignment]
            if name in self.__dict__:
                return self.__dict__[name]
            own = self.__dict__.get("__getattr__")
        if own is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return own(name)
