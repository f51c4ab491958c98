"""What every command takes: `--set`, `--progress`, `--quiet`; and what the program says of itself."""

from __future__ import annotations

import json
from importlib.metadata import version

import pytest
import shellingham
import typer.main

from noiseworthy.cli import app, console

STUDY = {
    "federation": {"data": "digits", "clients": 4, "partition": "iid", "records_per_client": 30},
    "privacy": {"mechanism": "gaussian", "epsilon": 8.0, "delta": 1e-5, "clip_norm": 0.5},
    "task": {"feature_norm": 1.0},
    "algorithm": {"rounds": 6, "clients_per_round": 2, "step_size": 5.0},
    "training": {"seeds": [0], "evaluations": 3},
}
SIZES = {
    "federation": {"sizes": [100, 200]},
    "task": {"dimension": 3},
    "privacy": {"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-5, "clip_norm": 1.0},
    "algorithm": {"rounds": 4, "clients_per_round": 2, "step_size": 0.1},
}
OPENS_A_STUDY = ("plan", "train", "compare", "advise", "tradeoff", "rivals", "audit", "account", "measure")


def options(command):
    return {name for one in command.params for name in one.opts}


def test_every_command_that_opens_a_study_can_change_it_and_be_quiet():
    commands = typer.main.get_command(app).commands
    for name in (*OPENS_A_STUDY, "sweep"):
        assert {"--set", "--progress", "--quiet"} <= options(commands[name]), name
    assert {"--progress", "--quiet"} <= options(commands["deploy"].commands["run"])


@pytest.mark.parametrize("name", OPENS_A_STUDY)
def test_each_of_them_refuses_an_unknown_key(name, run, write):
    answer = run(name, write(STUDY), "--set", "privacy.epsilom=2")
    assert answer.code == 2
    assert answer.err == (
        "error: privacy.epsilom: [privacy] has no key 'epsilom'; did you mean privacy.epsilon?\n"
    )


def test_a_value_is_set_for_one_plan(run, write):
    study = write(SIZES)
    plans = [
        json.loads(run("plan", study, "--json", *more).out) for more in ((), ("--set", "privacy.epsilon=2"))
    ]
    assert [plan["privacy"]["clients"][0]["epsilon"] for plan in plans] == [1.0, 2.0]
    assert "--set changes a key of a study" in run("account", "--set", "privacy.epsilon=2").err


def test_progress_in_json_is_one_object_a_line(run, write):
    answer = run("train", write(STUDY), "--progress", "json", "--json")
    assert answer.code == 0
    lines = [json.loads(line) for line in answer.err.splitlines()]
    assert {tuple(line) for line in lines} == {
        ("stage", "what", "done", "total", "unit", "rate", "remaining")
    }
    last = lines[-1]
    assert (last["stage"], last["done"], last["total"], last["unit"]) == ("Training", 6, 6, "rounds")
    assert last["rate"] > 0
    assert last["remaining"] == 0
    json.loads(answer.out)


def test_json_lines_tell_rate_and_time_left(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    line = console._JsonLines("Training", 20, "rounds")
    for done in range(5):
        line.update(done / 20, "north")
        now[0] += 0.5
    told = [json.loads(one) for one in capsys.readouterr().err.splitlines()]
    assert [one["done"] for one in told] == [0, 2, 4]
    assert told[2] == {
        "stage": "Training", "what": "north", "done": 4, "total": 20, "unit": "rounds", "rate": 2.0,
        "remaining": 8.0,
    }  # fmt: skip
    assert told[0]["rate"] is told[0]["remaining"] is None


def test_a_stage_is_told_in_json_before_its_first_tick_and_its_rate_counts_from_there(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    style = console._style.set(console.Style.json)
    with console.progress_bar("Training", 20, "rounds") as bar:
        console._style.reset(style)
        assert json.loads(capsys.readouterr().err)["done"] == 0
        for now[0], done in ((30.0, 0.0), (32.0, 0.5)):
            bar(done)
    assert [json.loads(one)["rate"] for one in capsys.readouterr().err.splitlines()] == [None, 5.0]


def test_quiet_says_nothing_beside_the_answer(run, write):
    answer = run("train", write(STUDY), "--quiet", "--set", "training.seeds=[3]")
    assert (answer.code, answer.err) == (0, "")
    assert "report.html" in answer.out


def test_one_command_does_not_change_how_the_next_shows_progress(run, write, monkeypatch):
    monkeypatch.setattr(console, "EVERY", 0.0)
    assert run("train", write(STUDY), "--quiet").err == ""
    assert "Training: " in run("train", write(STUDY), "--out", "next").err


def test_the_program_says_its_version(run):
    assert run("--version").out == f"noiseworthy {version('noiseworthy')}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_can_complete_commands(shell, run, monkeypatch):
    monkeypatch.setattr(shellingham, "detect_shell", lambda: (shell, f"/usr/bin/{shell}"))
    answer = run("--show-completion")
    assert answer.code == 0
    assert "_NOISEWORTHY_COMPLETE" in answer.out
