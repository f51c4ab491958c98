"""LEAF folders: JSON files of users, their features and labels.

A folder holds `train/` and `test/`, each with any number of files
{"users": [...], "num_samples": [...], "user_data": {user: {"x": [...], "y": [...]}}}. Its FEMNIST has images
as flat lists of 28 x 28 numbers, black ink 0 on white paper 1.

Source: Caldas et al. (2018), "LEAF: A Benchmark for Federated Settings", arXiv:1812.01097.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseworthy.data.federation import finite
from noiseworthy.data.labels import class_numbers
from noiseworthy.data.records import Records, classes_among
from noiseworthy.errors import DataError

User = tuple[str, NDArray[np.float32], NDArray]
_SIDE = 28
_WHITE = 0.5
"""A frame that is brighter than this in the median is white paper."""


def read_leaf(folder: Path, classes: Sequence[str | int] | None = None) -> Records:
    """Records of a LEAF folder; users are the owners, and the test records of all users are pooled.

    Records of 784 numbers are FEMNIST's and become images of 28 x 28 (`femnist_images`).

    Args:
        folder: holds `train/*.json` and `test/*.json` with numeric features.
        classes: all labels that there are, in their order; None takes those that occur, sorted.

    Returns:
        Records with the labels numbered 0..K-1, in the order of the files. A user without training records
        owns nothing and is no client.

    Raises:
        DataError: a missing folder, damaged JSON, text features, counts that disagree, or NaN values.
    """
    train, test = (list(_users(folder / part)) for part in ("train", "test"))
    x, test_x = (femnist_images(_joined([one for _, one, _ in part], folder)) for part in (train, test))
    labels = np.concatenate([y for *_, y in train + test])
    y, count = class_numbers(labels, f"{folder}: y", classes)
    owners, tests = (np.concatenate([np.full(len(y), user) for user, _, y in part]) for part in (train, test))
    return Records(
        x, y[: len(x)], test_x, y[len(x) :], count, folder.name, client_ids=owners, test_origin="marked",
        classes_found=() if classes else classes_among(labels), test_client_ids=tests,
    )  # fmt: skip


def femnist_images(records: NDArray[np.float32]) -> NDArray[np.float32]:
    """FEMNIST's records as the images of other data sets are: ink 1 on paper 0.

    An image whose frame, its outermost pixels, is white in the median is turned, 1 - x; each record alone
    decides that, so that none has a say in what becomes of another.

    Args:
        records: of any shape; only those of 784 numbers are touched, flat or not.

    Returns:
        Shape (n, 28, 28) for those, else as they are.

    Example:
        >>> images = femnist_images(np.ones((2, 784), np.float32))
        >>> images.shape, float(images.max())
        ((2, 28, 28), 0.0)
    """
    if records.shape[1:] not in ((_SIDE**2,), (_SIDE, _SIDE)):
        return records
    images = records.reshape(-1, _SIDE, _SIDE)
    frame = np.ones((_SIDE, _SIDE), bool)
    frame[1:-1, 1:-1] = False
    white = np.median(images[:, frame], axis=1) > _WHITE
    return np.where(white[:, None, None], 1 - images, images)


def _users(folder: Path) -> Iterator[User]:
    files = sorted(folder.glob("*.json"))
    if not files:
        raise DataError(f"no JSON files in {folder}; a LEAF folder holds train/*.json and test/*.json")
    for file in files:
        yield from _users_of_file(file)


def _users_of_file(file: Path) -> Iterator[User]:
    content = _parsed(file)
    try:
        counts = dict(zip(content["users"], content["num_samples"], strict=False))
        for user in content["users"]:
            data = content["user_data"][user]
            yield _user(user, data["x"], data["y"], counts[user], file)
    except (KeyError, TypeError) as cause:
        said = "a LEAF file holds users, num_samples and user_data of x and y"
        raise DataError(f"{file} lacks {cause}; {said}") from None


def _parsed(file: Path) -> Any:
    try:
        return json.loads(file.read_bytes())
    except ValueError as cause:
        raise DataError(f"{file} is not valid JSON: {cause}") from None


def _user(user: str, x: list, y: list, samples: int, file: Path) -> User:
    if not len(x) == len(y) == samples:
        held = f"{len(x)} features and {len(y)} labels"
        raise DataError(f"{file}: user {user!r} has {held}, num_samples says {samples}")
    if (labels := np.asarray(y)).dtype == object:
        raise DataError(f"{file}: user {user!r} has records without a label; drop those records first")
    return user, finite(x, f"{file}: user {user!r} has features"), labels


def _joined(blocks: list[NDArray[np.float32]], folder: Path) -> NDArray[np.float32]:
    filled = [block for block in blocks if len(block)]
    shapes = {block.shape[1:] for block in filled}
    if len(shapes) != 1:
        raise DataError(f"{folder}: all records must have one shape, got {sorted(shapes)}")
    return np.concatenate(filled)
