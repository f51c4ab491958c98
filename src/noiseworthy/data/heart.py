"""Heart disease: are the coronary vessels of a patient narrowed? Thirteen findings from four hospitals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseworthy.data.files import read_frame
from noiseworthy.data.records import Records, holdout, split_records
from noiseworthy.errors import DataError

REFERENCES: dict[str, tuple[float, float]] = {
    "age": (50.0, 10.0),
    "trestbps": (120.0, 20.0),
    "chol": (200.0, 40.0),
    "thalach": (150.0, 20.0),
    "oldpeak": (0.0, 1.0),
    "ca": (0.0, 1.0),
}
"""What is unremarkable, and a step away from it, as clinicians reckon: years, mm Hg of systolic pressure at
rest, mg/dl of cholesterol, heart beats a minute under exercise, mm of ST depression, vessels on fluoroscopy.
None of them was computed from these patients."""
CODE_BOOK: dict[str, tuple[int, ...]] = {
    "sex": (0, 1),
    "cp": (1, 2, 3, 4),
    "fbs": (0, 1),
    "restecg": (0, 1, 2),
    "exang": (0, 1),
    "slope": (1, 2, 3),
    "thal": (3, 6, 7),
}
"""The values of each category in the order of the published code book (heart-disease.names)."""
DEGREES = (0, 1, 2, 3, 4)
_NEVER_ZERO = ("trestbps", "chol")


def heart_disease(data_dir: Path) -> Records:
    """Heart Disease (UCI): 920 patients of four hospitals as 25 numbers, a fifth of each hospital to test.

    Class 1 has a vessel narrowed by half or more (num above 0). The preparation reads no patient: see
    `features`. The owner of a record is its hospital; their shares of class 1 run from 0.36 to 0.93, and
    three of them left most findings of fluoroscopy and thallium scans out.

    Args:
        data_dir: holds heart-disease/heart_disease_4sites.csv.gz.

    Returns:
        Records with x (735, 25) and 185 test records; the share of class 1 is 0.55.

    Raises:
        DataError: the file is missing or damaged, or holds a value that the code book lacks.

    Source: Janosi, Steinbrunn, Pfisterer, Detrano (1989), "Heart Disease", UCI Machine Learning Repository,
        CC BY 4.0.
    """
    path = data_dir / "heart-disease" / "heart_disease_4sites.csv.gz"
    patients = read_frame(path)
    for column in ("site", "num", *REFERENCES, *CODE_BOOK):
        if column not in patients:
            raise DataError(f"{path} has no column {column!r}; copy the file again")
    site = patients["site"].to_numpy(str)
    return split_records(
        features(patients), _diseased(patients["num"]), holdout(site), classes=2, name="heart-disease",
        client_ids=site,
    )  # fmt: skip


def features(patients: Any) -> NDArray[np.float32]:
    """Findings as numbers: what is unremarkable, and what was not examined, is 0.

        (value - reference) / step    for the six numbers of `REFERENCES`
        one 0/1 feature per value     for the seven categories of `CODE_BOOK`

    A pressure or cholesterol of 0 is a gap: two hospitals wrote it so.

    Args:
        patients: a pandas DataFrame with those columns, n rows.

    Returns:
        Shape (n, 25).

    Raises:
        DataError: a number that is none, or a value that the code book lacks.

    Guarantee: a row depends on its patient alone.

    Example:
        >>> import pandas as pd
        >>> patient = {"age": 60, "trestbps": 140, "chol": 0, "thalach": None, "oldpeak": 1.5, "ca": None}
        >>> codes = {"sex": 1, "cp": 4, "fbs": 0, "restecg": 0, "exang": 1, "slope": None, "thal": None}
        >>> features(pd.DataFrame([patient | codes], dtype=float))[0, :8].tolist()
        [1.0, 1.0, 0.0, 0.0, 1.5, 0.0, 0.0, 1.0]
    """
    numbers = [_steps_away(_numeric(patients[name]), name)[:, None] for name in REFERENCES]
    categories = [_one_hot(_numeric(patients[name]), name) for name in CODE_BOOK]
    return np.concatenate([*numbers, *categories], axis=1, dtype=np.float32)


def _diseased(degrees: Any) -> NDArray[np.int32]:
    degrees = _numeric(degrees)
    _check_known("num", degrees, DEGREES)
    return (degrees > 0).astype(np.int32)


def _numeric(column: Any) -> NDArray[np.float64]:
    """Numbers, with NaN for gaps."""
    if column.dtype.kind not in "biuf" or np.any(np.isinf(column)):
        raise DataError(f"column {column.name!r} must hold finite numbers or gaps; copy the file again")
    return column.to_numpy(float)


def _steps_away(values: NDArray[np.float64], name: str) -> NDArray[np.float64]:
    reference, step = REFERENCES[name]
    gap = np.isnan(values) | ((values == 0) & (name in _NEVER_ZERO))
    return np.where(gap, 0.0, (values - reference) / step)


def _one_hot(values: NDArray[np.float64], name: str) -> NDArray[np.bool_]:
    _check_known(name, values[~np.isnan(values)], CODE_BOOK[name])
    return values[:, None] == np.array(CODE_BOOK[name])


def _check_known(name: str, values: NDArray[np.float64], known: tuple[int, ...]) -> None:
    strangers = values[~np.isin(values, known)]
    if len(strangers):
        raise DataError(
            f"column {name!r} must hold a value of the code book ({', '.join(map(str, known))}), got "
            f"{strangers[0]:g}; copy the file again"
        )
