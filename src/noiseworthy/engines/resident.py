"""Trainings whose records lie on the devices: which devices and in which order, then compiled rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, TypeAlias

import equinox as eqx
import numpy as np
from jax.sharding import PartitionSpec
from jax.tree_util import GetAttrKey, tree_map_with_path
from numpy.typing import NDArray

from noiseworthy._jax import Array, jax, jnp, lax
from noiseworthy._keys import Purpose, named_key
from noiseworthy.engines.devices import CLIENTS, TRAININGS, Layout, mesh_of
from noiseworthy.engines.flat import MODEL_WEIGHT, room_for_clients
from noiseworthy.engines.shards import Group, Shards, end_to_end
from noiseworthy.methods.algorithm import Algorithm, ServerState, Shard
from noiseworthy.methods.local import Memory
from noiseworthy.methods.span import Spanned
from noiseworthy.rounds import client_step
from noiseworthy.tasks.batch import Batch
from noiseworthy.tasks.chunks import room
from noiseworthy.tasks.linear import LinearModel

_JOINT_ELEMENTS = 1_000_000
"""Records of clients that one product serves lie end to end in blocks of at most so many numbers on a CPU."""
_GATHER_ELEMENTS = 4_000_000
"""Trainings that would gather more numbers than this in one step run one after the other on a CPU."""
Rounds: TypeAlias = Callable[[tuple[int, int], ServerState, Memory], tuple[ServerState, Memory]]
"""Runs all trainings from one round to another."""


def on_devices(
    algorithms: Sequence[Algorithm], stacked: Algorithm, states: ServerState, memory: Memory, keys: Array,
    shards: Shards, seeds: Sequence[int], ends: NDArray[np.int64] | None, *, single_uploads: bool,
    hosts: bool,
) -> tuple[Algorithm, ServerState, Memory, tuple[Array, Array], Rounds]:  # fmt: skip
    """Trainings, what they reached, records to score with and what runs rounds: each on its devices."""
    span = span_of(algorithms, shards)
    if span == "kept" and isinstance(stacked.task, LinearModel):
        shards = with_products(shards, stacked.task)
    layout = _layout(
        stacked, shards, memory, seeds, ends, hosts, single_uploads=single_uploads, spans=span == "asked"
    )
    if shards.groups and stacked.cohorts.shape[2] == shards.clients and _in_one_product(stacked, layout):
        shards = shards._replace(groups=(end_to_end(shards.train, room(_JOINT_ELEMENTS, layout.mapped)),))
    own, everywhere = PartitionSpec(TRAININGS), PartitionSpec()
    train, groups = layout.placed(shards.train, layout.of_records), layout.placed(shards.groups, everywhere)
    tested = layout.placed((shards.test_x, shards.test_y), everywhere)
    memory = layout.placed(memory, layout.of_memories)
    stacked, states = layout.placed(stacked, own), layout.placed(states, own)
    keys, last = layout.placed((keys, None if ends is None else ends.astype(np.int32)), own)

    def run(bounds: tuple[int, int], states: ServerState, memory: Memory) -> tuple[ServerState, Memory]:
        between = np.array(bounds, np.int32)
        return _advance(stacked, states, memory, train, groups, keys, between, last, layout)

    return stacked, states, memory, tested, run


def _in_turn(stacked: Algorithm, shards: Shards, gathered: int) -> bool:
    """Whether trainings run one after the other, of which so many gather records of their own.

    Where mapping them would copy more records per round than one core's cache holds, and for networks,
    whose mapped convolutions are slower than one training's.
    """
    trainings, _, cohort = stacked.cohorts.shape
    if trainings == 1 or not isinstance(stacked.task, LinearModel):
        return trainings > 1
    return cohort != shards.clients and gathered * shards.elements > room(_GATHER_ELEMENTS)


def _layout(
    stacked: Algorithm, shards: Shards, memory: Memory, seeds: Sequence[int], ends: NDArray[np.int64] | None,
    hosts: bool, **known: bool,
) -> Layout:  # fmt: skip
    """Devices for the trainings and for the clients of a round.

    Trainings that share their keys stay together. Clients are divided where all are asked, each with what it
    holds and remembers, or where they remember nothing; not where the server looks at each upload.
    """
    trainings, _, cohort = stacked.cohorts.shape
    apart, everybody = _different(seeds), cohort == shards.clients
    together = shards.groups if everybody else jax.tree.leaves(memory)
    mesh = mesh_of(
        trainings // apart if apart < trainings else trainings,
        1 if stacked.reads_uploads or together else cohort,
        hosts=hosts,
    )
    alike = not everybody and _alike(np.asarray(stacked.cohorts), ends, apart)
    in_turn = _in_turn(stacked, shards, apart if alike else trainings)
    return Layout(
        sequential=in_turn, apart=apart, alike=alike, mesh=mesh,
        mapped=1 if in_turn else trainings // (mesh.shape[TRAININGS] if mesh else 1),
        clients_stay=everybody and mesh is not None and mesh.shape[CLIENTS] > 1, **known,
    )  # fmt: skip


def _alike(cohorts: NDArray[np.int32], ends: NDArray[np.int64] | None, apart: int) -> bool:
    """Whether trainings of one key ask as the first of them would, while they last."""
    asked, rounds = cohorts.reshape(-1, apart, *cohorts.shape[1:]), cohorts.shape[1]
    lasts = np.full(len(cohorts), rounds) if ends is None else ends
    over = np.arange(rounds)[:, None] >= lasts.reshape(-1, apart, 1, 1)
    return bool(np.all(over | (asked == asked[0])))


def _different(seeds: Sequence[int]) -> int:
    """Length of what the seeds repeat: trainings of one seed share their draws, so these are made once."""
    period = list(seeds).index(seeds[0], 1) if seeds[0] in list(seeds)[1:] else len(seeds)
    repeated = len(seeds) % period == 0 and list(seeds) == list(seeds[:period]) * (len(seeds) // period)
    return period if repeated else len(seeds)


@eqx.filter_jit
def _advance(stacked, states, memory, train: Shard, groups, keys, bounds, ends, layout: Layout):
    """Rounds bounds[0]..bounds[1] of every training; the bounds are traced, so one program serves all."""
    run = partial(_trainings, layout)
    if layout.mesh is None:
        return run(stacked, states, memory, keys, ends, train, groups, bounds)
    own, kept, everywhere = PartitionSpec(TRAININGS), layout.of_memories, PartitionSpec()
    places = (own, own, kept, own, own, layout.of_records, everywhere, everywhere)
    divided = jax.shard_map(run, mesh=layout.mesh, in_specs=places, out_specs=(own, kept), check_vma=False)
    return divided(stacked, states, memory, keys, ends, train, groups, bounds)


def _trainings(layout: Layout, stacked, states, memory, keys, ends, train: Shard, groups, bounds: Array):
    """The trainings of one device.

    The first `apart` keys repeat: the settings that share a key are mapped around them, so that what a key
    draws is drawn once for all of them; so are records gathered once, where they ask the same clients, too.
    """

    def step(algorithm: Algorithm, carry: tuple[ServerState, Memory], end: Array | None, key: Array, t):
        after = _round(algorithm, carry[0]._replace(round=t), carry[1], train, groups, key, layout)
        if end is None:
            return after
        # a training that is over computes on beside the others, with whom its padded schedule names, and
        # all of that is thrown away: ledgers are charged for the rounds that are kept
        goes_on = t < end
        return jax.tree.map(lambda new, old: jnp.where(goes_on, new, old), after, carry)

    def rounds(step, algorithm, carry, end, key):  # one loop and index for all: a mapped loop is traced twice
        return lax.fori_loop(bounds[0], bounds[1], lambda t, now: step(algorithm, now, end, key, t), carry)

    carry, each = (states, memory), jax.vmap(step, in_axes=(0, 0, 0, 0, None))
    if layout.sequential:
        return lax.map(lambda args: rounds(step, *args), (stacked, carry, ends, keys))
    if layout.apart >= len(keys):
        return rounds(each, stacked, carry, ends, keys)
    split = partial(jax.tree.map, lambda leaf: leaf.reshape(-1, layout.apart, *leaf.shape[1:]))
    once = tree_map_with_path(lambda path, _: layout.alike and path[-1] == GetAttrKey("cohorts"), stacked)
    axes = jax.tree.map(lambda shared: None if shared else 0, once)
    settings = jax.tree.map(lambda leaf, shared: leaf[0] if shared else leaf, split(stacked), once)
    mapped = jax.vmap(each, in_axes=(axes, 0, 0, None, None))
    done = rounds(mapped, settings, split(carry), split(ends), keys[: layout.apart])
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), done)


def _round(
    algorithm: Algorithm, state: ServerState, memory: Memory, train: Shard, groups: tuple[Group, ...],
    key: Array, layout: Layout,
) -> tuple[ServerState, Memory]:  # fmt: skip
    cohort = algorithm.select(state)
    everybody = len(cohort) == train[0].shape[0] or layout.clients_stay
    if everybody:
        cohort = jnp.arange(len(cohort))  # everybody: no gather, one matrix product serves all trainings
    else:
        groups = ()
    if algorithm.reads_uploads:
        uploads, memory = _each_upload(algorithm, state, memory, cohort, train, key)
        return algorithm.aggregate(state, algorithm.combine(state, cohort, uploads)), memory
    total: Array | float = 0.0
    for clients, held in groups or (Group(layout.part(cohort), train),):
        places = jnp.arange(len(clients)) if everybody else clients
        if _in_one_product(algorithm, layout):
            most = room(_JOINT_ELEMENTS, layout.mapped)
            total = total + _sum_over_records(algorithm, state, places, clients, held, most)
            continue

        def reply(place: Array, client: Array, memory: Memory, held=held) -> tuple[Array, Memory]:
            shard = jax.tree.map(lambda leaf: leaf[place], held)
            if layout.spans and isinstance(algorithm.task, LinearModel):
                shard = Spanned.of(algorithm.task, shard)
            if layout.single_uploads:
                upload, memory = client_step(algorithm, state, client, memory, shard, key)
            else:
                upload, memory = algorithm.local_update(state, client, memory, shard, key)
            return algorithm.weight(client) * upload, memory

        kept = clients if groups else places
        own = jax.tree.map(lambda leaf, kept=kept: leaf[kept], memory)
        elements = held[0][0].size + MODEL_WEIGHT * state.theta.size * algorithm.moves_locally
        most = room_for_clients(algorithm.task, layout.mapped)
        part, own = _sum_in_blocks(reply, (places, clients, own), most // elements)
        memory = jax.tree.map(lambda old, new, kept=kept: old.at[kept].set(new), memory, own)
        total = total + part
    # noise after the sum over devices: each draws the same one from the same key, and it must count once
    total = layout.summed(jnp.asarray(total))
    if not layout.single_uploads:
        total += algorithm.aggregate_noise(state, cohort, named_key(key, Purpose.AGGREGATE, state.round))
    return algorithm.aggregate(state, jnp.asarray(total)), memory


def _each_upload(
    algorithm: Algorithm, state: ServerState, memory: Memory, cohort: Array, train: Shard, key: Array
) -> tuple[Array, Memory]:
    """The uploads of a cohort one by one, shape (b, u), and all memories after them."""

    def reply(asked: tuple[Array, Memory]) -> tuple[Array, Memory]:
        client, own = asked
        shard = jax.tree.map(lambda leaf: leaf[client], train)
        return client_step(algorithm, state, client, own, shard, key)

    own = jax.tree.map(lambda leaf: leaf[cohort], memory)
    uploads, own = lax.map(reply, (cohort, own))
    return uploads, jax.tree.map(lambda old, new: old.at[cohort].set(new), memory, own)


def _in_one_product(algorithm: Algorithm, layout: Layout) -> bool:
    """Whether one matrix product gives the replies of many clients, whose noise is one draw."""
    return algorithm.sums_records and isinstance(algorithm.task, LinearModel) and not layout.single_uploads


def _sum_over_records(
    algorithm: Algorithm, state: ServerState, places: Array, clients: Array, held: Shard, most: int
) -> Array:
    """Weighted sum of replies from the records of many clients, up to so many numbers of them end to end."""
    weights = jax.vmap(algorithm.weight)(clients)
    block = _block(len(clients), most // held[0][0].size)

    def add(total: Array, part: tuple[Array, Array, Array]) -> tuple[Array, None]:
        shards = jax.tree.map(lambda leaf: leaf[part[0]], held)
        return total + algorithm.sum_over_records(state, *part[1:], shards), None

    if block == len(held[0]):  # everybody, and so nothing is gathered
        return algorithm.sum_over_records(state, clients, weights, held)
    parts = jax.tree.map(lambda leaf: leaf.reshape(-1, block), (places, clients, weights))
    return lax.scan(add, jnp.zeros_like(state.theta), parts)[0]


def _block(cohort: int, most: int) -> int:
    """The most clients of a cohort, up to a limit, that divide it evenly; at least one."""
    return max(size for size in range(1, cohort + 1) if cohort % size == 0 and size <= max(1, most))


def _sum_in_blocks(
    reply: Callable[[Array, Array, Memory], tuple[Array, Memory]],
    asked: tuple[Array, Array, Memory],
    most: int,
) -> tuple[Array, Memory]:
    """Sum of replies, a block of that many clients at a time, so that memory stays flat in the cohort."""
    cohort = asked[1]
    block = _block(len(cohort), most)
    split = lambda leaf: leaf.reshape(-1, block, *leaf.shape[1:])  # noqa: E731
    first = lambda leaf: leaf[0]  # noqa: E731

    reply = jax.jit(reply, inline=True)  # traced once, for the shape of its answer and for the loop

    def add(total: Array, part: tuple[Array, Array, Memory]) -> tuple[Array, Memory]:
        if block == 1:  # mapping over one client would turn its matrix products into slow batched ones
            one, own = reply(*jax.tree.map(first, part))
            return total + one, jax.tree.map(lambda leaf: leaf[None], own)
        replies, own = jax.vmap(reply)(*part)
        return total + jnp.sum(replies, axis=0), own

    shape, _ = jax.eval_shape(reply, *jax.tree.map(first, asked))
    total, own = lax.scan(add, jnp.zeros(shape.shape, shape.dtype), jax.tree.map(split, asked))
    return total, jax.tree.map(lambda leaf: leaf.reshape(len(cohort), *leaf.shape[2:]), own)


Span = Literal["none", "kept", "asked"]
"""No inner products, those of all clients made before the first round, or a client's when it is asked."""
_WORTHWHILE = 0.7
"""Cost in the span, as a share of that without, from which on it is taken."""
_DRAWN, _SQUARE = 3.0, 0.5
"""Cost of a product with drawn records, which are copied first, and of one of records among themselves."""


