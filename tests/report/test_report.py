"""The page of a fit: its numbers are the fit's, it needs nothing else, and a browser shows it without complaint."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from scipy.stats import t as student
from typer.testing import CliRunner

from browsing import chromium, opened, shapes, sideways
from wmlr import MixedLinearRegression, report, select_components
from wmlr.cli import app
from wmlr.cli.report import EXAMPLE
from wmlr.datasets import load_tone, make_mixed_regression
from wmlr.federated import Federation
from wmlr.inference.intervals import number
from wmlr.io.printable import shown_text
from wmlr.report.document import embed_json, plain
from wmlr.report.row_sample import RowSample, sample

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&"
LIMIT = 3_000_000


def call(*words: str) -> Any:
    return CliRunner().invoke(app, list(words), prog_name="wmlr")


def data_of(page: str) -> Any:
    """The data that a page's scripts draw."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, flags=re.DOTALL)
    assert found is not None
    return json.loads(found[1])


@pytest.fixture(scope="module")
def tone() -> tuple[Any, Any, Any]:
    data = load_tone()
    X = pd.DataFrame(data.data, columns=["stretch"])
    return MixedLinearRegression(2, shared_sigma=False, random_state=0).fit(X, data.target), X, data.target


@pytest.fixture(scope="module")
def agents() -> tuple[Any, Any, Any, Any]:
    """A fit among agents whose columns are named by somebody who means no good."""
    data = make_mixed_regression(900, 3, 3, snr=6, groups=10, random_state=0)
    X = pd.DataFrame(data.X, columns=[HOSTILE, "second", "third"])
    federation = Federation.split(X, data.y, data.groups, level="agent", participation=0.9, late=0.1)
    fit = MixedLinearRegression(3, random_state=0).fit_on(federation)
    return fit, X, data, federation


@pytest.fixture(scope="module")
def agents_page(agents: tuple[Any, Any, Any, Any]) -> str:
    fit, X, data, federation = agents
    labels = np.asarray([f"{HOSTILE}{group}" for group in data.groups])
    return report.page(fit, X, data.y, groups=labels, federation=federation, target=HOSTILE, source=HOSTILE)


def test_the_estimates_and_intervals_are_those_of_the_fit(tone: tuple[Any, Any, Any]) -> None:
    fit, X, y = tone
    intervals = fit.confidence_intervals(X, y)
    lines = data_of(report.page(fit, X, y))["coefficients"]["lines"]
    found = {f"{line['name']}[{line['component'] + 1}]": (line["low"], line["high"]) for line in lines}
    assert set(intervals.names) <= set(found)
    for name in intervals.names:
        np.testing.assert_allclose(found[name], intervals[name], rtol=1e-8)


def test_the_page_says_how_well_components_are_told_apart(tone: tuple[Any, Any, Any]) -> None:
    fit, X, y = tone
    text = report.page(fit, X, y)
    section = text[text.index('id="apart"') : text.index('id="residuals"')]
    assigned, apart = fit.classification(X, y), fit.component_distances(X)
    assert f"relative entropy is {assigned.relative_entropy:.3f}" in section
    assert f"{assigned.error:.1%} are expected" in section
    for value in assigned.probabilities.ravel():
        assert f">{value:.3f}<" in section
    for value in (apart[0, 1], apart[1, 0]):
        assert f">{number(value)}<" in section
    shares, found = fit.responsibilities(X, y), data_of(text)["rootogram"]
    for own, counts in zip(shares.T, found["counts"]):
        np.testing.assert_array_equal(counts, np.histogram(own[own > 1e-4], len(counts), (0.0, 1.0))[0])


def test_one_component_has_no_section_on_telling_components_apart(tone: tuple[Any, Any, Any]) -> None:
    _, X, y = tone
    text = report.page(MixedLinearRegression(1).fit(X, y), X, y)
    assert 'id="apart"' not in text
    assert 'id="responsibilities"' not in text
    assert 'id="residuals"' in text


