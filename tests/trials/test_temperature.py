"""A temperature is chosen on public data, where the log loss of the plan's own models is least."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, log_softmax, softmax

from noiseworthy.methods.space import Setting
from noiseworthy.trials.bench import Bench, Candidate, final_outputs
from noiseworthy.trials.temperature import SEEDS, WIDEST, Answered, best_temperature, temperature_of

ONE = Candidate(Setting(1.0, 1.0, 1.0, 1.0))


def answered(seed=0, classes=3, sure=1.0, n=400, models=2):
    """Models whose outputs are `sure` times the log odds that labels are drawn by."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(models, n, classes))
    labels = np.array([[rng.choice(classes, p=softmax(row)) for row in one] for one in z])
    return Answered(sure * z, labels, np.ones((models, n)))


def loss(every, temperature):
    told = []
    for one in every:
        shares = log_softmax(one.outputs / temperature, axis=2)
        right = np.take_along_axis(shares, one.labels[..., None], axis=2)
        told.append(right.mean() / -np.log(one.outputs.shape[2]))
    return np.mean(told)


def test_it_is_where_the_mean_log_loss_of_all_data_sets_is_least():
    every = [answered(0, 3, 3.0), answered(1, 2, 0.5), answered(2, 5, 1.0)]
    found = best_temperature(every)
    grid = np.geomspace(1 / WIDEST, WIDEST, 400)
    losses = [loss(every, one) for one in grid]
    assert found == pytest.approx(grid[int(np.argmin(losses))], rel=0.02)
    assert loss(every, found) <= min(losses) + 1e-9
    assert loss(every, found) < loss(every, 1.0)


@pytest.mark.parametrize("sure", [0.5, 1.0, 2.0])
def test_models_that_are_too_sure_are_cooled_by_as_much(sure):
    assert best_temperature([answered(3, 3, sure, n=2000)]) == pytest.approx(sure, rel=0.1)


def test_rare_classes_weigh_as_in_the_loss():
    one = answered(4)
    heavy = one._replace(weights=np.array([1.0, 1.0, 9.0])[one.labels])
    more = np.flatnonzero(one.labels[0] == 2)
    places = np.concatenate([np.arange(400), *[more] * 8])
    alone = heavy._replace(outputs=heavy.outputs[:1], labels=heavy.labels[:1], weights=heavy.weights[:1])
    copied = Answered(one.outputs[:1, places], one.labels[:1, places], np.ones((1, len(places))))
    assert best_temperature([alone]) == pytest.approx(best_temperature([copied]), rel=1e-3)
    assert best_temperature([alone]) != best_temperature([one])


@pytest.mark.parametrize("model", ["softmax", "logistic"])
def test_it_is_that_of_the_plans_own_models_on_records_that_they_did_not_see(facts_of, space_of, model):
    """By hand, from final models under the noise of the federation; a function of public inputs alone."""
    classes = 3 if model == "softmax" else 2
    bench = Bench(
        facts_of(epsilon=1.0, model=model, classes=classes), ["breast-cancer"] if classes == 2 else ["wine"]
    )
    space = space_of("fedsgd-dpc", rounds=60)
    found = temperature_of(bench, space, ONE)
    (proxy,) = bench.proxies()
    outputs, labels = final_outputs(proxy, bench.plan(space, ONE), SEEDS)
    assert len({one.tobytes() for one in outputs}) == len(SEEDS)

    def mean_loss(temperature):
        z = outputs / temperature
        if model == "logistic":
            right = expit(np.where(labels == 1, z[..., 0], -z[..., 0]))
        else:
            right = np.take_along_axis(softmax(z, axis=2), labels[..., None], axis=2)
        return -np.mean(np.log(right))

    near = [mean_loss(found * factor) for factor in (0.97, 1.0, 1.03)]
    assert near[1] == min(near)
    assert temperature_of(bench, space, ONE) == found


def test_models_without_probabilities_have_none(facts_of, space_of):
    space = space_of("fedsgd-dpc", rounds=6)
    for changes, source in (
        ({"model": "svm", "classes": 2}, "breast-cancer"),
        ({"model": "linear", "classes": None, "label_scale": 1.0}, "diabetes-progression"),
    ):
        assert temperature_of(Bench(facts_of(**changes), [source]), space, ONE) is None
