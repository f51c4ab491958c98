"""Processes are told apart by pid and birth, ended with their children, and never by another's pid."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from noiseworthy.deploy.flower import processes
from noiseworthy.deploy.flower.processes import Local, Process, free_ports, link_of, look, stop
from noiseworthy.errors import ConfigError, GatewayError

FAMILY = (
    "import subprocess, sys, time; child = subprocess.Popen([sys.executable, '-c', {child!r}], "
    "start_new_session=True); print(child.pid, flush=True); time.sleep(60)"
)
SLEEPS = "import time; time.sleep(60)"
IGNORES = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1); time.sleep(60)"


@pytest.fixture
def started(tmp_path):
    """Starts a Python program as a process of a folder; kills it in the end."""
    made = []

    def start(code: str, name: str = "north") -> Process:
        command = [sys.executable, "-c", code]
        made.append(processes._launch(tmp_path, name, command, tmp_path / "home", 1))
        return made[-1]

    yield start
    for process in made:
        if process.alive:
            os.kill(process.pid, signal.SIGKILL)


def until(true, seconds=10.0):
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.05)
    return true()


def test_what_was_started_is_looked_at_from_anywhere(started, tmp_path):
    north, south = started(SLEEPS), started(SLEEPS, "south")
    assert look(tmp_path) == [north, south]
    assert [process.alive for process in look(tmp_path)] == [True, True]
    os.kill(north.pid, signal.SIGKILL)
    assert until(lambda: [process.alive for process in look(tmp_path)] == [False, True])


def test_logs_are_for_the_user_alone(started, tmp_path):
    """A new one, and one that an older version left open to others."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "south.log").touch(0o644)
    before = os.umask(0o022)
    try:
        logs = [started(SLEEPS).log, started(SLEEPS, "south").log]
    finally:
        os.umask(before)
    assert [log.stat().st_mode & 0o777 for log in logs] == [0o600, 0o600]


