"""Whom to ask when: schedules with exact counts, drawn in public before training."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy import _validate as check
from noiseworthy.errors import InvalidInput


def cohort(value: Any, clients: int, name: str = "clients_per_round") -> int:
    """How many of so many clients a round asks."""
    return check.count(name, value, most=clients, remedy=f"the federation has {clients} clients")


@lru_cache(maxsize=64)  # settings of few lengths and seeds are tried on many proxies
def schedule(clients: int, clients_per_round: int, rounds: int, seed: int) -> NDArray[np.int32]:
    """The `reshuffled_round_robin` of a seed, drawn in public; not to be written to."""
    from noiseworthy._keys import schedule_generator  # here, because planning needs no jax

    drawn = reshuffled_round_robin(clients, clients_per_round, rounds, schedule_generator(seed))
    drawn.flags.writeable = False
    return drawn


def reshuffled_round_robin(
    clients: int, clients_per_round: int, rounds: int, generator: np.random.Generator
) -> NDArray[np.int32]:
    """Cohorts of b distinct clients per round; every pass over all clients is freshly shuffled.

    Passes are laid end to end and cut into blocks of b. Where a block reaches into the next pass, that
    pass starts with clients that the block does not hold yet.

    Args:
        clients: N.
        clients_per_round: b, between 1 and N.
        rounds: T.
        generator: source of the public shuffles.

    Returns:
        shape (T, b).

    Guarantee: after any number t of rounds each client has been asked floor(bt/N) or ceil(bt/N) times,
    so no client exceeds the ceil(bT/N) uploads that its noise pays for. Conditionally on the past the
    cohort is not uniform, which the bound of Zhou et al. assumes (docs/theory/accounting.md#round-robin).

    Example:
        >>> cohorts = reshuffled_round_robin(5, 2, 10, np.random.default_rng(0))
        >>> np.bincount(cohorts.ravel())
        array([4, 4, 4, 4, 4])
    """
    check.count("clients_per_round", clients_per_round, most=clients)
    queue = np.empty(0, np.int32)
    cohorts = np.empty((rounds, clients_per_round), np.int32)
    for t in range(rounds):
        if len(queue) < clients_per_round:
            queue = np.concatenate([queue, _next_pass(queue, clients, clients_per_round, generator)])
        cohorts[t], queue = queue[:clients_per_round], queue[clients_per_round:]
    return cohorts


def _next_pass(
    left: NDArray[np.int32], clients: int, clients_per_round: int, generator: np.random.Generator
) -> NDArray[np.int32]:
    """A shuffle of all clients whose first entries complete the block without repeating `left`."""
    order = generator.permutation(clients).astype(np.int32)
    if len(left) == 0:
        return order
    fresh = order[~np.isin(order, left)][: clients_per_round - len(left)]
    return np.concatenate([fresh, order[~np.isin(order, fresh)]])


def exact_counts(
    counts: ArrayLike, clients_per_round: int, rounds: int, generator: np.random.Generator
) -> NDArray[np.int32]:
    """Cohorts of K distinct clients per round in which client n is asked exactly T_n times.

    The T_n repetitions of the shuffled clients are laid end to end, and position j goes to round j mod T:
    at most T repetitions in a row never meet in a round (McNaughton's wrap-around). Rounds are shuffled.

    Args:
        counts: T_n, whole numbers between 0 and T with sum K T, shape (N,).
        clients_per_round: K, between 1 and N.
        rounds: T.
        generator: source of the public shuffles.

    Returns:
        shape (T, K).

    Raises:
        InvalidInput: K outside 1..N, counts above T, or counts with another sum than K T.

    Guarantee: `np.bincount(cohorts.ravel(), minlength=N) == counts`, so that no client exceeds the uploads
    that its noise pays for, and none comes twice in a round. Such a schedule exists just where T_n <= T.

    Example:
        >>> cohorts = exact_counts([4, 0, 3, 1], 2, 4, np.random.default_rng(0))
        >>> np.bincount(cohorts.ravel())
        array([4, 0, 3, 1])
        >>> [sorted(cohort) for cohort in cohorts.tolist()]
        [[0, 3], [0, 2], [0, 2], [0, 2]]

    Source: docs/theory/ma.md#planner; McNaughton 1959, which replaces the random selection of Ma et al.,
        Algorithm 1.
    """
    asked = checked_counts(counts, clients_per_round, rounds)
    order = generator.permutation(len(asked)).astype(np.int32)
    laid = np.repeat(order, asked[order])
    return generator.permutation(laid.reshape(clients_per_round, rounds).T)


def checked_counts(counts: ArrayLike, clients_per_round: int, rounds: int) -> NDArray[np.int64]:
    """Counts T_n that K distinct clients per round can have over T rounds, as integers.

    Raises:
        InvalidInput: K outside 1..N, no rounds, counts not whole, above T, or of another sum than K T.

    Example:
        >>> checked_counts([4, 0, 3, 1], 2, 4)
        array([4, 0, 3, 1])
    """
    t = check.count("rounds", rounds)
    asked = check.counts("counts", counts, least=0)
    k = check.count("clients_per_round", clients_per_round, most=len(asked))
    if asked.max() > t:
        often = int(asked.argmax())
        raise InvalidInput(
            f"counts must be at most rounds = {t}, got {asked[often]} for client {often}; "
            "no client is asked twice in a round"
        )
    if asked.sum() != k * t:
        raise InvalidInput(
            f"counts must sum to clients_per_round * rounds = {k * t}, got {asked.sum()}; "
            f"{k} clients are asked in each of {t} rounds"
        )
    return asked
