"""Synthetic images drawn from a prior over what sets of images are like: strokes, silhouettes, scenes, views.

For images what `prior` is for tables. A class is a few shapes, and every image shows one of them moved,
turned, bent and lit in a way of its own, so that no linear model is perfect. The kinds differ in what plans
turn on: how much of an image is its set's mean, and how far a linear model gets.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray

from noiseworthy import _validate as check
from noiseworthy.data.prior import PRIOR
from noiseworthy.data.records import Records

RECORDS = 2000
_TEST = 0.25
_SEED = 20
_POINTS, _ALONG = 4, 14
"""Points that bend a stroke, and places along it at which the pen is pressed down."""
_HARMONICS = np.arange(1, 6)
"""Of the angle, in the outline of a silhouette."""
_FINE = 24
"""Pixels along the longer side of what is drawn, at least: smaller images are means of finer ones."""
_EDGE = 0.06
"""Softness of an outline, in halves of an image's side."""

Floats = NDArray[np.floating]
Labels = NDArray[np.int32]
Generator = np.random.Generator


def prior_images(
    record_shape: tuple[int, ...], classes: int, seed: int, *, records: int = RECORDS
) -> Records:
    """A set of images drawn from the prior: always the same one for the same arguments.

    Seeds 0, 3, 6, ... are strokes on black, seeds 1, 4, 7, ... bright silhouettes on black, and seeds 2, 8,
    14, ... silhouettes in a scene, brighter or darker than it is, of which a linear model makes out least.
    Seeds 5, 11, 17, ... are views, such scenes as unlike in light, contrast and texture as photographs are.

    Args:
        record_shape: (H, W), or (H, W, channels, ...).
        classes: number of classes K, all of one size.
        seed: of everything.
        records: how many, a quarter of them to test.

    Returns:
        Images from 0 to 1; each class occurs among the private records.

    Raises:
        InvalidInput: too few records for the classes.

    Example:
        >>> images = prior_images((8, 8), 3, seed=0)
        >>> images.x.shape, images.test_x.shape, float(images.x.max()) <= 1
        ((1500, 8, 8), (500, 8, 8), True)
    """
    n = check.count("records", records, least=8 * classes, remedy="take eight for each class")
    rng = np.random.default_rng([_SEED, check.count("seed", seed, least=0)])
    (height, width), channels = record_shape[:2], record_shape[2:]
    labels = rng.permutation(np.arange(n) % classes).astype(np.int32)
    kinds = (_strokes, _silhouettes, _scenes, _strokes, _silhouettes, _views)
    draw, finer = kinds[seed % len(kinds)], math.ceil(_FINE / max(height, width))
    drawn = draw((finer * height, finer * width), labels, classes, rng)
    images = drawn.reshape(n, height, finer, width, finer).mean(axis=(2, 4))
    if channels:
        images = _coloured(images, labels, classes, math.prod(channels), rng).reshape(n, *record_shape)
    x, kept = np.clip(images, 0, 1).astype(np.float32), n - round(_TEST * n)
    return Records(x[:kept], labels[:kept], x[kept:], labels[kept:], classes, f"{PRIOR}:{seed}")


