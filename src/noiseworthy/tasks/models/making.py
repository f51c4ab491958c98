"""A network of a paper from its name and the shape of the data."""

from collections.abc import Callable
from importlib import import_module

from noiseworthy import _validate as check
from noiseworthy.errors import InvalidInput
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.images import image_shape
from noiseworthy.tasks.names import IMAGES


def network(model: str, shape: tuple[int, ...], classes: int, ridge: float) -> Task:
    """The network of a name for records of a shape.

    Raises:
        InvalidInput: records or classes that it is not for.
    """
    if model in IMAGES:
        return _made(IMAGES[model])(classes, image_shape(model, shape), ridge=ridge)
    if model == "lstm":
        return _made("lstm.lstm")(classes, *_lengths(model, shape, "(L,), tokens of a text", 1), ridge=ridge)
    check.count("classes", classes, least=2, most=2, remedy="unet3d tells two kinds of voxels apart")
    return _made("unet.unet3d")(_lengths(model, shape, "(D, H, W), volumes", 3), ridge=ridge)


def _made(place: str) -> Callable[..., Task]:
    """What makes a network, by its place in `models`."""
    module, _, name = place.partition(".")
    return getattr(import_module(f"noiseworthy.tasks.models.{module}"), name)


def _lengths(model: str, shape: tuple[int, ...], wanted: str, axes: int) -> tuple[int, ...]:
    if len(shape) != axes:
        raise InvalidInput(f"{model} needs records of shape {wanted}, got {shape}; choose another model")
    return shape
