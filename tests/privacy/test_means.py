"""The noised mean of records: what one of them can change in it, and what is left of noise alone."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from noiseworthy.privacy.budget import RELATIONS, PrivacyBudget
from noiseworthy.privacy.means import SHARE, MeanRelease, mean_of, most_of
from noiseworthy.privacy.sensitivity import NORMS

FAMILY = {"l1": "laplace", "l2": "gaussian"}
EXTREMES = [
    np.array(one)
    for one in (
        [1.0, 0, 0, 0], [-1.0, 0, 0, 0], [1.0, 1, 1, 1], [-1.0, -1, -1, -1], [0.0, 0, 0, 0],
        [np.nan, 0, 0, 0], [np.inf, 1, 0, 0], [1e300, 1e300, 1e300, 1e300], [-1e-320, 0, 0, 0],
        [3.0, -1, 0, 2],
    )
]  # fmt: skip


def release_of(norm, relation="replace-one", sizes=(5, 5), features=4) -> MeanRelease:
    delta = 0.0 if norm == "l1" else 1e-5
    budget = PrivacyBudget.of(1.0, delta, len(sizes), relation)
    return MeanRelease.of(np.array(sizes), budget, FAMILY[norm], features)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("relation", RELATIONS)
def test_no_record_moves_a_mean_further_than_its_sensitivity_and_some_as_far(norm, relation):
    """The sum over the public n: under add-remove a record more or less leaves the divisor as it is."""
    n, order = 5, 1 if norm == "l1" else 2
    others, furthest = np.random.default_rng(0).normal(size=(n - 1, 4)), 0.0
    for own, other in product(EXTREMES, EXTREMES):
        with_own, beside = np.vstack([others, own]), np.vstack([others, other])
        if relation == "add-remove":
            beside = np.vstack([others, np.zeros(4)])
        moved = np.linalg.norm(mean_of(with_own, norm) - mean_of(beside, norm), order)
        furthest = max(furthest, float(moved))
    claimed = release_of(norm, relation).release.sensitivity.value[0]
    assert furthest <= claimed * (1 + 1e-12)
    assert furthest == pytest.approx(claimed)


@given(
    arrays(np.float64, (3, 6), elements=st.floats(allow_nan=True, allow_infinity=True)),
    st.sampled_from(NORMS),
)
def test_whatever_a_record_holds_it_counts_at_most_as_the_clip_says(rows, norm):
    order = 1 if norm == "l1" else 2
    for row in rows:
        assert np.linalg.norm(mean_of(row[None], norm), order) <= most_of(norm, 6) * (1 + 1e-12)


@pytest.mark.parametrize("norm", NORMS)
def test_it_costs_its_share_of_the_budget(norm):
    made = release_of(norm, sizes=(40, 900))
    currency, budget = (
        made.release.mechanism.law.paid_in,
        PrivacyBudget.of(1.0, 0.0 if norm == "l1" else 1e-5, 2),
    )
    assert currency.amount(made.release.shift) == pytest.approx(SHARE * currency.whole(budget))


@pytest.mark.parametrize("norm", NORMS)
def test_the_stated_deviation_is_that_of_the_weighted_mean(norm):
    """40,000 draws: their deviation is known to 0.6 % (Laplace) and better; 4 of these are allowed."""
    made, drawn = release_of(norm, sizes=(40, 900)), np.random.default_rng(1)
    law = made.release.mechanism.law.analysis.distribution()
    noise = law.rvs((40_000, 2), random_state=drawn) * made.release.mechanism.size
    assert np.std(noise @ made.weights) == pytest.approx(made.deviation, rel=0.025)


def test_weights_are_those_of_least_noise_where_budgets_are_equal():
    assert release_of("l2", sizes=(100, 300)).weights == pytest.approx([0.1, 0.9])


def test_of_noise_alone_nothing_is_left_and_of_a_mean_far_above_it_nearly_all():
    made = release_of("l2", sizes=(100,) * 3, features=50)
    noise = np.random.default_rng(2).normal(0, made.deviation, (200, 50))
    left = [np.linalg.norm(made.shrunk(one)) / np.linalg.norm(one) for one in noise]
    assert np.mean(left) < 0.12  # |noise|^2 is d s^2 give or take a fifth of it
    far = 100 * made.deviation * np.ones(50)
    assert made.shrunk(far) == pytest.approx(far, rel=1e-3)


def test_shrinking_brings_a_noised_mean_nearer_to_the_true_one():
    made = release_of("l2", sizes=(100,) * 3, features=50)
    drawn, true = np.random.default_rng(3), made.deviation * np.ones(50)
    noised = true + drawn.normal(0, made.deviation, (300, 50))
    errors = [
        np.mean([np.sum((f(one) - true) ** 2) for one in noised]) for f in (made.shrunk, lambda one: one)
    ]
    assert errors[0] < 0.75 * errors[1]
