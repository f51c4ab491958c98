"""Stand-ins of unlike widths in one program are trained as the narrow models that they are."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from endings import outcomes
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from noiseworthy.engines.shards import Group, Shards
from noiseworthy.methods.space import Setting
from noiseworthy.studies.plan_codec import encoded
from noiseworthy.tasks import make_task
from noiseworthy.tasks.batch import Batch
from noiseworthy.tasks.linear import LinearModel
from noiseworthy.trials import courses
from noiseworthy.trials.bench import Bench, Candidate
from noiseworthy.trials.courses import LAST, of_each
from noiseworthy.trials.deadline import Deadline
from noiseworthy.trials.landscape import REACHES, landscape
from noiseworthy.trials.proxies import _with_room, make_proxies
from noiseworthy.trials.spaces import Space
from noiseworthy.trials.widened import Narrow, places, widened

SOURCES = ["prior:0", "wine", "prior:1"]
"""Of a study with nine columns wine has thirteen."""


@pytest.fixture
def bench_of(facts_of):
    """Makes the bench of a study with nine columns, an intercept and weights of classes."""

    def made(family="gaussian", epsilon=20.0):
        facts = facts_of(
            family, epsilon, (37, 21, 9), record_shape=(9,),
            make_task=lambda shape, classes, treatment, public=None: make_task(
                "softmax", shape, classes, feature_norm=1.0, normalise=True, bias=0.3, ridge=0.01,
                class_weights=(1.0, 2.0, 1.5),
            ),
        )  # fmt: skip
        return Bench(facts, SOURCES)

    return made


models = st.builds(
    LinearModel, st.integers(1, 6), st.integers(2, 4), st.just("softmax"), bias=st.sampled_from([0.0, 0.3])
)


@settings(max_examples=12)
@given(models, st.integers(0, 5), st.sampled_from([None, 2.0]), st.integers(0, 2**31))
def test_outputs_and_gradients_of_widened_records_are_the_narrow_ones(model, more, most_weight, seed):
    model, rng = replace(model, most_weight=most_weight), np.random.default_rng(seed)
    raw = rng.standard_normal((2, 5, model.features + (most_weight is not None))).astype(np.float32)
    x = jnp.stack([model.prepare(one) for one in np.abs(raw)])
    y, mask = jnp.asarray(rng.integers(0, model.outputs, (2, 5))), jnp.ones((2, 5))
    shards = Shards(Batch(x, y, mask), x[0], y[0], (Group(jnp.arange(1), Batch(x[:1], y[:1], mask[:1])),))
    room = model.features + more
    wide, seen, kept = replace(model, features=room), widened(shards, model, room), places(model, room)
    narrow = rng.standard_normal(model.dimension).astype(np.float32)
    theta = np.zeros(wide.dimension, np.float32)
    theta[kept] = narrow
    assert_allclose(wide.answers(theta, seen.test_x), model.answers(narrow, x[0]), atol=1e-5)
    for batch, its in ((seen.train, shards.train), (seen.groups[0].train, shards.groups[0].train)):
        one, other = (jax.tree.map(lambda leaf: leaf[0], held) for held in (batch, its))
        found = np.asarray(wide.clipped_gradient_sum(theta, one, 0.5, "l2"))
        assert_allclose(found[kept], model.clipped_gradient_sum(narrow, other, 0.5, "l2"), atol=1e-5)
        assert_array_equal(np.delete(found, kept), 0.0)


def test_models_that_differ_in_features_alone_get_room_for_the_most_up_to_twice_as_many(bench_of):
    proxy = replace(bench_of().proxies()[0], room=0)

    def rooms(*features, **other):
        made = [replace(proxy, task=replace(proxy.task, features=one)) for one in features]
        made += [replace(proxy, task=replace(proxy.task, features=8, **other))] * bool(other)
        return [one.room for one in _with_room(made)]

    assert rooms(5, 10, 7) == [10, 10, 10]
    assert rooms(5, 10, 11, 20, 41) == [0, 20, 20, 20, 0]
    assert rooms(9, 9) == [0, 0]
    assert rooms(5, 10, ridge=0.5) == [10, 10, 0]
    assert rooms(5, 10, feature_norm=2.0) == [10, 10, 0]


@pytest.mark.full
@pytest.mark.parametrize(
    ("family", "epsilon", "asked", "steering"),
    [("gaussian", 20, 3, 0.0), ("gaussian", 20, 3, 6.0), ("gaussian", 20, 1, 0.0), ("laplace", 60, 1, 6.0)],
)
def test_a_trial_with_room_ends_as_without(bench_of, space_of, family, epsilon, asked, steering):
    """Losses, scores and models under the same draws, also steered, which reads the noise of all weights."""
    bench = bench_of(family, epsilon)
    space = space_of(
        "fedsgd-dpc", rounds=9, clients_per_round=asked, momentum=0.5, averaging=0.3, step_size=8.0
    )
    setting, proxies = Setting(1.0, 1.0, 1.0, 1.0, steering=steering), bench.proxies()
    plan, seeds = bench.plan(space, Candidate(setting)), [0, 1, 2]
    assert [proxy.room for proxy in proxies] == [13, 13, 13]
    together = of_each(proxies, [plan], seeds, LAST, models=True)
    for proxy, (loss, score, theta) in zip(proxies, together, strict=True):
        its = bench.plan(space, Candidate(setting), replace(proxy, room=0))
        ((true, accuracy, alone),) = of_each([replace(proxy, room=0)], [its], seeds, LAST, models=True)
        assert theta.shape == (1, 3, proxy.task.dimension)
        assert np.ptp(true) > 1e-3
        assert_allclose(loss, true, rtol=2e-4)
        assert_allclose(score, accuracy, atol=0.01)
        assert_allclose(theta, alone, atol=2e-3 * np.abs(alone).max())


@pytest.mark.parametrize("asked", [1, 3])
def test_weights_of_columns_of_zeros_get_no_noise(bench_of, space_of, monkeypatch, asked):
    """In uploads and in their sum; all others have noise of one variance, within five standard errors."""
    bench = bench_of("laplace")
    space = space_of("fedsgd-dpc", rounds=3, clients_per_round=asked, step_size=8.0)
    stacks, run = [], courses.simulate
    monkeypatch.setattr(
        courses,
        "simulate",
        lambda *given, **known: stacks.append(known["together"].stacked) or run(*given, **known),
    )
    (narrow, *_) = bench.proxies()
    outcomes(narrow, [bench.plan(space, Candidate(Setting(1.0, 1.0, 1.0, 1.0)), narrow)], [0])
    (stacked,) = stacks
    assert isinstance(stacked, Narrow)
    one = jax.tree.map(lambda leaf: leaf[0], stacked)
    state, keys = one.init(jnp.zeros(one.task.dimension)), jax.random.split(jax.random.key(0), 4000)
    unseen = np.setdiff1d(np.arange(one.task.dimension), places(narrow.task, 13))
    assert len(unseen) == 4 * 3
    update = jnp.arange(one.task.dimension, dtype=jnp.float32)
    uploads = jax.vmap(lambda key: one.privatize(state, update, jnp.array(0), key))(keys) - update
    sums = jax.vmap(lambda key: one.aggregate_noise(state, jnp.arange(asked), key))(keys)
    for noise in (np.asarray(uploads), np.asarray(sums)):
        assert_array_equal(noise[:, unseen], 0.0)
        variances = np.delete(noise, unseen, axis=1).var(axis=0)
        assert_allclose(variances, variances.mean(), rtol=5 * np.sqrt(5 / 4000))


def test_other_methods_have_models_as_wide_as_their_records(bench_of, space_of):
    """Their noise may depend on the number of parameters."""
    bench = bench_of()
    assert bench.alike(space_of("fedsgd-dpc"), None) == [[0, 1, 2]]
    assert bench.alike(space_of("dp-fedavg"), None) == [[0, 2], [1]]


def test_transforms_of_privatefl_are_as_wide_as_the_records_that_they_transform(bench_of, space_of):
    """Those of wider records have no place for a narrow one's: a plan by trial was refused."""
    bench, space = bench_of(), space_of("privatefl", rounds=1, clients_per_round=3)
    assert bench.alike(space, None) == [[0, 2], [1]]
    (narrow, *_) = bench.proxies()
    assert narrow.room > narrow.task.features
    loss, _ = outcomes(narrow, [bench.plan(space, Candidate(Setting(1.0, 1.0, 1.0, 1.0)), narrow)], [0])
    assert np.isfinite(loss).all()


