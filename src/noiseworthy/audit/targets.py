"""What is audited: a planned training with its claim and its books, and what an attacker knows of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from noiseworthy.errors import InvalidInput
from noiseworthy.methods.algorithm import Algorithm
from noiseworthy.methods.dpfl_bcs import loss_reports
from noiseworthy.methods.dpfl_bcs.losses import LOSSES_PER_REPLY
from noiseworthy.methods.dpfl_bcs.two_stages import FirstStage, stage_before
from noiseworthy.methods.registry import make
from noiseworthy.plans.plan import Plan
from noiseworthy.plans.stages import Pilot
from noiseworthy.privacy.accountants import spent_epsilon
from noiseworthy.privacy.mechanisms.currencies import MU_SQUARED
from noiseworthy.privacy.releases import Release
from noiseworthy.tasks.base import Task


@dataclass(frozen=True)
class Target:
    """A training whose privacy is claimed, and audited.

    Attributes:
        name: `training`, or `stage 1` and `stage 2`.
        plan: of it; noise, clip, weights and counts are those that the study trains with, and its pilot is
            what is charged beside.
        make: the product's algorithm of a plan, from its plan, a task and a seed.
        epsilon: what is claimed for each client, shape (N,).
        loss_noise: noise size of each loss that clients report beside their upload, shape (N,); None if none.
    """

    name: str
    plan: Plan
    make: Callable[[Plan, Task, int], Algorithm]
    epsilon: NDArray[np.float64]
    loss_noise: NDArray[np.float64] | None = None

    @property
    def delta(self) -> NDArray[np.float64]:
        """At which epsilon is claimed, shape (N,)."""
        return self.plan.problem.budget.delta

    @property
    def width(self) -> int:
        """Numbers in one upload."""
        return self.plan.numbers + (0 if self.loss_noise is None else LOSSES_PER_REPLY)

    def noise(self, ridge: float) -> NDArray[np.float64]:
        """Size of the noise on every number of an upload, as planned, shape (T, N, width).

        Of an update whose every local step is noised, that of the sum of the steps' noises, each shrunk by
        the ridge of the steps after it.
        """
        plan = self.plan
        size = np.outer(plan.upload_scale * _gain(plan, ridge), self.release.mechanism.size)
        whole = np.repeat(size[:, :, None], plan.numbers, axis=2)
        if self.loss_noise is None:
            return whole
        losses = np.broadcast_to(self.loss_noise[:, None], (*size.shape, LOSSES_PER_REPLY))
        return np.concatenate([whole, losses], axis=2)

    @property
    def release(self) -> Release:
        """One noised upload."""
        if self.plan.release is None:
            raise InvalidInput("this plan releases nothing, so that nothing can be audited; plan to train")
        return self.plan.release

    @property
    def apart(self) -> bool:
        """Whether each upload is seen by itself, so that clients of one training are separate trials."""
        return self.release.sharing is None

    @property
    def survivors(self) -> int:
        """How many noises hide a record at least, its owner's own among them, as the trust is stated."""
        return fewest(self.plan)

    def of_dimension(self, dimension: int) -> Target:
        """The same training of a model of another dimension, with one output where moments are uploaded.

        Its noise is the same too, but in clipping mode E, where it grows with the dimension: there it is
        calibrated anew.
        """
        problem = replace(self.plan.problem, dimension=dimension)
        release, weights = self.plan.release, self.plan.weights
        if problem.clipping == "E":
            release = problem.release(self.plan.releases, self.plan.clients_per_round, weights)
        moments = self.plan.moments and self.plan.moments.of_one_number()
        return replace(self, plan=replace(self.plan, problem=problem, release=release, moments=moments))


def fewest(plan: Plan) -> int:
    """Owners of a cohort that are honest and there at least; 1 where each upload is seen.

    Counted anew, whatever the plan's noise was shared for.
    """
    trust = plan.problem.trust
    asked = plan.problem.n_clients if trust.secret else plan.clients_per_round
    return asked - trust.colluders - trust.dropouts if trust.in_sums else 1


def _gain(plan: Plan, ridge: float) -> NDArray[np.float64]:
    """Noise of an upload per noise of one step, root of sum (eta_k prod_{j>k} (1 - eta_j ridge))^2, (T,)."""
    if plan.local is None or not plan.local.noised:
        return np.ones(plan.rounds)
    steps = plan.local_step_sizes.reshape(plan.rounds, -1)
    later = np.cumprod((1 - ridge * steps)[:, ::-1], axis=1)[:, ::-1]
    shrunk = np.concatenate([later[:, 1:], np.ones((plan.rounds, 1))], axis=1)
    return np.sqrt(np.sum(np.square(steps * shrunk), axis=1))


def targets_of(plan: Plan) -> tuple[Target, ...]:
    """What a plan claims: one training, or two stages with a claim each.

    Args:
        plan: with `train` true, noise and step sizes.

    Returns:
        Stage 2 is the one that is planned in case clients prove alike. An upload that bought constants
        before is none of them: its cost is in the ledger.

    Raises:
        InvalidInput: a plan that does not train, or without noise.
    """
    if not plan.train or plan.release is None:
        raise InvalidInput(f"this plan does not train, so that nothing can be audited: {plan.outcome}")
    if not plan.problem.law.noisy:
        raise InvalidInput("a training without noise claims nothing to audit; set gaussian or laplace noise")
    if plan.step is None:
        raise InvalidInput("this plan has no step size; state [algorithm] step_size before auditing")
    alone = spent_epsilon(plan.release, plan.releases, plan.budget.delta)
    if not plan.in_stages:
        return (Target("training", plan, make, alone),)
    return _first(stage_before(plan)), Target("stage 2", plan, make, alone)


def _first(first: FirstStage) -> Target:
    """Stage 1 as a plan of its own, whose losses are charged beside its gradients."""
    plan = replace(first.plan, pilot=Pilot(first.parts[1:], first.budget))

    def start(plan: Plan, task: Task, seed: int) -> Algorithm:
        return loss_reports.make(replace(first, plan=plan), task, seed)

    return Target("stage 1", plan, start, plan.spent(), first.losses.mechanism.size)


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
