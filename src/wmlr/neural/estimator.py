"""The scikit-learn face of neural mixtures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, Unpack

import torch
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from torch import nn

from wmlr.core.capabilities import capabilities_of
from wmlr.core.round import Engine
from wmlr.estimator.delegation import delegate, fitted_attribute
from wmlr.estimator.gaps import Gaps
from wmlr.estimator.inputs import Inputs, ModelRows, read_rows
from wmlr.estimator.prediction import GroupPosteriors, MixturePrediction
from wmlr.estimator.row_roles import RowRoles
from wmlr.model.mixture import Mixture
from wmlr.neural import checkpoint, settings
from wmlr.neural.layout import ParameterLayout
from wmlr.neural.network import Network, NetworkPhi, measure_module, threads
from wmlr.neural.queries import Units
from wmlr.neural.rows import Batches, Rounds, TrainingRows
from wmlr.neural.starts import best_start, mixture_of
from wmlr.neural.starts import measure_columns as units_of
from wmlr.neural.training import TrainingPlan, TrainingState, train
from wmlr.numerics.arrays import Array

Watch = Callable[[dict[str, float]], None]


@dataclass(frozen=True, eq=False)
class NetworkInputs(Inputs):
    """Rows as a network maps them, by so many threads; sparse rows are refused."""

    threads: int = 1

    def features_of(self, X: Any) -> tuple[Any, Gaps]:
        settings.refuse_sparse(X)
        return super().features_of(X)

    def rows(
        self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, **roles: Unpack[RowRoles]
    ) -> ModelRows:
        settings.refuse_sparse(X)
        return super().rows(X, y, sample_weight, groups, **roles)

    def map_features(self, X: Any) -> Array:
        with threads(self.threads):
            found: Array = self.features.transform(X)
        return found


class NeuralMixedRegression(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Mixture of k regressions that are linear in a learned phi(x; w), common to all components.

    Parameters
    ----------
    n_components : the number k of heads; 1 is an ordinary network.
    method : "wmlr" (Wasserstein minimax) or "em" (gradient EM).
    solver : for "wmlr": "auto" refreshes the references at every step, which solves the inner maximum in
        closed form; "gda" is the paper's game, theta down and gamma up.
    phi : a ``torch.nn.Module`` from (n, d) to (n, p), without batch statistics; None is a residual network.
    width, depth, n_outputs : of that residual network.
    equal_weights : hold the weights at 1/k. shared_sigma : one noise deviation for all components.
    sigma : the noise deviation where it is known; None learns it.
    lam, ascent_steps, refresh, discriminator, nodes : of "gda". ``lam`` None is 50 / sigma^2 (0.5 / sigma^2 for
        "heads"); gamma climbs ``ascent_steps`` times per descent; its reference is set to theta every
        ``refresh`` steps, None never; the discriminator's halves are "network", whole networks of their own,
        or "heads", the paper's vectors on the model's own phi, by which phi itself learns nothing; ``nodes``
        of the quadrature.
    learning_rate, batch_size : Adam's step, and rows per step at most, fewer where an epoch would have less than
        ten steps (None: all rows). max_epochs : at most.
    n_init, warmup_epochs, trial_epochs : starts. Mixtures on x and on random waves of it are fitted by refreshed
        WMLR; a network learns the curves of each of the ``n_init`` likeliest for ``warmup_epochs``, and is
        tried for ``trial_epochs``; the best on held-out rows goes on.
    validation_fraction, patience : rows held out, and epochs without a gain on them before training stops.
    weight_decay : on w. averaging : epochs over which the parameters are averaged.
    local_steps : steps on each agent between rounds, in :meth:`fit_on`.
    device, dtype : where torch computes, and in what. n_jobs : its threads; None is 1.
    checkpoint : a file to keep the state of training in after every epoch, and to go on from when it is there.
    random_state : seeds weights, starts and the order of batches.
    verbose : print a line per epoch.

    Attributes
    ----------
    mixture_ : the heads as a :class:`wmlr.Mixture` on phi(x). coef_, intercept_, weights_, sigma_ : its parts.
    history_ : a dict per epoch: objective, log_likelihood, held_log_likelihood, gradient_norm, step.
    n_iter_ : epochs trained. best_epoch_ : the one kept. converged_ : whether patience ended it.

    Examples
    --------
    >>> from wmlr.curves import make_curves
    >>> from wmlr.neural import NeuralMixedRegression
    >>> rows = make_curves("sines", 500, random_state=0)
    >>> fit = NeuralMixedRegression(2, max_epochs=2, n_init=1, random_state=0).fit(rows.X, rows.y)
    >>> fit.predict_components(rows.X).shape
    (500, 2)
    """

    fitted_: MixturePrediction
    mixture_: Mixture = fitted_attribute("mixture")
    coef_: Array = fitted_attribute("mixture.coef")
    intercept_: Array = fitted_attribute("mixture.intercept")
    weights_: Array = fitted_attribute("mixture.weights")
    sigma_: Array = fitted_attribute("mixture.sigma")
    group_labels_: Any = fitted_attribute("groups.labels")
    group_responsibilities_: Array = fitted_attribute("groups.responsibilities")

    def __init__(
        self,
        n_components: int = 2,
        *,
        method: str = "wmlr",
        solver: str = "auto",
        phi: Any = None,
        width: int = 48,
        depth: int = 2,
        n_outputs: int = 24,
        equal_weights: bool = False,
        shared_sigma: bool = True,
        sigma: float | None = None,
        lam: float | None = None,
        ascent_steps: int = 1,
        refresh: int | None = 1,
        discriminator: str = "network",
        nodes: int = 8,
        learning_rate: float = 3e-3,
        batch_size: int | None = 256,
        max_epochs: int = 60,
        warmup_epochs: int = 10,
        n_init: int = 4,
        trial_epochs: int = 5,
        validation_fraction: float = 0.1,
        patience: int | None = 20,
        weight_decay: float = 0.05,
        averaging: float = 3.0,
        local_steps: int = 1,
        device: str = "cpu",
        dtype: str = "float64",
        n_jobs: int | None = None,
        checkpoint: Any = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.method = method
        self.solver = solver
        self.phi = phi
        self.width = width
        self.depth = depth
        self.n_outputs = n_outputs
        self.equal_weights = equal_weights
        self.shared_sigma = shared_sigma
        self.sigma = sigma
        self.lam = lam
        self.ascent_steps = ascent_steps
        self.refresh = refresh
        self.discriminator = discriminator
        self.nodes = nodes
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.warmup_epochs = warmup_epochs
        self.n_init = n_init
        self.trial_epochs = trial_epochs
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.weight_decay = weight_decay
        self.averaging = averaging
        self.local_steps = local_steps
        self.device = device
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Train on arrays, by mini-batches.

        Parameters
        ----------
        X, y : the rows.
        sample_weight : a weight of 2 counts as the row twice, 0 as leaving it out.
        groups : labels; rows of one group share their component.
        """
        settings.check(self)
        settings.refuse_sparse(X)
        seen = read_rows(self, X, y, sample_weight, groups, missing="raise", reset=True)
        seed = settings.seed_of(self.random_state)
        rows = Batches(seen.X, seen.y, seen.weight, seen.groups, self.validation_fraction, self.batch_size, seed)
        self._train(rows, seed, seen.groups is not None)
        if seen.groups is not None:
            mapped = replace(seen, X=self.fitted_.inputs.map_features(seen.X))
            self.fitted_ = replace(self.fitted_, groups=GroupPosteriors.of(self.mixture_, mapped))
        return self

    def fit_on(self, rows: Engine, watch: Watch | None = None) -> Self:
        """Train on any engine, a round per step; agents send gradients, or what ``local_steps`` changed.

        ``watch`` is called with the record of each epoch of ten rounds.
        """
        settings.check(self)
        self.n_features_in_ = rows.n_features
        engine = capabilities_of(rows)
        rounds = engine.rounds
        seed = settings.seed_of(self.random_state)
        self._train(Rounds(rows, self.validation_fraction), seed, engine.grouped, watch)
        if engine.ledger is not None:
            self.ledger_ = engine.ledger.since(rounds)
        return self

    predict = delegate(MixturePrediction.predict)
    predict_components = delegate(MixturePrediction.predict_components)
    predict_density = delegate(MixturePrediction.predict_density)
    predict_cdf = delegate(MixturePrediction.predict_cdf)
    predict_quantile = delegate(MixturePrediction.predict_quantile)
    predict_interval = delegate(MixturePrediction.predict_interval)
    responsibilities = delegate(MixturePrediction.responsibilities)
    assign = delegate(MixturePrediction.assign)
    sample = delegate(MixturePrediction.sample)
    score = delegate(MixturePrediction.score)
    map_features = delegate(MixturePrediction.map_features)

    def save(self, path: str | Path) -> None:
        """Write the trained model: JSON and arrays in one file, nothing pickled."""
        check_is_fitted(self)
        checkpoint.save(self, Path(path))

    @classmethod
    def load(cls, path: str | Path, phi: nn.Module | None = None) -> Self:
        """Read a model that ``save`` wrote; a module of one's own is given again, for its weights."""
        model: Self = checkpoint.load(cls, Path(path), phi)
        return model

    def _train(self, rows: TrainingRows, seed: int, grouped: bool, watch: Watch | None = None) -> None:
        with threads(self.n_jobs or 1):
            plan = self._plan(rows, seed, grouped)
            kept = checkpoint.StoredTraining.of(self, plan)
            state = kept.state
            if state is None:
                state = best_start(plan, rows, self.n_init, self.warmup_epochs, self.trial_epochs)

            def print_state(state: TrainingState) -> None:
                kept.write(state)
                if self.verbose:
                    _print(state.history[-1])
                if watch is not None:
                    watch(state.history[-1])

            self._accept(plan, train(plan, rows, state, print_state))

    def _plan(self, rows: TrainingRows, seed: int, grouped: bool) -> TrainingPlan:
        units = units_of(rows)
        layout = ParameterLayout(
            self._network(rows.n_features),
            self.n_components,
            shared_sigma=self.shared_sigma,
            sigma_known=self.sigma is not None,
            equal_weights=self.equal_weights,
        )
        kind = "em" if self.method == "em" else "refreshed" if self.solver == "auto" else "gda"
        return TrainingPlan(
            layout=layout,
            units=units,
            kind=kind,
            rate=float(self.learning_rate),
            epochs=self.max_epochs,
            patience=self.patience,
            decay=float(self.weight_decay),
            memory=float(self.averaging),
            lam=self.lam,
            ascent_steps=self.ascent_steps,
            refresh=self.refresh,
            discriminator=self.discriminator,
            nodes=self.nodes,
            local_steps=self.local_steps,
            seed=seed,
            grouped=grouped,
            sigma=self.sigma,
        )

    def _network(self, inputs: int) -> Network:
        device = str(torch.device(self.device))
        if self.phi is not None:
            return measure_module(self.phi, inputs, self.dtype, device)
        return Network(inputs, self.width, self.depth, self.n_outputs, None, self.dtype, device)

    def _accept(self, plan: TrainingPlan, state: TrainingState) -> None:
        self.history_ = [dict(record) for record in state.history]
        self.n_iter_ = state.epoch
        self.best_epoch_ = state.best_epoch
        self.converged_ = state.epoch < plan.epochs
        self.held_log_likelihood_ = state.best_held
        self._settle(plan.layout, plan.units, state.best)

    def _settle(self, layout: ParameterLayout, units: Units, theta: Array) -> None:
        self._layout, self._units, self._theta = layout, units, theta
        self.network_ = NetworkPhi(layout.network, theta[: layout.edges[1]], units.centre, units.scale)
        mixture = mixture_of(layout, units, theta)
        inputs = replace(NetworkInputs.of(self, mixture.n_features, self.network_), threads=self.n_jobs or 1)
        self.fitted_ = MixturePrediction(mixture, inputs)


def _print(record: dict[str, float]) -> None:
    print(
        f"epoch {record['iteration']:.0f}  log-likelihood {record['log_likelihood']:.5f}  "
        f"held out {record['held_log_likelihood']:.5f}  gradient {record['gradient_norm']:.3e}"
    )
