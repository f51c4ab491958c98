"""What an owner remembers of a run between releases, on disk beside the ledger. It never leaves the owner."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from noiseworthy._jax import jax, jnp
from noiseworthy.deploy.gateway import wire
from noiseworthy.methods.local import Memory
from noiseworthy.privacy.durable.storage import sync_folder


class Remembered(NamedTuple):
    """Memory after a release; release 0 is the start."""

    release: int
    memory: Memory


@dataclass(frozen=True)
class Memories:
    """A folder with one file for each run, written whole or not at all, for nobody else to read.

    Attributes:
        folder: made when something is kept.
        owner: name of the client and its data, so that owners may share a folder.
    """

    folder: Path
    owner: str

    def recall(self, run: str, fresh: Memory) -> Remembered:
        """What was kept last, or the fresh memory.

        Args:
            run: by name.
            fresh: memory before the first release, whose structure and shapes the kept one must have.

        Raises:
            ValueError: a file of other shapes.
            WireError: a damaged file.
        """
        leaves, structure = jax.tree.flatten(fresh)
        if not leaves or not self._path(run).exists():
            return Remembered(0, fresh)
        # NaN is taken back as it was kept: to refuse it would tell that the owner's own model overflowed
        numbers = [f"leaves.{place}" for place in range(len(leaves))]
        kept = wire.unpack(self._path(run).read_bytes(), not_finite=numbers)
        if [leaf.shape for leaf in kept["leaves"]] != [leaf.shape for leaf in leaves]:
            raise ValueError("memory of other shapes")
        return Remembered(kept["release"], structure.unflatten(map(jnp.asarray, kept["leaves"])))

    def keep(self, run: str, release: int, memory: Memory) -> None:
        """Replace what is remembered, durably; memory without arrays needs no file."""
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(memory)]
        if not leaves:
            return
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._path(run)
        written = path.with_suffix(f".{os.getpid()}")
        _write(written, wire.pack({"release": release, "leaves": leaves}))
        written.replace(path)
        sync_folder(self.folder)

    def _path(self, run: str) -> Path:
        return self.folder / f"{hashlib.sha256(wire.pack([self.owner, run])).hexdigest()[:32]}.memory"


def _write(path: Path, data: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
