"""What settings are compared by, on plans whose uploads and votes are known."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from noiseworthy.trials.votes import Price, frontier, lost_of


def asked(clients=1, tried=1):
    """A bench whose candidates are numbers of uploads of each client that is tried."""
    facts = SimpleNamespace(problem=SimpleNamespace(n_clients=clients))
    return SimpleNamespace(
        plan=lambda space, uploads: SimpleNamespace(uploads=np.full(tried, uploads)), facts=facts
    )


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4, 5], [5, 3, 1, 0, 2, 4]])
def test_a_frontier_has_what_nothing_beats_in_uploads_and_votes_the_dearest_first(order):
    uploads, votes = np.array([10, 40, 30, 20, 20, 5]), np.array([0.2, 0.0, 0.1, 0.05, 0.07, 0.2])
    found = frontier(asked(), None, uploads[order].tolist(), votes[order])
    assert found == (Price(40, 0.0), Price(20, 0.05), Price(5, 0.2))


def test_prices_are_of_all_clients_and_not_of_the_few_that_are_tried():
    assert frontier(asked(1200, tried=500), None, [7], np.zeros(1)) == (Price(7 * 1200, 0.0),)


def test_what_is_lost_is_a_share_of_what_can_be_gained_and_at_most_twice_of_it():
    lost = lost_of(np.array([[0.4, 0.7, 1.0, 9.0]]), np.array([0.4]))
    np.testing.assert_allclose(lost, [[0.0, 0.5, 1.0, 2.0]])
