"""Settings are chosen by the metric that a study names, and by the loss where it names none."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import softmax
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from noiseworthy.engines.simulation import simulate
from noiseworthy.methods.making import padded
from noiseworthy.methods.space import Setting
from noiseworthy.tasks import make_task
from noiseworthy.trials import courses
from noiseworthy.trials.bench import Bench, Candidate, Scores
from noiseworthy.trials.cache import keep, recalled
from noiseworthy.trials.deadline import Deadline
from noiseworthy.trials.race import race
from noiseworthy.trials.search import planned

from .test_race import BEST, FREE, Planted

ONE, TWO = Setting(1.0, 1.0, 1.0, 1.0), Setting(1.0, 1.0, 0.5, 0.3)


class Torn(Planted):
    """A bench whose loss is least in one place and whose metric is best in another."""

    other = replace(BEST, passes=2.0, clip=0.05)

    def scores(self, space, candidates, seeds, on_progress=lambda done: None, *, at_home=False):
        scores = super().scores(space, candidates, seeds, on_progress, at_home=at_home)
        if self.facts.metric == "loss":
            return scores
        missed = np.array([[self.loss(one, self.other) for one in candidates]])
        missed = np.repeat(missed[:, :, None], len(seeds), axis=2)
        return scores._replace(quality=1 - missed / 2, missed=missed)


@pytest.mark.full
@pytest.mark.parametrize("metric", ["loss", "auc"])
def test_a_race_is_won_by_the_metric_that_is_named(facts_of, metric):
    bench = Torn(facts_of(metric=metric), [BEST])
    found = race(bench, FREE, [None], 3, Deadline())
    near, far = (
        bench.loss(found.winner, best) for best in (BEST, Torn.other)[:: 1 if metric == "loss" else -1]
    )
    assert near < 0.32 < far
    assert (found.scores.missed is None) == (metric == "loss")


@pytest.mark.full
@pytest.mark.parametrize("metric", ["accuracy", "balanced-accuracy", "auc"])
def test_trials_measure_the_metric_beside_the_same_loss_and_accuracy(facts_of, space_of, metric):
    candidates = [Candidate(ONE), Candidate(TWO)]
    space = space_of("fedsgd-dpc", rounds=6)
    plain, named = (
        Bench(facts_of(metric=one), ["wine", "prior:0"]).scores(space, candidates, [0, 1, 2])
        for one in ("loss", metric)
    )
    np.testing.assert_array_equal(plain.loss, named.loss)
    np.testing.assert_array_equal(plain.accuracy, named.accuracy)
    assert plain.voted is plain.loss
    assert plain.quality is None
    assert named.quality.shape == named.missed.shape == plain.loss.shape
    assert np.all((named.quality > 0.3) & (named.quality <= 1))
    if metric == "accuracy":
        np.testing.assert_array_equal(named.quality, named.accuracy)
    else:
        share = (1 - named.quality) / (1 - (0.5 if metric == "auc" else 1 / 3))
        np.testing.assert_allclose(named.voted, share)


def test_the_auc_of_many_classes_is_that_of_the_probabilities_that_a_model_is_measured_by(facts_of):
    """Outputs of records that are surer of everything are no larger shares of one."""
    rng, task = np.random.default_rng(0), make_task("softmax", (5,), 3)
    x, y, theta = rng.normal(size=(90, 5)), rng.integers(0, 3, 90), rng.normal(size=(2, task.dimension))
    shards = SimpleNamespace(test_x=task.prepare(jnp.asarray(x)), test_y=y)
    proxy = SimpleNamespace(facts=facts_of(metric="auc"), task=task, whole=lambda theta: theta)
    found, _ = courses._by_metric(
        proxy, SimpleNamespace(shards=shards), theta.astype(np.float32), np.ones(2), np.ones(2)
    )
    given = softmax(x @ theta.reshape(2, 5, 3), axis=2)
    expected = [roc_auc_score(y, one, multi_class="ovr") for one in given]
    np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.full
def test_the_metric_is_that_of_the_models_that_trials_end_in(facts_of, space_of):
    bench, space = Bench(facts_of(metric="balanced-accuracy"), ["wine"]), space_of("fedsgd-dpc", rounds=6)
    (proxy,) = bench.proxies()
    plan = bench.plan(space, Candidate(ONE))
    found = bench.scores(space, [Candidate(ONE)], [0, 1]).quality[0, 0]
    algorithms = [courses._tried(proxy, plan, courses._made(proxy, plan, [seed])[0], None) for seed in (0, 1)]
    shards = proxy.deal(0).shards
    run = simulate(padded(algorithms, 512), np.array([plan.uploads] * 2), shards, np.array([6]), [0, 1])
    for value, theta in zip(found, run.theta, strict=True):
        named = np.asarray(proxy.task.answers(jnp.asarray(theta), shards.test_x)).argmax(axis=1)
        assert value == pytest.approx(balanced_accuracy_score(shards.test_y, named), abs=0.02)


@pytest.mark.full
def test_not_to_train_is_decided_by_the_metric(facts_of):
    """A model that ranks no better than a guess is worth nothing, whatever its loss."""
    bench = Planted(facts_of(metric="auc"), [BEST])
    won = race(bench, FREE, [None], 2, Deadline())
    scores = won.scores
    useless = scores._replace(quality=np.full_like(scores.loss, 0.5), missed=np.ones_like(scores.loss))
    assert planned(bench, FREE, replace(won, scores=scores)).plan.train
    assert not planned(bench, FREE, replace(won, scores=useless)).plan.train


def test_the_cache_keeps_what_was_voted_on(facts_of, tmp_path):
    bench = Planted(facts_of(), [BEST])
    won = race(bench, FREE, [None], 2, Deadline())
    some = np.full_like(won.scores.loss, 0.25)
    for scores in (won.scores, won.scores._replace(quality=some, missed=2 * some)):
        keep(tmp_path / "race.json", replace(won, scores=scores))
        again = recalled(tmp_path / "race.json", 1)
        assert again is not None
        for mine, its in zip(scores, again.scores, strict=True):
            np.testing.assert_array_equal(mine, its)


def test_scores_are_joined_and_picked_with_or_without_a_metric():
    one = Scores(*np.arange(4.0)[:, None, None, None] * np.ones((1, 2, 3)))
    assert one.beside(one).missed.shape == (1, 4, 3)
    assert one.of([1]).quality.shape == (1, 1, 3)
    bare = one._replace(quality=None, missed=None)
    assert bare.beside(bare).of([0]).voted.shape == (1, 1, 3)
