"""A gateway pays before it draws, answers a retry with the same bytes, and tells nothing when it refuses."""

from __future__ import annotations

import re
import struct
import time

import mpmath
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from noiseworthy.deploy.gateway import wire
from noiseworthy.deploy.gateway.client import packed
from noiseworthy.deploy.gateway.gateway import BROKEN, FAILED, Gateway
from noiseworthy.deploy.gateway.holding import Holding
from noiseworthy.deploy.gateway.memory import Memories
from noiseworthy.deploy.gateway.messages import LARGEST, Refused, Uploaded, read_reply
from noiseworthy.deploy.gateway.price import share_of
from noiseworthy.deploy.gateway.terms import MOST_NUMBERS
from noiseworthy.methods.dp_fedavg.wire import FedAvgWork
from noiseworthy.methods.dp_pasgd.wire import PasgdWork
from noiseworthy.methods.dp_scaffnew.wire import ScaffNewWork
from noiseworthy.methods.dpfl_bcs.wire import LossReportWork
from noiseworthy.methods.moments.wire import MomentsWork
from noiseworthy.methods.mr_mtl.wire import MrMtlWork
from noiseworthy.methods.rivals.wire import PrivateFLWork
from noiseworthy.privacy.deployed_noise import DeployedNoise
from noiseworthy.privacy.durable import DurableLedger
from noiseworthy.privacy.durable.accounts import WHOLE
from noiseworthy.privacy.gaussian import gaussian_mu

from .conftest import KEPT, P, against, asked, numbers, request, spent


class Killed(BaseException):
    """The end of a process, which nothing catches."""


SCAFFNEW = {"algorithm": ScaffNewWork(step_size=0.5, probability=0.5, local_steps=2), "noise": 4.0}
KINDS = {
    "gradient": {},
    "control variates": SCAFFNEW,
    "noised steps": {"algorithm": PasgdWork(step_sizes=np.ones(2))},
    "transform": {"algorithm": PrivateFLWork(personal_step=0.5)},
    "own model": {"algorithm": MrMtlWork(step_size=0.5, share=0.1)},
    "losses": {"algorithm": LossReportWork(loss_cap=1.0, loss_noise=4 / 91, step_size=1.0)},
}


# Paying ----------------------------------------------------------------------------------------------


def test_a_release_is_paid_sealed_and_answered(gateway):
    reply = asked(gateway, request())
    assert isinstance(reply, Uploaded)
    assert (reply.run, reply.release, reply.client) == ("first study", 1, "client 1")
    assert spent(gateway)[0] == 1


def test_the_price_is_the_owners_arithmetic(gateway):
    """mu^2 = (2C/n / sigma)^2 of mu(8, 1e-5)^2, rounded up; here 1/16."""
    asked(gateway, request())
    part = (1 / 4) ** 2 / float(gaussian_mu(8.0, 1e-5)) ** 2
    assert spent(gateway)[1] == pytest.approx(part * WHOLE, rel=1e-12)


def test_a_budget_is_spent_to_its_end_and_no_further(gateway):
    """mu(8, 1e-5) is 1.7: of releases of mu 1 there are two, and then nothing that costs as much."""
    noise = 2 * 0.1 / 91
    reasons = [getattr(asked(gateway, request(k, noise=noise)), "reason", None) for k in (1, 2, 3, 4)]
    assert float(gaussian_mu(8.0, 1e-5)) ** 2 == pytest.approx(2.9, abs=0.2)
    assert reasons == [None, None, "budget", "budget"]
    assert spent(gateway)[0] == 2


def test_a_refusal_by_budget_draws_nothing(gateway_of, silent):
    gateway = gateway_of(budget={"epsilon": 0.01})
    assert asked(gateway, request()).reason == "budget"
    assert (silent, spent(gateway)) == ([], (0, 0))
    assert gateway.ledger.query("SELECT count(*) FROM runs") == [(0,)]


def test_runs_spend_the_same_budget(gateway):
    noise = 2 * 0.1 / 91
    replies = [asked(gateway, request(run=name, noise=noise)) for name in ("a", "b", "c")]
    assert [isinstance(reply, Uploaded) for reply in replies] == [True, True, False]


