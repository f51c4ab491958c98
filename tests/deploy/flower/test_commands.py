"""Command lines: TLS and registered keys unless on loopback and asked for; nothing is reported."""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path

import pytest
from flwr.common.config import parse_config_args
from flwr.superlink.cli.flower_superlink import _parse_args_run_superlink
from flwr.supernode.cli.flower_supernode import _parse_args_run_supernode

from noiseworthy.deploy.flower.commands import Link, Node, environment
from noiseworthy.errors import ConfigError

FOLDER = Path("/d")
PASSWORD = "/d/keys/link.password"


def node(**changed):
    fields = {"name": "north", "socket": Path("/g/a b.sock"), "link": "127.0.0.1:8000", "port": 9094}
    return Node(**({"folder": FOLDER} | fields | changed))


def understood(parser, command):
    """Arguments as Flower itself reads them; it ends the process at one that it does not know."""
    start = next(i for i, part in enumerate(command) if part.startswith("flower-"))
    return vars(parser().parse_args(command[start + 1 :]))


def test_flower_understands_a_link_with_tls_and_registered_keys():
    command = Link(FOLDER, 8123).command()
    assert command[:5] == [
        sys.executable,
        "-m",
        "noiseworthy.deploy.flower.lock",
        PASSWORD,
        "flower-superlink",
    ]
    read = understood(_parse_args_run_superlink, command)
    assert read["ssl_ca_certfile"] == "/d/keys/ca.crt"
    assert (read["ssl_certfile"], read["ssl_keyfile"]) == ("/d/keys/server.pem", "/d/keys/server.key")
    assert read["enable_supernode_auth"]
    assert not read["insecure"]
    assert (read["host"], read["port"], read["database"]) == ("127.0.0.1", 8123, "/d/link.sqlite")
    assert not read["runtime_dependency_install"]
    assert (read["isolation"], read["superexec_auth_secret_file"]) == ("process", PASSWORD)


def test_flower_understands_a_node_with_its_key():
    command = node().command()
    assert command[:4] == [sys.executable, "-m", "noiseworthy.deploy.flower.node", "flower-supernode"]
    read = understood(_parse_args_run_supernode, command)
    assert read["root_certificates"] == "/d/keys/ca.crt"
    assert read["auth_supernode_private_key"] == "/d/keys/nodes/north"
    assert not read["insecure"]
    assert (read["superlink"], read["host"], read["port"]) == ("127.0.0.1:8000", "127.0.0.1", 9094)
    assert not read["runtime_dependency_install"]


@pytest.mark.parametrize("path", ["/g.sock", "/a b/g.sock", '/a "b"/g=1.sock', "/a\\b/g.sock", "/ä/g.sock"])
def test_the_socket_reaches_the_app_as_it_is(path):
    read = understood(_parse_args_run_supernode, node(socket=Path(path)).command())
    assert parse_config_args([read["node_config"]]) == {"socket": path}


@pytest.mark.parametrize("path", ["/it's/g.sock", "g.sock"])
def test_a_socket_that_no_command_line_can_name_is_refused(path):
    with pytest.raises(ConfigError, match="absolute path without quotes"):
        node(socket=Path(path))


def test_insecure_takes_neither_certificates_nor_keys():
    link = understood(_parse_args_run_superlink, Link(FOLDER, 8000, insecure=True).command())
    assert link["insecure"]
    assert not link["enable_supernode_auth"]
    assert link["ssl_certfile"] is None
    read = understood(_parse_args_run_supernode, node(insecure=True).command())
    assert read["insecure"]
    assert read["auth_supernode_private_key"] is None


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "localhost", "::1"])
def test_insecure_is_allowed_on_loopback(host):
    assert Link(FOLDER, 8000, host=host, insecure=True).insecure
    assert node(link=f"[{host}]:8000" if ":" in host else f"{host}:8000", insecure=True).insecure


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "10.0.0.1", "server.example", "localhost.evil.example", ""]
)
def test_insecure_is_refused_beyond_this_machine(host):
    with pytest.raises(ConfigError, match="insecure connections stay on this machine"):
        Link(FOLDER, 8000, host=host, insecure=True)
    with pytest.raises(ConfigError, match="insecure connections stay on this machine"):
        node(link=f"{host}:8000", insecure=True)


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1:80"),
        ("0.0.0.0", "127.0.0.1:80"),
        ("::1", "[::1]:80"),
        ("a.example", "a.example:80"),
    ],
)
def test_the_address_by_which_this_machine_reaches_the_link(host, address):
    assert Link(FOLDER, 80, host=host).address == address


def test_flowers_configuration_names_the_link_and_whom_to_trust():
    secure = tomllib.loads(Link(FOLDER, 80).configuration())["superlink"]
    assert secure == {
        "default": "link",
        "link": {"address": "127.0.0.1:80", "root-certificates": "/d/keys/ca.crt"},
    }
    insecure = tomllib.loads(Link(FOLDER, 80, insecure=True).configuration())["superlink"]
    assert insecure["link"] == {"address": "127.0.0.1:80", "insecure": True}


def test_every_process_has_its_own_home_and_reports_to_nobody(monkeypatch):
    monkeypatch.setenv("FLWR_TELEMETRY_ENABLED", "1")
    environ = environment(Path("/d/home"))
    assert environ["FLWR_HOME"] == "/d/home"
    assert environ["FLWR_TELEMETRY_ENABLED"] == "0"
    assert environ["FLWR_DISABLE_UPDATE_CHECK"] == "1"
    assert environ["FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"] == "1"
    assert environ["HOME"] == os.environ["HOME"]
    assert Link(FOLDER, 80).home != node().home != node(name="south").home


def test_flower_is_found_beside_this_python():
    first = environment(FOLDER)["PATH"].split(os.pathsep)[0]
    assert (Path(first) / "flower-superlink").exists()


def test_a_node_is_not_told_the_password():
    assert not any("password" in part or "lock" in part for part in node().command())
