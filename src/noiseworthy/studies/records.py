"""`[federation]` and `[task]`: whose records, and the model on them. An owner's file has such tables, too."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from noiseworthy._tables import (
    Auto,
    Count,
    Positive,
    Size,
    Table,
)
from noiseworthy.data.tables import Columns


class FederationTable(Table):
    """`[federation]`: either public sizes alone, or data and how clients share them.

    Of `data = "owners:FILE"` the records lie at their owners, and `test` is a table of test records.
    """

    sizes: list[Size] | None = None
    data: str | None = None
    test: str | None = None
    data_dir: Annotated[Path, Field(strict=False)] | None = None
    clients: Size | None = None
    partition: Literal["iid", "dirichlet", "sorted", "label-shards", "quantity-skew", "natural"] | None = None
    alpha: Positive | None = None
    labels_per_client: Size | None = None
    records_per_client: Size | None = None
    fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    client_column: str = "client"
    feature_columns: list[str] | None = None
    label_column: str = "label"
    regression: bool = False
    classes: Annotated[list[str | int], Field(min_length=2)] | None = None
    seed: int = 0

    @model_validator(mode="after")
    def _one_source(self) -> FederationTable:
        if (self.sizes is None) == (self.data is None):
            raise ValueError("[federation] needs either sizes or data, and not both")
        return self

    @model_validator(mode="after")
    def _distinct_classes(self) -> FederationTable:
        if self.classes is None:
            return self
        if self.regression or len({str(one) for one in self.classes}) < len(self.classes):
            raise ValueError("[federation] classes must be different labels of a table without regression")
        return self

    @model_validator(mode="after")
    def _records_at_owners(self) -> FederationTable:
        if self.of_owners != (self.test is not None):
            raise ValueError(
                '[federation] test, a table of test records, goes with data = "owners:FILE" and with no other'
            )
        dealt = [key for key in _DEALING if getattr(self, key) not in (None, 1.0)]
        if self.of_owners and dealt:
            raise ValueError(
                f"[federation] {', '.join(dealt)} would deal records out that lie at their owners; leave out"
            )
        return self

    @property
    def columns(self) -> Columns:
        """What the columns of a table mean."""
        features = None if self.feature_columns is None else tuple(self.feature_columns)
        classes = None if self.classes is None else tuple(self.classes)
        return Columns(self.label_column, self.client_column, features, self.regression, classes)

    @property
    def of_owners(self) -> bool:
        """Whether the records lie at their owners."""
        return self.data is not None and self.data.startswith(OWNERS)


OWNERS = "owners:"
"""How a source begins that is a file of what owners tell."""
_DEALING = ("clients", "partition", "alpha", "labels_per_client", "records_per_client", "fraction")


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
    """

    dimension: Size | None = None
    model: (
        Literal[
            "softmax",
            "logistic",
            "svm",
            "linear",
            "cnn",
            "fu-cnn",
            "two-layer-cnn",
            "vgg11",
            "ma-cnn",
            "lenet5",
            "group-cnn",
            "resnet20",
            "lstm",
            "unet3d",
        ]
        | None
    ) = None
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

    def intercept(self, model: str) -> float:
        """Value of the constant that is appended to records for a model, 0 for none; networks have none."""
        return INTERCEPTS.get(model, 0.0) * (self.radius or 1.0) if self.bias == "auto" else self.bias
