"""A study as a command states it: the file, with what options change of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from noiseworthy import _validate as check
from noiseworthy.errors import ConfigError
from noiseworthy.studies.changes import Changes, seeds_of
from noiseworthy.studies.loading import load_study
from noiseworthy.studies.tables import Study


def stated(
    study: Path | str,
    *,
    data: Path | str | None = None,
    seconds: float | None = None,
    changes: Changes | None = None,
    seeds: int | Sequence[int] | None = None,
) -> Study:
    """The study of a file, changed as stated; opens no data.

    Args:
        study: path of the file.
        data: folder of data files.
        seconds: time for planning.
        changes: values by dotted key.
        seeds: how many trainings, or their seeds.

    Raises:
        ConfigError: a study that cannot be read, and keys and values that no study has.
        InvalidInput: a time that is none.
    """
    changes = {**(changes or {})}
    if seeds is not None:
        if "training.seeds" in changes:
            raise ConfigError("training.seeds is set, and so are seeds; leave one of them out")
        changes["training.seeds"] = seeds_of(seeds)
    made = load_study(study, changes)
    if seconds is not None:
        check.positive("--budget-seconds", seconds)
        made = _with(made, "planning", budget_seconds=seconds)
    return made if data is None else _with(made, "federation", data_dir=Path(data))


def _with(study: Study, table: str, **keys: Any) -> Study:
    return study.model_copy(update={table: getattr(study, table).model_copy(update=keys)})