def _strokes(side: tuple[int, int], labels: Labels, classes: int, rng: Generator) -> Floats:
    """Curves drawn with a soft pen, bent another way in every image, shape (images, pixels)."""
    shown = _shapes(labels, classes, rng)
    strokes = int(rng.integers(2, 4))
    shapes = rng.uniform(-0.7, 0.7, (shown.max() + 1, 2, strokes, _POINTS))
    bent = shapes[shown] + rng.uniform(0.02, 0.07) * rng.standard_normal((len(labels), *shapes.shape[1:]))
    t = np.linspace(0, 1, _ALONG)
    bezier = np.stack([(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3])
    curves = (bent @ bezier).reshape(len(labels), 2, -1).astype(np.float32)
    pen = rng.uniform(0.09, 0.18) * np.exp(0.15 * rng.standard_normal(len(labels))).astype(np.float32)
    x, y = _places(side, len(labels), rng)
    ink = np.zeros_like(x)
    for place in np.moveaxis(curves, 2, 0):
        far = (x - place[:, :1]) ** 2 + (y - place[:, 1:]) ** 2
        ink = np.maximum(ink, np.exp(-far / (2 * pen[:, None] ** 2)))
    return _lit(np.minimum(1.3 * ink, 1), rng)


def _silhouettes(side: tuple[int, int], labels: Labels, classes: int, rng: Generator) -> Floats:
    """Bright shapes on black, with a pattern that is partly their class's, shape (images, pixels)."""
    inside = _inside(side, _outlines(labels, classes, rng), rng)
    pattern = 0.25 * _fields(side, len(labels), 1.0, rng)
    pattern += rng.uniform(0.0, 0.15) * _fields(side, classes, 1.5, rng)[labels]
    bright = rng.uniform(0.45, 0.75, classes)[labels, None] + 0.1 * rng.standard_normal((len(labels), 1))
    return _lit(inside * np.clip(bright + pattern, 0.05, 1), rng)


def _scenes(side: tuple[int, int], labels: Labels, classes: int, rng: Generator) -> Floats:
    """Shapes in a scene, whose light is partly that of their class, shape (images, pixels)."""
    inside = _inside(side, _outlines(labels, classes, rng), rng)
    scene = rng.uniform(0.12, 0.2) * _fields(side, len(labels), 1.3, rng)
    scene += rng.uniform(0.02, 0.05) * _fields(side, classes, 2.0, rng)[labels]
    contrast = _of_image_and_class(0.15, 0.08, labels, classes, rng)
    level = 0.5 + _of_image_and_class(0.1, 0.04, labels, classes, rng)
    return _lit(level + scene + contrast * inside, rng)


def _views(side: tuple[int, int], labels: Labels, classes: int, rng: Generator) -> Floats:
    """Shapes in a scene, whose light and texture are partly those of their class, shape (images, pixels)."""
    of = partial(_of_image_and_class, labels=labels, classes=classes, rng=rng)
    inside = _inside(side, _outlines(labels, classes, rng), rng)
    scene = rng.uniform(0.12, 0.2) * _textures(side, 1.3 + of(0.25, 0.2), (of(0.4, 0.35), of(0.4, 0.35)), rng)
    scene += rng.uniform(0.02, 0.05) * _fields(side, classes, 2.0, rng)[labels]
    return _lit(0.5 + of(0.18, 0.08) + np.exp(of(0.6, 0.45)) * scene + of(0.15, 0.08) * inside, rng)


def _shapes(labels: Labels, classes: int, rng: Generator) -> NDArray[np.int64]:
    """Which of the shapes of its class each image shows, as a place among all shapes."""
    each = 2 if classes > 2 else 4
    return labels + classes * rng.integers(0, each, len(labels))


def _places(side: tuple[int, int], count: int, rng: Generator) -> tuple[Floats, Floats]:
    """Where in its shape's own coordinates each pixel of each image lies, shape (images, pixels) each.

    Every image is shifted, turned, sheared and scaled a little.
    """
    y, x = (one.ravel() for one in np.meshgrid(*[np.linspace(-1, 1, n) for n in side], indexing="ij"))
    loose = rng.uniform(0.3, 1.1)
    turn, shear = 0.15 * loose * rng.standard_normal((2, count, 1))
    scale = np.exp(0.1 * loose * rng.standard_normal((2, count, 1)))
    shift = 0.1 * loose * rng.standard_normal((2, count, 1))
    x, y = x - shift[0], y - shift[1]
    x, y = np.cos(turn) * x + np.sin(turn) * y, np.cos(turn) * y - np.sin(turn) * x
    return ((x + shear * y) / scale[0]).astype(np.float32), (y / scale[1]).astype(np.float32)


def _outlines(labels: Labels, classes: int, rng: Generator) -> Floats:
    """Each image's outline as cosines and sines of the angle, shape (images, 2, harmonics).

    Some classes have nearly the same.
    """
    shown = _shapes(labels, classes, rng)
    fall, size = 0.3 / _HARMONICS, (2, len(_HARMONICS))
    common = fall * rng.standard_normal((max(2, classes // 2), *size))
    own = rng.uniform(0.4, 1) * fall * rng.standard_normal((shown.max() + 1, *size))
    shapes = common[rng.integers(0, len(common), len(own))] + own
    return shapes[shown] + 0.35 * fall * rng.standard_normal((len(labels), *size))


def _inside(side: tuple[int, int], outlines: Floats, rng: Generator) -> Floats:
    """1 inside of each image's outline, 0 outside, shape (images, pixels)."""
    x, y = _places(side, len(outlines), rng)
    angle, radius = np.arctan2(y, x), np.hypot(x, y)
    edge = np.full_like(radius, 0.65)
    for order, (cosines, sines) in zip(_HARMONICS, np.moveaxis(outlines, 2, 0).swapaxes(1, 2), strict=True):
        edge += cosines[:, None] * np.cos(order * angle) + sines[:, None] * np.sin(order * angle)
    return 1 / (1 + np.exp(np.clip((radius - edge) / _EDGE, -30, 30)))


def _fields(side: tuple[int, int], count: int, fall: float, rng: Generator) -> Floats:
    """Random fields of variance 1 whose amplitudes are frequency^-fall, shape (count, pixels)."""
    frequency = np.hypot(*np.meshgrid(*[n * np.fft.fftfreq(n) for n in side], indexing="ij"))
    amplitude = np.where(frequency > 0, np.maximum(frequency, 1) ** -fall, 0)
    waves = np.fft.fft2(rng.standard_normal((count, *side)))
    fields = np.fft.ifft2(amplitude * waves).real.reshape(count, -1)
    return (fields / max(fields.std(), 1e-9)).astype(np.float32)


def _textures(side: tuple[int, int], fall: Floats, lean: tuple[Floats, Floats], rng: Generator) -> Floats:
    """Random fields of expected variance 1, of a grain and a direction each, shape (images, pixels).

    Amplitudes are frequency^-fall e^(u cos 2a + v sin 2a) at an angle a, (u, v) being the lean.
    """
    y, x = np.meshgrid(*[n * np.fft.fftfreq(n) for n in side], indexing="ij")
    frequency, twice = np.hypot(y, x), 2 * np.arctan2(y, x)
    fall, u, v = (one[..., None] for one in (fall, *lean))
    leaning = np.exp(u * np.cos(twice) + v * np.sin(twice))
    amplitude = np.where(frequency > 0, np.maximum(frequency, 1) ** -fall * leaning, 0)
    size = np.sqrt(np.mean(amplitude**2, axis=(1, 2), keepdims=True))
    waves = np.fft.fft2(rng.standard_normal((len(fall), *side)))
    fields = np.fft.ifft2(amplitude / np.maximum(size, 1e-9) * waves).real
    return fields.reshape(len(fall), -1).astype(np.float32)


def _of_image_and_class(own: float, common: float, labels: Labels, classes: int, rng: Generator) -> Floats:
    """A number of each image that varies within and between classes, shape (images, 1)."""
    return own * rng.standard_normal((len(labels), 1)) + common * rng.standard_normal(classes)[labels, None]


def _lit(images: Floats, rng: Generator) -> Floats:
    """Every image as dark as its own light makes it, with the noise of a camera."""
    light = np.exp(-np.abs(rng.uniform(0.05, 0.3) * rng.standard_normal((len(images), 1))))
    return light * images + 0.02 * rng.standard_normal(images.shape)


def _coloured(images: Floats, labels: Labels, classes: int, channels: int, rng: Generator) -> Floats:
    """Every image in a colour of its own, which is partly its class's, shape (images, H, W, channels)."""
    tints = 0.1 * rng.standard_normal((classes, channels))[labels]
    tints += 0.1 * rng.standard_normal((len(labels), channels))
    return images[..., None] * np.exp(tints)[:, None, None, :]
