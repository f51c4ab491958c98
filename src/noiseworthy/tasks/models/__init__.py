"""Networks of the papers, each a function that makes a `ModelTask`; equal arguments give the same one."""

from noiseworthy.tasks.models.cnn import fu_cnn, paper_cnn, two_layer_cnn
from noiseworthy.tasks.models.lstm import lstm
from noiseworthy.tasks.models.unet import unet3d
from noiseworthy.tasks.models.vgg import vgg11

__all__ = ["fu_cnn", "lstm", "paper_cnn", "two_layer_cnn", "unet3d", "vgg11"]
