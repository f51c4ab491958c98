"""Many runs of a study, with other values under some keys: a folder for each, one table, one figure."""

import csv
import hashlib
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from noiseworthy._places import write_whole, writing
from noiseworthy.calls.callbacks import Callback
from noiseworthy.calls.folder import COLUMNS, RunFolder, load_run, row_of
from noiseworthy.calls.run import run
from noiseworthy.calls.stated import stated
from noiseworthy.errors import ConfigError, InvalidInput, ResumeError, UnsoundClaim
from noiseworthy.reports.html import write_report
from noiseworthy.reports.style import png
from noiseworthy.reports.sweep import Reached, sweep_figure
from noiseworthy.studies.changes import Changes, given
from noiseworthy.studies.checkpoints import FILE as CHECKPOINT
from noiseworthy.studies.checkpoints import check_records
from noiseworthy.studies.occupied import held
from noiseworthy.studies.opening import open_federation
from noiseworthy.studies.record import FILE as RECORD
from noiseworthy.studies.record import written
from noiseworthy.studies.tables import Study
from noiseworthy.sweeps.variants import Over, Variant, variants, words

OnVariant = Callable[[float, str], None]
TABLE, FIGURE = "sweep.csv", "sweep.png"
_KEPT = "variant.json"
"""What a folder of a sweep says of its variant, beside its run."""


@dataclass(frozen=True)
class Sweep:
    """A sweep as its folder keeps it.

    Attributes:
        folder: of the sweep, with a run folder for each variant below.
        keys: that were varied.
        table: a row for each variant: its values under the keys, all that `runs` says of it, and `refused`,
            why it could not be planned, empty where it could.
    """

    folder: Path
    keys: tuple[str, ...]
    table: pd.DataFrame

    @property
    def csv(self) -> Path:
        """The table as a file."""
        return self.folder / TABLE

    @property
    def figure(self) -> Path:
        """Scores over the first key, a line for every choice of the others; absent without a training."""
        return self.folder / FIGURE


def sweep(
    study: Path | str, over: Over, out: Path | str | None = None, *, seeds: int | Sequence[int] | None = None,
    set: Changes | None = None, data: Path | str | None = None, budget_seconds: float | None = None,
    on_progress: OnVariant = lambda done, what: None,
) -> Sweep:  # fmt: skip
    """Train a study for every choice of values, a run folder each; after a kill the same call goes on.

    Variants that are done are kept, and one that was trained when it ended goes on from its checkpoint. More
    values may be added to a sweep that is done.

    Args:
        study: path of the study's file.
        over: values of each key that is varied, such as `{"privacy.epsilon": [0.5, 1, 2]}`.
        out: folder of the sweep; by default `runs/NAME-OF-STUDY-sweep`.
        seeds: as `run`.
        set: as `run`, for all variants.
        data: as `run`.
        budget_seconds: time for planning of each variant.
        on_progress: told the share of variants done, and which one is at work.

    Raises:
        ConfigError: keys or values that no study has; before anything is trained.
        ResumeError: a folder in which another command is at work, or of a sweep over other keys; a variant's
            of another study or seeds, or of records that were changed since.
        InvalidInput: no variant that can be planned.
    """
    chosen = variants(over)
    folder = Path("runs") / f"{Path(study).stem}-sweep" if out is None else Path(out)
    fixed = {**given(set), **({} if seeds is None else {"training.seeds": seeds})}
    for key in over:
        if key in fixed:
            raise ConfigError(f"{key} is varied, and set to one value as well; leave one of them out")
    _check_keys(folder / TABLE, over)
    options: dict[str, Any] = {"data": data, "seeds": seeds}
    asked = [stated(study, changes=_all(set, one), seconds=budget_seconds, **options) for one in chosen]
    with held(folder):  # two at once would remove each other's variants
        done = [_done(folder / one.name, what) for one, what in zip(chosen, asked, strict=True)]
        refused, kept = [""] * len(chosen), sum(one is not None for one in done)
        on_progress(kept / len(chosen), "")
        for i, (one, mark) in enumerate(zip(chosen, map(_mark, asked), strict=True)):
            if done[i] is not None:
                continue
            place, told = folder / one.name, _Told(on_progress, kept, len(chosen), words(one.changes))
            try:
                done[i] = run(
                    study, place, set=_all(set, one), resume=_begin(place, one, mark), callbacks=[told],
                    budget_seconds=budget_seconds, **options,
                )  # fmt: skip
            except (ConfigError, InvalidInput, UnsoundClaim) as error:
                refused[i] = str(error)
                if all(refused):
                    raise
            kept += 1
            on_progress(kept / len(chosen), words(one.changes))
        made = Sweep(folder, tuple(over), _table(chosen, done, refused))
        _save(made, [Reached(one.changes, it.record) for one, it in zip(chosen, done, strict=True) if it])
    return made


