"""What an attacker saw of watched trainings: every upload, beside its mean in both worlds.

The engine runs a watched algorithm as any other: each of its verbs is the audited algorithm's own, called
with that algorithm's own state. Beside each upload stand the two means that it would have without its noise,
one for each neighbouring data set. The attacker knows them: it knows all but which of the two is held, and
follows what a client would remember in both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, Self

import equinox as eqx
import numpy as np
from numpy.typing import NDArray

from noiseworthy._jax import Array, jax, jnp
from noiseworthy.audit.canaries import ABSENT, PRESENT, Twin
from noiseworthy.engines.simulation import Checkpoint, simulate
from noiseworthy.methods.algorithm import Algorithm, ServerState, Shard
from noiseworthy.methods.around import Around, own_state
from noiseworthy.methods.local import Memory, Numbers
from noiseworthy.privacy.releases import Release


class Seen(NamedTuple):
    """What the server of a watched training keeps: the algorithm's own memory, and all uploads.

    `uploads` has shape (T, b, 3, width): the upload, and its mean in the absent and in the present world,
    the clients of a round in ascending order; where coins decide what is in an upload, a fourth row is the
    upload before its noise.
    """

    own: Memory
    uploads: Array


class Known(NamedTuple):
    """What a watched client remembers: its own memory, and that of both worlds as the attacker follows it."""

    real: Memory
    both: Memory


class Watched(Around):
    """An algorithm whose uploads are written down; what it trains is unchanged.

    Attributes:
        algorithm: what is audited.
        silent: the same without noise, and with every record in the batch.
        world: which data set each client holds, 0 absent or 1 present, shape (N,).
        width: numbers in one upload (static).
        told: whether what clients remember is noised, and so known to the attacker as it is (static).
        tossed: whether coins decide what is in an upload: which records, or whether its client's (static).
    """

    algorithm: Algorithm
    silent: Algorithm
    world: Numbers
    width: int = eqx.field(static=True)
    told: bool = eqx.field(static=True)
    tossed: bool = eqx.field(static=True)

    @property
    def reads_uploads(self) -> bool:
        """Every upload is looked at, so that each client's noise is drawn on its own."""
        return True

    @property
    def steps_in_span(self) -> None:
        """A client holds two data sets, of which the engine makes no inner products."""
        return None

    def init(self, theta: Array) -> ServerState:
        """The algorithm's start, with nothing seen."""
        start = self.algorithm.init(theta)
        rows = 3 + self.tossed
        return start._replace(memory=Seen(start.memory, jnp.zeros((*self.cohorts.shape, rows, self.width))))

    def init_client(self, theta: Array) -> Known:
        """The algorithm's memory, the same in both worlds."""
        own = self.algorithm.init_client(theta)
        return Known(own, _twice(own))

    def local_update(
        self, state: ServerState, client: Array, memory: Known, shard: Shard, key: Array
    ) -> tuple[Array, Known]:
        """The algorithm's update on the data set that is held, and the noiseless ones on both."""
        own, world = own_state(state), self.world[client]
        held = jax.tree.map(lambda leaf: leaf[world], shard)
        update, after = self.algorithm.local_update(own, client, memory.real, held, key)
        before = _twice(memory.real) if self.told else memory.both
        means, both = jax.vmap(partial(self._mean, own, client, key))(before, shard)
        return jnp.concatenate([update, means.ravel(), *[update] * self.tossed]), Known(after, both)

    def padded(self, lengths: Mapping[str, int]) -> Self:
        """Both worlds padded."""
        return replace(super().padded(lengths), silent=self.silent.padded(lengths))

    def _mean(self, own: ServerState, client: Array, key: Array, memory: Memory, shard: Shard):
        # by the key of the real update: batches and coins fall alike, and only the record differs
        return self.silent.local_update(own, client, memory, shard, key)

    def privatize(self, state: ServerState, update: Array, client: Array, key: Array) -> Array:
        """The algorithm's upload, the means beside it as they are."""
        raw, means = jnp.split(update, [self.width])
        return jnp.concatenate([self.algorithm.privatize(own_state(state), raw, client, key), means])

    def combine(self, state: ServerState, cohort: Array, uploads: Array) -> Array:
        """What the algorithm makes of its uploads, then everything that was seen, by client number."""
        total = self.algorithm.combine(own_state(state), cohort, uploads[:, : self.width])
        return jnp.concatenate([total, uploads[jnp.argsort(cohort)].ravel()])

    def aggregate(self, state: ServerState, total: Array) -> ServerState:
        """The algorithm's next state; the round is written down."""
        seen = state.memory.uploads
        own, uploads = jnp.split(total, [total.size - seen[0].size])
        after = self.algorithm.aggregate(own_state(state), own)
        kept = seen.at[state.round].set(uploads.reshape(seen.shape[1:]))
        return after._replace(memory=Seen(after.memory, kept))


