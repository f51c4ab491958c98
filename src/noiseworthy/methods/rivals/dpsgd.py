"""DPSGD made federated: Gaussian noise of each client's own size, and replies that all weigh the same.

Abadi et al., "Deep learning with differential privacy" (2016); docs/theory/baselines.md#dpsgd. As DPFL-BCS,
but nobody chooses: clients are asked alike, whatever their budget, K distinct ones in every round on a
schedule of exact counts:

    upload_n  = (1/D_n) sum_records clip(grad) + w_n,    w_n ~ N(0, sigma_n^2 I) pays for T_n uploads
    v        <- m v + (1/K) sum_{n in S_t} upload_n + ridge theta,    theta <- theta - eta_t v

The paper subsamples records; its rivals take all of them, and so does this.
"""

from __future__ import annotations

from noiseworthy.methods.fedsgd_dpc.algorithm import FedSGDDPC
from noiseworthy.methods.replies import exact_replies
from noiseworthy.methods.rivals.planner import check_fits
from noiseworthy.plans.plan import Plan
from noiseworthy.tasks.base import Task


def make(plan: Plan, task: Task, seed: int) -> FedSGDDPC:
    """The algorithm of a plan: its schedule drawn from `seed`, its numbers from the plan alone.

    Arguments, errors and guarantee are those of `replies.exact_replies`; noise that it must not have, and
    Poisson batches, are refused by name.
    """
    check_fits("dpsgd", plan.problem)
    return exact_replies(FedSGDDPC, plan, task, seed)
