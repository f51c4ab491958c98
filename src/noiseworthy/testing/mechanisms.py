"""What noise and clips must keep, as suites to inherit."""

import inspect
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.integrate import quad

from noiseworthy.errors import UserError
from noiseworthy.privacy.mechanisms import Family, Law, law_of
from noiseworthy.privacy.sensitivity import Norm
from noiseworthy.privacy.uploads import ASSURANCES, LIMIT, Noise

FALSE_ALARM = 1e-6
"""Of each statistic, on a sample of the stated law."""
_BINS = 100


def p_values(sample: NDArray[np.float64], family: Family) -> dict[str, float]:
    """Two-sided p-values of independent draws against the law of unit scale.

    Args:
        sample: at least some thousands.
        family: of the noise, of size 1.

    Returns:
        Of the mean, the variance, the skewness, the fourth moment, the counts in bins of equal probability
        and the count beyond the outermost thousandth.

    Example:
        >>> values = p_values(np.random.default_rng(0).laplace(size=20_000), "laplace")
        >>> min(values.values()) > FALSE_ALARM
        True
    """
    law, n = law_of(family).analysis.distribution(), len(sample)
    second, fourth, sixth, eighth = (_moment(law_of(family), order) for order in (2, 4, 6, 8))
    square = np.square(sample)
    z = {
        "mean": sample.mean() / np.sqrt(second / n),
        "variance": (square.mean() - second) / np.sqrt((fourth - second**2) / n),
        "skewness": (square * sample).mean() / np.sqrt(sixth / n),
        "fourth moment": (square**2).mean() / np.sqrt((eighth - fourth**2) / n)
        - fourth / np.sqrt((eighth - fourth**2) / n),
    }
    bins = law.ppf(np.linspace(0, 1, _BINS + 1))
    beyond = int(np.sum(np.abs(sample) > law.isf(5e-4)))
    return {
        **{name: float(2 * stats.norm.sf(abs(value))) for name, value in z.items()},
        "bins": float(stats.chisquare(np.histogram(sample, bins)[0]).pvalue),
        "tails": float(stats.binomtest(beyond, n, 1e-3).pvalue),
    }


@cache
def _moment(law: Law, order: int) -> float:
    """Of a law that is symmetric about 0, by quadrature over its positive half."""
    density = law.analysis.distribution().pdf
    return 2 * quad(lambda x: x**order * density(x), 0, np.inf)[0]


def assert_follows(sample: NDArray[np.float64], family: Family, what: str) -> None:
    """Fail where a statistic says that a sample does not follow the law of unit scale."""
    for name, p in p_values(np.asarray(sample, np.float64), family).items():
        assert p > FALSE_ALARM, f"{what}: {name} does not fit {family} noise of planned size (p = {p:.1e})"


def assert_refused(call: Callable[[], object], what: object) -> None:
    """Fail where a call is answered, and not refused by an error for users."""
    try:
        answer = call()
    except UserError:
        return
    raise AssertionError(f"{what} is answered by {answer} and not refused by an error for users")


_DRAWS = 40_000
_SEEDS = {"seed", "key", "rng", "generator", "random_state"}


