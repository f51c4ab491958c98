"""LEAF folders."""

from __future__ import annotations

import json

import numpy as np
import pytest

from noiseworthy.data import load_federation, load_records, read_leaf
from noiseworthy.data.leaf import femnist_images
from noiseworthy.errors import DataError


def leaf(users):
    return {
        "users": list(users),
        "num_samples": [len(y) for _, y in users.values()],
        "user_data": {user: {"x": x, "y": y} for user, (x, y) in users.items()},
    }


TRAIN = {"ann": ([[1.0, 2.0], [3.0, 4.0]], [5, 9]), "bob": ([[5.0, 6.0]], [5])}
TEST = {"ann": ([[7.0, 8.0]], [9])}


def folder(root, train=(TRAIN,), test=(TEST,)):
    for part, files in (("train", train), ("test", test)):
        (root / part).mkdir()
        for i, users in enumerate(files):
            content = users if isinstance(users, str) else json.dumps(leaf(users))
            (root / part / f"{part}_{i}.json").write_text(content)
    return root


def test_users_of_many_files_become_clients_and_test_records_are_pooled(tmp_path):
    folder(tmp_path, train=[TRAIN, {"cy": ([[0.0, 1.0]], [9])}], test=[TEST, {"bob": ([[9.0, 9.0]], [5])}])
    fed = load_federation(f"leaf:{tmp_path}", seed=0)
    assert (fed.clients, fed.sizes.tolist(), fed.classes) == (("ann", "bob", "cy"), [2, 1, 1], 2)
    np.testing.assert_array_equal(fed.test_x, [[7, 8], [9, 9]])
    np.testing.assert_array_equal(fed.test_y, [1, 0])
    np.testing.assert_array_equal(fed.x[1, 0], [5, 6])


def test_classes_that_are_stated_are_not_read_off_the_labels(tmp_path):
    source = f"leaf:{folder(tmp_path)}"
    found, stated = load_records(source), load_records(source, classes=[9, 5, 7])
    assert (found.classes, found.classes_found) == (2, ("5", "9"))
    assert (stated.classes, stated.classes_found) == (3, ())
    assert stated.y.tolist() == [1, 0, 1]
    with pytest.raises(DataError, match="labels that are none of the classes 5, 7"):
        load_records(source, classes=[5, 7])


@pytest.mark.parametrize(("label", "said"), [(None, "records without a label"), (np.inf, "classes, got inf")])
def test_what_is_no_label_is_no_class(tmp_path, label, said):
    with pytest.raises(DataError, match=said):
        read_leaf(folder(tmp_path, train=[TRAIN, {"cy": ([[0.0, 1.0]], [label])}]))


def test_a_user_spread_over_two_files_is_one_client(tmp_path):
    records = read_leaf(folder(tmp_path, train=[TRAIN, {"bob": ([[0.0, 1.0]], [9])}]))
    assert records.client_ids.tolist() == ["ann", "ann", "bob", "bob"]


def test_a_user_without_training_records_is_no_client(tmp_path):
    fed = load_federation(f"leaf:{folder(tmp_path, train=[TRAIN | {'eve': ([], [])}])}", seed=0)
    assert fed.clients == ("ann", "bob")


@pytest.mark.parametrize(
    ("users", "message"),
    [
        ({"ann": (["once upon"], [1])}, "features that are not numbers of one shape; encode text"),
        ({"ann": ([[1.0, np.nan]], [1])}, "NaN or infinite"),
        ({"ann": ([[1.0, 2.0], [1.0]], [0, 1])}, "not numbers"),
        ({"ann": ([[1.0], [2.0]], [1])}, "2 features and 1 labels, num_samples says 1"),
        ({"ann": ([[1.0, 2.0]], [1]), "bob": ([[1.0]], [2])}, "one shape"),
        ({"ann": ([[1.0, 2.0]], [0.5])}, "whole numbers or text"),
        ("{", "not valid JSON"),
        ("{}", "lacks 'users'"),
        ("[]", "a LEAF file holds users"),
        ('{"users": ["ann"], "num_samples": [], "user_data": {"ann": {"x": [], "y": []}}}', "lacks 'ann'"),
    ],
)
def test_damaged_folders_are_refused(tmp_path, users, message):
    with pytest.raises(DataError, match=message):
        read_leaf(folder(tmp_path, train=[users]))


def test_a_folder_without_test_files_names_what_it_should_hold(tmp_path):
    with pytest.raises(DataError, match=r"no JSON files in .*test; a LEAF folder holds"):
        read_leaf(folder(tmp_path, test=[]))


# FEMNIST --------------------------------------------------------------------------------------------


def test_femnists_flat_records_become_images_of_ink_on_black(femnist_folder):
    """LEAF writes paper as 1 and ink as 0; the images that stand in for these are the other way round."""
    fed = load_federation(f"leaf:{femnist_folder}", seed=0)
    assert fed.clients == ("f0000_14", "f0001_41", "f0002_00", "f0003_22")
    assert fed.record_shape == (28, 28)
    assert fed.x[:, :, 0].max() == 0.0
    assert 0.05 < fed.x.mean() < 0.4
    drawn = load_records("digits").x[:, None, None].repeat(3, -1).repeat(3, -2)  # what the folder was made of
    assert fed.x.max() == drawn.max() == 1.0


def test_images_are_turned_each_by_itself():
    """An image on black is left alone, whatever stands beside it; nothing else of any length is touched."""
    rng = np.random.default_rng(0)
    dark = np.zeros((28, 28), np.float32)
    dark[5:20, 5:20] = rng.random((15, 15))
    records = np.stack([dark.ravel(), 1 - dark.ravel()])
    np.testing.assert_allclose(femnist_images(records), [dark, dark], atol=1e-6)
    np.testing.assert_array_equal(femnist_images(records[1:]), femnist_images(records)[1:])
    np.testing.assert_array_equal(femnist_images(records.reshape(2, 28, 28)), femnist_images(records))
    plain = rng.random((3, 60), np.float32)
    assert femnist_images(plain) is plain


def test_both_parts_of_a_folder_are_turned(femnist_folder):
    records = read_leaf(femnist_folder)
    assert records.test_x.shape == (8, 28, 28)
    assert records.test_x[:, 0].max() == 0.0
