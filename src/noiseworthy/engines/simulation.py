"""The simulation engine: a whole training as one compiled program, mapped over seeds and plans.

The rounds between two evaluations run inside one compiled loop whose bounds are arguments, so that
trainings of different lengths share a program. Trainings are mapped by `vmap` when their cohorts are
small, and one after the other when gathering each one's records would cost more than the arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import NDArray

from noiseworthy._keys import Purpose, named_key
from noiseworthy.algorithms.base import Algorithm, ServerState
from noiseworthy.data.federation import Federation
from noiseworthy.engines.records import Trajectory
from noiseworthy.errors import InvalidInput
from noiseworthy.privacy.ledger import Ledger
from noiseworthy.rounds import client_step
from noiseworthy.tasks.base import Batch, Score, Task

_BLOCK_ELEMENTS = 50_000
"""Clients of a cohort are mapped in blocks of at most so many numbers; larger blocks gain nothing."""
_GATHER_ELEMENTS = 4_000_000
"""Trainings that would gather more numbers than this in one step run one after the other."""


class Shards(NamedTuple):
    """A federation on the device, with features prepared for the task."""

    train: Batch
    test_x: Array
    test_y: Array

    @classmethod
    def load(cls, federation: Federation, task: Task) -> Shards:
        """Prepare features once, and mark padding by a mask of zeros."""
        shape = federation.x.shape
        prepare = jax.jit(task.prepare)
        flat = prepare(federation.x.reshape(-1, *shape[2:]))
        mask = jnp.asarray(np.arange(shape[1]) < federation.sizes[:, None], jnp.float32)
        train = Batch(flat.reshape(*shape[:2], *flat.shape[1:]), jnp.asarray(federation.y), mask)
        return cls(train, prepare(federation.test_x), jnp.asarray(federation.test_y))

    def of(self, client: Array | int) -> Batch:
        """The records of one client."""
        return Batch(self.train.x[client], self.train.y[client], self.train.mask[client])


class Checkpoint(NamedTuple):
    """Everything a run needs to go on after `round` rounds, for S trainings.

    Attributes:
        round: rounds done.
        theta: shape (S, p).
        used: uploads charged, shape (S, N).
        rounds: evaluated rounds so far, shape (e,).
        loss: shape (S, e).
        accuracy: shape (S, e).
    """

    round: int
    theta: NDArray[np.float32]
    used: NDArray[np.int64]
    rounds: NDArray[np.int64]
    loss: NDArray[np.float64]
    accuracy: NDArray[np.float64]


def simulate(
    algorithms: Sequence[Algorithm],
    planned: NDArray[np.int64],
    shards: Shards,
    evaluate_at: NDArray[np.int64],
    seeds: Sequence[int],
    *,
    single_uploads: bool = False,
    resume: Checkpoint | None = None,
    on_segment: Callable[[Checkpoint], None] = lambda checkpoint: None,
) -> Trajectory:
    """Run S trainings of the same shape side by side and score them as they go.

    Args:
        algorithms: S algorithms that differ in numbers only (seeds of one plan, or points of a grid).
        planned: uploads that each client's noise pays for, shape (N,).
        shards: the federation on the device.
        evaluate_at: rounds to score at, ascending; the last one ends the training.
        seeds: S seeds of start, batches and noise.
        single_uploads: draw every client's noise on its own, as the debug engine does. By default a
            cohort's noise is drawn as one sum where that has the same law, which is cheaper.
        resume: state to go on from.
        on_segment: called after every evaluation, for progress and checkpoints.

    Returns:
        Curves, final parameters and uploads per client.

    Raises:
        BudgetExceeded: a schedule that asks a client beyond `planned`; before anything runs.
        InvalidInput: no algorithm, different numbers of algorithms and seeds, or more rounds than planned.
    """
    _check_schedules(algorithms, planned, evaluate_at, seeds)
    stacked = _stack(algorithms)
    keys = _keys(jnp.asarray(seeds, jnp.uint32))
    ledgers = [Ledger.open(planned) for _ in seeds]
    done = resume or _start(stacked, keys, len(planned))
    ledgers = [
        ledger.charge_rounds(a.cohorts[: done.round]) for ledger, a in zip(ledgers, algorithms, strict=True)
    ]
    states = ServerState(jnp.asarray(done.theta), jnp.full(len(seeds), done.round, jnp.int32))
    sequential = _gathers_much(stacked, shards)
    for stop in evaluate_at[evaluate_at >= done.round]:
        if len(done.rounds) and stop == done.rounds[-1]:
            continue
        window = slice(done.round, int(stop))
        ledgers = [led.charge_rounds(a.cohorts[window]) for led, a in zip(ledgers, algorithms, strict=True)]
        bounds = jnp.array([done.round, stop], jnp.int32)
        states = _advance(stacked, states, shards.train, keys, bounds, single_uploads, sequential)
        score = _score(stacked.task, states.theta, shards.test_x, shards.test_y)
        done = _record(done, int(stop), states, ledgers, score)
        on_segment(done)
    return Trajectory(done.rounds, done.loss, done.accuracy, done.theta, done.used)


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
    for algorithm in algorithms:
        if rounds > len(algorithm.cohorts):
            raise InvalidInput(f"a schedule of {len(algorithm.cohorts)} rounds cannot run {rounds} rounds")
        Ledger.open(planned).charge_rounds(algorithm.cohorts[:rounds])


def _start(stacked: Algorithm, keys: Array, clients: int) -> Checkpoint:
    theta = np.asarray(_initial(stacked, keys))
    empty = np.empty((len(theta), 0))
    return Checkpoint(
        0, theta, np.zeros((len(theta), clients), np.int64), np.empty(0, np.int64), empty, empty
    )


def _record(
    done: Checkpoint, stop: int, states: ServerState, ledgers: list[Ledger], score: Score
) -> Checkpoint:
    return Checkpoint(
        stop,
        np.asarray(states.theta),
        np.stack([ledger.used for ledger in ledgers]),
        np.append(done.rounds, stop),
        np.column_stack([done.loss, np.asarray(score.loss, np.float64)]),
        np.column_stack([done.accuracy, np.asarray(score.accuracy, np.float64)]),
    )


def _stack(algorithms: Sequence[Algorithm]) -> Algorithm:
    return jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *algorithms)


def _gathers_much(stacked: Algorithm, shards: Shards) -> bool:
    """Whether mapped trainings would copy more records per round than one core's cache holds."""
    trainings, _, cohort = stacked.cohorts.shape
    everyone = cohort == shards.train.mask.shape[0]
    return trainings > 1 and not everyone and trainings * shards.train.x[0].size > _GATHER_ELEMENTS


