"""The benchmark of outliers: its cases, and that a run goes on where it was stopped."""

from __future__ import annotations

import json

import numpy as np
import pytest

from wmlr.bench import outliers
from wmlr.bench.search.contestants import Ended


def test_a_case_has_its_share_of_outliers_far_from_the_others():
    case = outliers.OutlierCase(True, True, 0.3)
    data, truth, astray = case.draw(0)
    assert astray.mean() == pytest.approx(0.3, abs=0.04)
    assert data.y[astray].min() > 2.5 * data.y[~astray].std()
    assert truth.n_components == data.k == 3


def test_of_more_components_the_nearest_count_and_a_lost_one_counts_as_infinite():
    _, truth, _ = outliers.OutlierCase(True, False, 0.1).draw(0)
    assert outliers.error(Ended(truth, 0.0, 0.0), truth) == pytest.approx(0.0, abs=1e-12)
    assert outliers.error(Ended(None, 0.0, 0.0), truth) == np.inf


def test_a_run_that_was_stopped_goes_on_and_reports_medians(tmp_path, monkeypatch):
    monkeypatch.setattr(outliers.peers, "present", tuple)
    monkeypatch.setattr(outliers, "cases", lambda: [outliers.OutlierCase(True, False, 0.1)])
    first = outliers.run(lambda text: None, seeds=1, out=tmp_path)
    lines = (tmp_path / "outliers.jsonl").read_text().splitlines()
    assert {json.loads(line)["who"] for line in lines} == {"clean", "outliers=True", "robust=True", "Mix-IRLS"}
    again = outliers.run(lambda text: None, seeds=1, out=tmp_path)
    assert (tmp_path / "outliers.jsonl").read_text().splitlines() == lines
    assert again.rows == first.rows
    assert first.numbers["cases"][0]["ratios"]["outliers=True"] < 1.5
