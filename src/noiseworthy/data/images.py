"""Images in npz files: CIFAR-10, as exact pixels or as JPEG streams, and X-rays of the chest."""

import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from noiseworthy.data.files import read_npz
from noiseworthy.data.labels import Labels, scaled_images
from noiseworthy.data.records import Records
from noiseworthy.errors import DataError

CIFAR_SHAPE = (32, 32, 3)
CIFAR_CLASSES = 10
XRAY_SHAPE = (28, 28)


def cifar10(data_dir: Path) -> Records:
    """CIFAR-10, a subset with exact pixels: 4,000 images of 32x32x3 in [0, 1] and 1,000 test images.

    Read from `data_dir`/cifar10. The 4,000 are the first of the full training set, so this and `cifar10-jpeg`
    hold the same images twice.

    Source: Krizhevsky (2009), "Learning multiple layers of features from tiny images".

    Raises:
        DataError: the file is missing, damaged or holds other arrays.
    """
    path = data_dir / "cifar10" / "cifar10_lossless_5k.npz"
    arrays = read_npz(path, "x_train", "y_train", "x_test", "y_test")
    train = _pair(arrays["x_train"], arrays["y_train"], CIFAR_SHAPE, CIFAR_CLASSES, path)
    test = _pair(arrays["x_test"], arrays["y_test"], CIFAR_SHAPE, CIFAR_CLASSES, path)
    return Records(*train, *test, CIFAR_CLASSES, "cifar10")


def cifar10_jpeg(data_dir: Path) -> Records:
    """CIFAR-10, all 50,000 + 10,000 images of 32x32x3 in [0, 1], from JPEG streams in `data_dir`/cifar10.

    Compression moved the pixels by 7.9 of 255 grey levels (root mean square), so accuracies cannot be set
    beside published ones to the last per cent. The streams are decoded on every call.

    Source: Krizhevsky (2009), "Learning multiple layers of features from tiny images".

    Raises:
        DataError: the file is missing or damaged, or a stream is no image of this shape.
    """
    path = data_dir / "cifar10" / "cifar10_jpeg_60k.npz"
    arrays = read_npz(path, "jpeg", "offset", "y", "n_train")
    images = _decoded(arrays["jpeg"], arrays["offset"], path)
    x, y = _pair(images, arrays["y"], CIFAR_SHAPE, CIFAR_CLASSES, path)
    cut = int(arrays["n_train"])
    return Records(x[:cut], y[:cut], x[cut:], y[cut:], CIFAR_CLASSES, "cifar10-jpeg")


def pneumoniamnist(data_dir: Path) -> Records:
    """PneumoniaMNIST, two classes made equal: 2,428 X-rays of 28x28 in [0, 1] and 468 test ones.

    Class 0 is normal, 1 pneumonia. Read from `data_dir`/pneumoniamnist; 270 validation images are left out.

    Source: Yang et al. (2023), "MedMNIST v2", Scientific Data 10:41, CC BY 4.0.

    Raises:
        DataError: the file is missing, damaged or holds other arrays.
    """
    path = data_dir / "pneumoniamnist" / "pneumoniamnist_balanced.npz"
    arrays = read_npz(path, "train_images", "train_labels", "test_images", "test_labels")
    train = _pair(arrays["train_images"], arrays["train_labels"].ravel(), XRAY_SHAPE, 2, path)
    test = _pair(arrays["test_images"], arrays["test_labels"].ravel(), XRAY_SHAPE, 2, path)
    return Records(*train, *test, 2, "pneumoniamnist")


def _pair(
    images: NDArray, labels: NDArray, shape: tuple[int, ...], classes: int, path: Path
) -> tuple[NDArray[np.float32], Labels]:
    if images.dtype != np.uint8 or images.shape[1:] != shape or labels.shape != images.shape[:1]:
        raise DataError(
            f"{path} must hold bytes of shape (n, {', '.join(map(str, shape))}) and n labels, "
            f"got {images.dtype} of {images.shape} and {labels.shape}"
        )
    if labels.dtype.kind not in "iu" or np.any((labels < 0) | (labels >= classes)):
        raise DataError(f"{path} must hold whole labels in 0..{classes - 1}, got {np.unique(labels)[-1]}")
    return scaled_images(images), labels.astype(np.int32)


def _decoded(streams: NDArray, offsets: NDArray, path: Path) -> NDArray[np.uint8]:
    """Images of the streams `streams[offsets[i]:offsets[i + 1]]`, shape (n, 32, 32, 3)."""
    content = streams.tobytes()
    images = np.empty((max(0, len(offsets) - 1), *CIFAR_SHAPE), np.uint8)
    for i, image in enumerate(images):
        image[:] = _image(content[offsets[i] : offsets[i + 1]], f"image {i} of {path}")
    return images


def _image(stream: bytes, who: str) -> NDArray[np.uint8]:
    from PIL import Image  # here, because only this source needs it

    try:
        with Image.open(io.BytesIO(stream), formats=("JPEG",)) as image:
            if (*image.size[::-1], len(image.getbands())) != CIFAR_SHAPE:
                raise DataError(f"{who} must be 32x32 in colour, got {image.size} in {image.mode}")
            return np.asarray(image)
    except (OSError, SyntaxError) as cause:
        raise DataError(f"{who} is no complete JPEG stream ({cause}); copy the file again") from None
