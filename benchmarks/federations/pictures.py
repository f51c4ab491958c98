"""Sets of images: digits of scikit-learn and those of the data folder, some smaller than they were."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from federations.source import Images, Source
from noiseworthy.data import load_records

WRITERS = 150
"""Writers of MNIST that are owners: the first by number, some 110 digits each."""


def images(name: str, side: int = 1, grey: bool = False) -> Images:
    """Training and test images of a source together, blocks of side x side pixels averaged."""
    records = load_records(name)
    x, y = (np.concatenate(pair) for pair in ((records.x, records.test_x), (records.y, records.test_y)))
    return Images(_bytes(smaller(x.mean(axis=-1) if grey else x, side)), y.astype(np.int32))


def writers() -> Images:
    """MNIST by who wrote it."""
    records = load_records("mnist-writers")
    ids = np.asarray(records.client_ids)
    kept = np.isin(ids, np.unique(ids)[:WRITERS])
    return Images(_bytes(records.x[kept]), records.y[kept].astype(np.int32), ids[kept])


def odd() -> Images:
    """MNIST on a quarter of the pixels: is a digit odd?"""
    found = images("mnist", 2)
    return found._replace(y=found.y % 2)


def smaller(x: NDArray, side: int) -> NDArray:
    """Images (n, height, width, ...) with blocks of side x side pixels averaged."""
    if side == 1:
        return x
    n, height, width, *rest = x.shape
    blocks = x.reshape(n, height // side, side, width // side, side, *rest)
    return blocks.mean(axis=(2, 4))


def _bytes(x: NDArray) -> NDArray[np.uint8]:
    return np.rint(255 * x).astype(np.uint8)


_NOT_STATED = "not stated"
_MNIST = ("LeCun et al. (1998)", "CC BY-SA 3.0")
_CIFAR = ("Krizhevsky (2009)", _NOT_STATED)
_ROWS: tuple[tuple[str, str, Callable[[], Images], int, str, str, str], ...] = (
    ("digits", "digits", partial(images, "digits"), 10, "sklearn",
     "Alpaydin & Kaynak (1998), UCI", "CC BY 4.0"),
    ("mnist", "mnist", partial(images, "mnist"), 10, "folder", *_MNIST),
    ("mnist-odd", "mnist", odd, 2, "folder", *_MNIST),
    ("mnist-writers", "mnist", writers, 10, "folder", *_MNIST),
    ("fashion-mnist", "fashion-mnist", partial(images, "fashion-mnist"), 10, "folder",
     "Xiao, Rasul & Vollgraf (2017)", "MIT"),
    ("cifar10-grey", "cifar10", partial(images, "cifar10", 2, grey=True), 10, "folder", *_CIFAR),
    ("cifar10-colour", "cifar10", partial(images, "cifar10", 4), 10, "folder", *_CIFAR),
    ("pneumoniamnist", "pneumoniamnist", partial(images, "pneumoniamnist"), 2, "folder",
     "Yang et al. (2023), MedMNIST v2", "CC BY 4.0"),
)  # fmt: skip
PICTURES = tuple(
    Source(name, parent, read, {}, n_classes, needs, origin, licence)
    for name, parent, read, n_classes, needs, origin, licence in _ROWS
)
