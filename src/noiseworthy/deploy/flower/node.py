"""A supernode that runs no code but its own: it forwards messages by the app that is installed with it.

A supernode of Flower's starts a process for every message, which unpacks and runs the app that the server
sent. Whoever gives the superlink orders would run code as the node's user. So

    python -m noiseworthy.deploy.flower.node flower-supernode ...

starts a supernode in which tasks can be taken by this process alone, whose thread answers them by
`client_app`. What the server sends as an app is neither unpacked nor imported, its configuration is not read.
"""

import fcntl
import logging
import math
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NoReturn

import httpx
from flwr.app import Error, Message
from flwr.common.constant import ISOLATION_MODE_PROCESS, ErrorCode
from flwr.supercore.error import ApiErrorCode, FlowerError
from flwr.supercore.inflatable import inflatable_utils
from flwr.supercore.run import RunNotRunningException
from flwr.supernode import fleet_http_connection, start_client_internal
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message

from noiseworthy.deploy.flower.client_app import app
from noiseworthy.deploy.flower.envelope import APP_FAILED
from noiseworthy.deploy.flower.tasks import Server, Task, finished, kept, pull_soon, taken

_LOOK = 0.5
"""Seconds between two looks for tasks, at most."""
_SOON = 0.1
"""Seconds between two looks, at least."""
_AGAIN = 2.0
"""Seconds after a fault before tasks are looked for again."""
_EARLY, _LATE = -5.0, 305.0
"""Seconds by which a superlink lets a node's clock be ahead and behind (Flower 1.41)."""
_LOCK = "node.lock"

_log = logging.getLogger(__name__)


class Pace:
    """How long to sleep between two looks: little while messages come, and longer the longer none came."""

    def __init__(self):
        self._heard = -math.inf

    def heard(self) -> None:
        """A message came."""
        self._heard = time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Sleep a tenth of the time since the last message, so many seconds at most."""
        time.sleep(min(seconds, max(_SOON, (time.monotonic() - self._heard) / 10)))


def answer_tasks(server: Server, pace: Pace) -> NoReturn:
    """Answer every message that a supernode takes, one after the other.

    Args:
        server: of the supernode's own machine.
        pace: of looks for tasks.
    """
    while True:
        try:
            with server.client() as client:
                while True:
                    task = taken(client)
                    if task is None:
                        pace.sleep(_LOOK)
                    else:
                        answer(server, task)
        except Exception as error:
            _log.warning("a message could not be answered (%s)", type(error).__name__)
            time.sleep(_AGAIN)


def answer(server: Server, task: Task) -> None:
    """Answer the message of a task by the installed app; the app that came with it is left as it came.

    Args:
        server: that handed it out.
        task: of a message.

    Raises:
        httpx.HTTPError: the supernode does not answer.
    """
    with server.client(task.token) as client, kept(server, task.token):
        message, context, _, _ = pull_task_input(client)
        push_message(client, _reply(message, context), context)
        finished(client)


def _reply(message: Message, context: Any) -> Message:
    """A message that is no query has no place in the app; the reason is a fixed sentence."""
    try:
        return app(message, context)
    except Exception:
        return Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, APP_FAILED), reply_to=message)


class Explaining(NodeAuthHttpInterceptor):
    """Says why a superlink turns the node away; Flower's supernode ends without a word then."""

    def intercept(self, context: Any, call_next: Callable[[Any], httpx.Response]) -> httpx.Response:
        """Pass a call on, and print what its refusal means."""
        asked, response = datetime.now(UTC), super().intercept(context, call_next)
        if response.status_code == httpx.codes.UNAUTHORIZED or _is_unknown(response):
            print(turned_away(response.headers.get("date"), asked), file=sys.stderr, flush=True)
        return response


def _is_unknown(response: httpx.Response) -> bool:
    """Whether a superlink says that it has no node of this key."""
    told = FlowerError.from_json(response.text) if response.is_error else None
    return told is not None and told.code == ApiErrorCode.FLEET_NODE_ACTIVATION_FAILED


def turned_away(date: str | None, now: datetime) -> str:
    """Why a superlink does not take this node, in words.

    Args:
        date: header of its answer, in whole seconds.
        now: when it was asked, by this machine's clock.
    """
    ahead = 0.0 if date is None else (now - parsedate_to_datetime(date)).total_seconds()
    if 1 - _LATE < ahead <= -_EARLY:
        return (
            "The superlink does not know this node's key (any more). Send the server keys/nodes/NAME.pub, "
            "and start the node again once the server has typed noiseworthy deploy link."
        )
    side = "ahead of" if ahead > 0 else "behind"
    return (
        f"The superlink turns this node away: this machine's clock is {abs(ahead):.0f} s {side} the "
        f"superlink's, at most {-_EARLY:.0f} s ahead and {_LATE:.0f} s behind are let pass. Set the clock "
        "(NTP), then start the node again."
    )


def pinned(config: Any, secret: bytes) -> Any:
    """A supernode's configuration by which it starts no app, and hands tasks to who knows a secret."""
    return replace(config, isolation=ISOLATION_MODE_PROCESS, superexec_auth_secret=secret)


def read_no_app() -> None:
    """Have this process's supernode leave apps unopened; Flower reads their configuration otherwise."""
    worker: Any = start_client_internal
    worker.get_fused_config_from_fab = lambda fab, run: {}


def drop_what_ended() -> None:
    """Have this process's supernode drop a message whose run ends while it comes, task and all."""

    def pulled(*args: Any, **options: Any) -> dict[str, bytes]:
        try:
            return pull_soon(*args, **options)
        except RunNotRunningException:
            # no Exception, so that it passes Flower's handling by: the task would stay, and who answers it
            # would wait more than an hour for the rest of its message
            raise ConnectionError("its run has ended") from None

    worker: Any = start_client_internal
    worker.pull_objects = pulled


def keep_pace(pace: Pace) -> None:
    """Have this process's supernode look for messages, and for what is missing of one, at a pace of ours."""
    worker: Any = start_client_internal
    pull = worker._pull_and_store_message

    def pulled(**options: Any) -> int | None:
        run = pull(**options)
        if run is not None:
            pace.heard()
        return run

    worker._pull_and_store_message, worker.time = pulled, pace
    inflatable_utils.pull_objects = pull_soon


def main() -> None:
    """Start the supernode of this process's command line."""
    sys.argv = sys.argv[1:]
    supernode: Any = import_module("flwr.supernode.cli.flower_supernode")
    secret = secrets.token_bytes(32)
    config = pinned(supernode._parse_supernode_lifespan_config(), secret)
    held = _only_one(Path(os.environ["FLWR_HOME"]))
    supernode._parse_supernode_lifespan_config = lambda: config
    connection: Any = fleet_http_connection
    connection.NodeAuthHttpInterceptor = Explaining
    read_no_app()
    drop_what_ended()
    keep_pace(pace := Pace())
    server = Server(f"{config.host}:{config.port}", secret)
    threading.Thread(target=answer_tasks, args=(server, pace), daemon=True).start()
    with held:
        supernode.flower_supernode()


def _only_one(home: Path) -> IO[str]:
    """Held while this process lives; two nodes with one key would take messages from each other."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = (home / _LOCK).open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(f"A node runs from {home} already; end it first.")
    return file


if __name__ == "__main__":
    main()
