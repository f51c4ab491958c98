"""A message to the gateway behind a socket, and its reply, as bytes."""

import socket
from pathlib import Path

from noiseworthy.deploy.gateway.framing import LARGEST, address, receive, send
from noiseworthy.errors import GatewayError


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
            with address(path) as short:
                stream.connect(short)
            send(stream, data)
            return receive(stream, LARGEST, seconds)
    except OSError as error:
        raise GatewayError(
            f"no answer from a gateway at {path} ({error}); start it with noiseworthy gateway, then ask again"
        ) from None
