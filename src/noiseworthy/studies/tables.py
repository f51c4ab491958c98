"""The tables of a study file: frozen pydantic models that refuse unknown keys."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    PrivateAttr,
    SerializeAsAny,
    ValidationInfo,
    field_validator,
    model_validator,
)

from noiseworthy._tables import Auto, Count, Number, Positive, Table
from noiseworthy.data.federation import FLAT
from noiseworthy.data.readers import is_table
from noiseworthy.data.schema import Schema, by_person_column, check_beside, check_persons
from noiseworthy.data.table import OWNERS, FederationTable
from noiseworthy.data.tables import Columns
from noiseworthy.methods.registry import FIRST, method, table
from noiseworthy.methods.table import AlgorithmTable
from noiseworthy.plans.resources import ResourceUnit
from noiseworthy.studies.clients import Stated, forms, is_named
from noiseworthy.studies.privacy_table import PrivacyTable
from noiseworthy.studies.sweep_tables import CompareTable, RivalsTable, Seeds, TradeoffTable
from noiseworthy.tasks.qualities import Metric
from noiseworthy.tasks.table import TaskTable


def _of_clients(where: str, value: Any) -> Any:
    """A value that may differ between clients; a table must be one of names, and no text is any."""
    if isinstance(value, str) or (isinstance(value, dict) and not is_named(value)):
        raise ValueError(forms(where, value))
    return value


class ResourcesTable(Table):
    """`[resources]`: what a communication and a local step cost each client, and how much it may spend."""

    cost_per_round: Stated = 0.0
    """What a communication costs each client."""
    cost_per_step: Stated = 0.0
    """What a local step costs each client."""
    budget: Stated
    """What each client may spend in the whole training."""
    unit: ResourceUnit = "units"
    """What costs and budgets are counted in."""

    @field_validator("cost_per_round", "cost_per_step", "budget", mode="before")
    @classmethod
    def _form(cls, value: Any, info: ValidationInfo) -> Any:
        return _of_clients(f"[resources] {info.field_name}", value)


class ConstantsTable(Table):
    """`[constants]`: numbers given here are "assumed"; `source` says where the others come from.

    `heterogeneity` may be one number per client, for the algorithm that asks by it;
    `heterogeneity_spread` is its standard deviation between clients, where only that is known.
    """

    source: Literal["fitted", "analytic", "bought", "rule"] | None = None
    """Whence unstated constants: trials, public bounds, a charged part of the budget, or a rule."""
    share: Annotated[float, Field(gt=0, lt=1)] = 0.05
    """Share of the budget that `bought` constants may cost."""
    smoothness: Number | None = None
    """L: how much the gradient changes at most per unit of the parameters."""
    strong_convexity: Number | None = None
    """mu: how much it changes at least, above 0."""
    gradient_bound: Number | None = None
    """G: largest norm of a gradient."""
    initial_distance_sq: Number | None = None
    """Squared distance of the start from the optimum."""
    heterogeneity: Stated | None = None
    """How far clients' data are from the others', in units of the loss; for some methods one per client."""
    heterogeneity_spread: Positive | None = None
    """Its standard deviation between clients, where only that is known."""
    record_variance: Number | None = None
    """Variance of a single record's gradient within a client, for `sampling_rate` below 1."""
    optimum_gradient_sq: Number | None = None
    """Squared gradients of clients at the optimum, summed; for `dp-scaffnew`."""
    gradient_variance: Number | None = None
    """Variance of the gradient of a batch; for `dp-pasgd`."""
    initial_gap: Number | None = None
    """Loss at the start minus the least; for `dp-pasgd`."""
    noise_dimension: Number | None = None
    """Parameters that feel noise, at most all of them; for `dp-pasgd`."""

    @field_validator("heterogeneity", mode="before")
    @classmethod
    def _form(cls, value: Any) -> Any:
        return _of_clients("[constants] heterogeneity", value)

    @model_validator(mode="before")
    @classmethod
    def _withdrawn(cls, raw: Any) -> Any:
        if isinstance(raw, dict) and "curvature_spread" in raw:
            raise ValueError(
                "[constants] curvature_spread is withdrawn: losses of a first stage bring smoothness and "
                "strong_convexity no nearer to their values, but further away; leave it out"
            )
        return raw

    def assumed(self) -> dict[str, float]:
        """The constants that the user stated as one number, by name."""
        stated = self.model_dump(exclude={"source", "share"}, exclude_none=True)
        return {name: value for name, value in stated.items() if not isinstance(value, list | dict)}


