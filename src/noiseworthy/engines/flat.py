"""Records end to end on the host: cohorts are cut into blocks of like sizes and gathered a window at a time.

A window is the work of some rounds, or of a part of one: the records of all that are asked, once each, and
steps, each of which is a block of clients whose records fill more than a quarter of what it computes with.
Who is asked when was drawn before training, so windows are gathered ahead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from noiseworthy._jax import Array, jnp
from noiseworthy.data.ragged import Ragged
from noiseworthy.methods.algorithm import Shard
from noiseworthy.methods.local import Numbers
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.batch import Batch
from noiseworthy.tasks.chunks import room
from noiseworthy.tasks.linear import LinearModel

STEPS = 512
"""Steps of a window at most."""
_WINDOW, _TRAVELS, _LEAST = 2**22, 3 * 2**23, 2**19
"""Numbers of the records of a window at most, unless one client has more: on a CPU, and where windows travel
to another device (three quarters of what is sent); and the least that a window has room for."""
_BLOCK, _CLIENTS = 50_000, 128
"""Numbers of clients side by side at most, on a CPU and of networks; and clients of a step."""
MODEL_WEIGHT = 8
"""A model of a client's own counts so many times: mapped, its products become slow batched ones."""


class Steps(NamedTuple):
    """What a window computes, a block of clients after the other; places past its clients have size 0.

    Attributes:
        level: of the block's sizes, shape (K,).
        ends: whether a round ends with it, shape (K,).
        clients: shape (K, C).
        places: of each in its cohort, shape (K, C).
        slots: of each in the window's memories, shape (K, C).
        starts: first row of each in the window's records, shape (K, C).
        sizes: records of each, shape (K, C).
    """

    level: Numbers
    ends: Numbers
    clients: Numbers
    places: Numbers
    slots: Numbers
    starts: Numbers
    sizes: Numbers


class Window(NamedTuple):
    """Records and steps that travel to the device together.

    Attributes:
        x: features of all clients that are asked, end to end, zero past the last.
        y: labels.
        steps: what is computed.
        length: how many steps there are.
        asked: the clients, ascending.
    """

    x: NDArray[Any]
    y: NDArray[Any]
    steps: Steps
    length: int
    asked: NDArray[np.int64]


class _Block(NamedTuple):
    level: int
    clients: NDArray[np.int64]
    places: NDArray[np.int64]
    ends: bool


