"""The app that a run must have does nothing, holds none of our code, and Flower accepts it."""

from __future__ import annotations

import io
import sys
import zipfile

import pytest
from flwr.app import Message, RecordDict
from flwr.cli.config_utils import load_and_validate
from flwr.supercore.object_ref import load_app

from in_process_grid import InProcessGrid
from noiseworthy.deploy.flower.orders import NAME, bundle, write_app


@pytest.fixture
def app(tmp_path):
    yield write_app(tmp_path)
    for name in [name for name in sys.modules if name.startswith(NAME)]:
        del sys.modules[name]


def test_flower_accepts_the_project_and_warns_of_nothing(app):
    config, warnings = load_and_validate(app / "pyproject.toml")
    assert warnings == []
    assert config["project"]["dependencies"] == []


def test_the_bundle_is_the_same_everywhere_and_names_nothing_of_ours():
    assert bundle() == bundle()
    archive = zipfile.ZipFile(io.BytesIO(bundle()))
    code = {name: archive.read(name).decode() for name in archive.namelist() if name.endswith(".py")}
    assert set(code) == {f"{NAME}/__init__.py", f"{NAME}/apps.py"}
    assert not any("import noiseworthy" in text or "from noiseworthy" in text for text in code.values())


def test_its_client_answers_nothing(app):
    client = load_app(f"{NAME}.apps:client", ImportError, str(app))
    (reply,) = InProcessGrid(client, {7: {}}).send_and_receive([Message(RecordDict(), 7, "query")])
    assert reply.has_error()


def test_it_may_be_written_again(app):
    before = (app / "pyproject.toml").read_text()
    assert write_app(app.parent) == app
    assert (app / "pyproject.toml").read_text() == before
