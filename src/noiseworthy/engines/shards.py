"""A federation for the engine: every client's records on the device, padded to one size, or end to end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from noiseworthy._float32 import in_float32
from noiseworthy._jax import Array, jax
from noiseworthy.data.federation import Federation
from noiseworthy.data.ragged import Ragged
from noiseworthy.engines.flat import FlatRecords
from noiseworthy.methods.algorithm import Shard
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.batch import Batch
from noiseworthy.tasks.kept import rows_of
from noiseworthy.tasks.linear import LinearModel
from noiseworthy.tasks.reference import Reference

_MOST_GROUPS = 5
"""Sizes that clients of one federation are padded to, where everybody is asked."""
_FEW = 1024
"""Records up to which all federations of one kind share a program that prepares them."""
_MOST_BYTES = 2**28
"""Of prepared records that are kept for the next training of the same records."""


class Group(NamedTuple):
    """Clients of like size, padded to the largest of them.

    Attributes:
        clients: their numbers, shape (g,).
        train: what each holds, arrays of shape (g, n, ...).
    """

    clients: Array
    train: Shard


class Shards(NamedTuple):
    """A federation on the device, with features prepared for the task.

    Attributes:
        train: what each client holds, padded to the largest; arrays of shape (N, n_max, ...). Records end to
            end stay on the host, as `FlatRecords`.
        test_x: prepared test features.
        test_y: test labels.
        groups: the same by size, for rounds that ask everybody; empty where little of `train` is padding.
    """

    train: Shard
    test_x: Array
    test_y: Array
    groups: tuple[Group, ...] = ()

    @classmethod
    def load(cls, federation: Federation, task: Task, *, condensed: bool = False) -> Shards:
        """Prepare features once, and mark padding by a mask of zeros.

        With `condensed`, clients of a least-squares model keep their moments instead of their records.
        """
        shape = federation.x.shape
        test = _rows(task, federation.test_x), _placed(federation.test_y)
        if isinstance(federation.x, Ragged) and isinstance(federation.y, Ragged):
            return cls(FlatRecords.of(federation.x, federation.y, task, condensed=condensed), *test)
        # padding is prepared with the records, in one call of one shape; the mask keeps it out of every sum
        records = federation.x.reshape(-1, *shape[2:])
        if isinstance(task, LinearModel) and task.preparation.features is not None:
            flat = rows_of(task, records)
            x = flat.reshape(*shape[:2], *flat.shape[1:])
        else:
            x = _rows(task, records, shape[0])
        mask = _placed((np.arange(shape[1]) < federation.sizes[:, None]).astype(np.float32))
        train = Batch(x, _placed(federation.y), mask)
        groups: tuple[Group, ...] = ()
        if isinstance(task, LinearModel):
            train = jax.jit(jax.vmap(task.condense))(train) if condensed else train
            groups = _by_size(federation.sizes, train)
        return cls(train, *test, groups)

    def of(self, client: int, *, everybody: bool = False) -> Shard:
        """What one client holds, padded as in rounds that ask some clients, or `everybody`.

        Draws of an algorithm may depend on how far its records are padded.
        """
        if isinstance(self.train, FlatRecords):
            return self.train.of_client(client)
        for group in self.groups if everybody else ():
            if client in (members := group.clients.tolist()):
                place = members.index(client)
                return jax.tree.map(lambda leaf, at=place: leaf[at], group.train)
        return jax.tree.map(lambda leaf: leaf[client], self.train)

    @property
    def clients(self) -> int:
        """Number of clients N."""
        return self.train.clients if isinstance(self.train, FlatRecords) else self.train[0].shape[0]

    @property
    def elements(self) -> int:
        """Numbers that one client holds as features; of records end to end, the first."""
        flat = isinstance(self.train, FlatRecords)
        return self.of(0)[0].size if flat else self.train[0].size // self.clients


_last: list[tuple[tuple[object, ...], Shards]] = []


def loaded(federation: Federation, task: Task, *, condensed: bool = False) -> Shards:
    """`Shards.load`, which prepares nothing again where the last training had the same records and task.

    Records are known by their content, so that arrays which were changed in place are other records. Those
    in files are read where they are asked for, and not kept.
    """
    if isinstance(federation.x, Ragged):
        return Shards.load(federation, task, condensed=condensed)
    wanted = (federation.content, task, condensed)
    for facts, shards in _last:
        if facts == wanted:
            return shards
    _last.clear()  # before others are prepared: never two in memory
    made = Shards.load(federation, task, condensed=condensed)
    if sum(leaf.nbytes for leaf in jax.tree.leaves(made)) <= _MOST_BYTES:
        _last.append((wanted, made))
    return made


@in_float32()
def _placed(array: NDArray) -> Array:
    """A copy on the device; `jnp.asarray` would compile a program for each shape."""
    # device_put may share the memory of an array, which a caller may change in place later
    return jax.device_put(np.array(array))


def preparing(task: Task) -> Callable[..., Array]:
    """`task.prepare` as one program for all records of one shape, whatever they are seen against.

    With `clients`, rows are told apart by client in the same program: done later, that copies all of them.
    """
    if not isinstance(task, LinearModel):
        return partial(_program(task), None)
    seen = task.preparation
    numbers = seen.reference and seen.reference.arrays(seen.projection)
    return partial(_program(replace(task, start=(), preparation=replace(seen, reference=None))), numbers)


@lru_cache(maxsize=64)
def _program(task: Task) -> Callable[..., Array]:
    """Rows of records, given the numbers of a reference; programs of old tasks are let go."""

    def prepare(numbers: dict[str, Any] | None, x: Array, clients: int | None = None) -> Array:
        against = task
        if numbers and isinstance(task, LinearModel):
            seen = replace(task.preparation, reference=Reference(**numbers))
            against = replace(task, preparation=seen)
        rows = against.prepare(x)
        return rows if clients is None else rows.reshape(clients, -1, *rows.shape[1:])

    return jax.jit(prepare, static_argnames="clients")


def _rows(task: Task, x: NDArray, clients: int | None = None) -> Array:
    """Prepared records, told apart by client if it is said of how many; few in a batch of one size."""
    if len(x) >= _FEW or not isinstance(task, LinearModel) or task.preparation.features is not None:
        return preparing(task)(_placed(x), clients=clients)
    filled = np.zeros((_FEW, *x.shape[1:]), x.dtype)
    filled[: len(x)] = x
    rows = np.asarray(preparing(task)(filled))[: len(x)]
    return _placed(rows if clients is None else rows.reshape(clients, -1, *rows.shape[1:]))


def _by_size(sizes: NDArray[np.int64], train: Shard) -> tuple[Group, ...]:
    """Clients grouped by halves of the largest size, where more than half of the records are padding."""
    if not isinstance(train, Batch) or sizes.max() * len(sizes) < 2 * sizes.sum():
        return ()
    # by halves: nobody is padded to more than twice its size, but for the smallest, who share the last group
    halvings = np.minimum(np.log2(sizes.max() / sizes).astype(int), _MOST_GROUPS - 1)
    members = [np.flatnonzero(halvings == level) for level in np.unique(halvings)]
    return tuple(
        Group(_placed(few), jax.tree.map(lambda leaf, few=few: leaf[few, : sizes[few].max()], train))
        for few in members
    )


def end_to_end(train: Batch, most: int) -> Group:
    """All records without padding, each as all that its client holds: what is a sum over them needs no more.

    Args:
        train: what each client holds, padded.
        most: numbers of features in a block; copies of the last record with mask 0 fill up the last one.
    """
    held = np.asarray(train.mask)
    clients, places = np.nonzero(held)
    blocks = -(-len(clients) * train.x[0, 0].size // most)
    fill = -len(clients) % blocks
    clients, places = (np.pad(one, (0, fill), mode="edge") for one in (clients, places))
    mask = held[clients, places][:, None]
    # not mask[-fill:], which is all of it where nothing is filled up
    mask[len(mask) - fill :] = 0.0
    x, y = (leaf[clients, places][:, None] for leaf in (train.x, train.y))
    return Group(_placed(clients), Batch(x, y, _placed(mask)))
