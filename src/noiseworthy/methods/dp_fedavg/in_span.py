"""The local steps of DP-FedAvg in the span of the records, where the simulation finds that cheaper."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from jax.random import fold_in

from noiseworthy._jax import Array, jnp, lax
from noiseworthy.methods.dp_fedavg.local import LocalSteps
from noiseworthy.methods.local import Numbers, clip_whole
from noiseworthy.methods.span import Direction, Spanned, Walk

if TYPE_CHECKING:
    from noiseworthy.tasks.linear import LinearModel


def moved_in_span(
    work: LocalSteps,
    theta: Array,
    held: Spanned,
    size: Array,
    key: Array,
    count: Numbers,
    eta: Callable[[Array], Array],
) -> Array:
    """`LocalSteps.moved` of a linear model; arguments as there, and the same up to float rounding.

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
