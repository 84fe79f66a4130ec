"""Help as plain text, options under the headings that they name: to draw boxes takes longer than all the rest."""

from __future__ import annotations

from typing import Any

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption


class SectionedCommand(TyperCommand):
    """A command whose help has a section for each heading of its options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_sections(self, ctx, formatter)


class SectionedGroup(TyperGroup):
    """Commands, and options under their headings."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_sections(self, ctx, formatter)
        self.format_commands(ctx, formatter)


def _write_sections(command: Any, ctx: Any, formatter: Any) -> None:
    sections: dict[str, list[tuple[str, str]]] = {}
    for option in command.get_params(ctx):
        heading = getattr(option, "rich_help_panel", None) or f"{option.param_type_name}s".capitalize()
        sections.setdefault(heading, []).append(_line(option, ctx))
    for heading, lines in sections.items():
        with formatter.section(heading):
            formatter.write_dl(lines)


def _line(option: Any, ctx: Any) -> tuple[str, str]:
    """An option and what it does; Typer's own line loads rich for its brackets."""
    if isinstance(option, TyperArgument):
        return option.make_metavar(ctx), option.help or ""
    plain: Any = super(TyperOption, option) if isinstance(option, TyperOption) else option
    line: tuple[str, str] = plain.get_help_record(ctx)
    return line
