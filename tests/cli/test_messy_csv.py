"""Files as people have them: text, gaps, ids, dates, numbers that are codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from wmlr import MixedLinearRegression
from wmlr.cli import _model, app
from wmlr.io.column_choice import choose_columns
from wmlr.io.tables import read
from wmlr.selection import Selection

ROWS = 240


def call(*words: str) -> Any:
    return CliRunner().invoke(app, list(words), prog_name="wmlr")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def people(elsewhere: Path) -> pd.DataFrame:
    """Charges that rise with age in two ways, in a file with everything that files have."""
    rng = np.random.default_rng(0)
    kind = rng.random(ROWS) < 0.4
    frame = pd.DataFrame(
        {
            "customer_id": np.arange(1000, 1000 + ROWS),
            "name": [f"person {number}" for number in range(ROWS)],
            "joined": pd.date_range("2020-01-01", periods=ROWS).astype(str),
            "country": "here",
            "age": rng.integers(18, 65, ROWS).astype(float),
            "smoker": rng.choice(["no", "yes"], ROWS),
            "region": rng.choice(["north", "south", "west"], ROWS),
            "insured": rng.choice([True, False], ROWS),
            "code": rng.choice([10, 20, 30], ROWS),
        }
    )
    noise = rng.normal(0, 5, ROWS)
    frame["charges"] = np.where(kind, 9, 2) * frame.age + 50 * (frame.smoker == "yes") + 20 * (frame.code == 20) + noise
    frame.loc[[3, 77], "age"] = np.nan
    frame.loc[[5], "smoker"] = None
    frame.loc[[9], "charges"] = np.nan
    frame.to_csv("people.csv", index=False)
    return frame


def dummies(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns that a person would fit by."""
    found = {"age": frame.age, "smoker[T.yes]": frame.smoker == "yes"}
    found |= {f"region[T.{level}]": frame.region == level for level in ("south", "west")}
    return pd.DataFrame(found | {"insured": frame.insured, "code": frame.code}).astype(float)


def test_text_becomes_levels_and_rows_with_gaps_are_counted(people: pd.DataFrame) -> None:
    result = call("fit", "people.csv", "--target", "charges", "--json", "--out", "m.json")
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    whole = people.dropna()
    X = dummies(whole)
    by_hand = MixedLinearRegression(2, random_state=0).fit(X, whole.charges)
    assert told["features"] == list(X.columns)
    assert (told["n_rows"], told["rows_with_gaps"]) == (ROWS - 4, 4)
    assert told["log_likelihood"] == pytest.approx(by_hand.log_likelihood_, abs=1e-6)
    loaded = MixedLinearRegression.load("m.json")
    np.testing.assert_allclose(loaded.predict(whole), by_hand.predict(X), rtol=1e-8)
    for text in (
        "as levels: smoker (against no), region (against north)",
        f"4 of {ROWS} rows have gaps and are left out (age 2, smoker 1, charges 1)",
        "customer_id: named like an id, another in every row",
        "name: 240 different texts in 240 rows",
        "joined: 240 different dates in 240 rows",
        "country: the same in every row",
    ):
        assert text in " ".join(told["notes"]), text
        assert text in result.stderr


def test_the_page_has_every_note_of_the_terminal_and_words_first(people: pd.DataFrame) -> None:
    result = call("fit", "people.csv", "--target", "charges", "--id", "name", "--report", "page.html")
    assert result.exit_code == 0, result.stderr
    page = Path("page.html").read_text()
    notes = [line.removeprefix("wmlr: note: ") for line in result.stderr.splitlines() if "wmlr: note: " in line]
    assert len(notes) >= 3
    for text in notes:
        assert text.replace("'", "&#x27;") in page
    assert page.index("In words") < page.index("log-likelihood")
    assert "charges rises by" in page
    assert "person 17" in page
    assert "left out, with gaps" in result.stdout
    assert "4 rows" in result.stdout


