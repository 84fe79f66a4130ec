"""Modules that are loaded when they are used."""

import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import wmlr
import wmlr.estimator
from wmlr import lazy
from wmlr.numerics.matching import cheapest_matching


@pytest.fixture
def deferred(tmp_path, monkeypatch):
    """A module that takes a while to load, and tells how often it was; the finder that defers it goes again."""
    (tmp_path / "slow_to_load.py").write_text("import time\ntime.sleep(0.2)\nLOADED = []\nLOADED.append(1)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    lazy.defer(("slow_to_load",))
    import slow_to_load

    yield slow_to_load
    sys.modules.pop("slow_to_load")


def test_a_deferred_module_is_loaded_at_its_first_use_and_once_for_all_threads(deferred):
    assert "LOADED" not in vars(deferred)
    seen = []
    threads = [threading.Thread(target=lambda: seen.append(deferred.LOADED)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [[1]] * 4
    assert type(deferred) is type(sys)
    with pytest.raises(AttributeError, match="'slow_to_load' has no attribute 'nothing'"):
        deferred.nothing  # noqa: B018


def test_every_name_of_a_room_comes_from_its_home():
    for room in (wmlr, wmlr.federated, wmlr.inference, wmlr.engines, wmlr.estimator):
        for name in room.__all__:
            assert getattr(room, name) is not None, (room, name)
    with pytest.raises(AttributeError, match=r"'wmlr.federated' has no attribute 'Nothing'"):
        wmlr.federated.Nothing  # noqa: B018


UNUSED = ("pandas.core", "scipy.stats._stats_py", "scipy.optimize", "scipy.interpolate", "numba", "matplotlib")
JOINED = """
    from wmlr.lazy import defer
    defer()
    import sys
    import wmlr.cli.agent, wmlr.flower.joining
    from wmlr import MixedLinearRegression
    from wmlr.flower.agent_app import agent_of
    from wmlr.flower.assignment import Assignment
    from wmlr.flower.terms import RunTerms
    from wmlr.options.data import DataOptions
    from wmlr.options.problem import load_numbers
    agent = agent_of(load_numbers("tone", DataOptions(target="tuned")), "tone")
    task = Assignment.of(MixedLinearRegression(2, random_state=0), True, 1.0)
    agent.card(RunTerms(), task)
    agent.run("run", RunTerms(), task.to_bytes()).replay.advance([])
    print(*sys.modules)
"""


def test_an_agent_loads_nothing_that_it_does_not_need():
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(JOINED)], capture_output=True, text=True, check=True, cwd=Path.home()
    ).stdout.split()
    assert "wmlr.flower.joining" in found
    assert not [name for name in UNUSED if name in found]


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_components_are_matched_as_by_the_general_solver(k, generator):
    for _ in range(20):
        costs = generator.random((k, k))
        ours = cheapest_matching(costs)
        rows, columns = linear_sum_assignment(costs)
        assert costs[np.arange(k), ours].sum() == pytest.approx(costs[rows, columns].sum())
        assert sorted(ours) == list(range(k))
