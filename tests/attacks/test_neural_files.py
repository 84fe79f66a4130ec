"""Files of trained networks that somebody changed: read right, or refused in one line, soon, and nothing is written."""

import copy
import json
import time
from io import BytesIO

import numpy as np
import pytest

pytest.importorskip("torch")

from wmlr.neural import NeuralMixedRegression
from wmlr.neural.checkpoint import MODEL, STATE, _read_file

ANYTHING = [None, True, -1, 0, 1.5, 10**12, "x", [], {}, [1, 2], float("nan"), {"array": [1], "dtype": "O"}]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    generator = np.random.default_rng(0)
    X = generator.standard_normal((60, 2))
    y = X[:, 0] + 0.1 * generator.standard_normal(60)
    path = tmp_path_factory.mktemp("neural") / "model.npz"
    small = {"width": 4, "depth": 1, "n_outputs": 3, "max_epochs": 2, "warmup_epochs": 1, "n_init": 1}
    model = NeuralMixedRegression(2, **small, random_state=0).fit(X, y, groups=np.repeat(np.arange(12), 5))
    model.save(path)
    return X, y, *_read_file(path, MODEL), small


def write(path, content, arrays):
    sink = BytesIO()
    np.savez(sink, json=np.frombuffer(json.dumps(content).encode(), dtype=np.uint8), **arrays)
    path.write_bytes(sink.getvalue())


def edits(content, arrays):
    """Every part of a file replaced by everything it cannot be, or taken away."""
    for place in (content, content["settings"]):
        for name in place:
            for value in ANYTHING:
                changed = copy.deepcopy(content)
                (changed if place is content else changed["settings"])[name] = value
                yield changed, arrays
    for name in content:
        yield {other: content[other] for other in content if other != name}, arrays
    for name, numbers in arrays.items():
        for value in (numbers[:-1], numbers * np.nan, numbers.astype(str), -numbers, np.array(1.0), numbers[None]):
            yield content, arrays | {name: value}
        yield content, {other: arrays[other] for other in arrays if other != name}


def test_files_of_networks_that_were_changed_are_read_right_or_refused_in_one_line(trained, tmp_path):
    """A depth of 10^12 was built, layer by layer; a deviation of nil divided by; a network as wide as memory made."""
    X, y, content, arrays, _ = trained
    path, right, refused, started = tmp_path / "edited.npz", 0, [], time.process_time()
    for changed, numbers in edits(content, arrays):
        write(path, changed, numbers)
        try:
            model = NeuralMixedRegression.load(path)
        except ValueError as error:
            refused.append(str(error))
            continue
        assert np.all(np.isfinite(model.predict(X)))
        assert np.all(np.isfinite(model.responsibilities(X, y)))
        right += 1
    assert right > 50
    assert len(refused) > 200
    assert not any("\n" in line for line in refused)
    assert time.process_time() - started < 60.0


def test_no_file_says_where_a_network_is_written_or_what_computes_it(trained, tmp_path):
    _, _, content, arrays, _ = trained
    changed = copy.deepcopy(content)
    changed["settings"] |= {"checkpoint": str(tmp_path / "overwritten"), "verbose": 9, "n_jobs": 999, "device": "cuda"}
    write(tmp_path / "model.npz", changed, arrays)
    model = NeuralMixedRegression.load(tmp_path / "model.npz")
    assert (model.checkpoint, model.verbose, model.n_jobs, model.device) == (None, 0, None, "cpu")


def test_a_training_under_way_that_was_changed_is_refused_in_one_line(trained, tmp_path):
    X, y, _, _, small = trained
    path = tmp_path / "state.npz"
    wanted = NeuralMixedRegression(2, **small, random_state=0, checkpoint=str(path))
    wanted.fit(X, y)
    content, arrays = _read_file(path, STATE)
    for changed, numbers in (
        (content | {"epoch": -1}, arrays),
        (content | {"history": 3}, arrays),
        (content | {"steps": "x"}, arrays),
        (content, arrays | {"theta": arrays["theta"][:-1]}),
        (content, arrays | {"best": arrays["best"] * np.nan}),
        (content, {name: arrays[name] for name in arrays if name != "gram"}),
    ):
        write(path, changed, numbers)
        with pytest.raises(ValueError, match=r"state\.npz is damaged: [^\n]+$"):
            wanted.fit(X, y)
