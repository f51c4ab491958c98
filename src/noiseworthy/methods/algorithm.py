"""What an algorithm is: five verbs (select, charge, update, privatize, aggregate) on explicit state."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeAlias, runtime_checkable

import equinox as eqx
import numpy as np
from numpy.typing import NDArray

from noiseworthy._jax import Array, jax, jnp
from noiseworthy._keys import Purpose, named_key
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.local import Memory, Numbers
from noiseworthy.privacy.mechanisms import Family
from noiseworthy.privacy.noise import simulated_noise, simulated_sum
from noiseworthy.privacy.sensitivity import Norm
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.batch import Batch

Shard: TypeAlias = Any
"""What a client computes with: its records as a `Batch`, or what full batches need to know, as `Moments`."""


class StepsInSpan(NamedTuple):
    """Local steps of one reply that move a linear model by combinations of the client's records.

    Attributes:
        steps: how many on average.
        records: in each of them, None for all.
    """

    steps: float
    records: int | None


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


def start_of(task: Task, key: Array) -> Array:
    """theta_0: the public start of trainings with this root key, shape (p,)."""
    return task.initial(named_key(key, Purpose.START))


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
    def steps_in_span(self) -> StepsInSpan | None:
        """What a reply does that keeps a linear model in the span of its records; None where nothing does."""
        ...

    @property
    def reads_uploads(self) -> bool:
        """Whether the server looks at each upload, and not only at their weighted sum."""
        ...

    @property
    def remembers_noised(self) -> bool:
        """Whether what clients remember is noised before they keep it."""
        ...

    @property
    def sums_records(self) -> bool:
        """Whether the weighted sum of raw updates is one sum over the records of all clients."""
        ...

    @property
    def lengths(self) -> dict[str, int]:
        """Entries of each schedule, by its name: one for every round or step."""
        ...

    def padded(self, lengths: Mapping[str, int]) -> Self:
        """The same with its schedules followed by zeros, so long as is said; no round reaches them."""
        ...

    def with_noise(self, factor: float) -> Self:
        """The same with so many times the noise."""
        ...

    def noiseless(self) -> Self:
        """The same without noise, and with every record in every batch: what uploads are on average."""
        ...

    def init(self, theta: Array) -> ServerState:
        """What the server knows at the public start, theta of shape (p,)."""
        ...

    def init_client(self, theta: Array) -> Memory:
        """What a client remembers before its first round, from the public start."""
        ...

    def seen_at(self, memory: Memory, x: Array) -> Array:
        """A client's records as the shared model takes them there, shape (n, ...), from `task.prepare`."""
        ...

    def owned(self, memory: Memory, theta: Array) -> Array:
        """The model that a client uses, shape (p,): the shared one, or what it keeps of its own."""
        ...

    def select(self, state: ServerState) -> Array:
        """Clients to ask in this round, shape (b,); drawn before training."""
        ...

    def local_update(
        self, state: ServerState, client: Array, memory: Memory, shard: Any, key: Array
    ) -> tuple[Array, Memory]:
        """The raw update of one client, shape (p,), which never leaves it, and what it remembers."""
        ...

    def sum_over_records(self, state: ServerState, clients: Array, weights: Array, shards: Batch) -> Array:
        """The sum of so many times the raw update of each of some clients, where it `sums_records`.

        Args:
            state: that the clients are sent.
            clients: shape (b,).
            weights: of their updates, shape (b,).
            shards: what they hold, arrays of shape (b, n, ...).

        Returns:
            Shape (p,), up to rounding what `local_update` gives client by client.
        """
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

    Attributes:
        task: model and loss.
        cohorts: whom to ask, shape (T, b).
        schedules: names of the fields with one entry for every round or step, `cohorts` among them.
        noises: names of the fields that are noise sizes.
    """

    task: eqx.AbstractVar[Task]
    cohorts: eqx.AbstractVar[Numbers]
    schedules: ClassVar[tuple[str, ...]]
    noises: ClassVar[tuple[str, ...]]
    reads_uploads = False
    """The weighted sum is all that the server needs."""
    remembers_noised = False
    """Nothing is remembered."""
    sums_records = False
    """Updates are computed client by client."""

    def __init_subclass__(cls, shared: bool = False, **options: Any):
        super().__init_subclass__(**options)
        for missing in (name for name in ("schedules", "noises") if not (shared or hasattr(cls, name))):
            raise TypeError(f"{cls.__name__} must say which of its fields are {missing}")

    @property
    def steps_in_span(self) -> StepsInSpan | None:
        """None, where no step knows of the span."""
        return None

    def sum_over_records(self, state: ServerState, clients: Array, weights: Array, shards: Batch) -> Array:
        """Nobody asks for it.

        Raises:
            InvalidInput: always.
        """
        raise InvalidInput(f"updates of {type(self).__name__} are no sums over records; ask client by client")

    @property
    def lengths(self) -> dict[str, int]:
        """Entries of each schedule."""
        return {name: len(getattr(self, name)) for name in self.schedules}

    def padded(self, lengths: Mapping[str, int]) -> Self:
        """Zeros after the last entry of each schedule."""
        longer = {name: _longer(getattr(self, name), lengths[name]) for name in self.schedules}
        return replace(self, **longer)

    def with_noise(self, factor: float) -> Self:
        """Every noise size times a factor."""
        if factor == 1:
            return self
        sizes = {name: np.asarray(getattr(self, name), np.float64) for name in self.noises}
        return replace(self, **{name: np.asarray(factor * size, np.float32) for name, size in sizes.items()})

    def noiseless(self) -> Self:
        """Noise sizes of 0."""
        return self.with_noise(0.0)

    def init(self, theta: Array) -> ServerState:
        """theta_0, before round 0."""
        return ServerState(theta, jnp.zeros((), jnp.int32))

    def init_client(self, theta: Array) -> Memory:
        """Nothing: a client computes from what it is sent alone."""
        return ()

    def seen_at(self, memory: Memory, x: Array) -> Array:
        """As they are."""
        return x

    def owned(self, memory: Memory, theta: Array) -> Array:
        """The shared one."""
        return theta

    def select(self, state: ServerState) -> Array:
        """The cohort of this round in the schedule."""
        return jnp.asarray(self.cohorts)[state.round]

    @abstractmethod
    def weight(self, client: Array) -> Array:
        """The factor with which an upload enters the weighted sum."""

    def combine(self, state: ServerState, cohort: Array, uploads: Array) -> Array:
        """The weighted sum of the uploads."""
        # by default an accelerator rounds weights and uploads by 2^-11 before it multiplies them
        return jnp.matmul(jax.vmap(self.weight)(cohort), uploads, precision="highest")

    def model(self, state: ServerState) -> Array:
        """The last iterate."""
        return state.theta


class NoisedUploads(Scheduled, shared=True):
    """What algorithms share whose clients clip what a record does and noise each upload once.

    The numbers of one planned training; a pytree, so trainings can be stacked and mapped.

    Attributes:
        task: model and loss (static).
        family: kind of noise (static).
        norm: norm of the clip (static).
        clip_norm: C.
        noise: noise size of one upload, shape (N,).
        cohorts: whom to ask, shape (T, b).
        parts: noises of a law that is not stable that add up to one of the planned size (static).
    """

    noises: ClassVar[tuple[str, ...]] = ("noise",)

    task: Task = eqx.field(static=True)
    family: Family = eqx.field(static=True)
    norm: Norm = eqx.field(static=True)
    clip_norm: Numbers
    noise: Numbers
    cohorts: Numbers
    parts: int = eqx.field(static=True, default=1, kw_only=True)

    @property
    def numbers(self) -> int:
        """In an upload."""
        return self.task.dimension

    def noise_in(self, state: ServerState, clients: Array) -> Array:
        """Noise sizes of uploads of this round."""
        return jnp.asarray(self.noise)[clients]

    def privatize(self, state: ServerState, update: Array, client: Array, key: Array) -> Array:
        """The update plus the noise that the plan calibrated for this client."""
        size = self.noise_in(state, client)
        return update + simulated_noise(key, self.family, size, update.size, self.parts)

    def aggregate_noise(self, state: ServerState, cohort: Array, key: Array) -> Array:
        """The noise of the weighted sum of a cohort's uploads."""
        sizes = jax.vmap(self.weight)(cohort) * self.noise_in(state, cohort)
        return simulated_sum(key, self.family, sizes, self.numbers, self.parts)


def _longer(entries: Numbers, length: int) -> NDArray[np.generic]:
    """The entries, followed by zeros."""
    longer = np.zeros((length, *entries.shape[1:]), entries.dtype)
    longer[: len(entries)] = entries
    return longer
