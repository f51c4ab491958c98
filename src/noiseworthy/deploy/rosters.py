"""Rosters of owners who sum: their signing keys, and the file that lists the public ones."""

from collections.abc import Mapping
from pathlib import Path

import tomli_w
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from noiseworthy._places import write_whole
from noiseworthy.deploy.gateway.summing import read_public, read_roster
from noiseworthy.deploy.secure_sum.keys import Roster
from noiseworthy.errors import ConfigError

ROSTER = "roster.toml"
"""In the folder of a deployment."""


def roster_of(place: Path) -> Roster | None:
    """The roster of a deployment; None where there is none.

    Args:
        place: folder of the deployment.

    Raises:
        ConfigError: a file that cannot be read.
    """
    path = place / ROSTER
    return read_roster(path) if path.exists() else None


def make_signing_key(path: Path) -> Ed25519PrivateKey:
    """A new key for an owner to sign with, in a file for its user alone, and its public part beside it."""
    key = Ed25519PrivateKey.generate()
    plain = serialization.NoEncryption()
    kind = serialization.PrivateFormat.OpenSSH
    write_whole(path.with_suffix(".pub"), public_line(key) + "\n")
    # last and whole: where a full disk left a part of it, no other would ever be made
    write_whole(path, key.private_bytes(serialization.Encoding.PEM, kind, plain), 0o600)
    return key


def public_line(key: Ed25519PrivateKey) -> str:
    """The public part of a key, as ssh-keygen writes it."""
    encoding, kind = serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    return key.public_key().public_bytes(encoding, kind).decode()


def collected(files: list[Path]) -> dict[str, str]:
    """Public keys by owner, each in a file NAME.pub.

    Raises:
        ConfigError: a file that cannot be read, or two of one owner.
    """
    keys: dict[str, str] = {}
    for path in files:
        name = path.name.removesuffix(".pub")
        if name in keys:
            raise ConfigError(f"{path} is a second key of {name}; give one file for each owner")
        try:
            keys[name] = " ".join(path.read_text().split()[:2])
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} cannot be read ({error}); it must be an owner's signing.pub") from None
    return keys


def write_roster(path: Path, keys: Mapping[str, str]) -> Roster:
    """Write the roster of owners' public keys.

    Args:
        path: of the file.
        keys: lines of ssh-keygen, by owner.

    Raises:
        ConfigError: keys of another kind; the file is as it was.
        InvalidInput: too few owners, or two with one key; the file is as it was.
    """
    roster = Roster({name: read_public(Path(f"{name}.pub"), name, key) for name, key in keys.items()})
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, tomli_w.dumps({"owners": dict(keys)}))
    return roster
