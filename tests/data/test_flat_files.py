"""Federations end to end: padding is not kept, files are mapped, and Parquet ends where a function would."""

from __future__ import annotations

import json
from dataclasses import replace
from io import FileIO

import numpy as np
import pandas as pd
import pytest

from noiseworthy.data import Federation, ragged
from noiseworthy.data.ragged import Ragged, is_ragged
from noiseworthy.errors import DataError, InvalidInput

SIZES = (3, 1, 40, 2)
TEST = np.ones((2, 3)), [0, 1]


def records(i):
    rng = np.random.default_rng(i)
    return rng.normal(size=(SIZES[i], 3)).astype(np.float32), rng.integers(0, 2, SIZES[i])


def mapped(folder, function=records, **options):
    given = {"test": TEST, "classes": 2, "name": "toy"} | options
    return Federation.from_function(function, len(SIZES), folder=folder, **given)


def assert_holds_the_records(fed):
    assert fed.sizes.tolist() == list(SIZES)
    for i in range(len(SIZES)):
        np.testing.assert_array_equal(fed.x[i], records(i)[0])
        np.testing.assert_array_equal(fed.y[i], records(i)[1])


def test_a_function_is_asked_once_for_each_client_and_its_records_are_mapped(tmp_path):
    asked = []
    fed = mapped(tmp_path / "new", lambda i: (asked.append(i), records(i))[1], client_names="abcd")
    assert asked == [0, 1, 2, 3]
    assert_holds_the_records(fed)
    assert isinstance(fed.x.rows.base, np.memmap)
    assert (fed.clients, fed.record_shape, fed.label_shape, fed.classes) == (tuple("abcd"), (3,), (), 2)
    assert (fed.x.shape, fed.x.dtype, fed.y.dtype) == ((4, 40, 3), np.float32, np.int32)
    assert (tmp_path / "new").stat().st_mode & 0o077 == 0
    assert_holds_the_records(Federation.opened(tmp_path / "new"))


def test_files_in_a_folder_that_was_there_are_for_their_user_alone(tmp_path, tables):
    (tmp_path / "there").mkdir(mode=0o755)
    (tmp_path / "flat").mkdir(mode=0o755)
    mapped(tmp_path / "there")
    frame(0).to_parquet(tables / "ward.parquet")
    from_parquet(tmp_path)
    for folder in ("there", "flat"):
        assert {file.stat().st_mode & 0o777 for file in (tmp_path / folder).iterdir()} == {0o600}, folder


def test_fewer_records_of_a_mapped_client_are_a_view(tmp_path):
    few = mapped(tmp_path / "new").take_records(2)
    assert few.sizes.tolist() == [2, 1, 2, 2]
    assert isinstance(few.x.rows.base, np.memmap)
    assert few.x.rows.shape == (sum(SIZES), 3)
    np.testing.assert_array_equal(few.x[2], records(2)[0][:2])


def test_clients_are_stacked_unless_most_of_it_would_be_padding(monkeypatch):
    given = {"test": TEST, "classes": 2, "name": "toy"}
    assert isinstance(Federation.from_clients([*map(records, range(4))], **given).x, np.ndarray)
    monkeypatch.setattr(ragged, "_MOST_STACKED", 100)
    monkeypatch.setattr(ragged, "_MOST_PADDING", 3)
    fed = Federation.from_clients([*map(records, range(4))], **given)
    assert isinstance(fed.x, Ragged)
    assert fed.x.rows.shape == (sum(SIZES), 3)
    assert_holds_the_records(fed)


def test_a_power_law_is_not_stacked_and_like_sizes_are():
    power_law = np.r_[np.full(99_999, 20), 40_000]
    assert is_ragged(power_law, 20)
    assert not is_ragged(np.full(10_000, 600), 784)
    assert not is_ragged(np.array([40, 8_400]), 102)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda i: (np.zeros((2, 3)), [0, 2]), "client 0 has a label 2"),
        (lambda i: (np.zeros((2, 4)), [0, 1]), "all records must have one shape"),
        (lambda i: (np.full((2, 3), np.nan), [0, 1]), "NaN or infinite"),
        (lambda i: (np.zeros((0, 3)), []), "no records"),
    ],
)
def test_records_of_a_function_are_checked(tmp_path, function, message):
    with pytest.raises(DataError, match=message):
        mapped(tmp_path / "new", function)
    with pytest.raises(DataError, match="holds no whole federation"):
        Federation.opened(tmp_path / "new")


