"""A gateway that kills itself: dying.py OWNER.toml STEP WHEN. Draws of noise are counted in a file beside."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from noiseworthy.cli.gateways import gateway
from noiseworthy.deploy.gateway import server
from noiseworthy.deploy.gateway.holding import Holding
from noiseworthy.deploy.gateway.memory import Memories
from noiseworthy.privacy.deployed_noise import DeployedNoise
from noiseworthy.privacy.durable import DurableLedger

STEPS = {
    "pay": (DurableLedger, "reserve"),
    "read": (Holding, "batch"),
    "draw": (DeployedNoise, "added_to"),
    "remember": (Memories, "keep"),
    "seal": (DurableLedger, "seal"),
    "send": (server, "send"),
}


def before(owner: Any, name: str, act: Callable[[], None]) -> None:
    """Do something before a step."""
    step = getattr(owner, name)

    def both(*args: Any, **kwargs: Any) -> Any:
        act()
        return step(*args, **kwargs)

    setattr(owner, name, both)


def after(owner: Any, name: str, act: Callable[[], None]) -> None:
    """Do something after a step."""
    step = getattr(owner, name)

    def both(*args: Any, **kwargs: Any) -> Any:
        step(*args, **kwargs)
        act()

    setattr(owner, name, both)


def note_draw(path: Path) -> None:
    """One more byte, on disk before the noise is drawn."""
    with path.open("ab", buffering=0) as file:
        file.write(b".")


def die() -> None:
    """What no process can catch or put off."""
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    owner, step, when = Path(sys.argv[1]), *sys.argv[2:]
    before(DeployedNoise, "added_to", lambda: note_draw(owner.with_suffix(".draws")))
    {"before": before, "after": after}[when](*STEPS[step], die)
    gateway(owner)
