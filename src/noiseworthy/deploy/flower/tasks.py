"""Work that Flower hands out: taken by who holds a secret, kept by heartbeats, and given back done.

Flower's own starter of apps begins a process for every task, which loads the code that came with it. Here a
task is done by the process that takes it, and what came with it is not looked at.
"""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from flwr.common.constant import SubStatus
from flwr.proto.runtime_pb2 import AcquireTaskRequest, PushTaskOutputRequest, SendTaskHeartbeatRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.inflatable.inflatable_utils import pull_objects
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.runtime import RuntimeHttpClient

_ACQUIRE = "/flwr.proto.Runtime/AcquireTask"
_BEAT = 10.0
"""Seconds between two heartbeats; Flower takes a task away after 30 without the first and 60 without more."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Server:
    """Where tasks are handed out.

    Attributes:
        address: host and port.
        secret: that who takes a task must know.
        certificate: of the authority that vouches for the server, as PEM; None speaks without TLS.
    """

    address: str
    secret: bytes
    certificate: bytes | None = None

    @contextmanager
    def client(self, token: str | None = None) -> Iterator[RuntimeHttpClient]:
        """Flower's client of it, for one task or to take tasks; it never tries again by itself.

        Args:
            token: of the task; None to take tasks.
        """
        held: Any = (
            SuperExecAuthHttpInterceptor(master_secret=self.secret, protected_methods={_ACQUIRE})
            if token is None
            else RuntimeTokenHttpInterceptor(token)
        )
        client = RuntimeHttpClient.from_server_address(
            server_address=self.address,
            insecure=self.certificate is None,
            root_certificates=self.certificate,
            interceptors=[RuntimeVersionHttpInterceptor(component_name="noiseworthy"), held],
        )
        try:
            yield client
        finally:
            client.close()


@dataclass(frozen=True)
class Task:
    """A task that was taken.

    Attributes:
        run: that it belongs to.
        token: by which its server knows who does it.
    """

    run: int
    token: str


def pull_soon(*args: Any, **options: Any) -> dict[str, bytes]:
    """Flower's pull of what is still on its way, which asks again at once; its own waits 1 s, then 2."""
    return pull_objects(*args, **{**options, "initial_backoff": 0.1})


def taken(client: RuntimeHttpClient) -> Task | None:
    """The oldest task that nobody has taken, of any kind; None if there is none.

    Raises:
        httpx.HTTPError: the server does not answer, or refuses.
    """
    asked = AcquireTaskRequest(supported_task_types=[kind.value for kind in TaskType])
    told = client.AcquireTask(asked)
    return Task(told.task.run_id, told.token) if told.token else None


def finished(client: RuntimeHttpClient, failure: str = "") -> None:
    """Give a task back.

    Args:
        client: of the task.
        failure: why it was not done; empty if it was.

    Raises:
        httpx.HTTPError: the server does not answer, or has taken the task away.
    """
    status = SubStatus.FAILED if failure else SubStatus.COMPLETED
    client.PushTaskOutput(PushTaskOutputRequest(sub_status=status, details=failure))


@contextmanager
def kept(server: Server, token: str) -> Iterator[None]:
    """Keep a task by heartbeats from another thread. One that is lost is noticed at its next call."""
    over = threading.Event()
    beats = threading.Thread(target=_beat, args=(server, token, over), daemon=True)
    beats.start()
    try:
        yield
    finally:
        over.set()
        beats.join()


def _beat(server: Server, token: str, over: threading.Event) -> None:
    with server.client(token) as client:
        while not over.is_set():
            try:
                client.SendTaskHeartbeat(SendTaskHeartbeatRequest())
            except httpx.HTTPError:
                _log.debug("a heartbeat was not taken")
            over.wait(_BEAT)
