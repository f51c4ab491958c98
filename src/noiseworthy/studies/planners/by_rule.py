"""Plan FedSGD-DPC for a study by the signal-to-noise rule, which needs no data but public facts."""

from __future__ import annotations

from noiseworthy.errors import ConfigError
from noiseworthy.methods.fedsgd_dpc.rule import PublicScale, plan_by_rule
from noiseworthy.studies.planners import by_trial
from noiseworthy.studies.planners.decision import Decision, decay, given
from noiseworthy.studies.prepare import Prepared
from noiseworthy.studies.tables import FedSGDTable
from noiseworthy.tasks import LinearModel


def wanted(prepared: Prepared) -> bool:
    """Whether a study is planned by the rule: it says so, or names nothing public to try FedSGD-DPC on."""
    study = prepared.study
    if study.constants.source == "rule":
        return True
    nothing_public = study.planning.public == []
    return nothing_public and isinstance(study.algorithm, FedSGDTable) and by_trial.wanted(prepared)


def decide(prepared: Prepared) -> Decision:
    """Plan a study by the rule.

    Raises:
        ConfigError: another algorithm, another model than softmax, records of no stated norm, constants
            beside the rule.
    """
    study = prepared.study
    table = study.algorithm
    if not isinstance(table, FedSGDTable):
        raise ConfigError(
            f'[constants] source = "rule" plans fedsgd-dpc only, got {table.name}; leave [constants] out to '
            "plan by trial"
        )
    if stated := study.constants.assumed():
        raise ConfigError(
            f'[constants] source = "rule" has no use for {", ".join(stated)}; leave them out, or leave out '
            "source to plan by them"
        )
    problem = prepared.problem(1.0)
    task, norm = _softmax(prepared)
    scale = PublicScale.of_softmax(norm, task.outputs, task.dimension // task.outputs, problem.norm)
    made = plan_by_rule(
        problem,
        scale,
        rounds=given(table.rounds),
        clients_per_round=given(table.clients_per_round),
        max_rounds=table.max_rounds,
        clip_norm=given(study.privacy.clip_norm),
        step_size=given(table.step_size),
        decay_rounds=decay(table.step_decay),
    )
    return Decision(made, None)


def _softmax(prepared: Prepared) -> tuple[LinearModel, float]:
    """The model and the norm of its records, if the rule knows how its gradients begin."""
    task = prepared.task
    if not isinstance(task, LinearModel) or task.loss != "softmax" or task.record_norm is None:
        raise ConfigError(
            "the signal-to-noise rule is for softmax regression on records of a known norm; set [task] "
            'model = "softmax" and normalise = true, or name public data under [planning] public'
        )
    return task, task.record_norm
