"""Models that an owner was sent at the end of trainings, beside its ledger; never unpickled, never run."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from noiseworthy.deploy.gateway.messages import ModelOffer
from noiseworthy.errors import InvalidInput

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _-]{0,99}")


@dataclass(frozen=True)
class Models:
    """The models of one owner's runs.

    Attributes:
        folder: that holds them, each as `RUN.npz`; private.
    """

    folder: Path

    @classmethod
    def beside(cls, ledger: Path) -> Models:
        """Those beside a ledger."""
        return cls(ledger.parent / "models")

    def keep(self, offer: ModelOffer) -> Path:
        """Write a model as `noiseworthy train` does, with its task; one of the same run is replaced whole.

        Returns:
            The file, of mode 0600.

        Raises:
            InvalidInput: a run whose name could be another place's.
            OSError: a disk that is full, or the like.
        """
        if not _NAME.fullmatch(offer.run):
            raise InvalidInput(
                "a model is kept by its run's name, which must be of letters, digits, spaces, '_' and '-'"
            )
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        arrays = {"theta": offer.theta[None], "task": np.array(offer.task.model_dump_json(exclude_none=True))}
        if offer.seen is not None:
            arrays |= {"mean": offer.seen.mean, "directions": offer.seen.directions}
        handle, fresh = tempfile.mkstemp(dir=self.folder, suffix=".new")
        try:
            with open(handle, "wb") as file:
                np.savez(file, allow_pickle=False, **arrays)
            os.replace(fresh, self.folder / f"{offer.run}.npz")
        except BaseException:
            Path(fresh).unlink(missing_ok=True)
            raise
        return self.folder / f"{offer.run}.npz"

    def kept(self) -> list[Path]:
        """The files, the last one first."""
        return sorted(self.folder.glob("*.npz"), key=lambda path: path.stat().st_mtime, reverse=True)
