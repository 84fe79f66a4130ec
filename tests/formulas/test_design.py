"""Designs kept as plain data: the columns that formulaic gives, on rows the fit has not seen, without its help."""

import json

import msgspec
import numpy as np
import pandas as pd
import pytest

from wmlr.formulas.design import Design
from wmlr.formulas.formula import ModelFormula
from wmlr.formulas.parsing import refuse_other_text

KEPT = [
    "y ~ (x + z)**2", "y ~ x * z - x", "y ~ -1 + x", "y ~ x / kind", "y ~ kind %in% x", "y ~ . - p - n",
    "y ~ `my col` + I(`my col` * 2)", "y ~ Q('my col')", "y ~ kind + k2 + flag + C(f)", "y ~ C(n):C(kind)",
    "y ~ 0 + C(n):C(kind)", "y ~ C(kind, Treatment('top'))", "y ~ C(kind, contr.treatment(base='mid'))",
    "y ~ C(kind, levels=['top', 'low', 'mid'])", "y ~ C(kind, contr.sum) * x", "y ~ C(kind, contr.helmert)",
    "y ~ C(kind, contr.poly)", "y ~ C(n, contr.diff)", "y ~ I(-x) + I(1 / x) + I((x > 1) * z)", "y ~ np.log(x):kind",
    "y ~ scale(np.log(x)) + center(z):C(n)", "y ~ scale(x, center=False) + standardize(z)", "y ~ poly(center(x), 3)",
    "y ~ poly(x, 3, raw=True)", "y ~ bs(x, df=5, extrapolation='extend')",
    "y ~ bs(x, 6, degree=2, extrapolation='clip')",
    "y ~ 0 + bs(x, df=5, include_intercept=True, extrapolation='zero')",
    "y ~ bs(x, knots=[1, 2], extrapolation='extend')",
    "y ~ cr(x, df=5)", "y ~ cs(x, df=4, constraints='center')", "y ~ cc(x, df=4)",
    "y ~ cr(x, df=4, extrapolation='zero')",
    "center(np.log(p)) ~ x | n", "p**2 ~ x", "np.sqrt(p) ~ np.maximum(x, z) + np.arctan2(x, z)",
]  # fmt: skip


def table(seed: int, n: int, low: float, high: float) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    x = generator.uniform(low, high, n)
    return pd.DataFrame(
        {
            "x": x,
            "z": generator.normal(size=n),
            "kind": generator.choice(["low", "mid", "top"], n),
            "k2": pd.Categorical(generator.choice(["b", "a"], n), categories=["b", "a"]),
            "n": generator.integers(3, size=n),
            "f": generator.integers(3, size=n) * 0.5,
            "flag": generator.random(n) < 0.5,
            "my col": generator.normal(size=n),
            "y": 2 * x + generator.normal(size=n),
            "p": np.exp(x),
        }
    )


@pytest.mark.parametrize("text", KEPT)
def test_a_design_read_back_gives_formulaics_columns_on_new_rows(text):
    seen, new = table(0, 300, 0.3, 3.0), table(1, 40, 0.1, 3.6)
    formula = ModelFormula.read(text, seen)
    again = ModelFormula.from_plain(json.loads(json.dumps(formula.to_plain())))
    assert again == formula
    assert again.typed is None
    np.testing.assert_allclose(again.design(new), formula.typed.design(new), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(again.target(new), formula.typed.target(new), rtol=1e-12)
    assert list(again.design(new).columns) == list(formula.typed.design(new).columns)


@pytest.mark.parametrize("text", ["y ~ hashed(kind, levels=3)", "y ~ np.where(x > 1, x, 0)", "y ~ {x + 1}", "y ~ 2:x"])
def test_what_has_no_words_is_still_fitted_as_typed(text):
    seen = table(0, 300, 0.3, 3.0)
    formula = ModelFormula.read(text, seen)
    np.testing.assert_array_equal(formula.design(seen), formula.typed.design(seen))
    with pytest.raises(ValueError, match="can be fitted but cannot be saved"):
        formula.to_plain()


def test_a_spline_says_between_which_values_it_is_known():
    seen = table(0, 300, 0.3, 3.0)
    formula = ModelFormula.read("y ~ bs(x, df=5)", seen)
    again = ModelFormula.from_plain(formula.to_plain())
    with pytest.raises(ValueError, match=r"known between 0\.3\d* and 2\.9\d* \(got 9\): .*extrapolation='clip'"):
        again.design(seen.assign(x=9.0))


def test_text_where_numbers_are_wanted_is_said():
    seen = table(0, 300, 0.3, 3.0)
    formula = ModelFormula.from_plain(ModelFormula.read("y ~ x", seen).to_plain())
    with pytest.raises(ValueError, match=r"column 'x' holds no numbers: the formula needs numbers there, or C\(x\)"):
        formula.design(seen.assign(x="a"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d["products"][0].append([7, 0]), "column 0 of factor 7, which is not there"),
        (lambda d: d["products"][0].__setitem__(0, [0, 5]), "column 5 of factor 0, which is not there"),
        (lambda d: d["factors"][1]["kept"].append(99), "level 99 of 3"),
        (lambda d: d["factors"][1]["levels"].__setitem__(0, "mid"), "the same level twice"),
        (lambda d: d["factors"][2]["knots"].__setitem__(0, 99.0), "not in their order"),
        (lambda d: d["factors"][2].update(degree=9), "spline of degree 9"),
    ],
)
def test_a_design_whose_parts_do_not_fit_is_refused(change, said):
    plain = msgspec.to_builtins(ModelFormula.read("y ~ x + kind + bs(z, df=4)", table(0, 300, 0.3, 3.0)).right)
    change(plain)
    with pytest.raises(ValueError, match=said):
        msgspec.convert(plain, Design).refuse_damaged()


@pytest.mark.parametrize("text", [*KEPT, "y ~ x | `my id`", "log(y) ~ 0 + x", "y ~ x^2"])
def test_formulas_as_people_write_them_are_in_the_grammar(text):
    refuse_other_text(text)


@pytest.mark.parametrize(
    "text",
    ["", "y ~ x(z)", "y ~ x x", "y ~ 'a'", "y ~ I('a' * 3)", "y ~ I(x)(z)", "y ~ I(x", "y ~ x)", "y ~ x.__a__",
     "y ~ I(x; z)",
     "y ~ I(lambda: x)", "y ~ np.random.normal(x)", "y ~ contr.eval(x)", "y ~ I(x ** ** z)", "y ~ \\x"],
)  # fmt: skip
def test_other_texts_are_not(text):
    with pytest.raises(ValueError, match="may not hold"):
        refuse_other_text(text)
