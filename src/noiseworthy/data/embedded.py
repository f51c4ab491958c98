"""Small public data sets of scikit-learn, which ship with the product: nothing to download.

All are split 80/20, stratified by class, by a fixed seed. Features are scaled by constants that were
published with the data, never by statistics of the records at hand, which would read private data. Data of
your own deserve the same care: scale them by ranges known beforehand.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from noiseworthy.data.files import read_npz
from noiseworthy.data.records import Records, holdout, split_records

FILE = Path(__file__).parent / "shipped" / "bundled.npz"

# Ranges as printed in the data sets' descriptions (`load_breast_cancer().DESCR` and so on), in column order.
BREAST_CANCER_LOW = (
    6.981, 9.71, 43.79, 143.5, 0.053, 0.019, 0.0, 0.0, 0.106, 0.05,
    0.112, 0.36, 0.757, 6.802, 0.002, 0.002, 0.0, 0.0, 0.008, 0.001,
    7.93, 12.02, 50.41, 185.2, 0.071, 0.027, 0.0, 0.0, 0.156, 0.055,
)  # fmt: skip
BREAST_CANCER_HIGH = (
    28.11, 39.28, 188.5, 2501.0, 0.163, 0.345, 0.427, 0.201, 0.304, 0.097,
    2.873, 4.885, 21.98, 542.2, 0.031, 0.135, 0.396, 0.053, 0.079, 0.03,
    36.04, 49.54, 251.2, 4254.0, 0.223, 1.058, 1.252, 0.291, 0.664, 0.208,
)  # fmt: skip
WINE_LOW = (11.0, 0.74, 1.36, 10.6, 70.0, 0.98, 0.34, 0.13, 0.41, 1.3, 0.48, 1.27, 278.0)
WINE_HIGH = (14.8, 5.80, 3.23, 30.0, 162.0, 3.88, 5.08, 0.66, 3.58, 13.0, 1.71, 4.00, 1680.0)
IRIS_LOW = (4.3, 2.0, 1.0, 0.1)
IRIS_HIGH = (7.9, 4.4, 6.9, 2.5)
DIABETES_LOW = (19.0, 1.0, 18.0, 62.0, 97.0, 41.6, 22.0, 2.0, 3.26, 58.0)
DIABETES_HIGH = (79.0, 2.0, 42.2, 133.0, 301.0, 242.4, 99.0, 9.09, 6.11, 124.0)
DIABETES_PROGRESSES = 140
PROGRESSION_LOW, PROGRESSION_HIGH = (25.0,), (346.0,)


def digits() -> Records:
    """Handwritten digits: 1,797 images of 8x8 pixels in [0, 1], 10 classes.

    Source: Alpaydin & Kaynak (1998), "Optical recognition of handwritten digits", CC BY 4.0.

    Example:
        >>> records = digits()
        >>> records.x.shape, records.test_x.shape, records.classes
        ((1438, 8, 8), (359, 8, 8), 10)
    """
    pixels, labels = bundled("digits")
    return _stratified(pixels.reshape(-1, 8, 8) / 16.0, labels, "digits")


def breast_cancer() -> Records:
    """Breast cancer: 569 records of 30 features in [-1, 1], 2 classes (malignant 0, benign 1).

    Source: Wolberg, Street & Mangasarian (1995), "Breast cancer Wisconsin (diagnostic)", CC BY 4.0.

    Example:
        >>> breast_cancer().record_shape
        (30,)
    """
    return _table("breast_cancer", BREAST_CANCER_LOW, BREAST_CANCER_HIGH)


def wine() -> Records:
    """Wine recognition: 178 records of 13 features in [-1, 1], 3 classes.

    Source: Forina et al. (1988), "PARVUS", CC BY 4.0.

    Example:
        >>> wine().classes
        3
    """
    return _table("wine", WINE_LOW, WINE_HIGH)


def iris() -> Records:
    """Iris plants: 150 records of 4 features in [-1, 1], 3 classes.

    Source: Fisher (1936), "The use of multiple measurements in taxonomic problems", CC BY 4.0.

    Example:
        >>> iris().x.shape
        (120, 4)
    """
    return _table("iris", IRIS_LOW, IRIS_HIGH)


def diabetes() -> Records:
    """Diabetes: 442 patients, 10 features in [-1, 1]; did the disease progress by more than 140 in a year?

    A hard problem: a linear model answers right in about three of four cases.

    Source: Efron et al. (2004), "Least angle regression"; the measure of progression, 25 to 346, is cut.

    Example:
        >>> diabetes().classes
        2
    """
    patients, progression = bundled("diabetes")
    features = _to_unit(patients, DIABETES_LOW, DIABETES_HIGH)
    return _stratified(features, progression > DIABETES_PROGRESSES, "diabetes")


def diabetes_progression() -> Records:
    """Diabetes: 442 patients, 10 features in [-1, 1]; a regression on how far the disease progressed.

    The measure of progression, published as 25 to 346, is scaled to [-1, 1]. A linear model explains about
    half of its variance.

    Source: Efron et al. (2004), "Least angle regression".

    Example:
        >>> records = diabetes_progression()
        >>> records.classes, records.x.shape, float(abs(records.y).max())
        (None, (354, 10), 1.0)
    """
    patients, progression = bundled("diabetes")
    features = _to_unit(patients, DIABETES_LOW, DIABETES_HIGH).astype(np.float32)
    targets = _to_unit(progression, PROGRESSION_LOW, PROGRESSION_HIGH).astype(np.float32)
    is_test = holdout(np.zeros(len(targets), int))
    return split_records(features, targets, is_test, classes=None, name="diabetes-progression")


def bundled(name: str) -> tuple[NDArray, NDArray]:
    """Features as they were measured, shape (n, d), and labels or numbers, of a data set of scikit-learn.

    They are kept here because importing scikit-learn takes over a second.
    """
    arrays = read_npz(FILE)
    return arrays[f"{name} x"], arrays[f"{name} y"]


def _table(name: str, low: tuple[float, ...], high: tuple[float, ...]) -> Records:
    x, y = bundled(name)
    return _stratified(_to_unit(x, low, high), y, name.replace("_", "-"))


def _to_unit(x: NDArray, low: tuple[float, ...], high: tuple[float, ...]) -> NDArray:
    """Features mapped from their published ranges to [-1, 1]."""
    return 2 * np.clip((x - np.array(low)) / (np.array(high) - np.array(low)), 0, 1) - 1


def _stratified(x: NDArray, y: NDArray, name: str) -> Records:
    y = y.astype(np.int32)
    return split_records(x.astype(np.float32), y, holdout(y), classes=int(y.max()) + 1, name=name)
