"""Scores of a model: scikit-learn's where it has them, and beside them what a constant would reach."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from sklearn import metrics

from noiseworthy.model.metrics import of_classes, of_numbers

DRAWS = np.random.default_rng(0)
Y = DRAWS.integers(0, 3, 300)
SCORES = DRAWS.dirichlet(np.ones(3), 300) + 0.3 * np.eye(3)[Y]
P = SCORES / SCORES.sum(axis=1, keepdims=True)


def test_they_are_those_of_scikit_learn():
    found = of_classes(Y, P)
    assert found.accuracy == pytest.approx(metrics.accuracy_score(Y, P.argmax(axis=1)))
    assert found.balanced_accuracy == pytest.approx(metrics.balanced_accuracy_score(Y, P.argmax(axis=1)))
    assert found.auc == pytest.approx(metrics.roc_auc_score(Y, P, multi_class="ovr"))
    assert found.log_loss == pytest.approx(metrics.log_loss(Y, P))


def test_two_classes_have_the_usual_auc():
    y, p = (Y > 0).astype(int), np.column_stack([P[:, 0], 1 - P[:, 0]])
    assert of_classes(y, p).auc == pytest.approx(metrics.roc_auc_score(y, p[:, 1]))


@pytest.mark.parametrize("size", [1.0, 60.0, 500.0])
def test_records_are_ranked_however_sure_the_model_is(size):
    odds = size * np.linspace(0.5, 1.5, 100)
    assert of_classes((odds > size).astype(int), np.column_stack([expit(-odds), expit(odds)])).auc == 1


def test_the_baseline_is_the_class_prior_and_not_one_over_the_classes():
    y = np.repeat([0, 1], [90, 10])
    found = of_classes(y, np.full((100, 2), 0.5))
    shares = np.tile([0.9, 0.1], (100, 1))
    assert found.prior_accuracy == 0.9
    assert found.prior_log_loss == pytest.approx(metrics.log_loss(y, shares)) == found.constant_loss
    assert found.log_loss == pytest.approx(np.log(2))
    assert found.prior_balanced_accuracy == 0.5


def test_always_answering_the_only_class_has_a_loss_of_nothing_that_is_not_negative():
    assert str(of_classes([0, 0], np.array([[0.9, 0.1], [0.2, 0.8]])).prior_log_loss) == "0.0"


def test_calibration_is_right_for_probabilities_that_are():
    """Labels are drawn by the probabilities; then all of them are pushed towards certainty."""
    p = np.random.default_rng(1).uniform(0, 1, 20_000)
    y = (np.random.default_rng(2).uniform(0, 1, 20_000) < p).astype(int)
    honest = of_classes(y, np.column_stack([1 - p, p])).calibration_error
    pushed = np.clip(p + 0.2 * np.sign(p - 0.5), 0.0, 1.0)
    loud = of_classes(y, np.column_stack([1 - pushed, pushed])).calibration_error
    assert honest < 0.02
    assert loud > 0.1


def test_a_class_that_does_not_occur_leaves_auc_open():
    assert of_classes([0, 0, 1], P[:3]).auc is None
    assert of_classes([0, 0, 0], P[:3, :2]).auc is None


def test_margins_are_no_probabilities():
    margins = DRAWS.normal(size=(300, 1))
    found = of_classes((Y > 0).astype(int), np.hstack([-margins, margins]), probabilities=False)
    assert (found.log_loss, found.calibration_error) == (None, None)
    assert found.auc == pytest.approx(metrics.roc_auc_score(Y > 0, margins[:, 0]))


def test_numbers_are_held_against_their_mean():
    y, z = DRAWS.normal(size=50), DRAWS.normal(size=50)
    found = of_numbers(y, z[:, None])
    assert found.r2 == pytest.approx(metrics.r2_score(y, z))
    assert found.error == pytest.approx(metrics.root_mean_squared_error(y, z))
    assert found.prior_error == pytest.approx(metrics.root_mean_squared_error(y, np.full(50, y.mean())))
    assert found.constant_loss == pytest.approx(np.mean(np.square(y - y.mean())) / 2)
