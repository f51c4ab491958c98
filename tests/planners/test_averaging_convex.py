"""The bound of DP-PASGD for convex losses: any averaging period, noise in the dimension that is felt."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit

from noiseworthy.errors import InvalidInput
from noiseworthy.methods.dp_pasgd.bound import SHAPES, AveragingBound, averaging_bound
from noiseworthy.methods.dp_pasgd.planner import plan
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Constant, Problem
from noiseworthy.plans.resources import Resources
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.gaussian import gaussian_mu

# What the bound says ------------------------------------------------------------------------------------


def convex(step, *, smoothness=1.0, convexity=0.1, variance=0.3, gap=2.0, dimension=3.0, clients=4):
    return AveragingBound(smoothness, convexity, variance, gap, step, dimension, clients, shape="convex")


@pytest.mark.parametrize("rate", [1e-9, 1e-4, 0.05, 0.7, 1.0])
@pytest.mark.parametrize("tau", [1, 2, 7, 40])
def test_steps_since_the_average_are_weighted_as_the_recursion_does(rate, tau):
    """Retyped: sum of i q^(tau-1-i) over the sum of weights; between (tau - 1)/2 and tau - 1."""
    q = 1 - rate
    weights = np.array([q ** (tau - 1 - i) for i in range(tau)])
    mean = float(np.arange(tau) @ weights / weights.sum())
    bound = convex(1.0, convexity=rate, gap=0.0)
    k = 10**12
    floor = (1.0 / 4 + mean) * (0.3 + 3.0 * 0.5) / (2 * rate)
    assert bound.at(k, tau, 0.5) == pytest.approx((1 - q**k) * floor, rel=1e-6)


@given(
    st.floats(0.01, 1.0), st.floats(1e-4, 1.0), st.integers(1, 60), st.integers(1, 12), st.floats(0, 10),
    st.integers(1, 300),
)  # fmt: skip
def test_it_is_never_above_the_general_bound_and_unrolls_the_recursion(
    step, rate, tau, rounds, sigma, clients
):
    """gap <- (1 - eta lambda) gap + (eta L^2/2) eta^2 i V + (L eta^2/2) V/M, retyped as a loop."""
    convexity = rate  # L = 1
    own = convex(step, convexity=convexity, clients=clients)
    general = AveragingBound(1.0, convexity, 0.3, 2.0, step, 3.0, clients)
    variance, gap = 0.3 + 3.0 * sigma, 2.0
    for k in range(tau * rounds):
        gap = (
            (1 - step * convexity) * gap
            + step**3 / 2 * (k % tau) * variance
            + step**2 / 2 * variance / clients
        )
    value = own.at(tau * rounds, tau, sigma)
    assert value == pytest.approx(gap, rel=1e-6)
    assert value <= general.at(tau * rounds, tau, sigma) * (1 + 1e-9)
    assert own.allows(tau)


def test_a_step_above_1_over_l_is_refused_all_the_same():
    assert not convex(1.01).allows(1)
    assert convex(1.0).allows([1, 50, 10**6]).all()


# What really happens ------------------------------------------------------------------------------------


def softplus_gap(theta, ridge, floor):
    """log cosh plus a ridge, over its least value: convex, L = 1 + ridge, strongly convex by the ridge."""
    return np.sum(np.logaddexp(theta, -theta) - np.log(2) + ridge / 2 * theta**2, axis=-1) - floor


def trained(step, tau, rounds, clients, ridge, noise, start, seeds):
    """Mean gap of the average, and mean spread of the models before the last average; plain NumPy."""
    generator = np.random.default_rng(11)
    theta = np.broadcast_to(start, (seeds, clients, len(start))).copy()
    for _ in range(rounds):
        for _ in range(tau):
            drawn = noise * generator.normal(size=theta.shape)
            theta = theta - step * (np.tanh(theta) + ridge * theta + drawn)
        spread = np.mean(np.sum((theta - theta.mean(axis=1, keepdims=True)) ** 2, axis=-1), axis=1)
        theta = np.repeat(theta.mean(axis=1, keepdims=True), clients, axis=1)
    return softplus_gap(theta[:, 0], ridge, 0.0), spread


@pytest.mark.full
@pytest.mark.parametrize("step", [0.1, 0.5, 0.9])
@pytest.mark.parametrize(("tau", "rounds", "clients"), [(1, 30, 4), (10, 5, 4), (40, 3, 1), (25, 4, 16)])
@pytest.mark.parametrize("noise", [0.0, 0.2, 1.0])
def test_trainings_stay_below_the_bound_where_the_step_size_condition_fails(
    step, tau, rounds, clients, noise
):
    """Mean of 2,000 trainings on a loss that is not quadratic, less 6 standard errors (false alarm 1e-9)."""
    ridge, start = 0.1, np.array([3.0, -2.0, 1.0])
    eta = step / (1 + ridge)
    gaps, spread = trained(eta, tau, rounds, clients, ridge, noise, start, seeds=2000)
    gap = float(softplus_gap(start, ridge, 0.0))
    bound = AveragingBound(1 + ridge, ridge, 0.0, gap, eta, 3.0, clients, shape="convex")
    value = bound.at(tau * rounds, tau, noise**2)
    assert gaps.mean() - 6 * gaps.std() / np.sqrt(2000) <= value
    apart = eta**2 * tau * 3 * noise**2 * (1 - 1 / clients)
    assert spread.mean() - 6 * spread.std() / np.sqrt(2000) <= apart + 1e-20, "models part by noise alone"


def test_the_floor_is_reached_so_that_a_smaller_one_would_be_false():
    """One device, a quadratic with all curvatures L, eta = 1/L: the gap is eta d sigma^2/2, which is B'."""
    dimension, sigma = 5, 0.7
    generator = np.random.default_rng(3)
    theta = -generator.normal(size=(200_000, dimension)) * sigma  # after any step: theta - (theta + b)
    measured = 0.5 * np.sum(theta**2, axis=1)
    floor = AveragingBound(1.0, 1.0, 0.0, 1.0, 1.0, dimension, 1, shape="convex").at(50, 1, sigma**2)
    assert abs(measured.mean() - floor) < 6 * measured.std() / np.sqrt(200_000)