class _Told(Callback):
    """How far a variant is as a share of all: planning is its first half, training the other."""

    def __init__(self, on_progress: OnVariant, before: int, of: int, what: str):
        self._tell = lambda done: on_progress((before + done) / of, what)

    def on_planning(self, done: float) -> None:
        self._tell(done / 2)

    def on_rounds(self, done: float) -> None:
        self._tell((1 + done) / 2)


def _check_keys(table: Path, over: Over) -> None:
    """That no table of a sweep over other keys would be replaced."""
    first = table.read_text(errors="replace").splitlines()[:1] if table.is_file() else []
    kept = {*next(csv.reader(first), [])} - {*COLUMNS, "refused"}
    if kept and kept != {*over}:
        said = f"{table} is of a sweep over {', '.join(sorted(kept))}, not over {', '.join(over)}"
        raise ResumeError(f"{said}; name another folder with --out")


def _all(set: Changes | None, variant: Variant) -> dict[str, Any]:
    return {**(set or {}), **variant.changes}


def _mark(study: Study) -> str:
    """A digest of all that a variant states; where its data lie is left out."""
    return hashlib.sha256(study.model_dump_json(exclude={"federation": {"data_dir"}}).encode()).hexdigest()


def _done(folder: Path, study: Study) -> RunFolder | None:
    """The run of a variant where its folder holds it whole, of the same study, seeds and records."""
    if not folder.exists():
        return None
    if _kept(folder) != _mark(study):
        said = f"{folder} holds a run of another study or of other seeds"
        raise ResumeError(f"{said}; name another folder for the sweep with --out")
    if not (folder / RECORD).exists():
        return None
    found = load_run(folder)
    if found.record.training is None and found.record.plan.train:
        return None
    if (folder / CHECKPOINT).exists():
        check_records(folder, open_federation(study).content)
    if not found.report.exists():
        write_report(found.record, folder)
    return found


def _kept(folder: Path) -> str:
    try:
        return str(json.loads((folder / _KEPT).read_text())["study"])
    except (OSError, ValueError, LookupError, TypeError):
        return ""


def _begin(folder: Path, variant: Variant, mark: str) -> bool:
    """Make a variant's folder ready; whether its run goes on from a checkpoint.

    What a kill left before the first checkpoint is removed: it is a simulated training, and the ledger in
    its folder is its alone.
    """
    if (folder / CHECKPOINT).exists():
        return True
    begun = folder.with_name(f".{folder.name}")  # a folder of half a variant would be taken for another's
    shutil.rmtree(begun, ignore_errors=True)
    if folder.exists():
        folder.rename(begun)
        shutil.rmtree(begun)
    written({"study": mark, "changes": variant.changes}, begun, _KEPT)
    begun.rename(folder)
    return False


def _table(chosen: Sequence[Variant], done: Sequence[RunFolder | None], why: Sequence[str]) -> pd.DataFrame:
    rows = [
        {**one.changes, **(row_of(found) if found else {}), "refused": reason}
        for one, found, reason in zip(chosen, done, why, strict=True)
    ]
    return pd.DataFrame(rows, columns=[*chosen[0].changes, *COLUMNS, "refused"])


def _save(made: Sweep, reached: Sequence[Reached]) -> None:
    """Write the table and the figure."""
    figure = sweep_figure(reached)
    with writing(f"folder {made.folder}"):
        made.folder.mkdir(parents=True, exist_ok=True)
        write_whole(made.csv, made.table.to_csv(index=False))
        if figure is not None:
            write_whole(made.figure, png(figure))
