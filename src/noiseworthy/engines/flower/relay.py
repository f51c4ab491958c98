"""From a training to a grid in another process: Flower's app passes calls on and trains nothing.

The training runs where it was started, with its plan, its progress and its run folder. Flower starts the
server's app in a process of its own, which connects to the training's Unix socket and does what an exchange
is asked for there (`serve`). If that process ends, because the superlink did, messages under way are lost,
and the next look for clients starts another run of the app.
"""

from __future__ import annotations

import fcntl
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from flwr.serverapp import Grid

from noiseworthy.engines.exchange import Answer, Exchange, check_free
from noiseworthy.engines.flower.exchange import GridExchange
from noiseworthy.errors import GatewayError, WireError
from noiseworthy.gateway import wire
from noiseworthy.gateway.framing import address, bind, receive, send

SOCKET = "relay.sock"
_LOCK = "relay.lock"
_REPLY = 60.0
"""Seconds in which the app answers a call, beside the seconds that it is told to wait."""
_AGAIN = 5.0
"""Seconds before another run of the app is started."""

_log = logging.getLogger(__name__)


def serve(grid: Grid, folder: Path) -> None:
    """Be the hands of the training that listens in a folder, until it has no more calls.

    Args:
        grid: of this run.
        folder: of the deployment, with the training's socket.

    Raises:
        GatewayError: no training listens, or the superlink is gone.
    """
    exchange = GridExchange(grid)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        try:
            with address(folder / SOCKET) as short:
                stream.connect(short)
        except OSError:
            raise GatewayError(
                f"no training waits in {folder}; start one with noiseworthy deploy run"
            ) from None
        while (call := _next_call(stream)) is not None:
            send(stream, wire.pack(_done(exchange, call)))


def _next_call(stream: socket.socket) -> dict[str, Any] | None:
    try:
        return wire.unpack(receive(stream, wire.LARGEST, _DAY))
    except (GatewayError, OSError):
        return None


_DAY = 86400.0


def _done(exchange: Exchange, call: dict[str, Any]) -> dict[str, Any]:
    if call["name"] == "clients":
        return {"clients": exchange.clients}
    if call["name"] == "receive":
        return {"answers": exchange.receive(call["seconds"])}
    try:
        exchange.send(call["client"], call["message"], call["deadline"])
    except GatewayError as error:
        return {"refused": str(error)}
    return {}


@dataclass
class RelayExchange:
    """The owners behind a grid in the process of a run; an `engines.exchange.Exchange` and a context.

    Attributes:
        folder: of the deployment.
        run: has Flower run the app, and returns when it ends.
    """

    folder: Path
    run: Callable[[], None]
    _alone: ExitStack = field(default_factory=ExitStack, repr=False)
    _listener: socket.socket = field(init=False, repr=False)
    _stream: socket.socket | None = None
    _runner: threading.Thread | None = None
    _not_before: float = 0.0
    _under_way: set[str] = field(default_factory=set)
    _lost: list[Answer] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._alone.enter_context(_alone_in(self.folder))
        path = self.folder / SOCKET
        path.unlink(missing_ok=True)
        self._listener = self._alone.enter_context(socket.socket(socket.AF_UNIX))
        bind(self._listener, path)
        self._listener.settimeout(_TICK)
        return self

    def __exit__(self, *_: object) -> None:
        self._drop()
        (self.folder / SOCKET).unlink(missing_ok=True)
        if self._runner is not None:
            self._runner.join(_REPLY)
        self._alone.close()

    @property
    def clients(self) -> tuple[str, ...]:
        """Owners who can be asked now; none while the app is being started."""
        return self._asked("clients").get("clients", ())

    @property
    def waiting(self) -> frozenset[str]:
        """Owners with a message under way, or lost and not told of yet."""
        return frozenset(self._under_way) | {client for client, _ in self._lost}

    def send(self, client: str, message: bytes, deadline: float) -> None:
        """Start a message.

        Args:
            client: of `clients`, with nothing under way.
            message: as bytes.
            deadline: seconds since 1970.

        Raises:
            GatewayError: an owner who cannot be asked now.
        """
        check_free(self, client)
        told = self._asked("send", client=client, message=message, deadline=deadline)
        if "refused" in told or self._stream is None:
            raise GatewayError(told.get("refused", "the superlink is gone; it is tried again"))
        self._under_way.add(client)

    def receive(self, seconds: float) -> list[Answer]:
        """What has come since, late replies too; waits so long for the first of them."""
        answers = [] if self._lost else self._asked("receive", seconds=float(seconds)).get("answers", [])
        if self._stream is None and not self._lost:
            time.sleep(min(seconds, _TICK))
        told, self._lost = [*self._lost, *map(tuple, answers)], []
        self._under_way -= {client for client, _ in told}
        return told

    def _asked(self, name: str, **arguments: Any) -> dict[str, Any]:
        """What the app answers to a call; nothing while there is no app."""
        stream = self._stream or self._connected()
        if stream is None:
            return {}
        try:
            send(stream, wire.pack({"name": name, **arguments}))
            return wire.unpack(receive(stream, wire.LARGEST, _REPLY + arguments.get("seconds", 0.0)))
        except (OSError, GatewayError, WireError):
            self._drop()
            return {}

    def _connected(self) -> socket.socket | None:
        """The connection of a run of the app, which is started if there is none."""
        if (self._runner is None or not self._runner.is_alive()) and time.monotonic() >= self._not_before:
            self._not_before = time.monotonic() + _AGAIN
            self._runner = threading.Thread(target=self._running, daemon=True)
            self._runner.start()
        try:
            self._stream, _ = self._listener.accept()
        except TimeoutError:
            return None
        return self._stream

    def _running(self) -> None:
        try:
            self.run()
        except GatewayError as error:
            _log.warning("the run of Flower's app ended: %s", error)

    def _drop(self) -> None:
        """Let go of the app; what was under way through it is lost."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None
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
            raise GatewayError(
                f"another training runs over {folder}; wait for its end, or stop it with Ctrl-C"
            ) from None
        yield


_TICK = 0.5
"""Seconds that a call waits for the app to connect."""
