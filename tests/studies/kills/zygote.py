"""Trains in forked children, so that each starts with everything imported, and kills them.

Reads lines `FOLDER WITNESS SECONDS` from stdin. For each it forks a child that trains into FOLDER, or goes on
there, kills it so many seconds after the training started, and answers with its exit status and how long it
ran.

The witness is a file that no ledger code writes: `draw START STOP` before rounds run, so before their noise
is drawn, and `drew START STOP DIGEST` with what came out.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

from noiseworthy.engines import resident
from noiseworthy.engines.compilation import use_persistent_cache
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.planner import decide
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.training import train

ONE_STAGE = {
    "federation": {"data": "iris", "clients": 4, "partition": "iid"},
    "task": {"ridge": 0.1, "feature_norm": 1.0},
    "privacy": {"mechanism": "gaussian", "epsilon": 6.0, "delta": 1e-5, "clip_norm": 0.5},
    "algorithm": {"rounds": 24, "clients_per_round": 2, "step_size": 0.5},
    "constants": {
        "smoothness": 1.0, "strong_convexity": 0.1, "gradient_bound": 1.0, "initial_distance_sq": 25.0,
        "heterogeneity": 0.5,
    },
}  # fmt: skip
SEEDS, EVALUATIONS = [0, 1], 12


def write(witness: Path, line: str) -> None:
    handle = os.open(witness, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, f"{line}\n".encode())
    os.close(handle)


def witnessed(witness: Path) -> None:
    """Write down every run of rounds, beside the ledger and without it."""
    advance = resident._advance

    def noting(stacked, states, memory, train, groups, keys, bounds, *rest):
        start, stop = (int(bound) for bound in bounds)
        write(witness, f"draw {start} {stop}")
        reached, memory = advance(stacked, states, memory, train, groups, keys, bounds, *rest)
        digest = hashlib.sha256(np.asarray(reached.theta).tobytes()).hexdigest()
        write(witness, f"drew {start} {stop} {digest}")
        return reached, memory

    resident._advance = noting


def child(folder: Path, witness: Path, starting: int) -> None:
    use_persistent_cache()
    prepared = prepare(parse_study(ONE_STAGE))
    plan = decide(prepared).plan
    witnessed(witness)
    resume = (folder / "checkpoint.npz").exists()
    os.write(starting, b"!")
    trained = train(
        plan, *prepared.trained(), SEEDS, evaluations=EVALUATIONS, folder=folder, resume=resume,
        belongs_to="iris",
    )  # fmt: skip
    np.savez(witness.with_suffix(".npz"), theta=trained.theta, uploads=trained.uploads)


def killed_after(folder: Path, witness: Path, seconds: float) -> tuple[int, float]:
    """Exit status of a training, and the seconds that it ran; a child that ended cannot be killed again."""
    started, starting = os.pipe()
    number = os.fork()
    if not number:
        child(folder, witness, starting)
        os._exit(0)
    os.close(starting)
    os.read(started, 1)
    os.close(started)
    begun = time.monotonic()
    if seconds < float("inf"):
        time.sleep(seconds)
        os.kill(number, signal.SIGKILL)  # not reaped yet: the number is still the child's
    _, status = os.waitpid(number, 0)
    return status, time.monotonic() - begun


def main() -> None:
    for line in sys.stdin:
        folder, witness, seconds = line.split()
        print(*killed_after(Path(folder), Path(witness), float(seconds)), flush=True)


if __name__ == "__main__":
    main()
