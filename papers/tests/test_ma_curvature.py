"""P2 of Ma et al. fits anything with anything; P2' finds planted constants, and no brute grid beats it."""

from __future__ import annotations

from dataclasses import astuple, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noiseworthy.errors import InvalidInput
from noiseworthy.methods.dpfl_bcs.bound import Curvature, ParticipationBound
from noiseworthy.methods.dpfl_bcs.heterogeneity import ReportedLosses
from noiseworthy_papers.ma.constants import rho_min_printed
from noiseworthy_papers.ma.curvature import Course, PrintedStage, PrintedUnknowns, literal, regularised

STAGE = PrintedStage(
    loss=1.6, noise=40.0, bias=30.0, mean_heterogeneity=0.15, rho_min=1.04, rounds=9, clients_per_round=20
)


# P2 as printed ----------------------------------------------------------------------------------------


def printed_bound(stage: PrintedStage, at: PrintedUnknowns) -> float:
    """Equation (10), term by term as the paper prints it."""
    t, k = stage.rounds, stage.clients_per_round
    big, mu, gamma = at.smoothness, at.strong_convexity, at.gamma
    return (
        at.initial_distance_sq / (gamma + t) * big * gamma / 2
        - 3 * big * stage.rho_min / (2 * mu) * stage.mean_heterogeneity
        + 1 / (gamma + t) * 4 * big * at.gradient_variance / (mu**2 * k)
        + stage.noise / ((gamma + t) * t) * 4 * big / (k**2 * mu**2)
        + stage.bias / t * (1 / (gamma + t) * 4 * big**2 / (k * mu**2) + 3 * big / (2 * k * mu))
    )


@st.composite
def starts(draw):
    logs = st.floats(-5, 5)
    mu = np.exp(draw(logs))
    ratio = np.exp(draw(st.floats(0, 5)))
    distance, gamma, variance = (float(np.exp(draw(logs))) for _ in range(3))
    return PrintedUnknowns(distance, gamma, variance, float(mu * ratio), float(mu))


@given(starts())
@settings(deadline=None)
def test_the_printed_bound_is_equation_10(at):
    assert STAGE.bound(at) == pytest.approx(printed_bound(STAGE, at), rel=1e-9, abs=1e-9)


@given(starts(), st.floats(0.1, 10))
@settings(deadline=None, max_examples=200)
def test_wherever_p2_starts_it_ends_no_worse_and_within_its_limits(at, loss):
    stage = replace(STAGE, loss=loss)
    found = literal(stage, at)
    assert found.residual <= abs(loss - stage.bound(at)) * (1 + 1e-9) + 1e-9
    assert found.residual == pytest.approx(abs(loss - printed_bound(stage, found.unknowns)), abs=1e-6 * loss)
    assert found.unknowns.smoothness >= found.unknowns.strong_convexity
    assert min(astuple(found.unknowns)) >= 0


def test_p2_fits_exactly_with_whatever_constants_it_starts_from():
    """The five unknowns are not identifiable: L from 0.1 to 1000, and the same loss without any misfit."""
    ends = [
        literal(STAGE, PrintedUnknowns(1.0, 5.0, 0.0, big, 0.3 * big)) for big in (0.1, 1.0, 30.0, 1000.0)
    ]
    assert max(one.residual for one in ends) < 1e-9
    smooth = [one.unknowns.smoothness for one in ends]
    assert max(smooth) / min(smooth) > 1000
    assert all(abs(one.unknowns.gamma / (8 * 0.3**-1) - 1) > 0.5 for one in ends)


def test_the_printed_rho_min_is_that_of_a_loop():
    rng = np.random.default_rng(12)
    clients, rounds = np.array([0, 3, 4, 1, 3, 5, 0, 2, 4, 0, 4, 5]), np.repeat(np.arange(4), 3)
    before, after = rng.uniform(1, 2, 12), rng.uniform(1, 2, 12)
    last = {int(c): b for c, t, b in zip(clients, rounds, before, strict=True) if t == 3}
    mean = sum(last.values()) / 3
    earlier = [int(np.sum((clients == n) & (rounds < 3))) for n in range(6)]
    total = sum(count * last.get(n, mean) for n, count in enumerate(earlier))
    reports = ReportedLosses(clients, rounds, before, after, np.full(6, 0.1))
    assert rho_min_printed(reports, 6, 3) == pytest.approx(total / (3 * 3 * mean))


def test_the_printed_rho_min_of_a_single_round_is_refused():
    once = ReportedLosses(np.array([0, 1]), np.zeros(2, int), np.ones(2), np.ones(2), np.full(2, 0.1))
    with pytest.raises(InvalidInput, match="one round"):
        rho_min_printed(once, 2, 2)