def watched(algorithm: Algorithm, world: Numbers, width: int, tossed: bool = False) -> Watched:
    """An algorithm under watch.

    Args:
        algorithm: of a twin (`audit.canaries`), whose clients hold both worlds.
        world: which of them each client holds, shape (N,).
        width: numbers in one upload.
        tossed: whether coins decide what is in an upload.
    """
    return Watched(algorithm, algorithm.noiseless(), world, width, algorithm.remembers_noised, tossed)


def _twice(memory: Memory) -> Memory:
    return jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), memory)


@dataclass(frozen=True)
class Observations:
    """Uploads of S trainings, T rounds and cohorts of b clients.

    Attributes:
        uploads: shape (S, T, b, width).
        means: without noise, in the absent and in the present world, shape (2, S, T, b, width).
        noise: planned size of the noise on each number, shape (T, b, width).
        clients: who was asked, ascending in each round, shape (T, b).
        worlds: which world each client of each training was in, shape (S, N).
        raw: uploads before their noise, where coins decide what is in them, shape (S, T, b, width); None
            where these are the means.
    """

    uploads: NDArray[np.float64]
    means: NDArray[np.float64]
    noise: NDArray[np.float64]
    clients: NDArray[np.int64]
    worlds: NDArray[np.int64]
    raw: NDArray[np.float64] | None = None

    @property
    def shifts(self) -> NDArray[np.float64]:
        """How far the worlds lie apart in each number, in units of the planned noise, (S, T, b, width)."""
        return (self.means[PRESENT] - self.means[ABSENT]) / self.noise

    @property
    def residuals(self) -> NDArray[np.float64]:
        """Noise that was drawn, in units of what was planned, shape (S, T, b, width)."""
        if self.raw is not None:
            return (self.uploads - self.raw) / self.noise
        present = self.worlds[:, self.clients, None] == PRESENT
        return (self.uploads - np.where(present, self.means[PRESENT], self.means[ABSENT])) / self.noise

    def in_sums(self, release: Release, fewest: int) -> Observations:
        """What is seen of each upload where sums are: it, with the noise of the others that are left.

        The attacker knows all that those others upload but their noise, so that a sum shows one upload and
        the noise of `fewest`, its own among them: the others are those with the least. Each upload is looked
        at by itself; two of a round share noise.

        Args:
            release: whose noise adds up in sums.
            fewest: uploads of each cohort that are left, its attacked one among them.
        """
        if release.sharing is None:
            return self
        weights = release.sharing.weights[self.clients][..., None]
        drawn = weights * self.noise * self.residuals
        order = np.argsort((release.sharing.weights * release.mechanism.size)[self.clients], axis=1)
        places = np.argsort(order, axis=1)[..., None]
        others = np.take_along_axis(drawn, order[None, :, :fewest, None], axis=2)
        among, least = others.sum(axis=2, keepdims=True), others[:, :, :-1].sum(axis=2, keepdims=True)
        seen = np.where(places < fewest, among, drawn + least) / weights
        noise = self.noise * (release.hiding / release.mechanism.size)[self.clients][..., None]
        return replace(self, uploads=self.uploads - self.noise * self.residuals + seen, noise=noise)


def observe(
    twin: Twin, worlds: NDArray[np.int64], seeds: Sequence[int], *, broken_at: int | None = None
) -> Observations:
    """Train a twin under watch, by the product's own engine.

    Args:
        twin: what is trained.
        worlds: which data set each client holds in each training, 0 or 1, shape (S, N).
        seeds: of start, batches and noise, one training each, all different.
        broken_at: round after which trainings stop, to go on from their checkpoint; None for no break.
    """
    plan, width, tossed = twin.target.plan, twin.noise.shape[2], twin.target.release.sampling_rate < 1
    first, *others = worlds.astype(np.int32)
    leaves, shape = jax.tree.flatten(watched(twin.algorithm, first, width, tossed))
    each = ([world if leaf is first else leaf for leaf in leaves] for world in (first, *others))
    algorithms = [*map(shape.unflatten, each)]
    clients = np.sort(np.asarray(twin.algorithm.cohorts, np.int64), axis=1)
    asked = np.bincount(clients.ravel(), minlength=twin.clients)
    reached: list[Checkpoint] = []
    for end in (plan.rounds,) if broken_at is None else (broken_at, plan.rounds):
        simulate(
            algorithms, asked, twin.shards, np.array([end]), seeds,
            resume=reached[-1] if reached else None, on_segment=reached.append,
        )  # fmt: skip
    seen = reached[-1].server[-1].astype(np.float64)
    noise = np.take_along_axis(twin.noise, clients[:, :, None], axis=1)
    means, raw = np.moveaxis(seen[..., 1:3, :], 3, 0), seen[..., 3, :] if tossed else None
    return Observations(seen[..., 0, :], means, noise, clients, worlds, raw)
