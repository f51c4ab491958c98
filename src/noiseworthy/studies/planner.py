"""Plan a study with the planner of its algorithm."""

from __future__ import annotations

from dataclasses import replace

from noiseworthy._tables import Table
from noiseworthy.studies.planners import (
    by_rule,
    by_trial,
    dp_fedavg,
    dp_pasgd,
    dp_scaffnew,
    dpfl_bcs,
    fedsgd_dpc,
    rivals,
)
from noiseworthy.studies.planners.decision import Decision, Progress
from noiseworthy.studies.prepare import Prepared, with_task
from noiseworthy.studies.read_off import read_off
from noiseworthy.studies.tables import (
    AveragingTable,
    FedAvgTable,
    FedSGDTable,
    RivalTable,
    SelectionTable,
)
from noiseworthy.tasks import LinearModel


def decide(prepared: Prepared, on_progress: Progress = lambda done: None) -> Decision:
    """Plan a study.

    Constants are, in this order: stated (`assumed`), `analytic`, `bought`, or fitted to trials on public
    data. Trials choose everything that the study leaves free, and so does the rule that needs no data.

    Raises:
        ConfigError: constants are missing and cannot be had from what the study gives.
    """
    decision = _as_stated(_planned(prepared, on_progress), prepared.study.algorithm)
    return _with_what_was_read(decision, prepared)


def plan_study(prepared: Prepared, on_progress: Progress = lambda done: None) -> tuple[Prepared, Decision]:
    """A plan of a study, and the study with the model that the plan trains.

    Raises:
        ConfigError, InvalidInput: as `decide`.
    """
    decision = decide(prepared, on_progress)
    made = by_trial.applied(prepared, decision)
    if not isinstance(made.task, LinearModel):
        return made, decision
    return replace(made, study=with_task(made.study, {"bias": made.task.bias})), decision


def _with_what_was_read(decision: Decision, prepared: Prepared) -> Decision:
    """The decision with a warning for everything that it owes to private records."""
    said = read_off(prepared.study.federation, prepared.federation)
    notes = (*(f"Warning: {one}" for one in said), *decision.plan.notes)
    return replace(decision, plan=replace(decision.plan, notes=notes))


def _as_stated(decision: Decision, table: Table) -> Decision:
    """The decision with the levers of the server that the user stated."""
    stated = {name: getattr(table, name, "auto") for name in ("momentum", "averaging", "weighting")}
    fixed = {name: value for name, value in stated.items() if value != "auto"}
    return replace(decision, plan=replace(decision.plan, **fixed))


def _planned(prepared: Prepared, on_progress: Progress) -> Decision:
    table = prepared.study.algorithm
    if by_rule.wanted(prepared):
        return by_rule.decide(prepared)
    if by_trial.wanted(prepared):
        return by_trial.decide(prepared, on_progress)
    if isinstance(table, FedSGDTable):
        return fedsgd_dpc.decide(prepared, table)
    if isinstance(table, FedAvgTable):
        return dp_fedavg.decide(prepared, table)
    if isinstance(table, AveragingTable):
        return dp_pasgd.decide(prepared, table)
    if isinstance(table, SelectionTable):
        return dpfl_bcs.decide(prepared, table)
    if isinstance(table, RivalTable):
        return rivals.decide(prepared, table)
    return dp_scaffnew.decide(prepared, table)
