"""The ledger refuses every upload past the planned count, for whole cohorts or not at all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noiseworthy.errors import BudgetExceeded, InvalidInput
from noiseworthy.privacy.ledger import Ledger


def counts(ledger: Ledger) -> list[int]:
    return ledger.used.tolist()


def test_a_client_past_its_planned_count_is_refused():
    ledger = Ledger.open([2, 1]).charge([0]).charge([0])
    assert not ledger.affordable(0)
    assert ledger.affordable(1)
    with pytest.raises(
        BudgetExceeded, match="client 0 has made all of its 2 planned uploads; nothing was charged"
    ):
        ledger.charge([0])


def test_a_cohort_is_charged_whole_or_not_at_all():
    ledger = Ledger.open([5, 1, 5]).charge([1])
    with pytest.raises(BudgetExceeded, match=r"client 1 .* plan more uploads"):
        ledger.charge([0, 1, 2])
    assert counts(ledger) == [0, 1, 0]
    assert counts(ledger.charge([0, 2])) == [1, 1, 1]


def test_rounds_are_charged_whole_or_not_at_all():
    ledger = Ledger.open([2, 2])
    with pytest.raises(BudgetExceeded, match="client 0 "):
        ledger.charge_rounds([[0], [1], [0], [0]])
    assert counts(ledger) == [0, 0]


def test_a_client_named_twice_in_one_cohort_is_refused():
    ledger = Ledger.open([5, 5, 5])
    with pytest.raises(BudgetExceeded, match="client 2 is asked twice in one round; nothing was charged"):
        ledger.charge([2, 0, 2])
    with pytest.raises(BudgetExceeded, match="client 1 is asked twice in one round"):
        ledger.charge_rounds([[0, 1], [1, 1]])
    assert counts(ledger) == [0, 0, 0]


def test_charging_leaves_the_old_ledger_as_it_was():
    before = Ledger.open([3, 3])
    after = before.charge([1])
    assert counts(before) == [0, 0]
    assert counts(after) == [0, 1]
    np.testing.assert_array_equal(after.remaining, [3, 2])


@pytest.mark.parametrize("stranger", [-1, 2, 99])
def test_an_unknown_client_is_refused(stranger):
    with pytest.raises(
        InvalidInput, match=f"client {stranger} is not among clients 0 to 1; nothing was charged"
    ):
        Ledger.open([3, 3]).charge([0, stranger])


@pytest.mark.parametrize(("planned", "value"), [([1, -1], "-1 for client 1"), ([1, 0.5], "0.5 for client 1")])
def test_planned_counts_are_whole_numbers(planned, value):
    with pytest.raises(InvalidInput, match=f"planned uploads must be whole .* got {value}"):
        Ledger.open(planned)


@given(st.data())
def test_charging_rounds_equals_charging_them_one_by_one(data):
    clients = data.draw(st.integers(1, 6))
    planned = data.draw(st.lists(st.integers(0, 4), min_size=clients, max_size=clients))
    size = data.draw(st.integers(1, clients))
    cohort = st.lists(st.integers(0, clients - 1), min_size=size, max_size=size)
    cohorts = data.draw(st.lists(cohort, min_size=1, max_size=8))

    def one_by_one():
        ledger = Ledger.open(planned)
        for members in cohorts:
            ledger = ledger.charge(members)
        return ledger

    legal = all(len(set(members)) == size for members in cohorts) and np.all(
        np.bincount(np.ravel(cohorts), minlength=clients) <= planned
    )
    if legal:
        assert counts(one_by_one()) == counts(Ledger.open(planned).charge_rounds(cohorts))
        assert counts(one_by_one()) == np.bincount(np.ravel(cohorts), minlength=clients).tolist()
    else:
        with pytest.raises(BudgetExceeded):
            one_by_one()
        with pytest.raises(BudgetExceeded):
            Ledger.open(planned).charge_rounds(cohorts)
