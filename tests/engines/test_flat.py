"""Records end to end: the numbers of stacked clients for every method, however windows cut them."""

from __future__ import annotations

import errno
import os
from dataclasses import replace

import numpy as np
import pytest

from noiseworthy.data import Federation
from noiseworthy.data.ragged import Ragged
from noiseworthy.engines import flat
from noiseworthy.engines.debug import debug
from noiseworthy.engines.shards import Shards
from noiseworthy.engines.simulation import Checkpoint, simulate
from noiseworthy.engines.streams import ClientMemories
from noiseworthy.errors import DataError, ResumeError
from noiseworthy.methods.dp_fedavg import planner as fedavg
from noiseworthy.methods.dp_pasgd import planner as pasgd
from noiseworthy.methods.dp_scaffnew import planner as scaffnew
from noiseworthy.methods.dpfl_bcs import planner as bcs
from noiseworthy.methods.fedsgd_dpc import planner as fedsgd
from noiseworthy.methods.mr_mtl import method as mr_mtl
from noiseworthy.methods.registry import make
from noiseworthy.methods.rivals import planner as rivals
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.studies.checkpoints import save_checkpoint
from noiseworthy.tasks import LinearModel, model_task
from noiseworthy.trials.dealing import weighted

SIZES = np.array([40, 9, 5, 8, 6, 16])
N, FEATURES, STEP = len(SIZES), 4, StepSize(0.3, np.inf)
LOGISTIC = LinearModel(FEATURES, 1, "logistic", ridge=0.05, feature_norm=1.0, normalise=True)
SQUARED = LinearModel(FEATURES, 1, "squared", ridge=0.05)
SEEDS, SAME = [3, 4], {"rtol": 1e-5, "atol": 1e-6}


@pytest.fixture(scope="module")
def stacked() -> Federation:
    rng = np.random.default_rng(8)
    clients = [(rng.normal(size=(n, FEATURES)), rng.integers(0, 2, n)) for n in SIZES]
    return Federation.from_clients(clients, test=clients[0], classes=2, name="unlike")


@pytest.fixture(scope="module")
def laid(stacked) -> Federation:
    """The same records end to end."""
    x, y = (
        Ragged.laid([one[:n] for one, n in zip(part, SIZES, strict=True)]) for part in (stacked.x, stacked.y)
    )
    return replace(stacked, x=x, y=y)


def problem(mode="A", relation="replace-one", rate=1.0) -> Problem:
    unit = "client" if mode in ("C", "D") else "record"
    epsilon = np.linspace(1, 3, N) if rate == 1 else 2.0  # as test_simulation's: calibrated once
    budget = PrivacyBudget.of(epsilon, 1e-3, N, relation, unit)
    return Problem(SIZES, FEATURES, budget, "gaussian", 1.0, rate, mode)


def fedavg_plan(mode, b=3, batch=None):
    return fedavg.stated(problem(mode), 8, 2, b, STEP, batch)


def dpfl_bcs():
    return bcs.stated(problem(), [4, 3, 1, 2, 2, 0], 3, 4, STEP)


def rival(name):
    return rivals.plan(name, problem(), rounds=4, clients_per_round=3, step=STEP, momentum=0.6)


