"""Trials around a winner: other counts and budgets, each with its best reach, under the winner's clip."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from endings import outcomes

from noiseworthy.methods.space import Setting
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.tasks import LinearModel
from noiseworthy.trials import landscape as module
from noiseworthy.trials.bench import Bench, Candidate
from noiseworthy.trials.deadline import Deadline
from noiseworthy.trials.facts import PublicFacts
from noiseworthy.trials.landscape import MARKS, REACHES, landscape, scaled
from noiseworthy.trials.spaces import Space

N = 6
WINNER = Candidate(Setting(passes=4.0, work=1.0, clip=0.5, reach=20.0))
SPACE = Space("fedsgd-dpc", most=20)


def facts():
    budget = PrivacyBudget.of(2.0, 1e-5, N)
    problem = Problem(np.full(N, 60), 1, budget, "gaussian", 1.0)
    return PublicFacts(
        problem,
        record_shape=(4,),
        classes=3,
        make_task=lambda shape, classes, treatment, public=None: LinearModel(
            shape[0], classes, "softmax", feature_norm=1.0
        ),
        source="iris",
        partition="iid",
    )


@pytest.fixture(scope="module")
def bench():
    return Bench(facts(), ["wine"])


@pytest.fixture(scope="module")
def points(bench):
    return landscape(bench, SPACE, WINNER, [7, 8])


@pytest.mark.full
def test_counts_and_budgets_are_those_around_the_winner(points):
    """4 passes times 1, 1/3, 3 and 1/10 of 6 clients, all asked; every budget a quarter, own, four times."""
    assert {point.plan.rounds for point in points} == {4, 1, 12}
    cells = {(point.plan.rounds, point.factor) for point in points}
    assert len(cells) == len(points) == 9
    for point in points:
        np.testing.assert_allclose(point.plan.problem.budget.epsilon, 2.0 * point.factor)
        assert np.all(point.plan.spent() <= 2.0 * point.factor * (1 + 1e-9))


@pytest.mark.full
def test_clip_and_levers_are_the_winners(points):
    assert len({point.plan.problem.clip_norm for point in points}) == 1
    assert {point.plan.momentum for point in points} == {0.0}


def test_a_point_has_the_best_reach_under_its_budget(bench, points):
    """The same trainings one by one, without the code that groups and sorts them."""
    [point] = [p for p in points if p.plan.rounds == 4 and p.factor == 4.0]
    proxy, scale = bench.proxies()[0], bench.scale()
    plans = [
        SPACE.plan(scaled(proxy.problem, 4.0), proxy.task, scale, replace(WINNER.setting, reach=20.0 * reach))
        for reach in REACHES[4.0]
    ]
    loss, accuracy = outcomes(proxy, plans, [7, 8])
    best = int(np.argmin(loss.mean(axis=1)))
    assert point.loss == pytest.approx(loss[best].mean(), rel=1e-5)
    assert point.accuracy == pytest.approx(accuracy[best].mean(), abs=1e-6)


def test_the_plans_own_passes_are_followed_round_by_round(points):
    """From the untrained loss on, to the loss that counts; other trials are scored at their end alone."""
    for point in points:
        if point.plan.rounds != 4:
            assert point.course is None
            continue
        assert point.course.shape == (1, len(MARKS))
        assert point.course[:, 0] == pytest.approx(1.0, rel=1e-5)
        assert point.course[:, -1].mean() == pytest.approx(point.loss)


def test_more_budget_loses_less(points):
    loss = {(point.plan.rounds, point.factor): point.loss for point in points}
    for rounds in (1, 4, 12):
        assert loss[rounds, 4.0] < loss[rounds, 0.25]


@pytest.mark.full
def test_the_plans_own_counts_come_first_when_time_is_short(bench):
    found = landscape(bench, SPACE, WINNER, [7], deadline=Deadline(-1.0))
    assert {point.plan.rounds for point in found} == {4}


def test_of_a_network_fewer_are_tried_each_with_one_reach(bench, monkeypatch):
    tried: list[int] = []
    courses = module.courses

    def counted(proxies, plans, *rest):
        tried.append(len(plans))
        return courses(proxies, plans, *rest)

    monkeypatch.setattr(module, "courses", counted)
    monkeypatch.setattr(Bench, "linear", False)
    found = landscape(bench, SPACE, WINNER, [7])
    assert tried == [3, 6]
    assert {(point.plan.rounds, point.factor) for point in found} == {
        (rounds, factor) for rounds in (1, 4) for factor in (0.25, 1.0, 4.0)
    }


def test_stated_counts_stay(bench):
    stated = replace(SPACE, rounds=5, step_size=1.0)
    found = landscape(bench, stated, WINNER, [7])
    assert {point.plan.rounds for point in found} == {5}
    assert {point.plan.step.initial for point in found} == {1.0}
    assert [point.factor for point in found] == [0.25, 1.0, 4.0]


@pytest.mark.full
def test_local_work_is_varied_at_the_winners_passes(bench, monkeypatch):
    monkeypatch.setattr(module, "PASSES", (1 / 3,))
    winner = Candidate(Setting(passes=3.0, work=4.0, clip=0.5, reach=5.0))
    found = landscape(bench, Space("dp-pasgd", most=60), winner, [7])
    tried = {(point.plan.rounds, point.plan.local.steps) for point in found}
    assert tried == {(3, 4), (3, 2), (3, 8), (1, 4)}
    assert {point.plan.problem.clipping for point in found} == {"A"}
