"""Shares of noise hide a record among the fewest survivors, by a count written from the theory alone."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import log_ndtr
from scipy.stats import kstest, laplace

from noiseworthy.errors import InvalidInput
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.accountants import spent_epsilon
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.durable.accounts import costs_of
from noiseworthy.privacy.mechanisms import law_of
from noiseworthy.privacy.noise import simulated_noise, simulated_sum
from noiseworthy.privacy.trust import Sharing, Trust

CLIP = 0.7


def delta_of(epsilon: float, mu: float) -> float:
    """Balle & Wang 2018, Theorem 8, in logarithms."""
    body, tail = log_ndtr(mu / 2 - epsilon / mu), epsilon + log_ndtr(-mu / 2 - epsilon / mu)
    return float(np.exp(body) * -np.expm1(tail - body))


def mu_of(epsilon: float, delta: float) -> float:
    return brentq(lambda mu: delta_of(epsilon, mu) - delta, 1e-6, 100.0, xtol=1e-13, rtol=1e-12)


def hidden_by(parts: np.ndarray, i: int, fewest: int) -> float:
    """V_i: the owner's own variance in the sum and the fewest - 1 least of the others', one by one."""
    return parts[i] + sum(sorted(np.delete(parts, i))[: fewest - 1])


def drawn(rng: np.random.Generator) -> tuple[Problem, np.ndarray, int, int]:
    """A problem with unequal sizes, budgets and weights, a cohort, and uploads of each client."""
    t, d = int(rng.integers(0, 4)), int(rng.integers(0, 4))
    trust = Trust("secure-sum", t, d) if rng.random() < 0.9 else Trust("central")
    b = trust.least_cohort + int(rng.integers(0, 8))
    n = b + int(rng.integers(0, 6))
    epsilon, delta = 10 ** rng.uniform(-1.5, 1.2, n), 10 ** rng.uniform(-8, -4, n)
    relation = "replace-one" if rng.random() < 0.5 else "add-remove"
    budget = PrivacyBudget.of(epsilon, delta, n, relation)
    problem = Problem(rng.integers(5, 5000, n), 7, budget, "gaussian", CLIP, trust=trust)
    return problem, rng.uniform(0.05, 1, n) ** 2, b, int(rng.integers(1, 200))


def test_accounting_agrees_with_an_independent_count_on_a_thousand_random_problems():
    rng = np.random.default_rng(0)
    for _ in range(1000):
        problem, weights, b, k = drawn(rng)
        trust, n = problem.trust, problem.n_clients
        release = problem.release(np.full(n, k), b, weights)
        fewest = b - trust.colluders - trust.dropouts
        w, moved = weights / weights.sum(), (2 if problem.budget.relation == "replace-one" else 1) * CLIP
        parts = (w * release.mechanism.size) ** 2
        exposed = np.array(
            [k**0.5 * w[i] * moved / problem.sizes[i] / hidden_by(parts, i, fewest) ** 0.5 for i in range(n)]
        )
        allowed = problem.budget.mu
        assert np.all(exposed <= allowed * (1 + 1e-9))
        assert np.max(exposed / allowed) > 1 / 1.005  # the owner that binds adds no half a percent too much
        np.testing.assert_allclose(k**0.5 * release.shift, exposed, rtol=1e-9)
        worst = int(np.argmax(exposed / allowed))
        epsilon, delta = problem.budget.epsilon[worst], problem.budget.delta[worst]
        assert allowed[worst] == pytest.approx(mu_of(epsilon, delta), rel=1e-6)
        assert k * float(costs_of(release)[worst]) == pytest.approx(exposed[worst] ** 2, rel=1e-9)


def test_no_share_could_be_smaller():
    rng = np.random.default_rng(1)
    for _ in range(50):
        problem, weights, b, k = drawn(rng)
        used = np.full(problem.n_clients, k)
        release = problem.release(used, b, weights)
        assert release.sharing is not None
        less = law_of("gaussian").noise(release.mechanism.size / 1.005)
        shy = type(release)(less, release.sensitivity, 1.0, release.sharing)
        assert np.any(spent_epsilon(shy, used, problem.budget.delta) > problem.budget.epsilon)


def test_each_hidden_variance_counts_the_least_of_the_others():
    rng = np.random.default_rng(2)
    for _ in range(200):
        n = int(rng.integers(1, 9))
        sharing = Sharing(rng.uniform(0.1, 1, n), int(rng.integers(1, n + 1)))
        sizes = rng.choice([0.5, 1.0, 2.0, 3.7], n)
        parts = (sharing.weights * sizes) ** 2
        told = sharing.hiding(sizes, law_of("gaussian")) * sharing.weights
        np.testing.assert_allclose(told**2, [hidden_by(parts, i, sharing.survivors) for i in range(n)])


def test_equal_owners_add_what_they_would_alone_over_the_root_of_the_fewest():
    budget = PrivacyBudget.of(1.0, 1e-5, 10)
    alone = Problem(np.full(10, 100), 3, budget, "gaussian", CLIP)
    summed = Problem(np.full(10, 100), 3, budget, "gaussian", CLIP, trust=Trust("secure-sum", 2, 1))
    used = np.full(10, 9)
    ratio = alone.release(used).mechanism.size / summed.release(used).mechanism.size
    np.testing.assert_allclose(ratio, 7**0.5)


def test_weights_by_budget_and_size_use_every_budget_up_at_once():
    rng = np.random.default_rng(3)
    budget = PrivacyBudget.of(rng.uniform(0.1, 5, 6), 1e-5, 6)
    problem = Problem(rng.integers(10, 900, 6), 3, budget, "gaussian", CLIP, trust=Trust("secure-sum", 1, 1))
    rate = budget.mu / problem.sensitivity.value
    release = problem.release(np.full(6, 4), 6, rate)
    np.testing.assert_allclose(2 * release.shift, budget.mu, rtol=1e-9)
    variance = (release.sharing.weights * release.hiding) ** 2  # pyright: ignore[reportOptionalMemberAccess]
    np.testing.assert_allclose(variance, 4 / np.sum(rate) ** 2, rtol=1e-9)


@pytest.mark.slow
def test_poisson_batches_share_what_their_loss_distribution_asks():
    budget = PrivacyBudget.of(1.0, 1e-5, 4, "add-remove")
    trust = Trust("secure-sum", colluders=1)
    problem = Problem(np.full(4, 400), 3, budget, "gaussian", CLIP, 0.05, trust=trust)
    used = np.full(4, 20)
    spent = spent_epsilon(problem.release(used), used, 1e-5)
    assert np.all(spent <= 1.0)
    np.testing.assert_allclose(spent, 1.0, rtol=5e-3)


def test_a_prediction_of_noise_is_that_of_the_shares():
    rng = np.random.default_rng(4)
    for _ in range(30):
        problem, _, b, k = drawn(rng)
        shares = problem.release(np.full(problem.n_clients, k), b).mechanism.size
        told = float(problem.weighted_noise(np.array([k]), b)[0])
        assert told == pytest.approx(problem.dimension * np.sum((problem.weights * shares) ** 2), rel=1e-9)


@pytest.mark.parametrize(("colluders", "dropouts"), [(0, 0), (3, 0), (0, 3), (2, 1), (1, 4)])
def test_a_cohort_too_small_for_its_protocol_is_refused(colluders, dropouts):
    trust = Trust("secure-sum", colluders, dropouts)
    fits = [
        b for b in range(1, 40) if b >= colluders + dropouts + 2 and (b + colluders) // 2 + 1 <= b - dropouts
    ]
    assert trust.least_cohort == fits[0]
    assert fits == list(range(fits[0], 40))
    n = fits[0]
    for b in range(2, 40):  # no two lists get enough signatures, and one gets them without the missing
        threshold = next(k for k in range(b + colluders + 1) if 2 * k > b + colluders)
        assert (b in fits) == (b - dropouts >= threshold and b - colluders - dropouts >= 2)
        assert trust.threshold(b) == threshold
    problem = Problem(np.full(n, 9), 2, PrivacyBudget.of(1.0, 1e-5, n), "gaussian", CLIP, trust=trust)
    problem.release(np.full(n, 1), n)
    with pytest.raises(InvalidInput, match=f"needs at least {n} owners in each round, got {n - 1}"):
        problem.release(np.full(n, 1), n - 1)
    assert problem.weighted_noise(np.array([1]), n - 1)[0] == np.inf


def discrete_gaussian(deviation: float, reach: int) -> np.ndarray:
    law = np.exp(-np.square(np.arange(-reach, reach + 1) / deviation) / 2)
    return law / law.sum()


def tau(deviation: float, shares: int) -> float:
    """Kairouz, Liu & Steinke 2021."""
    k = np.arange(1, shares)
    return 10 * float(np.exp(-2 * np.pi**2 * deviation**2 * k / (k + 1)).sum())


@pytest.mark.parametrize(("deviation", "shares"), [(0.8, 2), (1.0, 2), (0.8, 4), (1.2, 3)])
def test_discrete_gaussian_shares_add_up_to_one(deviation, shares):
    part = total = discrete_gaussian(deviation, 40)
    for _ in range(shares - 1):
        total = np.convolve(total, part)
    whole = discrete_gaussian(deviation * shares**0.5, len(total) // 2)
    near = np.abs(np.arange(len(total)) - len(total) // 2) <= 12
    apart = np.abs(np.log(total[near] / whole[near])).max()
    assert 1e-9 < apart < tau(deviation, shares)
    assert tau(8.0, 10**6) < 1e-270


def test_laplace_shares_add_up_to_laplace_noise():
    key, parts = jax.random.key(0), 7
    drawn = simulated_sum(key, "laplace", jnp.full(parts, 0.5), 20_000, parts)
    assert kstest(np.asarray(drawn, float), laplace(scale=0.5).cdf).pvalue > 0.01
    single = np.asarray(simulated_noise(key, "laplace", jnp.array(0.5), 20_000, parts), float)
    assert np.var(single) == pytest.approx(2 * 0.25 / parts, rel=0.1)
    assert kstest(single, laplace(scale=0.5 / parts**0.5).cdf).pvalue < 1e-9


def test_laplace_sums_keep_pure_epsilon_where_the_smallest_scale_is_counted():
    rng = np.random.default_rng(5)
    trust = Trust("secure-sum", 1, 1)
    budget = PrivacyBudget.of(rng.uniform(0.1, 5, 6), 0.0, 6)
    problem = Problem(rng.integers(10, 900, 6), 3, budget, "laplace", CLIP, trust=trust)
    release, weights = problem.release(np.full(6, 4)), problem.weights
    scale = weights * release.mechanism.size
    needed = weights * 4 * problem.sensitivity.value / budget.epsilon
    np.testing.assert_allclose(scale, needed.max(), rtol=1e-9)
    told = float(problem.weighted_noise(np.array([4]))[0])
    assert told == pytest.approx(3 * 6 * 2 * needed.max() ** 2 / 4)  # six shares, of which four make a whole
    assert release.sharing is not None
    shy = law_of("laplace").noise(release.mechanism.size * np.array([1, 1, 0.9, 1, 1, 1]))
    less = type(release)(shy, release.sensitivity, 1.0, release.sharing)
    np.testing.assert_allclose(less.shift, release.shift / 0.9, rtol=1e-9)


@pytest.mark.parametrize("model", ["local", "central"])
def test_colluders_and_dropouts_are_of_a_secure_sum(model):
    with pytest.raises(InvalidInput, match='colluders = 1 is of trust = "secure-sum" only'):
        Trust(model, colluders=1)


def test_without_noise_a_sum_is_the_plain_sum():
    budget = PrivacyBudget.of(1.0, 1e-5, 5)
    problem = Problem(np.full(5, 9), 2, budget, "none", CLIP, trust=Trust("secure-sum", 1))
    release = problem.release(np.full(5, 3))
    assert release.sharing is None
    assert not np.any(release.mechanism.size)
