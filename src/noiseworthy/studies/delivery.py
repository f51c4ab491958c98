"""The model that leaves a run: that of its first seed, with what is needed to use it, and coefficients."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy._json import strict_json
from noiseworthy.data.files import read_npz
from noiseworthy.data.schema.columns import NumberColumn
from noiseworthy.errors import ConfigError, InvalidInput
from noiseworthy.methods.moments.estimates import Estimates, estimates
from noiseworthy.model.coefficients import in_units
from noiseworthy.model.description import (
    FEWEST,
    PUBLIC_TESTS,
    Calibration,
    Description,
    TrainedOn,
    best_scale,
    crossed_scales,
)
from noiseworthy.model.folder import NAME, Kept, save_folder
from noiseworthy.model.metrics import Metrics
from noiseworthy.model.model import Model, probed, task_of, weights_of
from noiseworthy.studies import checkpoints, plan_file
from noiseworthy.studies.class_weights import names_of_classes
from noiseworthy.studies.flags import flags, sentences
from noiseworthy.studies.opening import default_model
from noiseworthy.studies.prepare import Prepared
from noiseworthy.studies.record import Record
from noiseworthy.studies.statement import statement_of
from noiseworthy.studies.typed_record import PlanPart, RunRecord, view
from noiseworthy.tasks.encoder import encoder_of
from noiseworthy.tasks.intercepts import intercept_of
from noiseworthy.tasks.linear import LinearModel
from noiseworthy.tasks.networks import ModelTask
from noiseworthy.tasks.own import is_own
from noiseworthy.tasks.table import TaskTable


def deliver(prepared: Prepared, theta: ArrayLike, record: Record, seeds: list[int], folder: Path) -> Record:
    """Write the model of a training into its run's folder; returns the record with what it measured.

    Args:
        prepared, theta, record, seeds: as `delivered`.
        folder: of the run.

    Raises:
        DataError: a folder that cannot be written to.
    """
    if (kept := delivered(prepared, theta, record, seeds)) is None:
        return record
    save_folder(kept, folder / NAME)
    scores = kept.description.metrics
    measured = {} if scores is None else {"metrics": strict_json(scores.model_dump())}
    told = coefficients_in(folder, view(record), kept.description)
    said = {} if told is None else {"coefficients": told}
    training = {**record["training"], **measured}
    seen = flags(record, training, answers=kept.description.probe is not None)
    return {**record, **said, "training": {**training, "flags": seen}}


def delivered(prepared: Prepared, theta: ArrayLike, record: Record, seeds: list[int]) -> Kept | None:
    """The model of a training, measured on the test records and described; None of a task of another kind.

    Args:
        prepared: the study with the model that was trained.
        theta: its parameters, shape (p,).
        record: of the run, with its training.
        seeds: of all trainings; the first one made the model.
    """
    federation, task = prepared.trained()[0], prepared.model()
    if not isinstance(task, LinearModel | ModelTask):
        return None
    found, seen = view(record), task.preparation.reference if isinstance(task, LinearModel) else None
    shape, test_x, weights = list(federation.feature_shape), federation.test_x, None
    if isinstance(task, LinearModel):  # who predicts needs no weights and no start
        if task.most_weight is not None:
            test_x, weights = test_x[:, :-1], test_x[:, -1]
        task = replace(task, most_weight=None, start=())
    values, score = np.asarray(theta, np.float32), found.network and found.network.score
    clients, sizes = list(federation.clients), federation.sizes.tolist()
    trained_on = TrainedOn(data=federation.name, clients=clients, records=sizes)
    described = Description(
        version=version("noiseworthy"), name=found.name, trained_on=trained_on,
        task=task_table(prepared), record_shape=shape, label_shape=list(federation.label_shape),
        classes=class_names(prepared), schema=federation.schema, seed=seeds[0], seeds=seeds,
        plan_digest=found.plan_digest, privacy=statement_of(found), metrics=None,
        test_origin=federation.test_origin, probe=probed(task, values, shape),
        told=" ".join(sentences(score, bool(prepared.study.task.class_weights))) if score else "",
        turned=str(prepared.study.federation.data).startswith("leaf:") and shape == [28, 28],
    )  # fmt: skip
    kept = Kept(described, values, seen, encoder_of(prepared.study.task, prepared.study.folder))
    # a network of the user's own, whose name no file knows
    if not is_own(described.task.model) and task_of(kept) != task:
        described = described.model_copy(update={"task": described.task.model_copy(update={"model": None})})
        kept = kept._replace(description=described)
    model = Model(kept, task)
    metrics = model.measured(test_x, federation.test_y, weights)
    if metrics is not None and federation.test_origin == "apart" and model.gives_probabilities:
        return _calibrated(model, metrics, test_x, federation.test_y, weights)
    return kept._replace(description=described.model_copy(update={"metrics": metrics}))


def _calibrated(model: Model, metrics: Metrics, x: NDArray, y: NDArray, own: NDArray | None) -> Kept:
    """The model with probabilities that are calibrated on test records which no client holds.

    Each half is scored with the scale of the other half: scores are of a scale that has not seen them.
    """
    kept, described = model.kept, model.description
    if len(y) < FEWEST or metrics.calibration_error is None:
        return kept._replace(description=described.model_copy(update={"metrics": metrics}))
    z, weights = model.answers(x), weights_of(y, described.task.weights, own)
    scale, error = best_scale(z, y, weights), metrics.calibration_error
    found = Calibration(scale=scale, source=PUBLIC_TESTS, records=len(y), error=error)
    scored = model.measured(x, y, own, scales=crossed_scales(z, y, weights))
    described = described.calibrated(found).model_copy(update={"metrics": scored})
    return kept._replace(description=described)


def class_names(prepared: Prepared) -> list[str] | None:
    """Names of the classes in their order, their numbers where they have none; None for a regression."""
    return names_of_classes(prepared.study, prepared.trained()[0])


def task_table(prepared: Prepared) -> TaskTable:
    """`[task]` of the model that is trained, with nothing left to be chosen."""
    federation, _ = prepared.trained()
    table = prepared.study.task
    model = table.model or default_model(federation.classes)
    return table.model_copy(update={"model": model, "dimension": None, "bias": intercept_of(table, model)})


CONFIDENCE = 0.95
"""Of the intervals in records."""
_MOMENTS, _START = "server_00", "server_01"


def coefficients_in(folder: Path, record: RunRecord, description: Description) -> dict[str, Any] | None:
    """What a record says of the coefficients of its first training, as `CoefficientsPart` has it.

    Per unit of a column where that is known. Owners whose upload did not arrive are left out. None of a run
    that is no regression by one upload.

    Args:
        folder: of the run, with its plan and its checkpoint.
        record: of the run, as far as it is made.
        description: of the model that was trained.
    """
    if description.task.model != "linear" or record.plan.label_weight is None or record.federation is None:
        return None
    arrived: list[bool] | int = 1
    if record.network and record.network.rounds:
        arrived = [record.network.rounds[0].answers.get(name) == "" for name in record.client_names]
    names, places, matrix = in_units(description, record.federation.dimension)
    try:
        found = estimates_of(folder, uploads=arrived, places=places).seen_through(matrix)
    except InvalidInput as why:
        return {"confidence": CONFIDENCE, "why_not": str(why)}
    columns = (found.coefficients, found.errors, found.errors_of_noise, *found.interval(CONFIDENCE).T)
    keys = ("feature", "coefficient", "error", "error_of_noise", "least", "most")
    rows = [dict(zip(keys, row, strict=True)) for row in zip(names, *columns, strict=True)]
    told = {"confidence": CONFIDENCE, "residual": found.residual, "rows": rows}
    return strict_json(told | {"may_scale": _may_scale(record.plan, description)})


def _may_scale(plan: PlanPart, description: Description) -> bool:
    """Whether norm or clip scale a record that the columns allow, which biases coefficients."""
    columns, task = description.columns, description.task
    if columns is None or columns.label.range is None or task.normalise or task.bias == "auto":
        return True
    # of each column a number up to 1, and the one that tells a gap beside the value that stands for it
    square = sum(1 + (one.indicator and not isinstance(one.missing, bool)) for one in columns.features)
    mean = plan.bought_label_mean or 0.0
    label = (plan.label_weight or 0.0) * max(abs(end - mean) for end in columns.label.range)
    size = square + task.bias**2 + label**2
    if plan.clip == "l1":
        size = ((square + task.bias + label) ** 2 + size) / 2
    unbound = any(isinstance(one, NumberColumn) and one.limits is None for one in columns.features)
    return unbound or square > (task.radius or np.inf) ** 2 or size > plan.clip_norm


def estimates_of(
    folder: str | Path, training: int = 0, uploads: ArrayLike = 1, places: NDArray[np.int64] | None = None
) -> Estimates:
    """Least-squares coefficients with standard errors of a regression that one upload trained.

    Args:
        folder: of a finished run.
        training: which of its seeds, by place.
        uploads: of each client, 0 of those that did not arrive.
        places: of the features to regress on; None takes all.

    Raises:
        ConfigError: a folder without such a run.
        InvalidInput: no regression by moments, or noise that hides the smallest eigenvalue of the moments.
    """
    folder = Path(folder)
    if not (folder / checkpoints.FILE).is_file() or not (folder / plan_file.FILE).is_file():
        raise ConfigError(f"{folder} holds no finished run; train into it with --out first")
    plan, kept = plan_file.load_plan(folder / plan_file.FILE).plan, read_npz(folder / checkpoints.FILE)
    if not {_MOMENTS, _START} <= {*kept} or not 0 <= training < len(kept[_MOMENTS]):
        raise ConfigError(f"{folder} keeps no moments of training {training}; take another, of one upload")
    mean, start = (np.asarray(kept[name][training], np.float64) for name in (_MOMENTS, _START))
    return estimates(plan, mean, start, uploads, places)
