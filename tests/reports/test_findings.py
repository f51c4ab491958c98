"""The sentences say what the record says."""

from __future__ import annotations

import copy

import pytest

from noiseworthy.reports import findings
from noiseworthy.reports.findings import Outcome
from noiseworthy.studies.typed_record import view


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        (0.0744, "keeps 93\N{NO-BREAK SPACE}% of"),
        (0.004, "keeps all of"),
        (0.0, "keeps all of"),
        (0.7, "keeps only 30\N{NO-BREAK SPACE}% of"),
        (-0.02, "beats every fixed setting"),
        (3.24, "ends worse than no training"),
        (None, "The plan gains, no fixed setting does"),
        (float("nan"), "The plan gains, no fixed setting does"),
    ],
)
def test_the_finding_follows_the_lost_gain(make_record, lost, said):
    record = make_record("full")
    record["compare"]["lost_gain"] = lost
    assert said in findings.finding(view(record))


def test_where_nothing_gains_the_plan_is_not_praised(make_record):
    record = make_record("full")
    record["compare"].update(lost_gain=None, untrained_loss=0.1)
    assert findings.finding(view(record)) == "No fixed setting gains"
    caption = findings.compare_caption(view(record))
    assert "None of them gains." in caption
    assert "not defined" not in caption


def test_findings_of_plans_that_do_not_train_or_diverge(make_record):
    still = make_record("do_not_train")
    assert "where the plan does not train" in findings.finding(view(still))
    still["compare"]["lost_gain"] = None
    assert findings.finding(view(still)).endswith("not training is right")
    assert findings.finding(view(make_record("diverged"))) == "The plan diverged"
    assert findings.finding(view(make_record("plan_only"))) is None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("plan_only", "other way round"),
        ("full", "flattens"),
        ("do_not_train", "No setting"),
        ("no_coins", "No setting"),
        ("coins", "other way round"),
        ("convex_steps", "drift apart by more"),
        ("local_steps", "Few local steps need many noised uploads"),
        ("noised_steps", "Averaging often uses up the resources in few steps"),
        ("no_noised_steps", "No setting"),
    ],
)
def test_the_caption_reads_the_shape_off_the_plans_own_curve(make_record, name, said):
    record = make_record(name)
    assert said in findings.why_caption(view(record))
    assert f"against {record['evidence']['axis']}" in findings.why_caption(view(record))


def test_the_caption_finds_no_shape_in_a_single_count(make_record):
    record = make_record("full")
    for curve in record["evidence"]["curves"]:
        curve |= {"x": curve["x"][:1], "bound": curve["bound"][:1]}
    assert findings.why_caption(view(record)).endswith("The ring is the plan.")


@pytest.mark.parametrize(
    ("name", "best"),
    [("full", "T = 100, b = 10"), ("local_steps", "E = 12, T = 240"), ("coins", "p = 0.5, T = 80")],
)
def test_the_best_setting_is_named_by_the_axes(make_record, name, best):
    assert f"The best of them has {best}. " in findings.compare_caption(view(make_record(name)))


def test_the_comparison_names_the_baseline_and_the_price_of_a_search(make_record):
    record = make_record("noised_steps")
    said = findings.compare_caption(view(record))
    assert "The best of them has τ = 10, R = 9. τ = 1 is DP-SGD." in said
    price = "together spend epsilon 17.3 of the client that is worst off; the plan spends at most 4."
    assert said.endswith(price)
    assert "DP-SGD" not in findings.compare_caption(view(make_record("local_steps")))
    record["compare"]["search_epsilon"] = None
    assert "together spend" not in findings.compare_caption(view(record))
    del record["compare"]["search_epsilon"]
    assert "together spend" not in findings.compare_caption(view(record))


def test_prediction_and_measurement_are_compared_in_one_unit_only(make_record):
    record = make_record("full")
    assert "0.534 was predicted" in findings.training_caption(view(record))
    record["plan"]["predicted"]["unit"] = "squared distance to the optimum"
    assert "predicted" not in findings.training_caption(view(record))


def test_who_says_how_often_and_how_much(make_record):
    record = make_record("full")
    assert "pays for 261 uploads; it was asked 260 to 261 times" in findings.who_caption(view(record))
    once = copy.deepcopy(record)
    once["plan"]["releases"] = [1] * 10
    once["training"]["uploads"] = [[1] * 10] * 3
    assert "pays for 1 upload; it was asked once" in findings.who_caption(view(once))
    record["plan"]["trust"] = {"model": "central"}
    assert findings.who_caption(view(record)).startswith("For each client the server's noise pays for 261")
    clear = findings.who_caption(view(make_record("no_noise")))
    assert "no epsilon bounds" in clear
    assert "noise pays" not in clear
    noised = findings.who_caption(view(make_record("noised_batches")))
    assert "pays for 9 to 42 noised steps of each record, in 7 uploads." in noised
    half = copy.deepcopy(record)
    half["training"]["spent_epsilon"] = [[2.0] * 10] * 3
    assert "is 50\N{NO-BREAK SPACE}% of its epsilon" in findings.who_caption(view(half))


def test_warnings_come_from_the_record(make_record):
    record = make_record("full")
    assert findings.warnings_of(record) == [
        "Simulated noise: right for measuring accuracy, no protection of real data. Do not release."
    ]
    record["plan"]["notes"] = ["Warning: the proxies disagree.", "Fit error 1 %."]
    record["training"]["flags"] = ["Training did not help: test loss 0.7 against 0.5 untrained."]
    worse, simulated, planner = findings.warnings_of(record)
    assert simulated.startswith("Simulated noise")
    assert worse == record["training"]["flags"][0]
    assert planner == "The proxies disagree."
    assert findings.notes_of(view(record)) == ["Fit error 1 %."]
    assert findings.warnings_of(make_record("no_noise"))[0].startswith("Not private")


def test_a_diverged_loss_is_infinite_and_a_missing_score_is_left_out():
    assert Outcome.of("loss", [1.0, None]) == Outcome(float("inf"), 1.0, float("inf"))
    assert Outcome.of("accuracy", [0.5, None, 0.7]) == Outcome(pytest.approx(0.6), 0.5, 0.7)
    assert Outcome.of("accuracy", [None, float("nan")]) is None
