"""Equal shares against brute force: no larger size exists, and no more even split of it."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from noiseworthy.data.shards import equal_shares
from noiseworthy.errors import DataError


@st.composite
def problems(draw, most_clients, fewest_labels):
    stock = np.array(draw(st.lists(st.integers(0, 12), min_size=3, max_size=5)))
    k = draw(st.integers(fewest_labels, 3))
    row = st.permutations(range(len(stock))).map(lambda order: order[:k])
    n = draw(st.integers(1, most_clients))
    return stock, np.array(draw(st.lists(row, min_size=n, max_size=n)))


def largest_size(stock, holds):
    """Hall's theorem: s is possible when every group of clients finds s records each among its classes."""
    groups = [list(g) for r in range(1, len(holds) + 1) for g in combinations(range(len(holds)), r)]
    return min(stock[np.unique(holds[group])].sum() // len(group) for group in groups)


@pytest.mark.full
@given(problems(most_clients=5, fewest_labels=1))
def test_the_common_size_is_the_largest_possible(problem):
    stock, holds = problem
    best = largest_size(stock, holds)
    try:
        shares = equal_shares(stock, holds)
    except DataError:
        assert best == 0
        return
    assert shares.min() >= 0
    np.testing.assert_array_equal(shares.sum(axis=1), best)
    used = np.bincount(holds.ravel(), shares.ravel(), minlength=len(stock))
    assert np.all(used <= stock)


@pytest.mark.full
@given(problems(most_clients=2, fewest_labels=2))
def test_no_split_of_that_size_is_more_even(problem):
    stock, holds = problem
    size, held = largest_size(stock, holds), holds.shape[1]
    assume(0 < size <= 8)
    rows = [row for row in product(range(size + 1), repeat=held) if sum(row) == size]

    def distance(shares):
        return np.abs(np.array(shares) - size // held).sum()

    def possible(shares):
        return np.all(np.bincount(holds.ravel(), np.ravel(shares), minlength=len(stock)) <= stock)

    best = min(distance(split) for split in product(rows, repeat=len(holds)) if possible(split))
    assert distance(equal_shares(stock, holds)) == best