PLANS = {
    "fedsgd-dpc, three of six": (LOGISTIC, lambda: fedsgd.stated(problem(), 4, 3, STEP)),
    "fedsgd-dpc, everybody": (LOGISTIC, lambda: fedsgd.stated(problem(), 4, N, STEP)),
    "fedsgd-dpc, Poisson batches": (
        LOGISTIC, lambda: fedsgd.stated(problem(relation="add-remove", rate=0.5), 4, 3, STEP)
    ),
    "dp-fedavg B": (LOGISTIC, lambda: fedavg_plan("B")),
    "dp-fedavg C, condensed": (SQUARED, lambda: fedavg_plan("C")),
    "dp-fedavg D, minibatches": (LOGISTIC, lambda: fedavg_plan("D", batch=4)),
    "dp-scaffnew": (LOGISTIC, lambda: scaffnew.stated(problem("D"), 6, 0.5, STEP)),
    "dp-scaffnew, minibatches": (SQUARED, lambda: scaffnew.stated(problem("D"), 6, 0.5, STEP, 0, 4)),
    "dp-pasgd, minibatches": (LOGISTIC, lambda: pasgd.stated(problem(), 4, 2, STEP, 4)),
    "dpfl-bcs": (LOGISTIC, dpfl_bcs),
    "pfa": (SQUARED, lambda: rival("pfa")),
    "privatefl": (SQUARED, lambda: rival("privatefl")),
    "mr-mtl": (SQUARED, lambda: mr_mtl.stated(problem(), 4, STEP, pull=1.0)),
}  # fmt: skip


def trained(algorithms, plan, federation, task, seeds=SEEDS, **how):
    shards = Shards.load(federation, task, condensed=algorithms[0].condensed)
    at = np.array([0, 1, plan.rounds])
    return simulate(algorithms, plan.uploads, shards, at, seeds, **how)


def assert_same(ours, theirs, **tolerance):
    np.testing.assert_array_equal(ours.uploads, theirs.uploads)
    for name in ("theta", "loss", "accuracy"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), err_msg=name, **tolerance)


@pytest.mark.parametrize("kind", PLANS)
def test_every_method_trains_as_with_stacked_clients(kind, stacked, laid, monkeypatch):
    monkeypatch.setattr(flat, "_WINDOW", 20 * FEATURES)  # windows end within rounds
    monkeypatch.setattr(flat, "_CLIENTS", 2)
    task, plan = PLANS[kind][0], PLANS[kind][1]()
    algorithms = [make(plan, task, seed) for seed in SEEDS]
    ours, theirs = (trained(algorithms, plan, held, task) for held in (laid, stacked))
    assert np.abs(ours.theta[0] - ours.theta[1]).max() > 1e-3
    assert_same(ours, theirs, **SAME)


@pytest.mark.parametrize("kind", ["fedsgd-dpc, everybody", "dp-fedavg B", "dp-scaffnew"])
def test_a_training_that_ends_before_another_does_so_with_either(kind, stacked, laid):
    task, plan = PLANS[kind][0], PLANS[kind][1]()
    algorithms, ends = [make(plan, task, seed) for seed in SEEDS], np.array([plan.rounds, 1])
    ours, theirs = (trained(algorithms, plan, held, task, ends=ends) for held in (laid, stacked))
    assert ours.uploads[1].sum() == algorithms[1].cohorts.shape[1]
    assert_same(ours, theirs, **SAME)


def test_single_uploads_give_the_numbers_of_the_debug_engine(laid):
    plan, at = fedavg_plan("B", b=2), np.array([1])
    algorithm, shards = make(plan, LOGISTIC, 4), Shards.load(laid, LOGISTIC)
    fast = simulate([algorithm], plan.uploads, shards, at, [4], single_uploads=True)
    slow = debug(algorithm, plan.uploads, shards, at, 4)
    np.testing.assert_allclose(fast.theta, slow.theta, rtol=1e-4, atol=1e-5)


def test_records_that_stand_for_several_count_so_often(stacked, laid):
    plan, counts = fedavg_plan("B"), np.linspace(1, 3, N)
    algorithm = make(plan, LOGISTIC, 4)
    runs = [
        simulate([algorithm], plan.uploads, weighted(Shards.load(held, LOGISTIC), counts), np.array([4]), [4])
        for held in (laid, stacked)
    ]
    assert_same(*runs, **SAME)
    assert not np.allclose(runs[0].theta, trained([algorithm], plan, laid, LOGISTIC, [4]).theta, atol=1e-3)


# Windows ------------------------------------------------------------------------------------------------


def records_of(sizes) -> flat.FlatRecords:
    x = Ragged.of(np.arange(1, sum(sizes) + 1, dtype=np.float32)[:, None], np.array(sizes))
    return flat.FlatRecords.of(x, Ragged.of(x.rows[:, 0], x.sizes), SQUARED, condensed=False)


