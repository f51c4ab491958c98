"""The `[algorithm]` keys of the methods that DPFL-BCS is held against."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from noiseworthy._tables import Positive
from noiseworthy.methods.table import (
    AlgorithmTable,
    Asked,
    Averaging,
    Rounds,
    ServerMomentum,
    StepDecay,
    StepSize,
)

RivalName = Literal["fedsgd", "dpsgd", "dmldp", "weiavg", "pfa", "privatefl"]


class RivalTable(AlgorithmTable):
    """`[algorithm]` of what DPFL-BCS is held against: asking all clients alike, or as DPFL-BCS would."""

    name: RivalName
    rounds: Rounds = 200
    clients_per_round: Asked
    selection: Literal["uniform", "biased"] = "uniform"
    """Asks all clients alike, or as often as `dpfl-bcs` would."""
    step_size: StepSize = "auto"
    step_decay: StepDecay = "none"
    momentum: ServerMomentum = "auto"
    averaging: Averaging = "auto"
    personal_step_size: Positive | None = None
    """Step size of the transforms that clients of `privatefl` keep."""

    @model_validator(mode="after")
    def _personal(self) -> RivalTable:
        if self.personal_step_size is not None and self.name != "privatefl":
            raise ValueError(
                f"[algorithm] personal_step_size is a key of privatefl, whose clients keep a transform, got "
                f"{self.personal_step_size:g} for {self.name}; leave it out"
            )
        return self


TABLE = RivalTable
