"""Costs in a report are those of the record, and the client that is named has the least left."""

from __future__ import annotations

import numpy as np
import pytest

from noiseworthy.reports.resources import (
    Bill,
    amount,
    bill_of,
    of_budget,
    planned_bill,
    price_of_round,
    whose,
)
from noiseworthy.studies.typed_record import view

PAID = ["noised_steps", "noised_batches", "paid_replies", "paid_local_steps", "paid_coins"]


@pytest.mark.parametrize("name", PAID)
def test_the_bill_is_the_plans_and_within_the_budget(make_record, name):
    plan, bill = make_record(name)["plan"], planned_bill(view(make_record(name)))
    assert bill.cost.tolist() == plan["resources"]["cost"]
    assert bill.cost.max() == plan["cost"]
    assert np.all(bill.cost <= bill.budget)
    assert bill.unit == plan["resources"]["unit"]


def test_a_training_that_asked_less_costs_less(make_record):
    """By hand: 109 = 100 + 9 for a round of nine steps; the most uploads of any seed count."""
    record = make_record("noised_steps")
    record["training"]["uploads"] = [[9] * 15 + [3], *[[8] * 15 + [5]] * 2]
    assert bill_of(view(record)).cost.tolist() == [981.0] * 15 + [981.0 - 4 * 109]
    assert bill_of(view({**record, "training": None})).cost.tolist() == [981.0] * 16


@pytest.mark.parametrize("name", ["full", "local_steps", "coins", "no_noised_steps"])
def test_without_resources_there_is_no_bill(make_record, name):
    record = make_record(name)
    assert planned_bill(view(record)) is None
    assert bill_of(view(record)) is None
    assert price_of_round(view(record)) == ""
    del record["plan"]["resources"], record["plan"]["cost"]
    assert bill_of(view(record)) is None


def test_the_dearest_has_the_least_left_and_not_the_greatest_cost(make_record):
    record = make_record("paid_replies")
    bill = Bill("joules", np.array([500.0] * 9 + [550.0]), np.array([510.0] + [600.0] * 9))
    assert bill.dearest == 0
    assert of_budget(bill) == "500 of 510 joules"
    assert whose(view(record), bill) == "client 0, which has the least left"
    tied = Bill("joules", np.array([500.0] * 9 + [450.0]), np.full(10, 600.0))
    assert whose(view(record), tied) == "the dearest clients"
    assert whose(view(record), Bill("joules", np.full(10, 500.0), np.full(10, 600.0))) == "each client"


def test_a_bought_constant_is_no_part_of_a_rounds_price(make_record):
    record = make_record("noised_steps")
    assert price_of_round(view(record)) == ", 109 units each"
    record["plan"]["resources"]["cost"] = [1082.0] * 16
    assert price_of_round(view(record)) == ""


def test_amounts_are_whole_where_they_are_large():
    assert [amount(x) for x in (0.0, 0.03125, 999.9, 1000.0, 1e9, 1e16)] == [
        "0", "0.03125", "999.9", "1,000", "1,000,000,000", "1e+16"
    ]  # fmt: skip
