"""The statement carries the record's numbers, invents none, and claims nothing that does not hold."""

from __future__ import annotations

import copy
import io
import re

import numpy as np
import pytest
from rich.console import Console

from noiseworthy.privacy.clipping import WORDS
from noiseworthy.reports.html import client_rows
from noiseworthy.reports.privacy_statement import privacy_statement
from noiseworthy.reports.result import budget
from noiseworthy.reports.tables import plan_panel
from noiseworthy.studies.statement import claim
from noiseworthy.studies.typed_record import view

NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)*(?:e[-+]?\d+)?(?!\w)")


def clause(record, title):
    (found,) = [c for c in privacy_statement(record) if c.title == title]
    return found


def whole(found):
    return " ".join([found.text, *found.points])


def numbers_in(text):
    return [part.replace(",", "") for part in NUMBER.findall(text)]


def numbers_of(value):
    """All numbers anywhere in a record."""
    if isinstance(value, dict):
        return [n for part in value.values() for n in numbers_of(part)]
    if isinstance(value, list):
        return [n for part in value for n in numbers_of(part)]
    return [float(value)] if isinstance(value, int | float) and not isinstance(value, bool) else []


def test_no_number_is_invented(record):
    plan = record["plan"]
    known = numbers_of(record)
    known += [100 * share for share in numbers_of(record["claim"]["told_apart"])] + [50.0]
    known += [len(record["compare"]["cells"])] if record["compare"] else []
    known += [100 * plan["as_printed"].get("overspending_share", 0), plan["releases"].count(0)]
    for found in privacy_statement(record):
        for written in numbers_in(whole(found).replace(plan["as_printed"].get("why", "\0"), "")):
            if written == record["version"]:
                continue
            assert np.any(np.isclose(float(written), known, rtol=0.006, atol=0)), (found.title, written)


def test_clients_whose_long_names_begin_alike_are_told_apart(make_record):
    """Claims went from 0.5 for "University hospital of the north, campu…" to 4 for the same."""
    record = make_record("full")
    wards = [f"University hospital of the north, campus {i}" for i in range(len(record["plan"]["releases"]))]
    record["federation"]["clients"], rows = wards, record["plan"]["privacy"]["clients"]
    rows[3]["epsilon"] = 0.5
    apart = "University ho…"
    assert f"epsilon 0.5 ({apart}3) to 4 ({apart}0)" in claim(view(record))
    assert f"epsilon 0.5 ({apart}3) to 4 ({apart}0)" in clause(record, "What each client spends").text
    assert f"{apart}3: 4 of 0.5" in clause(record, "Budget exceeded").points
    console = Console(record=True, width=100, file=io.StringIO())
    console.print(plan_panel(view(record)))
    assert f"{apart}3: 0.5" in console.export_text()


@pytest.mark.parametrize(
    "name", ["full", "plan_only", "many", "one_seed", "local_steps", "convex_steps", "whole_updates", "coins"]
)
def test_budget_spending_and_noise_read_back(make_record, name):
    record = make_record(name)
    plan, rows = record["plan"], record["plan"]["privacy"]["clients"]
    spends = clause(record, "What each client spends")
    match = re.search(
        r"epsilon ([\d.]+)(?: \(client 0\) to ([\d.]+) \(client 499\))? at delta ([\de.-]+)", spends.text
    )
    assert float(match[1]) == min(row["epsilon"] for row in rows)
    assert float(match[2] or match[1]) == max(row["epsilon"] for row in rows)
    assert float(match[3]) == rows[0]["delta"]
    means = clause(record, "By what means").text
    least, most = re.search(r"(?:deviation|scale) ([\d.]+)(?: to ([\d.]+))?", means).groups()
    assert np.isclose(float(least), min(plan["noise"]), rtol=0.006)
    assert np.isclose(float(most or least), max(plan["noise"]), rtol=0.006)
    assert f"pays for {plan['releases'][0]} upload" in means


