"""Errata of docs/theory that no test of a planner shows: small cases in which the print is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq

from noiseworthy.methods.dp_pasgd.bound import AveragingBound
from noiseworthy.methods.dp_pasgd.printed import affordable_steps
from noiseworthy.methods.fedsgd_dpc.bound import LaplaceCurve
from noiseworthy.methods.selection import reshuffled_round_robin
from noiseworthy.plans.estimation import analytic_constants
from noiseworthy.plans.resources import Resources
from noiseworthy.privacy.gaussian import gaussian_mu
from noiseworthy.privacy.gaussian_epsilon import gaussian_epsilon
from noiseworthy.privacy.laplace import laplace_epsilon
from noiseworthy.privacy.loss_distribution import poisson_gaussian_epsilon
from noiseworthy_papers.gaussian_curve import GaussianCurve
from noiseworthy_papers.ma.benches import TABLE_3

# Accounting -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "releases", "table"),
    [
        (0.1, 10, [5.449, 8.758, 1.564, 1.103]),
        (0.1, 1000, [62.798, 10.033, 1.564, 1.103]),
        (1.0, 10, [4.492, 7.481, 1.314, 0.910]),
        (1.0, 1000, [51.761, 8.562, 1.314, 0.910]),
        (10.0, 10, [3.352, 7.394, 1.136, 0.679]),
        (10.0, 1000, [38.629, 8.104, 1.136, 0.679]),
    ],
)
def test_what_other_rules_of_composition_cost(epsilon, releases, table):
    """Standard deviations over the exact one: even split, advanced composition, zCDP, c2 = 1."""
    k, delta, log = releases, 1e-5, np.log(1e5)
    even = k * np.sqrt(2 * np.log(1.25 * k / delta)) / epsilon

    def excess(each):
        return np.sqrt(2 * k * np.log(2 / delta)) * each + k * each * np.expm1(each) - epsilon

    advanced = np.sqrt(2 * np.log(1.25 * 2 * k / delta)) / brentq(excess, 1e-9, 10)
    zcdp = np.sqrt(k / 2) / (np.sqrt(epsilon + log) - np.sqrt(log))
    exact = np.sqrt(k) / float(gaussian_mu(epsilon, delta))
    rules = np.array([even, advanced, zcdp, np.sqrt(k * log) / epsilon])
    np.testing.assert_allclose(rules / exact, table, atol=6e-4)


@pytest.mark.parametrize("delta", [1e-2, 1e-3])
@pytest.mark.parametrize("shift", [0.3, 2.0])
def test_a_shift_in_one_coordinate_is_the_worst(shift, delta):
    """A shift of the same L1 norm spread over 2, 5 or 40 coordinates with independent Laplace noise."""
    spread = [laplace_epsilon(shift / coordinates, coordinates, delta) for coordinates in (1, 2, 5, 40)]
    assert np.all(np.diff(spread) < 0)


def test_a_round_robin_is_uniform_by_itself_and_not_given_the_past():
    """N = 2, b = 1: the first of a pass is either client, the second always the other one."""
    passes = np.array([reshuffled_round_robin(2, 1, 2, np.random.default_rng(s))[:, 0] for s in range(400)])
    assert abs(passes.mean(axis=0) - 0.5).max() < 0.1
    assert np.all(passes[:, 0] != passes[:, 1])


def test_averaging_parameters_rescales_the_model():
    """Weights (N/b) d_i/d on the parameters of ten clients with 100 to 1000 records, b = 1."""
    sizes = np.arange(100, 1001, 100)
    factor = 10 * sizes / sizes.sum()
    assert (factor.min().round(2), factor.max().round(2)) == (0.18, 1.82)


# Zhou et al. ------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize(
    ("clients", "spent"), [(1, [0.296, 31.7, 139]), (5, [0.105, 6.27, 38.0]), (10, [0.097, 2.62, 19.3])]
)
def test_the_printed_gaussian_noise_of_zhou_spends_many_times_its_epsilon(clients, spent):
    """c2 = 1, N = 10, T = 100, q = 0.01, delta = 1e-5: clip over the noise on a batch's sum, k = bT/N."""
    k = clients * 10
    ratio = np.array([0.1, 0.5, 1.0]) / (0.01 * np.sqrt(k * np.log(1e5)))
    found = [poisson_gaussian_epsilon(float(one), 0.01, k, 1e-5, settled=False) for one in ratio]
    np.testing.assert_allclose(found, spent, rtol=6e-3)


