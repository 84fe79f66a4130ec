"""Options under the headings of a command's help, and those that several commands have, as one parameter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints

import typer


def option_under(heading: str) -> Callable[..., Any]:
    """What makes options under a heading: what one does, its names where its parameter's is not enough, its limits."""

    def option(told: str, *names: str, **settings: Any) -> Any:
        return typer.Option(*names, help=told, rich_help_panel=heading, **settings)

    return option


def with_shared_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command as Typer reads it: a parameter that is a dataclass stands for an option for each of its fields."""
    hints = get_type_hints(command, include_extras=True)
    shared: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    own = {name: [field.name for field in fields(group)] for name, group in shared.items()}

    @wraps(command)
    def call(**given: Any) -> None:
        groups = {name: shared[name](**{option: given.pop(option) for option in own[name]}) for name in shared}
        command(**given, **groups)

    options = [option for name, one in signature(command).parameters.items() for option in _options(name, one, hints)]
    call.__annotations__ = {option.name: option.annotation for option in options}
    call.__signature__ = Signature(options)  # type: ignore[attr-defined]
    return call


def _options(name: str, parameter: Parameter, hints: dict[str, Any]) -> list[Parameter]:
    """A command's parameter, or those that it stands for."""
    if not is_dataclass(hints[name]):
        return [parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=hints[name])]
    within = get_type_hints(hints[name], include_extras=True)
    return [
        Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=within[field.name])
        for field in fields(hints[name])
    ]
