"""Kills of superlink, nodes, gateways and server of a deployment over Flower, as its user would go on."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from noiseworthy.deploy.flower.processes import look
from noiseworthy.privacy.durable.accounts import LAST_BITS, WHOLE
from noiseworthy.privacy.durable.reading import leases_of, read_ledger

from .test_deploy import typed

OWNERS, ROUNDS, KILLS, MOST_RESUMES = 3, 25, 40, 60
STUDY = f"""
[federation]
data = "breast-cancer"
clients = {OWNERS}
[task]
model = "logistic"
feature_norm = 1.0
[privacy]
epsilon = 4.0
delta = 1e-5
mechanism = "gaussian"
clip_norm = 0.5
[algorithm]
name = "fedsgd-dpc"
rounds = {ROUNDS}
clients_per_round = {OWNERS}
step_size = 2.0
"""


class Training:
    """`deploy run`, gone on with whenever it ended without a model."""

    def __init__(self, folder: Path):
        self.folder, self.resumes = folder, -1
        self.process = self.started()

    def started(self) -> subprocess.Popen[str]:
        self.resumes += 1
        again = ["--resume"] if (self.folder / "runs" / "three" / "checkpoint.npz").exists() else []
        command = [sys.executable, "-m", "noiseworthy", "deploy", "run", "three.toml", *again]
        with self.log.open("w") as log:
            return subprocess.Popen(
                [*command, "--patience", "60"], cwd=self.folder, stdout=log, stderr=log, text=True
            )

    @property
    def log(self) -> Path:
        """What the running process says."""
        return self.folder / f"run-{self.resumes}.log"

    @property
    def ended(self) -> bool:
        """Whether all owners know its end, or it said that it never comes; it is started again if neither."""
        code = self.process.poll()
        if code is None:
            return False
        said = self.log.read_text()
        if (code == 0 and "could not be told" not in said) or "this round can never be made" in said:
            return True
        assert code in (0, 2, 130, -signal.SIGKILL), said
        assert "Traceback" not in said, said
        assert self.resumes < MOST_RESUMES, said
        typed("deploy", "up", "three.toml", folder=self.folder)
        self.process = self.started()
        return False


def kill_one(draw: random.Random, training: Training, place: Path) -> None:
    """Any process of the deployment, or the server."""
    alive = [process.pid for process in look(place) if process.alive]
    os.kill(draw.choice([*alive, training.process.pid]), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_training_over_flower_outlives_kills_of_all_its_processes(seed, tmp_path):
    (tmp_path / "three.toml").write_text(STUDY)
    place, draw, kills = tmp_path / "deployments" / "three", random.Random(seed), 0
    try:
        typed("deploy", "up", "three.toml", folder=tmp_path)
        training = Training(tmp_path)
        due = time.monotonic() + draw.uniform(4, 25)
        while not training.ended:
            time.sleep(0.5)
            if kills < KILLS and time.monotonic() >= due:
                kill_one(draw, training, place)
                kills, due = kills + 1, time.monotonic() + draw.uniform(4, 25)
                typed("deploy", "up", "three.toml", folder=tmp_path)
    finally:
        typed("deploy", "down", "three.toml", folder=tmp_path)
    print(f"{kills} kills, {training.resumes} resumes")
    for ledger in place.glob("owners/*/ledger.sqlite"):
        with read_ledger(ledger) as books:
            ((spent,),) = books.query("SELECT spent FROM accounts")
            numbers = [number for (number,) in books.query("SELECT number FROM releases")]
            assert spent <= WHOLE + LAST_BITS
            assert max(numbers, default=0) <= ROUNDS
            assert leases_of(books) == []
