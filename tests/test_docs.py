import json
import re
import sys
from importlib import import_module
from pathlib import Path

import nbformat
import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

from longer import long
from wmlr.cli import command_names

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS / "hooks"))

import pages  # noqa: E402
import quickstart  # noqa: E402

PAGES = [
    ROOT / "README.md",
    *(path for path in sorted(DOCS.rglob("*.md")) if path.parent.name not in ("results", "bench")),
]
NAMES = [path.relative_to(ROOT).as_posix() for path in PAGES]
NOT_RUN = {
    "README.md": ["installs", "takes minutes"],
    "docs/command-line.md": [
        "waits for agents on other machines",
        "needs a server to talk to",
        "takes a minute",
        "takes minutes, and prints seconds of the machine it runs on",
        "writes into the home directory",
    ],
    "docs/dashboard.md": ["stays until it is ended"],
    "docs/from-r.md": ["R"] * 4,
    "docs/index.md": ["installs"],
    "docs/privacy.md": ["your own rows", "your own rows"],
    "docs/start.md": ["installs"],
}
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
RUN = [path for path in PAGES if any(b.language in pages.RUN and not b.reason for b in pages.blocks(path.read_text()))]
LONG = (
    "docs/nonlinear.md",
    *(f"docs/gallery/{page}.md" for page in ("agents", "choosing-k", "large", "nonlinear", "spending")),
)
"""Pages that train networks, read many rows or try many settings: their code takes a minute."""


@pytest.mark.parametrize(
    "path",
    [long(path) if path.relative_to(ROOT).as_posix() in LONG else path for path in RUN],
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_code_runs_prints_what_is_shown_and_draws_its_pictures(path: Path, tmp_path: Path) -> None:
    for block, printed in pages.run(path, tmp_path):
        if block.output is not None:
            assert (block.line, pages.difference(block.output, printed)) == (block.line, None)
    if path.parent.name == "gallery":
        missing = [name for name in pages.pictures(path.read_text()) if not (tmp_path / name).is_file()]
        assert missing == []


def test_blocks_that_are_not_run_are_listed() -> None:
    found = {}
    for name, path in zip(NAMES, PAGES):
        reasons = [block.reason for block in pages.blocks(path.read_text()) if block.reason is not None]
        if reasons:
            found[name] = reasons
    assert found == NOT_RUN


@pytest.mark.parametrize(("name", "path"), list(zip(NAMES, PAGES)), ids=NAMES)
def test_every_block_says_what_it_is_and_r_is_marked(name: str, path: Path) -> None:
    found = pages.blocks(path.read_text())
    assert [block.line for block in found if not block.language] == []
    assert [block.line for block in found if block.language == "r" and block.reason is None] == []
    odd = {block.language for block in found} - {*pages.CODE, "text", "toml", "yaml", "json", "csv"}
    assert odd == set()


@pytest.mark.parametrize(("name", "path"), list(zip(NAMES, PAGES)), ids=NAMES)
def test_links_and_pictures_lead_somewhere(name: str, path: Path) -> None:
    text = re.sub(r"`[^`\n]*`", "", pages.FENCE.sub("", path.read_text()))
    targets = [*LINK.findall(text), *pages.pictures(text)]
    inside = [target.partition("#")[0] for target in targets if not re.match(r"https?:|#", target)]
    assert [target for target in inside if not (path.parent / target).exists()] == []


def test_every_command_has_its_section_and_example() -> None:
    text = (DOCS / "command-line.md").read_text()
    for name in command_names():
        assert f"\n## wmlr {name}\n" in text
        assert f"<!-- options of {name} -->" in text
        if name not in ("select", "simulate", "demo"):
            assert import_module(f"wmlr.cli.{name}").EXAMPLE.partition(" && ")[0] in text


def test_the_notebook_shows_what_it_prints(tmp_path: Path) -> None:
    kept = nbformat.read(quickstart.NOTEBOOK, as_version=4)
    nbformat.validate(kept)
    shown, printed = quickstart.texts(kept), quickstart.texts(quickstart.executed(quickstart.NOTEBOOK, tmp_path))
    assert [pages.difference(*pair) for pair in zip(shown, printed, strict=True)] == [None] * len(shown)
    assert quickstart.NOTEBOOK.stat().st_size < 100_000


def test_the_site_builds_without_a_warning_and_needs_no_network(tmp_path: Path) -> None:
    config = load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(tmp_path / "site"))
    build(config)
    made = sorted((tmp_path / "site").rglob("*.html"))
    assert len(made) > len(PAGES) - 1
    fetched = re.compile(
        r"<(?:script|img|iframe|source)[^>]+src=\"(?:https?:)?//|<link[^>]+rel=\"stylesheet\"[^>]+href=\"(?:https?:)?//"
    )
    assert [path.name for path in made if fetched.search(path.read_text())] == []
    mathematics = (tmp_path / "site" / "mathematics.html").read_text()
    assert "<math" in mathematics
    assert "arithmatex" not in mathematics
    found = json.loads((tmp_path / "site" / "search" / "search_index.json").read_text())["docs"]
    for word, page in (
        ("categorical", "messy-csv"),
        ("missing", "messy-csv"),
        ("dummy", "messy-csv"),
        ("outlier", "gallery/outliers"),
    ):
        told = [one["text"].lower() for one in found if one["location"].startswith(f"{page}.html")]
        assert any(word in text for text in told), word
    script = (tmp_path / "site" / "gallery" / "tone.py").read_text()
    compile(script, "tone.py", "exec")


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a  1.234", "a 1.235", True),
        ("a 1.234", "a 1.240", False),
        ("3 rows", "4 rows", False),
        ("1.2e-05", "1.3e-05", True),
        ("3607.5102552942294", "3607.510255294228", True),
        ("3607.5102552942294", "3607.510255", False),
        ("1.2e-05", "1.2e-04", False),
        ("one\n...\nlast 5.0", "one\ntwo\nthree\nlast 5.0", True),
        ("one\n...\nlast", "one\ntwo\nother", False),
        ("one", "one\ntwo", False),
    ],
)
def test_outputs_are_compared_by_their_numbers(shown: str, printed: str, same: bool) -> None:
    assert (pages.difference(shown, printed) is None) == same


def test_a_page_out_of_date_is_found_and_mended(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n\n<!-- not run: no -->\n```sh\nrm x\n```\n")
    assert "printed: 2" in pages.refresh(page, tmp_path, write=False, with_r=False)[0]
    pages.refresh(page, tmp_path, write=True, with_r=False)
    assert pages.refresh(page, tmp_path, write=False, with_r=False) == []
    assert "\n2\n" in page.read_text()


def test_only_wmlr_commands_are_run(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```sh\nls\n```\n")
    with pytest.raises(ValueError, match="mark the block as not run"):
        list(pages.run(page, tmp_path))
