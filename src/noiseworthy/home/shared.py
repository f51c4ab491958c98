"""The shared model as it is."""

from __future__ import annotations

from noiseworthy.home.base import Own, Parameters
from noiseworthy.tasks.base import Task


def shared_model(task: Task, shared: Parameters, own: Own, seed: int) -> Parameters:
    """The shared model as it is; `base.AtHome`."""
    return shared
