"""Models that an owner was sent at the end of trainings, beside its ledger; never unpickled, never run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from noiseworthy.deploy.gateway.messages import ModelOffer
from noiseworthy.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from noiseworthy.model.description import Description
    from noiseworthy.tasks.table import TaskTable

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _-]{0,99}")


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

    def keep(self, offer: ModelOffer) -> Path:
        """Write a model as `noiseworthy train` does; one of the same run is replaced whole.

        Args:
            offer: the model.

        Returns:
            Its folder, of mode 0700.

        Raises:
            InvalidInput: a run whose name could be another place's.
            DataError: a description of no model; a disk that is full, or the like.
        """
        from noiseworthy.model.folder import Kept, save_folder  # here, because one comes at the end of a run
        from noiseworthy.tasks.reference import Reference

        if not _NAME.fullmatch(offer.run):
            raise InvalidInput(
                "a model is kept by its run's name, which must be of letters, digits, spaces, '_' and '-'"
            )
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        seen = None if offer.seen is None else Reference(**dict(offer.seen))
        return save_folder(Kept(described(offer), offer.theta, seen), self.folder / offer.run, private=True)

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


def fitting(offer: ModelOffer, record_shape: Sequence[int], classes: int | None) -> TaskTable:
    """The task of an offered model, which is for records like an owner's.

    Args:
        offer: the model.
        record_shape: of the owner's records.
        classes: of their labels.

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
    return said.task
