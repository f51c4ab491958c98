"""What a plan rests on, with its type: the bound as curves, trials beside it, and what they foretell."""

from typing import Literal

from pydantic import Field

from noiseworthy.privacy.trust import TrustModel
from noiseworthy.studies.typed_parts import Curve, Number, OrInfinite, Part
from noiseworthy.tasks.qualities import Metric


class LinePart(Part):
    """A curve of a bound."""

    label: str
    x: list[float]
    bound: Curve


class MarkPart(Part):
    """A trial beside a curve."""

    x: float
    label: str
    loss: Number


class CoursePart(Part):
    """How trials foretell the loss round by round: mean over public data sets, least and most."""

    rounds: list[int]
    loss: Curve
    least: Curve
    most: Curve


class EvidencePart(Part):
    """The bound that was minimised, and trials beside it."""

    unit: str
    no_training: OrInfinite
    axis: str
    chosen: Number
    curves: list[LinePart]
    trials: list[MarkPart]
    spread: Number
    course: CoursePart | None = None


class BandPart(Part):
    """A prediction with its band."""

    mean: Number
    least: Number
    most: Number


class MetricPart(BandPart):
    """The metric that the plan was chosen by, as trials foretell it."""

    metric: Metric


class StandInPart(Part):
    """Public data that stood in, what they weighed, and how the plan did on them."""

    name: str
    weight: float
    loss: Number
    lost: Number


class PricePart(Part):
    """What so many uploads of all clients together would lose of the gain on public data."""

    uploads: int
    lost: Number


class OtherwisePart(Part):
    """What tuned models would be ahead of own ones by, if one thing were otherwise."""

    way: Literal["owners", "epsilon", "secure-sum"]
    value: Number
    gain: Number


class ForetoldHomePart(Part):
    """What typical owners would reach at home, by trials on public data.

    Attributes:
        records: of each typical owner, ascending; each stands for as many records of all owners.
        alone: score of own models, of each.
        shared: of the shared model as it is.
        tuned: of the shared model tuned at home.
        gains: of tuned over alone, on each public data set and of each typical owner.
        best: which of the three to use.
        shares: of the records of all owners that each typical one stands for.
        gaining: owners of the federation that gain by tuning.
        changes: where own models are best, what would have to be otherwise.
        planned_for: the models by which the plan was chosen.
    """

    records: list[int]
    alone: list[Number]
    shared: list[Number]
    tuned: list[Number]
    gains: list[list[Number]]
    best: Literal["alone", "shared", "tuned"]
    shares: list[Number] | None = None
    gaining: int | None = None
    changes: tuple[OtherwisePart, ...] = ()
    planned_for: Literal["shared", "tuned"] = "shared"


class ForetoldPart(Part):
    """What trials foretell of a training."""

    loss: BandPart
    accuracy: BandPart
    metric: MetricPart | None = None
    public: tuple[StandInPart, ...] = ()
    frontier: tuple[PricePart, ...] = ()
    home: ForetoldHomePart | None = None


class WhatIfCurvePart(Part):
    """Predictions along one axis, with the trials on it."""

    axis: str
    x: list[float]
    loss: Curve
    accuracy: list[float]
    inside: list[bool]
    own: float
    trials: list[tuple[float, float]]


class TrustOutcomePart(Part):
    """What is predicted where owners trust so much; `own` is the study's, `inside` as in curves."""

    model: TrustModel
    colluders: int
    dropouts: int
    loss: OrInfinite
    accuracy: float
    inside: bool
    rounds: int
    own: bool


class WhatIfPart(Part):
    """What other budgets, more clients or other costs would give."""

    curves: dict[Literal["epsilon", "clients", "cost"], WhatIfCurvePart]
    prices: list[tuple[float, float]]
    fit: str
    trust: list[TrustOutcomePart] = Field(default_factory=list)
