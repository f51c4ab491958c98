"""noiseworthy: plan and train differentially private federated learning.

Names are loaded on first use, so that planning never waits for (or imports) the training stack.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from noiseworthy.config import Study, load_study, parse_study
    from noiseworthy.data import Federation, load_federation, load_records
    from noiseworthy.engines.records import Trajectory
    from noiseworthy.experiments.account import account, account_plan
    from noiseworthy.experiments.advisor import Advice, advise
    from noiseworthy.experiments.audit import audit_study
    from noiseworthy.experiments.plan_file import PlanFile, Planned, load_plan
    from noiseworthy.experiments.planner import Decision, decide, plan_study
    from noiseworthy.experiments.prepare import Prepared, prepare
    from noiseworthy.experiments.runner import Comparison, compare
    from noiseworthy.experiments.studies import plan, train_in
    from noiseworthy.experiments.training import Run, train
    from noiseworthy.planning.plan import Plan, Stage, StepSize
    from noiseworthy.planning.problem import Constant, Problem
    from noiseworthy.privacy.budget import PrivacyBudget
    from noiseworthy.privacy.ledger import Ledger
    from noiseworthy.reports.html import write_report
    from noiseworthy.tasks import equinox_task, make_task, model_task

__all__ = [
    "Advice",
    "Comparison",
    "Constant",
    "Decision",
    "Federation",
    "Ledger",
    "Plan",
    "PlanFile",
    "Planned",
    "Prepared",
    "PrivacyBudget",
    "Problem",
    "Run",
    "Stage",
    "StepSize",
    "Study",
    "Trajectory",
    "account",
    "account_plan",
    "advise",
    "audit_study",
    "compare",
    "decide",
    "equinox_task",
    "load_federation",
    "load_plan",
    "load_records",
    "load_study",
    "make_task",
    "model_task",
    "parse_study",
    "plan",
    "plan_study",
    "prepare",
    "train",
    "train_in",
    "write_report",
]

if not TYPE_CHECKING:  # a checker reads the imports above, and knows of no other name
    _EXPORTS = {
        "config": ("Study", "load_study", "parse_study"),
        "data": ("Federation", "load_federation", "load_records"),
        "engines.records": ("Trajectory",),
        "experiments.account": ("account", "account_plan"),
        "experiments.advisor": ("Advice", "advise"),
        "experiments.audit": ("audit_study",),
        "experiments.plan_file": ("PlanFile", "Planned", "load_plan"),
        "experiments.planner": ("Decision", "decide", "plan_study"),
        "experiments.prepare": ("Prepared", "prepare"),
        "experiments.runner": ("Comparison", "compare"),
        "experiments.studies": ("plan", "train_in"),
        "experiments.training": ("Run", "train"),
        "planning.plan": ("Plan", "Stage", "StepSize"),
        "planning.problem": ("Constant", "Problem"),
        "privacy.budget": ("PrivacyBudget",),
        "privacy.ledger": ("Ledger",),
        "reports.html": ("write_report",),
        "tasks": ("equinox_task", "make_task", "model_task"),
    }
    _HOME = {name: f"noiseworthy.{module}" for module, names in _EXPORTS.items() for name in names}

    def __getattr__(name):
        if name not in _HOME:
            raise AttributeError(f"module 'noiseworthy' has no attribute {name!r}")
        return getattr(import_module(_HOME[name]), name)

    def __dir__():
        return __all__
