"""A federation of owners knows names, sizes and shapes, and gives no record to anybody."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from noiseworthy.data import Columns
from noiseworthy.data.owners import OwnerTerms, federation_of_owners, read_owners, write_owners
from noiseworthy.data.table import FederationTable
from noiseworthy.engines.shards import Shards
from noiseworthy.errors import DataError
from noiseworthy.tasks import make_task

COLUMNS = Columns(classes=("no", "yes"))


def terms(client: str, **changed) -> OwnerTerms:
    fields = {
        "client": client,
        "data_set": "wards",
        "records": 90,
        "record_shape": (3,),
        "classes": 2,
        "mechanism": "gaussian",
        "epsilon": 4.0,
        "delta": 1e-5,
        "unit": "record",
        "noise_floor": 1.0,
        "algorithms": ["fedsgd-dpc"],
        "models": ["logistic"],
        "most_releases": 20,
        "most_parameters": 3,
        "most_local_steps": 1,
    }
    return OwnerTerms(**fields | changed)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "wards.json"
    write_owners(path, [terms("south", records=30), terms("north", epsilon=1.0)])
    return path


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "test.csv"
    columns = {"a": [0.0, 1.0, 2.0], "b": [1.0, 1.5, 2.0], "c": [3.0, 4.0, 5.0]}
    pd.DataFrame(columns | {"label": ["yes", "yes", "no"]}).to_csv(path, index=False)
    return path


@pytest.fixture
def federation(file, table):
    return federation_of_owners(file, table, COLUMNS)


def test_what_owners_told_comes_back_sorted_by_name(file):
    assert read_owners(file) == [terms("north", epsilon=1.0), terms("south", records=30)]


def test_names_sizes_and_shapes_are_known(federation):
    assert (federation.clients, federation.sizes.tolist()) == (("north", "south"), [90, 30])
    assert (federation.record_shape, federation.label_shape, federation.classes) == ((3,), (), 2)
    assert (federation.name, federation.n_clients) == ("wards", 2)


def test_all_test_records_are_kept_with_labels_in_the_stated_order(federation):
    np.testing.assert_array_equal(federation.test_x, [[0, 1, 3], [1, 1.5, 4], [2, 2, 5]])
    np.testing.assert_array_equal(federation.test_y, [1, 1, 0])


READERS = {
    "the simulation": lambda f: Shards.load(f, make_task("logistic", (3,), 2)),
    "least squares' moments": lambda f: Shards.load(f, make_task("linear", (3,), None), condensed=True),
    "fewer records": lambda f: f.take_records(10),
    "a part": lambda f: f.take(0.5),
    "numpy": lambda f: np.asarray(f.x),
    "a sum": lambda f: np.sum(np.square(f.y, dtype=float)),
    "jax": lambda f: jnp.asarray(f.y),
    "a client": lambda f: f.x[0, :3],
    "a mask": lambda f: f.x * np.ones(3),
    "a loop": lambda f: list(f.y),
    "a copy": lambda f: f.x.copy(),
}


@pytest.mark.parametrize("reader", READERS)
def test_whatever_reads_a_record_is_refused(federation, reader):
    with pytest.raises(DataError, match=r"records of wards lie at their owners; train with .* deploy run"):
        READERS[reader](federation)


def test_it_may_be_copied_and_changed_elsewhere(federation):
    few = replace(federation, test_x=federation.test_x[:1], test_y=federation.test_y[:1])
    again = pickle.loads(pickle.dumps(copy.deepcopy(few)))
    assert again.x == federation.x
    assert again.record_shape == (3,)


def test_it_takes_no_memory(tmp_path, table):
    path = tmp_path / "large.json"
    write_owners(path, [terms("one", records=10**15), terms("other")])
    assert federation_of_owners(path, table, COLUMNS).x.shape == (2, 10**15, 3)


def entries(**changed):
    one, other = (terms(name).model_dump(mode="json") for name in ("north", "south"))
    return [one, other | changed]


WRONG = {
    "empty": ([], "names no owners; write it with noiseworthy deploy ask"),
    "no list": ({}, "is no file of owners"),
    "an unknown key": (entries(seed=3), "south: seed: Extra inputs"),
    "no records": (entries(records=0), "south: records: Input should be greater"),
    "records as text": (entries(records="90"), "south: records: Input should be a valid integer"),
    "one name": (entries(client="north"), "two owners called north; one of them must take another name"),
    "other shape": (entries(record_shape=[4]), r"south has record_shape \(4,\), north has \(3,\)"),
    "other classes": (entries(classes=3), "south has classes 3, north has 2"),
    "other order of classes": (
        [
            terms(name, labels=labels).model_dump(mode="json")
            for name, labels in (("north", ("no", "yes")), ("south", ("yes", "no")))
        ],
        r"south has labels \('yes', 'no'\), north has \('no', 'yes'\); .* must agree on it",
    ),
    "other noise": (entries(mechanism="laplace"), "south has mechanism laplace, north has gaussian"),
    "other unit": (entries(unit="client"), "south has unit client, north has record"),
    "no owner": ([entries()[0], 3], "owner 2: Input should be"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_said_with_its_owners_name(tmp_path, what):
    value, words = WRONG[what]
    path = tmp_path / "owners.json"
    path.write_text(json.dumps(value))
    with pytest.raises(DataError, match=words):
        read_owners(path)


def test_a_missing_key_and_a_file_that_is_no_json_are_named(tmp_path):
    path = tmp_path / "owners.json"
    path.write_text(json.dumps([{key: value for key, value in entries()[0].items() if key != "records"}]))
    with pytest.raises(DataError, match="north: records: Field required"):
        read_owners(path)
    path.write_text("[{")
    with pytest.raises(DataError, match="is no file of owners: Invalid JSON"):
        read_owners(path)
    with pytest.raises(DataError, match="no file"):
        read_owners(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (Columns(), "state .* classes, the 2 labels in the owners' order"),
        (Columns(classes=("no", "yes", "perhaps")), "3 classes, the owners' have .* 2; choose"),
        (Columns(classes=("no", "yes"), features=("a", "b")), r"shape \(2,\) .* the owners' have \(3,\)"),
        (Columns(regression=True), "labels are classes; leave out .* regression"),
        (Columns(classes=("no", "maybe")), "labels that are none of the classes"),
        (Columns(label="outcome", classes=("no", "yes")), "no column 'outcome'"),
    ],
)
def test_test_records_of_another_kind_are_refused(file, table, columns, words):
    with pytest.raises(DataError, match=words):
        federation_of_owners(file, table, columns)


@pytest.mark.parametrize("classes", [("no", "yes"), None])
def test_a_server_may_have_no_test_records(tmp_path, classes):
    path = tmp_path / "owners.json"
    write_owners(path, [terms("north", classes=classes and 2, record_shape=(4, 2))])
    federation = federation_of_owners(path, None, Columns(classes=classes, regression=classes is None))
    assert (federation.record_shape, federation.label_shape) == ((4, 2), ())
    assert (federation.test_x.shape, len(federation.test_y), federation.test_origin) == ((0, 4, 2), 0, None)
    assert federation.test_y.dtype == federation.y.dtype == (np.float32 if classes is None else np.int32)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (Columns(), "wards.json: state .* classes, the 2 labels in the owners' order"),
        (Columns(classes=("no", "yes", "perhaps")), "the study .* 3 classes, the owners' have .* 2; choose"),
        (Columns(classes=("no", "yes"), features=("a", "b")), r"the study .* shape \(2,\) and 2 classes"),
        (Columns(regression=True), "wards.json: the owners' labels are classes; leave out .* regression"),
    ],
)
def test_a_study_without_test_records_must_be_of_the_owners_kind(file, columns, words):
    with pytest.raises(DataError, match=words):
        federation_of_owners(file, None, columns)


def test_classes_in_another_order_than_the_owners_are_refused(tmp_path, table):
    """Half of the gain was lost without a word, and the owner's model inverted."""
    path = tmp_path / "owners.json"
    write_owners(path, [terms("north", labels=("no", "yes")), terms("south")])
    with pytest.raises(DataError, match="north's file has classes no, yes in this order, the study yes, no;"):
        federation_of_owners(path, table, Columns(classes=("yes", "no")))
    assert federation_of_owners(path, table, COLUMNS).classes == 2


