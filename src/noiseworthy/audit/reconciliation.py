"""The books: do the releases that a schedule makes cost what the clients allowed, and no more?"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from noiseworthy.audit.targets import fewest
from noiseworthy.plans.plan import Plan
from noiseworthy.privacy.mechanisms.currencies import MU_SQUARED
from noiseworthy.privacy.releases import Release

_ROUNDING = 1e-9
_OTHER_FORMULA = 1e-6
"""Relative difference that a textbook formula in float64 may have from the exact one."""


@dataclass(frozen=True)
class Books:
    """What was planned, made, spent and allowed, each per client, shape (N,).

    Attributes:
        planned: uploads that the noise pays for.
        made: uploads of the schedule, or of a run.
        spent: epsilon of the uploads made, and of what was released before the plan.
        allowed: epsilon of the budget.
        excess: largest delta at the allowed epsilon over the allowed delta, by a second formula; 0 where it
            does not apply.
    """

    planned: NDArray[np.int64]
    made: NDArray[np.int64]
    spent: NDArray[np.float64]
    allowed: NDArray[np.float64]
    excess: float

    @property
    def overdrawn(self) -> NDArray[np.int64]:
        """Clients that upload or spend more than they may."""
        spent = self.spent > self.allowed * (1 + _ROUNDING)
        return np.flatnonzero((self.made > self.planned) | spent)

    @property
    def balanced(self) -> bool:
        """Whether nobody is overdrawn, by either formula."""
        return not self.overdrawn.size and self.excess <= 1 + _OTHER_FORMULA


def reconcile(plan: Plan, made: NDArray[np.int64]) -> Books:
    """Uploads that were made against those that were paid for, and their cost against the budget.

    Args:
        plan: with its noise, counts and budget, a first stage included.
        made: uploads of each client under it, shape (N,).

    Example:
        >>> from noiseworthy.plans.plan import StepSize
        >>> from noiseworthy.plans.problem import Problem
        >>> from noiseworthy.methods.fedsgd_dpc.planner import stated
        >>> from noiseworthy.privacy.budget import PrivacyBudget
        >>> problem = Problem(np.array([50, 50]), 3, PrivacyBudget.of(1.0, 1e-5, 2), "gaussian", 1.0)
        >>> plan = stated(problem, 10, 1, StepSize(0.1))
        >>> reconcile(plan, np.array([5, 5])).balanced, reconcile(plan, np.array([4, 6])).overdrawn
        (True, array([1]))
    """
    return Books(plan.uploads, made, plan.spent(made), plan.budget.epsilon, _excess(plan, made))


def _excess(plan: Plan, made: NDArray[np.int64]) -> float:
    """delta of Gaussian releases by the textbook formula, at the whole budget's epsilon.

    Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu),  mu^2 = sum of (sensitivity / std)^2
    """
    release = plan.release
    if release is None or release.mechanism.law.currency is not MU_SQUARED or release.sampling_rate < 1:
        return 0.0
    parts = [*plan.before, (release, plan.released_by(made))]
    squared = np.sum([k * np.square(one.sensitivity.value / _hidden(plan, one)) for one, k in parts], axis=0)
    asked = squared > 0
    mu, epsilon, delta = np.sqrt(squared[asked]), plan.budget.epsilon[asked], plan.budget.delta[asked]
    # log_ndtr, where the accountant has erfcx: an error of the one is not made again by the other
    body, tail = log_ndtr(mu / 2 - epsilon / mu), epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    return float(np.max(np.exp(body) * -np.expm1(tail - body) / delta, initial=0.0))


def _hidden(plan: Plan, release: Release) -> NDArray[np.float64]:
    """Deviation of what hides each client's record: its own noise and the least of the others in a sum."""
    if release.sharing is None:
        return release.mechanism.size
    weights, others = plan.weights, fewest(plan) - 1
    variances = np.square(weights * release.mechanism.size)
    ascending = np.sort(variances)
    own_among = variances <= ascending[others]
    least = np.where(own_among, ascending[: others + 1].sum() - variances, ascending[:others].sum())
    return np.sqrt(variances + least) / weights
