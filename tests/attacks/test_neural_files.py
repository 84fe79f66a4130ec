"""Files of trained networks that somebody changed: read right, or refused in one line, soon, and nothing is written."""

import copy
import json
import struct
import time
from io import BytesIO
from zipfile import ZipFile

import numpy as np
import pytest

pytest.importorskip("torch")

from wmlr.engines.npy_file import NpyFile
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
        (content, arrays | {"gram": np.eye(2)}),
        (content, arrays | {"gamma": np.ones((2, 1))}),
    ):
        write(path, changed, numbers)
        with pytest.raises(ValueError, match=r"state\.npz is damaged: [^\n]+$"):
            wanted.fit(X, y)


def npy(header, data=b""):
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def archive(**parts):
    sink = BytesIO()
    with ZipFile(sink, "w") as file:
        for name, data in parts.items():
            file.writestr(f"{name}.npy", data)
    return sink.getvalue()


def with_byte(data, places, value):
    """An archive with a byte of every header of its parts changed: (signature, place) says which."""
    changed = bytearray(data)
    for signature, place in places:
        at = -1
        while (at := changed.find(signature, at + 1)) >= 0:
            changed[at + place] = value
    return bytes(changed)


def repeated(count):
    """A part of a megabyte that the directory of an archive names ``count`` times."""
    once = archive(a=npy("{'descr': '<f8', 'fortran_order': False, 'shape': (125000,)}", bytes(1_000_000)))
    first, last = once.find(b"PK\x01\x02"), once.find(b"PK\x05\x06")
    listed, end = once[first:last] * count, bytearray(once[last:])
    struct.pack_into("<HHI", end, 8, count, count, len(listed))
    return once[:first] + listed + bytes(end)


METHODS = [(b"PK\x03\x04", 8), (b"PK\x01\x02", 10)]
FLAGS = [(b"PK\x03\x04", 6), (b"PK\x01\x02", 8)]
PLAIN = archive(json=npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}", b"{}"))
FORGED = {
    "a list": archive(json=npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}", b"[]")),
    "lists without end": archive(json=npy("{'descr': '|u1', 'fortran_order': False, 'shape': (50000,)}", b"[" * 50000)),
    "brackets without end": archive(json=npy("(" * 9000)),
    "signs without end": archive(json=npy("{'descr':'<f8','fortran_order':False,'shape':(" + "+".join(["1j"] * 2500))),
    "sums without end": archive(json=npy("+".join(["1j"] * 3000))),
    "more than memory": archive(json=npy("{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000000,)}")),
    "a pickle": archive(json=npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", b"cos\nsystem\n(S''\ntR.")),
    "under a password": with_byte(PLAIN, FLAGS, 1),
    "of an unknown method": with_byte(PLAIN, METHODS, 99),
    "no stream of its method": with_byte(PLAIN, METHODS, 12),
    "one part under thousands of names": repeated(20_000),
}


@pytest.mark.parametrize("what", FORGED)
def test_archives_that_are_none_or_unfold_are_one_line_soon(tmp_path, what):
    """A megabyte that was named 20,000 times was read as often; brackets, passwords and methods were tracebacks."""
    path, started = tmp_path / "model.npz", time.process_time()
    path.write_bytes(FORGED[what])
    with pytest.raises(ValueError, match=r"model\.npz is not a file of a neural mixture: [^\n]+$"):
        NeuralMixedRegression.load(path)
    assert time.process_time() - started < 2.0


def test_no_network_has_a_noise_of_nil_or_beyond_numbers(trained, tmp_path):
    """Its log is a finite number of the file, and its posteriors were none."""
    _, _, content, arrays, _ = trained
    for place, number in ((-3, 1e4), (-3, -1e4), (slice(None), 1e308)):
        theta = arrays["theta"].copy()
        theta[place] = number
        write(tmp_path / "model.npz", content, arrays | {"theta": theta})
        with pytest.raises(ValueError, match=r"is damaged: (sigma|coef) must be"):
            NeuralMixedRegression.load(tmp_path / "model.npz")


def test_headers_of_arrays_that_are_none_are_one_line(tmp_path):
    path = tmp_path / "x.npy"
    for data in (npy("(" * 9000), npy("+".join(["1j"] * 3000)), b"PK\x03\x04", npy("-" * 9000 + "1")):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"x\.npy cannot be read as \.npy: [^\n]+$"):
            NpyFile.of(path)
