"""The mixture: its parameters, which of them are free, and the distribution of y given x that follows from them."""

from wmlr.model.mixture import Mixture

__all__ = ["Mixture"]
