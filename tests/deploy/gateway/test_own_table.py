"""An owner's own table: all of it is the owner's, but what is marked for tests."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pytest

from noiseworthy.data.schema import read_schema
from noiseworthy.data.table import FederationTable
from noiseworthy.deploy.gateway.holding import Holding
from noiseworthy.errors import ConfigError, DataError

COLUMNS = {"age": np.arange(10.0), "site": np.repeat(["oslo", "rome"], 5), "label": np.tile(["no", "yes"], 5)}


def held(path, client="anybody", **keys) -> Holding:
    table = {"clients": 1, "classes": ["no", "yes"], "feature_columns": ["age"]} | keys
    return Holding.load(FederationTable(data=str(path), **table), client)


@pytest.fixture
def save(tmp_path):
    def saved(**changed):
        path = tmp_path / "records.csv"
        pd.DataFrame(COLUMNS | changed).to_csv(path, index=False)
        return path

    return saved


def test_every_record_is_kept_in_its_order(save):
    holding = held(save())
    np.testing.assert_array_equal(holding.x[:, 0], np.arange(10))
    np.testing.assert_array_equal(holding.y, np.arange(10) % 2)
    assert holding.classes == 2


def test_records_that_are_marked_for_tests_are_not_the_gateways(save):
    holding = held(save(split=["train", "test"] * 5))
    np.testing.assert_array_equal(holding.x[:, 0], np.arange(0, 10, 2))
    with pytest.raises(DataError, match="no train records"):
        held(save(split="test"))


def test_an_owner_without_some_class_numbers_labels_as_the_others_do(save):
    holding = held(save(label="yes"))
    assert (set(holding.y.tolist()), holding.classes) == ({1}, 2)


def test_a_table_of_several_owners_is_still_dealt_out_as_a_study_does(save):
    """A fifth of each is set aside there, because the study does."""
    keys = {"clients": None, "client_column": "site"}
    assert held(save(), "rome", **keys).size == 4
    np.testing.assert_array_equal(held(save(site="here"), "anybody", **keys).x.shape, (8, 1))


@pytest.mark.parametrize("keys", [{"records_per_client": 3}, {"fraction": 0.5}])
def test_a_part_of_an_own_table_is_refused(save, keys):
    with pytest.raises(DataError, match="all records of an owner's own table are taken; leave out"):
        held(save(), **keys)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"partition": "dirichlet", "alpha": 1.0}, "deals the table out by its private labels"),
        ({"partition": "label-shards", "labels_per_client": 1}, "deals the table out by its private labels"),
        ({"partition": "sorted"}, "deals the table out by its private labels"),
    ],
)
def test_one_changed_label_exchanges_no_other_records_of_an_owner(save, keys, says):
    """The price of a request is for one record: dealt out by labels, one change would exchange many."""
    with pytest.raises(ConfigError, match=f"no records of which one changes others: .*{says}"):
        held(save(), "client 0", clients=2, **keys)
    assert held(save(), "client 0", clients=2, partition="iid").size


def test_one_exchanged_person_exchanges_no_others_of_an_owner(save):
    """Dealt out by their places, persons of one owner move to another where one has fewer records."""
    stated = {
        "label": {"role": "label", "classes": ["no", "yes"]},
        "site": {"role": "person", "at_most": 5},
        "age": {"kind": "number", "range": [0, 10]},
    }
    columns = read_schema(stated).of_persons()
    table = FederationTable(data=str(save(site=np.repeat(["a", "b", "c", "d", "e"], 2))), clients=2)
    with pytest.raises(ConfigError, match="an exchange of one person deals others anew"):
        Holding.load(table, "client 0", columns)
    alone = Holding.load(table.model_copy(update={"clients": 1}), "anybody", columns)
    assert (alone.size, alone.row) == (5, "person")


def test_classes_that_labels_themselves_would_name_are_refused(femnist_folder):
    """One label that is another class would number the others anew, and the server could not tell."""
    folder = FederationTable(data=f"leaf:{femnist_folder}")
    with pytest.raises(ConfigError, match="read off the private labels, so that one changed label"):
        Holding.load(folder, "f0000_14")
    stated = folder.model_copy(update={"classes": list(range(62))})
    assert Holding.load(stated, "f0000_14").classes == 62


@pytest.mark.parametrize("suffix", [".feather", ".xlsx", ".db"])
def test_records_of_any_format_keep_their_fingerprint(suffix, tmp_path):
    """Read twice they are the same bytes, by which an account knows them, and those of the csv."""
    frame, path = pd.DataFrame(COLUMNS).sample(frac=1, random_state=0), tmp_path / f"records{suffix}"
    frame.to_csv(tmp_path / "records.csv", index=False)
    keys, source = {}, str(path)
    if suffix == ".db":
        with closing(sqlite3.connect(path)) as database:
            frame.assign(nr=range(10)).to_sql("records", database, index=False)
        source, keys = f"sql:sqlite:///{path}", {"query": "select age, site, label from records order by nr"}
    elif suffix == ".xlsx":
        frame.to_excel(path, index=False)
    else:
        frame.reset_index(drop=True).to_feather(path)
    parts = [b"".join(bytes(part) for part in held(source, **keys).parts) for _ in range(2)]
    expected = b"".join(bytes(part) for part in held(tmp_path / "records.csv").parts)
    assert parts == [expected, expected]
