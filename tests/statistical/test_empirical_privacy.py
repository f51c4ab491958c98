"""What an attacker can prove about epsilon from the uploads of a whole training, beside what is claimed.

The worst canary: one client, all other records silent, and a record whose clipped gradient is +C or -C in
every round. The attacker knows everything but that record, sees every upload (read off the engine's
parameters) and computes the likelihood ratio of the two data sets.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from noiseworthy.algorithms.base import ServerState
from noiseworthy.algorithms.fedsgd_dpc import make
from noiseworthy.data import Federation
from noiseworthy.engines.simulation import Shards, simulate
from noiseworthy.planning.plan import StepSize
from noiseworthy.planning.problem import Problem
from noiseworthy.planning.queries_replies import stated
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.gaussian import gaussian_epsilon
from noiseworthy.tasks import LinearModel

RECORDS, CLIP, DELTA, RUNS = 4, 1.0, 1e-5, 20_000
EPSILON = {"gaussian": 4.0, "laplace": 2.0}
FALSE_ALARM = 1e-4
TASK = LinearModel(1, 1, "squared")


def shards_with(target):
    """All records are zero but the canary (1, target); |target| is large, so that its gradient is clipped."""
    x, y = np.zeros((RECORDS, 1)), np.zeros(RECORDS)
    x[0], y[0] = 1.0, target
    federation = Federation.from_clients([(x, y)], test=(x, y), classes=None, name="canary")
    return Shards.load(federation, TASK)


def uploads_of(plan, target, noise_factor, single_uploads):
    """Uploads of every round and run, shape (rounds, RUNS), read off the engine's parameters."""
    algorithm = make(plan, TASK, 0)
    algorithm = eqx.tree_at(lambda a: a.noise, algorithm, algorithm.noise * np.float32(noise_factor))
    path = []

    def keep(done):
        path.append(np.asarray(done.theta[:, 0], float))

    seeds = np.arange(RUNS) + (RUNS if target > 0 else 0)
    simulate(
        [algorithm] * RUNS, plan.releases, shards_with(target), np.arange(plan.rounds + 1), seeds,
        single_uploads=single_uploads, on_segment=keep,
    )  # fmt: skip
    return (np.array(path[:-1]) - np.array(path[1:])) / plan.step.initial


def log_ratio(uploads, plan, family):
    """log p(uploads | canary +) - log p(uploads | canary -); the canary's gradient is -sign C."""
    log = stats.laplace.logpdf if family == "laplace" else stats.norm.logpdf
    mean = CLIP / RECORDS
    return (log(uploads, -mean, plan.noise[0]) - log(uploads, mean, plan.noise[0])).sum(axis=0)


def attack(family, rounds, *, noise_factor=1.0, single_uploads=False):
    """Scores of the attacker under both data sets, and the plan that was attacked."""
    delta = DELTA if family == "gaussian" else 0.0
    problem = Problem(np.array([RECORDS]), 1, PrivacyBudget.of(EPSILON[family], delta, 1), family, CLIP)
    plan = stated(problem, rounds, 1, StepSize(0.01, float("inf")))
    runs = [uploads_of(plan, target, noise_factor, single_uploads) for target in (1e6, -1e6)]
    return *(log_ratio(run, plan, family) for run in runs), plan


def rates(plus, minus, level):
    """Clopper-Pearson bounds: true positives from below, false positives from above."""
    hits, alarms = int(np.sum(plus > level)), int(np.sum(minus > level))
    least = stats.beta.ppf(FALSE_ALARM / 2, hits, len(plus) - hits + 1) if hits else 0.0
    most = stats.beta.ppf(1 - FALSE_ALARM / 2, alarms + 1, len(minus) - alarms)
    return least, most


