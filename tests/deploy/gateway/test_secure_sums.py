"""Gateways take part in secure sums: paid for, sealed before it leaves, and only as they approved."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from direct import Direct
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from in_process_grid import InProcessGrid
from noiseworthy.deploy.flower import exchange as module
from noiseworthy.deploy.flower.client_app import app
from noiseworthy.deploy.flower.envelope import APP_FAILED, failed, opened
from noiseworthy.deploy.flower.exchange import GridExchange
from noiseworthy.deploy.gateway.client import packed
from noiseworthy.deploy.gateway.gateway import Gateway
from noiseworthy.deploy.gateway.holding import Holding
from noiseworthy.deploy.gateway.messages import Refused, Uploaded, read_reply
from noiseworthy.deploy.gateway.owner import load_owner
from noiseworthy.deploy.gateway.server import Ending, answer, listening
from noiseworthy.deploy.gateway.shares_of_noise import hidden_by
from noiseworthy.deploy.gateway.summands import Summand
from noiseworthy.deploy.gateway.summing import ALONE, MOST_RUNS, Releasing, read_roster
from noiseworthy.deploy.gateway.sums import Summed, SumRequest
from noiseworthy.deploy.rehearsal import made_up
from noiseworthy.deploy.secure_sum.collector import Collector
from noiseworthy.deploy.summing import summed, terms_for
from noiseworthy.errors import ConfigError, InvalidInput, TooFewReplies
from noiseworthy.methods.dp_fedavg.wire import FedAvgWork
from noiseworthy.methods.dp_pasgd.wire import PasgdWork
from noiseworthy.methods.dp_scaffnew.wire import ScaffNewWork
from noiseworthy.methods.dpfl_bcs.wire import LossReportWork
from noiseworthy.methods.mr_mtl.wire import MrMtlWork
from noiseworthy.methods.rivals.wire import PrivateFLWork
from noiseworthy.methods.rows import gradient_rows
from noiseworthy.methods.score.wire import ScoreWork
from noiseworthy.privacy.deployed_noise import DeployedNoise
from noiseworthy.privacy.durable.accounts import WHOLE
from noiseworthy.privacy.durable.leases import lease
from noiseworthy.privacy.quantised import clipped_sum
from noiseworthy.privacy.uploads import Grid, Upload

from .conftest import P, asked, request, spent

NAMES = [f"client {i}" for i in range(4)]
OWNER = """
[owner]
client = "{name}"
data_set = "tumours"
[federation]
data = "breast-cancer"
clients = 5
[budget]
mechanism = "gaussian"
epsilon = 8.0
delta = 1e-5
noise_floor = 0.5
[allowed]
algorithms = ["fedsgd-dpc", "dp-pasgd", "dpfl-bcs", "privatefl", "dp-scaffnew", "dp-fedavg", "mr-mtl"]
models = ["logistic"]
most_releases = 9
[files]
socket = "gateway.sock"
ledger = "ledger.sqlite"
[secure_sum]
key = "signing"
roster = "../roster.toml"
digest = "{digest}"
colluders = {colluders}
share_noise = {share_noise}
"""


def written(folder: Path, colluders: int = 0, share_noise: str = "false") -> dict[str, Path]:
    """Owners' files with keys of their own and one roster, by name."""
    keys = {name: Ed25519PrivateKey.generate() for name in NAMES}
    public = {
        name: key.public_key()
        .public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        .decode()
        for name, key in keys.items()
    }
    lines = [f'"{name}" = "{key}"' for name, key in public.items()]
    (folder / "roster.toml").write_text("\n".join(["[owners]", *lines]))
    digest = read_roster(folder / "roster.toml").digest
    files = {}
    for name, key in keys.items():
        place = folder / name.replace(" ", "-")
        place.mkdir()
        (place / "signing").touch(0o600)
        (place / "signing").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
            )
        )
        files[name] = place / "owner.toml"
        files[name].write_text(
            OWNER.format(name=name, digest=digest, colluders=colluders, share_noise=share_noise)
        )
    return files


