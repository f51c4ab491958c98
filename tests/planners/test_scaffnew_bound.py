"""The bound of DP-ScaffNew against the algorithm itself, and its closed forms against brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from noiseworthy.errors import InvalidInput
from noiseworthy.methods.dp_scaffnew.bound import ScaffNewBound, scaffnew_bound
from noiseworthy.plans.problem import Constant, Problem
from noiseworthy.privacy.budget import PrivacyBudget

PROBLEMS = 1000
MENU = {
    0.1: 30.7495661319774, 0.5: 7.03182667558249, 1.0: 3.73063163481594, 3.0: 1.39059345667454,
    10.0: 0.499888619709009,
}  # fmt: skip
"""epsilon -> s(epsilon, 1e-5), docs/theory/accounting.md#gaussian-mechanism, by bisection in 60 digits."""

VALUES = {
    "smoothness": 2.0, "strong_convexity": 0.1, "initial_distance_sq": 4.0, "optimum_gradient_sq": 0.5,
}  # fmt: skip


def constants(**changes) -> dict[str, Constant]:
    return {name: Constant(value, "assumed") for name, value in (VALUES | changes).items()}


def problem(epsilon=1.0, clients=3, dimension=7, relation="replace-one", clip=0.5, **changes) -> Problem:
    budget = PrivacyBudget.of(epsilon, 1e-5, clients, relation, "client")
    given = {"family": "gaussian", "clip_norm": clip, "clipping": "D"} | changes
    return Problem(np.full(clients, 50), dimension, budget, **given)


def retyped(bound: ScaffNewBound, t, p) -> np.ndarray:
    """B(T, p) of docs/theory/hou.md#bound in its own letters, without product code."""
    eta = 1 / bound.smoothness
    rho = np.maximum(1 - bound.strong_convexity * eta, 1 - p**2)
    psi_0 = bound.start + eta**2 / p**2 * bound.optimum_gradient_sq
    return rho**t * psi_0 + 2 * p**2 * bound.dimension * bound.noise_per_round * t / (1 - rho)


def random_bound(rng: np.random.Generator) -> ScaffNewBound:
    """From hardly any noise to hopeless, from equal to very different clients."""
    smoothness = float(10 ** rng.uniform(-1, 1))
    rate = 1.0 if rng.random() < 0.03 else float(10 ** rng.uniform(-3, -0.05))
    start = float(10 ** rng.uniform(-1, 2))
    gradient = 0.0 if rng.random() < 0.1 else start * smoothness**2 * float(10 ** rng.uniform(-3, 2))
    dimension = int(rng.integers(1, 100))
    noise = start * rate * float(10 ** rng.uniform(-7, 1)) / dimension
    return ScaffNewBound(smoothness, rate * smoothness, start, gradient, dimension, noise)


# Closed forms -------------------------------------------------------------------------------------


@pytest.mark.full
def test_the_joint_optimum_beats_a_grid_over_every_iteration_and_a_fine_one_of_p():
    """Never above the grid, and at most the grid's coarseness (1e-4) below it, so neither is wrong."""
    rng = np.random.default_rng(31)
    seen = {"T = 0": 0, "cap": 0, "T between": 0, "p = 1": 0, "p = sqrt(mu/L)": 0, "p between": 0}
    for _ in range(PROBLEMS):
        bound, most = random_bound(rng), int(rng.integers(1, 150))
        root = np.sqrt(bound.strong_convexity / bound.smoothness)
        grid = np.concatenate([np.geomspace(0.3 * root, root, 15), np.geomspace(root, 1, 300)])
        table = retyped(bound, np.arange(most + 1)[:, None], grid)
        t, p = bound.best(most)
        value = float(retyped(bound, t, p))
        assert value <= table.min() * (1 + 1e-9)
        assert value >= table.min() * (1 - 1e-4)
        assert float(bound.at(t, p)) == pytest.approx(value, rel=1e-9)
        seen["T = 0" if t == 0 else "cap" if t == most else "T between"] += 1
        if t > 0 and root < 1:
            seen["p = 1" if p == 1 else "p = sqrt(mu/L)" if p <= root * (1 + 1e-9) else "p between"] += 1
    assert min(seen.values()) > 20, seen  # every kind of answer was asked for


def test_the_best_p_of_every_iteration_count_beats_a_fine_grid():
    rng = np.random.default_rng(32)
    for _ in range(PROBLEMS):
        bound = random_bound(rng)
        root = np.sqrt(bound.strong_convexity / bound.smoothness)
        grid = np.concatenate([np.geomspace(0.1 * root, root, 20), np.geomspace(root, 1, 500)])
        t = rng.integers(0, 400, 5)
        p = bound.best_probability(t)
        table = retyped(bound, t[:, None], grid)
        np.testing.assert_array_less(retyped(bound, t, p), table.min(axis=1) * (1 + 1e-9) + 1e-300)
        assert np.all((p >= root * (1 - 1e-12)) & (p <= 1))


