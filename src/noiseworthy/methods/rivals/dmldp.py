"""DMLDP: Laplace noise of each client's own size, and replies that all weigh the same.

Wu et al., "The value of collaboration in convex machine learning with differential privacy" (2020);
docs/theory/baselines.md#dmldp. What DPSGD does with Gaussian noise: clients are asked alike, K distinct ones
in every round:

    upload_n  = (1/D_n) sum_records clip(grad) + w_n,    w_n Laplace of scale 2 C T_n / (D_n epsilon_n)
    v        <- m v + (1/K) sum_{n in S_t} upload_n + ridge theta,    theta <- theta - eta_t v

The clip is in the L1 norm. With a delta above 0 the scale is smaller, by exact composition.
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
    check_fits("dmldp", plan.problem)
    return exact_replies(FedSGDDPC, plan, task, seed)