def test_gaps_are_refused_where_that_is_asked_for(people: pd.DataFrame) -> None:
    result = call("fit", "people.csv", "--target", "charges", "--missing", "fail")
    assert result.exit_code == 2
    assert "column 'age' of people.csv has a gap in row 4 and 1 more: --missing drop leaves such" in result.stderr
    result = call("fit", "people.csv", "-t", "charges", "--missing", "never")
    assert "--missing must be drop or fail (got 'never')" in result.stderr


def test_columns_are_chosen_by_name(people: pd.DataFrame) -> None:
    words = ("fit", "people.csv", "-t", "charges", "--categorical", "code", "--exclude", "region,insured", "--json")
    told = json.loads(call(*words).stdout)
    assert told["features"] == ["age", "smoker[T.yes]", "C(code)[T.20]", "C(code)[T.30]"]
    told = json.loads(call("fit", "people.csv", "-t", "charges", "--features", "region,age", "--json").stdout)
    assert told["features"] == ["region[T.south]", "region[T.west]", "age"]
    for words, says in (
        (("--exclude", "charges"), "it cannot be left out by --exclude"),
        (("--exclude", "age", "--features", "age"), "is in --features and in --exclude"),
        (("--categorical", "nowhere"), "no column 'nowhere' for --categorical"),
        (("--id", "nowhere"), "no column 'nowhere' for --id"),
    ):
        result = call("fit", "people.csv", "-t", "charges", *words)
        assert result.exit_code == 2
        assert says in result.stderr


def test_a_formula_drops_rows_with_gaps_too(people: pd.DataFrame) -> None:
    told = json.loads(call("fit", "people.csv", "--formula", "charges ~ age + C(code)", "--json").stdout)
    assert (told["n_rows"], told["rows_with_gaps"]) == (ROWS - 3, 3)


def test_predictions_are_blank_where_the_model_cannot_say_anything(people: pd.DataFrame) -> None:
    call("fit", "people.csv", "-t", "charges", "--categorical", "code", "-o", "m.json")
    new = people.drop(columns="charges").head(12).copy()
    new.loc[2, "region"] = "east"
    new.to_csv("new.csv", index=False)
    words = ("predict", "m.json", "new.csv", "--keep", "name,customer_id", "--interval", "0.9")
    result = call(*words, "-o", "p.csv")
    assert result.exit_code == 0, result.stderr
    found = pd.read_csv("p.csv")
    assert list(found.columns) == ["name", "customer_id", "mean", "component_1", "component_2", "lower", "upper"]
    assert list(found.name) == list(new.name)
    assert np.flatnonzero(found["mean"].isna()).tolist() == [2, 3, 5]
    assert "3 of 12 rows have no prediction" in result.stderr
    assert "region has 'east', which the fit has not seen" in result.stderr
    there = found.dropna()
    assert ((there.lower < there["mean"]) & (there["mean"] < there.upper)).all()
    assert [row["mean"] is None for row in json.loads(call(*words, "--json").stdout)].count(True) == 3
    call(*words, "-o", "p.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet("p.parquet"), found, check_dtype=False)
    refused = call(*words, "--missing", "fail")
    assert refused.exit_code == 2
    assert "has a gap in row 4" in refused.stderr


def test_rows_of_known_y_are_assigned_and_have_a_density(people: pd.DataFrame) -> None:
    call("fit", "people.csv", "-t", "charges", "-o", "m.json")
    result = call("predict", "m.json", "people.csv", "-t", "charges", "--density", "-o", "p.csv")
    assert result.exit_code == 0, result.stderr
    found = pd.read_csv("p.csv")
    assert set(found.assigned.dropna()) == {1.0, 2.0}
    assert found.assigned.isna().sum() == 4
    assert found["mean"].isna().sum() == 3
    model = MixedLinearRegression.load("m.json")
    np.testing.assert_allclose(found.density.dropna(), model.predict_density(people.dropna()), rtol=1e-6)
    assert "--density is that of y" in call("predict", "m.json", "people.csv", "--density").stderr
    assert "(got 90)" in call("predict", "m.json", "people.csv", "--interval", "90").stderr


def test_levels_are_text_in_every_file_whatever_they_look_like(elsewhere: Path) -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=90), "size": rng.choice(["1", "2", "large"], 90)})
    frame["y"] = frame.x + (frame["size"] == "2") + rng.normal(size=90)
    frame.to_csv("old.csv", index=False)
    frame[frame["size"] != "large"].to_csv("new.csv", index=False)
    assert call("fit", "old.csv", "-t", "y", "-k", "1", "-o", "m.json").exit_code == 0
    result = call("predict", "m.json", "new.csv", "-o", "p.csv")
    assert result.stderr == f"wrote {(frame['size'] != 'large').sum()} rows to p.csv\n"
    assert pd.read_csv("p.csv")["mean"].notna().all()


