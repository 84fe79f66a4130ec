"""Model files edited by hand at random: each must load right, or be refused in one line.

Run as a program with a number of edits and a seed: ``python tests/attacks/hand_edits.py 2000``.
"""

from __future__ import annotations

import copy
import json
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from wmlr import MixedLinearRegression

MODELS = Path(__file__).parent.parent / "data" / "models"
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 10**6, 10**30, 1e308, -1e308, 1e-320, float("nan"), float("inf"), "", "x", "nan",
    "\x1b[31m", "a" * 20_000, [], [[]], {}, [None], {"a": 1}, [1, 2, 3], "C(x)", "I(x**2)", "<U99999999", -5, 0.5,
]  # fmt: skip


def saved_models(folder: Path) -> list[Path]:
    """The models that an earlier version wrote, and the same written by this one."""
    written = []
    for path in sorted(MODELS.glob("*.json")):
        if path.name != "expected.json":
            again = folder / path.name
            MixedLinearRegression.load(path).save(again)
            written += [path, again]
    return written


def fitted_models(folder: Path, rows: pd.DataFrame) -> list[Path]:
    """Models of what earlier versions had no words for: gates, other families, columns in roles, constraints."""
    frame = pd.concat([rows] * 10, ignore_index=True)
    generator = np.random.default_rng(0)
    frame[["x", "z"]] += 0.3 * generator.standard_normal((len(frame), 2))
    frame["y"] = np.where(generator.random(len(frame)) < 0.5, 1.0, -1.0) * frame.x + 0.1 * generator.standard_normal(
        len(frame)
    )
    counts = generator.poisson(np.exp(0.2 * frame.x.clip(-3, 3)))
    frame["s"], frame["t"] = counts.clip(max=5), 5 - counts.clip(max=5)
    X = frame[["x", "z"]]
    made = [
        MixedLinearRegression(2, gate="~ kind + z", formula="y ~ x + kind", random_state=0).fit(frame),
        MixedLinearRegression(2, gate=["z"], random_state=0).fit(X, frame.y),
        MixedLinearRegression(2, gate="group", random_state=0).fit(X, frame.y, groups=frame.who),
        MixedLinearRegression(2, family="binomial", formula="cbind(s, t) ~ x", random_state=0).fit(frame),
        MixedLinearRegression(1, family="poisson", random_state=0).fit(X, counts, offset=np.zeros(len(frame))),
        MixedLinearRegression(2, family=["poisson", "point-mass"], random_state=0).fit(
            X, counts * (np.arange(len(frame)) % 3 > 0)
        ),
        MixedLinearRegression(2, only={"z": [1]}, shared=["x"], random_state=0).fit(X, frame.y),
    ]
    paths = [folder / f"fitted_{number}.json" for number in range(len(made))]
    for model, path in zip(made, paths):
        model.save(path)
    return paths


def edited(content: Any, generator: np.random.Generator) -> Any:
    """The content with one to three things in it changed."""
    content = copy.deepcopy(content)
    for _ in range(int(generator.choice([1, 1, 1, 2, 3]))):
        places = list(_places(content))
        if not places:
            break
        holder, key = places[int(generator.integers(len(places)))]
        change = generator.integers(6)
        if change == 0:
            del holder[key]
        elif change == 1 and isinstance(holder, dict):
            holder[str(key) + "_"] = holder.pop(key)
        elif change == 2 and isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        elif change == 3 and isinstance(holder[key], (int, float)) and not isinstance(holder[key], bool):
            holder[key] = holder[key] * float(generator.choice([-1, 0, 2, 1e300, 1e-300])) + int(
                generator.integers(-3, 4)
            )
        elif change == 4:
            other, place = places[int(generator.integers(len(places)))]
            holder[key] = copy.deepcopy(other[place])
        else:
            holder[key] = copy.deepcopy(VALUES[int(generator.integers(len(VALUES)))])
    return content


def _places(content: Any) -> Any:
    """Every entry of a dictionary or a list inside, near the top as likely as in a long list far below."""
    items = list(content.items()) if isinstance(content, dict) else list(enumerate(content))
    for key, value in items:
        yield content, key
        if isinstance(value, (dict, list)):
            yield from _places(value) if len(value) < 40 else list(_places(value))[:: max(1, len(value) // 20)]


def outcome(path: Path, rows: pd.DataFrame) -> str:
    """What becomes of a model file: "refused" or "right"; anything else is a defect."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            warnings.simplefilter("ignore", UserWarning)
            model = MixedLinearRegression.load(path)
            formula = getattr(model, "formula_", None)
            X = rows if formula is not None else _columns(model, rows)
            y = None if formula is not None else rows["y"].to_numpy()
            y = y if y is None or model.fitted_.mixture.family.name == "normal" else np.floor(np.abs(y))
            roles = {role: np.ones(len(rows)) for role in model.fitted_.inputs.needed}
            found = [model.predict(X, **roles), model.predict_components(X, **roles)]
            found.append(model.responsibilities(X, y, **roles))
            str(model.summary())
            if not all(np.all(np.isfinite(one)) for one in found):
                return f"predicts {found}"
            if not np.allclose(found[2].sum(axis=1), 1):
                return "responsibilities that do not sum to one"
            return "right"
    except ValueError as error:
        line = str(error)
        return (
            "refused" if line and len(line) < 3000 and "Traceback" not in line else f"refused at length: {line[:300]}"
        )
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _columns(model: Any, rows: pd.DataFrame) -> Any:
    names = getattr(model, "feature_names_in_", None)
    numbers = rows[["x", "z", "my col"]].to_numpy()
    return numbers[:, : model.n_features_in_] if names is None else rows[["x", "z"]]


def edits(count: int, seed: int, folder: Path) -> Counter[str]:
    """How many edited files came to each outcome."""
    rows = pd.read_csv(MODELS / "rows.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        paths = [*saved_models(folder), *fitted_models(folder, rows)]
    rows["s"], rows["t"] = 2, 3
    contents = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    generator = np.random.default_rng(seed)
    found: Counter[str] = Counter()
    for turn in range(count):
        text = json.dumps(edited(contents[turn % len(contents)], generator))
        if generator.random() < 0.03:
            text = text[: int(generator.integers(len(text)))]
        path = folder / "edited.json"
        path.write_text(text, encoding="utf-8")
        result = outcome(path, rows)
        if result not in ("right", "refused"):
            path.rename(folder / f"defect-{turn}.json")
        found[result] += 1
    return found


if __name__ == "__main__":
    place = Path(tempfile.mkdtemp())
    results = edits(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0, place)
    for said, times in results.most_common():
        print(f"{times:6d}  {said[:200]}")
    bad = sum(times for said, times in results.items() if said not in ("right", "refused"))
    print(f"{bad} of {sum(results.values())} hand edits ended badly; files in {place}")
    sys.exit(bad > 0)
