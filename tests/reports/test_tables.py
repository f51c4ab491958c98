"""The terminal shows the record's numbers within 80 columns."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from noiseworthy.model.metrics import of_classes, of_numbers
from noiseworthy.reports.claim_card import claim_card
from noiseworthy.reports.tables import comparison_table, of_rows, plan_panel, training_panel
from noiseworthy.studies.typed_record import view


def shown(renderable, width=80):
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(renderable)
    return console.file.getvalue()


@pytest.mark.parametrize("show", [plan_panel, training_panel, comparison_table])
def test_everything_fits_80_columns(record, show):
    renderable = show(view(record))
    if renderable is not None:
        assert max(cell_len(line) for line in shown(renderable).splitlines()) <= 80


def words(renderable):
    return " ".join(shown(renderable).replace("│", " ").split())


def test_units_in_brackets_stay_in_names_of_columns():
    text = words(of_rows("", [{"feature": "age [years]", "coefficient": "0.31"}]))
    assert "age [years] 0.31" in text


def test_the_plan_panel_says_what_was_decided(make_record):
    record = make_record("full")
    text = words(plan_panel(record))
    assert record["plan"]["outcome"] in text
    assert "261 per client" in text
    assert f"std {record['plan']['noise'][0]:.3g}" in text
    assert "epsilon 4, delta 1e-05 per record (replace-one); spends 4" in text
    assert "fitted to trials on wine, iris: gamma, sampling, rest, noise weight, offset" in text


def test_the_plan_panel_says_what_clients_compute_clip_and_add(make_record):
    record = make_record("local_steps")
    first, last = (record["plan"]["noise_per_round"][i][0] for i in (0, -1))
    assert first > last
    text = words(plan_panel(record))
    for said in (
        "local steps 2 before each upload, on all records",
        f"Laplace, scale {first:.3g} per coordinate in the first round, falling",
        f"to {last:.3g} in the last",
        "L1 norm 2: the gradient of the client's whole batch is clipped in every local step (mode C)",
        f"halved after {record['plan']['step_decay_rounds']:g} local steps",
    ):
        assert said in text


def test_the_plan_panel_says_how_records_are_prepared_and_what_is_delivered(make_record):
    record = make_record("full")
    assert "delivers" not in words(plan_panel(record))
    task = {"pooling": 2, "projection": 50, "normalise": False, "feature_norm": 3.0}
    record["study"]["task"], record["plan"]["averaging"] = task, 0.25
    said = words(plan_panel(record))
    for part in (
        "images pooled 2 x 2, records projected at random to 50 numbers,",
        "scaled down to norm 3 where",
    ):
        assert part in said
    assert "delivers the mean of the models of the last 25 % of rounds" in said
    task["reference"] = ["mnist", "digits"]
    said = words(plan_panel(record))
    assert "mean of public records (mnist, digits) subtracted, records projected on their principal" in said


def test_the_plan_panel_says_every_step_and_the_momentum(make_record):
    assert "0.05, halved after 200 rounds, momentum 0.9 " in words(plan_panel(make_record("weighed_replies")))
    said = words(plan_panel(make_record("transformed_records")))
    assert "0.05, halved after 200 rounds; 0.1 of transforms" in said


@pytest.mark.parametrize(
    ("steering", "said"),
    [
        ({"gain": 0.2, "floor": 0.07}, "2, constant, scaled by what uploads say"),
        ({"gain": 0.2, "floor": 0.07, "closing": 0.2}, "2, constant, scaled by what uploads say"),
        (
            {"gain": 0.0, "floor": 0.07, "closing": 0.2},
            "2, constant, the last model scaled by what uploads say",
        ),
    ],
    ids=["of before there were closings", "steered", "closed"],
)
def test_the_plan_panel_says_what_follows_the_uploads(make_record, steering, said):
    record = make_record("full")
    record["plan"] |= {"step_size": 2.0, "step_decay_rounds": None}
    assert "what uploads say" not in words(plan_panel(record))
    record["plan"]["steering"] = steering
    assert said in words(plan_panel(record))


def test_noise_that_does_not_change_is_one_number(make_record):
    assert "falling" not in words(plan_panel(make_record("whole_updates")))
    assert "by the coins of seed 0" in words(plan_panel(make_record("coins")))
    text = words(plan_panel(make_record("full")))
    assert "clip L2 norm 0.8: each record's gradient" in text
    assert "local steps" not in text


def test_the_plan_panel_says_what_noised_steps_pay_for_and_what_others_would_do(make_record):
    record = make_record("noised_steps")
    plan, text = record["plan"], words(plan_panel(record))
    for said in (
        "local steps 9 before each averaging, every one noised, on all records",
        "uploads 9 per client; its noise pays for 81 noised steps of each record",
        f"Gaussian, std {plan['noise'][0]:.3g} per coordinate of every local step",
        "each record's gradient in every local step",
        "resources 981 of 1,000 units, each client; 100 per averaging, 1 per local step",
        f"by zCDP K = 63, τ = 7, std {plan['compared']['zcdp']['noise'][0]:.3g}, predicted 0.620",
        "as printed would spend epsilon 78.72 (84.97 by the paper's conversion) of 4: not private, not used",
    ):
        assert said in text, said
    assert "81 per client" not in text


def test_the_panels_say_what_the_dearest_client_spends(make_record):
    text = words(plan_panel(make_record("paid_replies")))
    assert "525 of 600 joules, client 0, which has the least left; 10 per upload, 0.5 per local step" in text
    text = words(plan_panel(make_record("noised_batches")))
    assert "826 of 900 joules, client 7, which has the least left" in text
    assert "100 per averaging, 1 to 3 per local step" in text
    assert "12,000,000 of 40,000,000 bytes, each client" in words(plan_panel(make_record("paid_local_steps")))
    assert "cost 12,000,000 of 40,000,000 bytes, the dearest clients" in words(
        training_panel(view(make_record("paid_local_steps")))
    )
    assert "13.38 of 100 seconds, each client" in words(plan_panel(make_record("paid_coins")))
    for name in ("full", "coins", "no_noised_steps"):
        assert "resources" not in words(plan_panel(make_record(name))).replace("[resources]", "")


@pytest.mark.parametrize("name", ["full", "local_steps", "coins"])
def test_a_record_of_before_there_were_resources_reads_the_same(make_record, name):
    record, old = make_record(name), make_record(name)
    for key in ("cost", "resources"):
        assert old["plan"].pop(key) is None
    for show in (plan_panel, training_panel):
        assert shown(show(view(old))) == shown(show(view(record)))


def test_the_training_panel_says_how_it_ended(make_record):
    text = words(training_panel(view(make_record("full"))))
    assert "0.752 (0.702 to 0.802), untrained 2.30, predicted 0.534" in text
    assert "each client 260 to 261 times" in text
    assert "! Simulated noise" in text
    assert training_panel(view(make_record("plan_only"))) is None
    assert "diverged" in words(training_panel(view(make_record("diverged"))))
    assert "without bound: no noise" in words(training_panel(view(make_record("no_noise"))))


def test_minutes_of_training_are_whole_seconds(make_record):
    record = make_record("full")
    slow = {**record, "training": {**record["training"], "seconds": 153.98}}
    assert "154 s" in words(training_panel(view(slow)))


def test_a_loss_stands_beside_what_a_constant_reaches_and_the_model_has_scores(make_record):
    record = make_record("full")
    y, shares = np.repeat([0, 1], [90, 10]), np.tile([0.8, 0.2], (100, 1))
    record["training"]["metrics"] = of_classes(y, shares).model_dump()
    text = words(training_panel(view(record)))
    assert "0.752 (0.702 to 0.802), class prior 0.325, predicted 0.534" in text
    assert "of seed 0: AUC 0.500, balanced accuracy 50 %, calibration error 10.0 %" in text
    record["training"]["metrics"] = of_numbers(np.arange(4.0), np.zeros(4)).model_dump()
    text = words(training_panel(view(record)))
    assert "a constant 0.625" in text
    assert "R² -1.80, root mean squared error 1.87" in text


def test_the_comparison_puts_the_plan_first_and_the_best_next(make_record):
    lines = shown(comparison_table(view(make_record("full")))).splitlines()
    rows = [line.split() for line in lines if line.startswith((" plan", " fixed"))]
    assert rows[0][:3] == ["plan", "261", "10"]
    assert rows[1][:3] == ["fixed", "100", "10"]
    text = " ".join(lines)
    assert "The plan keeps 96\N{NO-BREAK SPACE}% of the attainable gain" in text
    assert "lost gain 3.7\N{NO-BREAK SPACE}%, untrained loss 2.30" in text
    assert "and 4 worse settings" in text
    assert comparison_table(view(make_record("plan_only"))) is None


@pytest.mark.parametrize(
    ("name", "columns", "plan", "best"),
    [
        ("local_steps", "local steps E iterations T", ["2", "120"], ["12", "240"]),
        ("coins", "probability p iterations T", ["0.224", "31"], ["0.5", "80"]),
        ("noised_steps", "local steps τ rounds R", ["9", "9"], ["10", "9"]),
        ("no_coins", "probability p iterations T", ["none", "none"], ["0.5", "80"]),
    ],
)
def test_the_columns_of_a_comparison_are_its_axes(make_record, name, columns, plan, best):
    lines = shown(comparison_table(view(make_record(name)))).splitlines()
    assert any(" ".join(line.split()).startswith(f"setting {columns} test loss") for line in lines)
    rows = [line.split()[1:3] for line in lines if line.startswith((" plan", " fixed"))]
    assert rows[:2] == [plan, best]


def test_a_plan_that_does_not_train_has_no_rounds(make_record):
    lines = shown(comparison_table(view(make_record("do_not_train")))).splitlines()
    assert any(line.split()[:4] == ["plan", "none", "none", "2.30"] for line in lines)
    text = words(plan_panel(make_record("do_not_train")))
    assert "uploads" not in text


def test_brackets_in_names_are_no_markup(make_record):
    record = make_record("full")
    record["plan"]["constants"]["gamma"]["provenance"] = "fitted to [red]mine[/red]"
    record["plan"]["notes"] = ["Warning: see [planning] public."]
    text = words(plan_panel(record))
    assert "fitted to [red]mine[/red]" in text
    assert "! See [planning] public." in text


def test_what_trials_chose_without_a_fit_rests_on_them_in_panel_and_card(make_record):
    record = make_record("chosen_clients")
    record["plan"]["constants"], record["study"]["constants"] = {}, {}
    loss = {"mean": 0.5, "least": 0.2, "most": 1.0}
    record["foretold"] = {"loss": loss, "accuracy": {"mean": 0.8, "least": 0.6, "most": 0.9}}
    assert "rests on tried on public data: settings" in words(plan_panel(view(record)))
    answers = {one["question"]: one["answer"] for one in claim_card(record)["questions"]}
    cost = answers["What did the constants of the plan cost?"]
    assert cost == "Nothing of the private data: they are chosen on public data."
