"""Nobody waits for the compiler: NumPy answers until a process beside has compiled the loop."""

import json
import os
import signal
import subprocess
import sys

import pytest

PROGRAM = """
import json
import numpy as np
from scipy import sparse
from wmlr.numerics import compiling
from wmlr.numerics.compiled import sparse_gram
from wmlr.numerics.sparse import Csr

X = Csr.of(sparse.csr_array(np.eye(4)[np.arange(800_000) % 4]))
first = sparse_gram(X, None)
beside = len(compiling._compiling)
compiling.wait_until_compiled()
then = sparse_gram(X, None)
print(json.dumps({"answered": first is not None, "beside": beside, "then": then.tolist()}))
"""
GRAM = [[200_000.0 * (i == j) for j in range(4)] for i in range(4)]


COUNT = "from wmlr.numerics import loops; print(loops.sparse_gram.stats.cache_misses.total())"
INTERRUPT = """
import signal
from numba.core.codegen import JITCodeLibrary

compiled = JITCodeLibrary._object_compiled_hook

def compiled_while_somebody_presses_ctrl_c(module, buffer):
    compiled(module, buffer)
    signal.raise_signal(signal.SIGINT)

JITCodeLibrary._object_compiled_hook = compiled_while_somebody_presses_ctrl_c
"""


def start(cache, kernels, program):
    env = os.environ | {"NUMBA_CACHE_DIR": str(cache), "WMLR_KERNELS": kernels}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", program], text=True, env=env, **pipes)


def ask(cache, kernels, executable=""):
    program = f"import sys; sys.executable = {executable!r} or sys.executable\n{PROGRAM}"
    said, complaint = start(cache, kernels, program).communicate()
    assert said, complaint
    return json.loads(said)


def test_the_first_question_is_not_kept_waiting_and_later_ones_and_processes_have_the_loop(tmp_path):
    assert ask(tmp_path, "") == {"answered": False, "beside": 1, "then": GRAM}
    assert ask(tmp_path, "") == {"answered": True, "beside": 0, "then": GRAM}


WAIT = """
import numpy as np
from scipy import sparse
from wmlr.numerics import compiling, loops
from wmlr.numerics.compiled import writable_parts
from wmlr.numerics.sparse import Csr

square = np.zeros((4, 4))
given = writable_parts(Csr.of(sparse.csr_array(np.eye(4)))), np.ones(4), square
answered = [compiling.call(loops.sparse_gram, *given, wait=wait) for wait in WAITS]
print(answered, len(compiling._compiling), square.trace())
"""


@pytest.mark.parametrize(("waits", "said"), [([True], "[True] 0 4.0"), ([False, True], "[False, True] 1 4.0")])
def test_who_waits_for_a_loop_has_its_answer_at_the_first_question(tmp_path, waits, said):
    program = start(tmp_path, "", f"WAITS = {waits}\n{WAIT}")
    assert program.communicate()[0].strip() == said


@pytest.mark.parametrize(("kernels", "executable"), [("compiled", ""), ("", "/bin/false")])
def test_who_is_patient_or_whose_compiler_fails_compiles_by_himself(tmp_path, kernels, executable):
    said = ask(tmp_path, kernels, executable)
    at_once = said.pop("answered")  # a compiler that fails may have ended before it is looked at
    assert at_once or not kernels
    assert said == {"beside": int(not kernels), "then": GRAM}


def test_of_processes_that_want_a_loop_at_once_one_compiles_it(tmp_path):
    both = [start(tmp_path, "compiled", PROGRAM + COUNT) for _ in range(2)]
    assert sorted(int(one.communicate()[0].splitlines()[-1]) for one in both) == [0, 1]


def test_ctrl_c_while_a_loop_is_compiled_is_not_lost(tmp_path):
    """What is raised in a callback of the compiler is printed and forgotten."""
    process = start(tmp_path, "compiled", INTERRUPT + PROGRAM)
    said, complaint = process.communicate()
    assert process.returncode == -signal.SIGINT, complaint
    assert said == ""
    assert complaint.endswith("KeyboardInterrupt\n")