class NoiseConformance:
    """Noise of uploads (`privacy.uploads.Noise`).

    Attributes:
        family: law that the noise claims, `gaussian` or `laplace`.
    """

    family: ClassVar[Family] = "gaussian"
    _scale = 2.0**32 * 1.2345

    def noise(self, scale: float) -> Noise:
        """The noise of one new upload, of a size in steps. Abstract."""
        raise NotImplementedError

    def drawn(self, count: int) -> NDArray[np.float64]:
        """Noise of one upload in units of its size, shape (count,)."""
        return self.noise(self._scale).added_to(np.zeros(count, np.int64)) / self._scale

    def test_it_is_stamped(self):
        """An upload says what its noise may be trusted with."""
        assert self.noise(4.0).assurance in ASSURANCES

    def test_it_has_the_planned_law(self):
        """Size and shape, seen to about 5 % of the variance; 6 statistics of false alarm 1e-6 each."""
        assert_follows(self.drawn(_DRAWS), self.family, "noise of an upload")

    def test_uploads_share_no_noise(self):
        """Two uploads, and neighbouring coordinates of one, are uncorrelated; false alarm 1e-6 each."""
        first, second = self.drawn(_DRAWS), self.drawn(_DRAWS)
        bound = 4.9 * 1.01 / np.sqrt(_DRAWS)  # normal quantile of FALSE_ALARM / 2
        assert abs(np.corrcoef(first, second)[0, 1]) < bound, "two uploads share noise"
        assert abs(np.corrcoef(first[1:], first[:-1])[0, 1]) < bound, "coordinates share noise"

    def test_it_is_added_and_the_total_survives(self):
        """What comes out is the total plus noise, to the last step, also for totals near 2^52."""
        total = np.array([2**52 + 12_345, -(2**52) - 999, 7, 0], np.int64)
        moved = self.noise(4.0).added_to(total) - total
        assert np.abs(moved).max() < 4 * 64, "a total of whole steps is not kept exactly"

    def test_it_refuses_what_is_not_on_the_grid(self):
        """Floats, NaN among them, lists, and totals beyond 2^53 leave no client."""
        totals: list[Any] = [np.array([0.5]), np.array([np.nan]), [1, 2], np.array([LIMIT + 1])]
        for total in totals:
            assert_refused(lambda total=total: self.noise(4.0).added_to(total), f"a total of {type(total)}")

    def test_it_takes_no_seed_unless_it_is_a_simulation(self):
        """What can be repeated can be subtracted."""
        noise = self.noise(4.0)
        if noise.assurance == "simulation":
            return
        taken = {*inspect.signature(type(noise)).parameters, *inspect.signature(noise.added_to).parameters}
        assert not _SEEDS & {*taken, *vars(noise)}, "deployed noise takes a seed"


class ClipConformance:
    """A sum of clipped records on a grid: what it may change by, exactly, with records that try to escape.

    Attributes:
        norm: of the clip.
        clip: C in steps of the grid.
    """

    norm: ClassVar[Norm] = "l2"
    clip: ClassVar[Fraction] = Fraction(1)

    def total(self, rows: NDArray[np.float64]) -> NDArray[np.int64]:
        """The sum over rows of gradients, each clipped, in steps of the grid. Abstract."""
        raise NotImplementedError

    def test_each_record_counts_at_most_the_clip(self):
        """In exact arithmetic."""
        for row in adversarial(6):
            assert _within(self.total(row[None]), self.norm, self.clip), f"{row} counts more than the clip"

    def test_exchanging_a_record_moves_the_sum_by_at_most_twice_the_clip(self):
        """In exact arithmetic, beside records that round."""
        others = np.random.default_rng(0).normal(size=(5, 6))
        sums = [self.total(np.vstack([others, row])) for row in adversarial(6)]
        for one in sums:
            for other in sums:
                assert _within(one - other, self.norm, 2 * self.clip), "an exchange moves more than 2 C"

    def test_a_record_that_is_not_finite_harms_no_other(self):
        """It counts as zero, because to refuse it would tell that it is there."""
        others = np.random.default_rng(1).normal(size=(5, 6))
        bad = np.full((1, 6), np.nan)
        assert np.array_equal(self.total(np.vstack([others, bad])), self.total(others))

    def test_sums_of_parts_add_up(self):
        """So that the order of summation tells nothing."""
        rows = np.random.default_rng(2).normal(size=(9, 6)) * 10.0 ** np.arange(-3, 6)[:, None]
        parts = sum(self.total(row[None]) for row in rows)
        assert np.array_equal(self.total(rows), parts)


def _within(steps: NDArray[np.int64], norm: Norm, bound: Fraction) -> bool:
    whole = [int(step) for step in steps]
    if norm == "l1":
        return sum(map(abs, whole)) <= bound
    return sum(step * step for step in whole) <= bound * bound


def adversarial(features: int) -> NDArray[np.float64]:
    """Rows that have broken clips: just above it, huge, tiny, not finite, in one coordinate or in all.

    Returns:
        shape (rows, features).

    Example:
        >>> adversarial(3).shape[1]
        3
    """
    one = np.eye(features)[0]
    every = np.ones(features) / np.sqrt(features)
    sizes = [0.0, 1e-310, 1e-30, 0.3, 1.0, np.nextafter(1.0, 2), np.nextafter(np.float32(1), 2), 3.0, 1e6,
             1e19, 1e154, 1.4e154, 1e308, np.inf, np.nan]  # fmt: skip
    with np.errstate(invalid="ignore"):
        rows = [sign * size * axis for size in sizes for axis in (one, every) for sign in (1.0, -1.0)]
    noisy = np.random.default_rng(7).normal(size=(8, features)) * 10.0 ** np.arange(-4, 4)[:, None]
    return np.vstack([*rows, noisy])
