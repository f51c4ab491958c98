"""The model of a study: for its own records, for public ones in their place, and by default."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from noiseworthy.data import Federation
from noiseworthy.errors import ConfigError, DataError
from noiseworthy.methods.registry import table
from noiseworthy.plans.stages import BoughtRanges
from noiseworthy.studies.class_weights import of_other_classes, shares_of
from noiseworthy.studies.opening import default_model
from noiseworthy.studies.tables import Study
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.encoder import Encoder, features_of
from noiseworthy.tasks.factory import check_plain, make_task
from noiseworthy.tasks.intercepts import intercept_of
from noiseworthy.tasks.linear import LinearModel
from noiseworthy.tasks.names import LINEAR, MEAN, SCATTERING
from noiseworthy.tasks.own import is_own, own_task
from noiseworthy.tasks.preparation import Preparation
from noiseworthy.tasks.reference import Reference
from noiseworthy.tasks.table import TaskTable
from noiseworthy.trials.centring import seen_against, started, starting_at
from noiseworthy.trials.reference import apart_from, reference_of
from noiseworthy.trials.treatment import Treatment


def task_for(study: Study, federation: Federation, bought: BoughtRanges | None = None) -> Task:
    """The model of `[task]` for the records of a federation.

    Args:
        study: whose model.
        federation: whose records.
        bought: what its clients told before a plan; a mean that is still to be told counts as 0.

    Raises:
        ConfigError: records that are to be seen against a mean that nobody told.
        DataError: what `check_tokens` refuses.
        InvalidInput: a model of the user's own whose loss does not fit the records and labels.
    """
    facts = federation.record_shape, federation.classes, federation.most_weight
    if study.task.reference != [MEAN]:
        made = open_task(study, *facts)
        check_tokens(federation, made)
        if is_own(study.task.model):
            from noiseworthy.tasks.networks import check_fits  # here, because linear models need none

            tests = federation.test_x, federation.test_y
            check_fits(f'[task] model = "{study.task.model}"', made, *tests, federation.classes)
        mean = None if bought is None else bought.label_mean
        return made if mean is None else starting_at(made, mean)
    plain = open_task(with_task(study, {"reference": None}), *facts)
    if bought is None or not (bought.mean or bought.pending) or not isinstance(plain, LinearModel):
        stated = f'[task] reference = ["{MEAN}"]'
        raise ConfigError(f"{stated} is what a plan chooses; leave out how records are treated")
    unknown = (0.0,) * math.prod(federation.feature_shape)
    return seen_against(plain, bought.mean or unknown, bought.class_shares)


def check_tokens(federation: Federation, task: Task) -> None:
    """Refuse tokens that a language model does not know, by DataError: they would train as its last one."""
    if (most := getattr(task, "vocabulary", None)) is None:
        return
    for who, x in (*zip(federation.clients, federation.x, strict=True), ("the test set", federation.test_x)):
        if len(places := np.argwhere((x < 0) | (x >= most))):
            raise DataError(
                f"{who} has the token {x[*places[0]]} in record {places[0][0] + 1}; tokens must be whole "
                f"numbers in 0..{most - 1}, for a model of {most} classes"
            )


def of_algorithm(study: Study, name: str) -> Study:
    """A study that names no algorithm with the one that its plan has."""
    if "algorithm" in study.model_fields_set or name == study.algorithm.name:
        return study
    return study.model_copy(update={"algorithm": table(name).model_validate({"name": name})})


def open_task(
    study: Study, shape: tuple[int, ...], classes: int | None, most_weight: float | None = None
) -> Task:
    """The model of `[task]` for records of a shape; by default the linear model that fits the labels.

    Args:
        study: whose model.
        shape: of a record.
        classes: number of them; None for regression.
        most_weight: bound on the weights of records, which are then the last numbers of theirs.
    """
    table = of_other_classes(study.task, classes)
    model = table.model or default_model(classes)
    if is_own(model):
        check_plain(model, **_linear_keys(table), **{'role = "weight"': most_weight is not None})
        return own_task(model, study.folder, table.model_digest, shape, classes, table.ridge)
    if model not in LINEAR:
        check_plain(model, features=table.features is not None)
    made = make_task(
        model, shape, classes, ridge=table.ridge, feature_norm=table.radius, normalise=table.normalise,
        bias=intercept_of(table, model), pooling=table.pooling, projection=table.projection,
        reference=_reference(study, shape), class_weights=table.weights,
        features=features_of(table, study.folder), most_weight=most_weight,
    )  # fmt: skip
    shares = shares_of(table)
    return made if shares is None or not isinstance(made, LinearModel) else started(made, shares)


def _linear_keys(table: TaskTable) -> dict[str, bool]:
    """Which keys that only linear models take are stated."""
    return {
        "feature_norm": table.feature_norm is not None, "normalise": table.normalise,
        "bias": table.bias not in ("auto", 0.0), "pooling": table.pooling != 1,
        "projection": table.projection is not None, "reference": table.reference is not None,
        "class_weights": table.class_weights is not None, "features": table.features is not None,
    }  # fmt: skip


def _reference(study: Study, shape: tuple[int, ...]) -> Reference | None:
    """The public data that records are seen against."""
    table, data = study.task, study.federation
    if table.reference is None:
        return None
    public, own = [study.located(one) for one in table.reference], study.located(str(data.data))
    features = features_of(table, study.folder)
    return reference_of(public, own, shape, table.pooling, data.data_dir, features)


def proxy_task(
    study: Study, shape: tuple[int, ...], classes: int | None, treatment: Treatment | None = None,
    public: str | None = None, /,
) -> Task:  # fmt: skip
    """The study's model for public records, treated as a plan may choose and as their shape allows.

    Public records may have more classes than the two that the study separates. Those named by `public` are
    seen against the other data sets of a reference only, and records of another kind against none.
    """
    keys: dict[str, Any] = {} if treatment is None else treatment.keys()
    if study.task.model in ("logistic", "svm") and (classes or 2) > 2:
        keys["model"] = "softmax"
    if len(shape) == 1 and (treatment is not None or math.isqrt(shape[0]) ** 2 != shape[0]):
        keys["pooling"] = 1
        if keys.get("features", study.task.mapped_by) == SCATTERING:
            keys["features"] = None
    features = features_of(with_task(study, keys).task, study.folder)
    if isinstance(features, Encoder) and not features.fits(shape):
        keys["features"] = features = None
    if treatment is not None and treatment.centred:
        keys["reference"] = None
    projection = keys.get("projection", study.task.projection)
    reference = keys.get("reference", study.task.reference)
    if reference and public is not None:
        keys["reference"] = apart_from(reference, public, shape, study.federation.data_dir) or None
    unseen = reference and not keys.get("reference", reference)
    numbers = Preparation(features=features).shape_after
    if projection is not None and (unseen or projection > math.prod(numbers(shape))):
        keys["projection"] = None
    return open_task(with_task(study, keys), shape, classes)


def with_task(study: Study, keys: dict[str, Any]) -> Study:
    """The study with other keys under `[task]`."""
    return study.model_copy(update={"task": study.task.model_copy(update=keys)})