@dataclass(frozen=True)
class FlatRecords:
    """What clients hold, end to end and not prepared yet.

    Attributes:
        x: features.
        y: labels.
        task: that prepares them.
        condensed: whether full batches need no more than their moments.
        weights: how often each record of a client counts, float32, shape (N,); None once.
        levels: of the sizes of clients, each up to four times those of the one before, shape (N,).
        widths: the largest size of each level.
    """

    x: Ragged
    y: Ragged
    task: Task
    condensed: bool
    weights: NDArray[np.float32] | None
    levels: NDArray[np.int8]
    widths: tuple[int, ...]

    @classmethod
    def of(cls, x: Ragged, y: Ragged, task: Task, *, condensed: bool) -> FlatRecords:
        """Records as a federation holds them."""
        powers = np.ceil(np.log2(x.sizes) / 2).astype(np.int8)
        found, levels = np.unique(powers, return_inverse=True)
        widths = tuple(int(x.sizes[levels == level].max()) for level in range(len(found)))
        return cls(x, y, task, condensed, None, levels.astype(np.int8), widths)

    def weighted(self, weights: NDArray[np.float64]) -> FlatRecords:
        """Each record of client i counted weights[i] times."""
        return replace(self, weights=weights.astype(np.float32))

    @property
    def clients(self) -> int:
        """N."""
        return len(self.x)

    @property
    def numbers(self) -> int:
        """Of a record."""
        return int(np.prod(self.x.rows.shape[1:]))

    def of_client(self, client: int) -> Shard:
        """What one client holds, without padding."""
        count = 1.0 if self.weights is None else float(self.weights[client])
        x, y = jnp.asarray(self.x[client]), jnp.asarray(self.y[client])
        return shard_of(self.task, self.condensed, x, y, jnp.full(len(x), count, jnp.float32))

    def at_once(self, cohort: int, model: int) -> tuple[int, ...]:
        """Clients of a step, of each level.

        Args:
            cohort: clients that are asked in a round.
            model: numbers of a model of a client's own; 0 where all compute with the same.
        """
        most, numbers = min(cohort, _CLIENTS), room_for_clients(self.task)
        return tuple(
            min(most, max(1, numbers // (one * self.numbers + MODEL_WEIGHT * model))) for one in self.widths
        )

    def windows(self, cohorts: Sequence[NDArray[Any]], at_once: tuple[int, ...]) -> Iterator[Window]:
        """The work of some rounds.

        Args:
            cohorts: of each round.
            at_once: clients of a step, of each level.
        """
        most = max(1, min(room(_WINDOW), _TRAVELS) // self.numbers)
        rows: int = 0
        held: list[_Block] = []
        for cohort in cohorts:
            for block in self._blocks(np.asarray(cohort, np.int64), at_once):
                more = int(self.x.sizes[block.clients].sum())
                if held and (rows + more > most or len(held) == STEPS):
                    yield self._gathered(held, max(at_once))
                    rows, held = 0, []
                rows += more
                held.append(block)
        if held:
            yield self._gathered(held, max(at_once))

    def _blocks(self, cohort: NDArray[np.int64], at_once: tuple[int, ...]) -> list[_Block]:
        levels = self.levels[cohort]
        order = np.argsort(levels, kind="stable")
        ends = np.searchsorted(levels[order], np.arange(len(self.widths) + 1))
        cut = [
            (level, order[first : min(first + at_once[level], ends[level + 1])])
            for level in range(len(self.widths))
            for first in range(int(ends[level]), int(ends[level + 1]), at_once[level])
        ]
        return [_Block(level, cohort[at], at, i == len(cut) - 1) for i, (level, at) in enumerate(cut)]

    def _gathered(self, blocks: list[_Block], most: int) -> Window:
        every = np.concatenate([block.clients for block in blocks])
        lengths = np.array([len(block.clients) for block in blocks])
        asked, slots = np.unique(every, return_inverse=True)
        sizes = self.x.sizes[asked]
        starts = np.cumsum(sizes) - sizes
        # room for a whole slice after the last start: dynamic_slice moves one that reaches past the end back,
        # and a block would hold records of the client before
        needed = int(sizes.sum()) + max(self.widths[block.level] for block in blocks)
        length = _length(needed, max(1, _LEAST // self.numbers))
        step = np.repeat(np.arange(len(blocks)), lengths)
        column = np.arange(len(every)) - np.repeat(np.cumsum(lengths) - lengths, lengths)

        def table(values: NDArray[Any], elsewhere: int = 0) -> NDArray[np.int32]:
            filled = np.full((STEPS, most), elsewhere, np.int32)
            filled[step, column] = values
            return filled

        def line(values: list[int] | list[bool], kind: type) -> NDArray[Any]:
            return np.pad(np.array(values, kind), (0, STEPS - len(blocks)))

        # places and slots without a client lie past every array, where writes are dropped; their sizes are 0
        steps = Steps(
            line([block.level for block in blocks], np.int32),
            line([block.ends for block in blocks], np.bool_),
            table(every),
            table(np.concatenate([block.places for block in blocks]), np.iinfo(np.int32).max),
            table(slots, np.iinfo(np.int32).max),
            table(starts[slots]),
            table(sizes[slots]),
        )
        x, y = (held.of_clients(asked, length) for held in (self.x, self.y))
        return Window(x, y, steps, len(blocks), asked)


def room_for_clients(task: Task, trainings: int = 1) -> int:
    """Numbers of clients that are computed together, of each of some trainings; of networks few anywhere."""
    return room(_BLOCK, trainings) if isinstance(task, LinearModel) else _BLOCK


def shard_of(task: Task, condensed: bool, x: Array, y: Array, mask: Array) -> Shard:
    """Records as an algorithm computes with them: prepared, and condensed where it needs no more."""
    batch = Batch(task.prepare(x), y, mask)
    return task.condense(batch) if condensed and isinstance(task, LinearModel) else batch


def padded_rows(rows: NDArray[Any], least: int = 128) -> NDArray[Any]:
    """Rows followed by zeros up to one of few lengths."""
    zeros = np.zeros((_length(len(rows), least) - len(rows), *rows.shape[1:]), rows.dtype)
    return np.concatenate([rows, zeros])


def _length(rows: int, least: int) -> int:
    """Of arrays that have room for some rows: one of few, each of which is a program of its own."""
    return _length(rows, 4 * least) if least < rows else least
