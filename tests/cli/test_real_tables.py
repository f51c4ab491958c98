"""Real tables come in: init drafts, a code book answers, check finds nothing to refuse, the rest goes on."""

from __future__ import annotations

import csv
import gzip
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from noiseworthy.data.readers import opened, read_columns
from noiseworthy.studies.loading import load_study


@dataclass(frozen=True)
class RealTable:
    """A table, how it is drafted, and the answers of its code book.

    Attributes:
        make: of the frame; takes the folder of data files.
        suffix: of the file that it comes in.
        options: of init.
        answers: what stands instead of a column's table, in TOML.
        ranges: what stands instead of every other open question for a range.
        needs_files: whether it is read from the folder of data files.
    """

    make: Callable[[Path], pd.DataFrame]
    suffix: str
    options: tuple[str, ...] = ()
    answers: dict[str, str] = field(default_factory=dict)
    ranges: str = "[0, 100]"
    needs_files: bool = False

    def written(self, folder: Path, data: Path) -> tuple[str, ...]:
        """The words after `noiseworthy init`, once the table lies in a folder."""
        frame, path = self.make(data), folder / f"table{self.suffix}"
        if self.suffix.startswith(".csv"):
            frame.to_csv(path, index=False)
        elif self.suffix == ".xlsx":
            frame.to_excel(path, index=False)
        elif self.suffix == ".parquet":
            frame.to_parquet(path)
        elif self.suffix == ".db":
            with closing(sqlite3.connect(path)) as database:
                frame.to_sql("records", database, index_label="row_number")
            return (
                f"sql:sqlite:///{path}",
                "--query",
                "select * from records order by row_number",
                *self.options,
            )
        else:
            frame.to_feather(path)
        return str(path), *self.options


def of_sklearn(name: str, **renamed: str) -> Callable[[Path], pd.DataFrame]:
    """A table that ships with scikit-learn, its target as text where it has names."""

    def make(_: Path) -> pd.DataFrame:
        from sklearn import datasets

        found: Any = getattr(datasets, f"load_{name}")(as_frame=True)
        frame = found.frame.rename(columns=renamed)
        names = getattr(found, "target_names", None)
        if "target" in frame and names is not None and name != "digits":
            frame["target"] = np.asarray(names)[frame["target"]]
        return frame

    return make


def of_openml(folder: str, columns: str) -> Callable[[Path], pd.DataFrame]:
    """A table of OpenML's that ships with scikit-learn's tests, as it was downloaded."""

    def make(_: Path) -> pd.DataFrame:
        place = files("sklearn.datasets.tests.data.openml") / folder
        (packed,) = [one for one in place.iterdir() if one.name.startswith("data-v1")]
        lines = gzip.decompress(packed.read_bytes()).decode().splitlines()
        start = [line.lower() for line in lines].index("@data") + 1
        rows = [line for line in lines[start:] if line and not line.startswith("%")]
        read = csv.reader(rows, skipinitialspace=True, escapechar="\\")
        return pd.DataFrame([*read], columns=columns.split())

    return make


def heart(data: Path) -> pd.DataFrame:
    return pd.read_csv(data / "heart-disease" / "heart_disease_4sites.csv.gz")


def adult(data: Path) -> pd.DataFrame:
    names = (
        "age workclass fnlwgt education education-num marital-status occupation relationship race sex "
        "capital-gain capital-loss hours-per-week native-country income"
    )
    path = data / "adult" / "adult.data.gz"
    return pd.read_csv(path, names=names.split(), skipinitialspace=True, nrows=6000)


def lending(data: Path) -> pd.DataFrame:
    path = data / "lending-club" / "lending_club_120k.csv.gz"
    return pd.read_csv(path, nrows=6000).drop(columns=["status", "int_rate_derived"])


def lending_2018(data: Path) -> pd.DataFrame:
    path = data / "lending-club" / "lending_club_2018q1_10k.csv.gz"
    kept = ["state", "homeownership", "annual_income", "verified_income", "debt_to_income", "emp_length",
            "loan_purpose", "application_type", "loan_amount", "term", "public_record_bankrupt",
            "interest_rate"]  # fmt: skip
    return pd.read_csv(path, usecols=kept, nrows=2000)


