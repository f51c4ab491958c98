"""Workers of one run share compiled programs, and read some that another is still writing."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.compilation_cache import compilation_cache


@pytest.fixture
def kept(tmp_path):
    """An empty folder of compiled programs."""
    before = jax.config.jax_compilation_cache_dir
    compilation_cache.reset_cache()
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    yield tmp_path
    jax.config.update("jax_compilation_cache_dir", before)
    compilation_cache.reset_cache()


@pytest.mark.parametrize("whole", [0.0, 0.5])
def test_a_program_that_is_half_written_is_compiled_again(kept, whole):
    def compiled():
        return jax.jit(lambda x: jnp.sin(x) + 2 * x)(jnp.arange(3.0))

    expected = compiled()
    files = list(kept.glob("*-cache"))
    assert files, "nothing was kept: the test would pass without a torn file"
    for file in files:
        content = file.read_bytes()
        file.write_bytes(content[: int(whole * len(content))])
    assert compiled().tolist() == expected.tolist()
