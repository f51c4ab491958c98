"""The strongest adversary of a secure sum proves what is claimed and no more; one colluder more is caught."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from noiseworthy.audit.audits import Effort, audit
from noiseworthy.audit.observations import Observations
from noiseworthy.methods.fedsgd_dpc.planner import stated
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.trust import Trust

SIZES = np.array([40, 60, 80, 100, 50, 70])
SUMS, CENTRAL = Trust("secure-sum", colluders=1, dropouts=1), Trust("central")


def plan_of(family="gaussian", trust=SUMS, epsilon=3.0, weighting=1.0, rounds=6) -> Plan:
    budget = PrivacyBudget.of(epsilon, 1e-5 * (family == "gaussian"), len(SIZES))
    problem = Problem(SIZES, 20, budget, family, 1.5, trust=trust)
    return stated(problem, rounds, 5, StepSize(0.1)).weighed(weighting)


def test_an_upload_is_seen_with_the_noise_of_the_fewest_and_no_other():
    plan = plan_of(epsilon=np.array([1.0, 2.0, 3.0, 1.5, 2.5, 0.7]), weighting=0.3)
    rng, clients = np.random.default_rng(0), np.array([[0, 1, 2, 4, 5], [1, 2, 3, 4, 5]])
    assert plan.release is not None
    uneven = replace(plan.release, mechanism=plan.problem.law.noise(plan.noise * rng.uniform(0.5, 2, 6)))
    size = uneven.mechanism.size
    noise, drawn = size[clients][..., None], rng.normal(size=(3, 2, 5, 1))
    means = rng.normal(size=(2, 3, 2, 5, 1))
    made = Observations(means[0] + noise * drawn, means, noise, clients, np.zeros((3, 6), int))
    seen = made.in_sums(uneven, 3)
    assert uneven.sharing is not None
    parts, w = uneven.sharing.weights * size, uneven.sharing.weights
    for t, cohort in enumerate(clients):
        for place, i in enumerate(cohort):
            others = sorted((j for j in cohort if j != i), key=lambda j: parts[j])[:2]
            left = [place, *(list(cohort).index(j) for j in others)]
            expected = (
                means[0][:, t, place, 0] + sum(parts[cohort[k]] * drawn[:, t, k, 0] for k in left) / w[i]
            )
            np.testing.assert_allclose(seen.uploads[:, t, place, 0], expected)
    np.testing.assert_allclose(seen.noise, uneven.hiding[clients][..., None])
    np.testing.assert_allclose(seen.means, means)


@pytest.mark.parametrize("trust", [SUMS, CENTRAL], ids=lambda trust: trust.model)
@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_a_sound_plan_passes_and_four_fifths_of_its_epsilon_are_proven(family, trust):
    """It is accused once in a thousand audits at most; the strongest colluders, the fewest survivors."""
    (made,) = audit(plan_of(family, trust), Effort(trials=8_000))
    assert made.passed, [check.says for check in made.checks]
    np.testing.assert_allclose(made.exposure.epsilon, made.target.epsilon, rtol=1e-3)
    np.testing.assert_allclose(made.target.epsilon, 3.0, rtol=1e-3)  # every budget is used up at once
    assert made.proven > 0.8 * made.claimed


def test_one_colluder_more_than_planned_is_caught():
    (made,) = audit(plan_of(epsilon=8.0), Effort(trials=6_000, beyond=1))
    assert [check.name for check in made.checks if not check.passed] == ["bound"]
    assert made.proven > made.claimed


def test_shares_that_hide_each_record_by_itself_only_in_name_are_caught():
    plan = plan_of()
    assert plan.release is not None
    shy = replace(plan.release, mechanism=plan.problem.law.noise(plan.noise * 0.8))
    (made,) = audit(replace(plan, release=shy), Effort(trials=2_000))
    assert not made.books.balanced
