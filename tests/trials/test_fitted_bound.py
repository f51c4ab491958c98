"""Each theory's own formula is recovered from points that it generated, and a poor fit is said to be one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noiseworthy.errors import InvalidInput
from noiseworthy.methods.dp_fedavg import planner as local_iterations
from noiseworthy.methods.dp_fedavg.bound import LocalBound, UploadNoise
from noiseworthy.methods.dp_pasgd import planner as averaging_period
from noiseworthy.methods.dp_scaffnew import planner as communication_probability
from noiseworthy.methods.dpfl_bcs import planner as participation
from noiseworthy.methods.fedsgd_dpc import planner as queries_replies
from noiseworthy.methods.fedsgd_dpc.bound import RepliesBound
from noiseworthy.methods.registry import method
from noiseworthy.methods.shape import shifts
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.trials.fitted_bound import Bend, fit
from noiseworthy.trials.landscape import REACHES, TrialPoint, scaled

STEP = StepSize(0.1, np.inf)
DIMENSION, CLIP = 6, 0.5


def problem(family="gaussian", epsilon=1.0, clients=10, unit="record", mode="A"):
    epsilons = np.full(clients, epsilon) if np.isscalar(epsilon) else np.asarray(epsilon)
    delta = 0.0 if family == "laplace" else 1e-5
    budget = PrivacyBudget.of(epsilons, delta, clients, unit=unit)
    return Problem(np.full(clients, 200), DIMENSION, budget, family, CLIP, clipping=mode)


def points_of(plans, losses, scores=None):
    scores = 1 - 0.9 * np.asarray(losses) if scores is None else scores
    return [
        TrialPoint(plan, factor, float(loss), float(score))
        for (factor, plan), loss, score in zip(plans, losses, scores, strict=True)
    ]


def grid(make, facts, counts):
    return [(factor, make(scaled(facts, factor), *one)) for factor in REACHES for one in counts]


def bent(bound):
    return bound / (1 + bound)


def gamma_of(plans, place):
    """A value of gamma that the fit tries."""
    made = [plan for _, plan in plans]
    shape = method(made[0].algorithm).shape
    return float(shifts(shape.counts(made).iterations)[place])


def replies(facts, rounds, clients):
    return queries_replies.stated(facts, rounds, clients, STEP)


REPLIES = [(t, b) for t in (2, 20, 150) for b in (1, 10)]


@pytest.mark.full
@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_constants_of_the_bound_of_replies_are_recovered(family):
    plans = grid(replies, problem(family, 3.0), REPLIES)
    true = RepliesBound(gamma_of(plans, 6), sampling=3.0, rest=7.0, noise_weight=2000.0, no_training=1.0)
    values = [true.at(plan.problem, plan.rounds, plan.clients_per_round) for _, plan in plans]
    found = fit(points_of(plans, bent(np.array(values))), 0.1)
    assert found.bend == Bend(1.0, 0.0)
    expected = [true.gamma, 3.0, 7.0, 2000.0 * DIMENSION * CLIP**2]
    np.testing.assert_allclose([found.gamma, *found.weights], expected, rtol=1e-6)
    assert found.error < 1e-8
    assert found.left_out < 1e-8


@pytest.mark.full
def test_constants_of_local_steps_are_recovered():
    """Heterogeneity and start enter together where gamma does not change; drift and noise stand alone."""
    facts = problem(mode="D", unit="client")
    facts = scaled(facts, 400.0)
    counts = [(e * t, e, 10) for e in (1, 2, 4, 8) for t in (3, 12, 50)]
    plans = grid(lambda p, t, e, b: local_iterations.stated(p, t, e, b, STEP), facts, counts)
    gamma = gamma_of(plans, 10)
    true = LocalBound(gamma / 8, 1.0, 0.4, 0.05, 0.7)
    values = [
        true.at(UploadNoise.of(plan.problem), plan.rounds * plan.local.steps, plan.local.steps, 10, 10).item()
        for _, plan in plans
    ]
    found = fit(points_of(plans, bent(np.array(values))), 0.1)
    named = dict(zip(found.shape.terms, found.weights, strict=True))
    assert found.gamma == gamma
    assert named["drift"] == pytest.approx(4 * 0.4**2)
    assert named["noise_weight"] == pytest.approx(4 * 4 * DIMENSION * CLIP**2)
    assert named["heterogeneity"] + gamma * named["start"] == pytest.approx(
        4 * 6 * gamma / 8 * 0.05 + gamma * 0.7
    )


@pytest.mark.full
def test_constants_of_coins_are_recovered():
    facts = scaled(problem(mode="D", unit="client"), 50.0)
    counts = [(t, p) for t in (20, 60, 200) for p in (0.3, 0.6, 1.0)]
    plans = grid(lambda f, t, p: communication_probability.stated(f, t, p, STEP), facts, counts)
    gamma, values = gamma_of(plans, 7), []
    for _, plan in plans:
        t, p, step = plan.local.iterations, plan.local.probability, 1 / (plan.local.iterations + gamma)
        variance = np.mean(np.square(plan.noise)) / CLIP**2 / 10
        start = max(step, np.exp(-t * p**2)) * (4.0 + 9.0 * (step / p) ** 2)
        values.append(start + 0.05 * p * variance * (step / p) ** 2 / min(step, p**2))
    found = fit(points_of(plans, bent(np.array(values))), 0.1)
    np.testing.assert_allclose([found.gamma, *found.weights], [gamma, 4.0, 9.0, 0.05], rtol=1e-4)


@pytest.mark.full
def test_constants_of_periods_are_recovered():
    counts = [(k * tau, tau) for tau in (1, 3, 6) for k in (4, 12, 40)]
    plans = grid(
        lambda f, k, tau: averaging_period.stated(f, k, tau, STEP, None), problem(epsilon=3.0), counts
    )
    gamma, values = gamma_of(plans, 9), []
    for _, plan in plans:
        tau = plan.local.steps
        step, variance = 1 / (plan.rounds * tau + gamma), np.mean(np.square(plan.noise)) / CLIP**2 / 10
        drift = (tau - 1) * step**2
        values.append(4 * step + 500 * variance * step + 2 * drift + 900 * drift * variance)
    found = fit(points_of(plans, bent(np.array(values))), 0.1)
    np.testing.assert_allclose([found.gamma, *found.weights], [gamma, 4, 500, 2, 900], rtol=1e-4)


@pytest.mark.full
def test_noise_of_chosen_clients_counts_each_as_often_as_it_is_asked():
    """sum T_n V_n / (K^2 T), with the V_n that the plan's own noise has."""
    facts = problem("laplace", np.linspace(0.5, 4, 10))
    plans = grid(
        lambda f, t, k: participation.plan(f, {}, rounds=t, clients_per_round=k, step=STEP), facts,
        [(t, k) for t in (3, 10, 40) for k in (3, 6)],
    )  # fmt: skip
    gamma, values = gamma_of(plans, 5), []
    for _, plan in plans:
        variance = 2 * DIMENSION * np.square(plan.noise)
        noise = np.sum(plan.releases * variance) / (plan.clients_per_round**2 * plan.rounds)
        values.append((6.0 + 20 * noise) / (plan.rounds + gamma))
    found = fit(points_of(plans, bent(np.array(values))), 0.1)
    expected = [gamma, 0.0, 6.0, 20 * DIMENSION * CLIP**2]
    np.testing.assert_allclose([found.gamma, *found.weights], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.full
def test_a_planned_step_and_a_floor_are_found():
    plans = grid(replies, problem(epsilon=2.0), REPLIES)
    gamma = gamma_of(plans, 6)
    true = RepliesBound(gamma, sampling=0.0, rest=0.5, noise_weight=900.0, no_training=1.0)
    values = [true.at(plan.problem, plan.rounds, plan.clients_per_round).item() for _, plan in plans]
    losses = Bend(0.5, 0.0).loss(np.array(values))
    assert fit(points_of(plans, losses), 0.1).bend == Bend(0.5, 0.0)
    raised = Bend(0.5, 0.2).loss(np.array(values))
    found = fit(points_of(plans, raised), 0.1)
    assert found.error < 0.005
    np.testing.assert_allclose([found.at(plan) for _, plan in plans], raised, atol=0.02)


@pytest.mark.full
def test_a_poor_fit_is_said_to_be_one():
    """Losses that rise and fall with the rounds at random are of no theory's form."""
    plans = grid(replies, problem(epsilon=2.0), REPLIES)
    rng = np.random.default_rng(0)
    found = fit(points_of(plans, rng.uniform(0.2, 0.9, len(plans))), 0.1)
    assert found.left_out > 0.05
    assert found.quality.startswith("fits poorly")


def test_few_trials_do_not_tell_how_well_a_bound_fits():
    plans = grid(replies, problem(epsilon=2.0), [(10, 10)])
    found = fit(points_of(plans, [0.6, 0.4, 0.3]), 0.1)
    assert found.quality == "has too few trials to tell how well it fits"


@pytest.mark.full
def test_trials_without_gain_teach_nothing():
    plans = grid(replies, problem(epsilon=0.001), REPLIES)
    found = fit(points_of(plans, np.linspace(0.99, 1.4, len(plans))), 0.1)
    assert found.quality == "has nothing to be fitted to: no trial gained on the untrained model"
    assert np.all(found.of(found.trials) > 0.9)


@pytest.mark.full
def test_diverged_trials_count_as_no_gain():
    plans = grid(replies, problem(epsilon=2.0), REPLIES)
    values = np.linspace(0.2, 0.6, len(plans))
    values[-1] = np.inf
    scores = [*np.linspace(0.8, 0.4, len(plans) - 1), np.nan]
    found = fit(points_of(plans, values, scores), 0.1)
    predicted = found.of(found.trials)
    assert np.all((predicted > 0) & (predicted < 1))


def test_accuracy_falls_with_the_loss_from_one_to_the_untrained():
    plans = grid(replies, problem(epsilon=2.0), REPLIES)
    losses = np.linspace(0.3, 0.9, len(plans))
    scores = 0.9 - 0.7 * losses + np.random.default_rng(1).normal(0, 0.02, len(losses))
    found = fit(points_of(plans, losses, scores), 0.15)
    known = found.accuracy(np.linspace(0, 1.2, 200))
    assert known[0] == 1.0
    assert known[-1] == pytest.approx(0.15)
    assert np.all(np.diff(known) <= 1e-12)
    assert abs(found.accuracy(0.6) - (0.9 - 0.42)) < 0.03


@pytest.mark.full
def test_constants_say_where_they_come_from():
    plans = grid(replies, problem(), REPLIES)
    constants = fit(points_of(plans, np.linspace(0.3, 0.9, len(plans))), 0.1).constants(["wine", "digits"])
    assert list(constants) == ["gamma", "sampling", "rest", "noise_weight", "floor", "power"]
    assert {constant.provenance for constant in constants.values()} == {"fitted to trials on wine, digits"}


def test_no_trial_is_refused():
    with pytest.raises(InvalidInput, match=r"at least one trial, got none; allow other counts"):
        fit([], 0.1)


@settings(max_examples=50, deadline=None)
@given(
    power=st.sampled_from([1.0, 1 / 2, 1 / 3, 1 / 4]), floor=st.floats(0, 0.9), bound=st.floats(1e-2, 20.0)
)
def test_a_bend_rises_and_is_undone(power, floor, bound):
    bend = Bend(power, floor)
    low, high = bend.loss(np.array([bound, bound * 1.01]))
    assert floor < low < high < 1
    np.testing.assert_allclose(bend.bound(bend.loss(np.array([bound]))), bound, rtol=1e-6)
    rise = (high - low) / (0.01 * bound)
    np.testing.assert_allclose(bend.slope(np.array([(low + high) / 2])), rise, rtol=1e-3)
