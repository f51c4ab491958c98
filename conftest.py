"""How every test compiles: quickly, once on this machine, and with no silent change of a number's type."""

from __future__ import annotations

import os
from pathlib import Path

KEPT = Path(__file__).parent / ".cache"
"""Compiled programs outlive a run, for processes that tests start too; `make clean` removes them."""

for name, value in {
    "NOISEWORTHY_CACHE": KEPT,
    "JAX_COMPILATION_CACHE_DIR": KEPT / "noiseworthy",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": 0,
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": -1,
    "XLA_FLAGS": "--xla_backend_optimization_level=0",
}.items():
    os.environ.setdefault(name, str(value))
