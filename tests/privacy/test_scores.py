"""What records say of a model: what one of them moves, what is read of noised answers, what it costs."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.scores import ScoreRelease
from noiseworthy.privacy.sensitivity import ANSWER_LENGTHS, of_mean_answer

FAMILIES = ("gaussian", "laplace")
SIZES = np.array([40, 90, 200])


def made(family="gaussian", epsilon: Any = 2.0, sizes=SIZES, two_classes=True, floor=0.01, reach=0.0):
    budget = PrivacyBudget.of(epsilon, 1e-5 if family == "gaussian" else 0.0, len(sizes))
    floors = np.full(len(sizes), floor)
    return ScoreRelease.of(sizes, budget, family, floors, two_classes=two_classes, reach=reach)


def rows(right: np.ndarray, second: np.ndarray, norm="l2") -> np.ndarray:
    """Of two classes, by whether the model is right and whether a record is of the second."""
    r, c = 2.0 * right - 1, 2.0 * second - 1
    return np.column_stack([r, c, r * c]) / ANSWER_LENGTHS[norm]


PERSONS = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=4)


@pytest.mark.parametrize(("norm", "order"), [("l1", 1), ("l2", 2)])
@given(one=PERSONS, other=PERSONS)
def test_no_two_rows_of_records_or_persons_are_further_apart_than_is_paid_for(norm, order, one, other):
    """By brute force: a person's row is the mean of those of its records, right to any part."""
    first, second = (rows(*np.array(who, float).T, norm).mean(axis=0) for who in (one, other))
    (claimed,) = of_mean_answer(1.0, [1], norm, two_classes=True).value
    assert np.linalg.norm(first - second, order) <= claimed * (1 + 1e-12)
    assert np.linalg.norm(first, order) <= 1 + 1e-12
    corners = [rows(np.array([a]), np.array([b]), norm)[0] for a, b in product([0, 1], repeat=2)]
    apart = [np.linalg.norm(a - b, order) for a, b in product(corners, repeat=2)]
    assert max(apart) == pytest.approx(claimed)


@pytest.mark.parametrize(("family", "two_classes"), [*product(FAMILIES, (True, False))])
def test_one_release_costs_all_of_a_budget_and_no_less_noise_than_an_owner_wants(family, two_classes):
    how = made(family, two_classes=two_classes)
    (mu,) = {*PrivacyBudget.of(2.0, 1e-5, 1).mu}
    np.testing.assert_allclose(how.release.shift, mu if family == "gaussian" else 2.0)
    assert np.all(made(family, 50.0, two_classes=two_classes, floor=0.8).release.shift <= 1 / 0.8 + 1e-12)


def noised(how: ScoreRelease, told: np.ndarray, draws: np.random.Generator) -> list[dict[int, np.ndarray]]:
    """Many draws of what owners tell, shape (draws, owners, numbers), with the noise of the release."""
    draw = draws.normal if how.release.mechanism.family == "gaussian" else draws.laplace
    answers = told + draw(size=told.shape) * how.release.mechanism.size[:, None]
    return [dict(enumerate(one)) for one in answers]


@pytest.mark.parametrize("loud", [False, True], ids=["little noise", "mostly noise"])
@pytest.mark.parametrize(("family", "norm"), [("gaussian", "l2"), ("laplace", "l1")])
def test_scores_are_read_without_bias_and_spread_as_is_said(family, norm, loud):
    """Records are drawn, and noise is, 4,000 times, which know a mean to 1.6 % of a deviation.

    Five of them are allowed; what is said of each draw is, on average, within a tenth of how they spread.
    """
    epsilon, draws = [0.2, 0.3, 0.1] if loud else [2.0, 8.0, 30.0], np.random.default_rng(1)
    how = made(family, epsilon, np.array([400, 900, 2000]))
    of_class, finds = np.array([0.7, 0.3]), np.array([0.9, 0.7])
    cells = np.concatenate([of_class * finds, of_class * (1 - finds)])  # right of either class, wrong of it
    corners = rows(np.array([1, 1, 0, 0]), np.array([0, 1, 0, 1]), norm)
    counts = np.stack([draws.multinomial(n, cells, size=4_000) / n for n in how.sizes], axis=1)
    read = [how.read(one) for one in noised(how, counts @ corners, draws)]
    classes = np.array([one.classes for one in read])
    for true, values, said in [
        (of_class @ finds, [one.score for one in read], [one.deviation for one in read]),
        *((finds[k], classes[:, k, 1], classes[:, k, 2]) for k in (0, 1)),
    ]:
        deviation = np.std(values)
        assert abs(np.mean(values) - true) < 5 * deviation / len(values) ** 0.5 + 0.002
        assert np.mean(said) == pytest.approx(deviation, rel=0.1)


