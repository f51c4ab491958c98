"""Partitions: who owns what, for any labels, clients and seed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noiseworthy.data.partitions import PARTITIONS, partition
from noiseworthy.errors import DataError, InvalidInput

LABELS = st.lists(st.integers(0, 6), min_size=12, max_size=80).map(np.array)
CLIENTS = st.integers(1, 12)
SEEDS = st.integers(0, 2**32 - 1)
COMPLETE = st.sampled_from(
    [
        ("iid", {}),
        ("dirichlet", {"alpha": 0.01}),
        ("dirichlet", {"alpha": 10.0}),
        ("quantity-skew", {"alpha": 0.05}),
    ]
)


def sizes_of(parts):
    return [len(part) for part in parts]


@given(COMPLETE, LABELS, CLIENTS, SEEDS)
def test_every_record_has_one_owner_and_every_owner_a_record(rule, labels, clients, seed):
    name, settings = rule
    parts = partition(name, labels, clients, seed, **settings)
    assert len(parts) == clients
    assert min(sizes_of(parts)) >= 1
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(len(labels)))


@pytest.mark.full
@given(LABELS, CLIENTS, st.integers(1, 7), SEEDS)
def test_label_shards_are_disjoint_equal_and_of_few_labels(labels, clients, held, seed):
    held = min(held, len(np.unique(labels)))
    try:
        parts = partition("label-shards", labels, clients, seed, labels_per_client=held)
    except DataError:
        return  # too few records; the next test pins down when that is so
    owned = np.concatenate(parts)
    assert len(np.unique(owned)) == len(owned)
    assert len(set(sizes_of(parts))) == 1
    assert all(1 <= len(np.unique(labels[part])) <= held for part in parts)


@pytest.mark.full
@given(st.integers(1, 8), st.integers(1, 4), st.integers(1, 6), SEEDS)
def test_label_shards_of_balanced_classes_leave_nothing_out(clients, held, copies, seed):
    # K = N classes of equal size, each held by the same number of clients: equal groups use everything
    held = min(held, clients)
    labels = np.repeat(np.arange(clients), copies)
    parts = partition("label-shards", labels, clients, seed, labels_per_client=held)
    assert sizes_of(parts) == [copies] * clients


def test_two_digits_each_for_ten_clients_shares_every_digit_between_two():
    counts = np.array([5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949])  # of MNIST
    labels = np.repeat(np.arange(10), counts)
    parts = partition("label-shards", labels, 10, seed=3)
    table = np.array([np.bincount(labels[part], minlength=10) for part in parts])
    assert sizes_of(parts) == [6000] * 10
    np.testing.assert_array_equal((table > 0).sum(axis=0), 2)
    np.testing.assert_array_equal((table > 0).sum(axis=1), 2)
    np.testing.assert_array_equal(table.sum(axis=0), counts)
    assert table[table > 0].min() > 2000


def test_label_shards_are_kept_for_the_same_labels_alone_and_worked_out_again_where_damaged(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("NOISEWORTHY_CACHE", str(tmp_path))

    def dealt(labels, held=2):
        parts = partition("label-shards", labels, 4, seed=3, labels_per_client=held)
        return [part.tolist() for part in parts], sorted(tmp_path.rglob("*.npy"))

    labels = np.repeat(np.arange(5), [7, 8, 9, 10, 11])
    first, (kept,) = dealt(labels)
    assert kept.parent.stat().st_mode & 0o077 == 0, "counts of labels are nobody else's"
    assert dealt(labels) == (first, [kept])
    np.save(kept, 0 * np.load(kept))
    assert dealt(labels)[0] == [[]] * 4, "what is kept is what is dealt"
    for damage in (b"", kept.read_bytes()[:-3]):
        kept.write_bytes(damage)
        assert dealt(labels) == (first, [kept])
    assert len(dealt(np.repeat(np.arange(5), 9))[1]) == 2
    assert len(dealt(labels, held=3)[1]) == 3


def test_label_shards_without_enough_records_is_refused():
    with pytest.raises(DataError, match="too few for 4 equal clients; take fewer clients"):
        partition("label-shards", np.array([0, 0, 0, 1]), 4, seed=0, labels_per_client=1)


def test_small_alpha_concentrates_labels_and_large_alpha_spreads_them():
    labels = np.repeat(np.arange(10), 500)

    def share_of_top_label(alpha):
        parts = partition("dirichlet", labels, 10, seed=0, alpha=alpha)
        return np.mean([np.bincount(labels[part]).max() / len(part) for part in parts])

    assert share_of_top_label(0.05) > 0.5
    assert share_of_top_label(1000.0) < 0.15


def test_quantity_skew_skews_sizes_but_not_labels():
    labels = np.tile(np.arange(2), 5000)
    parts = partition("quantity-skew", labels, 5, 1, alpha=0.5)
    assert max(sizes_of(parts)) > 4 * min(sizes_of(parts))
    assert all(abs(labels[part].mean() - 0.5) < 3 / np.sqrt(len(part)) for part in parts)


def test_natural_joins_neighbouring_owners_in_runs():
    owners = np.array([30, 10, 20, 10, 40, 50])
    parts = partition("natural", np.zeros(6), 2, seed=0, client_ids=owners)
    assert [sorted(owners[part]) for part in parts] == [[10, 10, 20, 30], [40, 50]]


@pytest.mark.parametrize("name", [name for name in PARTITIONS if name != "natural"])
def test_the_seed_decides_the_partition(name):
    labels = np.tile(np.arange(4), 30)
    settings = {"alpha": 1.0} if name in ("dirichlet", "quantity-skew") else {}
    first, again, other = (np.concatenate(partition(name, labels, 5, s, **settings)) for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@given(st.lists(st.floats(-5, 5, width=16), min_size=12, max_size=80).map(np.array), CLIENTS, SEEDS)
def test_sorted_groups_are_equal_and_follow_each_other_in_the_order_of_labels(targets, clients, seed):
    parts = partition("sorted", targets, clients, seed)
    owned = np.concatenate(parts)
    assert sizes_of(parts) == [len(targets) // clients] * clients
    assert len(np.unique(owned)) == len(owned)
    ranges = [(targets[part].min(), targets[part].max()) for part in parts]
    assert all(low[1] <= high[0] for low, high in pairwise(ranges))


def test_sorted_leaves_out_no_particular_range_of_labels():
    # 11 records for 10 clients: each is left out with chance 1/11; 2,000 seeds, false alarm below 1e-6
    left = [
        set(range(11)) - set(np.concatenate(partition("sorted", np.arange(11), 10, s))) for s in range(2000)
    ]
    counts = np.bincount([one for (one,) in left], minlength=11)
    assert np.all(np.abs(counts - 2000 / 11) < 5.5 * np.sqrt(2000 / 11))


def test_sorted_classes_give_most_clients_one_class():
    labels = np.tile(np.arange(4), 25)
    parts = partition("sorted", labels, 10, seed=0)
    assert sum(len(np.unique(labels[part])) == 1 for part in parts) == 8


@pytest.mark.parametrize("name", ["dirichlet", "label-shards", "sorted"])
def test_rules_on_labels_refuse_records_of_many_labels(name):
    settings = {"alpha": 1.0} if name == "dirichlet" else {}
    with pytest.raises(DataError, match=rf"'{name}' needs one label per record .* \(7,\).*natural"):
        partition(name, np.zeros((20, 7), int), 2, seed=0, **settings)


@pytest.mark.parametrize("name", ["iid", "quantity-skew", "natural"])
def test_rules_that_read_no_label_deal_out_records_of_many_labels(name):
    settings = {"quantity-skew": {"alpha": 1.0}, "natural": {"client_ids": np.repeat(np.arange(4), 5)}}
    parts = partition(name, np.zeros((20, 7), int), 4, seed=0, **settings.get(name, {}))
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(20))


@pytest.mark.parametrize("name", ["dirichlet", "label-shards"])
def test_rules_on_labels_refuse_regression_targets(name):
    settings = {"alpha": 1.0} if name == "dirichlet" else {}
    with pytest.raises(DataError, match="needs classes and the labels are float64"):
        partition(name, np.linspace(0, 1, 20), 2, seed=0, **settings)


@pytest.mark.parametrize(
    ("name", "clients", "settings", "message"),
    [
        ("shuffle", 2, {}, "partition must be one of 'iid'"),
        ("iid", 2, {"alpha": 1.0}, "takes no settings, got 'alpha'"),
        ("dirichlet", 2, {}, "needs alpha"),
        ("dirichlet", 2, {"alpha": 0.0}, "alpha must be finite and above 0"),
        ("dirichlet", 2, {"alpha": float("nan")}, "alpha must be a number, got NaN"),
        ("label-shards", 2, {"labels_per_client": 5}, "between 1 and 3"),
        ("iid", 0, {}, "clients must be between 1 and 9"),
        ("iid", 10, {}, "every client needs a record"),
        ("natural", 3, {"client_ids": np.repeat([1, 2, 2], 3)}, "the data name no more owners"),
    ],
)
def test_bad_settings_are_refused_with_the_remedy(name, clients, settings, message):
    with pytest.raises(InvalidInput, match=message):
        partition(name, np.tile(np.arange(3), 3), clients, seed=0, **settings)


def test_natural_refuses_owners_of_other_records():
    with pytest.raises(DataError, match="owner of each of 3 records, got 2"):
        partition("natural", np.zeros(3), 1, seed=0, client_ids=np.array([1, 2]))
