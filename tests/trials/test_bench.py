"""Trials are the product's own trainings with the noise of the private federation, many at a time."""

from __future__ import annotations

import resource
import time
from collections import Counter
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from endings import outcomes
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from noiseworthy.data import Federation, ragged
from noiseworthy.engines.shards import Shards
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.algorithm import start_of
from noiseworthy.methods.registry import make
from noiseworthy.methods.space import Setting
from noiseworthy.studies.training import train
from noiseworthy.tasks import make_task
from noiseworthy.tasks.batch import Batch
from noiseworthy.trials import courses
from noiseworthy.trials.bench import Bench, Candidate, _of_one_shape, _stacked
from noiseworthy.trials.dealing import dealt, weighted
from noiseworthy.trials.proxies import DEALS, make_proxies
from noiseworthy.trials.public import public_records
from noiseworthy.trials.spaces import Space
from noiseworthy.trials.treatment import Treatment

ALGORITHMS = ("fedsgd-dpc", "dp-fedavg", "dp-scaffnew", "dp-pasgd", "dpfl-bcs")
ONE = Setting(1.0, 1.0, 1.0, 1.0)


def plan_of(proxy, space):
    return space.plan(proxy.problem, proxy.task, Bench(proxy.facts, ["wine"]).scale(), ONE)


def space_for(space_of, algorithm):
    return space_of(algorithm, rounds=6, work=0.5 if algorithm == "dp-scaffnew" else 2)


@pytest.fixture(scope="module")
def wine(facts_of):
    (proxy,) = make_proxies(facts_of(), ["wine"])
    return proxy


@pytest.mark.parametrize(("family", "mode"), [("gaussian", "B"), ("laplace", "E")])
def test_local_steps_of_scalar_models_are_tried_in_modes_that_rest_on_bounded_records(
    facts_of, space_of, family, mode
):
    """The bound is the proxy's own; models of prepared records, which share a program, lack it."""
    (proxy,) = make_proxies(facts_of(family, 1e6, model="logistic", classes=2), ["wine"])
    space = space_of("dp-fedavg", rounds=40, own={"clipping_mode": mode})
    scale = Bench(proxy.facts, ["wine"]).scale()
    plan = space.plan(proxy.problem, proxy.task, scale, replace(ONE, work=4.0))
    assert plan.problem.clipping == mode
    loss, _ = outcomes(proxy, [plan], [0, 1])
    assert np.all(loss < 0.9)


@pytest.mark.full
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_trial_is_the_training_of_the_product(facts_of, space_of, wine, algorithm):
    """Where every record has weight 1: the same schedule, noise and model, to rounding."""
    facts = facts_of()
    federation = dealt(facts, public_records(facts, "wine"), seed=21)  # as for seeds 2 and 3
    assert federation.sizes.tolist() == facts.problem.sizes.tolist()
    plan = plan_of(wine, space_for(space_of, algorithm))
    run = train(plan, federation, wine.task, [3, 4], evaluations=1)
    loss, accuracy = outcomes(wine, [plan], [3, 4])
    np.testing.assert_allclose(loss[0] * wine.deal(1).untrained_loss, run.final_loss, rtol=1e-4)
    np.testing.assert_allclose(accuracy[0], run.final_accuracy, atol=0.03)
    assert abs(loss[0, 0] - loss[0, 1]) > 1e-3, "seeds draw other noise"


# Records that weigh as much as several ------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize(
    ("model", "classes"), [("softmax", 3), ("logistic", 2), ("svm", 2), ("linear", None)]
)
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_a_record_of_weight_3_counts_as_three_do(model, classes, norm):
    task, rng = make_task(model, (4,), classes), np.random.default_rng(1)
    x = jnp.asarray(rng.normal(size=(6, 4)), jnp.float32)
    y = jnp.asarray(rng.integers(0, classes, 6) if classes else rng.normal(size=6))
    theta = jnp.asarray(rng.normal(size=task.dimension), jnp.float32)
    weighed = Batch(x, y, jnp.array([3.0] * 5 + [0.0]))
    whole = Batch(jnp.tile(x[:5], (3, 1)), jnp.tile(y[:5], 3), jnp.ones(15))
    for batches in ([weighed, whole], [weighed._replace(mask=weighed.mask / 3), whole]):
        means = [task.gradient(theta, batch) for batch in batches]
        np.testing.assert_allclose(*means, rtol=1e-5, atol=1e-6)
    sums = [task.clipped_gradient_sum(theta, b, jnp.float32(0.7), norm) for b in (weighed, whole)]
    np.testing.assert_allclose(*sums, rtol=1e-5, atol=1e-5)


