"""Checkpoints of a simulated run: written whole or not at all, and tied to one plan."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from noiseworthy.engines.simulation import Checkpoint
from noiseworthy.errors import ResumeError
from noiseworthy.planning.plan import Plan

FILE = "checkpoint.npz"


def fingerprint(plan: Plan, seeds: Sequence[int]) -> str:
    """A digest of everything that decides how a run goes on: the plan, its sizes and the seeds."""
    content = {**plan.as_dict(), "sizes": plan.problem.sizes.tolist(), "seeds": list(seeds)}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def save_checkpoint(folder: Path, plan: Plan, seeds: Sequence[int], checkpoint: Checkpoint) -> None:
    """Write a checkpoint beside its final name, then move it there, so that a kill leaves the last one."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{FILE}"
    with draft.open("wb") as file:
        np.savez(file, fingerprint=fingerprint(plan, seeds), **checkpoint._asdict())
    os.replace(draft, folder / FILE)


def load_checkpoint(folder: Path | None, plan: Plan, seeds: Sequence[int]) -> Checkpoint:
    """The checkpoint of a run folder.

    Raises:
        ResumeError: no folder, no checkpoint, a damaged one, or one of another plan or other seeds.
    """
    path = (folder or Path()) / FILE
    if folder is None or not path.exists():
        raise ResumeError(f"{folder} holds no {FILE}; train without --resume to start anew")
    try:
        with np.load(path, allow_pickle=False) as data:
            values = {name: data[name] for name in data.files}
    except (OSError, ValueError, EOFError) as error:
        raise ResumeError(f"{path} is damaged ({error}); train without --resume to start anew") from None
    if str(values.pop("fingerprint", "")) != fingerprint(plan, seeds):
        raise ResumeError(
            f"{folder} belongs to another study, plan or other seeds; choose another folder with --out, "
            "or run the study that made it"
        )
    return Checkpoint(**{**values, "round": int(values["round"])})
