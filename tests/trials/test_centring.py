"""Public records seen against their mean and started at their classes, told with the noise of the study."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noiseworthy.methods.space import Setting
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.means import SHARE, MeanRelease, most_of
from noiseworthy.studies.decision import Decision
from noiseworthy.studies.fitted import explained
from noiseworthy.tasks import Batch, LinearModel
from noiseworthy.trials.bench import Bench, Candidate
from noiseworthy.trials.centring import constant_of_shares
from noiseworthy.trials.deadline import Deadline
from noiseworthy.trials.facts import PublicFacts
from noiseworthy.trials.fitted_bound import fit
from noiseworthy.trials.landscape import landscape
from noiseworthy.trials.proxies import Proxy
from noiseworthy.trials.race import Result
from noiseworthy.trials.search import planned
from noiseworthy.trials.treatment import Treatment
from noiseworthy.trials.what_if import WhatIf

CENTRED, ONE = Treatment(centred=True), Setting(1.0, 1.0, 1.0, 1.0)


def mean_seen(facts: PublicFacts, source: str = "iris") -> np.ndarray:
    task = Proxy.of(facts, source, CENTRED).task
    assert isinstance(task, LinearModel)
    assert task.preparation.reference is not None
    return task.preparation.reference.mean


def units(proxy: Proxy) -> np.ndarray:
    rows = np.asarray(proxy.records.x, float).reshape(len(proxy.records.x), -1)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_with_much_budget_records_are_seen_against_their_mean_and_scaled_to_norm_1(facts_of):
    proxy = Proxy.of(facts_of(epsilon=1e5), "iris", CENTRED)
    true = units(proxy).mean(axis=0)
    assert mean_seen(facts_of(epsilon=1e5)) == pytest.approx(true, abs=1e-3)
    assert isinstance(proxy.task, LinearModel)
    rows = np.asarray(proxy.task.prepare(proxy.records.x))
    expected = units(proxy) - mean_seen(facts_of(epsilon=1e5))
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert rows == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_the_noise_of_a_trial_is_that_of_the_study(facts_of, family):
    """In 30 numbers; its norm has a deviation of 13 %, of which 4 are allowed, and Laplace noise 20 %."""
    facts = facts_of(family, epsilon=500.0)
    true = units(Proxy.of(facts, "breast-cancer", CENTRED))
    if family == "laplace":
        true *= np.minimum(1, most_of("l1", 30) / np.abs(true).sum(axis=1, keepdims=True))
    noise = mean_seen(facts, "breast-cancer") - true.mean(axis=0)
    stated = MeanRelease.of(facts.problem.sizes, facts.problem.budget, family, (30,), 2).deviation
    assert np.linalg.norm(noise) / 30**0.5 == pytest.approx(stated, rel=0.8 if family == "laplace" else 0.52)


def test_where_noise_hides_the_mean_records_stay_as_they_are(facts_of):
    assert mean_seen(facts_of(epsilon=0.01)) == pytest.approx(np.zeros(4))


def skewed(facts: PublicFacts, classes: int = 3) -> PublicFacts:
    """Facts whose stand-ins have an intercept."""

    def with_bias(*of):
        return replace(facts.make_task(*of), bias=0.3)

    return replace(facts, make_task=with_bias, classes=classes)


def test_trainings_start_at_the_shares_of_the_classes_and_gains_are_counted_from_zero(facts_of):
    """Wine has its three classes in shares of 0.33, 0.4 and 0.27."""
    facts = skewed(facts_of(epsilon=1e5))
    proxy, plain = (Proxy.of(facts, "wine", one) for one in (CENTRED, Treatment()))
    assert isinstance(proxy.task, LinearModel)
    held = np.bincount(proxy.records.y) / len(proxy.records.y)
    at = np.array(proxy.task.start)
    assert np.exp(at) / np.exp(at).sum() == pytest.approx(held, abs=1e-3)
    assert (
        proxy.deal().untrained_loss == pytest.approx(plain.deal().untrained_loss) == pytest.approx(np.log(3))
    )
    assert plain.task.start == ()


def start_of_numbers(facts: PublicFacts) -> PublicFacts:
    """Facts of a regression whose clients tell the mean of their labels with hardly any noise."""
    intercept = LinearModel(7, 1, "squared", bias=1.0, feature_norm=1.0)
    known = Problem(facts.problem.sizes, 8, facts.problem.budget, "gaussian", 1.0)
    return replace(facts, problem=known, classes=None, label_noise=1e-3, make_task=lambda *_: intercept)


@pytest.mark.full
@pytest.mark.parametrize("labels", ["classes", "numbers"])
def test_stand_ins_of_one_shape_start_each_at_what_it_told(labels, facts_of, space_of):
    """They share plans and programs. With steps of nothing each ends where its own model starts."""
    facts = facts_of(epsilon=1e5, sizes=(37, 21), record_shape=(7,))
    facts, way = (skewed(facts), CENTRED) if labels == "classes" else (start_of_numbers(facts), None)
    bench = Bench(facts, ["prior:0", "prior:1", "prior:2"])
    proxies = bench.proxies(way)
    assert len({proxy.task.start for proxy in proxies}) == 3
    still = space_of("fedsgd-dpc", rounds=2, clients_per_round=2, step_size=1e-12, clip_norm=1.0)
    found = bench.scores(still, [Candidate(ONE, way)], [0, 1]).loss
    for proxy, losses in zip(proxies, found[:, 0], strict=True):
        x, y = proxy.deal().shards.test_x, proxy.deal().shards.test_y
        own = float(proxy.task.score(proxy.task.initial(jax.random.key(0)), x, y).loss)
        assert losses == pytest.approx(own / proxy.deal().untrained_loss, rel=1e-5)


def test_where_noise_hides_the_shares_trainings_start_at_zero(facts_of):
    assert Proxy.of(skewed(facts_of(epsilon=0.01)), "wine", CENTRED).task.start == pytest.approx((0, 0, 0))


@pytest.mark.full
@pytest.mark.parametrize("weights", [None, (1.0, 3.0)])
@pytest.mark.parametrize("loss", ["softmax", "logistic", "hinge"])
def test_no_constant_outputs_have_less_loss_than_those_of_the_shares(loss, weights):
    """By a search over all of them; records of share p and weight v have the loss v p."""
    outputs, shares = (2 if loss == "softmax" else 1), np.array([0.85, 0.15])
    task = LinearModel(1, outputs, loss, bias=1.0, class_weights=weights)
    x, held = jnp.array([[0.0, 1.0]] * 2), shares * np.array(weights or 1)

    @jax.vmap
    def missed(z):
        theta = jnp.zeros((2, outputs)).at[-1].set(z).ravel()
        plain = replace(task, class_weights=None)
        return jnp.asarray(held, z.dtype) @ plain.losses(theta, Batch(x, jnp.array([0, 1]), jnp.ones(2)))

    found = constant_of_shares(task, shares)
    every = np.linspace(-3, 3, 1201, dtype=np.float32)[:, None] * np.array([1, -1], np.float32)[:outputs]
    least = float(missed(jnp.asarray(every)).min())
    assert float(missed(jnp.asarray([found], jnp.float32))[0]) == pytest.approx(least, abs=1e-5)
    assert sum(found) == pytest.approx(0) or outputs == 1


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_trainings_have_the_budget_that_is_left(facts_of, family):
    facts = facts_of(family)
    left, whole = facts.paying(CENTRED).problem, facts.problem
    currency = whole.law.paid_in.analysis
    assert currency.whole(left.budget) == pytest.approx((1 - SHARE) * currency.whole(whole.budget), rel=1e-6)
    assert facts.paying(Treatment()) is facts
    assert np.all(Proxy.of(facts, "iris", CENTRED).problem.budget.epsilon == left.budget.epsilon)


def test_many_clients_are_stood_for_by_fewer_with_as_much_noise_in_their_mean(facts_of):
    """One draw of noise under the same seed: that of 2,000 clients and of the 500 that stand for them."""
    many = facts_of(epsilon=20.0, sizes=(30,) * 2000)
    few = replace(many, problem=replace(many.thinned().problem))
    true = units(Proxy.of(many, "iris", CENTRED)).mean(axis=0)
    stood_for, alone = (np.linalg.norm(mean_seen(one) - true) for one in (many, few))
    assert stood_for == pytest.approx(alone / 2, rel=0.1)


def test_what_trains_nothing_is_told_nothing(facts_of, space_of):
    """A winner that no public record gains by leaves budgets whole and records as they were."""
    bench = Bench(facts_of(), ["iris"])
    candidate = Candidate(space_of("fedsgd-dpc").first()[0], CENTRED)
    found = bench.scores(space_of("fedsgd-dpc"), [candidate], [0])
    nothing = found._replace(loss=np.full_like(found.loss, 1.5))
    result = Result(candidate, 0.0, np.zeros(1), nothing, 1, False)
    plan = planned(bench, space_of("fedsgd-dpc"), result)
    assert not plan.plan.train
    assert plan.treatment == Treatment()
    assert np.all(plan.plan.problem.budget.epsilon == bench.facts.problem.budget.epsilon)


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_a_plan_by_trial_spends_what_clients_tell_before_too(family, facts_of, space_of):
    """Advice says what its plans spend: the mean is a part of it, not beside it."""
    bench = Bench(facts_of(family, epsilon=5.0), ["iris"])
    candidate = Candidate(space_of("fedsgd-dpc").first()[0], CENTRED)
    found = bench.scores(space_of("fedsgd-dpc"), [candidate], [0])
    learned = found._replace(loss=np.full_like(found.loss, 0.5))
    plan = planned(bench, space_of("fedsgd-dpc"), Result(candidate, 0.0, np.zeros(1), learned, 1, False)).plan
    assert np.all(plan.budget.epsilon == 5.0)
    assert np.all(plan.problem.budget.epsilon < 4.9)
    assert plan.spent() == pytest.approx(5.0, rel=1e-3)


def test_what_if_tells_other_budgets_in_those_of_the_study(facts_of, space_of):
    """Not in what is left of them for training."""
    bench, space = Bench(facts_of(epsilon=5.0), ["iris"]), space_of("fedsgd-dpc")
    candidate = Candidate(space.first()[0], CENTRED)
    learned = bench.scores(space, [candidate], [0])._replace(loss=np.full((1, 1, 1), 0.5))
    plan = planned(bench, space, Result(candidate, 0.0, np.zeros(1), learned, 1, False)).plan
    points = landscape(bench, space, candidate, [0])
    assert WhatIf.of(fit(points, 0.3), plan).epsilon().own == 5.0


def test_what_if_of_a_plan_counts_what_was_bought_before_it(facts_of, space_of):
    """Size and mean of labels leave 5.0 of the 5.3 that the study states, in whose terms all is told."""
    bench, space = Bench(facts_of(epsilon=5.0, stated_epsilon=5.3), ["iris"]), space_of("fedsgd-dpc")
    candidate = Candidate(space.first()[0], None)
    learned = bench.scores(space, [candidate], [0])._replace(loss=np.full((1, 1, 1), 0.5))
    found = planned(bench, space, Result(candidate, 0.0, np.zeros(1), learned, 1, False))
    told = explained(Decision(found.plan, None), bench, space, found, Deadline(), lambda done: None).what_if
    assert told is not None
    assert told.epsilon().own == 5.3
