"""Checkpoints of a simulated run: written whole or not at all, and tied to one plan."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from noiseworthy._places import writing
from noiseworthy.data.files import read_npz
from noiseworthy.engines.simulation import Checkpoint
from noiseworthy.errors import DataError, ResumeError
from noiseworthy.plans.plan import Plan
from noiseworthy.privacy.durable import Head
from noiseworthy.privacy.durable.storage import sync_folder
from noiseworthy.studies.occupied import CHECKPOINT as FILE

_MEMORIES = ("memory", "server")


def fingerprint(plan: Plan, seeds: Sequence[int], belongs_to: str = "") -> str:
    """A digest of what decides how a run goes on: plan, sizes, seeds, and the data and model by their names.

    No record enters, because a digest of private records would tell neighbouring data sets apart.
    """
    content = {**plan.as_dict(), "sizes": plan.problem.sizes.tolist(), "seeds": list(seeds)}
    content["belongs_to"] = belongs_to
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def save_checkpoint(
    folder: Path, checkpoint: Checkpoint, mark: str, ledger: str = "", records: str = ""
) -> None:
    """Write a checkpoint beside its final name, then move it there, so that a kill leaves the last one.

    Args:
        folder: of the run.
        checkpoint: what to keep.
        mark: `fingerprint` of the run.
        ledger: where the chain of the run's ledger ends, or what owners told of theirs; empty without one.
        records: `Federation.content`, where the records are at hand; as private as they are, as the file is.
    """
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{FILE}"
    stays = writing(folder / FILE, "free disk space, then go on with --resume if a checkpoint was kept")
    # for its user alone: what clients remember may be as private as their records
    with stays, open(draft, "wb", opener=partial(os.open, mode=0o600)) as file:
        fields = checkpoint._asdict()
        leaves = {f"{owner}_{i:02d}": leaf for owner in _MEMORIES for i, leaf in enumerate(fields.pop(owner))}
        there = _of_those_asked(fields) if checkpoint.where is not None else fields
        there = {name: value for name, value in there.items() if value is not None}
        arrays = {"fingerprint": mark, "ledger": ledger, "records": records, **there, **leaves}
        np.savez(file, **arrays, holds=_shapes(arrays))
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, folder / FILE)
    sync_folder(folder)


def _shapes(arrays: dict[str, Any]) -> list[str]:
    return [f"{name} {np.shape(arrays[name])}" for name in sorted(arrays)]


def _of_those_asked(fields: dict[str, Any]) -> dict[str, Any]:
    """Counts of uploads as those of the clients that made any, where the others are many."""
    used = fields.pop("used")
    asked = np.flatnonzero(used)
    return {**fields, "clients": used.shape, "asked": asked, "times": used.flat[asked]}


def load_checkpoint(folder: Path | None, mark: str, records: str = "") -> Checkpoint:
    """The checkpoint of a run folder.

    Args:
        folder: of the run.
        mark: `fingerprint` of the run that is to go on.
        records: `Federation.content` of what it is to go on with; empty where it is not known.

    Raises:
        ResumeError: no folder, no checkpoint, a damaged one, or one of another study, plan, other seeds or
            other records.
    """
    if folder is None or not (folder / FILE).exists():
        raise ResumeError(f"{folder} holds no {FILE}; train without --resume to start anew")
    try:
        values = read_npz(folder / FILE)
        held, found = values.pop("holds", None), _shapes(values)  # earlier versions did not say
        if held is not None and (other := {*held.tolist()} ^ {*found}):
            raise DataError(f"not as it was written: {', '.join(sorted(other))}")
    except DataError as error:
        raise ResumeError(
            f"{folder / FILE} is damaged ({error}); put a copy of it back, or start anew without --resume in "
            "another folder with --out"
        ) from None
    if str(values.pop("fingerprint", "")) != mark:
        raise ResumeError(
            f"{folder} belongs to another study, plan or other seeds; choose another folder with --out, "
            "or run the study that made it"
        )
    _check_same(folder, str(values.pop("records", "")), records)
    values.pop("ledger", None)
    if "asked" in values:
        used = np.zeros(tuple(values.pop("clients")), np.int64)
        used.flat[values.pop("asked")] = values.pop("times")
        values["used"] = used
    named = {owner: [name for name in sorted(values) if name.startswith(f"{owner}_")] for owner in _MEMORIES}
    memories = {owner: tuple(map(values.pop, names)) for owner, names in named.items()}
    return Checkpoint(**{**values, "round": int(values["round"]), **memories})


def check_records(folder: Path, records: str) -> None:
    """Refuse a run folder whose training was of other records, by ResumeError.

    Args:
        folder: of the run, with a checkpoint.
        records: `Federation.content` of those there are.
    """
    _check_same(folder, str(read_npz(folder / FILE).get("records", "")), records)


def _check_same(folder: Path, kept: str, records: str) -> None:
    """Records that are not known, of an earlier version, are not compared."""
    if kept and records and kept != records:
        raise ResumeError(
            f"{folder} was trained on other records: something in them was changed since; put them back, or "
            "start anew in another folder with --out"
        )


def load_head(folder: Path) -> Head | None:
    """Where the chain of the run's ledger ended when its checkpoint was kept.

    None without a ledger, and after a training over a network, whose ledgers are its owners'.
    """
    kept = load_told(folder)
    return Head.read(kept) if kept and not kept.startswith("{") else None


def load_told(folder: Path) -> str:
    """What was kept of ledgers beside the checkpoint; empty without one."""
    return str(read_npz(folder / FILE).get("ledger", ""))
