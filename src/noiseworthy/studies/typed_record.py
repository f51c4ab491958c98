"""The record of a run with a type: what `record.json` holds, under the keys that it has there.

A record is checked whenever it is written and whenever it is read: a key that nobody knows, a missing one and
a value of another kind are refused by name. Records of earlier versions lack some keys, and are completed by
what these meant then.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from noiseworthy.data.records import TestOrigin
from noiseworthy.model.metrics import Metrics
from noiseworthy.plans.plan import Steering
from noiseworthy.privacy.budget import Relation, Unit
from noiseworthy.privacy.trust import LOCAL, Trust
from noiseworthy.privacy.uploads import Assurance
from noiseworthy.studies.typed_evidence import EvidencePart, ForetoldPart, WhatIfPart
from noiseworthy.studies.typed_owners import HomePart, NetworkPart
from noiseworthy.studies.typed_parts import Curve, Json, Number, OrInfinite, Part, Quantity
from noiseworthy.studies.typed_sweeps import ComparePart, RivalsPart, TradeoffPart

RECORD_VERSION = 2
"""Of the layout; records of layout 1 do not state it."""


class ConstantPart(Part):
    """A constant of the plan's bound."""

    value: Number
    provenance: str


class PredictedPart(Part):
    """What the bound says of the plan and of no training."""

    bound: Number
    no_training: OrInfinite
    unit: str
    vacuous: bool = False


class SpentPart(Part):
    """A client's budget, and what the plan spends of it."""

    epsilon: float
    delta: float
    spent_epsilon: Number


class PrivacyPart(Part):
    """The plan's claim."""

    unit: Unit
    relation: Relation
    adversary: str
    private: bool
    accountant: str
    clients: list[SpentPart]


class ResourcesPart(Part):
    """Costs of clients besides privacy, one entry each."""

    unit: str
    cost_per_round: list[float]
    cost_per_step: list[float]
    budget: list[float]
    cost: list[float]


class EstimationPart(Part):
    """Stage 1 of a plan in two stages."""

    rounds: int
    releases: list[int]
    noise: list[float]
    loss_noise: list[float]
    losses_per_reply: int
    loss_cap: float


class PlanPart(Part):
    """A plan, by the contract of `noiseworthy plan --json`; a noise that changes in its first and last round.

    The keys of local work, of the server's levers and of resources are there where the plan has such a thing.
    """

    algorithm: str
    citation: str
    mechanism: str
    train: bool
    rounds: int
    clients_per_round: int
    releases: list[int]
    noise: list[float]
    clip_norm: float
    clip: Literal["l1", "l2"] = "l2"
    sampling_rate: float
    step_size: Number
    step_decay_rounds: Number
    predicted: PredictedPart | None
    constants: dict[str, ConstantPart]
    privacy: PrivacyPart
    outcome: str
    notes: list[str]
    as_printed: dict[str, Json]
    momentum: float = 0.0
    averaging: float = 0.0
    weighting: float = 0.0
    steering: Steering | None = None
    personal_step_size: float = 0.0
    pull: float = 0.0
    estimation: EstimationPart | None = None
    bought_ranges: dict[str, list[float]] = Field(default_factory=dict)
    bought_label_scale: Number = None
    bought_label_mean: Number = None
    bought_mean: tuple[float, ...] = ()
    bought_class_shares: tuple[float, ...] = ()
    cost: Number = None
    resources: ResourcesPart | None = None
    clipping_mode: str | None = None
    local_steps: int | None = None
    total_iterations: int | None = None
    batch_size: int | None = None
    noised: str | None = None
    compared: dict[str, Json] = Field(default_factory=dict)
    iterations: int | None = None
    communication_probability: float | None = None
    expected_rounds: float | None = None
    realised_rounds: int | None = None
    expected_local_steps: float | None = None
    coin_seed: int | None = None
    noise_per_round: list[list[float]] | None = None
    shrinkage: float | None = None
    label_weight: float | None = None
    upload_numbers: int | None = None
    trust: Trust | None = None
    sum_noise: float | None = None
    asked_with: float | None = None

    @property
    def whom(self) -> Trust:
        """Whom owners trust, with its words."""
        return self.trust or LOCAL


class BeforePart(Part):
    """What was released before the plan, least and most over clients."""

    what: str
    rounds: int
    uploads: list[int]
    spent_epsilon: list[OrInfinite]


class ToldApartPart(Part):
    """How well the best test tells neighbours apart at any client, and who is worst off."""

    client: int
    alike: bool
    false_alarms: list[float]
    power: list[float]
    guess: float
    power_of_exchange: list[float] | None


class PersonsPart(Part):
    """What all records of one person cost, least and most over clients."""

    records: int
    epsilon: list[OrInfinite]


class ClaimPart(Part):
    """What a claim card tells beside the plan."""

    before: BeforePart | None = None
    looser: dict[str, list[OrInfinite]] = Field(default_factory=dict)
    told_apart: ToldApartPart | None = None
    persons: PersonsPart | None = None
    several: list[PersonsPart] = Field(default_factory=list)


class FederationPart(Part):
    """Public facts of the clients and the test set."""

    name: str
    clients: list[str]
    sizes: list[int]
    classes: int | None
    dimension: int
    test_records: int
    test_origin: TestOrigin | None = None


