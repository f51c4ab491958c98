"""No lying server with its colluders opens a sum of too few uploads; it does where owners are broken."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest

from noiseworthy.deploy.secure_sum import letters, secret_shares
from noiseworthy.deploy.secure_sum.collector import Collector
from noiseworthy.deploy.secure_sum.keys import KEY
from noiseworthy.deploy.secure_sum.member import OwnerRound
from noiseworthy.deploy.secure_sum.messages import (
    OF_KEYS,
    OF_OPENED,
    OF_SHARES,
    OF_UPLOAD,
    associated,
    pack_upload,
    read_upload,
)
from noiseworthy.deploy.secure_sum.record import RoundRecord
from noiseworthy.deploy.secure_sum.terms import Terms
from noiseworthy.errors import LedgerError, VoidRound

from .attacks import Attack, splits
from .conftest import Party


class SignsTwice(OwnerRound):
    """Signs whatever list it is shown, and opens its shares for each."""

    def _answered(self, data: bytes) -> bytes:
        record, kept, secrets = self.member.record, dict(self._kept), self.secrets
        self.member = replace(self.member, record=Forgetful(record.path, record._db))
        if self._due > 3:
            self._due = 3 if b"survivors" in data[:60] else 4
        reply = super()._answered(data)
        self._kept.update(kept)
        self.secrets = secrets
        return reply


class Forgetful(RoundRecord):
    """Knows nothing of what was signed."""

    def sign(self, owner: str, terms: Terms, survivors: bytes) -> None:
        return


class OpensForMinority(OwnerRound):
    """Is content with one signature less than the threshold."""

    def _opened(self, content) -> bytes:
        self.terms = Lower(**self.terms.table)
        return super()._opened(content)


class Lower(Terms):
    """With a threshold one too low."""

    @property
    def threshold(self) -> int:
        return super().threshold - 1


class OpensBoth(OwnerRound):
    """Opens its shares of seed and key of everybody."""

    def _opened(self, content) -> bytes:
        both = {other: pair + own for other, (pair, own) in self._kept.items()}
        super()._opened(content)
        return self._written("opened", {"list": self._list, "shares": both}).packed


class BelievesSenders(OwnerRound):
    """Does not look at whom the other survivors have masked their uploads with."""

    def _check_same(self, letter) -> None:
        return


class DrawsFirst(OwnerRound):
    """Looks at its records before they are paid for."""

    def _uploaded(self, content) -> bytes:
        self.release.steps()
        return super()._uploaded(content)


def lists_shown_apart(owners: Party, number: int, part: list[str], rest: list[str]) -> Attack:
    """One list for some owners, one without the first owner for the rest."""
    attack = Attack(owners, owners.terms(number))
    attack.two_lists(part, rest, owners.names[0])
    return attack


@pytest.mark.parametrize(("b", "t", "d"), [(5, 1, 1), (4, 0, 1), (6, 1, 2)])
def test_two_lists_for_any_two_parts_of_the_owners_open_no_upload(party, b, t, d):
    owners = party(b, t, d)
    honest = owners.names[: b - t]
    for number, (part, rest) in enumerate(splits(honest[1:]), start=1):
        attack = lists_shown_apart(owners, number, [honest[0], *part], rest)
        attack.check()
    whole = lists_shown_apart(owners, 1000, honest, [])
    whole.check()
    assert [set(honest)] == whole.adversary.exposed(), "the honest list opens the honest sum"


def test_an_owner_who_is_asked_for_a_second_list_signs_none_and_opens_nothing_more(party):
    owners = party(5, 1, 1)
    attack = lists_shown_apart(owners, 1, owners.names, owners.names)
    attack.check()
    assert attack.adversary.exposed() == []
    assert any("asks for 'survivors' out of turn" in one for one in attack.refused)


def test_owners_who_sign_twice_are_caught(party):
    owners = party(5, 1, 1, kind=SignsTwice)
    attack = Attack(owners, owners.terms())
    uploads = attack.collect_uploads()
    for survivors in (owners.names, owners.names[1:]):
        signed = attack.signatures(uploads, survivors, survivors)
        attack.open(signed, survivors)
    with pytest.raises(AssertionError, match="open"):
        attack.check()


def test_a_threshold_one_too_low_is_caught(party):
    owners = party(5, 1, 1, kind=OpensForMinority)
    attack = Attack(owners, Lower(**owners.terms().table))
    attack.two_lists(owners.names[:2], owners.names[2:4], owners.names[0])
    with pytest.raises(AssertionError, match="open"):
        attack.check()


def test_owners_who_open_both_kinds_of_shares_are_caught(party):
    owners = party(5, 1, 1, kind=OpensBoth)
    attack = lists_shown_apart(owners, 1, owners.names, [])
    with pytest.raises(AssertionError, match="open"):
        attack.check()


SHOWN = {
    "owner 1": {"owner 1", "owner 2", "owner 5", "owner 6", "owner 7"},
    "owner 2": {"owner 1", "owner 2", "owner 5", "owner 6", "owner 7"},
}
"""Two owners mask with each other, two who are going to be missing, and a colluder."""


def senders_shown_apart(owners: Party) -> Attack:
    attack = Attack(owners, owners.terms())
    survivors = [name for name in owners.names if name not in ("owner 5", "owner 6")]
    uploads = attack.collect_uploads(SHOWN)
    attack.open(attack.signatures(uploads, survivors, survivors), survivors)
    return attack


def test_owners_who_are_shown_different_senders_sign_nothing(party):
    attack = senders_shown_apart(party(7, 1, 2))
    attack.check()
    assert attack.adversary.exposed() == []
    assert any("was shown other keys or other senders" in one for one in attack.refused)


def test_owners_who_do_not_look_at_senders_are_caught(party):
    """A sum of two honest owners is open, where noise is sized for four."""
    attack = senders_shown_apart(party(7, 1, 2, kind=BelievesSenders))
    assert {"owner 1", "owner 2"} in attack.adversary.exposed()
    with pytest.raises(AssertionError, match="open"):
        attack.check()


def test_colluders_hold_too_few_shares_and_one_more_than_planned_is_caught(party):
    owners = party(5, 1, 1)
    attack = Attack(owners, owners.terms())
    attack.collect_uploads()
    assert attack.adversary.exposed() == []
    more = Attack(owners, owners.terms(2))
    more.colluders = more.adversary.colluders = frozenset(owners.names[-2:])
    more.two_lists([], owners.names[1:3], owners.names[0])
    with pytest.raises(AssertionError, match="open"):
        more.check()


def test_fewer_survivors_than_the_noise_is_sized_for_are_not_signed(party):
    owners = party(7, 1, 1)
    attack = Attack(owners, owners.terms())
    uploads = attack.collect_uploads()
    assert len(attack.signatures(uploads, owners.names[:5], owners.names[:5])) == owners.t
    assert "5 of 7 owners uploaded, at least 6 must; nothing is opened" in attack.refused[0]
    attack.check()


def test_rolls_that_differ_end_before_anything_is_paid_or_uploaded(party):
    owners = party(5, 1, 1)
    attack = Attack(owners, owners.terms())
    roll = attack.collect_keys()
    shares = {
        name: attack.shares(name, roll if name in owners.names[:3] else roll[1:]) for name in owners.names[:4]
    }
    for name in owners.names[1:]:
        sealed = {one: given[name] for one, given in shares.items() if one != name and name in given}
        assert attack.ask(name, "upload", sealed) is None
    assert all(owners.payments[name].events == [] for name in owners.names)
    assert any("a secret share was altered, or belongs to another round" in one for one in attack.refused)


def refuses_elsewhere(terms: Terms) -> bool:
    """Whether a sealed share is refused by everybody but its receiver in its round."""
    key, data = bytes(KEY), bytes(2 * KEY)
    place = associated(terms, b"context", "owner 1", "owner 2")
    sealed = secret_shares.sealed(key, data, place)
    others = [
        associated(replace(terms, round=2), b"context", "owner 1", "owner 2"),
        associated(replace(terms, run="other"), b"context", "owner 1", "owner 2"),
        associated(terms, b"other", "owner 1", "owner 2"),
        associated(terms, b"context", "owner 2", "owner 1"),
        associated(terms, b"context", "owner 3", "owner 2"),
    ]
    if secret_shares.unsealed(key, sealed, place) != data:
        return False
    for other in others:
        try:
            secret_shares.unsealed(key, sealed, other)
        except VoidRound:
            continue
        return False
    return True


def test_a_sealed_share_is_bound_to_round_sender_and_receiver(party, monkeypatch):
    terms = party(3).terms()
    assert refuses_elsewhere(terms)
    seal, unseal = secret_shares.sealed, secret_shares.unsealed
    monkeypatch.setattr(secret_shares, "sealed", lambda key, data, associated: seal(key, data, b""))
    monkeypatch.setattr(secret_shares, "unsealed", lambda key, data, associated: unseal(key, data, b""))
    assert not refuses_elsewhere(terms), "without what it belongs to it is opened anywhere"


def paid_once_and_first(owners: Party, number: int) -> bool:
    owners.run(owners.terms(number))
    return all(payment.events == ["charged", "drawn"] for payment in owners.payments.values())


def test_an_upload_is_paid_for_once_before_it_is_made_and_owners_who_draw_first_are_caught(party):
    assert paid_once_and_first(party(4, 0, 1), 1)
    assert not paid_once_and_first(party(4, 0, 1, kind=DrawsFirst), 2)


def test_a_key_that_is_none_ends_a_round_before_anybody_pays(party):
    """One of low order, by which two owners would agree on zeros; masks are made before the charge."""
    owners = party(4, 1, 0)
    terms = owners.terms()
    collector = Collector(terms, owners.roster)
    replies = {name: owners.answer(name, data, terms) for name, data in collector.start().items()}
    body = letters.read(replies["owner 4"], "keys", terms, owners.roster, OF_KEYS).body | {"pair": bytes(KEY)}
    replies["owner 4"] = letters.written("keys", "owner 4", terms, body, owners.keys["owner 4"]).packed
    owners.rounds["owner 4"].keys = lambda: replies["owner 4"]
    requests = collector.step(replies)
    replies = {name: owners.answer(name, data, terms) for name, data in requests.items()}
    requests = collector.step(replies)
    for name in owners.names[:3]:
        with pytest.raises(VoidRound, match="a key of another owner is no key of X25519"):
            owners.answer(name, requests[name], terms)
        assert owners.payments[name].events == []


def test_whose_charge_is_refused_uploads_nothing_and_is_out_of_the_round(party):
    owners = party(4, 0, 1)
    terms = owners.terms()
    attack = Attack(owners, terms)
    roll = attack.collect_keys()
    shares = {name: attack.shares(name, roll) for name in owners.names}

    def refuse() -> None:
        raise LedgerError("no budget")

    owners.payments["owner 1"].on_charge = refuse
    sealed = {name: shares[name]["owner 1"] for name in owners.names[1:]}
    with pytest.raises(LedgerError, match="no budget"):
        owners.ask(terms, ["owner 1"], "upload", sealed)
    with pytest.raises(VoidRound, match="void for owner 1, which uploads nothing: it could not be gone on"):
        owners.ask(terms, ["owner 1"], "upload", sealed)
    assert owners.payments["owner 1"].events == []


def test_secrets_are_forgotten_when_the_round_is_over_or_void(party):
    owners = party(4, 0, 1)
    owners.run(owners.terms())
    assert all(one.secrets is None and not one._kept for one in owners.rounds.values())
    attack = Attack(owners, owners.terms(2))
    attack.collect_uploads()
    attack.ask("owner 1", "opened", [])
    assert owners.rounds["owner 1"].secrets is None
    assert not owners.rounds["owner 1"]._kept
    assert "private" not in repr(owners.rounds["owner 2"]) + repr(owners.rounds["owner 2"].secrets)


def test_who_seals_something_else_than_shares_is_left_out_by_the_server(party):
    owners = party(4, 0, 1)
    terms = owners.terms()
    collector = Collector(terms, owners.roster)
    replies = {name: owners.answer(name, data, terms) for name, data in collector.start().items()}
    replies = {name: owners.answer(name, data, terms) for name, data in collector.step(replies).items()}
    body = letters.read(replies["owner 4"], "shares", terms, owners.roster, OF_SHARES).body
    for wrong in (b"short", 7):
        bad = body | {"sealed": body["sealed"] | {"owner 1": wrong}}
        forged = letters.written("shares", "owner 4", terms, bad, owners.keys["owner 4"]).packed
        again = deepcopy(collector)
        assert "owner 4" not in again.step(replies | {"owner 4": forged})
        assert "sealed something else" in again.faults["owner 4"]
    assert "owner 4" in collector.step(replies)


@pytest.mark.parametrize("other", [np.zeros(2), 7])
def test_who_lists_senders_that_are_no_names_is_left_out_by_the_server(party, other):
    """Arrays do not compare to one truth value: such a letter must not end the server's training."""
    owners = party(4, 0, 1)
    terms = owners.terms()
    collector = Collector(terms, owners.roster)
    requests = collector.start()
    for _ in range(2):
        replies = {name: owners.answer(name, data, terms) for name, data in requests.items()}
        requests = collector.step(replies)
    replies = {name: owners.answer(name, data, terms) for name, data in requests.items()}
    packed, words = read_upload(replies["owner 4"])
    body = letters.read(packed, "upload", terms, owners.roster, OF_UPLOAD).body
    bad = body | {"senders": [other, *body["senders"][1:]]}
    forged = letters.written("upload", "owner 4", terms, bad, owners.keys["owner 4"])
    assert "owner 4" not in collector.step(replies | {"owner 4": pack_upload(forged, words)})
    assert "another type" in collector.faults["owner 4"]


def test_shares_that_do_not_fit_make_a_round_void_and_never_wrong(party):
    """A colluder hands over shares of nothing: no sum comes of it."""
    owners = party(4, 1, 0)
    terms = owners.terms()
    collector, requests = owners.upload_all(terms)
    replies = {name: owners.answer(name, data, terms) for name, data in requests.items()}
    replies = {name: owners.answer(name, data, terms) for name, data in collector.step(replies).items()}
    body = letters.read(replies["owner 1"], "opened", terms, owners.roster, OF_OPENED).body
    bad = body | {"shares": body["shares"] | {"owner 2": bytes(KEY)}}
    forged = letters.written("opened", "owner 1", terms, bad, owners.keys["owner 1"]).packed
    with pytest.raises(VoidRound, match="the shares of the seed of owner 2 do not fit together"):
        collector.step(replies | {"owner 1": forged})
    assert collector.total is None
