"""What a command leaves in its run folder: one JSON record, from which reports are made."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import ValidationError

from noiseworthy._json import strict_json
from noiseworthy._places import write_whole, writing
from noiseworthy.data import Federation
from noiseworthy.errors import DataError, ResumeError
from noiseworthy.methods.dpfl_bcs.heterogeneity import as_printed
from noiseworthy.methods.dpfl_bcs.two_stages import stage_before
from noiseworthy.plans.plan import Plan
from noiseworthy.privacy.noise import ASSURANCE
from noiseworthy.studies.claims import claim_facts
from noiseworthy.studies.decision import Decision
from noiseworthy.studies.flags import flags, foretold
from noiseworthy.studies.read_off import read_off
from noiseworthy.studies.tables import Study
from noiseworthy.studies.typed_record import RECORD_VERSION, migrated, view

if TYPE_CHECKING:
    from noiseworthy.studies.training import Run
    from noiseworthy.studies.two_stages import Estimation

FILE = "record.json"
_OF_A_TRAINING = ("estimation", "coefficients", "ledger", "network", "home")
"""Parts that stand beside `training`, and belong to it."""
Record = dict[str, Any]
_REMEDY = "give a folder that train, compare or quickstart made"


def new_record(
    study: Study, decision: Decision, federation: Federation | None, dimension: int, *, name: str
) -> Record:
    """The record of a plan: study, plan, federation and evidence; training and comparison still open."""
    record = {
        "name": name,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "version": version("noiseworthy"),
        "record_version": RECORD_VERSION,
        "study": study.model_dump(mode="json", exclude_none=True),
        "plan": _plan(decision.plan),
        "claim": claim_facts(decision.plan, study.persons_have_at_most),
        "federation": None if federation is None else _federation(federation, dimension),
        "read_off": read_off(study, federation),
        "evidence": None,
        "training": None,
        "compare": None,
    }
    return strict_json({**record, **beside(decision, federation)})


def beside(decision: Decision, federation: Federation | None) -> Record:
    """What a record says of a decision and its plan does not, as the plan's file kept it or from the trials.

    Returns:
        `evidence`, and where trials were made `foretold` and `what_if`.
    """
    if decision.kept is not None:
        return decision.kept
    said = None if federation is None else foretold(decision, federation.classes)
    foreseen = {} if said is None else {"foretold": said}
    what_if = {} if decision.what_if is None else {"what_if": decision.what_if.as_dict()}
    return strict_json({"evidence": _evidence(decision), **foreseen, **what_if})


def with_training(
    record: Record, run: Run, seeds: list[int], seconds: float, prior: float | None = None
) -> Record:
    """The record with curves, uploads, what each client has spent by them, and `flags.flags`.

    Args:
        record: of the plan; an earlier training in it is replaced.
        run: the trainings.
        seeds: theirs.
        seconds: that they took.
        prior: score of always answering the most frequent class, if there is one.
    """
    training = {
        "seeds": list(seeds), "rounds": run.rounds.tolist(), "loss": run.loss.tolist(),
        "accuracy": run.accuracy.tolist(), "uploads": run.uploads.tolist(),
        "spent_epsilon": run.spent.tolist(), "untrained_loss": float(run.loss[0, 0]), "prior": prior,
        "seconds": seconds, "assurance": ASSURANCE,
    }  # fmt: skip
    stages = {"estimation": [estimated(stage) for stage in run.stages]} if run.stages else {}
    # parts of an earlier training go: what owners of a network did must not vouch for a simulation
    rest = {key: part for key, part in record.items() if key not in _OF_A_TRAINING}
    return {**rest, **stages, "training": strict_json(training | {"flags": flags(record, training)})}


def estimated(stage: Estimation) -> dict[str, Any]:
    """What one training estimated and decided, client by client, ready for JSON.

    Args:
        stage: of `two_stages.run`.

    Returns:
        The fields of `typed_record.EstimatedPart` but for the true Gamma_n.

    Guarantee: post-processing of released values; costs no privacy.
    """
    first, found, reports = stage_before(stage.plan), stage.found, stage.reports
    clients = len(found.value)
    number = np.maximum(np.bincount(reports.clients, minlength=clients), 1)
    told = {
        "epsilon": first.budget.epsilon.tolist(),
        "sizes": stage.plan.problem.sizes.tolist(),
        "estimate": found.value.tolist(),
        "raw": found.raw.tolist(),
        "noise": (reports.noise_std / np.sqrt(number)).tolist(),
        "as_printed": as_printed(reports, clients).tolist(),
        "spread": found.spread,
        "first": first.plan.releases.tolist(),
        "releases": stage.plan.releases.tolist(),
    }
    return strict_json(told)


def save_record(record: Record, folder: Path) -> Path:
    """Write `record.json`, whole or not at all.

    Raises:
        DataError: a folder that cannot be written to.
        ValidationError: a record that is not of the layout of `RunRecord`, which is a fault of ours.
    """
    view(record)
    return written(record, folder, FILE)


def written(content: Record, folder: Path, name: str) -> Path:
    """Write plain values as a file of a run folder, whole or not at all.

    Raises:
        DataError: a folder that cannot be written to.
    """
    text = json.dumps(content, indent=1, allow_nan=False)
    with writing(f"run folder {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / name, text)
    return folder / name


def beside_kept(record: Record, folder: Path, *, trains: bool = False) -> Record:
    """The record with what other commands left in the folder's of the same plan, so that nothing is lost.

    Args:
        record: new; what it lacks, or has as None, the folder's record may have.
        folder: in which it is to be written.
        trains: whether a training of its own takes the place of one by another plan.

    Raises:
        ResumeError: a training over a network, or by another plan, in whose place nothing would come.
    """
    try:
        kept = load_record(folder)
    except DataError:
        return record
    if trains and kept.get("network"):
        raise ResumeError(f"{folder} holds a model that owners trained; choose another folder with --out")
    # of the whole plan: what was compared or audited under another one says nothing of this one
    mine = {key: part for key, part in record.items() if part is not None}
    if kept["plan"] == record["plan"]:
        return {**record, **kept, **mine}
    if kept.get("training") and not trains:
        raise ResumeError(f"{folder} holds a training by another plan; choose another folder with --out")
    return record


def load_record(folder: Path) -> Record:
    """The record of a run folder, one of an earlier version in the layout of now.

    Raises:
        DataError: no folder, no record, or a file that is none.
    """
    path = folder / FILE
    try:
        record = json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"{path} does not exist; {_REMEDY}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} is damaged ({error}); run the study again") from None
    if not isinstance(record, dict):
        raise DataError(f"{path} is no record of a run; {_REMEDY}")
    try:
        view(record)
    except ValidationError as error:
        raise DataError(f"{path} is no record of a run ({_complaint_of(error)}); {_REMEDY}") from None
    return migrated(record)


def _plan(plan: Plan) -> Record:
    """The plan's contract, with a noise that changes in its first and last round only.

    A file would else grow by rounds times clients.
    """
    stated = plan.as_dict()
    if "noise_per_round" in stated:
        stated["noise_per_round"] = [stated["noise_per_round"][i] for i in (0, -1)]
    return stated


def _federation(federation: Federation, dimension: int) -> Record:
    return {
        "name": federation.name, "clients": list(federation.clients), "sizes": federation.sizes.tolist(),
        "classes": federation.classes, "dimension": dimension,
        "test_records": len(federation.test_x), "test_origin": federation.test_origin,
    }  # fmt: skip


def _evidence(decision: Decision) -> Record | None:
    """The bound as curves with the plan's place on them, and trials beside; None where all was stated."""
    lines, predicted = decision.curves, decision.plan.prediction
    if lines is None or predicted is None:
        return None
    return {
        "unit": predicted.unit, "no_training": predicted.no_training,
        "axis": lines.axis, "chosen": lines.chosen, "curves": [vars(curve) for curve in lines.curves],
        "trials": [vars(trial) for trial in decision.trials], "spread": decision.spread,
        "course": None if decision.course is None else vars(decision.course),
    }  # fmt: skip


def _complaint_of(error: ValidationError) -> str:
    """The first thing that is wrong with a record, by the key that it is under."""
    first = error.errors(include_url=False)[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where}{': ' * bool(where)}{first['msg'][0].lower()}{first['msg'][1:]}"
