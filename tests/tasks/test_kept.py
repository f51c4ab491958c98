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


@pytest.fixture
def prepared(monkeypatch):
    """How many times records were prepared."""
    calls = []

    def counted(task):
        return lambda x: calls.append(len(x)) or task.prepare(x)

    monkeypatch.setattr(kept, "preparing", counted)
    return calls


@pytest.mark.full
def test_what_was_computed_once_is_read_and_other_records_or_maps_are_computed(folder, prepared):
    first = rows_of(TASK, X)
    np.testing.assert_array_equal(rows_of(TASK, X), first)
    assert len(prepared) == 1
    (file,) = folder.iterdir()
    assert (file.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o600, 0o700)
    wider = make_task("softmax", (8, 8), 3, features="scattering", feature_norm=2.0, normalise=True)
    for count, (task, x) in enumerate(((TASK, X + 1), (wider, X)), 2):
        np.testing.assert_array_equal(rows_of(task, x), task.prepare(jnp.asarray(x)))
        assert len(prepared) == count


def test_rows_are_those_of_the_weights_that_a_task_knows(folder):
    """Records are numbers with a weight, or with one more number; weights have another bound."""
    x = np.arange(20, dtype=np.float32).reshape(5, 4)
    for most in (1.0, 5.0, None):
        task = make_task("softmax", (4,), 2, features="fourier:10:1:0", most_weight=most)
        np.testing.assert_array_equal(rows_of(task, x), task.prepare(jnp.asarray(x)))


@pytest.mark.full
def test_a_damaged_file_is_computed_again_and_few_records_are_never_kept(folder, prepared):
    first = rows_of(TASK, X)
    (file,) = folder.iterdir()
    file.write_bytes(b"damaged")
    np.testing.assert_array_equal(rows_of(TASK, X), first)
    np.testing.assert_array_equal(rows_of(TASK, X), first)
    assert len(prepared) == 2
    rows_of(TASK, X[:3])
    assert len(list(folder.iterdir())) == 1


def test_what_was_used_longest_ago_makes_room(folder, monkeypatch):
    size = np.asarray(rows_of(TASK, X)).nbytes + 128
    monkeypatch.setattr(_places, "MOST_BYTES", 2 * size)
    (oldest,) = folder.iterdir()
    for later in (1, 2):
        rows_of(TASK, X + later)
    assert not oldest.exists()
    assert len(list(folder.iterdir())) == 2
