"""The command line: every module of this package is a command.

A module ``fit.py`` holds a function ``fit``, which is the command, and an ``EXAMPLE`` that works as pasted; commands
below it, as ``wmlr server keys``, are in its ``SUBCOMMANDS``.
It is imported when it is asked for, so a command costs the others nothing; a module whose name begins with
an underscore is shared between commands. To add a command, add its file.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pkgutil import iter_modules
from typing import Annotated, Any

import typer

from wmlr.cli._failures import INTERRUPTED, TERMINATED, leave_at_once, one_line_warnings
from wmlr.cli._failures import report as report_failure
from wmlr.cli._help import SectionedCommand, SectionedGroup
from wmlr.cli._options import with_shared_options
from wmlr.io.notes import gather_notes
from wmlr.lazy import defer
from wmlr.version import __version__

FIRST_STEPS = """\
wmlr {version}: mixtures of linear regressions

Three things to try first:
  wmlr demo --out demo              the paper's comparison, run here in less than a minute
  wmlr fit tone --target tuned      fit two lines to the built-in tone data, or to a CSV of yours
  wmlr --help                       every command"""


class Commands(SectionedGroup):
    """The commands found beside this file, and what happens when one of them fails."""

    def list_commands(self, ctx: Any) -> list[str]:
        return command_names()

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        names = command_names()
        if cmd_name not in names:
            raise ValueError(f"there is no command {cmd_name!r}; there are {', '.join(names)}")
        module = import_module(f"{__name__}.{cmd_name}")
        example = getattr(module, "EXAMPLE", None)
        epilog = f"Example: {example}" if example else None
        alone = typer.Typer(add_completion=False, rich_markup_mode=None, cls=SectionedGroup)
        command, below = with_shared_options(getattr(module, cmd_name)), getattr(module, "SUBCOMMANDS", {})
        if not below:
            alone.command(cmd_name, epilog=epilog, cls=SectionedCommand)(command)
            return typer.main.get_command(alone)
        alone.callback(invoke_without_command=True, epilog=epilog)(command)
        for name, lower in below.items():
            alone.command(name, cls=SectionedCommand)(lower)
        group = typer.main.get_command(alone)
        group.name = cmd_name
        return group

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _first_sentence(name)) for name in command_names()])

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise typer.Exit(report_failure(interrupt)) from None

    def main(
        self,
        args: Any = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        words = list(sys.argv[1:] if args is None else args)
        debug = "--debug" in words
        words = [word for word in words if word != "--debug"]
        try:
            with gather_notes(), one_line_warnings():
                code = super().main(words, prog_name, complete_var, False, windows_expand_args, **extra)
        except Exception as error:
            if debug:
                raise
            code = report_failure(error)
        if standalone_mode:
            if code in (INTERRUPTED, TERMINATED):
                leave_at_once(code)
            sys.exit(code if isinstance(code, int) else 0)
        return code


app = typer.Typer(
    cls=Commands,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"max_content_width": 120},
    help="Mixtures of linear regressions.",
)


def command_names() -> list[str]:
    """The commands there are."""
    return sorted(module.name for module in iter_modules(__path__) if not module.name.startswith("_"))


def _first_sentence(name: str) -> str:
    """What a command does, in short; it is not built for that."""
    told = getattr(import_module(f"{__name__}.{name}"), name).__doc__ or ""
    return " ".join(told.partition("\n\n")[0].split()).rstrip(".")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"wmlr {__version__}")
        raise typer.Exit()


@app.callback(invoke_without_command=True)
def _first(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Say the version and stop.", callback=_print_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="On an error, show the traceback.")] = False,
) -> None:
    if ctx.invoked_subcommand is None:
        print(FIRST_STEPS.format(version=__version__))


def main() -> None:
    """The program ``wmlr``."""
    defer()
    app(prog_name="wmlr")
