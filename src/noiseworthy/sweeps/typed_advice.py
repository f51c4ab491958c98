"""The record of an advice with a type: what `advice.json` holds, under the keys that it has there."""

import math
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from noiseworthy.plans.plan import Steering
from noiseworthy.privacy.budget import Relation, Unit
from noiseworthy.privacy.trust import ADVERSARY
from noiseworthy.studies.typed_evidence import TrustOutcomePart
from noiseworthy.studies.typed_parts import Json, Number, Part

ADVICE_VERSION = 1
"""Of the layout; records from before it was stated have the same."""
OF_TUNED = "loss of tuned models"
"""What a study for its owners is ranked by."""
OrUnknown = Annotated[float, BeforeValidator(lambda value: math.nan if value is None else value)]
"""A number, NaN where None stands in its place: of trials that diverged."""


class BandsPart(Part):
    """Mean and bands of a quantity: over public data sets and seeds, and over the seeds of the mean."""

    mean: OrUnknown
    least: OrUnknown
    most: OrUnknown
    of_each_public: list[OrUnknown]
    seeds_least: OrUnknown
    seeds_most: OrUnknown
    standard_error: OrUnknown


class SettingPart(Part):
    """Counts, clip, step size and treatment of records of a plan, as far as its algorithm has them."""

    rounds: int | None = None
    clients_per_round: int | None = None
    iterations: int | None = None
    total_iterations: int | None = None
    local_steps: float | None = None
    communication_probability: Number = None
    clipping_mode: str | None = None
    clip_norm: Number = None
    clip: str = ""
    step_size: Number = None
    step_decay_rounds: Number = None
    momentum: Number = None
    averaging: Number = None
    weighting: Number = None
    steering: Steering | None = None
    shrinkage: Number = None
    label_weight: Number = None
    records: Json = None


class PromisedPart(Part):
    """Unit and budget of a plan, and what the client that is worst off spends."""

    unit: Unit
    relation: Relation
    spent_epsilon: float
    epsilon: float
    delta: float
    adversary: str = Field(default=ADVERSARY, exclude_if=lambda adversary: adversary == ADVERSARY)


class CostPart(Part):
    """What training costs the clients: fewest and most uploads, and bytes and local steps of the busiest."""

    uploads: list[int]
    all_uploads: int
    bytes: int
    local_steps: int
    resources: Number
    unit: str | None


class AdvisedPart(Part):
    """One algorithm with its best plan, and what it reached in trials."""

    name: str
    place: int
    train: bool
    same_as: str | None
    outcome: str
    plan: SettingPart
    loss: BandsPart
    accuracy: BandsPart
    privacy: PromisedPart
    cost: CostPart
    assumes: list[str]
    spread: OrUnknown
    trainings: int
    unfinished: bool


class LeftOutPart(Part):
    """An algorithm that did not enter."""

    name: str
    reason: str


class FlipPart(Part):
    """Along an axis from `low` to `high`, below and above which another algorithm does better."""

    axis: str
    below: float | None
    above: float | None
    low: float
    high: float


class CurvePart(Part):
    """A fitted bound along an axis; `inside` says where trials had as much noise."""

    axis: str
    x: list[float]
    loss: list[OrUnknown]
    accuracy: list[OrUnknown]
    inside: list[bool]
    own: float


class OutlookPart(Part):
    """The recommended algorithm beside the next best, along epsilon, clients and cost."""

    other: str
    flips: list[FlipPart]
    ours: list[CurvePart]
    theirs: list[CurvePart]
    fits: list[str]
    trust: list[TrustOutcomePart] = Field(default_factory=list)


class AdviceValues(Part):
    """What was found, of which the words are made."""

    recommended: str | None
    score: Literal["accuracy", "R^2", "balanced accuracy", "AUC"]
    ranked_by: str = "loss"
    clients: int
    clients_that_work: int | None
    public: list[str]
    seeds: int
    algorithms: list[AdvisedPart]
    left_out: list[LeftOutPart]
    outlook: OutlookPart | None
    owners: str = Field(default="", exclude_if=lambda said: not said)
    """Whether owners should share, tune or stay home; of a study for its owners alone."""
    study: dict[str, Any] | None


class AdviceRecord(AdviceValues):
    """The advice with its words, and when and by what it was made."""

    record_version: Literal[1] = ADVICE_VERSION
    name: str
    created: str | None = None
    version: str
    made_for: dict[str, Any] | None = None
    """Facts and tables of the study, by which its folder is known."""
    recommendation: str
    remarks: list[str]
    warnings: list[str]
