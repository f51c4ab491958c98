"""`noiseworthy audit`: bounds beside the claim, a page, the run folder, exit code 1 for a claim refuted."""

from __future__ import annotations

import json

import equinox as eqx
import pytest

from noiseworthy.engines import resident
from noiseworthy.methods import algorithm as uploading
from noiseworthy.privacy.noise import simulated_noise

STUDY = {
    "federation": {"data": "wine", "clients": 4, "partition": "iid"},
    "task": {"model": "softmax", "feature_norm": 1.0, "normalise": True},
    "privacy": {"mechanism": "gaussian", "epsilon": 3.0, "delta": 1e-5, "clip_norm": 0.5},
    "algorithm": {"name": "fedsgd-dpc", "rounds": 10, "clients_per_round": 2, "step_size": 0.5},
    "training": {"seeds": [0, 1]},
}
FROM_SIZES = {
    **STUDY,
    "federation": {"sizes": [40, 60]},
    "task": {"dimension": 30},
    "constants": {
        "smoothness": 1.0, "strong_convexity": 0.1, "gradient_bound": 1.0, "initial_distance_sq": 9.0,
        "heterogeneity": 0.1,
    },
}  # fmt: skip
FEW = ("--trials", "3000")


@pytest.mark.slow
@pytest.mark.usefixtures("drawn")
def test_json_is_the_audit_and_the_folder_holds_page_and_picture(run, write, tmp_path):
    study = write(STUDY)
    assert run("train", study, "--out", "here").code == 0
    answer = run("audit", study, "--out", "here", "--json", *FEW)
    assert answer.code == 0, answer.err
    made = json.loads(answer.out)
    assert made == json.loads((tmp_path / "here" / "audit.json").read_text())
    (one,) = made["trainings"]
    assert 1.5 < one["proven_epsilon"] < one["claimed_epsilon"] == pytest.approx(3.0)
    assert [check["name"] for check in made["run"]] == ["run", "ledger"]
    assert all(check["passed"] for check in (*one["checks"], *made["run"]))
    assert (tmp_path / "here" / "audit.png").stat().st_size > 10_000
    page = (tmp_path / "here" / "audit.html").read_text()
    assert "<h1>The claim stands</h1>" in page
    assert "http" not in page.split("</style>")[1].replace("http://www.w3.org", "")
    record = json.loads((tmp_path / "here" / "record.json").read_text())
    assert record["audit"]["epsilon_lower"] == one["proven_epsilon"]
    assert "proves epsilon of at least" in (tmp_path / "here" / "report.html").read_text()


def test_a_refuted_claim_ends_with_exit_code_1(run, write, monkeypatch):
    def half(key, law, size, dimension, parts):
        return simulated_noise(key, law, size / 2, dimension)

    monkeypatch.setattr(uploading, "simulated_noise", half)
    monkeypatch.setattr(resident, "_advance", eqx.filter_jit(resident._advance.__wrapped__))  # compiled anew
    answer = run("audit", write(STUDY), *FEW)
    assert answer.code == 1, answer.err
    said = " ".join(answer.out.split())
    assert "The audit speaks against the claim: bound, scale." in said
    assert "FAILED" in said
    assert max(map(len, answer.out.splitlines())) <= 80


@pytest.mark.full
def test_a_study_without_data_is_audited_from_its_sizes(run, write):
    answer = run("audit", write(FROM_SIZES), *FEW)
    assert answer.code == 0, answer.err
    assert "Nothing speaks against the claim" in " ".join(answer.out.split())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"privacy": {"mechanism": "none"}}, "claims nothing to audit"),
        ({"privacy": {"epsilon": 1e-4}, "algorithm": {"rounds": None}}, "does not train"),
    ],
)
def test_what_cannot_be_audited_is_one_line_and_exit_code_2(run, write, changes, words):
    answer = run("audit", write(FROM_SIZES, **changes), *FEW)
    assert answer.code == 2
    assert words in answer.err
    assert len(answer.err.splitlines()) == 1


def test_no_trials_are_refused(run, write):
    assert run("audit", write(STUDY), "--trials", "0").code == 2
