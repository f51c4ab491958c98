"""`plan.json`: a plan with the study that it was made for, by which every later command goes on.

What is decided is decided once. Training, comparing, auditing, accounting and deploying take the plan from
its file as it was reviewed, by digest, and refuse one that belongs to another study.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import ValidationError

from noiseworthy.errors import DataError, PlanError
from noiseworthy.plans.plan import Plan
from noiseworthy.privacy.accountants import Release
from noiseworthy.privacy.mechanisms import law_of
from noiseworthy.studies.decision import Decision, Progress
from noiseworthy.studies.plan_codec import decoded, encoded, opened, sealed
from noiseworthy.studies.planner import plan_study
from noiseworthy.studies.prepare import Prepared, open_task
from noiseworthy.studies.record import beside
from noiseworthy.studies.records import TaskTable
from noiseworthy.studies.run_folder import holds_run
from noiseworthy.studies.tables import Study

FILE = "plan.json"
_TABLES = ("federation", "task", "privacy", "algorithm", "constants", "resources")
"""Of a study, those on which a plan rests; the others say how to plan, to train and to compare."""
_PLACES = {"data", "test", "data_dir"}
"""Where data lie: they are known by name, size and shape."""
_PARTS = {"schema", "version", "digest", "made_for", "task", "plan", "beside"}
_ROUNDING = 1e-9
_LAST_BITS = 1e-12


@dataclass(frozen=True)
class PlanFile:
    """A plan with what it was made for.

    Attributes:
        plan: the decision, whole.
        made_for: facts and tables of the study, as plain values.
        task: `[task]` of the model that the plan trains.
        beside: what records say of the plan and the plan does not: bound and trials, what is foretold.
    """

    plan: Plan
    made_for: dict[str, Any]
    task: dict[str, Any]
    beside: dict[str, Any]

    @cached_property
    def content(self) -> dict[str, Any]:
        """The file as plain values, its digest among them."""
        parts = {"made_for": self.made_for, "task": self.task, "plan": encoded(self.plan)}
        return sealed({**parts, "beside": self.beside})

    @property
    def digest(self) -> str:
        """SHA-256 of the file's content."""
        return self.content["digest"]

    def save(self, folder: Path, name: str = FILE) -> Path:
        """Write the plan into a folder, whole or not at all.

        Raises:
            DataError: a folder that cannot be written to.
        """
        draft, text = folder / f".{name}", json.dumps(self.content, indent=1, allow_nan=False)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            draft.write_text(text)
            os.replace(draft, folder / name)
        except OSError as error:
            raise DataError(f"{folder} cannot be written ({error}); choose another with --out") from None
        return folder / name

    def applied(self, prepared: Prepared) -> Planned:
        """A study with the model that this plan trains, and this plan.

        Args:
            prepared: the study, as it was before it was planned.

        Raises:
            PlanError: a plan that was made for another study, with the first thing that differs.
        """
        _check_alike(self.made_for, made_for(prepared))
        made = _with_model(prepared, self.task)
        _check_facts(self.plan, made)
        check_sound(self.plan)
        return Planned(made, Decision(self.plan, None, kept=self.beside), self)


class Planned(NamedTuple):
    """A study that was planned: what training, comparing, auditing, accounting and deploying go on with.

    Attributes:
        prepared: the study with the model that the plan trains.
        decision: the plan, and what is said of it.
        file: both, as they are kept.
    """

    prepared: Prepared
    decision: Decision
    file: PlanFile

    @property
    def plan(self) -> Plan:
        """The decision itself."""
        return self.decision.plan

    def keep(self, folder: Path) -> Path:
        """Write the plan into a folder; where a run by another plan lies there, beside that one's.

        Raises:
            DataError: a folder that cannot be written to.
        """
        if holds_run(folder) and _digest_in(folder / FILE) != self.file.digest:
            return self.file.save(folder, f"plan-{self.file.digest[:12]}.json")
        return self.file.save(folder)


def load_plan(path: Path) -> PlanFile:
    """A plan from its file.

    Raises:
        PlanError: no file, no plan, one of another version, or one that was changed.
    """
    content = opened(path)
    if odd := sorted(_PARTS ^ content.keys()):
        raise PlanError(f"{path} is no plan: {odd[0]} is {'missing' if odd[0] in _PARTS else 'unknown'}")
    return PlanFile(decoded(content["plan"], Plan), content["made_for"], content["task"], content["beside"])


def planned(prepared: Prepared, on_progress: Progress = lambda done: None) -> Planned:
    """Plan a study, once.

    Raises:
        ConfigError, InvalidInput: as `planner.decide`.
    """
    made, decision = plan_study(prepared, on_progress)
    said, task = beside(decision, made.federation), made.study.task.model_dump(mode="json")
    decision = replace(decision, kept=said)
    return Planned(made, decision, PlanFile(decision.plan, made_for(prepared), task, said))


