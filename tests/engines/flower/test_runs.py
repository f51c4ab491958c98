"""A run is followed to its end, and a superlink that is gone or refuses is told of in one line."""

from __future__ import annotations

import json
import sys

import pytest

from noiseworthy.engines.flower import runs
from noiseworthy.engines.flower.commands import Link
from noiseworthy.engines.flower.runs import run_app
from noiseworthy.errors import GatewayError

LINES = ["\x1b[92mINFO\x1b[0m : hello", "Successfully started run 17", "round 1"]


@pytest.fixture
def flower(tmp_path, monkeypatch):
    """Stands where `flwr` stands: prints lines, then answers questions for the run one after the other."""

    def stand(lines, answers):
        answers = iter(answers)
        printing = [sys.executable, "-c", f"print({chr(10).join(lines)!r})"]
        monkeypatch.setattr(runs, "link_of", lambda folder: Link(folder, 1))
        monkeypatch.setattr(Link, "run", lambda self, app: printing)
        monkeypatch.setattr(runs, "flwr", lambda home, command: json.dumps(next(answers)))
        monkeypatch.setattr(runs.time, "sleep", lambda seconds: None)
        return tmp_path

    return stand


def status(text, details="N/A"):
    return {"success": True, "runs": [{"run-id": "17", "status": text, "status-details": details}]}


def test_lines_are_told_as_they_come_without_colours(flower):
    folder, told = flower(LINES, [status("running"), status("finished:completed")]), []
    run_app(folder, on_line=told.append)
    assert told == ["INFO : hello", "Successfully started run 17", "round 1"]


def test_a_run_that_failed_is_told_with_flowers_words(flower):
    folder = flower(LINES, [status("finished:failed", "ServerApp failed with exception: no training waits")])
    with pytest.raises(GatewayError, match=r"run 17 finished:failed: .*no training waits"):
        run_app(folder)


def test_an_app_that_is_not_taken_is_told_with_flowers_words(flower):
    with pytest.raises(GatewayError, match="did not take the app: connection refused"):
        run_app(flower(["connection", "  refused"], []))


@pytest.mark.parametrize(
    "answer", [{"success": False, "error-message": "down"}, {"success": True, "runs": []}]
)
def test_a_superlink_that_went_away_is_told_of(flower, answer):
    with pytest.raises(GatewayError, match="does not tell of run 17 any more"):
        run_app(flower(LINES, [answer]))
