"""MNIST and its relatives: idx files, plain or gzipped, and who wrote each digit.

Source of the format: https://yann.lecun.com/exdb/mnist/ (section FILE FORMATS).
"""

import gzip
import math
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from noiseworthy.data.files import existing, read_npz
from noiseworthy.data.labels import scaled_images
from noiseworthy.data.records import Records
from noiseworthy.errors import DataError

CLASSES = 10
_UNSIGNED_BYTE = 0x08


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Array of unsigned bytes in an idx file.

    Args:
        path: the file; a name ending in .gz is decompressed on the way.

    Returns:
        The array, with the shape that the header states.

    Raises:
        DataError: another magic number, or fewer or more bytes than the header promises.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "two-labels"
        >>> _ = file.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]))
        >>> read_idx(file)
        array([7, 9], dtype=uint8)
    """
    content = _content(path)
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != _UNSIGNED_BYTE or content[3] == 0:
        raise DataError(f"{path} must start with the idx magic 00 00 08, rank; got {content[:4].hex(' ')!r}")
    start = 4 + 4 * content[3]
    # a header that is cut off is filled up with sizes that no file has, to be refused with the others below
    shape = tuple(np.frombuffer(content[4:start].ljust(start - 4, b"\xff"), ">u4").tolist())
    if len(content) - start != math.prod(shape):
        got = max(0, len(content) - start)
        raise DataError(f"{path} must hold {math.prod(shape)} bytes of data, got {got}; copy it again")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def mnist(data_dir: Path) -> Records:
    """MNIST: 60,000 digits of 28x28 pixels in [0, 1] and 10,000 test digits, from `data_dir`/mnist.

    Source: LeCun, Bottou, Bengio & Haffner (1998), "Gradient-based learning applied to document recognition".

    Raises:
        DataError: a file is missing or damaged.
    """
    return _image_folder(data_dir / "mnist", "mnist")


def fashion_mnist(data_dir: Path) -> Records:
    """Fashion-MNIST, as large and of the same shape as MNIST, from `data_dir`/fashion-mnist.

    Source: Xiao, Rasul & Vollgraf (2017), arXiv:1708.07747.

    Raises:
        DataError: a file is missing or damaged.
    """
    return _image_folder(data_dir / "fashion-mnist", "fashion-mnist")


def mnist_writers(data_dir: Path) -> Records:
    """MNIST with the writer of every training digit as its owner: 539 people, 19 to 131 digits each.

    The writers of the 10,000 test digits are other people, so the common test set measures new writers.
    It is not FEMNIST: it has the ten digits only.

    Source: the writer numbers are those of QMNIST (Yadav & Bottou 2019, arXiv:1905.10498).

    Raises:
        DataError: a file is missing or damaged, or names another number of digits.
    """
    path = data_dir / "mnist" / "mnist_writers.npz"
    records = mnist(data_dir)
    writers = read_npz(path).get("train_writer")
    if writers is None or len(writers) != len(records):
        raise DataError(f"{path} must hold train_writer with {len(records)} entries, one per digit")
    return replace(records, name="mnist-writers", client_ids=writers)


def _image_folder(folder: Path, name: str) -> Records:
    x, y = _image_pair(folder, "train")
    test_x, test_y = _image_pair(folder, "t10k")
    return Records(x, y, test_x, test_y, CLASSES, name)


def _image_pair(folder: Path, part: str) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    images = read_idx(_plain_or_gz(folder / f"{part}-images-idx3-ubyte"))
    labels = read_idx(_plain_or_gz(folder / f"{part}-labels-idx1-ubyte"))
    if images.ndim != 3 or labels.shape != images.shape[:1]:
        raise DataError(f"{folder}: {part} images have shape {images.shape} but labels {labels.shape}")
    if labels.size and labels.max() >= CLASSES:
        raise DataError(f"{folder}: {part} labels must lie in 0..{CLASSES - 1}, got {labels.max()}")
    return scaled_images(images), labels.astype(np.int32)


def _plain_or_gz(path: Path) -> Path:
    return path if path.is_file() else existing(path.with_name(path.name + ".gz"))


def _content(path: Path) -> bytes:
    raw = existing(path).read_bytes()
    if path.suffix != ".gz":
        return raw
    try:
        return gzip.decompress(raw)
    except (EOFError, OSError, zlib.error) as cause:
        raise DataError(f"{path} is not a complete gzip file ({cause}); copy or download it again") from None
