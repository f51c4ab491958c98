"""Adult: eight ones per record, by a code book and not by the records, and devices by education."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import pytest

from noiseworthy.data import load_federation, load_records
from noiseworthy.data.published import ADULT
from noiseworthy.data.schema import read_schema
from noiseworthy.errors import DataError
from noiseworthy.tasks import make_task

SCHEMA = read_schema(str(ADULT))
CODE_BOOK = {one.name: one.known for one in SCHEMA.features}
MISSING = "?"
NUMBERS = {"age": 39, "fnlwgt": 77516, "education-num": 13, "capital-gain": 2174, "capital-loss": 0,
           "hours-per-week": 40}  # fmt: skip
ORDER = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country",
    "income",
)  # fmt: skip


def people(n, seed=0):
    """Made-up people whose categories cover the whole code book if there are 42 or more."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {column: rng.permutation(np.resize(values, n)) for column, values in CODE_BOOK.items()}
    )
    return table.assign(**NUMBERS, income=rng.choice(["<=50K", ">50K"], n))[[*ORDER]]


def write(root, private, test=None):
    """In the form of the published files: a space after each comma, and a stop behind the test labels."""
    folder = root / "adult"
    folder.mkdir(exist_ok=True)
    test = people(42, seed=1) if test is None else test
    for name, table, first, stop in (
        ("data", private, "", ""),
        ("test", test, "|1x3 Cross validator\n", "."),
    ):
        rows = [", ".join(map(str, row)) + stop for row in table.itertuples(index=False)]
        with gzip.open(folder / f"adult.{name}.gz", "wt") as file:
            file.write(first + "\n".join(rows) + "\n\n")
    return root


def test_records_are_the_dummies_of_pandas(tmp_path):
    table = people(60)
    records = load_records("adult", data_dir=write(tmp_path, table))
    columns = [pd.Categorical(table[name], values) for name, values in CODE_BOOK.items()]
    expected = np.concatenate([pd.get_dummies(pd.Series(column)).to_numpy() for column in columns], axis=1)
    np.testing.assert_array_equal(records.x, expected)
    assert (records.x.dtype, records.y.dtype) == (np.float32, np.int32)
    np.testing.assert_array_equal(records.y, table["income"] == ">50K")
    np.testing.assert_array_equal(records.client_ids, table["education"])


def test_the_test_file_is_read_like_the_other(tmp_path):
    table = people(50)
    records = load_records("adult", data_dir=write(tmp_path, table, table))
    np.testing.assert_array_equal(records.test_x, records.x)
    np.testing.assert_array_equal(records.test_y, records.y)


def test_the_columns_do_not_depend_on_who_is_there(tmp_path):
    """Two people alone keep their 102 features; categories counted from them would be fewer."""
    table = people(60)
    everybody = load_records("adult", data_dir=write(tmp_path, table)).x
    few = load_records("adult", data_dir=write(tmp_path, table[:2])).x
    np.testing.assert_array_equal(few, everybody[:2])
    assert few.shape == (2, 102)


def test_a_gap_is_a_category_where_the_column_has_gaps():
    with_gaps = {column for column, values in CODE_BOOK.items() if MISSING in values}
    assert with_gaps == {"workclass", "occupation", "native-country"}
    table = people(1).assign(**dict.fromkeys(with_gaps, MISSING))
    assert SCHEMA.encode(table).sum() == 8


def test_the_code_book_repeats_no_value():
    assert [len(values) for values in CODE_BOOK.values()] == [9, 16, 7, 15, 6, 5, 2, 42]
    assert all(len(set(values)) == len(values) for values in CODE_BOOK.values())


def test_normalised_records_keep_equal_ones_on_the_unit_sphere():
    task = make_task("logistic", (102,), 2, feature_norm=1.0, normalise=True)
    rows = np.asarray(task.prepare(SCHEMA.encode(people(20))), np.float64)
    assert np.all(np.linalg.norm(rows, axis=1) <= 1)
    np.testing.assert_allclose(rows[rows > 0], 1 / np.sqrt(8), rtol=1e-5)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("sex", "?", r"column 'sex' has 1 value other than one of 'Female', 'Male', such as '\?'"),
        ("native-country", "Norway", "'native-country' has 1 value .* such as 'Norway'"),
        ("race", "", "'race' has 1 missing value"),
        ("income", "lots", "'income' has 1 value other than one of the classes .* such as 'lots"),
    ],
)
def test_values_outside_the_code_book_are_refused(tmp_path, column, value, message):
    table = people(20)
    table.loc[7, column] = value
    with pytest.raises(DataError, match=message):
        load_records("adult", data_dir=write(tmp_path, table))
    with pytest.raises(DataError, match=message):
        load_records("adult", data_dir=write(tmp_path, people(20), table))


def test_damaged_files_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"no file .*adult\.data\.gz; name the data folder"):
        load_records("adult", data_dir=tmp_path)
    folder = write(tmp_path, people(500)) / "adult"
    whole = (folder / "adult.data.gz").read_bytes()
    (folder / "adult.data.gz").write_bytes(whole[:-500])
    with pytest.raises(DataError, match="cannot be read as a table"):
        load_records("adult", data_dir=tmp_path)
    (folder / "adult.data.gz").write_bytes(gzip.compress(b"39, State-gov, 77516\n"))
    with pytest.raises(DataError, match="column 'education' has 1 missing value"):
        load_records("adult", data_dir=tmp_path)


@pytest.mark.data
def test_the_real_people_have_the_stated_counts(data_dir):
    records = load_records("adult", data_dir=data_dir)
    assert (records.x.shape, records.test_x.shape) == ((32_561, 102), (16_281, 102))
    assert (records.y.sum(), records.test_y.sum()) == (7_841, 3_846)
    for x in (records.x, records.test_x):
        np.testing.assert_array_equal(x.sum(axis=1), 8)
    assert np.all(records.x.any(axis=0))  # no value of the code book is misspelt


@pytest.mark.data
def test_the_natural_clients_are_the_sixteen_devices_of_the_paper(data_dir):
    """Hu et al., section 8.1: 16 devices of 2,035 people on average."""
    fed = load_federation("adult", data_dir=data_dir, seed=0)
    assert set(fed.clients) == set(CODE_BOOK["education"])
    assert (fed.sizes.min(), fed.sizes.max(), int(fed.sizes.mean())) == (51, 10_501, 2_035)
    schooling = slice(9, 25)
    for client in range(16):
        held = fed.x[client, : fed.sizes[client], schooling]
        assert np.all(held == held[0])
        assert CODE_BOOK["education"][int(held[0].argmax())] == fed.clients[client]
    assert fed.test_owners is not None
    np.testing.assert_array_equal(
        fed.test_x[:, schooling].argmax(axis=1),
        [CODE_BOOK["education"].index(fed.clients[owner]) for owner in fed.test_owners],
    )
