"""The debug engine: the rounds exactly as `rounds.py` writes them, in a plain loop, nothing compiled."""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from noiseworthy._jax import jax, jnp
from noiseworthy.engines.records import Trajectory
from noiseworthy.engines.shards import Shards
from noiseworthy.methods.algorithm import Algorithm, start_of
from noiseworthy.privacy.ledger import Ledger
from noiseworthy.rounds import run_round


def debug(
    algorithm: Algorithm, planned: NDArray[np.int64], shards: Shards, evaluate_at: NDArray[np.int64],
    seed: int,
) -> Trajectory:  # fmt: skip
    """One training, round by round and client by client; arguments as in `simulation.simulate`.

    Gives the same numbers as the simulation engine with `single_uploads=True`, up to float rounding.
    """
    algorithm, key = jax.tree.map(jnp.asarray, algorithm), jax.random.key(seed)
    state, ledger = algorithm.init(start_of(algorithm.task, key)), Ledger.open(planned)
    memories = {client: algorithm.init_client(state.theta) for client in range(shards.clients)}
    shard_of = partial(shards.of, everybody=algorithm.cohorts.shape[1] == shards.clients)
    scores = []
    with jax.disable_jit():
        for t in range(int(evaluate_at[-1]) + 1):
            if t in evaluate_at:
                scores.append(algorithm.task.score(algorithm.model(state), shards.test_x, shards.test_y))
            if t < evaluate_at[-1]:
                state, memories, ledger = run_round(algorithm, state, memories, ledger, shard_of, key)
    loss, accuracy = np.array(scores, dtype=np.float64).T
    theta = np.asarray(algorithm.model(state))
    return Trajectory(evaluate_at, loss[None], accuracy[None], theta[None], ledger.used[None])
