"""What one round of a secure sum costs an owner and the server: seconds of CPU and bytes, by owners."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from noiseworthy.deploy.secure_sum.collector import Collector
from noiseworthy.deploy.secure_sum.keys import Roster, public_of
from noiseworthy.deploy.secure_sum.member import Member
from noiseworthy.deploy.secure_sum.messages import STEPS
from noiseworthy.deploy.secure_sum.record import RoundRecord
from noiseworthy.deploy.secure_sum.terms import Terms

PARAMETERS = 100_000
OWNERS = (5, 10, 20, 50, 100)


class Upload:
    """Steps that cost nothing to draw, so that the protocol alone is measured."""

    def __init__(self, steps: np.ndarray):
        self._steps = steps

    def charge(self) -> None:
        return

    def steps(self) -> np.ndarray:
        return self._steps


def round_of(owners: int, folder: Path) -> dict[str, float]:
    """One round with a tenth of colluders, and as many owners who are missing when they should upload."""
    names = tuple(f"owner {i:03}" for i in range(owners))
    keys = {name: Ed25519PrivateKey.generate() for name in names}
    roster = Roster({name: public_of(key) for name, key in keys.items()})
    part = owners // 10
    terms = Terms("run", 1, roster.digest, names, part, part, PARAMETERS, -30, 2**40, 2.0**40, "gradients")
    record = RoundRecord.open(folder / f"{owners}.rounds")
    rng = np.random.default_rng(owners)
    uploads = {name: Upload(rng.integers(-(2**40), 2**40, PARAMETERS)) for name in names}
    rounds, cpu, sent, got, server = {}, Counter(), Counter(), Counter(), 0.0
    collector = Collector(terms, roster)
    requests = collector.start()
    for step in STEPS:
        replies = {}
        for name, data in requests.items():
            if step == "upload" and name in names[:part]:
                continue
            started = time.process_time()
            if step == "keys":
                rounds[name] = Member(name, keys[name], roster, record).begin(data, uploads[name])
                replies[name] = rounds[name].keys()
            else:
                replies[name] = rounds[name].answer(data)
            cpu[name] += time.process_time() - started
            got[name] += len(data)
            sent[name] += len(replies[name])
        started = time.process_time()
        requests = collector.step(replies)
        server += time.process_time() - started
    expected = np.sum([uploads[name]._steps for name in collector.survivors], axis=0)
    if collector.total is None or not np.array_equal(collector.total, expected):
        raise SystemExit("the sum is wrong")
    return {
        "owners": owners,
        "survivors": len(collector.survivors),
        "owner_seconds": max(cpu.values()),
        "server_seconds": server,
        "sent": max(sent.values()),
        "got": max(got.values()),
    }


def main() -> None:
    print("| owners | survivors | CPU of an owner | CPU of the server | an owner sends | gets |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for owners in OWNERS:
            one = round_of(owners, Path(folder))
            print(
                f"| {one['owners']} | {one['survivors']} | {1000 * one['owner_seconds']:.0f} ms | "
                f"{one['server_seconds']:.2f} s | {one['sent'] / 1000:,.0f} kB | "
                f"{one['got'] / 1000:,.0f} kB |"
            )


if __name__ == "__main__":
    main()