def test_the_best_iterations_of_every_p_are_the_best_of_all():
    rng = np.random.default_rng(33)
    stopped = 0
    for _ in range(PROBLEMS):
        bound, most = random_bound(rng), int(rng.integers(1, 400))
        for p in (bound.paper_probability, float(rng.uniform(0.02, 1)), 1.0):
            column = retyped(bound, np.arange(most + 1), p)
            t = bound.best_iterations(p, most)
            assert column[t] <= column.min() * (1 + 1e-9)
            stopped += 0 < t < most
    assert stopped > 300


def test_the_papers_iterations_are_its_logarithm_with_the_dimension_restored():
    """T* = ln(psi_0 a / (2 d c)) / a at p = sqrt(mu/L); it is 0 exactly if psi_0 a <= 2 d c.

    Source: docs/theory/hou.md#planner.
    """
    rng = np.random.default_rng(34)
    for _ in range(PROBLEMS):
        bound = random_bound(rng)
        if bound.rate == 1:
            continue
        a = -np.log(1 - bound.rate)
        psi_0 = bound.start + bound.optimum_gradient_sq / (bound.smoothness * bound.strong_convexity)
        turn = np.log(psi_0 * a / (2 * bound.dimension * bound.noise_per_round)) / a
        p = bound.paper_probability
        assert bound.stationary_iterations(p) == pytest.approx(turn, rel=1e-9, abs=1e-9)
        assert abs(bound.best_iterations(p, 10**7) - max(turn, 0)) <= 1
        if turn <= 0:
            assert bound.best_iterations(p, 10**7) == 0


@pytest.mark.parametrize("noise", [0.0, 1e-9, 1.0])
@pytest.mark.parametrize("gradient", [0.0, 3.0])
@pytest.mark.parametrize("start", [0.0, 5.0])
def test_equal_smoothness_and_strong_convexity_need_no_more_than_one_iteration(noise, gradient, start):
    """rho = 0 at p = 1: T is 1 if psi_0 > 2 d c, else 0 (docs/theory/hou.md#planner)."""
    bound = ScaffNewBound(2.0, 2.0, start, gradient, 3, noise)
    worth = start + gradient / 4 > 2 * 3 * noise
    assert bound.best(10_000) == (int(worth), 1.0)
    assert bound.best_iterations(1.0, 10_000) == int(worth)
    assert bound.paper_probability == 1.0


def test_without_noise_iterations_go_to_the_cap_and_clients_that_differ_always_talk():
    quiet = ScaffNewBound(1.0, 0.3, 5.0, 2.0, 3, 0.0)
    assert quiet.best(10_000) == (10_000, 1.0)  # rho^T is 0 in float64 long before
    alike = replace(quiet, optimum_gradient_sq=0.0)
    assert alike.best(10_000) == (10_000, alike.paper_probability)
    assert replace(alike, start=0.0).best(10_000)[0] == 0


def test_for_fixed_iterations_p_falls_to_the_root_as_noise_grows():
    """Observation 3 of the paper, which its Corollary 1 does not give.

    Source: docs/theory/hou.md#start-depends-on-p.
    """
    bounds = [ScaffNewBound(1.0, 0.01, 10.0, 50.0, 20, c) for c in np.geomspace(1e-9, 1000, 60)]
    for t in (10, 100, 400):
        p = np.array([float(bound.best_probability(t)) for bound in bounds])
        assert np.all(np.diff(p) <= 0)
        assert p[0] == 1.0
        assert p[-1] == pytest.approx(0.1)
        assert np.sum((p > 0.11) & (p < 0.99)) > 5


# The bound against the algorithm ------------------------------------------------------------------


class Quadratics:
    """f_i(x) = (x - b_i)^T A_i (x - b_i) / 2 with eigenvalues in [mu, L]; x*, h* and H in closed form."""

    def __init__(self, seed: int, clients: int, dimension: int, mu: float, smoothness: float, spread: float):
        rng = np.random.default_rng(seed)
        bases = np.linalg.qr(rng.normal(size=(clients, dimension, dimension)))[0]
        values = rng.uniform(mu, smoothness, (clients, dimension))
        values[:, 0], values[:, -1] = mu, smoothness
        self.hessians = np.einsum("nij,nj,nkj->nik", bases, values, bases)
        self.centres = spread * rng.normal(size=(clients, dimension))
        pull = np.einsum("nij,nj->i", self.hessians, self.centres)
        self.optimum = np.linalg.solve(self.hessians.sum(axis=0), pull)
        self.at_optimum = self.gradient(np.broadcast_to(self.optimum, self.centres.shape))

    def gradient(self, x: np.ndarray) -> np.ndarray:
        return np.einsum("nij,...nj->...ni", self.hessians, x - self.centres)


