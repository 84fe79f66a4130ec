"""An agent on its way to a server: what it says while there is none, how it ends, and the order of its columns."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from wmlr.flower.agent_app import agent_of
from wmlr.options.data import DataOptions
from wmlr.options.problem import load_numbers


def test_an_agent_without_a_server_says_so_every_few_seconds_and_ends_on_sigterm() -> None:
    words = ["agent", "--data", "tone", "--target", "tuned", "--server", "127.0.0.1:9"]
    agent = subprocess.Popen([sys.executable, "-m", "wmlr.cli", *words], stderr=subprocess.PIPE, text=True)
    assert agent.stderr is not None
    until, told = time.monotonic() + 120, []
    while sum("no connection to 127.0.0.1:9" in line for line in told) < 2 and time.monotonic() < until:
        told.append(agent.stderr.readline())
    agent.send_signal(signal.SIGTERM)
    rest = agent.communicate(timeout=300)[1]
    assert "is wmlr server running there" in told[-1]
    assert "stopped by SIGTERM" in rest
    assert "Ctrl-C" not in rest
    assert agent.returncode == 143


def test_agents_order_their_columns_by_name_and_leave_out_rows_with_gaps(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(30, 4)), columns=["x10", "y", "x2", "a"]).assign(town="here", b=1.0)
    frame.loc[[3, 4], "x2"] = np.nan
    frame.to_csv(tmp_path / "one.csv", index=False)
    frame[["a", "b", "y", "x2", "town", "x10"]].to_csv(tmp_path / "other.csv", index=False)
    found = []
    for name in ("one.csv", "other.csv"):
        rows = load_numbers(str(tmp_path / name), DataOptions(target="y"))
        found.append(agent_of(rows, name))
        assert len(rows.y) == 28
        assert "2 of 30 rows have gaps and are left out (x2 2)" in rows.notes
    assert found[0].columns == found[1].columns == ("a", "b", "x2", "x10")
    np.testing.assert_array_equal(found[0].X, found[1].X)
    assert len(found[0]) == 28
