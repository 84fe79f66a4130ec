"""R's flexmix and mixtools on the same rows, all seeds in one process."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from wmlr.bench.search.contestants import Data, Ended
from wmlr.model.mixture import Mixture

PEERS = ("flexmix, 1 random", "flexmix, 10 random", "mixtools")
PATIENCE = 1800.0

SCRIPT = """
arguments <- commandArgs(trailingOnly = TRUE)
folder <- arguments[1]; n <- as.integer(arguments[2]); d <- as.integer(arguments[3]); k <- as.integer(arguments[4])
shared <- arguments[5] == "1"; peer <- arguments[6]; starts <- as.integer(arguments[7])
seeds <- as.integer(strsplit(arguments[8], ",")[[1]])
X <- matrix(readBin(file.path(folder, "X.bin"), "double", n * d), n, d, byrow = TRUE)
y <- readBin(file.path(folder, "y.bin"), "double", n)
suppressPackageStartupMessages(library(peer, character.only = TRUE))
data <- data.frame(y = y, X)
lines <- reformulate(setdiff(names(data), "y"), "y")
by_flexmix <- function(least) {
  model <- if (shared) FLXMRglmfix(family = "gaussian", varFix = TRUE) else FLXMRglm(family = "gaussian")
  fit <- initFlexmix(lines, data = data, k = k, nrep = starts, model = model, verbose = FALSE,
                     control = list(minprior = least, iter.max = 1000))
  theta <- parameters(fit)
  list(coefficients = theta[seq_len(d + 1), , drop = FALSE], sigma = rep_len(theta[d + 2, ], ncol(theta)),
       weights = prior(fit), iterations = fit@iter)
}
by_mixtools <- function() {
  invisible(capture.output(fit <- regmixEM(y, X, k = k, addintercept = TRUE, arbvar = !shared, maxit = 1000)))
  list(coefficients = fit$beta, sigma = rep_len(fit$sigma, k), weights = fit$lambda,
       iterations = length(fit$all.loglik))
}
for (seed in seeds) {
  set.seed(seed + 1)
  before <- proc.time()
  fit <- tryCatch(
    if (peer == "mixtools") by_mixtools() else tryCatch(by_flexmix(0), error = function(e) by_flexmix(0.05)),
    error = function(e) conditionMessage(e))
  spent <- sum((proc.time() - before)[1:2])
  if (is.character(fit)) {
    cat("FAILED", seed, spent, gsub("[\\r\\n]+", " ", fit), "\\n")
  } else {
    numbers <- c(fit$weights, fit$sigma, as.vector(fit$coefficients))
    cat("FITTED", seed, spent, fit$iterations, length(fit$weights), format(numbers, digits = 17), "\\n")
  }
}
"""


@cache
def available(package: str) -> bool:
    """Whether R is here and has the package."""
    if shutil.which("Rscript") is None:
        return False
    asked = ["Rscript", "-e", f"library({package})"]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


def present() -> tuple[str, ...]:
    """The peers that can run here."""
    return tuple(peer for peer in PEERS if available(peer.split(",")[0]))


def fits(peer: str, data: Data, seeds: list[int], patience: float = PATIENCE) -> dict[int, Ended]:
    """Fits by one of R's packages, by seed; what was not done within ``patience`` seconds has failed."""
    package, starts = peer.split(",")[0], "10" if "10" in peer else "1"
    n, d = data.X.shape
    with tempfile.TemporaryDirectory() as folder:
        np.ascontiguousarray(data.X).tofile(Path(folder) / "X.bin")
        data.y.tofile(Path(folder) / "y.bin")
        script = Path(folder) / "fit.R"
        script.write_text(SCRIPT, encoding="utf-8")
        settings = [str(n), str(d), str(data.k), str(int(data.shared_sigma)), package, starts]
        command = ["Rscript", str(script), folder, *settings, ",".join(map(str, seeds))]
        try:
            said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=patience).stdout
        except subprocess.TimeoutExpired as late:
            said = late.stdout.decode() if isinstance(late.stdout, bytes) else late.stdout or ""
    ended = {seed: Ended(None, patience, np.nan, "no answer") for seed in seeds}
    return ended | dict(_parse(line.split(), d) for line in said.splitlines() if line.startswith(("FAILED", "FITTED")))


def _parse(words: list[str], d: int) -> tuple[int, Ended]:
    seed, seconds = int(words[1]), float(words[2])
    if words[0] == "FAILED":
        return seed, Ended(None, seconds, np.nan, " ".join(words[3:]))
    k = int(words[4])
    numbers = np.array([float(word) for word in words[5:]])
    if not np.all(np.isfinite(numbers)):
        return seed, Ended(None, seconds, float(words[3]), "parameters that are no numbers")
    weights, sigma, lines = numbers[:k], numbers[k : 2 * k], numbers[2 * k :].reshape(k, d + 1)
    mixture = Mixture(lines[:, 1:], lines[:, 0], weights / weights.sum(), np.maximum(sigma, 1e-300))
    return seed, Ended(mixture, seconds, float(words[3]))
