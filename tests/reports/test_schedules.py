"""What clients do is said alike for every algorithm, with the numbers of the plan."""

from __future__ import annotations

import pytest

from noiseworthy.methods import phrases
from noiseworthy.methods.registry import METHODS, method
from noiseworthy.reports import schedules
from noiseworthy.reports.findings import why_caption
from noiseworthy.reports.html import client_rows, plan_numbers
from noiseworthy.reports.privacy_statement import privacy_statement
from noiseworthy.reports.schedules import words_of
from noiseworthy.reports.tables import plan_panel
from noiseworthy.studies.typed_record import PlanPart, view

SAID = {
    "full": ("Train 261 rounds, asking all 10 clients in each.", "261 rounds, all 10 clients in each"),
    "plan_only": ("Train 80 rounds, asking 1 of 10 clients in each.", "80 rounds, 1 of 10 clients in each"),
    "local_steps": (
        "Train 120 iterations: 60 rounds of 2 local steps, asking 5 of 50 clients in each.",
        "60 rounds of 2 local steps, 5 of 50 clients",
    ),
    "coins": (
        "Train 31 iterations, communication after each with probability 0.224: 6.93 rounds expected, "
        "4 by the coins.",
        "31 iterations in 4 rounds",
    ),
    "noised_steps": (
        "Train 81 iterations: 9 rounds of 9 noised local steps, averaging all 16 clients after each.",
        "9 rounds of 9 local steps, all 16 clients",
    ),
    "weighed_replies": (
        "Train 60 rounds, asking 20 of 50 clients in each, 24 times each.",
        "60 rounds, 20 of 50 clients in each",
    ),
    "transformed_records": (
        "Train 60 rounds, asking 10 of 20 clients in each, chosen by budget: 0 to 60 times each.",
        "60 rounds, 10 of 20 clients in each",
    ),
    "do_not_train": ("Do not train.", "no training"),
    "no_noised_steps": ("Do not train.", "no training"),
    "no_coins": ("Do not train.", "no training"),
}


def computes(plan):
    return words_of(PlanPart(**plan)).computes(plan)


def clipped(plan):
    return words_of(PlanPart(**plan)).clipped(plan)


def paid_for(plan):
    return phrases.paid_for(plan, words_of(PlanPart(**plan)).noised.release)


def chooses(plan):
    return words_of(PlanPart(**plan)).chooses(plan)


@pytest.mark.parametrize("name", SAID)
def test_the_headline_is_the_decision(make_record, name):
    record = make_record(name)
    assert (schedules.headline(record), schedules.in_brief(view(record))) == SAID[name]


def test_one_client_is_not_told_as_all_of_them():
    plan = {"rounds": 80, "clients_per_round": 1, "releases": [80]}
    assert phrases.replies({"plan": plan}) == "80 rounds, asking 1 client in each"


def test_one_local_step_and_certain_communication_need_fewer_words(make_record):
    record = make_record("local_steps")
    record["plan"].update(local_steps=1, rounds=120)
    assert schedules.headline(record) == "Train 120 rounds of 1 local step, asking 5 of 50 clients in each."
    record = make_record("coins")
    record["plan"].update(communication_probability=1.0, iterations=1200)
    assert schedules.headline(record) == "Train 1,200 iterations, with communication after each."


def test_a_noised_step_before_each_averaging_needs_fewer_words(make_record):
    record = make_record("noised_steps")
    record["plan"].update(local_steps=1, rounds=9, total_iterations=9)
    assert schedules.headline(record) == (
        "Train 9 rounds of 1 noised local step, averaging all 16 clients after each."
    )


def test_large_numbers_are_grouped(make_record):
    record = make_record("coins")
    record["plan"].update(iterations=10000, expected_rounds=2236.07, realised_rounds=2219)
    assert "10,000 iterations" in schedules.headline(record)
    assert "2,236 rounds expected, 2,219 by the coins" in schedules.headline(record)


def test_local_steps_name_their_records_and_coins(make_record):
    assert computes(make_record("local_steps")["plan"]) == "2 before each upload, on all records"
    of_batches = computes(make_record("whole_updates")["plan"])
    assert of_batches == "12 before each upload, on batches of 16 records"
    drawn = computes(make_record("coins")["plan"])
    assert drawn == "4.47 on average before each upload, by the coins of seed 0; on all records"


def test_noised_steps_name_their_batches(make_record):
    assert computes(make_record("noised_steps")["plan"]) == (
        "9 before each averaging, every one noised, on all records"
    )
    assert computes(make_record("noised_batches")["plan"]) == (
        "6 before each averaging, every one noised, on disjoint batches of 200 records, shuffled for every "
        "pass"
    )


