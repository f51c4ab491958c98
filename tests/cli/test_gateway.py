"""`gateway` as an owner sees it when something is wrong: one line and exit code 2."""

from __future__ import annotations

import subprocess
import sys


def test_a_missing_file_ends_in_one_line(tmp_path):
    command = [sys.executable, "-m", "noiseworthy", "gateway", str(tmp_path / "none.toml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: owner's file")
    assert done.stderr.count("\n") == 1
