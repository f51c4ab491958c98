"""Noise for uploads that are really sent: OpenDP's exact samplers on a grid, and what its rounding costs.

What is drawn is a *discrete* Gaussian, P(k) ~ exp(-k^2 / 2s^2), or a discrete Laplace, P(k) ~ exp(-|k|/s), on
whole numbers, from a cryptographic generator and with exact rational arithmetic. No seed can be given.

**What is charged.** OpenDP proves rho-zCDP for the discrete Gaussian, which costs up to 1.6 times the noise
if epsilon is wanted at some delta. Accounting here is that of continuous noise, which is exact, so the two
laws must be compared. Noise rounded to whole numbers, R = round(Z), is post-processing of the continuous
mechanism, because what it is added to is whole. With s steps of noise, for *every* k,

    P(R = k) >= (1 - 1/(24 s^2)) P(k)                 Gaussian
    P(0) - P(R = 0) = tanh(x) - 1 + e^-x <= x^2 / 2   Laplace, x = 1/(2s); elsewhere P(R = k) >= P(k)

(the first by integrating exp(-(k+u)^2 / 2s^2) over |u| <= 1/2, where cosh(ku/s^2) >= 1 and
exp(-u^2 / 2s^2) >= 1 - u^2 / 2s^2, and because sum_k exp(-k^2 / 2s^2) >= s sqrt(2 pi))

so that one coordinate is within total variation

    eta = 1/(24 s^2)  (Gaussian)        eta = 1/(8 s^2)  (Laplace)

of the rounded one. After T releases of p coordinates, adaptive ones included, transcripts are within
tau = T p eta, and whoever is (epsilon, delta)-private with continuous noise is, with this noise,

    (epsilon, delta + (1 + e^epsilon) tau)-private.

That is the *grid surcharge*. Grids have at least 2^32 steps to the noise, and 2^45 where a client's clipped
total may be a hundred times its noise: tau is then 1e-18 for a billion coordinates.
Pure epsilon needs none: the discrete Laplace has the epsilon of the continuous one.

Source: Canonne, Kamath & Steinke 2020 (samplers); OpenDP 0.16, `make_gaussian`, `make_laplace`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseworthy import _validate as check
from noiseworthy.errors import InvalidInput
from noiseworthy.privacy.mechanisms import Family, law_of
from noiseworthy.privacy.mechanisms.registry import deployed_names
from noiseworthy.privacy.uploads import Assurance, releasable

STEPS = 2.0**32
"""Least noise in steps of a grid; coarser ones are refused."""


@dataclass(frozen=True)
class DeployedNoise:
    """Discrete noise of one client's uploads, from OpenDP.

    Attributes:
        family: `gaussian` or `laplace`.
        scale: s, standard deviation or Laplace scale in steps of the grid, at least 1.

    Raises:
        InvalidInput: another family, a scale that is not finite or below 1, or OpenDP not installed.

    Example:
        >>> noise = DeployedNoise("gaussian", 2.0**32)
        >>> noise.assurance, noise.added_to(np.zeros(3, np.int64)).dtype
        ('grid-csprng', dtype('int64'))
    """

    family: Family
    scale: float

    def __post_init__(self):
        check.one_of("family", self.family, deployed_names(), remedy="a deployed upload needs noise")
        if check.positive("scale", self.scale).item() < 1:
            raise InvalidInput(f"scale must be at least 1 step, got {self.scale:g}; take a finer grid")
        _library()

    @property
    def assurance(self) -> Assurance:
        """The stamp of uploads with this noise."""
        return "grid-csprng"

    def added_to(self, total: NDArray[np.int64]) -> NDArray[np.int64]:
        """A total of whole steps plus a new draw, shape (p,).

        Raises:
            InvalidInput: anything but int64 within +-2^53, before or after; nothing is released then.
        """
        # before the draw, too: OpenDP adds with saturation, so that a total near the end of int64 would
        # show its sign through any noise instead of an error
        return releasable(np.asarray(self._measurement(releasable(total).tolist()), np.int64))

    @property
    def distance(self) -> float:
        """eta: total variation between one coordinate and rounded continuous noise, at most."""
        return law_of(self.family).on_grid.distance / self.scale**2

    @cached_property
    def _measurement(self) -> Any:
        law = law_of(self.family)
        domains, measurements, metrics = _library()
        space = domains.vector_domain(domains.atom_domain(T="i64"))
        distance = getattr(metrics, f"{law.norm}_distance")(T="f64")
        return getattr(measurements, law.on_grid.measurement)(space, distance, self.scale)


def grid_surcharge(noise: DeployedNoise, epsilon: float, releases: int, dimension: int) -> float:
    """What discrete noise adds to delta: (1 + e^epsilon) T p eta; pure epsilon needs none.

    Args:
        noise: of every release, at least.
        epsilon: of the claim.
        releases: T.
        dimension: coordinates p of one release.

    Example:
        >>> f"{grid_surcharge(DeployedNoise('gaussian', 2.0**32), 1.0, 100, 7850):.1e}"
        '6.6e-15'
    """
    # e^700 is finite and makes any surcharge pass 1 all the same
    return (1 + math.exp(min(epsilon, 700.0))) * releases * dimension * noise.distance


@cache
def _library() -> tuple[Any, Any, Any]:
    """OpenDP, with the feature that its samplers are filed under; most installations do without it."""
    try:  # its prelude would wait a second for scikit-learn and pandas
        from opendp import domains, measurements, metrics, mod
    except ImportError:
        raise InvalidInput(
            "deployed noise needs OpenDP, which is not installed; pip install 'noiseworthy[deploy]'"
        ) from None
    mod.enable_features("contrib")
    return domains, measurements, metrics
