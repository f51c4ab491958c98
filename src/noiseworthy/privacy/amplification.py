"""Where taking part by chance hides more: the only two cases that a proof covers, and all others refused.

Source: docs/theory/accounting.md#subsampled-records, docs/theory/trust.md#secret-cohorts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noiseworthy import _validate as check
from noiseworthy.errors import UnsoundClaim
from noiseworthy.privacy.mechanisms import Family, law_of

if TYPE_CHECKING:
    from noiseworthy.privacy.releases import Release


def check_sampled(release: Release) -> None:
    """Refuse a release of records or clients drawn by chance that no proof covers.

    Raises:
        InvalidInput, UnsoundClaim: as `check_sampling` and `check_secret_cohorts`.
    """
    family, hidden = release.mechanism.family, release.sensitivity
    check_sampling(release.sampling_rate, family, hidden.relation)
    if release.sampled_clients:
        check_secret_cohorts(family, hidden.relation, hidden.unit)


def check_secret_cohorts(family: Family, relation: str, unit: str) -> None:
    """Refuse amplification by secret cohorts where no proof gives it (docs/theory/trust.md#secret-cohorts).

    Raises:
        UnsoundClaim: noise that is not Gaussian, replace-one neighbours, or another unit than the client.
    """
    if not law_of(family).sampled:
        raise UnsoundClaim(
            f'cohorts = "secret" is accounted for Gaussian noise only, got {family}; use mechanism = '
            '"gaussian", or cohorts = "public"'
        )
    if unit != "client":
        raise UnsoundClaim(
            f'cohorts = "secret" hides whole clients, got a clip that hides one {unit}: where its client '
            f"takes part is seen by what else the client uploads; clip whole updates (mode D), or use "
            'cohorts = "public"'
        )
    if relation != "add-remove":
        raise UnsoundClaim(
            f'cohorts = "secret" is proved under add-remove neighbours only, got relation = "{relation}"; '
            'set relation = "add-remove", or cohorts = "public"'
        )


def check_sampling(sampling_rate: float, family: Family, relation: str) -> None:
    """Refuse amplification that no proof gives (docs/theory/accounting.md#subsampled-records).

    Raises:
        InvalidInput: a sampling rate outside (0, 1].
        UnsoundClaim: Poisson batches without Gaussian noise or under replace-one neighbours.
    """
    rate = check.positive("sampling_rate", sampling_rate)
    if rate > 1:
        check.one_of("sampling_rate", sampling_rate, [1.0], remedy="it is a probability in (0, 1]")
    if sampling_rate == 1.0:
        return
    if not law_of(family).sampled:
        raise UnsoundClaim(
            f"Poisson batches are accounted for Gaussian noise only, got {family}; use sampling_rate = 1"
        )
    if relation != "add-remove":
        raise UnsoundClaim(
            "Poisson batches are proved under add-remove neighbours only; "
            'set relation = "add-remove" or use full batches (sampling_rate = 1), which often need less noise'
        )