# The dimension that the loss feels ----------------------------------------------------------------------


@settings(max_examples=60)
@given(
    st.lists(st.floats(1e-3, 1.0), min_size=1, max_size=12), st.floats(0.05, 1.0), st.integers(1, 60),
    st.integers(1, 8), st.floats(0, 5), st.integers(1, 60),
)  # fmt: skip
def test_noise_counts_by_the_trace_of_the_curvature(curvatures, step, iterations, clients, sigma, tau):
    """A quadratic with curvatures a_j, whose average does not feel tau: its exact gap is below the bound."""
    a = np.array(curvatures)
    eta, start = step / a.max(), 1.0
    left = (1 - eta * a) ** (2 * iterations)
    steady = eta**2 * sigma**2 / clients / (1 - (1 - eta * a) ** 2)
    gap = 0.5 * np.sum(a * (left * start**2 + (1 - left) * steady))
    for shape in SHAPES:
        bound = AveragingBound(
            a.max(), a.min(), 0.0, 0.5 * a.sum() * start**2, eta, len(a), clients, a.sum() / a.max(), shape
        )
        if bound.allows(tau):
            assert gap <= bound.at(iterations, tau, sigma**2) * (1 + 1e-9)


@pytest.mark.full
@pytest.mark.parametrize("tau", [1, 2, 10, 40])
def test_the_felt_dimension_holds_on_logistic_losses(tau):
    """A theorem with the drift of a convex loss, a rule with that of a quadratic one.

    40 parameters, records on the unit sphere, 400 trainings of 4 devices.
    Mean less 6 standard errors (false alarm 1e-9), with noise so large that it decides the gap.
    """
    generator, ridge, clients, seeds, sigma = np.random.default_rng(8), 0.01, 4, 400, 0.3
    x = generator.normal(size=(60, 40)) * np.geomspace(1, 0.05, 40)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = np.where(x @ generator.normal(size=40) > 0, 1.0, -1.0)
    dominating = x.T @ x / (4 * len(x)) + ridge * np.eye(40)
    smooth = float(np.linalg.eigvalsh(dominating)[-1])

    def slopes(theta):
        return -(y * expit(-y * (theta @ x.T))) @ x / len(x) + ridge * theta

    def loss(theta):
        return np.mean(np.logaddexp(0, -y * (theta @ x.T)), axis=-1) + ridge / 2 * np.sum(theta**2, axis=-1)

    best = minimize(loss, np.zeros(40), jac=slopes, method="L-BFGS-B")
    theta = np.zeros((seeds, clients, 40))
    for k in range(80):
        theta = theta - (slopes(theta) + sigma * generator.normal(size=theta.shape)) / smooth
        if (k + 1) % tau == 0:
            theta = np.repeat(theta.mean(axis=1, keepdims=True), clients, axis=1)
    gaps = loss(theta[:, 0]) - best.fun
    felt = float(np.trace(dominating)) / smooth
    bound = AveragingBound(
        smooth, ridge, 0.0, np.log(2) - best.fun, 1 / smooth, felt, clients, shape="convex"
    )
    assert gaps.mean() - 6 * gaps.std() / np.sqrt(seeds) <= bound.at(80, tau, sigma**2)
    assert gaps.mean() > 2 * (loss(np.zeros(40)) - best.fun), "noise must decide"


