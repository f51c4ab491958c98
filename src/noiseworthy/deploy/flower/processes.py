"""Flower's processes of a deployment on this machine: started, looked at, stopped with all their children."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from noiseworthy._places import write_whole
from noiseworthy.deploy.flower.commands import DATABASE, Link, Node, environment
from noiseworthy.deploy.flower.keys import make_authority, make_node_key
from noiseworthy.errors import ConfigError, GatewayError

LINK, GATEWAY = "link", "gateway of "
"""Names of processes that are no nodes: the superlink, and gateways before their nodes' names."""
_RECORD = "processes.json"
_NOT_FIRST = ("-", ".", GATEWAY)
_PATIENCE = 60.0
"""Seconds in which a superlink begins to listen."""
_FREED = 2.0
"""Seconds in which a port is free again whose process was killed."""
_FAREWELL = 10.0
"""Seconds in which processes end by themselves when they are asked to."""
_RELEASE = 60.0
"""Seconds in which a gateway finishes a release."""
_LAUNCH = (
    "import os, subprocess, sys; os.umask(0o077); log = open(sys.argv[1], 'ab'); print(subprocess.Popen("
    "sys.argv[2:], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True).pid)"
)
"""Starts a process that belongs to nobody and outlives who started it; its files are its user's alone."""


@dataclass(frozen=True)
class Process:
    """A process of a deployment.

    Attributes:
        name: `LINK`, of a node, or `GATEWAY` before it.
        pid: while it lives.
        born: when, as ps tells it; another process of the same pid was born at another time.
        port: that it serves at.
        log: of all that it and its children print.
    """

    name: str
    pid: int
    born: str
    port: int
    log: Path

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return bool(self.born) and _born(self.pid) == self.born


@dataclass(frozen=True)
class Local:
    """A deployment whose superlink and nodes run on this machine.

    Attributes:
        folder: of keys, logs, Flower's own files and the record of processes; absolute.
        sockets: of the gateway of each node, by the node's name.
        insecure: without TLS and node keys; nothing leaves this machine either way.
        owners: files of owners whose gateways are started too, by the node's name.
        host: address that the superlink listens at.
        port: of the superlink; 0 takes the one that it had, or a free one.
    """

    folder: Path
    sockets: Mapping[str, Path]
    insecure: bool = False
    owners: Mapping[str, Path] = field(default_factory=dict)
    host: str = "127.0.0.1"
    port: int = 0

    def start(self) -> list[Process]:
        """Start what does not run of gateways, superlink and nodes; keys that are missing are made.

        A superlink that died comes back at its port, with what it knew of nodes, and they find it there. A
        node that died comes back under its id.

        Returns:
            The processes; `look` tells later which of them live.

        Raises:
            ConfigError: a name that cannot be a node's, or a superlink of another security or port.
            GatewayError: the superlink's port is taken, it does not listen, or does not take a node's key.
        """
        self._check()
        for name, file in self.owners.items():
            command = [sys.executable, "-m", "noiseworthy", "gateway", str(file)]
            self._start(f"{GATEWAY}{name}", command, self.folder, port=0)
        link = Link(self.folder, self.port or self._port(LINK), self.host, self.insecure)
        self._make_keys(link)
        self._start_link(link)
        self._register(link)
        for name, path in self.sockets.items():
            node = Node(self.folder, name, path.absolute(), link.address, self._port(name), self.insecure)
            self._start(name, node.command(), node.home, node.port)
        return look(self.folder)

    def _check(self) -> None:
        bad = [name for name in self.sockets if name == LINK or "/" in name or name.startswith(_NOT_FIRST)]
        if bad:
            raise ConfigError(f"a node cannot be called {bad[0]!r}; name it by letters, other than {LINK!r}")

    def _port(self, name: str) -> int:
        """The port that a process had, or a free one."""
        return next((old.port for old in look(self.folder) if old.name == name), None) or free_ports(1)[0]

    def _start_link(self, link: Link) -> None:
        file, wanted = link.home / "config.toml", link.configuration()
        if running := _alive(self.folder, LINK):
            if file.read_text() != wanted:
                elsewhere, security = f"at port {running.port}", "with" if self.insecure else "without"
                how = f"{security} TLS" if running.port == link.port else elsewhere
                raise ConfigError(
                    f"the superlink of {self.folder} runs {how}; stop it first with noiseworthy deploy down"
                )
            return _wait_until_it_listens(running)
        # whoever listens there would be taken for the superlink
        if not _waited(lambda: not _taken(link), _FREED):
            raise GatewayError(
                f"port {link.port} cannot be taken ({_taken(link)}); end the program that has it, or choose "
                "another: deploy link has --port, deploy up takes a free one after deploy down"
            )
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(wanted)
        process = self._start(LINK, link.command(), link.home, link.port)
        try:
            _wait_until_it_listens(process)
        except BaseException:
            end_link(self.folder)
            _note([one for one in look(self.folder) if one != process], self.folder)
            raise

    def _start(self, name: str, command: list[str], home: Path, port: int) -> Process:
        return _alive(self.folder, name) or _launch(self.folder, name, command, home, port)

    def _make_keys(self, link: Link) -> None:
        if self.insecure:
            return
        keys = link.keys
        if not keys.authority.exists():
            make_authority(keys.folder)
        for name in self.sockets:
            if not keys.node_key(name).exists():
                make_node_key(keys.folder, name)

    def _register(self, link: Link) -> None:
        if self.insecure:
            return
        from noiseworthy.deploy.flower.keys import known_keys
        from noiseworthy.deploy.flower.orders import orders_to, register

        with orders_to(link) as orders:
            register(orders, known_keys(link.keys))


