"""Stage 1, docs/theory/ma.md#stages: what clients report, noised once, and of bounded sensitivity."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from noiseworthy._keys import Purpose, named_key
from noiseworthy.data.federation import Federation
from noiseworthy.engines.debug import debug
from noiseworthy.engines.shards import Shards
from noiseworthy.engines.simulation import simulate
from noiseworthy.methods.algorithm import start_of
from noiseworthy.methods.dpfl_bcs import algorithm as dpfl_bcs
from noiseworthy.methods.dpfl_bcs.loss_reports import make
from noiseworthy.methods.dpfl_bcs.two_stages import plan, stage_before
from noiseworthy.methods.registry import make as made_by
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Constant, Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.mechanisms import Gaussian
from noiseworthy.rounds import client_step
from noiseworthy.studies.two_stages import estimation_of
from noiseworthy.tasks import LinearModel
from noiseworthy.tasks.batch import Batch

FEATURES, CAP = 3, 0.8
KNOWN = {name: Constant(1.0, "assumed") for name in ("smoothness", "strong_convexity")}
TASK = LinearModel(FEATURES, 1, "squared", ridge=0.05)


@pytest.fixture(scope="module")
def federation() -> Federation:
    generator = np.random.default_rng(5)
    sizes = np.array([5, 9, 7, 8])
    x = generator.normal(size=(4, 9, FEATURES)) * (np.arange(9) < sizes[:, None])[..., None]
    y = np.einsum("nif,nf->ni", x, generator.normal(size=(4, FEATURES))).astype(np.float32)
    return Federation(
        name="few", clients=tuple("abcd"), sizes=sizes, x=x.astype(np.float32), y=y,
        test_x=x[:, 0].astype(np.float32), test_y=y[:, 0], classes=None,
    )  # fmt: skip


@pytest.fixture(scope="module")
def first(federation):
    budget = PrivacyBudget.of([1.0, 2.0, 3.0, 4.0], 1e-5, 4)
    problem = Problem(federation.sizes, FEATURES, budget, "gaussian", 0.7)
    made = plan(
        problem, KNOWN, rounds=12, clients_per_round=2, estimation_rounds=3, loss_cap=CAP,
        step=StepSize(0.2, 10.0), momentum=0.5,
    )  # fmt: skip
    return made.pilot


def silent(first):
    """The same stage without noise, to check what it carries."""
    tiny = Gaussian(np.full(4, 1e-30))
    gradients, losses = (replace(release, mechanism=tiny) for release, _ in first.parts)
    return replace(
        first,
        parts=((gradients, first.uploads), (losses, 2 * first.uploads)),
        plan=replace(first.plan, release=gradients),
    )


def mean_loss(federation, client, theta) -> float:
    """Half squared errors, each within [0, CAP], by hand."""
    n = federation.sizes[client]
    errors = federation.x[client, :n] @ theta - federation.y[client, :n]
    return float(np.mean(np.minimum(errors**2 / 2, CAP)))


def test_reports_are_the_clipped_losses_before_and_after_the_clients_own_step(federation, first):
    """Plain loops without noise: F_n(w), then F_n(w - eta (g_n + ridge w)), round by round."""
    algorithm, reached = make(silent(first), TASK, 3), []
    simulate(
        [algorithm], first.uploads, Shards.load(federation, TASK), np.array([0, 1, 2, 3]), [0],
        on_segment=reached.append,
    )  # fmt: skip
    told = reached[-1].server[-1][0]
    for t, cohort in enumerate(algorithm.cohorts):
        theta, eta = reached[t].theta[0], 0.2 / (1 + t / 10)
        for place, client in enumerate(cohort):
            n = federation.sizes[client]
            x, y = federation.x[client, :n], federation.y[client, :n]
            each = (x @ theta - y)[:, None] * x
            each *= np.minimum(1, 0.7 / np.linalg.norm(each, axis=1))[:, None]
            stepped = theta - eta * (each.mean(axis=0) + 0.05 * theta)
            expected = [mean_loss(federation, client, at) for at in (theta, stepped)]
            np.testing.assert_allclose(told[t, place], expected, rtol=1e-4, atol=1e-5)


def test_reporting_does_not_change_the_training(federation, first):
    """Without noise stage 1 moves as the plain algorithm with the same schedule and momentum."""
    quiet, shards = silent(first), Shards.load(federation, TASK)
    rounds = np.array([3])
    told = simulate([make(quiet, TASK, 3)], first.uploads, shards, rounds, [0])
    plain = simulate([dpfl_bcs.make(quiet.plan, TASK, 3)], first.uploads, shards, rounds, [0])
    np.testing.assert_allclose(told.theta, plain.theta, rtol=1e-5, atol=1e-7)


def test_both_engines_report_the_same(federation, first):
    algorithm, shards = make(first, TASK, 1), Shards.load(federation, TASK)
    one = simulate([algorithm], first.uploads, shards, np.array([0, 3]), [4])
    other = debug(algorithm, first.uploads, shards, np.array([0, 3]), 4)
    np.testing.assert_allclose(one.theta, other.theta, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(one.uploads, other.uploads)


def batch_of(x, y) -> Batch:
    return Batch(jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32), jnp.ones(len(y)))


def test_the_noise_of_gradients_and_losses_has_the_planned_law_and_is_drawn_apart(first):
    """10,000 uploads of client 2: each noise against its normal law, and their correlation.

    Five Kolmogorov-Smirnov tests and one correlation at level 1e-4 each: false alarm below 6e-4.
    """
    algorithm = jax.tree.map(jnp.asarray, make(first, TASK, 0))
    state = algorithm.init(start_of(algorithm.task, jax.random.key(0)))
    shard = batch_of(np.zeros((9, FEATURES)), np.full(9, 0.6))  # gradient 0; loss 0.18 at every model

    @jax.jit
    @jax.vmap
    def upload(key):
        return client_step(algorithm, state, jnp.int32(2), (), shard, key)[0]

    found = np.asarray(upload(jax.random.split(jax.random.key(1), 10_000)), float)
    loss = 0.18 * 9 / 7  # nine records where the plan divides by seven
    std = [first.plan.noise[2]] * FEATURES + [first.losses.mechanism.size[2]] * 2
    for column, size, centre in zip(found.T, std, [0, 0, 0, loss, loss], strict=True):
        assert stats.kstest((column - centre) / size, "norm").pvalue > 1e-4
    correlation = np.corrcoef(found.T)[np.triu_indices(5, 1)]
    assert np.all(np.abs(correlation) < stats.norm.isf(0.5e-5) / 100)


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_a_replaced_record_moves_each_loss_by_at_most_theta_over_n(federation, family):
    """Extreme records, infinite and NaN losses among them, at the same released gradient."""
    delta = 1e-5 if family == "gaussian" else 0.0
    budget = PrivacyBudget.of([1.0, 2.0, 3.0, 4.0], delta, 4)
    problem = Problem(federation.sizes, FEATURES, budget, family, 0.7)
    made = plan(
        problem, KNOWN, rounds=12, clients_per_round=2, estimation_rounds=3, loss_cap=CAP, step=StepSize(0.2)
    )
    algorithm = jax.tree.map(jnp.asarray, make(made.pilot, TASK, 0))
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(7, FEATURES)), generator.normal(size=7)
    theta, most = jnp.array([0.3, -2.0, 0.7]), 0.0
    for value in (1e30, np.inf, np.nan, 0.0, -3.0):
        other_x, other_y = x.copy(), y.copy()
        other_x[0], other_y[0] = value, -value
        losses = [
            algorithm._mean_loss(theta, jnp.int32(2), batch_of(*pair))
            for pair in ((x, y), (other_x, other_y))
        ]
        assert all(np.isfinite(losses))
        most = max(most, abs(float(losses[0] - losses[1])))
    bound = float(made.pilot.losses.sensitivity.value[2])
    assert bound == pytest.approx(CAP / 7)
    assert 0.2 * bound < most <= bound * (1 + 1e-6)


def test_the_second_loss_is_computed_at_the_noised_step_and_at_nothing_more_exact(first):
    """The upload's own gradient part explains the second loss; the exact gradient is not in it."""
    algorithm = jax.tree.map(jnp.asarray, make(first, TASK, 0))
    state = algorithm.init(jnp.array([0.1, -0.2, 0.3]))
    generator = np.random.default_rng(1)
    x, y = generator.normal(size=(7, FEATURES)), generator.normal(size=7)
    update, _ = algorithm.local_update(state, jnp.int32(2), (), batch_of(x, y), jax.random.key(8))
    noised, _, after = np.split(np.asarray(update, float), [FEATURES, FEATURES + 1])
    theta = np.asarray(state.theta) - 0.2 * (noised + 0.05 * np.asarray(state.theta))
    expected = np.mean(np.minimum((x @ theta - y) ** 2 / 2, CAP))
    np.testing.assert_allclose(after, expected, rtol=1e-4)
    exact = TASK.clipped_gradient_sum(state.theta, batch_of(x, y), 0.7, "l2") / 7
    assert np.linalg.norm(noised - exact) > 0.1 * first.plan.noise[2]


