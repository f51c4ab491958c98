"""Systemd units of an owner's machine: gateway and node as two users, each shut into what it needs.

The gateway reads records and keeps the ledger, without any network. The node talks to a network, and sees of
the gateway its socket alone. They meet in a folder below /run, by a group.
"""

import shlex
import sys
from pathlib import Path

from noiseworthy.deploy.gateway.owner import Owner
from noiseworthy.errors import ConfigError

GATEWAY_USER, NODE_USER = "noiseworthy-gateway", "noiseworthy-node"
NODE_FOLDER = Path("/var/lib") / NODE_USER
"""Where a node's keys lie."""
_RUN = Path("/run")

_SANDBOX = """\
UMask=0077
NoNewPrivileges=yes
CapabilityBoundingSet=
ProtectSystem=strict
PrivateTmp=yes
PrivateDevices=yes
ProtectProc=invisible
ProtectClock=yes
ProtectHostname=yes
ProtectControlGroups=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
LockPersonality=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
"""
_GATEWAY = """\
[Unit]
Description=Gateway of a data owner (noiseworthy): alone reads the records, and pays for what leaves

[Service]
User={gateway}
Group={group}
ExecStart={python} -m noiseworthy gateway {file}
RuntimeDirectory={run}
RuntimeDirectoryMode=0710
CacheDirectory={gateway}
CacheDirectoryMode=0700
Environment=NOISEWORTHY_CACHE=%C/{gateway} XDG_CACHE_HOME=%C/{gateway} HOME=%C/{gateway}
ReadWritePaths={written}
ProtectHome=read-only
PrivateNetwork=yes
RestrictAddressFamilies=AF_UNIX
KillSignal=SIGTERM
TimeoutStopSec=120
Restart=on-failure
RestartSec=5
{sandbox}
[Install]
WantedBy=multi-user.target
"""
_NODE = """\
[Unit]
Description=Node of a data owner (noiseworthy): passes messages between a server and the gateway's socket
Wants=network-online.target noiseworthy-gateway.service
After=network-online.target noiseworthy-gateway.service

[Service]
User={node}
Group={node}
SupplementaryGroups={group}
ExecStart={python} -m noiseworthy deploy node {file} --link {link} --folder {folder}
StateDirectory={node}
StateDirectoryMode=0700
Environment=HOME={folder}
InaccessiblePaths={private}
ProtectHome=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
Restart=on-failure
RestartSec=30
{sandbox}
[Install]
WantedBy=multi-user.target
"""
_USERS = """\
g {group} -
u {gateway} - "noiseworthy gateway" /nonexistent
u {node} - "noiseworthy node" {folder}
m {gateway} {group}
m {node} {group}
"""


def units(owner: Owner, file: Path, link: str) -> dict[str, str]:
    """The files by which systemd runs an owner's gateway and node, by name.

    Args:
        owner: what the owner's file says, with absolute paths.
        file: the owner's file, absolute; both users must be able to read it.
        link: superlink as HOST:PORT.

    Returns:
        Two units, and their users and group for `systemd-sysusers`.

    Raises:
        ConfigError: a socket or a group that does not keep the two apart.
    """
    files = owner.files
    _check(owner)
    written = (files.ledger, files.witness, files.tuned)
    words = {
        "gateway": GATEWAY_USER,
        "node": NODE_USER,
        "group": files.group,
        "python": _word(sys.executable),
        "file": _word(file),
        "link": _word(link),
        "folder": NODE_FOLDER,
        "run": files.socket.parent.relative_to(_RUN),
        "written": " ".join(dict.fromkeys(_word(place.parent) for place in written if place)),
        "private": " ".join(f"-{_word(path)}" for path in _private(owner)),
        "sandbox": _SANDBOX,
    }
    return {
        "noiseworthy-gateway.service": _GATEWAY.format_map(words),
        "noiseworthy-node.service": _NODE.format_map(words),
        "noiseworthy.conf": _USERS.format_map(words),
    }


def _check(owner: Owner) -> None:
    files = owner.files
    if files.same_user:
        raise ConfigError("[files] same_user lets the node run as the gateway's user; leave it out")
    if not isinstance(files.group, str):
        raise ConfigError(
            '[files] group must name those who may ask over the socket; state group = "noiseworthy-asking"'
        )
    if files.socket.parent.parent != _RUN:
        raise ConfigError(
            f"[files] socket must lie in a folder of its own below /run, got {files.socket}; state "
            'socket = "/run/noiseworthy/gateway.sock"'
        )


def _private(owner: Owner) -> list[Path]:
    """What the node has no business with: the ledger's folder, and the records where they are a file."""
    data = Path(str(owner.federation.data))
    return [owner.files.ledger.parent, *([data] if data.is_absolute() else [])]


def _word(value: str | Path) -> str:
    """One word of a command line of systemd's.

    Raises:
        ConfigError: a sign that systemd reads otherwise.
    """
    text = str(value)
    if shlex.quote(text) != text or "%" in text:
        raise ConfigError(f"{text!r} cannot stand in a unit; name a path of letters, digits and . _ - /")
    return text
