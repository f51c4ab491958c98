"""What measuring plans claims: few records stand for many, and lost gain and its limits are what they say."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noiseworthy.data import Federation, load_federation
from noiseworthy.errors import DataError, InvalidInput
from noiseworthy.methods.fedsgd_dpc import planner as queries_replies
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.studies.training import train
from noiseworthy.tasks import LinearModel, make_task
from noiseworthy.tasks.batch import Batch
from quality import Arena, bootstrap_limit, lost_gain, p90, score, stand_ins

pytestmark = pytest.mark.full

SEEDS = (3, 4)


def federation(repeats=1):
    """Two unequal clients of wine, each of its records held `repeats` times."""
    fed = load_federation("wine", clients=2, partition="iid", seed=0)
    pairs = [
        (np.tile(fed.x[i, :n], (repeats, 1)), np.tile(fed.y[i, :n], repeats)) for i, n in enumerate((40, 12))
    ]
    return Federation.from_clients(pairs, test=(fed.test_x, fed.test_y), classes=3, name="wine")


def linear(fed):
    return make_task("softmax", fed.record_shape, fed.classes, feature_norm=1.0, normalise=True)


def problem_of(fed, task, family="laplace"):
    budget = PrivacyBudget.of(20.0, 0.0 if family == "laplace" else 1e-5, fed.n_clients)
    return Problem(fed.sizes, task.dimension, budget, family, 0.5)


def arena_of(fed, records=200, family="laplace", **options):
    task = linear(fed)
    return Arena.of(fed, task, problem_of(fed, task, family), records, **options)


def plan_of(arena, rounds=5, clients=2):
    return queries_replies.stated(arena.problem, rounds, clients, StepSize(2.0))


# Arenas -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_a_record_of_mask_two_counts_as_the_record_twice(norm):
    model, rng = LinearModel(3, 1, "logistic"), np.random.default_rng(0)
    x, theta = rng.normal(size=(4, 3)).astype(np.float32), jnp.ones(3)
    y = jnp.array([0, 1, 1, 0])
    weighted = Batch(jnp.asarray(x), y, jnp.array([2.0, 1.0, 0.0, 1.0]))
    twice = [0, 0, 1, 3]
    repeated = Batch(jnp.asarray(x[twice]), y[jnp.array(twice)], jnp.ones(4))
    sums = [model.clipped_gradient_sum(theta, batch, 0.3, norm) for batch in (weighted, repeated)]
    np.testing.assert_allclose(*sums, rtol=1e-6)


@pytest.mark.parametrize("clients", [1, 2])
def test_few_records_that_stand_for_many_train_as_all_of_them_do(clients):
    # clients hold 120 and 36 records, three times each of 40 and 12
    fed = federation(3)
    few, all_of_them = (arena_of(fed, records) for records in (40, 200))
    assert few.shards.train.x.shape[1] == 40
    plan = plan_of(few, clients=clients)
    short = replace(few, shards=few.shards._replace(train=_only(few.shards.train, (40, 12))))
    np.testing.assert_allclose(
        score(short, plan, SEEDS).loss, score(all_of_them, plan, SEEDS).loss, rtol=1e-4
    )


def _only(train, sizes):
    """Each client's first records at three times their weight; the second client still held all of its 36."""
    kept = np.arange(train.mask.shape[1]) < np.array(sizes)[:, None]
    return train._replace(mask=jnp.asarray(3.0 * kept, jnp.float32))


def test_an_arena_of_all_records_scores_as_training_does():
    fed = federation()
    arena = arena_of(fed)
    plan = plan_of(arena)
    run = train(plan, fed, arena.task, SEEDS)
    found = score(arena, plan, SEEDS)
    np.testing.assert_allclose(found.loss, run.final_loss, rtol=1e-5)
    np.testing.assert_allclose(found.accuracy, run.final_accuracy, atol=1e-6)


@pytest.mark.parametrize("records", [1, 7, 40])
def test_weights_add_up_to_the_sizes_of_all_records(records):
    fed = federation()
    np.testing.assert_allclose(
        stand_ins(fed, linear(fed), records).train.mask.sum(axis=1), [40, 12], rtol=1e-6
    )


