"""Vehicle: every reading once, a fifth of every sensor to test, and a name that says subset."""

from __future__ import annotations

import numpy as np
import pytest

from noiseworthy.data import load_federation, load_records
from noiseworthy.data.published import readings
from noiseworthy.errors import DataError


def arrays(n=40, seed=0):
    """Made-up readings of four sensors; the first feature is the number of the reading."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 100)).astype(np.float32)
    x[:, 0] = np.arange(n)
    return {
        "X": x,
        "y": rng.choice(np.array([-1, 1], np.int8), n),
        "sensor": np.arange(n, dtype=np.uint8) % 4,
    }


def write(root, **columns):
    (root / "vehicle").mkdir(exist_ok=True)
    np.savez(root / "vehicle" / "vehicle_sample.npz", **columns)
    return root


def test_a_fifth_of_every_sensor_tests_and_no_reading_twice(tmp_path):
    made = arrays()
    records = load_records("vehicle", data_dir=write(tmp_path, **made))
    assert np.bincount(records.client_ids).tolist() == [8] * 4
    numbers = np.concatenate([records.x[:, 0], records.test_x[:, 0]]).astype(int)
    assert sorted(numbers) == list(range(40))
    labels = np.concatenate([records.y, records.test_y])
    np.testing.assert_array_equal(labels, (made["y"][numbers] + 1) / 2)
    np.testing.assert_array_equal(records.client_ids, made["sensor"][numbers[:32]])


def test_all_readings_come_in_the_order_of_the_file(tmp_path):
    made = arrays()
    x, y, sensor = readings(write(tmp_path, **made))
    np.testing.assert_array_equal(x, made["X"])
    np.testing.assert_array_equal(2 * y - 1, made["y"])
    np.testing.assert_array_equal(sensor, made["sensor"])
    assert (x.dtype, y.dtype) == (np.float32, np.int32)
    schema = load_records("vehicle", data_dir=tmp_path).schema
    assert schema is not None
    np.testing.assert_array_equal(schema.encode(dict(zip(schema.feature_names, x.T, strict=True))), x)
    assert schema.label.classes == ("-1", "+1")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.zeros((40, 99), np.float32)}, r"must hold X \(n, 100\), .* got \(40, 99\)"),
        ({"X": np.zeros(40, np.float32)}, r"got \(40,\)"),
        ({"sensor": np.zeros(39)}, r"got \(40, 100\), \(40,\) and \(39,\); copy the file again"),
        ({"y": np.zeros(40)}, "y must be -1 or 1, got 0.0; copy the file again"),
    ],
)
def test_other_arrays_are_refused(tmp_path, change, message):
    with pytest.raises(DataError, match=message):
        load_records("vehicle", data_dir=write(tmp_path, **(arrays() | change)))


def test_missing_files_and_arrays_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"no file .*vehicle_sample\.npz; name the data folder"):
        load_records("vehicle", data_dir=tmp_path)
    with pytest.raises(DataError, match="must hold the arrays X, y and sensor; sensor is missing"):
        load_records("vehicle", data_dir=write(tmp_path, X=np.zeros((4, 100)), y=np.ones(4)))


@pytest.mark.data
def test_the_real_readings_have_the_stated_counts_and_say_that_they_are_a_subset(data_dir):
    x, y, sensor = readings(data_dir)
    assert (x.shape, int(y.sum()), len(np.unique(sensor))) == ((1_860, 100), 1_023, 23)
    fed = load_federation("vehicle", data_dir=data_dir, seed=0)
    assert (fed.n_clients, int(fed.sizes.sum()), len(fed.test_x)) == (23, 1_487, 373)
    assert (np.bincount(sensor).min(), np.bincount(sensor).max()) == (7, 534)
    assert "subset of 1,860 records" in fed.name
