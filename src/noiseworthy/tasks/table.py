"""`[task]`: the model on the records, in a study, a request or an owner's file."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from noiseworthy._tables import Auto, Chance, Count, Listed, NonNegative, Positive, Size, Table, among
from noiseworthy.errors import InvalidInput
from noiseworthy.tasks.names import ENCODER, FEATURES, FOURIER, MODELS, OPEN_FEATURES, OWN, is_encoder

_MAPS = re.compile(f"({FOURIER.pattern}|{ENCODER.pattern})")
TREATED = frozenset({"normalise", "feature_norm", "pooling", "projection", "reference"})
"""Keys that trials choose where a study has none of them."""
Weight = Annotated[float, Field(ge=1e-6, le=1e6)]
Said = Annotated[str, Field(min_length=1, max_length=300)] | None
Unsaid = Field(default=None, exclude_if=lambda said: said is None)


class TaskTable(Table):
    """`[task]`: a dimension for planning without data, or a model for training and how records reach it.

    A linear model's records are pooled, replaced by public features, seen against a reference (public data
    by name, whose mean is subtracted), projected (on the reference's principal directions, else at random)
    and scaled, in that order; `normalise` without `feature_norm` scales them to norm 1. At last `bias` is
    appended, a constant whose weight is the intercept: by default in proportion to their norm where records
    are rows of numbers, and none where they are images.
    """

    dimension: Size | None = None
    """Number of parameters, for planning from sizes alone."""
    model: Annotated[str, among(lambda: MODELS, OWN)] | None = None
    """Left out: `logistic` for two classes, `softmax` for more, `linear` for numbers; `"module:function"` is
    a model of your own."""
    model_digest: str | None = Unsaid
    """SHA-256 over the source of a model of your own, by which plans know it; left out, it is computed."""
    ridge: NonNegative = 0.0
    """Weight of the penalty on squared parameters."""
    pooling: Count = 1
    """Side of the blocks of pixels that are summed into one."""
    projection: Count | None = None
    """Numbers that records are projected to; left out, none are."""
    features: Annotated[str, among(lambda: FEATURES, _MAPS)] | None = Unsaid
    """Public map: `scattering` of images, `fourier:COUNT:BANDWIDTH:SEED`, or an encoder, `"encoder.onnx"`
    beside the study; `fourier` and "auto" by trial."""
    encoder_licence: Said = Unsaid
    """Licence of an encoder, for the claim card."""
    encoder_source: Said = Unsaid
    """Where an encoder comes from and what it was trained on, for the claim card: not these records."""
    encoder_digest: Said = Unsaid
    """SHA-256 of an encoder's file, by which plans and owners know it; left out, it is computed."""
    reference: Annotated[list[str], Field(min_length=1)] | None = None
    """Names of public data whose mean is subtracted, and on whose directions records are projected."""
    feature_norm: Positive | None = None
    """L2 norm that records are scaled down to; a public bound."""
    normalise: bool = False
    """Whether every record is scaled to `feature_norm`, or to 1 where none is stated."""
    bias: Annotated[float, Field(ge=0, le=1e6)] | Auto = "auto"
    """Constant that is appended to records, whose weight is the intercept; `true` is 1, `false` none."""
    class_weights: Listed[Weight] | dict[str, Weight] | Literal["balanced"] | None = Unsaid
    """Public numbers that losses of the classes are multiplied by, in order or by name; or `balanced`."""
    class_shares: Listed[Chance] | dict[str, Chance] | None = Unsaid
    """Public shares of the classes, for public data, the start of linear models and `balanced` weights."""

    @field_validator("bias", mode="before")
    @classmethod
    def _constant(cls, value: Any) -> Any:
        """True is a constant of 1, false none."""
        return float(value) if isinstance(value, bool) else value

    @model_validator(mode="after")
    def _chosen_together(self) -> TaskTable:
        fields = type(self).model_fields
        stated = [name for name in TREATED if getattr(self, name) != fields[name].default]
        if self.features == "auto" and stated:
            raise ValueError(
                'features = "auto" chooses how records are treated; leave out '
                f'{", ".join(sorted(stated))}, or state features = "scattering"'
            )
        if is_encoder(self.features) or self.encoder_licence or self.encoder_source or self.encoder_digest:
            from noiseworthy.tasks.encoder import check_told  # here, because few studies have one

            check_told(self)
        return self

    @property
    def radius(self) -> float | None:
        """Norm that records are scaled to or within; None leaves them as they are."""
        return 1.0 if self.normalise and self.feature_norm is None else self.feature_norm

    @property
    def mapped_by(self) -> str | None:
        """The features that records are replaced by; none where trials have not chosen yet."""
        return None if self.features in OPEN_FEATURES else self.features

    @property
    def weights(self) -> tuple[float, ...] | None:
        """Class weights in order; by InvalidInput refused are those that only a study can bring in order."""
        if (stated := self.class_weights) is not None and not isinstance(stated, list):
            raise InvalidInput(f"class_weights must be a list in the order of classes, got {stated!r:.60}")
        return None if stated is None else tuple(map(float, stated))
