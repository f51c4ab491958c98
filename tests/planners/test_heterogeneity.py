"""Heterogeneity from noised losses: the algebra against dense twins, and what shrinking is good for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noiseworthy.errors import InvalidInput
from noiseworthy.methods.dpfl_bcs.heterogeneity import ReportedLosses, as_printed, estimated

SIGMAS = 5.0
"""Deviations of a mean that a test allows: a false alarm in 1.7 million."""


def schedule(rng, counts, rounds) -> tuple[np.ndarray, np.ndarray]:
    """Every client in so many different rounds, in order of rounds."""
    order = rng.permutation(len(counts))
    clients = np.repeat(order, np.asarray(counts)[order])
    when = np.arange(len(clients)) % rounds
    by_round = np.argsort(when, kind="stable")
    return clients[by_round], when[by_round]


def made(rng, gamma, counts, rounds, noise_std, *, laplace=False, levels=None) -> ReportedLosses:
    """Reports of the additive model, levels falling from round to round."""
    clients, when = schedule(rng, counts, rounds)
    levels = np.linspace(1.0, 0.2, rounds) if levels is None else levels
    std = np.broadcast_to(noise_std, len(gamma)).astype(float)
    draw = rng.laplace(0, np.sqrt(0.5), len(clients)) if laplace else rng.normal(size=len(clients))
    before = levels[when] + gamma[clients] + std[clients] * draw
    return ReportedLosses(clients, when, before, before - 0.1, std)


def random_reports(rng) -> ReportedLosses:
    """Few clients or many, noise of three decades, rounds that may fall apart into two federations."""
    n, rounds = int(rng.integers(2, 15)), int(rng.integers(1, 6))
    counts = rng.integers(0, rounds + 1, n)
    counts[rng.integers(n)] = rounds
    return made(rng, rng.exponential(0.3, n), counts, rounds, 10 ** rng.uniform(-2, 1, n))


# Dense twins ------------------------------------------------------------------------------------------


def designs(reports) -> tuple[np.ndarray, np.ndarray]:
    """Indicators of rounds and of clients, one row per report."""
    return (
        np.equal.outer(reports.rounds, np.unique(reports.rounds)).astype(float),
        np.equal.outer(reports.clients, np.arange(len(reports.noise_std))).astype(float),
    )


def dense_covariance(reports, spread) -> np.ndarray:
    z = designs(reports)[1]
    return spread**2 * z @ z.T + np.diag(reports.noise_std[reports.clients] ** 2)


def dense_prediction(reports, spread) -> np.ndarray:
    """Last level + best linear unbiased prediction of every client's deviation, by m x m matrices."""
    (x, z), inverse = designs(reports), np.linalg.inv(dense_covariance(reports, spread))
    levels = np.linalg.solve(x.T @ inverse @ x, x.T @ inverse @ reports.before)
    return levels[-1] + spread**2 * z.T @ inverse @ (reports.before - x @ levels)


def restricted_misfit(reports, spread) -> float:
    """-2 log likelihood of the contrasts that no level can change, as an m - R dimensional Gaussian."""
    x, _ = designs(reports)
    contrasts = np.linalg.svd(x, full_matrices=True)[0][:, x.shape[1] :]
    seen = contrasts.T @ reports.before
    covariance = contrasts.T @ dense_covariance(reports, spread) @ contrasts
    return float(np.linalg.slogdet(covariance)[1] + seen @ np.linalg.solve(covariance, seen))


# The estimate -----------------------------------------------------------------------------------------


def test_the_values_are_the_best_linear_prediction_by_dense_matrices():
    rng = np.random.default_rng(1)
    for _ in range(100):
        reports = random_reports(rng)
        found = estimated(reports, len(reports.noise_std))
        expected = dense_prediction(reports, found.spread)
        assert found.value == pytest.approx(np.maximum(expected, 0), rel=1e-6, abs=1e-6)


@pytest.mark.full
def test_no_other_spread_is_likelier_by_the_dense_likelihood():
    rng = np.random.default_rng(2)
    positive = 0
    for _ in range(40):
        reports = random_reports(rng)
        spread = estimated(reports, len(reports.noise_std)).spread
        others = np.append(0.0, np.geomspace(1e-3, max(np.ptp(reports.before), 1e-2), 200))
        least = min(restricted_misfit(reports, one) for one in others)
        assert restricted_misfit(reports, spread) <= least + 1e-4
        positive += spread > 0
    assert positive > 10


def test_with_everybody_in_every_round_the_spread_is_that_of_the_means_less_their_noise():
    """The balanced one-way layout with known noise: spread^2 = (variance of the means - v/R)_+ exactly."""
    rng = np.random.default_rng(3)
    for size in (0.0, 0.05, 0.3):
        gamma = rng.normal(1.0, size, 30)
        reports = made(rng, gamma, np.full(30, 6), 6, 0.2)
        means = np.bincount(reports.clients, reports.before) / 6
        spread_sq = max(means.var(ddof=1) - 0.2**2 / 6, 0.0)
        found = estimated(reports, 30)
        assert found.spread**2 == pytest.approx(spread_sq, rel=1e-3, abs=1e-6)
        assert found.shrinkage == pytest.approx(spread_sq / (spread_sq + 0.2**2 / 6), rel=1e-3, abs=1e-4)