def test_a_file_that_lists_no_classes_is_that_of_before(file):
    """Whether they are in the same order is not known then."""
    told = json.loads(file.read_text())
    assert not any("labels" in one for one in told)
    write_owners(file, [terms("east", labels=("a", "b")), *read_owners(file)])
    assert [one.labels for one in read_owners(file)] == [("a", "b"), None, None]


def test_numbers_to_predict_are_stated_as_such(tmp_path, table):
    path = tmp_path / "owners.json"
    write_owners(path, [terms("north", classes=None)])
    with pytest.raises(DataError, match=r"labels are numbers; state .* regression"):
        federation_of_owners(path, table, COLUMNS)
    columns = Columns(label="c", regression=True, features=("a", "b", "c"))
    with pytest.raises(DataError, match="cannot be a feature too"):
        federation_of_owners(path, table, columns)
    write_owners(path, [terms("north", classes=None, record_shape=(2,))])
    federation = federation_of_owners(path, table, replace(columns, features=("a", "b")))
    assert (federation.classes, federation.y.dtype) == (None, np.float32)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"data": "digits", "test": "t.csv"}, "and with no other"),
        ({"data": "owners:o.json", "test": "t.csv", "clients": 3}, "clients would deal records out"),
        ({"data": "owners:o.json", "test": "t.csv", "fraction": 0.5}, "fraction would deal"),
        ({"sizes": [3], "test": "t.csv"}, "and with no other"),
    ],
)
def test_keys_that_do_not_fit_a_file_of_owners_are_refused(keys, words):
    with pytest.raises(ValidationError, match=words):
        FederationTable(**keys)
