"""The claim card says what its record says, asks every question, and claims nothing that does not hold."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from noiseworthy.errors import DataError
from noiseworthy.plans.stages import Pilot
from noiseworthy.privacy.accountants import spent_epsilon
from noiseworthy.privacy.gaussian import gaussian_mu
from noiseworthy.reports.advice import advice_card
from noiseworthy.reports.claim_card import FILE, PAGE, claim_card, write_claim_card
from noiseworthy.reports.html import card_page, write_report
from noiseworthy.studies.claims import claim_facts
from noiseworthy.studies.statement import assurance
from noiseworthy.studies.typed_record import view
from noiseworthy.sweeps.typed_advice import AdviceRecord, AdvisedPart, PromisedPart

AUDIT = {
    "epsilon_lower": 3.7189, "epsilon_claimed": 4.0, "delta": 1e-5, "confidence": 0.95, "trials": 40_000,
    "passed": True, "verdict": "Nothing speaks against the claim.",
}  # fmt: skip


def answer(record, word):
    (found,) = [q for q in claim_card(record)["questions"] if word in q["question"]]
    return " ".join([found["answer"], *found["points"]])


def numbers_of(value):
    if isinstance(value, dict):
        return [n for part in value.values() for n in numbers_of(part)]
    if isinstance(value, list):
        return [n for part in value for n in numbers_of(part)]
    return [float(value)] if isinstance(value, int | float) and not isinstance(value, bool) else []


def test_every_question_has_an_answer_and_the_facts_stand_beside(record):
    card = claim_card(record)
    if not record["plan"]["privacy"]["private"]:
        assert not card["private"]
        assert card["questions"] == []
        assert "No privacy is claimed" in card["claim"]
        return
    assert len(card["questions"]) == 12 + ("several" in record["claim"])
    assert all(len(q["answer"]) > 20 for q in card["questions"])
    for fact in ("unit", "relation", "adversary", "accountant"):
        assert card[fact] == record["plan"]["privacy"][fact]
    assert card["version"] == record["version"]
    assert json.loads(json.dumps(card, allow_nan=False)) == card


def test_epsilon_is_that_of_the_record_and_never_written_too_small(record):
    card, rows = claim_card(record), record["plan"]["privacy"]["clients"]
    if not card["private"]:
        return
    epsilon = [row["epsilon"] for row in rows]
    assert card["lifetime"]["epsilon"] == [min(epsilon), max(epsilon)]
    spent = re.search(r"plan spends ([\d.]+)(?: to ([\d.]+))?", answer(record, "How much"))
    assert float(spent[2] or spent[1]) >= max(row["spent_epsilon"] for row in rows) * (1 - 1e-8)


def test_what_is_not_protected_is_all_of_the_statement_of_limits(record):
    from noiseworthy.reports.limits import limits

    if record["plan"]["privacy"]["private"]:
        assert claim_card(record)["not_protected"] == list(limits(view(record)).points)


@pytest.mark.parametrize(
    ("name", "stamp"), [("full", "simulation"), ("plan_only", None), ("do_not_train", "simulation")]
)
def test_the_stamp_says_where_noise_came_from(make_record, name, stamp):
    record = make_record(name)
    card = claim_card(record)
    assert card["assurance"] == assurance(view(record)) == stamp
    assert card["claim"].startswith("By plan, at most epsilon")
    which = answer(record, "Which noise")
    assert ("hide nothing" in which and "Do not release" in which) == (stamp == "simulation")
    assert ("None yet" in which) == (stamp is None)


def test_deployed_noise_is_stamped_as_such_and_claimed_without_reserve(make_record):
    record = make_record("full")
    record["training"]["assurance"] = "grid-csprng"
    record["compare"] = None
    assert claim_card(record)["claim"].startswith("Epsilon 4 at delta 1e-05 for each record")
    assert "without a seed by OpenDP" in answer(record, "Which noise")
    assert "simulated" not in card_page(claim_card(record))


def test_a_measured_bound_stands_beside_the_claim(make_record):
    record = make_record("full")
    assert claim_card(record)["measured"] is None
    assert "Not in this run" in answer(record, "measured")
    record["audit"] = AUDIT
    assert claim_card(record)["measured"] == AUDIT
    said = answer(record, "measured")
    for part in ("at least 3.71", "40,000 trials", "95", "beside the 4 claimed"):
        assert part in said


def test_a_claim_that_an_audit_refuted_is_not_made(make_record):
    record = {**make_record("full"), "audit": {**AUDIT, "passed": False, "verdict": "Noise is halved."}}
    assert claim_card(record)["claim"].startswith("No privacy is claimed: an audit refuted")
    assert "Noise is halved." in answer(record, "measured")


def test_the_paper_that_leaks_is_shown_beside(make_record):
    record = make_record("noised_steps")
    card = claim_card(record)
    assert card["as_printed"]["spends"] > card["as_printed"]["budget"]
    assert "it was not used" in answer(record, "the paper")


def test_a_record_of_an_earlier_version_has_a_card_too(make_record):
    record = make_record("full")
    record.pop("claim", None)
    card = claim_card(record)
    assert card["before"] is None
    assert card["looser"] == {}


def test_the_page_is_whole_escaped_and_loads_nothing(make_record):
    record = {**make_record("full"), "name": "<script>alert(1)</script>"}
    page = card_page(claim_card(record))
    assert "<script>" not in page
    assert not re.search(r"(src|href)=", page)
    for one in claim_card(record)["questions"]:
        assert one["question"] in page


@pytest.mark.full
def test_a_run_folder_keeps_the_card_for_people_and_for_programs(tmp_path, make_record):
    record = make_record("plan_only")
    write_report(record, tmp_path)
    assert json.loads((tmp_path / FILE).read_text()) == claim_card(record)
    assert claim_card(record)["claim"] in (tmp_path / "report.html").read_text()
    assert "What is not protected?" in (tmp_path / PAGE).read_text()


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(DataError, match=r"run folder .*nowhere cannot be written"):
        write_claim_card({}, "", tmp_path / "nowhere")


# Facts that only the plan knows ------------------------------------------------------------------------


def plan_of_replies(family="gaussian", delta=1e-5, pilot=None):
    from noiseworthy.methods.fedsgd_dpc import planner as queries_replies
    from noiseworthy.plans.plan import StepSize
    from noiseworthy.plans.problem import Problem
    from noiseworthy.privacy.budget import PrivacyBudget

    budget = PrivacyBudget.of(3.0, delta, 4)
    problem = Problem(np.full(4, 100), 10, budget, family, 1.0)
    return queries_replies.stated(problem, 20, 2, StepSize(0.1))


def test_zcdp_counts_the_same_noise_as_more():
    """rho + 2 sqrt(rho log(1/delta)) with rho = mu^2/2 of the whole schedule, by hand."""
    rho = float(gaussian_mu(3.0, 1e-5)) ** 2 / 2
    least, most = claim_facts(plan_of_replies())["looser"]["zCDP"]
    assert least == pytest.approx(rho + 2 * np.sqrt(rho * np.log(1e5)), rel=1e-6)
    assert least == most > 3.0


def test_basic_composition_counts_laplace_noise_as_more():
    plan = plan_of_replies("laplace")
    assert plan.release is not None
    pure = float((plan.releases * plan.release.shift).max())
    assert claim_facts(plan)["looser"] == {"basic composition": [pytest.approx(pure)] * 2}
    assert pure > float(plan.spent().max())
    assert claim_facts(plan_of_replies("laplace", 0.0))["looser"] == {}


def test_what_was_bought_before_is_counted_alone_and_in_all():
    import dataclasses

    plan = plan_of_replies()
    assert plan.release is not None
    assert claim_facts(plan)["before"] is None
    pilot = Pilot(((plan.release, np.full(4, 2)),), plan.budget)
    facts = claim_facts(dataclasses.replace(plan, pilot=pilot))
    alone = float(spent_epsilon(plan.release, 2, 1e-5)[0])
    assert facts["before"]["spent_epsilon"] == [pytest.approx(alone)] * 2
    assert facts["before"]["uploads"] == [2, 2]
    assert facts["looser"]["zCDP"][0] > claim_facts(plan)["looser"]["zCDP"][0]


# Advice ------------------------------------------------------------------------------------------------


def test_an_advice_claims_for_its_plans_and_cost_nothing():
    spent = PromisedPart(unit="client", relation="replace-one", spent_epsilon=3.999, epsilon=4.0, delta=1e-5)
    row = AdvisedPart.model_construct(name="dp-fedavg", privacy=spent)
    values = {"name": "ward", "version": "0.1.0", "algorithms": [row]}
    card = advice_card(AdviceRecord.model_construct(recommended="dp-fedavg", **values))
    assert "at most epsilon 3.999 at delta 1e-05 for each client" in card["claim"]
    assert card["plans"] == {"dp-fedavg": spent.model_dump()}
    assert card["questions"][0]["answer"].startswith("Nothing: it was made on public data")
    assert (
        "Nothing is recommended"
        in advice_card(AdviceRecord.model_construct(recommended=None, **values))["claim"]
    )


STATED = {
    "purpose": "finding wards <that> need staff",
    "responsible": "Dr. Weber",
    "valid_until": "2027-01-01",
}


def test_purpose_responsible_person_and_validity_are_those_of_the_study(make_record):
    record = make_record("full")
    assert "neither a purpose nor" in answer(record, "What for")
    record["study"]["claim"] = STATED
    card = claim_card(record)
    assert {name: card[name] for name in STATED} == STATED
    assert answer(record, "What for") == (
        "For finding wards <that> need staff. Dr. Weber answers for it. The claim may be relied on until "
        "2027-01-01."
    )
    page = card_page(card)
    assert "valid until" in page
    assert "&lt;that&gt;" in page
    record["study"]["claim"] = {"purpose": "staff"}
    assert answer(record, "What for") == "For staff. Nobody is named who answers for it."


def test_the_map_of_public_features_is_named_with_its_licence_and_nothing_where_there_is_none(record):
    """And what its channels are scaled by."""
    assert "features" not in claim_card(record)
    task = {**record["study"].get("task", {}), "features": "scattering", "reference": ["digits", "scenes"]}
    card = claim_card({**record, "study": {**record["study"], "task": task}})
    assert card["features"]["licence"] == "none needed, it is a formula"
    if not card["private"]:
        return
    (found,) = [one["answer"] for one in card["questions"] if "whose is it" in one["question"]]
    assert "Wavelet scattering" in found
    assert "public images (digits, scenes)" in found
    assert "costs no privacy" in card_page(card)


def test_random_fourier_features_are_named_with_the_numbers_that_make_them(record):
    task = {**record["study"].get("task", {}), "features": "fourier:160:1.5:3"}
    card = claim_card({**record, "study": {**record["study"], "task": task}})
    assert card["features"]["map"] == "Random Fourier features (160 numbers, bandwidth 1.5, public seed 3)"


def test_a_card_is_utf_8_on_every_machine(tmp_path, monkeypatch):
    """As where the locale is ASCII, in which names of owners cannot be written."""
    write = Path.write_text
    monkeypatch.setattr(Path, "write_text", lambda path, text, encoding="ascii": write(path, text, encoding))
    write_claim_card({"run": "北京"}, "ε", tmp_path)
    assert json.loads((tmp_path / FILE).read_bytes()) == {"run": "北京"}
