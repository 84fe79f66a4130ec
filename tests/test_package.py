"""What ``import wmlr`` offers."""

import re
import subprocess
import sys
from pathlib import Path

import wmlr

ROOT = Path(__file__).parents[1]


def test_dir_lists_public_names_alone_and_each_of_them_is_there():
    names = dir(wmlr)
    assert names == sorted(set(names))
    assert set(wmlr.__all__) <= set(names)
    assert {name for name in names if name.startswith("_")} == {"__version__"}
    assert not {"import_module", "annotations", "Any", "TYPE_CHECKING", "io", "core", "numerics"} & set(names)
    for name in names:
        assert getattr(wmlr, name) is not None


def test_rooms_are_offered_without_being_imported():
    code = (
        "import sys, wmlr\n"
        "loaded = {name for name in sys.modules if name.startswith(('wmlr', 'sklearn', 'torch', 'scipy', 'numba'))}\n"
        "assert loaded == {'wmlr', 'wmlr.lazy', 'wmlr.version'}, loaded\n"
        "for room in ('engines', 'theory', 'report', 'plots'):\n"
        "    assert getattr(wmlr, room).__name__ == f'wmlr.{room}'\n"
        "assert 'torch' not in sys.modules\n"
        "assert wmlr.neural.NeuralMixedRegression\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_map_names_every_room_and_no_file_that_is_not_there():
    told = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    chart = told[told.index("    src/wmlr/") : told.index("## To add a method")]
    package = ROOT / "src" / "wmlr"
    rooms = {f"{one.parent.name}/" for one in package.glob("*/__init__.py")} | {
        one.name for one in package.glob("*.py")
    }
    assert not {room for room in rooms - {"__init__.py"} if room not in chart}
    named = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]*(?:\.py)?)`", chart))
    assert len(named) > 40
    assert not {name for name in named if not (package / name).exists()}
