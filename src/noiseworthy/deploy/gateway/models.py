"""Models that an owner was sent at the end of trainings, beside its ledger; never unpickled, never run."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict

from noiseworthy._tables import Table
from noiseworthy.data.owners import Labels, columns_misfit, labels_misfit
from noiseworthy.deploy.gateway.messages import Received, RunName, Seen, Vector, pack_reply
from noiseworthy.deploy.gateway.terms import Declined
from noiseworthy.errors import InvalidInput, UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from noiseworthy.deploy.gateway.gateway import Gateway
    from noiseworthy.deploy.gateway.holding import Holding
    from noiseworthy.deploy.gateway.owner import Owner
    from noiseworthy.model.description import Description
    from noiseworthy.tasks.encoder import Encoder
    from noiseworthy.tasks.table import TaskTable

_log = logging.getLogger("noiseworthy.deploy.gateway")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _-]{0,99}")


class ModelOffer(Table):
    """The model that a run has reached, for its owners to keep.

    Attributes:
        run: by name.
        description: what a model is besides its numbers, as `model.json` says it.
        theta: its parameters, float32, shape (p,), finite.
        seen: numbers of the reference that its task names; None where it names none.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    run: RunName
    description: dict[str, Any]
    theta: Vector
    seen: Seen | None = None

    def answered(self, gateway: Gateway) -> bytes:
        """Keep the model, if its owner took part in its run; nothing there looks at it again.

        Raises:
            Declined: a model of another run, or one that the owner's file does not allow.
        """
        if gateway.runs.number_of(self.run) is None:
            raise Declined("not-allowed", "the owner took part in no such run; its model was not kept")
        from noiseworthy.deploy.gateway.own_copies import own_encoder  # here, because one comes at the end

        holding = gateway.holding
        try:
            owner = gateway.owner
            digest = owner.columns and owner.columns.digest
            task = fitting(self, _feature_shape(holding), holding.classes, labels_of(owner), digest)
            _check_allowed(gateway, task, self)
            encoder = own_encoder(gateway.owner, task)
        except UserError as error:
            raise Declined("not-allowed", str(error)) from None
        # beyond what is told a server: what its disk refuses names places of the owner's
        path = Models.beside(gateway.ledger.path).keep(self, encoder)
        _log.info("the model of run %r is kept at %s", self.run, path)
        gateway.on_model(path)
        return pack_reply(Received(head=str(gateway.ledger.head)))


@dataclass(frozen=True)
class Models:
    """The models of one owner's runs.

    Attributes:
        folder: that holds a folder for each, by the name of its run; private.
    """

    folder: Path

    @classmethod
    def beside(cls, ledger: Path) -> Models:
        """Those beside a ledger."""
        return cls(ledger.parent / "models")

    def keep(self, offer: ModelOffer, encoder: Encoder | None = None) -> Path:
        """Write a model as `noiseworthy train` does; one of the same run is replaced whole.

        Args:
            offer: the model, whose run's name leads to no other place.
            encoder: the owner's copy of the one that records pass first, if any.

        Returns:
            Its folder, of mode 0700.

        Raises:
            DataError: a description of no model; a disk that is full, or the like.
        """
        from noiseworthy.model.folder import Kept, save_folder  # here, because one comes at the end of a run
        from noiseworthy.tasks.reference import Reference

        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        seen = None if offer.seen is None else Reference(**dict(offer.seen))
        kept = Kept(described(offer), offer.theta, seen, encoder)
        return save_folder(kept, self.folder / offer.run, private=True)

    def kept(self) -> list[Path]:
        """Their folders, the last one first; files of earlier versions among them."""
        found = [*self.folder.glob("[!.]*/model.json"), *self.folder.glob("[!.]*.npz")]
        last = sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)
        return [path.parent if path.suffix == ".json" else path for path in last]


def described(offer: ModelOffer) -> Description:
    """What an offered model says of itself.

    Raises:
        DataError: what describes no model.
    """
    from noiseworthy.model.description import Description

    return Description.read(offer.description)


def fitting(
    offer: ModelOffer, record_shape: Sequence[int], classes: int | None, labels: Labels | None = None,
    columns: str | None = None,
) -> TaskTable:  # fmt: skip
    """The task of an offered model, which is for records like an owner's.

    Args:
        offer: the model.
        record_shape: of the owner's records.
        classes: of their labels.
        labels: the classes in their order; None where the owner's file does not list them.
        columns: digest of those that the owner's file states; None where it states none.

    Raises:
        DataError: what describes no model.
        InvalidInput: a model of other records.
    """
    said = described(offer)
    told = None if said.classes is None else len(said.classes)
    if (said.record_shape, told) != ([*record_shape], classes):
        raise InvalidInput(
            f"the model is for records of shape {said.record_shape} and {told} classes, the owner's are "
            f"{[*record_shape]} and {classes}"
        )
    misfit = columns and columns_misfit("the owner", columns, said.columns and said.columns.digest)
    if misfit := misfit or labels_misfit("the owner", labels, said.classes):
        raise InvalidInput(misfit)
    return said.task


def labels_of(owner: Owner) -> Labels | None:
    """The classes in their order as an owner's file lists them; None where it does not."""
    return owner.federation.classes if owner.columns is None else owner.columns.label.classes


def _feature_shape(holding: Holding) -> tuple[int, ...]:
    """Shape of what is learned from in a record."""
    return holding.record_shape if holding.most_weight is None else (holding.x.shape[1] - 1,)


def _check_allowed(gateway: Gateway, task: TaskTable, offer: ModelOffer) -> None:
    if not _NAME.fullmatch(offer.run):  # or it could be another place's
        raise Declined(
            "not-allowed",
            "a model is kept by its run's name, which must be of letters, digits, spaces, '_' and '-'",
        )
    allowed, size = gateway.owner.allowed, len(offer.theta)
    if not (allowed.allows(task) and allowed.encodes(task)) or size > allowed.most_parameters:
        raise Declined("not-allowed", f"the owner does not allow this model of {size} parameters")
    dimension = gateway.task(task, offer.seen).dimension
    if dimension != size:
        raise Declined("not-allowed", f"the model has {dimension} parameters, got {size}")
