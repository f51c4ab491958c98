"""A stranger's diary: from a raw table of four hospitals to predictions, by what README says and no more."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from noiseworthy.studies.loading import load_study
from noiseworthy.studies.studies import plan, train_in

README = Path(__file__).parents[1] / "README.md"
WORDS = {
    "sex": {0: "female", 1: "male"},
    "cp": {1: "typical angina", 2: "atypical angina", 3: "other pain", 4: "no pain"},
    "fbs": {0: "no", 1: "yes"},
    "restecg": {0: "normal", 1: "ST-T abnormal", 2: "hypertrophy"},
    "exang": {0: "no", 1: "yes"},
    "slope": {1: "up", 2: "flat", 3: "down"},
    "thal": {3: "normal", 6: "fixed defect", 7: "reversible defect"},
}
ANSWERS = {
    **{name: f"values = {[*words.values()]}" for name, words in WORDS.items()},
    "ca": "values = [0, 1, 2, 3]",
    "oldpeak": "range = [-3, 7]",
    "examined": 'range = ["1981-01-01", "1987-12-31"]',
    "diagnosis": 'classes = ["clear", "narrowed"]',
}
"""What somebody who has the code book answers."""
NEW = 120
pytestmark = [pytest.mark.data, pytest.mark.full]


def drawn_days(draw: np.random.Generator, many: int) -> np.ndarray:
    """Days after the first examination."""
    return draw.integers(0, 6 * 365, many)


@pytest.fixture
def patients(data_dir) -> pd.DataFrame:
    """The table of all hospitals with words, gaps and dates."""
    coded = pd.read_csv(data_dir / "heart-disease" / "heart_disease_4sites.csv.gz")
    days = drawn_days(np.random.default_rng(0), len(coded))
    return coded.assign(
        **{name: coded[name].map(words) for name, words in WORDS.items()},
        **{name: coded[name].mask(coded[name] == 0) for name in ("trestbps", "chol")},
        examined=(np.datetime64("1981-05-01") + days).astype(str), hospital=coded["site"],
        diagnosis=np.where(coded["num"] > 0, "narrowed", "clear"),
    ).drop(columns=["site", "num"])  # fmt: skip


@pytest.fixture
def hospitals(patients, tmp_path) -> pd.DataFrame:
    """Some patients come later. Returns those, with their truth."""
    draw = np.random.default_rng(0)
    drawn_days(draw, len(patients))
    later = draw.permutation(len(patients))[:NEW]
    patients.drop(index=later).to_csv(tmp_path / "patients.csv", index=False)
    new = patients.loc[later]
    new.drop(columns="diagnosis").to_csv(tmp_path / "new.csv", index=False)
    return new


def commands() -> list[list[str]]:
    """The commands of README's section, word by word."""
    section = README.read_text().split("## From a table to predictions")[1].split("\n## ")[0]
    (block,) = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    return [shlex.split(line, comments=True) for line in block.splitlines()]


def answered(draft: str) -> str:
    """The draft with every question answered."""
    question = re.compile(r'^(\w+) = (.*?)\w+ = "[?]"', re.MULTILINE)
    return question.sub(lambda found: f"{found[1]} = {found[2]}{ANSWERS[found[1]]}", draft)


def carried_out(words: list[str], folder: Path) -> None:
    """A command as README has it, compiled as users do; after `init` every question is answered."""
    program, *rest = words
    assert program == "noiseworthy"
    command, env = [sys.executable, "-m", program, *rest], {**os.environ, "XLA_FLAGS": ""}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    if rest[0] == "init":
        study = folder / "study.toml"
        study.write_text(answered(study.read_text()))


def test_a_stranger_comes_from_a_raw_table_to_predictions(hospitals, tmp_path):
    typed = commands()
    assert len(typed) <= 6
    for words in typed:
        carried_out(words, tmp_path)
    predicted = pd.read_csv(tmp_path / "predicted.csv")
    assert predicted.columns.tolist()[-3:] == ["prediction", "probability clear", "probability narrowed"]
    right = predicted["prediction"].to_numpy() == hospitals["diagnosis"].to_numpy()
    assert right.mean() >= 0.72  # 79 % here, give or take 4 with the seed; the majority has 55 %


@pytest.mark.slow
def test_the_answered_draft_reaches_what_readme_says_in_the_mean_of_seeds(patients, tmp_path):
    """77 % at epsilon 2 on test records: one seed says little, twelve of one plan say it to a point."""
    patients.to_csv(tmp_path / "patients.csv", index=False)
    carried_out(commands()[0], tmp_path)
    study = load_study(tmp_path / "study.toml", {"training.seeds": [*range(12)]})
    assert study.privacy.epsilon == 2.0
    record = train_in(plan(study), tmp_path / "run", name="study")
    reached = [curve[-1] for curve in record["training"]["accuracy"]]
    assert np.mean(reached) >= 0.77
