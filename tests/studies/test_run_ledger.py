"""The ledger of a training: what is entered, what a broken run leaves, and what is refused."""

from __future__ import annotations

import shutil
from contextlib import closing, suppress
from dataclasses import replace

import numpy as np
import pytest

from noiseworthy.engines.simulation import Checkpoint
from noiseworthy.errors import BudgetExceeded, InvalidInput, LedgerError, ResumeError
from noiseworthy.methods.fedsgd_dpc import planner as queries_replies
from noiseworthy.methods.registry import make
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.accountants import composed_epsilon
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.durable import DurableLedger
from noiseworthy.privacy.durable.accounts import LAST_BITS, WHOLE
from noiseworthy.privacy.durable.reading import read_ledger
from noiseworthy.privacy.durable.statement import statement
from noiseworthy.studies import plan_file, run_folder, run_ledger
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.planner import decide
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.record import load_record
from noiseworthy.studies.run_folder import opened_ledger
from noiseworthy.studies.run_ledger import FILE, Owners, RunLedger, SharedLedger, digest_of
from noiseworthy.studies.studies import train_in
from noiseworthy.studies.training import train
from noiseworthy.tasks import LinearModel

CONSTANTS = {
    "smoothness": 1.0, "strong_convexity": 0.1, "gradient_bound": 1.0, "initial_distance_sq": 25.0,
    "heterogeneity": 0.5,
}  # fmt: skip
STUDY = {
    "federation": {"data": "iris", "clients": 4, "partition": "quantity-skew", "alpha": 2.0},
    "task": {"ridge": 0.1, "feature_norm": 1.0},
    "privacy": {"mechanism": "gaussian", "epsilon": [2.0, 3.0, 4.0, 6.0], "delta": 1e-5, "clip_norm": 0.5},
    "algorithm": {"rounds": 8, "clients_per_round": 2, "step_size": 0.5},
    "constants": CONSTANTS,
}
SEEDS = [0, 1]
KEPT = {"evaluations": 3, "belongs_to": "iris"}


def changed(**tables):
    return {**STUDY, **{name: {**STUDY.get(name, {}), **table} for name, table in tables.items()}}


def planned(raw):
    prepared = prepare(parse_study(raw))
    return decide(prepared).plan, *prepared.trained()


@pytest.fixture(scope="module")
def study():
    return planned(STUDY)


