"""Trainings and clients over the devices of one process: a mesh of the two, chosen by shapes.

Trainings need nothing of each other. The clients of a round are summed by one all-reduce; none are gathered.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import jax
import numpy as np
from jax import Array, lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

TRAININGS, CLIENTS = "trainings", "clients"
P = TypeVar("P")


class Layout(NamedTuple):
    """How the rounds of stacked trainings run: a static part of their compiled program.

    Attributes:
        single_uploads: whether every client's noise is drawn on its own.
        sequential: whether trainings of one device run one after the other.
        apart: trainings before their keys repeat.
        clients_stay: whether each device has clients of its own, all of whom are asked in every round.
        mapped: trainings of one device that run side by side.
        spans: whether inner products of records are made whenever a client is asked.
        mesh: devices by trainings and clients; None for one device.
    """

    single_uploads: bool
    sequential: bool
    apart: int
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
        return numbers if self.mesh is None else jax.device_put(numbers, NamedSharding(self.mesh, spec))

    def part(self, cohort: Array) -> Array:
        """The clients of a cohort whom this device computes for."""
        if self.parts == 1:
            return cohort
        size = len(cohort) // self.parts
        return lax.dynamic_slice_in_dim(cohort, lax.axis_index(CLIENTS) * size, size)

    def summed(self, total: Array) -> Array:
        """What the replies on all devices sum up to."""
        return total if self.parts == 1 else lax.psum(total, CLIENTS)


def mesh_of(trainings: int, cohort: int) -> Mesh | None:
    """As many devices of this process as divide the work evenly, trainings first; None for one.

    Args:
        trainings: that differ in their keys, or settings that share keys.
        cohort: clients of a round, 1 where they cannot be divided.
    """
    devices = jax.local_devices()
    sides = [side for side in range(1, len(devices) + 1) if trainings % side == 0]
    shapes = [(side, _most(len(devices) // side, cohort)) for side in sides]
    shape = max(shapes, key=lambda shape: (shape[0] * shape[1], shape[0]))
    if shape == (1, 1):
        return None
    return Mesh(np.array(devices[: shape[0] * shape[1]]).reshape(shape), (TRAININGS, CLIENTS))


def _most(limit: int, count: int) -> int:
    return next(part for part in range(limit, 0, -1) if count % part == 0)