class Owners:
    """Gateways of owners' files, what they made, and a way to ask them."""

    def __init__(self, folder: Path, **options: Any):
        self.folder, self.files = folder, written(folder, **options)
        self.gateways = {name: Gateway.open(load_owner(path)) for name, path in self.files.items()}
        self.roster = read_roster(folder / "roster.toml")

    def sum(
        self, number: int = 1, weights=None, answering=None, dropouts=1, seconds=5.0, exchange=None, **changed
    ):
        requests = {name: request(number, **changed) for name in NAMES}
        weights = weights or dict.fromkeys(NAMES, 0.25)
        job = self.gateways[NAMES[0]].accepted(requests[NAMES[0]]).job
        terms = terms_for(self.roster, number, requests, job.sums[0].reach, 0, 1)
        answering = answering or {name: gateway.answer for name, gateway in self.gateways.items()}
        collector = Collector(terms, self.roster)
        return summed(exchange or Direct(answering), collector, requests, weights, seconds)

    def close(self) -> None:
        for gateway in self.gateways.values():
            gateway.close()


@pytest.fixture
def uploads(monkeypatch) -> dict[str, np.ndarray]:
    """What each gateway made, noise and all, before it went into a sum."""
    made, plain = {}, Gateway.uploaded

    def noted(self, accepted, memory, head):
        found = plain(self, accepted, memory, head)
        made[self.account.client] = found.upload.values
        return found

    monkeypatch.setattr(Gateway, "uploaded", noted)
    return made


@pytest.fixture
def owners(tmp_path, holding, monkeypatch, uploads):
    monkeypatch.setattr(Holding, "load", lambda *_: holding)
    found = Owners(tmp_path)
    yield found
    found.close()


def test_the_sum_of_gateways_is_that_of_their_uploads_and_each_has_paid_once(owners, uploads):
    weights = dict(zip(NAMES, [0.1, 0.2, 0.3, 0.4], strict=True))
    found = owners.sum(weights=weights)
    expected = np.sum([weights[name] * uploads[name] for name in NAMES], axis=0)
    assert found.survivors == tuple(NAMES)
    assert found.missing == {}
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-15)
    alone = {name: spent(gateway) for name, gateway in owners.gateways.items()}
    assert {count for count, _ in alone.values()} == {1}
    again = owners.gateways[NAMES[0]]
    asked(again, request(2))
    assert spent(again) == (2, 2 * alone[NAMES[0]][1]), "a release into a sum costs what it costs alone"


def test_what_left_is_sealed_and_the_release_is_never_made_again(owners):
    left = {}

    def noted(name):
        def answer(data: bytes) -> bytes:
            left.setdefault(name, []).append(reply := owners.gateways[name].answer(data))
            return reply

        return answer

    owners.sum(answering={name: noted(name) for name in NAMES})
    for name, gateway in owners.gateways.items():
        ((sealed,),) = gateway.ledger.query("SELECT sealed FROM grants")
        assert sealed == left[name][2], "the masked upload, as it left"
        for reply in (asked(gateway, request(1)), asked(gateway, request(1, noise=0.02))):
            assert isinstance(reply, Refused)
            assert reply.reason == "conflict"
        assert spent(gateway)[0] == 1


def test_a_round_that_is_tried_again_needs_next_releases_and_pays_anew(owners, uploads):
    def mute(name):
        def answer(data: bytes) -> bytes:
            reply = owners.gateways[name].answer(data)
            return reply if name not in NAMES[:2] or len(reply) < 500 else b""

        return answer

    with pytest.raises(TooFewReplies, match=r"round 1: 2 of 4 owners .*, at least 3 must; nothing is opened"):
        owners.sum(answering={name: mute(name) for name in NAMES}, seconds=0.3)
    first = uploads.copy()
    found = owners.sum(2)
    assert found.survivors == tuple(NAMES)
    for name in first:
        assert not np.array_equal(first[name], uploads[name])


def test_an_owner_who_is_killed_after_it_paid_is_missing_and_the_sum_is_of_the_others(owners, uploads):
    dying = owners.gateways[NAMES[1]]
    seal = dying.ledger.seal

    def fail(grant: int, sealed: bytes) -> None:
        raise OSError("no space left")

    dying.ledger.seal = fail
    found = owners.sum()
    assert set(found.survivors) == {*NAMES} - {NAMES[1]}
    assert "failed: the release was paid for" in found.missing[NAMES[1]]
    expected = 0.25 * np.sum([uploads[name] for name in found.survivors], axis=0)
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-15)
    dying.ledger.seal = seal
    reply = asked(dying, request(1))
    assert (reply.reason, reply.next) == ("lost", 2)


