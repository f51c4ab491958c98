"""The `[algorithm]` keys of the methods that DPFL-BCS is held against."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from noiseworthy._tables import Positive
from noiseworthy.methods.table import StatedRoundsTable

RivalName = Literal["fedsgd", "dpsgd", "dmldp", "weiavg", "pfa", "privatefl"]


class RivalTable(StatedRoundsTable):
    """`[algorithm]` of what DPFL-BCS is held against: asking all clients alike, or as DPFL-BCS would."""

    name: RivalName
    selection: Literal["uniform", "biased"] = "uniform"
    """Asks all clients alike, or as often as `dpfl-bcs` would."""
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
