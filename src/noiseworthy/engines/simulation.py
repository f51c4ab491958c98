"""The simulation engine: a whole training as one compiled program, mapped over seeds and plans.

The rounds between two evaluations run inside one compiled loop whose bounds are arguments, so that
trainings of different lengths share a program. Trainings are mapped by `vmap` when their cohorts are
small, and one after the other when gathering each one's records would cost more than the arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import PartitionSpec
from numpy.typing import NDArray

from noiseworthy._keys import Purpose, named_key
from noiseworthy.engines.devices import CLIENTS, TRAININGS, Layout, mesh_of
from noiseworthy.engines.flat import FlatRecords
from noiseworthy.engines.memories import ClientMemories
from noiseworthy.engines.records import Kept, Trajectory
from noiseworthy.engines.shards import Group, Shards
from noiseworthy.engines.spans import span_of, with_products
from noiseworthy.engines.streams import advance, memories_of
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.algorithm import Algorithm, ServerState, Shard
from noiseworthy.methods.local import Memory
from noiseworthy.methods.making import aligned
from noiseworthy.methods.span import Spanned
from noiseworthy.privacy.ledger import Ledger
from noiseworthy.rounds import client_step
from noiseworthy.tasks import LinearModel
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.batch import Score

_BLOCK_ELEMENTS = 50_000
"""Clients of a cohort are mapped in blocks of at most so many numbers; larger blocks gain nothing."""
_MODEL_WEIGHT = 8
"""A model of a client's own counts so many times: mapped, its products become slow batched ones."""
_GATHER_ELEMENTS = 4_000_000
"""Trainings that would gather more numbers than this in one step run one after the other."""
Rounds: TypeAlias = Callable[[tuple[int, int], ServerState, Memory], tuple[ServerState, Memory]]
"""Runs all trainings from one round to another."""


class Checkpoint(NamedTuple):
    """Everything a run needs to go on after `round` rounds, for S trainings.

    Attributes:
        round: rounds done.
        theta: the iterates to go on from, shape (S, p).
        used: uploads charged, shape (S, N).
        rounds: evaluated rounds so far, shape (e,).
        loss: shape (S, e).
        accuracy: shape (S, e).
        memory: what clients keep between rounds, arrays of shape (S, N, ...); or rows of those at `where`.
        server: what the server keeps beside theta, arrays of shape (S, ...).
        where: places of the rows among S times N clients, where records lie end to end: of those that changed
            since the checkpoint before, or that were ever asked if nothing lies in files.
    """

    round: int
    theta: NDArray[np.float32]
    used: NDArray[np.int64]
    rounds: NDArray[np.int64]
    loss: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    memory: tuple[NDArray[np.float32], ...] = ()
    server: tuple[NDArray[np.float32], ...] = ()
    where: NDArray[np.int64] | None = None


def simulate(
    algorithms: Sequence[Algorithm],
    planned: NDArray[np.int64],
    shards: Shards,
    evaluate_at: NDArray[np.int64],
    seeds: Sequence[int],
    *,
    single_uploads: bool = False,
    resume: Checkpoint | None = None,
    before_segment: Callable[[int, int], None] = lambda start, stop: None,
    on_segment: Callable[[Checkpoint], None] = lambda checkpoint: None,
    folder: Path | None = None,
) -> Trajectory:
    """Run S trainings of the same shape side by side and score them as they go.

    Args:
        algorithms: S algorithms that differ in numbers only (seeds of one plan, or points of a grid).
        planned: uploads that each client's noise pays for, shape (N,), or (S, N) for each training its own.
        shards: the federation on the device.
        evaluate_at: rounds to score at, ascending; the last one ends the training.
        seeds: S seeds of start, batches and noise.
        single_uploads: draw every client's noise on its own, as the debug engine does. By default a
            cohort's noise is drawn as one sum where that has the same law, which is cheaper.
        resume: state to go on from.
        before_segment: called before rounds start to stop run, to pay for them; what it raises ends the run.
        on_segment: called after every evaluation, for progress and checkpoints.
        folder: where what clients remember lies if their records lie end to end and `on_segment` keeps
            checkpoints; None keeps it in memory.

    Returns:
        Curves, final parameters and uploads per client.

    Raises:
        BudgetExceeded: a schedule that asks a client beyond `planned`; before anything runs.
        InvalidInput: no algorithm, different numbers of algorithms and seeds, or more rounds than planned.
    """
    planned = np.broadcast_to(planned, (len(seeds), shards.clients))
    _check_schedules(algorithms, planned, evaluate_at, seeds)
    stacked = _stack(algorithms)
    keys = _keys(jnp.asarray(seeds, jnp.uint32))
    flat = shards.train if isinstance(shards.train, FlatRecords) else None
    states, memory = _initial(stacked, keys, shards.clients if flat is None else 0)
    if flat is not None:
        used = np.zeros(planned.shape, np.int64) if resume is None else resume.used
        memory = memories_of(stacked, states, used, folder)
    done = resume or _start(states, memory, shards.clients)
    ledgers = [
        Ledger.open(paid).charge_rounds(a.cohorts[: done.round])
        for paid, a in zip(planned, algorithms, strict=True)
    ]
    states, memory = _reached(done, states, memory)
    if flat is None:
        stacked, states, memory, tested, run = _on_devices(
            algorithms, stacked, states, memory, keys, shards, seeds, single_uploads=single_uploads
        )
    else:
        tested, run = (shards.test_x, shards.test_y), _streamed(stacked, flat, keys, single_uploads)
    for stop in evaluate_at[evaluate_at >= done.round]:
        if len(done.rounds) and stop == done.rounds[-1]:
            continue
        window = slice(done.round, int(stop))
        ledgers = [led.charge_rounds(a.cohorts[window]) for led, a in zip(ledgers, algorithms, strict=True)]
        before_segment(done.round, int(stop))
        states, memory = run((done.round, int(stop)), states, memory)
        score = _score(stacked.task, _models(stacked, states), *tested)
        done = _record(done, int(stop), states, memory, ledgers, score)
        on_segment(done)
        if isinstance(memory, ClientMemories):
            memory.settle()
    models, kept = np.asarray(_models(stacked, states)), _reader(memory)
    return Trajectory(done.rounds, done.loss, done.accuracy, models, done.used, kept)


