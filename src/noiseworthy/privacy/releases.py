"""What one upload of every client is, before anybody adds up what it costs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from noiseworthy.errors import UnsoundClaim
from noiseworthy.privacy.mechanisms import Mechanism
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
        sampling_rate: 1 for full batches; q for fresh Poisson batches with divisor q n, and for clients that
            a trusted server asks in secret, each with probability q.
        sharing: how the noises of a cohort add up before anybody sees them; None where each upload is seen.

    Raises:
        UnsoundClaim: noise and sensitivity in different norms or for different sampling rates, or
            Poisson batches or cohorts outside the conditions under which amplification is proved.
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
        if not self.sampled_clients and self.sampling_rate != self.sensitivity.sampling_rate:
            raise UnsoundClaim(
                f"the sensitivity divides by {self.sensitivity.sampling_rate:g} n, the batches take a share "
                f"{self.sampling_rate:g} of the records; use one sampling_rate for both"
            )
        if self.sampling_rate != 1.0:
            from noiseworthy.privacy.amplification import check_sampled  # here, since no gateway samples

            check_sampled(self)

    @property
    def sampled_clients(self) -> bool:
        """Whether it is whole clients that enter by a coin, in secret, and not records a batch."""
        return self.sampling_rate < 1 and self.sensitivity.unit == "client"

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