def test_the_lines_are_those_of_the_fit_at_the_other_features_means() -> None:
    data = make_mixed_regression(400, 3, snr=5, random_state=1)
    fit = MixedLinearRegression(2, random_state=0).fit(data.X, data.y)
    drawn = data_of(report.page(fit, data.X, data.y))
    for place, axis in enumerate(drawn["lines"]["axes"]):
        points = np.tile(data.X.mean(axis=0), (len(axis["grid"]), 1))
        points[:, place] = axis["grid"]
        np.testing.assert_allclose(np.transpose(axis["means"]), fit.predict_components(points), atol=1e-4)
        np.testing.assert_allclose(axis["x"], data.X[:, place], atol=1e-4)
    np.testing.assert_allclose(drawn["points"]["shares"], fit.responsibilities(data.X, data.y), atol=6e-4)
    assert drawn["points"]["rows"] == list(range(1, 401))


def test_a_formula_is_drawn_along_its_variables_and_names_its_own_target() -> None:
    generator = np.random.default_rng(0)
    x, kind = generator.normal(size=200), np.array(["a", "b"] * 100)
    frame = pd.DataFrame({"x": x, "kind": kind, "out": x**2 * np.where(generator.random(200) < 0.5, 1, -1) + x})
    frame["out"] += generator.normal(0, 0.3, 200)
    fit = MixedLinearRegression.from_formula("out ~ x + I(x**2) + C(kind)", frame, random_state=0)
    page = report.page(fit, frame)
    (axis,) = data_of(page)["lines"]["axes"]
    assert axis["name"] == "x"
    held = pd.DataFrame({"x": axis["grid"], "kind": "a"})
    np.testing.assert_allclose(np.transpose(axis["means"]), fit.predict_components(held), atol=1e-3)
    assert "<h1>What moves out: 2 kinds of rows</h1>" in page
    assert "<p>Mixture of linear regressions: out ~ x + I(x**2) + C(kind). " in page
    names = data_of(page)["coefficients"]["names"]
    assert names == ["x", "I(x ** 2)", "kind: b"]
    assert '<th scope="row">kind: b</th>' in page
    assert data_of(page)["points"]["target"] == "out"


def test_groups_are_counted_as_groups(agents: tuple[Any, Any, Any, Any], agents_page: str) -> None:
    fit, _, _, federation = agents
    found = data_of(agents_page)
    assert found["certainty"]["unit"] == "group"
    assert found["certainty"]["units"] == federation.n_agents
    component, _ = federation.assign(fit)
    counts = np.bincount(component, minlength=3).tolist()
    assert found["certainty"]["assigned"] == counts
    assert found["agents"]["counts"] == counts
    ledger = fit.ledger_
    assert found["rounds"]["cumulative"][-1] == ledger.totals()["bytes"]
    assert found["rounds"]["late"] == [line.late for line in ledger]
    assert f"{int(ledger.totals()['bytes']):,}" in agents_page


def test_the_quantiles_of_a_right_model_stay_within_the_band_and_those_of_a_wrong_one_leave_it() -> None:
    data = make_mixed_regression(2000, 2, snr=8, random_state=3)
    right = MixedLinearRegression(2, random_state=0, search="quick").fit(data.X, data.y)
    residuals = data_of(report.page(right, data.X, data.y))["residuals"]

    def inside(found: Any) -> float:
        seen, low, high = (np.array(found[name]) for name in ("seen", "low", "high"))
        return float(np.mean((low <= seen) & (seen <= high)))

    assert min(map(inside, residuals)) > 0.9
    heavy = data.y + 0.5 * student.rvs(2, size=len(data.y), random_state=0)
    wrong = MixedLinearRegression(2, random_state=0, search="quick").fit(data.X, heavy)
    assert min(map(inside, data_of(report.page(wrong, data.X, heavy))["residuals"])) < 0.6


