"""Schedules: distinct clients in every round, exact counts, public and repeatable."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from noiseworthy._keys import schedule_generator
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.fedsgd_dpc.bound import uploads
from noiseworthy.methods.selection import exact_counts, reshuffled_round_robin, schedule
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


# Exact counts -----------------------------------------------------------------------------------------


def exactly(counts, b, rounds, seed):
    return exact_counts(counts, b, rounds, schedule_generator(seed))


def shares(clients, b, rounds, rng):
    """Random counts with sum b T and none above T: b T of the N T places, client n owns T of them."""
    places = rng.choice(clients * rounds, b * rounds, replace=False)
    return np.bincount(places % clients, minlength=clients)


def test_every_client_is_asked_exactly_as_planned_and_never_twice_in_a_round():
    rng = np.random.default_rng(3)
    for _ in range(2000):
        clients, rounds = int(rng.integers(1, 18)), int(rng.integers(1, 40))
        b = int(rng.integers(1, clients + 1))
        counts = shares(clients, b, rounds, rng)
        cohorts = exact_counts(counts, b, rounds, rng)
        assert cohorts.shape == (rounds, b)
        assert cohorts.dtype == np.int32
        np.testing.assert_array_equal(np.bincount(cohorts.ravel(), minlength=clients), counts)
        ordered = np.sort(cohorts, axis=1)
        assert np.all(ordered[:, 1:] > ordered[:, :-1])


def test_the_ledger_of_the_counts_pays_for_the_schedule_and_for_nothing_more():
    counts = np.array([9, 0, 4, 5])
    cohorts = exactly(counts, 2, 9, 1)
    charged = Ledger.open(counts).charge_rounds(cohorts)
    np.testing.assert_array_equal(charged.remaining, 0)
    with pytest.raises(ValueError, match="planned uploads"):
        Ledger.open(counts - [1, 0, 0, 0]).charge_rounds(cohorts)


@given(schedules())
def test_all_of_the_clients_in_all_rounds_and_one_alone(schedule):
    clients, _, rounds, seed = schedule
    everyone = exactly(np.full(clients, rounds), clients, rounds, seed)
    np.testing.assert_array_equal(np.sort(everyone, axis=1), np.tile(np.arange(clients), (rounds, 1)))
    alone = np.zeros(clients, int)
    alone[seed % clients] = rounds
    assert np.all(exactly(alone, 1, rounds, seed) == seed % clients)


def test_exact_schedules_are_repeatable_and_shuffled_anew():
    counts = np.full(12, 10)
    np.testing.assert_array_equal(exactly(counts, 4, 30, 1), exactly(counts, 4, 30, 1))
    assert not np.array_equal(exactly(counts, 4, 30, 1), exactly(counts, 4, 30, 2))


def test_a_client_of_few_rounds_is_equally_likely_in_all_of_them():
    """chi-square over 6,000 seeds; false alarm at FALSE_ALARM for each client."""
    generator, counts = np.random.default_rng(5), np.array([5, 3, 1, 1])
    asked = np.zeros((4, 5))
    for _ in range(6000):
        for t, cohort in enumerate(exact_counts(counts, 2, 5, generator)):
            asked[cohort, t] += 1
    assert np.all(asked[0] == 6000)
    for n in (2, 3):  # asked once, so that rounds are independent between seeds
        assert stats.chisquare(asked[n]).pvalue > FALSE_ALARM
    assert asked[1].min() > 3300  # 3,600 expected, with a standard deviation of 38


def test_pairs_of_clients_meet_whatever_their_indices():
    """Not only neighbours in the list come together: the clients are shuffled before they are laid out."""
    generator, met = np.random.default_rng(6), np.zeros((6, 6))
    for _ in range(300):
        for cohort in exact_counts([2] * 6, 3, 4, generator):
            met[np.ix_(cohort, cohort)] += 1
    pairs = met[~np.eye(6, dtype=bool)]
    assert pairs.min() > 0.5 * pairs.mean()


@pytest.mark.parametrize(
    ("counts", "b", "rounds", "says"),
    [
        ([3, 3, 3], 2, 4, r"must sum to clients_per_round \* rounds = 8, got 9"),
        ([5, 3, 0], 2, 4, "at most rounds = 4, got 5 for client 0; no client is asked twice"),
        ([4, -1, 5], 2, 4, "whole numbers of at least 0, got -1 for client 1"),
        ([2.5, 2.5, 3], 2, 4, "whole numbers of at least 0, got 2.5 for client 0"),
        ([4, 4], 3, 4, "clients_per_round must be between 1 and 2, got 3"),
        ([], 1, 4, "one entry per client"),
        ([0, 0], 1, 0, "rounds must be at least 1"),
    ],
)
def test_counts_that_no_schedule_has_are_refused(counts, b, rounds, says):
    with pytest.raises(InvalidInput, match=says):
        exact_counts(counts, b, rounds, np.random.default_rng(0))


def test_a_seed_has_one_schedule_that_nobody_writes_to():
    drawn = schedule(7, 3, 10, 4)
    np.testing.assert_array_equal(drawn, reshuffled_round_robin(7, 3, 10, schedule_generator(4)))
    assert drawn is schedule(7, 3, 10, 4)
    assert not np.array_equal(drawn, schedule(7, 3, 10, 5))
    with pytest.raises(ValueError, match="read-only"):
        drawn[0] = 0