@pytest.mark.parametrize("limit", ["_WINDOW", "_TRAVELS"])
def test_windows_hold_each_client_of_each_round_once_with_its_records(limit, monkeypatch):
    monkeypatch.setattr(flat, "room", lambda cached, sharers=1: cached if limit == "_WINDOW" else 10**9)
    monkeypatch.setattr(flat, limit, 300)
    rng, sizes = np.random.default_rng(0), [1, 2, 5, 17, 65, 256, 3, 1000, 4, 16, 1, 30]
    train = records_of(sizes)
    cohorts = [rng.permutation(12)[:7] for _ in range(6)]
    seen, round_ = [[] for _ in cohorts], 0
    for window in train.windows(cohorts, train.at_once(7, 0)):
        for k in range(window.length):
            step = flat.Steps(*(part[k] for part in window.steps))
            for client, place, slot, start, size in zip(*step[2:], strict=True):
                if not size:
                    continue
                seen[round_].append(int(client))
                assert (cohorts[round_][place], window.asked[slot], sizes[client]) == (client, client, size)
                rows = slice(start, start + size)
                np.testing.assert_array_equal(window.x[rows], train.x[client])
                np.testing.assert_array_equal(window.y[rows], train.y[client])
                width = train.widths[step.level]
                assert size <= width < 4 * size + 4
                assert start + width <= len(window.x)
            round_ += int(step.ends)
        assert sum(sizes[c] for c in window.asked) <= max(300, max(sizes))
    assert [sorted(asked) for asked in seen] == [sorted(cohort.tolist()) for cohort in cohorts]


def test_a_device_with_room_computes_clients_of_linear_models_together_and_networks_as_a_cpu(monkeypatch):
    train = records_of([3000] * 40)
    network = replace(train, task=model_task(lambda w, x: x @ w, np.zeros((1, 1))))
    assert train.at_once(40, 0) == network.at_once(40, 0) == (16,)
    monkeypatch.setattr(flat, "room", lambda cached, sharers: 10**9)
    assert (train.at_once(40, 0), network.at_once(40, 0)) == ((40,), (16,))


def test_a_window_of_a_small_cohort_reads_no_record_of_the_others():
    train = records_of([3] * 1000)
    (window,) = train.windows([np.array([5, 900])], train.at_once(2, 0))
    assert window.asked.tolist() == [5, 900]
    assert np.count_nonzero(window.x) == 6


# What clients remember ------------------------------------------------------------------------------------


def test_only_those_asked_are_written_and_others_start_alike(tmp_path):
    start = [np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)]
    held = ClientMemories(start, np.zeros((2, 5), bool), tmp_path)
    held.write(1, np.array([4, 2]), (np.array([[5, 6], [7, 8]], np.float32),))
    for _ in range(2):  # before and after they lie in the file
        (rows,) = held.read(1, np.array([2, 3, 4]))
        np.testing.assert_array_equal(rows, [[7, 8], [3, 4], [5, 6]])
        np.testing.assert_array_equal(held.read(0, np.array([4]))[0], [[1, 2]])
        held.settle()
    assert len(held.changes[0]) == 0
    np.testing.assert_array_equal(np.flatnonzero(np.load(tmp_path / "memory_00.npy").any(axis=1)), [7, 9])


def test_files_of_what_clients_remember_are_for_their_user_alone(tmp_path):
    """Control variates carry no noise: they are as private as the records, and run folders are handed on."""
    kept, none = np.ones((1, 2, 3), np.float32), np.empty((1, 0))
    ClientMemories([kept[:, 0]], np.zeros((1, 2), bool), tmp_path)
    reached = Checkpoint(1, kept[0], np.ones((1, 2), np.int64), np.empty(0, np.int64), none, none, (kept,))
    save_checkpoint(tmp_path, reached, "mark")
    modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    assert modes == {"memory_00.npy": 0o600, "checkpoint.npz": 0o600}