def psi_of_algorithm_2(f: Quadratics, eta, p, std, iterations, repeats, seed) -> np.ndarray:
    """psi_t of `repeats` runs of Algorithm 2 from 0 without clipping, shape (iterations + 1, repeats)."""
    rng = np.random.default_rng(seed)
    x = np.zeros((repeats, *f.centres.shape))
    h = np.zeros_like(x)
    psi = [psi_at(f, x, h, eta / p)]
    for _ in range(iterations):
        reached = x - eta * (f.gradient(x) - h)
        noised = reached - eta / p * h + np.asarray(std)[:, None] * rng.normal(size=x.shape)
        talks = (rng.random(repeats) < p)[:, None, None]
        x = np.where(talks, noised.mean(axis=1, keepdims=True), reached)
        h = h + p / eta * (x - reached)
        psi.append(psi_at(f, x, h, eta / p))
    return np.array(psi)


def psi_at(f: Quadratics, x, h, lead) -> np.ndarray:
    distance, drift = np.square(x - f.optimum), np.square(h - f.at_optimum)
    return (distance + lead**2 * drift).sum(axis=(1, 2))


def bound_of(f: Quadratics, mu: float, smoothness: float) -> ScaffNewBound:
    start = len(f.centres) * float(np.sum(f.optimum**2))
    return ScaffNewBound(
        smoothness, mu, start, float(np.sum(f.at_optimum**2)), f.centres.shape[1], noise_per_round=1.0
    )


@pytest.mark.parametrize("p", [0.2, 0.6, 1.0])
@pytest.mark.parametrize("eta", [0.5, 0.2], ids=["step 1/L", "smaller step"])
@pytest.mark.parametrize("std", [0.0, 0.3, 2.0])
def test_the_bound_holds_for_algorithm_2_on_quadratics(p, eta, std):
    """At every iteration up to 25; the mean of 400 runs may pass it by 5 of its standard errors (< 1e-6)."""
    mu, smoothness, clients = 0.4, 2.0, 4
    f = Quadratics(5, clients, 6, mu, smoothness, spread=1.0)
    bound = bound_of(f, mu, 1 / eta)  # a smaller step is a larger L
    psi = psi_of_algorithm_2(f, eta, p, np.full(clients, std), 25, 400, seed=8)
    assert psi[0, 0] == pytest.approx(float(bound.psi_0(p)))
    error = psi.std(axis=1) / np.sqrt(psi.shape[1])
    t = np.arange(26)
    assert np.all(psi.mean(axis=1) <= bound.exact(t, p, std**2) * (1 + 1e-12) + 5 * error)


def test_the_dimension_belongs_into_the_bound():
    """docs/theory/hou.md#dimension: N = 5, d = 20, sigma = 1, p = sqrt(1/2), rho = 1/2.

    The steady psi is about 40.1, the printed bound 2.8, the corrected one 56.6. The mean over 300 runs and
    40 dependent iterations has a relative error below 1 %, so 4 % fails by chance less than once in 1e4.
    """
    f = Quadratics(1, 5, 20, 0.5, 1.0, spread=0.0)
    p = np.sqrt(0.5)
    psi = psi_of_algorithm_2(f, 1.0, p, np.ones(5), 60, 300, seed=2)
    steady = psi[20:].mean()
    corrected = replace(bound_of(f, 0.5, 1.0), start=0.0, optimum_gradient_sq=0.0)
    printed = replace(corrected, dimension=1)
    assert steady == pytest.approx(40.1, rel=0.04)
    assert corrected.exact(10**6, p, 1.0) == pytest.approx(56.6, abs=0.05)
    assert printed.exact(10**6, p, 1.0) == pytest.approx(2.83, abs=0.005)
    assert printed.exact(10**6, p, 1.0) < steady / 10
    assert steady < corrected.exact(10**6, p, 1.0)


