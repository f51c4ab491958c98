"""Commands that train over a network of data owners: deploy up, run, status, down, keys."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from noiseworthy.cli.console import err, out, progress_bar
from noiseworthy.cli.options import AsJson, DataDir, OutFolder, StudyFile
from noiseworthy.cli.steps import decide_plan, finish, prepare_study
from noiseworthy.errors import ConfigError

if TYPE_CHECKING:
    from noiseworthy.engines.exchange import Exchange
    from noiseworthy.engines.remote import Round
    from noiseworthy.experiments.deployment import Deployment
    from noiseworthy.experiments.planner import Decision
    from noiseworthy.experiments.prepare import Prepared

deploy = typer.Typer(no_args_is_help=True, help="Train a study over a network of data owners, with Flower.")

Folder = Annotated[
    Path | None, typer.Option("--folder", help="of the deployment; by default deployments/NAME-OF-STUDY")
]
Insecure = Annotated[bool, typer.Option("--insecure", help="without TLS and node keys, on loopback only")]


@deploy.command()
def up(
    study: StudyFile,
    folder: Folder = None,
    data: DataDir = None,
    insecure: Insecure = False,
    host: Annotated[
        str | None,
        typer.Option(
            help="name of the server's machine: write files and commands for several, start nothing"
        ),
    ] = None,
) -> None:
    """Start an owner's gateway and node for every client on this machine, and a superlink between them."""
    from noiseworthy.experiments.owners import write_owner_files

    deployment = _decided(study, data)[2]
    place = _place(study, folder)
    files = write_owner_files(deployment, place / "owners")
    if host is not None:
        _tell_machines(place, files, host, insecure)
        return
    _start(place, files, insecure)
    err.print(f"Owners' files, ledgers and logs are in {place}.", soft_wrap=True)
    out.print(f"Up: {len(files)} owners. Next: noiseworthy deploy run {study}", soft_wrap=True)


@deploy.command()
def run(
    study: StudyFile,
    folder: Folder = None,
    out_folder: OutFolder = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on from the run folder's checkpoint")] = False,
    data: DataDir = None,
    patience: Annotated[float, typer.Option(help="seconds that a round waits for replies")] = 120.0,
    as_json: AsJson = False,
) -> None:
    """Train a study over its deployment, and write a run folder with model, record and report."""
    from noiseworthy import _validate as check
    from noiseworthy.engines.flower.processes import home_of
    from noiseworthy.engines.flower.relay import RelayExchange
    from noiseworthy.engines.flower.runs import run_app

    check.positive("--patience", patience)
    place, runs = _place(study, folder), out_folder or Path("runs") / study.stem
    home_of(place)
    decided = _decided(study, data)
    with (
        (place / "logs" / "run.log").open("a") as log,
        RelayExchange(place, lambda: run_app(place, on_line=_into(log))) as exchange,
    ):
        record = _trained(*decided, exchange, runs, name=study.stem, resume=resume, patience=patience)
    finish(record, runs, as_json)


@deploy.command()
def status(study: StudyFile, folder: Folder = None, as_json: AsJson = False) -> None:
    """Which processes of a deployment run, and what its owners have spent."""
    from noiseworthy.experiments.owners import standings
    from noiseworthy.reports.network import status_table

    place = _place(study, folder)
    found = standings(place)
    if as_json:
        print(json.dumps([one.as_dict() for one in found], allow_nan=False))
        return
    out.print(status_table(found))


@deploy.command()
def down(study: StudyFile, folder: Folder = None) -> None:
    """End all processes of a deployment; keys, owners' files and ledgers stay."""
    from noiseworthy.engines.flower.processes import look, stop

    place = _place(study, folder)
    ended = [process.name for process in look(place) if process.alive]
    stop(place)
    out.print(f"Down: {len(ended)} processes ended. Ledgers stay in {place}.", soft_wrap=True)


@deploy.command()
def keys(
    folder: Annotated[Path, typer.Argument(help="folder for the keys", show_default=False)],
    host: Annotated[list[str] | None, typer.Option(help="name or address of the superlink")] = None,
    node: Annotated[list[str] | None, typer.Option(help="name of a node to make a key for")] = None,
) -> None:
    """Make a development certificate authority, the superlink's certificate, and keys of nodes."""
    from noiseworthy.engines.flower.keys import make_authority, make_node_key

    made = make_authority(folder, host or [])
    for name in node or []:
        make_node_key(folder, name)
    out.print(f"Made {made.authority}, {made.certificate} and {len(node or [])} node keys.", soft_wrap=True)


