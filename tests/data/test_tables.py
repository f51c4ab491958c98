"""Data of one's own: CSV, npz, parquet, and the hub."""

from __future__ import annotations

import gzip
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from noiseworthy.data import Columns, from_columns, load_federation, load_records, read_hub, read_schema
from noiseworthy.data.frames import tell
from noiseworthy.data.records import holdout_of_each
from noiseworthy.errors import DataError, InvalidInput
from noiseworthy.studies.loading import parse_study

TABLE = {
    "age": np.arange(20.0),
    "dose": np.arange(20) % 3,
    "site": np.repeat(["oslo", "rome"], 10),
    "label": np.tile(["ill", "well"], 10),
}


def table(**changes):
    return TABLE | changes


def write(path, columns):
    if path.suffix == ".npz":
        np.savez(path, **columns)
    elif path.suffix == ".parquet":
        pd.DataFrame(columns).to_parquet(path)
    else:
        pd.DataFrame(columns).to_csv(path, index=False)
    return str(path)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.npz", "t.parquet"])
def test_every_format_gives_the_same_federation(tmp_path, name):
    columns = table(split=np.tile(["train", "train", "train", "train", "test"], 4))
    fed = load_federation(write(tmp_path / name, columns), client_column="site", seed=0)
    assert (fed.clients, fed.sizes.tolist(), fed.classes, fed.name) == (("oslo", "rome"), [8, 8], 2, "t")
    np.testing.assert_array_equal(fed.test_x, [[4, 1], [9, 0], [14, 2], [19, 1]])
    np.testing.assert_array_equal(fed.test_y, [0, 1, 0, 1])
    np.testing.assert_array_equal(np.sort(fed.x[1, :, 0]), [10, 11, 12, 13, 15, 16, 17, 18])


def test_without_a_split_a_fixed_fifth_of_every_client_is_the_test_set():
    records = from_columns(TABLE, Columns(client="site"), "t")
    assert [np.sum(records.client_ids == site) for site in ("oslo", "rome")] == [8, 8]
    assert set(records.x[:, 0]) | set(records.test_x[:, 0]) == set(range(20))
    np.testing.assert_array_equal(records.test_x, from_columns(TABLE, Columns(client="site"), "t").test_x)


def test_a_relative_path_is_found_beneath_the_data_folder(tmp_path):
    (tmp_path / "mine").mkdir()
    write(tmp_path / "mine" / "t.csv", table())
    assert len(load_records("mine/t.csv", data_dir=tmp_path, feature_columns=["age"])) == 16


def test_images_keep_their_axes_and_bytes_are_scaled():
    images = np.full((10, 2, 3), 255, np.uint8)
    records = from_columns({"image": images, "label": np.tile([0, 1], 5)}, Columns(), "t")
    assert (records.record_shape, records.x.max()) == ((2, 3), 1)


@pytest.mark.parametrize("kind", ["int16", "uint16", "int64"])
def test_images_of_other_integers_stay_as_they_are_and_the_log_says_so_once(kind, caplog):
    """A network learned nothing of scans whose numbers go to thousands, without a word."""
    tell.cache_clear()
    images = np.full((10, 2, 3), 1000, kind)
    for _ in range(2):
        records = from_columns({"scan": images, "label": np.tile([0, 1], 5)}, Columns(), "t")
    assert records.x.max() == 1000
    (said,) = caplog.messages
    assert f"images of {kind} stay as they are" in said


def test_chosen_features_are_laid_side_by_side_in_order():
    records = from_columns(table(wide=np.ones((20, 2))), Columns(features=("dose", "wide", "age")), "t")
    assert records.record_shape == (4,)
    np.testing.assert_array_equal(np.sort(np.append(records.x[:, 3], records.test_x[:, 3])), np.arange(20))


def test_signed_labels_become_class_numbers():
    records = from_columns(table(label=np.tile([-1.0, 1.0], 10)), Columns(features=("age",)), "t")
    np.testing.assert_array_equal(records.y, records.x[:, 0] % 2)


def test_a_column_of_the_default_name_names_the_owners_and_is_no_feature():
    records = from_columns(table(client=TABLE["site"]), Columns(features=("age",)), "t")
    assert set(records.client_ids) == {"oslo", "rome"}
    numbered = {"age": TABLE["age"], "client": np.repeat([1, 2], 10), "label": TABLE["label"]}
    assert from_columns(numbered, Columns(), "t").record_shape == (1,)