class PlanningTable(Table):
    """`[planning]`: which data are public, for planning by trial, and how long it may take.

    `label_scale` is the public root mean square of what a regression predicts.
    """

    public: list[str] | Auto = "auto"
    """Names of public data to try settings on, `prior:0` and so on for synthetic tables and images; `auto`
    takes what ships and some of these, `[]` none."""
    seeds: Annotated[int, Field(ge=1, le=1000)] = 5
    """Trainings of each setting in a final, with Laplace noise up to four times as many."""
    budget_seconds: Positive | None = None
    """Time for the trials of planning, of which the best is taken; training and report come on top."""
    label_scale: Positive | Literal["bought", "range"] | None = None
    """Public root mean square of what a regression predicts; `bought` with noised counts; by its `range`."""
    metric: Metric = "loss"
    """What settings are chosen by: `accuracy`, `balanced-accuracy` or `auc` of classes, `r2` of numbers."""

    @field_validator("public")
    @classmethod
    def _names(cls, stated: list[str] | str) -> list[str] | str:
        from noiseworthy.data.prior import prior_seed  # here, because a gateway reads studies, too

        for source in () if stated == "auto" else stated:
            prior_seed(source)
        return stated


class TrainingTable(Table):
    """`[training]`: seeds of the simulation and how often to score."""

    seeds: Seeds = Field(default=[0])
    """Of schedule, start and noise, one training each."""
    evaluations: Count = 25
    """How often a training is scored, densest at its beginning."""


class DeliverTable(Table):
    """`[deliver]`: who uses what a training makes."""

    to: Literal["owners", "others"] = "others"
    """`others`: one shared model for records of nobody here. `owners`: each owner applies a model to records
    like its own, and is told what it reaches alone, with the shared model, and with that tuned at home."""


def _a_date(value: Any) -> Any:
    """A date of TOML, or as it is written in a record."""
    try:
        return date.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        raise ValueError(f"[claim] valid_until must be a date like 2027-01-01, got {value!r}") from None


