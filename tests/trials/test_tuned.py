"""Settings of a study for its owners are compared by what these make of them at home."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from noiseworthy.home.base import Own
from noiseworthy.home.ridge import towards_each
from noiseworthy.home.tuned import SHARES
from noiseworthy.methods.space import Setting
from noiseworthy.tasks.batch import Batch
from noiseworthy.trials import otherwise as module
from noiseworthy.trials.bench import Bench, Candidate
from noiseworthy.trials.courses import LAST, of_each
from noiseworthy.trials.otherwise import otherwise
from noiseworthy.trials.proxies import seed_of
from noiseworthy.trials.race import Deadline, race
from noiseworthy.trials.tuned import _AS_IT_IS, _OWNERS, _QUICK, after_tuning, gains_of
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
        tuned, right = by_hand(theta[plan, place], number, SHARES)
        alone, _ = by_hand(np.zeros(task.dimension, np.float32), number, (0.0,))
        expected = (1 - _AS_IT_IS) * tuned / alone + _AS_IT_IS * min(loss[plan, place], 1.0)
        np.testing.assert_allclose(missed[plan, place], expected, rtol=1e-3)
        assert score[plan, place] == pytest.approx(right, abs=0.02)
    assert np.isfinite(missed[1, 0]), "of a shared model that diverged owners make their own"
    assert missed[1, 0] <= 1.02


def test_what_says_nothing_gains_nothing_and_what_fits_gains(bench):
    (proxy,) = bench.proxies(None)
    theta = np.zeros((len(SEEDS), proxy.task.dimension), np.float32)
    assert abs(gains_of(proxy, theta, SEEDS)) < 0.03
    records = prepared(proxy.records, proxy.task)
    (fits,) = towards_each(proxy.task, theta[:1], (0.0,), Own(records.x, records.y), 0)
    assert gains_of(proxy, np.stack([fits] * len(SEEDS)), SEEDS) > 0.05


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
