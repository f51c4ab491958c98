"""LEAF folders."""

from __future__ import annotations

import json

import numpy as np
import pytest

from noiseworthy.data import load_federation, read_leaf
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


def test_a_user_spread_over_two_files_is_one_client(tmp_path):
    records = read_leaf(folder(tmp_path, train=[TRAIN, {"bob": ([[0.0, 1.0]], [9])}]))
    assert records.client_ids.tolist() == ["ann", "ann", "bob", "bob"]


def test_a_user_without_training_records_is_no_client(tmp_path):
    fed = load_federation(f"leaf:{folder(tmp_path, train=[TRAIN | {'eve': ([], [])}])}", seed=0)
    assert fed.clients == ("ann", "bob")


@pytest.mark.parametrize(
    ("users", "message"),
    [
        ({"ann": (["once upon"], [1])}, "features that are not numbers; encode text"),
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
