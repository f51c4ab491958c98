"""An audit for people: the picture, the page, the panel, and the files of a run folder."""

from __future__ import annotations

import json
from io import StringIO
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from rich.console import Console

from noiseworthy._wording import rounded_down
from noiseworthy.audit.audits import Check
from noiseworthy.errors import DataError
from noiseworthy.reports.audit import audit_figure, audit_panel, checks, client_rows, page, write_audit
from noiseworthy.reports.style import styled
from noiseworthy.studies.audit import verdict, with_audit
from noiseworthy.studies.typed_audit import AuditRecord


def each(client: int, claimed: float) -> dict[str, float]:
    return {"client": client, "claimed_epsilon": claimed, "proven_epsilon": 0.9 * claimed}


def training(name: str = "training", passed: bool = True) -> dict[str, Any]:
    """What an audit says of one training, scores drawn from two normal laws."""
    edges = np.linspace(-3, 3, 31)
    rates = np.linspace(0, 1, 11)
    counts = [np.exp(-((edges[:-1] - shift) ** 2) / 2) * 1000 for shift in (-0.5, 0.5)]
    found = "the worst canary gives away epsilon 4 of client 0, 4 is claimed"
    return {
        "name": name, "rounds": 12, "client": 1, "delta": 1e-5,
        "claimed_epsilon": 4.0, "proven_epsilon": 3.619,
        "family_free_epsilon": 1.2, "exposed_epsilon": 4.0, "trials": 40_000, "errors": 13_000, "subjects": 3,
        "seconds": 7.2,
        "proven": [each(0, 4.0), each(1, 1.0), each(2, 4.0)],
        "checks": [{"name": "exposure", "passed": passed, "says": found}],
        "residuals": {"p_value": 0.4, "ratio": 1.0, "worst": 1.1, "where": "client 2", "count": 900},
        "replay": {"p_value": 0.6, "correlation": 0.01, "where": "rounds 1 and 2", "repeated": 0},
        "scores": {"edges": edges.tolist(), "absent": counts[0].tolist(), "present": counts[1].tolist()},
        "curves": {
            "rates": rates.tolist(),
            "claimed": ((1 - rates) ** 2).tolist(), "proven": ((1 - rates) ** 1.9).tolist(),
            "attacker": {"false_alarms": rates.tolist(), "misses": ((1 - rates) ** 1.95).tolist()},
        },
    }  # fmt: skip


def made(passed: bool = True, names: tuple[str, ...] = ("training",)) -> dict[str, Any]:
    return {
        "name": "study <b>", "version": "0.1.0", "algorithm": "fedsgd-dpc", "mechanism": "gaussian",
        "unit": "record", "relation": "replace-one", "adversary": "the server", "assurance": "simulation",
        "clients": 3, "passed": passed, "verdict": "Nothing speaks against the claim.", "confidence": 0.95,
        "false_alarm": 0.001, "trainings": [training(name, passed) for name in names],
        "run": [{"name": "ledger", "passed": True, "says": "the chain holds"}], "seconds": 21.0,
    }  # fmt: skip


def shown(audit) -> str:
    console = Console(file=StringIO(), width=80)
    console.print(audit_panel(audit))
    return console.file.getvalue()


def test_brackets_in_the_name_of_a_folder_are_shown():
    audit = made()
    audit["run"] = [{"name": "ledger", "passed": False, "says": "runs/[a]/ledger.sqlite is damaged"}]
    assert "runs/[a]/ledger.sqlite is damaged" in shown(audit)


@pytest.mark.full
@pytest.mark.parametrize("names", [("training",), ("stage 1", "stage 2")])
def test_a_folder_holds_page_picture_and_values(tmp_path, names):
    path = write_audit(made(names=names), tmp_path / "run")
    assert path.name == "audit.html"
    assert json.loads((tmp_path / "run" / "audit.json").read_text()) == made(names=names)
    assert (tmp_path / "run" / "audit.png").read_bytes()[:4] == b"\x89PNG"


def test_the_page_shows_both_bounds_and_loads_nothing():
    text = page(AuditRecord.view(made()))
    assert "<h1>The claim stands</h1>" in text
    assert "3.61" in text
    assert "study &lt;b&gt;" in text
    assert "http" not in text.split("</style>")[1].replace("http://www.w3.org", "")


