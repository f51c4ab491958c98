"""A gateway behind a Unix socket that only its owner, or one group, may open; one request at a time."""

import grp
import math
import os
import socket
import stat
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from noiseworthy.deploy.gateway.framing import address, bind, receive, send
from noiseworthy.deploy.gateway.gateway import Gateway
from noiseworthy.deploy.gateway.messages import LARGEST, Refused, pack_reply
from noiseworthy.errors import GatewayError

OWN_USER = Refused(
    reason="not-allowed",
    message="the node runs as the gateway's own user, who can read records and ledger; run it as another "
    "user (noiseworthy deploy units), or state same_user = true under [files] of the owner's file",
)
_PEER = struct.Struct("iII")
_PATIENCE = 60.0
"""Seconds in which a request must have come."""
_QUIET = 1.0
"""Seconds without a request after which a gateway rests."""


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


def serve(
    gateway: Gateway, listener: socket.socket, ending: Ending, every: float = 0.0, *, apart: bool = False
) -> NoReturn:
    """Answer the requests that come to a socket of `listening`, until the process is told to end.

    Args:
        gateway: that answers.
        listener: of `listening`.
        ending: notes that the process is to end.
        every: seconds, at whose multiples after a request its reply leaves; 0 sends it at once.
        apart: refuse processes of this one's own user.

    Raises:
        KeyboardInterrupt: from `ending`.
    """
    listener.settimeout(_QUIET)
    while True:
        try:
            stream, _ = listener.accept()
        except TimeoutError:
            gateway.rest()
            listener.settimeout(None)
            continue
        with stream:
            answer(gateway, stream, ending, every, apart=apart)
        listener.settimeout(_QUIET)


def answer(
    gateway: Gateway, stream: socket.socket, ending: Ending, every: float = 0.0, *, apart: bool = False
) -> None:
    """Answer the one request of a connection; who does not ask in time or goes away gets nothing."""
    refused = OWN_USER if apart and _user_of(stream) == os.geteuid() else None
    try:
        # read where it is refused, too: a socket that closes on unread bytes resets its peer, reason unread
        data = receive(stream, LARGEST, _PATIENCE)
        came = time.monotonic()
        with ending.put_off():
            reply = gateway.answer(data) if refused is None else pack_reply(refused)
            time.sleep(_left(time.monotonic() - came, every))
            stream.settimeout(_PATIENCE)
            send(stream, reply)
    except (OSError, GatewayError):
        return


def _user_of(stream: socket.socket) -> int:
    """Number of the user whose process is at the other end, by the kernel's word."""
    _, user, _ = _PEER.unpack(stream.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return user


def _left(gone: float, every: float) -> float:
    """Seconds to the next multiple."""
    # the quotient may round down to a whole number of multiples that lies an ulp below what has gone
    return max(math.ceil(gone / every) * every - gone, 0.0) if every else 0.0


@contextmanager
def listening(path: Path, group: str | int | None = None) -> Iterator[socket.socket]:
    """A socket, which is removed in the end; one that a killed gateway left is replaced.

    Args:
        path: of the socket.
        group: name or number of those who may open it too, mode 0660; None leaves it at 0600.

    Raises:
        GatewayError: another gateway listens there, the file is no socket or cannot be made, or the group is
            unknown or not the user's.
    """
    number = _group_number(group)
    _make_room(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        # outside of `try`: where it fails, the socket there is that of a gateway that was quicker
        bind(listener, path)
        try:
            _lend(path, number)
            yield listener
        finally:
            path.unlink(missing_ok=True)


def _group_number(group: str | int | None) -> int | None:
    if not isinstance(group, str):
        return group
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise GatewayError(f"group {group} is unknown to this machine; make it, or name another") from None


def _lend(path: Path, group: int | None) -> None:
    """Open the socket to a group; until then nobody else could."""
    if group is None:
        return
    try:
        os.chown(path, -1, group)
        path.chmod(0o660)
    except (OSError, OverflowError) as error:
        raise GatewayError(
            f"socket {path} cannot be given to group {group} ({error}); make the owner's user a member of it"
        ) from None


def _make_room(path: Path) -> None:
    if not path.exists():
        return
    if not stat.S_ISSOCK(path.stat().st_mode):
        raise GatewayError(f"{path} is no socket; name another place, nothing was changed")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        with address(path) as short:
            taken = probe.connect_ex(short) == 0
        if taken:
            raise GatewayError(f"a gateway listens at {path} already; end it first or name another socket")
    path.unlink()
