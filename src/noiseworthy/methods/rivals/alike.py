"""FedSGD, DPSGD and DMLDP: replies that all weigh the same, which differ in their noise alone.

Clients are asked alike, whatever their budget, K distinct ones in every round on a schedule of exact counts:

    upload_n  = (1/D_n) sum_records clip(grad) + w_n
    v        <- m v + (1/K) sum_{n in S_t} upload_n + ridge theta,    theta <- theta - eta_t v

    fedsgd    w_n = 0
    dpsgd     w_n ~ N(0, sigma_n^2 I) pays for T_n uploads
    dmldp     w_n Laplace of scale 2 C T_n / (D_n epsilon_n), or less with a delta above 0

FedSGD: McMahan et al., "Communication-efficient learning of deep networks from decentralized data" (2017);
docs/theory/baselines.md#fedsgd. Nothing about it is private: it is the mark that private training is held
against. The clip stays, so that noise is all that its private rivals differ by.

DPSGD: Abadi et al., "Deep learning with differential privacy" (2016); docs/theory/baselines.md#dpsgd. The
paper subsamples records; its rivals take all of them, and so does this.

DMLDP: Wu et al., "The value of collaboration in convex machine learning with differential privacy" (2020);
docs/theory/baselines.md#dmldp. The clip is in the L1 norm; a delta pays by exact composition.
"""

from __future__ import annotations

from typing import cast

from noiseworthy.methods.fedsgd_dpc.algorithm import FedSGDDPC
from noiseworthy.methods.replies import exact_replies
from noiseworthy.methods.rivals.planner import check_fits
from noiseworthy.methods.rivals.table import RivalName
from noiseworthy.plans.plan import Plan
from noiseworthy.tasks.base import Task


def make(plan: Plan, task: Task, seed: int) -> FedSGDDPC:
    """The algorithm of a plan: its schedule drawn from `seed`, its numbers from the plan alone.

    Arguments, errors and guarantee are those of `replies.exact_replies`; noise that it must not have, and
    Poisson batches, are refused by name.
    """
    check_fits(cast(RivalName, plan.algorithm), plan.problem)
    return exact_replies(FedSGDDPC, plan, task, seed)
