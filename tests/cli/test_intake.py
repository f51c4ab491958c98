"""A table comes in: init drafts a study that asks, filled in as its comments say it passes check and plan."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
import tomllib
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from noiseworthy.deploy.gateway.owner import load_owner
from noiseworthy.errors import ConfigError
from noiseworthy.studies.checking import _dimension
from noiseworthy.studies.loading import in_line, load_study
from noiseworthy.studies.opening import default_model
from noiseworthy.studies.prepare import prepare

N = 240


def wards(folder: Path, **changed) -> pd.DataFrame:
    """A table of three hospitals, as wards.csv."""
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "hospital": np.repeat(["north", "south", "west ward"], N // 3),
            "patient_id": np.arange(N) + 5000,
            "age": generator.integers(20, 91, N),
            "dose": generator.uniform(3, 47, N).round(1),
            "sex": generator.choice(["f", "m"], N),
            "smoker": generator.choice(["yes", "no"], N),
            "seen": [f"{2019 + i % 3}-0{1 + i % 9}-11" for i in range(N)],
        }
    )
    frame["diagnosis"] = np.where(frame["age"] + frame["dose"] > 80, "ill", "well")
    for name, values in changed.items():
        frame[name] = values
    frame.to_csv(folder / "wards.csv", index=False)
    return frame


def filled(path: Path, **answers: str) -> None:
    """Answer the questions of a study, each in the line of its column."""
    lines = path.read_text().splitlines()
    for name, answer in answers.items():
        (place,) = [i for i, line in enumerate(lines) if line.startswith(f"{name} = ")]
        assert lines[place].count('"?"') == 1, lines[place]
        lines[place] = lines[place].replace('"?"', answer)
    assert not any('"?"' in line for line in lines if not line.startswith("#"))
    path.write_text("\n".join(lines) + "\n")


ANSWERS = {
    "dose": "[0, 50]", "sex": '["f", "m"]', "seen": '["2019-01-01", "2021-12-31"]',
    "diagnosis": '["well", "ill"]',
}  # fmt: skip


def test_init_asks_what_only_records_tell(run, tmp_path):
    wards(tmp_path)
    said = run("init", "wards.csv")
    assert said.code == 0, said.err
    text = (tmp_path / "study.toml").read_text()
    columns = tomllib.loads(text)["columns"]
    assert columns == {
        "hospital": {"role": "client"},
        "patient_id": {"kind": "left-out"},
        "age": {"kind": "number", "range": [0, 110]},
        "dose": {"kind": "number", "range": "?"},
        "sex": {"kind": "category", "values": "?"},
        "smoker": {"kind": "yes-no"},
        "seen": {"kind": "date", "range": "?"},
        "diagnosis": {"role": "label", "classes": "?"},
    }
    assert not any(cell in text for cell in ("north", "well", "47", "2019", "5000", '"f"'))
    assert 'sex = { kind = "category", values = ["f", "m"] }' in said.out
    assert 'diagnosis = { role = "label", classes = ["ill", "well"] }' in said.out
    assert "Ranges to state from what is public: dose, seen." in said.out
    assert "Next: answer 4 questions, noiseworthy check study.toml" in said.out


def test_what_is_left_out_is_named_with_its_reason(run, tmp_path):
    wards(tmp_path, note=[f"came {i}" for i in range(N)], zeile=range(N))
    said = run("init", "wards.csv")
    reasons = said.out.split("Left out; to learn from one, state its kind:\n")[1].split("\n\n")[0]
    assert reasons.splitlines() == [
        "patient_id: an identifier: tells nothing of other records",
        "note: free text, or almost as many values as rows",
        "zeile: counts the records: the number of a row tells nothing of other records",
    ]


def test_a_table_of_names_alone_is_refused(run, tmp_path):
    (tmp_path / "wards.csv").write_text("hospital,age,diagnosis\n")
    said = run("init", "wards.csv")
    assert said.code == 2
    assert "the table has names and no records" in said.err
    assert not (tmp_path / "study.toml").exists()


def test_open_questions_are_refused_by_name_at_once(run, tmp_path):
    wards(tmp_path)
    run("init", "wards.csv")
    for command in ("check", "plan"):
        said = run(command, "study.toml")
        assert said.code == 2
        assert [line.split(" is a question")[0] for line in said.err.splitlines()] == [
            f"error: [columns] {one}" for one in
            ("dose: range", "sex: values", "seen: range", "diagnosis: classes")
        ]  # fmt: skip


def test_a_draft_that_is_filled_in_passes_check_and_plan(run, tmp_path):
    wards(tmp_path)
    run("init", "wards.csv")
    filled(tmp_path / "study.toml", **ANSWERS)
    said = run("check", "study.toml")
    assert said.code == 0, said.out
    assert "wards.csv: 240 records, 8 columns" in said.out
    assert "training records of 3 clients: north 64, south 64, west ward 64" in said.out
    assert "Nothing stands against training." in said.out
    text = (tmp_path / "study.toml").read_text()
    stated = "rounds = 3\nclients_per_round = 3\nstep_size = 1.0\n"
    text = text.replace("[algorithm]\n", f"[algorithm]\n{stated}").replace(
        "[privacy]\n", "[privacy]\nclip_norm = 1.0\n"
    )
    (tmp_path / "study.toml").write_text(text)
    planned = run("plan", "study.toml", "--json")
    assert planned.code == 0, planned.err
    assert json.loads(planned.out)["columns"]["names"][:3] == ["age", "dose", "sex = f"]


def test_values_that_somebody_says_are_public_are_written(run, tmp_path):
    wards(tmp_path)
    said = run("init", "wards.csv", "--public", "sex", "--public", "diagnosis")
    columns = tomllib.loads((tmp_path / "study.toml").read_text())["columns"]
    assert columns["sex"]["values"] == ["f", "m"]
    assert columns["diagnosis"]["classes"] == ["ill", "well"]
    assert columns["dose"]["range"] == "?"
    assert "sex = " not in said.out
    refused = run("init", "wards.csv", "--public", "dose", "--out", "other.toml")
    assert refused.code == 2
    assert (
        "--public must be a column with values or classes to state, got 'dose'; these are: sex, d"
        in refused.err
    )


def test_a_simulation_is_answered_by_its_records_and_marked(run, tmp_path):
    wards(tmp_path)
    assert run("init", "wards.csv", "--simulation").code == 0
    study = load_study(tmp_path / "study.toml")
    assert study.federation.simulation
    assert study.columns.tables()["dose"] == {"kind": "number", "range": [3, 47]}
    said = run("check", "study.toml")
    assert said.code == 0, said.out
    assert "read off the records: this study is a simulation" in said.out


def test_a_simulation_says_so_in_its_plan_and_is_never_deployed(run, tmp_path):
    from noiseworthy.studies.opening import open_federation
    from noiseworthy.studies.read_off import check_nothing_is, read_off

    wards(tmp_path)
    run("init", "wards.csv", "--simulation")
    study = load_study(tmp_path / "study.toml")
    federation = open_federation(study)
    (said,) = read_off(study, federation)
    assert said.startswith(
        "This study is a simulation: ranges, values and classes of [columns] were read off"
    )
    with pytest.raises(ConfigError, match="nothing is deployed"):
        check_nothing_is(study, federation)
    stated = study.federation.model_copy(update={"simulation": False})
    assert read_off(study.model_copy(update={"federation": stated}), federation) == ()
    assert "simulation" not in stated.model_dump()


def test_owners_get_files_of_one_schema(run, tmp_path):
    frame = wards(tmp_path)
    said = run("init", "wards.csv", "--owners", "--public", "sex", "--public", "diagnosis")
    assert said.code == 0, said.err
    owners = sorted(path.name for path in (tmp_path / "owners").iterdir())
    assert owners == ["north.toml", "south.toml", "west_ward.toml"]
    filled(tmp_path / "columns.toml", dose="[0, 50]", seen='["2019-01-01", "2021-12-31"]')
    assert load_study(tmp_path / "study.toml").columns.label.name == "diagnosis"
    owner = load_owner(tmp_path / "owners" / "west_ward.toml")
    assert owner.owner.client == "west ward"
    assert owner.columns == load_study(tmp_path / "study.toml").columns
    own = frame[frame["hospital"] == "west ward"].drop(columns="hospital")
    own.to_csv(tmp_path / "west ward.csv", index=False)
    checked = run("check", "owners/west_ward.toml")
    assert checked.code == 0, checked.out
    assert "west ward.csv: 80 records, 7 columns" in checked.out


def test_a_path_in_an_owners_file_starts_where_the_file_says(run, tmp_path):
    frame = wards(tmp_path)
    assert run("init", "wards.csv", "--owners", "--public", "sex", "--public", "diagnosis").code == 0
    assert (
        "its path, from this file, else from the working folder"
        in (tmp_path / "owners/north.toml").read_text()
    )
    filled(tmp_path / "columns.toml", dose="[0, 50]", seen='["2019-01-01", "2021-12-31"]')
    own = frame[frame["hospital"] == "north"].drop(columns="hospital")
    own.to_csv(tmp_path / "north.csv", index=False)
    own.head(60).to_csv(tmp_path / "owners" / "north.csv", index=False)
    assert "owners/north.csv: 60 records" in run("check", "owners/north.toml").out
    (tmp_path / "owners" / "north.csv").unlink()
    assert f"north.csv: {len(own)} records" in run("check", "owners/north.toml").out


@pytest.mark.parametrize("options", [[], ["--owners"]])
def test_nothing_is_overwritten(options, run, tmp_path):
    wards(tmp_path)
    (tmp_path / "study.toml").write_text("mine")
    said = run("init", "wards.csv", *options)
    assert said.code == 2
    assert "study.toml is there already and is left as it is" in said.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["study.toml", "wards.csv"]


def test_a_table_elsewhere_is_named_from_the_study(run, tmp_path):
    (tmp_path / "data").mkdir()
    wards(tmp_path / "data")
    assert run("init", "data/wards.csv", "--out", "studies/wards.toml", "--simulation").code == 0
    assert (
        tomllib.loads((tmp_path / "studies/wards.toml").read_text())["federation"]["data"]
        == "../data/wards.csv"
    )
    assert run("check", "studies/wards.toml").code == 0


def test_a_database_comes_in(run, tmp_path):
    pytest.importorskip("sqlalchemy")
    with closing(sqlite3.connect(tmp_path / "wards.db")) as database:
        wards(tmp_path).to_sql("patients", database, index=False)
    query = "select * from patients order by patient_id"
    assert run("init", "sql:sqlite:///wards.db", "--query", query, "--simulation").code == 0
    said = run("check", "study.toml")
    assert said.code == 0, said.out
    assert "wards.db: 240 records, 8 columns" in said.out


def test_a_database_that_answers_otherwise_the_second_time_is_refused(run, tmp_path):
    """An order by a column that rows share, or as here by chance, is no order."""
    pytest.importorskip("sqlalchemy")
    with closing(sqlite3.connect(tmp_path / "wards.db")) as database:
        wards(tmp_path).to_sql("patients", database, index=False)
    run(
        "init",
        "sql:sqlite:///wards.db",
        "--query",
        "select * from patients order by random()",
        "--simulation",
    )
    said = run("check", "study.toml")
    assert said.code == 2
    assert "answers otherwise the second time" in said.err


def test_check_says_everything_at_once_and_leaves_nothing(run, tmp_path):
    wards(tmp_path)
    run("init", "wards.csv")
    filled(tmp_path / "study.toml", **ANSWERS)
    broken = wards(tmp_path)
    broken["sex"] = ["F", *broken["sex"][1:]]
    broken["dose"] = [99.0, np.nan, *broken["dose"][2:]]
    broken["diagnosis"] = ["sick", *broken["diagnosis"][1:]]
    broken.to_csv(tmp_path / "wards.csv", index=False)
    before = sorted(tmp_path.iterdir())
    said = run("check", "study.toml")
    assert said.code == 1
    for line in (
        "Refused, training would stop here (3)",
        "dose: 1 missing value; state missing = true",
        "sex: 1 value other than one of 'f', 'm'",
        "'F' in record 1",
        "diagnosis: 1 value other than one of the classes 'well', 'ill'",
        "dose: 1 of 240 records (0.417 %) lie outside the stated range",
        "Training would be refused.",
    ):
        assert line in said.out, said.out
    assert sorted(tmp_path.iterdir()) == before
    told = run("check", "study.toml", "--json")
    assert told.code == 1
    found = json.loads(told.out)
    assert (found["refused"], found["records"], found["columns"]) == (True, 240, 8)
    assert "examples" not in told.out
    assert "'F'" not in told.out
    assert "sick" not in told.out


def test_owners_with_too_few_records_for_their_budget_are_named(run, tmp_path):
    """Noise on the only answer of all training: 2/n times the least Gaussian noise, times sqrt(p)."""
    hospitals = ["tiny"] * 5 + ["large"] * (N - 5)
    wards(tmp_path, hospital=hospitals)
    run("init", "wards.csv")
    filled(tmp_path / "study.toml", **ANSWERS)
    said = run("check", "study.toml")
    assert said.code == 0
    assert "too few records for this epsilon" in said.out
    assert "tiny (4 records)" in said.out
    assert "large (" not in said.out.split("too few records")[1].split("\n")[0]
    assert "Delta is not below" not in said.out
    path = tmp_path / "study.toml"
    path.write_text(re.sub(r"\ndelta = \S+", "\ndelta = 0.1", path.read_text()))
    said = run("check", "study.toml")
    assert "Delta is not below 1 over the number of records of large:" in " ".join(said.out.split())


def test_what_the_federation_refuses_is_refused_by_check(run, tmp_path):
    """What no column shows by itself: a split without test records."""
    wards(tmp_path, split="train")
    run("init", "wards.csv")
    filled(tmp_path / "study.toml", **ANSWERS)
    said = run("check", "study.toml")
    assert said.code == 1
    assert "has 240 training and 0 test records and needs both" in said.out


@pytest.mark.parametrize(
    ("epsilon", "says"),
    [
        ("{ east = 1.0, west = 2.0 }", "[privacy] epsilon has no number for 'north', 'south'"),
        (
            "{ east = 1, north = 1, south = 1, west = 2, up = 3 }",
            "[privacy] epsilon names unknown clients 'up'",
        ),
        ("[1.0, 1.0, 1.0, 2.0]", "[privacy] epsilon goes by position"),
    ],
)
def test_budgets_of_other_clients_are_refused_by_check_as_by_plan(run, tmp_path, epsilon, says):
    wards(tmp_path, hospital=np.resize(["east", "north", "south", "west"], N))
    run("init", "wards.csv")
    filled(tmp_path / "study.toml", **ANSWERS)
    text = (tmp_path / "study.toml").read_text()
    (tmp_path / "study.toml").write_text(text.replace("epsilon = 2.0", f"epsilon = {epsilon}"))
    said = run("check", "study.toml")
    assert (said.code, says in said.out) == (1, True), said.out
    planned = run("plan", "study.toml")
    assert (planned.code, says in planned.err) == (2, True)
    told = run("check", "study.toml", "--json")
    assert json.loads(told.out)["refused"]


def test_numbers_as_they_are_are_checked_without_a_schema(run, tmp_path):
    frame = wards(tmp_path)[["hospital", "age", "dose", "diagnosis"]]
    frame.loc[3, "age"] = None
    frame.to_csv(tmp_path / "wards.csv", index=False)
    (tmp_path / "study.toml").write_text(
        '[federation]\ndata = "wards.csv"\nclient_column = "hospital"\nlabel_column = "diagnosis"\n'
        '[privacy]\nmechanism = "gaussian"\nepsilon = 2.0\ndelta = 1e-5\n'
    )
    said = run("check", "study.toml")
    assert said.code == 1
    assert "age: 1 missing value" in said.out
    assert "diagnosis: its classes are read off the records" in said.out
    frame.dropna().to_csv(tmp_path / "wards.csv", index=False)
    said = run("check", "study.toml")
    assert said.code == 0
    assert "noiseworthy init drafts it" in said.out


def test_no_accuracy_is_told_of_numbers_to_predict(run, tmp_path):
    wards(tmp_path)
    run("init", "wards.csv", "--label", "dose", "--client", "hospital", "--simulation")
    said = run("check", "study.toml")
    assert said.code == 0
    assert "only 48 records test the model\n" in said.out
    assert "an accuracy" not in said.out


def test_data_that_ship_have_owners_to_check(run, tmp_path):
    (tmp_path / "study.toml").write_text(
        '[federation]\ndata = "wine"\nclients = 4\npartition = "iid"\n'
        '[privacy]\nmechanism = "gaussian"\nepsilon = 2.0\ndelta = 1e-5\n'
    )
    said = run("check", "study.toml")
    assert said.code == 0, said.err
    assert "wine: 178 records\n" in said.out
    assert "training records of 4 clients" in said.out


def test_sizes_alone_have_nothing_to_check(run, tmp_path):
    (tmp_path / "study.toml").write_text(
        '[federation]\nsizes = [50, 60]\n[privacy]\nmechanism = "gaussian"\nepsilon = 2.0\ndelta = 1e-5\n'
    )
    said = run("check", "study.toml")
    assert said.code == 2
    assert "sizes and no data, so there is nothing to check" in said.err


@pytest.mark.full
def test_init_and_check_load_no_jax(tmp_path):
    wards(tmp_path)
    code = (
        "import sys\nfrom noiseworthy.cli import main\n"
        "for words in (['init', 'wards.csv', '--simulation'], ['check', 'study.toml']):\n"
        "    sys.argv = ['noiseworthy', *words]\n"
        "    try:\n        main()\n    except SystemExit as end:\n        assert not end.code, end.code\n"
        "print({'jax', 'jaxlib', 'equinox', 'optax'} & {name.split('.')[0] for name in sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.splitlines()[-1] == "set()"


def test_of_owners_elsewhere_the_test_records_are_checked(run, tmp_path):
    """The records of `owners:` are not here; the server's own test table is."""
    wards(tmp_path)
    run("init", "wards.csv", "--public", "sex", "--public", "diagnosis")
    filled(tmp_path / "study.toml", dose="[0, 50]", seen='["2019-01-01", "2021-12-31"]')
    path = tmp_path / "study.toml"
    path.write_text(path.read_text().replace('"wards.csv"', '"owners:owners.json"\ntest = "wards.csv"'))
    assert run("check", "study.toml").code == 0
    wards(tmp_path, sex="?")
    said = run("check", "study.toml")
    assert said.code == 1
    assert "sex: 240 values other than one of 'f', 'm'" in said.out