@pytest.mark.parametrize("records", [30, 200])
def test_two_deviations_hold_what_is_true_where_few_records_are_held_out(records):
    """Of 4,000 trainings 95 % by a normal law; counts of few records are coarse, and hold more."""
    how, draws = made(epsilon=[20.0], sizes=np.array([records]), two_classes=False), np.random.default_rng(2)
    told = 2 * draws.binomial(records, 0.93, size=(4_000, 1, 1)) / records - 1
    found = [how.read(one) for one in noised(how, told, draws)]
    hits = np.mean([abs(one.score - 0.93) <= 2 * one.deviation for one in found])
    assert 0.94 < hits < 0.999


def test_records_with_much_noise_weigh_little_and_others_all_alike():
    """Else an owner with a tenth of the epsilon drowns what all others tell."""
    how = made(epsilon=[0.1, 8.0], sizes=np.array([100, 100]), two_classes=False)
    both = how.read({0: np.array([1.0]), 1: np.array([0.6])})
    assert 0.81 < both.score < 0.84
    assert both.deviation > how.read({1: np.array([0.6])}).deviation, "the other half is hardly known"
    alike = made(epsilon=1e3, sizes=np.array([300, 100]), two_classes=False, floor=1e-9)
    assert alike.read({0: np.array([1.0]), 1: np.array([0.0])}).score == pytest.approx(0.875, abs=1e-3)


def test_no_other_weights_are_nearer_to_all_records_where_owners_differ():
    """Beside a search over all weights, by what theory says of the mean squared error."""
    how = made(epsilon=[0.05, 1.0, 5.0], sizes=np.array([300, 50, 300]), two_classes=False)
    ones = np.eye(3)[:, :, None]
    weights = np.array([2 * how.read(dict(enumerate(one))).score - 1 for one in ones])
    shares, noise = how.sizes / how.sizes.sum(), how.release.mechanism.variance
    error = lambda w: 0.09 * np.sum(np.square(w - shares)) + np.square(w) @ (noise + 1 / how.sizes)  # noqa: E731
    best = minimize(error, shares, constraints={"type": "eq", "fun": lambda w: w.sum() - 1}, tol=1e-12)
    np.testing.assert_allclose(weights, best.x, atol=1e-5)
    assert np.abs(weights - shares).max() > 0.05


@pytest.mark.parametrize(("family", "norm"), [("gaussian", "l2"), ("laplace", "l1")])
def test_two_deviations_hold_the_score_of_all_records_where_owners_differ(family, norm):
    """Three hospitals, of the smallest half is right: of 4,000 draws of the noise, 98 %."""
    how, draws = made(family, 1.0, np.array([20, 200, 1000])), np.random.default_rng(3)
    rates = np.array([0.5, 0.8, 0.95])
    told = np.stack([rows(np.arange(n) < n * p, np.arange(n) % 2, norm).mean(axis=0)
                     for n, p in zip(how.sizes, rates, strict=True)])  # fmt: skip
    true = how.sizes @ rates / how.sizes.sum()
    found = [how.read(one) for one in noised(how, np.broadcast_to(told, (4_000, 3, 3)), draws)]
    assert abs(np.mean([one.score for one in found]) - true) < 0.005
    assert np.mean([abs(one.score - true) <= 2 * one.deviation for one in found]) > 0.98
    assert np.mean([one.deviation for one in found]) < 0.011


def test_two_deviations_count_that_an_owner_who_is_hardly_heard_may_differ():
    """Of 4,000 pairs of owners that differ by 15 points, one of an epsilon of 0.1: 95 %."""
    how, draws = (
        made(epsilon=[0.1, 8.0], sizes=np.array([100, 100]), two_classes=False),
        np.random.default_rng(4),
    )
    rates = np.clip(draws.normal(0.7, 0.15, (4_000, 2)), 0, 1)
    read = [how.read(one) for one in noised(how, 2 * rates[:, :, None] - 1, draws)]
    away = [abs(one.score - true) / one.deviation for one, true in zip(read, rates.mean(axis=1), strict=True)]
    assert 0.93 < np.mean(np.array(away) <= 2) < 0.99


def test_errors_of_numbers_are_told_in_their_unit():
    how = made("laplace", 50.0, np.array([500]), two_classes=False, reach=40.0)
    found = how.read({0: np.array([0.9])})
    assert found.score == pytest.approx(2.0)
    assert found.deviation < 1.0
    assert found.classes == ()


def test_of_a_class_whose_share_is_noise_nothing_is_read():
    """A division by next to nothing would tell any part."""
    how = made(epsilon=0.5, sizes=np.array([60]))
    told = rows(np.ones(60), np.zeros(60)).mean(axis=0)
    first, second = how.read({0: told}).classes
    assert second is None
    assert first is not None
    assert first.found == 1.0
    assert first.deviation > 0.1
