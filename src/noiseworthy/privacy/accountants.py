"""What a schedule costs: from noise, sensitivity and releases to the exact epsilon of every client."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from noiseworthy import _validate as check
from noiseworthy._validate import Real
from noiseworthy.errors import UnsoundClaim
from noiseworthy.privacy.releases import Release

_FEW = 16
"""Distinct shifts that a privacy loss distribution is made for where whole clients are sampled."""


def spent_epsilon(release: Release, releases: ArrayLike, delta: ArrayLike) -> Real:
    """Exact epsilon that each client has spent after its uploads.

    Gaussian full batch: closed form. Laplace with delta 0: basic composition k shift. Laplace with a
    delta: law of the privacy loss. Poisson batches: privacy loss distribution.

    Args:
        release: what one upload is.
        releases: uploads k_i so far, whole numbers of at least 0, shape (N,) or one for all.
        delta: delta_i, shape (N,) or one for all; 0 means pure epsilon.

    Returns:
        epsilon_i, shape (N,); 0 without uploads, infinite without noise. Where a server asks in secret and
        many clients are moved differently, an upper bound but for those that are moved most.

    Example:
        >>> from noiseworthy.privacy.mechanisms import Laplace
        >>> from noiseworthy.privacy.sensitivity import of_mean_gradient
        >>> upload = Release(Laplace(np.array([0.1])), of_mean_gradient(300.0, [6000], "l1"))
        >>> spent_epsilon(upload, 3, 0.0)
        array([3.])
    """
    law, clients = release.mechanism.law, len(release.sensitivity.value)
    each = check.per_client("delta", delta, clients)
    delta = check.in_unit_interval("delta", each, closed_left=not law.needs_delta)
    used = check.counts("releases", check.per_client("releases", releases, clients), least=0)
    if not law.noisy:
        return np.where(used > 0, np.inf, 0.0)
    # alone, clients are of as many kinds as budgets, each of which its own noise binds: none is rounded up
    in_sums = release.sampled_clients and release.sharing is not None
    shift = _of_few(release.shift) if in_sums else release.shift
    return law.analysis.spent(shift, used, delta, release.sampling_rate)


def _of_few(shift: Real) -> Real:
    """Shifts, each distinct one of which takes a privacy loss distribution: of many, the next of a few.

    Example:
        >>> _of_few(np.array([0.5, 0.25])), len(np.unique(_of_few(np.linspace(0.1, 1.0, 1000))))
        (array([0.5 , 0.25]), 16)
    """
    if len(np.unique(shift)) <= _FEW:
        return shift
    knots = np.geomspace(shift.min(), shift.max(), _FEW)
    knots[-1] = shift.max()
    # up, never down: a release with a smaller shift is one with a larger, processed
    return knots[np.searchsorted(knots[:-1], shift)]


def spent_with_pilot(
    pilot: Sequence[tuple[Release, ArrayLike]], release: Release | None, releases: ArrayLike, delta: Real
) -> Real:
    """Exact epsilon after a pilot and then `releases` uploads of the same family, full batches.

    Gaussian: mu^2 is the sum of k shift^2 over all. Laplace: the pilot's pure epsilon plus the cost of the
    rest.

    Args:
        pilot: each kind of release in it, and how often each client made it.
        release: what one upload is afterwards; None if there is none.
        releases: uploads k_i, shape (N,).
        delta: delta_i, shape (N,).
    """
    if not pilot[0][0].mechanism.law.pure:
        return composed_epsilon([*pilot, *([] if release is None else [(release, releases)])], delta)
    before = np.sum([np.asarray(k) * one.shift for one, k in pilot], axis=0)
    return before + (0.0 if release is None else spent_epsilon(release, releases, delta))


def composed_epsilon(parts: Sequence[tuple[Release, ArrayLike]], delta: Real) -> Real:
    """Exact epsilon of several trainings on the same records, each of one family with full batches.

    Gaussian: mu^2 = sum over trainings of k shift^2. Laplace with delta 0: the sum of k shift.

    Args:
        parts: what one upload of a training is, and the uploads k_i of each client.
        delta: delta_i of each client for all of them together, shape (N,).

    Returns:
        epsilon_i, shape (N,).

    Raises:
        UnsoundClaim: other noise, mixed noise, units or relations, or Poisson batches.

    Example:
        >>> from noiseworthy.privacy.mechanisms import Gaussian
        >>> from noiseworthy.privacy.sensitivity import of_mean_gradient
        >>> upload = Release(Gaussian(np.array([0.1])), of_mean_gradient(1.0, [100], "l2"))
        >>> bool(composed_epsilon([(upload, 3), (upload, 6)], 1e-5) == spent_epsilon(upload, 9, 1e-5))
        True

    Source: Dong, Roth & Su 2022, Corollary 3.3; basic composition.
    """
    if not composes(parts, delta):
        raise UnsoundClaim(
            "trainings compose in closed form where all add Gaussian noise, or all Laplace noise with "
            "delta 0, to full batches for one unit and relation; account for each of them alone"
        )
    currency = parts[0][0].mechanism.law.paid_in.analysis
    amount = np.sum([np.asarray(k) * currency.amount(release.shift) for release, k in parts], axis=0)
    return currency.epsilon(amount, delta)


def composes(parts: Sequence[tuple[Release, ArrayLike]], delta: ArrayLike) -> bool:
    """Whether `composed_epsilon` knows the cost of several trainings together."""
    kinds = {(one.mechanism.family, one.sensitivity.unit, one.sensitivity.relation) for one, _ in parts}
    full = all(release.sampling_rate == 1.0 for release, _ in parts)
    law = parts[0][0].mechanism.law if len(kinds) == 1 and full else None
    return law is not None and law.noisy and law.analysis.closed_form(1.0, delta)
