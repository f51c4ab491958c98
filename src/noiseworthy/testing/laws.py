"""Whether a sample follows a stated law: statistics with power, each with a stated false-alarm rate."""

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.integrate import quad

from noiseworthy.errors import UserError
from noiseworthy.privacy.mechanisms import Family, Law, law_of

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
        "fourth moment": ((square**2).mean() - fourth) / np.sqrt((eighth - fourth**2) / n),
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
