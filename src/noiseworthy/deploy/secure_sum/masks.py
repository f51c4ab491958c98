"""Masks: streams of ChaCha20, added modulo 2^64, which cancel in the sum to the last bit."""

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from numpy.typing import NDArray

from noiseworthy.deploy.secure_sum.keys import agreed, derived

Words = NDArray[np.uint64]
"""Numbers modulo 2^64, shape (p,)."""
_START = bytes(16)
"""Every stream has a key of its own, so that all may start at 0."""


def stream(key: bytes, coordinates: int) -> Words:
    """The mask of a key.

    Args:
        key: 32 bytes, used for nothing else.
        coordinates: p.

    Example:
        >>> stream(bytes(32), 1)  # first bytes of the keystream of RFC 8439, A.1
        array([10393729187455219830], dtype=uint64)
    """
    zeros = bytes(8 * coordinates)
    return np.frombuffer(Cipher(ChaCha20(key, _START), None).encryptor().update(zeros), "<u8")


def own_mask(own: bytes, context: bytes, owner: str, coordinates: int) -> Words:
    """The mask that an owner adds for itself.

    Args:
        own: its seed.
        context: digest of the round's keys.
        owner: by name.
        coordinates: p.
    """
    return stream(derived(own, context, "own mask", owner), coordinates)


def add_pair(
    total: Words, private: X25519PrivateKey, public: bytes, context: bytes, owner: str, other: str
) -> None:
    """Add to a total what an owner adds for another one, who adds the same with the other sign.

    Args:
        total: changed in place.
        private: of either.
        public: of the other one of the two.
        context: digest of the round's keys.
        owner: whose upload the mask is in.
        other: whom the owner shares it with.
    """
    first, second = sorted((owner, other))
    key = derived(agreed(private, public), context, "pair mask", first, second)
    mask = stream(key, len(total))
    if owner == first:
        np.add(total, mask, out=total)
    else:
        np.subtract(total, mask, out=total)


def words_of(steps: NDArray[np.int64]) -> Words:
    """Steps of a grid modulo 2^64, as a new array."""
    return steps.view(np.uint64).copy()


def steps_of(words: Words) -> NDArray[np.int64]:
    """Numbers modulo 2^64 as the steps between -2^63 and 2^63."""
    return words.view(np.int64)
