"""What a schedule costs, against composition done release by release with a library."""

from __future__ import annotations

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from hypothesis import given
from hypothesis import strategies as st

from noiseworthy.errors import InvalidInput, UnsoundClaim
from noiseworthy.privacy.accountants import composed_epsilon, composes, spent_epsilon
from noiseworthy.privacy.laplace import laplace_epsilon
from noiseworthy.privacy.loss_distribution import poisson_gaussian_epsilon
from noiseworthy.privacy.mechanisms import Gaussian, Laplace, NoNoise
from noiseworthy.privacy.releases import Release
from noiseworthy.privacy.sensitivity import of_mean_gradient


def gaussian_release(std, sizes=(100, 100), clip=5.0, relation="replace-one", rate=1.0) -> Release:
    sensitivity = of_mean_gradient(clip, sizes, "l2", relation, rate)
    return Release(Gaussian(np.asarray(std, float)), sensitivity, rate)


def laplace_release(scale, sizes=(100, 100), clip=5.0) -> Release:
    return Release(Laplace(np.asarray(scale, float)), of_mean_gradient(clip, sizes, "l1"))


def test_gaussian_cost_equals_composition_release_by_release():
    release = gaussian_release([0.4, 0.8])  # sensitivity 0.1, so std/sensitivity is 4 and 8
    spent = spent_epsilon(release, [3, 7], 1e-5)
    for client, (multiplier, count) in enumerate([(4.0, 3), (8.0, 7)]):
        accountant = PLDAccountant(value_discretization_interval=1e-4)
        for _ in range(count):
            accountant.compose(dp_accounting.GaussianDpEvent(multiplier))
        assert spent[client] == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-4)


def test_replace_one_agrees_with_the_librarys_own_replace_one():
    """The library doubles the sensitivity itself under REPLACE_ONE; here 2C/n is ours."""
    accountant = PLDAccountant(
        dp_accounting.NeighboringRelation.REPLACE_ONE, value_discretization_interval=1e-4
    )
    accountant.compose(dp_accounting.GaussianDpEvent(2.0), 5)  # std over C/n
    release = gaussian_release([0.1, 0.1])  # C/n = 0.05
    assert spent_epsilon(release, 5, 1e-5)[0] == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-4)


def test_pure_laplace_cost_is_basic_composition_per_client():
    np.testing.assert_allclose(
        spent_epsilon(laplace_release([0.1, 0.4]), [3, 8], 0.0), [3.0, 2.0], rtol=1e-14
    )


def test_laplace_with_mixed_deltas_uses_each_clients_own_law():
    release = laplace_release([1.0, 1.0, 1.0, 2.0], sizes=(100,) * 4)
    spent = spent_epsilon(release, [50, 50, 0, 50], [0.0, 1e-5, 1e-5, 1e-5])
    expected = [5.0, laplace_epsilon(0.1, 50, 1e-5), 0.0, laplace_epsilon(0.05, 50, 1e-5)]
    np.testing.assert_allclose(spent, expected, rtol=1e-12)


def test_poisson_cost_takes_the_noise_on_the_sum():
    """std on the mean with divisor q n = 20 is std 20 on the sum, so clip / std is 5 / (20 * 0.5)."""
    release = gaussian_release([0.5, 0.5], clip=5.0, relation="add-remove", rate=0.2)
    expected = poisson_gaussian_epsilon(0.5, 0.2, 10, 1e-5)
    np.testing.assert_allclose(spent_epsilon(release, 10, 1e-5), expected, rtol=1e-12)


@given(st.floats(0.2, 20), st.integers(0, 300))
def test_cost_starts_at_zero_and_only_grows(std, releases):
    release = gaussian_release([std, std])
    now, later = spent_epsilon(release, [releases, releases + 1], 1e-6)
    assert 0 <= now < later or later == 0
    if releases == 0:
        assert now == 0


def test_a_client_pays_for_its_true_uploads_not_for_their_mean():
    """docs/theory/zhou.md#fractional-replies: 1.1 planned, 2 made, spend 2/1.1 = 1.82 of the budget."""
    planned = 0.1 * 1.1
    release = laplace_release([planned, planned])
    np.testing.assert_allclose(spent_epsilon(release, [1, 2], 0.0), [1 / 1.1, 2 / 1.1], rtol=1e-14)


def test_without_noise_the_first_upload_costs_everything():
    release = Release(NoNoise(2), of_mean_gradient(1.0, [10, 10], "l2"))
    np.testing.assert_array_equal(spent_epsilon(release, [0, 1], 1e-5), [0.0, np.inf])


