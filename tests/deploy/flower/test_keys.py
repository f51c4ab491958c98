"""Keys that OpenSSL and Flower accept, private, and never overwritten."""

from __future__ import annotations

import itertools
import socket
import ssl
import stat
import threading

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from noiseworthy.deploy.flower.keys import Keys, add_hosts, make_authority, make_node_key, public_key
from noiseworthy.errors import ConfigError


@pytest.fixture(scope="module")
def keys(tmp_path_factory) -> Keys:
    return make_authority(tmp_path_factory.mktemp("keys"), ["server.example", "10.1.2.3", "fd00::7"])


def greeted(keys: Keys, trusted: Keys, host: str) -> str:
    """What a client reads over TLS that trusts an authority and looks for a host; OpenSSL is the judge."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(keys.certificate, keys.key)
    client = ssl.create_default_context(cafile=str(trusted.authority))
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    ours, theirs = socket.socketpair()
    ours.settimeout(5), theirs.settimeout(5)

    def serve():
        try:
            with server.wrap_socket(theirs, server_side=True) as stream:
                stream.sendall(b"aye")
        except OSError:
            theirs.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(ours, server_hostname=host) as stream:
            return stream.recv(3).decode()
    finally:
        ours.close()
        thread.join()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "server.example", "10.1.2.3", "fd00::7"])
def test_the_certificate_is_accepted_under_each_of_its_names(keys, host):
    assert greeted(keys, keys, host) == "aye"


@pytest.mark.parametrize("host", ["other.example", "10.1.2.4"])
def test_it_is_refused_under_another_name(keys, host):
    with pytest.raises(ssl.SSLCertVerificationError):
        greeted(keys, keys, host)


def test_it_is_refused_by_who_trusts_another_authority(keys, tmp_path):
    with pytest.raises(ssl.SSLCertVerificationError):
        greeted(keys, make_authority(tmp_path), "localhost")


def test_all_files_are_their_owners_alone(tmp_path):
    folder = tmp_path / "new" / "keys"
    make_authority(folder)
    make_node_key(folder, "north")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*")}
    assert modes.pop("nodes") == 0o700
    assert set(modes) == {"ca.crt", "ca.key", "server.pem", "server.key", "north", "north.pub"}
    assert set(modes.values()) == {0o600}


def test_a_node_key_is_a_pair_of_the_kind_that_flower_wants(tmp_path):
    keys = make_node_key(tmp_path, "north")
    private = load_ssh_private_key(keys.node_key("north").read_bytes(), None)
    public = load_ssh_public_key(keys.node_public_key("north").read_bytes())
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    assert private.curve.name == "secp384r1"
    assert private.public_key() == public


def test_keys_differ_each_time(tmp_path):
    made = [make_node_key(tmp_path / name, "north").node_key("north").read_bytes() for name in "ab"]
    assert made[0] != made[1]


NAMES = ("ca.crt", "ca.key", "server.pem", "server.key")


@pytest.mark.parametrize("name", NAMES)
def test_no_file_of_an_authority_is_overwritten_and_none_is_made_beside_it(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(ConfigError, match=rf"{name} is there already"):
        make_authority(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "mine"


@pytest.mark.parametrize("name", ["north", "north.pub"])
def test_no_file_of_a_node_is_overwritten(tmp_path, name):
    (tmp_path / "nodes").mkdir()
    (tmp_path / "nodes" / name).write_text("mine")
    with pytest.raises(ConfigError, match="never overwritten"):
        make_node_key(tmp_path, "north")
    assert [path.name for path in (tmp_path / "nodes").iterdir()] == [name]


def test_two_nodes_have_keys_beside_each_other(tmp_path):
    for name in ("north", "south"):
        make_node_key(tmp_path, name)
    public = [Keys(tmp_path).node_public_key(name).read_text() for name in ("north", "south")]
    assert all(a != b for a, b in itertools.combinations(public, 2))


def test_a_host_that_no_certificate_can_name_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ConfigError, match="ASCII"):
        make_authority(tmp_path, ["krankenhaus-köln.example"])
    assert list(tmp_path.iterdir()) == []


def named_in(keys: Keys) -> set[str]:
    certificate = x509.load_pem_x509_certificate(keys.certificate.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(name.value) for name in names}


def test_another_host_gets_a_certificate_of_the_same_authority(tmp_path):
    """The old certificate was kept without a word, and nodes that knew the new name were turned away."""
    keys = make_authority(tmp_path, ["old.example"])
    authority, key = keys.authority.read_bytes(), keys.key.read_bytes()
    assert add_hosts(tmp_path, ["new.example", "10.0.0.7"])
    assert named_in(keys) == {"localhost", "127.0.0.1", "old.example", "new.example", "10.0.0.7"}
    assert (keys.authority.read_bytes(), keys.key.read_bytes()) == (authority, key)
    assert keys.certificate.stat().st_mode & 0o777 == 0o600
    root = x509.load_pem_x509_certificate(authority)
    x509.load_pem_x509_certificate(keys.certificate.read_bytes()).verify_directly_issued_by(root)


def test_a_certificate_that_names_them_all_stays(tmp_path):
    keys = make_authority(tmp_path, ["old.example"])
    before = keys.certificate.read_bytes()
    assert not add_hosts(tmp_path, ["old.example", "localhost"])
    assert keys.certificate.read_bytes() == before


def test_without_the_authoritys_key_another_host_is_refused_with_the_remedy(tmp_path):
    keys = make_authority(tmp_path)
    keys.authority_key.unlink()
    with pytest.raises(ConfigError, match=r"does not name new\.example, and .*ca\.key is not here"):
        add_hosts(tmp_path, ["new.example"])


def test_a_node_key_reads_as_the_superlink_tells_it(tmp_path):
    keys = make_node_key(tmp_path, "north")
    told = serialization.load_pem_public_key(public_key(keys.node_public_key("north")))
    held = serialization.load_ssh_private_key(keys.node_key("north").read_bytes(), None)
    assert told == held.public_key()
