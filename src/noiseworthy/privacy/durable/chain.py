"""A chain of hashes over everything that a ledger holds, so that its past cannot change unnoticed.

hash_i = SHA-256(hash_(i-1), kind_i, subject_i, digest of what entry i wrote)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any, NamedTuple

HEAD = "[0-9]{1,18}:[0-9a-f]{64}"
"""What heads of ledgers look like."""


class Head(NamedTuple):
    """The end of a chain; kept elsewhere, it tells a ledger that went on from one that was set back.

    Attributes:
        length: entries.
        digest: hash of the last one, in hexadecimal.

    Example:
        >>> Head.read(str(Head(3, "ab12")))
        Head(length=3, digest='ab12')
    """

    length: int
    digest: str

    def __str__(self) -> str:
        return f"{self.length}:{self.digest}"

    @classmethod
    def read(cls, text: str) -> Head:
        """The head that `str` wrote."""
        length, digest = text.split(":")
        return cls(int(length), digest)


def start(identity: str) -> bytes:
    """The hash that a ledger's chain starts from."""
    return hashlib.sha256(f"noiseworthy ledger 1 {identity}".encode()).digest()


def extended(last: bytes, kind: str, subject: int, body: bytes) -> bytes:
    """The hash after one more entry."""
    # a JSON list ends by itself: no other kind, subject and body make the same bytes
    return hashlib.sha256(last + json.dumps([kind, subject]).encode() + body).digest()


def digest(rows: Iterable[Any]) -> bytes:
    """Digest of rows of text, integers and floats, in their order; floats by all their bits."""
    running = hashlib.sha256()
    for row in rows:
        running.update(json.dumps(list(row)).encode() + b"\n")
    return running.digest()