def test_the_noise_is_that_of_all_records():
    fed = federation(3)
    arena = arena_of(fed, 5)
    assert arena.problem.sizes.tolist() == [120, 36]
    # one upload: (2 C / n) / epsilon of the whole client
    np.testing.assert_allclose(plan_of(arena, rounds=1).noise, 2 * 0.5 / (20 * np.array([120, 36])))


def test_test_records_are_few_and_always_the_same():
    fed = federation()
    chosen = [np.asarray(arena_of(fed, test=10).shards.test_x) for _ in range(2)]
    assert len(chosen[0]) == 10
    np.testing.assert_array_equal(*chosen)


def test_a_plan_that_does_not_train_scores_the_start():
    arena = arena_of(federation())
    found = score(arena, replace(plan_of(arena), rounds=0), SEEDS)
    np.testing.assert_allclose(found.loss, np.log(3), rtol=1e-6)
    assert found.loss.shape == found.accuracy.shape == (2,)


def test_networks_and_foreign_sizes_are_refused():
    fed, network = federation(), make_task("cnn", (28, 28), 10)
    problem = problem_of(fed, network)
    with pytest.raises(InvalidInput, match="an arena needs a linear model, got ModelTask"):
        Arena.of(fed, network, problem)
    other = replace(problem_of(fed, linear(fed)), sizes=np.array([3, 4]))
    with pytest.raises(DataError, match="made for other sizes"):
        Arena.of(fed, linear(fed), other)


# Lost gain --------------------------------------------------------------------------------------------


@given(
    loss=st.floats(-5, 5), best=st.floats(-5, 5), gain=st.floats(0.01, 5), unit=st.floats(0.1, 10),
    origin=st.floats(-5, 5),
)  # fmt: skip
def test_lost_gain_knows_no_unit_and_no_origin_of_losses(loss, best, gain, unit, origin):
    there = lost_gain(unit * loss + origin, unit * best + origin, unit * (best + gain) + origin)
    np.testing.assert_allclose(there, lost_gain(loss, best, best + gain), rtol=1e-6, atol=1e-6)


def test_the_best_loses_nothing_and_no_training_everything():
    np.testing.assert_allclose(lost_gain([1.0, 3.0, 2.0, 0.0, np.inf], 1.0, 3.0), [0, 1, 0.5, -0.5, np.inf])


def test_lost_gain_where_nothing_can_be_gained_is_refused():
    with pytest.raises(
        InvalidInput, match=r"best must lie below the untrained loss 1, got 1; raise the budget"
    ):
        lost_gain(1.0, 1.0, 1.0)


@pytest.mark.parametrize("statistic", [np.mean, np.max, p90])
def test_the_limit_is_that_of_all_resamples_of_federations(statistic):
    lost = {"a": [0.0, 0.1, 0.02], "b": [0.3], "c": [0.05, 0.07], "d": [0.0, 0.01]}
    cells = [np.array(values) for values in lost.values()]
    every = [statistic(np.concatenate(drawn)) for drawn in product(cells, repeat=4)]
    limit = bootstrap_limit(lost, statistic, level=0.9)
    assert np.quantile(every, 0.88) <= limit <= np.quantile(every, 0.92)


def test_one_federation_is_its_own_limit():
    assert bootstrap_limit({"a": [0.1, 0.3]}, np.mean) == pytest.approx(0.2)


def test_a_higher_level_never_lowers_the_limit():
    lost = {str(i): [value] for i, value in enumerate(np.random.default_rng(0).exponential(size=7))}
    limits = [bootstrap_limit(lost, np.mean, level=level) for level in (0.5, 0.9, 0.99)]
    assert limits == sorted(limits)
    assert limits[0] < limits[2]


def test_limits_of_nothing_and_other_levels_are_refused():
    with pytest.raises(InvalidInput, match="at least one federation, got none; score some plans"):
        bootstrap_limit({}, np.mean)
    with pytest.raises(InvalidInput, match=r"level must lie in \(0, 1\), got 1; 0.95 is usual"):
        bootstrap_limit({"a": [0.1]}, np.mean, level=1.0)
