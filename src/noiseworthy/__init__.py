"""noiseworthy: plan and train differentially private federated learning.

Names are loaded on first use, so that planning never waits for (or imports) the training stack.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_EXPORTS = {
    "noiseworthy.config": ("Study", "load_study", "parse_study"),
    "noiseworthy.data": ("Federation", "load_federation", "load_records"),
    "noiseworthy.engines.records": ("Trajectory",),
    "noiseworthy.experiments.account": ("account",),
    "noiseworthy.experiments.advisor": ("Advice", "advise"),
    "noiseworthy.experiments.planner": ("Decision", "decide", "plan_study"),
    "noiseworthy.experiments.prepare": ("Prepared", "prepare"),
    "noiseworthy.experiments.runner": ("Comparison", "compare", "train"),
    "noiseworthy.planning.plan": ("Plan", "StepSize"),
    "noiseworthy.planning.problem": ("Constant", "Problem"),
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
