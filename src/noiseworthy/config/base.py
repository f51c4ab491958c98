"""What tables of TOML files are made of: kinds of values, and tables that refuse unknown keys."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Auto = Literal["auto"]
PerClient = float | list[float]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Momentum = Annotated[float, Field(ge=0, lt=1)]
Share = Annotated[float, Field(ge=0, lt=1)]
Part = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]


class Table(BaseModel):
    """A table of a study file: immutable, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