@pytest.mark.parametrize("noise", [2 * 0.1 / 91, 1.0])
def test_a_grid_too_coarse_for_delta_is_refused(gateway, noise):
    """At (1 + e^epsilon) P / 24 s^2 above the release's part of what noise leaves of delta, by mpmath."""
    accepted = gateway.accepted(request(noise=noise))
    (one,) = accepted.job.sums
    account, (epsilon, drawn) = gateway.account, (8, float(gaussian_mu(8.0, 1e-5)) / (1 + 2**-20))
    spare = 1e-5 - delta(epsilon, drawn)
    least = float(mpmath.sqrt((1 + mpmath.exp(epsilon)) * P / 24 / spare * WHOLE / accepted.share))
    enough, less = (DeployedNoise("gaussian", part * least) for part in (1.001, 0.999))
    assert share_of(one.release, account, enough, P) == accepted.share
    with pytest.raises(ValueError, match="too coarse"):
        share_of(one.release, account, less, P)


def delta(epsilon: float, mu: float) -> float:
    """Of Gaussian noise, in fifty digits."""
    with mpmath.workdps(50):
        mu, epsilon = mpmath.mpf(mu), mpmath.mpf(epsilon)
        far, near = (mpmath.ncdf(-epsilon / mu + sign * mu / 2) for sign in (-1, 1))
        return float(near - mpmath.exp(epsilon) * far)


def test_a_budget_for_the_whole_owner_is_not_spent_on_single_records(gateway_of):
    gateway = gateway_of(budget={"unit": "client"})
    assert "clips its whole update" in asked(gateway, request()).message
    whole = request(noise=1.0, algorithm=FedAvgWork(clipping="D", step_sizes=np.ones(2)))
    assert isinstance(asked(gateway, whole), Uploaded)


# Asking again ----------------------------------------------------------------------------------------


def test_a_retry_gets_the_identical_bytes_and_costs_nothing(gateway_of, silent):
    gateway = gateway_of()
    first = gateway.answer(packed(request()))
    paid = spent(gateway)
    later = request(deadline=time.time() + 9, received=1, head=read_reply(first).head)
    assert gateway.answer(packed(later)) == first
    assert gateway_of().answer(packed(request())) == first  # another process, or after a restart
    assert (len(silent), spent(gateway)) == (1, paid)


def test_a_retry_is_answered_when_the_budget_is_gone(gateway):
    noise = 2 * 0.1 / 91
    first, *_, last = [gateway.answer(packed(request(k, noise=noise))) for k in (1, 2, 3)]
    assert read_reply(last).reason == "budget"
    assert gateway.answer(packed(request(1, noise=noise))) == first


@pytest.mark.parametrize(
    "changed",
    [
        {"theta": np.zeros(P, np.float32)},
        {"noise": 0.02},
        {"clip_norm": 0.05},
        {"task": {"model": "logistic"}},
    ],
    ids=str,
)
def test_a_release_is_never_made_twice_of_different_things(gateway, silent, changed):
    asked(gateway, request())
    assert asked(gateway, request(**changed)).reason == "conflict"
    assert (len(silent), spent(gateway)[0]) == (1, 1)


def test_what_arrived_is_acknowledged(gateway):
    for release in (1, 2):
        asked(gateway, request(release, received=release - 1))
    assert gateway.ledger.query("SELECT acknowledged FROM grants ORDER BY id") == [(1,), (0,)]


# Killed ----------------------------------------------------------------------------------------------


def killing(monkeypatch, owner, name, when):
    """Exchange a step by one that kills before or after it, once."""
    step = getattr(owner, name)

    def killed(*args, **kwargs):
        monkeypatch.setattr(owner, name, step)
        if when == "after":
            step(*args, **kwargs)
        raise Killed

    monkeypatch.setattr(owner, name, killed)


STEPS = [
    (DurableLedger, "reserve", "before", None),
    (DurableLedger, "reserve", "after", "lost"),
    (Holding, "batch", "before", "lost"),
    (Memories, "keep", "before", "lost"),
    (Memories, "keep", "after", "lost"),
    (DeployedNoise, "added_to", "after", "lost"),
    (DurableLedger, "seal", "before", "lost"),
    (DurableLedger, "seal", "after", None),
]


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
@pytest.mark.parametrize(
    ("owner", "name", "when", "then"), STEPS, ids=lambda v: getattr(v, "__name__", str(v))
)
def test_killed_at_any_step_a_release_is_paid_once_and_drawn_once(
    gateway_of, silent, monkeypatch, owner, name, when, then, kind
):
    killing(monkeypatch, owner, name, when)
    with pytest.raises(Killed):
        asked(gateway_of(), request(**kind))
    gateway = gateway_of()
    again = asked(gateway, request(**kind))
    assert getattr(again, "reason", None) == then
    assert spent(gateway)[0] == 1
    assert len(silent) <= sum(one.times for one in gateway.accepted(request(**kind)).job.sums)
    assert isinstance(asked(gateway, request(2, **kind)), Uploaded)


