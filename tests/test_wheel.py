"""The wheel, built and installed where no source tree is.

The environment is empty but for the wheel, and looks for what wmlr depends on in this one. With
WMLR_EMPTY_VENV=1 the tests are repeated in an environment into which pip brings everything itself.
"""

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from wmlr import __version__

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "wmlr"
UNSET = ("PYTHONPATH", "VIRTUAL_ENV", "WMLR_KERNELS")
KINDS = ["beside the dependencies", *(["empty"] if os.environ.get("WMLR_EMPTY_VENV") else [])]


def call(*words: str | Path, folder: Path) -> str:
    bare = {name: value for name, value in os.environ.items() if name not in UNSET}
    done = subprocess.run([str(word) for word in words], cwd=folder, env=bare, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    call(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT, folder=out)
    (made,) = out.glob("*.whl")
    return made


@pytest.fixture(scope="module", params=KINDS)
def commands(request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs in an environment that has the wheel."""
    place = tmp_path_factory.mktemp("venv")
    call(sys.executable, "-m", "venv", "--without-pip", place, folder=place)
    python = place / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--disable-pip-version-check"]
    if request.param == "empty":
        call(*pip, f"{wheel}[io,plots]", folder=place)
    else:
        call(*pip, "--no-deps", wheel, folder=place)
        (site,) = place.glob("lib/python*/site-packages")
        (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return place / "bin"


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    files = [path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    names = {f"wmlr/{path.relative_to(SOURCE).as_posix()}" for path in files}
    assert names - inside == set()
    assert {"wmlr/py.typed", "wmlr/data/tone.csv", "wmlr/data/co2.csv", "wmlr/data/no.csv"} <= names
    outside = {name for name in inside if not name.startswith(("wmlr/", f"wmlr-{__version__}.dist-info/"))}
    assert outside == set()


def test_the_source_archive_holds_what_building_testing_and_reading_need(tmp_path: Path) -> None:
    call(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", tmp_path, ROOT, folder=tmp_path)
    with tarfile.open(tmp_path / f"wmlr-{__version__}.tar.gz") as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    wanted = ["pyproject.toml", "README.md", "CONTRIBUTING.md", "Makefile", "constraints.txt", "mkdocs.yml"]
    wanted += [path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")]
    wanted += ["examples/quickstart.py", "docs/data/npreg.csv", "docs/hooks/pages.py", "src/wmlr/py.typed"]
    wanted += [f"tests/{Path(__file__).name}"]
    assert set(wanted) - inside == set()
    assert not [name for name in inside if "__pycache__" in name or name.startswith((".venv", "dist"))]


def test_the_installed_package_is_the_wheels(commands: Path, tmp_path: Path) -> None:
    found = call(commands / "python", "-c", "import wmlr; print(wmlr.__file__)", folder=tmp_path)
    assert Path(found.strip()).is_relative_to(commands.parent)


def test_the_program_knows_its_version(commands: Path, tmp_path: Path) -> None:
    assert call(commands / "wmlr", "--version", folder=tmp_path) == f"wmlr {__version__}\n"


def test_help_says_what_the_file_is(commands: Path, tmp_path: Path) -> None:
    shown = " ".join(call(commands / "wmlr", "fit", "--help", folder=tmp_path).replace("│", " ").split())
    assert "CSV or Parquet; tone, co2 and no are built in." in shown


def test_the_program_fits_predicts_and_runs_the_demo(commands: Path, tmp_path: Path) -> None:
    program = commands / "wmlr"
    told = json.loads(call(program, "fit", "tone", "--target", "tuned", "--json", "--out", "m.json", folder=tmp_path))
    assert told["log_likelihood"] == pytest.approx(107.2567, abs=1e-3)
    assert len(call(program, "predict", "m.json", "tone", folder=tmp_path).splitlines()) == 151
    shown = call(program, "demo", "--rows", "400", "--features", "3", "--iterations", "5", folder=tmp_path)
    assert "WMLR refreshed" in shown
