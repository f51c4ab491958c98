"""DP-FedAvg: E local steps and one noised update per reply.

Fu et al., "On the practicality of differential privacy in federated learning by tuning iteration times"
(2021), section III, and Hou et al., "Balancing privacy and performance for private federated learning
algorithms" (2023), Algorithm 1; docs/theory/fu.md#algorithm. Departures that the privacy claim needs: noise
pays for ceil(b T_g / N) uploads of 2 zeta H_t (docs/theory/fu.md#errata), and what is clipped is a choice
with a condition (docs/theory/fu.md#clipping-modes).

    theta_l <- theta_l - eta_k (g_l(theta_l) + ridge theta_l)     E times, from the model that was sent
    Delta_l  = theta_l - theta + w_l
    theta   <- theta + (N/b) sum_{l in P_t} (n_l/n) Delta_l

The ridge reads no record. With eta ridge <= 1 it contracts, so it adds nothing to the sensitivity.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self, cast

import equinox as eqx
import numpy as np
from jax.random import fold_in

from noiseworthy._jax import Array, jax, jnp, lax
from noiseworthy._keys import Purpose, named_key, schedule_generator
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.algorithm import NoisedUploads, ServerState, StepsInSpan
from noiseworthy.methods.conditions import check_condition
from noiseworthy.methods.dp_fedavg.wire import LocalSteps
from noiseworthy.methods.local import Memory, Numbers, clip_whole
from noiseworthy.methods.making import as_float, trainable
from noiseworthy.methods.selection import reshuffled_round_robin
from noiseworthy.methods.span import Direction, Spanned, Walk
from noiseworthy.plans import local_work
from noiseworthy.plans.plan import Plan
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.linear import LinearModel


class DPFedAvg(NoisedUploads, LocalSteps):
    """The numbers of one planned training, whose clip is zeta (C for mode D), its noise per unit of `scale`.

    Attributes:
        scale: H_t, the sum of a round's step sizes, or 1 for mode D; shape (T_g,).
        weights: (N/b) n_l/n, shape (N,).
        sizes: records n_l, shape (N,).
        local_steps: E.
        steps: eta_k, shape (E T_g,).
        secret: whether each client takes part in a round by a coin that nobody sees (static).
        asked_with: probability of that coin.
    """

    schedules: ClassVar[tuple[str, ...]] = ("scale", "steps", "cohorts")
    moves_locally = True
    """Every local step moves the client's own model."""

    scale: Numbers
    weights: Numbers
    sizes: Numbers
    local_steps: Numbers
    steps: Numbers
    secret: bool = eqx.field(static=True, default=False, kw_only=True)
    asked_with: Numbers = eqx.field(default=1.0, kw_only=True)

    def noiseless(self) -> Self:
        """Noise sizes of 0, and everybody takes part."""
        return replace(super().noiseless(), secret=False)

    @property
    def condensed(self) -> bool:
        """Where the batch gradient or the update is clipped, no single record's gradient is needed."""
        return self.clipping in ("C", "D") and self.batch_size is None

    @property
    def steps_in_span(self) -> StepsInSpan | None:
        """E, but where every step is clipped by its L1 norm, which no inner products tell."""
        if self.clipping == "C" and self.norm == "l1":
            return None
        return StepsInSpan(float(self.local_steps), self.batch_size)

    def local_update(
        self, state: ServerState, client: Array, memory: Memory, shard: Any, key: Array
    ) -> tuple[Array, Memory]:
        """Delta_l of this round's local steps; nothing where a secret coin leaves the client out."""
        drawn, first = named_key(key, Purpose.BATCH, state.round, client), state.round * self.local_steps

        def eta(j: Array) -> Array:
            return self.steps[first + j]

        move = partial(moved_in_span, self) if isinstance(shard, Spanned) else self.moved
        moved = move(state.theta, shard, self.sizes[client], drawn, self.local_steps, eta)
        if self.secret:
            coin = jax.random.bernoulli(
                named_key(key, Purpose.COHORT, state.round, client), jnp.asarray(self.asked_with)
            )
            # noise is added either way: an upload without any would show whom the coin left out
            moved = jnp.where(coin, moved, 0.0)
        return moved, memory

    def noise_in(self, state: ServerState, clients: Array) -> Array:
        """Noise sizes of uploads that are sums of the steps of this round."""
        return super().noise_in(state, clients) * self.scale[state.round]

    def weight(self, client: Array) -> Array:
        """(N/b) n_l/n, which makes the aggregate unbiased over uniform cohorts."""
        return jnp.asarray(self.weights)[client]

    def aggregate(self, state: ServerState, total: Array) -> ServerState:
        """The model moved by the weighted updates."""
        return ServerState(state.theta + total, state.round + 1)


