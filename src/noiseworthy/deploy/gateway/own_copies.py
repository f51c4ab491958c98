"""Models that run something of the owner's own copies, a module or an encoder: approved, and no other."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from noiseworthy.errors import InvalidInput, UserError
from noiseworthy.tasks.encoder import Encoder, encoder_of

if TYPE_CHECKING:
    from noiseworthy.deploy.gateway.holding import Holding
    from noiseworthy.deploy.gateway.messages import Seen
    from noiseworthy.deploy.gateway.owner import Owner
    from noiseworthy.tasks.base import Task
    from noiseworthy.tasks.networks import ModelTask
    from noiseworthy.tasks.table import TaskTable

_log = logging.getLogger("noiseworthy.deploy.gateway")


def task_of(owner: Owner, holding: Holding, table: TaskTable, seen: Seen | None) -> Task:
    """The model of a request for the owner's rows, which runs its own copies; reads no record.

    Raises:
        InvalidInput: as `Holding.task`, `own_model` and `own_encoder`.
    """
    if str(table.model) not in owner.allowed.own_models:
        return holding.task(table, seen, own_encoder(owner, table))
    return holding.of_rows(own_model(owner, table, holding.record_shape, holding.classes))


def own_model(owner: Owner, table: TaskTable, shape: tuple[int, ...], classes: int | None) -> Task:
    """The model of a module that lies beside an owner's file, if its source is the approved one.

    Args:
        owner: the owner's file.
        table: of a request, with the name of one of its `own_models`.
        shape: of a record.
        classes: of the labels; None for numbers.

    Raises:
        InvalidInput: a source that is not there or has another digest, or that makes no model of arrays.

    Guarantee: what is run is what the digest was taken of. Nobody has tested that records do not touch one
    another in a batch of it, to the last bit: they are worked on one after the other.
    """
    from noiseworthy.tasks.networks import ModelTask  # here, because few requests need networks
    from noiseworthy.tasks.own import own_task

    model = str(table.model)
    digest = owner.allowed.own_models[model].removeprefix("sha256:")
    try:
        task = own_task(model, owner.folder, digest, shape, classes, table.ridge)
    except UserError as error:
        _log.warning("%s", error)
        raise InvalidInput(
            f"the owner's copy of {model} is not the one that it approved, or makes no model for its records"
        ) from None
    if not isinstance(task, ModelTask):
        raise InvalidInput(f"{model} is no network of arrays, whose records can be worked on one by one")
    return _one_by_one(task)


@lru_cache(maxsize=16)
def _one_by_one(task: ModelTask) -> ModelTask:
    """The same object for the same task, so that what was compiled for it serves again."""
    return replace(task, chunk=1, one_by_one=True)


def own_encoder(owner: Owner, table: TaskTable) -> Encoder | None:
    """The encoder that lies beside an owner's file, if it is the approved one; None of other features.

    Args:
        owner: the owner's file.
        table: of a request.

    Raises:
        InvalidInput: an encoder that the owner has not approved, or that is not there or has another digest.
    """
    if not owner.allowed.encodes(table):
        raise InvalidInput(f"the owner does not allow encoder {table.features}")
    try:
        return encoder_of(table, owner.folder)
    except UserError as error:
        _log.warning("%s", error)
        raise InvalidInput(
            f"the owner's copy of {table.features} is not there, or not the one that it approved"
        ) from None