@pytest.mark.parametrize(("owner", "name"), [(Holding, "batch"), (DeployedNoise, "added_to")])
def test_what_fails_after_paying_is_lost_and_says_nothing_of_why(gateway, monkeypatch, owner, name):
    def fails(*_):
        raise RuntimeError("record 7 has 13.37")

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, fails)
        assert asked(gateway, request()) == Refused(reason="failed", message=FAILED, next=2)
    assert asked(gateway, request()).reason == "lost"
    assert spent(gateway)[0] == 1


def test_what_fails_before_paying_says_nothing_either(gateway, monkeypatch):
    def fails(*_):
        raise RuntimeError("record 7 has 13.37")

    monkeypatch.setattr(Holding, "task", fails)
    assert asked(gateway, request()) == Refused(reason="fault", message=BROKEN)


def test_on_a_full_disk_nothing_leaves_that_is_not_paid_and_sealed(gateway):
    gateway.ledger.query("PRAGMA max_page_count = 1")  # no page beyond those in use
    reasons = [getattr(asked(gateway, request(run=f"{k:0100}")), "reason", None) for k in range(60)]
    assert {"ledger", "failed"} <= set(reasons)
    assert spent(gateway)[0] == reasons.count(None) + reasons.count("failed")
    sealed = gateway.ledger.query("SELECT count(*) FROM grants WHERE sealed IS NOT NULL")
    assert sealed == [(reasons.count(None),)]


# Refusing --------------------------------------------------------------------------------------------

BIG = {"theta": np.zeros(P + 1, np.float32)}
REFUSED = [
    ("floor", {"noise": 0.49 * 2 * 0.1 / 91}),
    ("floor", {"clip_norm": 1.0}),
    ("not-allowed", {"task": {"model": "linear"}}),
    ("not-allowed", {"task": {"model": "softmax"}}),
    ("not-allowed", {"task": {}}),
    ("not-allowed", {"task": {"model": "logistic", "pooling": 2}}),
    ("not-allowed", {"task": {"model": "logistic", "projection": 10**6}}),
    ("not-allowed", {"task": {"model": "logistic", "reference": ["breast-cancer"]}}),
    ("not-allowed", against(seen=None)),
    ("not-allowed", {"seen": numbers()}),
    ("not-allowed", {"seen": numbers(directions=np.zeros((0, P), np.float32))}),
    ("not-allowed", against(seen=numbers(directions=np.zeros((KEPT + 1, P), np.float32)))),
    ("not-allowed", against(seen=numbers(directions=np.zeros((0, P), np.float32)))),
    ("not-allowed", against(seen=numbers(mean=np.zeros(P + 1, np.float32),
                                         directions=np.zeros((KEPT, P + 1), np.float32)))),
    ("not-allowed", against(task={"model": "logistic", "reference": ["public.npz"]})),
    ("not-allowed", against(task={"model": "logistic", "projection": 2**18, "reference": ["public.npz"]},
                            seen=numbers(directions=np.zeros((2**18, P), np.float32)))),
    ("not-allowed", {"release": 10}),
    ("not-allowed", BIG),
    ("not-allowed", {"theta": np.zeros(P - 1, np.float32)}),
    ("not-allowed", {"theta": np.zeros(P - 1, np.float32), "task": {"model": "logistic", "bias": True}}),
    ("not-allowed", {"mechanism": "laplace"}),
    ("not-allowed", {"noise": 1e20}),
    ("not-allowed", {"algorithm": FedAvgWork(clipping="D", step_sizes=np.ones(1001))}),
    ("not-allowed", {"algorithm": ScaffNewWork(step_size=1.0, probability=0.5, local_steps=2000)}),
    ("not-allowed", {"algorithm": FedAvgWork(clipping="C", step_sizes=np.ones(1)), "noise": 1.0,
                     "task": {"model": "logistic", "ridge": 0.1}}),
    ("deadline", {"deadline": 1.0}),
    ("ledger", {"head": f"3:{'0' * 64}"}),
]  # fmt: skip


@pytest.mark.parametrize(("reason", "changed"), REFUSED, ids=lambda v: str(v)[:50])
def test_what_the_owner_does_not_allow_is_refused_and_costs_nothing(gateway, silent, reason, changed):
    wanted = request(**changed)
    reply = asked(gateway, wanted)
    assert isinstance(reply, Refused)
    assert reply.reason == reason, reply
    assert (silent, spent(gateway)) == ([], (0, 0))


