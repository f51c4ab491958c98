"""School: every pupil once, a fifth of every school to test, ranges that no pupil teaches."""

from __future__ import annotations

import numpy as np
import pytest

from noiseworthy.data import load_federation, load_records, read_schema
from noiseworthy.data.published import SCHOOL
from noiseworthy.errors import DataError


def arrays(n=60, seed=0):
    """Made-up pupils of four schools; the score of a pupil is their number."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 2, (n, 28)).astype(np.uint8)
    x[:, 3:5] = rng.integers(0, 101, (n, 2))
    x[:, 27] = 1
    return {"X": x, "y": np.arange(n, dtype=np.uint8), "school": np.arange(n, dtype=np.uint8) % 4}


def write(root, **columns):
    (root / "school").mkdir(exist_ok=True)
    np.savez(root / "school" / "school.npz", **columns)
    return root


def test_a_fifth_of_every_school_tests_and_no_pupil_twice(tmp_path):
    made = arrays()
    records = load_records("school", data_dir=write(tmp_path, **made))
    assert np.bincount(records.client_ids).tolist() == [12] * 4
    numbers = np.round(70 * np.concatenate([records.y, records.test_y])).astype(int)
    assert sorted(numbers) == list(range(60))
    expected = made["X"][numbers, :27] / np.where(np.isin(np.arange(27), (3, 4)), 100, 1)
    np.testing.assert_allclose(np.concatenate([records.x, records.test_x]), expected, rtol=1e-6)
    np.testing.assert_array_equal(records.client_ids, made["school"][numbers[: len(records)]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.zeros((60, 27))}, r"must hold X \(n, 28\), .* got \(60, 27\)"),
        ({"school": np.zeros(59)}, r"got \(60, 28\), \(60,\) and \(59,\); copy the file again"),
        ({"y": np.full(60, 71)}, r"y must lie in 0\.\.70, got 71 to 71"),
        ({"y": np.full(60, -1)}, r"y must lie in 0\.\.70, got -1 to -1"),
    ],
)
def test_other_arrays_are_refused(tmp_path, change, message):
    with pytest.raises(DataError, match=message):
        load_records("school", data_dir=write(tmp_path, **(arrays() | change)))


def test_missing_files_and_arrays_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"no file .*school\.npz; name the data folder"):
        load_records("school", data_dir=tmp_path)
    with pytest.raises(DataError, match="must hold the arrays X, y and school; school is missing"):
        load_records("school", data_dir=write(tmp_path, X=np.zeros((4, 28)), y=np.ones(4)))


@pytest.mark.data
def test_the_real_pupils_have_the_stated_counts_and_scores_that_can_be_learned(data_dir):
    fed = load_federation("school", data_dir=data_dir, seed=0)
    assert (fed.n_clients, int(fed.sizes.sum()), len(fed.test_x)) == (139, 12_293, 3_069)
    records = load_records("school", data_dir=data_dir)
    assert (records.x.min(), records.x.max(), records.classes) == (0, 1, None)
    assert (records.y.min(), records.y.max()) == pytest.approx((1 / 70, 1))
    design, test = (np.column_stack([x, np.ones(len(x))]) for x in (records.x, records.test_x))
    theta = np.linalg.lstsq(design, records.y, rcond=None)[0]
    explained = 1 - np.mean((test @ theta - records.test_y) ** 2) / np.var(records.test_y)
    assert explained == pytest.approx(0.3, abs=0.1)


def test_a_pupil_is_encoded_as_the_schema_says_and_the_model_knows_its_columns(tmp_path):
    made = arrays()
    records = load_records("school", data_dir=write(tmp_path, **made))
    schema = read_schema(str(SCHOOL))
    assert records.schema == schema
    assert schema.width == 27
    table = dict(zip(schema.feature_names, made["X"].T, strict=False))
    numbers = np.round(70 * records.y).astype(int)
    np.testing.assert_array_equal(schema.encode(table)[numbers], records.x)
