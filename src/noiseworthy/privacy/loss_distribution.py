"""Privacy loss distributions of Poisson batches through dp-accounting, behind one door.

The library is asked only about sensitivity 1 under add-or-remove, because it disagrees with itself
about replace-one; sensitivity and relation are handled by `Sensitivity`. The grid is kept fine
relative to one release, and an answer that moves when the grid is halved is refused.

It composes by fast Fourier transforms, which leave rounding of some 1e-17 for every release in a tail. A
delta of that size is not resolved: the library then says too little (6 % at delta 1e-13 after 100,000
releases). Ten times the rounding is taken off delta, and a delta below a hundred times that is refused.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from noiseworthy.errors import InvalidInput, UnsoundClaim

if TYPE_CHECKING:
    from dp_accounting.pld.pld_pmf import PLDPmf
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
    from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss

_FIRST_GRID = 2e-4  # halved at least once before an answer is given
_COARSE_GRID, _PAIRS = 1e-3, 100  # of a profile; losses are rounded up on any grid
_ROUGH_GRID = 1e-2  # of a figure, likewise
_TRUST = 1e-3
_SMALLEST_DELTA = 1e-14  # the library's tails are cut at 1e-15 and counted as certain loss
_ROUNDING = 1e-16  # of a tail, for every release
_LEAST_GRID = 1e-15  # for every release: masses round by some 1e-13 / grid, which compose to e^100 here
_MOST_POINTS = 2_000_000
"""Of a distribution: some seconds and a gigabyte for each of the dozen that a calibration asks for."""


@lru_cache(maxsize=65536)
def poisson_gaussian_epsilon(
    ratio: float, sampling_rate: float, releases: int, delta: float, *, settled: bool = True
) -> float:
    """Epsilon at `delta` of Gaussian releases over fresh Poisson batches, under add-or-remove.

    Args:
        ratio: clip / std of the noise on the sum of clipped gradients, one release.
        sampling_rate: probability q that a record enters a batch.
        releases: number of uploads k.
        delta: in (0, 1).
        settled: whether the grid is refined until the answer stays; one coarse grid, for pictures, is some
            tenths of a percent above that and takes a tenth of the time.

    Returns:
        An upper bound on epsilon for both removal and addition.

    Raises:
        InvalidInput: a delta below 1e-14 for each release, which the distribution's tails do not resolve, or
            a sampling rate or ratio whose distribution has too many points.

    Source: docs/theory/accounting.md#subsampled-records; dominating pair of Zhu, Dong & Wang 2022.
    """
    if delta < (low := releases * _SMALLEST_DELTA):
        raise InvalidInput(
            f"delta must be at least {low:g} for {releases} Poisson batches, got {delta:g}; use full batches"
        )

    def at(grid: float) -> float:
        _check_size(ratio, sampling_rate, grid)
        if grid < (finest := releases * _LEAST_GRID):
            raise InvalidInput(
                f"noise of {releases} Poisson batches must be at most {grid / finest / ratio:.2g} times "
                f"what a record changes, got {1 / ratio:.2g}; use less noise, fewer batches, or full ones"
            )
        one = poisson_gaussian_loss(ratio, sampling_rate, grid)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # off delta, not onto epsilon: in a tail rounding is absolute, whatever epsilon it is read at
            return float(one.self_compose(releases).get_epsilon_for_delta(delta - releases * _ROUNDING))

    one_release = sampling_rate * ratio
    return _trusted(at, one_release) if settled else at(min(_ROUGH_GRID, one_release / 20))


def _check_size(ratio: float, sampling_rate: float, grid: float) -> None:
    """Refuse a distribution that takes minutes or more memory than there is."""
    points = (ratio**2 / 2 + 8 * ratio) / grid  # losses up to 8 standard deviations of the noise
    if points > _MOST_POINTS:
        raise InvalidInput(
            f"Poisson batches of sampling_rate = {sampling_rate:g} take a privacy loss distribution of "
            f"{points:.2g} points here, which must be at most {_MOST_POINTS:.2g}; raise sampling_rate, lower "
            "epsilon, or use full batches (sampling_rate = 1)"
        )


def poisson_gaussian_profile(
    ratio: float, sampling_rate: float, releases: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Pairs of epsilon and delta of Gaussian releases over fresh Poisson batches, under add-or-remove.

    Args:
        ratio: clip / std of the noise on the sum of clipped gradients, one release.
        sampling_rate: q.
        releases: number of uploads k.

    Returns:
        epsilon from 0 upwards, until delta is a millionth, and an upper bound on delta for both removal and
        addition.
    """
    grid = min(_COARSE_GRID, sampling_rate * ratio / 20)
    one = poisson_gaussian_loss(ratio, sampling_rate, grid)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = one.self_compose(releases)
        epsilon = np.linspace(0.0, float(whole.get_epsilon_for_delta(1e-6)), _PAIRS)
        delta = np.asarray(whole.get_delta_for_epsilon(epsilon.tolist()), float)
    return epsilon, np.minimum(delta + 10 * releases * _ROUNDING, 1.0)


