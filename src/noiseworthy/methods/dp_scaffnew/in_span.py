"""The local steps of DP-ScaffNew in the span of the records, where the simulation finds that cheaper."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from jax.random import fold_in

from noiseworthy._jax import Array, jnp
from noiseworthy.methods.dp_scaffnew.local import Control, LocalSteps
from noiseworthy.methods.local import Numbers, clip_whole
from noiseworthy.methods.span import Direction, Spanned, Walk

if TYPE_CHECKING:
    from noiseworthy.tasks.linear import LinearModel


def moved_in_span(
    work: LocalSteps, theta: Array, memory: Control, held: Spanned, key: Array, count: Numbers
) -> tuple[Array, Control]:
    """`LocalSteps.moved` of a linear model; arguments as there, and the same up to float rounding."""
    lead, step = work.step / work.probability, jnp.asarray(work.step)
    variate = memory.variate + (theta - memory.reached) / lead
    walk = Walk(cast("LinearModel", work.task), held, theta, pull=variate)

    def against(j: Array, slopes: Array) -> Direction:
        return walk.mean(slopes, work.batch_size, fold_in(key, j))

    own, public = walk.moved(walk.run(jnp.asarray(count), lambda _: step, against))
    change = own + public
    update = clip_whole(change - lead * variate, work.clip_norm, work.norm)
    return update, Control(variate, theta + change)