@pytest.fixture(scope="module")
def whole(study, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return folder, train(*study, SEEDS, folder=folder, **KEPT)


def lines_of(path):
    with opened_ledger(path) as ledger:
        return statement(ledger)


# What is entered --------------------------------------------------------------------------------------


def test_every_upload_is_entered_sealed_and_acknowledged_for_every_seed(study, whole):
    plan, _, _ = study
    folder, run = whole
    lines = lines_of(folder)
    made = np.array([line.spent for line in lines]).reshape(2, 4)
    np.testing.assert_array_equal(made, run.uploads)
    np.testing.assert_array_equal([line.planned for line in lines], np.tile(plan.uploads, 2))
    assert all(line.spent == line.sealed == line.acknowledged for line in lines)
    spent = np.array([line.epsilon for line in lines]).reshape(2, 4)
    np.testing.assert_allclose(spent, [plan.spent(used) for used in run.uploads], rtol=1e-9)
    assert {line.account.client for line in lines} == {f"client {i}" for i in range(4)}


def test_releases_are_numbered_without_a_gap(whole):
    folder, run = whole
    with opened_ledger(folder) as ledger:
        rows = ledger.query("SELECT account, number FROM releases ORDER BY account, number")
    expected = [(i + 1, n + 1) for i, k in enumerate(run.uploads.ravel()) for n in range(k)]
    assert rows == expected


def test_a_seed_that_repeats_is_charged_once(study, tmp_path):
    train(*study, [3, 3], folder=tmp_path, **KEPT)
    plan, _, _ = study
    assert [line.spent for line in lines_of(tmp_path)] == plan.uploads.tolist()


def test_without_noise_or_without_a_folder_there_is_no_ledger(study, tmp_path, monkeypatch):
    plain = planned(changed(privacy={"mechanism": "none", "epsilon": 1.0}))
    train(*plain, SEEDS, folder=tmp_path, **KEPT)
    assert not (tmp_path / FILE).exists()
    train(*plain, SEEDS, folder=tmp_path, resume=True, **KEPT)
    monkeypatch.setattr(DurableLedger, "open", None)
    train(*study, SEEDS, evaluations=1)


KINDS = {
    "pure Laplace": changed(privacy={"mechanism": "laplace", "delta": 0.0}, algorithm={"rounds": 7}),
    "Laplace with a delta": changed(privacy={"mechanism": "laplace", "epsilon": 3.0}),
    "noise in every local step": changed(
        algorithm={
            "name": "dp-pasgd", "rounds": None, "clients_per_round": None, "local_steps": 3,
            "total_iterations": 12, "batch_size": 5, "step_size": 0.1,
        },
        federation={"partition": "iid", "alpha": None},
        constants={"gradient_variance": 1.0, "initial_gap": 1.0},
    ),
    "coins": changed(
        algorithm={
            "name": "dp-scaffnew", "rounds": None, "clients_per_round": None, "iterations": 12,
            "communication_probability": 0.4, "step_size": 0.5,
        }
    ),
    "bought constants": changed(constants={**dict.fromkeys(CONSTANTS), "source": "bought", "share": 0.2}),
}  # fmt: skip

PRICED_AS_A_WHOLE = "Laplace with a delta", "Poisson batches"
POISSON = changed(privacy={"relation": "add-remove", "sampling_rate": 0.5, "epsilon": 3.0})


def compact(raw):
    return {table: {k: v for k, v in keys.items() if v is not None} for table, keys in raw.items()}


@pytest.mark.parametrize("kind", [*KINDS, pytest.param("Poisson batches", marks=pytest.mark.slow)])
def test_every_kind_of_noise_spends_what_its_accountant_says(kind, tmp_path):
    plan, *rest = planned(compact(KINDS.get(kind, POISSON)))
    run = train(plan, *rest, [0], folder=tmp_path, **KEPT)
    lines, pilot = lines_of(tmp_path), kind == "bought constants"
    np.testing.assert_array_equal([line.spent - pilot for line in lines], run.uploads[0])
    assert all(line.spent == line.acknowledged for line in lines)
    np.testing.assert_array_equal([line.planned - pilot for line in lines], plan.uploads)
    spent = [line.epsilon for line in lines]
    close = 2e-3 if kind in PRICED_AS_A_WHOLE else 1e-9
    np.testing.assert_allclose(spent, plan.spent(run.uploads[0]), rtol=close)
    assert all(line.shares <= WHOLE + LAST_BITS for line in lines)


# Broken runs ------------------------------------------------------------------------------------------


class Killed(BaseException):
    """Stands for a kill."""


STEPS = {
    "reserve": (DurableLedger, "reserve"), "seal": (DurableLedger, "seal"),
    "checkpoint": (run_folder, "save_checkpoint"), "acknowledge": (DurableLedger, "acknowledge"),
}  # fmt: skip


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", list(STEPS))
def test_a_run_killed_at_any_step_goes_on_to_the_same_end(step, when, study, whole, tmp_path, monkeypatch):
    owner, name = STEPS[step]
    call, calls = getattr(owner, name), []

    def mortal(*arguments):
        calls.append(step)
        if len(calls) == 2 and when == "before":
            raise Killed
        answer = call(*arguments)
        if len(calls) == 2:
            raise Killed
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, mortal)
        with pytest.raises(Killed):
            train(*study, SEEDS, folder=tmp_path, **KEPT)
    resume = (tmp_path / "checkpoint.npz").exists()
    again = train(*study, SEEDS, folder=tmp_path, resume=resume, **KEPT)
    folder, unbroken = whole
    np.testing.assert_array_equal(again.theta, unbroken.theta)
    np.testing.assert_array_equal(again.loss, unbroken.loss)
    assert lines_of(tmp_path) == lines_of(folder)


