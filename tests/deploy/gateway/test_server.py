"""The socket is private, serves one request at a time, and survives whatever is sent; two share a ledger."""

from __future__ import annotations

import grp
import os
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from noiseworthy.deploy.gateway import framing, server
from noiseworthy.deploy.gateway.client import GatewayClient
from noiseworthy.deploy.gateway.messages import LARGEST, Refused, Uploaded, read_reply
from noiseworthy.deploy.gateway.server import Ending, listening
from noiseworthy.errors import GatewayError
from noiseworthy.privacy.durable.reading import read_ledger

from .conftest import asked, request, spent


@pytest.fixture
def path(tmp_path):
    return tmp_path / "g.sock"


def served(gateway, listener, times):
    """Answer so many connections, in this thread's stead."""

    def work():
        for _ in range(times):
            stream, _ = listener.accept()
            with stream:
                server.answer(gateway, stream, Ending())

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


class Sayings:
    """A gateway that says back what it was told."""

    def answer(self, data: bytes) -> bytes:
        return data[::-1]


def test_the_socket_is_the_owners_alone_and_goes_away(path):
    with listening(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_ISSOCK(path.stat().st_mode)
    assert not path.exists()


def test_it_is_private_whatever_the_umask(path):
    before = os.umask(0)
    try:
        with listening(path):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert os.umask(0) == 0
    finally:
        os.umask(before)


def test_a_group_may_be_let_in(path):
    """Root may name any group; others one of their own."""
    group = os.getgroups()[-1] if os.getuid() else 12345
    with listening(path, group):
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        assert path.stat().st_gid == group


def test_a_group_may_be_named(path):
    own = grp.getgrgid(os.getgid())
    with listening(path, own.gr_name):
        assert path.stat().st_gid == own.gr_gid


@pytest.mark.parametrize(
    ("group", "says"),
    [("no such group", "unknown to this machine"), (2**40, "cannot be given"), (-7, "given")],
)
def test_a_group_that_cannot_be_let_in_is_named_and_no_socket_left(path, group, says):
    with pytest.raises(GatewayError, match=says), listening(path, group):
        pass
    assert not path.exists()


def test_a_socket_left_by_a_killed_gateway_is_replaced_and_a_live_one_is_not(path):
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()
    with listening(path), pytest.raises(GatewayError, match=r"listens at .* already"), listening(path):
        pass


def test_of_two_that_start_at_once_the_second_leaves_the_socket_of_the_first(path, monkeypatch):
    """Both may have seen that nobody listens; who cannot listen then must not take the socket away."""
    with listening(path) as first:
        monkeypatch.setattr(server, "_make_room", lambda path: None)
        with pytest.raises(GatewayError, match="cannot be made"), listening(path):
            pass
        served(Sayings(), first, 1)
        assert GatewayClient(path, 10).forward(b"ab") == b"ba"
    assert not path.exists()


def test_a_file_that_is_no_socket_is_left_alone(path):
    path.write_text("mine")
    with pytest.raises(GatewayError, match="no socket"), listening(path):
        pass
    assert path.read_text() == "mine"


def test_a_process_of_the_gateways_own_user_is_refused_unless_told(path):
    """Sent code that ran as the gateway's user read 64 of 64 private records, at no epsilon."""
    with listening(path) as listener:

        def serve(*, apart):
            stream, _ = listener.accept()
            with stream:
                server.answer(Sayings(), stream, Ending(), apart=apart)

        said = []
        for apart in (True, False):
            thread = threading.Thread(target=serve, kwargs={"apart": apart}, daemon=True)
            thread.start()
            said.append(GatewayClient(path, 10).forward(b"abc"))
            thread.join(10)
    refused = read_reply(said[0])
    assert isinstance(refused, Refused)
    assert "own user" in refused.message
    assert said[1] == b"cba"


class Numbered(socket.socket):
    """Of whose peer the kernel says that it is user 3,000,000,000, as directories give them out."""

    def getsockopt(self, *_):
        return struct.pack("iII", 7, 3_000_000_000, 7)


def test_a_gateways_own_user_is_known_by_any_number(monkeypatch):
    """From 2^31 on nobody was the gateway's own user, and everybody was answered."""
    monkeypatch.setattr(os, "geteuid", lambda: 3_000_000_000)
    here, there = socket.socketpair()
    with there, Numbered(fileno=here.detach()) as stream:
        framing.send(there, b"abc")
        server.answer(Sayings(), stream, Ending(), apart=True)
        assert isinstance(read_reply(framing.receive(there, LARGEST, 10)), Refused)


@pytest.mark.skipif(os.getuid() != 0, reason="only root may start a process of another user")
def test_a_process_of_another_user_in_the_group_is_answered_and_one_outside_is_not():
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        path = Path(folder) / "g.sock"
        with listening(path, OTHER) as listener:
            said = [
                said_by(listener, path, user, group) for user, group in ((OTHER, OTHER), (OTHER, OTHER + 1))
            ]
    assert said == ["cba", "denied"]


OTHER = 65534
ASKS = """
import os, socket, struct, sys
user, group = map(int, sys.argv[2:])
os.setgroups([]), os.setgid(group), os.setuid(user)
stream = socket.socket(socket.AF_UNIX)
try:
    stream.connect(sys.argv[1])
except PermissionError:
    sys.exit("denied")
stream.sendall(struct.pack("<Q", 3) + b"abc")
sys.exit(stream.recv(100)[8:].decode())
"""


def said_by(listener, path, user, group):
    """What a process of another user is told."""
    command = [sys.executable, "-c", ASKS, str(path), str(user), str(group)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    listener.settimeout(0.05)
    while process.poll() is None:
        try:
            stream, _ = listener.accept()
        except TimeoutError:
            continue
        with stream:
            server.answer(Sayings(), stream, Ending(), apart=True)
    return process.communicate(timeout=30)[1].strip()


def test_a_gateway_refuses_its_own_user_where_its_file_says_nothing(tmp_path):
    (gateway,), (client,) = started(tmp_path, "own", owner=OWNER.replace("same_user = true", ""))
    try:
        reply = client.about()
    finally:
        ended(gateway)
    assert isinstance(reply, Refused)
    assert "same_user = true" in reply.message


def test_messages_come_whole_in_whatever_pieces(path):
    data = bytes(range(256)) * 5000
    with listening(path) as listener:
        served(Sayings(), listener, 1)
        assert GatewayClient(path, 10).forward(data) == data[::-1]


BAD = {
    "nothing": b"",
    "half a length": b"\x01\0",
    "half a message": struct.pack("<Q", 100) + b"x",
    "an endless message": struct.pack("<Q", 2**63),
    "more than allowed": struct.pack("<Q", LARGEST + 1),
}


def test_whatever_is_sent_the_next_request_is_answered(path):
    with listening(path) as listener:
        served(Sayings(), listener, len(BAD) + 1)
        for sent in BAD.values():
            with socket.socket(socket.AF_UNIX) as stream:
                stream.connect(str(path))
                stream.sendall(sent)
                stream.shutdown(socket.SHUT_WR)
                assert stream.recv(1) == b""
        assert GatewayClient(path, 10).forward(b"ab") == b"ba"


def test_who_does_not_ask_in_time_is_let_go(path, monkeypatch):
    monkeypatch.setattr(server, "_PATIENCE", 0.2)
    with listening(path) as listener, socket.socket(socket.AF_UNIX) as idle:
        served(Sayings(), listener, 2)
        idle.connect(str(path))
        assert GatewayClient(path, 10).forward(b"ab") == b"ba"


class Endless:
    """A stream that has always another byte."""

    def settimeout(self, seconds: float) -> None:
        assert seconds > 0

    def recv(self, most: int) -> bytes:
        return b"\0"


def test_who_always_sends_another_byte_is_let_go(monkeypatch):
    with pytest.raises(TimeoutError):
        framing._taken(Endless(), 2**28, time.monotonic() + 0.1)


def test_a_signal_ends_a_gateway_at_once_or_after_the_request_that_it_works_at():
    ending, done = Ending(), []

    def work():
        with ending.put_off():
            ending(signal.SIGTERM, None)
            done.append("answered")

    with pytest.raises(KeyboardInterrupt):
        ending(signal.SIGTERM, None)
    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["answered"]


def test_no_gateway_is_named_with_the_remedy(path):
    with pytest.raises(GatewayError, match="start it with noiseworthy gateway"):
        GatewayClient(path, 1).ask(request())


def test_a_client_needs_no_jax():
    code = "import noiseworthy.deploy.gateway.client, sys; print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


OWNER = """
[owner]
client = "client 1"
data_set = "tumours"
[federation]
data = "breast-cancer"
clients = 5
[budget]
mechanism = "gaussian"
epsilon = 8.0
delta = 1e-5
noise_floor = 0.5
[allowed]
algorithms = ["fedsgd-dpc"]
models = ["logistic"]
most_releases = 9
[files]
socket = "SOCKET"
ledger = "ledger.sqlite"
same_user = true
"""


def started(folder, *names, owner=OWNER):
    """Gateways as owners start them, in processes of their own, listening."""
    found = []
    for name in names:
        (folder / f"{name}.toml").write_text(owner.replace("SOCKET", f"{name}.sock"))
        command = [sys.executable, "-m", "noiseworthy", "gateway", str(folder / f"{name}.toml")]
        found.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
    for process in found:
        assert "listening" in process.stderr.readline()
    return found, [GatewayClient(folder / f"{name}.sock", 60) for name in names]


def ended(process):
    process.terminate()
    code = process.wait(30)
    process.stderr.close()
    return code


def test_two_processes_share_one_ledger_and_a_kill_changes_nothing(tmp_path, gateway_of):
    """One budget for both, the identical bytes from either, after SIGKILL as before."""
    (one, two), (first, second) = started(tmp_path, "one", "two")
    try:
        noise = 2 * 0.1 / 91
        assert isinstance(first.ask(request(1, noise=noise)), Uploaded)
        both = [ask(request(2, noise=noise)) for ask in (first.ask, second.ask)]
        assert np.array_equal(both[0].upload.steps, both[1].upload.steps)
        assert second.ask(request(3, noise=noise)).reason == "budget"
        one.kill()
        assert one.wait(30) == -signal.SIGKILL
        assert np.array_equal(second.ask(request(2, noise=noise)).upload.steps, both[0].upload.steps)
    finally:
        one.kill()
        one.stderr.close()
        code = ended(two)
    assert code == 0
    assert [path.name for path in tmp_path.glob("*.sock")] == ["one.sock"]  # replaced at its next start
    assert spent(gateway_of())[0] == 2


def test_the_owners_files_are_private(gateway_of, tmp_path):
    """While the gateway has them open, under the usual umask."""
    before = os.umask(0o022)
    try:
        asked(gateway_of(), request())
    finally:
        os.umask(before)
    files = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.glob("ledger.sqlite*")}
    private = ["ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm", "ledger.sqlite.turn"]
    assert files == dict.fromkeys(private, 0o600)


def test_a_copy_of_the_bare_ledger_of_an_idle_gateway_holds_all_that_is_spent(
    gateway, path, tmp_path, monkeypatch
):
    """The write-ahead log is left behind, as whoever copies the one file by name would leave it."""
    monkeypatch.setattr(server, "_QUIET", 0.05)
    asker, rest = threading.Thread(target=GatewayClient(path, 30).ask, args=[request()]), gateway.rest

    def rested():
        rest()
        if spent(gateway)[0]:
            raise KeyboardInterrupt

    monkeypatch.setattr(gateway, "rest", rested)
    with listening(path) as listener:
        asker.start()
        with pytest.raises(KeyboardInterrupt):
            server.serve(gateway, listener, Ending())
    asker.join(10)
    shutil.copy(tmp_path / "ledger.sqlite", tmp_path / "copy.sqlite")
    with read_ledger(tmp_path / "copy.sqlite") as copy:
        assert copy.query("SELECT spent FROM accounts") == [(spent(gateway)[1],)]
        assert copy.head == gateway.ledger.head


def test_refusals_pass_the_socket_like_any_reply(gateway, path):
    with listening(path) as listener:
        thread = served(gateway, listener, 1)
        reply = GatewayClient(path, 30).ask(request(deadline=1.0))
        thread.join(10)
    assert isinstance(reply, Refused)


@pytest.mark.parametrize(("takes", "leaves"), [(0.2, 0.5), (0.5, 0.5), (0.6, 1.0), (0.0, 0.0)])
def test_a_reply_leaves_at_a_multiple_of_the_stated_time(monkeypatch, takes, leaves):
    """By a clock that is moved by work and by waiting alone."""
    now = [100.0]
    monkeypatch.setattr(server.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(server.time, "sleep", lambda seconds: now.append(now.pop() + seconds))

    class Works:
        def answer(self, data: bytes) -> bytes:
            now.append(now.pop() + takes)
            return data

    near, far = socket.socketpair()
    with near, far:
        framing.send(far, b"request")
        server.answer(Works(), near, Ending(), 0.5)
        assert framing.receive(far, 10, 5.0) == b"request"
    assert now[0] - 100 == pytest.approx(leaves)


@pytest.mark.parametrize("takes", [0.9000000000000001, 1.8000000000000003, 3.5000000000000004])
def test_no_rounding_makes_a_wait_negative(takes):
    """Such a sleep would be an error, and end the gateway."""
    assert server._left(takes, 0.1) == pytest.approx(0.0)
    assert server._left(takes, 0.1) >= 0


def test_without_a_stated_time_a_reply_leaves_at_once(monkeypatch):
    waited = []
    monkeypatch.setattr(server.time, "sleep", waited.append)
    near, far = socket.socketpair()
    with near, far:
        framing.send(far, b"abc")
        server.answer(Sayings(), near, Ending())
        assert framing.receive(far, 10, 5.0) == b"cba"
    assert waited == [0.0]


def test_a_socket_may_lie_deeper_than_the_kernel_takes_paths(gateway, tmp_path):
    """A path of a Unix socket has at most 107 bytes; deployments lie in folders of any depth."""
    folder = tmp_path / ("deep" * 20) / ("deeper" * 12)
    folder.mkdir(parents=True)
    path = folder / "gateway.sock"
    assert len(str(path)) > 150
    with listening(path) as listener:
        assert path.stat().st_mode & 0o777 == 0o600
        thread = threading.Thread(target=lambda: listener.accept()[0].close())
        thread.start()
        with socket.socket(socket.AF_UNIX) as stream, framing.address(path) as short:
            stream.connect(short)
        thread.join(10)
        with pytest.raises(GatewayError, match="listens at"), listening(path):
            pass
    assert not path.exists()
