"""Moves by exchange: rows of a mixture change components one at a time, freely at first and then as they fit best."""

from __future__ import annotations

import numpy as np

from wmlr.core.round import Steps
from wmlr.methods.search.landscape import Landscape
from wmlr.methods.search.moves import ANNEAL, FIRST_MOVE, KINDS
from wmlr.methods.search.population import Population

HOT, COLD = (1.0, 2.0, 4.0), 0.3  # temperatures of the first sweep, and of the last
SWEEPS = 6  # few: a maximum is to be left, and not forgotten


def anneal(landscape: Landscape, mixtures: Population, generator: np.random.Generator) -> Steps[Population]:
    """What annealed exchanges of rows make of each mixture; nothing where no compiled loop is at hand."""
    hot = generator.choice(HOT, size=(len(mixtures), 1))
    temperatures = hot * (COLD / hot) ** np.linspace(0.0, 1.0, SWEEPS)
    salts = generator.integers(2**62, size=len(mixtures)).astype(np.uint64)
    found = yield from landscape.exchange(mixtures, salts, temperatures)
    moved = Population.of(
        found["coef"], found["weights"], found["s2"], mixtures.lineage, FIRST_MOVE + KINDS.index(ANNEAL)
    )
    return moved.take(found["done"] > 0.0)
