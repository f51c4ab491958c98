"""Our accountants keep what the suite asks; what undercounts, overcounts or babbles fails by name."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest

from noiseworthy.privacy.accountants import spent_epsilon
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.calibration import unit_noise
from noiseworthy.privacy.mechanisms import Gaussian, Laplace
from noiseworthy.privacy.releases import Release
from noiseworthy.privacy.sensitivity import Sensitivity
from noiseworthy.testing import AccountantConformance


class TestGaussianAccounting(AccountantConformance):
    def epsilon(self, shift, releases, delta):
        release = Release(Gaussian(np.array([1 / shift])), Sensitivity(np.ones(1), "l2", "replace-one"))
        return float(spent_epsilon(release, releases, delta)[0])

    def noise(self, epsilon, releases, delta):
        return float(unit_noise("gaussian", PrivacyBudget.of(epsilon, delta, 1), releases)[0])


class TestLaplaceAccounting(AccountantConformance):
    family, pure = "laplace", True

    def epsilon(self, shift, releases, delta):
        release = Release(Laplace(np.array([1 / shift])), Sensitivity(np.ones(1), "l1", "replace-one"))
        return float(spent_epsilon(release, releases, delta)[0])

    def noise(self, epsilon, releases, delta):
        return float(unit_noise("laplace", PrivacyBudget.of(epsilon, delta, 1), releases)[0])


# Mutants -------------------------------------------------------------------------------------------------


class ChargesTheFirst(TestGaussianAccounting):
    """Epsilon of a start, whatever was released."""

    def epsilon(self, shift, releases, delta):
        return super().epsilon(shift, max(releases, 1), delta)


class DropsTheFactorTwo(TestGaussianAccounting):
    def epsilon(self, shift, releases, delta):
        return super().epsilon(shift / 2, releases, delta)


class CountsByTheMean(TestLaplaceAccounting):
    """A schedule of 60 planned for 40: charged for what happens on average."""

    def epsilon(self, shift, releases, delta):
        return super().epsilon(shift, 40 if releases > 40 else releases, delta)


class TakesTheWrongRoot(TestGaussianAccounting):
    """zCDP with a minus before the square root."""

    def epsilon(self, shift, releases, delta):
        rho = releases * shift**2 / 2
        return max(2 * math.sqrt(-rho * math.log(delta)) - rho, 0.0)


class SaysTwiceAsMuch(TestGaussianAccounting):
    def epsilon(self, shift, releases, delta):
        return 2.5 * super().epsilon(shift, releases, delta)


class CalibratesToTheNearest(TestGaussianAccounting):
    def noise(self, epsilon, releases, delta):
        return super().noise(epsilon, releases, delta) * (1 - 1e-6)


class WastesNoise(TestLaplaceAccounting):
    def noise(self, epsilon, releases, delta):
        return super().noise(epsilon, releases, delta) * 1.05


class AnswersNonsense(TestGaussianAccounting):
    def epsilon(self, shift, releases, delta):
        try:
            return super().epsilon(shift, releases, delta)
        except ValueError:
            return 0.0


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        (ChargesTheFirst, "test_no_release_costs_nothing"),
        (DropsTheFactorTwo, "test_it_never_says_less_than_an_attacker_proves"),
        (TakesTheWrongRoot, "test_it_never_says_less_than_an_attacker_proves"),
        (CountsByTheMean, "test_more_costs_more"),
        (SaysTwiceAsMuch, "test_it_is_not_above_what_the_textbooks_prove"),
        (CalibratesToTheNearest, "test_noise_is_rounded_toward_privacy"),
        (WastesNoise, "test_noise_is_not_wasted"),
        (AnswersNonsense, "test_what_is_no_delta_or_no_count_is_refused"),
    ],
)
def test_a_broken_accountant_fails_its_check(kind, check):
    with pytest.raises(AssertionError):
        getattr(kind(), check)()


def test_every_check_has_a_mutant():
    (mark,) = test_a_broken_accountant_fails_its_check.pytestmark  # type: ignore[attr-defined]
    checks = {name for name, _ in inspect.getmembers(AccountantConformance) if name.startswith("test_")}
    assert {check for _, check in mark.args[1]} == checks
