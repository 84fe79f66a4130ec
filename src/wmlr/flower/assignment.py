"""What is to be fitted, as agents hear it on joining: enough to know every question that may follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wmlr import MixedLinearRegression, methods
from wmlr.estimator.role_columns import RoleColumns
from wmlr.estimator.settings import check_parameters, resolve_solver
from wmlr.families import registered
from wmlr.features.transformers import Described
from wmlr.federated.messages import MessageError
from wmlr.federated.wire import Codec
from wmlr.methods.search.effort import Effort
from wmlr.version import __version__

HERE_ALONE = ("verbose", "n_jobs", "warm_start")  # settings that change no question: each side has its own


@dataclass(frozen=True)
class Assignment:
    """A fit, from the first question to the standard errors.

    Attributes
    ----------
    settings : the estimator's parameters.
    errors : whether the standard errors are asked for after the fit.
    answering : the share of the agents whose answers a round may expect, to which methods are adapted.
    version : the library that asks; another might ask otherwise.
    follows : whether agents can follow the fit by its sums; where a majority is trusted, the server's questions depend
        on single answers, and it asks what it likes.
    roles : the columns that are no features, by their role: offset, exposure, trials.
    """

    settings: dict[str, Any]
    errors: bool = True
    answering: float = 1.0
    version: str = __version__
    follows: bool = True
    roles: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        wanted: MixedLinearRegression,
        errors: bool,
        answering: float,
        follows: bool = True,
        roles: Mapping[str, str] | None = None,
    ) -> Assignment:
        """The fit of an estimator; its random state must be a number, so that all draw the same."""
        given = wanted.get_params(deep=False)
        settings = {name: _plain(name, value) for name, value in given.items() if name not in HERE_ALONE}
        return cls(settings, errors, answering, follows=follows, roles=dict(roles or {}))

    def estimator(self) -> MixedLinearRegression:
        """The estimator that is to be fitted.

        Raises
        ------
        ValueError
            Where the settings are not those of an estimator, or make no sense.
        """
        if self.version != __version__:
            raise ValueError(f"the server has wmlr {self.version} and this is {__version__}: install the same")
        settings = dict(self.settings)
        if isinstance(features := settings.get("features"), Described):
            settings["features"] = features.transformer
        for name, inner in (("only", list), ("fixed", dict)):
            if settings.get(name) is not None:
                settings[name] = _mapping(name, settings[name], inner)
        known = MixedLinearRegression().get_params(deep=False).keys() - set(HERE_ALONE)
        if not settings.keys() <= known:
            raise ValueError(f"there are no settings {', '.join(sorted(settings.keys() - known))[:200]}")
        if not isinstance(settings.get("random_state"), int):
            raise ValueError("the server does not say how it draws: random_state must be a number")
        made = MixedLinearRegression(**settings)
        check_parameters(made)
        return made

    def check_roles(self, columns: Sequence[str]) -> None:
        """Raise unless every role is one that there is, and of a column that there is."""
        for role, column in self.roles.items():
            if role not in RoleColumns.__annotations__ or column not in columns:
                raise ValueError(
                    f"the server wants a column {str(column)[:60]!r} as {str(role)[:20]}, and the columns here are "
                    f"{', '.join(columns)}: name it in --features if it is in the file"
                )

    @property
    def method(self) -> str:
        """The name of the method."""
        return type(resolve_solver(self.settings["method"], self.settings["solver"])).__name__

    @property
    def has_start(self) -> bool:
        """Whether the server says where to begin."""
        return not isinstance(self.settings.get("start", "auto"), str)

    def __str__(self) -> str:
        made = self.settings
        text = f"{made['n_components']} components by {self.method}"
        if self.has_start:
            text += ", from a start that the server gives"
        if made.get("features") is not None:
            text += ", on features of the columns"
        text += "".join(f", with {column} as {role}" for role, column in self.roles.items())
        text += ", then their standard errors" if self.errors else ""
        return text if self.follows else f"{text}, by questions of the server's own"

    def to_bytes(self) -> bytes:
        """As it is sent."""
        return _codec().encode(self)

    @classmethod
    def from_bytes(cls, data: Any) -> Assignment:
        """What :meth:`to_bytes` wrote."""
        if not isinstance(data, bytes):
            raise MessageError("the server says nothing of what is to be fitted")
        found = _codec().decode(data)
        if not isinstance(found, cls):
            raise MessageError(f"a fit is wanted (got {type(found).__name__})")
        return found


def _plain(name: str, value: Any) -> Any:
    if name == "features" and value is not None:
        return Described.of(value)
    if isinstance(value, Mapping):  # its keys may be numbers, which no message has for keys
        return tuple((key, _plain(name, item)) for key, item in value.items())
    if isinstance(value, list):
        return tuple(value)
    return value if isinstance(value, np.ndarray) or not hasattr(value, "tolist") else value.item()


def _mapping(name: str, pairs: Any, inner: Callable[[Any], Any]) -> dict[Any, Any]:
    """The dictionary that :func:`_plain` made pairs of."""
    try:
        return {key: inner(item) for key, item in pairs}
    except (TypeError, ValueError):
        raise ValueError(f"the server's setting {name!r} is no list of columns and components") from None


def _codec() -> Codec:
    solvers = [found for found in vars(methods).values() if isinstance(found, type)]
    known = (Assignment, Described, Effort, *registered().values(), *solvers)
    return Codec("fit", {cls.__name__: cls for cls in known})
