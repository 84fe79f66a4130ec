"""Counts, shares, gates, offsets and trials on the command line: the fits of the Python interface."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from wmlr import MixedLinearRegression
from wmlr.cli import app
from wmlr.estimator.row_roles import read_beside

DATA = Path(__file__).parents[1] / "data"
PATENT, SEIZURE, BLOCKER = (str(DATA / f"{name}.csv") for name in ("patent", "seizure", "betablocker"))
ARTICLES = str(DATA / "biochemists.csv")
HOSPITALS = ("--formula", "cbind(Deaths, Total - Deaths) ~ 1 | Center", "--shared", "~ Treatment")
WATCHED = "Seizures ~ Treatment * log(Day) + offset(log(Hours))"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*words: str) -> Any:
    return CliRunner().invoke(app, list(words), prog_name="wmlr")


def told(*words: str) -> Any:
    result = call(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def table(*words: str) -> list[dict[str, float]]:
    result = call(*words)
    assert result.exit_code == 0, result.output
    return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(io.StringIO(result.stdout))]


@pytest.mark.parametrize(
    "how", [("--target", "Patents", "--features", "lgRD"), ("--formula", "Patents ~ lgRD")], ids=["columns", "formula"]
)
@pytest.mark.parametrize("gate", ["RDS", "~ RDS"])
def test_a_gate_is_the_published_fit_and_predicts(how: tuple[str, ...], gate: str) -> None:
    found = told("fit", PATENT, *how, "--gate", gate, "--family", "poisson", "-k", "3", "--out", "m.json")
    assert found["log_likelihood"] == pytest.approx(-197.6750, abs=5e-4)
    assert found["bic"] == pytest.approx(437.8355, abs=1e-3)
    frame = pd.read_csv(PATENT)
    lines = table("predict", "m.json", PATENT, "--target", "Patents", "--interval", "0.9")
    model = MixedLinearRegression(3, family="poisson", formula="Patents ~ lgRD", gate="~ RDS", random_state=0)
    model.fit(frame)
    np.testing.assert_allclose([line["mean"] for line in lines], model.predict(frame), rtol=1e-4)
    shares = model.responsibilities(frame)
    np.testing.assert_allclose([line["responsibility_1"] for line in lines], shares[:, 0], atol=1e-4)


def test_a_gate_of_text_is_one_of_its_levels() -> None:
    zeros = (ARTICLES, "--family", "poisson,point-mass", "--gate", "mar")
    columns = told("fit", *zeros, "--target", "art", "--features", "ment,kid5", "--out", "m.json")
    formula = told("fit", *zeros, "--formula", "art ~ ment + kid5", "--out", "n.json")
    assert columns["log_likelihood"] == pytest.approx(formula["log_likelihood"], abs=1e-6)
    by_columns, by_formula = (table("predict", name, ARTICLES) for name in ("m.json", "n.json"))
    np.testing.assert_allclose([row["mean"] for row in by_columns], [row["mean"] for row in by_formula], rtol=1e-4)


def test_an_offset_in_a_formula_is_read_from_the_file_again() -> None:
    pictures = ("--plot", "s.png", "--report", "s.html")
    found = told("fit", SEIZURE, "--formula", WATCHED, "--family", "poisson", "--out", "m.json", *pictures)
    assert found["log_likelihood"] == pytest.approx(-376.1762, abs=1e-4)
    assert "log(mean of Seizures) falls" in Path("s.html").read_text()
    lines = table("predict", "m.json", SEIZURE, "--target", "Seizures", "--density")
    fitted = MixedLinearRegression.load("m.json")
    frame = pd.read_csv(SEIZURE)
    np.testing.assert_allclose([line["mean"] for line in lines], fitted.predict(frame))
    np.testing.assert_allclose([line["density"] for line in lines], fitted.predict_density(frame))
    assert call("report", "m.json", SEIZURE, "--out", "again.html").exit_code == 0


def test_an_exposure_is_a_column_of_fit_predict_select_and_report() -> None:
    given = ("--target", "Seizures", "--features", "Day", "--exposure", "Hours", "--family", "poisson")
    found = told("fit", SEIZURE, *given, "--out", "m.json", "--report", "s.html", "--plot", "s.png")
    frame = pd.read_csv(SEIZURE)
    hours = frame["Hours"].to_numpy(float)
    model = MixedLinearRegression(2, family="poisson", random_state=0)
    model.fit(frame[["Day"]], frame["Seizures"], exposure=hours)
    assert found["log_likelihood"] == pytest.approx(model.log_likelihood_)
    lines = table("predict", "m.json", SEIZURE, "--exposure", "Hours")
    np.testing.assert_allclose([line["mean"] for line in lines], model.predict(frame[["Day"]], exposure=hours))
    chosen = told("select", SEIZURE, *given, "-k", "2", "--criterion", "cv")
    assert chosen["best"] == 2
    assert chosen["table"][1]["log_likelihood"] == pytest.approx(model.log_likelihood_)
    result = call("report", "m.json", SEIZURE, "--target", "Seizures", "--exposure", "Hours", "--out", "again.html")
    assert result.exit_code == 0, result.output


def test_successes_of_trials_by_a_pair_and_by_two_columns() -> None:
    pair = told("fit", BLOCKER, *HOSPITALS, "--family", "binomial", "-k", "3", "--out", "p.json", "--report", "p.html")
    assert pair["log_likelihood"] == pytest.approx(-159.3605, abs=1e-4)
    given = ("--target", "Deaths", "--trials", "Total", "--features", "Treatment", "--groups", "Center")
    columns = told(
        "fit", BLOCKER, *given, "--shared", "Treatment[T.Treated]", "--family", "binomial", "-k", "3", "--out", "c.json"
    )
    assert columns["log_likelihood"] == pytest.approx(pair["log_likelihood"], abs=1e-6)
    one = table("predict", "p.json", BLOCKER, "--target", "cbind(Deaths, Total - Deaths)")
    two = table("predict", "c.json", BLOCKER, "--target", "Deaths", "--trials", "Total", "--groups", "Center")
    for name in ("mean", "responsibility_2"):
        np.testing.assert_allclose([row[name] for row in one], [row[name] for row in two], atol=1e-5)


def test_the_number_of_components_of_a_pair_is_chosen() -> None:
    chosen = told("select", BLOCKER, *HOSPITALS, "--family", "binomial", "-k", "3")
    assert [round(line["log_likelihood"], 4) for line in chosen["table"]][1:] == [-181.3308, -159.3605]


def test_zero_inflated_counts() -> None:
    given = ("--target", "art", "--gate", "ment", "--features", "fem,mar,kid5,phd,ment")
    found = told("fit", ARTICLES, *given, "--family", "poisson,point-mass", "--out", "z.json", "--report", "z.html")
    assert found["log_likelihood"] == pytest.approx(-1605.7326, abs=2e-3)
    assert found["components"][1]["coef"]["ment"] == 0.0
    lines = table("predict", "z.json", ARTICLES, "--target", "art")
    assert {line["component_2"] for line in lines} == {0.0}


@pytest.fixture
def wards(tmp_path: Path) -> str:
    data = pd.read_csv(SEIZURE)
    data = data.assign(treated=(data["Treatment"] == "Yes") * 1.0, logday=np.log(data["Day"]), ward=data.index % 6)
    data.to_csv(tmp_path / "wards.csv", index=False)
    return str(tmp_path / "wards.csv")


def test_simulated_agents_have_offsets_and_gates(wards: str) -> None:
    given = ("--target", "Seizures", "--features", "treated,logday", "--exposure", "Hours", "--family", "poisson")
    agents = ("--agent-column", "ward", "--report", "w.html", "--agents-out", "a.csv")
    one, two = told("fit", wards, *given), told("simulate", wards, *given, *agents)
    assert two["log_likelihood"] == pytest.approx(one["log_likelihood"], rel=1e-9)
    gated = ("--target", "Seizures", "--features", "treated", "--gate", "logday", "--exposure", "Hours")
    one, two = (told(*start, wards, *gated, "--family", "poisson", *more)
                for start, more in ((("fit",), ()), (("simulate",), agents)))  # fmt: skip
    assert two["log_likelihood"] == pytest.approx(one["log_likelihood"], rel=1e-9)
    frame = pd.read_csv(wards)
    shares = pd.read_csv("a.csv")
    model = MixedLinearRegression(2, family="poisson", gate=["logday"], only={"logday": []}, random_state=0)
    X, beside = frame[["treated", "logday"]], read_beside({"exposure": frame["Hours"]}, len(frame))
    model.fit(X, frame["Seizures"], **beside)
    each = pd.DataFrame(model.responsibilities(X, frame["Seizures"], **beside)).groupby(frame["ward"]).mean()
    np.testing.assert_allclose(shares["probability"], each.max(axis=1), atol=1e-4)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--family", "poisson,gamma"), "not about the same kind of response"),
        (("--family", "cauchy"), "family must be one of"),
        (("--family", "poisson:cube"), "link of family 'poisson'"),
        (("--family", "negative-binomial:probit"), "has no setting"),
        (("--family", "binomial", "--trials", "RDS"), "trials must be whole numbers"),
        (("--family", "poisson", "--gate", "nowhere"), "nowhere"),
        (("--family", "poisson", "--gate", "0.3,0.3,0.4"), "3 fixed weights"),
        (("--family", "poisson", "--exposure", "nowhere", "--stream"), "nowhere"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_line(words: tuple[str, ...], message: str) -> None:
    result = call("fit", PATENT, "--target", "Patents", "--features", "lgRD", *words)
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output


def test_an_exposure_of_a_file_read_in_blocks_is_that_of_the_file_in_memory() -> None:
    given = ("--target", "Seizures", "--features", "Day", "--exposure", "Hours", "--family", "poisson")
    whole, blocks = (told("fit", SEIZURE, *given, how) for how in ("--no-stream", "--stream"))
    assert blocks["log_likelihood"] == pytest.approx(whole["log_likelihood"], abs=1e-4)
    assert blocks["features"] == whole["features"] == ["Day"]
    assert blocks["bic"] == pytest.approx(whole["bic"], abs=1e-3)


def test_links_and_known_weights() -> None:
    given = ("--target", "Patents", "--features", "lgRD", "-k", "2")
    found = told("fit", PATENT, *given, "--family", "poisson:log", "--gate", "0.6,0.4")
    assert sorted(one["weight"] for one in found["components"]) == pytest.approx([0.4, 0.6])
    same = told("fit", PATENT, *given, "--family", "student:4")
    assert same["log_likelihood"] == pytest.approx(told("fit", PATENT, *given, "--robust")["log_likelihood"])


def test_a_fit_says_its_family_and_link_and_its_report_what_follows_a_line() -> None:
    found = told("fit", PATENT, "--formula", "Patents ~ lgRD", "--family", "poisson", "--report", "r.html")
    assert (found["family"], found["link"]) == ("poisson", "log")
    assert "in each, log(mean of Patents) follows a line of its own." in Path("r.html").read_text()
    assert told("fit", "tone", "--target", "tuned")["family"] == "normal"
