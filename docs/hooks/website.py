"""What mkdocs does besides: mathematics as MathML, and each page of the gallery as a script."""

from __future__ import annotations

import html
import re
import sys
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files
from typer.core import TyperArgument
from typer.main import get_command

from wmlr.cli import Commands, app

sys.path.insert(0, str(Path(__file__).parent))
import pages

OPTIONS = re.compile(r"^<!-- options of (\w+) -->$", re.MULTILINE)
INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
DISPLAY = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)


def _program(uri: str) -> str | None:
    """The script of a page, if it is one of the gallery's."""
    folder, _, name = uri.rpartition("/")
    return (
        f"{name.removesuffix('.md')}.py"
        if folder == "gallery" and name.endswith(".md") and name != "index.md"
        else None
    )


def on_files(files: Files, config: Any) -> Files:
    """Put a script beside each page of the gallery."""
    for file in files.documentation_pages():
        name = _program(file.src_uri)
        if name is not None:
            files.append(File.generated(config, f"gallery/{name}", content=pages.script(file.content_string)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Tables of a command's options where they are asked for; a script's name below the title of its page."""
    markdown = OPTIONS.sub(lambda found: _options(found[1]), markdown)
    name = _program(page.file.src_uri)
    if name is None:
        return markdown
    return re.sub(r"^(# .+)$", rf"\1\n\n[{name}]({name}){{ .script download }}", markdown, count=1, flags=re.MULTILINE)


def _options(name: str) -> str:
    """A command's arguments and options as a table."""
    command = get_command(app)
    assert isinstance(command, Commands)
    with command.make_context("wmlr", [name], resilient_parsing=True) as context:
        found = command.get_command(context, name)
    lines = ["| option | default | |", "|---|---|---|"]
    for option in found.params:
        if option.name == "help":
            continue
        names = (
            [option.human_readable_name]
            if isinstance(option, TyperArgument)
            else [*option.opts, *option.secondary_opts]
        )
        shown = "" if option.default is None or option.default is False else f"`{option.default}`"
        told = re.sub(r"([|*])", r"\\\1", " ".join((option.help or "").split()))
        lines.append(f"| `{', '.join(names)}` | {shown} | {told} |")
    return "\n".join(lines)


def on_page_content(content: str, **_: Any) -> str:
    """Formulas as MathML, which browsers draw without a script."""
    content = DISPLAY.sub(lambda found: f'<div class="formula">{_drawn(found[1], "block")}</div>', content)
    return INLINE.sub(lambda found: _drawn(found[1], "inline"), content)


def _drawn(formula: str, display: str) -> str:
    """A formula as MathML, with a little room before the names of functions."""
    return convert(re.sub(r"\\(cosh|tanh)", r"\\,\\\1", html.unescape(formula.strip())), display=display)
