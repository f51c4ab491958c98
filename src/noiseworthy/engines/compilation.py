"""A compilation cache on disk, so that a second start of the same study does not compile again."""

from __future__ import annotations

import os
from pathlib import Path

import jax

from noiseworthy._places import CACHE_VARIABLE, kept_folder


def use_persistent_cache() -> Path:
    """Keep compiled programs in NOISEWORTHY_CACHE, else where JAX was told to, else in the user's cache.

    Returns:
        The folder.
    """
    if CACHE_VARIABLE not in os.environ and (told := cache_folder()) is not None:
        return told
    folder = kept_folder()
    jax.config.update("jax_compilation_cache_dir", str(folder))
    # by default only what took a second is kept; plans by trial run many programs that take less
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    return folder


def cache_folder() -> Path | None:
    """The folder that `use_persistent_cache` chose; None where compiled programs are not kept."""
    folder = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
    return Path(folder) if folder else None