def test_no_rounds_are_never_optimal_for_laplace_noise():
    rng = np.random.default_rng(0)
    for _ in range(200):
        gamma, c1, c2, extra = rng.uniform(2, 50), *rng.lognormal(0, 2, 3)
        clients = int(rng.integers(2, 30))
        curve = LaplaceCurve(gamma, c1, c2, extra - c1 / clients)
        b = int(rng.integers(1, clients + 1))
        slope = -(c1 / b + curve.c3) / gamma**2
        assert slope < 0
        assert curve.best_rounds(b) > 0
        few = min(1e-3, curve.best_rounds(b) / 2)
        assert curve.at(few, b) < curve.at(0.0, b)


def test_the_gaussian_bound_may_be_concave_in_rounds():
    curve = GaussianCurve(gamma=4.0, e1=1.0, e2=-5.0, e3=2.0)
    values = curve.at(np.arange(0.0, 40.0), 10)
    assert np.all(np.diff(values) > 0)
    assert np.all(np.diff(values, 2) < 0)


def test_the_spread_of_gradients_is_at_most_their_mean_square():
    """(1/N) sum |g_i - g|^2 <= (1/N) sum |g_i|^2 <= G^2, reached where gradients cancel: no factor 2."""
    rng = np.random.default_rng(1)
    for _ in range(100):
        each = rng.normal(size=(6, 4)) + rng.normal(size=4)
        spread = np.mean(np.sum((each - each.mean(axis=0)) ** 2, axis=1))
        assert spread <= np.mean(np.sum(each**2, axis=1))
    opposed = np.array([[3.0, 4.0], [-3.0, -4.0]])
    assert np.mean(np.sum((opposed - opposed.mean(axis=0)) ** 2, axis=1)) == 25.0


def test_the_printed_estimate_does_not_bound_heterogeneity():
    """F_1, F_2 = (theta -+ 1)^2/2: both reach 0, their mean only 1/2."""
    theta = np.linspace(-2, 2, 4001)
    each = np.stack([(theta - 1) ** 2 / 2, (theta + 1) ** 2 / 2])
    least = each.min(axis=1)
    assert least.max() - least.mean() == 0
    assert each.mean(axis=0).min() - least.mean() == pytest.approx(0.5)


# Fu et al. --------------------------------------------------------------------------------------------


def test_a_convex_step_expands_in_l1_and_not_in_l2():
    """I - eta H for H = v v^T, v = (1, ..., 1)/sqrt(50), eta = 1/L = 1."""
    v = np.full(50, 1 / np.sqrt(50))
    step = np.eye(50) - np.outer(v, v)
    assert np.linalg.norm(step, 1) == pytest.approx(1.96)
    assert np.linalg.norm(step, 2) == pytest.approx(1.0)


def test_the_budgets_of_fu_are_not_kept():
    claimed = np.array([10.0, 20.0, 30.0])
    spent = gaussian_epsilon(claimed / np.sqrt(np.log(1e4)), 1e-4)
    np.testing.assert_allclose(spent, [17.0, 45.4, 84.8], rtol=2e-3)


def test_a_step_is_at_most_twice_that_of_a_round_later():
    """eta_k = 1/(k + gamma) with gamma >= E; at k = 0 and gamma = E the 2 is reached."""
    for steps in (1, 2, 7, 50):
        k = np.arange(200)
        ratio = (k + steps + steps) / (k + steps)
        assert ratio.max() == 2.0
        assert np.all((k + steps + steps + 3) / (k + steps + 3) < 2)


# Hou et al. -------------------------------------------------------------------------------------------


def test_noise_moves_the_sum_of_control_variates():
    """After a round sum h_i is (p/eta) N times the mean noise of that round, and no longer 0."""
    rng = np.random.default_rng(2)
    clients, eta, p = 5, 0.3, 0.4
    variates = np.zeros(clients)
    targets, common = rng.normal(size=clients), 0.0
    for _ in range(3):
        noise = rng.normal(size=clients)
        local = common - eta * ((common - targets) - variates)
        common = np.mean(local - eta / p * variates + noise)
        variates = variates + p / eta * (common - local)
        assert variates.sum() == pytest.approx(p / eta * clients * noise.mean())
        assert abs(variates.sum()) > 1e-3


