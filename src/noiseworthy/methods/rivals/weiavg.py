"""WeiAvg: replies weigh by their clients' budgets, so that noisy ones count less.

Liu et al., "Projected federated averaging with heterogeneous differential privacy" (2021);
docs/theory/baselines.md#weiavg. Clients are asked alike and reply as in DPSGD or DMLDP. The weights are those
of one round's cohort:

    v <- m v + sum_{n in S_t} (epsilon_n / sum_{j in S_t} epsilon_j) upload_n + ridge theta
    theta <- theta - eta_t v

Budgets are public facts of the plan, whatever noise it has, and weighing is post-processing. Where all
budgets are equal this is DPSGD, or DMLDP.
"""

from __future__ import annotations

from noiseworthy._jax import Array, jnp
from noiseworthy.methods.algorithm import ServerState
from noiseworthy.methods.fedsgd_dpc.algorithm import FedSGDDPC
from noiseworthy.methods.replies import exact_replies
from noiseworthy.methods.rivals.planner import check_fits
from noiseworthy.plans.plan import Plan
from noiseworthy.tasks.base import Task


class WeiAvg(FedSGDDPC):
    """The numbers of one planned training; `weights` are the budgets epsilon_n, shape (N,)."""

    def aggregate(self, state: ServerState, total: Array) -> ServerState:
        """One step against the weighted mean, from the sum of epsilon_n upload_n."""
        return super().aggregate(state, total / jnp.sum(self.weights[self.select(state)]))


def make(plan: Plan, task: Task, seed: int) -> WeiAvg:
    """The algorithm of a plan: its schedule drawn from `seed`, its numbers from the plan alone.

    Arguments, errors and guarantee are those of `replies.exact_replies`; noise that it must not have, and
    Poisson batches, are refused by name.
    """
    check_fits("weiavg", plan.problem)
    return exact_replies(WeiAvg, plan, task, seed, plan.problem.budget.epsilon)