def _place(study: Path, folder: Path | None) -> Path:
    """The folder of a study's deployment."""
    return (folder or Path("deployments") / study.stem).absolute()


def _decided(study: Path, data: Path | None) -> tuple[Prepared, Decision, Deployment]:
    _check_installed()
    from noiseworthy.experiments.deployment import Deployment

    prepared, decision = decide_plan(prepare_study(study, data))
    return prepared, decision, Deployment.of(prepared, decision.plan)


def _check_installed() -> None:
    from importlib.util import find_spec

    if missing := [name for name in ("flwr", "opendp") if find_spec(name) is None]:
        raise ConfigError(f"{missing[0]} is not installed; pip install 'noiseworthy[deploy]'")


def _start(place: Path, files: Mapping[str, Path], insecure: bool) -> None:
    from noiseworthy.engines.flower.processes import Local
    from noiseworthy.experiments.owners import sockets_of, wait_for_gateways

    sockets = sockets_of(files)
    with err.status(f"Starting a superlink and {len(files)} owners"):
        Local(place, sockets, insecure, files).start()
        wait_for_gateways(place, sockets)


def _tell_machines(place: Path, files: Mapping[str, Path], host: str, insecure: bool) -> None:
    """The owners' files are written; what to type on which machine is printed."""
    from noiseworthy.engines.flower.commands import Link, Node, sheets
    from noiseworthy.engines.flower.fab import write_app
    from noiseworthy.experiments.owners import sockets_of

    link = Link(place, _PORT, host="127.0.0.1" if insecure else "0.0.0.0", insecure=insecure)
    nodes = [
        Node(place, name, socket, f"{host}:{_PORT}", _PORT + 1, insecure)
        for name, socket in sockets_of(files).items()
    ]
    for name, sheet in sheets(link, write_app(place), nodes).items():
        if name in files:
            sheet = f"noiseworthy gateway {files[name]} &\n{sheet}"
        out.print(f"# {name}\n{sheet}", soft_wrap=True, highlight=False, markup=False)


_PORT = 9092


def _into(log: IO[str]) -> Callable[[str], None]:
    def write(line: str) -> None:
        if not log.closed:
            print(line, file=log, flush=True)

    return write


def _trained(
    prepared: Prepared,
    decision: Decision,
    deployment: Deployment,
    exchange: Exchange,
    folder: Path,
    *,
    name: str,
    resume: bool,
    patience: float,
) -> dict[str, Any]:
    """The record of a training over an exchange, whose checkpoints, model and record lie in `folder`."""
    import numpy as np

    from noiseworthy.engines.correspondence import introduced
    from noiseworthy.experiments.deployed import train, with_network
    from noiseworthy.experiments.record import new_record, save_record

    federation = deployment.federation
    with err.status(f"Waiting for {federation.n_clients} owners"):
        deployment.check_owners(introduced(exchange, federation.clients, patience))
    record = new_record(prepared.study, decision, federation, prepared.dimension, name=name)
    started = time.monotonic()
    with progress_bar("Training", decision.plan.all_rounds, "rounds") as bar:
        done = train(deployment, exchange, folder, resume=resume, patience=patience, on_round=_shown(bar))
    abouts = introduced(exchange, federation.clients, patience / 4)
    np.savez(folder / "model.npz", theta=done.trained.run.theta, seeds=[deployment.seed])
    record = with_network(record, deployment, done, abouts, time.monotonic() - started)
    save_record(record, folder)
    return record


def _shown(bar: Callable[..., None]) -> Callable[[float, Round | None], None]:
    """What a round adds to the progress: how many answered, and by name who did not."""

    def show(share: float, done: Round | None) -> None:
        if done is None:
            return
        missing = {owner: why for owner, why in done.answers.items() if why}
        bar(share, f"{len(done.answers) - len(missing)} of {len(done.answers)} owners")
        for owner, why in missing.items():
            err.print(f"round {done.number + 1}: {owner}: {why}", soft_wrap=True, markup=False)

    return show
