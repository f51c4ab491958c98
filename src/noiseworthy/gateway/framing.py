"""Messages over a stream: eight bytes of length, then as many bytes."""

from __future__ import annotations

import socket
import struct
import time
from pathlib import Path

from noiseworthy.errors import GatewayError

LARGEST = 2**28
"""Bytes of a message to or from a gateway."""
_LENGTH = struct.Struct("<Q")
_PIECE = 2**20


def forward(path: Path, data: bytes, seconds: float) -> bytes:
    """The reply of the gateway behind a socket, as bytes; all that an app between server and owner needs.

    Args:
        path: of the socket.
        data: the message.
        seconds: to wait for the reply.

    Raises:
        GatewayError: nobody listens, or no reply in time.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
            stream.settimeout(seconds)
            stream.connect(str(path))
            send(stream, data)
            return receive(stream, LARGEST, seconds)
    except OSError as error:
        raise GatewayError(
            f"no answer from a gateway at {path} ({error}); start it with noiseworthy gateway, then ask again"
        ) from None


def send(stream: socket.socket, data: bytes) -> None:
    """Send one message."""
    stream.sendall(_LENGTH.pack(len(data)) + data)


def receive(stream: socket.socket, most: int, seconds: float) -> bytes:
    """One message, whole.

    Args:
        stream: connected.
        most: bytes of the message.
        seconds: for all of it.

    Raises:
        GatewayError: a longer message, or one that ends too early.
        TimeoutError: one that takes too long.
    """
    until = time.monotonic() + seconds
    (length,) = _LENGTH.unpack(_taken(stream, _LENGTH.size, until))
    if length > most:
        raise GatewayError(f"a message has at most {most:,} bytes, got one of {length:,}")
    return _taken(stream, length, until)


def _taken(stream: socket.socket, length: int, until: float) -> bytes:
    """So many bytes, with room for no more than have come."""
    taken = bytearray()
    while len(taken) < length:
        stream.settimeout(max(until - time.monotonic(), 1e-3))
        piece = stream.recv(min(length - len(taken), _PIECE))
        if not piece:
            raise GatewayError("the connection ended in the middle of a message; ask again")
        taken += piece
    return bytes(taken)
