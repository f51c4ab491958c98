"""What an owner keeps of runs: releases in its ledger, and memory beside it, which never leaves the owner."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from noiseworthy._jax import jax, jnp
from noiseworthy.deploy.gateway import wire
from noiseworthy.methods.local import Memory
from noiseworthy.privacy.durable import DurableLedger
from noiseworthy.privacy.durable.storage import write_whole


@dataclass(frozen=True)
class Runs:
    """The releases of one account, by run.

    Attributes:
        ledger: that holds them.
        account: number of the owner's account.
    """

    ledger: DurableLedger
    account: int

    @property
    def spent(self) -> int:
        """Shares of the lifetime budget that are spent."""
        ((spent,),) = self.ledger.query("SELECT spent FROM accounts WHERE id = ?", [self.account])
        return spent

    def number_of(self, name: str) -> int | None:
        """The number of a run that the ledger knows."""
        found = self.ledger.query("SELECT id FROM runs WHERE name = ?", [name])
        return found[0][0] if found else None

    def next_release(self, name: str) -> int:
        """The number after the last that was paid for in a run."""
        find = "SELECT coalesce(max(number), 0) FROM releases WHERE account = ? AND run = ?"
        ((last,),) = self.ledger.query(find, [self.account, self.number_of(name)])
        return last + 1

    def price_before(self, run: int | None, release: int) -> int | None:
        """The price of a release that was asked before; None of others, and of a run that is not known."""
        find = "SELECT share FROM releases WHERE account = ? AND run = ? AND number = ?"
        found = self.ledger.query(find, [self.account, run, release])
        return found[0][0] if found else None

    def acknowledge(self, run: int | None, received: int) -> None:
        """Note that the uploads of a run arrived, up to a release; a run that is not known has none."""
        find = (
            'SELECT g.id FROM grants g JOIN releases r ON r."grant" = g.id WHERE r.account = ? AND r.run = ? '
            "AND r.number <= ? AND g.sealed IS NOT NULL AND NOT g.acknowledged"
        )
        for (grant,) in self.ledger.query(find, [self.account, run, received]):
            self.ledger.acknowledge(grant)


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
        may_be_nan = [f"leaves.{i}" for i in range(len(leaves))]
        kept = wire.unpack(self._path(run).read_bytes(), not_finite=may_be_nan)
        if [leaf.shape for leaf in kept["leaves"]] != [leaf.shape for leaf in leaves]:
            raise ValueError("memory of other shapes")
        return Remembered(kept["release"], structure.unflatten(map(jnp.asarray, kept["leaves"])))

    def keep(self, run: str, release: int, memory: Memory) -> None:
        """Replace what is remembered, durably; memory without arrays needs no file."""
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(memory)]
        if not leaves:
            return
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self._path(run), wire.pack({"release": release, "leaves": leaves}))

    def _path(self, run: str) -> Path:
        return self.folder / f"{hashlib.sha256(wire.pack([self.owner, run])).hexdigest()[:32]}.memory"
