"""An algorithm under watch: it trains as ever, and all that an attacker knows is written down.

The engine runs it as any other algorithm: each of its verbs is the audited algorithm's own, called with that
algorithm's own state. Beside each upload stand the two means that it would have without its noise, one for
each neighbouring data set. The attacker knows them: it knows all but which of the two is held, and follows
what a client would remember in both.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Self

import equinox as eqx

from noiseworthy._jax import Array, jax, jnp
from noiseworthy.methods.algorithm import Algorithm, ServerState, Shard
from noiseworthy.methods.around import Around, own_state
from noiseworthy.methods.local import Memory, Numbers


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
