"""Mixtures of regressions of a learned phi(x; w): a network with k linear heads.

The paper's Remark on neural networks: the weights w join the minimisation. Needs PyTorch; nothing else in the
library imports it.
"""

from wmlr.io.tables import MissingExtraError

try:
    import torch as _torch  # noqa: F401
except ImportError:
    raise MissingExtraError("neural mixtures need PyTorch: pip install 'wmlr[neural]'") from None

from wmlr.neural.estimator import NeuralMixedRegression
from wmlr.neural.network import ResidualMLP

__all__ = ["NeuralMixedRegression", "ResidualMLP"]
