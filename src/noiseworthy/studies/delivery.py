"""The model that leaves a run: that of its first seed, with all that is needed to use it."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy._json import strict_json
from noiseworthy.model.calibration import FEWEST, PUBLIC_TESTS, Calibration, best_scale, crossed_scales
from noiseworthy.model.description import Description, TrainedOn
from noiseworthy.model.folder import NAME, Kept, save_folder
from noiseworthy.model.metrics import Metrics
from noiseworthy.model.model import Model, probed, task_of, weights_of
from noiseworthy.studies.class_weights import names_of_classes
from noiseworthy.studies.flags import flags
from noiseworthy.studies.opening import default_model
from noiseworthy.studies.prepare import Prepared
from noiseworthy.studies.record import Record
from noiseworthy.studies.standard_errors import coefficients_in
from noiseworthy.studies.statement import statement_of
from noiseworthy.studies.told_scores import sentences
from noiseworthy.studies.typed_record import RunRecord, view
from noiseworthy.tasks.encoder import encoder_of
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
    return {**record, **said, "training": {**training, "flags": flags(record, training)}}


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
    values = np.asarray(theta, np.float32)
    clients, sizes = list(federation.clients), federation.sizes.tolist()
    trained_on = TrainedOn(data=federation.name, clients=clients, records=sizes)
    described = Description(
        version=version("noiseworthy"), name=found.name, trained_on=trained_on,
        task=task_table(prepared), record_shape=shape, label_shape=list(federation.label_shape),
        classes=class_names(prepared), schema=federation.schema, seed=seeds[0], seeds=seeds,
        plan_digest=found.plan_digest, privacy=statement_of(found), metrics=None,
        test_origin=federation.test_origin, probe=probed(task, values, shape), told=_told_of(found),
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


def _told_of(record: RunRecord) -> str:
    """What owners told of the model, in words."""
    score = record.network and record.network.score
    return " ".join(sentences(score)) if score else ""


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
    return table.model_copy(update={"model": model, "dimension": None, "bias": table.intercept(model)})
