"""Two independent oracles agree with our accountant within 0.1 %, or the value is refused by name.

The grid: epsilon 0.01 to 100, delta 1e-12 to 1e-3, 1 to 100,000 releases, Gaussian and Laplace noise.

    Gaussian    mpmath with 60 digits; dp-accounting's closed form
    Laplace     everywhere composition on a lattice, the law tilted first (plain NumPy, below); dp-accounting
                and prv-accountant where their Fourier transforms resolve delta; elsewhere the contour
                integral in 30 digits along another line

A few cells run always, all of them with `-m slow`.
"""

from __future__ import annotations

import itertools
import math

import dp_accounting
import mpmath
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from scipy.optimize import brentq

from noiseworthy.errors import InvalidInput
from noiseworthy.privacy.accountants import spent_epsilon
from noiseworthy.privacy.gaussian import gaussian_mu
from noiseworthy.privacy.gaussian_epsilon import gaussian_epsilon
from noiseworthy.privacy.laplace import laplace_epsilon
from noiseworthy.privacy.mechanisms import Gaussian, Laplace
from noiseworthy.privacy.releases import Release
from noiseworthy.privacy.sensitivity import of_mean_gradient

EPSILON, DELTA = (0.01, 0.1, 1.0, 10.0, 100.0), (1e-12, 1e-9, 1e-6, 1e-3)
RELEASES = (1, 2, 10, 100, 1000, 10_000, 100_000)
GRID = list(itertools.product(EPSILON, DELTA, RELEASES))
FEW = [(0.01, 1e-9, 100_000), (1.0, 1e-6, 100), (1.0, 1e-12, 100_000), (10.0, 1e-3, 10), (100.0, 1e-12, 1000)]
AGREE = 1e-3


def ours(family: str, ratio: float, releases: int, delta: float) -> float:
    """Through the front door: sensitivity 2C/n of 0.02, and noise for it."""
    kind, norm = (Gaussian, "l2") if family == "gaussian" else (Laplace, "l1")
    sensitivity = of_mean_gradient(1.0, [100], norm)
    release = Release(kind(sensitivity.value / ratio), sensitivity)
    return float(spent_epsilon(release, releases, delta)[0])


def ratio_of(epsilon: float, delta: float, releases: int) -> float:
    """Sensitivity over noise with about this cost, by the central limit."""
    return float(gaussian_mu(epsilon, delta)) / math.sqrt(releases)


# Gaussian ----------------------------------------------------------------------------------------------


def gaussian_in_60_digits(mu: float, epsilon: float) -> mpmath.mpf:
    with mpmath.workdps(60):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


def check_gaussian(epsilon: float, delta: float, releases: int) -> None:
    ratio = ratio_of(epsilon, delta, releases)
    found = ours("gaussian", ratio, releases, delta)
    library = dp_accounting.get_epsilon_gaussian(1 / (ratio * math.sqrt(releases)), delta)
    assert found == pytest.approx(library, rel=AGREE)
    with mpmath.workdps(60):
        mu = mpmath.mpf(ratio) * mpmath.sqrt(releases)
        assert gaussian_in_60_digits(mu, found) <= delta * (1 + 1e-7)
        assert gaussian_in_60_digits(mu, found * (1 - AGREE)) > delta


@pytest.mark.parametrize("cell", GRID, ids=str)
def test_gaussian_accounting_agrees_with_two_oracles(cell):
    check_gaussian(*cell)


# Laplace -----------------------------------------------------------------------------------------------


def on_a_lattice(shift: float, releases: int, delta: float, points: int = 64) -> float:
    """Epsilon from k-fold convolution of the loss on multiples of m/points, tilted so that nothing is lost.

    Mass between lattice points goes to its two neighbours with its mean kept, an error of second order.
    """
    step = shift / points
    values = step * np.arange(-points, points + 1)
    masses = _loss_masses(shift, values)
    tilt = _tilt(values, masses, releases, delta)
    weights = masses * np.exp(tilt * (values - shift))
    log_scale = math.log(weights.sum()) + tilt * shift
    weights /= weights.sum()
    mean = releases * weights @ values
    spread = math.sqrt(releases * (weights @ values**2 - (weights @ values) ** 2))
    reach = 20 * spread if releases > 100 else 3 * releases * shift  # few losses are far from normal
    length = 1 << int(2 * reach / step + 8 * points).bit_length()
    start = np.zeros(length)
    start[np.arange(-points, points + 1) % length] = weights
    least = round(mean / step) - length // 2
    losses = step * np.arange(least, least + length)
    power = np.roll(np.fft.irfft(np.fft.rfft(start) ** releases, length), -least)

    def log_delta(epsilon: float) -> float:
        first = np.searchsorted(losses, epsilon, side="right")
        above = losses[first:] - epsilon
        excess = -np.expm1(-above) * np.exp(-tilt * above)
        return releases * log_scale - tilt * epsilon + math.log(max(excess @ power[first:], 1e-200))

    high = min(mean + reach / 3, releases * shift * (1 - 1e-12))
    low = high
    while low > 0 and log_delta(low) <= math.log(delta):  # from above: far below there is rounding only
        low = max(low - max(spread / 2, releases * shift / 1000), 0.0)
    return float(brentq(lambda e: log_delta(e) - math.log(delta), low, high))


