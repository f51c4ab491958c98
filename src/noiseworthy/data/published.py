"""Published tables whose records have owners: Adult, Heart Disease, School and Vehicle."""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from noiseworthy.data.files import read_npz
from noiseworthy.data.frames import read_frame
from noiseworthy.data.records import Records, holdout, split_records
from noiseworthy.data.schema import Schema, read_schema
from noiseworthy.data.schema.tables import stated_examples
from noiseworthy.data.table_records import read_table
from noiseworthy.errors import DataError

ADULT, HEART, SCHOOL = (Path(__file__).with_name(f"{name}.toml") for name in ("adult", "heart", "school"))
"""Columns of tables as they are published."""
_OF_ADULT = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country",
    "income",
)  # fmt: skip
BEST_SCORE = 70
"""The most that a pupil can score; the targets are shares of it."""
_OF_SCHOOL = 28
"""Columns of the file, of which the last is a constant."""
_OF_VEHICLE = 100
VEHICLE = "vehicle (subset of 1,860 records)"
_READINGS = Schema.model_validate(
    {f"x{place}": {"kind": "number", "step": 1.0} for place in range(1, _OF_VEHICLE + 1)}
    | {"vehicle": {"role": "label", "classes": {"-1": -1, "+1": 1}}}
)
"""Standardised readings are numbers as they are; vehicles are called as the file labels them."""


def adult(data_dir: Path) -> Records:
    """Adult (census income): 32,561 people as 102 zeros and ones, 16,281 to test; class 1 earns over 50,000.

    The features are the eight categorical columns, one 0/1 feature per value of the published code book, as
    `adult.toml` beside this file says; age, hours and the other numbers are left out, as in the experiments
    of Hu et al. A record has norm sqrt(8), so `feature_norm = 1` with `normalise` puts each on the unit
    sphere and keeps its eight ones equal.

    The owner of a record is its level of education, so the partition `natural` has 16 clients of 51 to
    10,501 people. On each of them the 16 features of education are constant. Test records have one, too.

    Args:
        data_dir: holds adult/adult.data.gz and adult/adult.test.gz.

    Returns:
        Records with x (32,561, 102); the share of class 1 is 0.241.

    Raises:
        DataError: a file is missing or damaged, or holds a value that the code book lacks.

    Source: Becker & Kohavi (1996), "Adult", UCI Machine Learning Repository, CC BY 4.0.
    """
    schema = read_schema(str(ADULT))
    people, others = (_people(data_dir / "adult" / f"adult.{part}.gz") for part in ("data", "test"))
    private, test = (stated_examples(table, schema, "adult")[:2] for table in (people, others))
    owners, tested = (table["education"].to_numpy(str) for table in (people, others))
    return Records(*private, *test, schema.n_classes, "adult", owners, schema=schema, test_client_ids=tested)


def _people(path: Path) -> Any:
    """The file as text; the test file starts with a line that the format marks as a comment by a bar."""
    return read_frame(
        path, names=_OF_ADULT, skipinitialspace=True, comment="|", dtype=str, keep_default_na=False,
        index_col=False,
    )  # fmt: skip


def heart_disease(data_dir: Path) -> Records:
    """Heart Disease (UCI): 920 patients of four hospitals as 25 numbers, a fifth of each hospital to test.

    Class 1 has a vessel narrowed by half or more (num above 0). Columns are encoded as `heart.toml` beside
    this file says, which reads no patient. The owner of a record is its hospital; their shares of class 1 run
    from 0.36 to 0.93, and three of them left most findings of fluoroscopy and thallium scans out.

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
    return replace(read_table(path, read_schema(str(HEART))), name="heart-disease")


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
    path = data_dir / "school" / "school.npz"
    x, y, owner = _arrays(path, _OF_SCHOOL, "school")
    if y.min() < 0 or y.max() > BEST_SCORE:
        raise DataError(f"{path}: y must lie in 0..{BEST_SCORE}, got {y.min()} to {y.max()}")
    schema = read_schema(str(SCHOOL))
    scores = np.divide(y, np.float32(BEST_SCORE), dtype=np.float32)
    table = {one.name: column for one, column in zip(schema.features, x.T[:-1], strict=True)}
    features, targets, _, _ = stated_examples(table | {schema.label.name: scores}, schema, "school")
    records = split_records(features, targets, holdout(owner), classes=None, name="school", client_ids=owner)
    return replace(records, schema=schema)


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
    records = split_records(x, y, holdout(sensor), classes=2, name=VEHICLE, client_ids=sensor)
    return replace(records, schema=_READINGS)


def readings(data_dir: Path) -> Readings:
    """The 1,860 readings in `data_dir`/vehicle/vehicle_sample.npz.

    Raises:
        DataError: the file is missing, damaged or holds other arrays.
    """
    path = data_dir / "vehicle" / "vehicle_sample.npz"
    x, y, sensor = _arrays(path, _OF_VEHICLE, "sensor")
    if not np.all(np.isin(y, (-1, 1))):
        raise DataError(f"{path}: y must be -1 or 1, got {y[~np.isin(y, (-1, 1))][0]}; copy the file again")
    columns = {one.name: column for one, column in zip(_READINGS.features, x.T, strict=True)}
    features, labels, _, _ = stated_examples(columns | {_READINGS.label.name: y}, _READINGS, VEHICLE)
    return Readings(features, labels.astype(np.int32), sensor.astype(np.int64))


def _arrays(path: Path, width: int, owner: str) -> tuple[NDArray, NDArray, NDArray]:
    """Records of `width` numbers, labels and owners of a file, each of the shape that it must have."""
    arrays = read_npz(path, "X", "y", owner)
    x, y, owners = arrays["X"], arrays["y"], arrays[owner]
    if x.shape != (len(x), width) or not y.shape == owners.shape == (len(x),):
        raise DataError(
            f"{path} must hold X (n, {width}), y (n,) and {owner} (n,), got {x.shape}, {y.shape} and "
            f"{owners.shape}; copy the file again"
        )
    return x, y, owners