def test_regression_keeps_the_label_as_a_number():
    records = from_columns(table(label=np.arange(20) / 8), Columns(features=("age",), regression=True), "t")
    assert records.classes is None
    np.testing.assert_array_equal(records.y, records.x[:, 0] / 8)


@pytest.mark.parametrize(
    ("changes", "columns", "message"),
    [
        ({}, Columns(label="outcome"), "no column 'outcome'; it has 'age', 'dose', 'site', 'label'"),
        ({}, Columns(client="town"), "no column 'town'"),
        ({}, Columns(features=("weight",)), "no column 'weight'"),
        ({}, Columns(features=("age", "label")), "is the label and cannot be a feature"),
        ({}, Columns(features=()), "no feature columns"),
        ({}, Columns(), "column 'site' is not numeric; encode it"),
        ({"age": np.full(20, np.nan)}, Columns(client="site"), "'age' has 20 NaN or infinite values"),
        ({"age": np.append(np.ones(19), np.inf)}, Columns(client="site"), "'age' has 1 NaN or infinite"),
        ({"age": np.append(np.ones(19), 1e300)}, Columns(client="site"), "'age' has 1 NaN or infinite"),
        ({"age": np.ones(7)}, Columns(client="site"), "'age' has 7 rows but there are 20 labels"),
        ({"label": np.arange(20) / 8}, Columns(client="site"), "whole numbers or text as classes, got 0.125"),
        ({"label": np.append(np.ones(19), np.nan)}, Columns(client="site"), "'label' has 1 NaN"),
        ({"label": np.array(["a", None] * 10, object)}, Columns(client="site"), "'label' has 10 missing"),
        ({"label": np.ones(20)}, Columns(client="site"), "at least two classes"),
        ({"label": np.ones((20, 2))}, Columns(client="site"), "one value per record"),
        ({"label": np.tile(["1", "2"], 10)}, Columns(client="site", regression=True), "not numeric"),
        ({"site": np.array(["a", None] * 10, object)}, Columns(client="site"), "'site' has 10 missing"),
        ({"split": np.repeat("dev", 20)}, Columns(client="site"), "'train' or 'test', got 'dev'"),
        ({"split": np.repeat("train", 20)}, Columns(client="site"), "20 training and 0 test records"),
        ({"split": np.repeat("test", 20)}, Columns(client="site"), "0 training and 20 test records"),
        ({"image": np.ones((20, 2, 2))}, Columns(client="site"), "only feature column"),
    ],
)
def test_tables_that_cannot_be_trained_on_are_refused_by_column(changes, columns, message):
    with pytest.raises(DataError, match=message):
        from_columns(table(**changes), columns, "t")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "t.csv",
            b"",
            "t.csv cannot be read as a table: it is empty; put names of columns into its first row$",
        ),
        (
            "t.csv",
            b'age,label\n1,2\n\n"3,4\n5,6\n',
            "table: the quote in line 4 has no end; write one within",
        ),
        ("t.csv", b"age,age\n1,2\n", "t.csv: two columns are called 'age'; give every column a name"),
        ("t.csv.gz", b"no gzip", "cannot be read as a table"),
        ("t.csv.gz", gzip.compress(b"age,label\n1,2\n" * 99, mtime=0)[:-12], "cannot be read as a table"),
        ("t.parquet", b"no parquet", "cannot be read as a table"),
        ("t.npz", b"no zip", "not an npz file of plain arrays"),
        ("t.npz", b"", "not an npz file of plain arrays"),
    ],
)
def test_damaged_files_are_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        load_records(str(tmp_path / name))


def test_npz_with_pickled_objects_is_refused(tmp_path):
    np.savez(tmp_path / "t.npz", x=np.array([{}, []], object), label=np.arange(2))
    with pytest.raises(DataError, match="not an npz file of plain arrays"):
        load_records(str(tmp_path / "t.npz"))


def test_a_missing_table_names_both_places(tmp_path):
    with pytest.raises(DataError, match=r"no data at gone.csv or .*gone.csv"):
        load_records("gone.csv", data_dir=tmp_path)


