"""noiseworthy: plan and train differentially private federated learning.

Names are loaded on first use, so that planning never waits for (or imports) the training stack.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_EXPORTS = {
    "noiseworthy.studies.tables": ("Study",),
    "noiseworthy.studies.loading": ("load_study", "parse_study"),
    "noiseworthy.data": ("Federation", "load_federation", "load_records"),
    "noiseworthy.engines.records": ("Trajectory",),
    "noiseworthy.studies.account": ("account",),
    "noiseworthy.sweeps.advisor": ("Advice", "advise"),
    "noiseworthy.studies.planner": ("Decision", "decide", "plan_study"),
    "noiseworthy.studies.prepare": ("Prepared", "prepare"),
    "noiseworthy.studies.runner": ("train",),
    "noiseworthy.sweeps.compare": ("Comparison", "compare"),
    "noiseworthy.plans.plan": ("Plan", "StepSize"),
    "noiseworthy.plans.problem": ("Constant", "Problem"),
    "noiseworthy.privacy.budget": ("PrivacyBudget",),
    "noiseworthy.privacy.ledger": ("Ledger",),
    "noiseworthy.tasks": ("make_task", "model_task", "equinox_task"),
}
_HOME = {name: module for module, names in _EXPORTS.items() for name in names}

__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'noiseworthy' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
