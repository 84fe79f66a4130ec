"""Pairs, offsets and groups in a formula's text."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from wmlr import MixedLinearRegression
from wmlr.cli import app
from wmlr.formulas.formula import ModelFormula
from wmlr.formulas.split import FormulaParts, with_terms

FRAME = pd.DataFrame({"d": [1.0, 2.0, 0.0], "n": [4.0, 5.0, 3.0], "x": [0.1, 0.5, 0.9], "h": [1.0, 2.0, 4.0]})


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("y ~ x", FormulaParts("y ~ x")),
        ("cbind(d, n - d) ~ x | id", FormulaParts("d ~ x ", "d", "n - d", (), "id")),
        ("cbind(n - d, d) ~ x", FormulaParts("I(n - d) ~ x", "n - d", "d")),
        ("y ~ x + offset(log(h)) + z", FormulaParts("y ~ x + z", None, None, ("log(h)",))),
        ("y ~ offset(h)", FormulaParts("y ~ 1", None, None, ("h",))),
        ("y ~ I(x - offset_time) - 1", FormulaParts("y ~ I(x - offset_time) - 1")),
    ],
)
def test_a_formula_is_taken_apart(text: str, parts: FormulaParts) -> None:
    found = FormulaParts.of(text)
    assert found.body.split() == parts.body.split()
    assert (found.successes, found.failures, found.offsets, found.group) == (
        parts.successes,
        parts.failures,
        parts.offsets,
        parts.group,
    )


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("cbind(d) ~ x", "two columns"),
        ("cbind(d, n, x) ~ x", "two columns"),
        ("y ~ x - offset(h)", "added"),
        ("y ~ x * offset(h)", "by itself"),
    ],
)
def test_other_pairs_and_offsets_are_refused(text: str, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        FormulaParts.of(text)


@pytest.mark.parametrize(
    ("text", "further", "whole"),
    [
        ("y ~ 1", "~ a + b", "y ~ 1 + a + b"),
        ("y ~ a | id", "~ a + log(b)", "y ~ a + log(b) | id"),
        ("y ~ I( x**2 ) | `my id`", "~ I(x**2)", "y ~ I( x**2 ) | `my id`"),
        ("y ~ a * b", "~ a", "y ~ a * b"),
    ],
)
def test_shared_terms_need_not_be_named_twice(text: str, further: str, whole: str) -> None:
    assert with_terms(text, further) == whole


def test_pairs_and_offsets_are_evaluated_and_kept_as_plain_data() -> None:
    formula = ModelFormula.read("cbind(d, n - d) ~ x + offset(log(h))", FRAME)
    again = ModelFormula.from_plain(formula.to_plain())
    for one in (formula, again):
        assert np.array_equal(one.target(FRAME), np.column_stack([FRAME.d, FRAME.n - FRAME.d]))
        assert one.offset(FRAME) == pytest.approx(np.log(FRAME.h))
        assert one.names == ("x",)
    assert set(ModelFormula.columns_of("cbind(d, n - d) ~ x + offset(log(h))", FRAME)) == {"d", "n", "x", "h"}


def test_an_offset_with_a_gap_is_no_number() -> None:
    formula = ModelFormula.read("d ~ x + offset(log(h))", FRAME)
    assert np.isnan(formula.offset(FRAME.assign(h=[1.0, np.nan, 2.0]))).tolist() == [False, True, False]


def test_a_formula_with_an_offset_is_the_fit_with_the_offset_given(tmp_path) -> None:
    generator = np.random.default_rng(3)
    frame = pd.DataFrame({"x": generator.normal(size=300), "h": generator.uniform(1, 9, size=300)})
    rate = np.exp(np.where(generator.random(300) < 0.4, -1 + frame.x, 1.5 - frame.x))
    frame["y"] = generator.poisson(frame.h * rate)
    by_formula = MixedLinearRegression(2, family="poisson", formula="y ~ x + offset(log(h))", random_state=0)
    by_formula.fit(frame)
    given = MixedLinearRegression(2, family="poisson", random_state=0)
    given.fit(frame[["x"]], frame.y, offset=np.log(frame.h))
    assert by_formula.log_likelihood_ == pytest.approx(given.log_likelihood_, abs=1e-6)
    predicted = given.predict(frame[["x"]], offset=np.log(frame.h))
    assert by_formula.predict(frame) == pytest.approx(predicted, rel=1e-4)
    by_formula.save(tmp_path / "model.json")
    loaded = MixedLinearRegression.load(tmp_path / "model.json")
    assert np.array_equal(loaded.predict(frame), by_formula.predict(frame))
    assert loaded.bic(frame) == pytest.approx(by_formula.bic(frame))
    gap = frame.assign(h=frame.h.where(frame.index != 5))
    by_formula.set_params(missing="drop").fit(gap)
    assert by_formula.dropped_ == 1
    assert np.isnan(by_formula.predict(gap)[5])


def test_files_read_block_by_block_refuse_pairs_and_offsets_in_one_line(tmp_path) -> None:
    path = tmp_path / "counts.csv"
    FRAME.to_csv(path, index=False)
    for formula in ("d ~ x + offset(log(h))", "cbind(d, n - d) ~ x"):
        result = CliRunner().invoke(app, ["fit", str(path), "--stream", "--formula", formula], prog_name="wmlr")
        assert result.exit_code == 2
        assert "for rows in memory" in result.output