def _check_schedules(
    algorithms: Sequence[Algorithm],
    planned: NDArray[np.int64],
    evaluate_at: NDArray[np.int64],
    seeds: Sequence[int],
) -> None:
    """Every schedule must be paid for to its end, because compiled rounds ask no ledger."""
    if not algorithms or len(algorithms) != len(seeds):
        raise InvalidInput(f"{len(algorithms)} algorithms need as many seeds, at least one, got {len(seeds)}")
    rounds = int(evaluate_at[-1])
    for algorithm, paid in zip(algorithms, planned, strict=True):
        if rounds > len(algorithm.cohorts):
            raise InvalidInput(f"a schedule of {len(algorithm.cohorts)} rounds cannot run {rounds} rounds")
        Ledger.open(paid).charge_rounds(algorithm.cohorts[:rounds])


def _start(states: ServerState, memory: Memory, clients: int) -> Checkpoint:
    theta = np.asarray(states.theta)
    used, empty = np.zeros((len(theta), clients), np.int64), np.empty((len(theta), 0))
    where, kept = _kept(memory)
    return Checkpoint(
        0, theta, used, np.empty(0, np.int64), empty, empty, kept, _leaves(states.memory), where
    )


def _reached(done: Checkpoint, states: ServerState, memory: Memory) -> tuple[ServerState, Memory]:
    """State and memories of a checkpoint, in the layout of those that a run starts with."""

    def as_in(layout: Memory, leaves: tuple[NDArray[np.float32], ...]) -> Memory:
        return jax.tree.structure(layout).unflatten([jnp.asarray(leaf) for leaf in leaves])

    rounds = jnp.full(len(done.theta), done.round, jnp.int32)
    reached = ServerState(jnp.asarray(done.theta), rounds, as_in(states.memory, done.server))
    if isinstance(memory, ClientMemories):
        if done.where is not None:
            memory.put(done.where, done.memory)
            memory.settle()
        return reached, memory
    return reached, as_in(memory, done.memory)


def _record(
    done: Checkpoint, stop: int, states: ServerState, memory: Memory, ledgers: list[Ledger], score: Score
) -> Checkpoint:
    where, kept = _kept(memory)
    return Checkpoint(
        stop,
        np.asarray(states.theta),
        np.stack([ledger.used for ledger in ledgers]),
        np.append(done.rounds, stop),
        np.column_stack([done.loss, np.asarray(score.loss, np.float64)]),
        np.column_stack([done.accuracy, np.asarray(score.accuracy, np.float64)]),
        kept,
        _leaves(states.memory),
        where,
    )


def _kept(memory: Memory) -> tuple[NDArray[np.int64] | None, tuple[NDArray[np.float32], ...]]:
    """What a checkpoint holds of the memories of clients."""
    return memory.changes if isinstance(memory, ClientMemories) else (None, _leaves(memory))


def _reader(memory: Memory) -> Kept | None:
    """What any client keeps; None where nobody keeps anything."""
    if isinstance(memory, ClientMemories):
        return memory.of if memory.keeps else None
    leaves = _leaves(memory)
    return (lambda training, client: tuple(leaf[training, client] for leaf in leaves)) if leaves else None


