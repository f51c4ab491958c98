"""The simulation engine: a whole training as one compiled program, mapped over seeds and plans.

The rounds between two evaluations run inside one compiled loop whose bounds are arguments, so that
trainings of different lengths share a program: `resident` where records lie on the devices, `streams` where
they come to them window by window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy._float32 import in_float32
from noiseworthy._jax import Array, jax, jnp, lax
from noiseworthy.engines.devices import whole
from noiseworthy.engines.flat import FlatRecords
from noiseworthy.engines.records import Kept, Trajectory
from noiseworthy.engines.resident import Rounds, on_devices
from noiseworthy.engines.shards import Shards
from noiseworthy.engines.streams import ClientMemories, advance, memories_of
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.algorithm import Algorithm, ServerState, start_of
from noiseworthy.methods.local import Memory, Numbers
from noiseworthy.methods.making import aligned
from noiseworthy.privacy.ledger import Ledger
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.batch import Score
from noiseworthy.tasks.linear import LinearModel


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


class SideBySide(NamedTuple):
    """Trainings of one shape as `simulate` runs them: the same on every federation that has their clients.

    Attributes:
        stacked: the algorithms, each leaf of shape (S, ...).
        keys: root keys, shape (S,).
        ledgers: before the first round.
        cohorts: schedules.
        lasts: rounds.
    """

    stacked: Algorithm
    keys: Array
    ledgers: list[Ledger]
    cohorts: list[NDArray]
    lasts: list[int]

    @classmethod
    def of(
        cls, algorithms: Sequence[Algorithm], planned: NDArray[np.int64],
        lasts: list[int], seeds: Sequence[int],
    ) -> SideBySide:  # fmt: skip
        """Each pays for its whole schedule first, as compiled rounds ask no ledger; `planned` is (S, N).

        Raises:
            BudgetExceeded, InvalidInput: as `simulate` does.
        """
        if not algorithms or len(algorithms) != len(seeds):
            raise InvalidInput(
                f"{len(algorithms)} algorithms need as many seeds, at least one, got {len(seeds)}"
            )
        rounds = max(lasts)
        shortest = min(len(algorithm.cohorts) for algorithm in algorithms)
        if rounds > shortest:
            raise InvalidInput(f"a schedule of {shortest} rounds cannot run {rounds} rounds")
        paid = _once(planned, [0] * len(seeds))
        # `paid` keeps its rows, so that no two of them have one id
        ledgers = {id(row): Ledger.open(row) for row in paid}
        opened = [ledgers[id(row)] for row in paid]
        cohorts = _once([one.cohorts for one in algorithms], seeds)
        # asked only whether the whole schedule is paid for: each segment charges its rounds before it runs
        _charged(opened, cohorts, lasts, slice(rounds))
        return cls(_stack(algorithms), _keys(np.asarray(seeds, np.uint32)), opened, cohorts, lasts)


@in_float32()
def simulate(
    algorithms: Sequence[Algorithm], planned: NDArray[np.int64], shards: Shards,
    evaluate_at: NDArray[np.int64], seeds: Sequence[int], *, ends: NDArray[np.int64] | None = None,
    start: NDArray[np.float32] | None = None, together: SideBySide | None = None,
    single_uploads: bool = False, resume: Checkpoint | None = None,
    before_segment: Callable[[int, int], None] = lambda start, stop: None,
    on_segment: Callable[[Checkpoint], None] = lambda checkpoint: None, folder: Path | None = None,
    hosts: bool = False,
) -> Trajectory:  # fmt: skip
    """Run S trainings of the same shape side by side and score them as they go.

    Args:
        algorithms: S algorithms that differ in numbers only (seeds of one plan, or points of a grid).
        planned: uploads that each client's noise pays for, shape (N,), or (S, N) for each training its own.
        shards: the federation on the device.
        evaluate_at: rounds to score at, ascending; the last one ends the training.
        seeds: S seeds of start, batches and noise.
        ends: rounds of each training where some are shorter, shape (S,): these ask nobody after them and
            stay as they are. None where all go on to the last evaluation.
        start: theta_0 of all trainings, shape (p,), in the place of the task's own.
        together: what was made of these algorithms for any federation, `ends` included; None makes it.
        single_uploads: draw every client's noise on its own, as the debug engine does. By default a
            cohort's noise is drawn as one sum where that has the same law, which is cheaper.
        resume: state to go on from.
        before_segment: called before rounds start to stop run, to pay for them; what it raises ends the run.
        on_segment: called after every evaluation, for progress and checkpoints.
        folder: where what clients remember lies if their records lie end to end and `on_segment` keeps
            checkpoints; None keeps it in memory.
        hosts: on the devices of all processes that `jax.distributed` joined, each of which calls with the
            same arguments; by default on those of this process.

    Returns:
        Curves, final parameters and uploads per client.

    Raises:
        BudgetExceeded: a schedule that asks a client beyond `planned`; before anything runs.
        InvalidInput: no algorithm, different numbers of algorithms and seeds, more rounds than planned, or a
            loss that is nan before the first.
    """
    planned = np.broadcast_to(planned, (len(seeds), shards.clients))
    lasts = [int(evaluate_at[-1])] * len(seeds) if ends is None else ends.tolist()
    stacked, keys, ledgers, cohorts, lasts = together or SideBySide.of(algorithms, planned, lasts, seeds)
    ends = None if ends is None and together is None else np.array(lasts)  # rounds that are run are charged
    flat = shards.train if isinstance(shards.train, FlatRecords) else None
    states, memory = _initial(stacked, keys, start, shards.clients if flat is None else 0)
    if flat is not None:
        used = np.zeros(planned.shape, np.int64) if resume is None else resume.used
        memory = memories_of(stacked, states, used, folder)
    done = resume or _start(states, memory, shards.clients)
    if resume:
        ledgers = _charged(ledgers, cohorts, lasts, slice(done.round))
        states, memory = _reached(done, states, memory)
    if flat is None:
        stacked, states, memory, tested, run = on_devices(
            algorithms, stacked, states, memory, keys, shards, seeds, ends,
            single_uploads=single_uploads, hosts=hosts,
        )  # fmt: skip
    else:
        tested, run = (shards.test_x, shards.test_y), _streamed(stacked, flat, keys, lasts, single_uploads)
    for stop in evaluate_at[evaluate_at >= done.round]:
        if len(done.rounds) and stop == done.rounds[-1]:
            continue
        # charged here, and paid for by `before_segment`, before a round runs: what is killed later has spent
        ledgers = _charged(ledgers, cohorts, lasts, slice(done.round, int(stop)))
        before_segment(done.round, int(stop))
        states, memory = run((done.round, int(stop)), states, memory)
        score = _score(stacked.task, _models(stacked, states), *tested)
        done = _record(done, int(stop), states, memory, ledgers, score)
        if stop == 0 and len(shards.test_y):
            check_start(done.loss)
        on_segment(done)
        if isinstance(memory, ClientMemories):
            memory.settle()
    models, kept = whole(_models(stacked, states)), _reader(memory)
    return Trajectory(done.rounds, done.loss, done.accuracy, models, done.used, kept)


def check_start(loss: ArrayLike) -> None:
    """Refuse a test loss that is nan before training, by InvalidInput."""
    if np.any(np.isnan(loss)):
        raise InvalidInput(
            "the loss on test records is nan before training, and gradients of it teach nothing; mend the "
            "model or its loss (nothing was spent)"
        )


def _once(arrays: Iterable[Numbers], seeds: Sequence[int]) -> list[NDArray]:
    """The arrays, one object where they are as the first one of their seed."""
    first: dict[int, NDArray] = {}
    named = [(seed, np.asarray(one)) for seed, one in zip(seeds, arrays, strict=True)]
    pairs = [(first.setdefault(seed, one), one) for seed, one in named]
    return [known if np.array_equal(known, one) else one for known, one in pairs]


def _charged(ledgers: list[Ledger], cohorts: list[NDArray], lasts: list[int], rounds: slice) -> list[Ledger]:
    """Ledgers after rounds of their schedules; trainings that share all share what they are charged."""
    threes = list(zip(ledgers, cohorts, lasts, strict=True))
    each = {(id(ledger), id(asked), last): (ledger, asked[:last]) for ledger, asked, last in threes}
    made = {key: ledger.charge_rounds(asked[rounds]) for key, (ledger, asked) in each.items()}
    return [made[id(ledger), id(asked), last] for ledger, asked, last in threes]


def _start(states: ServerState, memory: Memory, clients: int) -> Checkpoint:
    theta = np.asarray(states.theta)
    used, none = np.zeros((len(theta), clients), np.int64), np.empty((len(theta), 0))
    where, kept = _kept(memory)
    return Checkpoint(0, theta, used, np.empty(0, np.int64), none, none, kept, _leaves(states.memory), where)


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
        stop, whole(states.theta), np.stack([ledger.used for ledger in ledgers]),
        np.append(done.rounds, stop), np.column_stack([done.loss, whole(score.loss).astype(np.float64)]),
        np.column_stack([done.accuracy, whole(score.accuracy).astype(np.float64)]), kept,
        _leaves(states.memory), where,
    )  # fmt: skip


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
    return tuple(whole(leaf) for leaf in jax.tree.leaves(memory))


def _stack(algorithms: Sequence[Algorithm]) -> Algorithm:
    return jax.device_put(jax.tree.map(lambda *leaves: np.array(leaves), *aligned(algorithms)))


def _streamed(
    stacked: Algorithm, flat: FlatRecords, keys: Array, lasts: list[int], single_uploads: bool
) -> Rounds:
    """Trainings whose records come to the device window by window; memories are written where they lie."""
    return lambda bounds, states, memory: (
        advance(stacked, states, memory, flat, keys, bounds, lasts, single_uploads),
        memory,
    )


@jax.jit
def _keys(seeds: Array) -> Array:
    return jax.vmap(jax.random.key)(seeds)


@eqx.filter_jit
def _initial(
    stacked: Algorithm, keys: Array, start: NDArray[np.float32] | None, clients: int
) -> tuple[ServerState, Memory]:
    """Every training's public start, and what each of its clients remembers then."""

    def started(algorithm: Algorithm, key: Array) -> tuple[ServerState, Memory]:
        theta = start_of(algorithm.task, key) if start is None else jnp.asarray(start)
        one = algorithm.init_client(theta)
        kept = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (clients, *leaf.shape)), one)
        return algorithm.init(theta), kept

    return jax.vmap(started)(stacked, keys)


@eqx.filter_jit
def _models(stacked: Algorithm, states: ServerState) -> Array:
    """What every training delivers as it stands, shape (S, p)."""
    return jax.vmap(lambda algorithm, state: algorithm.model(state))(stacked, states)


@eqx.filter_jit
def _score(task: Task, theta: Array, x: Array, y: Array) -> Score:
    if isinstance(task, LinearModel):
        return jax.vmap(task.score, in_axes=(0, None, None))(theta, x, y)
    return lax.map(lambda one: task.score(one, x, y), theta)