def test_a_natural_partition_needs_owners(tmp_path):
    path = write(tmp_path / "t.csv", {"age": np.arange(10), "label": np.tile([0, 1], 5)})
    with pytest.raises(DataError, match="names no owners; set client_column"):
        load_federation(path, partition="natural", seed=0)
    with pytest.raises(InvalidInput, match="clients must be given"):
        load_federation(path, seed=0)


class StandIn:
    """The part of a hub data set that is relied on."""

    def __init__(self, **columns):
        self.columns = columns
        self.column_names = list(columns)

    def __getitem__(self, column):
        return self.columns[column]


def hub_split(n):
    images = [np.full((2, 2), 51 * (i % 6), np.uint8) for i in range(n)]
    return StandIn(image=images, label=[i % 2 for i in range(n)], writer_id=[f"w{i // 10}" for i in range(n)])


def test_hub_splits_become_training_and_test_records():
    splits = {"train": hub_split(30), "test": hub_split(6)}
    records = read_hub("toy", Columns(client="writer_id"), load=lambda name: splits)
    assert (records.x.shape, records.test_x.shape, records.name) == ((30, 2, 2), (6, 2, 2), "toy")
    np.testing.assert_allclose(records.test_x[:, 0, 0], [0, 0.2, 0.4, 0.6, 0.8, 1], rtol=1e-6)
    assert set(records.client_ids) == {"w0", "w1", "w2"}


def test_hub_without_a_test_split_sets_a_fifth_of_every_client_aside():
    records = read_hub("toy", Columns(client="writer_id"), load=lambda name: {"train": hub_split(30)})
    assert [np.sum(records.client_ids == f"w{i}") for i in range(3)] == [8, 8, 8]


PATIENTS = {
    "age": {"kind": "number", "range": [20, 80]},
    "sex": {"kind": "category", "values": ["f", "m"], "missing": True},
    "ill": {"role": "label", "classes": ["no", "yes"]},
    "ward": {"role": "client"},
}


def patients(n):
    sex, ill = ["f", None] * (n // 2), ["no", "yes"] * (n // 2)
    return StandIn(age=[20 + i for i in range(n)], sex=sex, ill=ill, ward=[1, 1, 2, 2] * (n // 4))


def test_hub_columns_that_are_stated_are_encoded_as_those_of_a_table():
    schema = read_schema(PATIENTS)
    records = read_hub("toy", schema, load=lambda name: {"train": patients(20), "test": patients(4)})
    np.testing.assert_array_equal(records.x, schema.encode(patients(20).columns))
    assert (records.test_x.shape, records.classes, set(records.client_ids)) == ((4, 4), 2, {"1", "2"})
    assert (records.test_origin, records.schema) == ("marked", schema)


def test_a_split_that_is_stated_counts_for_more_than_the_splits_of_the_hub():
    marked = patients(20)
    marked.columns["part"] = (["train"] * 4 + ["test"]) * 4
    marked.column_names.append("part")
    schema = read_schema(PATIENTS | {"part": {"role": "split"}})
    records = read_hub("toy", schema, load=lambda name: {"train": marked})
    assert len(records.test_y) == 4
    assert len(read_hub("toy", read_schema(PATIENTS), load=lambda name: {"train": patients(20)}).test_y) == 4


def test_hub_columns_that_are_not_as_stated_are_refused():
    wrong = read_schema({**PATIENTS, "age": {"kind": "left-out"}, "height": {"kind": "number", "step": 1}})
    with pytest.raises(DataError, match="toy: it has no column 'height'"):
        read_hub("toy", wrong, load=lambda name: {"train": patients(20)})
    odd = patients(4)
    odd.column_names.remove("sex")
    with pytest.raises(DataError, match="'sex' in one of its splits only"):
        read_hub("toy", read_schema(PATIENTS), load=lambda name: {"train": patients(20), "test": odd})


def test_a_study_of_the_hub_may_state_columns(monkeypatch):
    hub = SimpleNamespace(load_dataset=lambda name: {"train": patients(20)})
    monkeypatch.setitem(sys.modules, "datasets", hub)
    federation = load_federation("hub:toy", columns=PATIENTS, seed=0)
    assert (federation.clients, federation.record_shape) == (("1", "2"), (4,))
    study = {"federation": {"data": "hub:toy"}, "privacy": {"mechanism": "none"}, "columns": PATIENTS}
    assert parse_study(study).columns == read_schema(PATIENTS)


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ({"validation": hub_split(3)}, "no split 'train'; it has 'validation'"),
        ({"train": StandIn(image=[0, 1])}, "toy has no column 'label'; it has 'image'"),
        ({"train": StandIn(image=[[0], [1, 2]], label=[0, 1])}, "values of one shape"),
    ],
)
def test_hub_data_of_another_form_are_refused(splits, message):
    with pytest.raises(DataError, match=message):
        read_hub("toy", Columns(), load=lambda name: splits)


def test_a_failing_hub_is_named():
    def offline(name):
        raise ConnectionError("offline")

    with pytest.raises(DataError, match="toy cannot be loaded from the hub: offline"):
        read_hub("toy", Columns(), load=offline)


def test_the_hub_without_its_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match=r"pip install 'noiseworthy\[data\]'"):
        load_records("hub:mnist")