def _leaves(memory: Memory) -> tuple[NDArray[np.float32], ...]:
    return tuple(np.asarray(leaf) for leaf in jax.tree.leaves(memory))


def _stack(algorithms: Sequence[Algorithm]) -> Algorithm:
    return jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *aligned(algorithms))


def _in_turn(stacked: Algorithm, shards: Shards) -> bool:
    """Whether trainings run one after the other.

    Where mapping them would copy more records per round than one core's cache holds, and for networks,
    whose mapped convolutions are slower than one training's.
    """
    trainings, _, cohort = stacked.cohorts.shape
    if trainings == 1 or not isinstance(stacked.task, LinearModel):
        return trainings > 1
    return cohort != shards.clients and trainings * shards.elements > _GATHER_ELEMENTS


def _layout(
    stacked: Algorithm, shards: Shards, memory: Memory, seeds: Sequence[int], **known: bool
) -> Layout:
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
    )
    return Layout(
        sequential=_in_turn(stacked, shards), apart=apart, mesh=mesh,
        clients_stay=everybody and mesh is not None and mesh.shape[CLIENTS] > 1, **known,
    )  # fmt: skip


def _on_devices(
    algorithms: Sequence[Algorithm],
    stacked: Algorithm,
    states: ServerState,
    memory: Memory,
    keys: Array,
    shards: Shards,
    seeds: Sequence[int],
    *,
    single_uploads: bool,
) -> tuple[Algorithm, ServerState, Memory, tuple[Array, Array], Rounds]:
    """Trainings, what they reached, records to score with and what runs rounds: each on its devices."""
    span = span_of(algorithms, shards)
    if span == "kept" and isinstance(stacked.task, LinearModel):
        shards = with_products(shards, stacked.task)
    layout = _layout(stacked, shards, memory, seeds, single_uploads=single_uploads, spans=span == "asked")
    own, everywhere = PartitionSpec(TRAININGS), PartitionSpec()
    train, groups = layout.placed(shards.train, layout.of_records), layout.placed(shards.groups, everywhere)
    tested = layout.placed((shards.test_x, shards.test_y), everywhere)
    memory = layout.placed(memory, layout.of_memories)
    stacked, states = layout.placed(stacked, own), layout.placed(states, own)
    keys = layout.placed(keys, own)

    def run(bounds: tuple[int, int], states: ServerState, memory: Memory) -> tuple[ServerState, Memory]:
        between = jnp.array(bounds, jnp.int32)
        return _advance(stacked, states, memory, train, groups, keys, between, layout)

    return stacked, states, memory, tested, run


def _streamed(stacked: Algorithm, flat: FlatRecords, keys: Array, single_uploads: bool) -> Rounds:
    """Trainings whose records come to the device window by window; memories are written where they lie."""
    return lambda bounds, states, memory: (
        advance(stacked, states, memory, flat, keys, bounds, single_uploads),
        memory,
    )


def _different(seeds: Sequence[int]) -> int:
    """Length of what the seeds repeat: trainings of one seed share their draws, so these are made once."""
    period = list(seeds).index(seeds[0], 1) if seeds[0] in list(seeds)[1:] else len(seeds)
    repeated = len(seeds) % period == 0 and list(seeds) == list(seeds[:period]) * (len(seeds) // period)
    return period if repeated else len(seeds)


@jax.jit
def _keys(seeds: Array) -> Array:
    return jax.vmap(jax.random.key)(seeds)


@eqx.filter_jit
def _initial(stacked: Algorithm, keys: Array, clients: int) -> tuple[ServerState, Memory]:
    """Every training's public start, and what each of its clients remembers then."""

    def start(algorithm: Algorithm, key: Array) -> tuple[ServerState, Memory]:
        state = algorithm.init(key)
        one = algorithm.init_client(state.theta)
        return state, jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (clients, *leaf.shape)), one)

    return jax.vmap(start)(stacked, keys)


@eqx.filter_jit
def _advance(stacked, states, memory, train: Shard, groups, keys, bounds: Array, layout: Layout):
    """Rounds bounds[0]..bounds[1] of every training; the bounds are traced, so one program serves all."""
    run = partial(_trainings, layout)
    if layout.mesh is None:
        return run(stacked, states, memory, keys, train, groups, bounds)
    own, kept, everywhere = PartitionSpec(TRAININGS), layout.of_memories, PartitionSpec()
    places = (own, own, kept, own, layout.of_records, everywhere, everywhere)
    divided = jax.shard_map(run, mesh=layout.mesh, in_specs=places, out_specs=(own, kept), check_vma=False)
    return divided(stacked, states, memory, keys, train, groups, bounds)


