"""Coefficients with standard errors of a run folder, from the noised moments that it keeps."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from noiseworthy.data.files import read_npz
from noiseworthy.errors import ConfigError
from noiseworthy.methods.moments.estimates import Estimates, estimates
from noiseworthy.studies import checkpoints, plan_file

_MOMENTS = "server_00"


def estimates_of(folder: str | Path, training: int = 0) -> Estimates:
    """Least-squares coefficients with standard errors of a regression that one upload trained.

    Args:
        folder: of a finished run.
        training: which of its seeds, by place.

    Raises:
        ConfigError: a folder without such a run.
        InvalidInput: no regression by moments, or noise that hides the smallest eigenvalue of the moments.
    """
    folder = Path(folder)
    if not (folder / checkpoints.FILE).is_file() or not (folder / plan_file.FILE).is_file():
        raise ConfigError(f"{folder} holds no finished run; train into it with --out first")
    plan, kept = plan_file.load_plan(folder / plan_file.FILE).plan, read_npz(folder / checkpoints.FILE)
    if _MOMENTS not in kept or not 0 <= training < len(kept[_MOMENTS]):
        raise ConfigError(
            f"{folder} keeps no moments of training {training}; use one upload and an earlier place"
        )
    return estimates(plan, np.asarray(kept[_MOMENTS][training], np.float64))