def look(folder: Path) -> list[Process]:
    """The processes that were started in a folder, as far as they were not stopped."""
    try:
        kept = json.loads((folder / _RECORD).read_text())
    except FileNotFoundError:
        return []
    return [Process(**{**each, "log": Path(each["log"])}) for each in kept]


def _alive(folder: Path, name: str) -> Process | None:
    return next((process for process in look(folder) if process.name == name and process.alive), None)


def stop(folder: Path) -> None:
    """Stop all processes of a folder and their children: nodes first, then the superlink, then gateways.

    What the superlink kept goes: its database holds messages that were passed on until their place is used
    again, uploads without noise among them where a server is trusted. Nodes are registered at every start.

    Those that do not listen are killed. A gateway is given time to finish the release that it works at,
    which is paid for and would be lost.
    """
    running = [process for process in look(folder) if process.alive]
    gateways = [process for process in running if process.name.startswith(GATEWAY)]
    links = [process for process in running if process.name == LINK]
    nodes = [process for process in running if process not in (*gateways, *links)]
    for group, patience in ((nodes, _FAREWELL), (links, _FAREWELL), (gateways, _RELEASE)):
        _end([process.pid for process in group], patience)
    for kept in folder.glob(f"{DATABASE}*"):
        kept.unlink()
    (folder / _RECORD).unlink(missing_ok=True)


def end_link(folder: Path) -> bool:
    """End a deployment's superlink, whether it ran; nodes wait for it, and a training begins another run."""
    link = _alive(folder, LINK)
    if link is not None:
        _end([link.pid], _FAREWELL)
    return link is not None


def link_of(folder: Path) -> Link:
    """The superlink of a deployment, to give it orders.

    Raises:
        GatewayError: it does not run.
    """
    link = _alive(folder, LINK)
    if link is None:
        raise GatewayError(f"no superlink of {folder} is running; start it with noiseworthy deploy up")
    insecure = (folder / "flower" / "link" / "config.toml").read_text() == Link(
        folder, link.port, insecure=True
    ).configuration()
    return Link(folder, link.port, insecure=insecure)


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens at, all different."""
    with contextlib.ExitStack() as held:
        listeners = [held.enter_context(socket.socket()) for _ in range(count)]
        for listener in listeners:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in listeners]


def _taken(link: Link) -> str:
    """Why a superlink cannot listen at its port; empty if it can."""
    with socket.socket(socket.AF_INET6 if ":" in link.host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # what just ended is in nobody's way
        try:
            probe.bind((link.host, link.port))
        except OSError as error:
            return error.strerror or str(error)
    return ""


def _opened_log(path: Path) -> IO[str]:
    """A log to append to, in a folder that is made; mode 0600, whatever the umask and whoever made it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.fchmod(handle, 0o600)
    return os.fdopen(handle, "a")


def _launch(folder: Path, name: str, command: list[str], home: Path, port: int) -> Process:
    """Start a process on its own and note it in the folder's record, in the place of one of its name."""
    log = folder / "logs" / f"{name}.log"
    home.mkdir(parents=True, exist_ok=True)
    _opened_log(log).close()
    launcher = [sys.executable, "-c", _LAUNCH, str(log), *command]
    done = subprocess.run(launcher, env=environment(home), capture_output=True, text=True, check=True)
    pid = int(done.stdout)
    process = Process(name, pid, _born(pid), port, log)
    _note([*(old for old in look(folder) if old.name != name), process], folder)
    return process


def _note(processes: Iterable[Process], folder: Path) -> None:
    text = json.dumps([{**vars(process), "log": str(process.log)} for process in processes], indent=1)
    write_whole(folder / _RECORD, text)


def _wait_until_it_listens(process: Process) -> None:
    until = time.monotonic() + _PATIENCE
    while process.alive and time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", process.port)) == 0:
                return
        time.sleep(0.1)
    raise GatewayError(f"the superlink does not listen at port {process.port}; {process.log} says why")


def _born(pid: int) -> str:
    """When a process was started, in whole seconds; nothing if it does not run."""
    shown = _ps("-o", "stat=,lstart=", "-p", str(pid)).split(maxsplit=1)
    return "" if not shown or shown[0].startswith("Z") else shown[1].strip()


def _ps(*options: str) -> str:
    environ = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(["ps", *options], capture_output=True, text=True, env=environ).stdout


def _family(roots: list[int]) -> set[int]:
    """Processes, their children, and so on."""
    pairs = [line.split() for line in _ps("-A", "-o", "pid=,ppid=").splitlines()]
    parents = {int(pid): int(parent) for pid, parent in pairs}
    family = set(roots)
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return family


def _end(roots: list[int], patience: float) -> None:
    """Ask processes and their families to end, and kill those that have not done so in time."""
    family = {pid: _born(pid) for pid in _family(roots)} if roots else {}
    _signal(family, signal.SIGTERM)
    if not _waited(lambda: not _left(family), patience):
        _signal(_left(family), signal.SIGKILL)
        _waited(lambda: not _left(family), _FAREWELL)


def _left(family: Mapping[int, str]) -> list[int]:
    return [pid for pid, born in family.items() if born and _born(pid) == born]


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _waited(done: Callable[[], bool], seconds: float) -> bool:
    """Whether something came true in time."""
    until = time.monotonic() + seconds
    while not (came := done()) and time.monotonic() < until:
        time.sleep(0.2)
    return came
