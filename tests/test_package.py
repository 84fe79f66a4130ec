"""What ``import wmlr`` offers."""

import subprocess
import sys

import wmlr


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