@jax.jit
def _keys(seeds: Array) -> Array:
    return jax.vmap(jax.random.key)(seeds)


@eqx.filter_jit
def _initial(stacked: Algorithm, keys: Array) -> Array:
    return jax.vmap(lambda algorithm, key: algorithm.init(key).theta)(stacked, keys)


@eqx.filter_jit
def _advance(stacked, states, train, keys, bounds: Array, single_uploads: bool, sequential: bool):
    """Rounds bounds[0]..bounds[1] of every training; the bounds are traced, so one program serves all."""

    def training(algorithm: Algorithm, state: ServerState, key: Array) -> ServerState:
        body = lambda _, state: _round(algorithm, state, train, key, single_uploads)  # noqa: E731
        return lax.fori_loop(bounds[0], bounds[1], body, state)

    if sequential:
        return lax.map(lambda args: training(*args), (stacked, states, keys))
    return jax.vmap(training)(stacked, states, keys)


def _round(
    algorithm: Algorithm, state: ServerState, train: Batch, key: Array, single_uploads: bool
) -> ServerState:
    cohort = algorithm.select(state)
    if len(cohort) == train.mask.shape[0]:
        cohort = jnp.arange(len(cohort))  # everybody: no gather, one matrix product serves all trainings

    def contribution(client: Array) -> Array:
        shard = Batch(train.x[client], train.y[client], train.mask[client])
        if single_uploads:
            reply = client_step(algorithm, state, client, shard, key)
        else:
            reply = algorithm.local_update(state, client, shard, key)
        return algorithm.weight(client) * reply

    total = _sum_in_blocks(contribution, cohort, train.x[0].size)
    if not single_uploads:
        total += algorithm.aggregate_noise(state, cohort, named_key(key, Purpose.AGGREGATE, state.round))
    return algorithm.aggregate(state, total)


def _sum_in_blocks(contribution: Callable[[Array], Array], cohort: Array, elements: int) -> Array:
    """Sum of contributions, a block of clients at a time, so that memory stays flat in the cohort."""
    most = max(1, _BLOCK_ELEMENTS // elements)
    block = max(size for size in range(1, len(cohort) + 1) if len(cohort) % size == 0 and size <= most)

    def add(total: Array, clients: Array) -> tuple[Array, None]:
        if block == 1:  # mapping over one client would turn its matrix products into slow batched ones
            return total + contribution(clients[0]), None
        return total + jnp.sum(jax.vmap(contribution)(clients), axis=0), None

    shape = jax.eval_shape(contribution, cohort[0])
    return lax.scan(add, jnp.zeros(shape.shape, shape.dtype), cohort.reshape(-1, block))[0]


@eqx.filter_jit
def _score(task: Task, theta: Array, x: Array, y: Array) -> Score:
    return jax.vmap(task.score, in_axes=(0, None, None))(theta, x, y)
