"""`noiseworthy rivals`: what it prints and writes, and one line for what it cannot do."""

from __future__ import annotations

import json

import numpy as np
import pytest

STUDY = {
    "federation": {"data": "iris", "clients": 6, "partition": "dirichlet", "alpha": 3.0, "seed": 1},
    "task": {"model": "softmax", "feature_norm": 1.0},
    "privacy": {
        "mechanism": "laplace", "epsilon": {"uniform": [0.5, 40.0]}, "clip_norm": 0.5,
    },
    "algorithm": {"name": "weiavg", "rounds": 8, "clients_per_round": 2, "step_size": 0.5},
    "rivals": {"epsilon_max": [10.0], "seeds": [0, 1]},
}  # fmt: skip
NAMES = ["DMLDP", "WeiAvg", "PFA", "PrivateFL", "PrivateFL-BCS", "DPFL-BCS"]


@pytest.mark.full
@pytest.mark.usefixtures("drawn")
def test_json_is_the_record_alone_and_the_folder_holds_the_pictures(run, write, tmp_path):
    answer = run("rivals", write(STUDY), "--out", "here", "--json")
    assert answer.code == 0, answer.err
    record = json.loads(answer.out)
    assert record == json.loads((tmp_path / "here" / "record.json").read_text())
    reference, own, poorer = record["rivals"]["points"]
    assert [one["name"] for one in reference["algorithms"]] == ["FedSGD"]
    assert [one["name"] for one in own["algorithms"]] == NAMES
    assert (own["epsilon_max"], poorer["epsilon_max"]) == (40, 10)
    assert np.shape([one["accuracy"] for one in own["algorithms"]]) == (6, 2)
    assert record["plan"]["algorithm"] == "dpfl-bcs"
    assert record["study"]["algorithm"]["name"] == "weiavg"
    pictures = {path.name for path in (tmp_path / "here").glob("*.png")}
    assert {"rivals.png", "rivals-varied.png", "participation.png"} <= pictures
    page = (tmp_path / "here" / "report.html").read_text()
    assert "<h2>DPFL-BCS beside its rivals</h2>" in page
    assert "<h2>Whom to ask</h2>" in page
    assert "Where everybody stands" in (tmp_path / run("report", "here").out.split()[-1]).read_text()


@pytest.mark.full
def test_without_json_it_prints_the_finding_the_tables_and_the_time(run, write):
    answer = run("rivals", write(STUDY))
    assert answer.code == 0, answer.err
    said = " ".join(answer.out.split())
    assert "Under Laplace noise DPFL-BCS is " in said
    assert "416 replies in " in said
    for name in [*NAMES, "FedSGD"]:
        assert name in said
    assert "Laplace noise, the largest budget" in said
    assert max(map(len, answer.out.splitlines())) <= 80
    assert "runs/study/report.html" in answer.out.replace("\n", "")


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ({"algorithm": {"name": "dp-pasgd", "rounds": None, "clients_per_round": None}},
         "[algorithm] name must be one of dpfl-bcs, fedsgd, dpsgd"),
        ({"algorithm": {"name": "dpfl-bcs", "step_size": None}}, "[algorithm] step_size is missing"),
        ({"privacy": {"epsilon": 3.0}}, "[privacy] epsilon is none; state epsilon = { uniform"),
        ({"federation": {"partition": "iid", "alpha": None}, "rivals": {"alpha": [1.0]}},
         "[rivals] alpha varies a Dirichlet partition"),
        ({"rivals": {"mechanisms": ["gaussian"]}}, "delta"),
        ({"algorithm": {"clients_per_round": 9}}, "the federation has 6 clients"),
    ],
    ids=["algorithm", "no step", "no range", "no Dirichlet", "Gaussian without delta", "clients"],
)  # fmt: skip
def test_what_cannot_be_compared_is_one_line_and_leaves_no_folder(tables, says, run, write, tmp_path):
    answer = run("rivals", write(STUDY, **tables), "--out", "here")
    assert answer.code == 2
    assert says in answer.err
    assert answer.err.count("\n") == 1
    assert not (tmp_path / "here").exists()
