"""Gateways behind real sockets that say who they are, and say back what else they are told."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from noiseworthy.deploy.gateway.client import pack_about
from noiseworthy.deploy.gateway.framing import receive, send
from noiseworthy.deploy.gateway.messages import About, pack_reply

TERMS = {
    "data_set": "digits",
    "records": 90,
    "record_shape": (64,),
    "classes": 10,
    "mechanism": "gaussian",
    "epsilon": 1.0,
    "delta": 1e-5,
    "unit": "record",
    "noise_floor": 1.0,
    "algorithms": ["dp-fedavg"],
    "models": ["softmax"],
    "most_releases": 3,
    "most_parameters": 650,
    "most_local_steps": 3,
    "head": "0:" + "0" * 64,
    "spent": 0.0,
}


def about(client: str) -> bytes:
    return pack_reply(About(client=client, **TERMS))


@dataclass
class Echo:
    """Stands where a gateway stands: bytes in, bytes out, over the same framing."""

    path: Path
    client: str
    seen: list[bytes] = field(default_factory=list)
    before: Callable[[bytes], None] = lambda data: None

    def answer(self, data: bytes) -> bytes:
        if data == pack_about():
            return about(self.client)
        self.seen.append(data)
        self.before(data)
        return data[::-1]

    def serve(self, listener: socket.socket) -> None:
        while True:
            try:
                stream, _ = listener.accept()
            except OSError:
                return
            with stream:
                try:
                    send(stream, self.answer(receive(stream, 2**28, 10.0)))
                except Exception:
                    continue


@pytest.fixture
def echo(tmp_path) -> Iterator[Callable[[str], Echo]]:
    """Starts one for a client, at a socket of its name."""
    listeners: list[socket.socket] = []

    def start(client: str, path: Path | None = None) -> Echo:
        made = Echo(path or tmp_path / f"{client}.sock", client)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(made.path))
        listener.listen()
        listeners.append(listener)
        threading.Thread(target=made.serve, args=(listener,), daemon=True).start()
        return made

    yield start
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
