"""What comparing, trading off and contests add to the record of a run, with its type."""

from pydantic import ConfigDict, Field

from noiseworthy.privacy.trust import TrustModel
from noiseworthy.studies.typed_parts import Curve, Json, Number, OrInfinite, Part, Quantity


class OutcomePart(Part):
    """What trainings under several seeds ended with."""

    loss: Curve
    accuracy: Curve

    def over_seeds(self, quantity: Quantity) -> Curve:
        """Loss or score, one for each seed; no score of any where a training diverged."""
        if quantity == "loss":
            return self.loss
        return [None] * len(self.accuracy) if None in self.loss else self.accuracy


class SettingPart(OutcomePart):
    """An outcome, and the setting that it is of, each count under a key of its own."""

    model_config = ConfigDict(extra="allow")

    @property
    def setting(self) -> dict[str, Json]:
        """The counts by their names."""
        return self.model_extra or {}


class CellPart(SettingPart):
    """A setting of the comparison: a key for every axis."""

    planned: bool


class UsualPart(OutcomePart):
    """What people take without planning: who, how many rounds of all clients, clip and first step size."""

    name: str
    rounds: int
    clip_norm: float
    step_size: float


class ModelAtHomePart(Part):
    """What owners reach with one shared model, as it is and tuned at home."""

    name: str
    shared: Number
    tuned: Number


class ComparedAtHomePart(Part):
    """What owners reach alone, and with the models of a comparison, over all their test records."""

    alone: Number
    models: list[ModelAtHomePart]


class ComparePart(Part):
    """The plan beside a grid of fixed settings, and beside what people take without planning."""

    axes: list[str]
    seeds: list[int]
    untrained_loss: OrInfinite
    cells: list[CellPart]
    best: dict[str, Number]
    lost_gain: Number
    search_epsilon: Number = None
    usual: list[UsualPart] = Field(default_factory=list)
    home: ComparedAtHomePart | None = Field(default=None, exclude_if=lambda home: home is None)


class AxisPart(Part):
    """Budgets along a side of the trade-off; multiples of the clients' own where these differ."""

    values: list[float]
    own: float
    per_client: bool
    unit: str = ""


class PairPart(SettingPart):
    """A pair of budgets: what is planned for it, under the names of plans, and what that reaches."""

    own: bool
    train: bool
    reason: str | None


class TrustedPart(PairPart):
    """The same of the study's own resources under one trust."""

    trust: TrustModel


class TradeoffPart(Part):
    """Every pair of budgets, row by row, and where it was asked for each trust, row by row."""

    epsilon: AxisPart
    budget: AxisPart
    seeds: list[int]
    cells: list[PairPart]
    search_epsilon: Number
    trust: list[TrustedPart] = Field(default_factory=list)


class GapPart(Part):
    """By how much DPFL-BCS does better, over seeds."""

    mean: float
    std: float


class EntryPart(OutcomePart):
    """An algorithm at a point of the contest; what a training that diverged leaves undefined is None.

    `home` are scores of what owners make of its model, of a study that delivers to owners.
    """

    name: str
    algorithm: str
    asked: list[int]
    spent: Number
    mean_loss: Number
    std_loss: Number
    mean_accuracy: Number
    std_accuracy: Number
    gap: GapPart | None
    home: dict[str, Number] | None = None


class PointPart(Part):
    """Everybody under a mechanism, a largest budget and a partition."""

    mechanism: str
    epsilon_max: Number
    alpha: Number
    own: bool
    search_epsilon: Number
    algorithms: list[EntryPart]


class RivalsPart(Part):
    """DPFL-BCS beside its rivals."""

    mechanisms: list[str]
    epsilon_max: Number
    alpha: Number
    seeds: list[int]
    quantity: Quantity
    replies: int
    seconds: float
    points: list[PointPart]