def test_a_restarted_gateway_has_no_keys_of_the_round_and_answers_no_more_in_it(owners):
    name, restarted = NAMES[0], []

    def answer(data: bytes) -> bytes:
        if len(restarted) == 3:
            owners.gateways[name].close()
            owners.gateways[name] = Gateway.open(load_owner(owners.files[name]))
        restarted.append(data)
        return owners.gateways[name].answer(data)

    answering = {one: gateway.answer for one, gateway in owners.gateways.items()} | {name: answer}
    found = owners.sum(answering=answering)
    assert name in found.survivors, "its upload was there"
    for message in restarted[:4]:
        reply = read_reply(owners.gateways[name].answer(message))
        assert isinstance(reply, Refused)
        assert reply.reason == "void"
    assert spent(owners.gateways[name])[0] == 1


def test_a_gateway_whose_budget_is_spent_uploads_nothing(owners):
    poor = owners.gateways[NAMES[2]]
    for number in range(1, 10):
        if isinstance(asked(poor, request(number, run="other", noise=0.2 / 91)), Refused):
            break
    before = spent(poor)
    found = owners.sum(noise=0.2 / 91)
    assert NAMES[2] not in found.survivors
    assert found.missing[NAMES[2]].startswith("budget: ")
    assert spent(poor) == before


@pytest.mark.parametrize("why", ["leased", "records"])
def test_owners_that_cannot_pay_leave_a_round_before_the_others_pay_for_it(owners, why):
    """They left as they should pay, and the round was void for those who had."""
    for name in NAMES[2:]:
        gateway = owners.gateways[name]
        if why == "leased":
            assert lease(gateway.ledger, gateway.ledger.begin("another"), gateway.number, WHOLE) is None
        else:
            gateway.fingerprint.take()
            gateway.fingerprint.records = [b"other records"]
    with pytest.raises(TooFewReplies, match=f"2 of 4 owners sent keys.*client 3: {why}"):
        owners.sum()
    assert [spent(gateway)[0] for gateway in owners.gateways.values()] == [0, 0, 0, 0]


def reply_of(gateway: Gateway, wanted, terms, message=None) -> Any:
    message = message or Collector(terms, gateway.sums.member.roster).start()["client 0"]
    return read_reply(gateway.answer(packed(SumRequest(message=message, request=wanted))))


def test_rounds_that_are_not_of_the_release_are_refused_before_anything_is_paid(owners):
    gateway, wanted = owners.gateways["client 0"], request()
    terms = terms_for(owners.roster, 1, dict.fromkeys(NAMES, wanted), 1.0, 0, 1)
    other = np.zeros(P, np.float32)
    for changed, what in (({"run": "another"}, "run"), ({"theta": other}, "subject")):
        reply = reply_of(gateway, request(**changed), terms)
        assert (reply.reason, f"another {what}" in reply.message) == ("not-allowed", True)
    for work in (
        LossReportWork(step_size=0.1, loss_cap=1.0, loss_noise=1.0),
        PrivateFLWork(personal_step=0.5),
    ):
        wider = request(algorithm=work)
        of_work = terms_for(owners.roster, 1, dict.fromkeys(NAMES, wider), 1.0, 0, 1)
        reply = reply_of(gateway, wider, of_work)
        assert f"{work.name} releases something else than one sum" in reply.message
    assert reply_of(gateway, None, terms).reason == "malformed"
    assert reply_of(gateway, wanted, terms, b"no message").reason == "void"
    assert spent(gateway) == (0, 0)
    assert isinstance(reply_of(gateway, wanted, terms), Summed)


def test_no_score_enters_a_sum_where_it_would_be_of_the_records_that_train(owners):
    gateway, wanted = owners.gateways["client 0"], request(algorithm=ScoreWork(two_classes=True))
    gateway.owner.allowed.algorithms.append("score")
    terms = terms_for(owners.roster, 1, dict.fromkeys(NAMES, wanted), 1.0, 0, 1)
    reply = reply_of(gateway, wanted, replace(terms, coordinates=3))
    assert (reply.reason, reply.message) == ("not-allowed", ALONE)