def test_numbers_with_a_sign_for_gaps_are_asked_about(elsewhere: Path) -> None:
    rng = np.random.default_rng(2)
    power = [str(value) for value in rng.integers(40, 200, 100)]
    power[32] = "?"
    frame = pd.DataFrame({"power": power, "weight": rng.normal(size=100)})
    frame["mpg"] = frame.weight + rng.normal(size=100)
    frame.to_csv("cars.csv", index=False)
    result = call("fit", "cars.csv", "-t", "mpg")
    assert result.exit_code == 2
    assert "column 'power' of cars.csv holds numbers but for '?' in row 33: --na '?' reads that" in result.stderr
    told = json.loads(call("fit", "cars.csv", "-t", "mpg", "--na", "?", "--json").stdout)
    assert (told["features"], told["rows_with_gaps"]) == (["power", "weight"], 1)


def test_a_large_file_read_by_blocks_gives_the_same_fit(people: pd.DataFrame) -> None:
    words = ("fit", "people.csv", "-t", "charges", "--exclude", "joined,name,country,customer_id", "--json")
    whole, stream = (json.loads(call(*words, *more).stdout) for more in ((), ("--stream",)))
    for name in ("features", "n_rows", "rows_with_gaps"):
        assert stream[name] == whole[name]
    assert stream["log_likelihood"] == pytest.approx(whole["log_likelihood"], abs=1e-5)
    assert "4 of 240 rows have gaps and are left out" in " ".join(stream["notes"])


@pytest.mark.parametrize(
    ("name", "is_id"),
    [("id", True), ("ID", True), ("PID", True), ("customer_id", True), ("PassengerId", True), ("customerID", True),
     ("Unnamed: 0", True), ("rownames", True), ("row.names", True), ("id number", True), ("", True),
     ("paid", False), ("grid", False), ("humidity", False), ("acid", False), ("idle", False), ("width", False)],
)  # fmt: skip
def test_an_id_is_told_by_its_name(elsewhere: Path, name: str, is_id: bool) -> None:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({name: rng.permutation(40), "x": rng.normal(size=40), "y": rng.normal(size=40)})
    frame.to_csv("t.csv", index=False)
    assert (name in choose_columns(read("t.csv"), {"y": "--target"}).left_out) == is_id


def test_a_column_that_counts_the_rows_is_doubted_and_taken(elsewhere: Path) -> None:
    rng = np.random.default_rng(4)
    pd.DataFrame({"time": range(1, 41), "y": rng.normal(size=40)}).to_csv("t.csv", index=False)
    choice = choose_columns(read("t.csv"), {"y": "--target"})
    assert choice.names == ("time",)
    assert choice.doubts == ("time counts the rows 1, 2, 3 ...: if it means nothing, --exclude time",)


def test_a_column_that_is_mostly_empty_costs_no_rows(elsewhere: Path) -> None:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"x": rng.normal(size=50), "note": ["said"] * 5 + [None] * 45, "y": rng.normal(size=50)})
    frame.to_csv("t.csv", index=False)
    choice = choose_columns(read("t.csv"), {"y": "--target"})
    assert (choice.names, choice.dropped, choice.left_out) == (("x",), 0, {"note": "empty in 90% of the rows"})
    frame.assign(x=[None, 1.0] * 25, y=[1.0, None] * 25).to_csv("t.csv", index=False)
    result = call("fit", "t.csv", "-t", "y")
    assert result.exit_code == 2
    assert "every row of t.csv has a gap" in result.stderr


