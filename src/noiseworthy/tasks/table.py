"""`[task]`: the model on the records, in a study, a request or an owner's file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
)

from noiseworthy._tables import Auto, Count, Positive, Size, Table, among
from noiseworthy.tasks.names import MODELS, is_own

INTERCEPTS = {"softmax": 0.3, "logistic": 0.3, "svm": 0.3, "linear": 1.0}
"""The constant that "auto" appends to records of a linear model, over the norm that they are scaled to.

Chosen on tables that ship with the product (docs/planning.md): numbers to predict are rarely centred, so that
their intercept is worth half of a record's squared norm; that of classes is worth 1/12 of it.
"""


class TaskTable(Table):
    """`[task]`: a dimension for planning without data, or a model for training and how records reach it.

    A linear model's records are pooled, seen against a reference (public data by name, whose mean is
    subtracted), projected (on the reference's principal directions, else at random) and scaled, in that
    order; `normalise` without `feature_norm` scales them to norm 1. At last `bias` is appended, a constant
    whose weight is the intercept: by default in proportion to their norm where records are rows of numbers,
    and none where they are images.

    A `model` of the user's own is "module:function". Its module is looked up in `model_folder`, by default
    that of the study's file; `model_digest` is SHA-256 over its source, by which a plan knows it.
    """

    dimension: Size | None = None
    model: Annotated[str, among(lambda: MODELS, is_own)] | None = None
    model_digest: str | None = None
    model_folder: Annotated[Path, Field(strict=False)] | None = None
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

    @model_serializer(mode="wrap")
    def _known_by_source(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """As it is written: of a model of the user's own its digest, and never where it lies."""
        written = write(self)
        written.pop("model_folder", None)
        if self.model_digest is None:
            written.pop("model_digest", None)
        return written

    @property
    def radius(self) -> float | None:
        """Norm that records are scaled to or within; None leaves them as they are."""
        return 1.0 if self.normalise and self.feature_norm is None else self.feature_norm

    def intercept(self, model: str) -> float:
        """Value of the constant that is appended to records for a model, 0 for none; networks have none."""
        return INTERCEPTS.get(model, 0.0) * (self.radius or 1.0) if self.bias == "auto" else self.bias