def test_all_steps_of_noised_local_training_go_into_a_sum_as_one_move(owners, uploads):
    steps = PasgdWork(step_sizes=np.full(2, 0.1))
    found = owners.sum(algorithm=steps)
    expected = 0.25 * np.sum([uploads[name] for name in NAMES], axis=0)
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-15)


def test_the_oldest_of_many_open_rounds_is_forgotten(owners):
    gateway = owners.gateways["client 0"]
    for number in range(MOST_RUNS + 2):
        wanted = request(run=f"run {number}")
        reply_of(gateway, wanted, terms_for(owners.roster, 1, dict.fromkeys(NAMES, wanted), 1.0, 0, 1))
    assert [*gateway.sums.rounds] == [f"run {number}" for number in range(2, MOST_RUNS + 2)]


def test_owners_without_secure_sums_refuse_them_by_name(gateway):
    wanted = request()
    reply = read_reply(gateway.answer(packed(SumRequest(message=b"", request=wanted))))
    assert (reply.reason, reply.message) == (
        "not-allowed",
        "the owner's file has no [secure_sum]; nothing was spent",
    )
    assert isinstance(read_reply(gateway.answer(packed(wanted))), Uploaded)


def test_rosters_keys_and_colluders_that_were_not_approved_are_refused(tmp_path, holding, monkeypatch):
    monkeypatch.setattr(Holding, "load", lambda *_: holding)
    owners = Owners(tmp_path, colluders=1)
    found = owners.gateways["client 0"]
    wanted = request()
    terms = terms_for(owners.roster, 1, dict.fromkeys(NAMES, wanted), 1.0, 0, 1)
    assert "withstands 0 colluders, this owner demands 1" in reply_of(found, wanted, terms).message
    owners.close()
    path = owners.files["client 0"]
    roster = (tmp_path / "roster.toml").read_text()
    (tmp_path / "roster.toml").write_text(roster.replace('"client 3"', '"somebody else"'))
    with pytest.raises(ConfigError, match=r"roster.toml has the digest [0-9a-f]{64}, and the owner approved"):
        Gateway.open(load_owner(path))
    (tmp_path / "roster.toml").write_text(roster)
    (path.parent / "signing").chmod(0o640)
    with pytest.raises(ConfigError, match=r"others may sign with .*signing .*; chmod 600 .*signing helps"):
        Gateway.open(load_owner(path))
    (path.parent / "signing").chmod(0o600)
    (path.parent / "signing").write_bytes((owners.files["client 1"].parent / "signing").read_bytes())
    with pytest.raises(InvalidInput, match="the roster does not hold the key of 'client 0'"):
        Gateway.open(load_owner(path))
    (path.parent / "signing").write_bytes(b"no key")
    with pytest.raises(ConfigError, match=r"signing cannot be used .*ssh-keygen -t ed25519"):
        Gateway.open(load_owner(path))


def test_a_sum_over_flowers_nodes_and_sockets_stands_lost_replies(owners, uploads, monkeypatch):
    """Every hop of a deployment but TLS: exchange, grid, node's app, socket, gateway."""
    monkeypatch.setattr(module, "_LOOK", 0.01)
    monkeypatch.setattr(module, "_PAUSE", 0.01)
    with ExitStack() as stack:
        sockets = {name: stack.enter_context(served(file)) for name, file in owners.files.items()}
        grid = Losing(app, {i: {"socket": str(path)} for i, path in enumerate(sockets.values(), start=1)})
        found = owners.sum(exchange=GridExchange(grid), seconds=20.0)
    assert grid.lost == 2 * len(NAMES)
    assert found.survivors == tuple(NAMES)
    expected = 0.25 * np.sum([uploads[name] for name in NAMES], axis=0)
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-15)
    assert {spent(gateway)[0] for gateway in owners.gateways.values()} == {1}


class Losing(InProcessGrid):
    """Loses every node's first reply with keys, and the first with its upload."""

    def __init__(self, *args: Any):
        super().__init__(*args)
        self.replies, self.lost = Counter(), 0

    def push_messages(self, messages):
        ids = super().push_messages(messages)
        for reply in map(self._replies.__getitem__, ids):
            if isinstance(read_reply(opened(reply)), Summed):
                self.replies[reply.metadata.src_node_id] += 1
                if self.replies[reply.metadata.src_node_id] in (1, 4):
                    reply.content = failed(APP_FAILED)
                    self.lost += 1
        return ids


