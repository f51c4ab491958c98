"""The shared model fine-tuned: a few steps on the owner's records, stopped early."""

from __future__ import annotations

from noiseworthy.home.base import Own, Parameters
from noiseworthy.home.epochs import after_epochs
from noiseworthy.home.tuned import EPOCHS
from noiseworthy.tasks.base import Task


def fine_tuned_model(task: Task, shared: Parameters, own: Own, seed: int) -> Parameters:
    """The shared model after steps of Adam on the owner's records; `base.AtHome`.

    Of networks that is what `tuned` does. When to stop, cross-validation at home decides.

    Source: Yu, Bagdasaryan & Shmatikov, Salvaging federated learning by local adaptation (2020).
    """
    return after_epochs(task, shared, own, seed, EPOCHS)
