"""PrivateFL: every client scales and shifts its records for itself, and all train one model behind that.

Yang et al., "PrivateFL: accurate, differentially private federated learning via personalized data
transformation" (2023); docs/theory/baselines.md#privatefl. Client n keeps a transform phi_n = (gamma, beta)
of its records, x -> gamma x + beta, which never leaves it. Both parts come from one gradient, each record's
clipped as a whole:

    [g_phi, g_theta] = (1/D_n) sum_records clip([grad_phi, grad_theta])
    phi_n    <- phi_n - eta_phi (g_phi + w_phi)                 stays at the client
    upload_n  = g_theta + w_theta                               of the same noise in every coordinate
    v        <- m v + (1/K) sum_{n in S_t} upload_n + ridge theta,    theta <- theta - eta_t v

**Why this is private.** For given phi_n and theta a record moves [g_phi, g_theta] by at most 2 C / D_n, in
the norm of the clip, because one clip bounds all of it. With noise on all q + p coordinates, (g_phi + w_phi,
upload_n) is one Gaussian (or Laplace) release of that sensitivity. The next phi_n is computed from such
releases alone, and so is the next theta: post-processing. Round t is then a mechanism that earlier releases
chose, and T_n of them compose as the plan's noise was calibrated for. Whoever sees uploads sees less.

Were w_phi left out, phi_n would be a function of every record, and a replaced record would move the clipped
gradient of *each* record at the next reply: the mean by up to 2 C, and not 2 C / D_n. Were the two parts
clipped apart, their pair would move by up to sqrt(2) times what the noise pays for, twice in the L1 norm.

The test of the server uses records as they are, the identity transform: it has no client's own.
"""

import equinox as eqx

from noiseworthy._jax import Array, jnp
from noiseworthy._keys import Purpose, named_key
from noiseworthy.methods.algorithm import ServerState
from noiseworthy.methods.fedsgd_dpc.algorithm import FedSGDDPC, exact_replies
from noiseworthy.methods.local import Numbers
from noiseworthy.methods.making import as_float
from noiseworthy.methods.rivals.planner import check_fits
from noiseworthy.plans.plan import Plan
from noiseworthy.privacy.noise import simulated_noise
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.batch import Batch
from noiseworthy.tasks.personal import Personal, personalised


class PrivateFL(FedSGDDPC):
    """The numbers of one planned training; a pytree, so trainings can be stacked and mapped.

    Attributes:
        personal: the model behind a transform of its records (static).
        personal_step: eta_phi, at least 0.
    """

    remembers_noised = True
    """A client keeps what it has noised."""

    personal: Personal = eqx.field(static=True)
    personal_step: Numbers

    def init_client(self, theta: Array) -> Array:
        """The transform that changes nothing, shape (q,)."""
        return self.personal.identity()

    def seen_at(self, memory: Array, x: Array) -> Array:
        """Behind the client's own transform."""
        return self.personal.transformed(memory, x)

    def local_update(
        self, state: ServerState, client: Array, memory: Array, shard: Batch, key: Array
    ) -> tuple[Array, Array]:
        """The shared part of the clipped mean gradient, and the transform after its own noised part."""
        both = jnp.concatenate([memory, state.theta])
        total = self.personal.clipped_gradient_sum(both, shard, jnp.asarray(self.clip_norm), self.norm)
        own, shared = jnp.split(total / self.divisors[client], [memory.size])
        # A purpose of its own: `privatize` draws the other coordinates of this one release by
        # `Purpose.NOISE`, and all of them must be independent.
        drawn = named_key(key, Purpose.PERSONAL, state.round, client)
        noise = simulated_noise(drawn, self.family, self.noise[client], memory.size)
        return shared, memory - self.personal_step * (own + noise)


def make(plan: Plan, task: Task, seed: int) -> PrivateFL:
    """The algorithm of a plan: its schedule drawn from `seed`, its numbers from the plan alone.

    Args:
        plan: of `privatefl`, with `train` true and step sizes, its `personal_step` that of the transforms.
        task: of the dimension that the plan was made for, of features or images.
        seed: of the public schedule.

    Raises:
        InvalidInput: what `check_fits` refuses; a plan that does not train, without step sizes, or for
            another dimension; a task whose records have no transform.

    Guarantee: the schedule asks client n exactly `plan.releases[n]` times, in different rounds, and a record
    moves what client n releases to itself and to the server in a round by at most 2 C / D_n.
    """
    check_fits("privatefl", plan.problem)
    personal, step = personalised(task), as_float(plan.personal_step)
    return exact_replies(PrivateFL, plan, task, seed, personal=personal, personal_step=step)
