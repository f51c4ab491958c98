"""What owners tell of their records in public, and the terms on which they may be asked."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from noiseworthy._tables import Table
from noiseworthy.privacy.budget import Unit
from noiseworthy.privacy.mechanisms.fields import DeployedMechanism

Number = Annotated[int, Field(ge=1)]


class OwnerTerms(Table):
    """What an owner tells of its records, and on what terms they may be asked. All of it is public.

    Attributes:
        client: name of the owner.
        data_set: name that the lifetime budget is kept under.
        records: n, public under replace-one neighbours.
        record_shape: of one record.
        classes: number of classes; None for regression.
        mechanism: of the noise.
        epsilon: of the lifetime budget.
        delta: of the lifetime budget.
        unit: whose change is hidden.
        noise_floor: least noise, in units of what a neighbour changes.
        algorithms: that may be asked.
        models: that may be asked.
        most_releases: of one run.
        most_parameters: of a model.
        most_local_steps: of one release.
        encoders: that records may pass first, by name and digest.
        labels: the classes in their order, as text; None where the owner's file does not list them.
        columns: digest of the schema by which records become numbers; None where they are numbers already.
        sums: digest of the roster, colluders and share_noise of `[secure_sum]`; None where it allows none.
        server_adds_noise: whether uploads may leave without noise, for a trusted server to add it.
        held_out: records, or persons, that no release trains on and a model may be scored by; None without.
    """

    client: str
    data_set: str
    records: Number
    record_shape: tuple[Number, ...]
    classes: Annotated[int, Field(ge=2)] | None
    mechanism: DeployedMechanism
    epsilon: float
    delta: float
    unit: Unit
    noise_floor: float
    algorithms: list[str]
    models: list[str]
    most_releases: int
    most_parameters: int
    most_local_steps: int
    encoders: list[str] = Field(default=[], exclude_if=lambda encoders: not encoders)
    labels: tuple[str, ...] | None = Field(default=None, exclude_if=lambda labels: labels is None)
    columns: str | None = None
    sums: tuple[str, int, bool] | None = Field(default=None, exclude_if=lambda sums: sums is None)
    server_adds_noise: bool = Field(default=False, exclude_if=lambda allowed: not allowed)
    held_out: Number | None = Field(default=None, exclude_if=lambda held_out: held_out is None)
