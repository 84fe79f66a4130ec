"""Messages changed at random: each is read as what it says, or refused in one line.

Run as a program with a number of messages and a seed: ``python tests/attacks/random_messages.py 5000``. Where atheris
is there, as many more messages and model files are changed by what that reaches in the readers.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from flwr.common.serde import recorddict_to_proto
from flwr.proto.message_pb2 import Message, Metadata

from wmlr import MixedLinearRegression
from wmlr.core.round import Sampled, Together
from wmlr.estimator import model_file, storage
from wmlr.federated import checks, wire
from wmlr.federated import messages as federated_messages
from wmlr.federated.checks import check_query
from wmlr.federated.messages import MessageError, pack, pack_sums, unpack, unpack_sums
from wmlr.federated.privacy import protocol
from wmlr.federated.privacy.agent import SecureAgent
from wmlr.federated.privacy.protocol import Keys, Letter, Letters, Masked, Revealed, pack_message, unpack_message
from wmlr.flower import letterboxes, terms
from wmlr.flower.messages import pack as pack_record
from wmlr.flower.terms import RunTerms
from wmlr.statistics.moments import Moments
from wmlr.statistics.score import MixtureScore
from wmlr.statistics.symmetric_score import SymmetricScore

Reader = Callable[[bytes], Any]
MODELS = Path(__file__).parent.parent / "data" / "models"


def _query(data: bytes) -> Any:
    query = unpack(data)
    check_query(query, 3)
    return pack(query)


def _terms(data: bytes) -> Any:
    return RunTerms.of(data.decode("utf-8", errors="replace")).to_text()


def _letter() -> bytes:
    content = recorddict_to_proto(pack_record({"first": 3, "entries": [b"a", b"b"], "label": "Moments", "mark": [0.5]}))
    return bytes(Message(metadata=Metadata(run_id=1, message_id="a" * 32), content=content).SerializeToString())


def messages() -> list[tuple[Reader, bytes]]:
    """Honest messages, and who reads each."""
    score = MixtureScore(np.ones((4, 2)), np.log([0.5, 0.5]), np.ones(2), True)
    symmetric = SymmetricScore(np.arange(3.0), 1.5)
    sums = {"weight": np.array(5.0), "gram": np.eye(3), "xy": np.ones(3)}
    return [
        (_query, pack(Moments(intercept=True, fourth=True))),
        (_query, pack(score)),
        (_query, pack(Together((symmetric, Sampled(Moments(), 0.5, 3))))),
        (lambda data: pack_sums(unpack_sums(data)), pack_sums(sums)),
        (lambda data: pack_message(unpack_message(data, Keys)), SecureAgent.begin(3)[1]),
        (
            lambda data: pack_message(unpack_message(data, Letters)),
            pack_message(Letters((Letter(1, 2, b"sealed" * 9),))),
        ),
        (
            lambda data: pack_message(unpack_message(data, Masked)),
            pack_message(Masked(np.arange(5, dtype=np.uint64), (2,))),
        ),
        (
            lambda data: pack_message(unpack_message(data, Revealed)),
            pack_message(Revealed({"1": b"a" * 66}, {"2": b"b" * 66})),
        ),
        (lambda data: SecureAgent.from_bytes(data).to_bytes(), SecureAgent.begin(1)[0].to_bytes()),
        (_terms, RunTerms().to_text().encode()),
        (lambda data: letterboxes.message_bytes(letterboxes.read_message(data)), _letter()),
    ]


def outcome(read: Reader, data: bytes) -> str:
    """What becomes of a message: "read" or "refused"; anything else is a defect."""
    try:
        read(data)
        return "read"
    except (MessageError, ValueError) as error:
        line = str(error)
        return "refused" if line and len(line) < 3000 else f"refused at length: {line[:300]}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def changed(data: bytes, generator: np.random.Generator) -> bytes:
    """The message with something in it changed."""
    found = bytearray(data)
    for _ in range(int(generator.choice([1, 1, 2, 5]))):
        place, change = int(generator.integers(len(found) + 1)), generator.integers(6)
        if change == 0 and place < len(found):
            found[place] = int(generator.integers(256))
        elif change == 1:
            del found[place : place + int(generator.integers(1, 20))]
        elif change == 2:
            found[place:place] = bytes(generator.integers(256, size=int(generator.integers(1, 20)), dtype=np.uint8))
        elif change == 3:
            found[place:place] = generator.choice(WORDS).encode()
        elif change == 4:
            found = found[:place]
        else:
            first = int(generator.integers(len(found) + 1))
            found[place:place] = found[first : first + 30]
    return bytes(found)


WORDS = [
    "NaN",
    "1e999",
    "-1",
    "null",
    "[",
    "{",
    '"kind"',
    '"array"',
    "999999999999",
    "true",
    '"\\ud800"',
    "\x00",
    "<f8",
]


def trials(count: int, seed: int) -> Counter[str]:
    """How many changed messages came to each outcome."""
    honest, generator, found = messages(), np.random.default_rng(seed), Counter[str]()
    for turn in range(count):
        read, data = honest[turn % len(honest)]
        found[outcome(read, changed(data, generator))] += 1
    return found


def _model(data: bytes) -> Any:
    """A model file, from reading to saving."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.json")
        path.write_bytes(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            MixedLinearRegression.load(path).save(path)


def _guided(count: int, seed: int, corpus: Path) -> None:
    """Let atheris change honest messages and model files; it ends the process, with a trace where one ended badly."""
    import atheris

    for module in (wire, federated_messages, checks, protocol, terms, letterboxes, model_file, storage):
        for function in _functions(module):
            atheris.instrument_func(function)
    models = [path.read_bytes() for path in sorted(MODELS.glob("*.json")) if path.name != "expected.json"]
    honest = [*messages(), *((_model, data) for data in models)]
    for number, (_, example) in enumerate(honest):
        (corpus / str(number)).write_bytes(bytes([number]) + example)

    def one(data: bytes) -> None:
        read = honest[data[0] % len(honest)][0] if data else honest[0][0]
        said = outcome(read, data[1:])
        if said not in ("read", "refused"):
            raise RuntimeError(said)

    atheris.Setup([sys.argv[0], f"-runs={count}", f"-seed={seed + 1}", "-max_len=16384", str(corpus)], one)
    atheris.Fuzz()


def _functions(module: ModuleType) -> Iterator[FunctionType]:
    """The functions and methods that a module defines."""
    for found in vars(module).values():
        inside = vars(found).values() if isinstance(found, type) and found.__module__ == module.__name__ else [found]
        for one in inside:
            if isinstance(one, FunctionType) and one.__module__ == module.__name__:
                yield one


def main() -> None:
    """Change messages, and say what came of it."""
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    if len(sys.argv) > 3:
        _guided(count, seed, Path(sys.argv[3]))
    found = trials(count, seed)
    for said, times in found.most_common():
        print(f"{times:6d}  {said[:300]}")
    bad = sum(times for said, times in found.items() if said not in ("read", "refused"))
    print(f"{bad} of {found.total()} changed messages ended badly", flush=True)
    if bad:
        sys.exit(1)
    if importlib.util.find_spec("atheris") is not None:
        with tempfile.TemporaryDirectory() as corpus:
            ran = subprocess.run([sys.executable, __file__, str(count), str(seed), corpus], cwd=corpus, check=False)
        sys.exit(ran.returncode)


if __name__ == "__main__":
    main()
