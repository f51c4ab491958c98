"""Commands of data owners: gateway, and within a deployment deploy node, units."""

from __future__ import annotations

import json
import logging
import os
import signal
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from noiseworthy._names import shown
from noiseworthy._places import CACHE_VARIABLE
from noiseworthy.cli.console import err, out, progress_bar
from noiseworthy.cli.deploying import check_installed, deploy
from noiseworthy.cli.options import AsJson, limit
from noiseworthy.errors import ConfigError

if TYPE_CHECKING:
    from noiseworthy.deploy.gateway.gateway import Gateway
    from noiseworthy.deploy.gateway.owner import Owner


SelfAudit = Annotated[
    bool, typer.Option("--self-audit", help="attack this installation on made-up records, and answer nobody")
]
Trials = Annotated[int | None, typer.Option(help="of a self-audit: releases to attack; else 4,000", min=2)]
AuditSeconds = Annotated[
    float | None,
    typer.Option("--budget-seconds", help="of a self-audit: time; by default 45", min=0, callback=limit),
]


class _Plain(logging.Formatter):
    """Lines in which nothing that a server sent moves the owner's terminal or passes for another entry."""

    def format(self, record: logging.LogRecord) -> str:
        """As logging formats it, control characters made visible and all lines but the first indented."""
        return "\n    ".join(map(shown, super().format(record).split("\n")))


def gateway(
    owner: Annotated[Path, typer.Argument(help="the owner's file (TOML)", show_default=False)],
    records_changed: Annotated[
        bool, typer.Option("--records-changed", help="go on with records that were changed on purpose")
    ] = False,
    plan: Annotated[
        Path | None, typer.Option("--plan", help="plan.json that was reviewed; else none is looked at")
    ] = None,
    self_audit: SelfAudit = False,
    as_json: AsJson = False,
    trials: Trials = None,
    seconds: AuditSeconds = None,
) -> None:
    """Answer requests for releases from one owner's data, within the owner's lifetime budget."""
    if not self_audit and (as_json or trials is not None or seconds is not None):
        raise ConfigError("--json, --trials and --budget-seconds belong to --self-audit; add it or drop them")
    from noiseworthy.deploy.gateway.owner import load_owner

    terms = load_owner(owner)
    if self_audit:
        return _audited(terms, as_json, trials, seconds)
    from noiseworthy.deploy.gateway.gateway import Gateway
    from noiseworthy.deploy.gateway.server import Ending, listening, serve

    handler = logging.StreamHandler()
    handler.setFormatter(_Plain("%(asctime)s %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    logging.getLogger("noiseworthy.deploy.gateway").setLevel(logging.INFO)
    # where its owner names a folder alone: what its features make of records is kept beside the programs
    if os.environ.get(CACHE_VARIABLE):
        from noiseworthy.engines.compilation import use_persistent_cache

        use_persistent_cache()
    ending = Ending()
    with ExitStack() as stack:
        opened = stack.enter_context(Gateway.open(terms, records_changed=records_changed))
        if terms.files.tuned is not None:
            from noiseworthy.cli.predicting import Tuning

            opened.on_model = Tuning(owner.absolute(), terms.files.tuned.absolute())
        if plan is not None:
            _check_plan(plan, opened)
        listener = stack.enter_context(listening(terms.files.socket, terms.files.group))
        signal.signal(signal.SIGTERM, ending)
        signal.signal(signal.SIGINT, ending)
        name, at = shown(opened.account.client), terms.files.socket
        err.print(f"Gateway of {name}: listening at {at}, ledger head {opened.ledger.head}", soft_wrap=True)
        if not opened.fingerprint.fits:
            err.print(
                f"The records of {name} changed since the first release from "
                f"{shown(opened.account.data)} was paid for: all releases are refused. Put them back, "
                "name another data_set, or start with --records-changed.",
                soft_wrap=True, markup=False,
            )  # fmt: skip
        try:
            every, apart = terms.allowed.reply_seconds, not terms.files.same_user
            serve(opened, listener, ending, every, apart=apart)
        except KeyboardInterrupt:
            err.print("Gateway ended.")


def _check_plan(plan: Path, opened: Gateway) -> None:
    """Serve nobody where a plan asks for more than the owner's file allows, or was made for other records."""
    from noiseworthy.deploy.deployment import check_asked
    from noiseworthy.studies.plan_file import load_plan
    from noiseworthy.studies.soundness import check_sound

    file = load_plan(plan)
    check_sound(file.plan)
    check_asked(file, opened.about)
    name = shown(opened.account.client)
    err.print(f"Plan {file.digest[:12]} asks {name} for what its file allows.", soft_wrap=True, markup=False)


def _audited(terms: Owner, as_json: bool, trials: int | None, seconds: float | None) -> None:
    """Verdict of a self-audit; exit code 1 if anything speaks against the installation."""
    from noiseworthy.deploy.self_audit import SECONDS, TRIALS, self_audit
    from noiseworthy.engines.compilation import use_persistent_cache
    from noiseworthy.reports.self_audit import self_audit_panel

    use_persistent_cache()
    with progress_bar("Attacking", 100, "%") as bar:
        made = self_audit(
            terms, trials=TRIALS if trials is None else trials,
            seconds=SECONDS if seconds is None else seconds, on_progress=bar,
        )  # fmt: skip
    if as_json:
        print(json.dumps(made.as_dict(), allow_nan=False))
    else:
        out.print(self_audit_panel(made.as_dict()))
    if not made.passed:
        raise typer.Exit(1)


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
