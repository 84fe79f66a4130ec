"""What people see of a search: the command line, JSON, the report and a picture."""

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from wmlr import MixedLinearRegression, plots
from wmlr.cli import app
from wmlr.core.progress import announce_to
from wmlr.datasets import load_co2, load_tone


def call(*words):
    return CliRunner().invoke(app, list(words), prog_name="wmlr")


def test_the_command_line_searches_as_hard_as_it_is_told():
    told = {}
    for effort in ("quick", "thorough", "2000"):
        result = call(
            "fit", "co2", "--target", "CO2", "--components", "3", "--search", effort, "--n-init", "3", "--json"
        )
        assert result.exit_code == 0, result.stderr
        told[effort] = json.loads(result.stdout)["search"]
        assert told[effort]["searches"] == 3
    assert told["thorough"]["steps"] > told["quick"]["steps"]
    result = call("fit", "co2", "--target", "CO2", "--search", "hard")
    assert result.exit_code == 2
    assert "search must be 'auto', 'quick', 'thorough'" in result.stderr


def test_select_prints_the_table_that_python_has():
    result = call("select", "co2", "--target", "CO2", "--max-components", "3", "--separate-sigma")
    assert result.exit_code == 0, result.stderr
    for word in ("log likelihood", "n parameters", "aic", "bic", "icl", "searches that agree", "2 of 2", "157.2050"):
        assert word in result.stdout
    table = json.loads(call("select", "co2", "--target", "CO2", "--max-components", "2", "--json").stdout)["table"]
    assert table[1]["agreed"] == "2 of 2"


def test_the_report_and_the_picture_show_the_maxima(tmp_path):
    co2 = load_co2()
    fit = MixedLinearRegression(3, random_state=0).fit(co2.data, co2.target)
    page = tmp_path / "report.html"
    assert call("fit", "co2", "--target", "CO2", "--components", "3", "--report", str(page)).exit_code == 0
    assert f"reached by {fit.search_.reached} of 2 searches" in page.read_text()
    assert "times found" in page.read_text()
    figure = plots.maxima(fit)
    points = np.concatenate([one.get_offsets() for one in figure.axes[0].collections])
    assert len(points) == len(fit.search_.maxima)
    assert points[:, 1].max() == pytest.approx(fit.log_likelihood_)
    given = MixedLinearRegression(2, start=[[1.0], [0.0]]).fit(co2.data, co2.target)
    with pytest.raises(ValueError, match="not searched for"):
        plots.maxima(given)


def test_whoever_listens_hears_the_stages_of_the_search():
    tone, said = load_tone(), []
    with announce_to(lambda stage: said.append(str(stage))):
        MixedLinearRegression(3, random_state=0).fit(tone.data, tone.target)
    told = len(said)
    MixedLinearRegression(3, random_state=0).fit(tone.data, tone.target)
    assert len(said) == told
    stages = list(dict.fromkeys(line.split(", pass")[0] for line in said))
    assert "3 components, first starts, 24 candidates" in stages
    assert any(re.fullmatch(r"3 components, generation 2, \d+ candidates", stage) for stage in stages)
    assert said[-1].startswith("3 components, iteration")
