"""What clients keep between rounds, of which only those asked are read and written; on disk in a run folder.

    write -> checkpoint with the rows that changed since the last one (on disk) -> rows into their files

so that a kill at any point leaves a checkpoint and files from which the run goes on: what a checkpoint holds
is written into the files once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from noiseworthy._places import mapped, writing
from noiseworthy.errors import ResumeError

FILE = "memory_{:02d}.npy"
Rows = tuple[NDArray[Any], ...]


class ClientMemories:
    """Rows of every client in S trainings; who was never asked has the row that all start with.

    Args:
        start: rows that clients start with, one array (S, ...) for each part of a memory.
        asked: who has a row of its own, shape (S, N).
        folder: where the rows lie once they are in a checkpoint; None keeps them in memory.
    """

    def __init__(self, start: Sequence[NDArray[Any]], asked: NDArray[np.bool_], folder: Path | None = None):
        self._start, self._clients = tuple(start), asked.shape[1]
        self._asked = asked.ravel().copy()
        self._place = np.full(asked.size if self._start else 0, -1, np.int64)
        self._where = np.empty(0, np.int64)
        self._changed = tuple(np.empty((0, *one.shape[1:]), one.dtype) for one in start)
        self._count = 0
        self._files = () if folder is None else self._opened(folder)

    def _opened(self, folder: Path) -> Rows:
        files = [(folder / FILE.format(i), one) for i, one in enumerate(self._start)]
        if not self._asked.any():
            for name, _ in files:
                name.touch(0o600)  # before anything is in it: it may be as private as the records
            with writing(f"run folder {folder}"):
                return tuple(mapped(name, len(self._asked), one) for name, one in files)
        try:
            held = tuple(open_memmap(name, "r+") for name, _ in files)
            wanted = [((len(self._asked), *one.shape[1:]), one.dtype) for one in self._start]
            if [(one.shape, one.dtype) for one in held] != wanted:
                raise ValueError("they are of another training")
            return held
        except (OSError, ValueError) as error:
            raise ResumeError(
                f"{folder} lacks what clients remember ({error}); put its memory files back, or start anew "
                "in another folder with --out"
            ) from None

    def read(self, training: int, clients: NDArray[np.int64]) -> Rows:
        """Rows of some clients in one training."""
        at = training * self._clients + clients
        place, asked = self._place[at] if self._start else at, self._asked[at]
        found = []
        for i, start in enumerate(self._start):
            rows = np.repeat(start[training][None], len(at), axis=0)
            if self._files:
                rows[asked] = self._files[i][at[asked]]
            new = place >= 0
            # last, because files hold what the checkpoint before held, and these rows are newer
            rows[new] = self._changed[i][place[new]]
            found.append(rows)
        return tuple(found)

    def of(self, training: int, client: int) -> Rows:
        """The rows of one client in one training."""
        return tuple(rows[0] for rows in self.read(training, np.array([client])))

    @property
    def keeps(self) -> bool:
        """Whether clients keep anything."""
        return bool(self._start)

    def write(self, training: int, clients: NDArray[np.int64], rows: Rows) -> None:
        """New rows of different clients in one training."""
        if self._start:
            self.put(training * self._clients + clients, rows)

    def put(self, where: NDArray[np.int64], rows: Rows) -> None:
        """New rows at places among all, a training after the other."""
        fresh = where[self._place[where] < 0]
        self._place[fresh] = self._count + np.arange(len(fresh))
        self._count += len(fresh)
        if self._count > len(self._where):
            room = max(2 * len(self._where), self._count)
            self._where = np.resize(self._where, room)
            self._changed = tuple(np.resize(one, (room, *one.shape[1:])) for one in self._changed)
        self._where[self._place[fresh]] = fresh
        for held, new in zip(self._changed, rows, strict=True):
            held[self._place[where]] = new
        self._asked[where] = True

    @property
    def changes(self) -> tuple[NDArray[np.int64], Rows]:
        """Places and rows that changed: since they were settled last, or ever where they lie in memory."""
        return self._where[: self._count].copy(), tuple(one[: self._count].copy() for one in self._changed)

    def settle(self) -> None:
        """Write what changed into the files, once a checkpoint holds it."""
        if not self._files:
            return
        where, rows = self.changes
        # ascending, so that pages of a file that is larger than memory are each touched once
        order = np.argsort(where)
        for file, new in zip(self._files, rows, strict=True):
            file[where[order]] = new[order]
            file.flush()  # pyright: ignore[reportAttributeAccessIssue]
        self._place[where] = -1
        self._count = 0
