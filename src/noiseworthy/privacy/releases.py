"""What one upload of every client is, before anybody adds up what it costs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from noiseworthy import _validate as check
from noiseworthy.errors import UnsoundClaim
from noiseworthy.privacy.mechanisms import Family, Mechanism, law_of
from noiseworthy.privacy.sensitivity import Sensitivity

if TYPE_CHECKING:
    from noiseworthy.privacy.trust import Sharing

LEFT_OUT_IF_DEFAULT = {"left_out_if_default": True}
"""Of a field that plan files lack where it says nothing, so that plans without it keep their digest."""


@dataclass(frozen=True)
class Release:
    """One upload of every client: its noise, what a record can change in it, and how records enter.

    Attributes:
        mechanism: the noise on the mean gradient, per client.
        sensitivity: of the mean gradient, in the norm of the mechanism.
        sampling_rate: 1 for full batches; q for fresh Poisson batches with divisor q n.
        sharing: how the noises of a cohort add up before anybody sees them; None where each upload is seen.

    Raises:
        UnsoundClaim: noise and sensitivity in different norms or for different sampling rates, or
            Poisson batches outside the conditions under which amplification is proved.
    """

    mechanism: Mechanism
    sensitivity: Sensitivity
    sampling_rate: float = 1.0
    sharing: Sharing | None = field(default=None, metadata=LEFT_OUT_IF_DEFAULT)

    def __post_init__(self):
        if self.mechanism.law.noisy and self.mechanism.norm != self.sensitivity.norm:
            raise UnsoundClaim(
                f"{self.mechanism.family} noise needs an {self.mechanism.norm} sensitivity, "
                f"got {self.sensitivity.norm}; clip records in {self.mechanism.norm}"
            )
        if self.sampling_rate != self.sensitivity.sampling_rate:
            raise UnsoundClaim(
                f"the sensitivity divides by {self.sensitivity.sampling_rate:g} n, the batches take a share "
                f"{self.sampling_rate:g} of the records; use one sampling_rate for both"
            )
        check_sampling(self.sampling_rate, self.mechanism.family, self.sensitivity.relation)

    @property
    def hiding(self) -> NDArray[np.float64]:
        """Noise that hides a record of each client, in units of its own upload, shape (N,).

        That of the upload itself, or of the fewest uploads that a sum hides it among.
        """
        size = self.mechanism.size
        return size if self.sharing is None else self.sharing.hiding(size, self.mechanism.law)

    @property
    def shift(self) -> NDArray[np.float64]:
        """Sensitivity over what hides it: mu of one Gaussian upload, epsilon of one Laplace upload."""
        return self.sensitivity.value / self.hiding


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
