"""Public records seen against their mean: told with the study's noise, paid for by its budgets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from noiseworthy.privacy.means import SHARE, MeanRelease, most_of
from noiseworthy.tasks import LinearModel
from noiseworthy.trials.bench import Bench, Candidate
from noiseworthy.trials.facts import PublicFacts
from noiseworthy.trials.proxies import Proxy
from noiseworthy.trials.race import Result
from noiseworthy.trials.search import planned
from noiseworthy.trials.treatment import Treatment

CENTRED = Treatment(centred=True)


def mean_seen(facts: PublicFacts, source: str = "iris") -> np.ndarray:
    task = Proxy.of(facts, source, CENTRED).task
    assert isinstance(task, LinearModel)
    assert task.preparation.reference is not None
    return task.preparation.reference.mean


def units(proxy: Proxy) -> np.ndarray:
    rows = np.asarray(proxy.records.x, float).reshape(len(proxy.records.x), -1)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_with_much_budget_records_are_seen_against_their_mean_and_scaled_to_norm_1(facts_of):
    proxy = Proxy.of(facts_of(epsilon=1e4), "iris", CENTRED)
    true = units(proxy).mean(axis=0)
    assert mean_seen(facts_of(epsilon=1e4)) == pytest.approx(true, abs=1e-3)
    assert isinstance(proxy.task, LinearModel)
    rows = np.asarray(proxy.task.prepare(proxy.records.x))
    expected = units(proxy) - mean_seen(facts_of(epsilon=1e4))
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
    stated = MeanRelease.of(facts.problem.sizes, facts.problem.budget, family, 30).deviation
    assert np.linalg.norm(noise) / 30**0.5 == pytest.approx(stated, rel=0.8 if family == "laplace" else 0.52)


def test_where_noise_hides_the_mean_records_stay_as_they_are(facts_of):
    assert mean_seen(facts_of(epsilon=0.01)) == pytest.approx(np.zeros(4))


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_trainings_have_the_budget_that_is_left(facts_of, family):
    facts = facts_of(family)
    left, whole = facts.paying(CENTRED).problem, facts.problem
    currency = whole.law.paid_in
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