def vehicle(data: Path) -> pd.DataFrame:
    with np.load(data / "vehicle" / "vehicle_sample.npz") as found:
        frame = pd.DataFrame(found["X"], columns=[f"x{i}" for i in range(found["X"].shape[1])])
        return frame.assign(sensor=found["sensor"], label=found["y"].astype(int))


def school(data: Path) -> pd.DataFrame:
    with np.load(data / "school" / "school.npz") as found:
        frame = pd.DataFrame(found["X"], columns=[f"x{i}" for i in range(found["X"].shape[1])])
        return frame.assign(school=found["school"], score=found["y"].astype(float))


TITANIC = "pclass survived name sex age sibsp parch ticket fare cabin embarked boat body home.dest"
PENGUINS = "species island culmen_length_mm culmen_depth_mm flipper_length_mm body_mass_g sex"
ZOO = (
    "animal hair feathers eggs milk airborne aquatic predator toothed backbone breathes venomous fins "
    "legs tail domestic catsize type"
)
HEART = {
    "cp": '{ kind = "category", values = [1, 2, 3, 4] }',
    "chol": '{ kind = "number", range = [100, 600], gaps = [0], missing = true }',
    "restecg": '{ kind = "category", values = [0, 1, 2], missing = true }',
    "oldpeak": '{ kind = "number", range = [-3, 7], missing = true }',
    "slope": '{ kind = "ordered", values = [1, 2, 3], missing = true }',
    "ca": '{ kind = "number", range = [0, 3], missing = true }',
    "thal": '{ kind = "category", values = [3, 6, 7], missing = true }',
    "num": '{ role = "label", classes = { healthy = [0], ill = [1, 2, 3, 4] } }',
}
ADULT = {
    "workclass": '{ kind = "category", values = ["Private", "Self-emp-not-inc", "Self-emp-inc", '
    '"Federal-gov", "Local-gov", "State-gov", "Without-pay", "Never-worked"], gaps = ["?"], missing = true }',
    "fnlwgt": '{ kind = "left-out" }',
    "education": '{ kind = "left-out" }',
    "education-num": '{ kind = "number", range = [1, 16] }',
    "marital-status": '{ kind = "category", values = ["Married-civ-spouse", "Divorced", "Never-married", '
    '"Separated", "Widowed", "Married-spouse-absent", "Married-AF-spouse"] }',
    "occupation": '{ kind = "category", values = ["Exec-managerial", "Prof-specialty", "Other-service"], '
    'other = true, gaps = ["?"], missing = true }',
    "relationship": '{ kind = "category", values = ["Wife", "Own-child", "Husband", "Not-in-family", '
    '"Other-relative", "Unmarried"] }',
    "race": '{ kind = "category", values = ["White", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other", '
    '"Black"] }',
    "sex": '{ kind = "category", values = ["Female", "Male"] }',
    "capital-gain": '{ kind = "number", range = [0, 100000], transform = "sqrt" }',
    "capital-loss": '{ kind = "number", range = [0, 5000], transform = "sqrt" }',
    "native-country": '{ kind = "category", values = ["United-States"], other = true, gaps = ["?"], '
    "missing = true }",
    "income": '{ role = "label", classes = ["<=50K", ">50K"] }',
}
LENDING = {
    "loan_amnt": '{ kind = "number", range = [500, 40000] }',
    "term": '{ kind = "category", values = ["36 months", "60 months"] }',
    "annual_inc": '{ kind = "number", range = [1000, 10000000], transform = "log" }',
    "revol_bal": '{ kind = "number", range = [0, 2000000], transform = "sqrt" }',
    "home_ownership": '{ kind = "category", values = ["MORTGAGE", "OTHER", "OWN", "RENT"] }',
    "grade": '{ kind = "number", range = [0, 7] }',
    "outcome": '{ role = "label", classes = ["paid off", "default"] }',
    "emp_length": '{ kind = "number", range = [0, 12] }',
}
LENDING_2018 = {
    "emp_length": '{ kind = "number", range = [0, 10], missing = true }',
    "homeownership": '{ kind = "category", values = ["MORTGAGE", "OWN", "RENT"] }',
    "annual_income": '{ kind = "number", range = [0, 3000000], transform = "sqrt" }',
    "verified_income": '{ kind = "category", values = ["Not Verified", "Source Verified", "Verified"] }',
    "loan_purpose": '{ kind = "left-out" }',
    "application_type": '{ kind = "category", values = ["individual", "joint"] }',
    "public_record_bankrupt": '{ kind = "number", range = [0, 3] }',
    "loan_amount": '{ kind = "number", range = [500, 40000] }',
    "term": '{ kind = "category", values = [36, 60] }',
    "interest_rate": '{ role = "label", range = [0, 40] }',
}
TITANIC_STATED = {
    "pclass": '{ kind = "ordered", values = [1, 2, 3] }',
    "survived": '{ role = "label", classes = { drowned = [0], survived = [1] } }',
    "sex": '{ kind = "category", values = ["female", "male"] }',
    "fare": '{ kind = "number", range = [0, 600], transform = "sqrt", gaps = ["?"], missing = true }',
    "embarked": '{ kind = "category", values = ["C", "Q", "S"], gaps = ["?"], missing = true }',
    "boat": '{ kind = "left-out" }',
    "body": '{ kind = "left-out" }',
}
PENGUINS_STATED = {
    "species": '{ role = "label", classes = ["Adelie", "Chinstrap", "Gentoo"] }',
    "culmen_length_mm": '{ kind = "number", range = [25, 65], gaps = ["?"], missing = true }',
    "culmen_depth_mm": '{ kind = "number", range = [10, 25], gaps = ["?"], missing = true }',
    "flipper_length_mm": '{ kind = "number", range = [150, 250], gaps = ["?"], missing = true }',
    "body_mass_g": '{ kind = "number", range = [2000, 7000], gaps = ["?"], missing = true }',
    "sex": '{ kind = "category", values = ["FEMALE", "MALE"], gaps = ["?", "_"], missing = true }',
}
WINE = {
    "alcohol": "[10, 16]", "malic_acid": "[0, 8]", "ash": "[0, 5]", "alcalinity_of_ash": "[5, 35]",
    "magnesium": "[50, 180]", "total_phenols": "[0, 5]", "flavanoids": "[0, 6]",
    "nonflavanoid_phenols": "[0, 1]", "proanthocyanins": "[0, 4]", "color_intensity": "[0, 15]",
    "hue": "[0, 2]", '"od280/od315_of_diluted_wines"': "[0, 5]", "proline": "[100, 2000]",
}  # fmt: skip
CELLS = {"radius": 40, "texture": 60, "perimeter": 300, "area": 5000, "smoothness": 0.3, "compactness": 1.5,
         "concavity": 1.5, "concave points": 0.5, "symmetry": 1, "fractal dimension": 0.3}  # fmt: skip


