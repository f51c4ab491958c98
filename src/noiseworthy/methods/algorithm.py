"""What an algorithm is: five verbs (select, charge, update, privatize, aggregate) on explicit state."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from noiseworthy._keys import Purpose, named_key
from noiseworthy.tasks.base import Task

Numbers: TypeAlias = Array | np.ndarray
"""Numbers of an algorithm: on the host while trainings are assembled, on the device while they run."""
Memory: TypeAlias = Any
"""What a client or the server keeps from one round to the next, a pytree of arrays; () if nothing."""
Shard: TypeAlias = Any
"""What a client computes with: its records as a `Batch`, or what full batches need to know, as `Moments`."""


class ServerState(NamedTuple):
    """What the server knows between rounds.

    Attributes:
        theta: parameters, shape (p,).
        round: index t of the next round.
        memory: what else it keeps, a pytree of arrays, such as a momentum; () if nothing.
    """

    theta: Array
    round: Array
    memory: Memory = ()


@runtime_checkable
class Algorithm(Protocol):
    """A federated algorithm with local privacy, as pure functions on a pytree of its numbers.

    The ledger is charged by `rounds.run_round` between `select` and `local_update`. Everything after
    `privatize` is post-processing and costs nothing. A client's memory never leaves it.
    """

    @property
    def task(self) -> Task:
        """The model and its loss."""
        ...

    @property
    def cohorts(self) -> Numbers:
        """Whom to ask in each round, shape (T, b): public, and drawn before training."""
        ...

    @property
    def condensed(self) -> bool:
        """Whether a client needs only the mean gradient of all its records."""
        ...

    @property
    def moves_locally(self) -> bool:
        """Whether clients compute at models of their own, so that their products share no factor."""
        ...

    @property
    def reads_uploads(self) -> bool:
        """Whether the server looks at each upload, and not only at their weighted sum."""
        ...

    def init(self, key: Array) -> ServerState:
        """The public start."""
        ...

    def init_client(self, theta: Array) -> Memory:
        """What a client remembers before its first round, from the public start."""
        ...

    def select(self, state: ServerState) -> Array:
        """Clients to ask in this round, shape (b,); drawn before training."""
        ...

    def local_update(
        self, state: ServerState, client: Array, memory: Memory, shard: Any, key: Array
    ) -> tuple[Array, Memory]:
        """The raw update of one client, shape (p,), which never leaves it, and what it remembers."""
        ...

    def privatize(self, state: ServerState, update: Array, client: Array, key: Array) -> Array:
        """The upload: the update with the client's planned noise."""
        ...

    def weight(self, client: Array) -> Array:
        """The factor with which an upload enters the weighted sum."""
        ...

    def combine(self, state: ServerState, cohort: Array, uploads: Array) -> Array:
        """What `aggregate` takes, from the uploads of a cohort, shape (b, u).

        The weighted sum, unless the algorithm `reads_uploads`.
        """
        ...

    def aggregate(self, state: ServerState, total: Array) -> ServerState:
        """The next state from the combined uploads."""
        ...

    def aggregate_noise(self, state: ServerState, cohort: Array, key: Array) -> Array:
        """One draw with the law of the weighted sum of a cohort's noise, shape (p,)."""
        ...

    def model(self, state: ServerState) -> Array:
        """The parameters that are scored and delivered, shape (p,): made of what the server knows alone."""
        ...


class Scheduled(eqx.Module):
    """What algorithms with cohorts drawn before training share.

    Start, selection, clients without memory, and uploads that only their weighted sum is made of.
    """

    task: eqx.AbstractVar[Task]
    cohorts: eqx.AbstractVar[Numbers]

    def init(self, key: Array) -> ServerState:
        """theta_0 from the task, before round 0."""
        return ServerState(self.task.initial(named_key(key, Purpose.START)), jnp.zeros((), jnp.int32))

    def init_client(self, theta: Array) -> Memory:
        """Nothing: a client computes from what it is sent alone."""
        return ()

    def select(self, state: ServerState) -> Array:
        """The cohort of this round in the schedule."""
        return jnp.asarray(self.cohorts)[state.round]

    @property
    def reads_uploads(self) -> bool:
        """The weighted sum is all that the server needs."""
        return False

    @abstractmethod
    def weight(self, client: Array) -> Array:
        """The factor with which an upload enters the weighted sum."""

    def combine(self, state: ServerState, cohort: Array, uploads: Array) -> Array:
        """The weighted sum of the uploads."""
        return jnp.matmul(jax.vmap(self.weight)(cohort), uploads, precision="highest")

    def model(self, state: ServerState) -> Array:
        """The last iterate."""
        return state.theta
