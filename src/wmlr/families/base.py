"""What a family says of y given a component's linear predictor: the one interface that everything else asks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from wmlr.numerics.arrays import Array, Beside

REACH = 7.5  # scales that the even part of an integration rule covers: all but 1e-13 of a normal law
STRETCH = 4.0  # panels in the tails end this many times as far out as they begin
TAIL = 1e-12  # probability left out of integrals of bounded functions
SQUARES_TAIL = 1e-16  # probability left out of a distance, where tails fall as fast as an exponential does
STEP = 0.015  # of the knots between which a quantile function is as good as linear


class Terms(NamedTuple):
    """What rows say to components, in arrays of one shape.

    ``weight * residual / sigma^2`` is the derivative of the log-density in the predictor, and ``weight / sigma^2`` the
    curvature that a step of (weighted) least squares takes it to have. A ``weight`` of None is 1 throughout.

    ``squares / sigma^2 - scale_weight`` is the derivative in log sigma, and twice ``scale_weight`` the curvature that a
    step takes it to have. None, as where y is the predictor plus noise, they are weight * residual^2 and 1.
    """

    log_density: Array
    residual: Array
    weight: Array | None = None
    squares: Array | None = None
    scale_weight: Array | None = None


class OwnDerivatives(NamedTuple):
    """Of the log-density in a family's own parameter: the first, and minus the second, by itself and with others."""

    first: Array
    with_predictor: Array
    with_log_sigma: Array
    twice: Array


class OwnParameter(NamedTuple):
    """A share that a family estimates along with the mixture: its name and estimate.

    ``unbounded`` is its logit, where standard errors are taken, and ``slope`` the derivative of the estimate in it.
    """

    name: str
    value: float
    unbounded: float
    slope: float


class Derivatives(NamedTuple):
    """Of the log-density in the predictor and in log sigma: the first, and minus the second."""

    predictor: Array
    log_sigma: Array
    predictor_twice: Array
    mixed: Array
    log_sigma_twice: Array
    own: OwnDerivatives | None = None

    def of_component(self, j: int) -> tuple[Array, Array]:
        """Those of one component: (c, n) and (c, c, n), in the predictor, log sigma and the family's own."""
        first = [self.predictor, self.log_sigma]
        twice = [[self.predictor_twice, self.mixed], [self.mixed, self.log_sigma_twice]]
        if self.own is not None:
            beside = [self.own.with_predictor, self.own.with_log_sigma]
            first.append(self.own.first)
            twice = [*([*line, last] for line, last in zip(twice, beside)), [*beside, self.own.twice]]
        return np.array([one[:, j] for one in first]), np.array([[one[:, j] for one in line] for line in twice])