def test_quantiles_are_set_against_the_model_s_own_noise(tone: tuple[Any, Any, Any]) -> None:
    _, X, y = tone
    for robust, law in ((False, norm()), (True, student(4))):
        fit = MixedLinearRegression(2, robust=robust, random_state=0).fit(X, y)
        found = data_of(report.page(fit, X, y))["residuals"][0]
        count = len(found["expected"])
        np.testing.assert_allclose(found["expected"], law.ppf((np.arange(count) + 0.5) / count), atol=1e-4)


def test_weights_count_rows(tone: tuple[Any, Any, Any]) -> None:
    _, X, y = tone
    weight = np.where(np.arange(len(y)) % 3 == 0, 0.0, 2.0)
    fit = MixedLinearRegression(2, random_state=0).fit(X, y, weight)
    found = data_of(report.page(fit, X, y, sample_weight=weight))
    np.testing.assert_allclose(sum(one["count"] for one in found["residuals"]), weight.sum(), rtol=1e-6)


def test_a_sample_of_many_rows_is_the_same_every_time_and_said() -> None:
    data = make_mixed_regression(30_000, 2, snr=5, random_state=0)
    fit = MixedLinearRegression(2, random_state=0).fit(data.X, data.y)
    page = report.page(fit, data.X, data.y)
    assert page == report.page(fit, data.X, data.y)
    assert "Drawn are 2,000 of 30,000 rows, chosen by a fixed rule." in page
    assert "The quantiles are those of 20,000 of them." in page
    rows = np.array(data_of(page)["points"]["rows"])
    np.testing.assert_allclose(data_of(page)["points"]["y"], data.y[rows - 1], atol=1e-3)
    assert len(np.unique(rows)) == 2000


def test_a_sample_is_spread_over_all_rows() -> None:
    chosen = sample(100_000, 1000)
    assert len(chosen) == 1000
    counts = np.histogram(chosen, 10, (0, 100_000))[0]
    assert counts.min() > 60
    assert abs(np.mean(chosen % 2) - 0.5) < 0.06
    np.testing.assert_array_equal(sample(50, 1000), np.arange(50))


@pytest.mark.parametrize("grouped", [False, True])
def test_rows_that_come_in_blocks_make_the_same_page(tmp_path: Path, grouped: bool) -> None:
    data = make_mixed_regression(600, 2, snr=6, groups=4, random_state=0)
    frame = pd.DataFrame({"a": data.X[:, 0], "b": data.X[:, 1], "y": data.y, "who": data.groups})
    path = tmp_path / "rows.parquet"
    frame.to_parquet(path)
    more = ("--groups", "who") if grouped else ()
    fitted = call("fit", str(path), "--target", "y", "--features", "a,b", "--out", str(tmp_path / "m.json"), *more)
    assert fitted.exit_code == 0, fitted.stderr
    for name, stream in (("whole", "--no-stream"), ("blocks", "--stream")):
        words = (
            "report",
            str(tmp_path / "m.json"),
            str(path),
            "--target",
            "y",
            "--out",
            str(tmp_path / f"{name}.html"),
        )
        result = call(*words, stream, *more)
        assert result.exit_code == 0, result.stderr
    whole, blocks = (data_of((tmp_path / f"{name}.html").read_text()) for name in ("whole", "blocks"))
    whole["points"]["labels"] = None
    assert whole["certainty"]["unit"] == ("group" if grouped else "row")
    for name in ("points", "lines", "certainty", "history"):
        assert whole[name] == blocks[name]