@pytest.mark.parametrize("names", [np.array([7, 8, 9, 10]), [7, 8, 9, 10], np.array(["7", "8", "9", "10"])])
def test_clients_may_be_named_by_arrays_and_numbers_as_in_memory(tmp_path, names):
    assert mapped(tmp_path / "new", client_names=names).clients == ("7", "8", "9", "10")


def test_a_number_of_clients_that_is_none_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"clients must be a whole number, got 1000000\.0"):
        Federation.from_function(records, 1e6, folder=tmp_path, test=TEST, classes=2, name="toy")


def test_two_clients_of_one_name_are_refused(tmp_path):
    with pytest.raises(DataError, match="different client_names for each, got 4, 3"):
        mapped(tmp_path / "new", client_names="abca")


def test_a_folder_that_holds_something_is_not_written_into(tmp_path):
    mapped(tmp_path / "new")
    with pytest.raises(DataError, match="holds something already"):
        mapped(tmp_path / "new")


def test_a_folder_cut_short_is_refused(tmp_path):
    mapped(tmp_path / "new")
    np.save(tmp_path / "new" / "sizes.npy", np.array([1, 2]))
    with pytest.raises(DataError, match="do not fit"):
        Federation.opened(tmp_path / "new")


def frame(i, **more):
    x, y = records(i)
    return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "label": y, **more})


def from_parquet(tmp_path, **options):
    given = {"folder": tmp_path / "flat", "test": TEST, "classes": [0, 1]} | options
    return Federation.from_parquet(tmp_path / "tables", **given)


@pytest.fixture
def tables(tmp_path):
    (tmp_path / "tables").mkdir()
    return tmp_path / "tables"


def test_a_file_is_a_client_where_no_column_names_clients(tmp_path, tables):
    for i in range(4):
        frame(i).to_parquet(tables / f"ward{i}.parquet")
    fed = from_parquet(tmp_path)
    assert_holds_the_records(fed)
    assert fed.clients == ("ward0", "ward1", "ward2", "ward3")
    assert isinstance(fed.x.rows.base, np.memmap)


def test_records_of_a_client_are_found_in_all_files_and_rows(tmp_path, tables, monkeypatch):
    monkeypatch.setattr("noiseworthy.data.flat_files._ROWS", 7)
    whole = pd.concat([frame(i, client=f"ward{i}") for i in range(4)])
    whole = whole.assign(order=np.arange(len(whole))).sample(frac=1, random_state=0)
    whole[:20].drop(columns="order").to_parquet(tables / "one.parquet")
    whole[20:].drop(columns="order").to_parquet(tables / "two.parquet")
    fed = from_parquet(tmp_path, feature_columns=["a", "b", "c"])
    assert (fed.sizes.tolist(), fed.clients[2]) == (list(SIZES), "ward2")
    for i in range(4):
        mine = whole[whole.client == f"ward{i}"]
        np.testing.assert_array_equal(fed.x[i], mine[["a", "b", "c"]].to_numpy())
        np.testing.assert_array_equal(fed.y[i], mine.label.to_numpy())


def test_test_records_may_lie_in_a_parquet_file(tmp_path, tables):
    for i in range(4):
        frame(i).to_parquet(tables / f"ward{i}.parquet")
    frame(2).to_parquet(tmp_path / "test.parquet")
    np.testing.assert_array_equal(
        from_parquet(tmp_path, test=tmp_path / "test.parquet").test_x, records(2)[0]
    )


