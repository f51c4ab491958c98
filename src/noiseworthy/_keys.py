"""Keys named by purpose, round and client, so that no draw depends on the order of the work."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from noiseworthy._jax import Array, jax


class Purpose(IntEnum):
    """What a key is for."""

    START = 0
    NOISE = 1
    BATCH = 2
    AGGREGATE = 3
    PILOT = 4
    PERSONAL = 5
    PROJECTION = 6
    FREQUENCIES = 7
    COHORT = 8


def named_key(root: Array, purpose: Purpose, round_index: Array | int = 0, client: Array | int = 0) -> Array:
    """The key of one purpose in one round for one client; different names give independent keys."""
    return jax.random.fold_in(jax.random.fold_in(jax.random.fold_in(root, purpose), round_index), client)


def schedule_generator(seed: int) -> np.random.Generator:
    """The public generator of schedules; never the source of noise."""
    return np.random.default_rng([seed, 0x5C4ED])
