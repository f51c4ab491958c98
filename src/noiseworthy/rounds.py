"""One round, as it reads: select, charge, update, privatize, aggregate. The file to read first."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax import Array

from noiseworthy._keys import Purpose, named_key
from noiseworthy.algorithms.base import Algorithm, ServerState
from noiseworthy.privacy.ledger import Ledger
from noiseworthy.tasks.base import Batch


def client_step(algorithm: Algorithm, state: ServerState, client: Array, shard: Batch, key: Array) -> Array:
    """What runs at a client: the raw update never leaves, only its noised form does."""
    update = algorithm.local_update(state, client, shard, key)
    return algorithm.privatize(update, client, named_key(key, Purpose.NOISE, state.round, client))


def run_round(
    algorithm: Algorithm, state: ServerState, ledger: Ledger, shard_of: Callable[[int], Batch], key: Array
) -> tuple[ServerState, Ledger]:
    """One round of training; the ledger is charged before anything is sent.

    Args:
        algorithm: the planned algorithm.
        state: server state before the round.
        ledger: refuses a client past its planned count.
        shard_of: the records of a client.
        key: root key of the run.

    Returns:
        The state and the ledger after the round.

    Raises:
        BudgetExceeded: a client has no upload left; nothing was charged or sent.
    """
    cohort = np.asarray(algorithm.select(state))
    ledger = ledger.charge(cohort)
    total = jnp.zeros_like(state.theta)
    for client in cohort:
        upload = client_step(algorithm, state, client, shard_of(int(client)), key)
        total = total + algorithm.weight(client) * upload
    return algorithm.aggregate(state, total), ledger
