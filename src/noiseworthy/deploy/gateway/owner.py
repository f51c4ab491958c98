"""The owner's file: which data, what they may cost, and what may be asked of them. No request changes it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, field_validator, model_validator

from noiseworthy._tables import Count, Positive, Table, checked, read_toml
from noiseworthy.data.readers import is_table
from noiseworthy.data.table import FederationTable
from noiseworthy.deploy.gateway.work import AlgorithmName
from noiseworthy.errors import ConfigError, InvalidInput
from noiseworthy.privacy.budget import PrivacyBudget, Unit
from noiseworthy.privacy.durable import Account, accounts_of
from noiseworthy.privacy.mechanisms.fields import DeployedMechanism
from noiseworthy.privacy.mechanisms.registry import delta_misfit
from noiseworthy.tasks.names import OWN, is_encoder
from noiseworthy.tasks.table import TaskTable

ModelName = Literal[
    "softmax", "logistic", "svm", "linear",
    "cnn", "fu-cnn", "two-layer-cnn", "ma-cnn", "lenet5", "group-cnn",
]  # fmt: skip
"""Models whose records' gradients are tested not to depend on other records, to the last bit."""
SCORE = "score"
"""The work that is done on records which are held out, and on no others."""
OwnName = Annotated[str, Field(pattern=f"^{OWN.pattern}$")]
Digest = Annotated[str, Field(pattern="^sha256:[0-9a-f]{64}$")]
Location = Annotated[Path, Field(strict=False)]


def approved(model: str, digest: str | None) -> str:
    """What a model is called in terms: its name, and of a module's the digest of its source, too.

    Example:
        >>> approved("softmax", None), approved("my_module:make", "9f2a")
        ('softmax', 'my_module:make@sha256:9f2a')
    """
    return model if digest is None else f"{model}@sha256:{digest}"


class OwnerTable(Table):
    """`[owner]`: which client of `[federation]` the owner is, and the name its budget is kept under.

    Two gateways on the same records must state the same `data_set` and the same ledger.
    """

    client: str
    data_set: str


class BudgetTable(Table):
    """`[budget]`: what all releases from these data may cost together, ever, and the least noise on each.

    `noise_floor` is noise over the most that a neighbour changes, so that it holds for every clip.
    """

    mechanism: DeployedMechanism
    epsilon: Positive
    delta: Annotated[float, Field(ge=0, lt=1)] = 0.0
    unit: Unit = "record"
    noise_floor: Positive

    @model_validator(mode="after")
    def _fits(self) -> BudgetTable:
        if misfit := delta_misfit(self.mechanism, self.delta):
            raise ValueError(misfit)
        return self


class AllowedTable(Table):
    """`[allowed]`: what may be asked; releases are counted in each run.

    Replies leave at multiples of `reply_seconds` after their requests came, so that how long they take tells
    nothing; 0 sends them at once.

    With `server_adds_noise` uploads leave without noise, for a server that the owner trusts to see them, to
    add the noise that was paid for, and to keep them to itself.
    """

    algorithms: Annotated[list[AlgorithmName], Field(min_length=1)]
    models: list[ModelName]
    own_models: dict[OwnName, Digest] = Field(default={}, exclude_if=lambda models: not models)
    """Models of modules that lie beside the owner's file, each with the digest of the source it approved."""
    encoders: dict[str, Digest] = Field(default={}, exclude_if=lambda encoders: not encoders)
    """Encoders beside the owner's file that records may pass first, each with the digest it approved."""
    most_releases: Count
    most_parameters: Count = 100_000
    most_local_steps: Count = 1000
    reply_seconds: Annotated[float, Field(ge=0, le=300)] = 0.0
    server_adds_noise: bool = Field(default=False, exclude_if=lambda allowed: not allowed)

    @model_validator(mode="after")
    def _some_model(self) -> AllowedTable:
        if not (self.models or self.own_models):
            raise ValueError("[allowed] models must name at least one; or approve one under own_models")
        return self

    @property
    def names(self) -> list[str]:
        """All models that may be asked, those of modules with their digests."""
        return [*self.models, *(f"{name}@{digest}" for name, digest in self.own_models.items())]

    def encodes(self, task: TaskTable) -> bool:
        """Whether the features of a task may be asked: formulas, and encoders by their digests."""
        digest = self.encoders.get(str(task.features))
        return not is_encoder(task.features) or digest == f"sha256:{task.encoder_digest}"

    def allows(self, task: TaskTable) -> bool:
        """Whether the model of a task may be asked: by its name, and a module's by its digest, too."""
        return approved(str(task.model), task.model_digest) in self.names or task.model in self.models


class FilesTable(Table):
    """`[files]`: socket and ledger; relative paths are looked up beside the owner's file.

    Members of `group` (a name or a number) may ask over the socket; without it the owner's user alone.
    Processes of the gateway's own user, who could read records and ledger, are refused unless `same_user`.
    A `witness`, on another disk, is told what was spent, so that a ledger that is set back is noticed.
    `tuned` holds shared models tuned on the owner's records; left out, none is tuned at the end of a run.
    """

    socket: Location
    ledger: Location
    witness: Location | None = None
    tuned: Location | None = None
    group: str | Annotated[int, Field(ge=0)] | None = None
    same_user: bool = False


