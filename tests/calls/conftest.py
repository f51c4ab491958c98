"""A study that trains in a second, as a file."""

from __future__ import annotations

from pathlib import Path

import pytest

STUDY = """
[federation]
data = "digits"
clients = 4
partition = "iid"
records_per_client = 30

[task]
model = "softmax"
feature_norm = 1.0

[privacy]
mechanism = "gaussian"
epsilon = 8.0
delta = 1e-5
clip_norm = 0.5

[algorithm]
rounds = 6
clients_per_round = 2
step_size = 5.0

[training]
seeds = [0, 1]
evaluations = 3
"""


@pytest.fixture
def study(tmp_path: Path, monkeypatch) -> Path:
    """The file, in the folder that the test works in."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    return path
