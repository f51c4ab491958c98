"""Models by their names in study files, and what makes them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from noiseworthy.tasks.linear import LinearLoss

LINEAR: dict[str, LinearLoss] = {
    "softmax": "softmax",
    "logistic": "logistic",
    "svm": "hinge",
    "linear": "squared",
}
"""Linear models and their losses."""
IMAGES = {
    "cnn": "cnn.paper_cnn",
    "fu-cnn": "cnn.fu_cnn",
    "two-layer-cnn": "cnn.two_layer_cnn",
    "vgg11": "deep.vgg11",
    "ma-cnn": "cnn.ma_cnn",
    "lenet5": "cnn.lenet5",
    "group-cnn": "cnn.group_cnn",
    "resnet20": "deep.resnet20",
}
"""Networks of images and what makes them in `models`, which is loaded when it is asked for."""
SCATTERING, OPEN_FEATURES = "scattering", ("auto", "fourier")
"""A public map of records, and those that trials make definite."""
FEATURES = (SCATTERING, *OPEN_FEATURES)
FOURIER = re.compile(r"fourier:(\d{1,6}):(\d{1,9}(?:\.\d{1,9})?(?:e-?\d{1,2})?):(\d{1,9})")
"""Names of random Fourier features: how many numbers, bandwidth and seed."""
MEAN = "noised mean"
"""In the place of public data that records are seen against: their own mean, which clients tell."""
ENCODER = re.compile(r"[^:]+\.onnx")
"""Names of files that hold encoders."""
OWN = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
"""Names of models of the user's own."""
MODELS = (*LINEAR, *IMAGES, "lstm", "unet3d")
"""All that `make_task` knows."""


def is_encoder(features: str | None) -> bool:
    """Whether features are those of a file."""
    return features is not None and ENCODER.fullmatch(features) is not None