class Family(ABC):
    """What one component says of y, given its linear predictor and scale.

    A family is a frozen dataclass whose fields are numbers, so that queries and model files can hold it; its ``name``
    and those numbers are all of it. :func:`wmlr.families.register` makes it known. Arrays broadcast against each
    other, rows along the first axis and components along the last; ``s2`` is the squared scale.

    Attributes
    ----------
    name : what it is called in ``family=`` and in model files.
    has_scale : whether there is a scale to be estimated; where there is none, it is 1.
    least_squares : whether the M-step is plain least squares, with responsibilities as weights.
    heavy_tails : whether gross outliers are to be expected, which starts then leave out.
    outlying : whether outliers have a density of their own. A row's weight is then the probability that it is none,
        also where sigma^2 is a mean of squares; the search leaves no row out, and no component may be as wide as they.
    weights_alike : whether rows weigh so much alike that one Gram does for all components, as refreshed steps take it.
    smooth : whether the log-density has second derivatives, by which Newton's steps end a fit.
    linear : whether the working response is y itself, as it is where the predictor is the centre of y's law.
    discrete : whether y is a count.
    dispersed : whether the scale is no mean of squares, and climbs by steps in its logarithm instead.
    vanishing : whether the scale may be nil, where the family is another that has none.
    takes_trials : whether y counts the successes among a row's trials.
    has_predictor : whether columns say anything: a point mass has no coefficients.
    one_law : whether all components have this family, and not each its own.
    log_constant : what the search's sums leave out of each row's log-density.
    """

    name: ClassVar[str]
    has_scale: ClassVar[bool] = True
    least_squares: ClassVar[bool] = False
    linear: ClassVar[bool] = False
    heavy_tails: ClassVar[bool] = False
    outlying: ClassVar[bool] = False
    weights_alike: ClassVar[bool] = False
    smooth: ClassVar[bool] = True
    discrete: ClassVar[bool] = False
    dispersed: ClassVar[bool] = False
    vanishing: ClassVar[bool] = False
    takes_trials: ClassVar[bool] = False
    has_predictor: ClassVar[bool] = True
    one_law: ClassVar[bool] = True
    log_constant: ClassVar[float] = 0.0

    @property
    def title(self) -> str:
        """What the law of its residuals is called in a picture."""
        return "normal"

    @property
    def label(self) -> str:
        """What a component of it is called in a table."""
        return self.name

    @property
    def predictor_scale(self) -> str:
        """Which function of the mean the predictor is."""
        return "identity"

    @property
    def kinds(self) -> tuple[int, ...]:
        """A number per component, the same for those of the same family; none where all are of one."""
        return ()

    @property
    def scaleless(self) -> tuple[int, ...]:
        """The components that have no scale while others have."""
        return ()

    def shift(self, level: float) -> Self:
        """The family of responses that lie higher by ``level``, where it knows where they lie."""
        return self

    @property
    def without_predictor(self) -> tuple[int, ...]:
        """The components that have no coefficients."""
        return ()

    def of_component(self, j: int) -> Family:
        """The family of one component, counted from 0."""
        return self

    def permuted(self, order: NDArray[np.int64]) -> Family:
        """The family of the components in another order."""
        return self

    @abstractmethod
    def terms(self, y: Array, predictor: Array, s2: Array) -> Terms:
        """Log-density, working residual and weight."""

    @abstractmethod
    def derivatives(self, y: Array, predictor: Array, s2: Array) -> Derivatives:
        """What scores and the observed information are made of.

        Where a second derivative does not exist, what stands for it has its expectation.
        """

    @abstractmethod
    def log_likelihood(self, y: Array, predictor: Array, sigma: Array) -> Array:
        """The log-density of y."""

    @abstractmethod
    def probability(self, y: Array, predictor: Array, sigma: Array) -> Array:
        """P(Y <= y)."""

    @abstractmethod
    def quantiles(self, q: Array, predictor: Array, sigma: Array) -> Array:
        """The inverse of ``probability``."""

    @abstractmethod
    def sample(self, generator: np.random.Generator, predictor: Array, sigma: Array) -> Array:
        """A draw of y for each predictor (n,)."""

    def sample_of(
        self, labels: NDArray[np.int64], generator: np.random.Generator, predictor: Array, sigma: Array
    ) -> Array:
        """A draw of y for each predictor (n,), that of the component ``labels`` (n,)."""
        return self.sample(generator, predictor, sigma)

    def mean(self, predictor: Array) -> Array:
        """E[Y]; the centre of the law where it has no mean."""
        return predictor

    def of_rows(self, beside: Beside) -> Family:
        """The family of rows of which more is known, such as their trials."""
        return self

    def sums_response(self, y: Array, beside: Beside) -> tuple[Array, Beside]:
        """y and what is beside it as sums over rows see them: where y is predictor and noise, an offset is off y."""
        if not self.linear or "offset" not in beside:
            return y, beside
        return y - beside["offset"], {role: values for role, values in beside.items() if role != "offset"}

    @property
    def own(self) -> OwnParameter | None:
        """The parameter of its own that is estimated along with the mixture, if there is one."""
        return None

    @property
    def outlier_share(self) -> float:
        """The share of rows that are outliers with a density of their own."""
        return 0.0

    def improve(self, weight: float) -> Family:
        """The family as an M-step leaves it, from the mean of the rows' weights."""
        return self

    def own_score(self, weight: float) -> float:
        """The mean score in the own parameter, from the same mean."""
        return 0.0

    def own_information(self) -> float:
        """What a row would say of the own parameter, were nothing hidden."""
        return 0.0

    def move_own(self, step: float) -> Family:
        """The family with its own parameter further on, on its unbounded scale."""
        return self

    def clean_probability(self, y: Array, predictor: Array, sigma: Array) -> Array:
        """P(the row is no outlier | y): 1 where outliers have no density of their own."""
        return np.ones(np.broadcast_shapes(y.shape, predictor.shape))

    def place(self, low: float, high: float) -> Family:
        """The family among values of y between two numbers."""
        return self

    def predictor_of(self, mean: Array) -> Array:
        """The predictor of a mean."""
        return mean

    @property
    def relative(self) -> bool:
        """Whether a deviation of y is sigma times something that depends on where y lies."""
        return self.dispersed and not self.discrete

    def log_deviation(self, y: Array) -> Array:
        """The logarithm of a deviation of y near y, where sigma is small, over sigma."""
        return np.zeros_like(y)

    @property
    def noise(self) -> Noise:
        """The family itself, where it is noise around the predictor."""
        raise ValueError(
            f"this needs noise around a regression line, and the family {self.name!r} is none: use a family such as "
            "'normal' or 'student'"
        )

    def start_response(self, y: Array) -> Array:
        """y on the scale of the predictor, for moments and starts.

        Raises
        ------
        ValueError
            Where y is not of the kind that the family is about.
        """
        return y

    def start_spread(self, mean: float) -> float:
        """The variance of ``start_response`` where sigma is 1 and its mean is this: 1 where it has no unit."""
        return 1.0

    def residuals(self, y: Array, predictor: Array, sigma: Array, place: Array | float = 0.5) -> Array:
        """Quantile residuals (Dunn and Smyth, 1996), which are normal whatever the predictor.

        A count has a stretch of quantiles; ``place`` says where in it, and residuals of counts are normal where that
        is drawn uniformly between 0 and 1.
        """
        at = self.probability(y, predictor, sigma)
        if self.discrete:
            before = self.probability(y - 1.0, predictor, sigma)
            at = before + place * (at - before)
        return np.asarray(ndtri(np.clip(at, TAIL, 1.0 - TAIL)))

    def residual_quantile(self, q: Array) -> Array:
        """Quantiles of the law that ``residuals`` have."""
        return np.asarray(ndtri(q))


