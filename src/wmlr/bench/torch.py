"""A hundred iterations with the exact expectation beside a hundred by automatic differentiation in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from wmlr.bench import Result, Watch
from wmlr.bench._measure import Limit, time_in_turn
from wmlr.datasets import MixedRegression, make_mixed_regression
from wmlr.engines.arrays import default_threads
from wmlr.estimator.regression import MixedLinearRegression
from wmlr.io.table import import_extra
from wmlr.methods import GDA
from wmlr.metrics import coefficient_error
from wmlr.numerics.arrays import Array

ITERATIONS = 100
TIMES = 2
LAM = 0.5
ASCENT, DESCENT = 1.0, 0.1


@dataclass(frozen=True)
class TorchLine:
    """Who took how many seconds, and the error that was left."""

    who: str
    dtype: str
    seconds: float
    error: float


class TorchDrawn:
    """WMLR as the paper's authors wrote it: a drawn response per row, gradients by automatic differentiation.

    Steps are taken in place, and the component's label is left out, because psi is even. As it stands in
    the paper, each of beta, gamma1 and gamma2 (the rows of P) is multiplied with X by itself; ``together`` makes
    that one product in the form that PyTorch differentiates fastest.
    """

    def __init__(self, torch: Any, X: Any, y: Array, reference: Array, together: bool, compiled: bool) -> None:
        self.torch, self.together = torch, together
        self.X, self.y = torch.from_numpy(X), torch.from_numpy(y.astype(X.dtype))[:, None]
        self.noise = torch.from_numpy(np.random.default_rng(0).standard_normal(len(y)).astype(X.dtype))[:, None]
        self.start = torch.from_numpy(np.stack([reference] * 3).astype(X.dtype))
        self.reference = self.start[1:].clone()
        self.rates = torch.tensor([[-DESCENT], [ASCENT], [ASCENT]], dtype=self.X.dtype)
        self.value: Callable[[Any], Any] = torch.compile(self._value) if compiled else self._value

    def _log_cosh(self, z: Any) -> Any:
        size = z.abs()
        return size + self.torch.nn.functional.softplus(-2.0 * size)

    def _value(self, P: Any) -> Any:
        if self.together:
            U = self.torch.nn.functional.linear(self.X, P)
        else:
            U = self.torch.stack([self.X @ P[0], self.X @ P[1], self.X @ P[2]], dim=1)
        u, v = U[:, :1], U[:, 1:]
        halves = (self._log_cosh(self.y * v) - self._log_cosh((u + self.noise) * v)).mean(0)
        return halves[0] - halves[1] - 0.5 * LAM * ((P[1:] - self.reference) ** 2).sum()

    def run(self, iterations: int) -> Array:
        """The coefficients after so many iterations from the start."""
        P = self.start.clone().requires_grad_(True)
        for _ in range(iterations):
            self.value(P).backward()
            with self.torch.no_grad():
                P.addcmul_(P.grad, self.rates)
                P.grad.zero_()
        return np.asarray(P.detach().numpy()[0], dtype=np.float64)


def compiles(torch: Any) -> bool:
    """Whether torch.compile works here: it wants a C++ compiler."""
    try:
        torch.compile(lambda x: (x * 2).sum())(torch.ones(4))
    except Exception:
        return False
    return True


def contestants(torch: Any, data: MixedRegression, kind: str, iterations: int) -> dict[str, Callable[[], Array]]:
    """Everybody who fits rows of a type, by name; each gives its coefficients."""
    X: Any = np.asarray(data.X, dtype=kind)
    exact = {"solver": GDA(regularizer="halved", coordinates="raw"), "max_iter": iterations, "tol": 0.0}

    def ours(settings: dict[str, Any]) -> Callable[[], Array]:
        fit = MixedLinearRegression(symmetric=True, random_state=0, n_jobs=default_threads(), **settings)
        return lambda: np.asarray(fit.fit(X, data.y).coef_[0])

    def theirs(together: bool, compiled: bool) -> Callable[[], Array]:
        drawn = TorchDrawn(torch, X, data.y, _top(data), together, compiled)
        return lambda: drawn.run(iterations)

    found = {"wmlr, default fit": ours({}), "wmlr, GDA, exact": ours(exact)}
    found |= {"PyTorch, a product per vector": theirs(False, False), "PyTorch, one product": theirs(True, False)}
    return found | ({"PyTorch, one product, compiled": theirs(True, True)} if compiles(torch) else {})


def run(
    watch: Watch, n_samples: int = 100_000, n_features: int = 128, iterations: int = ITERATIONS, times: int = TIMES
) -> Result:
    """Time both, and the default fit; every contestant has the same rows and threads, and runs once unmeasured."""
    torch = import_extra("torch", "this comparison needs PyTorch: pip install 'wmlr[neural]'")
    before = torch.get_num_threads()
    torch.set_num_threads(default_threads())
    try:
        return _run(watch, torch, n_samples, n_features, iterations, times)
    finally:
        torch.set_num_threads(before)


def _run(watch: Watch, torch: Any, n_samples: int, n_features: int, iterations: int, times: int) -> Result:
    data = make_mixed_regression(n_samples, n_features, snr=10, symmetric=True, random_state=0)
    lines: list[TorchLine] = []
    limits: list[Limit] = []
    for kind in ("float64", "float32"):
        works = contestants(torch, data, kind, iterations)
        errors = {}
        for who, work in works.items():
            watch(f"{who}, {kind}")
            errors[who] = coefficient_error(work(), data.coef[0])
        watch(f"all in turn, {kind}")
        seconds = {who: min(each) for who, each in time_in_turn(works, times).items()}
        lines += [TorchLine(who, kind, seconds[who], errors[who]) for who in works]
        theirs = min(seconds[who] for who in works if who.startswith("PyTorch"))
        gda, fit = seconds["wmlr, GDA, exact"], seconds["wmlr, default fit"]
        limits += [
            Limit(f"{iterations} iterations, exact, against PyTorch's drawn, {kind}", gda / theirs, most=1.0),
            Limit(f"PyTorch's {iterations} iterations against a default fit, {kind}", theirs / fit, least=20.0),
        ]
    return Result(
        suite="torch",
        title=f"{iterations} iterations at n = {n_samples:,}, d = {n_features}, {default_threads()} threads, "
        f"fastest of {times}; those of wmlr with their start",
        columns=("who", "type", "milliseconds", "error"),
        rows=tuple((line.who, line.dtype, f"{1e3 * line.seconds:.0f}", f"{line.error:.2e}") for line in lines)
        + tuple((limit.name, limit.bound, f"{limit.value:.2f}", limit.verdict) for limit in limits),
        numbers={
            "n_samples": n_samples,
            "n_features": n_features,
            "iterations": iterations,
            "torch": torch.__version__,
            "lines": [asdict(line) for line in lines],
            "limits": [limit.plain() for limit in limits],
        },
    )


def _top(data: MixedRegression) -> Array:
    """The unit top eigenvector of sum y^2 xx', the authors' reference."""
    return np.asarray(np.linalg.eigh(data.X.T @ (data.X * (data.y**2)[:, None]))[1][:, -1])
