"""Records of images along their main directions give trainings of the same law, at a third of the numbers."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from endings import outcomes
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import stats

from noiseworthy.engines.flat import FlatRecords
from noiseworthy.engines.shards import Group, Shards
from noiseworthy.methods.space import Setting
from noiseworthy.tasks import make_task
from noiseworthy.tasks.batch import Batch
from noiseworthy.tasks.linear import LinearModel
from noiseworthy.tasks.reference import MOST_DIRECTIONS
from noiseworthy.trials import courses, proxies
from noiseworthy.trials.bench import Bench
from noiseworthy.trials.courses import LAST, final_models, of_each
from noiseworthy.trials.proxies import make_proxies
from noiseworthy.trials.rotated import Rotated, back, can_rotate, directions_of, rotated

FEATURES, CLASSES, RANK = 600, 3, 40
MODEL = LinearModel(FEATURES, CLASSES, "softmax", ridge=0.1)
WITH_INTERCEPT = replace(MODEL, bias=0.5, start=(1.0, -1.0, 0.5))


def shards_of(rank: int, clients: int = 4, each: int = 10, model: LinearModel = MODEL) -> Shards:
    """Records that lie in so many directions, one of them zero and the last of each client padding."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((FEATURES, rank)))[0].T
    x = (rng.standard_normal((clients, each, rank)) @ basis).astype(np.float32)
    x[0, 0], x[:, -1] = 0.0, 100.0
    y = rng.integers(0, CLASSES, (clients, each))
    mask = np.where(np.arange(each) < each - 1, 2.0, 0.0) * np.ones((clients, 1))
    train = Batch(*map(jnp.asarray, (x, y, mask.astype(np.float32))))
    test = (rng.standard_normal((20, rank)) @ basis).astype(np.float32)
    if model.bias:
        x, test = (
            np.concatenate([one, np.full_like(one[..., :1], model.bias)], axis=-1) for one in (x, test)
        )
        train = train._replace(x=jnp.asarray(x))
    few = Group(jnp.arange(2), Batch(*(leaf[:2] for leaf in train)))
    return Shards(train, jnp.asarray(test), jnp.asarray(rng.integers(0, CLASSES, 20)), (few,))


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("clip", [0.05, 1.0, 100.0])
@pytest.mark.parametrize("plain", [MODEL, WITH_INTERCEPT])
def test_clipped_gradients_are_those_of_the_records_in_their_span(norm, clip, plain):
    """Were the norm that of the rotated record, the L1 clip would be another: asserted to differ."""
    shards = shards_of(RANK, model=plain)
    directions = directions_of(plain, shards)
    seen, model = rotated(shards, directions, norm), Rotated.of(plain)
    theta = np.random.default_rng(1).standard_normal((1, model.dimension)).astype(np.float32) / 10
    held, held_so = (Batch(*(leaf[1] for leaf in one.train)) for one in (shards, seen))
    found = model.clipped_gradient_sum(theta[0], held_so, jnp.float32(clip), norm)
    true = plain.clipped_gradient_sum(back(theta, plain, directions)[0], held, jnp.float32(clip), norm)
    assert_allclose(
        back(np.asarray(found)[None], plain, directions)[0], true, atol=2e-4 * float(jnp.abs(true).max())
    )
    if norm == "l1" and clip < 100:
        short = held_so._replace(x=held_so.x.at[:, -1].set(jnp.abs(held_so.x[:, :-1]).sum(1)))
        other = model.clipped_gradient_sum(theta[0], short, jnp.float32(clip), norm)
        assert float(jnp.abs(other - found).max()) > 0.05 * float(jnp.abs(found).max())


def test_records_keep_their_length_however_many_directions_they_have():
    shards = shards_of(500, clients=8, each=70)
    seen = rotated(shards, directions_of(MODEL, shards), "l1")
    for before, after in ((shards.train.x, seen.train.x), (shards.test_x, seen.test_x)):
        assert after.shape[-1] == MOST_DIRECTIONS + 1
        assert_allclose(
            jnp.linalg.norm(after[..., :-1], axis=-1), jnp.linalg.norm(before, axis=-1), rtol=1e-5
        )
        assert_allclose(after[..., -1], jnp.abs(before).sum(-1), rtol=1e-5)
    longest = float(jnp.linalg.norm(shards.train.x, axis=-1).max())  # a machine may sum in another order
    assert_allclose(seen.groups[0].train.x, seen.train.x[:2], rtol=1e-6, atol=3e-6 * longest)
    assert (seen.train.x[0, 0] == 0).all()
    for leaf, same in ((seen.train.y, shards.train.y), (seen.train.mask, shards.train.mask)):
        assert (leaf == same).all()


