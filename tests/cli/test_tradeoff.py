"""`noiseworthy tradeoff` end to end: what it prints and writes, and one line for what it cannot do."""

from __future__ import annotations

import json

import numpy as np
import pytest

STUDY = {
    "federation": {"data": "breast-cancer", "clients": 4, "partition": "iid"},
    "task": {"model": "logistic", "ridge": 0.01, "feature_norm": 1.0, "normalise": True},
    "privacy": {"mechanism": "gaussian", "epsilon": 4.0, "delta": 1e-5, "clip_norm": 1.0},
    "resources": {"cost_per_round": 10.0, "cost_per_step": 1.0, "budget": 40.0, "unit": "joules"},
    "algorithm": {"name": "dp-pasgd", "step_size": 1.0},
    "constants": {
        "smoothness": 0.26, "strong_convexity": 0.05, "gradient_variance": 0.01, "initial_gap": 0.6,
        "noise_dimension": 1.0,
    },
    "tradeoff": {"epsilon": [4.0, 16.0], "budget": [5.0, 40.0], "seeds": [3, 4]},
}  # fmt: skip


@pytest.mark.full
@pytest.mark.usefixtures("drawn")
def test_json_is_the_record_alone_and_the_folder_holds_the_picture(run, write, tmp_path):
    answer = run("tradeoff", write(STUDY), "--out", "here", "--json")
    assert answer.code == 0, answer.err
    record = json.loads(answer.out)
    assert record == json.loads((tmp_path / "here" / "record.json").read_text())
    cells = record["tradeoff"]["cells"]
    assert [(cell["epsilon"], cell["budget"]) for cell in cells] == [(4, 5), (16, 5), (4, 40), (16, 40)]
    assert [bool(cell["reason"]) for cell in cells] == [True, True, False, False]
    assert [cell["own"] for cell in cells] == [False, False, True, False]
    assert np.shape([cell["accuracy"] for cell in cells[2:]]) == (2, 2)
    assert cells[2]["local_steps"] == record["plan"]["local_steps"]
    assert (tmp_path / "here" / "tradeoff.png").exists()
    assert "<h2>Trade-off</h2>" in (tmp_path / "here" / "report.html").read_text()
    assert "Trade-off" in (tmp_path / run("report", "here").out.split()[-1]).read_text()


@pytest.mark.full
def test_without_json_it_prints_the_plan_and_the_surface(run, write):
    answer = run("tradeoff", write(STUDY, tradeoff={"epsilon": [4.0]}))
    assert answer.code == 0, answer.err
    assert "Test accuracy for every pair of budgets" in answer.out
    assert "no plan" in answer.out
    assert "τ = " in answer.out
    assert "runs/study/report.html" in answer.out.replace("\n", "")


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ({"resources": None}, "the trade-off needs [resources]; state cost_per_round"),
        ({"privacy": {"mechanism": "none"}}, "the trade-off needs noise"),
        ({"tradeoff": {"budget": [1.0, 2.0], "epsilon": [1.0]}, "resources": {"budget": 40.0}},
         "no pair of budgets in [tradeoff] has a plan"),
        ({"resources": {"budget": 5.0}}, "must pay for one round"),
        ({"tradeoff": {"epsilon": [0.0]}}, "above 0"),
    ],
    ids=["no resources", "no noise", "all too poor", "own too poor", "epsilon 0"],
)  # fmt: skip
def test_what_has_no_tradeoff_is_one_line_and_leaves_no_folder(tables, says, run, write, tmp_path):
    answer = run("tradeoff", write(STUDY, **tables), "--out", "here")
    assert answer.code == 2
    assert says in answer.err
    assert answer.err.count("\n") == 1
    assert not (tmp_path / "here").exists()
