"""Whether local steps of linear models are cheaper in the span of the records, by shapes alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import equinox as eqx
import numpy as np

from noiseworthy._jax import Array, jax
from noiseworthy.engines.shards import Shards
from noiseworthy.methods.algorithm import Algorithm, Shard
from noiseworthy.methods.span import Spanned
from noiseworthy.tasks.batch import Batch
from noiseworthy.tasks.linear import LinearModel

Span = Literal["none", "kept", "asked"]
"""No inner products, those of all clients made before the first round, or a client's when it is asked."""
_WORTHWHILE = 0.7
"""Cost in the span, as a share of that without, from which on it is taken."""
_DRAWN, _SQUARE = 3.0, 0.5
"""Cost of a product with drawn records, which are copied first, and of one of records among themselves."""


def span_of(algorithms: Sequence[Algorithm], shards: Shards) -> Span:
    """What is cheapest for trainings of one shape: from records, features, outputs, steps and rounds.

    Args:
        algorithms: on the host; their local steps count by their mean.
        shards: the federation on the device.
    """
    task, steps = algorithms[0].task, [one.steps_in_span for one in algorithms]
    if not isinstance(task, LinearModel) or not isinstance(shards.train, Batch) or None in steps:
        return "none"
    n, k = shards.train.x.shape[1], task.outputs
    d, drawn = task.dimension // k, steps[0].records if steps[0] else None
    count = float(np.mean([one.steps for one in steps if one]))
    rounds, cohort = algorithms[0].cohorts.shape
    once = min(1.0, shards.clients / (rounds * cohort))  # products made once, shared by all that use them
    direct = count * 2 * d * k * (n if drawn is None else _DRAWN * drawn)
    spanned = once * _SQUARE * n * n * d + 2 * n * d * k + count * n * n * k
    if spanned > _WORTHWHILE * direct:
        return "none"
    return "kept" if once < 1 and n <= d else "asked"


def with_products(shards: Shards, task: LinearModel) -> Shards:
    """Every client's records with their inner products, in groups too."""

    def held(train: Shard) -> Spanned:
        return Spanned(train.x, train.y, train.mask, _products(task, train))

    groups = tuple(group._replace(train=held(group.train)) for group in shards.groups)
    return shards._replace(train=held(shards.train), groups=groups)


@eqx.filter_jit
def _products(task: LinearModel, train: Batch) -> Array:
    return jax.lax.map(lambda one: Spanned.of(task, one).products, train)