def test_directions_are_orthonormal_and_padding_is_none_of_them():
    directions = directions_of(MODEL, shards_of(RANK))
    assert directions.shape == (MOST_DIRECTIONS, FEATURES)
    assert_allclose(directions[:RANK] @ directions[:RANK].T, np.eye(RANK), atol=1e-4)
    ones = np.full(FEATURES, FEATURES**-0.5)  # what padding is
    assert np.linalg.norm(directions[:RANK] @ ones) < 0.6


@pytest.mark.parametrize("plain", [MODEL, WITH_INTERCEPT])
def test_models_go_back_to_the_same_outputs(plain):
    shards, model = shards_of(RANK, model=plain), Rotated.of(plain)
    directions = directions_of(plain, shards)
    theta = np.random.default_rng(2).standard_normal((3, model.dimension)).astype(np.float32)
    starts = [one.initial(jax.random.key(0)) for one in (model, plain)]
    assert_allclose(back(np.asarray(starts[0])[None], plain, directions)[0], starts[1])
    seen = rotated(shards, directions, "l2").test_x
    for along, whole in zip(theta, back(theta, plain, directions), strict=True):
        found, true = model.answers(along, seen), plain.answers(whole, shards.test_x)
        assert_allclose(found, true, rtol=1e-3, atol=1e-3)


def test_only_large_padded_records_without_weights_are_rotated():
    shards = shards_of(RANK)
    assert can_rotate(MODEL, shards)
    assert not can_rotate(replace(MODEL, features=2 * MOST_DIRECTIONS - 1), shards)
    assert can_rotate(WITH_INTERCEPT, shards)
    assert not can_rotate(replace(MODEL, class_weights=(1.0, 2.0, 1.0)), shards)
    assert not can_rotate(make_task("two-layer-cnn", (28, 28), 10), shards)
    assert not can_rotate(MODEL, shards._replace(train=FlatRecords.__new__(FlatRecords)))


# Whole trials ------------------------------------------------------------------------------------------


def pictures(facts_of, family: str, epsilon: float, clients_per_round: int, space_of, steering: float = 0.0):
    """Digits enlarged to 28 x 28 pixels, which leaves them in 64 directions, and a plan for ten classes."""
    facts = facts_of(
        family, epsilon, (60, 60, 60, 60), record_shape=(28, 28), classes=10,
        make_task=lambda shape, classes, treatment, public=None: make_task(
            "softmax", shape, classes, feature_norm=1.0, normalise=True, bias=0.3
        ),
    )  # fmt: skip
    (proxy,) = make_proxies(facts, ["digits"])
    space = space_of(
        "fedsgd-dpc",
        rounds=8,
        clients_per_round=clients_per_round,
        clip_norm=20.0 if family == "laplace" else 1.0,
        step_size=20.0,
    )
    scale = Bench(facts, ["digits"]).scale()
    return proxy, space.plan(proxy.problem, proxy.task, scale, Setting(1.0, 1.0, 1.0, 1.0, steering=steering))


@pytest.fixture
def unrotated(monkeypatch):
    """Runs something without rotation."""

    def run(work):
        with monkeypatch.context() as patched:
            patched.setattr(proxies, "can_rotate", lambda task, shards: False)
            return work()

    return run


@pytest.mark.full
@pytest.mark.parametrize(("family", "asked"), [("gaussian", 4), ("laplace", 2)])
def test_without_noise_a_trial_is_the_same(facts_of, space_of, unrotated, family, asked):
    """At an epsilon at which noise is nothing: the same losses, accuracies and models."""
    proxy, plan = pictures(facts_of, family, 1e9, asked, space_of)
    found = outcomes(proxy, [plan], [0, 1])
    true = unrotated(lambda: outcomes(proxy, [plan], [0, 1]))
    assert found[0].min() < 0.7
    assert_allclose(found[0], true[0], rtol=1e-3)
    assert_allclose(found[1], true[1], atol=0.005)
    theta = final_models(proxy, plan, 1)
    assert theta.shape == (1, proxy.task.dimension)
    assert_allclose(theta, unrotated(lambda: final_models(proxy, plan, 1)), atol=2e-3 * np.abs(theta).max())
    *_, models = of_each([proxy], [plan], [0, 1], LAST, models=True)[0]
    assert models.shape == (1, 2, proxy.task.dimension)


