"""The Flower app that a run sends to superlink and nodes: names of functions, and no code of its own."""

from __future__ import annotations

from pathlib import Path

NAME = "noiseworthy_app"
_PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "noiseworthy-app"
version = "1.0.0"
description = "Passes messages between a noiseworthy server and the gateways of data owners"
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "noiseworthy"

[tool.flwr.app.components]
serverapp = "noiseworthy_app.server_app:app"
clientapp = "noiseworthy_app.client_app:app"

[tool.flwr.app.config]
folder = '{folder}'
"""
_CLIENT = '''"""Of a node: passes messages on to the gateway."""

from noiseworthy.engines.flower import client_app

app = client_app.app
'''
_SERVER = '''"""Of the server: passes the training's messages on to the grid."""

from noiseworthy.engines.flower import server_app

app = server_app.app
'''


def write_app(folder: Path) -> Path:
    """Write the app of a deployment into its folder.

    Args:
        folder: of the deployment, absolute.

    Returns:
        The app's own folder, for `flwr run`.
    """
    root = folder / NAME
    files = {
        "pyproject.toml": _PROJECT.format(folder=folder),
        f"{NAME}/__init__.py": '"""A noiseworthy deployment."""\n',
        f"{NAME}/client_app.py": _CLIENT,
        f"{NAME}/server_app.py": _SERVER,
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root
