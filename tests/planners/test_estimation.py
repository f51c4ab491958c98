"""Constants from the model are true bounds on real losses; bought ones are charged and unbiased."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.optimize import minimize, root
from scipy.special import expit, logsumexp, softmax

from noiseworthy.errors import InvalidInput, UnsoundClaim
from noiseworthy.plans.estimation import (
    analytic_constants,
    averaging_constants,
    bought_constants,
    bought_noise,
    split_budget,
)
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.accountants import spent_epsilon, spent_with_pilot
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.mechanisms import Gaussian, Laplace
from noiseworthy.privacy.releases import Release

CLASSES, FEATURES = 3, 2


def federation(seed: int, radius: float):
    """Four small clients with records of norm at most `radius`, labels skewed by client."""
    rng = np.random.default_rng(seed)
    shards = []
    for client in range(4):
        x = rng.normal(size=(12, FEATURES)) + rng.normal(size=FEATURES)
        x *= radius / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), radius)
        shards.append((x, np.where(rng.random(12) < 0.8, client % CLASSES, rng.integers(0, CLASSES, 12))))
    return shards


def loss_and_gradient(theta, shards, ridge):
    x, y = np.concatenate([x for x, _ in shards]), np.concatenate([y for _, y in shards])
    w = theta.reshape(FEATURES, CLASSES)
    scores = x @ w
    loss = (logsumexp(scores, axis=1) - scores[np.arange(len(y)), y]).mean() + ridge / 2 * theta @ theta
    slope = x.T @ (softmax(scores, axis=1) - np.eye(CLASSES)[y]) / len(y)
    return loss, slope.ravel() + ridge * theta


def optimum(shards, ridge):
    start = np.zeros(FEATURES * CLASSES)
    found = minimize(
        loss_and_gradient, start, (shards, ridge), jac=True, method="BFGS", options={"gtol": 1e-9}
    )
    return found.x, found.fun


@pytest.mark.full
@pytest.mark.parametrize("clip", [0.02, 0.5, 10.0])
@pytest.mark.parametrize("ridge", [0.01, 0.3])
def test_analytic_constants_bound_a_real_softmax_regression(clip, ridge):
    """Also where the clip is far below the gradients, which then bounds nothing but the clipped ones."""
    radius = 2.0
    stated = {
        name: c.value for name, c in analytic_constants("softmax", radius, ridge, clip, CLASSES).items()
    }
    for seed in range(5):
        shards = federation(seed, radius)
        best, least = optimum(shards, ridge)
        assert best @ best <= stated["initial_distance_sq"]
        gamma = least - np.mean([optimum([shard], ridge)[1] for shard in shards])
        assert 0 <= gamma <= stated["heterogeneity"]
        rng = np.random.default_rng(seed)
        for _ in range(20):
            one, two = rng.normal(size=(2, FEATURES * CLASSES))
            moved = np.subtract(*(loss_and_gradient(theta, shards, ridge)[1] for theta in (one, two)))
            inner = moved @ (one - two) / np.sum((one - two) ** 2)
            assert stated["strong_convexity"] - 1e-12 <= inner <= stated["smoothness"]
    assert stated["gradient_bound"] == min(np.sqrt(2) * radius, clip)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("softmax", None, 0.1, 1.0, 3), r"need a classifier and \[task\] feature_norm"),
        (("squared", 1.0, 0.1, 1.0, None), "need a classifier"),
        (("softmax", 1.0, 0.0, 1.0, 3), r"ridge must be finite and above 0, got 0; .*set \[task\] ridge"),
    ],
)
def test_analytic_constants_name_what_is_missing(given, says):
    with pytest.raises(InvalidInput, match=says):
        analytic_constants(*given)


def test_the_analytic_smoothness_is_attained():
    """Two tied classes and a record of full norm: curvature R^2/2 + mu along their difference, no less."""
    radius, ridge, step = 3.0, 0.1, 1e-4
    stated = analytic_constants("softmax", radius, ridge, 10.0, CLASSES)["smoothness"].value
    shards = [(np.array([[radius, 0.0]]), np.array([0]))]
    tied = np.zeros((FEATURES, CLASSES))
    tied[0, 2] = -50.0
    along = np.zeros_like(tied)
    along[0, :2] = np.array([1, -1]) / np.sqrt(2)
    ahead, behind = (loss_and_gradient((tied + s * along).ravel(), shards, ridge)[1] for s in (step, -step))
    assert (ahead - behind) @ along.ravel() / (2 * step) == pytest.approx(stated, rel=1e-6)
    assert analytic_constants("logistic", radius, ridge, 10.0, 2)["smoothness"].value == radius**2 / 4 + ridge


# Averaging ----------------------------------------------------------------------------------------

AT_ZERO = {"logistic": np.log(2), "hinge": 0.5}
TWO_CLASSES = pytest.mark.parametrize("loss", AT_ZERO)


def signed_records(seed, radius, n=12):
    """Records of norm at most `radius`, a third of them at it, each times its label in {-1, 1}."""
    rng = np.random.default_rng(seed)
    x = radius * rng.normal(size=(n, 3)) * rng.choice([0.1, 1, 10], (n, 1))
    x *= radius / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), radius)
    return x * np.where(rng.random(n) < 0.7, 1, -1)[:, None]


def slope(loss, margin):
    return -expit(-margin) if loss == "logistic" else -np.clip(1 - margin, 0, 1)


def curvature(loss, margin):
    return expit(margin) * expit(-margin) if loss == "logistic" else (margin > 0) & (margin < 1)


def clipped_gradients(loss, theta, records, clip):
    """One per record, shape (n, 3)."""
    gradients = slope(loss, records @ theta)[:, None] * records
    return gradients * np.minimum(1, clip / np.maximum(np.linalg.norm(gradients, axis=1), 1e-300))[:, None]


def stated(loss, radius, ridge, clip, records):
    constants = averaging_constants(loss, radius, ridge, clip, 2, records, 3)
    assert {constant.provenance for constant in constants.values()} == {"analytic"}
    return {name: constant.value for name, constant in constants.items()}


@TWO_CLASSES
@pytest.mark.parametrize("radius", [0.5, 2.0])
def test_averaging_constants_bound_every_curvature(loss, radius):
    """Extreme eigenvalues of the Hessian, also where the hinge is curved on every record."""
    bounds = stated(loss, radius, 0.05, 1.0, 10)
    rng = np.random.default_rng(0)
    for seed in range(20):
        records = signed_records(seed, radius)
        for theta in rng.normal(size=(10, 3)) / radius:
            curved = curvature(loss, records @ theta)[:, None]
            hessian = records.T @ (curved * records) / len(records) + 0.05 * np.eye(3)
            least, *_, most = np.linalg.eigvalsh(hessian)
            assert bounds["strong_convexity"] - 1e-12 <= least
            assert most <= bounds["smoothness"]
            assert np.trace(hessian) <= bounds["noise_dimension"] * bounds["smoothness"] + 1e-12


@pytest.mark.full
@TWO_CLASSES
@pytest.mark.parametrize("clip", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("ridge", [0.01, 0.5])
def test_averaging_constants_bound_the_gap_and_its_gradient(loss, clip, ridge):
    """Gaps as line integrals of the clipped gradient from the optimum: no formula of the loss is used."""
    radius = 2.0
    bounds = stated(loss, radius, ridge, clip, 10)
    rng = np.random.default_rng(0)
    for seed in range(5):
        records = signed_records(seed, radius)

        def gradient(theta, records=records):
            return clipped_gradients(loss, theta, records, clip).mean(axis=0) + ridge * theta

        best = root(gradient, np.zeros(3), method="lm", options={"xtol": 1e-12}).x
        assert np.linalg.norm(gradient(best)) < 1e-7
        for number, theta in enumerate((np.zeros(3), *rng.normal(size=(3, 3)))):
            path = np.linspace(0, 1, 301)
            gap = trapezoid([gradient(best + t * (theta - best)) @ (theta - best) for t in path], path)
            assert number > 0 or gap <= bounds["initial_gap"]
            assert np.sum(gradient(theta) ** 2) / 2 >= bounds["strong_convexity"] * gap


@TWO_CLASSES
@pytest.mark.parametrize("clip", [0.2, 5.0])
def test_the_mean_of_two_drawn_gradients_varies_no_more_than_stated(loss, clip):
    """The variance over all 144 ordered pairs of 12 records, at parameters near and far."""
    radius = 1.5
    limit = stated(loss, radius, 0.1, clip, 2)["gradient_variance"]
    rng = np.random.default_rng(0)
    for seed, scale in product(range(10), (0.0, 1.0, 30.0)):
        records = signed_records(seed, radius)
        gradients = clipped_gradients(loss, scale * rng.normal(size=3), records, clip)
        pairs = [(one + two) / 2 for one, two in product(gradients, gradients)]
        assert np.sum(np.var(pairs, axis=0)) <= limit


def test_the_averaging_constants_of_the_hinge_are_attained():
    """Two opposite records of full norm at the origin; and a gap that a weak ridge leaves open."""
    bounds = stated("hinge", 2.0, 1e-4, 10.0, 2)
    opposite = np.array([[2.0, 0, 0], [-2.0, 0, 0]])
    gradients = clipped_gradients("hinge", np.zeros(3), opposite, 10.0)
    pairs = [(one + two) / 2 for one, two in product(gradients, gradients)]
    assert np.sum(np.var(pairs, axis=0)) == pytest.approx(bounds["gradient_variance"])
    assert bounds["smoothness"] == 4.0 + 1e-4
    best = minimize(lambda w: max(0.0, 1 - 2 * w[0]) ** 2 / 2 + 5e-5 * w[0] ** 2, [0.4])
    assert bounds["initial_gap"] - best.fun > 0.9999 * bounds["initial_gap"]


@TWO_CLASSES
def test_the_gap_starts_at_the_loss_of_the_origin(loss):
    assert stated(loss, 1.0, 0.1, 1.0, 5)["initial_gap"] == AT_ZERO[loss]
    assert analytic_constants(loss, 1.0, 0.1, 1.0, 2)["heterogeneity"].value == AT_ZERO[loss]
    assert averaging_constants("softmax", 1.0, 0.1, 1.0, 7, 5, 21)["initial_gap"].value == np.log(7)


def test_the_gradient_variance_is_a_mean_over_devices_and_meets_the_clip():
    assert stated("hinge", 2.0, 0.1, 10.0, [100, 400])["gradient_variance"] == pytest.approx(
        (4 / 100 + 4 / 400) / 2
    )
    assert stated("logistic", 2.0, 0.1, 0.5, [100, 400])["gradient_variance"] == pytest.approx(
        (0.25 / 100 + 0.25 / 400) / 2
    )
    softmax_variance = averaging_constants("softmax", 1.0, 0.1, 10.0, 3, 50, 12)["gradient_variance"].value
    assert softmax_variance == pytest.approx(2 / 50)


def test_noise_is_felt_once_per_output_and_by_the_ridge():
    """(o c R^2 + ridge d)/L, and never in more than d dimensions."""
    one = averaging_constants("logistic", 2.0, 0.01, 1.0, 2, 50, 200)["noise_dimension"].value
    assert one == pytest.approx((1.0 + 2.0) / 1.01)
    many = averaging_constants("softmax", 1.0, 0.01, 1.0, 7, 50, 70)["noise_dimension"].value
    assert many == pytest.approx((7 * 0.5 + 0.7) / 0.51)
    assert averaging_constants("hinge", 1.0, 5.0, 1.0, 2, 50, 1)["noise_dimension"].value == 1


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"record_norm": None}, r"need a classifier and \[task\] feature_norm"),
        ({"classes": None}, "need a classifier"),
        ({"ridge": 0.0}, r"ridge must be finite and above 0, got 0; .*set \[task\] ridge"),
        ({"clip_norm": 0.0}, "clip_norm must be finite and above 0, got 0"),
        ({"records": [10, 0]}, "records must be whole numbers of at least 1, got 0"),
        ({"records": []}, "records must be a list with one entry per client"),
    ],
)
def test_averaging_constants_name_what_is_missing(changes, says):
    fine = {
        "record_norm": 1.0,
        "ridge": 0.1,
        "clip_norm": 1.0,
        "classes": 2,
        "records": [10, 20],
        "dimension": 3,
    }
    with pytest.raises(InvalidInput, match=says):
        averaging_constants("hinge", **(fine | changes))


# Bought -------------------------------------------------------------------------------------------


def problem_of(family: str, n: int = 6, seed: int = 0, **how) -> Problem:
    rng = np.random.default_rng(seed)
    delta = 10 ** rng.uniform(-8, -4, n) if family == "gaussian" else 0.0
    relation = "add-remove" if how else "replace-one"
    budget = PrivacyBudget.of(10 ** rng.uniform(-1, 1.3, n), delta, n, relation)
    return Problem(rng.integers(50, 400, n), 5, budget, family, 2.0, **how)


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 0.9])
def test_pilot_and_training_together_cost_the_budget_and_never_more(family, share):
    for seed in range(40):
        whole = problem_of(family, seed=seed)
        pilot, rest = split_budget(whole, share)
        release = rest.release(np.full(6, 9))
        spent = spent_with_pilot([(pilot, 1)], release, np.full(6, 9), whole.budget.delta)
        assert np.all(spent <= whole.budget.epsilon)
        np.testing.assert_allclose(spent, whole.budget.epsilon, rtol=1e-6)
        alone = spent_with_pilot([(pilot, 1)], None, np.zeros(6), whole.budget.delta)
        np.testing.assert_allclose(alone, spent_epsilon(pilot, 1, whole.budget.delta), rtol=1e-9)


def test_gaussian_pilots_compose_exactly_and_laplace_pilots_add_up():
    whole = problem_of("gaussian")
    same = whole.release(np.full(6, 10))
    np.testing.assert_allclose(
        spent_with_pilot([(same, 1)], same, np.full(6, 9), whole.budget.delta),
        whole.budget.epsilon,
        rtol=1e-9,
    )
    pure = problem_of("laplace")
    pilot = Release(Laplace(pure.sensitivity.value / 0.25), pure.sensitivity)
    release = pure.release(np.full(6, 4))
    np.testing.assert_allclose(
        spent_with_pilot([(pilot, 1)], release, np.full(6, 4), pure.budget.delta),
        0.25 + pure.budget.epsilon,
        rtol=1e-9,
    )


def test_the_share_is_taken_of_mu_squared():
    whole = problem_of("gaussian")
    pilot, _ = split_budget(whole, 0.25)
    np.testing.assert_allclose(pilot.shift, whole.release(np.full(6, 4)).shift, rtol=1e-9)


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_bought_constants_are_corrected_for_their_noise(family):
    """On average G^2 = sum a_i ||g_i||^2 and Y_0 = ||sum a_i g_i||^2 / mu^2 of the true gradients."""
    rng = np.random.default_rng(1)
    whole = problem_of(family, n=4)
    noise = np.array([0.2, 0.5, 0.3, 0.4])
    pilot = Release(Gaussian(noise) if family == "gaussian" else Laplace(noise), whole.sensitivity)
    draw = rng.normal if family == "gaussian" else rng.laplace
    true = rng.normal(size=(4, 5)) * 3 + 4
    found = []
    for _ in range(4000):
        noised = true + draw(size=(4, 5)) * noise[:, None]
        bought = bought_constants(noised, whole, pilot, 2.0, 0.5)
        found.append([bought["gradient_bound"].value ** 2, bought["initial_distance_sq"].value])
    spread = whole.weights @ np.sum(true**2, axis=1)
    start = np.sum((whole.weights @ true) ** 2)
    mean, error = np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(4000)
    bias = np.array([5 * whole.weights @ pilot.mechanism.variance, 0])  # what no correction would leave
    assert bias[0] > 10 * error[0]
    np.testing.assert_array_less(np.abs(mean - [spread, start / 0.25]), 4 * error)


def test_without_noise_bought_constants_are_true_bounds():
    ridge, radius = 0.2, 2.0
    for seed in range(5):
        shards = federation(seed, radius)
        zero = np.zeros(FEATURES * CLASSES)
        gradients = np.stack([loss_and_gradient(zero, [shard], ridge)[1] for shard in shards])
        budget = PrivacyBudget.of(1.0, 0.0, 4)
        problem = Problem(np.full(4, 12), FEATURES * CLASSES, budget, "laplace", 1.0)
        silent = Release(Laplace(np.full(4, 1e-12)), problem.sensitivity)
        bought = bought_constants(gradients, problem, silent, radius**2 / 2 + ridge, ridge)
        best, least = optimum(shards, ridge)
        assert best @ best <= bought["initial_distance_sq"].value
        gamma = least - np.mean([optimum([shard], ridge)[1] for shard in shards])
        assert gamma <= bought["heterogeneity"].value + 1e-9
        assert all(constant.provenance.startswith("bought with one upload") for constant in bought.values())


def test_what_cannot_be_bought_is_refused():
    lax = Problem(np.array([50]), 5, PrivacyBudget.of(1e-3, 0.2, 1), "gaussian", 2.0)
    with pytest.raises(InvalidInput, match=r"delta 0.2 of client 0 is more .* use a smaller delta"):
        split_budget(lax, 0.5)
    with pytest.raises(UnsoundClaim, match="cannot be bought with Poisson batches; use sampling_rate = 1"):
        split_budget(problem_of("gaussian", sampling_rate=0.5), 0.1)
    with pytest.raises(InvalidInput, match="a study without privacy has no budget to split"):
        split_budget(problem_of("none"), 0.1)
    for share in (0.0, 1.0):
        with pytest.raises(InvalidInput, match=r"share must lie in \(0, 1\)"):
            split_budget(problem_of("laplace"), share)


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_the_noise_of_a_bought_gradient_bound_is_what_monte_carlo_finds(family):
    """500 pilots of pure noise; the standard deviation of G^2 is known within 10 % (3 sigma: 9.5 %)."""
    sizes = np.array([50, 100, 400])
    budget = PrivacyBudget.of([1.0, 2.0, 0.5], 1e-5 if family == "gaussian" else 0.0, 3)
    problem = Problem(sizes, 200, budget, family, 1.0)
    pilot, _ = split_budget(problem, 0.1)
    rng = np.random.default_rng(0)
    draw = rng.normal if family == "gaussian" else rng.laplace
    found = []
    for _ in range(500):
        noise = draw(0.0, pilot.mechanism.size[:, None], (3, 200))
        excess = np.sum(noise**2, axis=1) - 200 * pilot.mechanism.variance
        found.append(problem.weights @ excess)
    assert bought_noise(problem, pilot) == pytest.approx(np.std(found), rel=0.1)