def ranges(ends: dict[str, str]) -> dict[str, str]:
    return {name: f'{{ kind = "number", range = {text} }}' for name, text in ends.items()}


def of_cells() -> dict[str, str]:
    """Wisconsin's breast cancer table: mean, error and worst of ten measures of nuclei."""
    ends = {f'"{part} {name}"': f"[0, {most}]" for part in ("mean", "worst") for name, most in CELLS.items()}
    ends |= {f'"{name} error"': f"[0, {most / 8}]" for name, most in CELLS.items()}
    return ranges(ends) | {"target": '{ role = "label", classes = ["malignant", "benign"] }'}


def classes(*names: str) -> dict[str, str]:
    listed = ", ".join(f'"{name}"' for name in names)
    return {"target": f'{{ role = "label", classes = [{listed}] }}'}


TABLES = {
    "heart": RealTable(heart, ".csv", ("--label", "num"), HEART, needs_files=True),
    "adult": RealTable(adult, ".parquet", ("--label", "income"), ADULT, needs_files=True),
    "lending": RealTable(
        lending, ".csv.gz", ("--label", "outcome", "--client", "purpose"), LENDING, needs_files=True
    ),
    "lending-2018": RealTable(
        lending_2018, ".xlsx", ("--label", "interest_rate", "--client", "state"), LENDING_2018, "[0, 100]",
        needs_files=True,
    ),
    "vehicle": RealTable(
        vehicle, ".feather", (), {"label": '{ role = "label", classes = [-1, 1] }'}, "[-6, 6]",
        needs_files=True,
    ),
    "school": RealTable(
        school, ".csv", ("--label", "score"), {"score": '{ role = "label", range = [0, 70] }'},
        needs_files=True,
    ),
    "iris": RealTable(
        of_sklearn("iris"), ".csv", (), classes("setosa", "versicolor", "virginica"), "[0, 10]"
    ),
    "wine": RealTable(
        of_sklearn("wine"), ".xlsx", (), ranges(WINE) | classes("class_0", "class_1", "class_2")
    ),
    "breast-cancer": RealTable(of_sklearn("breast_cancer"), ".arrow", (), of_cells()),
    "diabetes": RealTable(
        of_sklearn("diabetes"), ".parquet", (), {"target": '{ role = "label", range = [25, 350] }'},
        "[-0.2, 0.2]",
    ),
    "digits": RealTable(
        of_sklearn("digits"), ".csv.gz", (),
        {f"pixel_{i}_{j}": '{ kind = "number", range = [0, 16] }' for i in range(8) for j in range(8)}
        | {"target": '{ role = "label", classes = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] }'},
    ),
    "linnerud": RealTable(
        of_sklearn("linnerud"), ".db", ("--label", "Weight"),
        {"Weight": '{ role = "label", range = [80, 300] }'}, "[0, 300]",
    ),
    "titanic": RealTable(
        of_openml("id_40945", TITANIC), ".csv", ("--label", "survived"), TITANIC_STATED, "[0, 10]"
    ),
    "penguins": RealTable(
        of_openml("id_42585", PENGUINS), ".db", ("--label", "species", "--client", "island"), PENGUINS_STATED
    ),
    "zoo": RealTable(
        of_openml("id_62", ZOO), ".feather", ("--label", "type"),
        {"legs": '{ kind = "number", range = [0, 8] }',
         "type": '{ role = "label", classes = ["mammal", "bird", "reptile", "fish", "amphibian", "insect", '
         '"invertebrate"] }'},
    ),
}  # fmt: skip


