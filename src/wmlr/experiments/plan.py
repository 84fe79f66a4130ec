"""How large a reproduction is: the paper's own sizes, or a small likeness of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from wmlr.experiments.printed import (
    CENTRAL_ALPHAS,
    CENTRAL_LAMBDAS,
    FEDERATED_ALPHAS,
    FEDERATED_LAMBDAS,
    TABLE3,
    on_grid,
)

CENTRAL_SIZES = (100_000, 10_000)
PRINTED_SEEDS = 50
FEW_SEEDS = 5


@dataclass(frozen=True)
class Plan:
    """Sizes and lengths of every run.

    Attributes
    ----------
    quick : a small likeness, for a first look and for the tests.
    search : run the paper's hyper-parameter grids in place of its chosen values.
    seeds : data sets for Table 4.
    fewer : the most data sets for everything else; Table 2 and the sample complexity take twice as many.
    """

    quick: bool = False
    search: bool = False
    seeds: int = PRINTED_SEEDS
    fewer: int = FEW_SEEDS
    d: int = 128
    sizes: tuple[int, int] = CENTRAL_SIZES
    agents: int = 10_000
    rows: int = 10
    iterations: int = 100
    wmlr_rounds: int = 150
    gem_rounds: dict[float, int] = field(default_factory=lambda: {20.0: 20_000, 10.0: 4_000, 5.0: 1_000, 1.0: 200})
    panel_rounds: dict[float, int] = field(default_factory=lambda: {20.0: 1_000, 10.0: 1_000, 5.0: 500, 1.0: 60})
    stale_rounds: int = 2_000
    em_rounds: int = 3_000

    @classmethod
    def small(cls, search: bool = False, seeds: int = 4) -> Plan:
        """The same experiments on 16 features and a few thousand rows."""
        return cls(
            quick=True,
            search=search,
            seeds=seeds,
            fewer=2,
            d=16,
            sizes=(4_000, 1_000),
            agents=400,
            gem_rounds={20.0: 4_000, 10.0: 1_500, 5.0: 500, 1.0: 100},
            panel_rounds={20.0: 200, 10.0: 200, 5.0: 200, 1.0: 60},
            stale_rounds=600,
            em_rounds=1_000,
        )

    @property
    def few(self) -> int:
        return min(self.seeds, self.fewer)

    @property
    def grid_sets(self) -> int:
        """On how many data sets F-GEM, F-EM and the grids among agents are run."""
        return self.few if self.search else 1

    @property
    def more(self) -> int:
        return min(self.seeds, 2 * self.fewer)

    @property
    def federation(self) -> dict[str, int]:
        return {"agents": self.agents, "rows": self.rows, "d": self.d}

    def central(self, n: int, snr: float, seed: int) -> dict[str, float]:
        """A data set of the centralised problem, as cells name it."""
        return {"n": n, "d": self.d, "snr": snr, "seed": seed}

    def passes(self, n: int) -> float:
        """About how many seconds one pass of a score over n rows takes."""
        return 1.2e-9 * n * self.d + 1e-4


def central_lambda(snr: float) -> float:
    """The paper's choice for WMLR."""
    return on_grid(CENTRAL_LAMBDAS, TABLE3["WMLR"][snr] or CENTRAL_LAMBDAS[0])


def central_alpha(snr: float) -> float:
    """The paper's choice for GEM; where it names none, the grid's value with the smallest NLL."""
    return on_grid(CENTRAL_ALPHAS, TABLE3["GEM"][snr] or 2.78)


def federated_lambda(snr: float) -> float:
    """The paper's choice for F-WMLR."""
    return on_grid(FEDERATED_LAMBDAS, TABLE3["F-WMLR"][snr] or FEDERATED_LAMBDAS[0])


def federated_alpha(snr: float) -> float:
    """The paper's choice for F-GEM."""
    return on_grid(FEDERATED_ALPHAS, TABLE3["F-GEM"][snr] or FEDERATED_ALPHAS[0])


def around(grid: list[float], value: float) -> list[float]:
    """Three values of a grid, two steps apart, with the given one in the middle."""
    middle = grid.index(value)
    return [grid[place] for place in (middle - 2, middle, middle + 2) if 0 <= place < len(grid)]
