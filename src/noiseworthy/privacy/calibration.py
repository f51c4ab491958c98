"""The least noise that a budget allows for a planned number of uploads.

Calibration rounds toward privacy and asks the accountant again before it answers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy import _validate as check
from noiseworthy.errors import InvalidInput, UnsoundClaim
from noiseworthy.privacy.accountants import spent_epsilon
from noiseworthy.privacy.amplification import check_sampling
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.gaussian_epsilon import SMALLEST_EPSILON
from noiseworthy.privacy.mechanisms import Family, law_of
from noiseworthy.privacy.releases import Release
from noiseworthy.privacy.sensitivity import Sensitivity
from noiseworthy.privacy.trust import Sharing


def unit_noise(
    family: Family, budget: PrivacyBudget, releases: ArrayLike, sampling_rate: float = 1.0, *,
    settled: bool = True,
) -> NDArray[np.float64]:  # fmt: skip
    """Noise size per unit of sensitivity that pays for k_i uploads of client i.

        Gaussian: sqrt(k) s(epsilon, delta)      Laplace, delta = 0: k / epsilon
        Laplace with a delta, and Poisson batches: root of the privacy loss distribution

    Args:
        family: name of a mechanism.
        budget: (epsilon_i, delta_i), shape (N,).
        releases: planned uploads k_i, at least 1, shape (N,) or one for all.
        sampling_rate: 1 for full batches, q for Poisson batches.
        settled: False takes some tenths of a percent too much noise for Poisson batches, for pictures.

    Returns:
        Standard deviation or scale for sensitivity 1, shape (N,).

    Example:
        >>> unit_noise("laplace", PrivacyBudget.of([1.0, 5.0], 0.0, 2), 10)
        array([10.,  2.])
    """
    law = law_of(family)
    used = check.counts("releases", check.per_client("releases", releases, budget.clients)).astype(float)
    check_sampling(sampling_rate, family, budget.relation)
    least = np.where(budget.delta > 0, SMALLEST_EPSILON, 0.0)
    if law.noisy and (few := budget.epsilon[budget.epsilon < least]).size:
        raise InvalidInput(f"epsilon must be at least {max(least):g} with a delta, got {few[0]:g}; use more")
    return law.analysis.unit_noise(budget, used, sampling_rate, settled)


def calibrate(
    family: Family, sensitivity: Sensitivity, budget: PrivacyBudget, releases: ArrayLike,
    sampling_rate: float = 1.0,
) -> Release:  # fmt: skip
    """The release with the least noise that keeps every client within its budget.

    Args:
        family: name of a mechanism.
        sensitivity: of one upload, per client, in the norm of the family.
        budget: (epsilon_i, delta_i) under the same relation.
        releases: planned uploads k_i, shape (N,) or one for all.
        sampling_rate: 1 for full batches, q for Poisson batches.

    Returns:
        A `Release` whose exact cost after k_i uploads is at most the budget.

    Raises:
        UnsoundClaim: sensitivity and budget under different relations, or a claim without proof.

    Guarantee: `spent_epsilon(release, releases, delta) <= epsilon`, checked here by the accountant;
    the noise exceeds the least possible by at most 0.1 %, or by more where epsilon is below 0.001 and Laplace
    noise has a delta.
    """
    if sensitivity.relation != budget.relation:
        raise UnsoundClaim(
            f"sensitivity is {sensitivity.relation}, the budget {budget.relation}; use one relation for both"
        )
    if sensitivity.unit != budget.unit:
        raise UnsoundClaim(
            f"sensitivity is of a {sensitivity.unit}, the budget of a {budget.unit}; use one unit for both"
        )
    law, size = law_of(family), sensitivity.value * unit_noise(family, budget, releases, sampling_rate)
    if not law.noisy:
        return Release(law.noise(size), sensitivity)
    return _confirmed(Release(law.noise(size), sensitivity, sampling_rate), releases, budget)


def shared(alone: Release, sharing: Sharing, releases: ArrayLike, budget: PrivacyBudget) -> Release:
    """The same uploads with as little noise as their sum needs, where only sums are seen.

    Args:
        alone: each upload with the noise that it needs by itself, from `calibrate`.
        sharing: how noises add up in the sum.
        releases: planned uploads k_i, shape (N,) or one for all.
        budget: (epsilon_i, delta_i) of every client.

    Guarantee: as `calibrate`, for the fewest uploads that meet in a sum. The client that binds spends its
    whole budget, to 0.1 %.

    Source: docs/theory/trust.md#shares.
    """
    law = alone.mechanism.law
    if not law.noisy:
        return alone
    size = sharing.shares(alone.mechanism.size, law)
    release = replace(alone, mechanism=law.noise(size), sharing=sharing)
    return _confirmed(release, releases, budget)


def _confirmed(release: Release, releases: ArrayLike, budget: PrivacyBudget) -> Release:
    """A release that the accountant allows, with a last bit more noise where that takes one."""
    law = release.mechanism.law
    for tried in range(16):
        over = spent_epsilon(release, releases, budget.delta) > budget.epsilon
        if not np.any(over):
            return release
        more = over if release.sharing is None else np.any(over)  # what a sum lacks, everybody adds
        size = release.mechanism.size  # the last bits of a division; of a tiny epsilon up to 1e-5 of it
        size = np.where(more, size * (1 + 1e-12 * 10.0 ** max(tried - 7, 0)), size)
        release = replace(release, mechanism=law.noise(size))
    raise UnsoundClaim(
        "clients asked in secret that differ in both budget and weight are more than are counted one by one; "
        "use one epsilon and delta for all"
        if release.sampled_clients
        else "calibration could not be confirmed by the accountant; please report this budget"
    )
