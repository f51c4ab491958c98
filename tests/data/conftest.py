"""Tests of data name their folder themselves, whatever the environment says."""

from __future__ import annotations

import pytest

from noiseworthy.data import DATA_DIR_VARIABLE


@pytest.fixture(autouse=True)
def _no_data_folder_in_the_environment(monkeypatch):
    monkeypatch.delenv(DATA_DIR_VARIABLE, raising=False)
