"""Other answers stand beside a plan with their own numbers, and the leak is that of one client."""

from __future__ import annotations

import numpy as np
import pytest

from noiseworthy.privacy.gaussian_epsilon import gaussian_epsilon
from noiseworthy.reports.alternatives import faults_of_printed, leak_caption, leak_of, note_of, rows_of
from noiseworthy.studies.typed_record import PlanPart, view


def test_the_leak_is_that_of_the_client_that_the_printed_noise_leaves_worst_off(make_record):
    """From sizes, clip and steps alone: mu = 2G/X sqrt(uses)/noise for each client."""
    record = make_record("noised_batches")
    plan, sizes = record["plan"], np.array(record["study"]["federation"]["sizes"])
    printed, batch = plan["as_printed"], np.minimum(plan["batch_size"], sizes)
    uses = np.ceil(printed["total_iterations"] / (sizes // batch))
    spent = gaussian_epsilon(2 / batch * np.sqrt(uses) / printed["noise"], 1e-4)
    worst, leak = int(np.argmax(spent)), leak_of(PlanPart(**plan))
    assert leak.printed == pytest.approx(spent[worst])
    assert leak.budget == plan["privacy"]["clients"][worst]["epsilon"] == 1.0
    assert leak.plan <= leak.budget < leak.printed / 10
    assert (leak.noise, leak.printed_noise) == (plan["noise"][worst], printed["noise"][worst])
    assert leak.factor == pytest.approx(spent[worst])


def test_without_a_printed_epsilon_there_is_no_leak(make_record):
    assert all(leak_of(view(make_record(name)).plan) is None for name in ("full", "coins", "no_noise"))
    record = make_record("noised_steps")
    record["plan"]["as_printed"]["spent_epsilon"] = None
    assert leak_of(view(record).plan) is None
    assert leak_caption(view(record)) == ""


def test_faults_are_a_period_that_does_not_divide_and_a_cost_beyond_the_budget(make_record):
    plan = make_record("noised_steps")["plan"]
    assert faults_of_printed(PlanPart(**plan)) == ["τ = 7 does not divide K = 64"]
    plan["as_printed"].update(rounds=9.1, total_iterations=91, local_steps=10)
    assert faults_of_printed(PlanPart(**plan)) == ["it costs 1,001 of 1,000", "τ = 10 does not divide K = 91"]
    plan["as_printed"].update(rounds=9, total_iterations=81, local_steps=9)
    assert faults_of_printed(PlanPart(**plan)) == []


def test_every_answer_has_its_row(make_record):
    record = make_record("noised_steps")
    plan = record["plan"]
    rows = {row["setting"]: list(row.values())[1:] for row in rows_of(view(record))}
    relaxed = plan["compared"]["relaxed"]
    assert rows == {
        "this plan": ["9", "9", "81", "0.0674", "0.6059", "981", "4"],
        "under zCDP": ["9", "7", "63", "0.0731", "0.6203", "963", "at most 4"],
        "in real numbers": [
            f"{relaxed['total_iterations'] / relaxed['local_steps']:.3g}", f"{relaxed['local_steps']:.3g}",
            f"{relaxed['total_iterations']:.3g}", "", f"{relaxed['bound']:.4g}", "", "",
        ],
        "as printed": ["9.14", "7", "64", "0.00663", "", "978.3", "78.72"],
    }  # fmt: skip
    assert relaxed["bound"] <= plan["predicted"]["bound"]
    assert list(rows_of(view(record))[0])[1:4] == ["rounds R", "local steps τ", "iterations K"]


def test_every_row_spends_of_the_same_clients_budget(make_record):
    rows = rows_of(view(make_record("noised_batches")))
    assert [row["ε spent"] for row in rows] == ["1", "at most 1", "", "70.76"]


def test_a_plan_that_does_not_train_stands_beside_what_others_would_do(make_record):
    record = make_record("no_noised_steps")
    first, *others = rows_of(view(record))
    assert list(first.values()) == ["this plan", "none", "none", "none", "", "0.6931", "0"]
    assert [row["setting"] for row in others] == ["under zCDP", "as printed"]
    assert "cost" not in first
    note = note_of(view(record).plan, [first, *others])
    assert "zCDP" in note
    assert note.endswith("Noise is per coordinate of every local step.")
    assert "real numbers" not in note


@pytest.mark.parametrize("name", ["full", "coins", "local_steps", "no_noise", "plan_only"])
def test_a_plan_without_other_answers_has_no_rows(make_record, name):
    assert rows_of(view(make_record(name))) == []
