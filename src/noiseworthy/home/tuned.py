"""The shared model tuned to an owner's records."""

from __future__ import annotations

import numpy as np

from noiseworthy.home.alone import own_model
from noiseworthy.home.base import Own, Parameters
from noiseworthy.home.epochs import Epochs, after_epochs
from noiseworthy.home.ridge import towards
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.linear import LinearModel

EPOCHS = Epochs((0, 1, 2, 4, 8, 16, 32))
"""What is tried of a network."""
SHARES = (1.0, 0.5, 0.0)
"""Of the shared model in the centres that linear models are drawn towards."""


def tuned_model(task: Task, shared: Parameters, own: Own, seed: int, *, tried: Epochs = EPOCHS) -> Parameters:
    """The shared model tuned to the owner's records; `base.AtHome`.

    Linear models are drawn by a ridge towards the shared one, the owner's constant answer or what lies half
    way between them, networks start from the shared one and stop early; which, how strongly and how early,
    cross-validation at home decides. Of a shared model that diverged the owner's own remains.
    """
    if not np.all(np.isfinite(shared)):
        return own_model(task, shared, own, seed)
    if isinstance(task, LinearModel):
        return towards(task, shared, SHARES, own, seed)
    return after_epochs(task, shared, own, seed, tried)
