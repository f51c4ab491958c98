"""Commands that train over a network of data owners: deploy up, run, status, down; link, node, ask, keys."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noiseworthy.cli.console import err, out, progress_bar, shows_progress
from noiseworthy.cli.options import AsJson, DataDir, OutFolder, PlanJson, StudyFile
from noiseworthy.cli.steps import Resume, decide_plan, finish, prepare_study, resumable
from noiseworthy.errors import ConfigError, GatewayError

if TYPE_CHECKING:
    from noiseworthy.deploy.deployment import Deployment
    from noiseworthy.deploy.exchange import Exchange
    from noiseworthy.deploy.gateway.messages import About
    from noiseworthy.deploy.remote import Round
    from noiseworthy.studies.plan_file import Planned

deploy = typer.Typer(no_args_is_help=True, help="Train a study over a network of data owners, with Flower.")

_PORT = 9092
_UNTOLD = (
    "{} could not be told that the training is over, and may hold a part of the budget for it; type this "
    "again with --resume, or have the owner type: noiseworthy ledger end-lease LEDGER {!r}"
)
_BY_HAND = (
    "Owners sum: before a run each makes a signing key, noiseworthy deploy roster {} NAME.pub ... writes the "
    "roster, and each approves it in its file; docs/secure_sum.md says how"
)
Folder = Annotated[
    Path | None, typer.Option("--folder", help="of the deployment; by default deployments/NAME-OF-STUDY")
]
Insecure = Annotated[bool, typer.Option("--insecure", help="without TLS and node keys, on loopback only")]


@deploy.command()
def up(
    study: StudyFile, folder: Folder = None, plan: PlanJson = None, data: DataDir = None,
    insecure: Insecure = False,
    host: Annotated[
        str | None,
        typer.Option(help="the server's machine: write owners' files, say what to type where, start nothing"),
    ] = None,
) -> None:  # fmt: skip
    """Start an owner's gateway and node for every client on this machine, and a superlink between them."""
    if insecure and host is not None:
        raise ConfigError("insecure connections stay on this machine; leave out --insecure or --host")
    check_installed()
    place = _place(study, folder)
    planned, deployment = _decided(study, data, plan, held=True)
    from noiseworthy.deploy.owners import folder_name, sockets_of, wait_for_gateways, write_owner_files

    planned.file.save(place)
    files = write_owner_files(deployment, place / "owners", apart=host is not None)
    if host is not None:
        _tell_machines(study, place, files, host)
        if deployment.plan.problem.trust.sums_itself:
            err.print(_BY_HAND.format(quote(str(place))), soft_wrap=True, markup=False)
        return
    from noiseworthy.deploy.flower.processes import Local

    owners = {folder_name(name): path for name, path in files.items()}
    sockets = sockets_of(owners)
    with err.status(f"Starting a superlink and {len(files)} owners"):
        Local(place, sockets, insecure, owners).start()
        wait_for_gateways(place, sockets)
    err.print(f"Owners' files, ledgers and logs are in {place}.", soft_wrap=True)
    out.print(f"Up: {len(files)} owners. Next: {_run(study, folder)}", soft_wrap=True)


