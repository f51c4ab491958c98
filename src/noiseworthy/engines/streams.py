"""Trainings on records that never are on the device as a whole: windows of rounds, one after the other.

The host gathers the next window while the device computes. A window is one compiled loop over its steps; the
level of sizes of a step decides which branch computes it. Numbers are those of stacked clients up to the
order in which uploads are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import numpy as np
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from noiseworthy._jax import Array, jax, jnp, lax
from noiseworthy._keys import Purpose, named_key
from noiseworthy._places import mapped, writing
from noiseworthy.engines.flat import FlatRecords, Steps, padded_rows, shard_of
from noiseworthy.errors import ResumeError
from noiseworthy.methods.algorithm import Algorithm, ServerState
from noiseworthy.methods.local import Memory, Numbers
from noiseworthy.rounds import client_step

FILE = "memory_{:02d}.npy"
Rows = tuple[NDArray[Any], ...]


class ClientMemories:
    """What clients keep between rounds: rows of every client in S trainings, at first the one that all have.

    Only rows of those asked are read and written. In a run folder they lie on disk:

        write -> checkpoint with the rows that changed since the last one (on disk) -> rows into their files

    so that a kill at any point leaves a checkpoint and files from which the run goes on: what a checkpoint
    holds is written into the files once more.

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
            for mode in ("r", "r+"):  # first to read, because "r+" fills a file that was cut short with zeros
                held = tuple(open_memmap(name, mode) for name, _ in files)
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


def memories_of(
    stacked: Algorithm, states: ServerState, used: NDArray[np.int64], folder: Path | None
) -> ClientMemories:
    """What clients of S trainings remember.

    Args:
        stacked: S algorithms.
        states: public starts.
        used: uploads that were made, shape (S, N); who made one has a memory of its own.
        folder: of the run; None keeps memories in memory.
    """
    start = jax.vmap(lambda algorithm, theta: algorithm.init_client(theta))(stacked, states.theta)
    return ClientMemories([np.asarray(leaf) for leaf in jax.tree.leaves(start)], used > 0, folder)


def advance(
    stacked: Algorithm, states: ServerState, memories: ClientMemories, train: FlatRecords, keys: Array,
    bounds: tuple[int, int], lasts: Sequence[int], single_uploads: bool,
) -> ServerState:  # fmt: skip
    """Rounds bounds[0]..bounds[1] of every training as far as it lasts, one training after the other."""
    reached = []
    for place, last in enumerate(lasts):
        algorithm, state, key = jax.tree.map(lambda leaf, at=place: leaf[at], (stacked, states, keys))
        own = min(bounds[0], last), min(bounds[1], last)
        reached.append(_training(algorithm, state, key, place, memories, train, own, single_uploads))
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *reached)


def _training(
    algorithm: Algorithm, state: ServerState, key: Array, place: int, memories: ClientMemories,
    train: FlatRecords, bounds: tuple[int, int], single_uploads: bool,
) -> ServerState:  # fmt: skip
    cohort = algorithm.cohorts.shape[1]
    everybody = cohort == train.clients
    at_once = train.at_once(cohort, state.theta.size * algorithm.moves_locally)
    rounds = np.asarray(algorithm.cohorts[slice(*bounds)])
    asked = [np.arange(cohort) if everybody else one for one in rounds]
    held = jax.eval_shape(algorithm.init_client, state.theta)
    layout = jax.tree.structure(held)
    one = [jax.ShapeDtypeStruct((1, *part.rows.shape[1:]), part.dtype) for part in (train.x, train.y)]
    shape = eqx.filter_eval_shape(_update, algorithm, state, key, *one, train.task, train.condensed)
    total = jnp.zeros((cohort, *shape.shape) if algorithm.reads_uploads else shape.shape, shape.dtype)
    state = state._replace(round=jnp.int32(bounds[0]))
    facts = (train.widths, at_once, train.condensed, single_uploads, everybody)
    windows = train.windows(asked, at_once)
    window = next(windows, None)
    while window is not None:
        memory = [jnp.asarray(padded_rows(leaf)) for leaf in memories.read(place, window.asked)]
        weights = None if train.weights is None else train.weights[window.steps.clients]
        state, total, memory = _window(
            algorithm, state, total, layout.unflatten(memory), window.x, window.y, weights,
            window.steps, jnp.int32(window.length), key, facts,
        )  # fmt: skip
        upcoming = next(windows, None)  # while the device computes
        kept = [np.asarray(leaf)[: len(window.asked)] for leaf in jax.tree.leaves(memory)]
        memories.write(place, window.asked, tuple(kept))
        # where clients keep nothing, nothing else waits, and windows would pile up before a slower device
        jax.block_until_ready(state.theta)
        window = upcoming
    return state


