"""IFCA's problems: drawn as its authors draw them, judged by their rule, and run on from where a run stopped."""

import numpy as np
import pytest

from wmlr.bench import ifca
from wmlr.bench._ledger import ResultLedger

SMALL = ifca.Clusters(2, 12, 20, 0.5, 0.1, d=10)


def test_the_table_has_every_setting_once():
    names = [problem.name for problem in ifca.problems()]
    assert len(names) == len(set(names)) == 2 * (20 + 12 - 1)
    assert "p=4 m=800 n=200 r=0.5 sigma=0.1" in names


def test_rows_of_an_agent_are_of_one_cluster_and_coefficients_are_r_or_nil():
    rows = SMALL.draw(0)
    assert set(np.unique(rows.theta)) == {0.0, 0.5}
    assert all(len(set(rows.labels[rows.agents == agent])) == 1 for agent in range(12))
    means = np.einsum("ij,ij->i", rows.X, rows.theta[rows.labels])
    assert np.std(rows.y - means) == pytest.approx(0.1, rel=0.2)


def test_success_is_a_matched_distance_of_at_most_six_tenths_of_sigma():
    rows = SMALL.draw(0)
    aside = rows.theta[::-1] + np.array([0.08, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    assert rows.distance(aside) == pytest.approx(0.08)
    assert [SMALL.succeeds(value) for value in (0.06, 0.061)] == [True, False]
    quiet = ifca.Clusters(2, 12, 20, 0.5, 0.0, d=10)
    assert [quiet.succeeds(value) for value in (1e-5, 1e-3)] == [True, False]


def test_a_stopped_run_goes_on_and_equals_known_labels(tmp_path, monkeypatch):
    monkeypatch.setattr(ifca, "problems", lambda d: [SMALL])
    ledger = ResultLedger(tmp_path / "ifca.jsonl")
    ledger.add([{"part": "ifca", "problem": SMALL.name, "who": "IFCA", "seed": 0, "distance": 9.0, "seconds": 1.0}])
    result = ifca.run(lambda text: None, tmp_path, d=10)
    [line] = result.rows
    assert len(line) == len(result.columns)
    assert line[6] == "90, no"
    ours = result.numbers["problems"][0]["wmlr"]
    assert ours["ratio"] == pytest.approx(1.0, abs=0.02)
    assert ours["bytes"] > 0
    assert all(limit["met"] for limit in result.numbers["limits"])
    assert result.rows == ifca.run(lambda text: None, tmp_path, d=10).rows


def test_from_a_start_drawn_like_the_truth_ifca_runs():
    found = ifca.fit_by_ifca(SMALL.draw(0))
    assert found["rounds"] <= ifca.ROUNDS + 3
    assert found["distance"] < np.sqrt(10)


def test_a_case_that_is_none_is_named():
    with pytest.raises(ValueError, match="no problem has 'p=9'"):
        ifca.run(lambda text: None, cases="p=9")
