"""Who reaches a superlink's port cannot give it orders: nodes and own apps pass, others need a password."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from importlib import import_module

import httpx
import pytest
from flwr.superlink import extensions
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from noiseworthy.deploy.flower.lock import Lock, lock_superlink, password_of

PATHS = [
    "/v1/fleet/pull-messages",
    "/v1/runtime/acquire-task",
    "/v1/control/start-run",
    "/v1/control/register-node",
    "/openapi.json",
    "/v1/fleet",
    "/v1/fleets/x",
    "//v1/fleet/x",
]
OPEN = PATHS[:1]
LOCAL = PATHS[1:2]
HELD = {"Authorization": "Bearer swordfish"}


def status(path, peer, headers=None):
    """What a guarded application answers to a request of another machine or this one."""
    inside = Starlette(
        routes=[Route("/{rest:path}", lambda request: PlainTextResponse("in"), methods=["POST"])]
    )
    transport = httpx.ASGITransport(Lock(inside, "swordfish"), client=(peer, 5000))

    async def post():
        async with httpx.AsyncClient(transport=transport) as client:
            return await client.post(f"http://server.example{path}", headers=headers or {})

    return asyncio.run(post()).status_code


@pytest.mark.parametrize("path", PATHS)
def test_from_another_machine_nodes_alone_pass_without_a_password(path):
    assert status(path, "10.0.0.9") == (200 if path in OPEN else 403)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("peer", ["127.0.0.1", "::1"])
def test_on_this_machine_apps_pass_too_and_orders_do_not(path, peer):
    assert status(path, peer) == (200 if path in OPEN + LOCAL else 403)


@pytest.mark.parametrize("peer", ["127.0.0.1", "10.0.0.9"])
def test_the_password_opens_everything(peer):
    assert {status(path, peer, HELD) for path in PATHS} == {200}


@pytest.mark.parametrize(
    "stated",
    ["Bearer swordfis", "Bearer swordfish2", "swordfish", "bearer swordfish", "Bearer ", "Basic swordfish"],
)
def test_another_password_opens_nothing(stated):
    assert status("/v1/control/start-run", "127.0.0.1", {"Authorization": stated}) == 403


def test_a_machine_that_calls_itself_by_its_own_address_is_local():
    """A superlink that listens at one address is reached by its own apps from that address."""
    scope = {"type": "http", "path": "/v1/runtime/x", "headers": [], "client": ["10.0.0.1", 1]}
    lock = Lock(None, "swordfish")  # type: ignore
    assert lock._admits(scope | {"server": ("10.0.0.1", 80)})
    assert not lock._admits(scope | {"server": ("10.0.0.2", 80)})
    assert not lock._admits(scope | {"client": None, "server": ("10.0.0.1", 80)})


def test_what_is_no_request_does_not_pass():
    passed = []

    async def app(scope, receive, send):
        passed.append(scope["type"])

    async def send(message):
        passed.append(message["type"])

    def given(kind):
        run = Lock(app, "x")({"type": kind, "path": "/v1/fleet/x", "headers": []}, None, send)
        with pytest.raises(StopIteration):
            run.send(None)

    given("lifespan")
    assert passed == ["lifespan"]
    given("websocket")
    assert "websocket" not in passed


def test_flower_takes_the_lock_before_everything_else(monkeypatch):
    monkeypatch.delitem(sys.modules, "flwr.ee.superlink.extensions", raising=False)
    monkeypatch.setitem(sys.modules, "flwr.ee.superlink.extensions", None)
    lock_superlink("swordfish")
    (first,) = extensions.get_middleware()
    assert first.cls is Lock
    assert first.kwargs == {"password": "swordfish"}
    assert import_module("flwr.superlink.main")._get_middleware()[0].cls is Lock


def test_a_file_that_a_full_disk_left_empty_is_no_password(tmp_path):
    """Whoever states nothing would know it."""
    path = tmp_path / "link.password"
    path.touch()
    made = password_of(path)
    assert len(made) >= 43
    assert password_of(path) == made


def test_a_password_is_made_once_for_its_owner_alone(tmp_path):
    path = tmp_path / "keys" / "link.password"
    before = os.umask(0)
    try:
        made = password_of(path)
    finally:
        os.umask(before)
    assert len(made) >= 43
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert password_of(path) == made
    assert password_of(tmp_path / "other") != made