def test_uploads_carry_noise_that_the_engine_draws_for_no_other_purpose(first):
    """Gradient noise and loss noise come from keys of their own, so that neither reveals the other."""
    key = named_key(jax.random.key(0), Purpose.NOISE, 1, 2)
    algorithm = jax.tree.map(jnp.asarray, make(first, TASK, 0))
    state = algorithm.init(start_of(algorithm.task, jax.random.key(0)))._replace(round=jnp.int32(1))
    shard = batch_of(np.zeros((7, FEATURES)), np.zeros(7))
    upload, _ = client_step(algorithm, state, jnp.int32(2), (), shard, jax.random.key(0))
    gradient, loss = np.asarray(upload[:2]) / first.plan.noise[2], np.asarray(upload[-2:])
    assert not np.allclose(gradient, jax.random.normal(key, (2,)), rtol=1e-3)
    np.testing.assert_allclose(loss / first.losses.mechanism.size[2], jax.random.normal(key, (2,)), rtol=1e-3)


def outcomes(generator, cohorts):
    """Losses (4, 3, 2) that stage 1 may tell: usual ones, extremes, of one client alone, and with gaps."""
    usual = generator.uniform(0, CAP, (*cohorts.shape, 2))
    yield usual
    for before in (0.0, CAP, -1e30, 1e30):
        yield np.stack([np.full(cohorts.shape, before), usual[..., 1]], axis=2)
    for whose in range(5):
        yield np.where(cohorts[..., None] == whose, 1e9, 1) * usual
    yield np.where(generator.random(cohorts.shape)[..., None] < 0.7, np.nan, usual)


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_both_stages_as_they_run_cost_no_more_than_the_budget_whatever_is_told(family, relation):
    """Counted anew by replies in the schedules and noise as drawn: 2C/n of gradients, Theta/n of losses."""
    sizes, epsilon, delta = np.array([40, 90, 200, 500, 900]), np.array([0.2, 0.7, 1.0, 2.0, 5.0]), 1e-5
    budget = PrivacyBudget.of(epsilon, delta if family == "gaussian" else 0.0, 5, relation)
    made = plan(
        Problem(sizes, FEATURES, budget, family, 0.7), KNOWN, rounds=20, clients_per_round=3,
        estimation_rounds=4, loss_cap=CAP, step=StepSize(0.2),
    )  # fmt: skip
    first, counts = make(stage_before(made), TASK, 0), []
    for losses in outcomes(np.random.default_rng(3), np.asarray(first.cohorts)):
        told = estimation_of(made, np.asarray(first.cohorts), losses.astype(np.float32))
        second = made_by(told.plan, TASK, 1)
        once, later = (np.bincount(np.ravel(one.cohorts), minlength=5) for one in (first, second))
        gradient = (2 if relation == "replace-one" else 1) * 0.7 / sizes
        shifts = gradient / first.noise, CAP / sizes / first.loss_noise, gradient / second.noise
        parts = [(k, np.where(k > 0, one, 0)) for k, one in zip((once, 2 * once, later), shifts, strict=True)]
        counts.append(later)
        if family == "laplace":
            assert np.all(sum(k * one for k, one in parts) <= epsilon * (1 + 1e-6))
            continue
        mu = np.maximum(np.sqrt(sum(k * one**2 for k, one in parts)), 1e-3)
        lost = stats.norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * stats.norm.sf(mu / 2 + epsilon / mu)
        assert np.all(lost <= delta * (1 + 1e-5))
    assert len(np.unique(counts, axis=0)) > 1, "stage 2 must follow what is told"
