"""One fit each beside R's flexmix and mixtools, on the same rows in the same run."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from wmlr.bench import Result, Watch
from wmlr.datasets import make_mixed_regression
from wmlr.estimator import MixedLinearRegression
from wmlr.metrics import coefficient_error
from wmlr.round import Array

REPEATS = 3

SCRIPT = """
arguments <- commandArgs(trailingOnly = TRUE)
folder <- arguments[1]; n <- as.integer(arguments[2]); d <- as.integer(arguments[3]); k <- as.integer(arguments[4])
peer <- arguments[5]; times <- as.integer(arguments[6])
X <- matrix(readBin(file.path(folder, "X.bin"), "double", n * d), n, d, byrow = TRUE)
y <- readBin(file.path(folder, "y.bin"), "double", n)
suppressPackageStartupMessages(library(peer, character.only = TRUE))
data <- data.frame(y = y, X)
for (turn in seq_len(times)) {
  set.seed(turn)
  before <- proc.time()[["elapsed"]]
  if (peer == "flexmix") {
    fit <- flexmix(y ~ ., data = data, k = k)
    value <- as.numeric(logLik(fit))
    coefficients <- parameters(fit)[seq_len(d + 1), , drop = FALSE]
  } else {
    invisible(capture.output(fit <- regmixEM(y, X, k = k, addintercept = TRUE, arbvar = TRUE, maxit = 1000)))
    value <- fit$loglik
    coefficients <- fit$beta
  }
  seconds <- proc.time()[["elapsed"]] - before
  cat(turn, seconds, format(value, digits = 15), as.vector(coefficients), "\\n")
}
"""


@dataclass(frozen=True)
class Case:
    """The size of a problem, and which of R's packages can be asked to fit it."""

    n: int
    d: int
    k: int
    peers: tuple[str, ...] = ("flexmix", "mixtools")
    snr: float = 5.0


@dataclass(frozen=True)
class Outcome:
    """The fastest seconds, and the best likelihood and error over repeats."""

    who: str
    seconds: float
    log_likelihood: float
    error: float


CASES = (Case(10_000, 16, 3), Case(100_000, 64, 2, peers=("flexmix",)))


def ours(case: Case, X: Array, y: Array, coef: Array, shared_sigma: bool) -> Outcome:
    """Our fit with one start, one sigma or one per component."""
    seconds, fit = [], MixedLinearRegression(case.k, shared_sigma=shared_sigma, random_state=0)
    for _ in range(REPEATS):
        begun = time.perf_counter()
        fit.fit(X, y)
        seconds.append(time.perf_counter() - begun)
    return Outcome("wmlr", min(seconds), fit.log_likelihood_, coefficient_error(fit.coef_, coef))


def theirs(peer: str, case: Case, X: Array, y: Array, coef: Array) -> list[Outcome]:
    """Fits by one of R's packages, one random start each."""
    with tempfile.TemporaryDirectory() as folder:
        X.tofile(Path(folder) / "X.bin")
        y.tofile(Path(folder) / "y.bin")
        script = Path(folder) / "fit.R"
        script.write_text(SCRIPT, encoding="utf-8")
        arguments = [folder, str(case.n), str(case.d), str(case.k), peer, str(REPEATS)]
        ran = subprocess.run(["Rscript", str(script), *arguments], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise RuntimeError(
            f"R's {peer} did not run: {ran.stderr.strip().splitlines()[-1] if ran.stderr else 'no word'}"
        )
    outcomes = []
    for line in ran.stdout.splitlines():
        numbers = [float(word) for word in line.split()]
        found = np.array(numbers[3:]).reshape(-1, case.d + 1)[:, 1:]
        error = coefficient_error(found, coef) if len(found) == case.k else np.inf
        outcomes.append(Outcome(peer, numbers[1], numbers[2], error))
    return outcomes


def run(watch: Watch, chosen: tuple[Case, ...] = CASES) -> Result:
    """Fit every case with everything that is installed."""
    available = shutil.which("Rscript") is not None
    lines, numbers = [], []
    for case in chosen:
        data = make_mixed_regression(case.n, case.d, case.k, snr=case.snr, random_state=1)
        watch(f"wmlr, n={case.n:,}, d={case.d}, k={case.k}")
        mine = ours(case, data.X, data.y, data.coef, shared_sigma=False)
        outcomes = [mine]
        for peer in case.peers if available else ():
            watch(f"{peer}, n={case.n:,}, d={case.d}, k={case.k}")
            outcomes += theirs(peer, case, data.X, data.y, data.coef)
        for outcome in outcomes:
            ratio = outcome.seconds / mine.seconds
            lines.append(
                (
                    f"n={case.n:,} d={case.d} k={case.k}",
                    outcome.who,
                    f"{outcome.seconds:.3f}",
                    f"{ratio:.1f}",
                    f"{outcome.log_likelihood:.2f}",
                    f"{outcome.error:.4f}",
                )
            )
            numbers.append(asdict(case) | asdict(outcome) | {"ratio": ratio})
    missing = (
        "" if available else " (R is not installed: its packages r-cran-flexmix and r-cran-mixtools were left out)"
    )
    return Result(
        suite="peers",
        title=f"One start each, a sigma per component, fastest of {REPEATS} for wmlr, every run for R{missing}",
        columns=("problem", "who", "seconds", "times wmlr", "log-likelihood", "error"),
        rows=tuple(lines),
        numbers={"fits": numbers, "R": available},
    )