def test_errors_may_be_the_sandwich_and_clustered(people: pd.DataFrame) -> None:
    words = ("fit", "people.csv", "-t", "charges", "--features", "age")
    assert "sandwich" in call(*words, "--errors", "sandwich").stdout
    assert "name their column by --groups" in call(*words, "--errors", "clustered").stderr
    assert "--errors must be observed, sandwich, clustered (got 'hc3')" in call(*words, "--errors", "hc3").stderr
    assert "sandwich" in call(*words, "--errors", "clustered", "--groups", "region").stdout


@pytest.mark.parametrize("how", [(), ("--stream",)])
def test_a_model_of_numbers_knows_what_it_explains_and_what_its_rows_are_called(
    people: pd.DataFrame, how: tuple[str, ...]
) -> None:
    numbers = people[["customer_id", "age", "charges"]].dropna().assign(other=1.0)
    numbers.to_csv("numbers.csv", index=False)
    call("fit", "numbers.csv", "-t", "charges", "--features", "age", "--id", "customer_id", "-o", "m.json", *how)
    refused = call("predict", "m.json", "numbers.csv", "-t", "other", *how)
    assert refused.exit_code == 2
    assert "the model explains charges, and not --target other" in refused.stderr
    assert call("report", "m.json", "numbers.csv", "-t", "other", "-o", "page.html").exit_code == 2
    said = call("predict", "m.json", "numbers.csv", "-o", "p.csv", *how)
    assert said.exit_code == 0, said.stderr
    found = pd.read_csv("p.csv")
    assert list(found.columns) == ["customer_id", "mean", "component_1", "component_2"]
    assert list(found.customer_id) == list(numbers.customer_id)
    page = call("report", "m.json", "numbers.csv", "-o", "page.html", *how)
    assert page.exit_code == 0, page.stderr


def test_a_level_that_is_new_is_named_however_many_columns_have_gaps(elsewhere: Path) -> None:
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(rng.normal(size=(60, 8)), columns=list("abcdefgy")).assign(kind=["u", "v"] * 30)
    frame.to_csv("d.csv", index=False)
    call("fit", "d.csv", "-t", "y", "-k", "1", "-o", "m.json")
    new = frame.head(2).assign(kind=["w", "u"])
    new.loc[1, list("abcdefg")] = np.nan
    new.to_csv("new.csv", index=False)
    said = call("predict", "m.json", "new.csv").stderr
    assert "2 of 2 rows have no prediction: gaps in a (1), b (1), c (1), d (1), e (1), f (1) and 1 more" in said
    assert "kind has 'w', which the fit has not seen" in said


def test_columns_that_nearly_follow_from_others_are_named(elsewhere: Path) -> None:
    rng = np.random.default_rng(3)
    school, work = rng.integers(8, 19, 300), rng.integers(0, 40, 300)
    frame = pd.DataFrame({"school": school, "work": work, "age": school + work + 6 + (rng.random(300) < 0.02)})
    frame["kind"] = rng.choice(["u", "v"], 300)
    frame["wage"] = 0.5 * school + 0.1 * work + rng.normal(size=300)
    frame.to_csv("d.csv", index=False)
    told = json.loads(call("fit", "d.csv", "-t", "wage", "-k", "1", "--json").stdout)["notes"]
    (said,) = [note for note in told if "nearly follow" in note]
    assert {"school", "work", "age"} == set(said.split(" nearly")[0].split(", "))
    assert "their effects cannot be told apart; leave one out, as by --exclude" in said
    fewer = json.loads(call("fit", "d.csv", "-t", "wage", "-k", "1", "--exclude", "age", "--json").stdout)["notes"]
    assert not any("nearly follow" in note for note in fewer)