def constants(**changes):
    values = {"smoothness": 0.25, "strong_convexity": 0.01, "gradient_variance": 1e-4, "initial_gap": 0.4}
    return {name: Constant(value, "assumed") for name, value in (values | changes).items()}


def problem(epsilon=2.0, budget=1000.0, clients=8, family="gaussian", dimension=100):
    resources = Resources.of(100.0, 1.0, budget, clients)
    private = PrivacyBudget.of(epsilon, 1e-4, clients)
    return Problem(np.full(clients, 1000), dimension, private, family, 1.0, resources=resources)


def test_the_noise_dimension_replaces_d_and_may_not_exceed_it():
    assert averaging_bound(problem(), constants(), 1.0).noise_dimension is None
    assert averaging_bound(problem(), constants(noise_dimension=2.2), 1.0).noise_dimension == 2.2
    for wrong, words in [(101.0, "at most the dimension 100"), (0.0, "above 0"), (float("nan"), "NaN")]:
        with pytest.raises(InvalidInput, match=words):
            averaging_bound(problem(), constants(noise_dimension=wrong), 1.0)


@pytest.mark.parametrize("tau", [1, 2, 3, 12, 60])
@pytest.mark.parametrize("step", [0.05, 0.6, 1.0])
def test_drift_of_a_convex_loss_is_the_lesser_of_two_means(tau, step):
    """Retyped: s(i) = i (1 + sqrt(eta L (i-1)/(2 (2 - eta L))))^2 against d for the noise dimension."""
    q, i = 1 - step * 0.1, np.arange(tau)
    weights = q ** (tau - 1 - i)
    spread = i * (1 + np.sqrt(step * np.maximum(i - 1, 0) / (2 * (2 - step)))) ** 2
    mean, spread = (float(part @ weights / weights.sum()) for part in (i, spread))
    bound = AveragingBound(1.0, 0.1, 0.3, 0.0, step, 50, 4, 3.0, "convex")
    drift = min(mean * (0.3 + 50 * 0.2), spread * (0.3 + 3 * 0.2))
    floor = (step / 4 * (0.3 + 3 * 0.2) + step**2 * drift) / 0.2
    assert bound.at(10**7, tau, 0.2) == pytest.approx(floor, rel=1e-9)


def test_periods_of_any_length_have_a_bound():
    """Real periods of the relaxed problem may be huge; the bound stays finite and goes on rising."""
    values = convex(0.5).at(100.0, np.array([1.0, 99_999.0, 100_001.5, 1e12]), 0.2)
    assert np.all(np.isfinite(values))
    assert np.all(np.diff(values) > 0)
    assert convex(0.5, variance=0.0).at(100.0, 1e9, 0.0) == pytest.approx(2.0 * 0.95**100)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.05, 1.0), st.integers(2, 40), st.booleans())