@pytest.mark.full
def test_a_network_weighs_records_too():
    task = make_task("cnn", (8, 8), 3)
    rng = np.random.default_rng(2)
    x, y = jnp.asarray(rng.uniform(size=(2, 8, 8)), jnp.float32), jnp.array([0, 2])
    theta = task.initial(jax.random.key(0))
    weighed = Batch(x, y, jnp.full(2, 2.0))
    whole = Batch(jnp.tile(x, (2, 1, 1)), jnp.tile(y, 2), jnp.ones(4))
    sums = [task.clipped_gradient_sum(theta, batch, jnp.float32(0.1), "l2") for batch in (weighed, whole)]
    np.testing.assert_allclose(*sums, rtol=1e-3, atol=1e-6)


@pytest.mark.full
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_algorithm_moves_alike_by_few_weighed_records_and_by_all(facts_of, space_of, wine, algorithm):
    """Ten records of weight 3 a client, or each of them three times."""
    facts = facts_of()
    few = dealt(facts, public_records(facts, "wine"), seed=0).take_records(10)
    whole = replace(few, x=np.tile(few.x, (1, 3, 1)), y=np.tile(few.y, (1, 3)), sizes=few.sizes * 3)
    assert isinstance(whole, Federation)
    plan = plan_of(wine, space_for(space_of, algorithm))
    losses = []
    for federation, weight in ((few, 3.0), (whole, 1.0)):
        shards = weighted(Shards.load(federation, wine.task), np.full(4, weight))
        only = {0: replace(wine.deal(), shards=shards, condensed=shards)}
        losses.append(outcomes(replace(wine, _deals=only), [plan], [0, 1])[0])
    np.testing.assert_allclose(*losses, rtol=1e-4)