def test_an_upload_that_no_message_holds_is_refused_before_it_is_paid_for(gateway_of):
    gateway, long = gateway_of(allowed={"most_parameters": 10_000}), 8_200
    gateway.holding = Holding(np.zeros((91, long), np.float32), gateway.holding.y, 2)
    work = {"algorithm": MomentsWork(label_weight=1.0), "theta": np.zeros(long, np.float32)}
    reply = asked(gateway, request(**work))
    assert isinstance(reply, Refused)
    assert "uploads of 33,423,360 numbers, got 33,632,300; nothing was spent" in reply.message
    assert spent(gateway) == (0, 0)


def test_a_message_has_room_for_the_longest_upload(gateway):
    data = gateway.answer(packed(request()))
    assert 10 * (len(data) - 8 * P) < LARGEST - 8 * MOST_NUMBERS


def test_what_an_owner_does_not_name_is_refused(gateway_of):
    gateway = gateway_of(allowed={"algorithms": ["dp-fedavg"]})
    assert (
        asked(gateway, request()).message
        == "the owner does not allow algorithm fedsgd-dpc; nothing was spent"
    )


def fields(**changed) -> bytes:
    """A request by hand, which nothing has checked."""
    return wire.pack({"kind": "release", **request().model_dump(), **changed})


def seen(**changed) -> bytes:
    """A request by hand whose reference nothing has checked."""
    return fields(**against(seen=numbers().model_dump() | changed))


MALFORMED = {
    "nothing": b"",
    "other bytes": b"GET / HTTP/1.1",
    "no dictionary": wire.pack([1]),
    "another kind": wire.pack({"kind": "gossip"}),
    "a kind of numbers": wire.pack({"kind": np.zeros(3)}),
    "NaN parameters": fields(theta=np.full(P, np.nan, np.float32)),
    "infinite parameters": fields(theta=np.full(P, np.inf, np.float32)),
    "parameters of another type": fields(theta=np.zeros(P)),
    "a matrix": fields(theta=np.zeros((5, 6), np.float32)),
    "no array": fields(theta=[0.0] * P),
    "no noise": fields(noise=0.0),
    "negative noise": fields(noise=-1.0),
    "noise beyond float32": fields(noise=1e300),
    "a negative clip": fields(clip_norm=-1.0),
    "release 0": fields(release=0),
    "release true": fields(release=True),
    "a release that SQLite cannot hold": fields(release=2**63 - 1),
    "an endless name": fields(run="x" * 101),
    "an unknown field": fields(seed=3),
    "a missing field": wire.pack({"kind": "release", "run": "x"}),
    "an unknown algorithm": fields(algorithm={"name": "pfa"}),
    "half a character": fields(algorithm={"name": "\ud800"}),
    "steps of 0": fields(algorithm={"name": "dp-fedavg", "clipping": "D", "step_sizes": np.zeros(2)}),
    "mode B": fields(algorithm={"name": "dp-fedavg", "clipping": "B", "step_sizes": np.ones(2)}),
    "no head": fields(head="3"),
    "a head across lines": fields(head=f"3:{'0' * 64}\n"),
    "an unknown model": fields(task={"model": "oracle"}),
    "a reference of NaN": seen(mean=np.full(P, np.nan, np.float32)),
    "infinite directions": seen(directions=np.full((KEPT, P), np.inf, np.float32)),
    "a reference of another type": seen(mean=np.zeros(P)),
    "a mean of two axes": seen(mean=np.zeros((1, P), np.float32)),
    "directions of one axis": seen(directions=np.zeros(P, np.float32)),
    "directions of another size": seen(directions=np.zeros((KEPT, P - 1), np.float32)),
    "a reference without directions": fields(**against(seen={"mean": np.zeros(P, np.float32)})),
    "a reference with a file": seen(data="records.csv"),
    "a reference by name": fields(**against(seen="records.csv")),
}


