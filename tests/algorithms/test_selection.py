"""The reshuffled round robin: distinct clients, exact counts after every prefix, public and repeatable."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from noiseworthy._keys import schedule_generator
from noiseworthy.algorithms.selection import reshuffled_round_robin
from noiseworthy.errors import InvalidInput
from noiseworthy.planning.replies_bound import uploads
from noiseworthy.privacy.ledger import Ledger

FALSE_ALARM = 1e-4


@st.composite
def schedules(draw):
    """(N, b, T, seed) with b <= N, N dividing and not dividing bT."""
    clients = draw(st.integers(1, 17))
    return clients, draw(st.integers(1, clients)), draw(st.integers(1, 60)), draw(st.integers(0, 2**32 - 1))


def drawn(clients, b, rounds, seed):
    return reshuffled_round_robin(clients, b, rounds, schedule_generator(seed))


@given(schedules())
def test_every_round_asks_distinct_known_clients(schedule):
    clients, b, rounds, _ = schedule
    cohorts = drawn(*schedule)
    assert cohorts.shape == (rounds, b)
    assert cohorts.min() >= 0
    assert cohorts.max() < clients
    assert all(len(set(cohort)) == b for cohort in cohorts.tolist())


@given(schedules())
def test_after_every_round_each_client_was_asked_floor_or_ceil_of_bt_over_n(schedule):
    clients, b, rounds, _ = schedule
    asked = np.zeros(clients, int)
    for t, cohort in enumerate(drawn(*schedule), start=1):
        np.add.at(asked, cohort, 1)
        assert asked.min() >= b * t // clients
        assert asked.max() <= -(-b * t // clients)
        assert asked.sum() == b * t
    assert asked.max() == uploads(rounds, b, clients)


@given(schedules())
def test_the_planned_uploads_pay_for_the_schedule_and_one_less_would_not(schedule):
    clients, b, rounds, _ = schedule
    cohorts, planned = drawn(*schedule), np.full(clients, uploads(rounds, b, clients))
    assert Ledger.open(planned).charge_rounds(cohorts).used.sum() == b * rounds
    with pytest.raises(ValueError, match="planned uploads"):
        Ledger.open(planned - 1).charge_rounds(cohorts)


@given(schedules())
def test_each_pass_is_a_permutation_of_all_clients(schedule):
    clients = schedule[0]
    flat = drawn(*schedule).ravel()
    for start in range(0, len(flat) - clients + 1, clients):
        assert sorted(flat[start : start + clients].tolist()) == list(range(clients))


@given(schedules())
def test_a_seed_gives_the_same_schedule_again(schedule):
    np.testing.assert_array_equal(drawn(*schedule), drawn(*schedule))


def test_seeds_and_passes_are_shuffled_anew():
    flat = drawn(12, 4, 30, 1).ravel().reshape(-1, 12)
    assert len(np.unique(flat, axis=0)) == len(flat)
    assert not np.array_equal(drawn(12, 4, 30, 1), drawn(12, 4, 30, 2))


def test_a_prefix_does_not_depend_on_how_many_rounds_follow():
    np.testing.assert_array_equal(drawn(7, 3, 40, 9)[:11], drawn(7, 3, 11, 9))


def test_no_client_is_favoured_in_any_round():
    """chi-square over 6,000 seeds in a round that straddles two passes; false alarm at FALSE_ALARM."""
    generator = np.random.default_rng(0)
    counts = np.zeros((3, 5))
    for _ in range(6000):
        for t, cohort in enumerate(reshuffled_round_robin(5, 2, 3, generator)):
            counts[t, cohort] += 1
    for row in counts:
        assert stats.chisquare(row).pvalue > FALSE_ALARM


@pytest.mark.parametrize(("b", "says"), [(6, "between 1 and 5, got 6"), (0, "between 1 and 5, got 0")])
def test_a_cohort_outside_the_federation_is_refused(b, says):
    with pytest.raises(InvalidInput, match=f"clients_per_round must be {says}"):
        reshuffled_round_robin(5, b, 3, np.random.default_rng(0))