def _loss_masses(shift: float, values: np.ndarray) -> np.ndarray:
    """Atoms at the ends, and cells of the density e^((l - m)/2)/4 shared among their two ends."""
    step = values[1] - values[0]
    mass = np.exp((values[:-1] - shift) / 2) * np.expm1(step / 2) / 2
    right = 0.5 + step / 24  # the mean of e^(s/2) within a cell, up to the cube of the step
    masses = np.zeros(len(values))
    masses[:-1] += (1 - right) * mass
    masses[1:] += right * mass
    masses[-1] += 0.5
    masses[0] += math.exp(-shift) / 2
    return masses


def _tilt(values: np.ndarray, masses: np.ndarray, releases: int, delta: float) -> float:
    """The order of about the best Renyi bound, on a grid: any order would do, but most lose digits."""
    orders = (
        np.geomspace(1e-2, 1e2, 400) * math.sqrt(2 * math.log(1 / delta)) / (values[-1] * math.sqrt(releases))
    )
    shifted = np.exp(orders[:, None] * (values - values[-1]))
    cumulant = np.log(shifted @ masses) + orders * values[-1]
    return float(
        orders[np.argmin((releases * cumulant - math.log(delta) - np.log(orders * (1 + orders))) / orders)]
    )


def by_contour_in_30_digits(shift: float, releases: int, delta: float, epsilon: float) -> float:
    """delta(epsilon) along a line half as far from zero as Chernoff's, by quadrature of mpmath."""
    with mpmath.workdps(30):
        m, e, k = mpmath.mpf(shift), mpmath.mpf(epsilon), releases
        line = mpmath.mpf(e / (m * m * k) + mpmath.mpf(1) / 4)

        def integrand(t):
            z = mpmath.mpc(line, t)
            density = mpmath.exp(-m / 2) * mpmath.sinh((z + 0.5) * m) / (2 * z + 1)
            mgf = mpmath.exp(z * m) / 2 + mpmath.exp(-m - z * m) / 2 + density
            return (mgf**k * mpmath.exp(-z * e) / (z * (z + 1))).real

        width = 1 / (m * mpmath.sqrt(k))
        return float(mpmath.quad(integrand, [width * j for j in range(0, 16, 2)]) / mpmath.pi)


def check_laplace(epsilon: float, delta: float, releases: int) -> None:
    ratio = ratio_of(epsilon, delta, releases)
    found = ours("laplace", ratio, releases, delta)
    if releases == 1:
        assert found == pytest.approx(max(ratio + 2 * math.log1p(-delta), 0), rel=AGREE)
    elif found < releases * ratio * (1 - 1e-5):
        assert found == pytest.approx(on_a_lattice(ratio, releases, delta), rel=AGREE)
    else:  # delta buys nothing: epsilon within k m and k m + log(1 - 2^k delta)
        assert releases * ratio * (1 - AGREE) <= releases * ratio + math.log1p(-(2.0**releases) * delta)
    if delta >= 1e-14 * releases and releases <= 1000:
        assert found == pytest.approx(by_dp_accounting(ratio, releases, delta), rel=AGREE)
    elif releases >= 1000:
        assert by_contour_in_30_digits(ratio, releases, delta, found) == pytest.approx(delta, rel=0.02)


def by_dp_accounting(ratio: float, releases: int, delta: float) -> float:
    """On two grids, extrapolated: its error falls as the square of the grid."""
    grid = min(2e-4, ratio / 100)
    one = privacy_loss_distribution.from_laplace_mechanism(1 / ratio, value_discretization_interval=grid)
    return min(one.self_compose(releases).get_epsilon_for_delta(delta), releases * ratio)


