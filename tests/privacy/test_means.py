"""The noised mean of records and shares of classes: what one record can change in them, what noise leaves."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from noiseworthy.privacy.budget import RELATIONS, PrivacyBudget
from noiseworthy.privacy.means import OF_MEAN, SHARE, MeanRelease, most_of, weight_of_class
from noiseworthy.privacy.sensitivity import NORMS, mean_rows

FAMILY = {"l1": "laplace", "l2": "gaussian"}
CLASSES = 3
EXTREMES = [
    np.array(one)
    for one in (
        [1.0, 0, 0, 0], [-1.0, 0, 0, 0], [1.0, 1, 1, 1], [-1.0, -1, -1, -1], [0.0, 0, 0, 0],
        [np.nan, 0, 0, 0], [np.inf, 1, 0, 0], [1e300, 1e300, 1e300, 1e300], [-1e-320, 0, 0, 0],
        [3.0, -1, 0, 2],
    )
]  # fmt: skip


def release_of(norm, relation="replace-one", sizes=(5, 5), shape=(4,), classes=CLASSES) -> MeanRelease:
    delta = 0.0 if norm == "l1" else 1e-5
    budget = PrivacyBudget.of(1.0, delta, len(sizes), relation)
    return MeanRelease.of(np.array(sizes), budget, FAMILY[norm], shape, classes)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("relation", RELATIONS)
def test_no_record_moves_a_mean_further_than_its_sensitivity_and_some_as_far(norm, relation):
    """The sum over the public n: under add-remove a record more or less leaves the divisor as it is."""
    n, order, made = 5, 1 if norm == "l1" else 2, release_of(norm, relation)
    others, furthest = np.random.default_rng(0).normal(size=(n - 1, 4)), 0.0

    def told(record, label):
        return made.told(np.vstack([others, record]), np.array([0, 1, 1, 2, label]))

    nobody = told(np.zeros(4), 0) - made.of_class / n * np.eye(4 + CLASSES)[4]
    for own, other in product(product(EXTREMES, range(CLASSES)), repeat=2):
        beside = told(*other) if relation == "replace-one" else nobody
        furthest = max(furthest, float(np.linalg.norm(told(*own) - beside, order)))
    claimed = made.release.sensitivity.value[0]
    assert furthest <= claimed * (1 + 1e-12)
    assert furthest == pytest.approx(claimed)


@given(
    arrays(np.float64, (3, 6), elements=st.floats(allow_nan=True, allow_infinity=True)),
    st.sampled_from(NORMS),
)
def test_whatever_a_record_holds_it_counts_at_most_as_the_clip_says(rows, norm):
    order, most = 1 if norm == "l1" else 2, most_of(norm, 6)
    made = mean_rows(rows, [0, 1, 0], most, 0.5, 2, norm)
    assert np.all(np.linalg.norm(made[:, :6], order, axis=1) <= most * (1 + 1e-12))
    np.testing.assert_array_equal(made[:, 6:], [[0.5, 0], [0, 0.5], [0.5, 0]])


@pytest.mark.parametrize("norm", NORMS)
def test_it_costs_its_share_of_the_budget(norm):
    made = release_of(norm, sizes=(40, 900))
    currency, budget = (
        made.release.mechanism.law.paid_in.analysis,
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


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("norm", NORMS)
def test_classes_weigh_what_costs_the_least_loss_in_mean_and_shares_together(norm, relation):
    """By the noise that a release has with each of a thousand weights in the place of its own."""
    for shape, classes in (((4,), 2), ((12,), 5), ((28, 28), 10)):
        d, of_mean = math.prod(shape), OF_MEAN if len(shape) == 1 else classes / 2
        c, turned = most_of(norm, d), 0.5 if relation == "replace-one" else 1.0
        tried = np.geomspace(0.01, 100, 4001)
        most = c + tried if norm == "l1" else np.sqrt(1 + turned * tried**2)
        error = most**2 * (of_mean * d + classes * (classes - 1) / (2 * tried**2))
        assert weight_of_class(norm, shape, classes, relation) == pytest.approx(
            tried[error.argmin()], rel=3e-3
        )
        made = release_of(norm, relation, shape=shape, classes=classes)
        assert made.of_class == weight_of_class(norm, shape, classes, relation)


def test_weights_are_those_of_least_noise_where_budgets_are_equal():
    assert release_of("l2", sizes=(100, 300)).weights == pytest.approx([0.1, 0.9])


def test_of_some_clients_the_weighted_mean_is_read_with_the_noise_that_it_has():
    """By hand: weights of those who are there with the sum 1, and the deviation that these leave."""
    made = release_of("l2", sizes=(40, 900, 300), shape=(4,))
    answers = dict(enumerate(np.random.default_rng(6).normal(0, made.deviation, (3, 4 + CLASSES)) + 0.3))
    weights = np.array([40, 300]) / made.release.mechanism.size[[0, 2]]
    weights /= weights.sum()
    deviation = np.sqrt(np.sum((weights * made.release.mechanism.size[[0, 2]]) ** 2))
    assert deviation > 1.2 * made.deviation
    wanted = made.read(weights @ np.stack([answers[0], answers[2]]), deviation / made.deviation)
    found = made.combined({place: answers[place] for place in (0, 2)})
    assert found.mean == pytest.approx(wanted.mean)
    assert found.shares == pytest.approx(wanted.shares)
    assert made.combined(answers).mean == pytest.approx(
        made.read(made.weights @ np.stack([*answers.values()])).mean
    )


def test_of_noise_alone_nothing_is_left_and_of_a_mean_far_above_it_nearly_all():
    made = release_of("l2", sizes=(100,) * 3, shape=(50,))
    noise = np.random.default_rng(2).normal(0, made.deviation, (200, 50 + CLASSES))
    left = [np.linalg.norm(made.read(one).mean) / np.linalg.norm(one[:50]) for one in noise]
    assert np.mean(left) < 0.12  # |noise|^2 is d s^2 give or take a fifth of it
    far = 100 * made.deviation * np.ones(50 + CLASSES)
    assert made.read(far).mean == pytest.approx(far[:50], rel=1e-3)


@pytest.mark.parametrize(("norm", "classes"), [("l2", 2), ("l2", 6), ("l1", 3)])
def test_what_noise_in_shares_costs_is_what_their_weight_takes_it_for(norm, classes):
    """K (K - 1)/2 (s/w)^2 nats: mean loss of 20,000 noised even shares beyond that of exact ones, in 5 %."""
    made, drawn = release_of(norm, sizes=(30_000,) * 2, classes=classes), np.random.default_rng(5)
    noise = drawn.normal(0, made.deviation / made.of_class, (20_000, classes))
    shares = 1 / classes + noise - noise.mean(axis=1, keepdims=True)
    beyond = -np.log(shares).mean(axis=1) - np.log(classes)
    of_share = made.deviation / made.of_class
    assert of_share < 0.1 / classes
    assert beyond.mean() == pytest.approx(classes * (classes - 1) / 2 * of_share**2, rel=0.05)


@pytest.mark.parametrize("norm", NORMS)
def test_shares_are_those_of_the_records_where_noise_is_small_and_equal_where_it_is_all_there_is(norm):
    made = release_of(norm, sizes=(10_000_000,), shape=(2,))
    labels = np.repeat([0, 1, 2], [6, 3, 1])
    answer = made.told(np.ones((10, 2)), labels)
    assert answer[:2] == pytest.approx([0.5**0.5] * 2 if norm == "l2" else [most_of("l1", 2) / 2] * 2)
    assert made.read(answer).shares == pytest.approx([0.6, 0.3, 0.1], rel=1e-4)
    assert made.read(answer, noisier=1e9).shares == pytest.approx([1 / 3] * 3)


def test_shares_hidden_by_noise_are_raised_to_it_and_stay_above_zero():
    """A class without a record: its noised share is below zero as often as above."""
    made, drawn = release_of("l2", sizes=(2000, 2000), shape=(2,)), np.random.default_rng(4)
    true = np.array([0.0, 0.0, 0.9, 0.1, 0.0]) * np.repeat([1, made.of_class], [2, 3])
    noised = true + drawn.normal(0, made.deviation, (2000, 5))
    shares = np.array([made.read(one).shares for one in noised])
    of_share = made.deviation / made.of_class
    assert of_share < 0.05
    assert np.all(shares > 0.8 * of_share)
    assert shares.sum(axis=1) == pytest.approx(1)
    assert shares.mean(axis=0) == pytest.approx([0.9, 0.1, 0], abs=2 * of_share)


@pytest.mark.parametrize("classes", [2, 6])
def test_what_is_read_of_shares_costs_less_than_noised_shares_or_equal_ones(classes):
    """Excess cross entropy of a constant answer, by what is read, against shares cut off at a thousandth."""
    made = release_of("l2", sizes=(150,) * 3, shape=(10,), classes=classes)
    drawn, of_share = np.random.default_rng(5), made.deviation / made.of_class
    cost = {"read": 0.0, "noised": 0.0, "equal": 0.0}
    for true in drawn.dirichlet(np.ones(classes), 400):
        noised = true + drawn.normal(0, of_share, classes)
        answer = np.concatenate([np.zeros(10), made.of_class * noised])
        cut = np.maximum(noised, 1e-3)
        guesses = {
            "read": made.read(answer).shares,
            "noised": cut / cut.sum(),
            "equal": np.full(classes, 1 / classes),
        }
        for name, guess in guesses.items():
            cost[name] += float(true @ np.log(true / guess)) / 400
    assert cost["read"] < 0.9 * min(cost["noised"], cost["equal"])


def test_shrinking_brings_a_noised_mean_nearer_to_the_true_one():
    made = release_of("l2", sizes=(100,) * 3, shape=(50,))
    drawn, true = np.random.default_rng(3), made.deviation * np.ones(50)
    noised = true + drawn.normal(0, made.deviation, (300, 50))
    of_classes = np.zeros(CLASSES)
    errors = [
        np.mean([np.sum((f(one) - true) ** 2) for one in noised])
        for f in (lambda one: made.read(np.append(one, of_classes)).mean, lambda one: one)
    ]
    assert errors[0] < 0.75 * errors[1]
