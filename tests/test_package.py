"""What ``import wmlr`` offers."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import wmlr
from traced.sitecustomize import Calls
from wmlr import MixedLinearRegression
from wmlr.datasets import make_mixed_regression
from wmlr.federated import Federation, Privacy

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


def test_few_modules_lie_at_the_top_and_no_two_classes_have_one_name():
    package = ROOT / "src" / "wmlr"
    assert len(list(package.glob("*.py"))) <= 10
    homes = {}
    for path in package.rglob("*.py"):
        for name in re.findall(r"^class (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE):
            homes.setdefault(name, []).append(path.name)
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


@pytest.mark.filterwarnings("ignore")
def test_fits_go_through_the_files_that_the_map_names():
    told = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    way = told[told.index("`est.fit(X, y)`, in order:") : told.index("Over Flower, `wmlr server`")]
    named = set(re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", way))
    assert len(named) > 25
    fit_in_several_ways()  # so that nothing is compiled under the profiler
    called = set()
    sys.setprofile(Calls(called.add))
    try:
        fit_in_several_ways()
    finally:
        sys.setprofile(None)
    assert named - called == set()


def fit_in_several_ways():
    data = make_mixed_regression(400, 3, 2, snr=3, groups=8, random_state=0)
    frame = pd.DataFrame(data.X, columns=["a", "b", "c"]).assign(y=data.y)
    fit = MixedLinearRegression(2, formula="y ~ a + b + c", random_state=0).fit(frame)
    fit.predict(frame)
    fit.summary()
    brief = MixedLinearRegression(2, symmetric=True, alpha=1.0, max_iter=2, random_state=0)
    brief.fit(data.X + 1e4, data.y)
    brief.fit(np.repeat(data.X[:40], 700, axis=1), data.y[:40])
    for more in ({}, {"participation": 0.5}, {"privacy": Privacy(1.0, y_scale=4.0)}, {"trust": "majority"}):
        brief.fit_on(Federation.split(data.X, data.y, data.groups, **more))
