"""Costs and budgets of clients: sums per client, and the most that all of them can pay for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noiseworthy.errors import InvalidInput
from noiseworthy.plans.local_work import Coins, LocalSteps
from noiseworthy.plans.plan import Plan
from noiseworthy.plans.problem import Problem
from noiseworthy.plans.resources import Resources
from noiseworthy.privacy.budget import PrivacyBudget

COSTS = st.one_of(st.just(0.0), st.floats(0.01, 100))
ROW = st.tuples(COSTS, COSTS, st.floats(0.5, 1e4)).filter(lambda row: row[0] + row[1] > 0)
CLIENTS = st.lists(ROW, min_size=1, max_size=4)
SLACK = 1 + 1e-9


def of(rows) -> Resources:
    c1, c2, budget = (list(column) for column in zip(*rows, strict=True))
    return Resources.of(c1, c2, budget, len(rows))


def pays(rows, communications: float, steps: float, slack: float = SLACK) -> bool:
    return all(c1 * communications + c2 * steps <= budget * slack for c1, c2, budget in rows)


@given(rows=CLIENTS, communications=st.integers(0, 200), steps=st.integers(0, 500))
def test_what_is_affordable_is_what_every_client_can_pay(rows, communications, steps):
    affords = bool(of(rows).affords(communications, steps))
    assert pays(rows, communications, steps, 1 - 1e-9) <= affords <= pays(rows, communications, steps)


@given(rows=CLIENTS, steps=st.integers(1, 50))
def test_the_most_rounds_are_paid_for_and_one_more_is_not(rows, steps):
    most = of(rows).most_rounds(steps)
    assert pays(rows, most, most * steps)
    assert not pays(rows, most + 1, (most + 1) * steps, 1 - 1e-9)


@given(rows=CLIENTS)
def test_the_most_steps_leave_one_communication(rows):
    most = of(rows).most_steps()
    if most == np.inf:
        assert all(c2 == 0 for _, c2, _ in rows)
        return
    assert most < 0 or pays(rows, 1, most)
    assert not pays(rows, 1, most + 1, 1 - 1e-9)


@given(rows=CLIENTS, p=st.floats(1e-3, 1))
def test_the_most_iterations_are_paid_for_on_average_and_one_more_is_not(rows, p):
    most = of(rows).most_iterations(p)
    assert pays(rows, p * most, most)
    assert not pays(rows, p * (most + 1), most + 1, 1 - 1e-9)


@given(rows=CLIENTS, t=st.integers(0, 1000))
def test_the_most_probability_is_paid_for_and_a_larger_one_is_not(rows, t):
    p = float(of(rows).most_probability(t))
    assert 0 <= p <= 1
    if p > 0:
        assert pays(rows, p * t, t)
    if p < 1:
        assert not pays(rows, (p + 1e-6) * t, t, 1 - 1e-12)


def test_a_budget_that_pays_for_no_round_is_refused_with_the_poorest_client():
    with pytest.raises(InvalidInput, match=r"which costs 12 joules, got 11 for client 1; raise the budget"):
        Resources.of([1.0, 10.0], 2.0, [11.0, 11.0], 2, "joules").check_pays()
    Resources.of([1.0, 10.0], 2.0, [11.0, 12.0], 2).check_pays()


@pytest.mark.parametrize(
    ("of", "says"),
    [
        ((-1.0, 1.0, 5.0), r"^\[resources\] cost_per_round must be finite and at least 0, got -1"),
        ((1.0, float("inf"), 5.0), r"^\[resources\] cost_per_step must be finite and at least 0"),
        ((1.0, 1.0, 0.0), r"\[resources\] budget must be finite and above 0, got 0"),
        ((0.0, 0.0, 5.0), "must not both be 0, got 0 for client 0"),
        (([1.0] * 3, 1.0, 5.0), r"^\[resources\] cost_per_round must be one number or a list of 2"),
    ],
)
def test_costs_that_make_no_sense_are_refused(of, says):
    with pytest.raises(InvalidInput, match=says):
        Resources.of(*of, clients=2)


@pytest.mark.parametrize("local", [None, LocalSteps(3), Coins(0, 0.5)])
def test_a_plan_that_does_not_train_costs_nothing(local):
    budget = PrivacyBudget.of(1.0, 0.0, 2)
    problem = Problem(np.array([5, 5]), 3, budget, "laplace", 1.0, resources=Resources.of(2.0, 1.0, 9.0, 2))
    idle = Plan("x", "x", problem, 0, 0, np.zeros(2, np.int64), None, None, {}, "no", local=local)
    assert idle.cost is not None
    assert idle.cost.tolist() == [0.0, 0.0]
    assert idle.as_dict()["cost"] == 0.0
