"""What a training over a network leaves in its record, with types."""

from pydantic import ConfigDict

from noiseworthy.data.terms import OwnerTerms
from noiseworthy.studies.typed_parts import Part


class RoundPart(Part):
    """What came of a round over a network; an empty answer is an upload that arrived."""

    number: int
    answers: dict[str, str]
    seconds: float


class OwnerPart(OwnerTerms):
    """What an owner told of its terms and its ledger after a training."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)

    head: str
    spent: float
    leased: float = 0.0


class NetworkPart(Part):
    """What owners did and told."""

    run: str
    late: int = 0
    ended: str = ""
    rounds: list[RoundPart]
    owners: list[OwnerPart]