@deploy.command()
@shows_progress
def run(
    study: StudyFile, folder: Folder = None, out_folder: OutFolder = None, plan: PlanJson = None,
    resume: Resume = False, data: DataDir = None,
    patience: Annotated[float, typer.Option(help="seconds that a round waits for replies")] = 120.0,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Train a study over its deployment, and write a run folder with model, record and report."""
    from noiseworthy import _validate as check
    from noiseworthy.deploy.flower.processes import link_of
    from noiseworthy.studies.run_folder import check_unused

    check.positive("--patience", patience)
    place, runs = _place(study, folder), out_folder or Path("runs") / study.stem
    if not resume:
        check_unused(runs)
    link_of(place)
    decided = _decided(study, data, plan, runs if resume else place)
    from noiseworthy.studies.occupied import held

    with _exchange(place) as exchange, held(runs), resumable(runs):
        record = _trained(*decided, exchange, place, runs, name=study.stem, resume=resume, patience=patience)
    finish(record, runs, as_json)


@deploy.command()
def status(study: StudyFile, folder: Folder = None, as_json: AsJson = False) -> None:
    """Which parts of a deployment run and are connected, and what its owners have spent."""
    from noiseworthy.deploy.flower.processes import LINK, look
    from noiseworthy.deploy.owners import standings
    from noiseworthy.deploy.rosters import roster_of
    from noiseworthy.reports.network import status_table

    place = _place(study, folder)
    found = standings(place)
    (link,) = [one for one in look(place) if one.name == LINK and one.alive] or (None,)
    if as_json:
        told = {"runs": link is not None, "port": link.port if link else None}
        print(json.dumps({"link": told, "owners": [one.as_dict() for one in found]}, allow_nan=False))
        return
    out.print(status_table(found))
    if (made := roster_of(place)) is not None:
        out.print(f"Secure sums: a roster of {len(made.keys)} owners, digest {made.digest}", soft_wrap=True)
    if link is None:
        again = f"deploy up {study}" if found[0].gateway is not None else f"deploy link {place}"
        out.print(f"The superlink is down; start it with noiseworthy {again}", soft_wrap=True)
        return
    out.print(f"The superlink runs at port {link.port}; its log is {link.log}.", soft_wrap=True)


@deploy.command()
def down(study: StudyFile, folder: Folder = None) -> None:
    """End all processes of a deployment; keys, owners' files and ledgers stay."""
    from noiseworthy.deploy.flower.processes import look, stop

    place = _place(study, folder)
    ended = [process.name for process in look(place) if process.alive]
    stop(place)
    out.print(f"Down: {len(ended)} processes ended. Ledgers stay where they are.", soft_wrap=True)


@deploy.command()
def link(
    folder: Annotated[Path, typer.Argument(help="of the deployment", show_default=False)],
    host: Annotated[list[str] | None, typer.Option(help="name or address of this machine")] = None,
    port: Annotated[int, typer.Option(help="that owners' nodes connect to", min=1, max=65535)] = _PORT,
) -> None:
    """Start a superlink for owners on other machines, whose public keys lie in FOLDER/keys/nodes."""
    check_installed()
    from noiseworthy.deploy.flower.keys import Keys, add_hosts, make_authority
    from noiseworthy.deploy.flower.processes import Local, end_link

    place = folder.absolute()
    keys = Keys(place / "keys")
    if not keys.authority.exists():
        make_authority(keys.folder, host or [])
    elif add_hosts(keys.folder, host or []):
        again = " The superlink was started again with it." if end_link(place) else ""
        err.print(f"{keys.certificate} was made anew for {', '.join(host or [])} too.{again}", soft_wrap=True)
    known = sorted(path.stem for path in (keys.folder / "nodes").glob("*.pub"))
    with err.status(f"Starting a superlink for {len(known)} owners"):
        Local(place, {}, host="0.0.0.0", port=port).start()
    names = ", ".join(known) or f"none; put their .pub into {keys.folder / 'nodes'} and type this again"
    out.print(f"Superlink at port {port}. Owners need {keys.authority}.", soft_wrap=True)
    out.print(f"Registered: {names}", soft_wrap=True)


@deploy.command()
def ask(
    folder: Annotated[Path, typer.Argument(help="of the deployment", show_default=False)],
    file: Annotated[Path, typer.Argument(help="file to write (JSON)", show_default=False)],
    owner: Annotated[list[str] | None, typer.Option(help="name of an owner to wait for")] = None,
    patience: Annotated[float, typer.Option(help="seconds to wait for owners")] = 120.0,
) -> None:
    """Ask connected owners for their terms, and write them to a file that a study names as its data."""
    from noiseworthy import _validate as check
    from noiseworthy.data.owners import owners_misfit, write_owners
    from noiseworthy.deploy.correspondence import all_introduced
    from noiseworthy.deploy.owners import Standing
    from noiseworthy.reports.network import status_table

    check.positive("--patience", patience)
    with _exchange(folder.absolute()) as exchange, err.status("Waiting for owners"):
        abouts = _waited_for(exchange, owner, patience) if owner else all_introduced(exchange, patience)
    if not abouts:
        raise GatewayError(
            "no owner's gateway answers; start gateways and nodes, then ask again (noiseworthy deploy status "
            "tells which nodes are connected)"
        )
    out.print(status_table([Standing(about.client, True, True, True, about) for about in abouts]))
    if misfit := owners_misfit(abouts):
        raise GatewayError(f"{misfit}; {file} was not written")
    write_owners(file, abouts)
    out.print(f'Wrote {file}: a study names it as data = "owners:{file}"', soft_wrap=True)


@deploy.command()
def roster(
    folder: Annotated[Path, typer.Argument(help="of the deployment", show_default=False)],
    keys: Annotated[list[Path], typer.Argument(help="owners' public keys, NAME.pub", show_default=False)],
) -> None:
    """Write the roster of owners who sum, from their public signing keys, and say what each approves."""
    check_installed()
    from noiseworthy.deploy.rosters import ROSTER, collected, write_roster

    place = folder.absolute()
    made = write_roster(place / ROSTER, collected(keys))
    err.print(
        f"Wrote {place / ROSTER} for {', '.join(made.keys)}. Send it to each of them; they compare the "
        "digest with each other, and state in their files:",
        soft_wrap=True, markup=False,
    )  # fmt: skip
    lines = '[secure_sum]\nkey = "signing"\nroster = "roster.toml"\ndigest = "{}"\nshare_noise = true'
    out.print(lines.format(made.digest), highlight=False, markup=False)


@deploy.command()
def keys(
    folder: Annotated[Path, typer.Argument(help="folder for the keys", show_default=False)],
    host: Annotated[list[str] | None, typer.Option(help="name or address of the superlink")] = None,
    node: Annotated[list[str] | None, typer.Option(help="name of a node to make a key for")] = None,
) -> None:
    """Make a development certificate authority, the superlink's certificate, and keys of nodes."""
    from noiseworthy.deploy.flower.keys import make_authority, make_node_key

    made = make_authority(folder, host or [])
    for name in node or []:
        make_node_key(folder, name)
    out.print(f"Made {made.authority}, {made.certificate} and {len(node or [])} node keys.", soft_wrap=True)


def _place(study: Path, folder: Path | None) -> Path:
    """The folder of a study's deployment."""
    return (folder or Path("deployments") / study.stem).absolute()


def _decided(
    study: Path, data: Path | None, plan: Path | None, kept: Path | None = None, *, held: bool = False
) -> tuple[Planned, Deployment]:
    """A study, whose records must be `held` here, with its plan as `decide_plan` finds it."""
    check_installed()
    prepared = prepare_study(study, data, plan=plan, deploys=True)
    from noiseworthy.deploy.deployment import Deployment  # after what may be wrong with the study
    from noiseworthy.deploy.owners import check_held

    if held:
        check_held(prepared.study)
    planned = decide_plan(prepared, plan, kept)
    return planned, Deployment.of(planned.prepared, planned.plan)


def check_installed() -> None:
    """Refuse to go on without what a deployment needs."""
    from importlib.util import find_spec

    needed = "flwr", "opendp", "tomli_w", "cryptography", "starlette"
    if missing := [name for name in needed if find_spec(name) is None]:
        raise ConfigError(f"{missing[0]} is not installed; pip install 'noiseworthy[deploy]'")


def _tell_machines(study: Path, place: Path, files: Mapping[str, Path], host: str) -> None:
    """What to type on which machine; docs/deployment.md says what is sent between them."""
    owners = [
        f"# {name}: put {file} at /etc/noiseworthy/owner.toml, and do as this says\n"
        f"noiseworthy deploy units /etc/noiseworthy/owner.toml --link {quote(host)}:{_PORT}"
        for name, file in files.items()
    ]
    server = f"# server: put the owners' public keys into {place}/keys/nodes\nnoiseworthy deploy link"
    last = f"# server, once owners have its ca.crt\n{_run(study, place)}"
    text = "\n\n".join([*owners, f"{server} {quote(str(place))} --host {quote(host)}", last])
    out.print(text, soft_wrap=True, highlight=False, markup=False)


def _run(study: Path, folder: Path | None) -> str:
    """What to type next."""
    place = "" if folder is None else f" --folder {quote(str(folder))}"
    return f"noiseworthy deploy run {quote(str(study))}{place}"


def _waited_for(
    exchange: Exchange, owners: Sequence[str], patience: float, fewest: int | None = None
) -> list[About]:
    """What owners tell; who does not is told with the part that is missing, and refused where too few do."""
    from noiseworthy.deploy.correspondence import introduced

    log, lines = logging.getLogger("noiseworthy.deploy.flower.exchange"), []

    def held(line: logging.LogRecord) -> bool:
        """Print none before it is known whether it is told below."""
        lines.append(line)
        return False

    log.addFilter(held)
    try:
        abouts = introduced(exchange, owners, patience)
        missing = [name for name in owners if name not in {about.client for about in abouts}]
        told = "; ".join(f"{name} does not answer: {exchange.absent(name)}" for name in missing)
    finally:
        log.removeFilter(held)
    for line in lines:
        if str(line.args[-1]) not in told:
            log.handle(line)
    if missing and (fewest is None or len(abouts) < fewest):
        raise GatewayError(told if fewest is None else f"{told}; at least {fewest} owners must be there")
    if missing:
        err.print(f"{told}. The training goes on without them.", soft_wrap=True, markup=False)
    return abouts


@contextmanager
def _exchange(place: Path) -> Iterator[Exchange]:
    """The owners behind a deployment's superlink, each known by its key."""
    check_installed()
    from noiseworthy.deploy.flower.keys import key_in
    from noiseworthy.deploy.flower.processes import link_of
    from noiseworthy.deploy.flower.session import LinkExchange
    from noiseworthy.deploy.owners import folder_name

    known = None if link_of(place).insecure else lambda client: key_in(place, folder_name(client))
    with LinkExchange(place, known) as exchange:
        yield exchange


def _trained(
    planned: Planned, deployment: Deployment, exchange: Exchange, place: Path, folder: Path, *, name: str,
    resume: bool, patience: float,
) -> dict[str, Any]:  # fmt: skip
    """The record of a training over an exchange, whose checkpoints, model and record lie in `folder`."""
    from noiseworthy.deploy import deployed
    from noiseworthy.deploy.correspondence import delivered, introduced
    from noiseworthy.deploy.known_ledgers import KnownLedgers
    from noiseworthy.deploy.rosters import roster_of
    from noiseworthy.deploy.scoring import check_held_out
    from noiseworthy.model.folder import NAME as MODEL
    from noiseworthy.model.folder import load_folder
    from noiseworthy.studies.delivery import deliver
    from noiseworthy.studies.record import save_record

    federation = deployment.federation
    deployed.check_roster(deployment, roster := roster_of(place))
    # before the first round all of them must hold the price of the run
    fewest = deployment.fewest if resume and deployed.has_begun(folder, deployment.mark) else None
    with err.status(f"Waiting for {federation.n_clients} owners"):
        abouts = _waited_for(exchange, federation.clients, patience, fewest)
    deployment.check_owners(abouts, resume=resume, fewest=fewest)
    check_held_out(deployment, abouts, resume=resume)
    if deployment.plan.problem.trust.sums_itself:
        deployed.check_approved(roster, abouts)
    known, seeds = KnownLedgers.of(place, abouts), planned.prepared.study.training.seeds
    if len(seeds) > 1:
        err.print(f"Over a network one training is made, by the first of {len(seeds)} seeds, {seeds[0]}.")
    if not resume:
        planned.file.save(folder)
    started = time.monotonic()
    with progress_bar("Training", planned.plan.all_rounds, "rounds") as bar:
        done = deployed.train(deployment, exchange, folder, resume=resume, patience=patience, known=known,
                              roster=roster, on_round=_shown(bar))  # fmt: skip
    if done.told.ended:
        err.print(f"The training ended early. {done.told.ended}", soft_wrap=True, markup=False)
    if done.untold:
        err.print(_UNTOLD.format(", ".join(sorted(done.untold)), done.told.run), soft_wrap=True, markup=False)
    abouts = introduced(exchange, federation.clients, patience / 4)
    planned = planned.having_told(done.deployment.prepared, done.deployment.plan)
    record = deployed.with_network(planned.record(name), done, abouts, time.monotonic() - started)
    record = deliver(planned.prepared, done.trained.theta[0], record, [deployment.seed], folder)
    save_record(record, folder)
    KnownLedgers.of(place, abouts).keep(done.told.heads)  # of those, too, who came back meanwhile
    offer = deployed.final_model(done.told.run, load_folder(folder))
    with err.status("Sending the model to its owners"):
        why = delivered(exchange, federation.clients, offer, patience / 4)
    for who, reason in sorted(why.items()):
        err.print(f"{who} was not given the model ({reason}); send it {folder / MODEL}", soft_wrap=True)
    return record


def _shown(bar: Callable[..., None]) -> Callable[[float, Round | None], None]:
    """What a round adds to the progress: how many answered, and by name who did not."""
    from noiseworthy.deploy.remote import SCORING

    def show(share: float, done: Round | None) -> None:
        if done is None:
            bar(share)
            return
        missing = {owner: why for owner, why in done.answers.items() if why}
        bar(share, f"{len(done.answers) - len(missing)} of {len(done.answers)} owners")
        for owner, why in missing.items():
            when = "at the end" if done.number == SCORING else f"round {done.number + 1}"
            err.print(f"{when}: {owner}: {why}", soft_wrap=True, markup=False)

    return show