def test_a_real_hub_data_set_is_read():
    datasets = pytest.importorskip("datasets")
    train = datasets.Dataset.from_dict({"a": np.arange(10.0), "b": np.ones(10), "label": [0, 1] * 5})
    records = read_hub("toy", Columns(), load=lambda name: datasets.DatasetDict(train=train))
    assert (records.x.shape, records.test_x.shape) == ((8, 2), (2, 2))


@pytest.mark.parametrize(
    ("labels", "classes", "numbers"),
    [
        (["ill", "well"], ("well", "ill", "dead"), [1, 0]),
        ([3, 1], (1, 2, 3), [2, 0]),
        ([3.0, 1.0], (1, 2, 3), [2, 0]),
        ([3, 1], ("1", "2", "3"), [2, 0]),
        ([True, False], ("True", "False"), [0, 1]),
    ],
    ids=str,
)
def test_stated_classes_number_labels_whichever_occur(labels, classes, numbers):
    """Two owners who state the same list agree, although neither has seen all classes."""
    records = from_columns(
        table(label=np.tile(labels, 10)), Columns(client="site", classes=classes), "clinic"
    )
    assert records.classes == len(classes)
    assert np.array_equal(records.y, np.array(numbers)[records.x[:, 0].astype(int) % 2])


def test_one_class_of_many_is_enough_where_they_are_stated():
    records = from_columns(
        table(label=["ill"] * 20), Columns(client="site", classes=("ill", "well")), "clinic"
    )
    assert (records.classes, set(records.y.tolist())) == (2, {0})


@pytest.mark.parametrize(
    ("stated", "names"), [(None, ("01", "2")), (("2", "01"), ("2", "01")), ((1, 2), ("1", "2"))], ids=str
)
def test_classes_of_a_csv_are_called_as_they_are_written(tmp_path, stated, names):
    """As a whole its column of labels would be the numbers 1 and 2; a feature of 01 stays a number."""
    for mark in ",;":
        rows = [f"{label}{mark}0{age}\n" for age, label in enumerate(["2", "01", "2 "] * 3)]
        (tmp_path / "t.csv").write_text(f"label{mark}age\n" + "".join(rows))
        records = load_records(str(tmp_path / "t.csv"), classes=stated)
        assert records.schema.label.classes == names
        of = [names[label].lstrip("0") for label in records.y]
        assert of == ["1" if age % 3 == 1 else "2" for age in records.x[:, 0]]


def test_clients_of_a_csv_are_called_as_they_are_written(tmp_path):
    """As a whole their column would be numbers, by which 01 and 1, two of `[columns]`, are one client."""
    rows = [f"{client},{age},{age % 2}\n" for client in ("01", "1", "10 ") for age in range(5)]
    (tmp_path / "t.csv").write_text("ward,age,label\n" + "".join(rows))
    federation = load_federation(str(tmp_path / "t.csv"), client_column="ward", seed=0)
    assert (federation.clients, federation.sizes.tolist()) == (("01", "1", "10"), [4, 4, 4])


def test_a_label_that_is_no_stated_class_is_named():
    with pytest.raises(DataError, match="10 labels that are none of the classes ill, dead, such as 'well'"):
        from_columns(TABLE, Columns(classes=("ill", "dead")), "clinic")


