"""The record of an audit with a type: what `audit.json` holds, under the keys that it has there."""

from typing import Literal

from noiseworthy.privacy.budget import Relation, Unit
from noiseworthy.privacy.uploads import Assurance
from noiseworthy.studies.typed_parts import Number, OrInfinite, Part

AUDIT_VERSION = 1
"""Of the layout; records from before it was stated have the same."""


class FoundPart(Part):
    """One check: whether nothing speaks against the claim, and what was found, in a sentence."""

    name: str
    passed: bool
    says: str


class ProvenPart(Part):
    """Claim and proof of a client under attack."""

    client: int
    claimed_epsilon: OrInfinite
    proven_epsilon: OrInfinite


class ResidualsPart(Part):
    """Whether noise has its planned size and law."""

    p_value: float
    ratio: Number
    worst: Number
    where: str
    count: int


class ReplayPart(Part):
    """Whether any noise came twice."""

    p_value: float
    correlation: Number
    where: str
    repeated: int


class ScoresPart(Part):
    """How often each score of the attacker came in both worlds, between edges of one more."""

    edges: list[float]
    absent: list[float]
    present: list[float]


class ReachedPart(Part):
    """Errors of the attacker at its own thresholds."""

    false_alarms: list[float]
    misses: list[float]


class RatesPart(Part):
    """Misses that each rate of false alarms leaves: as claimed, as proven, and as the attacker reached."""

    rates: list[float]
    claimed: list[float]
    proven: list[float]
    attacker: ReachedPart


class AuditedPart(Part):
    """One training under attack."""

    name: str
    rounds: int
    client: int
    delta: float
    claimed_epsilon: OrInfinite
    proven_epsilon: OrInfinite
    family_free_epsilon: OrInfinite
    exposed_epsilon: OrInfinite
    trials: int
    errors: int
    subjects: int
    seconds: float
    proven: list[ProvenPart]
    checks: list[FoundPart]
    residuals: ResidualsPart
    replay: ReplayPart
    scores: ScoresPart
    curves: RatesPart


class AuditRecord(Part):
    """What an audit of a plan measured."""

    record_version: Literal[1] = AUDIT_VERSION
    name: str
    version: str
    algorithm: str
    mechanism: str
    unit: Unit
    relation: Relation
    adversary: str
    assurance: Assurance
    clients: int
    passed: bool
    verdict: str
    confidence: float
    false_alarm: float
    trainings: list[AuditedPart]
    run: list[FoundPart]
    seconds: float
