"""What the grid claims: it tries what it says, its best is an inner one, and no other is much better."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import oracle
from noiseworthy.data import load_federation
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.tasks import make_task
from oracle import Point, best_of_lines, judge, scale_of, search
from quality import Arena, lost_gain, score

pytestmark = pytest.mark.full

SCORING = range(50, 54)


def arena_of(family="laplace", source="wine", model="softmax", clients=4, **options):
    fed = load_federation(source, clients=clients, partition="iid", seed=0)
    task = make_task(model, fed.record_shape, fed.classes, **options)
    budget = PrivacyBudget.of(20.0, 0.0 if family == "laplace" else 1e-5, clients)
    return Arena.of(fed, task, Problem(fed.sizes, task.dimension, budget, family, 1.0))


@pytest.fixture(scope="module")
def arena():
    return arena_of(clients=2, feature_norm=1.0, normalise=True)


@pytest.fixture(scope="module")
def tried(arena):
    shares: list[float] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(oracle, "ROUNDS", (1, 4, 20))
        tried = search(arena, range(2), shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    return tried


@pytest.fixture(scope="module")
def found(arena, tried):
    return judge(arena, tried, SCORING)


def test_points_are_sorted_paid_for_and_of_all_cohorts(tried):
    losses = [one.loss for one in tried]
    assert losses == sorted(losses)
    assert {one.point.clients for one in tried} == {1, 2}
    assert all(one.point.clients * one.point.rounds <= 2 * 100 for one in tried)
    assert len({one.point for one in tried}) == len(tried)


def test_the_best_step_of_a_clip_of_the_grid_has_worse_neighbours_on_both_sides(tried, arena):
    clips = [clip * scale_of(arena).clip for clip in oracle.CLIPS]
    first = next(one for one in tried if one.point.clip in clips)
    steps = [one.point.step for one in tried if one.point[:3] == first.point[:3]]
    assert min(steps) < first.point.step < max(steps)


def test_finalists_are_the_best_of_unlike_lines_and_score_as_their_plans_do(found, tried, arena):
    lines = {point[:3]: point for point in found.finalists}
    assert len(lines) == len(found.finalists) == 12
    for line, point in lines.items():
        assert point == min((one for one in tried if one.point[:3] == line), key=lambda one: one.loss).point
    assert found.finalists[0] == tried[0].point == best_of_lines(tried[::-1])[0].point
    for point, own in [*zip(found.finalists, found.scores, strict=True)][:2]:
        again = score(arena, point.plan(arena), SCORING)
        np.testing.assert_allclose(own.loss, again.loss, rtol=1e-4)
        np.testing.assert_allclose(own.accuracy, again.accuracy, atol=0.03)


def test_the_best_is_the_finalist_of_least_mean_loss(found, arena):
    assert found.best_loss == min(np.mean(one.loss) for one in found.scores)
    assert found.best_loss < arena.untrained_loss - 0.1


def test_no_setting_drawn_at_random_is_much_better(found, arena):
    rng, scale = np.random.default_rng(1), scale_of(arena)
    for _ in range(6):
        clip = scale.clip * 10 ** rng.uniform(-1, 0)
        point = Point(4, 2, clip, found.finalists[0].step * 3 ** rng.uniform(-2, 2))
        loss = score(arena, point.plan(arena), SCORING).loss.mean()
        assert lost_gain(loss, found.best_loss, arena.untrained_loss) > -0.05


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_scales_are_those_of_plain_numpy(family):
    arena = arena_of(family, "diabetes", "logistic")
    x, y, mask = (np.asarray(leaf[:, :20], float) for leaf in arena.shards.train)
    slopes = 0.5 - y  # of the logistic loss at zero
    gradients = (slopes[..., None] * x)[mask > 0]
    order = 1 if family == "laplace" else 2
    expected = (
        np.sqrt(np.mean(np.sum(x[mask > 0] ** 2, axis=1))),
        np.linalg.norm(gradients, axis=1).mean(),
        np.linalg.norm(gradients, order, axis=1).mean(),
    )
    np.testing.assert_allclose(scale_of(arena), expected, rtol=1e-5)


def test_the_natural_step_makes_noise_move_an_output_by_a_slope():
    arena = arena_of(source="digits", feature_norm=1.0, normalise=True)
    arena = replace(arena, problem=replace(arena.problem, budget=PrivacyBudget.of(0.5, 0.0, 4)))
    scale = scale_of(arena)
    trial = oracle._Trial.of(arena, 10, 4, (0,))
    step = oracle._Grid(arena, scale, (0,)).natural_step(trial, 0.3)
    noise = trial.units[0].noise * 0.3  # Laplace scale of each client
    variance = 10 * np.mean(2 * noise**2) / 4 * step**2  # about: ten rounds, four clients
    assert np.sqrt(variance) == pytest.approx(scale.gradient, rel=0.2)


def test_a_grid_of_gaussian_noise_goes_to_two_hundred_uploads():
    arena = arena_of()
    for family, most in (("laplace", 100), ("gaussian", 200)):
        noisy = replace(arena, problem=replace(arena.problem, family=family))
        grid = oracle._Grid(noisy, scale_of(arena), (0,))
        assert max(grid.rounds(4)) == most
        assert 500 in grid.rounds(1) or family == "laplace"
        assert set(grid.rounds(2)) < set(oracle.ROUNDS)
