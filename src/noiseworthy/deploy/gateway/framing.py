"""Messages over a stream: eight bytes of length, then as many bytes."""

import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from noiseworthy.errors import GatewayError

LARGEST = 2**28
"""Bytes of a message to or from a gateway."""
_LENGTH = struct.Struct("<Q")
_PIECE = 2**20
_SHORT = 100
"""Bytes of a path that every kernel takes for a socket's."""


@contextmanager
def address(path: Path) -> Iterator[str]:
    """A Unix socket's path as short as the kernel takes it: by a handle of its folder where it is longer.

    Raises:
        OSError: a folder that is not there, or a long path on a system without such names.
    """
    if len(os.fsencode(path)) <= _SHORT:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def bind(listener: socket.socket, path: Path) -> None:
    """Listen at a path of mode 0600, private from its first moment.

    Raises:
        GatewayError: a socket that cannot be made.
    """
    before = os.umask(0o177)
    try:
        with address(path) as short:
            listener.bind(short)
    except OSError as error:
        raise GatewayError(f"socket {path} cannot be made ({error}); name another place") from None
    finally:
        os.umask(before)
    listener.listen()


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
        if (left := until - time.monotonic()) <= 0:
            raise TimeoutError("the message takes too long")
        stream.settimeout(left)
        piece = stream.recv(min(length - len(taken), _PIECE))
        if not piece:
            raise GatewayError("the connection ended in the middle of a message; ask again")
        taken += piece
    return bytes(taken)