MARKS = {True: [pytest.mark.data], False: []}
ALL = [pytest.param(name, marks=MARKS[table.needs_files]) for name, table in TABLES.items()]


def answered(path: Path, table: RealTable) -> None:
    """Fill a draft in: what the code book says of a column, else a range where one is asked for."""
    lines = path.read_text().splitlines()
    for name, stated in table.answers.items():
        (place,) = [i for i, line in enumerate(lines) if line.startswith(f"{name} = {{")]
        lines[place] = f"{name} = {stated}"
    text = "\n".join(lines).replace('range = "?"', f"range = {table.ranges}") + "\n"
    path.write_text(text)


def drafted(name: str, run, folder: Path, data: Path) -> None:
    """A study of a table, filled in."""
    table = TABLES[name]
    said = run("init", *table.written(folder, data))
    assert said.code == 0, said.err
    answered(folder / "study.toml", table)


@pytest.mark.full
@pytest.mark.parametrize("name", ALL)
def test_a_real_table_comes_in(name, data_dir, run, tmp_path):
    drafted(name, run, tmp_path, data_dir)
    said = run("check", "study.toml", "--json")
    assert said.err == ""
    found = json.loads(said.out)
    assert [one for one in found["findings"] if one["level"] == "refused"] == []
    assert said.code == 0
    assert found["records"] > 0


@pytest.mark.full
@pytest.mark.parametrize("name", ALL)
def test_a_real_table_is_planned_trained_and_predicted(name, data_dir, run, tmp_path):
    """With stated rounds and steps, so that nothing is tried; new rows are its own, without labels."""
    drafted(name, run, tmp_path, data_dir)
    path = tmp_path / "study.toml"
    stated = "rounds = 2\nclients_per_round = 2\nstep_size = 0.5\n"
    text = path.read_text().replace("[algorithm]\n", f"[algorithm]\n{stated}")
    path.write_text(text.replace("[privacy]\n", "[privacy]\nclip_norm = 1.0\n"))
    planned = run("plan", "study.toml", "--json")
    assert planned.code == 0, planned.err
    study = load_study(path)
    assert len(json.loads(planned.out)["columns"]["names"]) == study.columns.width
    trained = run("train", "study.toml", "--out", "run")
    assert trained.code == 0, trained.err
    cells = read_columns(
        opened(study.located(study.federation.data), None, study.federation.query), cells=True
    )[0]
    new = pd.DataFrame(cells).drop(columns=study.columns.label.name)
    new.to_csv(tmp_path / "new.csv", index=False)
    said = run("predict", "run", "new.csv", "-o", "out.csv")
    assert said.code == 0, said.err
    assert len(pd.read_csv(tmp_path / "out.csv")) == len(new)