def test_a_disk_without_room_for_what_clients_remember_is_refused_before_they_do(tmp_path, monkeypatch):
    """A row that is mapped and finds no room when it is written ends the process by a signal."""
    kept, nobody = [np.ones((1, 1000), np.float32)], np.zeros((1, 1000), bool)
    ClientMemories(kept, nobody, tmp_path)
    file = (tmp_path / "memory_00.npy").stat()
    assert 512 * file.st_blocks >= file.st_size > 4e6

    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(DataError, match=r"cannot be written .*No space left.*; choose another with --out"):
        ClientMemories(kept, nobody, tmp_path)


def scaffnew_run(laid, folder, **how):
    plan = scaffnew.stated(problem("D"), 8, 0.7, STEP)
    algorithms, shards = [make(plan, LOGISTIC, seed) for seed in SEEDS], Shards.load(laid, LOGISTIC)
    asked = np.array([[0, 1], [2, 3], [0, 2], [5, 1]], np.int32)
    algorithms = [replace(one, cohorts=asked, counts=one.counts[:4]) for one in algorithms]
    return simulate(algorithms, plan.uploads, shards, np.arange(5), SEEDS, folder=folder, **how)


def test_a_checkpoint_holds_the_memories_that_changed_since_the_last(laid, tmp_path):
    kept = []
    scaffnew_run(laid, tmp_path, on_segment=kept.append)
    assert [sorted(one.where % N) for one in kept] == [
        [],
        [0, 0, 1, 1],
        [2, 2, 3, 3],
        [0, 0, 2, 2],
        [1, 1, 5, 5],
    ]


@pytest.mark.parametrize("settled", [False, True])
def test_a_kill_before_or_after_memories_are_written_resumes_to_the_same_state(laid, tmp_path, settled):
    kept, whole = [], scaffnew_run(laid, None, on_segment=(everything := []).append)

    def at_checkpoint(reached):
        kept.append(reached)
        if reached.round == 2 and not settled:
            raise KeyboardInterrupt

    def before_rounds(start, stop):
        if start == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scaffnew_run(laid, tmp_path, on_segment=at_checkpoint, before_segment=before_rounds)
    again = scaffnew_run(laid, tmp_path, resume=kept[-1])
    assert_same(again, whole, rtol=0, atol=0)
    in_memory = scaffnew_run(laid, None, resume=everything[2])
    assert_same(in_memory, whole, rtol=0, atol=0)


def test_a_resume_without_its_memories_is_refused(laid, tmp_path):
    kept = []
    scaffnew_run(laid, tmp_path, on_segment=kept.append)
    (tmp_path / "memory_01.npy").unlink()
    with pytest.raises(ResumeError, match="lacks what clients remember"):
        scaffnew_run(laid, tmp_path, resume=kept[2])


def test_a_resume_beside_memories_that_were_cut_short_is_refused(laid, tmp_path):
    """Rows beyond the cut were taken for zeros, without a word."""
    kept = []
    scaffnew_run(laid, tmp_path, on_segment=kept.append)
    file = tmp_path / "memory_00.npy"
    os.truncate(file, file.stat().st_size - 100)
    with pytest.raises(ResumeError, match="lacks what clients remember"):
        scaffnew_run(laid, tmp_path, resume=kept[2])


@pytest.mark.parametrize("foreign", [np.zeros((3, 4), np.float32), np.zeros((40, 5), np.float64)])
def test_a_resume_beside_memories_of_another_training_is_refused(laid, tmp_path, foreign):
    kept = []
    scaffnew_run(laid, tmp_path, on_segment=kept.append)
    there = np.load(tmp_path / "memory_00.npy")
    np.save(
        tmp_path / "memory_00.npy", np.resize(foreign, there.shape) if foreign.dtype == float else foreign
    )
    with pytest.raises(ResumeError, match="of another training"):
        scaffnew_run(laid, tmp_path, resume=kept[2])