@pytest.mark.parametrize("command", [("select",), ("fit", "-k", "auto")])
def test_too_few_rows_are_said_in_place_of_looking_further(elsewhere: Path, command: tuple[str, ...]) -> None:
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(rng.normal(size=(60, 8)), columns=list("abcdefgy"))
    frame.to_csv("d.csv", index=False)
    said = call(command[0], "d.csv", "-t", "y", *command[1:], "--max-components", "3")
    assert said.exit_code == 0, said.stderr
    assert "3 components and more are not tried, with 27 parameters for 60 rows: take fewer columns" in said.stderr
    assert "raise --max-components" not in said.stderr
    assert "parameters are few: take fewer columns by --features" in call("fit", "d.csv", "-t", "y", "-k", "2").stderr
    lines = pd.DataFrame({"x": rng.normal(size=600)})
    lines["y"] = np.where(rng.random(600) < 0.5, 5, -5) * lines.x + 0.1 * rng.normal(size=600)
    lines.to_csv("l.csv", index=False)
    further = call(command[0], "l.csv", "-t", "y", *command[1:], "--max-components", "2").stderr
    assert "2 components are the most that were tried: raise --max-components" in further


def test_a_page_of_other_rows_tells_unseen_levels_from_gaps(people: pd.DataFrame) -> None:
    call("fit", "people.csv", "-t", "charges", "-k", "1", "-o", "m.json")
    people.assign(region=people.region.where(people.index > 1, "east")).to_csv("new.csv", index=False)
    said = call("report", "m.json", "new.csv", "-o", "page.html").stderr
    assert f"4 of {ROWS} rows have gaps and are left out (age 2, smoker 1, charges 1)" in said
    assert f"2 of {ROWS} rows are left out: region has 'east', which the fit has not seen" in said
    people.assign(region="east").to_csv("new.csv", index=False)
    refused = call("report", "m.json", "new.csv", "-o", "page.html")
    assert refused.exit_code == 2
    assert "no row of new.csv can be predicted: region has 'east', which the fit has not seen" in refused.stderr


def test_select_refuses_what_fit_refuses_of_a_formula(people: pd.DataFrame) -> None:
    words = ("people.csv", "--formula", "charges ~ age", "--no-intercept")
    for command in ("fit", "select"):
        refused = call(command, *words)
        assert refused.exit_code == 2
        assert "--formula says itself whether there is an intercept" in refused.stderr


def test_a_file_of_another_country_is_fitted_and_predicted(people: pd.DataFrame) -> None:
    told = json.loads(call("fit", "people.csv", "-t", "charges", "-k", "1", "--json").stdout)
    people.region = people.region.replace("south", "süd")
    people.to_csv("there.csv", index=False, sep=";", decimal=",", encoding="latin-1")
    words = ("-t", "charges", "-k", "1", "--decimal", ",", "--encoding", "latin-1", "--json", "-o", "m.json")
    for how in ((), ("--stream",)):
        there = json.loads(call("fit", "there.csv", *words, *how).stdout)
        assert "region[T.süd]" in there["features"]
        assert there["log_likelihood"] == pytest.approx(told["log_likelihood"], abs=1e-6)
        assert there["rows_with_gaps"] == told["rows_with_gaps"]
    said = call("predict", "m.json", "there.csv", "--decimal", ",", "--encoding", "latin-1", "-o", "p.csv")
    assert "3 of 240 rows have no prediction" in said.stderr
    assert "--encoding ISO-8859-1 reads it" in call("predict", "m.json", "there.csv", "--decimal", ",").stderr


@pytest.mark.parametrize("how", [(), ("--stream",)])
def test_columns_without_an_estimate_are_named(elsewhere: Path, how: tuple[str, ...]) -> None:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"x": rng.normal(size=60), "town": rng.choice(["u", "v", "w"], 60)})
    frame = frame.assign(state=frame.town.replace("w", "v"), y=frame.x + rng.normal(size=60))
    frame.to_csv("d.csv", index=False)
    notes = json.loads(call("fit", "d.csv", "-t", "y", "-k", "1", "--json", *how).stdout)["notes"]
    assert "the 4 features span only 3 directions (n=60 rows)" in notes
    assert "no estimate: state[T.v]: what follows from other columns has no effect of its own" in notes


