"""Wavelet scattering: features of an image that need no training and no data, from a filter bank alone."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from noiseworthy._jax import Array, jnp, lax
from noiseworthy.errors import InvalidInput
from noiseworthy.tasks.images import image_shape

ORIENTATIONS = 8
"""L, of the wavelets of each of the J = 2 scales."""
CHANNELS = 1 + 2 * ORIENTATIONS + ORIENTATIONS**2
"""Per colour: the image, |image * wavelet| of both scales, and || image * fine | * coarse |, all smoothed."""
STRIDE = 4
"""Pixels between numbers of a channel, 2^J."""
_LEAST_SIDE = 6
_SIGMA, _FREQUENCY, _SLANT = 0.8, 3 / 4 * np.pi, 4 / ORIENTATIONS
"""Of the finest wavelet: width of its envelope, centre frequency, and how round the envelope is."""


class _Bank(NamedTuple):
    """The filters for images of one size, padded to (M, N).

    Attributes:
        margins: pixels that are mirrored before and after each axis.
        fine: transforms of the wavelets of scale 0, shape (L, M, N).
        coarse: of scale 1, the same shape.
        smooth: matrices that smooth an axis and keep every fourth number inside, for images that are not
            thinned: rows and columns.
        thinned: the same for images that were thinned to every second pixel.
    """

    margins: tuple[tuple[int, int], ...]
    fine: NDArray[np.float32]
    coarse: NDArray[np.float32]
    smooth: tuple[NDArray[np.float32], ...]
    thinned: tuple[NDArray[np.float32], ...]


def shape_after(record_shape: tuple[int, ...]) -> tuple[int, ...]:
    """Shape of the features of an image: channels, those of each colour in turn, and a thinned image.

    Raises:
        InvalidInput: records that are no images, or are smaller than 6 pixels a side.

    Example:
        >>> shape_after((28, 28)), shape_after((32, 32, 3))
        ((81, 7, 7), (243, 8, 8))
    """
    image = image_shape("scattering", record_shape)
    if len(image) not in (2, 3) or min(image[:2]) < _LEAST_SIDE:
        raise InvalidInput(
            f'features = "scattering" needs images of at least {_LEAST_SIDE} x {_LEAST_SIDE} pixels, got '
            f"records of shape {tuple(record_shape)}; leave it out"
        )
    colours = image[2] if len(image) == 3 else 1
    return CHANNELS * colours, image[0] // STRIDE, image[1] // STRIDE


def scattering(x: Array) -> Array:
    """Scattering coefficients of images, J = 2 scales, L = 8 orientations, orders 0 to 2.

        S0 = x * phi,    S1 = |x * psi_1| * phi,    S2 = ||x * psi_1| * psi_2| * phi

    with the Morlet wavelets psi_1 of both scales, psi_2 of the coarser one after the finer, and a Gaussian
    phi, thinned by four along each axis; borders are mirrored.

    Args:
        x: images, shape (n, H, W), (n, H, W, colours) or (n, H^2).

    Returns:
        float32, shape (n, 81 colours, H // 4, W // 4).

    Raises:
        InvalidInput: as `shape_after`.

    Guarantee: deterministic, and each image's numbers depend on that image alone.

    Source: Bruna and Mallat (2013), with the filters of Andreux et al. (2020), Kymatio.
    """
    channels, rows, columns = shape_after(x.shape[1:])
    height, width, *colours = image_shape("scattering", x.shape[1:])
    bank = _bank(height, width)
    images = jnp.moveaxis(x.reshape(len(x), height, width, *(colours or [1])), 3, 1)
    padded = jnp.pad(images.reshape(-1, height, width), ((0, 0), *bank.margins), mode="reflect")
    seen = jnp.fft.fft2(padded)
    first = jnp.abs(jnp.fft.ifft2(_through(seen[:, None], bank.fine)))
    second = _halved(_through(seen[:, None], bank.coarse))
    both = _halved(_through(jnp.fft.fft2(first)[:, :, None], bank.coarse))
    orders = [
        _smoothed(padded[:, None], bank.smooth),
        _smoothed(first, bank.smooth),
        _smoothed(jnp.concatenate([second, both.reshape(len(both), -1, *both.shape[3:])], 1), bank.thinned),
    ]
    return jnp.concatenate(orders, axis=1).reshape(len(x), channels, rows, columns)


def _through(transforms: Array, filters: NDArray[np.float32]) -> Array:
    """Products with transforms of wavelets, which are real."""
    return lax.complex(transforms.real * filters, transforms.imag * filters)


def _halved(transforms: Array) -> Array:
    """Moduli of every second pixel, from transforms of shape (..., M, N)."""
    *lead, rows, columns = transforms.shape
    folded = transforms.reshape(*lead, 2, rows // 2, 2, columns // 2).mean(axis=(-4, -2))
    return jnp.abs(jnp.fft.ifft2(folded))


def _smoothed(images: Array, along: tuple[NDArray[np.float32], ...]) -> Array:
    rows, columns = along
    return jnp.einsum("rm,ncmk,sk->ncrs", rows, images, columns, precision="highest", optimize=True)


@lru_cache(maxsize=8)
def _bank(height: int, width: int) -> _Bank:
    sides = [(side // STRIDE + 2) * STRIDE for side in (height, width)]
    low = [(long - side) // 2 for long, side in zip(sides, (height, width), strict=True)]
    margins = tuple((b, long - side - b) for b, long, side in zip(low, sides, (height, width), strict=True))
    fine, coarse = (
        np.stack([_morlet(sides[0], sides[1], scale, turn) for turn in range(ORIENTATIONS)])
        for scale in (0, 1)
    )
    return _Bank(
        margins, fine, coarse,
        tuple(_smoother(side, 1) for side in sides), tuple(_smoother(side, 2) for side in sides),
    )  # fmt: skip


def _morlet(rows: int, columns: int, scale: int, turn: int) -> NDArray[np.float32]:
    """The transform of a Morlet wavelet, a wave in an envelope less what makes its mean other than zero."""
    angle = (ORIENTATIONS // 2 - 1 - turn) * np.pi / ORIENTATIONS
    wave = _gabor(rows, columns, 2**scale, angle, _FREQUENCY / 2**scale)
    envelope = _gabor(rows, columns, 2**scale, angle, 0.0)
    return np.fft.fft2(wave - wave.sum() / envelope.sum() * envelope).real.astype(np.float32)


def _gabor(rows: int, columns: int, scale: int, angle: float, frequency: float) -> NDArray[np.complex128]:
    """A wave in an elliptic Gaussian on a torus, which takes the tails of five copies an axis."""
    i, j = np.mgrid[-2 * rows : 3 * rows, -2 * columns : 3 * columns]
    along, across = i * np.cos(angle) + j * np.sin(angle), j * np.cos(angle) - i * np.sin(angle)
    width = _SIGMA * scale
    shape = -(along**2 + (_SLANT * across) ** 2) / (2 * width**2) + 1j * frequency * along
    values = np.exp(shape) * _SLANT / (2 * np.pi * width**2)
    return values.reshape(5, rows, 5, columns).sum(axis=(0, 2))


def _smoother(side: int, step: int) -> NDArray[np.float32]:
    """The matrix that smooths an axis of every `step`-th pixel and keeps each fourth pixel, borders off."""
    width, places = _SIGMA * STRIDE / 2, np.arange(-2 * side, 3 * side)
    bell = np.exp(-(places**2) / (2 * width**2)) / np.sqrt(2 * np.pi * width**2)
    transform = np.fft.fft(bell.reshape(5, side).sum(axis=0)).real
    few = side // step
    if step > 1:
        # frequencies that images of every `step`-th pixel cannot hold, which folding would add to lower ones
        transform[few // 2 : few // 2 + side - few] = 0.0
        transform = transform.reshape(step, few).sum(axis=0)
    circular = np.fft.ifft(np.fft.fft(np.eye(few), axis=0) * transform[:, None], axis=0).real
    return circular[:: STRIDE // step][1:-1].astype(np.float32)
