"""The mean of labels that clients tell: what a record moves it by, what noise is left, what it costs."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noiseworthy.privacy.budget import PrivacyBudget, Relation
from noiseworthy.privacy.means import CLOSE, SHARES, TELLING, LabelMean
from noiseworthy.privacy.mechanisms import law_of

FAMILIES, RELATIONS = ("gaussian", "laplace"), ("replace-one", "add-remove")
SIZES = np.array([40, 90, 200])
NUMBERS = st.lists(st.floats(-1e12, 1e12) | st.sampled_from([np.inf, -np.inf]), min_size=2, max_size=9)


def made(family="gaussian", relation: Relation = "replace-one", epsilon=2.0, sizes=SIZES, ends=(-3.0, 5.0)):
    delta = 1e-5 if family == "gaussian" else 0.0
    budget = PrivacyBudget.of(epsilon, delta, len(sizes), relation)
    return LabelMean.of(sizes, budget, family, *ends)


@pytest.mark.parametrize(("family", "relation"), [*product(FAMILIES, RELATIONS)])
@given(labels=NUMBERS, other=st.floats(-1e12, 1e12))
def test_no_record_moves_a_mean_further_than_its_sensitivity_and_some_as_far(family, relation, labels, other):
    """By brute force; where a record comes or goes the divisor stays, so that the sum is compared."""
    n = len(labels)
    how = made(family, relation, sizes=np.array([n]))
    (claimed,) = how.release.sensitivity.value
    exchanged = [other, *labels[1:]]
    without = how.told(labels[1:]) * (n - 1) / n
    moved = how.told(exchanged) if relation == "replace-one" else without
    assert abs(how.told(labels) - moved) <= claimed * (1 + 1e-12)
    ends = how.told([how.least] * n), how.told([how.most] + [how.least] * (n - 1))
    if relation == "replace-one":
        assert ends[1] - ends[0] == pytest.approx(claimed)
    assert claimed == pytest.approx({"replace-one": 8.0, "add-remove": 4.0}[relation] / n)


def test_a_number_that_is_none_counts_as_the_middle():
    """Else one record would make a mean that is no number, which shows through any noise."""
    how = made("gaussian")
    assert how.told([np.nan, how.most]) == how.told([how.middle, how.most])
    assert how.told([np.inf, -np.inf]) == how.told([how.most, how.least])


@pytest.mark.parametrize("family", FAMILIES)
def test_noise_in_the_answer_is_what_is_foretold(family):
    """20,000 draws know a deviation to 0.5 % (Gaussian) or 0.9 % (Laplace sums): five of them are allowed."""
    how, draws = made(family), np.random.default_rng(0)
    law = how.release.mechanism
    distribution = law.law.analysis.distribution()
    noise = distribution.rvs((20_000, 3), random_state=draws) * law.size
    labels = [np.linspace(0, 2, n) for n in SIZES]
    middle = [how.told(one) for one in labels]
    read = [how.combined({i: middle[i] + row[i] for i in range(3)}) for row in noise]
    assert np.std(read) == pytest.approx(how.deviation, rel=0.045)
    assert np.mean(read) == pytest.approx(1.0, abs=5 * how.deviation / 20_000**0.5)


@pytest.mark.parametrize("family", FAMILIES)
def test_it_costs_the_least_share_that_tells_it_closely(family):
    shares = set()
    for epsilon in np.geomspace(0.01, 300, 40):
        how = made(family, epsilon=epsilon)
        shares.add(how.share)
        currency, width = law_of(family).paid_in, how.most - how.least
        budget = PrivacyBudget.of(epsilon, 1e-5 if family == "gaussian" else 0.0, 3)
        paid = currency.analysis.amount(how.release.shift)
        assert paid == pytest.approx(how.share * currency.analysis.whole(budget), rel=1e-6)
        assert how.telling == (how.deviation <= TELLING * width)
        if how.share < SHARES[-1]:
            assert how.deviation <= CLOSE * width
        if how.share > SHARES[0]:
            cheaper = SHARES[SHARES.index(how.share) - 1]
            less = how.deviation * (how.share / cheaper) ** (1 / currency.power)
            assert less > CLOSE * width * (1 - 1e-9)
    assert shares == {*SHARES}


def test_answers_of_some_are_read_as_the_mean_of_those_and_kept_within_the_ends():
    how = made()
    answers = {i: how.told([value]) for i, value in enumerate((0.0, 4.0, -2.0))}
    some = how.weights[[0, 2]] / how.weights[[0, 2]].sum()
    assert how.combined({0: answers[0], 2: answers[2]}) == pytest.approx(some @ [0.0, -2.0])
    assert how.combined({1: np.array([50.0])}) == 5.0
    assert how.combined({1: np.array([-50.0])}) == -3.0
