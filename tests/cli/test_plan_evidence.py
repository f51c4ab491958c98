"""`plan --json` says what a plan by trial rests on: what stood in, how records are treated, its band."""

from __future__ import annotations

import json

import pytest

STUDY = {
    "federation": {"data": "iris", "clients": 3, "partition": "iid"},
    "privacy": {"mechanism": "gaussian", "epsilon": 8.0, "delta": 1e-5},
    "planning": {"public": ["wine", "prior:3"], "seeds": 1},
    "algorithm": {"clients_per_round": 3, "max_rounds": 30},
}


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    from typer.testing import CliRunner

    from noiseworthy.cli import app

    folder = tmp_path_factory.mktemp("evidence")
    study = folder / "study.toml"
    lines = [
        f"[{table}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
        for table, keys in STUDY.items()
    ]
    study.write_text("\n".join(lines))
    found = CliRunner().invoke(app, ["plan", str(study), "--json", "--quiet", "--out", str(folder / "run")])
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


@pytest.mark.full
def test_what_stood_in_and_what_it_weighed(said):
    public = said["foretold"]["public"]
    assert [one["name"] for one in public] == ["wine", "prior:3"]
    assert [one["weight"] for one in public] == [1.0, 1.0]
    assert all(one["loss"] > 0 and one["lost"] >= 0 for one in public)


@pytest.mark.full
def test_fewer_uploads_never_promise_more(said):
    """The frontier goes from the most uploads to the fewest, and what is lost only grows."""
    frontier = said["foretold"]["frontier"]
    uploads, lost = ([one[key] for one in frontier] for key in ("uploads", "lost"))
    assert uploads == sorted(uploads, reverse=True)
    assert lost == sorted(lost)
    assert sum(said["releases"]) in uploads


def test_records_are_treated_as_the_task_says(said):
    assert said["task"]["feature_norm"] > 0
    assert said["task"]["bias"] == pytest.approx(0.3 * said["task"]["feature_norm"])


def test_the_band_holds_the_prediction(said):
    loss = said["foretold"]["loss"]
    assert loss["least"] <= loss["mean"] <= loss["most"]