@pytest.mark.parametrize("more", [{}, {"client": "x"}])
def test_a_file_of_tests_that_lies_among_the_others_does_not_train(tmp_path, tables, more, monkeypatch):
    for i in range(4):
        frame(i, **more).to_parquet(tables / f"ward{i}.parquet")
    monkeypatch.chdir(tables)
    fed = from_parquet(tmp_path, test="ward2.parquet")
    assert fed.sizes.sum() == sum(SIZES) - SIZES[2]
    np.testing.assert_array_equal(fed.test_x, records(2)[0])
    assert "ward2" not in fed.clients
    ward = tables / "ward2.parquet"
    with pytest.raises(DataError, match=r"ward2\.parquet holds no files .* to train; name"):
        Federation.from_parquet(ward, folder=tmp_path / "other", test=ward, classes=[0, 1])


def test_whole_numbers_as_test_records_leave_those_of_the_tables_as_they_are(tmp_path, tables):
    """Arrays of int32 are tokens elsewhere: all records were cut to whole numbers, without a word."""
    for i in range(4):
        frame(i).to_parquet(tables / f"ward{i}.parquet")
    fed = from_parquet(tmp_path, test=(np.ones((2, 3), np.int32), [0, 1]))
    assert_holds_the_records(fed)
    assert fed.x.dtype == fed.test_x.dtype == np.float32


def test_columns_are_told_by_their_names_wherever_a_file_has_them(tmp_path, tables):
    orders = ["abc", "cab", "bca", "acb"]
    for i, order in enumerate(orders):
        frame(i)[["label", *order]].to_parquet(tables / f"ward{i}.parquet")
    frame(2)[[*"bac", "label"]].to_parquet(tmp_path / "test.parquet")
    fed = from_parquet(tmp_path, test=tmp_path / "test.parquet")
    assert_holds_the_records(fed)
    np.testing.assert_array_equal(fed.test_x, records(2)[0])
    frame(1, d=0.0).to_parquet(tables / "ward1.parquet")
    with pytest.raises(DataError, match=r"ward1\.parquet has other columns than .*ward0\.parquet"):
        from_parquet(tmp_path, folder=tmp_path / "other")


@pytest.mark.parametrize("nobody", [["a", None, "b"], [1, None, 2], [1.5, None, 2]])
def test_records_that_are_nobodys_are_refused(tmp_path, tables, nobody):
    column = pd.Series(nobody).convert_dtypes() if nobody[0] == 1 else pd.Series(nobody)
    frame(0, client=column).to_parquet(tables / "all.parquet")
    with pytest.raises(DataError, match=r"all\.parquet: column 'client' has 1 "):
        from_parquet(tmp_path)


def test_clients_that_are_whole_numbers_in_some_files_and_floats_in_others_are_refused(tmp_path, tables):
    """One client would be two, each with a budget of its own."""
    frame(0, client=[1, 2, 1]).to_parquet(tables / "a.parquet")
    frame(0, client=[1.0, 2.0, 1.0])[:0].to_parquet(tables / "empty.parquet")
    assert from_parquet(tmp_path).clients == ("1", "2")
    frame(0, client=[1.0, 2.0, 1.0]).to_parquet(tables / "b.parquet")
    with pytest.raises(DataError, match=r"b\.parquet and other files differ in whether column 'client'"):
        from_parquet(tmp_path, folder=tmp_path / "other")


def test_a_field_within_a_column_is_no_column_of_clients(tmp_path, tables):
    frame(0, about=[{"client": 1}] * 3).to_parquet(tables / "ward.parquet")
    assert from_parquet(tmp_path, feature_columns=["a", "b", "c"]).clients == ("ward",)