@pytest.mark.parametrize("wrong", MALFORMED)
def test_malformed_requests_are_refused_and_cost_nothing(gateway, silent, wrong):
    reply = read_reply(gateway.answer(MALFORMED[wrong]))
    assert reply.reason == "malformed"
    assert (silent, spent(gateway)) == ([], (0, 0))


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_changed_byte_is_refused_or_is_another_request_that_was_paid_for(gateway, silent, data):
    """Whatever comes, one reply goes out, and there is a draw of noise for no more than what was paid."""
    message = bytearray(packed(request(deadline=4e9)))
    message[data.draw(st.integers(0, len(message) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    reply = read_reply(gateway.answer(bytes(message)))
    assert isinstance(reply, Uploaded) or reply.reason not in ("fault", "failed", "lost", "ledger"), reply
    assert len(silent) <= spent(gateway)[0]


def test_a_name_too_long_to_be_said_back_is_cut_and_ends_no_gateway(gateway):
    """In UTF-8 a request is short enough; the reply that quotes it, in ASCII, would be too long."""
    data, name = fields(task={"model": "M:made"}), "\u00e9" * 400_000
    start, version, length = struct.unpack_from("<4sHI", data)
    rest = data[struct.calcsize("<4sHI") :].replace(b"M:made", f"{name}:made".encode())
    longer = struct.pack("<4sHI", start, version, length + 2 * len(name) - 1) + rest
    reply = read_reply(gateway.answer(longer))
    assert reply.reason == "not-allowed"
    assert reply.message.startswith("the owner does not allow model \u00e9\u00e9")
    assert len(reply.message) < 5_000


def test_an_algorithm_that_a_gateway_does_not_compute_is_refused_by_name(gateway):
    reply = read_reply(gateway.answer(MALFORMED["an unknown algorithm"]))
    assert reply.message.startswith("a gateway does not compute 'pfa'; ask for fedsgd-dpc, dp-fedavg, ")


def test_parameters_that_overflow_are_no_oracle(gateway, silent):
    """Gradients that are not finite count as zero, so that they cost and tell as much as any other."""
    reply = asked(gateway, request(theta=np.full(P, 3e38, np.float32)))
    assert isinstance(reply, Uploaded)


def test_a_ledger_that_was_set_back_is_noticed(gateway_of, tmp_path):
    first = gateway_of()
    before = asked(first, request(1))
    first.ledger.query("PRAGMA wal_checkpoint(TRUNCATE)")
    old = (tmp_path / "ledger.sqlite").read_bytes()
    told = asked(first, request(2)).head
    first.close()
    for file in tmp_path.glob("ledger.sqlite*"):
        file.unlink()
    (tmp_path / "ledger.sqlite").write_bytes(old)
    gateway = gateway_of()
    assert asked(gateway, request(3, head=told)).reason == "ledger"
    assert isinstance(asked(gateway, request(3, head=before.head)), Uploaded)


def test_memory_goes_forward_only(gateway):
    assert isinstance(asked(gateway, request(2, **SCAFFNEW)), Uploaded)
    assert asked(gateway, request(1, **SCAFFNEW)).reason == "conflict"
    assert spent(gateway)[0] == 1


def test_a_changed_budget_is_refused_when_the_gateway_starts(gateway_of):
    gateway_of()
    with pytest.raises(ValueError, match="lifetime budget does not change, state the one that it holds"):
        gateway_of(budget={"epsilon": 80.0})


# What refusals say -----------------------------------------------------------------------------------


def test_no_text_depends_on_the_records(gateway_of, holding, monkeypatch, tmp_path):
    """The same requests to owners of other records of the same shape get the same refusals, word by word."""
    wanted = [packed(request(**changed)) for _, changed in REFUSED] + list(MALFORMED.values())
    wanted += [packed(request(k, noise=2 * 0.1 / 91)) for k in (1, 2, 3)]
    wanted += [packed(request(1, theta=np.zeros(P, np.float32), noise=2 * 0.1 / 91))]

    def told(place: str, records: Holding) -> list[Refused | None]:
        monkeypatch.setattr(Holding, "load", lambda *_: records)
        gateway: Gateway = gateway_of(files={"socket": "s", "ledger": str(tmp_path / place)})
        replies = [read_reply(gateway.answer(message)) for message in wanted]
        return [reply if isinstance(reply, Refused) else None for reply in replies]

    others = Holding(np.full_like(holding.x, 1e30), 1 - holding.y, holding.classes)
    first = told("first", holding)
    assert told("second", others) == first
    assert sum(reply is not None for reply in first) == len(wanted) - 2
    assert not any(reply and re.search(r"/|Error|Traceback", reply.message) for reply in first)


def test_the_owner_sees_in_its_own_log_what_the_server_is_not_told(gateway, monkeypatch, caplog):
    def fails(*_):
        raise RuntimeError("record 7 has 13.37")

    monkeypatch.setattr(Holding, "batch", fails)
    reply = gateway.answer(packed(request()))
    assert "record 7" in caplog.text
    assert b"record 7" not in reply
