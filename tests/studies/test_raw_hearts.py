"""A raw csv of four hospitals, with words, gaps and dates, is planned as it is, by `[columns]` alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from noiseworthy.studies.loading import load_study
from noiseworthy.studies.opening import open_federation
from noiseworthy.studies.studies import plan, train_in

WORDS = {
    "sex": {0: "female", 1: "male"},
    "cp": {1: "typical angina", 2: "atypical angina", 3: "other pain", 4: "no pain"},
    "fbs": {0: "no", 1: "yes"},
    "restecg": {0: "normal", 1: "ST-T abnormal", 2: "hypertrophy"},
    "exang": {0: "no", 1: "yes"},
    "slope": {1: "up", 2: "flat", 3: "down"},
    "thal": {3: "normal", 6: "fixed defect", 7: "reversible defect"},
}
"""What the codes of heart-disease.names mean."""
STUDY = """
[federation]
data = "hearts.csv"

[columns]
hospital  = { role = "client" }
diagnosis = { role = "label", classes = ["well", "ill"] }
age       = { kind = "number", range = [18, 100] }
sex       = { kind = "category", values = ["female", "male"] }
cp        = { kind = "category", values = ["typical angina", "atypical angina", "other pain", "no pain"] }
trestbps  = { kind = "number", range = [80, 220], missing = 120, gaps = [0] }
chol      = { kind = "number", range = [100, 600], transform = "log", missing = 240, gaps = [0] }
fbs       = { kind = "yes-no", missing = true }
restecg   = { kind = "category", values = ["normal", "ST-T abnormal", "hypertrophy"], missing = true }
thalach   = { kind = "number", range = [60, 220], missing = 150 }
exang     = { kind = "yes-no", missing = true }
oldpeak   = { kind = "number", range = [0, 6], missing = 0 }
slope     = { kind = "ordered", values = ["up", "flat", "down"], missing = true }
ca        = { kind = "number", range = [0, 3], missing = 0 }
thal      = { kind = "category", values = ["normal", "fixed defect", "reversible defect"], missing = true }
visit     = { kind = "date", range = ["1981-01-01", "1987-12-31"] }
notes     = { kind = "left-out" }

[privacy]
mechanism = "gaussian"
epsilon = 2.0
delta = 1e-5

[training]
seeds = [0, 1, 2, 3, 4]
"""
pytestmark = pytest.mark.data


@pytest.fixture
def study(data_dir, tmp_path):
    coded = pd.read_csv(data_dir / "heart-disease" / "heart_disease_4sites.csv.gz")
    days = np.random.default_rng(0).integers(0, 7 * 365, len(coded))
    worded = {name: coded[name].map(words) for name, words in WORDS.items()}
    table = coded.assign(
        **worded, hospital=coded["site"], visit=(np.datetime64("1981-01-01") + days).astype(str),
        notes="seen by a nurse, twice", diagnosis=np.where(coded["num"] > 0, "ill", "well"),
    )  # fmt: skip
    table.drop(columns=["site", "num"]).to_csv(tmp_path / "hearts.csv", index=False)
    (tmp_path / "study.toml").write_text(STUDY)
    return load_study(tmp_path / "study.toml")


def test_words_gaps_and_dates_become_numbers_within_one(study):
    federation = open_federation(study)
    assert federation.clients == ("cleveland", "hungarian", "switzerland", "va")
    assert federation.record_shape == (32,)
    assert np.abs(federation.x).max() <= 1
    assert federation.schema is not None
    lost = np.array([name.endswith(" is missing") for name in federation.schema.feature_names])
    assert 0.15 < federation.x[2, : federation.sizes[2], lost].mean() < 0.5  # Switzerland has most gaps


@pytest.mark.slow
def test_the_default_plan_reaches_the_bar_at_epsilon_2(study, tmp_path):
    """62 % were reached by a table made numeric by hand; without privacy 79 %, the majority has 55 %."""
    record = train_in(plan(study), tmp_path / "run", name="hearts")
    accuracy = np.array(record["training"]["accuracy"])[:, -1]
    assert accuracy.shape == (5,)
    assert accuracy.mean() >= 0.77