def test_uploads_are_rounds_where_steps_are_noised_and_releases_elsewhere(make_record):
    for name in ("noised_steps", "noised_batches"):
        plan = make_record(name)["plan"]
        assert schedules.uploads_of(PlanPart(**plan)) == [plan["rounds"]] * len(plan["releases"])
    assert paid_for(make_record("noised_steps")["plan"]) == "81 noised steps"
    assert paid_for(make_record("noised_batches")["plan"]) == "9 to 42 noised steps"
    for name, said in (("full", "261 uploads"), ("local_steps", "6 uploads"), ("coins", "4 uploads")):
        plan = make_record(name)["plan"]
        assert schedules.uploads_of(PlanPart(**plan)) == plan["releases"]
        assert paid_for(plan) == said


def test_every_paper_keeps_its_symbols(make_record):
    assert schedules.decided(view(make_record("noised_steps")).plan) == "K = 81, τ = 9"
    assert schedules.decided(view(make_record("local_steps")).plan) == "T = 120, E = 2, b = 5"
    assert method("dp-pasgd").words.terms["rounds"].symbol == "R"
    assert method("fedsgd-dpc").words.terms["rounds"].symbol == "T"


def test_what_is_clipped_is_named_by_its_mode(make_record):
    plan = make_record("full")["plan"]
    assert clipped(plan) == "each record's gradient"
    assert clipped({**plan, "privacy": {**plan["privacy"], "unit": "person"}}) == "each person's gradient"
    assert "whole batch is clipped" in clipped(make_record("local_steps")["plan"])
    assert clipped(make_record("coins")["plan"]) == ("the client's whole update is clipped (mode D)")
    in_each = clipped(make_record("noised_steps")["plan"])
    assert in_each == "each record's gradient in every local step"
    of_persons = make_record("noised_steps")["plan"] | {"privacy": {**plan["privacy"], "unit": "person"}}
    assert clipped(of_persons) == "each person's gradient in every local step"
    noised = method("dp-pasgd").words.noised
    assert noised.bought(of_persons).endswith("noised steps of each person")
    assert " noised steps of each person; " in noised.card(of_persons)
    mode_a = make_record("local_steps")["plan"] | {"clipping_mode": "A", "privacy": of_persons["privacy"]}
    assert clipped(mode_a) == "each person's gradient is clipped and the client takes one step (mode A)"


def test_every_axis_and_every_decision_has_its_words(make_record):
    for name in METHODS:
        words, axes = method(name).words, method(name).axes
        assert {axes.across, axes.series, *words.decided} <= words.terms.keys()
    for name in ("full", "local_steps", "whole_updates", "coins", "no_coins", "noised_steps"):
        plan = make_record(name)["plan"]
        assert {*words_of(PlanPart(**plan)).decided} <= plan.keys()


def test_a_rival_chooses_only_where_it_asks_unlike(make_record):
    assert not chooses(make_record("weighed_replies")["plan"])
    assert chooses(make_record("transformed_records")["plan"])
    plan = make_record("weighed_replies")["plan"]
    plan["releases"][0] += 1
    assert not chooses(plan)
    plan["releases"][1] -= 1
    assert chooses(plan)


COUNTS = (
    "local_steps", "total_iterations", "batch_size", "noised", "iterations", "communication_probability",
    "expected_rounds", "realised_rounds", "expected_local_steps", "coin_seed", "noise_per_round", "compared",
)  # fmt: skip
"""What a plan by trial that does not train leaves out: it has no local work."""


@pytest.mark.parametrize("name", ["full", "local_steps", "coins", "noised_steps", "chosen_clients"])
def test_a_plan_by_trial_that_does_not_train_has_its_words(make_record, name):
    record = {**make_record(name), "training": None, "compare": None, "evidence": None}
    plan, nobody = record["plan"], [0] * len(record["plan"]["releases"])
    plan = {key: value for key, value in plan.items() if key not in COUNTS}
    plan |= {"train": False, "rounds": 0, "releases": nobody, "noise": nobody, "predicted": None,
             "as_printed": {}, "step_size": None}  # fmt: skip
    record["plan"] = plan
    assert (schedules.headline(record), schedules.in_brief(view(record))) == ("Do not train.", "no training")
    assert plan_panel(record)
    said = " ".join(point for clause in privacy_statement(record) for point in (clause.text, *clause.points))
    assert schedules.NO_UPLOADS in said
    assert "coins" not in said
    assert len(client_rows(view(record))) == len(nobody)
    assert plan_numbers(view(record)) == []


def test_a_curve_along_an_axis_that_a_method_has_no_words_for_is_shown_without_them(make_record):
    record = make_record("noised_steps")
    assert why_caption(view(record)).endswith("noise and all.")
    record["evidence"]["axis"] = "servers"
    assert why_caption(view(record)).endswith("The ring is the plan.")
