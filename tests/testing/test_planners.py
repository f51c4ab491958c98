"""All planners keep what the suite asks; what overspends, peeks or plans in fractions fails by name."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from noiseworthy.methods.dp_fedavg import planner as local_iterations
from noiseworthy.methods.dp_fedavg.bound import local_bound
from noiseworthy.methods.dp_pasgd import planner as averaging_period
from noiseworthy.methods.dp_scaffnew import planner as communication_probability
from noiseworthy.methods.dpfl_bcs import planner as participation
from noiseworthy.methods.dpfl_bcs import two_stages
from noiseworthy.methods.fedsgd_dpc import planner as queries_replies
from noiseworthy.methods.fedsgd_dpc.bound import theory_bound
from noiseworthy.methods.mr_mtl import method as mr_mtl
from noiseworthy.methods.rivals import planner as rivals
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Constant, Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.clipping import unit_of
from noiseworthy.privacy.mechanisms import Gaussian
from noiseworthy.privacy.releases import Release
from noiseworthy.testing import PlannerConformance

SIZES = np.array([400, 800, 600, 500, 900, 700, 300, 650])


def constants(**values: float) -> dict[str, Constant]:
    return {name: Constant(value, "assumed") for name, value in values.items()}


COMMON = constants(
    smoothness=1.0, strong_convexity=0.1, gradient_bound=2.0, initial_distance_sq=90.0, heterogeneity=0.5
)


class OfClients(PlannerConformance):
    """Eight unequal clients, with budgets that differ by half."""

    mode: ClassVar[Any] = "A"
    family: ClassVar[Any] = "gaussian"
    delta: ClassVar[float] = 1e-5

    def problem(self, epsilon):
        epsilons = np.linspace(epsilon, 1.5 * epsilon, len(SIZES))
        budget = PrivacyBudget.of(epsilons, self.delta, len(SIZES), unit=unit_of(self.mode))
        return Problem(SIZES, 10, budget, self.family, 1.0, clipping=self.mode)


class TestQueriesAndReplies(OfClients):
    def plan(self, problem, federation):
        return queries_replies.plan(problem, theory_bound(problem, COMMON), COMMON, max_rounds=200)


class TestQueriesAndRepliesWithLaplaceNoise(TestQueriesAndReplies):
    family, delta = "laplace", 0.0


class TestLocalIterations(OfClients):
    mode = "B"

    def plan(self, problem, federation):
        return local_iterations.plan(problem, local_bound(COMMON), COMMON, clients_per_round=4)


class TestCommunicationProbability(OfClients):
    mode = "D"

    def plan(self, problem, federation):
        known = constants(
            smoothness=1.0, strong_convexity=0.05, initial_distance_sq=4.0, optimum_gradient_sq=0.5
        )
        return communication_probability.plan(problem, known)


class TestAveragingPeriod(OfClients):
    def plan(self, problem, federation):
        known = constants(smoothness=1.0, strong_convexity=0.05, gradient_variance=0.05, initial_gap=0.69)
        return averaging_period.plan(problem, known, step=StepSize(0.05, np.inf))


class TestParticipation(OfClients):
    def plan(self, problem, federation):
        known = constants(smoothness=1.0, strong_convexity=0.1)
        gamma = np.linspace(0.1, 2.0, problem.n_clients)
        return participation.plan(
            problem, known, rounds=20, clients_per_round=3, heterogeneity=gamma.tolist()
        )


class TestTwoStages(OfClients):
    def plan(self, problem, federation):
        known = constants(smoothness=1.0, strong_convexity=0.1)
        return two_stages.plan(
            problem, known, rounds=20, clients_per_round=3, estimation_rounds=4, loss_cap=2.0
        )


class TestMrMtl(OfClients):
    def plan(self, problem, federation):
        return mr_mtl.stated(problem, 12, StepSize(0.05, 200.0))


class OfRival(OfClients):
    name: ClassVar[Any]

    def plan(self, problem, federation):
        return rivals.plan(self.name, problem, rounds=12, clients_per_round=3, step=StepSize(0.05, 200.0))


class TestDPSGD(OfRival):
    name = "dpsgd"


class TestDMLDP(OfRival):
    name, family, delta = "dmldp", "laplace", 0.0


class TestWeiAvg(OfRival):
    name = "weiavg"


class TestPFA(OfRival):
    name = "pfa"


class TestPrivateFL(OfRival):
    name = "privatefl"


# Mutants -------------------------------------------------------------------------------------------------


def with_noise(plan, factor):
    assert plan.release is not None
    return replace(
        plan, release=replace(plan.release, mechanism=Gaussian(factor * plan.release.mechanism.size))
    )


class HalvesTheNoise(TestPFA):
    def plan(self, problem, federation):
        return with_noise(super().plan(problem, federation), 0.5)


class DropsTheFactorTwo(TestPFA):
    """Noise and sensitivity halved together, so that nobody overspends on paper."""

    def plan(self, problem, federation):
        made = super().plan(problem, federation)
        halved = replace(made.release.sensitivity, value=made.release.sensitivity.value / 2)
        return replace(made, release=Release(Gaussian(made.release.mechanism.size / 2), halved))


class PlansFractions(TestPFA):
    def plan(self, problem, federation):
        made = super().plan(problem, federation)
        return replace(made, releases=np.maximum(made.releases - 0.5, 0.0))


class Peeks(TestPFA):
    def plan(self, problem, federation):
        made = super().plan(problem, federation)
        return with_noise(made, 1 + 1e-3 * float(np.abs(federation.x).mean()))


class Dices(TestPFA):
    draws: ClassVar[np.random.Generator] = np.random.default_rng(0)

    def plan(self, problem, federation):
        return with_noise(super().plan(problem, federation), 1 + self.draws.random())


class SpendsNoMoreWhenItMay(TestPFA):
    """More noise the larger the budget: wasteful, and a sign that epsilon is read upside down."""

    def plan(self, problem, federation):
        made = super().plan(problem, federation)
        return with_noise(made, 1 + 1000 * float(problem.budget.epsilon.min()))


class SaysNotWhy(TestPFA):
    def plan(self, problem, federation):
        return replace(super().plan(problem, federation), outcome="")


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        (HalvesTheNoise, "test_every_client_stays_within_its_budget"),
        (DropsTheFactorTwo, "test_noise_is_for_the_sensitivity_of_the_problem"),
        (PlansFractions, "test_counts_are_whole_and_a_training_has_rounds"),
        (Peeks, "test_it_does_not_look_at_private_records"),
        (Dices, "test_it_decides_alike_twice"),
        (SpendsNoMoreWhenItMay, "test_more_budget_needs_no_more_noise_for_as_many_releases"),
        (SaysNotWhy, "test_a_plan_is_plain_values"),
    ],
)
def test_a_broken_planner_fails_its_check(kind, check):
    with pytest.raises(AssertionError):
        getattr(kind(), check)()


def test_every_check_has_a_mutant():
    (mark,) = test_a_broken_planner_fails_its_check.pytestmark  # type: ignore[attr-defined]
    checks = {name for name, _ in inspect.getmembers(PlannerConformance) if name.startswith("test_")}
    assert {check for _, check in mark.args[1]} == checks
