"""Kills of gateways and of the server in trainings over sockets: campaign.py SEED KILLS FOLDER.

Every process is forked from this one, which has imported everything and computed nothing. A process that is
to die counts its steps (paying, reading, drawing, sealing, sending, keeping, ...), each before and after, and
kills itself at the one that the seed chose; one in four is killed from outside after some time instead. A
gateway that died is started again, a server goes on with `resume`, until the training ends. Then the ledgers
are looked at. The last line on stdout is a JSON object with counts, and with everything that did not hold.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w
from direct import Direct

from noiseworthy.cli.gateways import gateway as serve_gateway
from noiseworthy.deploy import correspondence, deployed
from noiseworthy.deploy.deployment import Deployment
from noiseworthy.deploy.gateway import gateway as gateway_module
from noiseworthy.deploy.gateway import server as gateway_server
from noiseworthy.deploy.gateway.client import GatewayClient
from noiseworthy.deploy.gateway.holding import Holding
from noiseworthy.deploy.owners import owner_tables
from noiseworthy.deploy.run_state import RunState
from noiseworthy.engines.compilation import use_persistent_cache
from noiseworthy.errors import NoMoreReplies, TooFewReplies
from noiseworthy.privacy.deployed_noise import DeployedNoise
from noiseworthy.privacy.durable import DurableLedger, Head
from noiseworthy.privacy.durable.accounts import LAST_BITS, WHOLE
from noiseworthy.privacy.durable.reading import check_holds, leases_of, read_ledger
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.planner import plan_study
from noiseworthy.studies.prepare import prepare

OWNERS, ROUNDS = 3, 5
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
step_decay = "none"
momentum = 0.0
averaging = 0.0
weighting = 0.0
"""
GATEWAY_STEPS = [
    (DurableLedger, "begin"),
    (DurableLedger, "reserve"),
    (DurableLedger, "seal"),
    (DurableLedger, "acknowledge"),
    (Holding, "rehearsal"),
    (Holding, "batch"),
    (DeployedNoise, "added_to"),
    (gateway_module, "lease"),
    (gateway_module, "end_leases"),
    (gateway_server, "receive"),
    (gateway_server, "send"),
]
SERVER_STEPS = [
    (deployed, "save_checkpoint"),
    (deployed, "leased"),
    (deployed, "confirmed"),
    (deployed, "released"),
    (GatewayClient, "forward"),
]
PATIENCE, RESUMES = 60.0, 60
TIMED, MOST_SECONDS = 0.25, 2.5
MOST_STEPS = {"gateway": 70, "server": 60}


def die() -> None:
    """What no process can catch or put off."""
    os.kill(os.getpid(), signal.SIGKILL)


def counted(steps: list[tuple[Any, str]], last: int | None) -> None:
    """Count every step, before and after it, and die at the last one."""
    done = Counter[str]()

    def tick() -> None:
        done["steps"] += 1
        if done["steps"] == last:
            die()

    def both(owner: Any, name: str) -> None:
        step = getattr(owner, name)

        def stepping(*args: Any, **kwargs: Any) -> Any:
            tick()
            found = step(*args, **kwargs)
            tick()
            return found

        setattr(owner, name, stepping)

    for owner, name in steps:
        both(owner, name)


def forked(work: Callable[[], int], log: Path) -> int:
    """The number of a new process that does some work, and ends with what it gives."""
    number = os.fork()
    if number:
        return number
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    code = 1
    try:
        use_persistent_cache()
        code = work()
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def deployment() -> Deployment:
    prepared, decision = plan_study(prepare(parse_study(tomllib.loads(STUDY))))
    return Deployment.of(prepared, decision.plan)


def write_owners(folder: Path) -> int:
    """Every owner's file, once for all runs."""
    offered = deployment()
    for name in offered.federation.clients:
        tables = owner_tables(offered, name)
        (folder / f"{name}.toml").write_text(tomli_w.dumps(tables))
    return 0


