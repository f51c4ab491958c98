"""Planning by trial: proxies that look like the study, noise that matches it, and the choice it makes."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noiseworthy.errors import InvalidInput
from noiseworthy.planning.plan import StepSize
from noiseworthy.planning.problem import Problem
from noiseworthy.planning.replies_bound import RepliesBound
from noiseworthy.planning.resources import Resources
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.tasks import make_task
from noiseworthy.tasks.base import Batch
from noiseworthy.trials import landscape, search
from noiseworthy.trials.facts import PublicFacts
from noiseworthy.trials.landscape import GradientScale, Setting, gradient_scale, trial_losses
from noiseworthy.trials.proxies import make_proxies, public_sources
from noiseworthy.trials.search import Choice, plan_by_trial


def facts_of(family="laplace", epsilon=5.0, sizes=(30, 60, 90, 30), source="own", **changes):
    sizes = np.array(sizes)
    budget = PrivacyBudget.of(epsilon, 1e-4 if family == "gaussian" else 0.0, len(sizes))
    facts = PublicFacts(
        problem=Problem(sizes, 12, budget, family, 1.0),
        record_shape=(4,),
        classes=3,
        make_task=lambda shape, classes: make_task("softmax", shape, classes, feature_norm=1.0),
        source=source,
        partition="iid",
    )
    return replace(facts, **changes)


@pytest.fixture(scope="module")
def proxies():
    return make_proxies(facts_of(), ["wine", "mixture"])


# Proxies ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "source", "expected"),
    [
        ((8, 8), "mnist", ["digits", "mixture"]),
        ((28, 28, 1), "own.npz", ["digits", "mixture"]),
        ((8, 8), "digits", ["breast-cancer", "wine", "mixture"]),
        ((4,), "iris", ["breast-cancer", "wine", "mixture"]),
        ((13,), "wine", ["breast-cancer", "mixture"]),
        ((8,), "two-classes.csv", ["breast-cancer", "diabetes", "mixture"]),
        ((10,), "diabetes", ["breast-cancer", "mixture"]),
    ],
)
def test_what_stands_in_is_of_the_same_kind_and_never_the_data_themselves(shape, source, expected):
    classes = 2 if "diabetes" in (source, *expected) else 10
    facts = replace(facts_of(record_shape=shape, source=source), classes=classes)
    assert public_sources(facts) == expected


def test_a_proxy_has_the_clients_of_the_study_and_its_start(proxies):
    for proxy in proxies:
        assert proxy.clients == 4
        assert proxy.untrained_loss == pytest.approx(np.log(3), rel=1e-5)
        np.testing.assert_array_equal(proxy.sizes, np.asarray(proxy.shards.train.mask).sum(axis=1))
    assert [proxy.name for proxy in proxies] == ["wine", "mixture"]
    assert proxies[1].task.dimension == 12
    assert proxies[0].task.dimension == 39


def test_large_federations_are_tried_with_fifty_clients():
    (proxy,) = make_proxies(facts_of(sizes=[10] * 120), ["mixture"])
    assert proxy.clients == 50


def test_images_are_resized_to_the_shape_of_the_study():
    facts = facts_of(record_shape=(6, 5))
    (proxy,) = make_proxies(facts, ["digits"])
    assert proxy.task.dimension == 6 * 5 * 10


def test_the_skew_of_labels_is_kept_as_a_share_of_the_classes():
    """One of three classes for each client becomes three of ten."""
    facts = facts_of(partition="label-shards", settings={"labels_per_client": 1})
    (proxy,) = make_proxies(facts, ["digits"])
    labels, mask = np.asarray(proxy.shards.train.y), np.asarray(proxy.shards.train.mask) > 0
    assert {len(np.unique(y[m])) for y, m in zip(labels, mask, strict=True)} == {3}


@pytest.mark.parametrize(
    ("source", "public"),
    [
        ("wine", ["wine"]),
        ("mnist-writers", ["digits", "mnist"]),
        ("mnist", ["mnist-writers"]),
        ("cifar10", ["cifar10-jpeg"]),
    ],
)
def test_the_private_data_are_never_public(source, public):
    with pytest.raises(InvalidInput, match=r"is the private data of this study .* \[planning\] public"):
        make_proxies(facts_of(source=source), public)


# Noise of trials ----------------------------------------------------------------------------------------


@given(
    epsilon=st.lists(st.floats(0.1, 20), min_size=4, max_size=4),
    sizes=st.lists(st.integers(1, 900), min_size=4, max_size=4),
    releases=st.integers(1, 40),
    family=st.sampled_from(["laplace", "gaussian"]),
    cohort=st.integers(1, 4),
)
def test_an_aggregate_of_a_trial_carries_the_noise_of_the_private_aggregate(
    epsilon, sizes, releases, family, cohort, proxies
):
    """Variance per coordinate of (N/b) sum_P a_i w_i over cohorts: (N/b) sum a_i^2 V_i (theory 0.7)."""
    facts = facts_of(family, np.array(epsilon), sizes)
    size = landscape._unit_noise(facts, proxies[0], releases)
    moment = 2 if family == "laplace" else 1
    trial = cohort * (1 / cohort) ** 2 * moment * size**2
    own = facts.problem.release(np.full(4, releases)).mechanism.variance
    private = 4 / cohort * np.sum((np.array(sizes) / sum(sizes)) ** 2 * own)
    assert trial == pytest.approx(private, rel=1e-9)


def test_trials_share_a_clip_and_scale_their_noise_with_it(proxies):
    schedule = landscape._schedule(4, 2, 5, seed=1, horizon=9)
    trial = landscape._trial(facts_of(), proxies[0], Setting(StepSize(0.5), 0.25), 0.8, 5, schedule)
    np.testing.assert_allclose(trial.divisors, proxies[0].sizes)
    np.testing.assert_allclose(trial.noise, 0.2)
    np.testing.assert_allclose(trial.weights, 0.5)
    assert float(trial.clip_norm) == 0.25
    assert trial.cohorts.shape == (9, 2)
    assert trial.steps.shape == (9,)
    assert np.all(trial.steps[5:] == 0)


def test_losses_are_shares_of_the_untrained_loss_and_infinite_where_diverged(proxies):
    settings = [Setting(StepSize(1e-9), 1.0), Setting(StepSize(10.0), 1.0), Setting(StepSize(1e38), 1e3)]
    quiet = facts_of(epsilon=1e6)
    losses = trial_losses(quiet, proxies[1], 6, 4, settings, [0, 1], 6)
    assert losses.shape == (3, 2)
    np.testing.assert_allclose(losses[0], 1.0, rtol=1e-5)
    assert np.all(losses[1] < 0.95)
    assert np.all(np.isinf(losses[2]))


def test_more_noise_makes_trials_worse(proxies):
    settings = [Setting(StepSize(10.0), 1.0)]
    quiet, loud = (
        trial_losses(facts_of(epsilon=epsilon), proxies[1], 6, 4, settings, range(6), 6).mean()
        for epsilon in (1000.0, 1.0)
    )
    assert quiet < 0.95
    assert loud > quiet + 0.1


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_the_gradient_scale_is_the_mean_norm_of_public_records(norm, proxies):
    """Softmax at 0: the gradient of a record is x outer (1/K - onehot)."""
    proxy = proxies[1]
    x, y = np.asarray(proxy.shards.of(0).x)[:64], np.asarray(proxy.shards.of(0).y)[:64]
    gradients = [
        np.outer(r, np.full(3, 1 / 3) - np.eye(3)[label]).ravel() for r, label in zip(x, y, strict=True)
    ]
    expected = np.mean([np.linalg.norm(g, 1 if norm == "l1" else 2) for g in gradients])
    scale = gradient_scale([proxy], norm)
    assert scale.clip == pytest.approx(expected, rel=1e-3)
    assert scale.l2 == pytest.approx(np.mean([np.linalg.norm(g) for g in gradients]), rel=1e-3)
    both = gradient_scale([proxy, replace(proxy, task=Doubled(proxy.task))], norm)
    assert both.clip == pytest.approx(np.sqrt(2) * expected, rel=1e-3), "geometric mean over proxies"


class Doubled:
    """A task whose gradients are twice as long."""

    def __init__(self, task):
        self.task, self.initial = task, task.initial

    def clipped_gradient_sum(self, theta, batch, clip_norm, norm):
        return 2 * self.task.clipped_gradient_sum(theta, batch, clip_norm, norm)


# Search -------------------------------------------------------------------------------------------------


FREE = Choice(None, None, 500, None, 50.0, None)


def test_settings_span_clips_below_the_gradient_and_steps_by_first_order_gain():
    settings = search._settings(FREE, GradientScale(2.0, 0.5))
    clips = sorted({s.clip_norm for s in settings})
    np.testing.assert_allclose(clips, 2.0 * np.array(sorted(search.CLIPS)))
    assert len(settings) == len(search.CLIPS) * len(search.GAINS)
    gains = [s.step.initial * min(1, s.clip_norm / 2.0) * 0.25 for s in settings]
    np.testing.assert_allclose(gains, np.tile(search.GAINS, len(search.CLIPS)))
    assert search._settings(replace(FREE, clip_norm=0.7, step_size=0.2), GradientScale(2.0, 0.5)) == [
        Setting(StepSize(0.2, 50.0), 0.7)
    ]


@given(clients=st.integers(1, 50), share=st.floats(0.02, 1.0), most=st.integers(1, 2000))
def test_rounds_on_trial_never_exceed_the_most_allowed_and_start_within_one_pass(clients, share, most):
    cohort = max(1, round(share * clients))
    proxy = type("P", (), {"clients": clients})
    grid = search._round_grid(proxy, cohort, most)
    assert grid == sorted(set(grid))
    assert grid[0] >= 1
    assert grid[-1] <= most
    assert grid[0] * cohort <= clients + cohort


def test_the_lost_gain_of_trials_is_relative_to_the_best_of_each_proxy():
    losses = np.array([[[0.5, 0.75], [1.0, np.inf]]])  # one proxy, two rounds, two settings
    np.testing.assert_allclose(search._lost_gain(losses), [[[0.0, 0.5], [1.0, 2.0]]])


def test_a_cohort_keeps_its_share_of_the_clients():
    problem = facts_of(sizes=[10] * 120).problem
    proxy = type("P", (), {"clients": 50})
    assert [search._cohort(problem, proxy, b) for b in (1, 12, 60, 120)] == [1, 5, 25, 50]


@pytest.fixture(scope="module")
def small_choice():
    return Choice(None, None, 6, 1.0, 50.0, 0.3)


def test_hopeless_noise_ends_in_do_not_train(proxies, small_choice):
    choice = replace(small_choice, clients_per_round=4)
    found = plan_by_trial(facts_of(epsilon=1e-3), proxies[1:], choice, seeds=2)
    assert min(point.loss for point in found.points) > np.log(3)
    assert not found.plan.train
    assert found.plan.releases.tolist() == [0] * 4
    assert found.plan.outcome.startswith("Do not train")


def test_a_hopeful_fit_does_not_overrule_trials_that_gained_nothing(proxies, small_choice, monkeypatch):
    hopeful = RepliesBound(1.0, 0.0, 0.1, 0.0, no_training=float(np.log(3)))
    monkeypatch.setattr(search, "fit_replies_bound", lambda points, untrained: (hopeful, 0.0))
    found = plan_by_trial(facts_of(epsilon=1e-3), proxies[1:], small_choice, seeds=2)
    assert min(point.loss for point in found.points) > np.log(3)
    assert not found.plan.train


def test_a_spread_is_told_only_where_clip_and_step_raced(proxies, small_choice):
    fixed = replace(small_choice, step_size=1.0, clip_norm=0.5)
    assert plan_by_trial(facts_of(), proxies[1:], fixed, seeds=1).spread is None
    free = replace(fixed, step_size=None)
    assert plan_by_trial(facts_of(), proxies[1:], free, seeds=1).spread >= 0


def test_ample_budget_trains_within_the_rounds_allowed_and_within_the_budget(proxies, small_choice):
    told = []
    found = plan_by_trial(facts_of(epsilon=50.0), proxies, small_choice, 2, told.append)
    plan = found.plan
    assert plan.train
    assert 1 <= plan.rounds <= 6
    assert np.all(plan.spent() <= 50.0)
    assert plan.prediction.bound < plan.prediction.no_training
    assert told == sorted(told)
    assert told[-1] == 1.0
    best = min(point.loss for point in found.points)
    assert found.bound.at(plan.problem, plan.rounds, plan.clients_per_round) == pytest.approx(best, rel=0.25)


def test_what_is_fixed_stays_fixed(proxies):
    choice = Choice(3, 2, 6, 0.5, 20.0, 0.4)
    plan = plan_by_trial(facts_of(epsilon=20.0), proxies[1:], choice, seeds=2).plan
    assert (plan.rounds, plan.clients_per_round) == (3, 2)
    assert plan.step == StepSize(0.5, 20.0)
    assert plan.problem.clip_norm == 0.4


def test_planning_again_gives_the_same_plan(proxies, small_choice):
    one, again = (plan_by_trial(facts_of(), proxies, small_choice, seeds=2) for _ in range(2))
    assert one.plan.as_dict() == again.plan.as_dict()
    assert one.points == again.points


def test_proxies_that_disagree_are_said_to():
    notes = search._notes("a, b", 0.02, 0.3)
    assert "no private record was read" in notes[0]
    assert "one of them this choice loses 30%" in notes[1]
    assert len(search._notes("a, b", 0.02, 0.05)) == 1


def test_the_proxy_mask_keeps_padding_out_of_the_gradient_scale(proxies):
    """The first 64 rows of client 0 are records, not padding."""
    shard: Batch = proxies[0].shards.of(0)
    assert float(jnp.sum(shard.mask[:64])) == min(64, proxies[0].sizes[0])
    assert isinstance(shard.x, jax.Array)


# Within resources ---------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(data=st.data(), clients=st.integers(1, 120), paid=st.integers(1, 30), seed=st.integers(0, 1000))
def test_only_what_the_resources_pay_for_is_tried_and_chosen(data, clients, paid, seed):
    """With trial losses drawn at random, so that any cell may win; replies cost 3 and a client has 3 k."""
    resources, n = Resources.of(2.0, 1.0, 3.0 * paid, clients), min(clients, 50)
    facts = facts_of(sizes=(30,) * clients)
    facts = replace(facts, problem=replace(facts.problem, resources=resources))
    b = data.draw(st.one_of(st.none(), st.integers(1, clients)))
    t = data.draw(st.one_of(st.none(), st.integers(1, paid * clients // (b or 1))))
    rng, tried = np.random.default_rng(seed), []

    def drawn(facts, proxy, rounds, cohort, settings, seeds, horizon):
        tried.append((rounds, cohort))
        return rng.uniform(0, 1.2, (len(settings), len(seeds)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "trial_losses", drawn)
        patch.setattr(search, "gradient_scale", lambda *_: GradientScale(1.0, 1.0))
        choice = Choice(t, b, 100, None, 50.0, 0.5)
        plan = plan_by_trial(facts, [SimpleNamespace(clients=n, name="x")], choice, seeds=1).plan
    assert plan.cost is not None
    assert plan.cost.max() <= 3.0 * paid
    assert plan.cost.max() == 3.0 * -(-plan.rounds * plan.clients_per_round // clients)
    for rounds, cohort in tried:  # a fixed b, or one client, may be no whole share of the proxy's clients
        assert cohort == 1 or b is not None or -(-rounds * cohort // n) <= paid
    assert not plan.train or (t in (None, plan.rounds) and b in (None, plan.clients_per_round))
