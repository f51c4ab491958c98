"""Guides beside the enumeration of local steps: closed forms at real T and E, and what happens as T grows.

Fu et al., Theorems 3 to 5, with their errata (docs/theory/fu.md#planner, docs/theory/fu.md#errata).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy import _validate as check
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.dp_fedavg.bound import NEAR, LocalBound, PowerLaw, check_exponent, sampling_share

# Closed forms of the continuous relaxation ------------------------------------------------------------


def best_local_steps(
    bound: LocalBound, noise: PowerLaw, total_iterations: float, clients_per_round: int, clients: int
) -> float:
    """The continuous guide E* for fixed T, with gamma held at 8L/mu; in [1, T].

    Minimises a (E-1)^2 + c E^2 + D E^(1-z), a = 8 G^2, c = 4 G^2 (N-b)/((N-1) b),
    D = C_M T^(z+1) (T + gamma)/(T + gamma - 1)^2, whose slope rises with E for z > 1: E* is its only root
    (for z = 2 of 2 (a + c) E^3 - 2 a E^2 = D). For z <= 1 every term grows with E, so E* = 1.

    Example:
        >>> round(best_local_steps(LocalBound(1.0, 0.5, 1.0, 0.1, 100.0), PowerLaw(2.0, 0.1), 60, 10, 10), 2)
        3.01

    Source: docs/theory/fu.md#planner; the paper's Theorem 4 lets E grow for z < 1 too, wrongly
        (docs/theory/fu.md#slow-noise).
    """
    z, t = noise.exponent, float(total_iterations)
    a, gamma = 8 * bound.gradient_bound**2, float(bound.gamma(1))
    c = 4 * bound.gradient_bound**2 * float(sampling_share(clients_per_round, clients))
    d = noise.constant * t ** (z + 1) * (t + gamma) / (t + gamma - 1) ** 2

    def slope(steps: float) -> float:
        return 2 * a * (steps - 1) + 2 * c * steps - (z - 1) * d * steps**-z

    if z <= 1 or slope(1.0) >= 0:
        return 1.0
    from scipy.optimize import brentq  # here, because it is slow to load

    return t if slope(t) <= 0 else float(brentq(slope, 1.0, t))  # pyright: ignore[reportArgumentType]


def best_iterations(
    bound: LocalBound, noise: PowerLaw, local_steps: int, clients_per_round: int, clients: int
) -> float:
    """The continuous T* for fixed E; infinite where more is always better in the end.

    With A = 4 omega_0/mu^2 + gamma Y_0, g = gamma - 1 and c = (4/mu^2) C_M E^(1-z) the bound is
    A/(T + gamma) + c T^(z+1)/(T + g)^2. It is stationary where

        c T^z ((z-1) T + (z+1) g) (T + gamma)^2/(T + g)^3 = A,

    whose left side rises with T for z >= 1: for z > 1 without limit, so that T* is its only root; for z = 1
    up to 2 g c. For A below that the root is T*; else the bound only falls, to c, and T* is the least T
    within 10 % of that. For z < 1 it tends to 0, though it may rise before.

    Example:
        >>> round(best_iterations(LocalBound(1.0, 0.5, 1.0, 0.1, 100.0), PowerLaw(2.0, 0.1), 2, 10, 10), 2)
        36.31

    Source: docs/theory/fu.md#planner, which for z = 1 has the tolerance alone.
    """
    z, gamma = noise.exponent, float(bound.gamma(local_steps))
    start, g = float(bound._start(local_steps, clients_per_round, clients)), gamma - 1
    c = bound.limit(noise) * local_steps ** (1 - z)

    def excess(t: float) -> float:
        """Slope of the bound, times (T + gamma)^2."""
        return c * t**z * ((z - 1) * t + (z + 1) * g) * (t + gamma) ** 2 / (t + g) ** 3 - start

    if c == 0 or z < 1:
        return np.inf
    if z == 1 and start >= 2 * g * c:
        return _crossing(lambda t: (1 + NEAR) * c - start / (t + gamma) - c * (t / (t + g)) ** 2)
    return _crossing(excess)


def _crossing(rising: Callable[[float], float]) -> float:
    """The T >= 0 where a function that ends above zero becomes zero; 0 if it starts above."""
    if rising(0.0) >= 0:
        return 0.0
    high = 1.0
    while rising(high) < 0:
        high *= 2
    from scipy.optimize import brentq

    return float(brentq(rising, 0.0, high))  # pyright: ignore[reportArgumentType]


# What happens as T grows ------------------------------------------------------------------------------


def best_growth(exponent: float) -> float:
    """The alpha with which E should grow like T^alpha: z/(z+1) for z > 1, else 0.

    Source: docs/theory/fu.md#planner.
    """
    return exponent / (exponent + 1) if check_exponent(exponent) > 1 else 0.0


def asymptotic_local_steps(exponent: float, total_iterations: ArrayLike) -> NDArray[np.float64]:
    """((z-1)/2)^(1/(z+1)) T^(z/(z+1)), which minimises E^2/T + E^(1-z) T^(z-1); 1 for z <= 1.

    Example:
        >>> asymptotic_local_steps(2.0, 1000).round(1)
        np.float64(79.4)

    Source: docs/theory/fu.md#planner; the paper omits the constant and takes the power for z <= 1 too
        (docs/theory/fu.md#errata).
    """
    alpha = best_growth(exponent)
    factor = ((exponent - 1) / 2) ** (1 - alpha) if alpha else 1.0
    return factor * np.asarray(total_iterations, float) ** alpha


@dataclass(frozen=True)
class Convergence:
    """How the bound goes as T grows and E grows like T^alpha.

    Attributes:
        verdict: `converges` to 0, stays `bounded`, or `diverges`.
        rate: r, with bound ~ T^r.
        growth: alpha.
    """

    verdict: Literal["converges", "bounded", "diverges"]
    rate: float
    growth: float

    def __str__(self) -> str:
        """In words."""
        if self.verdict == "bounded":
            return "stays bounded and does not converge"
        return f"{'converges to 0' if self.rate < 0 else 'diverges'} like {power('T', self.rate)}"


def convergence(exponent: float, growth: float = 0.0) -> Convergence:
    """Whether the bound converges for noise that grows like T_g^z, and at what rate.

    With E ~ T^alpha the drift (G > 0) gives T^(2 alpha - 1) and the noise
    E^(1-z) T^(z-1) = T^((1 - alpha)(z - 1)), of which the larger remains:

        E fixed:                z < 1 converges like T^(z-1), z = 1 bounded, z > 1 diverges like T^(z-1)
        E ~ T^(z/(z+1)), z > 1: diverges like T^((z-1)/(z+1)), which no other growth beats

    Args:
        exponent: z in [0, 2].
        growth: alpha in [0, 1]; 0 keeps E fixed.

    Raises:
        InvalidInput: z or alpha out of range.

    Example:
        >>> print(convergence(2.0), "|", convergence(2.0, 2 / 3), "|", convergence(0.5))
        diverges like T | diverges like T^0.333 | converges to 0 like T^-0.5

    Source: docs/theory/fu.md#planner, docs/theory/fu.md#errata; Fu et al., Theorems 4 and 5, corrected.
    """
    z, alpha = check_exponent(exponent), check.non_negative("growth", growth).item()
    if alpha > 1:
        raise InvalidInput(f"growth must lie in [0, 1], got {alpha:g}; E = T^1 is a single upload")
    rate = max(2 * alpha - 1, (1 - alpha) * (z - 1))
    if rate == 0:
        return Convergence("bounded", 0.0, alpha)
    return Convergence("converges" if rate < 0 else "diverges", rate, alpha)


def convergence_statement(exponent: float) -> str:
    """What more iterations bring for this z, in a sentence: with E fixed, and with E growing as it should.

    Example:
        >>> convergence_statement(1.0)
        'As T grows with E fixed, the bound stays bounded and does not converge; no growth of E does better.'
        >>> print(convergence_statement(2.0))  # doctest: +ELLIPSIS
        As T grows with E fixed, the bound diverges like T; with E growing like T^0.667, ... like T^0.333: ...
    """
    fixed, grown = convergence(exponent), convergence(exponent, best_growth(exponent))
    said = f"As T grows with E fixed, the bound {fixed}"
    if grown.growth == 0:
        return f"{said}; no growth of E does better."
    law = f"with E growing like {power('T', grown.growth)}, the best law, it {grown}"
    return f"{said}; {law}: some finite T is best."


def power(base: str, exponent: float) -> str:
    """A power in words.

    Example:
        >>> power("T", 1.0), power("T", 2 / 3)
        ('T', 'T^0.667')
    """
    return base if exponent == 1 else f"{base}^{exponent:.3g}"
