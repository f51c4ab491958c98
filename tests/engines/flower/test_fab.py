"""The app that is sent holds names of functions alone, and Flower accepts it."""

from __future__ import annotations

import io
import sys
import warnings
import zipfile
from pathlib import Path

import pytest
from flwr.app import Context, RecordDict
from flwr.cli.build import build_fab_from_disk
from flwr.cli.config_utils import load_and_validate
from flwr.supercore.object_ref import load_app

from noiseworthy.engines.flower import server_app
from noiseworthy.engines.flower.client_app import app as forwarder
from noiseworthy.engines.flower.fab import NAME, write_app
from noiseworthy.engines.flower.inprocess import InProcessGrid
from noiseworthy.engines.flower.server_app import app as relay


@pytest.fixture
def app(tmp_path):
    yield write_app(tmp_path)
    for name in [name for name in sys.modules if name.startswith(NAME)]:
        del sys.modules[name]


def test_flower_accepts_the_project_and_warns_of_nothing(app):
    config, warnings = load_and_validate(app / "pyproject.toml")
    assert warnings == []
    assert config["tool"]["flwr"]["app"]["config"] == {"folder": str(app.parent)}
    assert config["project"]["dependencies"] == []


def test_the_bundle_holds_three_short_files_of_code(app):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Flower's, of a library that it uses
        built = build_fab_from_disk(app)
    bundle = zipfile.ZipFile(io.BytesIO(built))
    code = {name: bundle.read(name).decode() for name in bundle.namelist() if name.endswith(".py")}
    assert set(code) == {f"{NAME}/{name}.py" for name in ("__init__", "client_app", "server_app")}
    assert all("def " not in text and len(text) < 300 for text in code.values())


def test_its_two_apps_are_ours(app):
    client = load_app(f"{NAME}.client_app:app", ImportError, str(app))
    assert client is forwarder
    assert load_app(f"{NAME}.server_app:app", ImportError, str(app)) is relay


def test_the_servers_app_serves_the_training_of_the_runs_folder(monkeypatch):
    served = []
    monkeypatch.setattr(server_app, "serve", lambda *given: served.append(given))
    grid = InProcessGrid(forwarder, {})
    relay(grid, Context(1, 1, {}, RecordDict(), {"folder": "/d"}))
    assert served == [(grid, Path("/d"))]


def test_it_may_be_written_again(app):
    before = (app / "pyproject.toml").read_text()
    assert write_app(app.parent) == app
    assert (app / "pyproject.toml").read_text() == before
