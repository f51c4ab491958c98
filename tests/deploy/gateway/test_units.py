"""Units that keep gateway and node apart: systemd understands them, and each may do what it needs alone."""

from __future__ import annotations

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest

from noiseworthy.deploy.gateway.units import GATEWAY_USER, NODE_USER, units
from noiseworthy.errors import ConfigError

from .conftest import owner_of

FILES = {
    "socket": "/run/noiseworthy/gateway.sock",
    "ledger": "/var/lib/noiseworthy-gateway/ledger.sqlite",
    "group": "noiseworthy-asking",
}


TABLE = {"data": "/srv/ward/records.csv", "clients": 1, "classes": ["no", "yes"]}


def made(tmp_path, **files):
    owner = owner_of(tmp_path, files=FILES | files, federation=TABLE)
    return units(owner, Path("/etc/noiseworthy/owner.toml"), "server.example:9092")


def service(text):
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore
    parser.read_string(text)
    return dict(parser["Service"])


def test_the_gateway_has_no_network_and_the_node_no_records(tmp_path):
    told = {name: service(text) for name, text in made(tmp_path).items() if name.endswith(".service")}
    gateway, node = told["noiseworthy-gateway.service"], told["noiseworthy-node.service"]
    assert (gateway["User"], node["User"]) == (GATEWAY_USER, NODE_USER)
    assert gateway["PrivateNetwork"] == "yes"
    assert gateway["RestrictAddressFamilies"] == "AF_UNIX"
    assert node["InaccessiblePaths"] == "-/var/lib/noiseworthy-gateway -/srv/ward/records.csv"
    assert gateway["Group"] == node["SupplementaryGroups"] == "noiseworthy-asking"
    assert (gateway["RuntimeDirectory"], gateway["RuntimeDirectoryMode"]) == ("noiseworthy", "0710")
    for one in (gateway, node):
        assert one["NoNewPrivileges"] == "yes"
        assert one["ProtectSystem"] == "strict"
        assert one["CapabilityBoundingSet"] == ""
        assert one["UMask"] == "0077"
    assert gateway["ReadWritePaths"] == "/var/lib/noiseworthy-gateway"
    assert "ReadWritePaths" not in node
    assert gateway["CacheDirectory"] == GATEWAY_USER
    assert f"NOISEWORTHY_CACHE=%C/{GATEWAY_USER} " in gateway["Environment"]


def test_the_gateway_may_write_its_witness_too(tmp_path):
    """Else it would not start: nothing is paid for that the witness cannot be told of."""
    text = made(tmp_path, witness="/mnt/other/witness.json")["noiseworthy-gateway.service"]
    assert service(text)["ReadWritePaths"] == "/var/lib/noiseworthy-gateway /mnt/other"


@pytest.mark.parametrize(
    ("tuned", "beside"), [("/var/lib/noiseworthy-gateway/tuned", ""), ("/srv/ward/tuned", " /srv/ward")]
)
def test_the_gateway_may_write_what_is_tuned_at_home(tuned, beside, tmp_path):
    """It wrote nothing outside of the ledger's folder, and no model was tuned."""
    text = made(tmp_path, tuned=tuned)["noiseworthy-gateway.service"]
    assert service(text)["ReadWritePaths"] == f"/var/lib/noiseworthy-gateway{beside}"


def test_each_runs_its_command_by_this_python(tmp_path):
    files = made(tmp_path)
    assert "-m noiseworthy gateway /etc/noiseworthy/owner.toml\n" in files["noiseworthy-gateway.service"]
    assert (
        "-m noiseworthy deploy node /etc/noiseworthy/owner.toml --link server.example:9092 "
        "--folder /var/lib/noiseworthy-node\n"
    ) in files["noiseworthy-node.service"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
def test_systemd_understands_every_line_and_finds_little_exposed(tmp_path):
    """Users and the owner's folders do not exist here; that is all that is complained of."""
    for name, text in made(tmp_path).items():
        (tmp_path / name).write_text(text)
    for name in ("noiseworthy-gateway.service", "noiseworthy-node.service"):
        command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / name)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        said = [
            line for line in done.stderr.splitlines() if str(tmp_path / name) in line or "Unknown" in line
        ]
        assert said == []
        command = ["systemd-analyze", "security", "--offline=true", "--threshold=35", str(tmp_path / name)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout[-300:] + done.stderr


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"same_user": True}, "same_user lets the node run as the gateway's user"),
        ({"group": None}, "group must name those who may ask"),
        ({"socket": "/home/ward/gateway.sock"}, "socket must lie in a folder of its own below /run"),
        ({"ledger": "/srv/my data/ledger.sqlite"}, "cannot stand in a unit"),
        ({"ledger": "/srv/100%/ledger.sqlite"}, "cannot stand in a unit"),
    ],
)
def test_what_would_not_keep_them_apart_is_refused(tmp_path, files, says):
    with pytest.raises(ConfigError, match=says):
        made(tmp_path, **files)
