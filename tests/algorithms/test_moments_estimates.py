"""Standard errors of coefficients count the noise and the sample: intervals hold as often as they say."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_diabetes

from noiseworthy.errors import ConfigError, InvalidInput
from noiseworthy.methods.moments.estimates import estimates
from noiseworthy.methods.moments.scale import RecordScale, stated
from noiseworthy.methods.moments.wire import moment_rows
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.studies.delivery import estimates_of
from noiseworthy.tasks import LinearModel

SIZES, SEEDS = np.array([4000, 6000, 10_000]), 500
COLUMNS = [1, 2, 3, 9]
"""Sex, body mass, blood pressure, blood sugar: no column that others nearly determine."""
TASK = LinearModel(len(COLUMNS), 1, "squared", bias=0.5, feature_norm=1.0)


def table():
    """Records as a study sees them, and labels in public units."""
    x, y = load_diabetes(return_X_y=True)
    return np.asarray(TASK.prepare(jnp.asarray(x[:, COLUMNS] * 8, jnp.float32)), float), (y - 150) / 80


def plan_of(family, epsilon):
    budget = PrivacyBudget.of(epsilon, 0.0 if family == "laplace" else 1e-5, 3)
    problem = Problem(SIZES, TASK.dimension, budget, family, 1.0)
    scale = RecordScale.of(TASK, problem.norm, 2.0)
    weight = scale.label_weight
    clip = scale.radius**2 + (weight * 2.5) ** 2 if family == "gaussian" else 8.6
    return stated(replace(problem, clip_norm=clip), TASK, scale, StepSize(1.0, np.inf), 0.1, weight)


@pytest.mark.parametrize(("family", "epsilon"), [("gaussian", [1.0, 1.0, 1.0]), ("gaussian", [0.5, 4.0, 1.0]),
                                                 ("laplace", [4.0, 4.0, 4.0])])  # fmt: skip
def test_intervals_hold_as_often_as_they_say(family, epsilon):
    """500 samples with replacement of a real table, dealt to three clients, with noise of the plan."""
    x, y = table()
    plan, generator = plan_of(family, epsilon), np.random.default_rng(8)
    rows = moment_rows(
        x, y[:, None], plan.moments.label_weight, plan.problem.norm, True, plan.problem.clip_norm
    )
    truth = np.linalg.lstsq(x, y, rcond=None)[0]
    sent = np.zeros((SEEDS, rows.shape[1]))
    for weight, noise, size in zip(plan.weights, plan.noise, SIZES, strict=True):
        drawn = generator.multinomial(size, np.full(len(x), 1 / len(x)), SEEDS) @ rows / size
        law = generator.normal if family == "gaussian" else generator.laplace
        sent += weight * (drawn + law(0, noise, drawn.shape))
    found = [estimates(plan, one) for one in sent]
    ends = np.array([one.interval() for one in found])
    held = np.mean((ends[..., 0] <= truth) & (truth <= ends[..., 1]), axis=0)
    assert np.all((held >= 0.92) & (held <= 0.98)), held
    told = np.mean([one.errors for one in found], axis=0)
    spread = np.std([one.coefficients for one in found], axis=0)
    np.testing.assert_allclose(told, spread, rtol=0.15)
    assert np.all(np.mean([one.errors_of_noise for one in found], axis=0) < told)
    residual = np.sqrt(np.mean(np.square(y - x @ truth)))
    assert np.mean([one.residual for one in found]) == pytest.approx(residual, rel=0.02)


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_the_bias_of_a_noised_inverse_is_taken_out(family):
    """The mean over evenly spread quantiles of the noise in A, for records of length 1 with one feature."""
    task, n = LinearModel(1, 1, "squared", feature_norm=1.0), 1000
    budget = PrivacyBudget.of(0.2, 0.0 if family == "laplace" else 1e-5, 1)
    problem = Problem(np.array([n]), 1, budget, family, 3.0)
    plan = stated(problem, task, RecordScale.of(task, problem.norm, 1.0), StepSize(1.0, np.inf), 0.1, 1.0)
    rows = moment_rows(np.ones((n, 1)), np.full((n, 1), 0.5), 1.0, problem.norm, True, 3.0)
    noise = getattr(stats, {"gaussian": "norm"}.get(family, family)).ppf((np.arange(400) + 0.5) / 400)
    sent = [rows.mean(axis=0) + np.array([plan.noise[0] * one, 0, 0]) for one in noise]
    bias = np.mean([estimates(plan, one).coefficients for one in sent]) - 0.5
    assert abs(bias) < 0.1 * 0.5 * plan.variance_factor * plan.noise[0] ** 2


def test_errors_without_the_noise_would_hold_too_seldom():
    """The test above can fail: noise is a good part of them."""
    x, y = table()
    plan = plan_of("gaussian", [1.0, 1.0, 1.0])
    rows = moment_rows(x, y[:, None], plan.moments.label_weight, "l2", True, plan.problem.clip_norm)
    found = estimates(plan, rows.mean(axis=0))
    assert np.all(found.errors_of_noise > 0.5 * found.errors)


def test_coefficients_and_errors_are_the_same_wherever_labels_are_seen_from():
    x, y = table()
    plan = plan_of("gaussian", [1.0, 1.0, 1.0])
    start = np.array([0.0, 0.0, 0.0, 0.0, 0.4])
    weight, clip = plan.moments.label_weight, 1e6
    sent = [moment_rows(x, (y - x @ at)[:, None], weight, "l2", True, clip) for at in (0 * start, start)]
    zero, seen = (estimates(plan, rows.mean(axis=0), at) for rows, at in zip(sent, (0.0, start), strict=True))
    # apart by the bias that is taken out, which is of what the model adds to its start
    np.testing.assert_allclose(zero.coefficients, seen.coefficients, atol=0.2 * zero.errors.min())
    some = estimates(plan, sent[1].mean(axis=0), start, places=np.array([0, 2, 4]))
    expected = np.linalg.lstsq(x[:, [0, 2, 4]], y, rcond=None)[0]
    np.testing.assert_allclose(some.coefficients, expected, atol=0.2 * some.errors.min())


def test_what_cannot_be_estimated_is_refused(tmp_path):
    x, y = table()
    plan = plan_of("gaussian", [0.01, 0.01, 0.01])
    rows = moment_rows(x, y[:, None], plan.moments.label_weight, "l2", True, plan.problem.clip_norm)
    with pytest.raises(InvalidInput, match="smallest eigenvalue"):
        estimates(plan, rows.mean(axis=0))
    with pytest.raises(InvalidInput, match="got 3"):
        estimates(plan, np.zeros(3))
    with pytest.raises(InvalidInput, match="regressions by one upload"):
        estimates(replace(plan, moments=None), rows.mean(axis=0))
    with pytest.raises(ConfigError, match="no finished run"):
        estimates_of(tmp_path)


@pytest.mark.parametrize("column", [np.zeros(40), np.linspace(-1.0, 1.0, 40)])
def test_features_that_determine_each_other_are_refused_without_noise_too(column):
    """Once all zero, once twice another one, in the float32 of simulated uploads."""
    task = LinearModel(2, 1, "squared", feature_norm=1.0)
    x = np.column_stack([np.linspace(-1.0, 1.0, 40), 2 * column]) / 3
    problem = Problem(np.array([40]), 2, PrivacyBudget.of(1.0, 1e-5, 1), "none", 4.0)
    plan = stated(problem, task, RecordScale.of(task, "l2", 1.0), StepSize(1.0, np.inf), 0.1, 1.0)
    sent = moment_rows(x, np.ones((40, 1)), 1.0, "l2", True, 4.0).mean(axis=0).astype(np.float32)
    with pytest.raises(InvalidInput, match="leave out features that others determine"):
        estimates(plan, sent.astype(float))
