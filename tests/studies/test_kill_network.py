"""Kills of gateways and server: every training ends, nothing is overspent, no ledger is set back unseen."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CAMPAIGN = Path(__file__).parent / "kills" / "campaign.py"


def campaign(seed: int, kills: int, folder: Path) -> dict[str, Any]:
    """What came of a campaign in processes of its own: this one has computed, and must not be forked."""
    command = [sys.executable, str(CAMPAIGN), str(seed), str(kills), str(folder)]
    support = {"PYTHONPATH": str(Path(__file__).parents[1] / "support")}
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **support})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def check(found: dict[str, Any], kills: int) -> None:
    assert found["faults"] == []
    assert sum(found["kills"].values()) >= kills
    assert sum(found["outcomes"].values()) == found["trainings"]
    assert found["outcomes"].keys() <= {"done", "early", "never"}


@pytest.mark.full
def test_a_training_outlives_a_few_kills(tmp_path):
    check(campaign(1, 2, tmp_path), 2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_trainings_outlive_hundreds_of_kills(tmp_path, seed):
    """100 each; a run that lost too many releases may end early, or never begin, in words."""
    found = campaign(100 + seed, 100, tmp_path)
    check(found, 100)
    assert found["outcomes"]["done"] > 0
