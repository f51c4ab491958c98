"""DP-PASGD: every local step is noised, and models are averaged after every tau of them.

Hu et al., "Differentially private federated learning for resource-constrained internet of things",
section 4.3; docs/theory/hu.md#algorithm. With X_m records in a step, g_m their mean gradient, each record's
clipped at G:

    theta_m <- theta_m - eta (g_m(theta_m) + b_m + ridge theta_m),  b_m ~ N(0, sigma_m^2 I)   tau times
    theta   <- mean over the M devices of theta_m

Because every step is noised, a record's share of a step is 2G/X_m on any model: no convexity is needed, as
it is where local steps are noised once. The noise pays for each step that a record is in, although the
server sees the last model of a round only, so that what is claimed holds against it with a margin.
The ridge reads no record.
"""

from typing import ClassVar

import equinox as eqx
import numpy as np
from jax.random import fold_in

from noiseworthy._jax import Array, jax, jnp, lax
from noiseworthy._keys import Purpose, named_key
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.algorithm import Scheduled, ServerState
from noiseworthy.methods.local import Memory, Numbers
from noiseworthy.methods.making import as_float, trainable
from noiseworthy.plans.local_work import NoisySteps
from noiseworthy.plans.plan import Plan
from noiseworthy.privacy.mechanisms import Family
from noiseworthy.privacy.noise import simulated_noise
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.batch import Batch


class DPPASGD(Scheduled):
    """The numbers of one planned training; a pytree, so trainings can be stacked and mapped.

    Attributes:
        task: model and loss (static).
        family: kind of noise (static).
        batch_size: X, records per step, None for all (static).
        clip_norm: G, per record.
        noise: sigma_m of one step, shape (M,).
        weight_of_each: 1/M.
        divisors: X_m, records in a step, shape (M,).
        batches: disjoint minibatches in a pass, shape (M,).
        local_steps: tau.
        steps: eta_k, shape (K,).
        cohorts: everybody, shape (R, M).
    """

    schedules: ClassVar[tuple[str, ...]] = ("steps", "cohorts")
    condensed = False
    """Clipping reads every record's gradient."""
    moves_locally = True
    """Every local step moves the device's own model."""
    noises: ClassVar[tuple[str, ...]] = ("noise",)

    task: Task = eqx.field(static=True)
    family: Family = eqx.field(static=True)
    batch_size: int | None = eqx.field(static=True)
    clip_norm: Numbers
    noise: Numbers
    weight_of_each: Numbers
    divisors: Numbers
    batches: Numbers
    local_steps: Numbers
    steps: Numbers
    cohorts: Numbers

    def local_update(
        self, state: ServerState, client: Array, memory: Memory, shard: Batch, key: Array
    ) -> tuple[Array, Memory]:
        """theta_m - theta after tau noised steps: it is private already when it is made."""
        noises = named_key(key, Purpose.NOISE, state.round, client)
        first = state.round * self.local_steps
        end = first + self.local_steps

        def step(batch: Batch, k: Array, moved: Array) -> Array:
            theta = state.theta + moved
            total = self.task.clipped_gradient_sum(theta, batch, jnp.asarray(self.clip_norm), "l2")
            noise = simulated_noise(fold_in(noises, k - first), self.family, self.noise[client], theta.size)
            return moved - self.steps[k] * (total / self.divisors[client] + noise + self.task.ridge * theta)

        def whole_pass(number: Array, moved: Array) -> Array:
            """The steps of this round that lie in one pass over the records, which is shuffled once."""
            per_pass, order = self.batches[client], self._order(shard, client, number, key)
            start, stop = number * per_pass, (number + 1) * per_pass
            return lax.fori_loop(
                jnp.maximum(first, start),
                jnp.minimum(end, stop),
                lambda k, moved: step(self._batch(shard, client, order, k - start), k, moved),
                moved,
            )

        still = jnp.zeros_like(state.theta)
        if self.batch_size is None:
            return lax.fori_loop(first, end, lambda k, moved: step(shard, k, moved), still), memory
        # passes run on across rounds: if every round began one, a record could be in more steps than are paid
        # for
        passes = first // self.batches[client], (end - 1) // self.batches[client] + 1
        return lax.fori_loop(*passes, whole_pass, still), memory

    def privatize(self, state: ServerState, update: Array, client: Array, key: Array) -> Array:
        """The update as it is: its noise was added at every step."""
        return update

    def weight(self, client: Array) -> Array:
        """1/M: devices count alike, whatever they hold."""
        return jnp.asarray(self.weight_of_each)

    def aggregate(self, state: ServerState, total: Array) -> ServerState:
        """The mean of the devices' models."""
        return ServerState(state.theta + total, state.round + 1)

    def aggregate_noise(self, state: ServerState, cohort: Array, key: Array) -> Array:
        """Nothing more: devices compute on with the noise of their steps, so that no sum replaces it."""
        return jnp.zeros_like(state.theta)

    def _order(self, shard: Batch, client: Array, number: Array, key: Array) -> Array:
        """The records of a client in the random order of one pass, padding last."""
        drawn = named_key(key, Purpose.BATCH, number, client)
        return jnp.argsort(jnp.where(shard.mask > 0, jax.random.uniform(drawn, shard.mask.shape), jnp.inf))

    def _batch(self, shard: Batch, client: Array, order: Array, place: Array) -> Batch:
        """The minibatch at a place in a pass; in trials few records stand for all, by turns and by weight."""
        within, size = jnp.arange(min(self.batch_size or 0, order.size)), self.divisors[client]
        # never wraps where a client holds its own records: floor(n/X) batches of X end before n, and none
        # comes twice
        chosen = order[(place * jnp.asarray(size, jnp.int32) + within) % shard.size]
        weights = jnp.where(within.astype(size.dtype) < size, jnp.maximum(1.0, size / within.size), 0.0)
        return Batch(shard.x[chosen], shard.y[chosen], weights)


def make(plan: Plan, task: Task, seed: int) -> DPPASGD:
    """The algorithm of a plan: its numbers from the plan alone; nothing about it is drawn.

    Args:
        plan: of `dp-pasgd`, with `train` true.
        task: of the dimension that the plan was made for.
        seed: not needed, because every device takes part in every round.

    Raises:
        InvalidInput: a plan that does not train, without step sizes or noised steps, of another dimension.

    Guarantee: no record takes part in more steps than `plan.releases` says, and each step moves by at most
    the sensitivity that the plan's noise was calibrated for.
    """
    trainable(plan, task)
    if not isinstance(plan.local, NoisySteps):
        raise InvalidInput("dp-pasgd needs planned noised steps; plan them with methods.dp_pasgd.planner")
    problem, clients = plan.problem, plan.problem.n_clients
    return DPPASGD(
        task=task, family=problem.family, batch_size=plan.local.batch_size,
        clip_norm=as_float(problem.clip_norm), noise=as_float(plan.noise),
        weight_of_each=as_float(1 / clients), divisors=as_float(plan.local.records(problem.sizes)),
        batches=plan.local.batches(problem.sizes).astype(np.int32),
        local_steps=np.asarray(plan.local.steps, np.int32), steps=as_float(plan.local_step_sizes),
        cohorts=np.tile(np.arange(clients, dtype=np.int32), (plan.rounds, 1)),
    )  # fmt: skip
