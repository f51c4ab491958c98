"""`noiseworthy advise`: what it prints and writes, and one line for what it cannot do."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from noiseworthy.methods.space import Grid
from noiseworthy.sweeps import advisor
from noiseworthy.trials import landscape, race, spaces

STUDY = {
    "federation": {"data": "wine", "clients": 4, "partition": "iid"},
    "task": {"model": "softmax", "feature_norm": 1.0, "normalise": True},
    "privacy": {"mechanism": "gaussian", "epsilon": 20.0, "delta": 1e-4},
    "planning": {"public": ["iris"], "seeds": 1},
}


@pytest.fixture(autouse=True)
def _few_settings(monkeypatch):
    few = Grid((5.0,), (2,), (0.5,), (3, 30))
    one = replace(few, work=(1,))
    monkeypatch.setattr(spaces.Space, "grid", property(lambda space: one if space.one_gradient else few))
    monkeypatch.setattr(race, "RUNGS", ())
    monkeypatch.setattr(landscape, "PASSES", (1.0,))
    monkeypatch.setattr(landscape, "WORK", (1.0,))
    monkeypatch.setattr(advisor, "NAMES", ("fedsgd-dpc", "dp-fedavg", "dmldp"))


@pytest.mark.full
@pytest.mark.usefixtures("drawn")
def test_json_is_the_advice_alone_and_the_folder_holds_page_pictures_and_study(run, write, tmp_path):
    answer = run("advise", write(STUDY), "--out", "here", "--json")
    assert answer.code == 0, answer.err
    advice = json.loads(answer.out)
    assert advice == json.loads((tmp_path / "here" / "advice.json").read_text())
    assert {one["name"] for one in advice["algorithms"]} == {"fedsgd-dpc", "dp-fedavg"}
    assert [one["name"] for one in advice["left_out"]] == ["dmldp"]
    assert (tmp_path / "here" / "advice.png").stat().st_size > 10_000
    page = (tmp_path / "here" / "report.html").read_text()
    assert f"<h1>Train with {advice['recommended']}</h1>" in page
    assert "http" not in page.split("</style>")[1].replace("http://www.w3.org", "")
    planned = run("plan", tmp_path / "here" / "recommended.toml", "--json")
    assert planned.code == 0, planned.err
    best = next(one for one in advice["algorithms"] if one["name"] == advice["recommended"])
    made = json.loads(planned.out)
    for name in ("rounds", "clients_per_round", "clip_norm", "step_size"):
        assert made[name] == best["plan"][name]
    assert made["algorithm"] == best["name"]


@pytest.mark.full
def test_without_json_it_prints_the_recommendation_the_table_and_who_is_left_out(run, write):
    answer = run("advise", write(STUDY), "--budget-seconds", "1000")
    assert answer.code == 0, answer.err
    said = " ".join(answer.out.split())
    assert "Train with " in said
    assert "of one" in said
    assert "without dmldp: it is defined for Laplace noise only" in said
    assert max(map(len, answer.out.splitlines())) <= 80
    assert "runs/study/report.html" in answer.out.replace("\n", "")


@pytest.mark.full
def test_a_budget_of_seconds_reaches_the_planner(run, write):
    answer = run("advise", write(STUDY), "--budget-seconds", "0.001", "--json")
    advice = json.loads(answer.out)
    assert [one["name"] for one in advice["algorithms"]] == ["fedsgd-dpc"]
    assert advice["algorithms"][0]["unfinished"]
    assert any("time ran out" in one["reason"] for one in advice["left_out"])
    planned = run("plan", write(STUDY), "--budget-seconds", "0.001", "--json")
    assert any("time for planning ran out" in note for note in json.loads(planned.out)["notes"])


@pytest.mark.parametrize(
    ("tables", "options", "says"),
    [
        ({"privacy": {"mechanism": "none", "delta": 0.0}}, (), "nothing to advise on without noise"),
        ({"planning": {"public": ["wine"]}}, (), "is the private data of this study"),
        ({"federation": {"data": None, "clients": None, "partition": None, "sizes": [40] * 4},
          "task": {"model": None, "feature_norm": None, "normalise": None, "dimension": 5}}, (),
         "has sizes but no data"),
        ({}, ("--budget-seconds", "-3"), "--budget-seconds must be finite and above 0, got -3"),
        ({}, ("--budget-seconds", "soon"), "'--budget-seconds'"),
    ],
    ids=["no noise", "own data", "no data", "negative time", "no time"],
)  # fmt: skip
def test_what_cannot_be_advised_on_is_one_line_and_leaves_no_folder(
    tables, options, says, run, write, tmp_path
):
    answer = run("advise", write(STUDY, **tables), "--out", "here", *options)
    assert answer.code == 2
    assert says in answer.err
    assert answer.err.count("\n") == 1
    assert not (tmp_path / "here").exists()