def test_letters_that_look_the_same_are_one_owner_and_one_class():
    names = np.tile(["K\xf6ln", "Ko\u0308ln"], 10)
    for kind in (str, object):
        made = {"x": np.arange(20.0), "label": names.astype(kind), "client": names.astype(kind)}
        records = from_columns(made, Columns(classes=("Ko\u0308ln", "Bonn")), "clinic")
        assert records.client_ids is not None
        assert (set(records.y.tolist()), set(records.client_ids.tolist())) == ({0}, {"K\xf6ln"})


def test_stated_classes_reach_a_table_and_no_other_source(tmp_path):
    write(tmp_path / "own.npz", table(label=np.tile([0, 2], 10)))
    federation = load_federation(str(tmp_path / "own.npz"), client_column="site", classes=[0, 1, 2], seed=0)
    assert (federation.classes, set(federation.y.ravel().tolist())) == (3, {0, 2})
    with pytest.raises(InvalidInput, match="fixed columns"):
        load_federation("iris", clients=2, classes=["a", "b"], seed=0)


@pytest.mark.data
def test_vehicle_has_23_sensors_and_school_139(data_dir):
    vehicle = load_federation(
        "vehicle/vehicle_sample.npz", data_dir=data_dir, label_column="y", client_column="sensor", seed=0
    )
    assert (vehicle.n_clients, vehicle.record_shape, vehicle.classes) == (23, (100,), 2)
    school = load_federation(
        "school/school.npz",
        data_dir=data_dir,
        label_column="y",
        client_column="school",
        regression=True,
        seed=0,
    )
    assert (school.n_clients, school.record_shape, school.classes) == (139, (28,), None)


@pytest.mark.data
def test_missing_values_of_heart_disease_are_named_by_column(data_dir):
    with pytest.raises(DataError, match=r"column 'trestbps' has 59 NaN"):
        load_records(
            "heart-disease/heart_disease_4sites.csv.gz",
            data_dir=data_dir,
            label_column="num",
            client_column="site",
        )


# Neighbours ---------------------------------------------------------------------------------------------

WARDS = {
    "a": np.random.default_rng(1).random(120).astype(np.float32),
    "b": np.random.default_rng(2).integers(0, 9, 120),
    "ward": np.repeat(["east", "north", "south"], 40),
    "label": np.tile(["ill", "well", "ill"], 40),
}
BY_WARD = Columns(client="ward")


def rows_of(records, part):
    """The records of a part with their owners, as a set that knows no places."""
    if part == "test":
        return {tuple(row) for row in records.test_x.tolist()}
    return {(owner, *row) for owner, row in zip(records.client_ids.tolist(), records.x.tolist(), strict=True)}


def without(table, row):
    return {name: np.delete(column, row) for name, column in table.items()}


def test_under_add_remove_no_record_moves_when_another_is_left_out():
    """Every one of 120 records left out, once: all others stay where they are, of all clients.

    Held out by places, as under replace-one, one record more moved dozens of others.
    """
    whole = from_columns(WARDS, BY_WARD, "t", held_out="records")
    assert whole.test_origin == "records"
    assert 10 < len(whole.test_x) < 40
    for row in range(120):
        left = from_columns(without(WARDS, row), BY_WARD, "t", held_out="records")
        gone = {part: rows_of(whole, part) - rows_of(left, part) for part in ("train", "test")}
        assert sum(map(len, gone.values())) == 1
        for part in gone:
            assert rows_of(left, part) <= rows_of(whole, part)
        (mine,) = gone["train"] or gone["test"]
        assert mine[-2] == pytest.approx(WARDS["a"][row])


@pytest.mark.parametrize("kind", ["float", "text label", "order"])
def test_where_a_record_goes_does_not_hang_on_how_others_are_written(tmp_path, kind):
    """A fraction among whole numbers makes pandas read the whole column otherwise."""
    frame = pd.DataFrame(WARDS).drop(columns=["a"]).assign(c=np.arange(120), label=np.tile([0, 1], 60))
    more = {"b": 2.5 if kind == "float" else 2, "c": 500, "label": 1, "ward": "east"}
    grown = pd.concat([frame, pd.DataFrame([more])], ignore_index=True)
    if kind == "text label":
        grown["label"] = grown["label"].astype(object)
        grown.loc[120, "label"] = "unclear"
    if kind == "order":
        grown = grown.sample(frac=1, random_state=3)
    before, after = (
        load_records(write(tmp_path / name, table), client_column="ward", held_out="records")
        for name, table in (("one.csv", frame), ("two.csv", grown))
    )
    extra = {500.0}
    for part in ("train", "test"):
        assert {row[-1] for row in rows_of(after, part)} - extra == {row[-1] for row in rows_of(before, part)}