def test_no_budget_is_written_smaller_than_it_is(make_record):
    """Noise is sized for the budget as it is stated: of one that is written smaller the claim is false."""
    record = make_record("full")
    epsilon, delta = 1.2345644, 1.2345644e-5
    for row in record["plan"]["privacy"]["clients"]:
        row.update(epsilon=epsilon, delta=delta)
    (row, *_), said = client_rows(view(record)), "epsilon 1.23457 at delta 1.23457e-05"
    assert f"By plan, at most {said} for each record" in claim(view(record))
    assert f"at most {said} over the whole training" in clause(record, "What each client spends").text
    assert budget(view(record)) == "at epsilon 1.23457"
    assert (row["epsilon"], row["delta"]) == ("1.23457", "1.23457e-05")


def test_spent_in_training_is_the_greatest_over_seeds_and_never_too_small(make_record):
    record = make_record("many")
    most = np.max(record["training"]["spent_epsilon"], axis=0)
    spends = whole(clause(record, "What each client spends"))
    least, greatest = map(float, re.search(r"clients spent epsilon ([\d.]+) to ([\d.]+)", spends).groups())
    assert most.min() <= least <= 1.001 * most.min()
    assert most.max() <= greatest <= 1.001 * most.max()
    assert "the least and the greatest of the clients' own budgets" in spends


def test_a_delta_that_would_let_a_record_be_given_away_is_told(make_record):
    record = make_record("full")
    known, rows = record["federation"], record["plan"]["privacy"]["clients"]
    name, size = known["clients"][0], known["sizes"][0]
    said = "Delta is not below 1 over the number of records of "
    assert said not in whole(clause(record, "What is not protected"))
    rows[0]["delta"] = 1 / size
    assert f"{said}{name}: to give away one record" in whole(clause(record, "What is not protected"))


def test_what_the_statement_must_say(make_record):
    record = make_record("full")
    text = " ".join(f"{c.title} {whole(c)}" for c in privacy_statement(record))
    for said in (
        "one record of one client", "replace-one", record["plan"]["privacy"]["adversary"], "L2 norm 0.8",
        "no amplification by client sampling", "How many records each client holds", "Who takes part",
        "Every other run on the same records adds", "test set and public data", "Assurance: simulation",
        "Do not release", "closed form", "noiseworthy 0.1.0", "was not used", "13 settings",
    ):  # fmt: skip
        assert said in text, said


@pytest.mark.parametrize("name", ["local_steps", "whole_updates", "coins", "no_coins"])
def test_at_client_level_all_that_a_client_holds_is_exchanged(make_record, name):
    record = make_record(name)
    protected = clause(record, "What is protected").text
    assert "one client with everything that it holds" in protected
    assert "everything that one client holds were exchanged for anything else" in protected
    assert "Single records of a client are covered by this, too" in protected
    limits = whole(clause(record, "What is not protected"))
    assert "records at several clients is protected less" in limits
    assert "true of many clients is learnt" in limits
    record["plan"]["privacy"]["relation"] = "add-remove"
    left_out = clause(record, "What is protected").text
    assert "uploaded noise alone" in left_out
    assert "takes two such changes" in left_out


@pytest.mark.parametrize("mode", "ABCDE")
def test_every_clipping_mode_says_what_is_clipped(make_record, mode):
    record = make_record("local_steps")
    record["plan"]["clipping_mode"] = mode
    assert f"at L1 norm 2, {WORDS[mode]}" in clause(record, "By what means").text


def test_modes_of_convex_losses_state_their_condition(make_record):
    means = whole(clause(make_record("convex_steps"), "By what means"))
    assert "rests on a convex loss and on steps of at most twice the inverse of its smoothness" in means
    assert "No model was at hand to check it." in means
    record = make_record("local_steps")
    assert clause(record, "By what means").points == ()
    record["plan"]["clipping_mode"] = "E"
    assert "This was checked for the model." in whole(clause(record, "By what means"))


