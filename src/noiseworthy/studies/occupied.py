"""Whose a run folder is: one of another study, or one in which a command is at work, is not written into.

Nothing heavy is loaded for it, so that a command that may not begin says so at once.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from noiseworthy._places import writing
from noiseworthy.data.federation import Federation
from noiseworthy.errors import ConfigError, DataError, ResumeError
from noiseworthy.studies.plan_text import opened
from noiseworthy.studies.tables import Study

CHECKPOINT, RECORD, PLAN = "checkpoint.npz", "record.json", "plan.json"
AUDIT, ADVICE, REPORT = "audit.json", "advice.json", "report.html"
MODELS = ("model", "model.npz")
"""Where runs keep their model, and where those of earlier versions did."""
TABLES = ("federation", "task", "privacy", "algorithm", "constants", "resources")
"""Of a study, those on which a plan rests; the others say how to plan, to train and to compare."""
PLACES = {"data", "query", "test", "data_dir"}
"""Where data lie: they are known by name, size and shape."""
NO_DATA = '[federation] has sizes but no data; set data (for example data = "digits") to train'
_BY_CLASS = {"class_weights", "class_shares"}
"""Keys of `[task]` that may be stated by the names of classes."""
_SWEEPS = ("training", "compare", "tradeoff", "rivals")
"""What of a record took a training."""


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """A run folder for one command alone, made where it is not there; free again however the command ends.

    One that nothing was written into is gone again.

    Raises:
        ResumeError: another one is at work in it.
        DataError: a folder that cannot be made.
    """
    there = folder.exists()
    with writing(f"run folder {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise ResumeError(
            f"another command is at work in {folder}; wait until it ends, or choose another folder with --out"
        ) from None
    try:
        yield
    finally:
        os.close(handle)
        if not there:
            with suppress(OSError):  # it holds something
                folder.rmdir()


def check_ours(folder: Path, mine: dict[str, Any], *, resume: bool = False) -> None:
    """Refuse a folder before anything is planned for it, or written into it.

    Args:
        folder: that a study is to be trained in, or its audit or advice written.
        mine: what the study is, as `made_for` says it.
        resume: whether a run is to go on in it.

    Raises:
        ResumeError: it holds a run of another study or nothing to go on from, or a command is at work in it.
        DataError: it is no folder, and cannot become one.
    """
    if resume and not (folder / CHECKPOINT).exists():
        raise ResumeError(f"{folder} holds no {CHECKPOINT}; train without --resume to start anew")
    check_can_be_made(folder)
    if not folder.exists():
        return
    with held(folder):
        kept = _kept(folder)
    stated = _alike(mine, kept)
    if task := _table(_table(kept, "study"), "task"):
        for key in _BY_CLASS & mine["study"]["task"].keys():  # left out where nobody states them
            stated["study"]["task"][key] = mine["study"]["task"][key]
            task.setdefault(key, None)
    for where, its, own in differences(kept, stated):
        if not _settled_by_data(where, its, own):
            raise ResumeError(
                f"{folder} belongs to another study, whose {where} is {its!r:.60} and not {own!r:.60}; "
                "choose another folder with --out, or move that run away"
            )


def check_can_be_made(folder: Path) -> None:
    """Refuse a run folder that cannot be made, with a `DataError` and before minutes of planning for it."""
    there = next(one for one in (folder, *folder.absolute().parents) if os.path.lexists(one))
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise DataError(
            f"run folder {folder} cannot be written, because {there} is no folder that may be written to; "
            "choose another with --out"
        )


def _settled_by_data(where: str, its: Any, own: Any) -> bool:
    """Whether a study may say what the plan of a run has in another form: which one, its data say."""
    if where == "study.task.bias":
        return True  # "auto"
    by_class = where.rpartition(".")[2] in _BY_CLASS and isinstance(its, list)
    return by_class and (own == "balanced" or (isinstance(own, dict) and sorted(own.values()) == sorted(its)))


def check_plan(path: Path | None) -> None:
    """Refuse a plan's file that is not there, or that is no plan.

    Raises:
        PlanError: as `load_plan`.
    """
    if path is not None:
        opened(path)


def check_data(study: Study) -> None:
    """Refuse to train on sizes alone, or on records that lie at their owners.

    Raises:
        ConfigError: the study names no data, or data of owners.
    """
    if study.federation.data is None:
        raise ConfigError(NO_DATA)
    if study.federation.of_owners:
        raise ConfigError(
            "the records of this study lie at their owners; train with noiseworthy deploy run, noiseworthy "
            "plan and advise need no records"
        )


def made_for(study: Study, federation: Federation | None) -> dict[str, Any]:
    """The tables on which a plan rests, and whose data they are for, as plain values."""
    tables = study.model_dump(mode="json", include=set(TABLES))
    kept = {key: value for key, value in tables["federation"].items() if key not in PLACES}
    facts: dict[str, Any] = {"sizes": study.federation.sizes}
    if federation is not None:
        facts = {"data": federation.name, "sizes": federation.sizes.tolist()}
    if study.columns is not None:
        facts["columns"] = {"names": study.columns.feature_names, "digest": study.columns.digest}
    return json.loads(json.dumps({"facts": facts, "study": {**tables, "federation": kept}}))


def differences(one: Any, other: Any, where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Places at which plain values differ, with both values."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            yield from differences(one.get(key), other.get(key), f"{where}.{key}" if where else key)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for i, (mine, its) in enumerate(zip(one, other, strict=True)):
            yield from differences(mine, its, f"{where}[{i}]")
    elif one != other or type(one) is not type(other):
        yield where, one, other


def holds_run(folder: Path) -> bool:
    """Whether a training has begun in a folder."""
    return any((folder / name).exists() for name in (*MODELS, CHECKPOINT))


def holds_results(folder: Path) -> bool:
    """Whether a training or a sweep of trainings left something in a folder."""
    record = _json(folder / RECORD)
    return holds_run(folder) or any(record.get(part) for part in _SWEEPS)


def holds_plan_alone(folder: Path) -> bool:
    """Whether the record in a folder is one of `plan --out`, by which nothing was trained."""
    return "plan" in _json(folder / RECORD) and not holds_results(folder)


def _kept(folder: Path) -> dict[str, Any]:
    """What a folder was made for, as its plan has it, its advice or its record; nothing of a plan alone."""
    audited, advice = (folder / AUDIT).exists(), _json(folder / ADVICE)
    if not (audited or advice or holds_results(folder)):
        return {}
    if made := _table(_json(folder / PLAN), "made_for") or _table(advice, "made_for"):
        facts = {k: v for k, v in _table(made, "facts").items() if k in ("data", "sizes", "columns")}
        return {**made, "facts": facts}
    stated = _table(_json(folder / RECORD), "study")
    privacy = {key: value for key, value in _table(stated, "privacy").items() if key != "clip_norm"}
    federation = {key: value for key, value in _table(stated, "federation").items() if key not in PLACES}
    return {"study": {"federation": federation, "privacy": privacy}}  # of the others much was decided


def _table(content: dict[str, Any], key: str) -> dict[str, Any]:
    """What is under a key, where it is a table; files of a folder may have been changed."""
    return value if isinstance(value := content.get(key), dict) else {}


def _alike(whole: Any, part: Any) -> Any:
    """Of plain values those whose keys another has, too."""
    if not isinstance(whole, dict) or not isinstance(part, dict):
        return whole
    return {key: _alike(whole.get(key), value) for key, value in part.items()}


def _json(path: Path) -> dict[str, Any]:
    """Plain values of a file; none where it is not there or is damaged, which others complain of."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