class TrainingPart(Part):
    """Trainings under several seeds: the first axis of everything but rounds. `metrics` are of the first."""

    seeds: list[int]
    rounds: list[int]
    loss: list[Curve]
    accuracy: list[Curve]
    uploads: list[list[int]]
    spent_epsilon: list[Curve]
    untrained_loss: OrInfinite
    prior: Number = None
    seconds: float
    assurance: Assurance
    flags: list[str] = Field(default_factory=list)
    metrics: Metrics | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        each = {key: getattr(self, key) for key in ("loss", "accuracy", "uploads", "spent_epsilon")}
        _check_lengths(each, len(self.seeds), "seed")
        for key in ("loss", "accuracy"):
            curves = {f"{key}.{seed}": one for seed, one in enumerate(each[key])}
            _check_lengths(curves, len(self.rounds), "evaluation")
        return self

    def over_seeds(self, quantity: Quantity) -> list[Curve]:
        """Losses or scores, a curve for each seed."""
        return self.loss if quantity == "loss" else self.accuracy


class EstimatedPart(Part):
    """What stage 1 of one training told of each client, and the counts that follow.

    Attributes:
        epsilon, sizes: whole budget and records of each client.
        estimate, as_printed: Gamma_n for the planner, and as the paper estimates it.
        raw: Gamma_n before shrinking; None for clients that never reported.
        noise: standard deviation of the noise on a client's mean report; None for the same.
        spread: standard deviation between clients as estimated.
        first, releases: counts of stages 1 and 2.
        true: Gamma_n, which a reproduction may add and no private training knows.
    """

    epsilon: list[float]
    sizes: list[int]
    estimate: list[float]
    raw: Curve
    noise: Curve
    as_printed: list[float]
    spread: float
    first: list[int]
    releases: list[int]
    true: list[float] = Field(default_factory=list)


class CoefficientPart(Part):
    """A coefficient with its standard error, the part of it that is noise, and the ends of its interval."""

    feature: str
    coefficient: float
    error: float
    error_of_noise: float
    least: float
    most: float


class CoefficientsPart(Part):
    """Least-squares coefficients of the first seed, or `why_not`; may records be scaled by norm or clip?"""

    confidence: float
    residual: Number = None
    may_scale: bool = True
    rows: list[CoefficientPart] = Field(default_factory=list)
    why_not: str = ""


class LedgerPart(Part):
    """What the run entered into its ledger, and the end of the chain then."""

    head: Annotated[str, Field(pattern=r"^\d+:[0-9a-f]+$")]
    releases: int
    acknowledged: int


class AuditPart(Part):
    """What an audit of the plan measured."""

    passed: bool
    verdict: str
    confidence: float
    trials: int
    delta: float
    epsilon_lower: OrInfinite
    epsilon_claimed: OrInfinite


class RunRecord(Part):
    """Everything that a run folder says of a run.

    Attributes:
        created: when, in UTC.
        version: of the product; `record_version` of this layout.
        plan_digest: of the plan's file.
        read_off: what one record could change in the plan itself, a sentence each.
        estimation: what stage 1 told, one entry per seed.
        home: what owners reach at home, of a study that delivers to them.
    """

    name: str
    created: str
    version: str
    record_version: Literal[2]
    study: dict[str, dict[str, Json]]
    plan_digest: str | None = None
    plan: PlanPart
    claim: ClaimPart | None = None
    federation: FederationPart | None
    read_off: list[str] = Field(default_factory=list)
    evidence: EvidencePart | None
    foretold: ForetoldPart | None = None
    what_if: WhatIfPart | None = None
    training: TrainingPart | None
    estimation: list[EstimatedPart] = Field(default_factory=list)
    coefficients: CoefficientsPart | None = None
    compare: ComparePart | None
    ledger: LedgerPart | None = None
    audit: AuditPart | None = None
    network: NetworkPart | None = None
    tradeoff: TradeoffPart | None = None
    rivals: RivalsPart | None = None
    home: HomePart | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        """A list of clients, of seeds or of rounds is as long as all others of its kind."""
        known, training, paid = self.federation, self.training, self.plan.resources
        lists = {"plan.noise": self.plan.noise, "plan.privacy.clients": self.plan.privacy.clients}
        if known is not None:
            lists |= {"federation.clients": known.clients, "federation.sizes": known.sizes}
        if paid is not None:
            lists |= {f"plan.resources.{key}": one for key, one in paid if key != "unit"}
        for key in ("uploads", "spent_epsilon") if training is not None else ():
            lists |= {f"training.{key}.{seed}": one for seed, one in enumerate(getattr(training, key))}
        _check_lengths(lists, len(self.plan.releases), "client")
        return self

    @property
    def scored(self) -> TrainingPart | None:
        """The training, where there were test records to score it by."""
        return None if self.federation and not self.federation.test_records else self.training

    @property
    def client_names(self) -> list[str]:
        """Names of the clients, or their numbers where the plan was made without data."""
        known = self.federation
        return known.clients if known else [f"client {i}" for i in range(len(self.plan.releases))]


def view(record: dict[str, Any] | RunRecord) -> RunRecord:
    """A record with its type, for those who show it; one that has it as it is.

    Raises:
        ValidationError: what is no record.
    """
    return record if isinstance(record, RunRecord) else RunRecord.model_validate(migrated(record))


def _check_lengths(lists: dict[str, list[Any]], entries: int, each: str) -> None:
    """Raises ValueError by the name of the first list without just one entry for each of what there is."""
    for key, one in lists.items():
        if not len(one) == entries > 0:
            raise ValueError(f"{key} must have an entry for each {each}, {max(entries, 1)}, got {len(one)}")


def migrated(record: dict[str, Any]) -> dict[str, Any]:
    """A record in the layout of now.

    Layout 1 did not state its version; what it lacks has the values that `RunRecord` gives by default.

    Example:
        >>> migrated({"name": "study"})
        {'record_version': 2, 'name': 'study'}
    """
    return {"record_version": RECORD_VERSION, **record} if "record_version" not in record else record