class Noise(Family):
    """y = predictor + sigma * noise, with noise of scale 1 that is symmetric about 0 and falls on either side.

    A family of this kind is defined by ``log_density``, ``weight``, ``curvature``, ``cdf``, ``quantile`` and ``draw``
    of the noise alone.

    Attributes
    ----------
    far : how many scales apart two components have nothing in common; infinite where tails never end.
    """

    linear: ClassVar[bool] = True
    far: ClassVar[float] = np.inf

    @abstractmethod
    def log_density(self, z: Array) -> Array:
        """Log-density at z."""

    @abstractmethod
    def weight(self, z: Array) -> Array:
        """How much a residual counts beside a normal one: minus the derivative of the log-density, over z."""

    @abstractmethod
    def curvature(self, z: Array) -> Array:
        """Minus the second derivative of the log-density, where it exists."""

    @abstractmethod
    def cdf(self, z: Array) -> Array:
        """P(noise <= z); accurate in the lower tail."""

    @abstractmethod
    def quantile(self, q: Array) -> Array:
        """The inverse of ``cdf``."""

    @abstractmethod
    def draw(self, generator: np.random.Generator, n: int) -> Array:
        """n independent draws."""

    def slope(self, z: Array) -> Array:
        """The derivative of the log-density."""
        return np.asarray(-z * self.weight(z))

    def information(self, z: Array) -> Array:
        """What stands for the curvature in the information about the predictor: of the same expectation."""
        return self.curvature(z)

    def crossing(self, log_ratio: Array) -> tuple[Array, Array] | None:
        """(a, c) such that the log-density at z_i exceeds that at z_j by -log_ratio where z_i^2 = a z_j^2 + c.

        None where there is no such closed form.
        """
        return None

    def reach(self, log_density: Array) -> Array:
        """How far out the density is certainly below a given one."""
        low = np.minimum(log_density, self.peak) - 0.1
        end = np.ones_like(low)
        while np.any(above := self.log_density(end) >= low):
            end = np.where(above, 2.0 * end, end)
        return end

    def tail(self, probability: float) -> float:
        """Where at most that probability is left above."""
        return -float(self.quantile(np.array(probability)))

    def panels(self, count: int) -> Array:
        """Ends of stretches over which Gauss's rule integrates the density.

        ``count`` of them lie evenly at the centre; in the tails each is ``STRETCH`` times as long as the one before.
        """
        steps = np.log(max(self.tail(TAIL) / REACH, 1.0)) / np.log(STRETCH)
        tail = REACH * STRETCH ** np.arange(1, int(np.ceil(steps)) + 1)
        return np.concatenate([-tail[::-1], np.linspace(-REACH, REACH, count + 1), tail])

    def knots(self) -> Array:
        """Points between which the quantile function is as good as linear, out to where squares no longer weigh.

        Raises
        ------
        ValueError
            Where the variance is infinite.
        """
        return sinh_grid(self.tail(SQUARES_TAIL))

    @property
    def noise(self) -> Noise:
        return self

    @property
    def title(self) -> str:
        return self.name

    def residuals(self, y: Array, predictor: Array, sigma: Array, place: Array | float = 0.5) -> Array:
        """In units of the scale."""
        return standardize(y, predictor, sigma)

    def residual_quantile(self, q: Array) -> Array:
        return self.quantile(q)

    @property
    def peak(self) -> float:
        """The log-density at 0."""
        return float(self.log_density(np.zeros(1))[0])

    def terms(self, y: Array, predictor: Array, s2: Array) -> Terms:
        residual = y - predictor
        z = residual / np.sqrt(s2)
        return Terms(self.log_density(z) - 0.5 * np.log(s2), residual, self.weight(z))

    def derivatives(self, y: Array, predictor: Array, s2: Array) -> Derivatives:
        sigma = np.sqrt(s2)
        z = (y - predictor) / sigma
        psi, bend = -self.slope(z), self.curvature(z)
        turned = psi + z * bend
        return Derivatives(psi / sigma, z * psi - 1.0, self.information(z) / s2, turned / sigma, z * turned)

    def log_likelihood(self, y: Array, predictor: Array, sigma: Array) -> Array:
        return np.asarray(self.log_density(standardize(y, predictor, sigma)) - np.log(sigma))

    def probability(self, y: Array, predictor: Array, sigma: Array) -> Array:
        return self.cdf(standardize(y, predictor, sigma))

    def quantiles(self, q: Array, predictor: Array, sigma: Array) -> Array:
        return np.asarray(predictor + sigma * self.quantile(q))

    def sample(self, generator: np.random.Generator, predictor: Array, sigma: Array) -> Array:
        return np.asarray(predictor + sigma * self.draw(generator, len(predictor)))


def standardize(y: Array, predictor: Array, sigma: Array) -> Array:
    """Residuals in units of the scale; infinite where they leave the range of floating point."""
    with np.errstate(over="ignore"):
        return np.asarray((y - predictor) / sigma)


def sinh_grid(end: float) -> Array:
    """Points from -end to end, in steps of ``STEP`` at the centre that grow in proportion into the tails."""
    reach = np.arcsinh(end)
    return np.sinh(np.linspace(-reach, reach, 2 * int(np.ceil(reach / STEP)) + 1))