def test_a_long_fact_has_a_line_of_its_own(elsewhere: Path) -> None:
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.normal(size=(40, 3)), columns=["x", "y", "z"])
    frame = frame.assign(**{f"a column of a long name {number}": number * frame.x for number in range(2, 5)})
    frame.to_csv("d.csv", index=False)
    table = call("fit", "d.csv", "-t", "y", "-k", "1").stdout.splitlines()
    (line,) = [line for line in table if line.startswith("no estimate:")]
    assert line.endswith("a column of a long name 4")
    assert {len(line) for line in table if line.startswith(("components:", "rows:", "BIC:"))} == {len(table[1]) - 1}


def test_what_a_formula_has_no_value_for_is_said_with_its_row(people: pd.DataFrame) -> None:
    people.assign(age=people.age.where(people.index != 20, 0.0), charges=people.charges - 40).to_csv(
        "d.csv", index=False
    )
    for formula, says in (
        ("charges ~ np.log(age)", "np.log(age) has no value in row 21 of d.csv: leave such rows out"),
        ("np.log(charges) ~ age", "np.log(charges) has no value in row"),
    ):
        result = call("fit", "d.csv", "--formula", formula, "-k", "1")
        assert result.exit_code == 2
        assert says in result.stderr
        assert result.stderr.count("\n") == 1


def test_a_column_that_varies_only_in_rows_with_gaps_is_said_to_do_so(elsewhere: Path) -> None:
    rng = np.random.default_rng(6)
    frame = pd.DataFrame({"kind": ["u"] * 30 + ["v"] * 9, "x": rng.normal(size=39), "y": rng.normal(size=39)})
    frame.assign(x=frame.x.where(frame.kind == "u")).to_csv("d.csv", index=False)
    assert choose_columns(read("d.csv"), {"y": "--target"}).left_out == {"kind": "the same in every row without gaps"}


def test_a_family_that_y_cannot_have_is_said_in_the_words_of_the_command_line(people: pd.DataFrame) -> None:
    people.assign(charges=-people.charges).to_csv("d.csv", index=False)
    said = call("fit", "d.csv", "-t", "charges", "-k", "1", "--family", "gamma").stderr
    assert said == "wmlr: --family gamma is for positive amounts, and y has others: use another family\n"


def test_levels_that_differ_by_blanks_or_capitals_are_asked_about(elsewhere: Path) -> None:
    rng = np.random.default_rng(7)
    frame = pd.DataFrame({"town": rng.choice(["Ulm", "ulm ", "Bonn"], 60), "y": rng.normal(size=60)})
    frame.to_csv("d.csv", index=False)
    (doubt,) = choose_columns(read("d.csv"), {"y": "--target"}).doubts
    assert doubt.startswith("town has levels that differ by blanks or capitals alone ('Ulm' and 'ulm ')")
    frame.assign(town=frame.town.str.strip().str.title()).to_csv("d.csv", index=False)
    assert choose_columns(read("d.csv"), {"y": "--target"}).doubts == ()


def test_blanks_around_names_do_no_harm_in_a_stream_either(elsewhere: Path) -> None:
    rng = np.random.default_rng(8)
    rows = rng.normal(size=(50, 2))
    Path("d.csv").write_text(" x , y \n" + "".join(f" {x:.3f} , {y:.3f} \n" for x, y in rows))
    one, other = (
        json.loads(call("fit", "d.csv", "-t", "y", "-k", "1", "--json", *how).stdout) for how in ((), ("--stream",))
    )
    assert one["features"] == other["features"] == ["x"]
    assert one["log_likelihood"] == pytest.approx(other["log_likelihood"])


