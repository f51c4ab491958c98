"""DPFL-BCS, one stage: clients are asked as often as their budget, size and heterogeneity make worth it.

Ma et al., "The power of bias: optimizing client selection in federated learning with heterogeneous
differential privacy" (2025); docs/theory/ma.md#planner. A reply is that of FedSGD-DPC, one clipped and noised
gradient over all records; what differs is who is asked and what a reply weighs. Client n is asked exactly T_n
times, K distinct clients in every round, on a schedule that is drawn before training, and all replies of a
round weigh 1/K:

    upload_n  = (1/D_n) sum_records clip(grad) + w_n,    w_n pays for T_n uploads
    v        <- m v + (1/K) sum_{n in S_t} upload_n + ridge theta,    theta <- theta - eta_t v

The paper draws cohorts with probabilities proportional to T_n, which need not be whole, and gives a client
budget for T_n replies: some 85 to 88 % of its clients overspend
(docs/theory/ma.md#fractional-participations). Here counts are whole.
"""

from noiseworthy.methods.fedsgd_dpc.algorithm import FedSGDDPC, exact_replies
from noiseworthy.plans.plan import Plan
from noiseworthy.tasks.base import Task


def make(plan: Plan, task: Task, seed: int) -> FedSGDDPC:
    """The algorithm of a plan of `dpfl-bcs`: arguments, errors and guarantee of `exact_replies`."""
    return exact_replies(FedSGDDPC, plan, task, seed)
