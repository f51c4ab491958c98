"""Convolutional networks of the papers: two convolutions, each with a max pool and ReLU, and dense layers."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial

from jax.flatten_util import ravel_pytree

from noiseworthy._jax import Array, jax
from noiseworthy.tasks.models import layers as nn
from noiseworthy.tasks.networks import ModelTask


@dataclass(frozen=True)
class Design:
    """What a network of this module is made of.

    Attributes:
        convolutions: (side of the kernel, channels, zeros around) of each.
        dense: widths of hidden dense layers.
        groups: of channels that are normed after each convolution; 0 for none.
        factor: of which sides of images are multiples.
        start: where weights start.
    """

    convolutions: tuple[tuple[int, int, int], ...]
    dense: tuple[int, ...] = ()
    groups: int = 0
    factor: int = 1
    start: nn.Start = nn.he_start

    def side(self, side: int) -> int:
        """What is left of the side of an image after the last pool."""
        for kernel, _, margin in self.convolutions:
            side = (side + 2 * margin - kernel + 1) // 2
        return side

    @property
    def least(self) -> int:
        """The smallest side of an image of which something is left."""
        return next(side for side in itertools.count(1) if self.side(side) > 0)

    def shapes(self, classes: int, image: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
        """Shapes of weights by the names of convolutions and dense layers, in their order."""
        kernels, channels, _ = zip(*self.convolutions, strict=True)
        inputs = (*(image[2:] or (1,)), *channels)
        widths = (self.side(image[0]) * self.side(image[1]) * channels[-1], *self.dense, classes)
        convolutions = {f"conv{i}": (k, k, *inputs[i : i + 2]) for i, k in enumerate(kernels)}
        return convolutions | {f"dense{i}": pair for i, pair in enumerate(itertools.pairwise(widths))}

    def layers(self, theta: Array, classes: int, image: tuple[int, ...]) -> dict[str, nn.Layer]:
        """All parameters, shape (p,), as weights and biases by the names of `shapes`; without norms alone."""
        like = nn.layers(jax.random.key(0), self.shapes(classes, image), self.start)
        return ravel_pytree(like)[1](theta)


DESIGNS = {
    "cnn": Design(((5, 16, 2), (5, 32, 2)), factor=4),
    "fu-cnn": Design(((7, 32, 3), (3, 64, 1)), factor=4),
    "two-layer-cnn": Design(((5, 32, 2), (5, 64, 2)), factor=4, start=nn.uniform_start),
    "ma-cnn": Design(((3, 4, 1), (3, 8, 1))),
    "lenet5": Design(((5, 6, 2), (5, 16, 0)), (120, 84)),
    "group-cnn": Design(((5, 8, 1), (5, 16, 1)), (120, 84), groups=4),
}
"""By the names of the networks in study files."""


def paper_cnn(classes: int = 62, image: Sequence[int] = (28, 28), *, ridge: float = 0.0) -> ModelTask:
    """Zhou et al.: 5x5 convolutions of 16 and 32 channels, each with ReLU and 2x2 max pool; a dense layer.

    For 62 classes and 28x28 images: 416 + 12,832 + 97,278 = 110,526 parameters. Convolutions keep the size
    of the image (padding 2). Sides are multiples of 4 (two pools halve them twice); else arguments, result
    and errors are those of `ma_cnn`.

    Example:
        >>> paper_cnn(10).dimension
        28938

    Source: Zhou et al., experiments; docs/theory/zhou.md#experiments.
    """
    return _checked("cnn", classes, image, ridge)


def fu_cnn(classes: int = 62, image: Sequence[int] = (28, 28), *, ridge: float = 0.0) -> ModelTask:
    """Fu et al.: convolutions, 7x7 of 32 and 3x3 of 64 channels, as in `paper_cnn`; a dense layer.

    For 62 classes and 28x28 images: 1,600 + 18,496 + 194,494 = 214,590 parameters. The paper does not say
    where weights start; they start as in `paper_cnn`. Arguments, result and errors are those of `paper_cnn`.

    Example:
        >>> fu_cnn().dimension
        214590

    Source: Fu et al., experiments (padding 3 and 1).
    """
    return _checked("fu-cnn", classes, image, ridge)


def two_layer_cnn(classes: int = 10, image: Sequence[int] = (32, 32, 3), *, ridge: float = 0.0) -> ModelTask:
    """Hou et al.: two convolutions, each with ReLU and 2x2 max pool, and a dense layer.

    The paper gives no sizes. Here: kernels 5x5 of 32 and 64 channels, padding 2, which makes 94,666
    parameters for CIFAR-10 and 246,590 for 62 classes of 28x28 in grey. Weights start uniform within
    1 / sqrt(fan-in), as the paper's do. Arguments, result and errors are those of `paper_cnn`.

    Example:
        >>> two_layer_cnn().dimension, two_layer_cnn(62, (28, 28)).dimension
        (94666, 246590)

    Source: Hou et al., experiments; docs/theory/hou.md#experiments.
    """
    return _checked("two-layer-cnn", classes, image, ridge)


def ma_cnn(classes: int = 10, image: Sequence[int] = (28, 28), *, ridge: float = 0.0) -> ModelTask:
    """Ma et al. for MNIST: 3x3 convolutions of 4 and 8 channels, each with 2x2 max pool and ReLU; one dense.

    For 10 classes and 28x28 images: 40 + 296 + 3,930 = 4,266 parameters. The paper gives the number alone;
    this is the one layout of 3x3 convolutions (padding 1) that has it. Equal arguments give the same object,
    so compiled programs are reused.

    Args:
        classes: number of classes K, at least 2.
        image: shape (H, W) or (H, W, channels) of a record, sides of at least 4. Records may come flat;
            `prepare` gives them this shape.
        ridge: weight mu of (mu/2)||theta||^2, at least 0.

    Returns:
        A `ModelTask` with softmax loss; its start is random (He, biases 0), drawn from the key.

    Raises:
        InvalidInput: fewer than 2 classes, an image of another shape, a negative ridge.

    Example:
        >>> ma_cnn().dimension
        4266

    Source: Ma et al., experiments; docs/theory/ma.md#experiments.
    """
    return _checked("ma-cnn", classes, image, ridge)


def lenet5(classes: int = 10, image: Sequence[int] = (28, 28), *, ridge: float = 0.0) -> ModelTask:
    """LeNet-5: 5x5 convolutions of 6 (padding 2) and 16 channels (none), dense layers of 120 and 84.

    For 10 classes and 28x28 images: 156 + 2,416 + 48,120 + 10,164 + 850 = 61,706 parameters. As is common
    today, pools take the maximum, all layers but the last have a ReLU, and all 16 channels see all 6.
    Sides of at least 12; else arguments, result and errors are those of `ma_cnn`.

    Example:
        >>> lenet5().dimension
        61706

    Source: LeCun et al., Gradient-based learning applied to document recognition (1998); Ma et al.,
    experiments (Fashion-MNIST); docs/theory/ma.md#experiments.
    """
    return _checked("lenet5", classes, image, ridge)


def group_cnn(classes: int = 62, image: Sequence[int] = (28, 28), *, ridge: float = 0.0) -> ModelTask:
    """Ma et al. for FEMNIST: 5x5 convolutions of 8 and 16 channels with group norm, dense of 120 and 84.

    For 62 classes and 28x28 images: 208 + 16 + 3,216 + 32 + 48,120 + 10,164 + 5,270 = 67,026 parameters.
    Convolutions have padding 1, so sides go 28, 26, 13, 11, 5. The paper has batch norm, through which a
    record reaches the gradients of others; here 4 groups are normed within each record, with as many
    parameters. Sides of at least 10; else arguments, result and errors are those of `ma_cnn`.

    Example:
        >>> group_cnn().dimension
        67026

    Source: Ma et al., experiments; docs/theory/ma.md#experiments, docs/theory/ma.md#momentum-and-batch-norm.
    """
    return _checked("group-cnn", classes, image, ridge)


def _checked(name: str, classes: int, image: Sequence[int], ridge: float) -> ModelTask:
    design = DESIGNS[name]
    shape = nn.checked_images(name, classes, image, least=design.least, factor=design.factor)
    return _network(name, classes, shape, ridge)


@cache
def _network(name: str, classes: int, image: tuple[int, ...], ridge: float) -> ModelTask:
    return nn.network(
        partial(_initial, design=DESIGNS[name], classes=classes, image=image),
        partial(_apply, design=DESIGNS[name]),
        "softmax",
        ridge=ridge,
        form=partial(nn.as_shape, shape=image, model=name),
        record_shape=image,
    )


def _initial(key: Array, design: Design, classes: int, image: tuple[int, ...]) -> dict[str, nn.Layer]:
    normed = enumerate(channels for _, channels, _ in design.convolutions if design.groups)
    norms = {f"norm{i}": nn.norm_start(channels) for i, channels in normed}
    return nn.layers(key, design.shapes(classes, image), design.start) | norms


def _apply(params: dict[str, nn.Layer], x: Array, design: Design) -> Array:
    hidden = nn.channels_last(x, 2)
    for i, (_, _, margin) in enumerate(design.convolutions):
        layer = params[f"conv{i}"]
        hidden = nn.convolve(layer["weight"], hidden, margin=margin) + layer["bias"]
        if design.groups:
            hidden = nn.group_norm(params[f"norm{i}"], hidden, design.groups)
        # ReLU and maximum commute; this order rectifies a quarter as many
        hidden = jax.nn.relu(nn.max_pool(hidden))
    hidden = hidden.ravel()
    for i in range(len(design.dense)):
        hidden = jax.nn.relu(nn.dense(params[f"dense{i}"], hidden))
    return nn.dense(params[f"dense{len(design.dense)}"], hidden)
