"""How long a second start of the command line takes to plan nothing and train the digits study."""

from __future__ import annotations

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


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder) / "digits.toml"
        study.write_text(STUDY)
        command = [sys.executable, "-m", "noiseworthy", "train", str(study), "--out", f"{folder}/run"]
        for start_kind in ("first", "second", "third"):
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            print(f"{start_kind} start: {time.perf_counter() - start:.2f} s")


if __name__ == "__main__":
    main()
