"""The round that buys constants: every client releases one noised gradient at the public start."""

import numpy as np
from numpy.typing import NDArray

from noiseworthy._jax import jax, jnp
from noiseworthy._keys import Purpose, named_key
from noiseworthy.data import Federation
from noiseworthy.engines.shards import Shards
from noiseworthy.methods.algorithm import start_of
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.noise import simulated_noise
from noiseworthy.privacy.releases import Release
from noiseworthy.tasks.base import Task


def pilot_gradients(
    federation: Federation, task: Task, problem: Problem, pilot: Release, seed: int
) -> NDArray[np.float64]:
    """One noised mean gradient of each client at the public start, in simulation.

    Args:
        federation: the clients' records.
        task: model and loss.
        problem: with the clip that `pilot` was calibrated for.
        pilot: what one such upload is; its charge is the caller's.
        seed: of start and noise.

    Returns:
        shape (N, p).
    """
    shards, key = Shards.load(federation, task), jax.random.key(seed)
    theta = start_of(task, key)
    uploads, clip = [], jnp.float32(problem.clip_norm)
    for client, (size, noise) in enumerate(zip(problem.sizes, pilot.mechanism.size, strict=True)):
        # divided by the public size, as the sensitivity is, and by no count of the records at hand
        total = task.clipped_gradient_sum(theta, shards.of(client), clip, problem.norm)
        drawn = named_key(key, Purpose.PILOT, 0, client)
        uploads.append(total / float(size) + simulated_noise(drawn, problem.family, noise, task.dimension))
    return np.asarray(uploads, np.float64)
