"""Vehicle: which of two vehicles passed, from the microphones and geophones of 23 road-side sensors."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from noiseworthy.data.files import read_npz
from noiseworthy.data.records import Records, holdout, split_records
from noiseworthy.data.schema import Schema
from noiseworthy.data.schema.tables import stated_examples
from noiseworthy.errors import DataError

FEATURES = 100
NAME = "vehicle (subset of 1,860 records)"
SCHEMA = Schema.model_validate(
    {f"x{place}": {"kind": "number", "step": 1.0} for place in range(1, FEATURES + 1)}
    | {"vehicle": {"role": "label", "classes": {"-1": -1, "+1": 1}}}
)
"""Standardised readings are numbers as they are; vehicles are called as the file labels them."""


class Readings(NamedTuple):
    """All readings, before a test set is split off.

    Attributes:
        x: acoustic and seismic features, float32, shape (n, 100).
        y: 1 for the vehicle that the file labels +1, 0 for -1; int32, shape (n,).
        sensor: which sensor took the reading, shape (n,).
    """

    x: NDArray[np.float32]
    y: NDArray[np.int32]
    sensor: NDArray[np.int64]


def vehicle(data_dir: Path) -> Records:
    """Vehicle (SensIT), a SUBSET: 1,860 readings of 100 features by 23 sensors, a fifth of each to test.

    The full data hold 1,899 readings per sensor on average. These are 1,860 in all, 7 to 534 per sensor, so
    accuracies cannot be set beside published ones. A sensor's features were standardised with its own mean
    and deviation over its full data: that was done by the publisher and is charged to nobody. The owner of
    a reading is its sensor.

    Args:
        data_dir: holds vehicle/vehicle_sample.npz.

    Returns:
        Records with x (1,487, 100) and 373 test records; the share of class 1 is 0.55.

    Raises:
        DataError: the file is missing, damaged or holds other arrays.

    Source: Duarte & Hu (2004), "Vehicle classification in distributed sensor networks"; the subset is a
        training part published with Li et al. (2021), "Ditto".
    """
    x, y, sensor = readings(data_dir)
    records = split_records(x, y, holdout(sensor), classes=2, name=NAME, client_ids=sensor)
    return replace(records, schema=SCHEMA)


def readings(data_dir: Path) -> Readings:
    """The 1,860 readings in `data_dir`/vehicle/vehicle_sample.npz.

    Raises:
        DataError: the file is missing, damaged or holds other arrays.
    """
    path = data_dir / "vehicle" / "vehicle_sample.npz"
    arrays = read_npz(path, "X", "y", "sensor")
    x, y, sensor = arrays["X"], arrays["y"], arrays["sensor"]
    if x.shape != (len(x), FEATURES) or not y.shape == sensor.shape == (len(x),):
        raise DataError(
            f"{path} must hold X (n, {FEATURES}), y (n,) and sensor (n,), got {x.shape}, {y.shape} and "
            f"{sensor.shape}; copy the file again"
        )
    if not np.all(np.isin(y, (-1, 1))):
        raise DataError(f"{path}: y must be -1 or 1, got {y[~np.isin(y, (-1, 1))][0]}; copy the file again")
    columns = {one.name: column for one, column in zip(SCHEMA.features, x.T, strict=True)}
    features, labels, _, _ = stated_examples(columns | {SCHEMA.label.name: y}, SCHEMA, NAME)
    return Readings(features, labels.astype(np.int32), sensor.astype(np.int64))