class Owner(Table):
    """The owner's file.

    Example:
        >>> told = {"owner": {"client": "client 0", "data_set": "digits"}, "files": {"socket": "gate.sock"}}
        >>> told["files"]["ledger"], told["federation"] = "ledger.sqlite", {"data": "digits", "clients": 10}
        >>> budget = {"mechanism": "gaussian", "epsilon": 2.0, "delta": 1e-5, "noise_floor": 1.0}
        >>> allowed = {"algorithms": ["fedsgd-dpc"], "models": ["softmax"], "most_releases": 100}
        >>> owner = Owner.model_validate({**told, "budget": budget, "allowed": allowed})
        >>> owner.account.client, owner.account.epsilon, owner.account.currency
        ('client 0', 2.0, 'mu^2')
    """

    owner: OwnerTable
    federation: FederationTable
    budget: BudgetTable
    allowed: AllowedTable
    files: FilesTable
    secure_sum: Any = None
    """Key and roster of secure sums, where the owner allows any: `summing.SecureSumTable`."""
    columns: Any = None
    """What each column of the owner's table is, a `Schema`; or a file that says it, beside this one."""

    @field_validator("secure_sum", mode="before")
    @classmethod
    def _sums(cls, stated: Any) -> Any:
        if stated is None:
            return None
        from noiseworthy.deploy.gateway.summing import SecureSumTable  # here, because few owners allow them

        return SecureSumTable.model_validate(stated)

    @model_validator(mode="before")
    @classmethod
    def _schema(cls, raw: Any) -> Any:
        return raw if raw.get("columns") is None else _with_columns(raw, Path())

    @model_validator(mode="after")
    def _has_data(self) -> Owner:
        if self.federation.data is None:
            raise ValueError("[federation] needs data; a gateway cannot work with sizes alone")
        if self.federation.simulation:
            raise ValueError("[federation] simulation is for studies that are never deployed; leave it out")
        return self

    @model_validator(mode="after")
    def _has_classes(self) -> Owner:
        """Classes that are read off the records would tell of them, and be numbered otherwise elsewhere."""
        table = self.federation
        if self.columns is not None:
            from noiseworthy.data.schema import check_beside

            check_beside(table)
            if bought := [*self.columns.to_buy]:
                told = "ranges are bought in simulation only; state [least, most]"
                raise ValueError(f"[columns] {bought[0]}: {told}")
        elif is_table(str(table.data)) and not table.regression and table.classes is None:
            raise ValueError("[federation] needs classes; list all labels that a record may have")
        return self

    @model_validator(mode="after")
    def _scored_apart(self) -> Owner:
        if self.holds_out and self.budget.unit == "client":
            raise ValueError(
                '[budget] unit = "client" covers all that an owner holds, and no part has one of its own; '
                "take score out of [allowed] algorithms"
            )
        return self

    @model_validator(mode="after")
    def _persons_are_known(self) -> Owner:
        if self.budget.unit == "person" or self.federation.person_column is not None:
            from noiseworthy.data.schema import check_persons

            check_persons(self.columns, getattr(self.columns and self.columns.person, "at_most", None))
        return self

    _folder: Path = PrivateAttr(default=Path())

    @property
    def folder(self) -> Path:
        """Where the owner's file lies, and modules that it approves beside it."""
        return self._folder

    @property
    def rows(self) -> Any:
        """`[columns]`, by which all records of a person are one row where the budget is for persons."""
        return self.columns.of_persons() if self.columns and self.budget.unit == "person" else self.columns

    @property
    def holds_out(self) -> bool:
        """Whether a part of the records is for scores of models alone."""
        return SCORE in self.allowed.algorithms

    @property
    def account(self) -> Account:
        """The lifetime budget, under replace-one neighbours: the number of records is public."""
        return self.account_of(self.budget.epsilon, self.budget.delta)

    def account_of(self, epsilon: float, delta: float) -> Account:
        """An account like the owner's whose whole budget is the price of a run.

        Raises:
            InvalidInput: a delta that the owner's noise has no use for, or a budget that is too small.
        """
        mechanism, names = self.budget.mechanism, self.owner
        if delta_misfit(mechanism, delta):
            raise InvalidInput(f"the owner's noise is {mechanism}, got delta {delta:g}")
        budget = PrivacyBudget.of(epsilon, delta, 1, unit=self.budget.unit)
        return accounts_of(budget, mechanism, names.data_set, "", [names.client])[0]


def load_owner(path: Path) -> Owner:
    """Read and check an owner's file; its relative paths become paths beside it.

    Raises:
        ConfigError: a missing or unreadable file, unknown keys, missing tables, values out of range, one
            place for two things.
    """
    folder, raw = path.parent, read_toml(path, "owner's file")
    raw = _with_columns(raw, folder) if "columns" in raw else raw
    owner = checked(Owner, raw, "the owner's file", "; see docs/gateway.md")
    beside = {name: folder / place for name, place in owner.files if isinstance(place, Path)}
    if len({*map(Path.resolve, beside.values())}) < len(beside):
        raise ConfigError(f"{path}: [files] names one place for two things; name another for one of them")
    table, records = owner.federation, folder / str(owner.federation.data)
    # a node reads this file, too, and may not even look where the records are
    if is_table(records.name) and os.path.exists(records):
        table = table.model_copy(update={"data": str(records)})
    sums, files = owner.secure_sum and owner.secure_sum.beside(folder), owner.files.model_copy(update=beside)
    owner = owner.model_copy(update={"files": files, "federation": table, "secure_sum": sums})
    owner._folder = folder
    return owner


def _with_columns(raw: dict[str, Any], folder: Path) -> dict[str, Any]:
    from noiseworthy.data.schema import by_person_column, read_schema  # here: few owners state columns

    return by_person_column(raw | {"columns": read_schema(raw["columns"], folder)}, "budget")