class ClaimTable(Table):
    """`[claim]`: what a training is for and who answers for it, for the claim card; it changes no number."""

    purpose: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    """What the model is trained for."""
    responsible: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Who answers for the training: a person or an office, and how to reach them."""
    valid_until: Annotated[date, BeforeValidator(_a_date)] | None = None
    """The last day on which the claim may be relied on, like 2027-01-01."""


def _algorithm(stated: Any) -> Any:
    """A table of the method that it names, of the first one where it names none."""
    if not isinstance(stated, dict):
        return stated
    return table(stated.get("name", FIRST)).model_validate(stated)


BY_OWNERS = "owners"
"""What `[federation] test` says where owners score the model."""
_KINDS = ("leaf:", "ixi:", FLAT, "sql:sqlite:///", OWNERS)
"""How sources begin that are paths, besides those of tables."""


def _path_of(source: str) -> tuple[str, str]:
    """What a source of data begins with, and its path; an empty one where it is a name."""
    kind = next((kind for kind in _KINDS if source.startswith(kind)), "")
    path = source.removeprefix(kind)
    return kind, path if kind or is_table(path) else ""


class Study(Table):
    """One study: the whole file."""

    federation: FederationTable
    task: TaskTable = TaskTable()
    privacy: PrivacyTable
    resources: ResourcesTable | None = None
    algorithm: Annotated[SerializeAsAny[AlgorithmTable], BeforeValidator(_algorithm)] = Field(
        default_factory=lambda: table(FIRST).model_validate({})
    )
    constants: ConstantsTable = ConstantsTable()
    planning: PlanningTable = PlanningTable()
    training: TrainingTable = TrainingTable()
    compare: CompareTable = CompareTable()
    tradeoff: TradeoffTable = TradeoffTable()
    rivals: RivalsTable = RivalsTable()
    columns: Schema | None = None
    """What each column of the table is: kind, public range, values, role; or a file that says it."""
    claim: ClaimTable = ClaimTable()
    deliver: DeliverTable = Field(default=DeliverTable(), exclude_if=lambda table: table == DeliverTable())

    _folder: Path = PrivateAttr(default=Path())

    def __eq__(self, other: object) -> bool:
        """Whether both say the same, wherever their files lie."""
        return isinstance(other, Study) and vars(self) == vars(other)

    __hash__ = Table.__hash__

    def beside(self, folder: Path) -> Study:
        """The study as one of a file in a folder, where its relative paths start."""
        study, data_dir = self.model_copy(), self.federation.data_dir
        study._folder = Path() if folder.resolve() == Path.cwd() else folder
        if data_dir is None or not (folder / data_dir).is_dir():
            return study
        return study.with_data_dir(folder / data_dir)

    def with_data_dir(self, data_dir: Path) -> Study:
        """The study with another folder of data files."""
        table = self.federation.model_copy(update={"data_dir": data_dir})
        return self.model_copy(update={"federation": table})

    def located(self, source: str, *, absolute: bool = False) -> str:
        """A source of data with its path as it is found: beside the study's file, else as it was stated.

        Example:
            >>> study = Study(federation={"data": "own.csv"}, privacy={"mechanism": "none"})
            >>> study.located("digits"), study.beside(Path("nowhere")).located("own.csv")
            ('digits', 'own.csv')
        """
        kind, path = _path_of(source)
        beside = self._folder / path
        return f"{kind}{beside.absolute() if absolute else beside}" if path and beside.exists() else source

    def found_elsewhere(self) -> list[str]:
        """Paths of the study that lead nowhere from its file, but somewhere from the working directory."""
        table, data = self.federation, self.planning.public
        public = [] if data == "auto" else data
        stated = [table.data, self.test_file, *(self.task.reference or []), *public]
        paths = [_path_of(source)[1] for source in stated if source is not None]
        return [path for path in paths if path and Path(path).exists() > (self._folder / path).exists()]

    @property
    def folder(self) -> Path:
        """Where the study's file lies, and a model of the user's own beside it."""
        return self._folder

    @property
    def test_file(self) -> str | None:
        """The table of test records, where the server has one of its own."""
        return None if self.federation.test == BY_OWNERS else self.federation.test

    @property
    def meaning(self) -> Columns | Schema:
        """What the columns of the table mean: `[columns]`, or what `[federation]` says of them."""
        return self.columns or self.federation.columns

    @property
    def persons_have_at_most(self) -> int | None:
        """Records that one person has at most at a client, as `[privacy]` or the column of persons states."""
        person = None if self.columns is None else self.columns.person
        stated = self.privacy.persons_have_at_most
        return stated if person is None or person.at_most is None else person.at_most

    @property
    def counted_columns(self) -> Schema | None:
        """`[columns]`, by which records of a person are counted, or are one row, wherever they are read."""
        if self.columns is None:
            return None
        counted = self.columns.with_persons(self.persons_have_at_most)
        return counted.of_persons() if self.privacy.unit == "person" else counted

    @property
    def names_data(self) -> str:
        """What data and model are, by which a training is known; nothing of columns that are not stated."""
        stated = {"federation", "task"} if self.columns is None else {"federation", "task", "columns"}
        return self.model_dump_json(include=stated)

    @model_validator(mode="before")
    @classmethod
    def _person_column(cls, raw: Any) -> Any:
        return by_person_column(raw, "privacy")

    @model_validator(mode="after")
    def _columns_of_a_table(self) -> Study:
        if self.columns is not None:
            check_beside(self.federation)
        return self

    @model_validator(mode="after")
    def _one_bound_on_persons(self) -> Study:
        person = None if self.columns is None else self.columns.person
        if person is None or person.at_most is None:
            return self
        where, stated = f"[columns] {person.name}: at_most", self.privacy.persons_have_at_most
        if stated not in (None, person.at_most):
            raise ValueError(
                f"{where} = {person.at_most} and [privacy] persons_have_at_most = {stated} say two things; "
                "leave one of them out"
            )
        if self.privacy.sampling_rate < 1 and self.privacy.unit == "record":
            raise ValueError(f"{where} is counted exactly for full batches only; take sampling_rate = 1")
        return self

    @model_validator(mode="after")
    def _persons_are_known(self) -> Study:
        if self.privacy.unit == "person" and self.federation.data is not None:
            if self.deliver.to == "owners":
                raise ValueError(
                    '[privacy] unit = "person" does not go with [deliver] to = "owners": models that owners '
                    "make at home count records; leave one of them out"
                )
            check_persons(self.columns, self.persons_have_at_most)
        return self

    @model_validator(mode="after")
    def _balanced_by_public_shares(self) -> Study:
        if self.task.class_weights == "balanced" and self.task.class_shares is None:
            raise ValueError(
                '[task] class_weights = "balanced" needs class_shares, the public shares of the classes, '
                "such as { no = 0.9, yes = 0.1 }: they are never counted among private labels"
            )
        return self

    @model_validator(mode="after")
    def _one_heterogeneity(self) -> Study:
        stated, own = self.constants.heterogeneity, self.algorithm
        if isinstance(stated, list | dict) and not method(own.name).takes_heterogeneity(own):
            several = "a list" if isinstance(stated, list) else "a table"
            raise ValueError(
                f"[constants] heterogeneity must be one number for {own.name}, got {several} of "
                f"{len(stated)}; only dpfl-bcs plans with one per client, and its rivals with selection = "
                '"biased"'
            )
        return self