def run_gateway(file: Path, last: int | None) -> int:
    """A gateway that counts its draws on disk, and its steps until the last one."""
    added = DeployedNoise.added_to

    def noted(self: DeployedNoise, total: Any) -> Any:
        with file.with_suffix(".draws").open("ab", buffering=0) as draws:
            draws.write(b".")
        return added(self, total)

    DeployedNoise.added_to = noted
    counted(GATEWAY_STEPS, last)
    serve_gateway(file)
    return 0


def run_server(folder: Path, last: int | None) -> int:
    """A training, or what is left of it; 3 if it must be gone on with, 4 if it can never be."""
    correspondence._PAUSE = 0.1
    counted(SERVER_STEPS, last)
    owners = {}
    for file in sorted(folder.glob("*/owner.toml")):
        client = tomllib.loads(file.read_text())["owner"]["client"]
        owners[client] = GatewayClient(file.with_name("g.sock"), 30.0).forward
    run = folder / "run"
    resume = (run / "checkpoint.npz").exists()
    try:
        exchange = Direct(owners, come_back=True)
        done = deployed.train(deployment(), exchange, run, resume=resume, patience=PATIENCE)
    except NoMoreReplies as error:
        print("never:", error)
        return 4
    except TooFewReplies as error:
        print("later:", error)
        return 3
    reached = {"ended": done.told.ended, "rounds": int(done.trained.rounds[-1])}
    (folder / "done.json").write_text(json.dumps(reached))
    return 0


@dataclass
class Training:
    """One training whose processes are killed, until it ends.

    Attributes:
        folder: of its own.
        draw: of what dies when.
        quota: kills of this training at most.
        kills: by victim.
        faults: what did not hold.
    """

    folder: Path
    draw: random.Random
    quota: int
    kills: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    outcome: str = ""
    resumes: int = 0
    _alive: dict[int, str] = field(default_factory=dict)
    _at: dict[int, float] = field(default_factory=dict)
    _backups: dict[str, Path] = field(default_factory=dict)

    def last(self, kind: str) -> tuple[int | None, float | None]:
        """The step, or the second, at which the next process of a kind dies; neither once enough have."""
        if sum(self.kills.values()) >= self.quota:
            return None, None
        if self.draw.random() < TIMED:
            return None, time.monotonic() + self.draw.uniform(0.0, MOST_SECONDS)
        return self.draw.randint(1, MOST_STEPS[kind]), None

    def start(self, name: str) -> None:
        """Start the gateway of an owner, or the server."""
        kind = "server" if name == "server" else "gateway"
        last, second = self.last(kind)
        file = self.folder / name / "owner.toml"
        work = (
            (lambda: run_server(self.folder, last)) if kind == "server" else (lambda: run_gateway(file, last))
        )
        number = forked(work, self.folder / f"{name}.log")
        self._alive[number] = name
        if second is not None:
            self._at[number] = second

    def to_its_end(self) -> None:
        """Start all, and again whoever was killed, until the server ends."""
        names = sorted(path.parent.name for path in self.folder.glob("*/owner.toml"))
        for name in [*names, "server"]:
            self.start(name)
        while not self.outcome:
            self._kill_in_time()
            number, status = os.waitpid(-1, os.WNOHANG)
            if not number:
                time.sleep(0.005)
                continue
            self._ended(self._alive.pop(number), number, status)
        for number in self._alive:
            os.kill(number, signal.SIGKILL)
            os.waitpid(number, 0)
        for name in names:
            self._look_at(self.folder / name)

    def _kill_in_time(self) -> None:
        for number, second in list(self._at.items()):
            if time.monotonic() >= second:
                del self._at[number]
                os.kill(number, signal.SIGKILL)

    def _ended(self, name: str, number: int, status: int) -> None:
        self._at.pop(number, None)
        if os.WIFSIGNALED(status):
            self.kills["server" if name == "server" else "gateway"] += 1
            self._copy(name)
            self.start(name)
        elif name != "server":
            self.faults.append(f"gateway {name} ended by itself with {status}")
            self.outcome = "broken"
        elif os.waitstatus_to_exitcode(status) in (0, 4):
            self.outcome = "never" if os.waitstatus_to_exitcode(status) else "done"
        elif os.waitstatus_to_exitcode(status) == 3 and self.resumes < RESUMES:
            self.resumes += 1
            self.start("server")
        else:
            self.outcome = "broken"
            self.faults.append(f"the server ended with {status} after {self.resumes} resumes")

    def _copy(self, name: str) -> None:
        """What an owner might put back later: its ledger as it is now."""
        ledger = self.folder / name / "ledger.sqlite"
        if name != "server" and name not in self._backups and ledger.exists():
            self._backups[name] = ledger.with_name("earlier.sqlite")
            with sqlite3.connect(ledger) as db, sqlite3.connect(self._backups[name]) as copy:
                db.backup(copy)

    def _look_at(self, folder: Path) -> None:
        """Whether a ledger holds, and all that was promised of it."""
        told = RunState.kept_in(self.folder / "run")
        with read_ledger(folder / "ledger.sqlite") as books:
            client = books.query("SELECT client FROM accounts")[0][0]
            ((spent,),) = books.query("SELECT spent FROM accounts")
            numbers = [number for (number,) in books.query("SELECT number FROM releases ORDER BY number")]
            draws = folder / "owner.draws"
            drawn = draws.stat().st_size if draws.exists() else 0
            head = told.heads.get(client)
            held = {
                "overspent": spent > WHOLE + LAST_BITS,
                "more releases than planned": len(numbers) > ROUNDS or max(numbers, default=0) > ROUNDS,
                "noise drawn without pay": drawn > len(numbers),
                "a lease that was not let go": bool(leases_of(books)),
                "two runs": len(books.query("SELECT 1 FROM runs")) > 1,
                "a head that was told and is gone": head is not None and not _holds(books, head),
            }
            earlier = self._backups.get(folder.name)
            if head is not None and earlier is not None:
                with DurableLedger.open(earlier) as copy:
                    same = copy.head.length >= Head.read(head).length
                    held["a ledger set back unnoticed"] = not same and _holds(copy, head)
        self.faults += [f"{folder}: {name}" for name, wrong in held.items() if wrong]


