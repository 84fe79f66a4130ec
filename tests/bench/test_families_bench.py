"""The benchmark of families: its draws are of the law that they say, and its table has a line for each."""

import numpy as np
import pytest

from wmlr.bench import families


@pytest.mark.parametrize("given", families.FAMILIES, ids=str)
def test_every_problem_is_one_of_its_family(given):
    truth, X, y, roles = families.problem(given, 0)
    truth.family.of_rows(roles).start_response(y)
    assert truth.n_components == families.K
    assert X.shape == (families.ROWS, families.D)
    again = families.problem(given, 0)
    np.testing.assert_array_equal(again[2], y)


def test_a_line_says_what_was_found_and_held_and_a_later_run_goes_on(tmp_path, monkeypatch):
    def run():
        return families.run(lambda text: None, seeds=1, fits=2, chosen=("poisson",), out=tmp_path, limit=0.0)

    monkeypatch.setattr(families, "BATCH", 1)
    monkeypatch.setattr(families, "iteration_seconds", lambda given: 1.0)
    (line,) = run().numbers["families"]
    assert (line["seeds"], line["fits"]) == (1, 1)
    assert line["found"] == 1.0
    assert 0.7 < line["coverage"] <= 1.0
    assert line["intervals"] == 3 * 5 + 3
    monkeypatch.setattr(families, "is_recovered", None)  # it is not asked again
    result = families.run(lambda text: None, seeds=1, fits=2, chosen=("poisson",), out=tmp_path)
    assert result.numbers["families"][0]["fits"] == 2
    assert result.rows[0][0] == "poisson"


def test_an_iteration_s_cost_is_measured(monkeypatch):
    monkeypatch.setattr(families, "TIMED_ROWS", 500)
    monkeypatch.setattr(families, "ITERATIONS", 2)
    assert families.iteration_seconds("poisson") > 0
