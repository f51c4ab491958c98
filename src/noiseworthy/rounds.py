"""One round, as it reads: select, charge, update, privatize, aggregate. The file to read first."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from noiseworthy._jax import Array, jnp
from noiseworthy._keys import Purpose, named_key
from noiseworthy.methods.algorithm import Algorithm, ServerState, Shard
from noiseworthy.methods.local import Memory
from noiseworthy.privacy.ledger import Ledger


def client_step(
    algorithm: Algorithm, state: ServerState, client: Array, memory: Memory, shard: Shard, key: Array
) -> tuple[Array, Memory]:
    """What runs at a client: the raw update never leaves, only its noised form does; the memory stays."""
    update, memory = algorithm.local_update(state, client, memory, shard, key)
    noise_key = named_key(key, Purpose.NOISE, state.round, client)
    return algorithm.privatize(state, update, client, noise_key), memory


def run_round(
    algorithm: Algorithm,
    state: ServerState,
    memories: dict[int, Memory],
    ledger: Ledger,
    shard_of: Callable[[int], Shard],
    key: Array,
) -> tuple[ServerState, dict[int, Memory], Ledger]:
    """One round of training; the ledger is charged before anything is sent.

    Args:
        algorithm: the planned algorithm.
        state: server state before the round.
        memories: what each client kept from earlier rounds.
        ledger: refuses a client past its planned count.
        shard_of: the records of a client.
        key: root key of the run.

    Returns:
        The state, the memories and the ledger after the round.

    Raises:
        BudgetExceeded: a client has no upload left; nothing was charged or sent.
    """
    cohort = np.asarray(algorithm.select(state))
    ledger = ledger.charge(cohort)
    uploads, kept = [], dict(memories)
    for client in map(int, cohort):
        upload, kept[client] = client_step(
            algorithm, state, jnp.int32(client), memories[client], shard_of(client), key
        )
        uploads.append(upload)
    total = algorithm.combine(state, jnp.asarray(cohort), jnp.stack(uploads))
    return algorithm.aggregate(state, total), kept, ledger
