"""The rule that plans without data: it does what it says, keeps what is stated, and scales as records do."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from noiseworthy.errors import InvalidInput
from noiseworthy.methods.fedsgd_dpc.rule import CALIBRATIONS, PublicScale, plan_by_rule
from noiseworthy.plans.problem import Problem
from noiseworthy.plans.resources import Resources
from noiseworthy.privacy.budget import PrivacyBudget

FAMILIES = pytest.mark.parametrize("family", ["laplace", "gaussian"])


def make_problem(family="laplace", epsilon=5.0, sizes=(6000,) * 10, resources=None) -> Problem:
    delta = 1e-5 if family == "gaussian" else 0.0
    budget = PrivacyBudget.of(epsilon, delta, len(sizes))
    return Problem(np.array(sizes), 7840, budget, family, 1.0, resources=resources)


def make_scale(problem: Problem, norm=1.0, classes=10) -> PublicScale:
    return PublicScale.of_softmax(norm, classes, 784, problem.norm)


def brute_force(problem: Problem, scale: PublicScale, b: int, most: int, decay=50.0):
    """The formulas of the module, one k after the other, with noise from a calibrated release."""
    rule, n, classes = CALIBRATIONS[problem.law.norm], problem.n_clients, scale.classes
    problem = replace(problem, clip_norm=rule.clip * scale.gradient_norm)
    alone = (n - b) / ((n - 1) * b)
    for k in range(1, -(-most * b // n) + 1):
        t = min(k * n // b, most)
        size = problem.release(np.full(n, k)).mechanism.size
        variance = size**2 * (2 if problem.family == "laplace" else 1)
        falls = [1 / (1 + i / decay) for i in range(t)]
        aggregated = n / b * np.sum((problem.sizes / problem.sizes.sum()) ** 2 * variance)
        noise = scale.record_norm * np.sqrt(aggregated * sum(d * d for d in falls))
        reach = scale.record_norm**2 * rule.clip * sum(falls)
        accepted = min(rule.noise, 0.09 / (classes - 1) * reach / noise)
        furthest = (rule.pace * (1 - alone) + rule.pace_alone * alone) * classes * k
        eta = min(accepted / noise, furthest / reach)
        if accepted / noise * reach <= furthest:
            return t, eta
    return t, eta


@settings(max_examples=25, deadline=None)
@given(
    family=st.sampled_from(["laplace", "gaussian"]),
    epsilon=st.floats(1.0, 20.0),
    sizes=st.lists(st.integers(2000, 9000), min_size=2, max_size=8),
    data=st.data(),
)
def test_the_plan_is_the_least_k_that_keeps_the_pace(family, epsilon, sizes, data):
    problem = make_problem(family, epsilon, sizes)
    b, scale = data.draw(st.integers(1, len(sizes))), make_scale(problem)
    made = plan_by_rule(problem, scale, clients_per_round=b, max_rounds=60)
    t, eta = brute_force(problem, scale, b, 60)
    assert made.rounds == t
    assert made.step.initial == pytest.approx(eta, rel=1e-6)


@FAMILIES
@pytest.mark.parametrize("factor", [0.01, 9.2, 255.0])
def test_records_in_another_unit_are_planned_alike(family, factor):
    """theta, clip and noise scale with the records and the step with their inverse square: one training."""
    problem = make_problem(family, 1.0)
    one = plan_by_rule(problem, make_scale(problem))
    other = plan_by_rule(problem, make_scale(problem, factor))
    assert (one.rounds, one.clients_per_round) == (other.rounds, other.clients_per_round)
    assert other.problem.clip_norm == pytest.approx(factor * one.problem.clip_norm)
    assert other.step.initial * factor**2 == pytest.approx(one.step.initial)


@FAMILIES
def test_the_clip_cancels_as_long_as_it_bites(family):
    problem = make_problem(family, 1.0)
    scale = make_scale(problem)
    planned = plan_by_rule(problem, scale)
    smaller = plan_by_rule(problem, scale, clip_norm=planned.problem.clip_norm / 10)
    assert (smaller.rounds, smaller.clients_per_round) == (planned.rounds, planned.clients_per_round)
    assert smaller.step.initial == pytest.approx(10 * planned.step.initial)


@FAMILIES
def test_more_privacy_means_fewer_passes(family):
    problems = [make_problem(family, epsilon) for epsilon in np.geomspace(0.3, 30, 12)]
    passes = [plan_by_rule(problem, make_scale(problem)).releases.max() for problem in problems]
    assert np.all(np.diff(passes) >= 0)
    assert passes[0] < passes[-1]


@FAMILIES
def test_hopeless_noise_means_do_not_train(family):
    problem = make_problem(family, 1e-3)
    made = plan_by_rule(problem, make_scale(problem))
    assert not made.train
    assert made.outcome.startswith("Do not train")
    assert "raise epsilon" in made.outcome
    assert np.all(made.spent() == 0)
    assert plan_by_rule(problem, make_scale(problem), rounds=5).train  # stated


@FAMILIES
def test_what_is_stated_is_kept(family):
    problem = make_problem(family)
    stated = {"rounds": 7, "clients_per_round": 5, "clip_norm": 0.3, "step_size": 0.2, "decay_rounds": 9.0}
    made = plan_by_rule(problem, make_scale(problem), **stated)
    assert (made.rounds, made.clients_per_round, made.problem.clip_norm) == (7, 5, 0.3)
    assert (made.step.initial, made.step.decay_rounds) == (0.2, 9.0)


@FAMILIES
def test_a_stated_step_size_trains_until_its_noise_is_accepted_no_more(family):
    problem = make_problem(family, {"laplace": 5.0, "gaussian": 0.3}[family])
    scale = make_scale(problem)
    free = plan_by_rule(problem, scale, clients_per_round=10)
    lengths = [
        plan_by_rule(problem, scale, clients_per_round=10, step_size=free.step.initial * factor).rounds
        for factor in (0.5, 1.0, 2.0, 100.0)
    ]
    assert lengths[0] > lengths[1] >= free.rounds > lengths[2] > lengths[3] == 1


def test_laplace_asks_few_and_gaussian_all():
    for family, b in (("laplace", 1), ("gaussian", 10)):
        problem = make_problem(family)
        assert plan_by_rule(problem, make_scale(problem)).clients_per_round == b


def test_where_one_by_one_takes_too_many_rounds_more_are_asked():
    problem = make_problem("laplace", 10.0, (6000,) * 100)
    made = plan_by_rule(problem, make_scale(problem), max_rounds=200)
    assert made.clients_per_round > 1
    assert made.rounds <= 200


@settings(max_examples=25, deadline=None)
@given(
    family=st.sampled_from(["laplace", "gaussian"]), paid=st.integers(1, 12), most=st.integers(1, 80),
    rounds=st.none() | st.integers(1, 12),
)  # fmt: skip
@example(family="laplace", paid=1, most=1, rounds=11)
@example(family="laplace", paid=1, most=1, rounds=10)
@example(family="gaussian", paid=1, most=1, rounds=11)
def test_every_plan_keeps_budgets_and_rounds(family, paid, most, rounds):
    """Stated rounds that even one client a round could not pay for are refused, with those it could."""
    problem = make_problem(family, resources=Resources.of(3.0, 0.0, 3.0 * paid, 10))
    plan = partial(plan_by_rule, problem, make_scale(problem), rounds=rounds, max_rounds=most)
    if (rounds or 0) > 10 * paid:
        with pytest.raises(InvalidInput, match=f"pays for {paid} uploads .* rounds of at most {10 * paid}"):
            plan()
        return
    made = plan()
    assert made.rounds <= (rounds or most)
    assert made.cost is not None
    assert np.all(made.cost <= 3.0 * paid)
    assert np.all(made.spent() <= 5.0 * (1 + 1e-9))


def test_the_gradient_at_the_start_has_the_stated_norms():
    x, classes = np.array([0.6, -0.8]), 5
    slope = np.full(classes, 1 / classes) - np.eye(classes)[2]
    gradient = np.outer(x, slope)
    l2 = PublicScale.of_softmax(1.0, classes, 2, "l2").gradient_norm
    l1 = PublicScale.of_softmax(1.0, classes, 2, "l1").gradient_norm
    assert l2 == pytest.approx(np.linalg.norm(gradient))
    assert l1 == pytest.approx(np.abs(gradient).sum() / np.abs(x).sum() * 0.63 * np.sqrt(2))


def test_a_plan_says_that_it_is_a_rule():
    problem = make_problem()
    said = plan_by_rule(problem, make_scale(problem)).as_dict()
    assert said["predicted"] is None
    assert "rule of thumb" in said["notes"][0]
    assert "no bound" in said["notes"][0]
    assert not any("Warning" in note for note in said["notes"])
    few = plan_by_rule(problem, make_scale(problem, classes=2)).notes
    assert "calibrated on 10 classes and is a guess for 2" in few[-1]


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"clients_per_round": 11}, "clients_per_round must be between 1 and 10, got 11"),
        ({"rounds": 0}, "rounds must be at least 1, got 0"),
        ({"max_rounds": 0}, "max_rounds must be at least 1, got 0"),
        ({"step_size": -1.0}, "step_size must be finite and above 0"),
        ({"step_size": 0.0}, "step_size must be finite and above 0"),
        ({"clip_norm": -1.0}, "clip_norm must be finite and above 0"),
        ({"clip_norm": 0.0}, "clip_norm must be finite and above 0"),
        ({"decay_rounds": 0.0}, "step_decay must be finite and above 0"),
    ],
)
def test_settings_out_of_range_are_refused(how, says):
    problem = make_problem()
    with pytest.raises(InvalidInput, match=says):
        plan_by_rule(problem, make_scale(problem), **how)


def test_a_problem_without_noise_and_odd_scales_are_refused():
    problem = Problem(np.array([100]), 5, PrivacyBudget.of(1.0, 0.0, 1), "none", 1.0)
    with pytest.raises(InvalidInput, match="got a problem without noise; state rounds"):
        plan_by_rule(problem, PublicScale(1.0, 1.0, 10))
    for norms, says in (
        ((0.0, 1.0, 10), "record_norm"),
        ((1.0, 0.0, 10), "gradient_norm"),
        ((1.0, 1.0, 1), "classes"),
    ):
        with pytest.raises(InvalidInput, match=says):
            PublicScale(*norms)
