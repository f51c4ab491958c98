"""Models with their losses, as clipped gradients of records."""

from noiseworthy.tasks.base import SAFETY, Batch, Score, Task
from noiseworthy.tasks.cnn import paper_cnn
from noiseworthy.tasks.factory import MODELS, make_task
from noiseworthy.tasks.linear import LinearModel
from noiseworthy.tasks.networks import ModelTask, equinox_task, model_task

__all__ = [
    "MODELS",
    "SAFETY",
    "Batch",
    "LinearModel",
    "ModelTask",
    "Score",
    "Task",
    "equinox_task",
    "make_task",
    "model_task",
    "paper_cnn",
]