@contextmanager
def served(file: Path):
    """The gateway of an owner's file at its socket, in a thread."""
    owner, over = load_owner(file), threading.Event()
    with listening(owner.files.socket) as listener:
        listener.settimeout(0.05)

        def serve() -> None:
            with Gateway.open(owner) as gateway:
                while not over.is_set():
                    with suppress(TimeoutError):
                        stream, _ = listener.accept()
                        with stream:
                            answer(gateway, stream, Ending())

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield owner.files.socket
        finally:
            over.set()
            thread.join()


UPDATE = FedAvgWork(clipping="D", step_sizes=np.full(2, 0.5))
CONTROLLED = ScaffNewWork(step_size=0.5, probability=0.5, local_steps=2)
SHARES = {"client 0": 0.1, "client 1": 0.2, "client 2": 0.3, "client 3": 0.4}
"""Weights of owners, who each add the same noise to the sum."""


class Sharing(Owners):
    """Owners who let each other's noise count."""

    def __init__(self, folder: Path):
        super().__init__(folder, share_noise="true")

    def requests(self, size: float, number: int = 1, **changed: Any) -> dict[str, Any]:
        """Requests of owners whose records are each hidden by `size`, among three of four, in their uploads.

        Everybody adds to the sum what the one with the largest weight needs.
        """
        every = max(SHARES.values()) * size / np.sqrt(3)
        return {name: request(number, noise=every / SHARES[name], **changed) for name in NAMES}

    def terms(self, requests, number: int = 1, share: float | None = None):
        share = SHARES["client 0"] * requests["client 0"].noise if share is None else share
        return terms_for(self.roster, number, requests, 0.1 * max(SHARES.values()), 0, 1, share)

    def shared(self, requests, number: int = 1):
        collector = Collector(self.terms(requests, number), self.roster)
        answering = {name: gateway.answer for name, gateway in self.gateways.items()}
        return summed(Direct(answering), collector, requests, SHARES, 5.0)


@pytest.fixture
def sharing(tmp_path, holding, monkeypatch):
    monkeypatch.setattr(Holding, "load", lambda *_: holding)
    found = Sharing(tmp_path)
    yield found
    found.close()


def test_shared_noise_is_priced_by_the_fewest_honest_survivors(sharing):
    """An independent count: (w Delta)^2 / V of the whole budget, V of this owner and two others."""
    size = 4 * 0.2 / 91
    requests = sharing.requests(size)
    sharing.shared(requests)
    for name, gateway in sharing.gateways.items():
        own, change = SHARES[name] * requests[name].noise, SHARES[name] * 0.2 / 91
        others = [SHARES[other] * requests[other].noise for other in NAMES if other != name]
        hidden = own**2 + sum(sorted(one**2 for one in others)[:2])
        expected = change**2 / hidden * WHOLE / gateway.account.size**2
        count, shares = spent(gateway)
        assert count == 1
        assert expected <= shares <= expected * (1 + 1e-12) + 1
    dearest = spent(sharing.gateways["client 3"])[1]
    alone = sharing.gateways["client 3"]
    asked(alone, request(1, run="alone", noise=size))
    assert (spent(alone)[1] - dearest) / dearest == pytest.approx(1, abs=1e-12)


def test_each_owner_draws_its_share_alone_and_the_sum_has_them_all(sharing, monkeypatch):
    drawn, plain = [], DeployedNoise.added_to

    def noted(self, total):
        noised = plain(self, total)
        drawn.append((self.scale, total, noised))
        return noised

    monkeypatch.setattr(DeployedNoise, "added_to", noted)
    requests = sharing.requests(4 * 0.2 / 91)
    found = sharing.shared(requests)
    spacing = 2.0 ** sharing.terms(requests).exponent
    assert len(drawn) == len(NAMES)
    for (scale, total, _), name in zip(drawn, NAMES, strict=True):
        assert scale * spacing == pytest.approx(SHARES[name] * requests[name].noise * (1 + 2**-20), rel=1e-12)
        assert scale >= 2**32
        assert np.abs(total).max() * spacing <= SHARES[name] * 0.1
    noised = np.sum([one for _, _, one in drawn], axis=0)
    np.testing.assert_array_equal(found.values, noised * spacing)