def test_a_refuted_claim_is_the_headline_and_its_check_is_marked():
    text = page(AuditRecord.view(made(passed=False)))
    assert "<h1>The claim is refuted</h1>" in text
    assert "FAILED" in text
    assert "FAILED" in shown(made(passed=False))


def test_the_panel_fits_80_columns_and_never_overstates_what_is_proven():
    said = " ".join(shown(made()).replace("│", " ").split())
    assert "epsilon between 3.61 (proven, 95 % confidence) and 4 (claimed)" in said
    assert max(map(len, shown(made()).splitlines())) <= 80


def test_checks_of_two_stages_are_told_apart_and_those_of_the_run_follow():
    rows = checks(AuditRecord.view(made(names=("stage 1", "stage 2"))))
    assert [row["check"] for row in rows] == ["stage 1: exposure", "stage 2: exposure", "ledger"]


def test_clients_of_one_claim_share_a_row():
    assert client_rows(AuditRecord.view(made())) == [
        {"clients": "1", "claimed epsilon": "1", "proven epsilon": "0.90"},
        {"clients": "2", "claimed epsilon": "4", "proven epsilon": "3.60"},
    ]


def test_the_picture_has_two_panels_for_each_training():
    assert len(audit_figure(AuditRecord.view(made())).axes) == 2
    figure = audit_figure(AuditRecord.view(made(names=("stage 1", "stage 2"))))
    assert len(figure.axes) == 4
    assert figure.axes[0].get_title(loc="left").startswith("Stage 1: the attacker")


def test_shares_of_trials_end_at_100_per_cent_and_their_scores_do_not_run_into_each_other():
    told = made()
    scores = told["trainings"][0]["scores"]
    scores["edges"] = np.linspace(-0.0019, 0.0019, 31).tolist()
    scores["absent"], scores["present"] = [40_000] + [0] * 29, [0] * 29 + [40_000]
    figure = audit_figure(AuditRecord.view(told))
    axes = figure.axes[0]
    assert max(axes.get_yticks()) == pytest.approx(1.0)
    styled(figure.draw_without_rendering)()
    boxes = [label.get_window_extent() for label in axes.get_xticklabels() if label.get_text()]
    assert all(left.x1 + 5 < right.x0 for left, right in pairwise(boxes))


@pytest.mark.parametrize(("value", "written"), [(0.0, "0"), (-1.0, "0"), (2.999, "2.99"), (0.004, "0.00")])
def test_a_lower_bound_is_rounded_down(value, written):
    assert rounded_down(value) == written


def test_a_record_takes_what_reports_ask_for():
    record = with_audit({"name": "run"}, made())
    assert record["name"] == "run"
    assert record["audit"]["epsilon_lower"] == 3.619
    assert record["audit"]["epsilon_claimed"] == 4.0
    assert record["audit"]["trials"] == 40_000


def test_a_verdict_names_every_check_that_failed_once():
    found = SimpleNamespace(checks=(Check("scale", False, ""), Check("bound", True, "")))
    assert verdict((found, found)) == "The audit speaks against the claim: scale."


def test_a_verdict_says_that_more_than_is_claimed_is_shown_by_chance():
    """It said that nothing speaks against the claim, and that 103 % of it are proven."""
    sound = {"checks": (Check("bound", True, ""),), "proven": 3.1, "claimed": 3.204}
    one, two = (SimpleNamespace(**sound, beyond=said) for said in ("stage 1 shows more", ""))
    assert verdict((one, two)) == (
        "Nothing is proven against the claim, but stage 1 shows more; try more --trials."
    )
    assert "proves epsilon 3.10 of the 3.21 that are claimed" in verdict((two,))


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        write_audit(made(), tmp_path / "file")


def test_a_record_that_is_none_is_refused_by_the_key_that_is_wrong():
    torn = made()
    torn["trainings"][0]["trails"] = torn["trainings"][0].pop("trials")
    with pytest.raises(ValidationError) as refused:
        AuditRecord.view(torn)
    assert {error["loc"] for error in refused.value.errors()} == {
        ("trainings", 0, "trials"),
        ("trainings", 0, "trails"),
    }
