"""Features on disk: the same numbers, no other records', for one pair of eyes, within a bound."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noiseworthy import _places
from noiseworthy.tasks import kept, make_task
from noiseworthy.tasks.kept import rows_of

X = np.random.default_rng(0).random((12, 8, 8), np.float32)
TASK = make_task("softmax", (8, 8), 3, features="scattering", feature_norm=1.0, normalise=True)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "LEAST_RECORDS", 4)
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    yield tmp_path / "features"
    jax.config.update("jax_compilation_cache_dir", before)


def never(x):
    raise AssertionError("computed again")


def test_what_was_computed_once_is_read_and_other_records_or_maps_are_computed(folder):
    first = rows_of(TASK, TASK.prepare, X)
    np.testing.assert_array_equal(rows_of(TASK, never, X), first)
    (file,) = folder.iterdir()
    assert (file.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o600, 0o700)
    wider = make_task("softmax", (8, 8), 3, features="scattering", feature_norm=2.0, normalise=True)
    for task, x in ((TASK, X + 1), (wider, X)):
        with pytest.raises(AssertionError, match="computed again"):
            rows_of(task, never, x)


def test_a_damaged_file_is_computed_again_and_few_records_are_never_kept(folder):
    first = rows_of(TASK, TASK.prepare, X)
    (file,) = folder.iterdir()
    file.write_bytes(b"damaged")
    np.testing.assert_array_equal(rows_of(TASK, TASK.prepare, X), first)
    np.testing.assert_array_equal(rows_of(TASK, never, X), first)
    rows_of(TASK, TASK.prepare, X[:3])
    assert len(list(folder.iterdir())) == 1


def test_what_was_used_longest_ago_makes_room(folder, monkeypatch):
    size = np.asarray(rows_of(TASK, TASK.prepare, X)).nbytes + 128
    monkeypatch.setattr(_places, "MOST_BYTES", 2 * size)
    (oldest,) = folder.iterdir()
    for later in (1, 2):
        rows_of(TASK, lambda x: jnp.asarray(TASK.prepare(x)), X + later)
    assert not oldest.exists()
    assert len(list(folder.iterdir())) == 2
