"""Taking turns: gateways that share a ledger make one release at a time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from noiseworthy.errors import LedgerError


@contextmanager
def turn(path: Path) -> Iterator[None]:
    """Wait until no other process is inside; the kernel lets go of what a killed one held.

    So a release that is paid for and not sealed belongs to nobody who is still at it: it is lost.

    Args:
        path: of an empty file that is made, and stays.

    Raises:
        LedgerError: the file cannot be made.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise LedgerError(
            f"{path} cannot be made ({error}); make its folder writable, or free disk space"
        ) from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