def test_what_a_superlink_kept_of_messages_goes_with_it(tmp_path):
    """Places of passed messages are free and not empty: uploads without noise could be read there."""
    for name in ("link.sqlite", "link.sqlite-wal", "ledger.sqlite"):
        (tmp_path / name).write_bytes(b"an upload")
    stop(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.sqlite"]


def test_nothing_was_started_in_a_fresh_folder(tmp_path):
    assert look(tmp_path) == []
    stop(tmp_path)


def test_a_process_outlives_who_started_it_and_its_log_holds_what_it_says(tmp_path):
    code = (
        "from pathlib import Path; from noiseworthy.deploy.flower import processes as p; import sys; "
        "p._launch(Path(sys.argv[1]), 'north', [sys.executable, '-c', 'print(\"aye\", flush=True); "
        "import time; time.sleep(60)'], Path(sys.argv[1]), 1)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=30)
    (north,) = look(tmp_path)
    assert until(lambda: north.log.read_text() == "aye\n")
    assert north.alive
    stop(tmp_path)
    assert not north.alive


def test_its_files_are_its_users_alone(tmp_path, monkeypatch):
    """Logs tell of records, and a superlink's database of keys; whatever the umask of who started it."""
    monkeypatch.chdir(tmp_path)
    code = "open('made', 'w').close(); print('aye', flush=True)"
    before = os.umask(0)
    try:
        process = processes._launch(tmp_path, "north", [sys.executable, "-c", code], tmp_path / "home", 1)
    finally:
        os.umask(before)
    assert until(lambda: process.log.read_text() == "aye\n")
    assert [file.stat().st_mode & 0o777 for file in (process.log, tmp_path / "made")] == [0o600] * 2


def test_a_pid_that_another_process_has_now_is_not_ours(started, tmp_path):
    north = started(SLEEPS)
    old = Process(north.name, north.pid, "Thu Jan  1 00:00:00 1970", north.port, north.log)
    assert not old.alive
    processes._note([old], tmp_path)
    stop(tmp_path)
    assert north.alive


def test_children_in_sessions_of_their_own_are_ended_too(started, tmp_path):
    north = started(FAMILY.format(child=SLEEPS))
    assert until(lambda: north.log.read_text().strip().isdigit())
    child = int(north.log.read_text())
    born = processes._born(child)
    assert born
    stop(tmp_path)
    assert not north.alive
    assert processes._born(child) != born
    assert look(tmp_path) == []


def test_what_does_not_listen_is_killed(started, tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "_FAREWELL", 0.5)
    north = started(IGNORES)
    assert until(lambda: "1" in north.log.read_text() or not north.alive, 1.0) or north.alive
    stop(tmp_path)
    assert not north.alive


def test_nodes_end_before_the_link_and_gateways_last_with_time_for_a_release(started, tmp_path, monkeypatch):
    started(SLEEPS, "link"), started(SLEEPS, "gateway of north"), started(SLEEPS, "north")
    ended = []
    monkeypatch.setattr(processes, "_end", lambda pids, patience: ended.append((pids, patience)))
    link, gateway, north = look(tmp_path)
    stop(tmp_path)
    assert [pids for pids, _ in ended] == [[north.pid], [link.pid], [gateway.pid]]
    assert ended[-1][1] > 5 * ended[0][1]


def test_ports_are_free_and_different():
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", port))


@pytest.fixture
def local(tmp_path, monkeypatch):
    """A deployment of sleeping programs; the link's listens."""
    listens = "import socket, sys, time; s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, "
    listens += "socket.SO_REUSEADDR, 1); s.bind(('127.0.0.1', {port})); s.listen(); time.sleep(60)"

    def link(self):
        return [sys.executable, "-c", listens.format(port=self.port)]

    monkeypatch.setattr(processes.Link, "command", link)
    monkeypatch.setattr(processes.Node, "command", lambda self: [sys.executable, "-c", SLEEPS])
    yield Local(tmp_path, {"north": tmp_path / "g.sock"}, insecure=True)
    stop(tmp_path)


def test_what_runs_is_not_started_again(local):
    assert local.start() == local.start()


@pytest.mark.parametrize("name", ["link", "north"])
def test_what_died_is_started_again_at_its_port_and_the_rest_is_left(local, name):
    before = {process.name: process for process in local.start()}
    os.kill(before[name].pid, signal.SIGKILL)
    assert until(lambda: not before[name].alive)
    after = {process.name: process for process in local.start()}
    assert set(after) == set(before) == {"link", "north"}
    assert after[name].alive
    assert after[name].port == before[name].port
    assert after[name].pid != before[name].pid
    (other,) = {"link", "north"} - {name}
    assert after[other] == before[other]


def test_a_link_without_tls_does_not_serve_a_deployment_that_wants_it(local, tmp_path):
    local.start()
    with pytest.raises(ConfigError, match=r"runs without TLS; stop it"):
        Local(tmp_path, {}).start()


def test_a_link_at_another_port_is_told_by_its_port(local, tmp_path):
    """It was said to run without TLS."""
    (north, link) = sorted(local.start(), key=lambda one: one.name == "link")
    with pytest.raises(ConfigError, match=rf"runs at port {link.port}; stop it first"):
        Local(tmp_path, {}, insecure=True, port=free_ports(1)[0]).start()
    assert north.alive


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_port_that_another_program_has_is_said_so(local, tmp_path, monkeypatch, host):
    """Whoever listened was taken for the superlink, and the next sentence was of a missing password."""
    monkeypatch.setattr(processes, "_FREED", 0.1)
    monkeypatch.setattr(processes.Link, "__post_init__", lambda self: None)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(GatewayError, match=rf"port {port} cannot be taken \(Address already in use\)"):
            Local(tmp_path, {}, insecure=True, host=host, port=port).start()
    assert look(tmp_path) == []
    assert Local(tmp_path, {}, insecure=True, host=host, port=port).start()[0].port == port


@pytest.mark.parametrize("name", ["link", "../north", "-north", ".north"])
def test_names_that_are_no_files_are_refused(tmp_path, name):
    with pytest.raises(ConfigError, match="cannot be called"):
        Local(tmp_path, {name: tmp_path / "g.sock"}).start()
    assert list(tmp_path.iterdir()) == []


def test_a_link_that_does_not_listen_is_ended_and_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr(processes.Link, "command", lambda self: [sys.executable, "-c", SLEEPS])
    monkeypatch.setattr(processes, "_PATIENCE", 0.5)
    started, launch = [], processes._launch
    monkeypatch.setattr(processes, "_launch", lambda *args: started.append(launch(*args)) or started[-1])
    with pytest.raises(GatewayError, match="does not listen"):
        Local(tmp_path, {}, insecure=True).start()
    assert look(tmp_path) == []
    assert [process.alive for process in started] == [False]


def test_a_link_that_ends_at_once_is_told_with_its_log(tmp_path, monkeypatch):
    monkeypatch.setattr(processes.Link, "command", lambda self: [sys.executable, "-c", "1/0"])
    with pytest.raises(GatewayError, match=r"does not listen .*link\.log says why"):
        Local(tmp_path, {}, insecure=True).start()
    assert "ZeroDivisionError" in (tmp_path / "logs" / "link.log").read_text()


def test_without_a_link_there_is_nobody_to_run_an_app(tmp_path):
    with pytest.raises(GatewayError, match="noiseworthy deploy up"):
        link_of(tmp_path)
