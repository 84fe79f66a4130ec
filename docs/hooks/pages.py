"""The code in the documentation: found, run, and held against the output printed below it.

    python docs/hooks/pages.py docs/start.md             run a page, and say where it is out of date
    python docs/hooks/pages.py --write docs/gallery/*.md write what was printed and drawn into the pages
    python docs/hooks/pages.py --r docs/from-r.md        run its R blocks as well, which tests do not

Python blocks of a page run in order in one namespace, ``sh`` blocks of ``wmlr`` commands beside them, in a
folder of their own that begins with the files of docs/data, there and in docs/data. A ``text`` block right
below a block is its output. A block that cannot run here has the line ``<!-- not run: why -->`` above it.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent.parent / "data"
RUN = ("python", "sh")
CODE = (*RUN, "r")
FENCE = re.compile(r"^( *)```(\S*)[^\n]*\n(.*?)^\1```[ ]*$", re.MULTILINE | re.DOTALL)
NOT_RUN = re.compile(r"<!-- not run: (.+?) -->\s*\Z")
NUMBER = re.compile(r"(?<![\w.])[-+−]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?")
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")
REST = "..."
ROUNDING = 1e-12
"""Of a number: where every digit is printed, the last ones depend on the order in which a processor adds."""


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, what it holds, where; why it is not run; and the output shown below it."""

    language: str
    code: str
    line: int
    reason: str | None = None
    output: str | None = None
    output_at: tuple[int, int] | None = None


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page; an output belongs to the block it follows."""
    found = list(FENCE.finditer(text))
    made: list[Block] = []
    for place, match in enumerate(found):
        language = match[2]
        follows = place > 0 and not text[found[place - 1].end() : match.start()].strip()
        if language == "text" and follows and found[place - 1][2] in CODE:
            continue
        mark = NOT_RUN.search(text[: match.start()])
        output = output_at = None
        if language in CODE and place + 1 < len(found):
            after = found[place + 1]
            if after[2] == "text" and not text[match.end() : after.start()].strip():
                output, output_at = _dedented(after), after.span(3)
        line = text.count("\n", 0, match.start()) + 1
        made.append(Block(language, _dedented(match), line, mark[1] if mark else None, output, output_at))
    return made


def _dedented(match: re.Match[str]) -> str:
    return re.sub(rf"^{match[1]}", "", match[3], flags=re.MULTILINE)


def run(path: Path, folder: Path, with_r: bool = False) -> Iterator[tuple[Block, str]]:
    """Run a page's blocks in a folder; each with what it printed."""
    for place in (folder, folder / "docs" / "data"):
        shutil.copytree(DATA, place, dirs_exist_ok=True)
    found = blocks(path.read_text(encoding="utf-8"))
    space: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.chdir(folder):
        for block in found:
            if block.language in RUN and block.reason is None:
                yield block, _python(block, path, space) if block.language == "python" else _shell(block.code)
        if with_r:
            yield from _r([block for block in found if block.language == "r"])


def _python(block: Block, path: Path, space: dict[str, Any]) -> str:
    printed = io.StringIO()
    code = "\n" * block.line + block.code
    with contextlib.redirect_stdout(printed):
        exec(compile(code, str(path), "exec"), space)
    return printed.getvalue()


def _shell(code: str) -> str:
    """``wmlr`` commands, one per line or joined by ``&&``; ``echo $?`` prints how the last one ended."""
    from typer.testing import CliRunner

    from wmlr.cli import app

    printed, ended = "", 0
    for line in code.replace("\\\n", " ").splitlines():
        for part in line.split(" && "):
            words = shlex.split(part, comments=True)
            if not words:
                continue
            if words == ["echo", "$?"]:
                printed, ended = f"{printed}{ended}\n", 0
                continue
            if words[0] != "wmlr":
                raise ValueError(f"only wmlr commands are run (got {part!r}): mark the block as not run")
            if ended:
                raise RuntimeError(f"a command ended with {ended}: {printed}")
            result = CliRunner().invoke(app, words[1:])
            printed, ended = printed + result.output, result.exit_code
    if ended:
        raise RuntimeError(f"{code.strip()} ended with {ended}: {printed}")
    return printed


