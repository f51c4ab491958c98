"""Heart disease: findings beside fixed clinical references, so that no patient teaches the preparation."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from noiseworthy.data import load_federation, load_records, read_schema
from noiseworthy.data.published import HEART
from noiseworthy.errors import DataError

REFERENCES = {"age": (50, 10), "trestbps": (120, 20), "chol": (200, 40), "thalach": (150, 20),
              "oldpeak": (0, 1), "ca": (0, 1)}  # fmt: skip
CODE_BOOK = {"sex": (0, 1), "cp": (1, 2, 3, 4), "fbs": (0, 1), "restecg": (0, 1, 2), "exang": (0, 1),
             "slope": (1, 2, 3), "thal": (3, 6, 7)}  # fmt: skip
"""What clinicians reckon with, and what the published code book lists."""

SITES = {"cleveland": 303, "hungarian": 294, "switzerland": 123, "va": 200}


def patients(n=40, seed=0):
    """Made-up patients of two hospitals; a patient's age is their number."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({name: rng.uniform(1, 200, n) for name in REFERENCES} | {"age": np.arange(n) * 1.0})
    for name, values in CODE_BOOK.items():
        table[name] = rng.choice(np.array(values, float), n)
    return table.assign(num=rng.integers(0, 5, n), site=np.where(np.arange(n) % 2, "north", "south"))


def write(root, table):
    path = root / "heart-disease" / "heart_disease_4sites.csv.gz"
    path.parent.mkdir(exist_ok=True)
    table.to_csv(path, index=False)
    return root


def load(root, table):
    return load_records("heart-disease", data_dir=write(root, table))


def by_number(records):
    x = np.concatenate([records.x, records.test_x])
    return dict(zip(np.round(10 * x[:, 0] + 50).astype(int).tolist(), x, strict=True))


def test_a_fifth_of_every_hospital_tests_and_no_patient_twice(tmp_path):
    table = patients()
    records = load(tmp_path, table)
    assert np.unique(records.client_ids, return_counts=True)[1].tolist() == [16, 16]
    known = by_number(records)
    assert sorted(known) == list(range(40))
    labels = dict(zip(known, np.concatenate([records.y, records.test_y]).tolist(), strict=True))
    assert all(labels[i] == (table.num[i] > 0) for i in range(40))


def test_features_are_those_of_plain_loops():
    table = patients()
    table.loc[::3, ["chol", "thal", "ca", "fbs"]] = np.nan
    table.loc[1::3, ["chol", "trestbps", "oldpeak"]] = 0.0
    expected = []
    for _, one in table.iterrows():
        row = []
        for name, (reference, step) in REFERENCES.items():
            gap = pd.isna(one[name]) or (one[name] == 0 and name in ("chol", "trestbps"))
            row.append(0.0 if gap else (one[name] - reference) / step)
        row += [float(one[name] == value) for name, values in CODE_BOOK.items() for value in values]
        expected.append(row)
    encoded = read_schema(str(HEART)).encode(table)
    np.testing.assert_allclose(encoded, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(read_schema(str(HEART)).encode(table.astype(str)), encoded)


def test_a_patient_changes_nothing_but_their_own_features(tmp_path):
    table = patients()
    before = by_number(load(tmp_path, table))
    table.loc[7, ["chol", "thalach"]] = 1e6
    after = by_number(load(tmp_path, table))
    assert not np.allclose(before.pop(7), after.pop(7))
    for other in before:
        np.testing.assert_array_equal(before[other], after[other])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop(columns="thal"), "has no column 'thal'"),
        (lambda t: t.drop(columns="site"), "has no column 'site'"),
        (lambda t: t.assign(chol="much"), "column 'chol' has 40 values other than numbers, such as 'much'"),
        (lambda t: t.assign(chol=np.inf), "column 'chol' has 40 values other than numbers"),
        (lambda t: t.assign(thal=4.0), "'thal' has 40 values other than one of '3', '6', '7', such as '4'"),
        (lambda t: t.assign(num=5), "'num' has 40 values other than one of the classes .* such as '5'"),
        (lambda t: t.assign(num=np.nan), "column 'num' has 40 missing values"),
        (lambda t: t[:2], "has 2 training and 0 test records"),
    ],
)
def test_other_tables_are_refused(tmp_path, change, message):
    with pytest.raises(DataError, match=message):
        load(tmp_path, change(patients()))


def test_a_missing_or_truncated_file_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"no file .*heart_disease_4sites\.csv\.gz; name the data folder"):
        load_records("heart-disease", data_dir=tmp_path)
    path = write(tmp_path, patients()) / "heart-disease" / "heart_disease_4sites.csv.gz"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match="cannot be read as a table"):
        load_records("heart-disease", data_dir=tmp_path)


@pytest.mark.data
def test_the_real_patients_have_the_stated_counts_and_a_disease_that_can_be_learned(data_dir):
    fed = load_federation("heart-disease", data_dir=data_dir, seed=0)
    assert list(fed.clients) == list(SITES)
    assert fed.sizes.tolist() == [n - round(0.2 * n) for n in SITES.values()]
    assert (fed.record_shape, len(fed.test_x)) == ((25,), 185)
    records = load_records("heart-disease", data_dir=data_dir)
    y = np.concatenate([records.y, records.test_y])
    assert y.mean() == pytest.approx(509 / 920)
    design, test = (np.column_stack([x, np.ones(len(x))]) for x in (records.x, records.test_x))
    theta = np.linalg.lstsq(design, records.y, rcond=None)[0]
    assert np.mean((test @ theta > 0.5) == records.test_y) > 0.75
    assert np.abs(records.x).max() < 15
