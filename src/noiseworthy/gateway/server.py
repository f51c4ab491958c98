"""A gateway behind a Unix socket that only its owner may open, one request at a time."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from noiseworthy.errors import GatewayError
from noiseworthy.gateway.framing import receive, send
from noiseworthy.gateway.gateway import Gateway
from noiseworthy.gateway.messages import LARGEST

_PATIENCE = 60.0
"""Seconds in which a request must have come."""


class Ending:
    """A signal handler that ends a gateway between requests, so that no paid release is lost to it."""

    def __init__(self):
        self._busy = False
        self._wanted = False

    def __call__(self, *_: object) -> None:
        """Note the signal, or end at once where nothing is being answered."""
        if not self._busy:
            raise KeyboardInterrupt
        self._wanted = True

    @contextmanager
    def put_off(self) -> Iterator[None]:
        """Signals that come inside take effect at the end."""
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
        if self._wanted:
            raise KeyboardInterrupt


def serve(gateway: Gateway, listener: socket.socket, ending: Ending) -> NoReturn:
    """Answer the requests that come to a socket of `listening`, until the process is told to end.

    Raises:
        KeyboardInterrupt: from `ending`.
    """
    while True:
        stream, _ = listener.accept()
        with stream:
            answer(gateway, stream, ending)


def answer(gateway: Gateway, stream: socket.socket, ending: Ending) -> None:
    """Answer the one request of a connection; who does not ask in time or goes away gets nothing."""
    try:
        data = receive(stream, LARGEST, _PATIENCE)
        with ending.put_off():
            reply = gateway.answer(data)
            stream.settimeout(_PATIENCE)
            send(stream, reply)
    except (OSError, GatewayError):
        return


@contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """A socket of mode 0600, which is removed in the end; one that a killed gateway left is replaced.

    Raises:
        GatewayError: another gateway listens there, or the file is no socket, or cannot be made.
    """
    _make_room(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _bind(listener, path)
        yield listener
    finally:
        listener.close()
        path.unlink(missing_ok=True)


def _bind(listener: socket.socket, path: Path) -> None:
    before = os.umask(0o177)  # the socket is private from its first moment
    try:
        listener.bind(str(path))
    except OSError as error:
        raise GatewayError(f"socket {path} cannot be made ({error}); name another place") from None
    finally:
        os.umask(before)
    listener.listen()


def _make_room(path: Path) -> None:
    if not path.exists():
        return
    if not stat.S_ISSOCK(path.stat().st_mode):
        raise GatewayError(f"{path} is no socket; name another place, nothing was changed")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        if probe.connect_ex(str(path)) == 0:
            raise GatewayError(f"a gateway listens at {path} already; end it first or name another socket")
    path.unlink()
