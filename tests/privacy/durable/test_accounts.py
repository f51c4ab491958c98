"""Shares of a budget: exact, rounded toward privacy, and enough for every plan that calibration makes."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noiseworthy.errors import InvalidInput, UnsoundClaim
from noiseworthy.privacy.accountants import spent_epsilon
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.calibration import calibrate
from noiseworthy.privacy.durable import accounts_of
from noiseworthy.privacy.durable.accounts import LAST_BITS, WHOLE, Account, costs_of
from noiseworthy.privacy.durable.schedules import schedule_accounts
from noiseworthy.privacy.durable.statement import epsilon_of
from noiseworthy.privacy.mechanisms import Gaussian, Laplace, NoNoise
from noiseworthy.privacy.releases import Release
from noiseworthy.privacy.sensitivity import of_mean_gradient

ONE = Account("wards", "", "north", "epsilon", 3.0, 3.0, 0.0, "replace-one", "record")


@given(st.lists(st.floats(0.0, 1e3), min_size=1, max_size=50), st.floats(1e-6, 1e3))
def test_shares_never_say_less_than_was_spent_and_at_most_one_share_more_for_each(costs, size):
    account = Account("wards", "", "north", "epsilon", size, size, 0.0, "replace-one", "record")
    exact = sum(Fraction(cost) for cost in costs) / Fraction(size) * WHOLE
    shares = sum(account.share(cost) for cost in costs)
    assert exact <= shares < exact + len(costs)


@pytest.mark.parametrize("cost", [math.nan, math.inf, -math.inf, -1e-300, Fraction(-1, 10**9)])
def test_a_cost_that_is_no_cost_is_refused(cost):
    with pytest.raises(InvalidInput, match="cost of a release"):
        ONE.share(cost)


def test_a_cost_beyond_the_whole_is_more_than_anybody_has():
    assert ONE.share(1e300) > WHOLE + LAST_BITS


BUDGETS = st.tuples(
    st.floats(0.01, 50.0), st.floats(1e-12, 1e-2), st.integers(1, 100_000), st.integers(1, 10**6)
)


@settings(max_examples=150)
@given(BUDGETS, st.sampled_from(["gaussian", "laplace"]))
def test_every_calibrated_plan_fits_to_its_last_release_and_not_one_more(chosen, family):
    epsilon, delta, releases, size = chosen
    budget = PrivacyBudget.of(epsilon, delta if family == "gaussian" else 0.0, 1)
    norm = "l2" if family == "gaussian" else "l1"
    release = calibrate(family, of_mean_gradient(1.0, [size], norm), budget, releases)
    (account,) = accounts_of(budget, family, "wards", "", ["north"])
    share = account.share(costs_of(release)[0])
    assert releases * share <= WHOLE + LAST_BITS
    assert (releases + 1) * share > WHOLE + LAST_BITS


@settings(max_examples=100)
@given(BUDGETS, st.sampled_from(["gaussian", "laplace"]), st.floats(0.0, 1.0))
def test_the_epsilon_of_shares_is_that_of_the_accountant(chosen, family, part):
    epsilon, delta, releases, size = chosen
    budget = PrivacyBudget.of(epsilon, delta if family == "gaussian" else 0.0, 1)
    norm = "l2" if family == "gaussian" else "l1"
    release = calibrate(family, of_mean_gradient(1.0, [size], norm), budget, releases)
    (account,) = accounts_of(budget, family, "wards", "", ["north"])
    used = int(part * releases)
    told = epsilon_of(account, used * account.share(costs_of(release)[0]))
    (exact,) = spent_epsilon(release, used, budget.delta)
    assert told == pytest.approx(exact, rel=1e-9, abs=1e-11)
    assert told <= epsilon


def test_costs_are_exact_ratios_of_the_floats_that_are_used():
    noise = np.array([0.1, 0.3])
    gaussian = Release(Gaussian(noise), of_mean_gradient(1.0, [7, 9], "l2"))
    laplace = Release(Laplace(noise), of_mean_gradient(1.0, [7, 9], "l1"))
    ratio = [Fraction(2 / 7) / Fraction(0.1), Fraction(2 / 9) / Fraction(0.3)]
    assert costs_of(laplace) == ratio
    assert costs_of(gaussian) == [one * one for one in ratio]


def test_what_has_no_price_of_its_own_is_refused():
    poisson = Release(
        Gaussian(np.ones(1)), of_mean_gradient(1.0, [9], "l2", "add-remove", sampling_rate=0.5), 0.5
    )
    for release in (poisson, Release(NoNoise(1), of_mean_gradient(1.0, [9], "l2"))):
        with pytest.raises(UnsoundClaim, match="price of their own"):
            costs_of(release)
    with pytest.raises(InvalidInput, match="without noise nothing can be charged"):
        accounts_of(PrivacyBudget.of(1.0, 0.0, 1), "none", "wards", "", ["north"])


@pytest.mark.parametrize("planned", [1, 3, 7, 100_000])
def test_a_schedule_priced_as_a_whole_is_paid_by_its_releases_and_not_one_more(planned):
    budget = PrivacyBudget.of(2.0, 1e-6, 1)
    (account,) = schedule_accounts(budget, "a run", "wards", "", ["north"])
    share = account.share(Fraction(1, planned))
    assert planned * share <= WHOLE + LAST_BITS < (planned + 1) * share
    assert epsilon_of(account, share) == 2.0
    assert epsilon_of(account, 0) == 0.0


def test_gaussian_shares_are_of_mu_squared():
    """By hand: half the noise costs four times the share."""
    budget = PrivacyBudget.of(1.0, 1e-5, 1)
    (account,) = accounts_of(budget, "gaussian", "wards", "", ["north"])
    quiet, loud = (
        account.share(costs_of(Release(Gaussian(np.array([size])), of_mean_gradient(1.0, [100], "l2")))[0])
        for size in (0.5, 1.0)
    )
    assert quiet == pytest.approx(4 * loud, rel=1e-12)
    assert loud == pytest.approx(WHOLE * (0.02 / budget.mu[0]) ** 2, rel=1e-12)


def test_an_account_in_unknown_currency_is_refused():
    with pytest.raises(InvalidInput, match="currency"):
        Account("wards", "", "north", "rho", 1.0, 1.0, 0.0, "replace-one", "record")
    with pytest.raises(InvalidInput, match="size of a budget"):
        Account("wards", "", "north", "epsilon", math.inf, 1.0, 0.0, "replace-one", "record")