@pytest.mark.full
@pytest.mark.parametrize("p", [0.5, 1.0])
@pytest.mark.parametrize("clients", [1, 4])
def test_one_iteration_adds_2_p_d_sigma_squared_whatever_the_number_of_clients(p, clients):
    """Monte Carlo from the optimum, where psi is only noise, with another noise for every client.

    100,000 draws of theta chi^2_d have a relative error of sqrt(((1 + 2/d)/p - 1)/100000), at most 0.39 %
    (d = 8, p = 0.5): the tolerance of 2 % is 5 of them, a false alarm below 1e-6.
    """
    f = Quadratics(3, clients, 8, 0.5, 1.0, spread=0.0)
    std = np.linspace(0.5, 2.0, clients)
    psi = psi_of_algorithm_2(f, 1.0, p, std, 1, 100_000, seed=4)[1].mean()
    bound = replace(bound_of(f, 0.5, 1.0), start=0.0, optimum_gradient_sq=0.0)
    variance = float(np.mean(std**2))
    assert psi == pytest.approx(float(bound.exact(1, p, variance)), rel=0.02)
    assert bound.exact(1, p, variance) == pytest.approx(2 * p * 8 * variance, rel=1e-12)


def test_the_planners_form_only_drops_a_factor_below_one():
    rng = np.random.default_rng(35)
    for _ in range(300):
        bound = random_bound(rng)
        t, p = rng.integers(0, 300, 6), rng.uniform(0.05, 1, 6)
        variance = bound.noise_per_round * p * t
        exact = np.array([bound.exact(*row) for row in zip(t, p, variance, strict=True)])
        assert np.all(exact <= bound.at(t, p) * (1 + 1e-12))
        np.testing.assert_allclose(bound.at(t, p), retyped(bound, t, p), rtol=1e-9)
        gap = np.minimum(bound.rate, p**2)
        np.testing.assert_allclose(bound.at(t, p) - exact, 2 * p * bound.dimension * variance / gap
                                   * (1 - gap) ** t, rtol=1e-6, atol=1e-9 * bound.at(t, p).max())  # fmt: skip


# Constants ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("relation", "factor"), [("replace-one", 2.0), ("add-remove", 1.0)])
def test_noise_per_round_is_the_mean_over_clients_of_the_squared_sensitivity_times_s(relation, factor):
    epsilon = [0.1, 1.0, 10.0]
    bound = scaffnew_bound(problem(epsilon, relation=relation), constants())
    expected = np.mean([(factor * 0.5 * MENU[e]) ** 2 for e in epsilon])
    assert bound.noise_per_round == pytest.approx(expected, rel=1e-9)
    assert (bound.start, bound.optimum_gradient_sq, bound.dimension) == (12.0, 0.5, 7)


def test_the_noise_of_a_plan_is_what_the_bound_calls_c_times_the_rounds():
    asked = problem([0.5, 1.0, 3.0])
    bound = scaffnew_bound(asked, constants())
    for rounds in (1, 4, 30):
        variance = asked.release(np.full(3, rounds)).mechanism.variance
        assert float(np.mean(variance)) == pytest.approx(bound.noise_per_round * rounds, rel=1e-9)


def test_study_without_privacy_has_no_noise_and_an_unknown_gradient_counts_as_none():
    given = constants()
    del given["optimum_gradient_sq"]
    bound = scaffnew_bound(problem(family="none"), given)
    assert (bound.noise_per_round, bound.optimum_gradient_sq) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"strong_convexity": 2.5}, r"strong_convexity must be at most smoothness = 2, got 2\.5"),
        ({"strong_convexity": 0.0}, "strong_convexity must be finite and above 0, got 0; add a ridge term"),
        ({"smoothness": float("nan")}, "smoothness must be a number, got NaN"),
        ({"smoothness": -1.0}, "smoothness must be finite and above 0, got -1"),
        ({"initial_distance_sq": float("inf")}, "initial_distance_sq must be finite and at least 0, got inf"),
        ({"optimum_gradient_sq": -0.1}, "optimum_gradient_sq must be finite and at least 0, got -0.1"),
        ({"optimum_gradient_sq": float("nan")}, "optimum_gradient_sq must be a number, got NaN"),
    ],
)
def test_constants_out_of_range_are_refused(changes, says):
    with pytest.raises(InvalidInput, match=says):
        scaffnew_bound(problem(), constants(**changes))


def test_missing_constants_are_named():
    given = {"strong_convexity": Constant(0.1, "assumed")}
    with pytest.raises(InvalidInput, match=r"constants smoothness, initial_distance_sq; .*\[constants\]"):
        scaffnew_bound(problem(), given)


def test_problems_that_the_bound_does_not_cover_are_refused_by_name():
    with pytest.raises(InvalidInput, match=r"whole update \(clipping mode D\), got mode C"):
        scaffnew_bound(problem(clipping="C"), constants())
    with pytest.raises(InvalidInput, match='planned for Gaussian noise, got laplace; set mechanism = "gaus'):
        scaffnew_bound(problem(family="laplace"), constants())