@pytest.mark.parametrize("cell", FEW, ids=str)
def test_laplace_accounting_agrees_with_two_oracles(cell):
    check_laplace(*cell)


@pytest.mark.slow
@pytest.mark.parametrize("cell", [cell for cell in GRID if cell not in FEW], ids=str)
def test_laplace_accounting_agrees_with_two_oracles_on_the_whole_grid(cell):
    check_laplace(*cell)


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "releases"), list(itertools.product((0.1, 1.0, 10.0), (10, 100, 1000))))
def test_laplace_accounting_lies_in_the_bracket_of_the_prv_accountant(epsilon, releases):
    prv = pytest.importorskip("prv_accountant")
    ratio = ratio_of(epsilon, 1e-6, releases)
    accountant = prv.PRVAccountant(
        prvs=prv.LaplaceMechanism(ratio),
        max_self_compositions=releases,
        eps_error=2e-3 * epsilon,
        delta_error=1e-10,
    )
    low, _, high = accountant.compute_epsilon(delta=1e-6, num_self_compositions=[releases])
    assert low * (1 - 1e-4) <= laplace_epsilon(ratio, releases, 1e-6) <= high * (1 + 1e-4)


# Extremes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mu", [1e-6, 1e-4, 1.0, 30.0, 200.0])
@pytest.mark.parametrize("delta", [1e-300, 1e-100, 1e-30, 0.3])
def test_extreme_gaussian_costs_are_right_in_60_digits(mu, delta):
    found = float(gaussian_epsilon(mu, delta))
    if found == 0:
        assert gaussian_in_60_digits(mu, 0.0) <= delta
        return
    assert gaussian_in_60_digits(mu, found) <= delta * (1 + 1e-6)
    assert gaussian_in_60_digits(mu, found * (1 - AGREE)) > delta


@pytest.mark.parametrize(
    ("shift", "releases", "delta"),
    [
        (1e-8, 100_000, 1e-12),
        (5.0, 100_000, 1e-12),
        (1e-3, 10**7, 1e-9),
        (0.01, 1000, 1e-300),
        (0.01, 500, 0.5),
    ],
)
def test_extreme_laplace_costs_are_right_on_a_lattice_or_nothing(shift, releases, delta):
    found = laplace_epsilon(shift, releases, delta)
    if found == 0:  # total variation is below delta
        assert math.sqrt(releases) * shift / math.sqrt(2 * math.pi) < delta
    else:
        assert found == pytest.approx(on_a_lattice(shift, releases, delta), rel=AGREE)


@pytest.mark.parametrize("shift", [1e-300, 1e-100, 1e-12, 1e5, 1e300])
@pytest.mark.parametrize("delta", [1e-300, 1e-12, 0.999])
def test_losses_that_are_next_to_nothing_or_beyond_all_meaning_are_bounded(shift, delta):
    for releases in (1, 2, 1000, 100_000):
        assert 0 <= laplace_epsilon(shift, releases, delta) <= releases * shift


@pytest.mark.parametrize("delta", [0.0, -1e-9, 1.0, np.nan, np.inf])
def test_a_delta_that_is_none_is_refused_for_gaussian_noise(delta):
    with pytest.raises(InvalidInput, match="delta must"):
        ours("gaussian", 0.1, 10, delta)


@pytest.mark.parametrize("delta", [-1e-9, 1.0, np.nan, np.inf])
def test_a_delta_that_is_none_is_refused_for_laplace_noise(delta):
    with pytest.raises(InvalidInput, match="delta must"):
        ours("laplace", 0.1, 10, delta)


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
@pytest.mark.parametrize("releases", [-1, 0.5, np.nan, np.inf])
def test_a_count_that_is_none_is_refused(family, releases):
    with pytest.raises(InvalidInput, match="releases must"):
        ours(family, 0.1, releases, 1e-6)


# The checks see what they look for -----------------------------------------------------------------------


def test_the_oracles_reject_an_accountant_that_is_half_a_percent_off(monkeypatch):
    for factor in (0.995, 1.005):
        right = spent_epsilon
        wrong = lambda release, k, d, f=factor: f * right(release, k, d)  # noqa: E731, B023
        monkeypatch.setitem(ours.__globals__, "spent_epsilon", wrong)
        for check in (check_gaussian, check_laplace):
            with pytest.raises(AssertionError):
                check(1.0, 1e-6, 100)
        monkeypatch.undo()
