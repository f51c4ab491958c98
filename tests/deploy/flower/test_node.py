"""A node runs no code but its own: what the server sends as an app is neither unpacked nor imported."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
import time
import warnings
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace

import httpx
import pytest
import uvicorn
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.app import Message, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.cli.build import build_fab_from_disk
from flwr.cli.install import install_from_fab
from flwr.supercore.fab import Fab
from flwr.supercore.inflatable import inflatable_utils
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.object_ref import load_app
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.run import Run, RunNotRunningException
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode import start_client_internal
from flwr.supernode.main import create_app
from flwr.supernode.nodestate import NodeStateFactory

from noiseworthy.deploy.flower import node, tasks
from noiseworthy.deploy.flower.envelope import APP_FAILED, NO_GATEWAY, enclosed, opened
from noiseworthy.deploy.flower.node import Explaining, answer, turned_away
from noiseworthy.deploy.flower.processes import free_ports
from noiseworthy.deploy.flower.tasks import Server, pull_soon, taken

SECRET = b"swordfish"
RUN = 4


class Supernode:
    """A supernode's own state behind its own server on loopback, without a superlink."""

    def __init__(self, socket):
        self.socket = socket
        factory = NodeStateFactory(ObjectStoreFactory())
        self.state = factory.state()
        self.state.set_node_id(7)
        (port,) = free_ports(1)
        self.server = Server(f"127.0.0.1:{port}", SECRET)
        app = create_app(factory, superexec_auth_secret=SECRET)
        config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error", ws="none")
        self.http = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.http.run, daemon=True)
        self.thread.start()
        while not self.http.started:
            assert self.thread.is_alive()
            time.sleep(0.01)

    def receives(self, content: RecordDict, fab: bytes, kind: str = "query", *, ends: bool = False) -> None:
        """What Flower's supernode does with a message that a superlink holds for it, and with its app.

        `ends` ends the run before the message is here.
        """
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = RUN, 1, 1
        message = Message(content, 7, kind, ttl=60.0)
        message.metadata.__dict__["_message_id"] = message.object_id
        objects = {name: part.deflate() for name, part in get_all_nested_objects(message).items()}
        tree, bare = get_object_tree(message), remove_content_from_message(message)
        run = Run.create_empty(RUN)
        run.fab_hash, run.series_id = hashlib.sha256(fab).hexdigest(), 5
        came = start_client_internal._pull_and_store_message(
            state=self.state,
            object_store=self.state.object_store,
            node_config={"socket": str(self.socket)},
            receive=lambda: (bare, tree),
            get_run=lambda _: run,
            get_fab=lambda *_: Fab(run.fab_hash, fab, {}),
            pull_object=_over if ends else lambda _, name: objects[name],
            confirm_message_received=lambda *_: None,
            trusted_entities=None,
        )
        assert came == (None if ends else RUN)

    def task(self):
        with self.server.client() as client:
            return taken(client)

    def reply(self) -> Message:
        """What the supernode would send on."""
        store = self.state.object_store
        (bare,) = self.state.get_messages_legacy(is_reply=True)
        tree = store.get_object_tree(bare.metadata.message_id)
        names = [each.object_id for each in iterate_object_tree(tree)]
        return inflate_object_from_contents(names[-1], {name: store.get(name) for name in names})


def _over(run: int, name: str) -> bytes:
    raise RunNotRunningException


@pytest.fixture
def supernode(tmp_path, monkeypatch):
    monkeypatch.setenv("FLWR_HOME", str(tmp_path / "home"))
    before = start_client_internal.get_fused_config_from_fab
    monkeypatch.setattr(start_client_internal, "get_fused_config_from_fab", before)
    monkeypatch.setattr(start_client_internal, "pull_objects", start_client_internal.pull_objects)
    node.read_no_app()
    node.drop_what_ended()
    made = Supernode(tmp_path / "north.sock")
    yield made
    made.http.should_exit = True
    made.thread.join(10)


PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "other"
version = "1.0.0"
description = "Reads what the node's user may read"
license = "Apache-2.0"
dependencies = []
[tool.flwr.app]
publisher = "other"
[tool.flwr.app.components]
serverapp = "other_app.apps:server"
clientapp = "other_app.apps:client"
"""
APPS = """
from pathlib import Path
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
Path({mark!r}).write_text("ran")
client, server = ClientApp(), ServerApp()
"""


@pytest.fixture
def other_app(tmp_path):
    """An app that leaves a mark where it runs: as a project, and as what `flwr run` sends."""
    root = tmp_path / "other"
    (root / "other_app").mkdir(parents=True)
    (root / "pyproject.toml").write_text(PROJECT)
    (root / "other_app" / "__init__.py").touch()
    (root / "other_app" / "apps.py").write_text(APPS.format(mark=str(tmp_path / "mark")))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Flower's, of a library that it uses
        yield SimpleNamespace(fab=build_fab_from_disk(root), mark=tmp_path / "mark")
    for name in [name for name in sys.modules if name.startswith("other_app")]:
        del sys.modules[name]


def test_another_app_is_answered_by_the_nodes_own_and_none_of_its_code_runs(supernode, other_app, echo):
    echo("north", supernode.socket)
    supernode.receives(enclosed(b"abc"), other_app.fab)
    answer(supernode.server, supernode.task())
    assert opened(supernode.reply()) == b"cba"
    assert not other_app.mark.exists()
    assert not list(supernode.socket.parent.glob("home/**/*.py"))


def test_the_other_app_would_leave_its_mark(other_app, tmp_path, monkeypatch):
    """As Flower's own process for a message loads it: without this the test above could not fail."""
    monkeypatch.setenv("FLWR_HOME", str(tmp_path / "home"))
    folder = install_from_fab(other_app.fab, skip_prompt=True)
    load_app("other_app.apps:client", ImportError, str(folder))
    assert other_app.mark.read_text() == "ran"


def test_what_came_as_an_app_is_not_even_opened(supernode, echo):
    echo("north", supernode.socket)
    supernode.receives(enclosed(b"abc"), b"no archive at all")
    answer(supernode.server, supernode.task())
    assert opened(supernode.reply()) == b"cba"


def test_flower_itself_would_open_it(supernode, monkeypatch):
    monkeypatch.undo()
    with pytest.raises(Exception, match="zip"):
        supernode.receives(enclosed(b"abc"), b"no archive at all")


@pytest.mark.parametrize("kind", ["train", "evaluate", "query.other"])
def test_messages_that_only_another_app_would_take_are_refused(supernode, kind):
    supernode.receives(enclosed(b"abc"), b"", kind)
    answer(supernode.server, supernode.task())
    assert supernode.reply().error.reason == APP_FAILED


def test_without_a_gateway_the_node_says_so_and_goes_on(supernode):
    supernode.receives(enclosed(b"abc"), b"")
    answer(supernode.server, supernode.task())
    with pytest.raises(LookupError, match=NO_GATEWAY):
        opened(supernode.reply())


@pytest.fixture
def slept(monkeypatch):
    """A clock that stands at `now`, and what is slept instead."""
    clock = SimpleNamespace(now=0.0, seconds=[])
    still = SimpleNamespace(monotonic=lambda: clock.now, sleep=clock.seconds.append)
    monkeypatch.setattr(node, "time", still)
    return clock


def test_a_node_looks_soon_after_a_message_and_more_seldom_the_longer_none_came(slept):
    pace = node.Pace()
    pace.sleep(3.0)
    pace.heard()
    for slept.now in (0.0, 0.9, 4.0, 25.0, 3600.0):
        pace.sleep(3.0)
    assert slept.seconds == pytest.approx([3.0, 0.1, 0.1, 0.4, 2.5, 3.0])