def span_of(algorithms: Sequence[Algorithm], shards: Shards) -> Span:
    """What is cheapest for trainings of one shape: from records, features, outputs, steps and rounds.

    Args:
        algorithms: on the host; their local steps count by their mean.
        shards: the federation on the device.
    """
    task, steps = algorithms[0].task, [one.steps_in_span for one in algorithms]
    if not isinstance(task, LinearModel) or not isinstance(shards.train, Batch) or None in steps:
        return "none"
    n, k = shards.train.x.shape[1], task.outputs
    d, drawn = task.dimension // k, steps[0].records if steps[0] else None
    count = float(np.mean([one.steps for one in steps if one]))
    rounds, cohort = algorithms[0].cohorts.shape
    once = min(1.0, shards.clients / (rounds * cohort))  # products made once, shared by all that use them
    direct = count * 2 * d * k * (n if drawn is None else _DRAWN * drawn)
    spanned = once * _SQUARE * n * n * d + 2 * n * d * k + count * n * n * k
    if spanned > _WORTHWHILE * direct:
        return "none"
    return "kept" if once < 1 and n <= d else "asked"


def with_products(shards: Shards, task: LinearModel) -> Shards:
    """Every client's records with their inner products, in groups too."""

    def held(train: Shard) -> Spanned:
        return Spanned(train.x, train.y, train.mask, _products(task, train))

    groups = tuple(group._replace(train=held(group.train)) for group in shards.groups)
    return shards._replace(train=held(shards.train), groups=groups)


@eqx.filter_jit
def _products(task: LinearModel, train: Batch) -> Array:
    return jax.lax.map(lambda one: Spanned.of(task, one).products, train)
