"""Logs of a deployment, which may tell of owners and are for its user alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO


def opened_log(path: Path) -> IO[str]:
    """A log to append to, in a folder that is made; mode 0600, whatever the umask and whoever made it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.fchmod(handle, 0o600)
    return os.fdopen(handle, "a")