def test_nearly_exact_reports_give_the_two_way_fit_of_least_squares():
    rng = np.random.default_rng(4)
    reports = made(rng, rng.exponential(0.5, 12), np.full(12, 3), 5, 10 ** rng.uniform(-3, -2.5, 12))
    x, z = designs(reports)
    weight = 1 / reports.noise_std[reports.clients]
    both = np.hstack([x, z]) * weight[:, None]
    fitted = np.linalg.lstsq(both, reports.before * weight)[0]
    found = estimated(reports, 12)
    assert found.raw == pytest.approx(fitted[4] + fitted[5:], abs=1e-4)
    assert found.value == pytest.approx(found.raw, abs=1e-3)


@pytest.mark.parametrize("laplace", [False, True])
def test_shrinking_is_closer_to_the_truth_than_raw_means_and_than_one_value_for_all(laplace):
    """Mean squared errors over 60 worlds of 60 clients whose noise spans a factor of 30."""
    rng = np.random.default_rng(5)
    std = np.geomspace(0.05, 1.5, 60)
    errors = []
    for _ in range(60):
        gamma = rng.exponential(0.3, 60)
        reports = made(rng, gamma, np.full(60, 2), 10, std, laplace=laplace)
        truth, found = gamma + 0.2, estimated(reports, 60)
        guesses = (found.value, found.raw, np.full(60, truth.mean()))
        errors.append([np.mean((guess - truth) ** 2) for guess in guesses])
    shrunk, raw, same = np.array(errors).T
    for other in (raw, same):
        gain = other - shrunk
        assert gain.mean() > SIGMAS * gain.std() / np.sqrt(60)


@pytest.mark.full
@pytest.mark.parametrize("laplace", [False, True])
def test_the_spread_is_right_in_the_mean(laplace):
    """Strong signal, so that truncation at 0 never bites: the squared spread is unbiased to 5 sigma, and the
    5 sigma are below a tenth of it."""
    rng = np.random.default_rng(6)
    found = []
    for _ in range(400):
        gamma = rng.normal(3.0, 0.3, 50)
        reports = made(rng, gamma, np.full(50, 2), 5, np.geomspace(0.05, 0.5, 50), laplace=laplace)
        found.append(estimated(reports, 50).spread ** 2)
    error = SIGMAS * np.std(found) / np.sqrt(400)
    assert error < 0.1 * 0.3**2
    assert np.mean(found) == pytest.approx(0.3**2, abs=error)


def test_alike_clients_stay_alike():
    """No signal: the spread is 0 in about half the worlds (fewer than 25 of 100 once in 10^7), and shrinking
    removes at least nine tenths of the squared error of the raw values."""
    rng = np.random.default_rng(7)
    none, shrunk, raw = 0, 0.0, 0.0
    for _ in range(100):
        reports = made(rng, np.full(40, 1.0), np.full(40, 2), 8, 0.4)
        found = estimated(reports, 40)
        none += found.spread == 0
        shrunk += np.var(found.value)
        raw += np.var(found.raw)
    assert none >= 25
    assert shrunk < 0.1 * raw


def test_a_client_that_never_reported_has_the_mean():
    reports = made(np.random.default_rng(8), np.array([0.1, 5.0, 0.9]), [4, 0, 4], 4, 1e-3)
    found = estimated(replace(reports, noise_std=np.array([1e-3, np.inf, 1e-3])), 3)
    assert found.value[1] == pytest.approx(0.2 + (0.1 + 0.9) / 2, abs=5e-3)
    assert np.isnan(found.raw[1])
    assert found.shrinkage[1] == 0


def test_exact_reports_are_believed():
    gamma = np.array([0.0, 0.5, 2.0, 0.7])
    reports = made(np.random.default_rng(9), gamma, np.full(4, 3), 4, 0.0)
    assert estimated(reports, 4).value == pytest.approx(gamma + 0.2, abs=1e-4)


def test_losses_below_zero_are_worth_zero():
    reports = made(np.random.default_rng(10), np.array([-3.0, 1.0, 2.0]), np.full(3, 3), 3, 1e-3)
    found = estimated(reports, 3)
    assert found.raw[0] < 0
    assert found.value[0] == 0


def test_equal_losses_and_clients_that_never_meet_tell_nothing():
    everyone = np.arange(4)
    alike = ReportedLosses(everyone, np.zeros(4, int), np.full(4, 1.5), np.full(4, 1.0), np.full(4, 0.1))
    assert estimated(alike, 4).value.tolist() == [1.5] * 4
    alone = ReportedLosses(everyone, everyone, np.array([3.0, 2.0, 1.0, 0.5]), np.ones(4), np.full(4, 0.1))
    found = estimated(alone, 4)
    assert found.spread == 0
    assert found.value == pytest.approx(0.5)