@pytest.mark.full
@pytest.mark.parametrize(("family", "epsilon", "asked"), [("gaussian", 3.0, 4), ("laplace", 20.0, 1)])
def test_with_noise_losses_have_the_same_law(facts_of, space_of, unrotated, family, epsilon, asked):
    """Means and variances over 64 seeds of either; each of four checks is a false alarm once in 10,000."""
    proxy, plan = pictures(facts_of, family, epsilon, asked, space_of)
    seeds = list(range(64))
    found = outcomes(proxy, [plan], seeds)[0].ravel()
    true = unrotated(lambda: outcomes(proxy, [plan], seeds))[0].ravel()
    assert np.ptp(found) > 0.01
    assert stats.ttest_ind(found, true, equal_var=False).pvalue > 1e-4
    assert stats.levene(found, true).pvalue > 1e-4


@pytest.fixture
def programs(monkeypatch):
    """The algorithms of every program of trainings that runs."""
    ran, simulate = [], courses.simulate

    def kept(algorithms, *rest, **known):
        ran.append(algorithms)
        return simulate(algorithms, *rest, **known)

    monkeypatch.setattr(courses, "simulate", kept)
    return ran


@pytest.mark.full
@pytest.mark.parametrize(
    ("settings", "seeds", "sizes"), [(1, 3, [2, 1]), (2, 2, [4]), (3, 2, [8]), (5, 1, [32]), (13, 2, [32])]
)
def test_few_settings_of_large_models_are_filled_up_where_calls_take_longer(
    facts_of, space_of, programs, settings, seeds, sizes
):
    """Trainings of each program: settings times seeds, of which two go side by side."""
    proxy, plan = pictures(facts_of, "gaussian", 3.0, 4, space_of)
    loss, _ = outcomes(proxy, [plan] * settings, list(range(seeds)))
    assert [len(algorithms) for algorithms in programs] == sizes
    assert loss.shape == (settings, seeds)
    assert_allclose(loss, loss[:1].repeat(settings, 0), rtol=1e-4)


@given(st.lists(st.sampled_from([1, 10, 30, 100, 178]), min_size=1, max_size=7), st.booleans())
def test_no_other_lots_take_less_time(rounds, of_images):
    """By trying all of them: each takes its first setting's rounds for its width, and a start."""
    rounds, widths = sorted(rounds, reverse=True), courses._WIDTHS if of_images else (16,)

    def seconds(lots):
        firsts = np.cumsum([0, *lots[:-1]])
        each = [
            rounds[i] * width * (0.8 if width == 16 else 1) for i, width in zip(firsts, lots, strict=True)
        ]
        return sum(each) + 80 * len(lots)

    every = [lots for count in range(1, len(rounds) + 1) for lots in product(widths, repeat=count)]
    covering = [lots for lots in every if sum(lots[:-1]) < len(rounds) <= sum(lots)]
    found = courses._lots(rounds, widths)
    assert sum(found[:-1]) < len(rounds) <= sum(found)
    assert seconds(found) == pytest.approx(min(map(seconds, covering)))


@pytest.mark.full
def test_what_is_steered_knows_the_noise_of_all_directions(facts_of, space_of, programs):
    """And so does an update that is clipped as a whole; only clipped gradients are along few directions."""
    proxy, plain = pictures(facts_of, "gaussian", 3.0, 4, space_of)
    _, steered = pictures(facts_of, "gaussian", 3.0, 4, space_of, steering=1.0)
    scale = Bench(proxy.facts, ["digits"]).scale()
    local = space_of("dp-fedavg", rounds=8, work=2).plan(
        proxy.problem, proxy.task, scale, Setting(1.0, 1.0, 1.0, 1.0)
    )
    for plan in (plain, steered, local):
        outcomes(proxy, [plan], [0])
    assert [isinstance(few[0].task, Rotated) for few in programs] == [True, False, False]
