"""What an accountant must keep, as a suite to inherit."""

import math
from typing import Any, ClassVar

import numpy as np
from scipy import stats

from noiseworthy.privacy.gaussian import gaussian_delta
from noiseworthy.privacy.mechanisms import Family, law_of
from noiseworthy.privacy.mechanisms.currencies import MU_SQUARED
from noiseworthy.testing.mechanisms import assert_refused

_CASES = [(shift, k, delta) for shift in (0.01, 0.2, 1.5) for k in (1, 7, 60) for delta in (1e-9, 1e-5, 1e-2)]
_SLACK = 1e-9


class AccountantConformance:
    """Epsilon of equal releases under composition, and noise that pays for them.

    Attributes:
        family: noise that is accounted for, `gaussian` or `laplace`.
        pure: whether delta 0 has an answer.
    """

    family: ClassVar[Family] = "gaussian"
    pure: ClassVar[bool] = False

    def epsilon(self, shift: float, releases: int, delta: float) -> float:
        """Epsilon at delta of releases with sensitivity / noise size = shift. Abstract."""
        raise NotImplementedError

    def noise(self, epsilon: float, releases: int, delta: float) -> float:
        """Noise size for sensitivity 1 that pays for so many releases. Abstract."""
        raise NotImplementedError

    def test_no_release_costs_nothing(self):
        """And the first one costs something."""
        assert self.epsilon(0.5, 0, 1e-5) == 0
        assert self.epsilon(0.5, 1, 1e-5) > 0

    def test_it_never_says_less_than_an_attacker_proves(self):
        """Against lower bounds that need no accountant: the likelihood ratio, or counts of signs."""
        for case in _CASES:
            said, proved = self.epsilon(*case), least_epsilon(self.family, *case)
            assert said >= proved * (1 - _SLACK), f"epsilon {said:g} for {case}, an attack proves {proved:g}"

    def test_it_is_not_above_what_the_textbooks_prove(self):
        """zCDP for Gaussian noise, basic composition for Laplace noise."""
        for shift, k, delta in _CASES:
            rho = k * shift**2 / 2
            known = k * shift if law_of(self.family).pure else rho + 2 * math.sqrt(-rho * math.log(delta))
            assert self.epsilon(shift, k, delta) <= known * (1 + 1e-3)

    def test_more_costs_more(self):
        """More releases, less noise and a smaller delta; the count itself is charged, not a mean."""
        for shift, k, delta in _CASES:
            here = self.epsilon(shift, k, delta)
            for more in ((shift, k + 1, delta), (shift * 1.1, k, delta), (shift, k, delta / 10)):
                assert self.epsilon(*more) >= here * (1 - 1e-4), f"{more} costs less than {(shift, k, delta)}"
            twice = self.epsilon(shift, 2 * k, delta)
            assert twice >= 1.05 * here, f"{2 * k} releases cost {twice:g}, {k} cost {here:g}"

    def test_noise_is_rounded_toward_privacy(self):
        """What is calibrated is within the budget when it is counted again."""
        for epsilon in (0.1, 1.0, 8.0):
            for k in (1, 13, 200):
                size = self.noise(epsilon, k, 1e-5)
                assert self.epsilon(1 / size, k, 1e-5) <= epsilon * (1 + _SLACK), "calibrated above budget"

    def test_noise_is_not_wasted(self):
        """A hundredth less of it breaks the budget."""
        for epsilon in (0.1, 1.0, 8.0):
            size = 0.99 * self.noise(epsilon, 13, 1e-5)
            assert self.epsilon(1 / size, 13, 1e-5) > epsilon

    def test_what_is_no_delta_or_no_count_is_refused(self):
        """By an error for users, and not by a number."""
        bad: list[Any] = [(0.1, 3, delta) for delta in (-1e-9, 1.0, math.nan, math.inf)]
        bad += [(0.1, k, 1e-5) for k in (-1, 0.5, math.nan, math.inf)]
        for case in bad if self.pure else [*bad, (0.1, 3, 0.0)]:
            assert_refused(lambda case=case: self.epsilon(*case), case)


def least_epsilon(family: Family, shift: float, releases: int, delta: float) -> float:
    """An epsilon that an attack on the releases proves, at most the true one.

    Gaussian: the likelihood ratio, exactly. Laplace: how many draws are negative, binomial with 1/2 in one
    world and the law's P(w < -shift) in the other; epsilon = max over counts of log((P - delta) / Q).

    Example:
        >>> round(least_epsilon("laplace", 0.5, 1, 1e-9), 6)
        0.5
    """
    law = law_of(family)
    if law.currency is MU_SQUARED:
        return _gaussian_epsilon(shift * math.sqrt(releases), delta)
    counts = np.arange(releases + 1)
    p = stats.binom.sf(counts - 1, releases, 0.5)
    q = stats.binom.sf(counts - 1, releases, float(law.analysis.distribution().cdf(-shift)))
    above = p > delta
    return max(float(np.log((p[above] - delta) / q[above]).max()), 0.0) if above.any() else 0.0


def _gaussian_epsilon(mu: float, delta: float) -> float:
    """By bisection, from below."""
    low, high = 0.0, mu**2 / 2 + mu * math.sqrt(-2 * math.log(delta)) + 1
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if float(gaussian_delta(middle, mu)) > delta else (low, middle)
    return low
