"""A training as the app of a run of Flower's: it takes the run's task, and asks owners through its grid.

Flower's own way is a process that starts the server's app, which it unpacks from what was handed in. Where
that process dies, runs wait for ever. Here the training begins a run, takes its task by the superlink's
password, and keeps it by heartbeats; there is nothing between it and the superlink that could die.
"""

import fcntl
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, TypeVar

import httpx
from flwr.common.serde import run_from_proto
from flwr.proto.runtime_pb2 import PullTaskInputRequest
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid import HttpGrid, http_grid

from noiseworthy.deploy.exchange import Answer, check_free
from noiseworthy.deploy.flower.commands import Link
from noiseworthy.deploy.flower.exchange import Grid, GridExchange
from noiseworthy.deploy.flower.orders import orders_to
from noiseworthy.deploy.flower.processes import link_of
from noiseworthy.deploy.flower.tasks import Server, Task, finished, kept, pull_soon, taken
from noiseworthy.errors import GatewayError

T = TypeVar("T")

_LOCK = "training.lock"
_AGAIN = 5.0
"""Seconds before another run is begun."""
_TICK = 0.5
"""Seconds that a look takes while there is no run."""
_GONE = "its training has ended"

_log = logging.getLogger(__name__)


@contextmanager
def run_of(link: Link) -> Iterator[Grid]:
    """The grid of a new run, which ends with the context. Runs whose trainings were killed end before it.

    Args:
        link: a superlink of this machine.

    Raises:
        GatewayError: it does not answer, or gives nothing to do.
    """
    server = Server(link.address, link.keys.password.read_bytes(), link.trusted)
    with orders_to(link) as orders:
        task = _task_of(orders.begin_run(), server)
    with ExitStack() as held:
        try:
            client = held.enter_context(server.client(task.token))
            held.enter_context(kept(server, task.token))
            told = client.PullTaskInput(PullTaskInputRequest())
        except httpx.HTTPError as error:
            said = type(error).__name__
            raise GatewayError(f"the superlink does not begin run {task.run} ({said})") from None
        # Flower lets messages be made only inside a process that belongs to a run
        TaskIdentity.task_id, TaskIdentity.run_id = told.task_id, told.run.run_id
        TaskIdentity.node_id = told.context.node_id
        http_grid.pull_objects = pull_soon  # pyright: ignore
        grid = HttpGrid(link.address, link.insecure, link.trusted, token=task.token)
        grid._retry_invoker = None  # pyright: ignore  Flower's waits for ever, and interrupts us at a refusal
        grid.set_run(run_from_proto(told.run))
        held.callback(grid.close)
        try:
            yield grid
        finally:
            _end(server, task)


def _task_of(run: int, server: Server) -> Task:
    """The task of a run; older ones, which nobody will do, are ended."""
    try:
        with server.client() as client:
            while (task := taken(client)) is not None and task.run != run:
                _end(server, task, _GONE)
    except httpx.HTTPError as error:
        raise GatewayError(f"the superlink does not hand out run {run} ({type(error).__name__})") from None
    if task is None:
        raise GatewayError(f"somebody else has taken run {run}; end what else takes tasks of this superlink")
    return task


def _end(server: Server, task: Task, failure: str = "") -> None:
    try:
        with server.client(task.token) as client:
            finished(client, failure)
    except httpx.HTTPError:
        _log.debug("run %d could not be ended; the superlink ends it after a minute", task.run)


def run_in(folder: Path) -> AbstractContextManager[Grid]:
    """The grid of a new run at the superlink of a deployment's folder.

    Raises:
        GatewayError: none runs there.
    """
    return run_of(link_of(folder))


@dataclass
class LinkExchange:
    """The owners behind a deployment's superlink; a `deploy.exchange.Exchange` and a context.

    While the superlink is gone nobody can be asked, and what was under way is lost; another run begins once
    it is back.

    Attributes:
        folder: of the deployment.
        key_of: the public key of an owner's node, as PEM; None takes names as they are told.
        begin: a run, in a folder.
    """

    folder: Path
    key_of: Callable[[str], bytes | None] | None
    begin: Callable[[Path], AbstractContextManager[Grid]] = run_in
    _alone: ExitStack = field(default_factory=ExitStack, repr=False)
    _run: ExitStack = field(default_factory=ExitStack, repr=False)
    _owners: GridExchange | None = None
    _trouble: str = ""
    _not_before: float = 0.0
    _under_way: set[str] = field(default_factory=set)
    _lost: list[Answer] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._alone.enter_context(_alone_in(self.folder))
        return self

    def __exit__(self, *_: object) -> None:
        self._drop()
        self._alone.close()

    @property
    def clients(self) -> tuple[str, ...]:
        """Owners who can be asked now."""
        return self._asked(lambda owners: owners.clients) or ()

    @property
    def waiting(self) -> frozenset[str]:
        """Owners with a message under way, or lost and not told of yet."""
        return frozenset(self._under_way) | {client for client, _ in self._lost}

    def send(self, client: str, message: bytes, deadline: float) -> None:
        """Start a message, as `Exchange.send` does; Flower itself is asked to."""
        check_free(self, client)
        if self._owners is None:
            raise GatewayError(self._trouble)
        self._owners.send(client, message, deadline)
        self._under_way.add(client)

    def receive(self, seconds: float) -> list[Answer]:
        """What has come since, late replies too; waits so long for the first of them."""
        answers = [] if self._lost else self._asked(lambda owners: owners.receive(seconds)) or []
        if self._owners is None and not self._lost:
            time.sleep(max(min(seconds, _TICK), 0.0))
        told, self._lost = [*self._lost, *answers], []
        self._under_way -= {client for client, _ in told}
        return told

    def absent(self, client: str) -> str:
        """Which part is missing between the server and an owner, in words."""
        return self._asked(lambda owners: owners.absent(client)) or self._trouble

    def _asked(self, call: Callable[[GridExchange], T]) -> T | None:
        """What a run's exchange answers; nothing while there is none."""
        try:
            return call(self._owners or self._begun())
        except GatewayError as error:
            self._fail(error)
            return None

    def _begun(self) -> GridExchange:
        if time.monotonic() < self._not_before:
            raise GatewayError(self._trouble)
        self._not_before = time.monotonic() + _AGAIN
        self._owners = GridExchange(self._run.enter_context(self.begin(self.folder)), self.key_of)
        return self._owners

    def _fail(self, error: GatewayError) -> None:
        if str(error) != self._trouble:
            _log.warning("%s", error)
        self._trouble = str(error)
        self._drop()

    def _drop(self) -> None:
        """Let go of the run; what was under way through it is lost."""
        self._owners = None
        self._run.close()
        self._lost += [(client, None) for client in sorted(self._under_way)]
        self._under_way.clear()


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Nobody else's training; the kernel lets go of what a killed one held.

    Raises:
        GatewayError: another training is under way.
    """
    with (folder / _LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise GatewayError(f"another training runs over {folder}; wait, or stop it with Ctrl-C") from None
        yield
