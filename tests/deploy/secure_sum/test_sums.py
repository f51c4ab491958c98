"""A secure sum is the plain sum to the last bit, for the fewest survivors and above, and nothing below."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from noiseworthy.deploy.secure_sum import masks
from noiseworthy.deploy.secure_sum.collector import Collector
from noiseworthy.deploy.secure_sum.keys import Roster, agreed, derived, public_of
from noiseworthy.deploy.secure_sum.masks import own_mask, steps_of, stream, words_of
from noiseworthy.deploy.secure_sum.member import Member
from noiseworthy.deploy.secure_sum.messages import read_upload
from noiseworthy.deploy.secure_sum.terms import Terms, check_range
from noiseworthy.errors import InvalidInput, VoidRound

from .conftest import KEYS, Party

ALARM = 1e-6
"""Rate at which a test of uniformity fails by chance, on either side."""


@pytest.mark.parametrize(("b", "t", "d"), [(2, 0, 0), (3, 0, 1), (5, 1, 1), (7, 0, 3), (7, 2, 2)])
def test_the_sum_of_all_is_the_plain_sum(party, b, t, d):
    owners = party(b, t, d)
    done = owners.run(owners.terms())
    assert done.survivors == tuple(owners.names)
    assert done.faults == {}
    np.testing.assert_array_equal(done.total, owners.sum_of(owners.names))


@pytest.mark.parametrize("step", [0, 1, 2])
def test_owners_who_drop_out_before_they_upload_are_left_out_of_an_exact_sum(party, step):
    owners = party(7, 1, 2)
    gone = {"owner 2", "owner 6"}
    done = owners.run(owners.terms(), {step: gone})
    assert set(done.survivors) == set(owners.names) - gone
    np.testing.assert_array_equal(done.total, owners.sum_of(done.survivors))


@pytest.mark.parametrize("step", [3, 4])
def test_owners_who_drop_out_after_they_uploaded_are_in_the_sum(party, step):
    owners = party(7, 1, 2)
    done = owners.run(owners.terms(), {step: {"owner 1", "owner 5"}})
    np.testing.assert_array_equal(done.total, owners.sum_of(owners.names))


@pytest.mark.parametrize("step", range(5))
def test_with_one_more_than_the_dropouts_missing_nothing_is_opened(party, step):
    owners = party(7, 1, 2)
    with pytest.raises(VoidRound, match=r"4 of 7 (owners|survivors).*at least 5 must; nothing is opened"):
        owners.run(owners.terms(), {step: {"owner 1", "owner 2", "owner 3"}})


def test_dropouts_of_different_steps_count_together(party):
    owners = party(7, 1, 2)
    missing = {0: {"owner 1"}, 1: {"owner 2"}, 2: {"owner 3"}}
    with pytest.raises(VoidRound, match="4 of 7 owners uploaded"):
        owners.run(owners.terms(), missing)


@settings(max_examples=12)
@given(data=st.data(), b=st.integers(2, 6), p=st.integers(1, 40))
def test_masks_cancel_for_all_numbers_of_64_bits(data, b, p, tmp_path_factory):
    owners = Party(tmp_path_factory.mktemp("rounds"), b, p=p)
    numbers = st.lists(st.integers(-(2**63), 2**63 - 1), min_size=p, max_size=p)
    uploads = [np.array(data.draw(numbers)) for _ in owners.names]
    terms = owners.terms()
    collector = Collector(terms, owners.roster)
    requests = collector.start()
    replies = {name: owners.answer(name, data, terms) for name, data in requests.items()}
    for name, x in zip(owners.names, uploads, strict=True):
        owners.payments[name].x = x
    while requests := collector.step(replies):
        replies = {name: owners.answer(name, data, terms) for name, data in requests.items()}
    np.testing.assert_array_equal(collector.total, np.sum(uploads, axis=0, dtype=np.int64))


def masked(owners: Party) -> tuple[Collector, dict[str, np.ndarray]]:
    """A round whose uploads are all 2^40, and each masked upload as the server gets it."""
    terms, got = owners.terms(), {}
    collector = Collector(terms, owners.roster)
    requests = collector.start()
    while requests:
        replies = {name: owners.answer(name, data, terms) for name, data in requests.items()}
        if collector._due == 0:
            for payment in owners.payments.values():
                payment.x = np.full(owners.p, 2**40)
        if collector._due == 2:
            got = {name: read_upload(reply)[1] for name, reply in replies.items()}
        requests = collector.step(replies)
    return collector, got


def uniform(words: np.ndarray) -> bool:
    """Whether the bytes of numbers are spread like chance, neither too unevenly nor too evenly.

    Eight tests of 256 bins, one for each byte, each of which fails by chance at a rate of 2 ALARM.
    """
    columns = np.ascontiguousarray(words).view(np.uint8).reshape(-1, 8)
    found = [stats.chisquare(np.bincount(column, minlength=256)).pvalue for column in columns.T]
    return all(ALARM < p < 1 - ALARM for p in found)


def test_one_masked_upload_is_uniform(party):
    _, got = masked(party(3, 0, 1, p=2**16))
    assert all(uniform(words) for words in got.values())
    assert not uniform(words_of(np.full(2**16, 2**40)))
    narrow = np.frombuffer(stream(bytes(32), 2**16).tobytes(), np.uint32)[: 2**16].astype(np.uint64)
    assert not uniform(narrow), "masks of 32 bits are seen"


def test_of_two_honest_owners_neither_upload_is_seen_by_who_knows_everything_else(party):
    """Three of five collude, the sum is opened, and all that is known is subtracted."""
    owners = party(5, 3, 0, p=2**16)
    secrets = {}

    class Kept(owners.kind):
        def keys(self):
            secrets.setdefault(self.member.name, self.secrets)
            return super().keys()

    owners.kind = Kept
    collector, got = masked(owners)
    first, second, *colluders = owners.names
    rest = {}
    for name in (first, second):
        left = got[name] - own_mask(secrets[name].own, collector._context, name, owners.p)
        for other in colluders:
            public = collector._keys[name].body["pair"]
            masks.add_pair(left, secrets[other].pair, public, collector._context, other, name)
        rest[name] = left
    assert uniform(rest[first])
    assert uniform(rest[second])
    np.testing.assert_array_equal(steps_of(rest[first] + rest[second]), 2**41)


def test_masks_of_a_pair_are_the_same_for_both_and_of_no_other_pair():
    one, two = X25519PrivateKey.generate(), X25519PrivateKey.generate()
    total = np.zeros(8, np.uint64)
    masks.add_pair(total, one, public_of(two), b"context", "a", "b")
    assert total.any()
    masks.add_pair(total, two, public_of(one), b"context", "b", "a")
    assert not total.any()
    secret = agreed(one, public_of(two))
    labels = [("pair mask", "a", "b"), ("pair mask", "ab", ""), ("own mask", "a", "b")]
    assert len({derived(secret, b"context", *label) for label in labels}) == 3
    assert derived(secret, b"other", *labels[0]) != derived(secret, b"context", *labels[0])


@pytest.mark.parametrize(("b", "t", "d"), [(2, 1, 0), (3, 0, 2), (4, 2, 1), (5, 1, 2), (10, 3, 4)])
def test_cohorts_that_cannot_be_sound_are_refused(party, b, t, d):
    with pytest.raises(InvalidInput, match=f"a secure sum against {t} colluders that survives {d} drop-outs"):
        party(b).terms(colluders=t, dropouts=d)


def test_no_two_lists_can_get_enough_signatures_and_survivors_suffice(party):
    whole, found = party(12).terms(), 0
    for b in range(2, 13):
        for t, d in itertools.product(range(b), range(b)):
            try:
                terms = replace(whole, cohort=whole.cohort[:b], colluders=t, dropouts=d)
            except InvalidInput:
                continue
            found += 1
            assert 2 * terms.threshold - t > b
            assert terms.fewest == b - d >= terms.threshold
            assert b - d - t >= 2
    assert found > 50


def test_sums_have_room_for_all_clipped_values_and_forty_deviations():
    check_range(8, 2**60 - 1, 0.1)
    with pytest.raises(InvalidInput, match="may pass 2\\^63 steps; take a coarser grid"):
        check_range(8, 2**60, 0.0)
    check_range(10, 0, 2.0**63 / 41)
    with pytest.raises(InvalidInput, match="coarser grid"):
        check_range(10, 0, 2.0**63 / 40)


def test_terms_and_rosters_that_say_one_thing_twice_are_refused(party):
    owners = party(3)
    with pytest.raises(InvalidInput, match="different names in their order"):
        owners.terms(cohort=("owner 2", "owner 1", "owner 3"))
    with pytest.raises(InvalidInput, match="the same key"):
        Roster({"a": bytes(32), "b": bytes(32)})
    with pytest.raises(InvalidInput, match="does not hold the key of 'owner 1'"):
        Member("owner 1", KEYS[1], owners.roster, owners.record("owner 1"))
    assert owners.roster.digest != Roster({**owners.roster.keys, "owner 3": bytes(32)}).digest
    assert isinstance(owners.terms(), Terms)