def test_an_owner_among_several_is_checked_as_its_gateway_reads_it(run, tmp_path):
    wards(tmp_path)
    run("init", "wards.csv", "--owners", "--public", "sex", "--public", "diagnosis")
    filled(tmp_path / "columns.toml", dose="[0, 50]", seen='["2019-01-01", "2021-12-31"]')
    path = tmp_path / "owners" / "north.toml"
    text = path.read_text().replace('"north.csv"', f'"{tmp_path / "wards.csv"}"')
    path.write_text(
        "\n".join(line for line in text.splitlines() if not line.startswith("clients = 1")) + "\n"
    )
    said = run("check", "owners/north.toml")
    assert said.code == 0, said.out
    assert "training records of 3 clients: north 64" in said.out


def test_no_cell_is_in_what_programs_read_of_a_refusal(run, tmp_path):
    """Where clients cannot be dealt out, the complaint may quote a label; it stays on the page."""
    frame = wards(tmp_path)[["hospital", "age", "diagnosis"]].assign(diagnosis=0.123)
    frame.to_csv(tmp_path / "wards.csv", index=False)
    (tmp_path / "study.toml").write_text(
        '[federation]\ndata = "wards.csv"\nclient_column = "hospital"\nlabel_column = "diagnosis"\n'
        '[privacy]\nmechanism = "gaussian"\nepsilon = 2.0\ndelta = 1e-5\n'
    )
    page, told = run("check", "study.toml"), run("check", "study.toml", "--json")
    assert (page.code, told.code) == (1, 1)
    assert "0.123" in page.out
    assert "0.123" not in told.out


