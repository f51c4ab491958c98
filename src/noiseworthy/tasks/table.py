"""`[task]`: the model on the records, in a study, a request or an owner's file."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, field_validator

from noiseworthy._tables import Auto, Count, Positive, Size, Table, among
from noiseworthy.tasks.names import MODELS


class TaskTable(Table):
    """`[task]`: a dimension for planning without data, or a model for training and how records reach it.

    A linear model's records are pooled, seen against a reference (public data by name, whose mean is
    subtracted), projected (on the reference's principal directions, else at random) and scaled, in that
    order; `normalise` without `feature_norm` scales them to norm 1. At last `bias` is appended, a constant
    whose weight is the intercept: by default in proportion to their norm where records are rows of numbers,
    and none where they are images.
    """

    dimension: Size | None = None
    model: Annotated[str, among(lambda: MODELS)] | None = None
    ridge: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    pooling: Count = 1
    projection: Count | None = None
    reference: Annotated[list[str], Field(min_length=1)] | None = None
    feature_norm: Positive | None = None
    normalise: bool = False
    bias: Annotated[float, Field(ge=0, le=1e6)] | Auto = "auto"

    @field_validator("bias", mode="before")
    @classmethod
    def _constant(cls, value: Any) -> Any:
        """True is a constant of 1, false none."""
        return float(value) if isinstance(value, bool) else value

    @property
    def radius(self) -> float | None:
        """Norm that records are scaled to or within; None leaves them as they are."""
        return 1.0 if self.normalise and self.feature_norm is None else self.feature_norm