@pytest.mark.full
@pytest.mark.parametrize(("size", "batch"), [(30, 7), (300, 32), (300, 100)])
def test_minibatches_of_a_trial_hold_real_records_and_weigh_as_much_as_the_clients(
    facts_of, space_of, wine, size, batch
):
    """A client of 300 records has ten in a trial; a step on X of them has the weight X of its divisor."""
    facts = facts_of(sizes=(size,) * 4)
    task = wine.task
    problem = replace(facts.problem, dimension=task.dimension)
    space = space_of("dp-pasgd", work=2, batch_size=batch)
    made = make(space.plan(problem, task, Bench(facts, ["wine"]).scale(), ONE), task, 0)
    few = min(size, 10)
    x = jnp.arange(1.0, 16.0)[:, None] * jnp.ones(13)  # padded to 15 by what must never be read
    shard = Batch(x, jnp.arange(15), jnp.where(jnp.arange(15) < few, size / few, 0.0))
    order = made._order(shard, 0, 0, jax.random.key(0))
    for place in range(size // batch):
        drawn = made._batch(shard, 0, order, place)
        assert float(drawn.mask.sum()) == pytest.approx(batch)
        assert np.all(np.asarray(drawn.y)[np.asarray(drawn.mask) > 0] < few)


# Noise --------------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("algorithm", ["fedsgd-dpc", "dp-fedavg", "dp-scaffnew", "dpfl-bcs"])
def test_the_noise_of_a_thinned_federation_has_the_variance_of_the_whole(facts_of, space_of, algorithm):
    """500 of 2,000 clients alike; 12,000 draws against the closed form, false alarm 1e-6 each."""
    facts, task = facts_of(sizes=(40,) * 2000), make_task("softmax", (4,), 3)
    space = space_of(algorithm, clients_per_round=None, rounds=3)
    scale = Bench(facts_of(), ["wine"]).scale()
    thin = facts.thinned()
    one = make(space.plan(thin.problem, task, scale, ONE), task, 0)
    trial = one.with_noise(np.sqrt(500 / 2000))
    state = trial.init(start_of(trial.task, jax.random.key(0)))
    cohort, draws = jnp.arange(500), jax.random.split(jax.random.key(1), 1000)
    drawn = np.asarray(jax.vmap(lambda key: trial.aggregate_noise(state, cohort, key))(draws)).ravel()
    whole = make(space.plan(facts.problem, task, scale, ONE), task, 0)
    start, everybody = whole.init(start_of(whole.task, jax.random.key(0))), jnp.arange(2000)
    own = np.asarray(jax.vmap(lambda key: whole.aggregate_noise(start, everybody, key))(draws)).ravel()
    ratio = drawn.var() / own.var()
    low, high = stats.f(len(drawn) - 1, len(own) - 1).interval(1 - 1e-6)
    assert low < ratio < high
    assert not low < 4 * ratio < high, "without its factor the noise would be four times as strong"


def test_losses_are_shares_of_the_untrained_loss_and_infinite_where_diverged(facts_of, space_of, wine):
    quiet = replace(wine, noise_factor=1e-9)
    steps = (1e-9, 5.0, 1e38)
    plans = [plan_of(wine, space_of("fedsgd-dpc", step_size=s, clip_norm=1e3)) for s in steps]
    loss, _ = outcomes(quiet, [*plans, None], [0, 1])
    np.testing.assert_allclose(loss[0], 1.0, rtol=1e-5)
    assert np.all(loss[1] < 0.95)
    assert np.all(np.isinf(loss[2:]))


# Candidates ---------------------------------------------------------------------------------------------


def test_each_plan_is_tried_once_and_what_cannot_be_is_left_out(facts_of, space_of):
    bench, space = Bench(facts_of(), ["wine"]), space_of("fedsgd-dpc", rounds=None)
    twice = [Candidate(replace(ONE, passes=passes)) for passes in (1.0, 1.01, 2.0)]
    assert bench.possible(space, twice) == [twice[0], twice[2]]
    with pytest.raises(InvalidInput, match="dmldp"):
        bench.possible(space_of("dmldp"), [Candidate(ONE)])


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_the_gradient_scale_is_the_mean_norm_of_public_records(facts_of, family):
    """Softmax at 0: the gradient of a record is x outer (1/K - onehot); L1 is clipped under Laplace noise."""
    bench = Bench(facts_of(family), ["wine"])
    train = bench.proxies()[0].deal().shards.train
    x, y = np.asarray(train.x).reshape(-1, 13), np.asarray(train.y).ravel()
    each = np.einsum("nd,nk->ndk", x, np.full((len(y), 3), 1 / 3) - np.eye(3)[y]).reshape(len(y), -1)
    order = 1 if family == "laplace" else 2
    scale = bench.scale()
    means = [each[i * 30 : (i + 1) * 30].mean(axis=0) for i in range(4)]
    assert scale.clip == pytest.approx(np.linalg.norm(each, order, axis=1).mean(), rel=0.05)
    assert scale.fall == pytest.approx(np.linalg.norm(each, axis=1).mean() ** 2, rel=0.1)
    assert scale.mean == pytest.approx(np.linalg.norm(means, order, axis=1).mean(), rel=1e-4)


def test_what_a_step_gains_on_numbers_is_in_units_of_their_untrained_loss(facts_of):
    """Labels ten times as large have gradients ten times as large, and a loss of a hundred times."""
    small, large = (
        Bench(facts_of(model="linear", classes=None, label_scale=size), ["diabetes-progression"]).scale()
        for size in (1.4, 14.0)
    )
    assert large.clip == pytest.approx(10 * small.clip, rel=1e-4)
    assert large.fall == pytest.approx(small.fall, rel=1e-4)


# Speed --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_thousand_digits_trials_a_minute_and_memory_stays_flat(facts_of):
    facts = facts_of(
        sizes=(144,) * 10, record_shape=(8, 8), classes=10,
        make_task=lambda shape, classes, *_: make_task(
            "softmax", shape, classes, feature_norm=1.0, normalise=True
        ),
    )  # fmt: skip
    (proxy,) = make_proxies(facts, ["digits"])
    space = Space("fedsgd-dpc", rounds=100, clip_norm=0.3)
    scale = Bench(facts, ["digits"]).scale()
    plans = [space.plan(proxy.problem, proxy.task, scale, replace(ONE, reach=2.0**i)) for i in range(16)]
    outcomes(proxy, plans, [0, 1])
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    for seed in range(2, 18, 2):
        outcomes(proxy, plans, [seed, seed + 1])
    a_minute = 256 * 60 / (time.monotonic() - start)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert a_minute >= 1000
    assert grown < 50_000, "kilobytes"


def compilations(proxy, bench, space, caplog, treatment=None) -> int:
    """Programs of rounds that a trial on a proxy compiles."""
    caplog.clear()
    with jax.log_compiles(), caplog.at_level("WARNING", logger="jax._src.interpreters.pxla"):
        outcomes(proxy, [bench.plan(space, Candidate(ONE, treatment), proxy)], [0, 1])
    return sum(record.getMessage().startswith("Compiling jit(_advance)") for record in caplog.records)


@pytest.mark.full
def test_tables_of_the_prior_share_one_compiled_program(facts_of, space_of, caplog):
    """Their shapes are the study's, and so is the model: the second and third compile nothing more."""
    facts = facts_of(sizes=(37, 21), record_shape=(23,), classes=3)  # as no other test has
    space = space_of("fedsgd-dpc", rounds=3, clients_per_round=2)
    bench = Bench(facts, ["prior:0", "prior:1", "prior:2"])
    bench.scale()
    assert [compilations(proxy, bench, space, caplog) for proxy in bench.proxies()] == [1, 0, 0]


@pytest.mark.full
def test_public_images_share_plans_and_algorithms_but_not_in_networks(facts_of):
    for model, groups in (("softmax", [[0, 1]]), ("two-layer-cnn", [[0], [1]])):

        def of_model(shape, classes, treatment, public=None, model=model):
            return make_task(model, shape, classes)

        facts = facts_of(sizes=(20, 20), record_shape=(8, 8), classes=10, make_task=of_model)
        assert _of_one_shape(Bench(facts, ["digits", "prior:0"]).proxies(), any_width=True) == groups


@pytest.mark.full
def test_ways_of_preparing_records_share_one_compiled_program(facts_of, space_of, caplog):
    facts = facts_of(sizes=(37, 21), record_shape=(24,), classes=3)  # as no other test has
    space, bench = space_of("fedsgd-dpc", rounds=3, clients_per_round=2), Bench(facts, ["prior:0"])
    ways = [Treatment(), Treatment(feature_norm=2.0, normalise=False), Treatment(projection=24)]
    compiled = [compilations(bench.proxies(way)[0], bench, space, caplog, way) for way in ways]
    assert compiled == [1, 0, 0]


@pytest.mark.full
def test_proxies_that_share_algorithms_score_as_each_by_itself(facts_of, space_of):
    """Two of three have one shape; between them stands another, and every score keeps its place."""
    facts = facts_of(sizes=(37, 21), record_shape=(7,), classes=3)
    space = space_of("fedsgd-dpc", rounds=3, clients_per_round=2, step_size=None)
    bench = Bench(facts, ["prior:0", "wine", "prior:1"])
    candidates = [Candidate(replace(ONE, reach=reach)) for reach in (0.3, 3.0)]
    found = bench.scores(space, candidates, [0, 1, 2])
    for place, proxy in enumerate(bench.proxies()):
        alone = outcomes(proxy, [bench.plan(space, one, proxy) for one in candidates], [0, 1, 2])
        np.testing.assert_array_equal(found.loss[place], alone[0])
        np.testing.assert_array_equal(found.accuracy[place], alone[1])
    assert len(np.unique(found.loss)) == found.loss.size


@pytest.mark.full
@pytest.mark.parametrize(("algorithm", "asked"), [("fedsgd-dpc", 4), ("fedsgd-dpc", 2), ("dp-fedavg", 2)])
def test_trials_of_unlike_length_share_a_program_and_end_as_alone(
    algorithm, asked, facts_of, space_of, wine, monkeypatch
):
    """Of 9, 2 and 5 rounds, the first of which asks for most: one call of the engine for all of them."""
    lengths, called = (9, 2, 5), []
    plans = [plan_of(wine, space_of(algorithm, rounds=t, clients_per_round=asked)) for t in lengths]
    simulate = courses.simulate
    monkeypatch.setattr(courses, "simulate", lambda *on, **how: called.append(how) or simulate(*on, **how))
    together = outcomes(wine, plans, [0, 1])
    assert [how["together"].lasts[:6] for how in called] == [[9, 9, 5, 5, 2, 2]]
    for place, plan in enumerate(plans):
        alone = outcomes(wine, [plan], [0, 1])
        np.testing.assert_allclose(together[0][place], alone[0][0], rtol=1e-5)
        np.testing.assert_allclose(together[1][place], alone[1][0], atol=0.01)
    assert len(np.unique(together[0])) == 6


@pytest.mark.parametrize(("asked", "schedules"), [(4, 1), (2, 3)])
def test_seeds_share_an_algorithm_only_where_all_are_asked(asked, schedules, space_of, wine):
    """Else each asks as the product would under its seed."""
    plan = plan_of(wine, space_of("fedsgd-dpc", rounds=6, clients_per_round=asked))
    made = courses._made(wine, plan, [0, 1, 2])
    assert len(made) == schedules
    for seed, one in enumerate(made):
        np.testing.assert_array_equal(one.cohorts, make(plan, wine.task, seed).cohorts)


@given(st.integers(0, 40), st.integers(1, 40), st.integers(1, 16))
def test_a_call_has_seeds_of_one_deal_and_no_more_trainings_than_its_program(first, count, plans):
    """Every seed once; two a call at least, so that neighbours share records."""
    seeds = range(first, first + count)
    calls = [*courses._calls(seeds, plans, 16)]
    assert sorted(i for _, places in calls for i in places) == [*range(count)]
    for deal, places in calls:
        assert {courses.deals_of(seeds)[i] % DEALS for i in places} == {deal}
        assert plans * len(places) <= 32
    of_deals = Counter(deal % DEALS for deal in courses.deals_of(seeds))
    assert len(calls) == sum(-(-seeds // (4 if plans <= 8 else 2)) for seeds in of_deals.values()), (
        "full calls"
    )


@pytest.mark.parametrize(("plans", "seeds", "shape"), [(6, 1, (16, 2)), (16, 2, (16, 2)), (2, 3, (8, 4))])
def test_a_program_trains_every_setting_under_as_many_unlike_seeds(plans, seeds, shape):
    """Else it would share no draws, and be another program."""
    filled, paired = courses._filled([*"abcdefghijklmnop"[:plans]], range(7, 7 + seeds), 16)
    assert (len(filled), len(paired)) == (len(filled), len(set(paired))) == shape


def test_more_seeds_in_the_place_of_missing_settings_change_no_trial(space_of, wine, monkeypatch):
    """Two settings with 16 seeds: four calls, of one deal each; all as alone on their deals."""
    plans = [plan_of(wine, space_of("fedsgd-dpc", rounds=t)) for t in (3, 4)]
    simulate, asked = courses.simulate, []
    monkeypatch.setattr(courses, "simulate", lambda *on, **how: asked.append(on[4]) or simulate(*on, **how))
    together = outcomes(wine, plans, range(4, 20))[0]
    assert [sorted(set(seeds)) for seeds in asked] == [
        [8, 9, 16, 17], [10, 11, 18, 19], [4, 5, 12, 13], [6, 7, 14, 15]
    ]  # fmt: skip
    assert all(seeds == seeds[:4] * 8 for seeds in asked), "settings of a seed share its draws"
    for place, plan in enumerate(plans):
        for first in (4, 12, 18):
            alone = outcomes(wine, [plan], [first, first + 1])[0]
            np.testing.assert_allclose(together[place, first - 4 : first - 2], alone[0], rtol=1e-5)
    assert len(np.unique(together)) == together.size


@pytest.mark.full
@pytest.mark.parametrize("count", [7, 18])
def test_settings_of_a_large_model_keep_their_places_in_lots(count, facts_of, space_of):
    """Of 1,440 parameters: seven are trained by four, eighteen are sixteen and two."""
    (proxy,) = make_proxies(facts_of(record_shape=(12, 12), classes=10), ["digits"])
    steps = np.geomspace(0.1, 3.0, count)
    space = space_of("fedsgd-dpc", rounds=2, clip_norm=0.3)
    plans = [plan_of(proxy, replace(space, step_size=float(step))) for step in steps]
    together = outcomes(proxy, plans, [0, 1])[0]
    for place in (0, 4, count - 1):
        alone = outcomes(proxy, [plans[place]], [0, 1])[0]
        np.testing.assert_allclose(together[place], alone[0], rtol=1e-4)
    assert len(np.unique(together)) == together.size


@pytest.mark.full
def test_records_that_lie_end_to_end_are_looked_at_as_stacked_ones_are(monkeypatch):
    rng = np.random.default_rng(0)
    clients = [(rng.normal(size=(n, 3)), rng.integers(0, 2, n)) for n in (2, 9, 1, 4)]
    task = make_task("logistic", (3,), 2, feature_norm=1.0)

    def loaded() -> Shards:
        federation = Federation.from_clients(clients, test=clients[0], classes=2, name="few")
        return Shards.load(federation, task)

    stacked = _stacked(loaded())
    monkeypatch.setattr(ragged, "_MOST_STACKED", 0)
    monkeypatch.setattr(ragged, "_MOST_PADDING", 1)
    flat = _stacked(loaded())
    np.testing.assert_array_equal(flat.mask, stacked.mask)
    real = np.asarray(stacked.mask) > 0
    np.testing.assert_allclose(np.asarray(flat.x)[real], np.asarray(stacked.x)[real], rtol=1e-6)
    np.testing.assert_array_equal(np.asarray(flat.y)[real], np.asarray(stacked.y)[real])


@pytest.mark.full
@pytest.mark.parametrize(("sizes", "asked", "alike"), [
    ((30,) * 40, 40, True), ((30,) * 40, 4, False), ((30,) * 8, 8, False), ((3000, *(3,) * 60), 61, False),
])  # fmt: skip
def test_many_laplace_noises_that_none_rules_are_drawn_as_one_gaussian(
    facts_of, space_of, sizes, asked, alike
):
    """Of few uploads, some clients, or one that outweighs all others, every noise is drawn.

    The law of the sum is the plan's either way: its variance within 4 % of the planned one over 40,000
    coordinates (5 standard errors, false alarm below 1e-6).
    """
    facts = facts_of("laplace", sizes=sizes)
    (proxy,) = make_proxies(facts, ["wine"])
    space = space_of("fedsgd-dpc", rounds=asked * 2, clients_per_round=asked, weighting=float(asked == 61))
    plan = space.plan(proxy.problem, proxy.task, Bench(facts, ["wine"]).scale(), ONE)
    made = courses._tried(proxy, plan, courses._made(proxy, plan, [0])[0], None)
    inner = made.algorithm.algorithm
    assert inner.family == ("gaussian" if alike else "laplace")
    state = made.init(start_of(made.task, jax.random.key(0)))
    cohort = jnp.arange(len(sizes))[:asked]
    keys = jax.random.split(jax.random.key(1), 40_000 // proxy.task.dimension)
    drawn = jax.vmap(lambda key: made.aggregate_noise(state, cohort, key))(keys)
    shares = np.asarray(inner.weights)[:asked] * plan.noise[:asked]
    assert np.var(drawn) == pytest.approx(2 * np.sum(shares**2), rel=0.04)


@pytest.mark.full
def test_settings_whose_noise_is_drawn_in_one_and_others_are_trained_apart(facts_of, space_of):
    """By records 61 uploads have like shares of the noise, by precision one outweighs all others."""
    facts = facts_of("laplace", sizes=(3000, *(3,) * 60))
    (proxy,) = make_proxies(facts, ["wine"])
    plans = [
        plan_of(proxy, space_of("fedsgd-dpc", rounds=2, clients_per_round=61, weighting=weighting))
        for weighting in (0.0, 1.0)
    ]
    assert [courses._as_one(plan) for plan in plans] == [True, False]
    together = outcomes(proxy, plans, [0, 1])[0]
    for found, plan in zip(together, plans, strict=True):
        np.testing.assert_allclose(found, outcomes(proxy, [plan], [0, 1])[0][0], rtol=1e-5)


def test_a_plan_is_made_once_for_each_space_candidate_and_proxy(facts_of, space_of, monkeypatch):
    bench = Bench(facts_of(), ["wine", "iris"])
    short, long = (space_of("fedsgd-dpc", rounds=rounds) for rounds in (4, 6))
    asked = [(space, Candidate(ONE), proxy) for space in (short, long) for proxy in bench.proxies()]
    first = [bench.plan(*one) for one in asked]
    assert [(plan.rounds, plan.problem.dimension) for plan in first] == [(4, 39), (4, 12), (6, 39), (6, 12)]
    monkeypatch.setattr(Space, "plan", None)
    assert all(bench.plan(*one) is plan for one, plan in zip(asked, first, strict=True))
