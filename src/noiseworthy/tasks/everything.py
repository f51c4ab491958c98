"""All that `noiseworthy.tasks` offers, which loads it when the first name of it is asked for."""

from noiseworthy.tasks.base import Task
from noiseworthy.tasks.batch import SAFETY, Batch, Score
from noiseworthy.tasks.factory import make_task
from noiseworthy.tasks.images import seen_shape
from noiseworthy.tasks.linear import LinearModel, Moments
from noiseworthy.tasks.models.cnn import fu_cnn, group_cnn, lenet5, ma_cnn, paper_cnn, two_layer_cnn
from noiseworthy.tasks.models.deep import resnet20, vgg11
from noiseworthy.tasks.models.lstm import lstm
from noiseworthy.tasks.models.unet import unet3d
from noiseworthy.tasks.names import MODELS
from noiseworthy.tasks.networks import ModelTask, equinox_task, model_task
from noiseworthy.tasks.personal import Personal, personalised
from noiseworthy.tasks.preparation import Preparation
from noiseworthy.tasks.reference import Reference

__all__ = [
    "MODELS", "SAFETY", "Batch", "LinearModel", "ModelTask", "Moments", "Personal", "Preparation",
    "Reference", "Score", "Task", "equinox_task", "fu_cnn", "group_cnn", "lenet5", "lstm", "ma_cnn",
    "make_task", "model_task", "paper_cnn", "personalised", "resnet20", "seen_shape", "two_layer_cnn",
    "unet3d", "vgg11",
]  # fmt: skip
