"""What all owners of a round agree on before they send anything, and what of it can be sound."""

import hashlib
import math
from dataclasses import asdict, dataclass
from functools import cached_property

from noiseworthy import _validate as check
from noiseworthy.deploy.gateway import wire
from noiseworthy.errors import InvalidInput
from noiseworthy.privacy.trust import Trust

MOST_OWNERS = 1000
MOST_COORDINATES = 2**24
REACH = 40
"""Deviations of noise that a sum has room for."""


@dataclass(frozen=True)
class Terms:
    """One round of a secure sum.

    Attributes:
        run: by name.
        round: counted upwards within the run; a round that is tried again has another number.
        roster: digest of the owners' names and keys.
        cohort: names of the owners who are asked, sorted.
        colluders: t, owners who may hand the server all they know.
        dropouts: d, owners who may be missing.
        coordinates: p, of every upload.
        exponent: of the grid, whose steps are 2^exponent.
        clipped: the largest coordinate of an upload before its noise, in steps of the grid.
        deviation: of the noise in the sum of all owners, in steps of the grid.
        subject: digest of what the owners are asked to compute.
        share: deviation of the noise that every owner adds at least, in steps; 0 where none counts on others.

    Guarantee: sums modulo 2^64 are read as they are, but for noise beyond 40 deviations.
    """

    run: str
    round: int
    roster: str
    cohort: tuple[str, ...]
    colluders: int
    dropouts: int
    coordinates: int
    exponent: int
    clipped: int
    deviation: float
    subject: str
    share: float = 0.0

    def __post_init__(self):
        check.count("round", self.round, most=2**62)
        check.count("owners of a secure sum", len(self.cohort), least=2, most=MOST_OWNERS)
        self.trust.check_cohort(len(self.cohort))
        if list(self.cohort) != sorted(set(self.cohort)):
            raise InvalidInput("the cohort of a secure sum must be different names in their order; sort them")
        check.count("coordinates", self.coordinates, most=MOST_COORDINATES)
        check.count("exponent", self.exponent, least=-1000, most=1000)
        check.non_negative("share", self.share)
        check_range(len(self.cohort), self.clipped, self.deviation)

    @property
    def trust(self) -> Trust:
        """Who sees what in the round."""
        return Trust("secure-sum", self.colluders, self.dropouts)

    @property
    def threshold(self) -> int:
        """Owners who must sign the list of survivors, and who can open a secret together.

        So many that no two lists can get them: they would need 2 threshold > b + t signatures, and each of
        the b - t honest owners signs one.
        """
        return self.trust.threshold(len(self.cohort))

    @property
    def fewest(self) -> int:
        """Survivors with fewer than whom nothing is opened: noise is sized for so many."""
        return len(self.cohort) - self.dropouts

    @property
    def table(self) -> dict[str, object]:
        """As messages carry it."""
        return asdict(self)

    @cached_property
    def digest(self) -> bytes:
        """Bound into every signature and key of the round."""
        return hashlib.sha256(wire.pack(["noiseworthy secure sum 1", self.table])).digest()

    def place(self, owner: str) -> int:
        """Where an owner stands in the cohort, from 1: the place of its secret shares."""
        return self.cohort.index(owner) + 1


def check_range(owners: int, clipped: int, deviation: float) -> None:
    """Refuse sums that may pass 2^63 steps, where they could no longer be read.

    Args:
        owners: who are summed.
        clipped: the largest coordinate of one upload before its noise, in steps.
        deviation: of the noise in the sum, in steps.

    Raises:
        InvalidInput: no room for all of it and 40 deviations.
    """
    check.count("clipped", clipped, least=0, most=2**62)
    deviation = check.non_negative("deviation", deviation).item()
    if owners * clipped + math.ceil(REACH * deviation) >= 2**63:
        raise InvalidInput(
            f"a sum of {owners} uploads of up to {clipped} steps with noise of {deviation:g} may pass 2^63 "
            "steps; take a coarser grid"
        )
