"""Claim cards that somebody answers for: an Ed25519 signature over the card's file, and its check.

Keys are files of OpenSSH (`ssh-keygen -t ed25519`) or OpenSSL (`openssl genpkey -algorithm ed25519`).
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noiseworthy._places import write_whole, writing
from noiseworthy.errors import ConfigError, DataError
from noiseworthy.reports.claim_card import FILE, Card

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

SIGNATURE = "claim_card.sig"
_INSTALL = "pip install 'noiseworthy[sign]'"
_SSH, _SSH_PUBLIC = b"-----BEGIN OPENSSH PRIVATE KEY-----", b"ssh-ed25519 "


def sign(folder: Path, key: Path, password: Callable[[], str]) -> Path:
    """Sign the claim card of a run folder.

    Args:
        folder: of the run.
        key: file of a private key.
        password: asks for its password, where it has one.

    Returns:
        The file with the signature, in base64.

    Raises:
        DataError: no card; a folder that cannot be written to.
        ConfigError: no private key of Ed25519, or a wrong password.
    """
    card, private = _card(folder), _private(key, password)
    path = folder / SIGNATURE
    with writing(path, "make its folder writable"):
        write_whole(path, base64.b64encode(private.sign(card)) + b"\n")
    return path


def verify(folder: Path, key: Path, today: date) -> Card:
    """The claim card of a run folder, if the owner of a key has signed it and it is valid still.

    Args:
        folder: of the run.
        key: file of the public key.
        today: on which the card is relied on.

    Raises:
        DataError: no card, no signature, a card that was changed since or that another key signed, one whose
            day has passed.
        ConfigError: no public key of Ed25519.
    """
    from cryptography.exceptions import InvalidSignature

    card, public, path = _card(folder), _public(key), folder / SIGNATURE
    try:
        public.verify(base64.b64decode(path.read_bytes(), validate=False), card)
    except FileNotFoundError:
        raise DataError(f"{folder} has no {SIGNATURE}; noiseworthy card sign writes it") from None
    except (InvalidSignature, binascii.Error):
        raise DataError(
            f"{folder / FILE} was changed since it was signed, or another key than {key} signed it; do not "
            "rely on it"
        ) from None
    told = json.loads(card)
    if (until := told.get("valid_until")) is not None and today > date.fromisoformat(until):
        who = told.get("responsible") or "who signed it"
        raise DataError(f"{folder / FILE} was valid until {until}; ask {who} for another")
    return told


def _card(folder: Path) -> bytes:
    try:
        return (folder / FILE).read_bytes()
    except OSError:
        raise DataError(f"{folder / FILE} does not exist; noiseworthy report {folder} writes it") from None


def _private(path: Path, password: Callable[[], str]) -> Ed25519PrivateKey:
    """The key of a file, whose password is asked for where it has one."""
    keys, (ed25519, serialization) = _read(path), _library()
    from cryptography.exceptions import UnsupportedAlgorithm

    ssh, pem = serialization.load_ssh_private_key, serialization.load_pem_private_key
    load: Any = ssh if keys.startswith(_SSH) else pem
    try:
        try:
            found = load(keys, None)
        except TypeError:  # of a key that is encrypted
            found = load(keys, password().encode())
    except UnsupportedAlgorithm:
        raise ConfigError(f"{path} has a password, for which OpenSSH keys need bcrypt; {_INSTALL}") from None
    except ValueError as error:
        raise ConfigError(f"{path} is no private key, or the password is wrong ({error})") from None
    if not isinstance(found, ed25519.Ed25519PrivateKey):
        raise ConfigError(f"{path} is no Ed25519 key; ssh-keygen -t ed25519 -f {path} makes one")
    return found


def _public(path: Path) -> Ed25519PublicKey:
    keys, (ed25519, serialization) = _read(path), _library()
    ssh, pem = serialization.load_ssh_public_key, serialization.load_pem_public_key
    load: Any = ssh if keys.startswith(_SSH_PUBLIC) else pem
    try:
        found: Any = load(keys)
    except ValueError:
        found = None
    if isinstance(found, ed25519.Ed25519PublicKey):
        return found
    raise ConfigError(f"{path} is no public Ed25519 key; name the file that ends in .pub")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"key {path} cannot be read ({error})") from None


def _library() -> tuple[Any, Any]:
    """Modules of cryptography."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise ConfigError(f"signatures need the package cryptography; {_INSTALL}") from None
    return ed25519, serialization
