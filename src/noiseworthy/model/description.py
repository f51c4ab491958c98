"""What `model.json` says of a model: all but its numbers."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, ValidationError, model_validator
from scipy.special import log_softmax

from noiseworthy._tables import Table
from noiseworthy.data.records import TestOrigin
from noiseworthy.data.schema import Schema
from noiseworthy.errors import DataError
from noiseworthy.model.metrics import Metrics
from noiseworthy.privacy.uploads import Assurance
from noiseworthy.tasks.table import TaskTable

LEAST, MOST = 1 / 64, 64.0
"""Scales that are looked at."""
PUBLIC_TESTS = "the test records, which no client holds"
"""Where test records are a set of their own."""
FEWEST = 100
"""Records below which one that is found says little."""


class Calibration(Table):
    """By what outputs are multiplied before they become probabilities; classes and their order stay.

    Attributes:
        scale: one over the temperature.
        source: the public records that it was found on, in words.
        records: how many they are.
        error: calibration error on the test records without it.
    """

    scale: Annotated[float, Field(ge=LEAST, le=MOST)]
    source: str
    records: int
    error: float


def best_scale(z: ArrayLike, y: ArrayLike, weights: NDArray[np.float64] | None = None) -> float:
    """The scale at which the log loss of labelled records is least.

    Args:
        z: outputs before the softmax, shape (n, K), or log odds (n, 1).
        y: classes 0..K-1, shape (n,).
        weights: of the records, shape (n,); None for 1.

    Example:
        >>> round(best_scale([[2.0], [2.0], [2.0], [-2.0]], [1, 1, 0, 0]), 3)
        0.549

    Source: Guo et al., On calibration of modern neural networks (2017), temperature scaling.
    """
    outputs, true = np.asarray(z, np.float64), np.asarray(y)
    if outputs.shape[1] == 1:
        outputs = np.concatenate([np.zeros_like(outputs), outputs], axis=1)
    each = np.arange(len(true))

    def loss(log_scale: float) -> float:
        shares = log_softmax(np.exp(log_scale) * outputs, axis=1)
        return float(-np.average(shares[each, true], weights=weights))

    ends = np.log(LEAST), np.log(MOST)
    from scipy.optimize import minimize_scalar  # here, because it is slow to load

    # The loss is convex in the scale, so that in its logarithm, too, it has one valley and no other.
    found: Any = minimize_scalar(loss, bounds=ends, method="bounded", options={"xatol": 1e-6})
    return float(np.clip(np.exp(found.x), LEAST, MOST))


def crossed_scales(
    z: ArrayLike, y: ArrayLike, weights: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """For every record the scale that the other half of the records has, shape (n,), by turns.

    Scores of a model with them are of records that its scale was not found on.
    """
    outputs, true = np.asarray(z), np.asarray(y)
    scales = np.empty(len(true))
    for half in (0, 1):
        other = slice(1 - half, None, 2)
        scales[half::2] = best_scale(outputs[other], true[other], None if weights is None else weights[other])
    return scales


FORMAT = 2
"""Of the folder of a calibrated model, which earlier programs would read otherwise; of others it is 1."""
Ends = Annotated[list[float], Field(min_length=2, max_length=2)]
"""The least and the greatest over clients."""


class TrainedOn(Table):
    """Names and sizes of what a model was trained on, which are public."""

    data: str
    clients: list[str]
    records: list[int]


class Statement(Table):
    """What the training of a model promises.

    Attributes:
        private: whether clients added noise.
        claim: in a sentence.
        assurance: where the noise came from.
        warning: why the model must not be released; empty where nothing speaks against it.
        unit, relation: whose change is hidden.
        epsilon, delta: least and greatest lifetime budget of a client.
        mechanism: of the noise.
        adversary: who may look.
    """

    private: bool
    claim: str
    assurance: Assurance
    warning: str
    unit: str
    relation: str
    epsilon: Ends
    delta: Ends
    mechanism: str
    adversary: str


class Description(Table):
    """Everything that a model is besides its numbers.

    Attributes:
        format: of the folder.
        version: of the product that wrote it.
        name: of the study.
        trained_on: names and sizes.
        task: the model by name with all its arguments, none of them left open.
        record_shape: of one record, as numbers.
        label_shape: of one label, [] for a class or a number.
        classes: names in order, or None for a regression.
        columns: the schema by which columns become numbers, `schema` in the file; None without columns.
        seed: of the training that made it; `seeds` are all that were measured.
        plan_digest: of the plan's file.
        privacy: what its training promises.
        metrics: on test records.
        test_origin: where these come from; None where that is not known, and absent from the file.
        calibration: by what outputs are multiplied to become probabilities; None where they are taken as they
            are, and absent from the file.
        probe: mean and mean size of the outputs on public records that `model.probed` draws, by which a
            program that computes otherwise is noticed; None where training diverged.
        told: what owners told of it, with noise, in words; absent from the file where they told nothing.
        turned: whether images on white paper are turned before anything else, `leaf.femnist_images`; absent
            from the file where they are not.
    """

    format: Literal[1, 2] = 1
    version: str
    name: str
    trained_on: TrainedOn
    task: TaskTable
    record_shape: list[int]
    label_shape: list[int]
    classes: list[str] | None
    columns: Schema | None = Field(default=None, alias="schema")
    seed: int
    seeds: list[int]
    plan_digest: str | None
    privacy: Statement
    metrics: Metrics | None
    probe: list[float] | None
    test_origin: TestOrigin | None = Field(default=None, exclude_if=lambda origin: origin is None)
    calibration: Calibration | None = Field(default=None, exclude_if=lambda found: found is None)
    told: str = Field(default="", exclude_if=lambda told: not told)
    turned: bool = Field(default=False, exclude_if=lambda turned: not turned)

    @model_validator(mode="after")
    def _says_its_format(self) -> Self:
        if (self.calibration is None) != (self.format == 1):
            raise ValueError(f"format 2 is that of calibrated models, and no other, got {self.format}")
        return self

    @model_validator(mode="after")
    def _one_record(self) -> Self:
        """Columns, where there are any, make the records and have the classes."""
        if self.columns is None:
            return self
        if self.record_shape != [self.columns.width]:
            raise ValueError(
                f"its columns make {self.columns.width} numbers of a record, its shape is {self.record_shape}"
            )
        named = self.columns.label.classes
        if (None if named is None else list(named)) != self.classes:
            raise ValueError("its columns have other classes than it has itself")
        return self

    @classmethod
    def read(cls, content: Any) -> Description:
        """A description from plain values.

        Raises:
            DataError: values that describe no model, with the first thing that is wrong.
        """
        if isinstance(content, dict) and content.get("format", FORMAT) not in (1, FORMAT):
            raise DataError(
                f"the model is of format {content['format']!r:.20}, this program reads 1 and {FORMAT}; "
                f"use noiseworthy {content.get('version', 'of another version')!s:.20}, which wrote it"
            )
        try:
            text = json.dumps(content, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            raise DataError("this describes no model: it holds more than plain values; train again") from None
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = "".join(f"{part!s:.40}: " for part in first["loc"])
            said = first["msg"].removeprefix("Value error, ")
            raise DataError(f"this describes no model: {where}{said}; train again or copy it whole") from None

    def calibrated(self, calibration: Calibration | None) -> Description:
        """The description with another calibration, in the format that it needs."""
        format = 1 if calibration is None else FORMAT
        return self.model_copy(update={"calibration": calibration, "format": format})

    @property
    def scale(self) -> float:
        """What outputs are multiplied by before they become probabilities."""
        return 1.0 if self.calibration is None else self.calibration.scale

    @property
    def label_name(self) -> str:
        """What is predicted, by name."""
        return "label" if self.columns is None else self.columns.label.name

    @property
    def plain(self) -> dict[str, Any]:
        """As plain values."""
        return self.model_dump(mode="json", by_alias=True)


def digest_of(content: dict[str, Any]) -> str:
    """SHA-256 of plain values without their digest, however they are laid out."""
    rest = {key: value for key, value in content.items() if key != "digest"}
    # Of a file that was changed it is a digest too, not an error: with NaN in it, or half a character.
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