@pytest.mark.parametrize(
    ("releases", "delta", "says"),
    [
        (-1, 1e-5, "releases must be whole numbers of at least 0, got -1"),
        (1.5, 1e-5, "releases must be whole numbers of at least 0, got 1.5"),
        ([1, 2, 3], 1e-5, r"releases must be one number or a list of 2 \(one per client\), got 3 values"),
        (1, [1e-5] * 3, r"delta must be one number or a list of 2 \(one per client\), got 3 values"),
        (1, 0.0, r"delta must lie in \(0, 1\), got 0 for client 0"),
        (1, 1.0, r"delta must lie in \(0, 1\), got 1 for client 0"),
    ],
)
def test_bad_schedules_are_refused(releases, delta, says):
    with pytest.raises(InvalidInput, match=says):
        spent_epsilon(gaussian_release([1.0, 1.0]), releases, delta)


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_noise_that_is_no_noise_is_refused(value):
    with pytest.raises(InvalidInput, match="noise_std must be"):
        Gaussian(np.array([1.0, value]))
    with pytest.raises(InvalidInput, match="noise_scale must be"):
        Laplace(np.array([1.0, value]))


def test_a_release_refuses_noise_in_another_norm():
    l1, l2 = (of_mean_gradient(1.0, [10], norm) for norm in ("l1", "l2"))
    with pytest.raises(
        UnsoundClaim, match="gaussian noise needs an l2 sensitivity, got l1; clip records in l2"
    ):
        Release(Gaussian(np.ones(1)), l1)
    with pytest.raises(
        UnsoundClaim, match="laplace noise needs an l1 sensitivity, got l2; clip records in l1"
    ):
        Release(Laplace(np.ones(1)), l2)


# Several trainings on the same records -----------------------------------------------------------------


def test_several_gaussian_trainings_cost_what_a_library_composes_release_by_release():
    """Multipliers 4 and 8 for the first client (sensitivity 0.1), 8 and 2 for the second."""
    first, second = gaussian_release([0.4, 0.8]), gaussian_release([0.8, 0.2])
    spent = composed_epsilon([(first, [3, 7]), (second, [5, 1])], np.full(2, 1e-5))
    for client, events in enumerate([(4.0, 3, 8.0, 5), (8.0, 7, 2.0, 1)]):
        accountant = PLDAccountant(value_discretization_interval=1e-4)
        for multiplier, count in (events[:2], events[2:]):
            accountant.compose(dp_accounting.GaussianDpEvent(multiplier), count)
        assert spent[client] == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-4)


def test_several_pure_laplace_trainings_cost_their_sum():
    parts = [(laplace_release([0.1, 0.2]), [2, 2]), (laplace_release([0.5, 0.1]), [1, 3])]
    alone = sum(spent_epsilon(release, releases, 0.0) for release, releases in parts)
    np.testing.assert_allclose(composed_epsilon(parts, np.zeros(2)), alone)


def test_one_training_costs_what_it_costs_alone():
    release = gaussian_release([0.4, 0.8])
    composed = composed_epsilon([(release, [3, 7])], np.full(2, 1e-5))
    np.testing.assert_allclose(composed, spent_epsilon(release, [3, 7], 1e-5), rtol=1e-12)


@pytest.mark.parametrize(
    ("parts", "delta"),
    [
        ([], 1e-5),
        ([(Release(NoNoise(2), of_mean_gradient(5.0, [100, 100], "l2")), 1)], 1e-5),
        ([(laplace_release([0.1, 0.1]), 1)], 1e-5),
        ([(laplace_release([0.1, 0.1]), 1), (gaussian_release([0.1, 0.1]), 1)], 1e-5),
        ([(gaussian_release([0.1, 0.1], relation="add-remove", rate=0.1), 1)], 1e-5),
        ([(gaussian_release([0.1, 0.1]), 1), (gaussian_release([0.1, 0.1], relation="add-remove"), 1)], 1e-5),
    ],
    ids=["none", "no noise", "laplace with delta", "mixed noise", "poisson", "mixed relations"],
)
def test_trainings_without_a_closed_form_are_refused(parts, delta):
    assert not composes(parts, delta)
    with pytest.raises(UnsoundClaim, match="account for each of them alone"):
        composed_epsilon(parts, np.full(2, delta))


def test_the_variance_of_each_law():
    np.testing.assert_array_equal(Gaussian(np.array([3.0])).variance, [9.0])
    np.testing.assert_array_equal(Laplace(np.array([3.0])).variance, [18.0])
    np.testing.assert_array_equal(NoNoise(2).variance, [0.0, 0.0])
