"""One fit each beside R's flexmix and mixtools, on the same rows in the same run.

flexmix's gamma family has the inverse as link, with which its random starts end in errors of R's glm.fit, so that it
cannot be timed; it has no negative binomial, Student or Laplace family, and R's betamix (package betareg) is not in
Debian.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from wmlr.bench import Result, Watch
from wmlr.bench._measure import Limit
from wmlr.bench.families import TRIALS, K, problem
from wmlr.datasets import make_mixed_regression
from wmlr.estimator.regression import MixedLinearRegression
from wmlr.metrics import coefficient_error
from wmlr.numerics.arrays import Array
from wmlr.numerics.compiling import wait_until_compiled

REPEATS = 3
SAME = 1e-3
NEAR = 1.0

SCRIPT = """
arguments <- commandArgs(trailingOnly = TRUE)
folder <- arguments[1]; n <- as.integer(arguments[2]); d <- as.integer(arguments[3]); k <- as.integer(arguments[4])
peer <- arguments[5]; times <- as.integer(arguments[6]); family <- arguments[7]
X <- matrix(readBin(file.path(folder, "X.bin"), "double", n * d), n, d, byrow = TRUE)
y <- readBin(file.path(folder, "y.bin"), "double", n)
suppressPackageStartupMessages(library(peer, character.only = TRUE))
data <- data.frame(y = y, X)
for (turn in seq_len(times)) {
  set.seed(turn)
  before <- proc.time()
  if (peer == "flexmix") {
    model <- FLXMRglm(family = family)
    fit <- if (family == "binomial") flexmix(cbind(y, TRIALS - y) ~ ., data = data, k = k, model = model)
           else flexmix(y ~ ., data = data, k = k, model = model)
    value <- as.numeric(logLik(fit))
    coefficients <- parameters(fit)[seq_len(d + 1), , drop = FALSE]
  } else {
    invisible(capture.output(fit <- regmixEM(y, X, k = k, addintercept = TRUE, arbvar = TRUE, maxit = 1000)))
    value <- fit$loglik
    coefficients <- fit$beta
  }
  spent <- proc.time() - before
  used <- spent[["user.self"]] + spent[["sys.self"]]
  cat(turn, spent[["elapsed"]], used, format(value, digits = 15), as.vector(coefficients), "\\n")
}
"""


@dataclass(frozen=True)
class PeerCase:
    """The size of a problem, which of R's packages can be asked to fit it, and how much slower flexmix is to be.

    The components are of ``family``; R has names of its own for families.
    """

    n: int
    d: int
    k: int
    faster: float = 1.0
    peers: tuple[str, ...] = ("flexmix", "mixtools")
    snr: float = 5.0
    family: str = "normal"

    @property
    def name(self) -> str:
        """What it is called in a table."""
        called = "" if self.family == "normal" else f" {self.family}"
        return f"n={self.n:,} d={self.d} k={self.k}{called}"

    def problem(self) -> tuple[Array, Array, Array, dict[str, Array]]:
        """X, y, the coefficients that they were drawn with, and what else is known of each row."""
        if self.family == "normal":
            data = make_mixed_regression(self.n, self.d, self.k, snr=self.snr, random_state=1)
            return data.X, data.y, data.coef, {}
        truth, X, y, roles = problem(self.family, 1, self.n, self.d)
        return X, y, truth.coef, roles


@dataclass(frozen=True)
class PeerFit:
    """Seconds on the clock and of the processor, the fewest over repeats, and the best likelihood and error."""

    who: str
    seconds: float
    processor: float
    log_likelihood: float
    error: float


FLEXMIX = ("flexmix",)
IN_R = {"normal": "gaussian", "poisson": "poisson", "binomial": "binomial"}
CASES = (
    PeerCase(10_000, 16, 3, 10.0),
    PeerCase(100_000, 64, 2, 100.0, peers=FLEXMIX),
    *(PeerCase(n, 8, K, least, FLEXMIX, family=one) for one in IN_R for n, least in ((10_000, 5.0), (100_000, 20.0))),
)


def ours(case: PeerCase, X: Array, y: Array, coef: Array, roles: dict[str, Array]) -> PeerFit:
    """Our default fit, with a sigma per component where the family has one."""
    seconds, used = [], []
    fit = MixedLinearRegression(case.k, family=case.family, shared_sigma=False, random_state=0)
    for _ in range(1 + REPEATS):  # the first waits for the compiler
        begun, before = time.perf_counter(), time.process_time()
        fit.fit(X, y, **roles)
        seconds.append(time.perf_counter() - begun)
        used.append(time.process_time() - before)
        wait_until_compiled()
    return PeerFit("wmlr", min(seconds), min(used), fit.log_likelihood_, coefficient_error(fit.coef_, coef))


def theirs(peer: str, case: PeerCase, X: Array, y: Array, coef: Array) -> list[PeerFit]:
    """Fits by one of R's packages, one random start each."""
    with tempfile.TemporaryDirectory() as folder:
        X.tofile(Path(folder) / "X.bin")
        y.tofile(Path(folder) / "y.bin")
        script = Path(folder) / "fit.R"
        script.write_text(SCRIPT.replace("TRIALS", f"{TRIALS:g}"), encoding="utf-8")
        arguments = [folder, str(case.n), str(case.d), str(case.k), peer, str(REPEATS), IN_R[case.family]]
        ran = subprocess.run(["Rscript", str(script), *arguments], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise RuntimeError(
            f"R's {peer} did not run: {ran.stderr.strip().splitlines()[-1] if ran.stderr else 'no word'}"
        )
    outcomes = []
    for line in ran.stdout.splitlines():
        numbers = [float(word) for word in line.split()]
        found = np.array(numbers[4:]).reshape(-1, case.d + 1)[:, 1:]
        error = coefficient_error(found, coef) if len(found) == case.k else np.inf
        outcomes.append(PeerFit(peer, numbers[1], numbers[2], numbers[3], error))
    return outcomes


def limits(case: PeerCase, outcomes: list[PeerFit]) -> list[Limit]:
    """What our fit, the first, is to be beside R's: as likely as the best of them, and faster than flexmix's.

    Starts of flexmix that end below the maximum are no measure of time, and are left out of its median. Time is that on
    the clock, with all processors of a machine on which nothing else runs.
    """
    mine, others = outcomes[0], outcomes[1:]
    if not others:
        return []
    behind = max(other.log_likelihood for other in others) - mine.log_likelihood
    best = max(outcome.log_likelihood for outcome in outcomes)
    there = [other for other in others if other.who == "flexmix" and other.log_likelihood > best - NEAR]
    slow = float(np.median([other.seconds for other in there])) if there else np.inf
    return [
        Limit(f"{case.name}: nats behind the likeliest of R's", behind, most=SAME),
        Limit(f"{case.name}: flexmix, where it gets there, over wmlr", slow / mine.seconds, least=case.faster),
    ]


def run(watch: Watch, chosen: tuple[PeerCase, ...] = CASES) -> Result:
    """Fit every case with everything that is installed."""
    available = shutil.which("Rscript") is not None
    lines, numbers, bounds = [], [], []
    for case in chosen:
        X, y, coef, roles = case.problem()
        watch(f"wmlr, {case.name}")
        mine = ours(case, X, y, coef, roles)
        outcomes = [mine]
        for peer in case.peers if available else ():
            watch(f"{peer}, {case.name}")
            outcomes += theirs(peer, case, X, y, coef)
        bounds += limits(case, outcomes)
        for outcome in outcomes:
            ratio = outcome.seconds / mine.seconds
            lines.append(
                (
                    case.name,
                    outcome.who,
                    f"{outcome.seconds:.3f}",
                    f"{outcome.processor:.3f}",
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
        columns=("problem", "who", "seconds", "of the processor", "times wmlr", "log-likelihood", "error"),
        rows=(
            *lines,
            *((bound.name, bound.verdict, "", "", f"{bound.value:.4g}", bound.bound, "") for bound in bounds),
        ),
        numbers={"fits": numbers, "R": available, "limits": [bound.plain() for bound in bounds]},
    )