def kept_plan(folder: Path, prepared: Prepared) -> Planned | None:
    """The plan of a study that a folder holds; None without one, or where it is another study's.

    Raises:
        PlanError: a file that is no plan, or that was changed.
    """
    if not (folder / FILE).exists():
        return None
    file = load_plan(folder / FILE)
    return file.applied(prepared) if file.made_for == made_for(prepared) else None


def keep_stages(folder: Path, plans: Sequence[Plan], seeds: Sequence[int]) -> None:
    """Write the plans that follow from a stage beside the plan of a run, one file per seed.

    Args:
        folder: of the run; where it holds no plan, nothing is written.
        plans: one per seed.
        seeds: of the trainings.
    """
    if not (folder / FILE).exists():
        return
    whole = load_plan(folder / FILE)
    for plan, seed in zip(plans, seeds, strict=True):
        replace(whole, plan=plan).save(folder, f"plan-seed-{seed}.json")


def _digest_in(path: Path) -> str | None:
    try:
        return load_plan(path).digest
    except PlanError:
        return None


def made_for(prepared: Prepared) -> dict[str, Any]:
    """The facts and tables on which a plan rests, as plain values; records and where they lie left out."""
    study, federation = prepared.study, prepared.federation
    tables = study.model_dump(mode="json", include=set(_TABLES))
    kept = {key: value for key, value in tables["federation"].items() if key not in _PLACES}
    facts: dict[str, Any] = {"clients": list(prepared.names)}
    if federation is not None:
        facts |= {
            "data": federation.name,
            "classes": federation.classes,
            "record_shape": list(federation.record_shape),
            "label_shape": list(federation.label_shape),
        }
    return json.loads(json.dumps({"facts": facts, "study": {**tables, "federation": kept}}))


def check_sound(plan: Plan) -> None:
    """Refuse a plan whose parts claim what they do not hold, whoever wrote it.

    Raises:
        PlanError: noise that does not pay for the budgets, for another sensitivity, or for fewer releases
            than are planned.
    """
    if plan.release is None or not law_of(plan.problem.family).noisy:
        return
    if np.any(plan.spent() > plan.budget.epsilon * (1 + _ROUNDING)):
        raise PlanError("plan.release does not pay for the budgets of plan.problem; plan the study again")
    if np.any(plan.released_by(plan.uploads) > plan.releases) or np.any(plan.uploads > plan.rounds):
        raise PlanError("plan.releases are fewer than plan.rounds make; plan the study again")
    for release in _of_gradients(plan):
        claimed, needed = release.sensitivity, plan.problem.sensitivity
        kinds = [(one.norm, one.unit, one.relation, one.sampling_rate) for one in (claimed, needed)]
        if kinds[0] != kinds[1] or np.any(claimed.value < needed.value * (1 - _LAST_BITS)):
            raise PlanError(
                "plan.release is for another sensitivity than clip and sizes of plan.problem give; "
                "plan the study again"
            )


def _of_gradients(plan: Plan) -> list[Release]:
    """Releases of what the problem clips: those of the plan, and the first of what came before."""
    before = [] if plan.pilot is None else [plan.pilot.parts[0][0]]
    return before + ([] if plan.release is None else [plan.release])


def _with_model(prepared: Prepared, task: dict[str, Any]) -> Prepared:
    """The study with the model that a plan trains."""
    try:
        table = TaskTable.model_validate(task)
    except ValidationError as error:
        raise PlanError(f"the plan's task is no [task] table: {error.errors()[0]['msg']}") from None
    if table == prepared.study.task:
        return prepared
    study: Study = prepared.study.model_copy(update={"task": table})
    if prepared.federation is None:
        return replace(prepared, study=study)
    opened_task = open_task(study, prepared.federation.record_shape, prepared.federation.classes)
    return replace(prepared, study=study, task=opened_task, dimension=opened_task.dimension)


def _check_facts(plan: Plan, prepared: Prepared) -> None:
    """Hold the plan's problem against the study's: sizes, dimension, whole budgets, noise, resources."""
    problem = replace(plan.problem, budget=plan.budget)
    expected = prepared.problem(problem.clip_norm, problem.clipping)
    _check_alike({"problem": encoded(problem)}, {"problem": encoded(expected)})


def _check_alike(plan: dict[str, Any], study: dict[str, Any]) -> None:
    for where, stated, own in _differences(plan, study, ""):
        raise PlanError(
            f"the plan was made for another study: its {where} is {stated!r:.60}, this study has "
            f"{own!r:.60}; give the plan that was made for it, or plan it again"
        )


def _differences(one: Any, other: Any, where: str) -> Iterator[tuple[str, Any, Any]]:
    """Places at which plain values differ, with both values."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            yield from _differences(one.get(key), other.get(key), f"{where}.{key}" if where else key)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for i, (mine, its) in enumerate(zip(one, other, strict=True)):
            yield from _differences(mine, its, f"{where}[{i}]")
    elif one != other or type(one) is not type(other):
        yield where, one, other
