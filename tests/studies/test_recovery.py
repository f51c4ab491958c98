"""Answers that are none, releases that were lost, owners that ran out: a run goes on, or ends in words."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from direct import Direct

from noiseworthy.deploy import correspondence, remote
from noiseworthy.deploy.correspondence import UNREADABLE
from noiseworthy.deploy.deployed import train, with_network
from noiseworthy.deploy.gateway.client import packed
from noiseworthy.deploy.gateway.gateway import Gateway
from noiseworthy.deploy.gateway.messages import (
    Derived,
    LeaseRequest,
    Receipt,
    Refused,
    Uploaded,
    pack_reply,
    read_message,
    read_reply,
)
from noiseworthy.deploy.run_state import RunState
from noiseworthy.errors import (
    GatewayError,
    InvalidInput,
    NoMoreReplies,
    ResumeError,
    TooFewReplies,
    UnsoundClaim,
)
from noiseworthy.privacy.durable import Head
from noiseworthy.privacy.uploads import Grid
from noiseworthy.reports.html import write_report
from noiseworthy.studies.checkpoints import FILE
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.planner import plan_study
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.record import new_record
from noiseworthy.studies.run_folder import check_unused

from .test_deployed import STUDY, TWO_STAGES, Owners, deployment_of, left_out, spoiled


@pytest.fixture(autouse=True)
def patient_for_a_moment(monkeypatch):
    monkeypatch.setattr(correspondence, "_PAUSE", 0.0)


@pytest.fixture
def deployment():
    return deployment_of()


@pytest.fixture
def owners(deployment, tmp_path) -> Any:
    with Owners(deployment, tmp_path) as owners:
        yield owners


Spoil = Callable[[str, int, bytes], list[bytes | None]]


def killed_after(answers: int, spoil: Spoil = lambda owner, before, data: [data]) -> Spoil:
    """A server that is killed when it has got so many answers."""

    def spoiling(owner: str, before: int, data: bytes) -> list[bytes | None]:
        if before >= answers:
            raise KeyboardInterrupt
        return spoil(owner, before, data)

    return spoiling


def with_upload(**changed: Any) -> Callable[[Uploaded], dict[str, Any]]:
    return lambda reply: {"upload": replace(reply.upload, **changed)}


def far_beyond(reply: Uploaded) -> dict[str, Any]:
    """One number as large as an upload may be, on the grid that was meant."""
    return {"upload": replace(reply.upload, steps=np.full(30, 2**53))}


POISONS: dict[str, Callable[[Uploaded], dict[str, Any]]] = {
    "a head that is none": lambda reply: {"head": "not a head"},
    "a release that nobody asked for": lambda reply: {"release": 2**62},
    "the next release": lambda reply: {"release": reply.release + 1},
    "another run": lambda reply: {"run": "another"},
    "a huge grid": with_upload(grid=Grid(900)),
    "a grid twice as coarse": lambda reply: {
        "upload": replace(reply.upload, grid=Grid(reply.upload.grid.exponent + 1))
    },
    "another divisor": with_upload(divisor=1e-300),
    "numbers beyond clip and noise": far_beyond,
    "numbers without a grid": lambda reply: {"upload": Derived(reply.upload.values, "grid-csprng")},
}


@pytest.mark.full
@pytest.mark.parametrize("poison", POISONS)
def test_an_owner_that_answers_nonsense_is_left_out_and_the_run_goes_on(poison, owners, tmp_path, silent):
    """In every round, before a break and after it: what it told is in no state and in no checkpoint."""

    def spoil(owner: str, before: int, data: bytes) -> list[bytes | None]:
        reply = read_reply(data)
        if owner != "client 1" or not isinstance(reply, Uploaded):
            return [data]
        return [pack_reply(reply.model_copy(update=POISONS[poison](reply)))]

    deployment = owners.deployment
    with pytest.raises(KeyboardInterrupt):
        train(deployment, spoiled(owners, killed_after(13, spoil)), tmp_path / "run")
    done = train(deployment, spoiled(owners, spoil), tmp_path / "run", resume=True)
    assert all(one.answers["client 1"].startswith(UNREADABLE) for one in done.told.rounds)
    assert np.abs(done.trained.theta - left_out(deployment, ["client 1"])).max() < 1e-5
    assert all(Head.read(head).length < 100 for head in done.told.heads.values())
    assert max(done.told.received.values()) == 5


def with_kept(folder, **changed: Any) -> None:
    """Exchange what a checkpoint keeps of owners."""
    with np.load(folder / FILE) as file:
        kept = dict(file)
    told = json.loads(str(kept["ledger"]))
    theta = changed.pop("theta", kept["theta"])
    np.savez(folder / FILE, **kept | {"theta": theta, "ledger": json.dumps(told | changed)})


@pytest.mark.parametrize(
    "poison",
    [
        {"heads": {"client 0": "not a head"}},
        {"received": {"client 0": 2**62}},
        {"theta": np.full((1, 31), np.inf, np.float32)},
        {"theta": np.full((1, 31), np.nan, np.float32)},
    ],
    ids=str,
)
def test_a_checkpoint_that_was_poisoned_is_refused_with_a_remedy(poison, deployment, owners, tmp_path):
    train(deployment, owners.exchange(), tmp_path / "run")
    with_kept(tmp_path / "run", **poison)
    with pytest.raises(ResumeError, match=r"start anew in another folder with --out"):
        train(deployment, owners.exchange(), tmp_path / "run", resume=True)


@pytest.fixture
def losing(monkeypatch) -> Callable[[set[tuple[str, int]]], None]:
    """Makes owners lose some of their releases, by name and number: paid for, and never sealed."""
    uploaded = Gateway.uploaded

    def lose(lost: set[tuple[str, int]]) -> None:
        def broken(self, accepted, *rest):
            if (self.account.client, accepted.request.release) in lost:
                raise OSError("as a kill would")
            return uploaded(self, accepted, *rest)

        monkeypatch.setattr(Gateway, "uploaded", broken)

    return lose


NAMES = tuple(f"client {i}" for i in range(4))


def numbers(owners: Owners) -> list[list[int]]:
    return [[number for number, _ in owners.rows(name)] for name in owners.opened]


def test_a_gateway_names_the_next_release_where_one_is_lost(owners, losing, tmp_path, silent):
    """In the reply that loses it, and whenever it is asked for again."""
    losing({("client 0", 1)})
    told: list[tuple[str, int | None]] = []

    def spoil(owner: str, before: int, data: bytes) -> list[bytes | None]:
        if isinstance(reply := read_reply(data), Refused):
            told.append((reply.reason, reply.next))
        return [data] if len(told) != 1 else [None]  # the first is lost, and asked again

    train(owners.deployment, spoiled(owners, spoil), tmp_path / "run")
    assert told == [("failed", 2), ("lost", 2)]


def test_a_round_that_most_owners_lost_is_made_of_the_next_releases(owners, losing, tmp_path, silent):
    """As many as are needed give theirs, so that all rounds are made, and nobody gives more than planned."""
    losing({(name, 3) for name in NAMES[1:]})
    done = train(owners.deployment, owners.exchange(), tmp_path / "run")
    assert [sum(not why for why in one.answers.values()) for one in done.told.rounds] == [4, 4, 2, 4, 3]
    assert done.told.ended == ""
    assert done.trained.rounds[-1] == 5
    assert numbers(owners) == [[1, 2, 3, 4, 5]] * 4
    (out,) = filter(None, done.told.rounds[-1].answers.values())
    assert out == "budget: all 5 releases of the plan are spent, 1 of them lost"


def test_a_round_that_was_lost_before_a_break_is_made_on_resume(owners, losing, tmp_path, silent):
    """As after gateways that were killed: the server saw no refusal, and asks under numbers that are lost."""
    losing({(name, 3) for name in NAMES})
    run, deployment = tmp_path / "run", owners.deployment
    with pytest.raises(KeyboardInterrupt):
        train(deployment, spoiled(owners, killed_after(8)), run)
    losing(set())
    with pytest.raises(KeyboardInterrupt):  # round 3 was made under later numbers
        train(deployment, spoiled(owners, killed_after(6)), run, resume=True)
    done = train(deployment, owners.exchange(), run, resume=True)
    assert done.told.ended == ""
    assert done.trained.rounds[-1] == 5
    assert all(mine[-1] <= 5 and len(set(mine)) == len(mine) for mine in numbers(owners))


def test_a_later_number_is_kept_before_it_is_asked_for(owners, losing, tmp_path, silent):
    """A server that is killed in between asks under it again, and gets what was paid for."""
    losing({(name, 1) for name in NAMES})
    run = tmp_path / "run"

    def cut(owner: str, before: int, data: bytes) -> list[bytes | None]:
        if isinstance(read_reply(data), Uploaded):
            raise KeyboardInterrupt
        return [data]

    with pytest.raises(KeyboardInterrupt):
        train(owners.deployment, spoiled(owners, cut), run)
    paid = numbers(owners)
    assert sorted(paid) == [[1], [1], [1, 2], [1, 2]]
    counts: list[list[list[int]]] = []
    train(owners.deployment, owners.exchange(), run, resume=True,
          on_round=lambda share, done: counts.append(numbers(owners)))  # fmt: skip
    assert counts[1] == paid


def test_a_run_whose_owners_ran_out_ends_with_the_model_it_reached(owners, losing, tmp_path, silent):
    losing({(name, number) for name in NAMES for number in (2, 3)})
    done = train(owners.deployment, owners.exchange(), tmp_path / "run")
    run = done.trained
    assert "this round can never be made" in done.told.ended
    assert 1 < run.rounds[-1] == len(done.told.rounds) < 5
    assert run.loss.shape == (1, len(run.rounds))
    assert max(map(max, numbers(owners))) <= 5
    assert np.all(run.uploads[0] >= [len(mine) for mine in numbers(owners)])  # what the claim says was spent
    again = train(owners.deployment, owners.exchange(), tmp_path / "run", resume=True)
    assert again.told.ended == done.told.ended
    assert np.array_equal(again.trained.theta, run.theta)
    assert np.array_equal(again.trained.uploads, run.uploads)


@pytest.mark.parametrize("study", ["one stage", "the first of two"])
def test_a_run_whose_owners_lost_everything_ends_in_words(study, losing, tmp_path):
    deployment = deployment_of(TWO_STAGES) if study != "one stage" else deployment_of()
    losing({(name, number) for name in NAMES for number in range(1, 9)})
    with Owners(deployment, tmp_path) as owners, pytest.raises(NoMoreReplies, match="can never be made"):
        train(deployment, owners.exchange(), tmp_path / "run")


def test_a_liar_that_names_far_releases_is_not_followed(owners, tmp_path, silent):
    def spoil(owner: str, before: int, data: bytes) -> list[bytes | None]:
        lie = {"client 0": 2**61, "client 1": 1, "client 2": 0}.get(owner)
        return [data] if lie is None else [pack_reply(Refused(reason="lost", message="gone", next=lie))]

    with pytest.raises(TooFewReplies, match="client 0: lost: gone"):
        train(owners.deployment, spoiled(owners, spoil), tmp_path / "run")
    assert [len(mine) for mine in numbers(owners)] == [1] * 4


def test_no_state_that_is_not_finite_is_kept(owners, tmp_path, silent, monkeypatch):
    """A step that leaves float32: the run ends in words, and the folder holds the round before."""
    combined, done = remote._combined, []

    def grown(*args):
        done.append(1)
        return combined(*args) * (np.inf if len(done) == 3 else 1.0)

    monkeypatch.setattr(remote, "_combined", grown)
    with pytest.raises(InvalidInput, match=r"round 3: the model ran out of float32.*step_size"):
        train(owners.deployment, owners.exchange(), tmp_path / "run")
    with np.load(tmp_path / "run" / FILE) as kept:
        assert int(kept["round"]) == 2
        assert np.all(np.isfinite(kept["theta"]))


def held(owners: Owners) -> list[float]:
    return [gateway.about.leased for gateway in owners.opened.values()]


def test_a_plans_whole_price_is_held_before_round_1_and_let_go_in_the_end(owners, tmp_path, silent):
    seen: list[list[float]] = []
    train(owners.deployment, owners.exchange(), tmp_path / "run",
          on_round=lambda share, done: seen.append(held(owners)))  # fmt: skip
    assert seen[0] == [0.0] * 4
    assert seen[1] == pytest.approx([0.8] * 4)
    assert held(owners) == [0.0] * 4


def test_of_two_runs_at_once_one_is_refused_before_it_asks_and_the_other_ends(owners, tmp_path, silent):
    """The second begins in the middle of the first; it holds nothing anywhere after it."""
    refusals: list[str] = []

    def second(share: float, done: Any) -> None:
        if done is not None and done.number == 1:
            with pytest.raises(GatewayError) as refused:
                train(owners.deployment, owners.exchange(), tmp_path / "second")
            refusals.append(str(refused.value))

    done = train(owners.deployment, owners.exchange(), tmp_path / "run", on_round=second)
    assert done.told.ended == ""
    assert not any(why for one in done.told.rounds for why in one.answers.values())
    assert all(f"client {i} has spent 40 %" in refusals[0] for i in range(4))
    assert held(owners) == [0.0] * 4
    assert numbers(owners) == [[1, 2, 3, 4, 5]] * 4


def test_where_one_owner_does_not_hold_the_price_the_others_let_go(owners, tmp_path, silent):
    """Then the same run is gone on with, once that owner can."""
    other = LeaseRequest(run="of somebody", epsilon=2.0, delta=1e-5)
    owners.opened["client 2"].answer(packed(other))
    with pytest.raises(GatewayError, match=r"\(client 2: client 2 has spent 0 %.*nothing was asked"):
        train(owners.deployment, owners.exchange(), tmp_path / "run")
    assert [part > 0 for part in held(owners)] == [False, False, True, False]
    assert numbers(owners) == [[]] * 4
    owners.opened["client 2"].answer(packed(Receipt(run="of somebody", ended=True)))
    done = train(owners.deployment, owners.exchange(), tmp_path / "run", resume=True)
    assert done.trained.rounds[-1] == 5
    assert held(owners) == [0.0] * 4


@pytest.mark.full
def test_an_owner_that_could_not_be_told_of_the_end_is_named(owners, tmp_path, silent):
    """It may hold a part of its budget for the run; going on with a run that has ended tells it again."""

    def deaf_at_the_end(data: bytes) -> bytes:
        message = read_message(data)
        if isinstance(message, Receipt) and message.ended:
            raise GatewayError("it went away")
        return owners.opened["client 2"].answer(data)

    answers = {name: gateway.answer for name, gateway in owners.opened.items()}
    exchange = Direct(answers | {"client 2": deaf_at_the_end})
    done = train(owners.deployment, exchange, tmp_path / "run", patience=12.0)
    assert done.untold == {"client 2"}
    again = train(owners.deployment, owners.exchange(), tmp_path / "run", resume=True)
    assert again.untold == frozenset()
    assert held(owners) == [0.0] * 4


def test_a_run_that_broke_off_holds_its_price_until_it_goes_on(owners, tmp_path, silent):
    """Also where the server was killed between holding and asking: its name is on disk before."""
    with pytest.raises(KeyboardInterrupt):
        train(owners.deployment, spoiled(owners, killed_after(8)), tmp_path / "run")
    assert held(owners)[0] > 0
    train(owners.deployment, owners.exchange(), tmp_path / "run", resume=True)
    assert held(owners) == [0.0] * 4

    def killed(share: float, done: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(owners.deployment, owners.exchange(), tmp_path / "other", on_round=killed)
    assert RunState.kept_in(tmp_path / "other").run.startswith("run ")


def test_a_run_that_ended_early_says_so_in_its_report(owners, losing, tmp_path):
    deployment = owners.deployment
    losing({(name, number) for name in NAMES for number in (2, 3)})
    done = train(deployment, owners.exchange(), tmp_path / "run")
    prepared, decision = plan_study(prepare(parse_study(tomllib.loads(STUDY))))
    record = new_record(prepared.study, decision, deployment.federation, prepared.dimension, name="two")
    abouts = [gateway.about for gateway in owners.opened.values()]
    page = write_report(with_network(record, done, abouts, 1.0), tmp_path).read_text()
    assert "Why the training ended early" in page
    assert "this round can never be made" in page


def test_a_folder_that_holds_a_run_is_not_written_over(deployment, owners, tmp_path, silent):
    """Whether it ended, broke off, or was simulated."""
    train(deployment, owners.exchange(), tmp_path / "run")
    kept = (tmp_path / "run" / FILE).read_bytes()
    for name in (FILE, "record.json", "model", "model.npz"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_bytes(b"{}")
        with pytest.raises(ResumeError, match=rf"holds a run already \({name}\).*--resume.*--out"):
            train(deployment, owners.exchange(), folder)
    with pytest.raises(ResumeError, match="holds a run already"):
        train(deployment, owners.exchange(), tmp_path / "run")
    assert (tmp_path / "run" / FILE).read_bytes() == kept


def test_a_folder_that_holds_a_plan_alone_is_trained_in(tmp_path):
    """As `plan --out` leaves it; what was compared by the plan is not written over."""
    (tmp_path / "record.json").write_text('{"plan": {}, "training": null}')
    check_unused(tmp_path)
    (tmp_path / "record.json").write_text('{"plan": {}, "training": null, "compare": {"cells": []}}')
    with pytest.raises(ResumeError, match="holds a run already"):
        check_unused(tmp_path)


def test_a_study_under_add_remove_is_refused_before_anybody_is_asked():
    """Gateways price an exchange of records, which is two moves under add-remove."""
    with pytest.raises(UnsoundClaim, match=r'relation\s+add-remove.*\[privacy\] relation = "replace-one"'):
        deployment_of(STUDY.replace("delta = 1e-5", 'delta = 1e-5\nrelation = "add-remove"'))
