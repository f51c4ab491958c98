"""Networks of the papers, each a function that makes a `ModelTask`; equal arguments give the same one."""

from noiseworthy.tasks.models.cnn import fu_cnn, paper_cnn, two_layer_cnn
from noiseworthy.tasks.models.lstm import lstm
from noiseworthy.tasks.models.ma import group_cnn, lenet5, ma_cnn
from noiseworthy.tasks.models.resnet import resnet20
from noiseworthy.tasks.models.unet import unet3d
from noiseworthy.tasks.models.vgg import vgg11

__all__ = [
    "fu_cnn",
    "group_cnn",
    "lenet5",
    "lstm",
    "ma_cnn",
    "paper_cnn",
    "resnet20",
    "two_layer_cnn",
    "unet3d",
    "vgg11",
]