def test_gaps_that_cost_many_rows_are_told_by_the_columns_that_have_them(elsewhere: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(100, 4)), columns=["y", "x", "fireplace", "my pool"])
    frame.loc[:39, ["fireplace", "my pool"]] = np.nan
    frame.loc[30:44, "x"] = np.nan
    frame.to_csv("houses.csv", index=False)
    choice = choose_columns(read("houses.csv"), {"y": "--target"})
    assert choice.doubts == ("gaps cost 45% of the rows: --exclude 'fireplace,my pool' keeps 30 of those",)
    named = choose_columns(read("houses.csv"), {"y": "--target"}, features=["x", "fireplace", "my pool"])
    assert not named.doubts
    frame[30:].to_csv("houses.csv", index=False)
    assert not choose_columns(read("houses.csv"), {"y": "--target"}).doubts


def test_a_fit_that_has_not_converged_says_why_and_not_only_that_steps_are_missing(elsewhere: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    y = X.sum(axis=1) + rng.normal(size=30)
    y[:12] = X[:12] @ [3, -2, 1]
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y)
    frame.to_csv("rows.csv", index=False)
    result = call("fit", "rows.csv", "-t", "y", "-k", "2", "--separate-sigma", "--search", "quick", "--json")
    told = json.loads(result.stdout)
    assert not told["converged"]
    (ended,) = [note for note in told["notes"] if "without converging" in note]
    assert "the likelihood has no bound near it" in ended
    assert "leave out --separate-sigma" in ended
    assert "raise --max-iter" not in ended
    short = call("fit", "rows.csv", "-t", "y", "-k", "2", "--max-iter", "1", "--search", "quick", "--start", "random")
    assert "stopped after 1 iteration without converging: raise --max-iter" in short.output


def test_remarks_on_numbers_of_components_are_in_the_words_of_the_command_line() -> None:
    lines = ({"bic": 1.0}, {"bic": 2.0})
    remarks = ("", "less likely than 2: no maximum, raise n_init")
    chosen = Selection("bic", (2, 3), np.array([1.0, 2.0]), 2, MixedLinearRegression(), lines, remarks=remarks)
    told = [line["remark"] for line in _model.choice(chosen)["table"]]
    assert told == ["", "less likely than 2: no maximum, raise --n-init"]


def test_numbers_of_components_that_are_set_aside_are_named_with_the_reason(elsewhere: Path) -> None:
    """Marks are whole numbers: with a sigma each, components become single marks and have the lesser BIC."""
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(generator.standard_normal((300, 2)), columns=["a", "b"])
    spread = np.round(6 + 3 * frame.a + generator.standard_normal(300))
    frame["mark"] = np.where(generator.random(300) < 0.5, 6, spread).astype(int)
    frame.to_csv("marks.csv", index=False)
    options = ("--target", "mark", "--separate-sigma", "--search", "quick", "--max-components", "2")
    result = call("fit", "marks.csv", *options, "--components", "auto", "--json")
    told = json.loads(result.stdout)
    lines = told["choice"]["table"]
    assert lines[1]["bic"] < lines[0]["bic"]
    assert told["choice"]["best"] == 1
    assert any("2 components would have the lesser BIC, and are not chosen" in text for text in told["notes"])


@pytest.mark.parametrize(("sign", "written"), [("-999", "-999.0"), ("-999.0", "-999"), ("-9.5", "-9.50"), ("x", "x")])
def test_a_number_for_gaps_is_that_number_however_it_is_written(elsewhere: Path, sign: str, written: str) -> None:
    rng = np.random.default_rng(0)
    lines = [f"{rng.normal():.3f},{written if i < 6 else f'{rng.normal():.3f}'}" for i in range(60)]
    Path("gaps.csv").write_text("\n".join(["y,x", *lines]))
    found = call("fit", "gaps.csv", "--target", "y", "-k", "1", f"--na={sign}", "--json")
    assert json.loads(found.stdout)["rows_with_gaps"] == 6, found.output
