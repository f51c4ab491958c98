"""A study as a command states it: the file, with what options change of it, and its data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noiseworthy import _validate as check
from noiseworthy.errors import ConfigError
from noiseworthy.studies.changes import Changes, given, seeds_of
from noiseworthy.studies.loading import load_study
from noiseworthy.studies.tables import Study

if TYPE_CHECKING:
    from noiseworthy.studies.prepare import Prepared

Note = Callable[[str], None]


def stated(
    study: Path | str, *, data: Path | str | None = None, seconds: float | None = None,
    changes: Changes | None = None, seeds: int | Sequence[int] | None = None,
    note: Note = lambda said: None,
) -> Study:  # fmt: skip
    """The study of a file, changed as stated; opens no data.

    Args:
        study: path of the file.
        data: folder of data files, instead of the study's.
        seconds: for planning, instead of the study's.
        changes: values by dotted key.
        seeds: how many trainings, or their seeds.
        note: told what a user should know.

    Raises:
        ConfigError: a study that cannot be read, and keys and values that no study has.
        InvalidInput: a time that is none.
    """
    changes = given(changes)
    if seeds is not None:
        if "training.seeds" in changes:
            raise ConfigError("training.seeds is set, and so are seeds; leave one of them out")
        changes["training.seeds"] = seeds_of(seeds)
    made = load_study(study, changes)
    for found in made.found_elsewhere():
        note(
            f"{found} is read from the working directory; a study's paths start from its own folder, where "
            f"{Path(study).parent / found} is not"
        )
    if seconds is not None:
        check.positive("--budget-seconds", seconds)
        planning = made.planning.model_copy(update={"budget_seconds": seconds})
        made = made.model_copy(update={"planning": planning})
    return made if data is None else made.with_data_dir(Path(data))


def opened(
    study: Study, *, data: Path | str | None = None, plan: Path | str | None = None,
    folder: Path | None = None, resume: bool = False, trains: bool = True, deploys: bool = False,
) -> Prepared:  # fmt: skip
    """A study with its data, model and public facts.

    All that can be refused without a model or a planner is refused before these are loaded.

    Args:
        study: as it is stated.
        data: folder of data files.
        plan: file that the study will be trained, compared or audited by.
        folder: that the study will be trained in, or its page written to; None for commands that write none.
        resume: whether a run is to go on in that folder.
        trains: whether it is trained there.
        deploys: whether it is to be trained at owners.
    """
    from noiseworthy.studies.occupied import check_data, check_ours, check_plan, made_for

    if folder is not None and trains:
        check_data(study)
    check_plan(None if plan is None else Path(plan))
    opened: Any = None
    if study.federation.data is not None:
        from noiseworthy.data.files import data_folder
        from noiseworthy.studies.opening import check_clients, check_model, open_data
        from noiseworthy.studies.read_off import check_nothing_is

        data_folder(data)
        opened = open_data(study)
        check_clients(study, opened.federation)
        check_model(study, opened.federation)
        if deploys:
            check_nothing_is(study, opened.federation)
    if folder is not None:
        check_ours(folder, made_for(study, opened and opened.federation), resume=resume)
    from noiseworthy.studies.prepare import prepare  # last, so that mistakes do not wait for jax

    return replace(prepare(study, opened), deploys=deploys)
