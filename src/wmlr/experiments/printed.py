"""The numbers the paper prints, to be set beside ours."""

from __future__ import annotations

SNRS_CENTRAL = (10.0, 1.0)
SNRS_FEDERATED = (20.0, 10.0, 5.0, 1.0)

# Table 1: (n, snr) -> method -> (NLL, relative error)
TABLE1 = {
    (100_000, 10.0): {"em": (2.115, 3.79e-2), "gem": (3.765, 1.03), "wmlr": (2.059, 5.31e-3)},
    (100_000, 1.0): {"em": (1.657, 8.62e-2), "gem": (1.656, 5.20e-2), "wmlr": (1.656, 7.78e-2)},
    (10_000, 10.0): {"em": (2.715, 1.21e-1), "gem": (3.758, 9.98e-1), "wmlr": (2.065, 2.08e-2)},
    (10_000, 1.0): {"em": (1.671, 2.95e-1), "gem": (1.657, 1.80e-1), "wmlr": (1.668, 2.75e-1)},
}

# Table 2: snr -> method -> (iterations, relative error); None is "d.n.c."
TABLE2: dict[float, dict[str, tuple[int, float] | None]] = {
    20.0: {"em": None, "gem": (12_948, 1.93e-3), "wmlr": (74, 2.49e-3)},
    10.0: {"em": None, "gem": (2_007, 3.92e-3), "wmlr": (98, 4.93e-3)},
    5.0: {"em": None, "gem": (295, 8.32e-3), "wmlr": (81, 9.95e-3)},
    1.0: {"em": (544, 5.60e-2), "gem": (15, 5.60e-2), "wmlr": (66, 7.25e-2)},
}

# Table 3: method -> snr -> alpha or lambda; None is "did not converge"
TABLE3: dict[str, dict[float, float | None]] = {
    "GEM": {1.0: 2.78, 10.0: None},
    "WMLR": {1.0: 0.38, 10.0: 0.53},
    "F-EM": {1.0: 0.08, 5.0: None, 10.0: None, 20.0: None},
    "F-GEM": {1.0: 2.98, 5.0: 0.89, 10.0: 0.48, 20.0: 0.14},
    "F-WMLR": {1.0: 0.35, 5.0: 0.41, 10.0: 0.41, 20.0: 0.41},
}

# Table 4: (n, snr) -> method -> (NLL quartiles, error quartiles)
TABLE4 = {
    (100_000, 10.0): {
        "em": ((2.114, 2.126), (3.68e-2, 4.02e-2)),
        "wmlr": ((2.057, 2.105), (4.97e-3, 5.64e-3)),
    },
    (100_000, 1.0): {
        "em": ((1.657, 1.660), (8.60e-2, 9.25e-2)),
        "wmlr": ((1.656, 1.658), (7.02e-2, 7.58e-2)),
    },
    (10_000, 10.0): {
        "em": ((2.729, 2.845), (1.21e-1, 1.31e-1)),
        "wmlr": ((2.061, 2.223), (1.83e-2, 1.99e-2)),
    },
    (10_000, 1.0): {
        "em": ((1.661, 1.671), (2.74e-1, 3.05e-1)),
        "wmlr": ((1.655, 1.666), (2.37e-1, 2.53e-1)),
    },
}


def log_spaced(low: float, high: float, count: int) -> list[float]:
    """``count`` values from low to high, equally far apart in the logarithm: the paper's grids."""
    return [low * (high / low) ** (place / (count - 1)) for place in range(count)]


CENTRAL_LAMBDAS = log_spaced(0.1, 2.0, 10)
CENTRAL_ALPHAS = log_spaced(1e-4, 10.0, 10)
FEDERATED_LAMBDAS = log_spaced(0.1, 2.0, 20)
FEDERATED_ALPHAS = log_spaced(1e-4, 10.0, 20)


def on_grid(grid: list[float], value: float) -> float:
    """The grid's value nearest to one printed with two digits."""
    return min(grid, key=lambda candidate: abs(candidate - value))
