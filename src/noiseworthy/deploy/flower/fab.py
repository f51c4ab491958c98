"""The app that a run of Flower's must have: it does nothing.

Flower begins a run with an app, which superlinks and nodes of its own making would run. Here the training
does what the server's part would do (`session`), and an owner's node what the client's would (`node`), both
from their own installation.
"""

import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

from flwr.cli.build import build_fab_from_disk

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