def test_p2_stays_where_it_fits():
    start = PrintedUnknowns(0.7, 3.0, 0.2, 2.0, 0.2)
    stayed = literal(replace(STAGE, loss=STAGE.bound(start)), start)
    assert astuple(stayed.unknowns) == pytest.approx(astuple(start))


def test_one_unknown_after_the_other_when_the_first_alone_cannot_fit():
    """Noise above the loss: R^2 falls to 0, and gamma, L and mu have to move."""
    start = PrintedUnknowns(1.0, 1.0, 1.0, 2.0, 0.2)
    stage = replace(STAGE, noise=4000.0)
    found = literal(stage, start)
    assert stage.bound(replace(start, initial_distance_sq=0.0)) > stage.loss
    assert found.residual < 1e-9
    assert found.unknowns.initial_distance_sq == 0
    assert found.unknowns.gamma > start.gamma


# P2' --------------------------------------------------------------------------------------------------


def course_of(curvature: Curvature, distance: float, rounds=12, noise=0.0, bias=0.0, variance=1e-6) -> Course:
    """Losses that follow the bound exactly."""
    t = np.arange(float(rounds))
    course = Course(
        np.zeros(rounds),
        np.full(rounds, variance),
        t,
        np.where(t > 0, noise, 0.0),
        np.where(t > 0, bias, 0.0),
        20,
    )
    slope, offset = course.parts(np.array(curvature.smoothness), np.array(curvature.strong_convexity))
    return replace(course, losses=slope * distance + offset)


def test_the_bound_is_that_of_the_planner_at_the_counts_so_far():
    """Against ParticipationBound, which takes counts: rounds 3 of a schedule that asks everybody equally."""
    gamma, variance = np.array([0.1, 0.4, 0.0, 0.3]), np.array([2.0, 3.0, 5.0, 7.0])
    course = Course(
        losses=np.zeros(1),
        variance=np.ones(1),
        elapsed=np.array([6.0]),
        noise=np.array([variance.mean()]),
        bias=np.array([gamma.mean()]),
        clients_per_round=2,
    )
    slope, offset = course.parts(np.array(1.7), np.array(0.2))
    bound = ParticipationBound(Curvature(1.7, 0.2), 4.0, variance / 3, 1, gamma, 6, 2)  # V_n(3) = variance
    assert (4.0 * slope + offset).item() == pytest.approx(bound.at([3, 3, 3, 3]))


def test_a_course_counts_only_what_came_before_each_round():
    clients, rounds = np.array([0, 1, 2, 0, 1, 3]), np.array([0, 0, 1, 1, 2, 2])
    losses = np.array([3.0, 2.0, 2.0, 1.0, 1.5, 0.5])
    std = np.array([0.1, 0.2, 0.3, 0.4])
    reports = ReportedLosses(clients, rounds, losses, losses, std)
    upload, gamma = np.array([1.0, 2.0, 4.0, 9.0]), np.array([0.1, 0.2, 0.3, 7.0])
    course = Course.of(reports, upload, gamma)
    assert course.losses.tolist() == [2.5, 1.5, 1.0]
    assert course.variance == pytest.approx([0.05 / 4, 0.1 / 4, 0.2 / 4])
    assert course.noise.tolist() == [0.0, 1.5, 2.0]
    assert course.bias == pytest.approx([0.0, 0.15, 0.175])
    assert course.clients_per_round == 2


@pytest.mark.parametrize("planted", [Curvature(1.0, 0.1), Curvature(3.0, 0.5), Curvature(0.6, 0.6)])
def test_planted_constants_come_back_from_losses_that_follow_the_bound(planted):
    """Noise and bias tell L and mu apart, which R^2 alone would not; the prior is off by e^0.7."""
    course = course_of(planted, 4.0, rounds=40, noise=0.5, bias=0.05, variance=1e-10)
    prior = Curvature(2 * planted.smoothness, 0.5 * planted.strong_convexity)
    found = regularised(course, prior, log_spread=1.0)
    assert found.curvature.smoothness == pytest.approx(planted.smoothness, rel=1e-2)
    assert found.curvature.strong_convexity == pytest.approx(planted.strong_convexity, rel=1e-2)
    assert found.initial_distance_sq == pytest.approx(4.0, rel=2e-2)


