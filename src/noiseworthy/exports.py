"""What `noiseworthy` itself offers: where each name is at home, from which it is loaded on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noiseworthy.calls.callbacks import Callback
    from noiseworthy.calls.folder import RunFolder, load_run, runs
    from noiseworthy.calls.run import run
    from noiseworthy.calls.sweep import Sweep, sweep
    from noiseworthy.calls.trackers import MLflow, TensorBoard, WeightsAndBiases
    from noiseworthy.data import Federation, load_federation, load_records
    from noiseworthy.engines.records import Trajectory
    from noiseworthy.estimators import NoiseworthyClassifier, NoiseworthyRegressor
    from noiseworthy.model.model import Model, load_model
    from noiseworthy.plans.plan import Plan, Stage, StepSize
    from noiseworthy.plans.problem import Constant, Problem
    from noiseworthy.privacy.budget import PrivacyBudget
    from noiseworthy.privacy.ledger import Ledger
    from noiseworthy.reports.html import write_report
    from noiseworthy.studies.account import account, account_plan
    from noiseworthy.studies.audit import audit_study
    from noiseworthy.studies.loading import load_study, parse_study
    from noiseworthy.studies.plan_file import PlanFile, Planned, load_plan
    from noiseworthy.studies.planner import Decision, decide, plan_study
    from noiseworthy.studies.prepare import Prepared, prepare
    from noiseworthy.studies.studies import plan, train_in
    from noiseworthy.studies.tables import Study
    from noiseworthy.studies.training import Run, train
    from noiseworthy.sweeps.advisor import Advice, advise
    from noiseworthy.sweeps.compare import Comparison, compare
    from noiseworthy.tasks import equinox_task, make_task, model_task

__all__ = [
    "Advice", "Callback", "Comparison", "Constant", "Decision", "Federation", "Ledger", "MLflow", "Model",
    "NoiseworthyClassifier", "NoiseworthyRegressor", "Plan", "PlanFile", "Planned", "Prepared",
    "PrivacyBudget", "Problem", "Run", "RunFolder", "Stage", "StepSize", "Study", "Sweep", "TensorBoard",
    "Trajectory", "WeightsAndBiases", "account", "account_plan", "advise", "audit_study", "compare",
    "decide", "equinox_task", "load_federation", "load_model", "load_plan", "load_records", "load_run",
    "load_study", "make_task", "model_task", "parse_study", "plan", "plan_study", "prepare", "run", "runs",
    "sweep", "train", "train_in", "write_report",
]  # fmt: skip

_EXPORTS = {
    "calls.callbacks": ("Callback",),
    "calls.folder": ("RunFolder", "load_run", "runs"),
    "calls.run": ("run",),
    "calls.sweep": ("Sweep", "sweep"),
    "calls.trackers": ("MLflow", "TensorBoard", "WeightsAndBiases"),
    "studies.tables": ("Study",),
    "studies.loading": ("load_study", "parse_study"),
    "data": ("Federation", "load_federation", "load_records"),
    "engines.records": ("Trajectory",),
    "estimators": ("NoiseworthyClassifier", "NoiseworthyRegressor"),
    "model.model": ("Model", "load_model"),
    "studies.account": ("account", "account_plan"),
    "sweeps.advisor": ("Advice", "advise"),
    "studies.audit": ("audit_study",),
    "studies.plan_file": ("PlanFile", "Planned", "load_plan"),
    "studies.planner": ("Decision", "decide", "plan_study"),
    "studies.prepare": ("Prepared", "prepare"),
    "sweeps.compare": ("Comparison", "compare"),
    "studies.studies": ("plan", "train_in"),
    "studies.training": ("Run", "train"),
    "plans.plan": ("Plan", "Stage", "StepSize"),
    "plans.problem": ("Constant", "Problem"),
    "privacy.budget": ("PrivacyBudget",),
    "privacy.ledger": ("Ledger",),
    "reports.html": ("write_report",),
    "tasks": ("equinox_task", "make_task", "model_task"),
}
HOME = {name: f"noiseworthy.{module}" for module, names in _EXPORTS.items() for name in names}


def offered(name: str) -> Any:
    """What a name stands for.

    Raises:
        AttributeError: a name that is not offered.
    """
    if name == "__all__":
        return __all__
    if name not in HOME:
        raise AttributeError(f"module 'noiseworthy' has no attribute {name!r}")
    return getattr(import_module(HOME[name]), name)
