"""What the commands load: nothing that takes long to import and that they do not use."""

from __future__ import annotations

import subprocess
import sys

import pytest

STUDY = """
[federation]
data = "digits"
clients = 5
partition = "label-shards"
labels_per_client = 2
[task]
model = "softmax"
feature_norm = 1.0
normalise = true
[privacy]
mechanism = "gaussian"
epsilon = 4.0
delta = 1e-5
clip_norm = 0.1
[algorithm]
rounds = 2
clients_per_round = 5
step_size = 100.0
[constants]
source = "rule"
"""
RUN = """
import atexit
import gc
import linecache
import sys

import pytest
from noiseworthy.cli import main
atexit.register(lambda: print("kept as the process ended" if gc.get_freeze_count() > 10_000 else ""))
begun = sum(of_one["collections"] for of_one in gc.get_stats())
try:
    main()
except SystemExit as ended:
    assert not ended.code
looks = sum(of_one["collections"] for of_one in gc.get_stats()) - begun
read = {f"source:{path.rpartition('/')[2]}" for path in linecache.cache}
print("\\nloaded", *sorted(sys.modules), *read, f"looks:{looks}")
"""


def loaded(*command: str) -> set[str]:
    """Modules that a process has loaded after a command, and files whose source it has looked up."""
    done = subprocess.run([sys.executable, "-c", RUN, *command], capture_output=True, text=True, check=True)
    return set(done.stdout.rsplit("\nloaded ", 1)[1].split())


@pytest.mark.full
def test_planning_and_training_load_nothing_heavy_that_they_do_not_use(tmp_path, monkeypatch):
    """A training draws figures; a plan does not, and tries nothing where its constants are known.

    How records are dealt is worked out at the first start alone.
    """
    monkeypatch.setenv("NOISEWORTHY_CACHE", str(tmp_path / "kept"))
    (tmp_path / "study.toml").write_text(STUDY)
    study, folder = str(tmp_path / "study.toml"), str(tmp_path / "run")
    never = {"sklearn", "pandas", "scipy.stats", "scipy.signal", "optax", "dp_accounting", "opendp", "flwr"}
    assert "scipy.optimize" in loaded("plan", study, "--out", folder)
    never |= {"scipy.optimize", "noiseworthy.trials.race"}
    planned = loaded("plan", study, "--out", folder)
    assert planned & (never | {"matplotlib", "jax", "equinox"}) == set()
    assert "noiseworthy.plans.plan" in planned, "the list is of what was loaded"
    assert "source:tables.py" not in planned, "what keys mean is read where a schema is asked for"
    assert {"looks:0", "kept"} <= planned, "no waste is looked for, in the end either"
    assert loaded("train", study, "--out", folder) & never == set()
