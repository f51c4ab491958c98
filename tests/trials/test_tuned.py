"""Settings of a study for its owners are compared by what these make of them at home."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noiseworthy.home.base import Own
from noiseworthy.home.candidates import CENTRES, own_model, tuned_model
from noiseworthy.home.ridge import towards_each
from noiseworthy.methods.space import Setting
from noiseworthy.tasks import make_task
from noiseworthy.tasks.batch import Batch
from noiseworthy.trials import at_home as module
from noiseworthy.trials import courses
from noiseworthy.trials.at_home import otherwise
from noiseworthy.trials.bench import Bench, Candidate, Scores
from noiseworthy.trials.courses import LAST, of_each
from noiseworthy.trials.deadline import Deadline
from noiseworthy.trials.proxies import seed_of
from noiseworthy.trials.race import race
from noiseworthy.trials.tuned import (
    _AS_IT_IS,
    _OWNERS,
    _QUICK,
    OWN_EPOCHS,
    TUNED_EPOCHS,
    after_tuning,
    gains_of,
)
from noiseworthy.trials.typical import prepared, sites, typical

ONE = Candidate(Setting(1.0, 1.0, 1.0, 1.0))
SEEDS = (0, 1, 2)
"""Two of one deal, one of the next."""


@pytest.fixture(scope="module")
def owners(facts_of):
    """Owners with few records, for whom the shared model matters."""
    return facts_of(sizes=(6, 6, 12, 30), for_owners=True)


@pytest.fixture(scope="module")
def bench(owners):
    return Bench(owners, ["wine"])


@pytest.mark.full
def test_losses_after_tuning_are_those_of_owners_one_by_one(bench, owners):
    (proxy,) = bench.proxies(None)
    task, rng = proxy.task, np.random.default_rng(0)
    theta = rng.normal(size=(2, len(SEEDS), task.dimension)).astype(np.float32)
    theta[1, 0, 3] = np.nan
    loss = np.array([[0.5, 0.6, 0.7], [np.inf, 0.8, 3.0]])
    score, missed = after_tuning(proxy, loss, theta, SEEDS)

    records = prepared(proxy.records, task)
    places = typical(owners.problem.sizes, _OWNERS)

    def by_hand(model, number, shares):
        losses, right = [], []
        for site in sites(owners, records, places, seed_of(number)):
            (made,) = towards_each(task, model[None], shares, site.own, number, _QUICK)
            batch = Batch(jnp.asarray(site.x), jnp.asarray(site.y), jnp.ones(len(site.y)))
            losses.append(np.average(np.asarray(task.losses(jnp.asarray(made), batch)), weights=site.counts))
            answers = np.asarray(task.answers(jnp.asarray(made), batch.x)).argmax(axis=1)
            right.append(np.average(answers == site.y, weights=site.counts))
        return np.mean(losses), np.mean(right)

    for plan, place in [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2)]:
        number = SEEDS[place] // 2
        tuned, right = by_hand(theta[plan, place], number, CENTRES)
        alone, _ = by_hand(np.zeros(task.dimension, np.float32), number, (0.0,))
        expected = (1 - _AS_IT_IS) * tuned / alone + _AS_IT_IS * min(loss[plan, place], 1.0)
        np.testing.assert_allclose(missed[plan, place], expected, rtol=1e-3)
        assert score[plan, place] == pytest.approx(right, abs=0.02)
    assert np.isfinite(missed[1, 0]), "of a shared model that diverged owners make their own"
    assert missed[1, 0] <= 1.02


@pytest.mark.full
def test_what_says_nothing_gains_nothing_and_what_fits_gains(bench):
    (proxy,) = bench.proxies(None)
    theta = np.zeros((len(SEEDS), proxy.task.dimension), np.float32)
    assert abs(gains_of(proxy, theta, SEEDS)) < 0.03
    records = prepared(proxy.records, proxy.task)
    (fits,) = towards_each(proxy.task, theta[:1], (0.0,), Own(records.x, records.y), 0)
    assert gains_of(proxy, np.stack([fits] * len(SEEDS)), SEEDS) > 0.05


@pytest.mark.full
def test_only_studies_for_owners_are_scored_after_tuning_and_only_in_late_rounds(bench, owners, space_of):
    space = space_of("fedsgd-dpc", clients_per_round=4)
    early = bench.scores(space, [ONE], SEEDS)
    late = bench.scores(space, [ONE], SEEDS, at_home=True)
    others = Bench(replace(owners, for_owners=False), ["wine"]).scores(space, [ONE], SEEDS, at_home=True)
    assert early.missed is None
    assert others.missed is None
    np.testing.assert_array_equal(early.loss, late.loss)
    np.testing.assert_array_equal(late.loss, others.loss)
    (proxy,) = bench.proxies(None)
    *_, theta = of_each([proxy], [bench.plan(space, ONE)], SEEDS, LAST, models=True)[0]
    np.testing.assert_array_equal(late.missed[0], after_tuning(proxy, late.loss[0], theta, SEEDS)[1])
    np.testing.assert_array_equal(late.voted, late.missed)


@pytest.mark.full
def test_a_race_for_owners_is_decided_by_tuned_models(bench, space_of, monkeypatch):
    """Where tuning has use for short ways only, a smaller clip wins than for the shared model."""
    space = space_of("fedsgd-dpc", clients_per_round=4, clip_norm=None)

    def shorter_is_better(proxy, loss, theta, seeds):
        way = np.linalg.norm(theta, axis=-1)
        return loss, way / (1 + way)

    monkeypatch.setattr("noiseworthy.trials.bench.after_tuning", shorter_is_better)
    others = Bench(replace(bench.facts, for_owners=False), ["wine"])
    told, shared = (race(one, space, [None], 2, Deadline()) for one in (bench, others))
    assert told.scores.missed is not None
    assert shared.scores.missed is None
    assert told.winner.setting.clip < shared.winner.setting.clip


@pytest.mark.full
def test_more_owners_or_budget_are_tried_until_one_is_enough(bench, space_of, monkeypatch):
    space = space_of("fedsgd-dpc", clients_per_round=4)
    tried = []

    def gain(proxy, theta, seeds):
        tried.append((round(proxy.noise_factor, 2), float(proxy.problem.budget.epsilon.max())))
        return 0.02 if proxy.noise_factor < 0.3 else 0.001

    monkeypatch.setattr(module, "gains_of", gain)
    found = {one.way: one for one in otherwise(bench, space, ONE, 0.01)}
    assert (found["owners"].value, found["owners"].gain) == (64, 0.02)
    assert (found["epsilon"].value, found["epsilon"].gain) == (160.0, 0.001)
    assert tried[:4] == [(0.5, 20.0), (0.25, 20.0), (1.0, 40.0), (1.0, 160.0)]
    assert "secure-sum" in found


def test_owners_are_told_epsilons_as_the_study_states_them(bench, space_of, monkeypatch):
    """What is left of 22 after the size of labels was bought is 20: 8 times that is 176 in the study."""
    told = Bench(replace(bench.facts, stated_epsilon=22.0), ["wine"])
    monkeypatch.setattr(module, "gains_of", lambda proxy, theta, seeds: 0.0)
    found = {one.way: one for one in otherwise(told, space_of("fedsgd-dpc", clients_per_round=4), ONE, 0.01)}
    assert found["epsilon"].value == 176.0


# Networks -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def of_network(facts_of):
    """Owners of images whose model is a network."""

    def network(shape, classes, treatment, public=None):
        return make_task("two-layer-cnn", shape, classes)

    facts = facts_of(
        sizes=(8, 8, 16, 24), for_owners=True, record_shape=(8, 8), classes=10, make_task=network
    )
    dimension = network((8, 8), 10, None).dimension
    return Bench(replace(facts, problem=replace(facts.problem, dimension=dimension)), ["digits"])


@pytest.fixture
def as_optax_likes():
    """Adam's correction divides floats by powers of whole numbers."""
    with jax.numpy_dtype_promotion("standard"):
        yield


