"""Training processes that are killed outright: no release goes uncounted, none is noised twice, same end."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from noiseworthy.privacy.durable.statement import statement
from noiseworthy.studies.run_folder import opened_ledger

ZYGOTE = Path(__file__).parent / "kills" / "zygote.py"
ROUNDS, ASKED, SEEDS = 24, 2, 2


class Zygote:
    """A process that forks trainings."""

    def __init__(self, cache: Path):
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(ZYGOTE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env={**os.environ, "NOISEWORTHY_CACHE": str(cache)},
        )  # fmt: skip

    def train(self, folder: Path, witness: Path, seconds: float = math.inf) -> tuple[bool, float]:
        """Whether a training was killed after so many seconds, and how long it ran."""
        self.process.stdin.write(f"{folder} {witness} {seconds}\n")
        self.process.stdin.flush()
        status, ran = self.process.stdout.readline().split()
        assert int(status) in (0, signal.SIGKILL)
        return int(status) != 0, float(ran)

    def end(self) -> None:
        self.process.stdin.close()
        assert self.process.wait(20) == 0
        self.process.stdout.close()


@pytest.fixture(scope="module")
def zygote(tmp_path_factory):
    made = Zygote(tmp_path_factory.mktemp("cache"))
    yield made
    made.end()


@pytest.fixture(scope="module")
def unbroken(zygote, tmp_path_factory):
    """The end of a training that nobody kills, what it witnessed, and how long it takes once compiled."""
    folder = tmp_path_factory.mktemp("unbroken")
    zygote.train(folder / "first", folder / "first.txt")
    _, seconds = zygote.train(folder / "run", folder / "witness.txt")
    return end_of(folder / "witness.txt"), drawn(folder / "witness.txt"), seconds


def end_of(witness: Path) -> dict[str, np.ndarray]:
    """Parameters and uploads of a training that ended."""
    with np.load(witness.with_suffix(".npz")) as kept:
        return dict(kept)


def drawn(witness: Path) -> dict[tuple[int, int], set[str]]:
    """Rounds whose noise was drawn, with the digests of what came out."""
    found: dict[tuple[int, int], set[str]] = defaultdict(set)
    for line in witness.read_text().splitlines() if witness.exists() else []:
        _, start, stop, *digest = line.split()
        found[int(start), int(stop)] |= set(digest)
    return found


def check(folder: Path, witness: Path) -> None:
    """After a kill: the chain holds, and every upload whose noise was drawn has been paid for."""
    seen = drawn(witness)
    if not seen:
        return
    with opened_ledger(folder) as ledger:
        paid = sum(line.spent for line in statement(ledger))
    assert paid >= SEEDS * ASKED * max(stop for _, stop in seen)
    assert all(len(digests) <= 1 for digests in seen.values()), "noise was drawn twice for other values"


def kill_often(zygote, unbroken, folder: Path, kills: int, seed: int) -> int:
    """Kill trainings at random moments, each resumed until it ends; returns how many kills fell."""
    rng, (end, whole, seconds) = np.random.default_rng(seed), unbroken
    fallen = run = 0
    while fallen < kills:
        run += 1
        place, witness = folder / f"run{run}", folder / f"witness{run}.txt"
        alive = True
        while alive:
            moment = rng.uniform(0, seconds / 2) if fallen < kills else math.inf
            alive, _ = zygote.train(place, witness, moment)
            fallen += alive
            check(place, witness)
        reached = end_of(witness)
        np.testing.assert_array_equal(reached["theta"], end["theta"])
        np.testing.assert_array_equal(reached["uploads"], end["uploads"])
        assert drawn(witness) == whole
        with opened_ledger(place) as ledger:
            lines = statement(ledger)
        assert all(line.planned == line.spent == line.sealed == line.acknowledged for line in lines)
        assert sum(line.spent for line in lines) == SEEDS * ASKED * ROUNDS
    return fallen


@pytest.mark.full
def test_three_kills(zygote, unbroken, tmp_path):
    assert kill_often(zygote, unbroken, tmp_path, kills=3, seed=0) >= 3


@pytest.mark.slow
def test_two_hundred_kills(zygote, unbroken, tmp_path):
    assert kill_often(zygote, unbroken, tmp_path, kills=200, seed=1) >= 200
