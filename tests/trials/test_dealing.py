"""Public records dealt out: owners stay whole, sizes are the study's, other seeds deal other records."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from noiseworthy.data import Records
from noiseworthy.trials.dealing import dealt
from noiseworthy.trials.proxies import DEALS, make_proxies


def owned(owners=3, each=10):
    """Public records that say whose they are."""
    ids = np.repeat(np.arange(owners), each)
    x = np.stack([ids, np.arange(len(ids)), ids, ids], axis=1).astype(np.float32)
    return Records(x, ids % 2, x[:5], ids[:5] % 2, 2, "owned", ids)


@pytest.mark.parametrize("sizes", [[8, 8], [4, 25, 9, 12, 6]])
def test_a_client_holds_records_of_one_public_owner(facts_of, sizes):
    """With fewer clients than owners some are left out; with more, owners stand for several clients."""
    federation = dealt(facts_of(sizes=sizes, classes=2, partition="natural"), owned(), seed=1)
    assert federation.sizes.tolist() == sizes
    holders = [set(x[:n, 0]) for x, n in zip(federation.x, sizes, strict=True)]
    assert all(len(one) == 1 for one in holders)
    assert len(set.union(*holders)) == min(3, len(sizes))
    for x, n in zip(federation.x, sizes, strict=True):
        assert len(set(x[:n, 1])) == min(n, 10), "no record twice before all were taken"


def test_where_public_data_name_no_owners_clients_are_alike(facts_of):
    records = replace(owned(), client_ids=None)
    federation = dealt(facts_of(sizes=(300, 300), classes=2, partition="natural"), records, seed=1)
    for x, y in zip(federation.x, federation.y, strict=True):
        assert set(x[:, 0]) == {0, 1, 2}
        assert 0.2 < y.mean() < 0.5


def test_other_seeds_deal_other_records_and_the_same_seed_the_same(facts_of):
    facts, records = facts_of(sizes=(8, 8), classes=2, partition="natural"), owned()
    one, again, other = (dealt(facts, records, seed) for seed in (1, 1, 3))
    np.testing.assert_array_equal(one.x, again.x)
    assert not np.array_equal(one.x, other.x)


def test_a_proxy_deals_its_records_out_anew_so_many_times(facts_of):
    (proxy,) = make_proxies(facts_of(), ["wine"])
    every = [np.asarray(proxy.deal(number).shards.train.x) for number in range(DEALS)]
    assert proxy.deal(DEALS) is proxy.deal(0)
    for i, one in enumerate(every):
        assert not any(np.array_equal(one, other) for other in every[:i])
    np.testing.assert_array_equal(proxy.deal(1).shards.train.mask, proxy.deal(0).shards.train.mask)
