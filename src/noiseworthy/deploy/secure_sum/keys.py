"""Keys of owners: long-lived ones that sign, and what is agreed on and derived for a single round."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from noiseworthy.deploy.gateway import wire
from noiseworthy.deploy.secure_sum.terms import MOST_OWNERS
from noiseworthy.errors import InvalidInput, VoidRound

KEY = 32
"""Bytes of every key and seed."""
_LONGEST = 256


@dataclass(frozen=True)
class Roster:
    """All owners who may ever be in a cohort, by their signing keys. Each owner approves it by its digest.

    A server that could add names would be most of a cohort itself.

    Attributes:
        keys: public Ed25519 keys, 32 bytes each, by owner.
    """

    keys: Mapping[str, bytes]

    def __post_init__(self):
        if not 2 <= len(self.keys) <= MOST_OWNERS:
            raise InvalidInput(f"a roster must have 2 to {MOST_OWNERS} owners, got {len(self.keys)}")
        for name, key in self.keys.items():
            if not 1 <= len(name) <= _LONGEST or len(key) != KEY:
                raise InvalidInput(
                    f"a roster needs a name and an Ed25519 key of {KEY} bytes for each owner, got {len(key)} "
                    f"bytes for {name[:_LONGEST]!r}"
                )
        if len(set(self.keys.values())) < len(self.keys):
            raise InvalidInput("two owners of a roster have the same key; each needs a key of its own")

    @cached_property
    def digest(self) -> str:
        """Of names and keys, in hexadecimal; what an owner approves."""
        listed = [[name, self.keys[name]] for name in sorted(self.keys)]
        return hashlib.sha256(wire.pack(["noiseworthy roster 1", listed])).hexdigest()

    def check(self, owner: str, signature: bytes, data: bytes) -> None:
        """Refuse what an owner has not signed.

        Raises:
            VoidRound: another signature, or an owner that is not on the roster.
        """
        if owner not in self.keys:
            raise VoidRound(f"{owner!r} is not on the roster that was approved")
        try:
            Ed25519PublicKey.from_public_bytes(self.keys[owner]).verify(signature, data)
        except InvalidSignature:
            raise VoidRound(f"a message in the name of {owner} was not signed by its key") from None


def public_of(private: Ed25519PrivateKey | X25519PrivateKey) -> bytes:
    """The 32 bytes of a public key."""
    return private.public_key().public_bytes_raw()


@dataclass(frozen=True, repr=False)
class RoundSecrets:
    """What an owner draws for one round and forgets with it. It lies in memory alone, never on a disk.

    Attributes:
        channel: private X25519 key, for secret shares that are sent to this owner.
        pair: private X25519 key that pairwise masks come from.
        own: seed of the owner's own mask, 256 bits from the system.
    """

    channel: X25519PrivateKey
    pair: X25519PrivateKey
    own: bytes

    @classmethod
    def drawn(cls) -> RoundSecrets:
        """New ones, from the system's generator."""
        return cls(X25519PrivateKey.generate(), X25519PrivateKey.generate(), secrets.token_bytes(KEY))


def agreed(private: X25519PrivateKey, public: bytes) -> bytes:
    """What two owners know and nobody else, 32 bytes; keys are derived from it.

    Raises:
        VoidRound: a public key of low order.
    """
    try:
        return private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise VoidRound("a key of another owner is no key of X25519") from None


def derived(secret: bytes, context: bytes, *label: str) -> bytes:
    """A key for one purpose, 32 bytes by HKDF-SHA256.

    Args:
        secret: agreed on, or a seed.
        context: digest of the round.
        label: what the key is for, and for whom.
    """
    return HKDF(SHA256(), KEY, salt=context, info=wire.pack(list(label))).derive(secret)


def commit(own: bytes, context: bytes, owner: str) -> bytes:
    """What the seed of an owner's mask is held against when it was put together again.

    HKDF by a label of its own, so that it tells no more of the mask than any other derived key.
    """
    return derived(own, context, "commitment", owner)