@eqx.filter_jit  # traced once for all trainings and segments
def _update(algorithm: Algorithm, state: ServerState, key: Array, x: Array, y: Array, task, condensed: bool):
    """What a client would upload of the records x, y."""
    shard, own = shard_of(task, condensed, x, y, jnp.ones(1)), algorithm.init_client(state.theta)
    return algorithm.local_update(state, jnp.int32(0), own, shard, key)[0]


@eqx.filter_jit
def _window(
    algorithm: Algorithm, state: ServerState, total: Array, memory: Memory, x: Numbers, y: Numbers,
    weights: Numbers | None, steps: Steps, count: Array, key: Array, facts: tuple[Any, ...],
) -> tuple[ServerState, Array, Memory]:  # fmt: skip
    widths, at_once, condensed, single_uploads, everybody = facts
    alone = single_uploads or algorithm.reads_uploads

    def block(level: int, state: ServerState, own: Memory, step: Steps, weight: Numbers | None):
        """Uploads of some clients, or their weighted sum, and what they remember."""
        few, width = at_once[level], widths[level]

        def reply(client: Array, start: Array, size: Array, scale: Array | None, own: Memory):
            mask = (jnp.arange(width) < size).astype(jnp.float32)
            own_x, own_y = (lax.dynamic_slice_in_dim(jnp.asarray(one), start, width) for one in (x, y))
            counted = mask if scale is None else mask * scale
            shard = shard_of(algorithm.task, condensed, own_x, own_y, counted)
            if alone:
                upload, own = client_step(algorithm, state, client, own, shard, key)
            else:
                upload, own = algorithm.local_update(state, client, own, shard, key)
            # a place without a client has an upload of noise alone, which must not enter the sum
            return jnp.where(size > 0, upload, 0), own

        part = jax.tree.map(lambda leaf: leaf[:few], (step.clients, step.starts, step.sizes, weight, own))
        if few == 1:  # mapping over one client would turn its matrix products into slow batched ones
            upload, fresh = reply(*jax.tree.map(lambda leaf: leaf[0], part))
            uploads, fresh = upload[None], jax.tree.map(lambda leaf: leaf[None], fresh)
        else:
            uploads, fresh = jax.vmap(reply)(*part)
        own = jax.tree.map(lambda old, new: old.at[:few].set(new), own, fresh)
        if algorithm.reads_uploads:
            room = jnp.zeros((len(step.clients), *uploads.shape[1:]), uploads.dtype)
            return room.at[:few].set(uploads), own
        shares = jax.vmap(algorithm.weight)(jnp.asarray(step.clients[:few]))
        return jnp.sum(shares[:, None] * uploads, axis=0), own

    def ended(state: ServerState, total: Array) -> tuple[ServerState, Array]:
        cohort = algorithm.select(state)
        cohort = jnp.arange(len(cohort)) if everybody else cohort
        if algorithm.reads_uploads:
            combined = algorithm.combine(state, cohort, total)
        elif single_uploads:
            combined = total
        else:
            drawn = named_key(key, Purpose.AGGREGATE, state.round)
            combined = total + algorithm.aggregate_noise(state, cohort, drawn)
        return algorithm.aggregate(state, combined), jnp.zeros_like(total)

    def body(k: Array, carry: tuple[ServerState, Array, Memory]) -> tuple[ServerState, Array, Memory]:
        state, total, memory = carry
        step: Steps = jax.tree.map(lambda leaf: leaf[k], steps)
        # a slot without a client reads the last row, whoever has it; what becomes of it is dropped below
        own = jax.tree.map(lambda leaf: leaf.at[step.slots].get(mode="clip"), memory)
        weight = None if weights is None else weights[k]
        branches = [partial(block, level) for level in range(len(widths))]
        part, own = lax.switch(step.level, branches, state, own, step, weight)
        memory = jax.tree.map(lambda old, new: old.at[step.slots].set(new, mode="drop"), memory, own)
        total = total.at[step.places].set(part, mode="drop") if algorithm.reads_uploads else total + part
        state, total = lax.cond(step.ends, ended, lambda *same: same, state, total)
        return state, total, memory

    return lax.fori_loop(0, count, body, (state, total, memory))
