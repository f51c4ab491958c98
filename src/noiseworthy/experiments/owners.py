"""What clients of a study are offered as owner's files, each in a folder of its own; see docs/gateway.md."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from noiseworthy.engines.flower.processes import GATEWAY, look
from noiseworthy.errors import ConfigError, GatewayError, WireError
from noiseworthy.experiments.deployment import Deployment
from noiseworthy.gateway.client import GatewayClient
from noiseworthy.gateway.messages import About
from noiseworthy.gateway.owner import load_owner

FILE = "owner.toml"
_HEAD = """\
# What the owner of these records allows, offered by the study. No request changes it, and the owner may
# tighten it: a smaller epsilon, a higher noise_floor, fewer releases. See docs/gateway.md.
#
# same_user: gateway and node run as one user, for a demonstration on one machine. Where records are real, run
# them as two users (noiseworthy deploy units) and remove the line: the node talks to a network.

"""


def owner_tables(deployment: Deployment, client: str) -> dict[str, Any]:
    """What one client is offered: budget, floor and counts of the plan, so that hardly anything else fits.

    Args:
        deployment: study and plan.
        client: by name.

    Returns:
        The tables of an owner's file.
    """
    demand, table = deployment.demand_of(client), deployment.prepared.study.federation
    if table.data_dir is not None:
        table = table.model_copy(update={"data_dir": table.data_dir.absolute()})
    return {
        "owner": {"client": client, "data_set": deployment.federation.name},
        "federation": table.model_dump(mode="json", exclude_none=True, exclude_defaults=True),
        "budget": {
            "mechanism": demand.mechanism,
            "epsilon": demand.epsilon,
            "delta": demand.delta,
            "unit": demand.unit,
            "noise_floor": _FOR_ROUNDING * demand.noise,
        },
        "allowed": {
            "algorithms": list(demand.algorithms),
            "models": [demand.model],
            "most_releases": demand.releases,
            "most_parameters": demand.parameters,
            "most_local_steps": demand.local_steps,
        },
        "files": {"socket": "gateway.sock", "ledger": "ledger.sqlite", "same_user": True},
    }


_FOR_ROUNDING = 0.999
"""Part of the plan's noise that an owner's floor is."""


def write_owner_files(deployment: Deployment, folder: Path) -> dict[str, Path]:
    """Write every client's file; one that is there stays as it is, because it is the owner's.

    Args:
        deployment: study and plan.
        folder: in which each client gets a folder.

    Returns:
        The files by client.

    Raises:
        ConfigError: a study whose records lie at their owners, who write their files themselves.
    """
    if deployment.prepared.study.federation.of_owners:
        raise ConfigError(
            "the records of this study lie at their owners, who write their files themselves; start with "
            "noiseworthy deploy link, see docs/deployment.md"
        )
    files = {name: folder / folder_name(name) / FILE for name in deployment.federation.clients}
    for name, path in files.items():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            path.write_text(_HEAD + tomli_w.dumps(owner_tables(deployment, name)))
    return files


def folder_name(client: str) -> str:
    """A client's name as a folder is called.

    Example:
        >>> folder_name("client 1"), folder_name("Zürich/Nord")
        ('client-1', 'Z-rich-Nord')
    """
    return re.sub(r"[^A-Za-z0-9_]+", "-", client).strip("-") or "owner"


def sockets_of(files: Mapping[str, Path]) -> dict[str, Path]:
    """Where gateways listen, by their owners' files."""
    return {name: load_owner(path).files.socket for name, path in files.items()}


@dataclass(frozen=True)
class Standing:
    """How it stands with one owner of a deployment.

    Attributes:
        client: by name.
        gateway: whether its process runs.
        node: whether its process runs.
        about: what the gateway tells; None if it does not answer.
    """

    client: str
    gateway: bool
    node: bool
    about: About | None

    def as_dict(self) -> dict[str, Any]:
        """As plain values."""
        told = None if self.about is None else self.about.model_dump(mode="json")
        return {"client": self.client, "gateway": self.gateway, "node": self.node, "about": told}


def standings(folder: Path) -> list[Standing]:
    """The owners of a deployment on this machine.

    Raises:
        ConfigError: no deployment in the folder.
    """
    running = {process.name for process in look(folder) if process.alive}
    files = sorted((folder / "owners").glob(f"*/{FILE}"))
    if not files:
        raise ConfigError(f"no owners in {folder}; start a deployment with noiseworthy deploy up")
    owners = [load_owner(path) for path in files]
    return [
        Standing(owner.owner.client, f"{GATEWAY}{name}" in running, name in running, told(owner.files.socket))
        for owner in owners
        for name in [folder_name(owner.owner.client)]
    ]


def told(socket: Path, seconds: float = 5.0) -> About | None:
    """What the gateway behind a socket tells of itself; None if it does not answer."""
    try:
        reply = GatewayClient(socket, seconds).about()
    except (GatewayError, WireError):
        return None
    return reply if isinstance(reply, About) else None


def wait_for_gateways(folder: Path, sockets: Mapping[str, Path], seconds: float = 120.0) -> None:
    """Wait until every gateway answers.

    Raises:
        GatewayError: one has ended, or does not answer in time.
    """
    until = time.monotonic() + seconds
    missing = dict(sockets)
    while missing := {name: socket for name, socket in missing.items() if told(socket) is None}:
        running = {process.name for process in look(folder) if process.alive}
        ended = [name for name in missing if f"{GATEWAY}{name}" not in running]
        if ended or time.monotonic() > until:
            name = (ended or list(missing))[0]
            raise GatewayError(
                f"the gateway of {name} does not run; {folder}/logs/{GATEWAY}{name}.log says why"
            )
        time.sleep(0.5)
