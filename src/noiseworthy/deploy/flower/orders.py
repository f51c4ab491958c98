"""What a superlink does at the word of who holds its password: it knows keys, and begins runs.

Flower begins a run with an app, which superlinks and nodes of its own making would run. Ours does nothing:
the training does what the server's part would do (`session`), and an owner's node what the client's would
(`node`), both from their own installation.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from flwr.cli.build import build_fab_from_disk
from flwr.common.serde import fab_to_proto
from flwr.proto.control_pb2 import (
    ListNodesRequest,
    RegisterNodeRequest,
    StartRunRequest,
    UnregisterNodeRequest,
)
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

from noiseworthy.deploy.flower.commands import Link
from noiseworthy.errors import GatewayError


@dataclass(frozen=True)
class Registered:
    """A node as its superlink knows it.

    Attributes:
        number: by which messages are sent to it.
        name: that it was registered by, of its file of keys.
        key: its public key, as PEM.
        online: whether it was heard of lately.
    """

    number: int
    name: str
    key: bytes
    online: bool


@dataclass(frozen=True)
class Password:
    """States a superlink's password with every order."""

    password: str

    def intercept(self, context: Any, call_next: Callable[[Any], httpx.Response]) -> httpx.Response:
        """Pass an order on."""
        context.request.headers["Authorization"] = f"Bearer {self.password}"
        return call_next(context)


@dataclass(frozen=True)
class Orders:
    """Orders to a superlink, from `orders_to`."""

    link: Link
    _client: ControlHttpClient

    def nodes(self) -> list[Registered]:
        """The nodes whose keys it knows."""
        told = self._client.ListNodes(ListNodesRequest()).nodes_info
        return [
            Registered(one.node_id, one.name, bytes(one.public_key), one.status == "online")
            for one in told
            if one.status != "unregistered"
        ]

    def register(self, name: str, key: bytes) -> None:
        """Make a node's key known.

        Args:
            name: of its file of keys.
            key: public, as PEM.
        """
        self._client.RegisterNode(RegisterNodeRequest(public_key=key, name=name))

    def unregister(self, number: int) -> None:
        """Forget a node; it is turned away from now on."""
        self._client.UnregisterNode(UnregisterNodeRequest(node_id=number))

    def begin_run(self) -> int:
        """The number of a new run, whose task anybody who knows the password may take.

        Raises:
            GatewayError: the superlink takes no run.
        """
        begun = self._client.StartRun(StartRunRequest(fab=fab_to_proto(Fab("", bundle(), {}))))
        if not begun.run_id:
            raise GatewayError(f"the superlink takes no run; {self.link.folder}/logs/link.log says why")
        return begun.run_id


@contextmanager
def orders_to(link: Link) -> Iterator[Orders]:
    """Give a superlink of this machine orders.

    Raises:
        GatewayError: it does not answer, or refuses.
    """
    client = ControlHttpClient.from_server_address(
        server_address=link.address,
        insecure=link.insecure,
        root_certificates=link.trusted,
        interceptors=[
            RuntimeVersionHttpInterceptor(component_name="noiseworthy"),
            Password(link.keys.password.read_text()),
        ],
    )
    try:
        yield Orders(link, client)
    except httpx.HTTPStatusError as error:
        said = " ".join(error.response.text.split())[:200]
        raise GatewayError(
            f"the superlink at {link.address} refuses an order ({error.response.status_code} {said}); "
            f"{link.folder}/logs/link.log says why"
        ) from None
    except httpx.HTTPError as error:
        raise GatewayError(
            f"the superlink at {link.address} does not answer ({type(error).__name__}); "
            f"{link.folder}/logs/link.log says why, noiseworthy deploy up or deploy link starts it again"
        ) from None
    finally:
        client.close()


def register(orders: Orders, wanted: Mapping[str, bytes]) -> None:
    """Have a superlink know these keys by these names, and forget all others.

    So a key that was replaced, or removed, lets nobody in any more.

    Args:
        orders: to the superlink.
        wanted: public keys as PEM, by name.

    Raises:
        GatewayError: it does not answer, or refuses.
    """
    there = orders.nodes()
    for node in there:
        if wanted.get(node.name) != node.key:
            orders.unregister(node.number)
    stay = {node.name for node in there if wanted.get(node.name) == node.key}
    for name in wanted.keys() - stay:
        orders.register(name, wanted[name])


NAME = "noiseworthy_app"
_PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "noiseworthy-app"
version = "1.0.0"
description = "Stands for a run of noiseworthy, which passes messages between a server and owners"
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "noiseworthy"

[tool.flwr.app.components]
serverapp = "noiseworthy_app.apps:server"
clientapp = "noiseworthy_app.apps:client"
"""
_APPS = '''"""Nothing: trainings and nodes bring code of their own."""

from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

client = ClientApp()
server = ServerApp()
'''


def bundle() -> bytes:
    """The app as a superlink takes it; the same bytes everywhere."""
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Flower's, of a library that it uses
        return build_fab_from_disk(write_app(Path(folder)))


def write_app(folder: Path) -> Path:
    """Write the app into a folder.

    Args:
        folder: absolute.

    Returns:
        The app's own folder.
    """
    root = folder / NAME
    files = {
        "pyproject.toml": _PROJECT,
        f"{NAME}/__init__.py": '"""A noiseworthy deployment."""\n',
        f"{NAME}/apps.py": _APPS,
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root
