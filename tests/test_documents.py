"""What README and docs show works: Python runs, tables are read, command lines are known to the program.

A block that is none of these says so after its language: ```toml no-run.
"""

from __future__ import annotations

import re
import shlex
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import typer.main

from noiseworthy.cli import app
from noiseworthy.data.schema import read_schema
from noiseworthy.deploy.flower.mod import load_terms
from noiseworthy.deploy.gateway.owner import AllowedTable, load_owner
from noiseworthy.deploy.gateway.summing import SecureSumTable, read_roster
from noiseworthy.methods.fedsgd_dpc import planner as queries_replies
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.studies.loading import load_study, parse_study
from noiseworthy.studies.studies import plan, train_in

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
FENCE = re.compile(r"^( *)```([\w-]*)([^\n]*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """A fenced block: where it begins, its language, what follows that, and its text."""

    place: str
    language: str
    mark: str
    text: str


def blocks(path: Path) -> Iterator[Block]:
    page = path.read_text()
    for found in FENCE.finditer(page):
        place = f"{path.relative_to(ROOT)}:{page.count(chr(10), 0, found.start()) + 1}"
        yield Block(place, found[2], found[3].strip(), textwrap.dedent(found[4]))


BLOCKS = [block for page in PAGES for block in blocks(page)]


def of(language: str) -> list[Any]:
    shown = [block for block in BLOCKS if block.language == language and not block.mark]
    return [pytest.param(block.text, id=block.place) for block in shown]


def test_every_block_says_what_it_is_and_few_cannot_run():
    assert {block.language for block in BLOCKS} <= {"python", "toml", "sh", "text"}
    assert [block.place for block in BLOCKS if block.mark not in ("", "no-run")] == []
    marked = sorted(block.place.split(":")[0] for block in BLOCKS if block.mark)
    assert marked == ["docs/one_upload.md", "docs/planning.md"]
    assert len(of("python")) >= 4
    assert len(of("toml")) >= 12
    assert len(of("sh")) >= 20


# Python ---------------------------------------------------------------------------------------------------

STUDY = """
[federation]
data = "breast-cancer"
clients = 3
[privacy]
mechanism = "gaussian"
epsilon = 4.0
delta = 1e-5
clip_norm = 1.0
[algorithm]
rounds = 5
clients_per_round = 3
step_size = 1.0
"""


def a_plan() -> dict[str, Any]:
    """What the page on deployed noise takes as given."""
    problem = Problem(np.array([40, 60]), 3, PrivacyBudget.of(4.0, 1e-5, 2), "gaussian", 1.0)
    plan = queries_replies.stated(problem, 3, 2, StepSize(0.1))
    return {"plan": plan, "client": 0, "clip_norm": 1.0, "records": 40, "gradients": np.ones((40, 3))}


def flower() -> dict[str, Any]:
    from flwr.clientapp import ClientApp

    return {"ClientApp": ClientApp}


def an_algorithm() -> dict[str, Any]:
    """The first part of the file that docs/new_algorithm.md writes, which the second goes on from."""
    given: dict[str, Any] = {}
    first = next(b for b in blocks(ROOT / "docs" / "new_algorithm.md") if b.language == "python")
    exec(compile(first.text, first.place, "exec"), given)
    return given


def a_model() -> dict[str, Any]:
    """A run's model of a table, and new records; arrays of hospitals for an estimator."""
    draws = np.random.default_rng(0)
    np.savez(
        "hearts.npz", age=draws.uniform(0, 100, 90), dose=draws.uniform(0, 9, 90), ill=["no", "yes"] * 45
    )
    table = {"data": "hearts.npz", "clients": 2, "label_column": "ill", "classes": ["no", "yes"]}
    stages = {"privacy": PARTS["privacy"] | {"clip_norm": 1.0}, "algorithm": {"rounds": 3, "step_size": 1.0}}
    train_in(plan(parse_study({"federation": table} | stages)), Path("runs/hearts"), name="hearts")
    x, y = draws.uniform(0, 1, (200, 2)), np.tile(["no", "yes"], 100)
    arrays = {"X": x, "y": y, "hospital": np.arange(200) // 100, "new": x[:3], "least": 0, "most": 1}
    return {"frame": {"age": [50, 61], "dose": [1, 2]}, **arrays}


GIVEN: dict[str, Callable[[], dict[str, Any]]] = {
    "docs/deployed_noise.md": a_plan, "docs/flower.md": flower, "docs/new_algorithm.md": an_algorithm,
    "docs/model.md": a_model,
}  # fmt: skip
"""What the text around a block has introduced."""


@pytest.mark.full
@pytest.mark.parametrize(
    "block", [pytest.param(b, id=b.place) for b in BLOCKS if b.language == "python" and not b.mark]
)
def test_python_runs(block, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(STUDY)
    given = GIVEN.get(block.place.split(":")[0], dict)()
    exec(compile(block.text, block.place, "exec"), given)


# Tables ---------------------------------------------------------------------------------------------------

PARTS = {
    "federation": {"data": "digits", "clients": 3},
    "privacy": {"mechanism": "gaussian", "epsilon": 4.0, "delta": 1e-5},
}
"""A study that tables which are shown alone could stand in."""


@pytest.mark.parametrize("text", of("toml"))
def test_tables_are_read(text, tmp_path, monkeypatch):
    """As an owner's file, as the terms of a Flower node, or as a study or a part of one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_network.py").write_text("def make(record_shape, classes): ...")
    path, raw = tmp_path / "shown.toml", tomllib.loads(text)
    path.write_text(text)
    if "owner" in raw:
        load_owner(path)
    elif "ledger" in raw:
        load_terms(path)
    elif set(raw) == {"secure_sum"}:
        SecureSumTable.model_validate(raw["secure_sum"])
    elif set(raw) == {"allowed"}:
        AllowedTable.model_validate(raw["allowed"])
    elif set(raw) == {"owners"}:
        assert read_roster(path).digest in (ROOT / "docs/secure_sum.md").read_text()
    elif set(raw) == {"columns"}:
        read_schema(str(path))
    elif {"federation", "privacy"} <= set(raw):
        load_study(path)
    else:
        parse_study(PARTS | raw)


# Commands -------------------------------------------------------------------------------------------------


def commands(text: str) -> list[list[str]]:
    """The words of every line of a shell block after `noiseworthy` or `make`, these included."""
    found = []
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        for program in ("noiseworthy", "make"):
            if program in words:
                found.append([word for word in words[words.index(program) :] if word != "&"])
    return found


def understood(words: list[str]) -> None:
    """Parses the words of a command line without running it; the program's complaint where it has one."""
    command: Any = typer.main.get_command(app)
    context = command.make_context("noiseworthy", list(words))
    while hasattr(command, "resolve_command"):
        rest = [*context._protected_args, *context.args]
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)


@pytest.mark.parametrize("text", of("sh"))
def test_commands_are_known_with_their_options(text):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for program, *words in commands(text):
        if program == "make":
            assert set(words) <= targets
        else:
            understood(words)


@pytest.mark.parametrize("words", [["trian", "study.toml"], ["train", "study.toml", "--quite"], ["plan"]])
def test_a_command_that_is_unknown_would_be_seen(words):
    with pytest.raises(Exception, match=r"No such command|No such option|Missing parameter"):
        understood(words)