def poisson_gaussian_loss(ratio: float, sampling_rate: float, grid: float) -> PrivacyLossDistribution:
    """Of one Gaussian release over a Poisson batch, in steps of a grid to which losses are rounded up."""
    from dp_accounting.pld import pld_pmf, privacy_loss_mechanism  # here: they take a second to import
    from dp_accounting.pld import privacy_loss_distribution as library

    if sampling_rate == 1.0:
        return library.from_gaussian_mechanism(1 / ratio, value_discretization_interval=grid)

    def one_way(adjacency: AdjacencyType) -> PLDPmf:
        release = privacy_loss_mechanism.GaussianPrivacyLoss(
            1 / ratio, sampling_prob=sampling_rate, adjacency_type=adjacency
        )
        ends: Any = release.connect_dots_bounds()
        low, high = math.floor(ends.epsilon_lower / grid), math.ceil(ends.epsilon_upper / grid)
        deltas = _deltas(release, np.arange(low, high + 1) * grid)
        return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(grid, low, high, deltas)

    ways = privacy_loss_mechanism.AdjacencyType
    return library.PrivacyLossDistribution(one_way(ways.REMOVE), one_way(ways.ADD))


def _deltas(release: GaussianPrivacyLoss, epsilon: NDArray[Any]) -> NDArray[Any]:
    """Of many epsilons at once, in a seventh of the time that the library takes to invert losses one by one.

    A batch's loss exceeds epsilon where a full one's, of a record removed, exceeds log(1 + (e^s - 1) / q) or,
    of one added, falls below minus that; s = epsilon or -epsilon. At s <= log(1 - q) it does, or never.
    """
    removed = release.adjacency_type.name == "REMOVE"
    q, signed = release.sampling_prob, epsilon if removed else -epsilon
    delta = -np.expm1(epsilon) if removed else np.zeros_like(epsilon)
    there = signed > math.log1p(-q)
    scaled = signed[there] + np.log(1 / q)
    with np.errstate(divide="ignore"):
        full = scaled + np.log1p(-np.exp(np.minimum(np.log(1 / q - 1) - scaled, 0.0)))
    full[signed[there] == 0.0] = np.log(1 / q + (1 - 1 / q))  # as the library rounds it
    shift = full * release.standard_deviation**2
    ends = -0.5 - shift if removed else 1.0 + (shift - 0.5)
    delta[there] = release.mu_upper_cdf(ends) - np.exp(epsilon[there] + release.mu_lower_log_cdf(ends))
    return np.clip(delta, 0.0, 1.0)


def _trusted(epsilon_at: Callable[[float], float], one_release: float) -> float:
    """The answer on a grid fine enough that halving it moves the answer by less than 0.1 %."""
    # far finer than the loss of one release, which a grid as wide would round up to a whole step
    grid = min(_FIRST_GRID, one_release / 200)
    coarse = epsilon_at(grid)
    for _ in range(3):
        grid /= 2
        fine = epsilon_at(grid)
        # no absolute value: losses are rounded up on every grid, so that both are bounds and fine <= coarse
        if coarse - fine <= _TRUST * fine:
            return fine
        coarse = fine
    raise UnsoundClaim(
        f"the privacy loss distribution has not settled at grid {grid:g} (epsilon {coarse:g}); "
        "use fewer releases or more noise"
    )