def test_very_many_columns_components_and_rounds_stay_below_the_limit() -> None:
    generator = np.random.default_rng(0)
    X = pd.DataFrame(generator.normal(size=(1500, 300)), columns=[f"{HOSTILE}{number}" * 3 for number in range(300)])
    y = X.to_numpy()[:, 0] * 30 + generator.normal(size=1500)
    fit = MixedLinearRegression(3, search="quick", random_state=0, max_iter=3, alpha=1.0).fit(X, y)
    history = [{"iteration": float(number), "log_likelihood": -1.0 / (number + 1)} for number in range(5000)]
    fit.fitted_ = replace(fit.fitted_, record=replace(fit.fitted_.record, history=history))
    page = report.page(fit, X, y, summary=fit.summary())
    assert len(page.encode()) < LIMIT
    assert "Drawn are the 40 features that move y most, of 300." in page
    assert "276 features are not offered" in page
    assert "4,000 iterations between those drawn are left out." in page
    found = data_of(page)
    assert found["lines"]["axes"][found["lines"]["first"]]["name"] == shown_text(str(X.columns[0]))
    assert found["history"]["columns"]["iteration"][-1] == 4999


def test_a_page_needs_no_other_file_and_holds_no_markup_of_others(agents_page: str) -> None:
    assert len(agents_page.encode()) < LIMIT
    addresses = set(re.findall(r"https?://[^\"'\s<]*", agents_page))
    assert addresses <= {"http://www.w3.org/2000/svg"}
    assert not re.findall(r"<(?:link|iframe|img|object|embed)\b|\b(?:src|onerror)\s*=\s*[\"']", agents_page)
    assert "<script>alert" not in agents_page
    assert agents_page.count("<script") == 2
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in agents_page


def test_what_is_embedded_comes_back_and_cannot_end_its_script() -> None:
    hostile = {"</script><b>": ["<!--", "\u2028", "&", HOSTILE]}
    text = embed_json(hostile)
    assert not set("<>&") & set(text)
    assert json.loads(text) == hostile
    assert plain(np.array([1.5, np.nan, np.inf])) == [1.5, None, None]
    assert plain(np.array([1e9 + 0.125, 1e9 + 0.25])) == [1e9 + 0.125, 1e9 + 0.25]
    assert shown_text("a\x00b\u202ec\ud800" + "d" * 200, 10) == "a\ufffdb\ufffdc\ufffdddd…"


def test_without_rows_there_are_estimates_and_convergence_alone(tone: tuple[Any, Any, Any]) -> None:
    fit, _, _ = tone
    page = report.page(fit)
    assert re.findall(r'<section id="(\w+)"', page) == ["words", "coefficients", "convergence"]
    assert "Estimates alone" in page


def test_the_look_at_rows_is_the_model_s_own(tone: tuple[Any, Any, Any]) -> None:
    fit, X, y = tone
    row_sample = RowSample.of(fit, X, y)
    np.testing.assert_array_equal(row_sample.shares, fit.responsibilities(X, y))
    np.testing.assert_array_equal(row_sample.means, fit.predict_components(X))


def test_the_command_writes_the_page_and_select_its_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for line in EXAMPLE.split("&&"):
        written = call(*line.split()[1:])
        assert written.exit_code == 0, written.stderr
    assert "wrote report.html" in written.stderr
    assert "Rows from <code>tone</code>" in Path("report.html").read_text()
    chosen = call("select", "tone", "--target", "tuned", "--max-components", "3", "--report", "s.html")
    assert chosen.exit_code == 0, chosen.stderr
    found = data_of(Path("s.html").read_text())["choice"]
    assert found["k"] == [1, 2, 3]
    assert found["best"] == 3


