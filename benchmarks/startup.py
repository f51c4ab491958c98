"""How long the command line takes to start: a plan from constants, and a training with its report."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STUDY = """
[federation]
data = "digits"
clients = 10
partition = "label-shards"
labels_per_client = 2
[task]
feature_norm = 1.0
normalise = true
[privacy]
mechanism = "gaussian"
epsilon = 4.0
delta = 1e-5
clip_norm = 0.1
[algorithm]
rounds = 50
clients_per_round = 10
step_size = 100.0
[constants]
smoothness = 0.6
strong_convexity = 0.1
gradient_bound = 0.1
initial_distance_sq = 100.0
heterogeneity = 0.1
"""


BARS = {"plan": 1.0, "train": 2.5}
"""Seconds that a warm start may take on two idle cores: a plan from constants, a training with its report."""
TURNS = 7


def seconds(*command: str) -> float:
    """How long a command takes, from its start to the end of its process."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "noiseworthy", *command], check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["NOISEWORTHY_CACHE"] = f"{folder}/cache"
        study = Path(folder) / "digits.toml"
        study.write_text(STUDY)
        turns = [
            {name: seconds(name, str(study), "--out", f"{folder}/{name}") for name in BARS}
            for _ in range(TURNS + 1)
        ]
        for name, bar in BARS.items():
            cold, *warm = (turn[name] for turn in turns)
            middle = statistics.median(warm)
            print(f"{name}: cold {cold:.2f} s, warm {middle:.2f} s (median of {TURNS}; bar {bar} s)")


if __name__ == "__main__":
    main()
