"""Shared by all tests: where the real data lie."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")

DATA_DIR = Path(os.environ.get("NOISEWORTHY_DATA", Path(__file__).parents[2] / "shared" / "data"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("data") and not DATA_DIR.is_dir():
        pytest.skip(f"no data folder {DATA_DIR}; set NOISEWORTHY_DATA")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the real data files; for tests marked `data`."""
    return DATA_DIR