def test_an_upload_is_what_the_algorithm_sends(make_record):
    sent = {name: clause(make_record(name), "By what means").text for name in ("local_steps", "coins")}
    assert "change of the model by 2 local steps on all its records" in sent["local_steps"]
    assert "in the first round, falling with the step sizes to" in sent["local_steps"]
    assert "since the last communication, by local steps on all its records" in sent["coins"]
    assert "corrected by its control variate" in sent["coins"]
    assert "on batches of 16 records" in clause(make_record("whole_updates"), "By what means").text


@pytest.mark.parametrize("name", ["noised_steps", "noised_batches"])
def test_noised_steps_pay_for_the_steps_of_a_record_and_not_for_uploads(make_record, name):
    record = make_record(name)
    plan, means = record["plan"], whole(clause(record, "By what means"))
    assert "Each local step moves by the mean gradient over" in means
    assert "each record's gradient clipped to L2 norm 1, plus Gaussian noise" in means
    assert "drawn anew in every step" in means
    least, most = min(plan["releases"]), max(plan["releases"])
    steps = f"{least}" if least == most else f"{least} to {most}"
    assert f"pays for {steps} noised steps of each record" in means
    assert f"uploads its model {plan['rounds']} times" in means
    assert "this needs no convex loss" in means
    assert "sees only the last model of every round" in means
    assert "it has a margin" in means
    assert "Steps that a record is in are counted" in clause(record, "How it is counted").text
    assert all(row["spent_epsilon"] <= row["epsilon"] for row in plan["privacy"]["clients"])


def test_disjoint_batches_are_why_a_record_is_not_in_every_step(make_record):
    means = clause(make_record("noised_batches"), "By what means").text
    assert "a batch of 200 records (all of a client that has fewer)" in means
    assert "a record is in one of them at most, and not in all 42 steps" in means
    assert "disjoint" not in clause(make_record("noised_steps"), "By what means").text


def test_the_printed_formula_says_what_it_would_leak(make_record):
    """docs/theory/hu.md#wrong-root: 78.7 exactly and 85.0 by the paper's conversion for a budget of 4."""
    leaked = clause(make_record("noised_steps"), "As printed: not private")
    assert "K = 64, τ = 7 and noise 0.00663; here the noise is 0.0674" in leaked.text
    assert leaked.points == (
        "Of a budget of epsilon 4 the printed noise would spend 78.72, counted exactly, and 84.97 by the "
        "paper's own conversion.",
        "The printed setting could not be run: τ = 7 does not divide K = 64.",
    )
    idle = clause(make_record("no_noised_steps"), "As printed: not private")
    assert "here nothing is trained" in idle.text
    assert "Of a budget of epsilon 0.1 the printed noise would spend 68.23" in idle.points[0]


def test_a_search_over_the_grid_has_a_price(make_record):
    for name in ("noised_steps", "full", "local_steps", "coins"):
        record = make_record(name)
        said = whole(clause(record, "What is not protected"))
        assert "all together, spend epsilon 17.25 of the client that is worst off" in said
        record["compare"].pop("search_epsilon")
        assert "all together" not in whole(clause(record, "What is not protected"))


def test_coins_are_charged_as_they_fell(make_record):
    record = make_record("coins")
    counted = whole(clause(record, "How it is counted"))
    assert "drawn before training (seed 0)" in counted
    assert "the 4 rounds that they give are charged, not their mean of 6.93" in counted
    assert "when the coins make clients communicate" in whole(clause(record, "What is not protected"))
    assert "coins" not in whole(clause(make_record("local_steps"), "How it is counted"))


@pytest.mark.parametrize(
    ("name", "setting"), [("coins", "T = 113, p = 0.224"), ("local_steps", "T = 120, E = 24, b = 5")]
)
def test_the_printed_setting_of_every_planner_is_named(make_record, name, setting):
    said = clause(make_record(name), "As printed: not private").text
    assert setting in said
    assert make_record(name)["plan"]["as_printed"]["why"] in said


def test_a_printed_answer_without_noise_is_left_out(make_record):
    record = make_record("coins")
    record["plan"]["as_printed"].update(iterations=None, rounds=None)
    record["plan"]["as_printed"].pop("noise")
    assert all("As printed" not in c.title for c in privacy_statement(record))