# Hu et al. --------------------------------------------------------------------------------------------


def test_the_printed_period_may_be_below_one_step():
    """tau(K) = c1 K/(C - c2 K) for c1, c2, C = 100, 1, 1000: below 1 up to K = C/(c1 + c2) = 9.9."""
    resources = Resources.of(100.0, 1.0, 1000.0, clients=1)
    tau = affordable_steps(resources, np.array([5.0, 9.8, 1000 / 101, 20.0]))
    assert np.all(tau[:2] < 1)
    assert tau[2] == pytest.approx(1)
    assert tau[3] > 1


@pytest.mark.full
@pytest.mark.parametrize(("budget", "most"), [(1000.0, 166), (500.0, 83)])
def test_no_setting_of_the_printed_grid_is_paid_for(budget, most):
    """The grid has tau = 1..20 and K >= 200."""
    resources = Resources.of(100.0, 1.0, budget, clients=1)
    paid = [k for k in range(1, 400) if any(resources.affords(k / tau, k) for tau in range(1, 21))]
    assert max(paid) == most < 200


def test_softmax_gradients_in_the_unit_ball_reach_root_two():
    x = np.array([0.6, 0.8])
    wrong = np.exp(np.array([0.0, 40.0, 0.0]))
    softmax = np.outer(wrong / wrong.sum() - np.array([1.0, 0.0, 0.0]), x)
    assert np.linalg.norm(softmax) == pytest.approx(np.sqrt(2))
    bounds = [
        analytic_constants(loss, 1.0, 0.1, 10.0, 3)["gradient_bound"].value for loss in ("softmax", "hinge")
    ]
    assert bounds == pytest.approx([np.sqrt(2), 1.0])


def test_the_slope_of_the_printed_objective_in_the_noise():
    """dF/d sigma_m^2 = (1 - (1 - eta lambda)^K/K) (eta L + eta^2 L^2 (tau - 1) M) d/(2 lambda M^2)."""
    smooth, lam, eta, d, devices, k, tau = 1.3, 0.05, 0.04, 30, 16, 40, 8
    bound = AveragingBound(smooth, lam, 0.05, 0.7, eta, d, devices)
    step = 1e-4
    one_device = (bound.printed_at(k, tau, 0.02 + step / devices) - bound.printed_at(k, tau, 0.02)) / step
    curved = eta * smooth + eta**2 * smooth**2 * (tau - 1) * devices
    expected = (1 - (1 - eta * lam) ** k / k) * curved * d / (2 * lam * devices**2)
    assert float(one_device) == pytest.approx(expected, rel=1e-6)


# Ma et al. --------------------------------------------------------------------------------------------


def test_the_bias_of_a_step_exceeds_its_printed_bound():
    """F_1, F_2 = (w -+ 1)^2/2, client 1 at w = 1: A_3 = eta (1 - eta), printed 3 eta/4, corrected eta."""
    gamma = 0.5  # F_1(0) - min F_1
    for eta in (0.01, 0.1, 0.24):
        first = 2 * eta * (eta - 1) * ((1 - 1) ** 2 / 2 - (0 - 1) ** 2 / 2)
        assert first == pytest.approx(eta * (1 - eta))
        assert 1.5 * eta * gamma < first <= 2 * eta * gamma


def test_most_printed_skews_contradict_their_definition():
    """Asking all clients alike makes rho exactly 1, so that its least value is at most 1."""
    rng = np.random.default_rng(3)
    gaps = rng.uniform(0, 2, 12)
    assert np.full(12, 1 / 12) @ gaps / gaps.mean() == pytest.approx(1)
    assert sum(skew > 1 for skew, *_ in TABLE_3.values()) == 8


def test_client_momentum_multiplies_the_sensitivity_by_ten():
    """A buffer v <- 0.9 v + g before the noise, on data whose gradients differ by 1 in every round."""
    ours = theirs = 0.0
    for _ in range(200):
        ours, theirs = 0.9 * ours + 0.5, 0.9 * theirs - 0.5
    assert ours - theirs == pytest.approx(10, rel=1e-6)
