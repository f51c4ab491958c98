"""What algorithms leave free: plans that the budget pays for, fixed values as they are, steps of a reach."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noiseworthy.errors import InvalidInput, UnsoundClaim
from noiseworthy.methods.conditions import smoothness_of
from noiseworthy.methods.fedsgd_dpc.method import MOST_TRAVEL
from noiseworthy.methods.space import GradientScale, Setting
from noiseworthy.plans.local_work import Coins, LocalSteps, NoisySteps
from noiseworthy.plans.resources import Resources
from noiseworthy.privacy.trust import Trust
from noiseworthy.trials.spaces import Space
from noiseworthy.trials.treatment import treatments

GAUSSIAN = (
    "fedsgd-dpc", "dp-fedavg", "dp-scaffnew", "dp-pasgd", "dpfl-bcs", "mr-mtl", "dpsgd", "weiavg",
    "privatefl",
)  # fmt: skip
LAPLACE = ("fedsgd-dpc", "dp-fedavg", "dpfl-bcs", "dmldp", "weiavg", "mr-mtl")
EVERY = [*(("gaussian", name) for name in GAUSSIAN), *(("laplace", name) for name in LAPLACE)]
SCALE = GradientScale(1.3, 0.64, 0.5)

counts = st.builds(
    Setting,
    passes=st.floats(0.01, 300),
    work=st.floats(0.01, 20),
    clip=st.floats(0.01, 5),
    reach=st.floats(0.01, 1000),
    decay=st.sampled_from([0.15, 0.5, np.inf]),
    momentum=st.floats(0, 0.95),
    averaging=st.floats(0, 0.9),
)


@pytest.mark.parametrize(("most", "work"), [(20, 10.0), (5, 20.0), (200, 3.0)])
def test_no_more_iterations_are_tried_than_a_study_allows(facts_of, most, work):
    """Local steps count, too: 25 replies of ten steps are 250 iterations."""
    facts, space = facts_of(), Space("dp-fedavg", most=most)
    plan = space.plan(facts.problem, task_of(facts), SCALE, Setting(300.0, work, 1.0, 1.0))
    assert 1 <= plan.local.counts(plan.rounds).sum() <= most


def test_a_stated_probability_of_communication_is_taken_though_none_so_small_is_tried(facts_of):
    facts, task = facts_of(), task_of(facts_of())

    def made(space, work):
        return space.plan(facts.problem, task, SCALE, Setting(5.0, work, 1.0, 1.0)).local.probability

    assert made(Space("dp-scaffnew", rounds=40_000, work=2e-4), 2e-4) == 2e-4
    assert made(Space("dp-scaffnew", rounds=40_000), 2e-4) == 1e-3


RELEASES = st.tuples(
    st.sampled_from([0.5, 2.0]),
    st.lists(st.integers(1, 30), min_size=4, max_size=4).map(np.array),
    st.sampled_from([None, 2, 3, 4]),
    st.sampled_from([None, np.array([1.0, 2.0, 3.0, 4.0]), np.ones(4)]),
)


@pytest.mark.parametrize("trust", ["local", "secure-sum"])
@given(asked=st.lists(RELEASES, min_size=2, max_size=6))
@settings(max_examples=25)
def test_what_a_problem_keeps_is_what_a_fresh_one_makes(facts_of, trust, asked):
    """Clips, counts, cohorts and weights, asked for twice in any order, each get the noise of their own."""
    kept = replace(facts_of().problem, trust=Trust(trust))
    for clip, releases, cohort, weights in asked * 2:
        own = kept.clipped_as("D").clipped_at(clip)
        assert own is kept.clipped_as("D").clipped_at(clip)
        fresh = replace(own)
        noise = own.release(releases, cohort, weights).mechanism.size
        assert np.array_equal(noise, fresh.release(releases, cohort, weights).mechanism.size)


def task_of(facts):
    return facts.make_task(facts.record_shape, facts.classes, None)


@pytest.mark.parametrize(("family", "algorithm"), EVERY)
@given(setting=counts, epsilon=st.floats(0.05, 50), paid=st.integers(1, 60))
@settings(max_examples=25)
def test_every_plan_of_a_space_spends_at_most_the_budget_and_the_resources(
    facts_of, family, algorithm, setting, epsilon, paid
):
    problem = facts_of(family, epsilon, (30, 60, 20, 50)).problem
    problem = replace(problem, resources=Resources.of(1.0, 0.0, float(paid), 4))
    space = Space(algorithm, most=200)
    if algorithm not in ("dp-fedavg", "dp-scaffnew", "dp-pasgd"):
        setting = replace(setting, work=min(1.0, setting.work))
    try:
        plan = space.plan(problem, task_of(facts_of()), SCALE, setting)
    except (InvalidInput, UnsoundClaim):
        return
    assert np.all(plan.spent() <= epsilon)
    assert plan.cost is not None
    assert plan.cost.max() <= paid
    assert 1 <= plan.rounds <= 200
    iterations = plan.local.counts(plan.rounds).sum() if plan.local is not None else plan.rounds
    assert iterations <= 200
    assert plan.problem.clip_norm > 0


@pytest.mark.full
@pytest.mark.parametrize(("family", "algorithm"), EVERY)
def test_the_first_grid_holds_plans_that_ample_resources_allow(facts_of, family, algorithm):
    facts, space = facts_of(family, 5.0), Space(algorithm, most=200)
    allowed = 0
    for setting in space.first():
        with contextlib.suppress(InvalidInput, UnsoundClaim):
            allowed += space.plan(facts.problem, task_of(facts), SCALE, setting).train
    assert allowed >= 0.8 * len(space.first())


@pytest.mark.parametrize(("family", "algorithm"), EVERY)
@given(setting=counts)
@settings(max_examples=10)
def test_what_is_fixed_stays_fixed(facts_of, space_of, family, algorithm, setting):
    facts = facts_of(family)
    space = space_of(algorithm, rounds=12, work=3, clip_norm=0.7, step_size=0.01, averaging=0.25)
    if algorithm == "dp-scaffnew":
        space = replace(space, work=0.5)
    plan = space.plan(facts.problem, task_of(facts), SCALE, replace(setting, work=space.work or 1))
    assert plan.problem.clip_norm == 0.7
    assert plan.step.initial == 0.01
    assert (plan.momentum, plan.averaging) == (0.0, 0.25)
    if isinstance(plan.local, Coins):
        assert (plan.local.iterations, plan.local.probability) == (12, 0.5)
    elif isinstance(plan.local, LocalSteps | NoisySteps):
        assert (plan.rounds, plan.local.steps) == (4, 3)
    else:
        assert (plan.rounds, plan.clients_per_round) == (12, 4)


@pytest.mark.parametrize("algorithm", ["dp-fedavg", "dp-pasgd"])
@pytest.mark.parametrize(("stated", "work", "steps"), [(2, 10, 2), (10, 3, 2), (7, 2, 1), (12, 3, 3)])
def test_stated_iterations_are_neither_more_nor_fewer(facts_of, algorithm, stated, work, steps):
    """Two of them with 10 local steps were planned as 50, or divided by zero."""
    facts, space = facts_of(), Space(algorithm, rounds=stated)
    plan = space.plan(facts.problem, task_of(facts), SCALE, Setting(5, work, 1, 1))
    assert (plan.rounds * plan.local.steps, plan.local.steps) == (stated, steps)


@pytest.mark.parametrize("algorithm", ["dp-fedavg", "dp-pasgd"])
def test_stated_steps_that_do_not_divide_stated_iterations_are_refused(facts_of, algorithm):
    facts, space = facts_of(), Space(algorithm, rounds=10, work=3)
    with pytest.raises(InvalidInput, match="local_steps must divide total_iterations = 10, got 3"):
        space.plan(facts.problem, task_of(facts), SCALE, Setting(1, 3, 1, 1))


@given(passes=st.floats(0.3, 20), clip=st.floats(0.05, 3), reach=st.floats(0.1, 300),
       decay=st.sampled_from([0.15, 0.5, np.inf]), momentum=st.floats(0, 0.9))  # fmt: skip
def test_the_reach_is_what_a_typical_record_would_gain(facts_of, passes, clip, reach, decay, momentum):
    """How far a gradient that stays is followed, times |g|^2 min(1, C/|g|); long steps end at the limit."""
    facts, setting = facts_of(), Setting(passes, 1.0, clip, reach, decay, momentum)
    plan = Space("fedsgd-dpc").plan(facts.problem, task_of(facts), SCALE, setting)
    travelled, velocity = 0.0, 0.0
    for step in plan.step.at(np.arange(plan.rounds)):
        velocity = momentum * velocity + 1
        travelled += step * velocity
    first = plan.step.initial * min(1, clip) * smoothness_of(task_of(facts))
    most = MOST_TRAVEL * (1 + momentum)
    assert first <= most * (1 + 1e-9)
    if first < most * (1 - 1e-9):
        assert travelled * min(1, clip) * SCALE.fall == pytest.approx(reach)
    assert plan.problem.clip_norm == pytest.approx(clip * SCALE.clip)
    assert plan.rounds == max(1, round(passes))


def test_a_grid_leaves_out_the_axes_that_are_fixed(space_of):
    assert [one.steering for one in space_of("fedsgd-dpc").first()] == [0.0, 4.0]
    assert len(space_of("fedsgd-dpc", steering=0.0).first()) == 1
    reaches = {setting.reach for setting in space_of("fedsgd-dpc", step_size=None, steering=0.0).first()}
    clips = {setting.clip for setting in space_of("fedsgd-dpc", clip_norm=None, steering=0.0).first()}
    assert len(reaches) == len(space_of("fedsgd-dpc", step_size=None, steering=0.0).first()) > 3
    assert len(clips) == len(space_of("fedsgd-dpc", clip_norm=None, steering=0.0).first()) > 1


def test_coins_that_never_fall_are_refused(facts_of):
    facts = facts_of()
    with pytest.raises(InvalidInput, match="no coin falls in 1 iterations"):
        Space("dp-scaffnew", rounds=1, work=0.01).plan(
            facts.problem, task_of(facts), SCALE, Setting(1, 0.01, 1, 1)
        )


@pytest.mark.parametrize("rounds", [10, 56, 300])
def test_gains_of_steering_sum_over_the_training_to_what_a_setting_says(space_of, rounds):
    setting = Setting(1, 1, 1.0, 10.0, steering=4.0)
    steering = space_of("fedsgd-dpc", steering=None).steering_of(setting, rounds)
    passed = np.arange(rounds) / rounds
    assert np.sum(4 * steering.gain * passed * (1 - passed)) == pytest.approx(4.0, rel=0.05)


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_few_rounds_are_steered_no_more_than_a_plan_may_say(space_of, rounds):
    setting = Setting(1, 1, 1.0, 10.0, steering=8.0)
    assert space_of("fedsgd-dpc", steering=None).steering_of(setting, rounds).gain == 0.9


@pytest.mark.parametrize("steering", [0.0, 4.0])
def test_the_last_model_is_closed_where_uploads_may_scale_it_and_no_mean_is_delivered(
    space_of, facts_of, steering
):
    facts, setting = facts_of(), Setting(3.0, 1.0, 1.0, 1.0, steering=steering)

    def closing(setting: Setting, **stated) -> float | None:
        space = space_of("fedsgd-dpc", **{"steering": None, "floor": 0.07, **stated})
        made = space.plan(facts.problem, task_of(facts), SCALE, setting)
        closed = space.closed(made)
        if closed is made:
            return None
        assert closed.steering.gain == (made.steering.gain if steering else 0.0)
        assert closed.steering.floor == 0.07
        assert replace(closed, steering=made.steering) == made
        return closed.steering.closing

    assert closing(setting) == 0.2
    assert closing(setting, steering=0.0) is None
    assert closing(setting, steering=0.1) is None
    assert closing(replace(setting, averaging=0.5), averaging=None) is None
    other = space_of("dp-fedavg", steering=None)
    made = other.plan(facts.problem, task_of(facts), SCALE, setting)
    assert other.closed(made) is made


def test_wide_records_of_a_regression_are_also_tried_in_their_ranges():
    """Scaled down only beyond a quarter more than what their columns suggest."""
    norm_one, in_ranges = treatments((30,), size=4.0)
    assert (norm_one.normalise, norm_one.feature_norm) == (True, 1.0)
    assert (in_ranges.normalise, in_ranges.feature_norm) == (False, 5.0)
    assert treatments((30,), size=4.0, classes=2) == treatments((30,)) == [norm_one]