def test_noise_of_the_past_takes_no_more_than_the_proof_allows(seed, step, steps, adverse):
    """The lemma, path by path: D' = D + eta H (N - D), whatever 0 <= H <= A is.

    |D|^2 <= eta sum |N_j|_A^2/(2 - eta L). `adverse` Hessians are those that let noise grow in the norm of A:
    rank one, between a steep and a flat direction.
    """
    generator, size = np.random.default_rng(seed), 6
    a = np.sort(generator.uniform(1e-3, 1, size))[::-1] / 1.0
    a[0] = 1.0
    root, noise, taken, allowed = np.diag(np.sqrt(a)), np.zeros(size), np.zeros(size), 0.0
    for _ in range(steps):
        if adverse:
            direction = (
                np.eye(size)[0] + generator.choice([-1.0, 1.0]) * np.eye(size)[generator.integers(1, size)]
            )
            inner = np.outer(direction, direction) / 2
        else:
            basis, _ = np.linalg.qr(generator.normal(size=(size, size)))
            inner = basis @ np.diag(generator.uniform(0, 1, size)) @ basis.T
        hessian = root @ inner @ root
        allowed += step * float(noise @ (a * noise)) / (2 - step)
        taken = taken + step * hessian @ (noise - taken)
        noise = noise + step * generator.normal(size=size)
        assert taken @ taken <= allowed * (1 + 1e-9) + 1e-15


def test_a_gradient_step_may_expand_the_norm_of_the_dominating_matrix():
    """Why the drift of a quadratic is no theorem for others: here by 1.09, in one step of eta = 1/L."""
    a, direction = np.array([1.0, 0.2]), np.array([1.0, 1.0])
    hessian = np.outer(np.sqrt(a) * direction, np.sqrt(a) * direction) / 2
    assert np.linalg.eigvalsh(np.diag(a) - hessian).min() > -1e-12
    stretched = np.sqrt(a)[:, None] * (np.eye(2) - hessian) / np.sqrt(a)
    assert np.linalg.svd(stretched)[1][0] > 1.05


# The plan -----------------------------------------------------------------------------------------------


def retyped(case, values, eta):
    """Loops over R and tau with the recursion's closed form written again."""
    best = (values["initial_gap"].value, 0, 0)
    lam, smooth = values["strong_convexity"].value, values["smoothness"].value
    q, m = 1 - eta * lam, case.n_clients
    mu = float(gaussian_mu(case.budget.epsilon[0], 1e-4))
    for rounds in range(1, 20):
        for tau in range(1, 1000):
            k = rounds * tau
            if 100 * rounds + k > case.resources.budget[0]:
                break
            sigma = (2 / 1000) ** 2 * k / mu**2
            variance = values["gradient_variance"].value + values["noise_dimension"].value * sigma
            weights = q ** np.arange(tau)[::-1]
            late = np.arange(tau) @ weights / weights.sum()
            floor = (eta * smooth / m + (eta * smooth) ** 2 * late) * variance / (2 * lam)
            value = q**k * values["initial_gap"].value + (1 - q**k) * floor
            if value < best[0] * (1 - 1e-12):
                best = (value, rounds, tau)
    return best


@pytest.mark.full
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 4.0])
@pytest.mark.parametrize("budget", [150.0, 500.0, 1000.0])
@pytest.mark.parametrize("eta", [0.5, 4.0])
def test_plans_equal_an_exhaustive_search(epsilon, budget, eta):
    case, values = problem(epsilon, budget), constants(noise_dimension=2.2)
    made = plan(case, values, step=StepSize(eta, np.inf), shape="quadratic")
    value, rounds, tau = retyped(case, values, eta)
    assert made.prediction.bound == pytest.approx(value, rel=1e-9)
    assert (made.rounds, made.local.steps if made.train else 0) == (rounds, tau)


def test_periods_grow_with_epsilon_and_shrink_with_resources():
    """What figure 6 of Hu et al. shows; at this step the general bound allows tau = 1 alone."""
    values = constants(noise_dimension=2.2)

    def period(epsilon, budget, shape):
        return plan(problem(epsilon, budget), values, step=StepSize(4.0, np.inf), shape=shape).local.steps

    for shape in ("convex", "quadratic"):
        by_epsilon = [period(epsilon, 1000.0, shape) for epsilon in (0.5, 1.0, 2.0, 4.0)]
        assert by_epsilon == sorted(by_epsilon)
        assert by_epsilon[0] < by_epsilon[-1]
        assert period(1.0, 300.0, shape) > period(1.0, 1000.0, shape)
    assert period(4.0, 1000.0, "general") == 1
