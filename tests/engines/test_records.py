"""When a training is scored, and where compiled programs are kept."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noiseworthy._places import CACHE_VARIABLE
from noiseworthy.engines.compilation import use_persistent_cache
from noiseworthy.engines.records import Trajectory, evaluation_rounds


@given(st.integers(1, 5000), st.integers(1, 60))
def test_scores_are_taken_at_the_start_and_the_end_and_ascend(rounds, points):
    at = evaluation_rounds(rounds, points)
    assert at[0] == 0
    assert at[-1] == rounds
    assert np.all(np.diff(at) > 0)
    assert len(at) <= points + 1


@given(st.integers(100, 5000))
def test_scores_are_densest_at_the_beginning(rounds):
    gaps = np.diff(evaluation_rounds(rounds, 20))
    assert gaps[0] < gaps[-1]
    assert np.all(np.diff(gaps) >= -1)


def test_the_final_scores_are_the_last_of_each_seed():
    curves = np.arange(6.0).reshape(2, 3)
    run = Trajectory(np.array([0, 1, 2]), curves, 10 * curves, np.zeros((2, 1)), np.zeros((2, 1)))
    assert run.final_loss.tolist() == [2.0, 5.0]
    assert run.final_accuracy.tolist() == [20.0, 50.0]


@pytest.fixture
def _cache_as_before():
    before = jax.config.jax_compilation_cache_dir
    yield
    jax.config.update("jax_compilation_cache_dir", before)


@pytest.mark.usefixtures("_cache_as_before")
def test_compiled_programs_are_kept_where_the_user_says(tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    assert use_persistent_cache() == tmp_path / "noiseworthy"
    assert str(tmp_path / "noiseworthy") == jax.config.jax_compilation_cache_dir
    monkeypatch.delenv(CACHE_VARIABLE)
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "of jax"))
    assert use_persistent_cache() == tmp_path / "of jax"
    jax.config.update("jax_compilation_cache_dir", None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert use_persistent_cache() == tmp_path / "xdg" / "noiseworthy"
