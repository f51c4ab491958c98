"""Plan a study with the planner of its algorithm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from noiseworthy.errors import ConfigError, InvalidInput
from noiseworthy.methods.question import Answer, Question
from noiseworthy.methods.registry import METHODS, method
from noiseworthy.plans.plan import Steering
from noiseworthy.studies.centring import said_of_mean, with_mean
from noiseworthy.studies.clients import large_deltas, with_names
from noiseworthy.studies.decision import Decision, Progress
from noiseworthy.studies.label_mean import said_of_label_mean, with_label_mean
from noiseworthy.studies.label_size import said_of_size, sized
from noiseworthy.studies.models import of_algorithm, task_for, with_task
from noiseworthy.studies.prepare import Prepared, trials_wanted
from noiseworthy.studies.ranges import widened
from noiseworthy.studies.read_off import read_off
from noiseworthy.studies.tables import ConstantsTable
from noiseworthy.tasks.linear import LinearModel
from noiseworthy.tasks.names import OPEN_FEATURES


def decide(prepared: Prepared, on_progress: Progress = lambda done: None) -> Decision:
    """Plan a study.

    Constants are, in this order: stated (`assumed`), `analytic`, `bought`, or fitted to trials on public
    data. Trials choose everything that the study leaves free, and so does the rule that needs no data.

    Raises:
        ConfigError: constants are missing and cannot be had from what the study gives.
    """
    prepared = with_label_mean(sized(prepared))
    decision = _as_stated(_planned(prepared, on_progress), prepared)
    prepared = with_mean(prepared, decision.study)
    return _with_what_was_read(decision, prepared)


def plan_study(prepared: Prepared, on_progress: Progress = lambda done: None) -> tuple[Prepared, Decision]:
    """A plan of a study, and the study with the model that the plan trains.

    Raises:
        ConfigError, InvalidInput: as `decide`.
    """
    try:
        decision = decide(prepared, on_progress)
    except InvalidInput as error:  # planners know clients by their places alone
        raise InvalidInput(with_names(str(error), prepared.names if prepared.named else ())) from None
    made = _applied(prepared, decision)
    if not isinstance(made.task, LinearModel):
        return made, decision
    return replace(made, study=with_task(made.study, {"bias": made.task.bias})), decision


def _applied(prepared: Prepared, decision: Decision) -> Prepared:
    """The study with the model that its plan trains, whose records are treated as the plan decided."""
    told = decision.plan.ranges
    prepared = replace(prepared, study=of_algorithm(prepared.study, decision.plan.algorithm))
    if decision.study is None or (decision.study.task == prepared.study.task and told is None):
        return prepared
    federation, _ = prepared.trained()
    task = task_for(decision.study, federation, told)
    study = prepared.study.model_copy(update={"task": decision.study.task})
    return replace(prepared, study=study, task=task, dimension=task.dimension)


def _with_what_was_read(decision: Decision, prepared: Prepared) -> Decision:
    """The decision with what was bought for it, and a warning for all that it owes to private records."""
    said, ranges = read_off(prepared.study, prepared.federation), prepared.ranges
    names, unread = prepared.names if prepared.named else (), "no private record was read"
    own = [with_names(one, names) for one in decision.plan.notes]
    if ranges is not None and not ranges.pending:
        own = [one.replace(unread, f"{unread} beside what was bought") for one in own]
    wide = () if ranges is None else widened(prepared.study, ranges, prepared.sizes)
    budget = decision.plan.budget
    said += tuple(large_deltas(budget.unit, budget.delta, prepared.sizes, prepared.names))
    told = (*said_of_size(prepared), *said_of_label_mean(prepared), *said_of_mean(prepared))
    notes = (*(f"Warning: {one}" for one in said), *wide, *own, *told)
    outcome = with_names(decision.plan.outcome, names)
    return replace(decision, plan=replace(decision.plan, notes=notes, ranges=ranges, outcome=outcome))


def _as_stated(decision: Decision, prepared: Prepared) -> Decision:
    """The decision with the levers of the server that the user stated."""
    table = prepared.study.algorithm
    levers = ("momentum", "averaging", "weighting", "steering")
    stated = {name: getattr(table, name, "auto") for name in levers}
    fixed: dict[str, Any] = {name: value for name, value in stated.items() if value != "auto"}
    if "steering" in fixed:
        gain = fixed["steering"]
        fixed["steering"] = Steering(gain, prepared.steering_floor) if gain else None
    plan = decision.plan if "weighting" not in fixed else decision.plan.weighed(fixed["weighting"])
    return replace(decision, plan=replace(plan, **fixed))


def _planned(prepared: Prepared, on_progress: Progress) -> Decision:
    table: Any = prepared.study.algorithm
    own, constants = method(table.name), prepared.study.constants
    if constants.share != ConstantsTable().share and constants.source != "bought":
        raise ConfigError('[constants] share is paid where source = "bought"; state that, or leave it out')
    by_rule, metric = _rule(prepared), prepared.study.planning.metric
    if by_rule is None and trials_wanted(prepared):
        from noiseworthy.studies import by_trial  # here, because trials take a while to load

        return by_trial.decide(prepared, on_progress)
    if metric != "loss":
        raise ConfigError(
            f'[planning] metric = "{metric}" is what trials choose by, and this study has none; '
            "leave it out, or leave something to be planned by trial"
        )
    if (features := prepared.study.task.features) in OPEN_FEATURES:
        raise ConfigError(
            f'[task] features = "{features}" is chosen by trial, and this study has none; state "scattering" '
            'or "fourier:COUNT:BANDWIDTH:SEED", leave features out, or leave something to be planned by trial'
        )
    if by_rule is None and "step_decay" in table.model_fields_set and table.step_size == "auto":
        raise ConfigError('[algorithm] step_decay needs a step_size, got "auto"; state both, or neither')
    answer = (by_rule or own.answer)(prepared.question, table)
    return Decision(answer.plan, answer.curves)


def _rule(prepared: Prepared) -> Callable[[Question, Any], Answer] | None:
    """The rule that needs no data, where the study says so or names nothing public to try its method on.

    Raises:
        ConfigError: a study that asks a method for a rule that it does not have.
    """
    study = prepared.study
    by_rule = method(study.algorithm.name).by_rule
    if study.constants.source != "rule":
        return by_rule if study.planning.public == [] and trials_wanted(prepared) else None
    if by_rule is None:
        known = ", ".join(name for name in METHODS if method(name).by_rule is not None)
        raise ConfigError(
            f'[constants] source = "rule" plans {known} only, got {study.algorithm.name}; leave [constants] '
            "out to plan by trial"
        )
    return by_rule
