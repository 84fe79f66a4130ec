"""Methods by others, for comparison and for those who want them."""

from wmlr.methods.baselines.altmin import AltMin
from wmlr.methods.baselines.mix_irls import MixIRLS

__all__ = ["AltMin", "MixIRLS"]