def test_under_replace_one_sizes_are_the_same_whatever_a_record_is():
    """Held out by hashes a changed record could change sides, and with it sizes that are public."""
    rng = np.random.default_rng(0)
    whole = from_columns(WARDS, BY_WARD, "t")
    assert whole.test_origin == "rows"
    for row in range(120):
        changed = {name: column.copy() for name, column in WARDS.items()}
        changed["a"][row], changed["b"][row] = rng.random(), rng.integers(0, 9)
        changed["label"][row] = "ill" if changed["label"][row] == "well" else "well"
        other = from_columns(changed, BY_WARD, "t")
        np.testing.assert_array_equal(other.client_ids, whole.client_ids)
        assert len(rows_of(other, "train") - rows_of(whole, "train")) <= 1
        assert len(rows_of(other, "test") - rows_of(whole, "test")) <= 1


def test_about_a_fifth_is_held_out_by_hashes_in_every_class_and_ward():
    """Binomial(6000, 0.2) is within 0.2 +- 0.026 but for one in a million; the same for the parts."""
    rng = np.random.default_rng(4)
    x, labels = rng.normal(size=(6000, 3)).astype(np.float32), rng.integers(0, 2, 6000)
    mask = holdout_of_each(x, labels)
    assert abs(mask.mean() - 0.2) < 0.026
    for part in (labels == 0, labels == 1, x[:, 0] > 1):
        assert abs(mask[part].mean() - 0.2) < 5 * np.sqrt(0.16 / part.sum())


def test_minus_zero_is_zero_and_a_label_counts():
    zeros = np.zeros((50, 2), np.float32)
    np.testing.assert_array_equal(
        holdout_of_each(zeros, np.arange(50)), holdout_of_each(-zeros, np.arange(50))
    )
    assert 0 < holdout_of_each(zeros, np.arange(50)).sum() < 50


def test_a_client_that_would_keep_nothing_is_named():
    x = np.arange(30.0)
    held = int(np.flatnonzero(holdout_of_each(x.astype(np.float32)[:, None], np.tile(["0", "1"], 15)))[0])
    table = {"a": x, "label": np.tile([0, 1], 15), "client": np.where(np.arange(30) == held, "lone", "many")}
    with pytest.raises(DataError, match=r"all records of 'lone' are held out .* in a column split"):
        from_columns(table, Columns(), "t", held_out="records")


def test_a_column_split_is_kept_under_every_relation():
    split = np.tile(["train", "test", "train"], 40)
    for held_out in ("rows", "records"):
        records = from_columns({**WARDS, "split": split}, BY_WARD, "t", held_out=held_out)
        assert (records.test_origin, len(records.test_x)) == ("marked", 40)


def test_classes_that_were_read_off_the_labels_are_kept_in_their_order():
    found = {
        ("ill", "well"): WARDS,
        ("9", "10"): WARDS | {"label": np.tile([10, 9, 10], 40)},
        ("1", "2"): WARDS | {"label": np.tile([1.0, 2.0, 1.0], 40)},
    }
    for classes, columns in found.items():
        records = from_columns(columns, BY_WARD, "t")
        assert records.classes_found == classes
        stated = from_columns(columns, Columns(client="ward", classes=classes), "t")
        assert stated.classes_found == ()
        np.testing.assert_array_equal(stated.y, records.y)
    regression = from_columns(
        WARDS | {"label": np.arange(120.0)}, Columns(client="ward", regression=True), "t"
    )
    assert regression.classes_found == ()


def test_a_client_is_called_alike_however_its_number_is_written(tmp_path):
    for second in ("1", "1.0"):
        (tmp_path / "t.csv").write_text("ward,a,label\n" + f"1,3,0\n{second},4,1\n2,5,0\n2,6,1\n" * 3)
        federation = load_federation(str(tmp_path / "t.csv"), client_column="ward", seed=0)
        assert federation.clients == ("1", "2")
