"""MR-MTL: every owner trains a model of its own, which a ridge draws towards the mean of all.

Liu, Hu, Wu & Smith, "On privacy and personalization in cross-silo federated learning" (2022), equation 2 and
Algorithm 1; docs/theory/baselines.md#mr-mtl. With g_hat_m the mean gradient at the owner's model, each
record's clipped at C, plus noise:

    upload_m  = g_hat_m(theta_m)
    theta_m  <- theta_m - eta_t (g_hat_m + ridge theta_m) - kappa_t (theta_m - theta)
    theta    <- theta - eta_t (sum_m a_m g_hat_m + ridge theta),    kappa_t = min(1, eta_t lambda)

Everybody replies in every round, so that theta is the mean sum_m a_m theta_m of the owners' models, whatever
lambda: the pulls cancel in it. With lambda = 0 everybody trains alone, under noise of its own; with kappa = 1
every gradient is taken one own step beyond the mean.

**Why this is private.** A record moves one gradient by at most 2C/n, at any model. theta_m is computed from
noised gradients and from what the server sent, so that round t is a mechanism that earlier releases chose,
and T of them compose as the noise was calibrated for: whoever saw all models of an owner would see no more
than its uploads. Where noise is shared in sums, an owner's own share does not cover its model, and a gradient
at that model is no longer one of them: refused.
"""

from dataclasses import fields

import equinox as eqx

from noiseworthy._jax import Array, jnp
from noiseworthy._keys import Purpose, named_key
from noiseworthy.methods.algorithm import ServerState
from noiseworthy.methods.fedsgd_dpc.algorithm import FedSGDDPC
from noiseworthy.methods.fedsgd_dpc.algorithm import make as make_fedsgd
from noiseworthy.methods.local import Numbers
from noiseworthy.methods.making import as_float
from noiseworthy.methods.mr_mtl.wire import moved, share
from noiseworthy.plans.plan import Plan
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.batch import Batch


class MrMtl(FedSGDDPC):
    """The numbers of one planned training; a pytree, so trainings can be stacked and mapped.

    Attributes:
        pull: lambda, at least 0.
    """

    pull: Numbers = eqx.field(kw_only=True)

    moves_locally = True
    """A reply is a gradient at the owner's own model."""
    remembers_noised = True
    """An owner keeps what it has noised."""

    def init_client(self, theta: Array) -> Array:
        """The common start."""
        return theta

    def owned(self, memory: Array, theta: Array) -> Array:
        """The owner's model."""
        return memory

    def local_update(
        self, state: ServerState, client: Array, memory: Array, shard: Batch, key: Array
    ) -> tuple[Array, Array]:
        """The noised mean gradient at the owner's model, and this model moved by it and towards the mean."""
        gradient, _ = super().local_update(state._replace(theta=memory), client, (), shard, key)
        # Noised here and not in `privatize`: the model must move by the very draw that is uploaded, because a
        # second one would be a second release of the same gradient.
        drawn = named_key(key, Purpose.NOISE, state.round, client)
        noised = super().privatize(state, gradient, client, drawn)
        step = self.steps[state.round]
        return noised, moved(memory, noised, state.theta, step, self.task.ridge, share(step, self.pull))

    def privatize(self, state: ServerState, update: Array, client: Array, key: Array) -> Array:
        """The update as it is: the owner's model moved by the noise that it carries."""
        return update

    def aggregate_noise(self, state: ServerState, cohort: Array, key: Array) -> Array:
        """Nothing more: owners compute on with their noise, so that no sum replaces it."""
        return jnp.zeros_like(state.theta)


def make(plan: Plan, task: Task, seed: int) -> MrMtl:
    """The algorithm of a plan: its numbers from the plan alone; everybody is asked in every round.

    Args:
        plan: of `mr-mtl`, with `train` true and step sizes.
        task: of the dimension that the plan was made for.
        seed: of the public schedule, an order of everybody.

    Raises:
        InvalidInput: a plan that does not train, without step sizes, or for another dimension.

    Guarantee: no owner uploads more often than `plan.releases` says, and a record moves the gradient that is
    noised by at most the sensitivity that the plan's noise was calibrated for, at any model.
    """
    inner = make_fedsgd(plan, task, seed)
    known = {field.name: getattr(inner, field.name) for field in fields(inner)}
    return MrMtl(**known, pull=as_float(plan.pull))
