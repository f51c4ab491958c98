"""Plans of MR-MTL: those of FedSGD-DPC that ask everybody in every round, with a pull towards the mean."""

from dataclasses import replace

from noiseworthy import _validate as check
from noiseworthy.methods.fedsgd_dpc import planner as replies
from noiseworthy.methods.mr_mtl.table import PULL
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Problem

CITATION = "Liu et al., on privacy and personalization in cross-silo federated learning, 2022 (MR-MTL)"


def stated(problem: Problem, rounds: int, step: StepSize, pull: float = PULL) -> Plan:
    """The plan of a stated training: its noise pays for T gradients of every owner.

    Args:
        problem: public facts and budget.
        rounds: T, in each of which everybody replies.
        step: step sizes.
        pull: lambda, at least 0.

    Raises:
        InvalidInput: a T that is no count or that the resources do not pay for, a negative pull.

    Guarantee: `spent() <= epsilon` and `cost <= budget` for every client.

    Example:
        >>> from noiseworthy.privacy.budget import PrivacyBudget
        >>> problem = Problem([600] * 4, 11, PrivacyBudget.of(1.0, 1e-5, 4), "gaussian", 1.0)
        >>> made = stated(problem, 20, StepSize(0.5, float("inf")), pull=0.1)
        >>> made.releases, made.outcome
        (array([20, 20, 20, 20]), 'Train 20 rounds with 4 clients, as stated.')

    Source: Liu et al. (2022), Algorithm 1; docs/theory/baselines.md#mr-mtl.
    """
    return drawn_to_the_mean(replies.stated(problem, rounds, problem.n_clients, step), pull)


def drawn_to_the_mean(made: Plan, pull: float) -> Plan:
    """A plan of FedSGD-DPC that asks everybody, to be carried out by this method."""
    pull = check.non_negative("pull", pull).item()
    return replace(made, algorithm="mr-mtl", citation=CITATION, pull=pull)
