"""Families: what a component says of y given its linear predictor, one file each.

Whatever depends on the noise asks the family, ``mixture.family`` or a query's, so that none of it can take one family
for another. A new one is a class derived from :class:`Noise` (or :class:`Family`) that :func:`register` makes known.
"""

from wmlr.families.base import Derivatives, Family, Noise, Terms
from wmlr.families.beta import Beta
from wmlr.families.binomial import Binomial
from wmlr.families.by_component import ComponentFamilies
from wmlr.families.gamma import Gamma
from wmlr.families.laplace import Laplace
from wmlr.families.negative_binomial import NegativeBinomial
from wmlr.families.normal import Normal
from wmlr.families.outliers import NormalWithOutliers
from wmlr.families.point_mass import PointMass
from wmlr.families.poisson import Poisson
from wmlr.families.registry import FamilyLike, family, from_plain, of_components, register, registered, to_plain
from wmlr.families.student import Student

__all__ = [
    "NORMAL", "OMIT_DEFAULT", "Beta", "Binomial", "ComponentFamilies", "Derivatives", "Family", "FamilyLike", "Gamma",
    "Laplace", "NegativeBinomial", "Noise", "Normal", "NormalWithOutliers", "PointMass", "Poisson", "Student", "Terms",
    "family", "from_plain", "of_components", "register", "registered", "to_plain",
]  # fmt: skip

NORMAL = Normal()
OMIT_DEFAULT = {"omit_default": True}
"""The metadata of a query's field that a message leaves out where it stands at its default."""