def test_two_owners_do_not_share_a_file(run, tmp_path):
    """The second took the place of the first, who got none."""
    wards(tmp_path, hospital=["ward a"] * (N // 2) + ["ward_a"] * (N // 2))
    said = run("init", "wards.csv", "--owners")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "owners/ward_a.toml would be the file of 'ward_a' and of another" in said.err
    assert [path.name for path in tmp_path.iterdir()] == ["wards.csv"]


def test_owners_allow_the_model_that_the_study_trains(run, tmp_path):
    """Of two classes that is no softmax; how many classes there are is still a question."""
    wards(tmp_path)
    run("init", "wards.csv", "--owners", "--public", "sex", "--public", "diagnosis")
    filled(tmp_path / "columns.toml", dose="[0, 50]", seen='["2019-01-01", "2021-12-31"]')
    trained = prepare(load_study(tmp_path / "study.toml"))
    model = trained.study.task.model or default_model(trained.question.classes)
    assert (trained.question.classes, model) == (2, "logistic")
    assert model in load_owner(tmp_path / "owners" / "north.toml").allowed.models


def test_noise_is_foretold_for_the_model_that_is_trained(run, tmp_path):
    wards(tmp_path)
    run("init", "wards.csv")
    filled(tmp_path / "study.toml", **ANSWERS)
    trained = prepare(load_study(tmp_path / "study.toml"))
    shape, task = trained.trained()[0].feature_shape, trained.study.task
    assert _dimension(shape, trained.question.classes, task) == trained.dimension


def test_names_that_toml_escapes_are_escaped():
    name = 'dose\x7f\t"'
    said = in_line({name: [name, {"range": [0, 1.5]}]})
    assert tomllib.loads(f"column = {said}") == {"column": {name: [name, {"range": [0, 1.5]}]}}
