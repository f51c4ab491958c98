"""What a claim says of tests, attacked: the likelihood ratio on the worst pair reaches it, and no more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from noiseworthy.audit.statistics import most_probable
from noiseworthy.methods.dp_fedavg import planner as local_iterations
from noiseworthy.methods.fedsgd_dpc import planner as queries_replies
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.plans.stages import Pilot
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.power import GaussianPower, after_two_moves
from noiseworthy.studies.claims import FALSE_ALARMS, claim_facts, power_against

RECORDS, CLIP, ROUNDS, TRIALS = 50, 1.5, 12, 200_000
STEP = StepSize(0.1)


def plan_of(family, delta, unit, relation, epsilon=2.0, sampling_rate=1.0) -> Plan:
    budget = PrivacyBudget.of(epsilon, delta, 3, relation=relation, unit=unit)
    clipping = "A" if unit == "record" else "D"
    problem = Problem(
        np.full(3, RECORDS), 4, budget, family, CLIP, clipping=clipping, sampling_rate=sampling_rate
    )
    if unit == "record":
        return queries_replies.stated(problem, ROUNDS, 3, STEP)
    return local_iterations.stated(problem, 2 * ROUNDS, 2, 3, STEP)


def log_ratios(plan: Plan, means: tuple[float, float], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Of all uploads of client 0 in many trainings, under the first mean and under the second.

    One coordinate holds the whole difference, the worst case for either norm.
    """
    assert plan.release is not None
    size, draw = float(plan.release.mechanism.size[0]), np.random.default_rng(seed)
    found = []
    for mean in means:
        total = draw.uniform(-1e-6, 1e-6, TRIALS)  # a coin for ties
        for _ in range(int(plan.releases[0])):
            if plan.problem.family == "gaussian":
                y = draw.normal(mean, size, TRIALS)
                total += (np.square(y - means[0]) - np.square(y - means[1])) / (2 * size**2)
            else:
                y = draw.laplace(mean, size, TRIALS)
                total += (np.abs(y - means[0]) - np.abs(y - means[1])) / size
        found.append(total)
    return found[0], found[1]


def attacked(plan, means, power, reached=True):
    """Asserts that the test reaches `power` at each false alarm, and never exceeds it (1 in 10,000)."""
    absent, present = log_ratios(plan, means, 11)
    first, second = absent[::2], absent[1::2]
    for alarm in FALSE_ALARMS:
        level = np.quantile(first, 1 - alarm)
        alarms, hits = int(np.sum(second > level)), int(np.sum(present > level))
        most_alarms, most_hits = most_probable([alarms, hits], [len(second), TRIALS], 1e-5)
        least_alarms, least_hits = 1 - most_probable(
            [len(second) - alarms, TRIALS - hits], [len(second), TRIALS], 1e-5
        )
        assert least_hits <= power([most_alarms])[0]
        assert most_hits >= power([least_alarms])[0] or not reached


CASES = [
    (family, delta, unit, relation)
    for family, delta in [("gaussian", 1e-5), ("laplace", 0.0), ("laplace", 1e-5)]
    for unit in ("record", "client")
    for relation in ("replace-one", "add-remove")
]


@pytest.mark.parametrize(("family", "delta", "unit", "relation"), CASES)
def test_the_best_test_on_the_worst_pair_reaches_the_claimed_power_and_no_more(family, delta, unit, relation):
    plan = plan_of(family, delta, unit, relation)
    most = CLIP / RECORDS if unit == "record" else CLIP
    other = -most if relation == "replace-one" else 0.0
    power, told = power_against(plan, 0), claim_facts(plan)["told_apart"]
    assert told["power"] == power.at(FALSE_ALARMS).tolist()
    assert told["alike"]
    attacked(plan, (other, most), power.at)
    if relation == "replace-one":
        assert told["power_of_exchange"] is None
        return
    assert told["power_of_exchange"] == after_two_moves(power, FALSE_ALARMS).tolist()
    attacked(plan, (-most, most), lambda a: after_two_moves(power, a), reached=family == "gaussian")
    absent, present = log_ratios(plan, (-most, most), 5)
    hit = np.mean(present > np.quantile(absent, 0.95))
    assert hit > told["power"][1] + 0.01  # one move's number would have been false of an exchange


@pytest.mark.parametrize(("family", "delta"), [("gaussian", 1e-5), ("laplace", 0.0)])
def test_a_guess_is_right_as_often_as_claimed(family, delta):
    plan = plan_of(family, delta, "record", "replace-one")
    absent, present = log_ratios(plan, (-CLIP / RECORDS, CLIP / RECORDS), 3)
    right = (np.mean(absent < 0) + np.mean(present > 0)) / 2
    assert right == pytest.approx(claim_facts(plan)["told_apart"]["guess"], abs=4e-3)


def test_poisson_batches_have_a_claim_of_their_own_below_that_of_full_ones():
    told = claim_facts(plan_of("gaussian", 1e-5, "record", "add-remove", sampling_rate=0.2))["told_apart"]
    full = GaussianPower(float(PrivacyBudget.of(2.0, 1e-5, 1).mu[0]))
    assert 0.01 < told["power"][0] < full.at([0.01])[0] * 1.5
    assert told["power"][0] < told["power_of_exchange"][0]


def test_the_client_that_is_worst_off_is_named_and_not_taken_for_all():
    problem = Problem(np.full(3, RECORDS), 4, PrivacyBudget.of([1, 3, 2], 1e-5, 3), "gaussian", CLIP)
    told = claim_facts(queries_replies.stated(problem, ROUNDS, 3, STEP))["told_apart"]
    assert (told["client"], told["alike"]) == (1, False)
    worst = GaussianPower(float(problem.budget.mu[1]))
    assert told["power"] == pytest.approx(worst.at(FALSE_ALARMS).tolist(), rel=1e-6)


@pytest.mark.parametrize(("family", "delta"), [("gaussian", 1e-5), ("laplace", 0.0), ("laplace", 1e-5)])
def test_clients_of_different_sizes_with_one_budget_are_alike(family, delta):
    problem = Problem(np.array([37, 50, 91]), 4, PrivacyBudget.of(2.0, delta, 3), family, CLIP)
    assert claim_facts(queries_replies.stated(problem, ROUNDS, 3, STEP))["told_apart"]["alike"]


@pytest.mark.parametrize(("family", "delta"), [("gaussian", 1e-5), ("laplace", 0.0)])
def test_what_was_bought_before_counts_too(family, delta):
    plan = plan_of(family, delta, "record", "replace-one")
    assert plan.release is not None
    more = replace(plan, pilot=Pilot(((plan.release, np.full(3, 5)),), plan.budget))
    assert power_against(more, 0).guess > power_against(plan, 0).guess


def test_nothing_is_claimed_where_nothing_is_released_or_nothing_hidden():
    bare = plan_of("none", 0.0, "record", "replace-one")
    assert claim_facts(bare)["told_apart"] is None
    idle = replace(plan_of("gaussian", 1e-5, "record", "replace-one"), releases=np.zeros(3, np.int64))
    assert claim_facts(idle)["told_apart"] is None
