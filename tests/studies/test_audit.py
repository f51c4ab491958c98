"""What a run folder adds to an audit: only a training by the audited plan counts, its ledger is verified."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from noiseworthy._json import strict_json
from noiseworthy.methods.fedsgd_dpc.planner import stated
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.durable import Account, Charge, DurableLedger
from noiseworthy.privacy.durable.accounts import WHOLE
from noiseworthy.privacy.durable.schedules import note_plan
from noiseworthy.studies.audit import _run_checks, kept_run


@pytest.fixture
def plan() -> Plan:
    problem = Problem(np.array([50, 80]), 3, PrivacyBudget.of(3.0, 1e-5, 2), "gaussian", 1.0)
    return stated(problem, 10, 1, StepSize(0.1))


@pytest.fixture
def keep(tmp_path, plan):
    """Writes the record of a training with those uploads in two seeds."""

    def write(uploads, by=plan):
        training = {
            "seeds": [0, 1], "rounds": [10], "loss": [[0.5], [0.5]], "accuracy": [[0.5], [0.5]],
            "uploads": uploads, "spent_epsilon": [[1.0, 1.0]] * 2, "untrained_loss": 0.7, "seconds": 1.0,
            "assurance": "simulation",
        }  # fmt: skip
        parts = {"name": "study", "created": "2026-01-01", "version": "0.1.0", "study": {}}
        parts |= dict.fromkeys(("federation", "evidence", "compare"))
        record = strict_json({**parts, "plan": by.as_dict(), "training": training})
        (tmp_path / "record.json").write_text(json.dumps(record))
        return tmp_path

    return write


def test_a_folder_without_a_training_by_this_plan_says_nothing(tmp_path, plan, keep):
    assert kept_run(plan, tmp_path) is None
    assert _run_checks(plan, None) == ()
    other = replace(plan, releases=plan.releases + 1)
    assert kept_run(plan, keep([[5, 5], [5, 5]], by=other)) is None


def test_uploads_as_planned_pass(plan, keep):
    (check,) = _run_checks(plan, keep([[5, 5], [5, 4]]))
    assert check.passed
    assert check.name == "run"


def test_an_upload_too_many_in_one_seed_fails(plan, keep):
    (check,) = _run_checks(plan, keep([[5, 5], [4, 6]]))
    assert not check.passed


def test_a_ledger_that_cannot_be_read_fails(plan, keep):
    folder = keep([[5, 5], [5, 5]])
    (folder / "ledger.sqlite").write_bytes(b"no ledger at all")
    check = _run_checks(plan, folder)[-1]
    assert (check.name, check.passed) == ("ledger", False)
    assert "ledger" in check.says


def test_the_last_bits_of_planned_noise_refute_no_claim(plan, keep):
    """Of a budget that is spent whole a ledger may hold some shares more than 2^62: a third of all do."""
    folder = keep([[5, 5], [5, 5]])
    one = Account("wards", "", "north", "epsilon", 3.0, 3.0, 0.0, "replace-one", "record")
    with DurableLedger.open(folder / "ledger.sqlite") as books:
        run, (account,) = books.begin("study"), books.enrol([one])
        note_plan(books, run, 0, [(account, 5)])
        books.reserve(run, [Charge(account, number, WHOLE // 5 + 20) for number in range(1, 6)])
    check = _run_checks(plan, folder)[-1]
    assert (check.name, check.passed) == ("ledger", True)
    assert "100 %" in check.says