def proven_epsilon(plus, minus, delta):
    """Best lower bound on epsilon; levels are chosen on one half of the runs and judged on the other."""
    half = len(plus) // 2
    levels = np.quantile(plus[:half], np.linspace(0.02, 0.98, 49))

    def bound(sample, level):
        least, most = rates(plus[sample], minus[sample], level)
        return np.log(max(least - delta, 1e-12) / most)

    best = max(levels, key=lambda level: bound(slice(half), level))
    return bound(slice(half, None), best)


def proven_gaussian_epsilon(plus, minus, delta):
    """The same through the trade-off curve of Gaussian noise: mu >= z(TPR) - z(FPR), then epsilon(mu)."""
    half = len(plus) // 2
    level = (np.mean(plus[:half]) + np.mean(minus[:half])) / 2
    least, most = rates(plus[half:], minus[half:], level)
    mu = max(stats.norm.ppf(least) - stats.norm.ppf(most), 1e-3)
    return float(gaussian_epsilon(np.array([mu]), np.array([delta]))[0])


@pytest.mark.slow
@pytest.mark.parametrize("single_uploads", [False, True], ids=["summed noise", "noise per upload"])
def test_gaussian_training_gives_away_most_of_its_epsilon_and_never_more(single_uploads):
    plus, minus, plan = attack("gaussian", 5, single_uploads=single_uploads)
    assert plan.releases.tolist() == [5]
    assert proven_epsilon(plus, minus, DELTA) <= 4.0
    proven = proven_gaussian_epsilon(plus, minus, DELTA)
    assert 0.8 * 4.0 < proven <= 4.0


@pytest.mark.slow
def test_laplace_training_gives_away_most_of_its_epsilon_and_never_more():
    plus, minus, plan = attack("laplace", 2)
    assert plan.releases.tolist() == [2]
    assert 0.8 * 2.0 < proven_epsilon(plus, minus, 0.0) <= 2.0


@pytest.mark.slow
@pytest.mark.parametrize(("family", "rounds"), [("gaussian", 5), ("laplace", 2)])
def test_half_of_the_planned_noise_is_caught(family, rounds):
    plus, minus, _ = attack(family, rounds, noise_factor=0.5)
    if family == "gaussian":
        assert proven_gaussian_epsilon(plus, minus, DELTA) > 1.5 * 4.0
    else:
        assert proven_epsilon(plus, minus, 0.0) > 1.1 * 2.0


@pytest.mark.slow
def test_one_upload_more_than_planned_would_be_caught_in_the_mean():
    """The audit is sharp enough to see six uploads at the noise of five: the score's mean grows by mu^2."""
    plus, minus, plan = attack("gaussian", 5)
    mu_squared = 5 * (2 * CLIP / RECORDS / plan.noise[0]) ** 2
    for scores, sign in ((plus, 1), (minus, -1)):
        error = np.sqrt(mu_squared / RUNS)
        assert abs(sign * scores.mean() - mu_squared / 2) < stats.norm.isf(FALSE_ALARM / 2) * error
        assert abs(sign * scores.mean() - 6 / 5 * mu_squared / 2) > stats.norm.isf(FALSE_ALARM / 2) * error


def test_the_canary_is_the_worst_case_in_every_round():
    """Its clipped gradient is C in magnitude whatever theta, so replacing it moves an update by 2C/n."""
    algorithm = make(
        stated(
            Problem(np.array([RECORDS]), 1, PrivacyBudget.of(1.0, 0.0, 1), "laplace", CLIP), 2, 1,
            StepSize(0.01),
        ),
        TASK, 0,
    )  # fmt: skip
    for theta in (-10.0, 0.0, 10.0):
        state = ServerState(jnp.array([theta], jnp.float32), jnp.zeros((), jnp.int32))
        shards = [shards_with(target).of(0) for target in (1e6, -1e6)]
        updates = [
            float(algorithm.local_update(state, 0, (), shard, jax.random.key(0))[0][0]) for shard in shards
        ]
        np.testing.assert_allclose(updates, [-CLIP / RECORDS, CLIP / RECORDS], rtol=1e-5)
