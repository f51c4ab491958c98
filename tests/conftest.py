"""Shared by all tests: where the real data lie."""

from __future__ import annotations

import os
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import settings

from noiseworthy.privacy.deployed_noise import DeployedNoise
from noiseworthy.trials import race, spaces

settings.register_profile("same examples", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None)
settings.load_profile("same examples")  # make search draws others in every run

DATA_DIR = Path(os.environ.get("NOISEWORTHY_DATA", Path(__file__).parents[2] / "shared" / "data"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("data") and not DATA_DIR.is_dir():
        pytest.skip(f"no data folder {DATA_DIR}; set NOISEWORTHY_DATA")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the real data files; for tests marked `data`."""
    return DATA_DIR


@pytest.fixture(scope="module", autouse=True)
def short_races():
    """Plans by trial in tests come from a small grid and the final alone; those of `trials` race in full."""
    grid = spaces.Grid(passes=(2, 20), work=(1, 3), clips=(1.0, 0.2), reaches=(3, 30))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(race, "RUNGS", ())
        patch.setattr(spaces, "_ONE_STEP_GRID", grid)
        patch.setattr(spaces, "_GRIDS", dict.fromkeys(spaces._GRIDS, grid))
        yield


_MOST_MAPS = 30_000
"""Of a process, half of what Linux allows; beyond the limit a compilation crashes."""


@pytest.fixture(scope="module", autouse=True)
def few_programs():
    """Compiled programs take memory maps: many thousand tests in one process let theirs go in time."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > _MOST_MAPS:
        jax.clear_caches()


@pytest.fixture
def silent(monkeypatch) -> list[int]:
    """Deployed noise that counts its draws and adds nothing, so that totals can be compared."""
    draws: list[int] = []

    def added(self: DeployedNoise, total: np.ndarray) -> np.ndarray:
        draws.append(len(total))
        return total

    monkeypatch.setattr(DeployedNoise, "added_to", added)
    return draws
