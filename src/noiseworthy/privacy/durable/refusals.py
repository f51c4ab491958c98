"""Why a ledger's file is refused, in words with a remedy; loaded where something is wrong with it."""

from __future__ import annotations

from pathlib import Path

from noiseworthy.errors import LedgerError

_BESIDE = (".turn", ".memory", ".rounds")
"""What lies beside a ledger once its gateway was asked for a release."""
_PUT_BACK = "put its latest backup back with noiseworthy ledger restore"
_REASONS = (
    (("full", "no space"), "cannot grow; free disk space and ask again"),
    (("is a directory",), "is a folder; name a file"),
    (("no such file", "not a directory", "file exists"), "has no folder to lie in; make it or name another"),
    (("locked", "busy"), "is held by another process; wait for it or end it"),
    (
        ("readonly", "read-only", "unable to open", "permission"),
        "cannot be written; make its folder writable and its files this user's own",
    ),
    (
        ("i/o", "input/output", "too large", "quota"),
        "cannot be written or read on its disk; look at the disk, its quota and limits, then ask again",
    ),
    (("not a database",), f"is no ledger; name another file, or {_PUT_BACK}"),
    (("",), f"is damaged; {_PUT_BACK}"),
)
"""What errors say, and what is said of the ledger."""


def reason(error: str) -> str:
    """What SQLite or the file system refuses, as the cause with its remedy.

    Args:
        error: in small letters.

    Example:
        >>> reason("database disk image is malformed")
        'is damaged; put its latest backup back with noiseworthy ledger restore, nothing was spent'
    """
    said = next(said for words, said in _REASONS if any(word in error for word in words))
    return f"{said}, nothing was spent"


def check_never_paid(path: Path) -> None:
    """Refuse to begin a ledger where one has paid before: what it had spent would be forgotten.

    Args:
        path: of a ledger that is missing or empty.

    Raises:
        LedgerError: what only a gateway that was asked for releases leaves lies beside it.
    """
    if beside := [file.name for end in _BESIDE if (file := Path(f"{path}{end}")).exists()]:
        raise LedgerError(
            f"ledger {path} is missing or empty, and by {', '.join(beside)} beside it one has paid here; "
            f"{_PUT_BACK}, or remove these to begin with nothing spent"
        )