def test_rows_that_are_marked_to_test_do_not_train(tmp_path, tables):
    frame(0, split=["train", "test", "train"]).to_parquet(tables / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet has rows marked 'test', which would train"):
        from_parquet(tmp_path)


def test_parquet_that_does_not_fit_is_refused(tmp_path, tables):
    with pytest.raises(DataError, match=r"no files that end in \.parquet"):
        from_parquet(tmp_path)
    frame(0).to_parquet(tables / "a.parquet")
    for stated in ({"classes": None}, {"regression": True}):  # with both, labels would be cut
        with pytest.raises(InvalidInput, match="classes must be stated, or else regression = True"):
            from_parquet(tmp_path, **stated)
    with pytest.raises(DataError, match=r"records of shape \(2,\), the test set \(3,\)"):
        from_parquet(tmp_path, feature_columns=["a", "b"])
    frame(1, client="b").to_parquet(tables / "b.parquet")
    with pytest.raises(DataError, match="differ in whether they have a column 'client'"):
        from_parquet(tmp_path, folder=tmp_path / "other")
    (tables / "b.parquet").write_text("nothing")
    with pytest.raises(DataError, match="cannot be read as a Parquet table"):
        from_parquet(tmp_path, folder=tmp_path / "other")


def test_parquet_files_in_folders_of_their_own_are_not_left_out_without_a_word(tmp_path, tables):
    frame(0).to_parquet(tables / "a.parquet")
    (tables / "ward").mkdir()
    frame(1).to_parquet(tables / "ward" / "b.parquet")
    with pytest.raises(DataError, match=r"ward/b\.parquet lies in a folder of its own; put the files of all"):
        from_parquet(tmp_path)
    fed = from_parquet(tmp_path, folder=tmp_path / "other", test=tables / "ward" / "b.parquet")
    assert fed.sizes.tolist() == [SIZES[0]]


def test_what_a_system_reads_in_parts_is_whole(tmp_path, monkeypatch):
    """It reads 2 GiB at once at most, and less where it is interrupted."""

    class Slow(FileIO):
        def readinto(self, into):
            return super().readinto(memoryview(into)[:7])

    fed = mapped(tmp_path / "new")
    monkeypatch.setattr(ragged, "open", lambda name, mode, buffering: Slow(name, mode), raising=False)
    np.testing.assert_array_equal(fed.x.of_clients(np.array([2]), 40), records(2)[0])
    with (tmp_path / "new" / "x.npy").open("rb+") as file:
        file.truncate(300)
    with pytest.raises(DataError, match=r"x\.npy is cut off"):
        fed.x.of_clients(np.array([2]), 40)


@pytest.mark.parametrize("asked", [[0, 1, 2, 3], [1], [0, 2, 3], [3, 0]])
def test_rows_of_some_clients_are_read_from_files_as_from_memory(tmp_path, asked):
    fed, clients = mapped(tmp_path / "new"), np.array(asked)
    expected = np.zeros((60, 3), np.float32)
    rows = np.concatenate([records(i)[0] for i in asked])
    expected[: len(rows)] = rows
    there = Ragged.laid([records(i)[0] for i in range(4)])
    for x in (fed.x, there):
        np.testing.assert_array_equal(x.of_clients(clients, 60), expected)
        np.testing.assert_array_equal(x[..., :2].of_clients(clients, 60), expected[:, :2])
    np.testing.assert_array_equal(
        fed.y.of_clients(clients, 60)[: len(rows)], np.concatenate([records(i)[1] for i in asked])
    )


def test_a_file_that_was_cut_off_is_named(tmp_path):
    fed = mapped(tmp_path / "new")
    with (tmp_path / "new" / "x.npy").open("r+b") as file:
        file.truncate(200)
    with pytest.raises(DataError, match="is cut off"):
        fed.x.of_clients(np.arange(4), 60)


def test_what_records_there_are_is_known_without_reading_them(tmp_path):
    """A training asks for it first, and the records may be more than fit into memory."""
    fed = mapped(tmp_path / "new")
    other = mapped(tmp_path / "other", lambda i: (-records(i)[0], records(i)[1]))
    assert replace(fed, x=None, y=None).content == fed.content
    assert fed.content == mapped(tmp_path / "again").content != other.content
    assert fed.take_records(2).content != fed.content
    about = tmp_path / "new" / "federation.json"
    about.write_text(json.dumps({k: v for k, v in json.loads(about.read_text()).items() if k != "records"}))
    assert Federation.opened(tmp_path / "new").content == ""  # of an earlier version
