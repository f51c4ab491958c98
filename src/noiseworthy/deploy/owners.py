"""What clients of a study are offered as owner's files, each in a folder of its own; see docs/gateway.md."""

import hashlib
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from noiseworthy._places import write_whole
from noiseworthy.deploy.deployment import Deployment
from noiseworthy.deploy.flower.processes import GATEWAY, link_of, look
from noiseworthy.deploy.gateway.client import GatewayClient
from noiseworthy.deploy.gateway.messages import About
from noiseworthy.deploy.gateway.owner import load_owner
from noiseworthy.deploy.gateway.summing import read_key
from noiseworthy.deploy.rosters import ROSTER, make_signing_key, public_line, write_roster
from noiseworthy.deploy.secure_sum.keys import Roster
from noiseworthy.errors import ConfigError, GatewayError, WireError
from noiseworthy.studies.tables import Study
from noiseworthy.tasks.encoder import encoder_of
from noiseworthy.tasks.own import sources_of

FILE = "owner.toml"
SIGNING = "signing"
"""The key that an owner of this machine signs with, in its folder."""
_HEAD = """\
# What the owner of these records allows, offered by the study. No request changes it, and the owner may
# tighten it: a smaller epsilon, a higher noise_floor, fewer releases. See docs/gateway.md.

"""
_DEMONSTRATION = """\
# same_user: gateway and node run as one user, for a demonstration on one machine. Where records are real, run
# them as two users (noiseworthy deploy units) and remove the line: the node talks to a network.

"""


def check_held(study: Study) -> None:
    """Refuse, by ConfigError, to write the files of owners whose records the study does not have."""
    if study.federation.of_owners:
        raise ConfigError(
            "the records of this study lie at their owners, who write their files themselves; start with "
            "noiseworthy deploy link, see docs/deployment.md"
        )


def owner_tables(
    deployment: Deployment, client: str, *, apart: bool = False, roster: Roster | None = None
) -> dict[str, Any]:
    """What one client is offered: budget, floor and counts of the plan, so that hardly anything else fits.

    Args:
        deployment: study and plan.
        client: by name.
        apart: gateway and node run as two users of a machine of the owner's.
        roster: of all owners, where they sum; it lies beside the folder that holds theirs.

    Returns:
        The tables of an owner's file.
    """
    demand, study = deployment.demand_of(client), deployment.prepared.study
    files = dict(_APART if apart else _TOGETHER)
    if study.deliver.to == "others":
        del files["tuned"]
    table = study.federation
    if table.data_dir is not None:
        table = table.model_copy(update={"data_dir": table.data_dir.absolute()})
    if not apart:  # the file lies elsewhere than the study, from where its paths start
        table = table.model_copy(update={"data": study.located(str(table.data), absolute=True)})
    return {
        **({} if (columns := study.counted_columns) is None else {"columns": columns.tables()}),
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
            **_models(demand.model),
            **_encoders(demand.encoder),
            "most_releases": demand.releases,
            "most_parameters": demand.parameters,
            "most_local_steps": demand.local_steps,
            **({} if demand.trust.owners_add else {"server_adds_noise": True}),
        },
        "files": files,
        **({} if roster is None else {"secure_sum": _sums(deployment, roster)}),
    }


def _sums(deployment: Deployment, roster: Roster) -> dict[str, Any]:
    known = {"key": SIGNING, "roster": f"../../{ROSTER}", "digest": roster.digest}
    return {**known, "colluders": deployment.plan.problem.trust.colluders, "share_noise": True}


def _models(model: str) -> dict[str, Any]:
    """The model of a plan as an owner allows it; that of a module by the digest of its source."""
    name, _, digest = model.partition("@")
    return {"models": [], "own_models": {name: digest}} if digest else {"models": [name]}


def _encoders(encoder: str | None) -> dict[str, Any]:
    name, _, digest = (encoder or "").partition("@")
    return {"encoders": {name: digest}} if encoder else {}


_TOGETHER = {"socket": "gateway.sock", "ledger": "ledger.sqlite", "tuned": "tuned", "same_user": True}
_APART = {
    "socket": "/run/noiseworthy/gateway.sock",
    "ledger": "/var/lib/noiseworthy-gateway/ledger.sqlite",
    "tuned": "/var/lib/noiseworthy-gateway/tuned",
    "group": "noiseworthy-asking",
}
_FOR_ROUNDING = 0.999
"""Part of the plan's noise that an owner's floor is."""


def write_owner_files(deployment: Deployment, folder: Path, *, apart: bool = False) -> dict[str, Path]:
    """Write every client's file; one that is there stays as and where it is, because it is the owner's.

    Args:
        deployment: study and plan.
        folder: in which each client gets a folder.
        apart: as of `owner_tables`.

    Returns:
        The files by client.

    Raises:
        ConfigError: a study whose records lie at their owners, who write their files themselves; an owner's
            file that cannot be read.
    """
    check_held(deployment.prepared.study)
    there = {load_owner(path).owner.client: path for path in sorted(folder.glob(f"*/{FILE}"))}
    fresh = {name: folder / folder_name(name) / FILE for name in deployment.federation.clients}
    files = {name: there.get(name, path) for name, path in fresh.items()}
    for path in files.values():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    sums = deployment.plan.problem.trust.sums_itself and not apart
    roster = _signed_up(files, folder.parent / ROSTER) if sums else None
    for name, path in files.items():
        if not path.exists():
            head = _HEAD if apart else _HEAD + _DEMONSTRATION
            tables = owner_tables(deployment, name, apart=apart, roster=roster)
            _give_module(deployment, path.parent)
            _give_encoder(deployment, path.parent)
            write_whole(path, head + tomli_w.dumps(tables))  # last: an owner with a file is given nothing
        elif sums and load_owner(path).secure_sum is None:
            raise ConfigError(
                f"{path} has no [secure_sum], and the plan lets owners sum their uploads; add the table "
                "(docs/secure_sum.md), or take another --folder"
            )
    return files


