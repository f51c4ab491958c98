"""The only list of mechanisms."""

from __future__ import annotations

from noiseworthy import _validate as check
from noiseworthy.privacy.mechanisms import gaussian, laplace, none
from noiseworthy.privacy.mechanisms.base import Family, Law

LAWS: dict[Family, Law] = {one.LAW.name: one.LAW for one in (laplace, gaussian, none)}
"""By name, in the order in which they are offered."""


def law_of(name: Family) -> Law:
    """The law of a name.

    Raises:
        InvalidInput: a name that no mechanism has.

    Example:
        >>> law_of("laplace").variance_factor, law_of("gaussian").size_words
        (2, ('std', 'standard deviation'))
    """
    return LAWS[check.one_of("mechanism", name, names())]


def names() -> tuple[Family, ...]:
    """Of all mechanisms.

    Example:
        >>> names()
        ('laplace', 'gaussian', 'none')
    """
    return tuple(LAWS)


def noisy_names() -> tuple[Family, ...]:
    """Of those that add noise.

    Example:
        >>> noisy_names()
        ('laplace', 'gaussian')
    """
    return tuple(name for name, law in LAWS.items() if law.noisy)


def deployed_names() -> list[Family]:
    """Of those whose noise on a grid owners can really draw, sorted.

    Example:
        >>> deployed_names()
        ['gaussian', 'laplace']
    """
    return sorted(name for name, law in LAWS.items() if law.grid is not None)


def delta_misfit(name: Family, delta: float) -> str:
    """Why a lifetime budget with this delta cannot be added up in a law's currency; empty if it can.

    Example:
        >>> delta_misfit("laplace", 1e-5)
        'delta must be above 0 for gaussian noise and 0 for laplace, got 1e-05 for laplace'
    """
    if law_of(name).needs_delta == (delta > 0):
        return ""
    above, pure = (
        " or ".join(sorted(one for one in noisy_names() if LAWS[one].needs_delta == needs))
        for needs in (True, False)
    )
    return f"delta must be above 0 for {above} noise and 0 for {pure}, got {delta:g} for {name}"