def test_rounds_are_paid_for_before_they_run(study, tmp_path, monkeypatch):
    """When the engine starts rounds, another connection sees them as spent."""
    from noiseworthy.engines import resident

    advance, seen = resident._advance, []

    def watching(stacked, states, memory, shards, groups, keys, bounds, *rest):
        with read_ledger(tmp_path / FILE) as ledger:
            seen.append((int(bounds[1]), sum(line.spent for line in statement(ledger))))
        return advance(stacked, states, memory, shards, groups, keys, bounds, *rest)

    monkeypatch.setattr(resident, "_advance", watching)
    train(*study, SEEDS, folder=tmp_path, **KEPT)
    assert len(seen) == 4
    assert all(paid == 2 * 2 * stop for stop, paid in seen)


def test_the_same_training_again_spends_nothing_more(study, whole, tmp_path):
    folder, _ = whole
    shutil.copytree(folder, tmp_path / "run")
    train(*study, SEEDS, folder=tmp_path / "run", **KEPT)
    assert lines_of(tmp_path / "run") == lines_of(folder)


def test_the_same_noise_is_not_drawn_on_other_data(study, whole, tmp_path):
    folder, _ = whole
    plan, federation, task = study
    shutil.copytree(folder, tmp_path / "run")
    other = replace(federation, x=federation.x[:, :, ::-1].copy())
    with pytest.raises(LedgerError, match="sealed with other bytes: data, software or machine have changed"):
        train(plan, other, task, SEEDS, folder=tmp_path / "run", **KEPT)


def test_an_edited_study_in_the_same_folder_is_another_run_with_budgets_of_its_own(study, whole, tmp_path):
    folder, _ = whole
    plan, *rest = study
    shutil.copytree(folder, tmp_path / "run")
    longer = replace(plan, step=replace(plan.step, initial=0.25))
    train(longer, *rest, SEEDS, folder=tmp_path / "run", **KEPT)
    lines = lines_of(tmp_path / "run")
    assert lines[:8] == lines_of(folder)
    assert len({line.account.world for line in lines}) == 4


@pytest.mark.parametrize("name", ["round", "theta", "used", "memory", "server", "where"])
def test_the_seal_covers_everything_that_releases_move(name):
    one = np.ones((2, 3), np.float32)
    reached = Checkpoint(4, one, np.ones((2, 4), np.int64), np.arange(2), one, one, (one,), (one,))
    moved = {
        "round": 5, "theta": one * np.float32(1 + 2e-7), "used": reached.used + 1, "memory": (one, one),
        "server": (2 * one,), "where": np.arange(2),
    }  # fmt: skip
    assert digest_of(reached._replace(**{name: moved[name]})) != digest_of(reached)
    assert digest_of(reached._replace(loss=2 * one)) == digest_of(reached)


# What is refused --------------------------------------------------------------------------------------


@pytest.fixture
def broken(study, tmp_path, monkeypatch):
    """A run that was killed after its second checkpoint, and the ledger as it was at the first one."""
    folder, old, saved = tmp_path / "run", tmp_path / "old.sqlite", []
    save = run_folder.save_checkpoint

    def mortal(*arguments):
        save(*arguments)
        saved.append(arguments)
        if len(saved) == 1:
            with closing(DurableLedger.open(folder / FILE)) as ledger:
                ledger.query("SELECT 1")
            shutil.copy(folder / FILE, old)
        if len(saved) == 3:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(run_folder, "save_checkpoint", mortal)
        with suppress(Killed):
            train(*study, SEEDS, folder=folder, **KEPT)
    return folder, old, saved[0]


def test_a_run_whose_ledger_is_gone_is_refused_and_none_is_made(study, broken):
    folder, _, _ = broken
    (folder / FILE).unlink()
    with pytest.raises(ResumeError, match=r"ledger\.sqlite is missing.*put it back, or start anew"):
        train(*study, SEEDS, folder=folder, resume=True, **KEPT)
    assert not (folder / FILE).exists()


