"""A bound is called vacuous exactly where it recommends training at no epsilon: brute force without noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from noiseworthy.methods.dp_fedavg import planner as local_iterations
from noiseworthy.methods.dp_fedavg.bound import PowerLaw, local_bound
from noiseworthy.methods.dp_pasgd import planner as averaging_period
from noiseworthy.methods.dpfl_bcs import planner as participation
from noiseworthy.methods.fedsgd_dpc import planner as queries_replies
from noiseworthy.methods.fedsgd_dpc.bound import theory_bound
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Constant, Problem
from noiseworthy.privacy.budget import PrivacyBudget

EPSILONS = (0.1, 10.0, 1e6)
POSITIVE = st.floats(0.01, 100.0)


def as_constants(**values: float) -> dict[str, Constant]:
    return {name: Constant(value, "assumed") for name, value in values.items()}


def make_problem(epsilon: float, family="laplace", clients=4) -> Problem:
    delta = 1e-5 if family == "gaussian" else 0.0
    return Problem(np.full(clients, 50), 3, PrivacyBudget.of(epsilon, delta, clients), family, 1.0)


@st.composite
def convex_constants(draw):
    mu = draw(st.floats(0.05, 2.0))
    return as_constants(
        smoothness=mu * draw(st.floats(1.0, 10.0)),
        strong_convexity=mu,
        gradient_bound=draw(POSITIVE),
        initial_distance_sq=draw(POSITIVE),
        heterogeneity=draw(st.floats(0.0, 20.0)),
    )


@settings(max_examples=60, deadline=None)
@given(constants=convex_constants(), most=st.integers(1, 60))
def test_vacuous_replies_recommend_no_rounds_at_any_epsilon(constants, most):
    start, t = constants["initial_distance_sq"].value, np.arange(1, most + 1)[:, None]
    quiet = theory_bound(make_problem(1.0), constants)
    least = replace(quiet, noise_weight=0.0).at(make_problem(1.0), t, np.arange(1, 5)).min()
    assume(abs(least / start - 1) > 1e-9)
    for epsilon in EPSILONS:
        problem = make_problem(epsilon)
        bound = theory_bound(problem, constants)
        made = queries_replies.plan(problem, bound, constants, max_rounds=most)
        assert made.prediction is not None
        assert made.prediction.vacuous == (least >= start)
        if made.prediction.vacuous:
            assert bound.at(problem, t, np.arange(1, 5)).min() >= start
            assert not made.train
            assert "the bound is vacuous here" in made.outcome


def test_the_proof_of_the_limit_on_rounds():
    """U(T) >= gamma (4 Gamma/mu + Y0)/(T + gamma), so that U < Y0 needs T > gamma 4 Gamma/(mu Y0)."""
    values = {"smoothness": 2.0, "strong_convexity": 0.5, "gradient_bound": 1.0, "initial_distance_sq": 3.0}
    constants = as_constants(**values, heterogeneity=6.0)
    limit = 2 * 2.0 / 0.5 * 4 * 6.0 / (0.5 * 3.0)
    problem = make_problem(1e9)
    bound = theory_bound(problem, constants)
    for most, says in ((int(limit), True), (int(limit) + 1, False)):
        made = queries_replies.plan(problem, bound, constants, max_rounds=most)
        assert made.as_dict()["predicted"]["vacuous"] is says
        assert made.train is not says
    refused = queries_replies.plan(problem, bound, constants, max_rounds=100).outcome
    assert "nothing below 128 rounds, of which 100 are allowed" in refused
    assert "leave [constants] out to plan by trial on public data" in refused
    assert 'source = "rule"' in refused


def test_stated_rounds_are_judged_by_themselves():
    values = {"smoothness": 2.0, "strong_convexity": 0.5, "gradient_bound": 1.0, "initial_distance_sq": 3.0}
    constants, problem = as_constants(**values, heterogeneity=6.0), make_problem(1e9)
    made = queries_replies.plan(
        problem, theory_bound(problem, constants), constants, rounds=100, max_rounds=500
    )
    assert not made.train
    assert made.prediction is not None
    assert made.prediction.vacuous


@settings(max_examples=40, deadline=None)
@given(constants=convex_constants(), most=st.integers(1, 40))
def test_vacuous_local_steps_recommend_nothing_at_any_epsilon(constants, most):
    start, bound = constants["initial_distance_sq"].value, local_bound(constants)
    cells = [(t, e) for t in range(1, most + 1) for e in range(1, t + 1) if t % e == 0]
    t, e = np.array(cells).T
    least = bound.at(PowerLaw(0.0, 0.0), t[:, None], e[:, None], np.arange(1, 5), 4).min()
    assume(abs(least / start - 1) > 1e-9)
    for epsilon in EPSILONS:
        problem = make_problem(epsilon).clipped_as("C")
        made = local_iterations.plan(problem, bound, constants, max_iterations=most)
        assert made.prediction is not None
        assert made.prediction.vacuous == (least >= start)
        assert not (made.prediction.vacuous and made.train)


@settings(max_examples=40, deadline=None)
@given(
    ratio=st.floats(1.0, 20.0), variance=st.floats(0.0, 50.0), gap=st.floats(0.01, 5.0),
    tau=st.none() | st.integers(1, 3),
)  # fmt: skip
def test_vacuous_averaging_recommends_nothing_at_any_epsilon(ratio, variance, gap, tau):
    values = {"smoothness": ratio, "strong_convexity": 1.0, "gradient_variance": variance, "initial_gap": gap}
    step, constants = StepSize(0.1 / ratio, float("inf")), as_constants(**values)
    quiet = make_problem(1.0, "none")
    least = averaging_period.plan(quiet, constants, step=step, local_steps=tau, max_iterations=30).prediction
    assert least is not None
    assert not (least.vacuous and least.bound < gap)
    for epsilon in EPSILONS:
        problem = make_problem(epsilon, "gaussian")
        made = averaging_period.plan(problem, constants, step=step, local_steps=tau, max_iterations=30)
        assert made.prediction is not None
        assert made.prediction.vacuous == least.vacuous
        assert not (made.train and least.vacuous)
        assert ("vacuous here" in made.outcome) == least.vacuous
    quiet_plan = averaging_period.plan(quiet, constants, step=step, local_steps=tau, max_iterations=30)
    assert quiet_plan.train is not least.vacuous


@settings(max_examples=40, deadline=None)
@given(
    gammas=st.lists(st.floats(0.0, 5.0), min_size=3, max_size=3), rounds=st.integers(1, 5),
    clients=st.integers(1, 3), start=st.floats(0.01, 20.0),
)  # fmt: skip
def test_vacuous_participation_gains_nothing_with_any_counts(gammas, rounds, clients, start):
    values = {"smoothness": 2.0, "strong_convexity": 0.5, "initial_distance_sq": start}
    counts = [
        c for c in np.ndindex(rounds + 1, rounds + 1, rounds + 1) if sum(c) == clients * rounds
    ]  # fmt: skip
    problem = make_problem(1e12, clients=3)
    constants = as_constants(**values)
    made = participation.plan(
        problem, constants, rounds=rounds, clients_per_round=clients, heterogeneity=gammas
    )
    bound = participation.participation_bound(problem, constants, np.array(gammas), rounds, clients)
    assert bound is not None
    assert made.prediction is not None
    silent = replace(bound, variance=np.zeros(3))
    least = min(silent.at(c) for c in counts)
    assert bound.quiet(np.full(3, rounds)) == pytest.approx(least)
    assume(abs(least / bound.no_training - 1) > 1e-9)
    assert made.prediction.vacuous == (least >= bound.no_training)
    assert ("vacuous here" in made.outcome) == made.prediction.vacuous