def _r(found: list[Block]) -> Iterator[tuple[Block, str]]:
    mark = "@@@ end of block"
    script = "".join(f'{block.code}\ncat("\\n{mark}\\n")\n' for block in found)
    Path("page.R").write_text(script, encoding="utf-8")
    done = subprocess.run(["Rscript", "page.R"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    for block, printed in zip(found, done.stdout.split(f"\n{mark}\n")):
        yield block, printed.strip("\n") + "\n"


def difference(shown: str, printed: str) -> str | None:
    """The first place where the output shown is not what was printed; None where there is none.

    Blanks do not count, numbers may differ by rounding in the last digit shown or in the thirteenth, and a line of
    three dots stands for any lines.
    """
    ours, theirs = _lines(shown), _lines(printed)
    if REST in ours:
        place = ours.index(REST)
        tail = ours[place + 1 :]
        ours, theirs = ours[:place] + tail, theirs[:place] + theirs[len(theirs) - len(tail) :]
    for mine, yours in zip_longest(ours, theirs, fillvalue=""):
        if not _alike(mine, yours):
            return f"shown:   {mine}\nprinted: {yours}"
    return None


def _lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def _alike(shown: str, printed: str) -> bool:
    numbers, others = NUMBER.findall(shown), NUMBER.findall(printed)
    if NUMBER.sub("#", shown) != NUMBER.sub("#", printed) or len(numbers) != len(others):
        return False
    return all(abs(_value(a) - _value(b)) <= max(_slack(a), ROUNDING * abs(_value(a))) for a, b in zip(numbers, others))


def _value(number: str) -> float:
    return float(number.replace(",", "").replace("−", "-"))


def _slack(number: str) -> float:
    """One and a half of the last digit shown; nothing where a whole number is shown."""
    mantissa, _, power = number.lower().partition("e")
    if "." not in mantissa and not power:
        return 0.0
    decimals = len(mantissa.partition(".")[2])
    return 1.5 * 10.0 ** (int(power or 0) - decimals)


def pictures(text: str) -> list[str]:
    """The pictures a page shows, as it names them."""
    return PICTURE.findall(FENCE.sub("", text))


def script(text: str) -> str:
    """A page's Python blocks as one program."""
    return "\n\n".join(block.code.strip() for block in blocks(text) if block.language == "python") + "\n"


def refresh(path: Path, folder: Path, write: bool, with_r: bool) -> list[str]:
    """Run a page; say what differs, or write what was printed and drawn into it."""
    text = path.read_text(encoding="utf-8")
    stale, changes = [], []
    for block, printed in run(path, folder, with_r):
        if block.output is None or block.output_at is None:
            continue
        differs = difference(block.output, printed)
        if differs is not None:
            stale.append(f"{path}:{block.line}: the output below is not what was printed\n{differs}")
            changes.append((block.output_at, "\n".join(map(str.rstrip, printed.strip("\n").splitlines())) + "\n"))
    if not write:
        return stale
    for (first, last), printed in sorted(changes, reverse=True):
        text = text[:first] + printed + text[last:]
    path.write_text(text, encoding="utf-8")
    for name in pictures(text):
        if (folder / name).is_file():
            shutil.copy(folder / name, path.parent / name)
    return []


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the code of documentation pages.")
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--write", action="store_true", help="write outputs and pictures into the pages")
    parser.add_argument("--r", action="store_true", help="run R blocks too")
    asked = parser.parse_args()
    os.environ.setdefault("MPLBACKEND", "agg")
    stale = []
    for page in asked.pages:
        with tempfile.TemporaryDirectory() as folder:
            stale += refresh(page.resolve(), Path(folder), asked.write, asked.r)
    print("\n".join(stale))
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
