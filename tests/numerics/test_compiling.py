"""Nobody waits for the compiler: NumPy answers until a process beside has compiled the loop."""

import json
import os
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


def ask(cache, kernels, executable=""):
    env = os.environ | {"NUMBA_CACHE_DIR": str(cache), "WMLR_KERNELS": kernels}
    program = f"import sys; sys.executable = {executable!r} or sys.executable\n{PROGRAM}"
    said = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, env=env)
    return json.loads(said.stdout)


def test_the_first_question_is_not_kept_waiting_and_later_ones_and_processes_have_the_loop(tmp_path):
    assert ask(tmp_path, "") == {"answered": False, "beside": 1, "then": GRAM}
    assert ask(tmp_path, "") == {"answered": True, "beside": 0, "then": GRAM}


@pytest.mark.parametrize(("kernels", "executable"), [("compiled", ""), ("", "/bin/false")])
def test_who_is_patient_or_whose_compiler_fails_compiles_by_himself(tmp_path, kernels, executable):
    said = ask(tmp_path, kernels, executable)
    at_once = said.pop("answered")  # a compiler that fails may have ended before it is looked at
    assert at_once or not kernels
    assert said == {"beside": int(not kernels), "then": GRAM}
