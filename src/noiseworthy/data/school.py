"""School: the examination scores of 15,362 pupils in 139 schools of inner London."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from noiseworthy.data.files import read_npz
from noiseworthy.data.records import Records, holdout, split_records
from noiseworthy.data.schema import read_schema
from noiseworthy.data.schema.tables import stated_examples
from noiseworthy.errors import DataError

COLUMNS = Path(__file__).with_name("school.toml")
BEST_SCORE = 70
"""The most that a pupil can score; the targets are shares of it."""
_WIDTH = 28
"""Columns of the file, of which the last is a constant."""


def school(data_dir: Path) -> Records:
    """School (ILEA): 15,362 pupils as 27 numbers in [0, 1], a fifth of each school to test; regression.

    Year, sex, band of verbal reasoning, ethnic group, kind and denomination of the school as zeros and ones,
    and two shares of the school, as `school.toml` beside this file says. The column of ones is left out,
    `bias = true` appends it. The target is the share of the best score, 1/70 to 1. Ranges are those of the
    questionnaire: no record is read for them. The owner of a record is its school, 22 to 251 pupils.

    Args:
        data_dir: holds school/school.npz.

    Returns:
        Records with x (12,293, 27) and 3,069 test records.

    Raises:
        DataError: the file is missing, damaged or holds other arrays.

    Source: Inner London Education Authority 1985 to 1987; the arrays are those of MALSAR.
    """
    x, y, owner = _arrays(data_dir / "school" / "school.npz")
    schema = read_schema(str(COLUMNS))
    scores = np.divide(y, np.float32(BEST_SCORE), dtype=np.float32)
    table = {one.name: column for one, column in zip(schema.features, x.T[:-1], strict=True)}
    features, targets, _, _ = stated_examples(table | {schema.label.name: scores}, schema, "school")
    records = split_records(features, targets, holdout(owner), classes=None, name="school", client_ids=owner)
    return replace(records, schema=schema)


def _arrays(path: Path):
    arrays = read_npz(path, "X", "y", "school")
    x, y, owner = arrays["X"], arrays["y"], arrays["school"]
    if x.shape != (len(x), _WIDTH) or not y.shape == owner.shape == (len(x),):
        raise DataError(
            f"{path} must hold X (n, {_WIDTH}), y (n,) and school (n,), got {x.shape}, {y.shape} and "
            f"{owner.shape}; copy the file again"
        )
    if y.min() < 0 or y.max() > BEST_SCORE:
        raise DataError(f"{path}: y must lie in 0..{BEST_SCORE}, got {y.min()} to {y.max()}")
    return x, y, owner
