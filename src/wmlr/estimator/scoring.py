"""Scores of rows that an engine holds: predictions and posterior probabilities, block by block or on a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from wmlr.core.capabilities import capabilities_of
from wmlr.core.roles import Roles
from wmlr.core.round import Rows
from wmlr.features.maps import Phi
from wmlr.io import tables
from wmlr.model.mixture import Mixture
from wmlr.numerics.arrays import Array


@dataclass(frozen=True)
class Scorer:
    """What a mixture says of a block of rows, as named columns.

    Attributes
    ----------
    mixture : the components.
    phi : what makes the features of x; None where they are x.
    posterior : P(component | x, y) in a column each, in place of E[y|x].
    gate : the numbers of the columns of x that the mixture's weights depend on.
    roles : which columns of the rows are x, where some are not.
    """

    mixture: Mixture
    phi: Phi | None = None
    posterior: bool = False
    gate: tuple[int, ...] = ()
    roles: Roles | None = None

    def width(self, columns: int) -> int:
        """How many features rows of so many columns have."""
        given = columns if self.roles is None else len(self.roles.features)
        return given if self.phi is None else self.phi.width(given)

    @property
    def names(self) -> list[str]:
        """The columns: ``predicted``, or ``component_1`` and so on."""
        return [f"component_{j + 1}" for j in range(self.mixture.n_components)] if self.posterior else ["predicted"]

    def __call__(self, rows: Rows) -> dict[str, Array]:
        rows = rows if self.roles is None else self.roles.split_columns(rows)
        X = rows.X if self.phi is None else self.phi.transform(rows.X)
        gate = {"gate": np.column_stack([rows.X[:, place] for place in self.gate])} if self.gate else {}
        beside = {**rows.beside, **gate}
        if not self.posterior:
            return {"predicted": self.mixture.predict(X, beside)}
        shares = self.mixture.responsibilities(X, rows.y, _codes(rows), beside)
        return dict(zip(self.names, shares.T))


def _codes(rows: Rows) -> Any:
    """The number of each row's group within its block; None without groups."""
    return None if rows.starts is None else np.repeat(np.arange(len(rows.starts)), rows.group_sizes)


def score_rows(scorer: Scorer, rows: Any, out: str | Path | None) -> Any:
    """Scores of an engine's rows: an array in the rows' order, a file, or a cluster's own table."""
    if scorer.width(rows.n_features) != scorer.mixture.n_features:
        raise ValueError(
            f"the rows have {rows.n_features} features and the model was fitted to others: name those of the fit by "
            "features="
        )
    engine = capabilities_of(rows)
    if engine.score is not None:
        if out is not None:
            raise ValueError("rows on a cluster give a table of the cluster's own: leave out out=, and write that one")
        return engine.score(scorer, scorer.names)
    if engine.blocks is None:
        raise ValueError(
            f"the rows of {type(rows).__name__} stay with those who hold them: save the model, and predict where "
            "they are"
        )
    if out is not None:
        return _write(scorer, engine.blocks(), Path(out))
    values, places, done = [], [], 0
    for _, block in engine.blocks():
        found = scorer(block)
        values.append(np.column_stack([found[name] for name in scorer.names]))
        places.append(np.arange(done, done + len(block)) if block.index is None else np.array(block.index))
        done += len(block)
    scores = np.empty((done, len(scorer.names)))
    scores[np.concatenate(places)] = np.concatenate(values)
    return scores if scorer.posterior else scores[:, 0]


def _write(scorer: Scorer, blocks: Any, path: Path) -> Path:
    """The columns that were read and the scores beside them, one block after the other."""
    with tables.table_writer(path) as put:
        for columns, block in blocks:
            put(_beside(columns, scorer(block)))
    return path


def _beside(columns: Mapping[str, Any], scores: dict[str, Array]) -> dict[str, Any]:
    taken = [name for name in scores if name in columns]
    if taken:
        raise ValueError(f"the data have a column {taken[0]!r} already: rename it, so that the new one can be added")
    return {**columns, **scores}