def test_a_ledger_that_was_set_back_is_refused(study, broken):
    folder, old, _ = broken
    shutil.copy(old, folder / FILE)
    with pytest.raises(LedgerError, match="set back or replaced; put the latest ledger back"):
        train(*study, SEEDS, folder=folder, resume=True, **KEPT)
    with pytest.raises(LedgerError, match="set back or replaced"):
        opened_ledger(folder)


def test_an_older_checkpoint_goes_on_without_spending_again(study, broken, whole):
    """The ledger is ahead of it: what was sealed since is made again and found the same."""
    folder, _, first = broken
    run_folder.save_checkpoint(*first)
    again = train(*study, SEEDS, folder=folder, resume=True, **KEPT)
    kept, unbroken = whole
    np.testing.assert_array_equal(again.theta, unbroken.theta)
    assert lines_of(folder) == lines_of(kept)


def test_a_checkpoint_that_knows_no_ledger_is_refused(study, broken):
    folder, _, (_, checkpoint, mark, *_) = broken
    run_folder.save_checkpoint(folder, checkpoint, mark)
    with pytest.raises(ResumeError, match="has no privacy ledger; train without --resume"):
        train(*study, SEEDS, folder=folder, resume=True, **KEPT)


def test_other_evaluations_would_cut_spent_rounds_otherwise_and_are_refused(study, broken):
    folder, _, first = broken
    run_folder.save_checkpoint(*first)
    with pytest.raises(LedgerError, match=r"with the same \[training\] evaluations"):
        train(*study, SEEDS, folder=folder, resume=True, belongs_to="iris", evaluations=1)


# Runs that share a ledger -----------------------------------------------------------------------------


def test_runs_that_share_a_ledger_add_up_to_the_lifetime_budget(study, tmp_path):
    """Three studies against a lifetime epsilon that pays for two of them at the richest client."""
    plan, *rest = study
    richest = plan.budget.epsilon.max()
    twice = composed_epsilon([(plan.release, 2 * plan.releases)], plan.budget.delta).max()
    assert richest < twice
    shared = SharedLedger.of(tmp_path / "owner.sqlite", float(twice))
    plans = [replace(plan, step=replace(plan.step, initial=initial)) for initial in (0.5, 0.4, 0.3)]
    for i in (0, 1):
        train(plans[i], *rest, SEEDS, folder=tmp_path / str(i), ledger=shared, **KEPT)
    lines = lines_of(shared.path)
    assert [line.spent for line in lines] == [2 * k for k in plan.uploads] * 2
    np.testing.assert_allclose(max(line.epsilon for line in lines), twice, rtol=1e-9)
    with pytest.raises(BudgetExceeded, match=r"in other runs, and this one needs .* nothing was spent"):
        train(plans[2], *rest, SEEDS, folder=tmp_path / "2", ledger=shared, **KEPT)
    assert lines_of(shared.path) == lines
    assert not (tmp_path / "0" / FILE).exists()


def test_what_was_bought_is_paid_for_where_the_plan_trains_nothing(tmp_path):
    raw = {
        "federation": {"data": "digits", "clients": 4, "partition": "iid"},
        "task": {"feature_norm": 1.0, "ridge": 0.1, "bias": False},
        "privacy": {"mechanism": "gaussian", "epsilon": 0.5, "delta": 1e-5, "clip_norm": 1.0},
        "constants": {"source": "bought", "share": 0.3},
    }
    made = plan_file.planned(prepare(parse_study(raw)))
    assert made.plan.pilot is not None
    assert not made.plan.train
    shared = SharedLedger.of(tmp_path / "shared.sqlite", 2.0)
    record = train_in(made, tmp_path / "run", name="bought", ledger=shared)
    with read_ledger(shared.path) as books:
        lines = statement(books)
    assert [line.spent for line in lines] == [1] * 4
    assert [line.epsilon for line in lines] == pytest.approx(made.plan.spent().tolist())
    assert record["ledger"]["releases"] == record["ledger"]["acknowledged"] == 4
    assert load_record(tmp_path / "run") == record
    train_in(made, tmp_path / "other", name="bought", ledger=shared)  # the same draws are one release
    with read_ledger(shared.path) as books:
        assert statement(books) == lines


