"""Commands of data owners within a deployment: deploy node, units."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from noiseworthy.cli.console import out
from noiseworthy.cli.deploying import check_installed, deploy
from noiseworthy.errors import ConfigError

OwnerFile = Annotated[Path, typer.Argument(help="owner's file (TOML)", show_default=False)]
LinkAddress = Annotated[str, typer.Option("--link", help="superlink as HOST:PORT", show_default=False)]


@deploy.command()
def node(
    file: OwnerFile,
    link: LinkAddress,
    folder: Annotated[Path | None, typer.Option(help="of the node's keys, else that of the file")] = None,
) -> None:
    """Connect an owner's gateway with a superlink; the node's keys lie in keys of its folder."""
    check_installed()
    import os

    from noiseworthy.deploy.flower.commands import Node, environment
    from noiseworthy.deploy.flower.keys import make_node_key
    from noiseworthy.deploy.flower.processes import free_ports
    from noiseworthy.deploy.gateway.owner import load_owner
    from noiseworthy.deploy.owners import folder_name

    owner = load_owner(file)
    name, socket = folder_name(owner.owner.client), owner.files.socket.absolute()
    beside = Node((folder or file.parent).absolute(), name, socket, link, free_ports(1)[0])
    if not beside.keys.node_key(name).exists():
        make_node_key(beside.keys.folder, name)
    if not beside.keys.authority.exists():
        raise ConfigError(
            f"send the server {beside.keys.node_public_key(name)} and put its ca.crt at "
            f"{beside.keys.authority}, then type this again"
        )
    command = beside.command()
    beside.home.mkdir(parents=True, exist_ok=True)
    os.execvpe(command[0], command, environment(beside.home))


@deploy.command()
def model(file: OwnerFile) -> None:
    """The models that an owner's gateway was sent at the end of trainings, the last one first."""
    from noiseworthy.deploy.gateway.models import Models
    from noiseworthy.deploy.gateway.owner import load_owner

    if not (kept := Models.beside(load_owner(file).files.ledger).kept()):
        raise ConfigError("no training has sent its model yet; it comes when noiseworthy deploy run ends")
    for path in kept:
        out.print(str(path), soft_wrap=True, highlight=False, markup=False)


@deploy.command()
def units(
    file: OwnerFile,
    link: LinkAddress,
    folder: Annotated[Path, typer.Option("--out", help="folder to write into")] = Path("units"),
) -> None:
    """Write systemd units that run an owner's gateway and node as two users, and say how to install them."""
    from noiseworthy.deploy.gateway.owner import load_owner
    from noiseworthy.deploy.gateway.units import GATEWAY_USER, NODE_FOLDER, NODE_USER, units
    from noiseworthy.deploy.owners import folder_name

    owner = load_owner(file.absolute())
    ledger, folder = owner.files.ledger.parent, folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in units(owner, file.absolute(), link).items():
        (folder / name).write_text(text)
    steps = [
        f"systemd-sysusers {folder / 'noiseworthy.conf'}",
        f"install -d -m 0700 -o {GATEWAY_USER} {ledger}    # ledger, models; records readable by it alone",
        f"cp {folder}/*.service /etc/systemd/system/ && systemctl daemon-reload",
        "systemctl enable --now noiseworthy-gateway noiseworthy-node",
        f"# send the server {NODE_FOLDER}/keys/nodes/{folder_name(owner.owner.client)}.pub, then:",
        f"install -m 0400 -o {NODE_USER} ca.crt {NODE_FOLDER}/keys/    # the server's",
        f"# {file.absolute()} must be readable by both users and writable by neither",
    ]
    out.print("\n".join(steps), soft_wrap=True, highlight=False, markup=False)