def test_models_of_other_norms_share_no_plans(bench_of, space_of):
    """Steps are in units of the largest record."""
    bench = bench_of()
    long = replace(bench.proxies()[1], task=replace(bench.proxies()[1].task, feature_norm=2.0))
    bench._opened[None] = ([bench.proxies()[0], long, bench.proxies()[2]], bench.scale())
    assert bench.alike(space_of("fedsgd-dpc"), None) == [[0, 2], [1]]


@pytest.mark.full
def test_trials_around_a_winner_keep_the_order_of_the_proxies(bench_of):
    """Of those planned in groups, the first and the third together, each has the course it has alone."""
    bench, setting = bench_of(), Setting(passes=4.0, work=1.0, clip=0.5, reach=20.0)
    space = Space("dp-fedavg", most=8, work=1.0)
    points = landscape(bench, space, Candidate(setting), [7], deadline=Deadline(-1.0))
    (point,) = (one for one in points if one.factor == 1)
    assert bench.alike(space, None) == [[0, 2], [1]]
    ends = [course[-1] for course in point.course]
    assert len({round(float(end), 4) for end in ends}) == 3
    for proxy, end in zip(bench.proxies(), ends, strict=True):
        reached = [
            outcomes(proxy, [bench.plan(space, Candidate(replace(setting, reach=20.0 * by)), proxy)], [7])[0]
            for by in REACHES[1.0]
        ]
        assert min(abs(float(one[0, 0]) - float(end)) for one in reached) < 1e-3


def test_plans_of_any_width_ask_nothing_of_the_number_of_parameters(facts_of, space_of):
    """Of all trusts and laws: what a proxy is planned for serves the others of its group."""
    space = space_of("fedsgd-dpc", step_size=None, clip_norm=None, momentum=None)
    for family in ("gaussian", "laplace"):
        facts = facts_of(family)
        proxy = make_proxies(facts, ["wine"])[0]
        scale = Bench(facts, ["wine"]).scale()
        plans = [
            space.plan(
                replace(proxy.problem, dimension=task.dimension), task, scale, Setting(1.0, 1.0, 0.5, 3.0)
            )
            for task in (proxy.task, replace(proxy.task, features=500))
        ]
        one, other = (replace(plan, problem=proxy.problem) for plan in plans)
        assert plans[0].problem.dimension != plans[1].problem.dimension
        assert encoded(one) == encoded(other)