def plain_sum(sharing, requests) -> np.ndarray:
    """What owners sum, by hand: rows clipped and truncated on the grid of the round, in its steps."""
    grid, expected = Grid(sharing.terms(requests).exponent), np.zeros(P, np.int64)
    for name in NAMES:
        gateway = sharing.gateways[name]
        job = gateway.accepted(requests[name]).job
        rows = gradient_rows(job.task, job.theta, gateway.holding.batch(job.task), job.total)
        factor = SHARES[name] / 91
        for part in rows:
            expected += clipped_sum(np.float64(part) * factor, 0.1 * factor, "l2", grid)
    return expected


def test_without_noise_the_secure_sum_is_the_plain_sum_bit_for_bit(sharing, monkeypatch):
    monkeypatch.setattr(DeployedNoise, "added_to", lambda self, total: total)
    requests = sharing.requests(4 * 0.2 / 91)
    expected = plain_sum(sharing, requests)
    found = sharing.shared(requests)
    np.testing.assert_array_equal(found.values, expected * Grid(sharing.terms(requests).exponent).spacing)


def rounds_what_it_noised(monkeypatch):
    """The noised sum on a grid that is 1,024 times coarser."""
    sound = Releasing.steps
    monkeypatch.setattr(Releasing, "steps", lambda self: sound(self) // 1024 * 1024)


def noises_before_it_truncates(monkeypatch):
    """Rows are summed as they are, and noise and rounding come last: no clip bounds what rounding moves."""

    def of(self, parts):
        total, factor = np.zeros(self.dimension), self.weight / self.mechanism.records
        for rows in parts:
            held = clipped_rows(np.asarray(rows, np.float64), self.mechanism.clip_norm)
            total += held.sum(axis=0) * factor / self.grid.spacing
        noise = self.drawn.added_to(np.zeros(self.dimension, np.int64))
        return Upload(np.rint(total + noise).astype(np.int64), self.grid, self.weight, self.drawn.assurance)

    monkeypatch.setattr(Summand, "of", of)


def clipped_rows(rows, clip):
    sizes = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * np.minimum(1.0, clip / np.maximum(sizes, 1e-300))


def escapes_the_grid(sharing, monkeypatch) -> bool:
    """Whether other steps enter the sum than those of truncated rows with the noise that was drawn."""
    drawn = []
    plain = DeployedNoise.added_to

    def noted(self, total):
        noised = plain(self, total)
        drawn.append(noised - total)
        return noised

    monkeypatch.setattr(DeployedNoise, "added_to", noted)
    requests = sharing.requests(4 * 0.2 / 91)
    expected = plain_sum(sharing, requests)
    entered, steps = [], Releasing.steps
    monkeypatch.setattr(Releasing, "steps", lambda self: entered.append(steps(self)) or entered[-1])
    sharing.shared(requests)
    assert len(drawn) == len(entered) == len(NAMES)
    return not np.array_equal(np.sum(entered, axis=0), expected + np.sum(drawn, axis=0))


def test_noise_is_the_last_thing_that_happens_on_the_grid(sharing, monkeypatch):
    assert not escapes_the_grid(sharing, monkeypatch)


@pytest.mark.parametrize(
    "mutant", [rounds_what_it_noised, noises_before_it_truncates], ids=lambda one: one.__name__
)
def test_a_mutant_that_rounds_after_the_noise_is_caught(sharing, monkeypatch, mutant):
    mutant(monkeypatch)
    assert escapes_the_grid(sharing, monkeypatch)


def test_shares_of_noise_that_are_not_sound_are_refused_before_anything_is_paid(sharing):
    gateway, size = sharing.gateways["client 0"], 4 * 0.2 / 91
    requests = sharing.requests(size)
    fair = sharing.terms(requests)

    def refusal(wanted, terms, weight=SHARES["client 0"]) -> str:
        message = Collector(terms, sharing.roster).start()["client 0"]
        data = packed(SumRequest(message=message, request=wanted, weight=weight))
        reply = read_reply(gateway.answer(data))
        return f"{reply.reason}: {reply.message}" if isinstance(reply, Refused) else ""

    mine = requests["client 0"]
    assert "count on noise of" in refusal(mine, fair, weight=0.05)
    assert "count on noise of" in refusal(mine, replace(fair, share=fair.share * 1.001))
    low = sharing.requests(0.1 * 0.2 / 91)
    assert refusal(low["client 0"], sharing.terms(low)).startswith("floor: ")
    coarse = replace(fair, exponent=fair.exponent + 25, share=fair.share / 2**25)
    assert "no room" in refusal(mine, coarse)
    assert "no room" in refusal(mine, replace(fair, clipped=1))
    assert "no room" in refusal(mine, replace(fair, deviation=fair.deviation / 2))
    for count in (1, 2):
        steps = sharing.requests(size, algorithm=PasgdWork(step_sizes=np.full(count, 0.1)))
        assert "dp-pasgd does not upload one noised sum" in refusal(steps["client 0"], sharing.terms(steps))
    own = sharing.requests(size, algorithm=MrMtlWork(step_size=0.5, share=0.1))
    assert "an owner computes on with it" in refusal(own["client 0"], sharing.terms(own))
    gateway.sums.share_noise = False
    assert "lets no noise of others count" in refusal(mine, fair)
    assert spent(gateway) == (0, 0)
    gateway.sums.share_noise = True
    assert refusal(mine, fair) == ""


def test_an_owner_with_secure_sums_audits_its_installation_as_any_other(sharing, tmp_path):
    """The rehearsal has made-up records, and a name that is on no roster."""
    place = tmp_path / "rehearsal"
    place.mkdir()
    with Gateway.open(made_up(sharing.gateways["client 0"].owner, place, True)) as rehearsed:
        assert rehearsed.sums is None


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    weight=st.floats(1e-3, 1.0),
    ratio=st.floats(1.0, 3.0),
    cohort=st.integers(3, 9),
    colluders=st.integers(0, 3),
    dropouts=st.integers(0, 3),
    size=st.floats(0.01, 10.0),
)
def test_shared_noise_is_never_counted_twice(sharing, weight, ratio, cohort, colluders, dropouts, size):
    """mu of the priced release against the sum of the fewest noises, in exact fractions."""
    owner = request(noise=ratio * size / weight)
    names = tuple(f"client {i}" for i in range(cohort))
    try:
        terms = terms_for(sharing.roster, 1, dict.fromkeys(names, owner), 0.1, colluders, dropouts, size)
    except InvalidInput:
        assume(False)
    share = Fraction(terms.share) * Fraction(2) ** terms.exponent
    own = Fraction(weight) * Fraction(owner.noise)
    exact = own**2 + (cohort - colluders - dropouts - 1) * share**2
    priced = (Fraction(weight) * Fraction(hidden_by(owner, weight, terms).noise)) ** 2
    assert exact * (1 - Fraction(1, 2**40)) <= priced <= exact