def test_fit_and_simulate_write_the_page_on_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    fitted = call("fit", "tone", "--target", "tuned", "--report", "f.html")
    assert fitted.exit_code == 0, fitted.stderr
    assert "wrote f.html" in fitted.stderr
    words = ("simulate", "co2", "--target", "CO2", "--agent-column", "country", "--report", "s.html")
    held = call(*words, "--level", "agent")
    assert held.exit_code == 0, held.stderr
    found = data_of(Path("s.html").read_text())
    assert found["certainty"]["unit"] == "group"
    assert sum(found["agents"]["counts"]) == found["certainty"]["units"] == 28
    assert any(line["low"] is not None for line in found["coefficients"]["lines"])
    assert call(*words).exit_code == 0
    assert data_of(Path("s.html").read_text())["certainty"]["unit"] == "row"
    for stream in ("--no-stream", "--stream"):
        rows = pd.DataFrame(load_tone().data, columns=["stretch"]).assign(tuned=load_tone().target, times=2)
        rows.to_csv("tone.csv", index=False)
        words = ("tone.csv", "--target", "tuned", "--weights", "times", stream, "--json", "--report", "auto.html")
        chosen = call("fit", *words, "--components", "auto", "--max-components", "2")
        assert chosen.exit_code == 0, chosen.stderr
        told, choice = json.loads(chosen.stdout), data_of(Path("auto.html").read_text())["choice"]
        assert choice["k"] == [1, 2]
        assert choice["best"] == len(told["components"]) == told["choice"]["best"]
        np.testing.assert_allclose(choice["columns"]["bic"], list(told["choice"]["values"].values()), rtol=1e-8)
        assert 'id="choice"' in Path("auto.html").read_text()
    refused = call("fit", "tone", "--target", "tuned", "--report", "f.txt")
    assert refused.exit_code == 2
    assert "does not end like a page" in refused.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("m.json", "tone", "--target", "nope", "--out", "r.html"), "the model explains tuned, and not --target nope"),
        (("m.json", "tone", "--target", "tuned", "--out", "r.pdf"), "does not end like a page"),
        (("m.json", "co2", "--out", "r.html"), "no column 'stretchratio' for the model"),
        (("nope.json", "tone", "--target", "tuned", "--out", "r.html"), "there is no model file"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    call("fit", "tone", "--target", "tuned", "--out", "m.json")
    result = call("report", *words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.glob("r.*"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def tone_url(tone: tuple[Any, Any, Any], tmp_path_factory: pytest.TempPathFactory) -> str:
    fit, X, y = tone
    base = MixedLinearRegression(2, random_state=0)
    path = tmp_path_factory.mktemp("pages") / "tone.html"
    report.write(path, fit, X, y, selection=select_components(X, y, range(1, 4), estimator=base), target="tuned")
    return path.as_uri()


def test_every_picture_of_every_part_is_drawn(browser: Any, agents_page: str, tone_url: str, tmp_path: Path) -> None:
    path = tmp_path / "agents.html"
    path.write_text(agents_page)
    for url, least in ((path.as_uri(), 14), (tone_url, 9)):
        with opened(browser, url) as page:
            views = page.eval_on_selector_all("figure[data-view]", "all => all.map(one => one.dataset.view)")
            assert len(views) == len(set(views)) >= least
            assert all(shapes(page, view) > 0 for view in views)
            assert page.evaluate("document.querySelectorAll('svg:not([aria-label]):not([aria-hidden])').length") == 0


def test_pointing_at_a_row_says_its_values(browser: Any, tone: tuple[Any, Any, Any], tone_url: str) -> None:
    _, X, y = tone
    row = int(np.argmax(y))
    with opened(browser, tone_url) as page:
        chart = page.locator('figure[data-view="lines"]')
        chart.scroll_into_view_if_needed()
        assert chart.locator(".tip").is_hidden()
        chart.locator("svg circle").nth(row).hover()
        said = chart.locator(".tip").inner_text()
        assert f"stretch {X.iloc[row, 0]:g}" in said
        assert f"tuned {y[row]:g}" in said
        assert "component 2: 100.0%" in said
        chart.locator(".plot svg").focus()
        page.keyboard.press("Escape")
        assert chart.locator(".tip").is_hidden()
        page.keyboard.press("ArrowRight")
        assert f"stretch {X['stretch'].min():g}" in chart.locator(".tip").inner_text()


def test_dragging_zooms_and_a_double_click_shows_everything_again(browser: Any, tone_url: str) -> None:
    with opened(browser, tone_url) as page:
        chart = page.locator('figure[data-view="lines"]')
        chart.scroll_into_view_if_needed()

        def ticks() -> list[str]:
            return list(chart.locator(".plot svg > g text").all_text_contents())

        before = ticks()
        box = chart.locator(".plot svg").bounding_box()
        page.mouse.move(box["x"] + 200, box["y"] + 80)
        page.mouse.down()
        page.mouse.move(box["x"] + 400, box["y"] + 180, steps=4)
        page.mouse.up()
        assert ticks() != before
        page.mouse.dblclick(box["x"] + 300, box["y"] + 100)
        assert ticks() == before
        chart.get_by_label("Zoom in").click()
        assert ticks() != before
        chart.get_by_label("Show everything").click()
        assert ticks() == before
        chart.get_by_label("Zoom in").evaluate("button => Array.from({length: 20}, () => button.click())")
        beside = chart.locator(".plot svg > g text[text-anchor=end]").all_text_contents()
        assert len(set(beside)) == len(beside) > 1


def test_the_reader_chooses_what_is_shown(browser: Any, agents_page: str, tone_url: str, tmp_path: Path) -> None:
    path = tmp_path / "agents.html"
    path.write_text(agents_page)
    with opened(browser, path.as_uri()) as page:
        chart = page.locator('figure[data-view="lines"]')
        assert chart.locator("option").all_inner_texts() == [HOSTILE, "second", "third"]
        chart.locator("select").select_option(label="third")
        assert "third" in chart.locator(".axis-name").all_text_contents()
        lines = chart.locator('path[stroke="var(--c1)"]')
        assert lines.count() == 1
        chart.locator(".legend button", has_text="component 2").click()
        assert lines.count() == 0
    with opened(browser, tone_url) as page:
        chart = page.locator('figure[data-view="convergence"]')
        chart.locator("summary").click()
        chart.locator("tbody tr").first.wait_for()
        assert chart.locator("tbody tr").count() == len(data_of(page.content())["history"]["columns"]["iteration"])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_telephone_in_light_and_dark(browser: Any, agents_page: str, scheme: str, tmp_path: Path) -> None:
    path = tmp_path / "agents.html"
    path.write_text(agents_page)
    with opened(browser, path.as_uri(), width=400, scheme=scheme) as page:
        assert sideways(page) == 0
        paper = "getComputedStyle(document.body).backgroundColor"
        first = page.evaluate(paper)
        for _ in range(2 if scheme == "light" else 1):
            page.locator("#theme").click()
        assert page.evaluate(paper) != first
        page.locator('figure[data-view="histogram"] rect').last.hover()
        tip = page.locator('figure[data-view="histogram"] .tip').bounding_box()
        assert tip["x"] >= 0
        assert tip["x"] + tip["width"] <= 400


def test_on_paper_it_is_dark_on_white_and_without_buttons(browser: Any, tone_url: str) -> None:
    with opened(browser, tone_url, scheme="dark") as page:
        page.emulate_media(media="print", color_scheme="dark")
        assert page.locator(".zoom").first.is_hidden()
        assert page.locator("#theme").is_hidden()
        assert page.evaluate("getComputedStyle(document.body).color") == "rgb(27, 31, 36)"
        assert len(page.pdf()) > 10_000


@pytest.mark.parametrize("name", ["levels", "interactions", "helmert"])
def test_numbers_that_a_formula_takes_for_levels_are_not_drawn_along(name, tmp_path):
    folder = Path(__file__).parents[1] / "data" / "models"
    rows = pd.read_csv(folder / "rows.csv")
    fitted = MixedLinearRegression.load(folder / f"formula_{name}.json")
    assert "n" not in fitted.formula_.numeric(rows)
    report.write(tmp_path / "page.html", fitted, rows)
    assert (tmp_path / "page.html").stat().st_size > 10_000