def _holds(books: DurableLedger, head: str) -> bool:
    try:
        check_holds(books, Head.read(head))
    except ValueError:
        return False
    return True


def campaign(seed: int, kills: int, folder: Path) -> dict[str, Any]:
    """Trainings until so many processes were killed.

    Returns:
        Counts of kills by victim, of outcomes, of early ends, and what did not hold.
    """
    folder.mkdir(parents=True, exist_ok=True)
    number = forked(lambda: write_owners(folder), folder / "owners.log")
    if os.waitpid(number, 0)[1]:
        raise SystemExit((folder / "owners.log").read_text())
    draw, total, outcomes = random.Random(seed), Counter[str](), Counter[str]()
    faults: list[str] = []
    trainings = resumes = 0
    while sum(total.values()) < kills:
        place = folder / f"{trainings:03d}"
        for i, file in enumerate(sorted(folder.glob("*.toml"))):
            own = place / f"owner{i}"
            own.mkdir(parents=True)
            tables = tomllib.loads(file.read_text()) | {
                "files": {"socket": "g.sock", "ledger": "ledger.sqlite", "same_user": True}
            }
            (own / "owner.toml").write_text(tomli_w.dumps(tables))
        quota = min(draw.randint(5, 16), kills - sum(total.values()))
        training = Training(place, draw, quota)
        training.to_its_end()
        trainings, resumes = trainings + 1, resumes + training.resumes
        total += training.kills
        early = training.outcome == "done" and json.loads((place / "done.json").read_text())["ended"]
        outcomes["early" if early else training.outcome] += 1
        faults += training.faults
        if not training.faults:
            shutil.rmtree(place)
        print(trainings, dict(total), dict(outcomes), faults, flush=True)
    return {
        "trainings": trainings,
        "kills": dict(total),
        "outcomes": dict(outcomes),
        "resumes": resumes,
        "faults": faults,
    }


if __name__ == "__main__":
    seed, kills, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    print(json.dumps(campaign(seed, kills, folder)))
