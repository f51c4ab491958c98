"""DP-ScaffNew: local steps corrected by control variates, communication when a shared public coin falls.

Hou et al., "Balancing privacy and performance for private federated learning algorithms", Algorithm 2;
docs/theory/hou.md#algorithm. Departures that the privacy claim needs: the coins are shared and drawn before
training, and the noise pays for the realised number of rounds R with sensitivity 2C
(docs/theory/hou.md#errata).

    x_i <- x_i - eta (g_i(x_i) + ridge x_i - h_i)        until the coin falls, from the common model x
    Delta_i = clip_C(x_i - (eta/p) h_i - x) + w_i
    x    <- x + (1/N) sum_i Delta_i
    h_i  <- h_i + (p/eta) (x - x_i)

A round here is what lies between two communications, so that the common model is where all clients begin.
A client updates h_i when it receives x, that is at the start of its next round. Noise moves sum h_i away
from 0; the bound covers that (docs/theory/hou.md#sum-of-variates).
"""

from functools import partial
from typing import Any, ClassVar, cast

import numpy as np
from jax.random import fold_in

from noiseworthy._jax import Array, jnp
from noiseworthy._keys import Purpose, named_key
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.algorithm import NoisedUploads, ServerState, StepsInSpan
from noiseworthy.methods.dp_scaffnew.wire import Control, LocalSteps
from noiseworthy.methods.local import Numbers, clip_whole
from noiseworthy.methods.making import as_float, trainable
from noiseworthy.methods.span import Direction, Spanned, Walk
from noiseworthy.plans.local_work import Coins
from noiseworthy.plans.plan import Plan
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.linear import LinearModel


class DPScaffNew(NoisedUploads, LocalSteps):
    """The numbers of one planned training, in whose R rounds everybody is asked.

    Attributes:
        counts: local steps before each communication, shape (R,).
    """

    schedules: ClassVar[tuple[str, ...]] = ("counts", "cohorts")
    moves_locally = True
    """Every local step moves the client's own model."""

    counts: Numbers

    @property
    def condensed(self) -> bool:
        """Only the update is clipped, so no single record's gradient is needed."""
        return self.batch_size is None

    @property
    def steps_in_span(self) -> StepsInSpan:
        """Local steps of a round on average, rounds of none being padding."""
        counts = np.asarray(self.counts)
        return StepsInSpan(float(counts.sum() / max(1, np.count_nonzero(counts))), self.batch_size)

    def init_client(self, theta: Array) -> Control:
        """h_i = 0, at the common start."""
        return Control.at(theta)

    def local_update(
        self, state: ServerState, client: Array, memory: Control, shard: Any, key: Array
    ) -> tuple[Array, Control]:
        """The clipped update after this round's local steps, and the client's new memory."""
        drawn = named_key(key, Purpose.BATCH, state.round, client)
        move = partial(moved_in_span, self) if isinstance(shard, Spanned) else self.moved
        return move(state.theta, memory, shard, drawn, self.counts[state.round])

    def weight(self, client: Array) -> Array:
        """1/N: the objective is the mean of the clients' losses, whatever their sizes."""
        return jnp.ones(()) / len(self.noise)

    def aggregate(self, state: ServerState, total: Array) -> ServerState:
        """The common model moved by the mean update."""
        return ServerState(state.theta + total, state.round + 1)


def moved_in_span(
    work: LocalSteps, theta: Array, memory: Control, held: Spanned, key: Array, count: Numbers
) -> tuple[Array, Control]:
    """`LocalSteps.moved` of a linear model in the span of the records, where simulation finds that cheaper.

    Arguments as there, and the same up to float rounding.
    """
    lead, step = work.step / work.probability, jnp.asarray(work.step)
    variate = memory.variate + (theta - memory.reached) / lead
    walk = Walk(cast("LinearModel", work.task), held, theta, pull=variate)

    def against(j: Array, slopes: Array) -> Direction:
        return walk.mean(slopes, work.batch_size, fold_in(key, j))

    own, public = walk.moved(walk.run(jnp.asarray(count), lambda _: step, against))
    change = own + public
    update = clip_whole(change - lead * variate, work.clip_norm, work.norm)
    return update, Control(variate, theta + change)


def make(plan: Plan, task: Task, seed: int) -> DPScaffNew:
    """The algorithm of a plan, with the coins that its noise was calibrated for.

    Args:
        plan: of `dp-scaffnew`, with `train` true.
        task: of the dimension that the plan was made for.
        seed: unused, because everybody takes part and the coins belong to the plan.

    Raises:
        InvalidInput: a plan that does not train, without step size or coins, or for another dimension.
    """
    step = trainable(plan, task)
    if not isinstance(plan.local, Coins) or plan.release is None:
        raise InvalidInput("dp-scaffnew needs planned coins; plan them with methods.dp_scaffnew.planner")
    problem, rounds = plan.problem, plan.rounds
    if plan.release.sharing is not None and np.ptp(plan.weights):
        raise InvalidInput("dp-scaffnew takes the mean of all updates, for which this noise is not shared")
    return DPScaffNew(
        task=task, family=problem.family, parts=plan.parts, norm=problem.norm,
        batch_size=plan.local.batch_size, clip_norm=as_float(problem.clip_norm),
        noise=as_float(plan.release.mechanism.size), step=as_float(step.initial),
        probability=as_float(plan.local.probability), counts=plan.local.counts(rounds).astype(np.int32),
        cohorts=np.tile(np.arange(problem.n_clients, dtype=np.int32), (rounds, 1)),
    )  # fmt: skip