def _signed_up(files: Mapping[str, Path], path: Path) -> Roster:
    """The roster of owners on this machine, with a key of its own in each owner's folder."""
    keys: dict[str, str] = {}
    for name, file in files.items():
        place = file.parent / SIGNING
        keys[name] = public_line(read_key(place) if place.exists() else make_signing_key(place))
    return write_roster(path, keys)


def _give_module(deployment: Deployment, folder: Path) -> None:
    """The source of a study's own model beside an owner's file, for the owner to read before it answers."""
    study = deployment.prepared.study
    if study.task.model_digest is None:
        return
    for source in sources_of(str(study.task.model), study.folder):
        place = folder / source.path.relative_to(study.folder)
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not place.exists():
            write_whole(place, source.text)


def _give_encoder(deployment: Deployment, folder: Path) -> None:
    """A copy of a study's encoder beside an owner's file."""
    study = deployment.prepared.study
    if (encoder := encoder_of(study.task, study.folder)) is None:
        return
    place = folder / encoder.name
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not place.exists():
        write_whole(place, encoder.content)


def folder_name(client: str) -> str:
    """A client's name as a folder, a node or a key is called; no two names share one, in any writing.

    Names of small letters, digits and single hyphens stay as they are. Others keep what a file system surely
    takes, with a digest of the whole name behind.

    Example:
        >>> folder_name("north-2"), folder_name("Ward 1"), folder_name("北京")
        ('north-2', 'Ward-1-e6acf8a9e311', 'owner-68c77e155132')
    """
    if _PLAIN.fullmatch(client) and not _DIGESTED.search(client) and len(client) <= _LONGEST:
        return client
    slug = re.sub(r"[^A-Za-z0-9_]+", "-", client)[:_LONGEST].strip("-")
    return f"{slug or 'owner'}-{hashlib.sha256(client.encode()).hexdigest()[:12]}"


_PLAIN = re.compile("[a-z0-9_]+(-[a-z0-9_]+)*")
_DIGESTED = re.compile("-[0-9a-f]{12}$")
"""How names end that hold a digest; one that only looks so gets another."""
_LONGEST = 60


def sockets_of(files: Mapping[str, Path]) -> dict[str, Path]:
    """Where gateways listen, by their owners' files."""
    return {name: load_owner(path).files.socket for name, path in files.items()}


@dataclass(frozen=True)
class Standing:
    """How it stands with one owner of a deployment.

    Attributes:
        client: by name; of an owner on another machine without a file here, the name of its key.
        gateway: whether its process runs; None on another machine.
        node: whether its process runs; None on another machine.
        connected: whether the superlink has heard of the node lately; None if nobody can tell.
        about: what the gateway tells; None if it does not answer, or lies on another machine.
    """

    client: str
    gateway: bool | None
    node: bool | None
    connected: bool | None
    about: About | None

    def as_dict(self) -> dict[str, Any]:
        """As plain values."""
        told = None if self.about is None else self.about.model_dump(mode="json")
        return {**vars(self), "about": told}


def standings(folder: Path) -> list[Standing]:
    """The owners of a deployment: on this machine, or by the files that they get and the keys they have sent.

    Raises:
        ConfigError: no deployment in the folder.
    """
    runs, online = {process.name: process.alive for process in look(folder)}, connected_in(folder)
    files = sorted((folder / "owners").glob(f"*/{FILE}"))
    known = {folder_name(owner.owner.client): owner for owner in map(load_owner, files)}
    # nobody runs by the other files here: they are for machines of their owners
    here = {name: one for name, one in known.items() if one.files.same_user or f"{GATEWAY}{name}" in runs}
    names = {path.stem: path.stem for path in (folder / "keys" / "nodes").glob("*.pub")}
    names |= {name: one.owner.client for name, one in known.items()}
    if not names:
        raise ConfigError(
            f"no owners in {folder}; start a deployment on one machine with noiseworthy deploy up, on "
            "several with noiseworthy deploy link, or name its --folder"
        )
    away = [Standing(names[one], None, None, online.get(one), None) for one in sorted({*names} - {*here})]
    return [
        Standing(
            names[name], runs.get(f"{GATEWAY}{name}", False), runs.get(name, False), online.get(name),
            told(owner.files.socket),
        )
        for name, owner in here.items()
    ] + away  # fmt: skip


def connected_in(folder: Path) -> dict[str, bool]:
    """Nodes that a deployment's superlink knows, by the names of their keys, and whether they are online.

    Nothing where it does not run, or serves without keys.
    """
    try:
        link = link_of(folder)
        if link.insecure:
            return {}
        from noiseworthy.deploy.flower.orders import orders_to

        with orders_to(link) as orders:
            return {node.name: node.online for node in orders.nodes()}
    except GatewayError:
        return {}


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
            raise GatewayError(f"{name}'s gateway does not run; {folder}/logs/{GATEWAY}{name}.log says why")
        time.sleep(0.5)
