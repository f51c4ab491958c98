"""A regression on a table has an intercept, and a run without one says what it is worth."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from noiseworthy.data import load_records
from noiseworthy.model.folder import load_folder

STATED = {"rounds": 30, "clients_per_round": 3, "step_size": 0.5, "step_decay": "none"}


@pytest.fixture
def study(tmp_path):
    """Diabetes, whose progression is 25 to 346 and far from centred, as a table of three clinics."""
    records = load_records("diabetes-progression")
    x, y = np.concatenate([records.x, records.test_x]), np.concatenate([records.y, records.test_y])
    table = pd.DataFrame(x, columns=[f"f{i}" for i in range(x.shape[1])])
    table["label"], table["client"] = (y + 1) / 2 * 321 + 25, np.arange(len(y)) % 3
    table["split"] = np.repeat(["train", "test"], [len(records.x), len(records.test_x)])
    table.to_csv(tmp_path / "progression.csv", index=False)
    return {
        "federation": {"data": str(tmp_path / "progression.csv"), "regression": True},
        "task": {"normalise": True},
        "privacy": {"mechanism": "gaussian", "epsilon": 20.0, "delta": 1e-5, "clip_norm": 100.0},
        "algorithm": STATED,
    }


def trained(run, write, tables, folder):
    answer = run("train", write(tables), "--out", str(folder))
    assert answer.code == 0, answer.err
    record = json.loads((folder / "record.json").read_text())
    kept = load_folder(folder)
    return answer, record, kept.description.task.bias, kept.theta.shape


@pytest.mark.full
def test_a_regression_on_a_table_has_an_intercept_and_says_so(run, write, study, tmp_path):
    answer, record, bias, shape = trained(run, write, study, tmp_path / "with")
    assert record["training"]["accuracy"][0][-1] > 0.2
    assert record["training"]["flags"] == []
    assert (record["study"]["task"]["bias"], bias, shape) == (1.0, 1.0, (11,))
    assert "a constant of 1 appended, whose weight is the intercept" in " ".join(
        answer.out.replace("│", " ").split()
    )


@pytest.mark.full
def test_without_an_intercept_the_run_says_that_a_constant_would_do_better(run, write, study, tmp_path):
    bare = {**study, "task": {"normalise": True, "bias": False}}
    answer, record, bias, shape = trained(run, write, bare, tmp_path / "without")
    assert (bias, shape) == (0.0, (10,))
    (said,) = record["training"]["flags"]
    assert said.startswith("Worse than a constant: R² is -")
    assert "Worse than a constant: R² is -" in answer.out
    for page in ("report.html", "claim_card.html"):
        assert "Worse than a constant" in (tmp_path / "without" / page).read_text()
    card = json.loads((tmp_path / "without" / "claim_card.json").read_text())
    assert card["flags"] == [said]