def test_the_noise_of_an_opened_sum_is_that_of_all_its_survivors(sharing):
    """360 numbers, two-sided: one run of a million fails by chance; half or twice the variance is seen."""
    size = 20 * 0.2 / 91
    every = max(SHARES.values()) * size / np.sqrt(3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DeployedNoise, "added_to", lambda self, total: total)
        silent = sharing.shared(sharing.requests(size, run="silent")).values
    noised = [sharing.shared(sharing.requests(size, run=f"run {i}")).values for i in range(12)]
    left = (np.stack(noised) - silent) / every
    total = float(np.sum(np.square(left))) / len(NAMES)
    assert 5e-7 < stats.chi2.cdf(total, np.size(left)) < 1 - 5e-7


@pytest.mark.parametrize("work", [UPDATE, CONTROLLED], ids=lambda work: work.name)
def test_whole_updates_share_their_noise_too(sharing, uploads, work):
    """Their sensitivity is 2 C; the sum is that of what each owner noised."""
    requests = sharing.requests(4 * 0.2, algorithm=work)
    found = sharing.shared(requests)
    expected = np.sum([SHARES[name] * uploads[name] for name in NAMES], axis=0)
    np.testing.assert_allclose(found.values, expected, rtol=1e-12, atol=1e-12)
    for name, gateway in sharing.gateways.items():
        own, change = SHARES[name] * requests[name].noise, SHARES[name] * 0.2
        price = change**2 / (3 * own**2) / gateway.account.size**2
        assert spent(gateway)[1] / WHOLE == pytest.approx(price, rel=1e-12)