def test_simulation_is_a_warning_and_comes_first(make_record):
    first = privacy_statement(make_record("full"))[0]
    assert first.kind == "warning"
    assert "no privacy mechanism" in first.title
    record = make_record("full")
    record["training"]["assurance"] = "grid-csprng"
    assert all(c.kind != "warning" for c in privacy_statement(record))
    assert "grid-csprng" in clause(record, "Noise").text


def test_a_run_without_noise_says_so_and_claims_nothing(make_record):
    found = privacy_statement(make_record("no_noise"))
    assert found[0].kind == "warning"
    assert found[0].text.startswith("NOT PRIVATE")
    assert all(c.kind != "claim" for c in found)
    assert not re.search(r"epsilon \d", " ".join(map(whole, found)))


def test_a_plan_that_was_not_trained_says_so(make_record):
    assert "Nothing has been trained" in clause(make_record("plan_only"), "A plan so far").text


def test_not_training_spends_nothing(make_record):
    record = make_record("do_not_train")
    assert "can cost is epsilon 0." in whole(clause(record, "What each client spends"))
    assert "No client uploads" in clause(record, "By what means").text
    assert all("As printed" not in c.title for c in privacy_statement(record))


def test_a_client_past_its_budget_is_a_warning(make_record):
    record = make_record("full")
    record["training"]["spent_epsilon"][1][3] = 4.5
    over = clause(record, "Budget exceeded")
    assert over.kind == "warning"
    assert over.points == ("client 3: 4.5 of 4",)
    record["training"]["spent_epsilon"][1][3] = None
    assert clause(record, "Budget exceeded").points == ("client 3: unbounded of 4",)
    assert "without bound" in whole(clause(record, "What each client spends"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"mechanism": "gaussian", "sampling_rate": 1.0}, "closed form"),
        ({"mechanism": "gaussian", "sampling_rate": 0.1}, "dp-accounting"),
        ({"mechanism": "laplace", "sampling_rate": 1.0}, "exact law of the privacy loss"),
    ],
)
def test_the_accountant_is_named(make_record, change, said):
    record = make_record("full")
    record["plan"].update(change)
    assert said in clause(record, "How it is counted").text
    if change["sampling_rate"] < 1:
        assert "probability 0.1" in clause(record, "By what means").text


def test_pure_laplace_is_a_sum(make_record):
    assert "sum of pure epsilons" in clause(make_record("plan_only"), "How it is counted").text


def test_other_neighbours_and_bought_constants_are_named(make_record):
    record = make_record("full")
    record["plan"]["privacy"]["relation"] = "add-remove"
    record["plan"]["constants"]["gamma"]["provenance"] = "bought (0.2, 1e-6)"
    assert "left out or added" in clause(record, "What is protected").text
    assert "bought constants before planning" in whole(clause(record, "What each client spends"))


def test_a_huge_epsilon_is_called_what_it_is(make_record):
    record = make_record("full")
    for row in record["plan"]["privacy"]["clients"]:
        row["epsilon"] = 1000.0
    record["claim"] = {}
    assert "next to no guarantee" in clause(record, "What each client spends").text


def test_as_printed_is_left_out_where_it_is_the_same(make_record):
    record = make_record("full")
    plan = copy.deepcopy(record["plan"])
    plan["as_printed"].update({key: plan[key] for key in ("rounds", "clients_per_round", "noise")})
    assert clause(record, "As printed: not private").kind == "limit"
    assert all("As printed" not in c.title for c in privacy_statement({**record, "plan": plan}))


def test_what_clients_keep_to_themselves_is_covered_by_the_claim(make_record):
    said = whole(clause(make_record("transformed_records"), "By what means"))
    assert "clipped together with that of the model, as one, and noised alike" in said
    for other in ("weighed_replies", "chosen_clients"):
        assert "transform" not in whole(clause(make_record(other), "By what means"))