def brute_force(course: Course, prior: Curvature, tau: float, around: Curvature) -> float:
    """The least objective over a fine grid of L, mu and R^2, by plain loops over the formula of theory."""
    least = np.inf
    logs = np.linspace(-0.3, 0.3, 31)
    distance = np.linspace(0, 12, 121)[:, None]
    for smooth in around.smoothness * np.exp(logs):
        for mu in around.strong_convexity * np.exp(logs):
            if mu > smooth:
                continue
            gamma, k = 8 * smooth / mu, course.clients_per_round
            size = smooth / 2 * gamma / (gamma + course.elapsed)
            rest = (
                smooth
                / 2
                * (
                    4 / mu**2 * (course.noise / k + 2 * smooth * course.bias) / (gamma + course.elapsed)
                    + 2 * course.bias / mu
                )
            )
            prior_term = np.log(smooth / prior.smoothness) ** 2 + np.log(mu / prior.strong_convexity) ** 2
            misfit = np.sum((course.losses - size * distance - rest) ** 2 / course.variance, axis=1)
            least = min(least, misfit.min() + prior_term / tau**2)
    return least


@pytest.mark.parametrize("seed", range(4))
def test_no_point_of_a_brute_grid_is_better(seed):
    rng = np.random.default_rng(seed)
    course = course_of(Curvature(1.0, 0.1), 4.0, noise=0.3, bias=0.02, variance=0.01)
    course = replace(course, losses=course.losses + 0.1 * rng.normal(size=12))
    prior = Curvature(2.0, 0.05)
    tau = 0.5 + seed / 2
    found = regularised(course, prior, log_spread=tau)
    for around in (found.curvature, prior, Curvature(1.0, 0.1), Curvature(0.5, 0.4)):
        assert found.objective <= brute_force(course, prior, tau, around) + 1e-9
    assert found.objective >= brute_force(course, prior, tau, found.curvature) - 0.05


def test_the_answer_is_unique_and_the_same_twice():
    course = course_of(Curvature(1.0, 0.1), 4.0, noise=0.3, bias=0.02, variance=0.01)
    one, two = (regularised(course, Curvature(2.0, 0.05), log_spread=1.0) for _ in range(2))
    assert one == two


def test_loud_losses_leave_the_prior_and_quiet_ones_overrule_it():
    planted, prior = Curvature(1.0, 0.1), Curvature(3.0, 0.02)
    answers = [
        regularised(course_of(planted, 4.0, 40, 0.5, 0.05, v), prior, 1.0).curvature for v in (1e-9, 1e9)
    ]
    assert answers[0].smoothness == pytest.approx(1.0, rel=2e-2)
    assert answers[1].smoothness == pytest.approx(3.0, rel=1e-3)
    assert answers[1].strong_convexity == pytest.approx(0.02, rel=1e-3)


def test_losses_below_what_noise_alone_predicts_give_no_distance():
    course = course_of(Curvature(1.0, 0.1), 0.0, noise=50.0, variance=0.1)
    found = regularised(replace(course, losses=np.full(12, -5.0)), Curvature(1.0, 0.1), 0.1)
    assert found.initial_distance_sq == 0


# Bad input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"variance": np.zeros(3)}, "variance must be finite and above 0"),
        ({"noise": np.full(3, -1.0)}, "noise must be finite and at least 0"),
        ({"bias": np.full(3, np.inf)}, "bias must be finite"),
        ({"losses": np.array([1.0, np.nan, 1.0])}, "losses must be finite"),
        ({"losses": np.ones(2)}, "one for every entry"),
        ({"clients_per_round": 0}, "clients_per_round must be at least 1"),
    ],
)
def test_courses_that_cannot_be(changed, said):
    good = {name: np.ones(3) for name in ("losses", "variance", "elapsed", "noise", "bias")}
    with pytest.raises(InvalidInput, match=said):
        Course(**({**good, "clients_per_round": 2} | changed))


def test_constants_and_rounds_that_cannot_be():
    with pytest.raises(InvalidInput, match="at most smoothness"):
        PrintedUnknowns(1.0, 1.0, 0.0, 0.1, 0.2)
    with pytest.raises(InvalidInput, match="gamma must be finite and at least 0"):
        PrintedUnknowns(1.0, -1.0, 0.0, 0.2, 0.1)
    with pytest.raises(InvalidInput, match="T0 >= 2"):
        literal(replace(STAGE, rounds=0), PrintedUnknowns(1.0, 1.0, 0.0, 1.0, 0.1))
    with pytest.raises(InvalidInput, match="log_spread must be finite and above 0"):
        regularised(course_of(Curvature(1.0, 0.1), 1.0), Curvature(1.0, 0.1), 0.0)