def test_flowers_own_loop_sleeps_at_the_pace_of_messages_that_came(supernode, slept, monkeypatch):
    for name in ("_pull_and_store_message", "time"):
        monkeypatch.setattr(start_client_internal, name, getattr(start_client_internal, name))
    monkeypatch.setattr(inflatable_utils, "pull_objects", inflatable_utils.pull_objects)
    pulled = []
    monkeypatch.setattr(
        node, "pull_soon", lambda *ids, **options: pulled.append(1) or pull_soon(*ids, **options)
    )
    node.keep_pace(node.Pace())
    assert inflatable_utils.pull_objects is node.pull_soon
    start_client_internal.time.sleep(3)
    supernode.receives(enclosed(b"lost"), b"", ends=True)
    start_client_internal.time.sleep(3)
    supernode.receives(enclosed(b"abc"), b"")
    start_client_internal.time.sleep(3)
    assert slept.seconds == [3, 3, 0.1]
    assert len(pulled) == 2


def test_what_is_still_on_its_way_is_asked_for_again_at_once_whatever_flower_would_wait(monkeypatch):
    told = {}
    monkeypatch.setattr(tasks, "pull_objects", lambda *ids, **options: told.update(options) or ids)
    assert pull_soon(["a"], initial_backoff=1, max_time=5.0) == (["a"],)
    assert told == {"initial_backoff": 0.1, "max_time": 5.0}


def test_a_message_whose_run_ended_while_it_came_holds_up_no_other(supernode, echo):
    """Its task would be taken first, and waited for longer than an hour."""
    echo("north", supernode.socket)
    supernode.receives(enclosed(b"lost"), b"", ends=True)
    assert supernode.task() is None
    supernode.receives(enclosed(b"abc"), b"")
    answer(supernode.server, supernode.task())
    assert opened(supernode.reply()) == b"cba"


def test_another_process_of_the_machine_takes_no_task(supernode):
    """Flower's own starter of apps, which knows no secret, would run what was sent."""
    supernode.receives(enclosed(b"abc"), b"")
    stranger = Server(supernode.server.address, b"guessed")
    with stranger.client() as client, pytest.raises(httpx.HTTPStatusError):
        taken(client)
    assert supernode.task().run == RUN
    assert supernode.task() is None


@pytest.mark.parametrize(
    ("ahead", "said"),
    [
        (90, "clock is 90 s ahead of"),
        (-600, "clock is 600 s behind"),
        (0, "does not know this node's key"),
        (4, "does not know this node's key"),
        (-300, "does not know this node's key"),
    ],
)
def test_a_node_that_is_turned_away_says_why(ahead, said):
    now = datetime(2026, 11, 23, 12, 0, 0, tzinfo=UTC)
    told = format_datetime(now - timedelta(seconds=ahead), usegmt=True)
    assert said in turned_away(told, now)


@pytest.mark.parametrize(("status", "silent"), [(401, False), (200, True), (503, True)])
def test_it_says_so_when_a_superlink_answers_401(capsys, status, silent):
    key = ec.generate_private_key(ec.SECP384R1())
    context = SimpleNamespace(request=httpx.Request("POST", "http://link"))
    response = httpx.Response(status, headers={"date": "Mon, 23 Nov 2026 00:00:00 GMT"})
    assert Explaining(key, key.public_key()).intercept(context, lambda _: response) is response
    assert ("clock" not in capsys.readouterr().err) is silent


def test_a_second_node_of_one_home_ends_at_once(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from noiseworthy.deploy.flower.node import _only_one; "
        "held = _only_one(Path(sys.argv[1])); print('first', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "first\n"
        second = subprocess.run(command, capture_output=True, text=True, timeout=60)
        first.kill()
    assert second.returncode == 1
    assert "A node runs from" in second.stderr


def test_a_node_loads_nothing_that_computes():
    """One process for all messages, and a light one: Flower takes away tasks that start too slowly."""
    heavy = {"jax", "jaxlib", "equinox", "optax", "pandas", "scipy", "sklearn", "matplotlib", "opendp"}
    code = "import noiseworthy.deploy.flower.node, sys; print(*{m.split('.')[0] for m in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "noiseworthy" in done.stdout.split()
    assert heavy & set(done.stdout.split()) == set()
