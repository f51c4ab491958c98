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


def serve(gateway: Gateway, listener: socket.socket) -> NoReturn:
    """Answer the requests that come to a socket of `listening`, until the process is ended."""
    while True:
        stream, _ = listener.accept()
        with stream:
            answer(gateway, stream)


def answer(gateway: Gateway, stream: socket.socket) -> None:
    """Answer the one request of a connection; who does not ask in time or goes away gets nothing."""
    try:
        data = receive(stream, LARGEST, _PATIENCE)
    except (OSError, GatewayError):
        return
    reply = gateway.answer(data)
    try:
        stream.settimeout(_PATIENCE)
        send(stream, reply)
    except OSError:
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
