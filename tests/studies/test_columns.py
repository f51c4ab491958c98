"""`[columns]` of a study: read with all its mistakes, encoded alike for everybody, told by the plan."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from noiseworthy.cli import app
from noiseworthy.data.readers import FORMATS, SQL
from noiseworthy.errors import ConfigError, DataError, PlanError
from noiseworthy.studies.loading import load_study, parse_study
from noiseworthy.studies.opening import open_federation
from noiseworthy.studies.plan_file import load_plan, planned
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.studies import plan, train_in

STATED = """
[columns]
hospital = { role = "client" }
ill = { role = "label", classes = ["no", "yes"] }
age = { kind = "number", range = [20, 80] }
sex = { kind = "category", values = ["female", "male"], missing = true }
"""
STUDY = """
[federation]
data = "wards.csv"
[task]
model = "logistic"
[privacy]
mechanism = "gaussian"
epsilon = 20.0
delta = 1e-5
clip_norm = 1.0
[algorithm]
rounds = 3
clients_per_round = 2
step_size = 1.0
momentum = 0.0
averaging = 0.0
weighting = 0.0
"""


@pytest.fixture
def folder(tmp_path) -> Path:
    n = 40
    frame = pd.DataFrame(
        {
            "sex": np.resize(["female", "male", ""], n),
            "ill": np.where(np.arange(n) % 4 < 2, "no", "yes"),
            "hospital": np.repeat(["north", "south"], n // 2),
            "age": np.linspace(15, 85, n).round(),
        }
    )
    frame.to_csv(tmp_path / "wards.csv", index=False)
    return tmp_path


def study(folder: Path, columns: str = STATED, body: str = STUDY, name: str = "study.toml"):
    (folder / name).write_text(body + columns)
    return load_study(folder / name)


def test_columns_in_the_study_or_in_a_file_beside_it_are_one_thing(folder):
    within = study(folder)
    (folder / "columns.toml").write_text(STATED)
    beside = study(folder, "", 'columns = "columns.toml"\n' + STUDY)
    assert within == beside
    federation = open_federation(beside)
    assert federation.schema == within.columns
    assert (federation.clients, federation.record_shape, federation.classes) == (("north", "south"), (4,), 2)
    assert np.abs(federation.test_x).max() == 1
    assert federation.classes_found == ()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('label_column = "ill"', r'label_column beside \[columns\].* give that column role = "label"'),
        ('client_column = "client"', r'client_column beside .* give that column role = "client"'),
        ('classes = ["a", "b"]', "classes beside .* give the label its classes"),
        ("regression = true", "regression beside .* give the label its range"),
        ('feature_columns = ["age"]', 'feature_columns beside .* give all others kind = "left-out"'),
    ],
)
def test_the_older_keys_are_refused_by_name_with_the_newer_ones(folder, line, message):
    with pytest.raises(ConfigError, match=message):
        study(folder, body=STUDY.replace('csv"', f'csv"\n{line}', 1))


@pytest.mark.parametrize("data", ['data = "digits"\nclients = 2', 'data = "leaf:femnist"', "sizes = [5, 5]"])
def test_columns_of_what_is_no_table_are_refused(folder, data):
    with pytest.raises(ConfigError, match=r"\[columns\] goes with a table .* leave \[columns\] out") as said:
        study(folder, body=STUDY.replace('data = "wards.csv"', data))
    assert all(one in str(said.value) for one in (*FORMATS, SQL))


@pytest.mark.parametrize(("ending", "says"), [("cvs", ""), ("txt", ""), ("XLS", "; save it as .xlsx")])
def test_an_ending_that_no_table_has_is_named_with_those_that_tables_have(folder, ending, says):
    with pytest.raises(ConfigError) as said:
        study(folder, body=STUDY.replace("wards.csv", f"wards.{ending}"))
    assert f"data = wards.{ending} must end in one of {', '.join(FORMATS)}{says}" in str(said.value)
    assert says or "xlsx;" not in str(said.value)


def test_mistakes_in_columns_are_told_with_all_others(folder):
    with pytest.raises(ConfigError) as caught:
        study(folder, STATED.replace("number", "numbr").replace("true", "7"), STUDY + "deday = 3\n")
    said = "\n".join(caught.value.mistakes)
    assert len(caught.value.mistakes) == 3
    for one in (
        "[algorithm] deday is not a key",
        "[columns] age: kind must be",
        "[columns] sex: missing must",
    ):
        assert one in said
    with pytest.raises(ConfigError, match=r"file of columns .*gone\.toml does not exist"):
        study(folder, "", 'columns = "gone.toml"\n' + STUDY)


def test_a_table_that_is_not_as_stated_is_refused_in_one_error(folder):
    (folder / "wards.csv").write_text("agee,sex,ill,hospital\n30,mal,no,a\n40,male,,b\n")
    with pytest.raises(DataError) as caught:
        open_federation(study(folder))
    for one in ("'agee' is not stated", "no column 'age'", "'sex' has 1 value", "'ill' has 1 missing value"):
        assert one in str(caught.value)


def test_the_plan_states_order_widths_and_digest_and_holds_for_no_other_columns(folder):
    first = study(folder)
    made = planned(prepare(first))
    file = load_plan(made.file.save(folder))
    names = ["age", "sex = female", "sex = male", "sex is missing"]
    assert first.columns is not None
    assert file.made_for["facts"]["columns"] == {"names": names, "digest": first.columns.digest}
    other = study(folder, STATED.replace("[20, 80]", "[20, 90]"))
    with pytest.raises(PlanError, match=r"made for another study: its facts\.columns\.digest"):
        file.applied(prepare(other))
    said = CliRunner().invoke(app, ["plan", str(folder / "study.toml"), "--json", "--out", str(folder / "o")])
    assert json.loads(said.stdout)["columns"]["names"] == names


def test_a_checkpoint_of_other_columns_is_not_gone_on_with(folder):
    """The names of data and model tell trainings apart; without stated columns they are what they were."""
    first, other = study(folder), study(folder, STATED.replace("[20, 80]", "[20, 90]"))
    assert first.names_data != other.names_data
    plain = parse_study({"federation": {"sizes": [5]}, "privacy": {"mechanism": "none"}})
    assert plain.names_data == plain.model_dump_json(include={"federation", "task"})


def test_a_study_with_columns_trains_and_its_record_keeps_them(folder):
    record = train_in(plan(study(folder)), folder / "run", name="wards")
    assert [one["name"] for one in record["study"]["columns"]["columns"]] == ["hospital", "ill", "age", "sex"]
    assert not record["read_off"]
    assert (folder / "run" / "plan.json").exists()


def test_the_size_of_a_number_to_predict_follows_from_its_public_range(folder):
    numbers = STATED.replace('classes = ["no", "yes"]', "range = [10, 40]")
    table = pd.read_csv(folder / "wards.csv")
    table.assign(ill=np.arange(len(table))).to_csv(folder / "wards.csv", index=False)
    body = STUDY.replace('[task]\nmodel = "logistic"\n', "")
    evenly = np.linspace(10, 40, 1_000_001)
    scale = prepare(study(folder, numbers, body)).public_facts().label_scale
    assert scale == pytest.approx(math.sqrt(np.mean(evenly**2)), rel=1e-5)
    stated = prepare(study(folder, numbers, body + "[planning]\nlabel_scale = 3.0\n"))
    assert stated.public_facts().label_scale == 3.0
    free = prepare(study(folder, STATED.replace('classes = ["no", "yes"]', 'kind = "number"'), body))
    with pytest.raises(ConfigError, match=r"label_scale, .* or the label's range in \[columns\]"):
        free.public_facts()
