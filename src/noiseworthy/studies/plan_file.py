"""`plan.json`: a plan with the study that it was made for, by which every later command goes on.

What is decided is decided once. Training, comparing, auditing, accounting and deploying take the plan from
its file as it was reviewed, by digest, and refuse one that belongs to another study.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from noiseworthy.errors import PlanError
from noiseworthy.methods.registry import make
from noiseworthy.plans.plan import Plan
from noiseworthy.plans.stages import BoughtRanges
from noiseworthy.studies.centring import charged
from noiseworthy.studies.decision import Decision, Progress
from noiseworthy.studies.label_mean import with_label_mean
from noiseworthy.studies.label_size import sized
from noiseworthy.studies.models import of_algorithm, task_for
from noiseworthy.studies.occupied import AUDIT, differences, holds_run
from noiseworthy.studies.occupied import PLAN as FILE
from noiseworthy.studies.occupied import made_for as tables_of
from noiseworthy.studies.plan_codec import decoded, encoded
from noiseworthy.studies.plan_text import opened, sealed
from noiseworthy.studies.planner import plan_study
from noiseworthy.studies.prepare import Prepared
from noiseworthy.studies.record import Record, beside, new_record, written
from noiseworthy.studies.soundness import check_sound
from noiseworthy.studies.tables import Study
from noiseworthy.tasks.table import TaskTable

_PARTS = {"schema", "version", "digest", "made_for", "task", "plan", "beside"}


@dataclass(frozen=True, repr=False)
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

    def __repr__(self) -> str:
        return f"plan {self.digest[:12]}: {self.plan.algorithm}\n{self.plan.outcome}"

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
        return written(self.content, folder, name)

    def applied(self, prepared: Prepared) -> Planned:
        """A study with the model that this plan trains, and this plan.

        Args:
            prepared: the study, as it was before it was planned.

        Raises:
            PlanError: a plan that was made for another study, with the first thing that differs; or that
                does not hold what it claims.
            UnsoundClaim: a clipping mode that has no proof for the model.
        """
        _check_alike(self.made_for, made_for(prepared))
        if self.plan.ranges is not None and self.plan.ranges.pending and not prepared.at_owners:
            raise PlanError(
                "the plan has owners tell their mean once a deployment begins, and this is a simulation; "
                "train it with noiseworthy deploy run, or leave --plan out"
            )
        named = replace(prepared, study=of_algorithm(prepared.study, self.plan.algorithm))
        made = _with_model(named, self.task, self.plan.ranges)
        _check_facts(self.plan, _having_paid(made, self.plan.ranges))
        check_sound(self.plan)
        if made.task is not None and self.plan.train and self.plan.step is not None:
            make(self.plan, made.task, 0)  # the algorithm refuses a model that its proof does not cover
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

    def __repr__(self) -> str:
        return repr(self.file)

    @property
    def plan(self) -> Plan:
        """The decision itself."""
        return self.decision.plan

    def having_told(self, prepared: Prepared, plan: Plan) -> Planned:
        """The same once clients told what the plan left open; the file stays as it was reviewed."""
        return self._replace(prepared=prepared, decision=replace(self.decision, plan=plan))

    def record(self, name: str) -> Record:
        """The record of a run by this plan, which names the plan by its digest; nothing is trained yet.

        Args:
            name: of the study.
        """
        made = self.prepared
        record = new_record(made.study, self.decision, made.federation, made.dimension, name=name)
        return {**record, "plan_digest": self.file.digest}

    def keep(self, folder: Path) -> Path:
        """Write the plan into a folder; where a run or audit by another plan lies there, beside that one's.

        Raises:
            DataError: a folder that cannot be written to.
        """
        by_a_plan = holds_run(folder) or (folder / AUDIT).exists()
        if by_a_plan and _digest_in(folder / FILE) != self.file.digest:
            return self.file.save(folder, f"plan-{self.file.digest[:12]}.json")
        return self.file.save(folder)


def load_plan(path: Path | str) -> PlanFile:
    """A plan from its file.

    Raises:
        PlanError: no file, no plan, one of another version, or one that was changed.
    """
    content = opened(Path(path))
    if odd := sorted(_PARTS ^ content.keys()):
        raise PlanError(f"{path} is no plan: {odd[0]} is {'missing' if odd[0] in _PARTS else 'unknown'}")
    made_for, task, beside = tables = [content[part] for part in ("made_for", "task", "beside")]
    if not all(isinstance(table, dict) for table in tables):
        raise PlanError(f"{path} is no plan: made_for, task and beside must be tables; plan the study again")
    return PlanFile(decoded(content["plan"], Plan), made_for, task, beside)


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
    federation = prepared.federation
    made = tables_of(prepared.study, federation)
    made["facts"] |= {"clients": list(prepared.names)}
    if federation is not None:
        made["facts"] |= {
            "classes": federation.classes,
            "record_shape": list(federation.record_shape),
            "label_shape": list(federation.label_shape),
        }
    return made


def _having_paid(prepared: Prepared, bought: BoughtRanges | None) -> Prepared:
    """The study after its clients told what a plan has of them."""
    if bought is not None and bought.of_labels:
        return with_label_mean(sized(replace(prepared, deploys=bought.pending)))
    if bought is not None and (bought.mean or bought.pending):
        return charged(prepared, bought.mean, bought.class_shares)
    return prepared


def _with_model(prepared: Prepared, task: dict[str, Any], bought: BoughtRanges | None) -> Prepared:
    """The study with the model that a plan trains."""
    try:
        table = TaskTable.model_validate(task)
    except ValidationError as error:
        raise PlanError(f"the plan's task is no [task] table: {error.errors()[0]['msg']}") from None
    if table == prepared.study.task and (bought is None or bought.label_mean is None):
        return prepared
    study: Study = prepared.study.model_copy(update={"task": table})
    if prepared.federation is None:
        return replace(prepared, study=study)
    opened_task = task_for(study, prepared.federation, bought)
    return replace(prepared, study=study, task=opened_task, dimension=opened_task.dimension)


def _check_facts(plan: Plan, prepared: Prepared) -> None:
    """Hold the plan's problem against the study's: sizes, dimension, whole budgets, noise, resources."""
    problem = replace(plan.problem, budget=plan.trainable)
    expected = prepared.problem(problem.clip_norm, problem.clipping)
    stated = {"algorithm": plan.algorithm, "problem": problem, "ranges": plan.ranges}
    own = {"algorithm": prepared.study.algorithm.name, "problem": expected, "ranges": prepared.ranges}
    _check_alike(encoded(stated), encoded(own))


def _check_alike(plan: dict[str, Any], study: dict[str, Any]) -> None:
    for where, stated, own in differences(plan, study):
        raise PlanError(
            f"the plan was made for another study: its {where} is {stated!r:.60}, this study has "
            f"{own!r:.60}; give the plan that was made for it, or plan it again"
        )
