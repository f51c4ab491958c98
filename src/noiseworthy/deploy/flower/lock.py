"""A superlink that takes orders from who holds its password alone.

Flower's superlink serves nodes, its own app and its control interface at one port, and asks nodes alone for
credentials: whoever reaches the port could begin a run, or register a node. So

    python -m noiseworthy.deploy.flower.lock PASSWORD-FILE flower-superlink ...

starts one with a password. Nodes are not asked for it; they have keys.
"""

import hmac
import ipaddress
import secrets
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from types import ModuleType
from typing import Any

from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse

from noiseworthy._places import write_whole

Scope = MutableMapping[str, Any]
Send = Callable[[Any], Awaitable[None]]
Application = Callable[[Scope, Callable[[], Awaitable[Any]], Send], Awaitable[None]]

_NODES, _APPS = "/v1/fleet/", "/v1/runtime/"
_EXTENSIONS = "flwr.ee.superlink.extensions"
"""Where a superlink looks for middleware of others."""


class Lock:
    """Middleware that admits nodes, this machine's tasks (they have tokens), and who states the password.

    Args:
        app: what it guards.
        password: of the control interface.
    """

    def __init__(self, app: Application, password: str):
        self._app = app
        self._expected = f"Bearer {password}".encode()

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Pass a request on, or answer it by 403."""
        admitted = scope["type"] == "lifespan" or (scope["type"] == "http" and self._admits(scope))
        app = self._app if admitted else PlainTextResponse("this superlink has a password", 403)
        await app(scope, receive, send)

    def _admits(self, scope: Scope) -> bool:
        path = scope["path"]
        if path.startswith(_NODES) or (path.startswith(_APPS) and _is_local(scope)):
            return True
        stated = [value for name, value in scope["headers"] if name == b"authorization"]
        return any(hmac.compare_digest(value, self._expected) for value in stated)


def _is_local(scope: Scope) -> bool:
    """Whether a request comes from this machine."""
    client, server = scope.get("client"), scope.get("server")
    if not client:
        return False
    return ipaddress.ip_address(client[0]).is_loopback or bool(server and client[0] == server[0])


def lock_superlink(password: str) -> None:
    """Have the superlink of this process ask for a password."""
    extension = ModuleType(_EXTENSIONS)
    extension.get_middleware = lambda: (Middleware(Lock, password=password),)  # pyright: ignore
    sys.modules[_EXTENSIONS] = extension


def password_of(path: Path) -> str:
    """The password of a file, which is made where there is none or an empty one, with mode 0600."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists() or not path.stat().st_size:
        # whole, because a kill or a full disk must not leave an empty password behind
        write_whole(path, secrets.token_urlsafe(32), 0o600)
    return path.read_text()


def main() -> None:
    """Start the superlink of this process's command line."""
    from flwr.superlink.cli import flower_superlink

    lock_superlink(password_of(Path(sys.argv[1])))
    sys.argv = sys.argv[2:]
    flower_superlink()


if __name__ == "__main__":
    main()
