"""Models that run something of the owner's own copies, a module or an encoder: approved, and no other."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from noiseworthy.errors import InvalidInput, UserError
from noiseworthy.tasks.encoder import Encoder, encoder_of

if TYPE_CHECKING:
    from noiseworthy.deploy.gateway.holding import Holding
    from noiseworthy.deploy.gateway.messages import Seen
    from noiseworthy.deploy.gateway.owner import Owner
    from noiseworthy.tasks.base import Task
    from noiseworthy.tasks.table import TaskTable

_log = logging.getLogger("noiseworthy.deploy.gateway")


def task_of(owner: Owner, holding: Holding, table: TaskTable, seen: Seen | None) -> Task:
    """The model of a request for the owner's rows, which runs its own copies; reads no record.

    Raises:
        InvalidInput: as `Holding.task`, `own_model` and `own_encoder`.
    """
    if str(table.model) not in owner.allowed.own_models:
        return holding.task(table, seen, own_encoder(owner, table))
    from noiseworthy.deploy.gateway.own_models import own_model  # here, because it loads networks

    return holding.of_rows(own_model(owner, table, holding.record_shape, holding.classes))


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
