"""FedSGD: the mean of full gradients without noise, the mark that private training is held against.

McMahan et al., "Communication-efficient learning of deep networks from decentralized data" (2017);
docs/theory/baselines.md#fedsgd. Clients are asked alike, K distinct ones in every round on a schedule of
exact counts, and replies weigh 1/K:

    v <- m v + (1/K) sum_{n in S_t} (1/D_n) sum_records clip(grad) + ridge theta,    theta <- theta - eta_t v

The clip stays, so that noise is all that its private rivals differ by. Nothing about it is private.
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
    check_fits("fedsgd", plan.problem)
    return exact_replies(FedSGDDPC, plan, task, seed)
