"""Metrics of many models at once are those that the model in a run's folder is measured by."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import softmax

from noiseworthy.model.metrics import of_classes
from noiseworthy.tasks import make_task
from noiseworthy.tasks.qualities import constant_quality, quality
from noiseworthy.trials.courses import answers_of

METRICS = ("accuracy", "balanced-accuracy", "auc")


@pytest.mark.parametrize("outputs", [1, 2, 4])
@pytest.mark.parametrize("metric", METRICS)
def test_each_is_that_of_scikit_learn(metric, outputs):
    """With ties, and classes of unlike sizes."""
    rng, classes = np.random.default_rng(outputs), max(outputs, 2)
    y = rng.choice(classes, 200, p=np.arange(1, classes + 1) / sum(range(1, classes + 1)))
    z = rng.normal(size=(3, 200, outputs)).round(1) + (
        np.eye(classes)[y][:, -outputs:] if outputs > 1 else y[:, None]
    )
    scores = [np.concatenate([-one, one], axis=1) if outputs == 1 else one for one in z]
    name = metric.replace("-", "_")
    expected = [getattr(of_classes(y, one, probabilities=False), name) for one in scores]
    np.testing.assert_allclose(quality(metric, z, y), expected, rtol=1e-12)


def test_many_classes_are_told_apart_one_against_the_rest():
    y = np.array([0, 0, 1, 2, 2])
    z = softmax(np.random.default_rng(1).normal(size=(1, 5, 3)), axis=2)
    by_hand = []
    for k in range(3):
        mine, others = z[0, y == k, k], z[0, y != k, k]
        by_hand.append(np.mean(mine[:, None] > others))
    assert quality("auc", z, y).item() == pytest.approx(np.mean(by_hand))


@pytest.mark.parametrize("metric", METRICS)
def test_a_constant_answer_reaches_what_is_subtracted_for_it(metric):
    y = np.array([1, 1, 1, 0, 2])
    z = np.tile([0.1, 0.7, 0.2], (1, 5, 1))
    assert quality(metric, z, y).item() == pytest.approx(constant_quality(metric, y))


@pytest.mark.parametrize(("model", "classes", "outputs"), [("softmax", 3, 3), ("logistic", 2, 1)])
def test_outputs_are_those_of_every_model(model, classes, outputs):
    task, rng = make_task(model, (4,), classes), np.random.default_rng(0)
    theta, x = rng.normal(size=(5, task.dimension)).astype(np.float32), rng.normal(size=(7, 4))
    prepared = task.prepare(jnp.asarray(x))
    found = answers_of(task, theta, prepared)
    assert found.shape == (5, 7, outputs)
    np.testing.assert_allclose(found[2], task.answers(jnp.asarray(theta[2]), prepared), rtol=1e-5)
