"""Secrets that so many owners together can open: Shamir's shares, sealed for the owner who keeps each."""

import secrets
from collections.abc import Mapping

from Crypto.Protocol.SecretSharing import Shamir
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from noiseworthy.deploy.secure_sum.keys import KEY
from noiseworthy.errors import VoidRound

_HALF = KEY // 2
_NONCE, _TAG = 12, 16
SEALED = _NONCE + 2 * KEY + _TAG
"""Bytes of a share of a pair key and one of a seed, as they are sealed."""


def split(secret: bytes, threshold: int, owners: int) -> list[bytes]:
    """Shares of 256 bits for the places 1 to `owners`, any `threshold` of which open it; fewer tell nothing.

    The two halves are shared by polynomials of their own over the field of 2^128 elements, so each is hidden
    whatever the other is.

    Args:
        secret: 32 bytes.
        threshold: at least 2.
        owners: at least `threshold`.

    Example:
        >>> shares = split(bytes(range(32)), 2, 3)
        >>> joined({3: shares[2], 1: shares[0]}) == bytes(range(32))
        True
    """
    halves = [Shamir.split(threshold, owners, part, False) for part in (secret[:_HALF], secret[_HALF:])]
    return [first + second for (_, first), (_, second) in zip(*halves, strict=True)]


def joined(shares: Mapping[int, bytes]) -> bytes:
    """The secret of as many shares as it was split for, by their places; another one of other shares."""
    return b"".join(
        Shamir.combine([(place, share[half]) for place, share in shares.items()], False)
        for half in (slice(_HALF), slice(_HALF, KEY))
    )


def sealed(key: bytes, data: bytes, associated: bytes) -> bytes:
    """Data that nobody without the key can read or change, by AES-256-GCM.

    Args:
        key: 32 bytes.
        data: to be sealed.
        associated: what it belongs to; opened with anything else it is refused.
    """
    nonce = secrets.token_bytes(_NONCE)
    return nonce + AESGCM(key).encrypt(nonce, data, associated)


def unsealed(key: bytes, data: bytes, associated: bytes) -> bytes:
    """What was sealed.

    Raises:
        VoidRound: it was changed, or belongs to something else.
    """
    try:
        return AESGCM(key).decrypt(data[:_NONCE], data[_NONCE:], associated)
    except (InvalidTag, ValueError):
        raise VoidRound("a secret share was altered, or belongs to another round, sender, receiver") from None
