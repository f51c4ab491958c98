"""FedSGD, DPSGD, DMLDP and WeiAvg: means of replies that differ in their noise and in what a reply weighs.

Clients are asked alike, whatever their budget, K distinct ones in every round on a schedule of exact counts:

    upload_n  = (1/D_n) sum_records clip(grad) + w_n
    v        <- m v + sum_{n in S_t} a_n upload_n + ridge theta,    theta <- theta - eta_t v

    fedsgd    a_n = 1/K    w_n = 0
    dpsgd     a_n = 1/K    w_n ~ N(0, sigma_n^2 I) pays for T_n uploads
    dmldp     a_n = 1/K    w_n Laplace of scale 2 C T_n / (D_n epsilon_n), or less with a delta above 0
    weiavg    a_n = epsilon_n / sum_{j in S_t} epsilon_j    w_n as in dpsgd or dmldp

FedSGD: McMahan et al., "Communication-efficient learning of deep networks from decentralized data" (2017);
docs/theory/baselines.md#fedsgd. Nothing about it is private: it is the mark that private training is held
against. The clip stays, so that noise is all that its private rivals differ by.

DPSGD: Abadi et al., "Deep learning with differential privacy" (2016); docs/theory/baselines.md#dpsgd. The
paper subsamples records; its rivals take all of them, and so does this.

DMLDP: Wu et al., "The value of collaboration in convex machine learning with differential privacy" (2020);
docs/theory/baselines.md#dmldp. The clip is in the L1 norm; a delta pays by exact composition.

WeiAvg: Liu et al., "Projected federated averaging with heterogeneous differential privacy" (2021);
docs/theory/baselines.md#weiavg. Replies weigh by their clients' budgets, so that noisy ones count less.
Budgets are public facts of the plan, whatever noise it has, and weighing is post-processing. Where all
budgets are equal this is DPSGD, or DMLDP.
"""

from typing import cast

from noiseworthy._jax import Array, jnp
from noiseworthy.methods.algorithm import ServerState
from noiseworthy.methods.fedsgd_dpc.algorithm import FedSGDDPC, exact_replies
from noiseworthy.methods.rivals.planner import check_fits
from noiseworthy.methods.rivals.table import RivalName
from noiseworthy.plans.plan import Plan
from noiseworthy.tasks.base import Task


class WeiAvg(FedSGDDPC):
    """The numbers of one planned training; `weights` are the budgets epsilon_n, shape (N,)."""

    def aggregate(self, state: ServerState, total: Array) -> ServerState:
        """One step against the weighted mean, from the sum of epsilon_n upload_n."""
        return super().aggregate(state, total / jnp.sum(self.weights[self.select(state)]))


def make(plan: Plan, task: Task, seed: int) -> FedSGDDPC:
    """The algorithm of a plan: its schedule drawn from `seed`, its numbers from the plan alone.

    Arguments, errors and guarantee are those of `exact_replies`; noise that it must not have, and
    Poisson batches, are refused by name.
    """
    check_fits(cast(RivalName, plan.algorithm), plan.problem)
    if plan.algorithm == "weiavg":
        return exact_replies(WeiAvg, plan, task, seed, plan.problem.budget.epsilon)
    return exact_replies(FedSGDDPC, plan, task, seed)