@pytest.mark.full
@pytest.mark.usefixtures("as_optax_likes")
def test_networks_are_scored_as_owners_tune_them_one_by_one(of_network):
    (proxy,) = of_network.proxies(None)
    task, facts = proxy.task, of_network.facts
    theta = np.asarray(task.initial(jax.random.key(5)))[None, None]
    score, missed = after_tuning(proxy, np.array([[0.8]]), theta, [0])
    losses, right, alone = [], [], []
    for site in sites(
        facts, prepared(proxy.records, task), typical(facts.problem.sizes, _OWNERS), seed_of(0)
    ):
        batch = Batch(jnp.asarray(site.x), jnp.asarray(site.y), jnp.ones(len(site.y)))
        tuned = tuned_model(task, theta[0, 0], site.own, 0, tried=TUNED_EPOCHS)
        own = own_model(task, theta[0, 0], site.own, 0, tried=OWN_EPOCHS)
        for found, model in ((losses, tuned), (alone, own)):
            each = np.asarray(task.losses(jnp.asarray(model), batch))
            found.append(np.average(each, weights=site.counts))
        answers = np.asarray(task.answers(jnp.asarray(tuned), batch.x)).argmax(axis=1)
        right.append(np.average(answers == site.y, weights=site.counts))
    expected = (1 - _AS_IT_IS) * np.mean(losses) / np.mean(alone) + _AS_IT_IS * 0.8
    assert missed[0, 0] == pytest.approx(expected, rel=1e-3)
    assert score[0, 0] == pytest.approx(np.mean(right), abs=0.01)


