"""Development keys: an authority of one's own, the superlink's certificate, and a key for each node."""

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from noiseworthy._places import write_whole
from noiseworthy.errors import ConfigError

LOOPBACK = ("localhost", "127.0.0.1")
"""Names that every certificate of a superlink holds."""
_LIFETIME = timedelta(days=365)


@dataclass(frozen=True)
class Keys:
    """The places of keys in a folder. `ca.key` stays with who made it, a node's key with its owner.

    Attributes:
        folder: that holds them all.
    """

    folder: Path

    @property
    def authority(self) -> Path:
        """The authority's certificate, which everybody needs."""
        return self.folder / "ca.crt"

    @property
    def authority_key(self) -> Path:
        """The authority's key, which signs certificates."""
        return self.folder / "ca.key"

    @property
    def certificate(self) -> Path:
        """The superlink's certificate."""
        return self.folder / "server.pem"

    @property
    def key(self) -> Path:
        """The superlink's key."""
        return self.folder / "server.key"

    @property
    def password(self) -> Path:
        """What the superlink's control interface asks for; made when the superlink first starts."""
        return self.folder / "link.password"

    def node_key(self, name: str) -> Path:
        """A node's own key."""
        return self.folder / "nodes" / name

    def node_public_key(self, name: str) -> Path:
        """What the superlink is told of a node's key."""
        return self.folder / "nodes" / f"{name}.pub"


def make_authority(folder: Path, hosts: Sequence[str] = ()) -> Keys:
    """A certificate authority and the superlink's certificate, for a year.

    Args:
        folder: new, or without such files; all files get mode 0600.
        hosts: names and addresses of the superlink, besides localhost and 127.0.0.1.

    Returns:
        Where the files are.

    Raises:
        ConfigError: a file is there already; nothing is overwritten.
    """
    keys = Keys(folder)
    _refuse_present([keys.authority, keys.authority_key, keys.certificate, keys.key])
    root_key, key = ec.generate_private_key(ec.SECP384R1()), ec.generate_private_key(ec.SECP384R1())
    root = _authority(root_key)
    certificate = _certificate(key, root, root_key, [*LOOPBACK, *hosts])
    _write(keys.authority_key, _private(root_key))
    _write(keys.authority, root.public_bytes(serialization.Encoding.PEM))
    _write(keys.key, _private(key))
    _write(keys.certificate, certificate.public_bytes(serialization.Encoding.PEM))
    return keys


def add_hosts(folder: Path, hosts: Sequence[str]) -> bool:
    """Have the superlink's certificate name these hosts too: of the same authority, for a year from now.

    Args:
        folder: of the keys.
        hosts: names and addresses of the superlink.

    Returns:
        Whether the certificate was made anew; it is not where it names them all.

    Raises:
        ConfigError: the authority's key is not there to sign it.
    """
    keys = Keys(folder)
    old = x509.load_pem_x509_certificate(keys.certificate.read_bytes())
    named = list(old.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    added = [host for host in hosts if _host(host) not in named]
    if not added:
        return False
    if not keys.authority_key.exists():
        raise ConfigError(
            f"{keys.certificate} does not name {added[0]}, and {keys.authority_key} is not here to sign one "
            "that does; put there a certificate of your authority for it"
        )
    root_key, key = _loaded(keys.authority_key), _loaded(keys.key)
    root = x509.load_pem_x509_certificate(keys.authority.read_bytes())
    hosts = [*(str(name.value) for name in named), *added]
    made = _certificate(key, root, root_key, hosts).public_bytes(serialization.Encoding.PEM)
    write_whole(keys.certificate, made, 0o600)
    return True


def make_node_key(folder: Path, name: str) -> Keys:
    """The key by which a superlink knows a node, as ssh-keygen makes it.

    Args:
        folder: of the keys.
        name: of the node.

    Returns:
        Where the files are.

    Raises:
        ConfigError: the node has a key; nothing is overwritten.
    """
    keys, key = Keys(folder), ec.generate_private_key(ec.SECP384R1())
    _refuse_present([keys.node_key(name), keys.node_public_key(name)])
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    _write(keys.node_key(name), _private(key, serialization.PrivateFormat.OpenSSH))
    _write(keys.node_public_key(name), public + b"\n")
    return keys


def public_key(path: Path) -> bytes:
    """A node's public key as PEM, which is how a superlink tells it.

    Args:
        path: of the key as ssh-keygen writes it.

    Raises:
        ConfigError: no key of an elliptic curve of NIST's.
    """
    try:
        key = serialization.load_ssh_public_key(path.read_bytes())
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{path} holds no public key ({error}); have its owner send it again") from None
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise ConfigError(f"{path} holds a key of another kind; noiseworthy deploy node makes the right one")
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def _authority(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = _named("noiseworthy development authority")
    usage = x509.KeyUsage(
        digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    made = _started(name, name, key).add_extension(x509.BasicConstraints(True, 0), critical=True)
    return made.add_extension(usage, critical=True).sign(key, hashes.SHA384())


def _certificate(
    key: ec.EllipticCurvePrivateKey,
    root: x509.Certificate,
    root_key: ec.EllipticCurvePrivateKey,
    hosts: Sequence[str],
) -> x509.Certificate:
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(root_key.public_key())
    made = (
        _started(_named(hosts[-1]), root.subject, key)
        .add_extension(x509.BasicConstraints(False, None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(issuer, critical=False)
    )
    return made.sign(root_key, hashes.SHA384())


def _started(named: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(named)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # clocks of owners may be behind this one's
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return _dns_name(host)


def _dns_name(host: str) -> x509.DNSName:
    try:
        return x509.DNSName(host)
    except ValueError:
        raise ConfigError(
            f"a host must be an address or a name in ASCII letters, got {host!r}; write it as the nodes' "
            "machines look it up"
        ) from None


def _loaded(path: Path) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigError(f"{path} holds a key of another kind; make keys with noiseworthy deploy keys")
    return key


def _private(
    key: ec.EllipticCurvePrivateKey, form: serialization.PrivateFormat = serialization.PrivateFormat.PKCS8
) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _refuse_present(paths: Sequence[Path]) -> None:
    for path in paths:
        if path.exists():
            raise ConfigError(f"{path} is there already and keys are never overwritten; name another folder")


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)


def known_keys(keys: Keys) -> dict[str, bytes]:
    """Public keys of nodes in a folder, as PEM, by the names of their files.

    Raises:
        ConfigError: a file that is no key, or a key under two names.
    """
    found = {path.stem: public_key(path) for path in sorted((keys.folder / "nodes").glob("*.pub"))}
    for name, key in found.items():
        if (other := next(each for each, same in found.items() if same == key)) != name:
            raise ConfigError(
                f"{other}.pub and {name}.pub in {keys.folder / 'nodes'} hold one key; each owner has one of "
                "its own, so remove the wrong file"
            )
    return found


def key_in(folder: Path, name: str) -> bytes | None:
    """The public key of a node's name in a deployment's folder; None without one."""
    path = Keys(folder / "keys").node_public_key(name)
    return public_key(path) if path.exists() else None
