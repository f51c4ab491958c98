"""The parts of a record that say what owners did over a network, and what they reach at home."""

from pydantic import ConfigDict, Field

from noiseworthy.data.terms import OwnerTerms
from noiseworthy.privacy.budget import Row
from noiseworthy.studies.typed_parts import Number, Part


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
    scored: float = 0.0


class OwnersScore(Part):
    """What one owner's held-out records say of the model, noised.

    Attributes:
        records: that it holds out, or persons.
        score, deviation: as those of `privacy.scores.Scored`.
    """

    client: str
    records: int
    score: float
    deviation: float


class FoundClass(Part):
    """How much of a class the model finds, of two: `share` of all records, `found` of those of the class."""

    label: str
    share: float
    found: float
    deviation: float


class ScorePart(Part):
    """What owners told of the model, records counting alike but where their owner's noise is loud.

    Attributes:
        score, deviation: as of one owner.
        reach: what errors are told up to, where numbers are predicted; 0 for classes.
        owners: that told, each by itself.
        classes: of two classes, those whose share noise leaves known.
        row: what owners held out and counted.
    """

    score: float
    deviation: float
    reach: float = 0.0
    owners: list[OwnersScore]
    classes: list[FoundClass] = Field(default_factory=list)
    row: Row = "record"

    @property
    def records(self) -> int:
        """Held-out records, or persons, of all who told."""
        return sum(one.records for one in self.owners)


class NetworkPart(Part):
    """What owners did and told."""

    run: str
    late: int = 0
    ended: str = ""
    rounds: list[RoundPart]
    owners: list[OwnerPart]
    score: ScorePart | None = None


class CandidatePart(Part):
    """What owners reach with one candidate on their own test records; nothing of owners without any.

    Attributes:
        overall: score on the test records of all owners.
        scores: of each owner.
        least: limits of these, at 95 % for each owner by itself; `most` likewise.
    """

    overall: Number
    scores: list[Number]
    least: list[Number]
    most: list[Number]


class HomePart(Part):
    """What owners reach at home, where nothing is noised and nothing leaves.

    Attributes:
        seed: of the shared model.
        tests: test records of each owner.
        named: whether the data say whose they are; else they are dealt by their labels.
        alone: own models.
        shared: the shared model as it is.
        tuned: the shared model tuned by each owner.
        gains: tuned less alone; `gains_least` and `gains_most` are its limits.
        error_alone: standard error of tuned less alone on all test records, of owners that are drawn;
            `error_shared` of tuned less shared, `error_of_shared` of shared less alone.
        seconds: that it took.
    """

    seed: int
    tests: list[int]
    named: bool
    alone: CandidatePart
    shared: CandidatePart
    tuned: CandidatePart
    gains: list[Number]
    gains_least: list[Number]
    gains_most: list[Number]
    error_alone: Number
    error_shared: Number
    error_of_shared: Number = None
    seconds: float

    @property
    def candidates(self) -> dict[str, CandidatePart]:
        """All three by name."""
        return {"alone": self.alone, "shared": self.shared, "tuned": self.tuned}