@given(st.integers(0, 2**32 - 1), st.floats(0.1, 10), st.floats(-1, 5))
@settings(deadline=None, max_examples=50)
def test_units_order_names_and_levels_do_not_matter(seed, scale, shift):
    rng = np.random.default_rng(seed)
    reports = random_reports(rng)
    n, m = len(reports.noise_std), len(reports.clients)
    name, order = rng.permutation(n), rng.permutation(m)
    fall = rng.normal(size=reports.rounds.max() + 1)
    fall[-1] = shift
    before = (scale * reports.before + fall[reports.rounds])[order]
    std = np.empty(n)
    std[name] = scale * reports.noise_std
    other = ReportedLosses(name[reports.clients][order], reports.rounds[order], before, before, std)
    one, two = estimated(reports, n), estimated(other, n)
    assert two.spread == pytest.approx(scale * one.spread, rel=2e-2, abs=2e-3 * scale)
    expected = scale * dense_prediction(reports, two.spread / scale) + shift
    assert two.value[name] == pytest.approx(np.maximum(expected, 0), rel=1e-5, abs=1e-5)


@pytest.mark.full
def test_a_hundred_thousand_clients_take_seconds():
    rng = np.random.default_rng(11)
    reports = made(rng, rng.exponential(0.3, 100_000), np.full(100_000, 2), 10, 0.3)
    assert estimated(reports, 100_000).spread == pytest.approx(0.3, rel=0.02)


# As printed -------------------------------------------------------------------------------------------


def test_the_printed_estimate_is_that_of_a_loop():
    rng = np.random.default_rng(12)
    clients, rounds = schedule(rng, [3, 1, 0, 2, 4, 2], 4)
    before, after = rng.uniform(1, 2, 12), rng.uniform(1, 2, 12)
    reports = ReportedLosses(clients, rounds, before, after, np.full(6, 0.1))
    least = {
        n: min(abs(b - a) for c, b, a in zip(clients, before, after, strict=True) if c == n)
        for n in set(clients.tolist())
    }
    unseen = sum(least.values()) / len(least)
    assert as_printed(reports, 6).tolist() == pytest.approx([least.get(n, unseen) for n in range(6)])


def test_the_printed_gamma_falls_with_the_number_of_reports_and_rises_with_the_noise():
    """Nothing differs between the clients but their number of reports: 1 against 20, and noise."""
    rng = np.random.default_rng(13)
    counts = np.repeat([1, 20], 50)
    clients, rounds = schedule(rng, counts, 20)
    draws = rng.normal(size=(2, len(clients)))
    printed = {}
    for std in (0.1, 1.0):
        before, after = 1.0 + std * draws
        printed[std] = as_printed(ReportedLosses(clients, rounds, before, after, np.full(100, std)), 100)
    assert printed[1.0][:50].mean() > 10 * printed[1.0][50:].mean()
    assert printed[1.0] == pytest.approx(10 * printed[0.1])


# Bad input --------------------------------------------------------------------------------------------

GOOD = {
    "clients": np.array([0, 1]),
    "rounds": np.array([0, 0]),
    "before": np.array([1.0, 2.0]),
    "after": np.array([1.0, 2.0]),
    "noise_std": np.array([0.1, 0.1]),
}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"clients": np.array([0, 2])}, "clients must be below 2"),
        ({"clients": np.array([0, -1])}, "clients must be whole numbers of at least 0"),
        ({"clients": np.array([], int)}, "clients must be a list"),
        ({"rounds": np.array([0])}, "one entry per report"),
        ({"after": np.array([1.0])}, "one entry per report"),
        ({"before": np.array([1.0, np.nan])}, "must be finite"),
        ({"noise_std": np.array([0.1, -1.0])}, "at least 0"),
        ({"noise_std": np.array([0.1, np.inf])}, "must be finite"),
    ],
)
def test_reports_that_cannot_be(changed, said):
    with pytest.raises(InvalidInput, match=said):
        ReportedLosses(**(GOOD | changed))


def test_another_number_of_clients_is_refused():
    reports = ReportedLosses(**GOOD)
    with pytest.raises(InvalidInput, match="clients must be 2"):
        estimated(reports, 3)


def test_losses_within_the_cap_deviate_by_half_of_it_at_most_and_estimates_stay_within():
    """Reports that noise throws far beyond [0, 2]: the spread that they show is not believed."""
    generator = np.random.default_rng(3)
    clients, rounds = np.tile(np.arange(30), 4), np.repeat(np.arange(4), 30)
    far = np.where(clients % 2, 9.0, -5.0) + generator.normal(0, 0.1, 120)
    open_ended = ReportedLosses(clients, rounds, far, far, np.full(30, 0.1))
    capped = replace(open_ended, cap=2.0)
    assert estimated(open_ended, 30).spread > 6
    found = estimated(capped, 30)
    assert 0.9 < found.spread <= 1.0
    assert found.value.min() >= 0
    assert found.value.max() <= 2.0
    with pytest.raises(InvalidInput, match="cap must be above 0"):
        replace(open_ended, cap=0.0)
