"""Bounds from trials of known mechanisms: below the truth as often as stated, and close to it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, laplace, norm

from noiseworthy.audit.attack import Trials, bound, scores
from noiseworthy.audit.families import GaussianFamily, LossFamily
from noiseworthy.audit.observations import Observations
from noiseworthy.audit.statistics import least_advantage
from noiseworthy.audit.targets import Target
from noiseworthy.methods.registry import make
from noiseworthy.plans.plan import Plan
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.gaussian import gaussian_mu
from noiseworthy.privacy.gaussian_epsilon import gaussian_epsilon
from noiseworthy.privacy.mechanisms import Gaussian, Laplace
from noiseworthy.privacy.releases import Release
from noiseworthy.privacy.sensitivity import of_mean_gradient

ALARM = 1e-6
REPETITIONS = 400


def gaussian_trials(generator, mu, count) -> Trials:
    """Scores of clients whose Gaussian mechanism has the ratios `mu`, half of the trials in each world."""
    each = mu[np.arange(count // 2) % len(mu)]
    present, absent = (generator.normal(sign * each**2 / 2, each) for sign in (1, -1))
    return Trials(present, absent, np.arange(len(mu)), GaussianFamily(mu), 0.0)


@pytest.mark.parametrize("mu", [[0.3], [1.0], [0.2, 0.7, 2.0]], ids=str)
def test_a_gaussian_bound_is_too_high_as_rarely_as_stated(mu):
    generator, mu = np.random.default_rng(0), np.array(mu)
    delta = np.full(len(mu), 1e-5)
    found = [bound(gaussian_trials(generator, mu, 2_000), delta, 0.95) for _ in range(REPETITIONS)]
    above = sum(bool(np.any(one.epsilon > gaussian_epsilon(mu, delta))) for one in found)
    assert above <= binom.isf(ALARM, REPETITIONS, 0.05)
    assert sum(one.family_free > gaussian_epsilon(mu, delta).max() for one in found) <= binom.isf(
        ALARM, REPETITIONS, 0.05
    )


def laplace_scores(generator, ratio, count, trials):
    """Scores of `count` Laplace releases, present and absent."""

    def of(mean):
        x = generator.laplace(size=(trials, count)) + mean
        return np.sum(np.abs(x) - np.abs(x - ratio), axis=1)

    return of(ratio), of(0.0)


def test_a_laplace_advantage_is_overstated_as_rarely_as_stated():
    """The bound is monotone in the advantage, so that one exceeds the truth where the other does."""
    generator, (ratio, count) = np.random.default_rng(1), (0.4, 5)
    truth, above = LossFamily(Laplace.law, (((ratio, count),),)).advantage(1.0), 0
    for _ in range(REPETITIONS):
        present, absent = laplace_scores(generator, ratio, count, 1_000)
        trials = Trials(present, absent, np.array([0]), LossFamily(Laplace.law, ()), 0.0)
        above += least_advantage(trials.errors, trials.count, 0.05) > truth
    assert above <= binom.isf(ALARM, REPETITIONS, 0.05)


@pytest.mark.parametrize("epsilon", [1.0, 3.0, 10.0])
def test_a_gaussian_bound_proves_most_of_epsilon(epsilon):
    mu, delta = gaussian_mu(np.array([epsilon]), 1e-5), np.array([1e-5])
    proven = bound(gaussian_trials(np.random.default_rng(2), mu, 40_000), delta, 0.95).epsilon[0]
    assert {1.0: 0.8, 3.0: 0.9, 10.0: 0.95}[epsilon] * epsilon < proven < epsilon


def test_a_laplace_bound_proves_most_of_pure_epsilon():
    present, absent = laplace_scores(np.random.default_rng(3), 0.6, 5, 20_000)
    trials = Trials(present, absent, np.array([0]), LossFamily(Laplace.law, (((0.6, 5),),)), 0.0)
    found = bound(trials, np.zeros(1), 0.95)
    assert 2.7 < found.epsilon[0] < 3.0
    assert found.family_free < 3.0


def test_a_mechanism_with_half_of_the_noise_is_proven_to_exceed_its_claim():
    trials = gaussian_trials(np.random.default_rng(4), np.array([2.0]), 10_000)
    claimed = Trials(trials.present, trials.absent, trials.subjects, GaussianFamily(np.array([1.0])), 0.0)
    found = bound(claimed, np.array([1e-5]), 0.999)
    assert 1.85 < found.scale < 2.0


@pytest.fixture
def seen() -> Observations:
    """Two trainings of two rounds in which both of two clients send two numbers."""
    generator = np.random.default_rng(5)
    return Observations(
        generator.normal(size=(2, 2, 2, 2)), generator.normal(size=(2, 2, 2, 2, 2)),
        generator.uniform(1, 2, (2, 2, 2)), np.array([[0, 1], [0, 1]]), np.array([[0, 1], [1, 1]]),
    )  # fmt: skip


def target_of(law: str, rate: float) -> Target:
    """A training with that noise, whatever it costs."""
    sizes, norm = np.array([50, 50]), "l1" if law == "laplace" else "l2"
    sensitivity = of_mean_gradient(1.0, sizes, norm, "add-remove", rate)
    noise = (Laplace if law == "laplace" else Gaussian)(np.ones(2))
    budget = PrivacyBudget.of(1.0, 1e-5, 2, "add-remove")
    public = Problem(sizes, 2, budget, law, 1.0, rate)
    plan = Plan(
        "fedsgd-dpc", "", public, 2, 2, np.array([2, 2]), Release(noise, sensitivity, rate), None, {}, ""
    )
    return Target("training", plan, make, np.ones(2))


@pytest.mark.parametrize(("law", "rate"), [("gaussian", 1.0), ("laplace", 1.0), ("gaussian", 0.3)])
def test_scores_are_log_likelihood_ratios_upload_by_upload(seen, law, rate):
    found, density = scores(seen, target_of(law, rate)), {"laplace": laplace, "gaussian": norm}[law].pdf
    for training, client in product(range(2), range(2)):
        ratio = 0.0
        for t in range(2):
            upload, noise = seen.uploads[training, t, client], seen.noise[t, client]
            absent, present = (
                density(upload, mean[training, t, client], noise).prod() for mean in seen.means
            )
            ratio += np.log((rate * present + (1 - rate) * absent) / absent)
        assert found[training, client] == pytest.approx(ratio)


def test_poisson_batches_are_a_family_of_their_own():
    assert LossFamily(Gaussian.law, (((1.0, 5),),), 0.2).advantage(1.0) < GaussianFamily(
        np.array([5**0.5])
    ).advantage(1.0)
