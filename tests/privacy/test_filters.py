"""The privacy filter: budgets are split exactly, never exceeded, and refused by name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noiseworthy.errors import BudgetExceeded, InvalidInput, UnsoundClaim
from noiseworthy.privacy.accountants import composed_epsilon
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.calibration import calibrate
from noiseworthy.privacy.filters import PrivacyFilter
from noiseworthy.privacy.gaussian import gaussian_mu
from noiseworthy.privacy.mechanisms import Gaussian, Laplace
from noiseworthy.privacy.releases import Release
from noiseworthy.privacy.sensitivity import of_mean_gradient, of_mean_loss

SIZES = np.array([100, 250])


def release(family: str, size: float, relation="replace-one") -> Release:
    if family == "gaussian":
        return Release(Gaussian(np.full(2, size)), of_mean_gradient(1.0, SIZES, "l2", relation))
    return Release(Laplace(np.full(2, size)), of_mean_gradient(1.0, SIZES, "l1", relation))


def budget(family: str) -> PrivacyBudget:
    return PrivacyBudget.of([0.5, 2.0], 1e-5 if family == "gaussian" else 0.0, 2)


def test_gaussian_releases_add_up_in_mu_squared_and_laplace_ones_in_epsilon():
    """By hand: sensitivity 2/n over the size, squared for Gaussian noise, times the uses."""
    gaussian = PrivacyFilter.open(budget("gaussian"), "gaussian").charge(release("gaussian", 1.0), [3, 2])
    np.testing.assert_allclose(gaussian.used, [3 * 0.02**2, 2 * 0.008**2])
    laplace = PrivacyFilter.open(budget("laplace"), "laplace").charge(release("laplace", 1.0), [3, 2])
    np.testing.assert_allclose(laplace.used, [0.06, 0.016])
    np.testing.assert_allclose(laplace.remaining.epsilon, [0.44, 1.984], rtol=1e-9)


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_what_is_left_and_what_was_spent_compose_to_the_budget(family):
    """Two kinds of releases, then all that is left: the accountant finds the whole budget, and no more."""
    whole, first = budget(family), release(family, 2.0)
    norm = "l2" if family == "gaussian" else "l1"
    loss_noise = replace(first.mechanism, **{f"noise_{'std' if norm == 'l2' else 'scale'}": np.ones(2)})
    losses = Release(loss_noise, of_mean_loss(2.3, SIZES, norm))
    spent = PrivacyFilter.open(whole, family).charge(first, [2, 5]).charge(losses, [4, 10])
    rest = calibrate(family, first.sensitivity, spent.remaining, [7, 3])
    total = composed_epsilon([(first, [2, 5]), (losses, [4, 10]), (rest, [7, 3])], whole.delta)
    assert np.all(total <= whole.epsilon)
    np.testing.assert_allclose(total, whole.epsilon, rtol=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    family=st.sampled_from(["gaussian", "laplace"]),
    sizes=st.lists(st.floats(0.02, 50), min_size=1, max_size=6),
    uses=st.lists(st.integers(0, 40), min_size=6, max_size=6),
)
def test_no_sequence_of_charges_ever_exceeds_a_budget(family, sizes, uses):
    """Charges are accepted or refused whole; what was accepted costs at most the budget by the accountant."""
    whole, taken = budget(family), []
    spent = PrivacyFilter.open(whole, family)
    for size, k in zip(sizes, uses, strict=False):
        one = release(family, size)
        try:
            spent = spent.charge(one, k)
        except BudgetExceeded:
            continue
        taken.append((one, np.full(2, k)))
    if taken:
        assert np.all(composed_epsilon(taken, whole.delta) <= whole.epsilon * (1 + 1e-9))


def test_a_charge_beyond_the_budget_names_the_client_and_charges_nothing():
    spent = PrivacyFilter.open(budget("laplace"), "laplace").charge(release("laplace", 1.0), 20)
    with pytest.raises(
        BudgetExceeded, match="client 0 has spent 80 % of its budget and another 40 % is asked"
    ):
        spent.charge(release("laplace", 1.0), [10, 0])
    np.testing.assert_allclose(spent.used, [0.4, 0.16])
    with pytest.raises(BudgetExceeded, match="client 0 has spent its whole budget"):
        _ = spent.charge(release("laplace", 1.0), [5, 0]).remaining


def test_a_client_that_spent_nothing_keeps_its_budget_but_for_a_margin_of_rounding():
    spent = PrivacyFilter.open(budget("gaussian"), "gaussian").charge(release("gaussian", 1.0), [5, 0])
    assert 2.0 * (1 - 2e-9) < spent.remaining.epsilon[1] < 2.0
    left = gaussian_mu(spent.remaining.epsilon, 1e-5)[0] ** 2
    np.testing.assert_allclose(left, gaussian_mu(0.5, 1e-5) ** 2 - 5 * 0.02**2, rtol=1e-7)


def test_other_noise_neighbours_or_batches_are_refused():
    spent = PrivacyFilter.open(budget("gaussian"), "gaussian")
    with pytest.raises(UnsoundClaim, match="cannot charge laplace noise"):
        spent.charge(release("laplace", 1.0), 1)
    with pytest.raises(UnsoundClaim, match="under add-remove"):
        spent.charge(release("gaussian", 1.0, "add-remove"), 1)
    sampled = of_mean_gradient(1.0, SIZES, "l2", "add-remove", 0.5)
    batches = Release(Gaussian(np.ones(2)), sampled, 0.5)
    with pytest.raises(UnsoundClaim, match="full batches only"):
        PrivacyFilter.open(replace(budget("gaussian"), relation="add-remove"), "gaussian").charge(batches, 1)
    with pytest.raises(InvalidInput, match="no budget to split"):
        PrivacyFilter.open(budget("laplace"), "none")
    with pytest.raises(InvalidInput, match="uses"):
        spent.charge(release("gaussian", 1.0), -1)


def test_a_delta_too_large_for_what_is_left_is_refused():
    loose = PrivacyBudget.of(0.01, 0.3, 2)
    spent = PrivacyFilter.open(loose, "gaussian")
    mu = float(np.sqrt(spent.whole[0]))
    one = Release(Gaussian(np.array([0.02, 0.008]) / (0.9 * mu)), of_mean_gradient(1.0, SIZES, "l2"))
    with pytest.raises(InvalidInput, match=r"delta 0.3 of client 0 .* use a smaller delta"):
        _ = spent.charge(one, 1).remaining
