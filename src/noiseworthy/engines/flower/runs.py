"""A run of the server's app: handed to the superlink, followed, and its end told."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from noiseworthy.engines.flower.commands import Link, environment
from noiseworthy.engines.flower.fab import write_app
from noiseworthy.engines.flower.processes import flwr, link_of
from noiseworthy.errors import GatewayError

_STARTED = re.compile(r"Successfully started run (\d+)")
_COLOUR = re.compile(r"\x1b\[\d*m")


def run_app(folder: Path, *, on_line: Callable[[str], None] = lambda line: None) -> None:
    """Run the server's app of a deployment at its superlink, until it ends.

    Args:
        folder: of the deployment, whose superlink runs; absolute.
        on_line: told every line that the app prints, some seconds later.

    Raises:
        GatewayError: the superlink does not take the app, or the run failed; the message holds what Flower
            says of it. What the app has kept in the folder is there.
    """
    link = link_of(folder)
    run = _followed(link, write_app(folder), on_line)
    status = _ended(run, link)
    if not status["status"].endswith("completed"):
        raise GatewayError(f"run {run} {status['status']}: {status['status-details']}; see {folder}/logs")


def _followed(link: Link, app: Path, on_line: Callable[[str], None]) -> str:
    """The run's number, once the log has ended."""
    lines: list[str] = []
    with subprocess.Popen(
        link.run(app),
        env=environment(link.home),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        for line in process.stdout or ():
            lines.append(_COLOUR.sub("", line).rstrip())
            on_line(lines[-1])
    found = _STARTED.search("\n".join(lines))
    if found is None:
        raise GatewayError(f"the superlink did not take the app: {' '.join(' '.join(lines).split())[-300:]}")
    return found[1]


def _ended(run: str, link: Link) -> dict[str, str]:
    """What the superlink says of a run that has ended; its log may end a little earlier."""
    while True:
        told = json.loads(flwr(link.home, link.status(run)))
        if not told.get("runs"):
            raise GatewayError(f"the superlink does not tell of run {run} any more; start it, then run again")
        if told["runs"][0]["status"].startswith("finished"):
            return told["runs"][0]
        time.sleep(1.0)
