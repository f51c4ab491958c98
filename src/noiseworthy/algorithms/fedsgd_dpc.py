"""FedSGD-DPC: one full-batch gradient per reply, clipped per record and noised by the client.

Zhou et al., "The optimal numbers of queries and replies in federated learning with differential
privacy", Algorithm 1; theory 1.2. Two departures from the paper, both needed for its claims: a client
replies at most ceil(bT/N) times and its noise pays for just that many, and updates are aggregated, not
parameters, so that unequal sizes do not rescale the model (theory 0.7).

    upload_i  = (1/d_i) sum_records clip(grad) + w_i
    theta    <- theta - eta_t ( (N/b) sum_{i in P_t} (d_i/d) upload_i + ridge theta )
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from noiseworthy._keys import Purpose, named_key, schedule_generator
from noiseworthy.algorithms.base import Numbers, ServerState
from noiseworthy.algorithms.selection import reshuffled_round_robin
from noiseworthy.errors import InvalidInput
from noiseworthy.planning.plan import Plan
from noiseworthy.privacy.mechanisms import Family
from noiseworthy.privacy.noise import simulated_noise
from noiseworthy.privacy.sensitivity import Norm
from noiseworthy.tasks.base import Batch, Task


class FedSGDDPC(eqx.Module):
    """The numbers of one planned training; a pytree, so trainings can be stacked and mapped.

    Attributes:
        task: model and loss (static).
        family: kind of noise (static).
        norm: norm of the clip (static).
        sampled: whether batches are Poisson (static).
        clip_norm: per-record clip.
        noise: noise size of one upload, shape (N,).
        weights: (N/b) d_i/d, shape (N,).
        divisors: q d_i, the fixed public divisor, shape (N,).
        sampling_rate: q.
        steps: eta_t, shape (T,).
        cohorts: whom to ask, shape (T, b).
    """

    task: Task = eqx.field(static=True)
    family: Family = eqx.field(static=True)
    norm: Norm = eqx.field(static=True)
    sampled: bool = eqx.field(static=True)
    clip_norm: Numbers
    noise: Numbers
    weights: Numbers
    divisors: Numbers
    sampling_rate: Numbers
    steps: Numbers
    cohorts: Numbers

    def init(self, key: Array) -> ServerState:
        """theta_0 from the task, before round 0."""
        return ServerState(self.task.initial(named_key(key, Purpose.START)), jnp.zeros((), jnp.int32))

    def select(self, state: ServerState) -> Array:
        """The cohort of this round in the schedule drawn before training."""
        return self.cohorts[state.round]

    def local_update(self, state: ServerState, client: Array, shard: Batch, key: Array) -> Array:
        """Mean of the client's clipped per-record gradients, over all records or a Poisson batch."""
        if self.sampled:
            chosen = jax.random.bernoulli(
                named_key(key, Purpose.BATCH, state.round, client), self.sampling_rate, shard.mask.shape
            )
            shard = shard._replace(mask=shard.mask * chosen)
        total = self.task.clipped_gradient_sum(state.theta, shard, jnp.asarray(self.clip_norm), self.norm)
        return total / self.divisors[client]

    def privatize(self, update: Array, client: Array, key: Array) -> Array:
        """The update plus the noise that the plan calibrated for this client."""
        return update + simulated_noise(key, self.family, self.noise[client], self.task.dimension)

    def weight(self, client: Array) -> Array:
        """(N/b) d_i/d, which makes the aggregate unbiased over uniform cohorts."""
        return self.weights[client]

    def aggregate(self, state: ServerState, total: Array) -> ServerState:
        """One step against the aggregate and the data-free ridge term."""
        direction = total + self.task.ridge * state.theta
        return ServerState(state.theta - self.steps[state.round] * direction, state.round + 1)

    def aggregate_noise(self, state: ServerState, cohort: Array, key: Array) -> Array:
        """The summed noise of a cohort: one Gaussian draw of the summed variance, or b Laplace draws."""
        sizes = self.weights[cohort] * self.noise[cohort]
        if self.family != "laplace":
            return simulated_noise(key, self.family, jnp.sqrt(jnp.sum(sizes**2)), self.task.dimension)
        draws = jax.random.laplace(key, (len(cohort), self.task.dimension), jnp.float32)
        return sizes @ draws


def make(plan: Plan, task: Task, seed: int, *, horizon: int | None = None) -> FedSGDDPC:
    """The algorithm of a plan: its schedule drawn from `seed`, its numbers from the plan alone.

    Args:
        plan: with `train` true and step sizes.
        task: of the dimension that the plan was made for.
        seed: of the public schedule.
        horizon: rounds to pad arrays to, so that plans with different T share a compiled program.

    Raises:
        InvalidInput: a plan that does not train, without step sizes, or for another dimension.

    Guarantee: the schedule asks no client more often than `plan.releases` says.
    """
    if not plan.train or plan.release is None:
        raise InvalidInput(f"this plan does not train: {plan.outcome}")
    if plan.step is None:
        raise InvalidInput("this plan has no step size; state [algorithm] step_size before training")
    if task.dimension != plan.problem.dimension:
        raise InvalidInput(
            f"the plan was made for {plan.problem.dimension} parameters, the task has {task.dimension}"
        )
    problem, b = plan.problem, plan.clients_per_round
    cohorts = reshuffled_round_robin(problem.n_clients, b, plan.rounds, schedule_generator(seed))
    pad = (horizon or plan.rounds) - plan.rounds
    return FedSGDDPC(
        task=task,
        family=problem.family,
        norm=problem.norm,
        sampled=problem.sampling_rate < 1,
        clip_norm=_float(problem.clip_norm),
        noise=_float(plan.noise),
        weights=_float(problem.n_clients / b * problem.weights),
        divisors=_float(problem.sampling_rate * problem.sizes),
        sampling_rate=_float(problem.sampling_rate),
        steps=_float(np.pad(plan.step.at(np.arange(plan.rounds)), (0, pad))),
        cohorts=np.pad(cohorts, ((0, pad), (0, 0))),
    )


def _float(value: float | NDArray[np.floating]) -> NDArray[np.float32]:
    """Numbers stay on the host until a whole stack of trainings travels to the device at once."""
    return np.asarray(value, np.float32)
