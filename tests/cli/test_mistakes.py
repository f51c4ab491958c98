"""Typical mistakes, each as a user makes it: one clear sentence, exit code 2, nothing written."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import typer

from noiseworthy.cli import app

STUDY = """\
[federation]
data = "own.csv"
[privacy]
mechanism = "gaussian"
epsilon = 5.0
delta = 1e-5
clip_norm = 1.0
[algorithm]
rounds = 2
clients_per_round = 1
step_size = 0.1
"""
COLUMNS = """\
[columns]
age = { kind = "number", center = 0.0, step = 1.0 }
bmi = { kind = "left-out" }
chol = { kind = "left-out" }
label = { role = "label", classes = ["no", "yes"] }
client = { role = "client" }
"""
Change = tuple[str, str]


class Mistake(NamedTuple):
    """What was typed, what is changed in the study and in the table, and what must be said."""

    says: tuple[str, ...]
    typed: str = "plan s.toml"
    study: Change = ("", "")
    table: Callable[[pd.DataFrame], pd.DataFrame] | None = None
    files: dict[str, str] = {}  # noqa: RUF012 (never changed)


def own() -> pd.DataFrame:
    features = np.random.default_rng(0).normal(size=(90, 3))
    frame = pd.DataFrame(features, columns=["age", "bmi", "chol"])
    frame["label"] = np.where(features[:, 0] > 0, "yes", "no")
    frame["client"] = np.repeat(["north", "south", "west"], [20, 30, 40])
    return frame


def cell(column: str, value: Any) -> Callable[[pd.DataFrame], pd.DataFrame]:
    def changed(frame: pd.DataFrame) -> pd.DataFrame:
        frame[column] = frame[column].astype(object)
        frame.loc[3, column] = value
        return frame

    return changed


MISTAKES = {
    # the file
    "no such study": Mistake(
        ("study file s2.toml does not exist; give the path of a TOML file",), "plan s2.toml"
    ),
    "a folder as study": Mistake(("study file . cannot be read as TOML", "Is a directory"), "plan ."),
    "text without quotes": Mistake(
        ("line 4, column 13), which reads: mechanism = gaussian; text stands in quotes",),
        study=('"gaussian"', "gaussian"),
    ),
    "a decimal comma": Mistake(("line 5", "which reads: epsilon = 5,0"), study=("5.0", "5,0")),
    "a key twice": Mistake(
        ("Cannot overwrite a value (at line 12", "which reads: rounds = 3"),
        study=("step_size = 0.1\n", "step_size = 0.1\nrounds = 3\n"),
    ),
    # keys and values
    "a table misspelt": Mistake(
        ("[privcy] is not a key of this file; allowed: federation,", "(did you mean privacy?)"),
        study=("[privacy]", "[privcy]"),
    ),
    "a key misspelt": Mistake(
        ("[privacy] epsilom is not a key of this table; allowed:", "(did you mean epsilon?)"),
        study=("epsilon", "epsilom"),
    ),
    "a key in another table": Mistake(
        ("[algorithm] seed is not a key of this table", "(seed is a key of [federation])"),
        study=("rounds = 2", "rounds = 2\nseed = 1"),
    ),
    "a key of another method": Mistake(
        ("[algorithm] local_steps is not a key of this table; allowed: name, rounds,",),
        study=("rounds = 2", "rounds = 2\nlocal_steps = 3"),
    ),
    "a value misspelt": Mistake(
        ("mechanism must be 'laplace', 'gaussian' or 'none', got 'gausian' (did you mean 'gaussian'?)",),
        study=("gaussian", "gausian"),
    ),
    "an unknown algorithm": Mistake(
        ("[algorithm] name must be one of fedsgd-dpc,", "got 'fedavg' (did you mean dp-fedavg?)"),
        study=("[algorithm]", '[algorithm]\nname = "fedavg"'),
    ),
    "an unknown model": Mistake(
        ("[task] model must be 'softmax',", "got 'cnnn' (did you mean 'cnn'?)"),
        study=("[privacy]", '[task]\nmodel = "cnnn"\n[privacy]'),
    ),
    "a number as text": Mistake(
        ("[privacy] epsilon must be a number, a list", "got '5.0'"), study=("5.0", '"5.0"')
    ),
    "epsilon 0": Mistake(
        ("[privacy] epsilon must be finite and above 0, got 0; ask such a client for nothing",),
        study=("5.0", "0"),
    ),
    "epsilon of one client": Mistake(
        ("[privacy] epsilon of south must be finite and above 0, got -1",),
        study=("5.0", "{ north = 1.0, south = -1.0, west = 1.0 }"),
    ),
    "epsilon nan": Mistake(("[privacy] epsilon must be a number, got NaN",), study=("5.0", "nan")),
    "delta 1": Mistake(("[privacy] delta must lie in (0, 1), got 1",), study=("1e-5", "1.0")),
    "no delta": Mistake(("delta above 0; use Laplace noise for pure epsilon",), study=("delta = 1e-5\n", "")),
    "a clip of 0": Mistake(
        ("[privacy] clip_norm must be finite and above 0",), study=("clip_norm = 1.0", "clip_norm = 0.0")
    ),
    "no rounds": Mistake(
        ("[algorithm] rounds must be at least 1 or 'auto', got 0",), study=("rounds = 2", "rounds = 0")
    ),
    "half a round": Mistake(
        ("rounds must be a valid integer or 'auto', got 2.5",), study=("rounds = 2", "rounds = 2.5")
    ),
    "zero clients": Mistake(
        ("[federation] clients must be at least 1, got 0",), study=('own.csv"', 'digits"\nclients = 0')
    ),
    "sizes and data": Mistake(
        ("[federation] needs either sizes or data, and not both",),
        study=('own.csv"', 'own.csv"\nsizes = [3]'),
    ),
    "three mistakes": Mistake(
        (
            "[privacy] epsilom is not",
            "[privacy] delta must be a number, a list",
            "[privacy] clip_norm must be",
        ),
        study=(
            "epsilon = 5.0\ndelta = 1e-5\nclip_norm = 1.0",
            "epsilom = 5.0\ndelta = 'small'\nclip_norm = []",
        ),
    ),
    # data
    "no such table": Mistake(
        ("no data at own2.csv; give another path",), "train s.toml", ("own.csv", "own2.csv")
    ),
    "no data at all": Mistake(
        ("[federation] has sizes but no data; set data",),
        "train s.toml",
        ('data = "own.csv"', "sizes = [10, 20]\n[task]\ndimension = 3"),
    ),
    "an unknown source": Mistake(
        ("source must be one of digits,", "or a path ending in", "got 'cifar'"),
        "train s.toml",
        ("own.csv", "cifar"),
    ),
    "no folder of data": Mistake(
        ("mnist is read from files; name the data folder",), "plan s.toml", ("own.csv", "mnist")
    ),
    "a folder of data that is not there": Mistake(
        ("data folder gone does not exist; name the data folder",), "train s.toml --data gone"
    ),
    "no such label": Mistake(
        ("own has no column 'diagnosis'; it has 'age', 'bmi', 'chol', 'label', 'client'",),
        study=('"own.csv"', '"own.csv"\nlabel_column = "diagnosis"'),
    ),
    "no such client column": Mistake(
        ("own has no column 'hospital'; it has",),
        study=('"own.csv"', '"own.csv"\nclient_column = "hospital"'),
    ),
    "text among numbers": Mistake(("column 'bmi'", "not numeric"), table=cell("bmi", "high")),
    "a gap": Mistake(("column 'bmi' has 1 NaN or infinite values",), table=cell("bmi", None)),
    "infinity": Mistake(("column 'bmi' has 1 NaN or infinite values",), table=cell("bmi", np.inf)),
    "a label is missing": Mistake(("column 'label' has 1 missing values",), table=cell("label", None)),
    "a client called NA": Mistake(
        ("column 'client' has 20 missing values, as NA and null are; rename those that are none",),
        table=lambda one: one.replace({"client": {"north": "NA"}}),
    ),
    "a client called NA in a table with columns": Mistake(
        ("column 'client' has 20 missing values; say whose", "NA, null and the like are names of nobody"),
        study=("[algorithm]", f"{COLUMNS}[algorithm]"),
        table=lambda one: one.replace({"client": {"north": "NA"}}),
    ),
    "one class alone": Mistake(
        ("column 'label' must hold at least two classes, got only ['yes']",),
        table=lambda one: one.assign(label="yes"),
    ),
    "numbers as classes": Mistake(
        ("column 'label' must hold whole numbers or text as classes", "or set regression = true"),
        table=lambda one: one.assign(label=one["age"]),
    ),
    "an empty table": Mistake(
        ("own: column 'label' must hold at least two classes",), table=lambda one: one.iloc[:0]
    ),
    "more to ask than there are": Mistake(
        ("[algorithm] clients_per_round must be between 1 and 3, got 9; the federation has 3 clients",),
        study=("clients_per_round = 1", "clients_per_round = 9"),
    ),
    "no budget for a client": Mistake(
        ("[privacy] epsilon has no number for 'west'; the clients are 'north', 'south', 'west'",),
        study=("5.0", "{ north = 1.0, south = 2.0 }"),
    ),
    "budgets by position": Mistake(
        ("[privacy] epsilon goes by position, but the clients have names",), study=("5.0", "[1.0, 2.0, 3.0]")
    ),
    "a csv of budgets that is not there": Mistake(
        ("[privacy] epsilon: b.csv does not exist; paths start from the study's file",),
        study=("5.0", '{ csv = "b.csv", column = "epsilon" }'),
    ),
    # commands, plans and folders
    "a command misspelt": Mistake(("No such command 'trian'", "see noiseworthy --help"), "trian s.toml"),
    "an option misspelt": Mistake(
        ("No such option", "--ot", "see noiseworthy train --help"), "train s.toml --ot here"
    ),
    "no study": Mistake(("Missing argument 'STUDY'; see noiseworthy train --help",), "train"),
    "no time": Mistake(
        ("--budget-seconds must be finite and above 0, got 0",), "plan s.toml --budget-seconds 0"
    ),
    "a file as run folder": Mistake(
        ("run folder own.csv cannot be written", "choose another with --out"), "train s.toml --out own.csv"
    ),
    "nothing to resume": Mistake(
        ("runs/s holds no checkpoint.npz; train without --resume to start anew",), "train s.toml --resume"
    ),
    "no such plan": Mistake(
        ("p.json does not exist; noiseworthy plan STUDY writes it",), "train s.toml --plan p.json"
    ),
    "another file as plan": Mistake(
        ("p.json is no plan", "noiseworthy plan STUDY writes one"),
        "train s.toml --plan p.json",
        files={"p.json": "{}"},
    ),
    "no run to report": Mistake(
        ("nowhere/record.json does not exist; give a folder that train, compare or quickstart made",),
        "report nowhere",
    ),
    "no such owner's file": Mistake(("owner's file none.toml does not exist",), "gateway none.toml"),
    "a model for other records": Mistake(
        ("lenet5 needs images, got records of 3 numbers",),
        study=("[privacy]", '[task]\nmodel = "lenet5"\n[privacy]'),
    ),
    "a simulation deployed": Mistake(
        ("nothing is deployed. This study is a simulation", 'state classes = ["no", "yes"] in [federation]'),
        "deploy up s.toml",
    ),
}
SEVERAL = {"three mistakes": 3}
"""Several at once: a line for each."""


def scene(mistake: Mistake, folder: Path) -> dict[str, bytes]:
    """The files of a mistake, with what is in them."""
    old, new = mistake.study
    assert old in STUDY
    (folder / "s.toml").write_text(STUDY.replace(old, new, 1) if old else STUDY)
    (mistake.table or (lambda table: table))(own()).to_csv(folder / "own.csv", index=False)
    for name, text in mistake.files.items():
        (folder / name).write_text(text)
    return content(folder)


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


def test_there_are_forty_and_more():
    assert len(MISTAKES) >= 40


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_clear_sentence(name, run, tmp_path):
    mistake = MISTAKES[name]
    before = scene(mistake, tmp_path)
    answer = run(*mistake.typed.split())
    assert answer.code == 2, answer
    assert answer.out == ""
    lines = answer.err.splitlines()
    assert len(lines) == SEVERAL.get(name, 1), answer.err
    assert all(line.startswith("error: ") for line in lines)
    for says in mistake.says:
        assert says in answer.err
    assert not [word for word in ("Traceback", "pydantic", "pickle", "NoneType") if word in answer.err]
    assert content(tmp_path) == before


EACH = """
import json, os, sys
from noiseworthy.cli import main
heavy = {}
for name, folder, typed in json.load(sys.stdin):
    os.chdir(folder)
    sys.argv = ["noiseworthy", *typed.split()]
    try:
        main()
    except SystemExit:
        loaded = {one.split(".")[0] for one in sys.modules}
        heavy[name] = sorted(loaded & {"jax", "scipy", "sklearn", "matplotlib"})
