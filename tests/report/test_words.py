"""A fit in sentences: what they say is what the tables say."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from wmlr import MixedLinearRegression, report
from wmlr.inference.intervals import number
from wmlr.report.words import few_digits


@pytest.fixture(scope="module")
def charges() -> tuple[Any, pd.DataFrame]:
    """Two kinds of customers: in one, charges rise with age and smoking; the other is older."""
    rng = np.random.default_rng(0)
    n = 400
    kind = rng.random(n) < 0.3
    frame = pd.DataFrame({"age": rng.normal(40, 8, n) + 8 * kind, "smoker": rng.choice(["no", "yes"], n)})
    slope, smoking = np.where(kind, -2.0, 5.0), np.where(kind, 0.0, 60.0)
    frame["charges"] = slope * frame.age + smoking * (frame.smoker == "yes") + rng.normal(0, 3, n)
    return MixedLinearRegression(2, formula="charges ~ age + smoker", random_state=0).fit(frame), frame


def text_of(page: str) -> str:
    section = page[page.index('<section id="words"') : page.index("</section>")]
    return " ".join(re.sub(r"<[^>]+>", " ", section).split())


def test_each_component_is_told_by_its_share_its_effects_and_its_rows(charges: tuple[Any, pd.DataFrame]) -> None:
    fit, frame = charges
    told = text_of(report.page(fit, frame, notes=["3 rows < 4"]))
    assert "400 rows are of 2 kinds, the components: in each, charges follows a line of its own." in told
    assert f"Component 1: {fit.weights_[0]:.0%} of the rows" in told
    assert f"charges rises by {few_digits(fit.coef_[0, 0])} for each 1 more of age" in told
    assert f"charges is {few_digits(fit.coef_[0, 1])} higher with smoker yes than with no" in told
    assert f"charges falls by {few_digits(-fit.coef_[1, 0])} for each 1 more of age" in told
    shares = fit.responsibilities(frame)
    assert f"age {few_digits(np.average(frame.age, weights=shares[:, 1]))} ({few_digits(frame.age.mean())})" in told
    sure = (shares.max(axis=1) >= 0.9).mean()
    assert f"For {sure:.0%} of the rows it is at least 90% sure" in told
    assert "3 rows &lt; 4" in told


def test_the_columns_that_tell_components_apart_come_first(charges: tuple[Any, pd.DataFrame]) -> None:
    fit, frame = charges
    page = report.page(fit, frame)
    who = page[page.index('<section id="who"') :]
    who = who[: who.index("</section>")]
    assert re.findall(r'<th scope="row">([^<:]+)', who) == ["charges", "age", "smoker", "smoker"]
    profile = fit.profile(frame)
    assert f"<td>{profile['age'].difference:.2f}</td>" in who


def test_a_column_of_many_levels_is_told_once_and_its_levels_are_quoted() -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {"school": rng.choice(["1. none", "2. some college", "3. degree"], 90), "age": rng.normal(size=90)}
    )
    frame["wage"] = 5 * frame.school.str[0].astype(int) + frame.age + 0.1 * rng.normal(size=90)
    told = text_of(report.page(MixedLinearRegression(1, formula="wage ~ school + age").fit(frame), frame))
    assert "higher with school “3. degree” than with “1. none”" in told
    assert told.count("school") == 1
    assert "wage rises by" in told


def test_one_line_is_told_as_one(charges: tuple[Any, pd.DataFrame]) -> None:
    _, frame = charges
    fit = MixedLinearRegression(1, formula="charges ~ age + smoker").fit(frame)
    page = report.page(fit, frame)
    assert "400 rows follow one line." in text_of(page)
    assert 'id="who"' not in page


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (3.14159, "3.14"), (1234567.0, "1,230,000"), (0.000123456, "0.000123"), (-17.0, "-17"), (99.96, "100"),
     (1e-12, "1.00e-12"), (2.5e7, "25,000,000")],
)  # fmt: skip
def test_numbers_have_three_digits_that_matter(value: float, text: str) -> None:
    assert few_digits(value) == text


def test_average_effects_are_on_the_page_with_their_errors(charges: tuple[Any, pd.DataFrame]) -> None:
    fit, frame = charges
    page = report.page(fit, frame)
    told = page[page.index('<section id="effects"') :]
    told = told[: told.index("</section>")]
    effects = fit.effects(frame)
    place = effects.names.index("age")
    for j in range(3):
        assert f"<td>{number(effects.values[j, place])} ({number(effects.errors[j, place])})</td>" in told
    assert f"<td>{number(effects.lower[2, place])}</td><td>{number(effects.upper[2, place])}</td>" in told


def test_a_fit_without_all_errors_is_not_called_converged(charges: tuple[Any, pd.DataFrame]) -> None:
    fit, frame = charges
    page = report.page(fit, frame, summary=replace(fit.summary(frame), strict=False))
    assert "The fit converged" not in page
    assert page.count("came to rest where the likelihood is flat in some direction") == 2
