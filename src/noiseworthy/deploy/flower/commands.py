"""Command lines of Flower's processes, with what they may reach: nothing but the addresses given."""

import ipaddress
import os
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from noiseworthy.deploy.flower.keys import Keys
from noiseworthy.errors import ConfigError

DATABASE = "link.sqlite"
"""In which a superlink keeps what it knows, and messages on their way."""
CONNECTION = "link"
"""Name of the superlink in Flower's own configuration."""
SETTINGS = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}
"""Environment of every process of Flower's: it reports nothing, asks nobody for updates, installs nothing."""


def environment(home: Path) -> dict[str, str]:
    """The environment of a process of Flower's: this one's, `SETTINGS`, and a home of its own.

    Args:
        home: where Flower keeps its configuration and installed apps; two nodes must not share one.
    """
    scripts = sysconfig.get_path("scripts")
    path = os.pathsep.join([scripts, os.environ.get("PATH", "")])
    return {**os.environ, **SETTINGS, "FLWR_HOME": str(home), "PATH": path}


@dataclass(frozen=True)
class Link:
    """The superlink: keeps messages until nodes fetch them.

    Attributes:
        folder: of the deployment, absolute; keys lie in `keys`.
        port: of everything that it serves.
        host: address that it listens at.
        insecure: without TLS and node keys; on loopback only.

    Raises:
        ConfigError: insecure beyond this machine.

    Example:
        >>> Link(Path("/d"), 8000, insecure=True).address
        '127.0.0.1:8000'
    """

    folder: Path
    port: int
    host: str = "127.0.0.1"
    insecure: bool = False

    def __post_init__(self):
        if self.insecure:
            _check_loopback(self.host)

    @property
    def keys(self) -> Keys:
        """Where the keys of the deployment lie."""
        return Keys(self.folder / "keys")

    @property
    def home(self) -> Path:
        """Flower's home of the superlink."""
        return self.folder / "flower" / "link"

    @property
    def address(self) -> str:
        """Where processes of this machine reach it."""
        reached = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host
        return f"[{reached}]:{self.port}" if ":" in reached else f"{reached}:{self.port}"

    @property
    def trusted(self) -> bytes | None:
        """The authority's certificate, as PEM; None without TLS."""
        return None if self.insecure else self.keys.authority.read_bytes()

    def command(self) -> list[str]:
        """`flower-superlink` that keeps what it knows over a restart, is locked, and starts no app itself."""
        password = str(self.keys.password)
        locked = [sys.executable, "-m", "noiseworthy.deploy.flower.lock", password, "flower-superlink"]
        place = ["--host", self.host, "--port", str(self.port)]
        kept = ["--database", str(self.folder / DATABASE), "--disable-runtime-dependency-installation"]
        apps = ["--isolation", "process", "--superexec-auth-secret-file", password]
        return [*locked, *self._security(), *place, *kept, *apps]

    def _security(self) -> list[str]:
        if self.insecure:
            return ["--insecure"]
        keys = self.keys
        certificates = ["--ssl-ca-certfile", str(keys.authority), "--ssl-certfile", str(keys.certificate)]
        return [*certificates, "--ssl-keyfile", str(keys.key), "--enable-supernode-auth"]

    def configuration(self) -> str:
        """Flower's `config.toml`, by which `flwr` finds the superlink."""
        trust = "insecure = true" if self.insecure else f"root-certificates = '{self.keys.authority}'"
        return (
            f'[superlink]\ndefault = "{CONNECTION}"\n\n'
            f'[superlink.{CONNECTION}]\naddress = "{self.address}"\n{trust}\n'
        )


@dataclass(frozen=True)
class Node:
    """A supernode: beside one owner's gateway, and the only process that talks to the superlink for it.

    Attributes:
        folder: of the deployment on the owner's machine, absolute.
        name: of its key.
        socket: of the owner's gateway, absolute.
        link: address of the superlink.
        port: of its own, where it takes messages from itself; open on loopback only.
        insecure: without TLS and a key; on loopback only.

    Raises:
        ConfigError: insecure beyond this machine, or a socket that a command line cannot name.
    """

    folder: Path
    name: str
    socket: Path
    link: str
    port: int
    insecure: bool = False

    def __post_init__(self):
        if self.insecure:
            _check_loopback(self.link.rpartition(":")[0])
        if "'" in str(self.socket) or not self.socket.is_absolute():
            raise ConfigError(
                f"socket must be an absolute path without quotes, got {self.socket}; name another place in "
                "[files] of the owner's file"
            )

    @property
    def keys(self) -> Keys:
        """Where the node's keys lie."""
        return Keys(self.folder / "keys")

    @property
    def home(self) -> Path:
        """Flower's home of this node."""
        return self.folder / "flower" / self.name

    def command(self) -> list[str]:
        """`flower-supernode` that answers by its own app alone, and tells it the gateway's socket."""
        pinned = [sys.executable, "-m", "noiseworthy.deploy.flower.node", "flower-supernode"]
        place = ["--superlink", self.link, "--host", "127.0.0.1", "--port", str(self.port)]
        return [*pinned, *self._security(), *place, "--node-config", f"socket='{self.socket}'"]

    def _security(self) -> list[str]:
        if self.insecure:
            return ["--insecure"]
        trust = ["--root-certificates", str(self.keys.authority)]
        return [*trust, "--auth-supernode-private-key", str(self.keys.node_key(self.name))]


def _check_loopback(host: str) -> None:
    if host != "localhost" and not _is_loopback(host.strip("[]")):
        raise ConfigError(
            f"insecure connections stay on this machine, got {host}; leave out --insecure and make keys with "
            "noiseworthy deploy keys"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
