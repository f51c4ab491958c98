"""Steering: step sizes that follow what noised uploads say of the model's own size, at no cost in privacy.

A plan's step size comes from public data. Where private data are easier or harder, the model ends too small
or too large: too little is learned, or noise is. At theta_t, the noised aggregate a_t says which, without
bias, because its noise was drawn after theta_t was:

    r_t = <a_t, theta_t - theta_0>,    E[r_t | theta_t] = d/ds L(theta_0 + s (theta_t - theta_0)) at s = 1,

the slope of the loss along the way from the start: below 0 the model should have gone further, above 0 less
far. The noise of r_t has the known variance v_t = |theta_t - theta_0|^2 sum_i w_i^2 sigma_i^2. Both are
smoothed, R_t = b R_{t-1} + (1 - b) r_t and V_t = b^2 V_{t-1} + (1 - b)^2 v_t, and the model and all further
steps are scaled by

    f_t = exp(-4 k (t/T) (1 - t/T) u_t),    u_t = R'_t / sqrt(V_t + floor^2), within [-2, 2],

whose product stays within [1/4, 4]. Early models are mostly noise and late mistakes stay, so that the middle
of the training counts most. R' is the part of R beyond 0.6 floor on either side of 0: a model that fits its
own records a little better the larger it grows no longer learns of others, and slopes of unlike owners come
and go. The last model is scaled once more, so that one that has gone too far is not delivered as it is: by
exp(-q u) with u as above, of the mean of r_t over all t >= T/3 and the variance of its noise.

Everything that it reads has been noised and paid for: steering is post-processing.

Source: the slope along the model is the derivative by the logarithm of all step sizes together, as in Baydin
et al., "Online learning rate adaptation with hypergradient descent" (2018); docs/trials.md#steering.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, Self

import numpy as np

from noiseworthy._jax import Array, jnp
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.algorithm import Algorithm, ServerState
from noiseworthy.methods.around import Around, own_state
from noiseworthy.methods.fedsgd_dpc.algorithm import FedSGDDPC
from noiseworthy.methods.local import Memory, Numbers
from noiseworthy.methods.making import as_float
from noiseworthy.plans.plan import Plan, Steering

SMOOTHING = 0.7
"""b: how much of the slopes before a round still counts in it."""
_MOST = 2.0
"""Largest u: one odd round moves the scale by no more than exp(2 k)."""
MOST_SCALE = 4.0
"""Times the planned steps, or their part: what runs further away has lost what it learned."""
_LITTLE = 0.6
"""Share of the floor up to which a slope is left out."""
_PARTS = 3
"""The slopes of the first of so many parts of the rounds say little of the last model."""
_NONE = Steering(gain=0.0, floor=1.0)


class Course(NamedTuple):
    """What the server of a steered training keeps.

    Attributes:
        own: the algorithm's memory.
        start: theta_0, shape (p,).
        scale: factor of the planned steps, the product of all f.
        slope: R.
        variance: V.
        told: sums of 1, r_t and the variance of its noise over t >= T/3, shape (3,).
    """

    own: Memory
    start: Array
    scale: Array
    slope: Array
    variance: Array
    told: Array


class Steered(Around):
    """An algorithm whose model and steps are scaled as its aggregates say; all else is the algorithm's.

    Attributes:
        algorithm: what trains, whose aggregate is a noised gradient.
        gain: k, at least 0; with 0 nothing is steered.
        floor: loss below which a slope says little, above 0.
        closing: q, at least 0; with 0 the last model stays as it is.
        rounds: T.
        variances: of a coordinate of each client's weighted upload, shape (N,).
    """

    algorithm: Algorithm
    gain: Numbers
    floor: Numbers
    closing: Numbers
    rounds: Numbers
    variances: Numbers

    def with_noise(self, factor: float) -> Self:
        """Around the algorithm with so many times its noise."""
        variances = as_float(factor**2 * np.asarray(self.variances, np.float64))
        return replace(self, algorithm=self.algorithm.with_noise(factor), variances=variances)

    def noiseless(self) -> Self:
        """Around the algorithm without noise."""
        variances = np.zeros_like(self.variances)
        return replace(self, algorithm=self.algorithm.noiseless(), variances=variances)

    def init(self, theta: Array) -> ServerState:
        """The algorithm's start, with the planned steps and no slope yet."""
        start, nothing = self.algorithm.init(theta), jnp.zeros(())
        memory = Course(start.memory, theta, jnp.ones(()), nothing, nothing, jnp.zeros(3))
        return start._replace(memory=memory)

    def aggregate(self, state: ServerState, total: Array) -> ServerState:
        """The algorithm's step from the scaled model, scaled as well."""
        before: Course = state.memory
        moved = state.theta - before.start
        heard = self._heard(state, total, moved)
        scale = jnp.clip(before.scale * jnp.exp(-self._fall(state.round, heard)), 1 / MOST_SCALE, MOST_SCALE)
        after = self.algorithm.aggregate(own_state(state), total)
        theta = before.start + scale / before.scale * moved + scale * (after.theta - state.theta)
        return ServerState(theta, after.round, heard._replace(own=after.memory, scale=scale))

    def _heard(self, state: ServerState, total: Array, moved: Array) -> Course:
        """What is kept, with the slope that this round's aggregate tells."""
        # of the model that was sent: the next one holds this round's noise, and its product with itself would
        # bias r_t
        kept, one = state.memory, jnp.sum(total * moved)
        noise = jnp.sum(jnp.asarray(self.variances)[self.select(state)]) * jnp.sum(moved**2)
        late = state.round.astype(jnp.float32) * _PARTS >= self.rounds
        return kept._replace(
            slope=SMOOTHING * kept.slope + (1 - SMOOTHING) * one,
            variance=SMOOTHING**2 * kept.variance + (1 - SMOOTHING) ** 2 * noise,
            told=kept.told + jnp.where(late, jnp.stack([1.0, one, noise]), 0.0),
        )

    def _fall(self, number: Array, heard: Course) -> Numbers:
        """By how much the logarithm of the scale falls after a round, and once more after the last one."""
        t, counted = number.astype(jnp.float32), jnp.maximum(1.0, heard.told[0])
        gain = 4 * self.gain * (t / self.rounds) * (1 - t / self.rounds)
        last = self._away(heard.told[1] / counted, heard.told[2] / counted**2)
        closing = jnp.where(t + 1 == self.rounds, self.closing * last, 0.0)
        return gain * self._away(heard.slope, heard.variance) + closing

    def _away(self, slope: Array, variance: Array) -> Array:
        """u, how far a slope is from 0."""
        telling = slope - jnp.clip(slope, -_LITTLE * self.floor, _LITTLE * self.floor)
        return jnp.clip(telling / jnp.sqrt(variance + self.floor**2), -_MOST, _MOST)


def steered(algorithm: Algorithm, plan: Plan) -> Steered:
    """An algorithm steered as its plan says; with a gain of 0 where it says nothing.

    Args:
        algorithm: of the plan, with one noised gradient per reply.
        plan: what steering there is, and how long.

    Raises:
        InvalidInput: an algorithm whose replies are no gradients.
    """
    if not isinstance(algorithm, FedSGDDPC):
        raise InvalidInput(f"{plan.algorithm} cannot be steered: its replies are no gradients; leave it out")
    said = plan.steering or _NONE
    deviations = np.asarray(algorithm.weights, np.float64) * np.asarray(algorithm.noise)
    gain, floor, closing, rounds = map(as_float, (said.gain, said.floor, said.closing, plan.rounds))
    return Steered(algorithm, gain, floor, closing, rounds, as_float(plan.variance_factor * deviations**2))