def moved_in_span(
    work: LocalSteps, theta: Array, held: Spanned, size: Array, key: Array, count: Numbers,
    eta: Callable[[Array], Array],
) -> Array:  # fmt: skip
    """`LocalSteps.moved` of a linear model in the span of the records, where simulation finds that cheaper.

    Arguments as there, and the same up to float rounding.

    Guarantee: what records moved has norm at most C times the sum of the step sizes in mode C, at most C in
    mode D, float32 rounding included; ridge adds what is public.
    """
    clip_norm = jnp.asarray(work.clip_norm)
    walk = Walk(cast("LinearModel", work.task), held, theta)

    def against(j: Array, slopes: Array) -> Direction:
        if work.clipping not in ("C", "D"):
            return walk.clipped_sum(slopes, clip_norm, work.norm, size.astype(slopes.dtype))
        mean = walk.mean(slopes, work.batch_size, fold_in(key, j))
        return mean.clipped(clip_norm) if work.clipping == "C" else mean

    own, public = walk.moved(walk.run(jnp.asarray(count), eta, against))
    if work.clipping == "C":  # the norm of a step is known up to rounding, the sum of steps is held exactly
        reach = lax.fori_loop(0, count, lambda j, total: total + eta(j), jnp.zeros((), theta.dtype))
        return public + clip_whole(own, clip_norm * reach, work.norm)
    return clip_whole(public + own, clip_norm, work.norm) if work.clipping == "D" else public + own


def make(plan: Plan, task: Task, seed: int) -> DPFedAvg:
    """The algorithm of a plan: its schedule drawn from `seed`, its numbers from the plan alone.

    Args:
        plan: of `dp-fedavg`, with `train` true.
        task: of the dimension that the plan was made for.
        seed: of the public schedule.

    Raises:
        InvalidInput: a plan that does not train, without step sizes or local steps, or for another dimension.
        UnsoundClaim: a clipping mode whose condition the task or the step size does not meet.

    Guarantee: the schedule asks no client more often than `plan.releases` says, and no update exceeds the
    sensitivity that the plan's noise was calibrated for, but for the rounding of a float32 sum of steps.
    """
    step = trainable(plan, task)
    if not isinstance(plan.local, local_work.LocalSteps) or plan.release is None:
        raise InvalidInput("dp-fedavg needs planned local steps; plan them with methods.dp_fedavg.planner")
    problem, b = plan.problem, plan.clients_per_round
    # steps never grow: what is proved for the first holds for all
    check_condition(problem.clipping, task, step.initial, plan.local, problem.budget.relation)
    asked = problem.n_clients if problem.trust.secret else b
    return DPFedAvg(
        task=task, family=problem.family, parts=plan.parts, norm=problem.norm, clipping=problem.clipping,
        batch_size=plan.local.batch_size, clip_norm=as_float(problem.clip_norm),
        noise=as_float(plan.release.mechanism.size), scale=as_float(plan.upload_scale),
        weights=as_float(problem.n_clients / b * plan.weights), sizes=problem.sizes.astype(np.int32),
        local_steps=np.asarray(plan.local.steps, np.int32), steps=as_float(plan.local_step_sizes),
        cohorts=reshuffled_round_robin(problem.n_clients, asked, plan.rounds, schedule_generator(seed)),
        secret=problem.trust.secret, asked_with=as_float(plan.sampling_rate),
    )  # fmt: skip
