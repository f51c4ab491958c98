"""Templates are studies that plan as they are, or once the files that they say must be there are."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from jsonschema import Draft7Validator

from noiseworthy.cli.init import TEMPLATES
from noiseworthy.cli.steps import prepare_study
from noiseworthy.data.owners import OwnerTerms, write_owners
from noiseworthy.studies.editors import study_schema


def nothing(folder: Path) -> None:
    """Data that ship, or sizes alone."""


def leaf(folder: Path) -> None:
    generator = np.random.default_rng(0)
    for part, records in (("train", 20), ("test", 5)):
        (folder / "femnist" / part).mkdir(parents=True)
        users = {
            name: {
                "x": generator.random((records, 16)).round(3).tolist(),
                "y": generator.integers(0, 3, records).tolist(),
            }
            for name in ("ann", "bob", "cy", "dan")
        }
        whole = {"users": [*users], "num_samples": [records] * 4, "user_data": users}
        (folder / "femnist" / part / "all.json").write_text(json.dumps(whole))


def owners(folder: Path) -> None:
    told = [
        OwnerTerms(
            client=name, data_set="wards", records=300, record_shape=(3,), classes=2, mechanism="gaussian",
            epsilon=4.0, delta=1e-5, unit="record", noise_floor=0.5, algorithms=["fedsgd-dpc"],
            models=["softmax"], most_releases=100, most_parameters=100, most_local_steps=1,
        )
        for name in ("north", "south", "west")
    ]  # fmt: skip
    write_owners(folder / "owners.json", told)
    features = np.random.default_rng(0).normal(size=(40, 3))
    frame = pd.DataFrame(features, columns=["a", "b", "c"])
    frame["label"] = np.where(features[:, 0] > 0, "yes", "no")
    frame.to_csv(folder / "test.csv", index=False)


FILES: dict[str, Callable[[Path], None]] = {
    "hospital": nothing, "images": nothing, "own-model": nothing, "leaf": leaf, "owners": owners,
}  # fmt: skip


def test_every_template_has_its_file_and_its_test():
    there = {path.name for path in (files("noiseworthy") / "templates").iterdir()}
    assert there == {f"{name}.toml" for name in TEMPLATES}
    assert FILES.keys() == set(TEMPLATES)


def begun(name, run, folder) -> str:
    """The path of a template in another folder, with the files that it names beside it."""
    (folder / "my own").mkdir()
    FILES[name](folder / "my own")
    place = f"my own/{name}.toml"
    said = run("init", "--template", name, place)
    assert said.code == 0
    assert said.out.startswith(f"Wrote {place}. Next: ")
    assert said.out.endswith(f"noiseworthy plan '{place}'\n") == (name != "own-model")
    return place


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_names_data_and_a_model_that_fit(name, run, tmp_path):
    prepared = prepare_study(Path(begun(name, run, tmp_path)), None)
    assert len(prepared.names) in (3, 4, 10)
    assert prepared.dimension > 3


def planned(name, run, folder) -> None:
    budget = () if name == "own-model" else ("--budget-seconds", "2")
    plan = run("plan", begun(name, run, folder), "--json", *budget)
    assert plan.code == 0, plan.err
    assert json.loads(plan.out)["rounds"] >= 0


def test_a_template_of_sizes_is_planned(run, tmp_path):
    planned("own-model", run, tmp_path)


def test_a_network_of_ones_own_trains_by_the_lines_that_its_template_has_for_it(run, tmp_path):
    place = Path(begun("own-model", run, tmp_path))
    head, _, study = place.read_text().partition("\n\n[")
    lines = head.split("such as\n")[1].splitlines()
    (place.parent / "my_network.py").write_text("\n".join(line[4:] for line in lines))
    study = re.sub(r"^(sizes|dimension) .*$", "", f"[{study}", flags=re.MULTILINE)
    place.write_text(re.sub(r"^# (data|clients|model) =", r"\1 =", study, flags=re.MULTILINE))
    trained = run("train", place, "--set", "algorithm.rounds=2", "--seeds", "1", "--json")
    assert trained.code == 0, trained.err
    assert json.loads(trained.out)["training"]["rounds"][-1] == 2


def test_a_template_of_owners_says_who_writes_their_file(run, tmp_path):
    place = tmp_path / "owners.toml"
    assert run("init", "--template", "owners", place).code == 0
    said = run("plan", place)
    assert said.code == 2
    assert "owners.json; give the file of owners that noiseworthy deploy ask writes, or name" in said.err


@pytest.mark.full
@pytest.mark.parametrize("name", [name for name in TEMPLATES if name != "own-model"])
def test_a_template_is_planned_by_trial(name, run, tmp_path, monkeypatch):
    """Trials get less time than it says."""
    monkeypatch.setattr("noiseworthy.trials.landscape.PASSES", (1.0,))
    monkeypatch.setattr("noiseworthy.trials.landscape.WORK", (1.0,))
    planned(name, run, tmp_path)


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_is_known_to_editors(name):
    text = (files("noiseworthy") / "templates" / f"{name}.toml").read_text()
    assert [one.message for one in Draft7Validator(study_schema()).iter_errors(tomllib.loads(text))] == []
    assert max(map(len, text.splitlines())) <= 120


def test_a_file_that_is_there_is_left_as_it_is(run, tmp_path):
    (tmp_path / "hospital.toml").write_text("mine")
    said = run("init", "--template", "hospital")
    assert said.code == 2
    assert said.err == "error: hospital.toml is there already and is left as it is; name another file\n"
    assert (tmp_path / "hospital.toml").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--template", "clinic"], "--template must be one of 'hospital', 'images', 'own-model', "),
        (["--template", "leaf", "none/leaf.toml"], "none/leaf.toml cannot be written: No such file"),
        ([], "init needs a table, or --template, one of hospital, images, "),
        (["--template", "leaf", "--label", "x"], "--label go with a table, and --template with none"),
        (["--template", "leaf", "--out", "x.toml"], "--out go with a table, and --template with none"),
    ],
)
def test_what_cannot_be_written_is_said(arguments, says, run, tmp_path):
    said = run("init", *arguments)
    assert (said.code, says in said.err, said.err.count("\n")) == (2, True, 1), said.err
    assert [*tmp_path.iterdir()] == []


def test_the_schema_is_printed_as_it_is_made(run):
    assert json.loads(run("schema").out) == study_schema()