def _trainings(layout: Layout, stacked, states, memory, keys, train: Shard, groups, bounds: Array):
    """The trainings of one device.

    The first `apart` keys repeat: the settings that share a key are mapped around them, so that what a key
    draws is drawn once for all of them.
    """

    def training(algorithm: Algorithm, state: ServerState, memory: Memory, key: Array):
        def body(t: Array, carry: tuple[ServerState, Memory]) -> tuple[ServerState, Memory]:
            state, memory = carry  # the loop's own index is the same for all trainings: their keys agree
            return _round(algorithm, state._replace(round=t), memory, train, groups, key, layout)

        return lax.fori_loop(bounds[0], bounds[1], body, (state, memory))

    if layout.sequential:
        return lax.map(lambda args: training(*args), (stacked, states, memory, keys))
    if layout.apart >= len(keys):
        return jax.vmap(training)(stacked, states, memory, keys)
    split = partial(jax.tree.map, lambda leaf: leaf.reshape(-1, layout.apart, *leaf.shape[1:]))
    mapped = jax.vmap(jax.vmap(training), in_axes=(0, 0, 0, None))
    done = mapped(split(stacked), split(states), split(memory), keys[: layout.apart])
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), done)


def _round(
    algorithm: Algorithm,
    state: ServerState,
    memory: Memory,
    train: Shard,
    groups: tuple[Group, ...],
    key: Array,
    layout: Layout,
) -> tuple[ServerState, Memory]:
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

        def reply(place: Array, client: Array, memory: Memory, held=held) -> tuple[Array, Memory]:
            shard = jax.tree.map(lambda leaf: leaf[place], held)
            if layout.spans and isinstance(algorithm.task, LinearModel):
                shard = Spanned.of(algorithm.task, shard)
            if layout.single_uploads:
                upload, memory = client_step(algorithm, state, client, memory, shard, key)
            else:
                upload, memory = algorithm.local_update(state, client, memory, shard, key)
            return algorithm.weight(client) * upload, memory

        places = jnp.arange(len(clients)) if everybody else clients
        kept = clients if groups else places
        own = jax.tree.map(lambda leaf, kept=kept: leaf[kept], memory)
        elements = held[0][0].size + _MODEL_WEIGHT * state.theta.size * algorithm.moves_locally
        part, own = _sum_in_blocks(reply, (places, clients, own), elements)
        memory = jax.tree.map(lambda old, new, kept=kept: old.at[kept].set(new), memory, own)
        total = total + part
    total = layout.summed(jnp.asarray(total))
    if not layout.single_uploads:
        total = total + algorithm.aggregate_noise(
            state, cohort, named_key(key, Purpose.AGGREGATE, state.round)
        )
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


def _sum_in_blocks(
    reply: Callable[[Array, Array, Memory], tuple[Array, Memory]],
    asked: tuple[Array, Array, Memory],
    elements: int,
) -> tuple[Array, Memory]:
    """Sum of replies, a block of clients at a time, so that memory stays flat in the cohort."""
    most, cohort = max(1, _BLOCK_ELEMENTS // elements), asked[1]
    block = max(size for size in range(1, len(cohort) + 1) if len(cohort) % size == 0 and size <= most)
    split = lambda leaf: leaf.reshape(-1, block, *leaf.shape[1:])  # noqa: E731
    first = lambda leaf: leaf[0]  # noqa: E731

    def add(total: Array, part: tuple[Array, Array, Memory]) -> tuple[Array, Memory]:
        if block == 1:  # mapping over one client would turn its matrix products into slow batched ones
            one, own = reply(*jax.tree.map(first, part))
            return total + one, jax.tree.map(lambda leaf: leaf[None], own)
        replies, own = jax.vmap(reply)(*part)
        return total + jnp.sum(replies, axis=0), own

    shape, _ = jax.eval_shape(reply, *jax.tree.map(first, asked))
    total, own = lax.scan(add, jnp.zeros(shape.shape, shape.dtype), jax.tree.map(split, asked))
    return total, jax.tree.map(lambda leaf: leaf.reshape(len(cohort), *leaf.shape[2:]), own)


@eqx.filter_jit
def _models(stacked: Algorithm, states: ServerState) -> Array:
    """What every training delivers as it stands, shape (S, p)."""
    return jax.vmap(lambda algorithm, state: algorithm.model(state))(stacked, states)


@eqx.filter_jit
def _score(task: Task, theta: Array, x: Array, y: Array) -> Score:
    if isinstance(task, LinearModel):
        return jax.vmap(task.score, in_axes=(0, None, None))(theta, x, y)
    return lax.map(lambda one: task.score(one, x, y), theta)
