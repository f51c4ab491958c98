"""What trials say of trust: predictions side by side, and the noise of sums in trials of fewer owners."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from noiseworthy.methods.dpfl_bcs import planner as participation
from noiseworthy.methods.fedsgd_dpc import planner as queries_replies
from noiseworthy.methods.fedsgd_dpc.bound import RepliesBound
from noiseworthy.methods.registry import method
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.trust import Trust
from noiseworthy.trials.facts import MOST_CLIENTS
from noiseworthy.trials.fitted_bound import fit
from noiseworthy.trials.landscape import REACHES, TrialPoint, scaled
from noiseworthy.trials.proxies import make_proxies
from noiseworthy.trials.what_if import WhatIf

STEP = StepSize(0.1, np.inf)


def guess_of(trust: Trust, asked: int = 10) -> WhatIf:
    """A what-if of ten owners whose trials a known bound generated."""
    budget = PrivacyBudget.of(2.0, 1e-5, 10)
    facts = Problem(np.full(10, 200), 6, budget, "gaussian", 0.5, trust=trust)
    bound = RepliesBound(8.0, 1.0, 2.0, 20_000.0, no_training=1.0)

    def point(factor: float, t: int) -> TrialPoint:
        plan = queries_replies.stated(scaled(facts, factor), t, asked, STEP)
        loss = 0.5 + 0.5 * min(1.0, float(bound.at(plan.problem, t, asked)))
        return TrialPoint(plan, factor, loss, 1 - loss)

    points = [point(factor, t) for factor in REACHES for t in (4, 12, 40)]
    return WhatIf.of(fit(points, 0.1), queries_replies.stated(facts, 12, asked, STEP))


def test_trust_is_predicted_as_the_budget_that_has_as_little_noise():
    guess = guess_of(Trust())
    local, summed, central = guess.trusts()
    assert [one.trust.model for one in (local, summed, central)] == ["local", "secure-sum", "central"]
    assert [one.own for one in (local, summed, central)] == [True, False, False]
    assert local.best.accuracy < summed.best.accuracy == central.best.accuracy
    quiet = replace(guess.plan.problem, clip_norm=0.5 / 10**0.5)  # a tenth of the variance for ten owners
    noise = guess.bound.shape.noise_of
    rounds = np.array([12])
    told = noise(guess.plan, replace(guess.plan.problem, trust=summed.trust), rounds, 1, 10)
    np.testing.assert_allclose(told * 10, noise(guess.plan, quiet, rounds, 1, 10))
    assert {"model", "accuracy", "rounds", "own"} <= guess.as_dict()["trust"][1].keys()


def test_the_secure_sum_of_a_study_is_its_own():
    rows = guess_of(Trust("secure-sum", 3, 1)).trusts()
    assert [(one.trust.colluders, one.own) for one in rows] == [(0, False), (3, True), (0, False)]
    assert rows[1].best.loss > rows[2].best.loss


@pytest.mark.full
def test_too_few_owners_for_a_sum_have_no_row_and_what_reads_uploads_none():
    assert [one.trust.model for one in guess_of(Trust(), asked=1).trusts()] == ["local", "central"]
    problem = Problem(np.full(6, 50), 4, PrivacyBudget.of(2.0, 1e-5, 6), "gaussian", 0.5)
    apart: Plan = participation.stated(problem, [3, 3, 2, 2, 1, 1], 2, 6, STEP)
    assert method(apart.algorithm).reads
    assert replace(guess_of(Trust()), plan=apart).trusts() == []


@pytest.mark.parametrize(
    "trust", [Trust(), Trust("central"), Trust("secure-sum", 24, 12)], ids=["local", "central", "sums"]
)
def test_a_trial_of_fewer_owners_has_the_noise_of_all(facts_of, trust):
    facts = facts_of(sizes=np.full(1200, 30))
    facts = replace(facts, problem=replace(facts.problem, trust=trust))
    (proxy,) = make_proxies(facts, ["prior:0"])
    few = proxy.facts.problem
    assert (few.n_clients, few.trust.model) == (MOST_CLIENTS, trust.model)
    assert (few.trust.colluders, few.trust.dropouts) == (trust.colluders * 5 / 12, trust.dropouts * 5 / 12)

    def noise(problem: Problem) -> float:
        shares = problem.release(np.full(problem.n_clients, 3)).mechanism.size
        return float(np.sqrt(np.sum(np.square(problem.weights * shares))))

    assert proxy.noise_factor * noise(few) == pytest.approx(noise(facts.problem), rel=1e-6)