def test_without_a_lifetime_epsilon_the_first_run_spends_the_whole(study, tmp_path):
    plan, *rest = study
    shared = SharedLedger.of(tmp_path / "owner.sqlite")
    train(plan, *rest, SEEDS, folder=tmp_path / "a", ledger=shared, **KEPT)
    train(plan, *rest, SEEDS, folder=tmp_path / "b", ledger=shared, **KEPT)  # the same run: the same releases
    other = replace(plan, step=replace(plan.step, initial=0.25))
    with pytest.raises(BudgetExceeded, match="has spent 100 % of its lifetime budget"):
        train(other, *rest, SEEDS, folder=tmp_path / "c", ledger=shared, **KEPT)
    train(other, *rest, [7], folder=tmp_path / "c", ledger=shared, **KEPT)  # another world


def test_other_noise_cannot_be_added_to_an_account(study, tmp_path):
    _, *rest = study
    shared = SharedLedger.of(tmp_path / "owner.sqlite", 100.0)
    train(*study, SEEDS, folder=tmp_path / "a", ledger=shared, **KEPT)
    laplace, *_ = planned(KINDS["pure Laplace"])
    with pytest.raises(LedgerError, match="holds another budget of client 0 on iris"):
        train(laplace, *rest, SEEDS, folder=tmp_path / "b", ledger=shared, **KEPT)


def test_a_lifetime_epsilon_is_a_budget(tmp_path):
    with pytest.raises(InvalidInput, match="lifetime_epsilon"):
        SharedLedger.of(tmp_path / "owner.sqlite", float("nan"))


# Many clients -----------------------------------------------------------------------------------------


def many(clients: int):
    """A plan and an algorithm that ask 6 of so many clients in each of 4 rounds."""
    budget = PrivacyBudget.of(2.0, 1e-5, clients)
    problem = Problem(np.full(clients, 50), 4, budget, "gaussian", 0.5)
    plan = queries_replies.stated(problem, 4, 6, StepSize(0.1))
    return plan, make(plan, LinearModel(4, 1, "logistic"), 0)


def test_accounts_of_many_clients_are_opened_when_they_are_asked(tmp_path):
    """A bounded number of statements, however many clients there are."""
    clients = 100_000
    plan, algorithm = many(clients)
    owners = Owners("many", tuple(map(str, range(clients))))
    books, statements = RunLedger.open(tmp_path / FILE, "mark", [plan], [0], owners, None), []
    with books.ledger as ledger:
        ledger._db.set_trace_callback(statements.append)
        books.bought()
        pay = books.last_stage([plan], [algorithm])
        pay(0, 4)
        asked = np.unique(algorithm.cohorts)
        rows = ledger.query("SELECT client, spent FROM accounts ORDER BY id")
    assert [client for client, _ in rows] == [str(client) for client in asked]
    assert all(0 < spent <= WHOLE + LAST_BITS for _, spent in rows)
    assert len(statements) < 20 * len(asked)


def test_accounts_opened_when_asked_hold_what_accounts_opened_at_once_hold(
    study, whole, tmp_path, monkeypatch
):
    monkeypatch.setattr(run_ledger, "AT_ONCE", 3)
    run = train(*study, SEEDS, folder=tmp_path, **KEPT)
    folder, unbroken = whole
    np.testing.assert_array_equal(run.theta, unbroken.theta)
    assert lines_of(tmp_path) == lines_of(folder)


def test_a_client_that_cannot_pay_is_found_though_its_account_is_opened_late(tmp_path, monkeypatch):
    monkeypatch.setattr(run_ledger, "AT_ONCE", 3)
    plan, algorithm = many(10)
    owners, shared = Owners("many", tuple("abcdefghij")), SharedLedger(tmp_path / FILE)
    for mark in ("one", "two"):
        books = RunLedger.open(tmp_path / FILE, mark, [plan], [0], owners, shared)
        with books.ledger:
            if mark == "one":
                books.last_stage([plan], [algorithm])(0, 4)
                continue
            with pytest.raises(BudgetExceeded, match="of its lifetime budget"):
                books.last_stage([plan], [algorithm])