print(json.dumps(heavy))
"""


@pytest.mark.full
def test_no_mistake_waits_for_models_and_planners(tmp_path):
    """All of them in one process, which loads none of what takes seconds."""
    told = []
    for i, (name, mistake) in enumerate(MISTAKES.items()):
        folder = tmp_path / str(i)
        folder.mkdir()
        scene(mistake, folder)
        told.append((name, str(folder), mistake.typed))
    environment = {name: value for name, value in os.environ.items() if name != "NOISEWORTHY_DATA"}
    done = subprocess.run(
        [sys.executable, "-c", EACH], input=json.dumps(told), capture_output=True, text=True, check=True,
        env=environment,
    )  # fmt: skip
    heavy = json.loads(done.stdout)
    assert heavy.keys() == MISTAKES.keys()
    assert {name: found for name, found in heavy.items() if found} == {}


SECONDS = 1.5
"""Of work, most of it pandas; an idle machine takes 0.9 where a table is read, a busy one counts more."""


@pytest.mark.slow
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_after_little_work(name, tmp_path):
    scene(MISTAKES[name], tmp_path)
    command = [sys.executable, "-m", "noiseworthy", *MISTAKES[name].typed.split()]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < SECONDS


# What is not installed ----------------------------------------------------------------------------------


EXTRAS = [
    'flwr==1.41.0; extra == "deploy"', "tomli_w>=1.1; extra == 'deploy'", 'datasets>=3; extra == "data"',
    'openpyxl>=3.1; extra == "excel"', 'flwr==1.41.0; extra == "test"', 'hypothesis; extra == "test"',
]  # fmt: skip


@pytest.mark.parametrize(
    ("module", "extra"),
    [("tomli_w", "deploy"), ("flwr.clientapp", "deploy"), ("openpyxl", "excel"), ("datasets", "data")],
)
def test_a_missing_extra_is_named(module, extra, run, monkeypatch, tmp_path):
    """`deploy up` of a base install ended in a traceback of ModuleNotFoundError."""

    def missing(*_, **__):
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr("importlib.metadata.requires", lambda _: EXTRAS)
    monkeypatch.setattr("noiseworthy.cli.planning.prepare_study", missing)
    scene(Mistake(()), tmp_path)
    answer = run("plan", "s.toml")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == f"error: {module} is not installed; pip install 'noiseworthy[{extra}]'\n"


def test_a_missing_module_of_no_extra_is_a_fault_of_ours(run, monkeypatch):
    def missing(*_, **__):
        raise ModuleNotFoundError("No module named 'hypothesis'", name="hypothesis")

    monkeypatch.setattr("importlib.metadata.requires", lambda _: EXTRAS)
    monkeypatch.setattr("noiseworthy.cli.planning.prepare_study", missing)
    with pytest.raises(ModuleNotFoundError):
        run("plan", "s.toml")


@pytest.mark.parametrize("package", ["flwr", "opendp", "tomli_w", "cryptography", "starlette"])
@pytest.mark.parametrize("typed", ["deploy up s.toml", "deploy keys keys"])
def test_a_deployment_says_what_it_needs_before_anything_is_written(
    package, typed, run, monkeypatch, tmp_path
):
    from importlib import util

    find = util.find_spec
    monkeypatch.setattr(util, "find_spec", lambda name, *rest: None if name == package else find(name, *rest))
    before = scene(Mistake(()), tmp_path)
    answer = run("deploy", "up", "s.toml")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == f"error: {package} is not installed; pip install 'noiseworthy[deploy]'\n"
    assert content(tmp_path) == before


# How one begins -----------------------------------------------------------------------------------------


def test_the_program_alone_and_its_help_say_what_there_is(run):
    """A line for every command, whole."""
    alone, asked = run(), run("--help")
    assert asked.code == 0
    for command in ("init", "plan", "train", "schema", "deploy", "ledger"):
        assert command in alone.out + alone.err
        assert command in asked.out


def commands(app: typer.Typer) -> Iterator[Callable[..., Any]]:
    yield from (one.callback for one in app.registered_commands if one.callback is not None)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            yield from commands(group.typer_instance)


def test_no_help_has_words_that_terminals_take_for_a_style():
    """Help of `measure` said "as  tables": a name in brackets is a style to rich."""
    every = [*commands(app)]
    assert len(every) > 25
    assert [one.__name__ for one in every if "[" in str(one.__doc__)] == []


def test_python_m_is_the_command_line(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "noiseworthy", "plan", "none.toml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: study file none.toml does not exist; give the path of a TOML file\n"