@pytest.mark.full
def test_networks_train_in_turn_and_nothing_is_trained_that_was_not_asked_for(
    of_network, space_of, monkeypatch
):
    """The same losses whoever is trained beside; of two plans and three seeds, six trainings."""
    (proxy,) = of_network.proxies(None)
    space = space_of("fedsgd-dpc", clients_per_round=4, rounds=2, averaging=None)
    settings = (replace(ONE.setting, averaging=share) for share in (0.0, 0.5))
    plans = [of_network.plan(space, Candidate(setting)) for setting in settings]
    trained: list[int] = []
    simulate = courses.simulate

    def counted(algorithms, *rest, **known):
        trained.append(len(algorithms))
        return simulate(algorithms, *rest, **known)

    monkeypatch.setattr(courses, "simulate", counted)
    ((loss, _, theta),) = of_each([proxy], plans, SEEDS, LAST, models=True)
    assert sum(trained) == 2 * len(SEEDS)
    ((alone, _, own),) = of_each([proxy], plans[1:], SEEDS[:2], LAST, models=True)
    np.testing.assert_allclose(loss[1, :2], alone[0], rtol=1e-5)
    np.testing.assert_allclose(theta[1, :2], own[0], atol=1e-5)
    assert np.abs(theta[1, 0] - theta[1, 1]).max() > 1e-3


@pytest.mark.full
def test_a_race_of_networks_tries_a_coarser_grid(of_network, space_of, monkeypatch):
    """Every other value along each axis, one seed, fewer that go on: trainings take longer than programs."""
    counted: list[tuple[int, int, bool]] = []

    def scores(self, space, candidates, seeds, on_progress=None, *, at_home=False):
        counted.append((len(candidates), len(seeds), at_home))
        loss = np.linspace(0.5, 0.9, len(candidates))[None, :, None].repeat(len(seeds), axis=2)
        return Scores(loss, loss)

    monkeypatch.setattr(Bench, "scores", scores)
    free = {"rounds": None, "clip_norm": None, "step_size": None, "clients_per_round": None}
    space = space_of("fedsgd-dpc", **free, steering=0.0)
    race(of_network, space, [None], 5, Deadline())
    first, *_, final, last = counted
    assert first == (3 * 2 * 3, 1, False)
    assert final == (2, 5, True)
    assert last[1:] == (5, True)
    assert len(space.first(stride=2)) < len(space.first()) / 4
