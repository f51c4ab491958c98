"""Trainings and clients over the devices of one process or of many: a mesh of the two, chosen by shapes.

Trainings need nothing of each other. The clients of a round are summed by one all-reduce; none are gathered.
Processes that `jax.distributed` has joined run the same program, each on its devices.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import NDArray

TRAININGS, CLIENTS = "trainings", "clients"
P = TypeVar("P")


class Layout(NamedTuple):
    """How the rounds of stacked trainings run: a static part of their compiled program.

    Attributes:
        single_uploads: whether every client's noise is drawn on its own.
        sequential: whether trainings of one device run one after the other.
        apart: trainings before their keys repeat.
        alike: whether trainings of one key ask the same clients, if not everybody.
        clients_stay: whether each device has clients of its own, all of whom are asked in every round.
        mapped: trainings of one device that run side by side.
        spans: whether inner products of records are made whenever a client is asked.
        mesh: devices by trainings and clients; None for one device.
    """

    single_uploads: bool
    sequential: bool
    apart: int
    alike: bool
    clients_stay: bool
    mapped: int
    spans: bool
    mesh: Mesh | None

    @property
    def parts(self) -> int:
        """Devices among which the clients of a round are divided."""
        return 1 if self.mesh is None else self.mesh.shape[CLIENTS]

    @property
    def of_memories(self) -> PartitionSpec:
        """Of what the clients of every training keep."""
        return PartitionSpec(TRAININGS, CLIENTS) if self.clients_stay else PartitionSpec(TRAININGS)

    @property
    def of_records(self) -> PartitionSpec:
        """Of the clients' records: on the device of their client, or everywhere."""
        return PartitionSpec(CLIENTS) if self.clients_stay else PartitionSpec()

    def placed(self, numbers: P, spec: PartitionSpec) -> P:
        """A pytree of arrays, each on the devices that compute with it."""
        if self.mesh is None:
            return numbers
        there = NamedSharding(self.mesh, spec)
        return jax.tree.map(lambda leaf: _placed(leaf, there), numbers)

    def part(self, cohort: Array) -> Array:
        """The clients of a cohort whom this device computes for."""
        if self.parts == 1:
            return cohort
        size = len(cohort) // self.parts
        return lax.dynamic_slice_in_dim(cohort, lax.axis_index(CLIENTS) * size, size)

    def summed(self, total: Array) -> Array:
        """What the replies on all devices sum up to."""
        return total if self.parts == 1 else lax.psum(total, CLIENTS)


def mesh_of(trainings: int, cohort: int, *, hosts: bool = False) -> Mesh | None:
    """As many devices as divide the work evenly, trainings first; None for one.

    Args:
        trainings: that differ in their keys, or settings that share keys.
        cohort: clients of a round, 1 where they cannot be divided.
        hosts: of all processes, as many of each; of this one where no such number divides the work.
    """
    own = jax.local_devices()
    processes = jax.process_count() if hosts else 1
    limit = processes * len(own)
    shapes = [
        (side, part)
        for side in _divisors(trainings, limit)
        for part in _divisors(cohort, limit // side)
        if side * part % processes == 0
    ]
    if not shapes:
        return mesh_of(trainings, cohort)
    shape = max(shapes, key=lambda shape: (shape[0] * shape[1], shape[0]))
    if shape == (1, 1):
        return None
    each = shape[0] * shape[1] // processes
    used = [jax.local_devices(i)[:each] for i in range(processes)] if processes > 1 else own[:each]
    return Mesh(np.array(used).reshape(shape), (TRAININGS, CLIENTS))


def whole(numbers: Array) -> NDArray:
    """An array on the host, of whichever process its parts lie."""
    if numbers.is_fully_addressable or numbers.is_fully_replicated:
        return np.asarray(numbers)
    from jax.experimental.multihost_utils import process_allgather

    return np.asarray(process_allgather(numbers, tiled=True))


def _placed(leaf: Array, there: NamedSharding) -> Array:
    """On this process's devices, its parts of what every process holds whole."""
    if there.is_fully_addressable:
        return jax.device_put(leaf, there)
    # keys have no form in numpy, only what they are made of has
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(_placed(jax.random.key_data(leaf), there))
    held = np.asarray(leaf)
    return jax.make_array_from_callback(held.shape, there, lambda index: held[index])


def _divisors(count: int, limit: int) -> list[int]:
    return [part for part in range(1, limit + 1) if count % part == 0]
