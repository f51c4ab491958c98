"""The simulation engine against the debug engine, a NumPy oracle, itself in pieces, and its own ledger."""

from __future__ import annotations

from dataclasses import fields, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noiseworthy.data import Federation
from noiseworthy.engines import resident, simulation
from noiseworthy.engines.debug import debug
from noiseworthy.engines.shards import Shards, end_to_end
from noiseworthy.engines.simulation import SideBySide, simulate
from noiseworthy.errors import BudgetExceeded, InvalidInput
from noiseworthy.methods.algorithm import Scheduled, start_of
from noiseworthy.methods.around import Averaged, averaged
from noiseworthy.methods.dp_pasgd import planner as averaging_period
from noiseworthy.methods.dp_scaffnew import planner as communication_probability
from noiseworthy.methods.fedsgd_dpc import planner as queries_replies
from noiseworthy.methods.fedsgd_dpc.algorithm import FedSGDDPC
from noiseworthy.methods.making import padded
from noiseworthy.methods.registry import make
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.ledger import Ledger
from noiseworthy.tasks import LinearModel

SCORED = np.array([0, 1, 3, 4])
CASES = {
    "laplace, two of five": ("laplace", 2, {}),
    "laplace, everybody": ("laplace", 5, {}),
    "gaussian, three of five": ("gaussian", 3, {}),
    "gaussian, everybody": ("gaussian", 5, {}),
    "gaussian, poisson batches": ("gaussian", 2, {"sampling_rate": 0.5}),
}


def assert_same(ours, theirs, **tolerance):
    np.testing.assert_array_equal(ours.rounds, theirs.rounds)
    np.testing.assert_array_equal(ours.uploads, theirs.uploads)
    for name in ("theta", "loss", "accuracy"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), err_msg=name, **tolerance)


# Groups of like size ------------------------------------------------------------------------------------


UNLIKE = np.array([40, 9, 1, 8])
"""Groups of one, two (clients 1 and 3) and one: places in a group differ from numbers of clients."""


@pytest.fixture(scope="module")
def unlike() -> Federation:
    """Four clients of 1 to 40 records: two thirds of what they are stacked to is padding."""
    rng = np.random.default_rng(8)
    clients = [(rng.normal(size=(n, 4)), rng.integers(0, 2, n)) for n in UNLIKE]
    return Federation.from_clients(clients, test=clients[0], classes=2, name="unlike")


def everybody(kind: str):
    """An algorithm that asks all four, with draws of its own or memory."""
    task = LinearModel(4, 1, "logistic", ridge=0.05)
    unit = "client" if kind == "dp-scaffnew" else "record"
    relation = "add-remove" if kind == "poisson" else "replace-one"
    budget = PrivacyBudget.of(2.0, 1e-3, 4, relation, unit)  # as plans of `plan_of`: calibrated once
    mode, rate = ("D", 1.0) if kind == "dp-scaffnew" else ("A", 0.5 if kind == "poisson" else 1.0)
    problem, step = Problem(UNLIKE, 4, budget, "gaussian", 1.0, rate, mode), StepSize(0.3, np.inf)
    if kind == "dp-scaffnew":
        return task, communication_probability.stated(problem, 4, 0.5, step)
    if kind in ("dp-pasgd", "minibatches"):
        return task, averaging_period.stated(problem, 4, 2, step, 4 if kind == "minibatches" else None)
    return task, queries_replies.stated(problem, 2, 4, step)


def test_trainings_are_the_same_where_float64_is_enabled(unlike):
    task, plan = everybody("dp-scaffnew")
    scored = np.arange(plan.rounds + 1)
    expected = simulate([make(plan, task, 0)], plan.uploads, Shards.load(unlike, task), scored, [0])
    with jax.enable_x64(True):
        found = simulate([make(plan, task, 0)], plan.uploads, Shards.load(unlike, task), scored, [0])
        assert jax.config.jax_enable_x64
    assert_same(found, expected)
    assert found.theta.dtype == np.float32


KINDS = ("fedsgd-dpc", "poisson", "dp-scaffnew", "dp-pasgd", "minibatches")


@pytest.mark.parametrize("kind", KINDS)
def test_clients_grouped_by_size_train_as_the_debug_engine_says(kind, unlike):
    task, plan = everybody(kind)
    shards, algorithm = Shards.load(unlike, task), make(plan, task, 0)
    assert sum(len(group.clients) for group in shards.groups) == 4
    at = np.array([0, plan.rounds])
    fast = simulate([algorithm] * 2, plan.uploads, shards, at, [3, 4], single_uploads=True)
    slow = debug(algorithm, plan.uploads, shards, at, 4)
    np.testing.assert_allclose(fast.theta[1], slow.theta[0], rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["fedsgd-dpc", "dp-scaffnew", "dp-pasgd"])
def test_grouping_changes_nothing_where_draws_do_not_depend_on_padding(kind, unlike):
    task, plan = everybody(kind)
    shards, algorithm = Shards.load(unlike, task), make(plan, task, 0)
    runs = [
        simulate([algorithm] * 2, plan.uploads, held, np.array([0, plan.rounds]), [5, 6], single_uploads=True)
        for held in (shards, shards._replace(groups=()))
    ]
    np.testing.assert_allclose(runs[0].theta, runs[1].theta, rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize("rows", [1000, 58, 57, 10])
def test_records_end_to_end_are_everybodys(rows, unlike, monkeypatch):
    """In one block or in several, the last of which may be filled up."""
    monkeypatch.setattr(resident, "_JOINT_ELEMENTS", 4 * rows)
    task, plan = everybody("fedsgd-dpc")
    shards, algorithm = Shards.load(unlike, task), make(plan, task, 0)
    (clients, train), real = end_to_end(shards.train, 4 * rows), UNLIKE.sum()
    assert len(clients) == {1000: 58, 58: 58, 57: 58, 10: 60}[rows]
    np.testing.assert_array_equal(clients[:real], np.repeat(np.arange(4), UNLIKE))
    np.testing.assert_array_equal(train.mask[:real], 1)
    np.testing.assert_array_equal(train.mask[real:], 0)
    held = [simulate([algorithm] * 2, plan.uploads, one, np.array([0, plan.rounds]), [5, 6])
            for one in (shards, shards._replace(groups=()))]  # fmt: skip
    np.testing.assert_allclose(held[0].theta, held[1].theta, rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_training_that_ends_before_others_stays_as_it_was(kind, unlike):
    """Model, loss and charges are those of the training alone, whatever the others go on to do."""
    task, plan = everybody(kind)
    shards, algorithm = Shards.load(unlike, task), make(plan, task, 0)
    ends, seeds = np.array([plan.rounds, plan.rounds, 1, plan.rounds - 1]), [5, 6, 5, 6]
    at = np.array([1, plan.rounds])
    together = simulate([algorithm] * 4, plan.uploads, shards, at, seeds, ends=ends)
    kept = [together.memory(place, 0) for place in range(4)] if together.memory else None
    for place, (seed, end) in enumerate(zip(seeds, ends.tolist(), strict=True)):
        alone = simulate([algorithm], plan.uploads, shards, np.array([end]), [seed])
        np.testing.assert_allclose(together.theta[place], alone.theta[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(together.loss[place, -1], alone.loss[0, -1], rtol=1e-5)
        np.testing.assert_array_equal(together.uploads[place], alone.uploads[0])
        if kept and alone.memory:
            np.testing.assert_allclose(kept[place][0], alone.memory(0, 0)[0], rtol=1e-5, atol=1e-6)


def test_a_training_pays_for_its_own_rounds_alone(plan_of, algorithms_of, shards):
    """Zeros follow its schedule, which would ask client 0 twice in a round."""
    plans = [plan_of("laplace", 2, rounds) for rounds in (6, 3)]
    every = padded([algorithms_of(plan, [7]).all[0] for plan in plans], 9)
    planned = np.stack([plan.uploads for plan in plans])
    run = simulate(every, planned, shards, np.array([6]), [7, 7], ends=np.array([6, 3]))
    np.testing.assert_array_equal(run.uploads.sum(axis=1), [12, 6])
    with pytest.raises(BudgetExceeded, match="client 0 is asked twice in one round"):
        simulate(every, planned, shards, np.array([6]), [7, 7])


def test_what_is_made_for_any_federation_runs_no_round_that_it_does_not_charge(
    plan_of, algorithms_of, shards
):
    """Whatever is scored later: of rounds 6 and 3, when nothing else says where trainings end."""
    plans = [plan_of("laplace", 2, rounds) for rounds in (6, 3)]
    every = padded([algorithms_of(plan, [7]).all[0] for plan in plans], 9)
    planned, at = np.stack([plan.uploads for plan in plans]), np.array([6])
    together = SideBySide.of(every, planned, [6, 3], [7, 7])
    run = simulate(every, planned, shards, at, [7, 7], together=together)
    assert_same(run, simulate(every, planned, shards, at, [7, 7], ends=np.array([6, 3])), rtol=0)
    np.testing.assert_array_equal(run.uploads.sum(axis=1), [12, 6])


@pytest.mark.parametrize(("ends", "alike"), [([6, 3], True), ([3, 6], False), ([6, 4], False)])
def test_schedules_are_alike_as_far_as_both_go(ends, alike):
    """They part after three rounds, and the clients of the first would serve both."""
    cohorts = np.array([[[1], [0], [2], [0], [1], [2]], [[1], [0], [2], [1], [0], [0]]])
    assert resident._alike(cohorts, np.array(ends), 1) == alike
    assert not resident._alike(cohorts, None, 1)
    assert resident._alike(cohorts[:, :3], None, 1)


def test_groups_hold_every_record_once_and_little_padding(unlike):
    shards = Shards.load(unlike, LinearModel(4, 1, "logistic"))
    members = np.concatenate([group.clients for group in shards.groups])
    assert sorted(members.tolist()) == list(range(4))
    for group in shards.groups:
        np.testing.assert_array_equal(group.train.mask.sum(axis=1), UNLIKE[group.clients])
        for place, client in enumerate(group.clients.tolist()):
            n = UNLIKE[client]
            np.testing.assert_array_equal(group.train.x[place, :n], shards.train.x[client, :n])
    assert sum(group.train.mask.size for group in shards.groups) < 2 * UNLIKE.sum()
    assert not Shards.load(unlike.take_records(3), LinearModel(4, 1, "logistic")).groups


# Against the debug engine ------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_single_uploads_give_the_numbers_of_the_debug_engine(case, plan_of, algorithms_of, shards):
    family, b, options = CASES[case]
    plan = plan_of(family, b, 4, **options)
    mapped = algorithms_of(plan, [5, 6])
    fast = simulate(mapped.all, plan.releases, shards, SCORED, mapped.seeds, single_uploads=True)
    slow = debug(mapped.all[1], plan.releases, shards, SCORED, mapped.seeds[1])
    np.testing.assert_allclose(fast.theta[1], slow.theta[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(fast.loss[1], slow.loss[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(fast.accuracy[1], slow.accuracy[0])
    np.testing.assert_array_equal(fast.uploads[1], slow.uploads[0])
    assert not np.allclose(fast.theta[0], fast.theta[1], atol=1e-3), "seeds must differ"


# Against plain NumPy -----------------------------------------------------------------------------------


def numpy_fedsgd(federation, cohorts, plan, ridge, norm):
    """FedSGD with per-record clipping as loops over records, in float64 and without the code under test."""
    sizes, n, b = federation.sizes, len(federation.sizes), plan.clients_per_round
    features, classes = federation.x.shape[2], federation.classes
    w = np.zeros((features, classes))
    for t, cohort in enumerate(cohorts):
        direction = ridge * w
        for i in cohort:
            total = np.zeros_like(w)
            for x, y in zip(federation.x[i, : sizes[i]], federation.y[i, : sizes[i]], strict=True):
                z = np.exp(x @ w - np.max(x @ w))
                gradient = np.outer(x, z / z.sum() - np.eye(classes)[y])
                size = np.abs(gradient).sum() if norm == "l1" else np.sqrt((gradient**2).sum())
                total += gradient * min(1.0, plan.problem.clip_norm / size)
            direction = direction + n / b * sizes[i] / sizes.sum() * total / sizes[i]
        w = w - plan.step.initial / (1 + t / plan.step.decay_rounds) * direction
    return w.ravel()


@pytest.mark.parametrize(("family", "norm"), [("none", "l2"), ("laplace", "l1")])
@pytest.mark.parametrize("b", [2, 5])
def test_without_noise_it_is_fedsgd_with_clipped_records_and_weights_by_size(
    family, norm, b, plan_of, algorithms_of, shards, federation, task
):
    plan = plan_of(family, b, 4)
    mapped = algorithms_of(plan, [1, 2])
    silent = [eqx.tree_at(lambda a: a.noise, one, np.zeros_like(one.noise)) for one in mapped.all]
    run = simulate(silent, plan.releases, shards, np.array([4]), mapped.seeds)
    for one, theta in zip(mapped.all, run.theta, strict=True):
        oracle = numpy_fedsgd(federation, one.cohorts, plan, task.ridge, norm)
        assert np.linalg.norm(oracle) > 0.05
        np.testing.assert_allclose(theta, oracle, rtol=1e-4, atol=2e-6)


def test_the_clip_bites_in_the_oracle_problem(plan_of, federation, task):
    """Else the test above would not test clipping."""
    cohorts = np.tile(np.arange(5), (4, 1))
    clipped = numpy_fedsgd(federation, cohorts, plan_of("none", 5, 4), task.ridge, "l2")
    free = numpy_fedsgd(federation, cohorts, plan_of("none", 5, 4, clip=1e6), task.ridge, "l2")
    assert np.linalg.norm(clipped - free) > 0.1 * np.linalg.norm(free)


# Against itself ----------------------------------------------------------------------------------------


def test_mapped_seeds_equal_the_same_seeds_one_by_one(plan_of, algorithms_of, shards):
    plan = plan_of("laplace", 2, 4)
    mapped = algorithms_of(plan, [0, 1])
    together = simulate(mapped.all, plan.releases, shards, SCORED, mapped.seeds)
    for i, seed in enumerate(mapped.seeds):
        alone = simulate([mapped.all[i]], plan.releases, shards, SCORED, [seed])
        np.testing.assert_allclose(together.theta[i], alone.theta[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(together.loss[i], alone.loss[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(together.uploads[i], alone.uploads[0])


def test_trainings_one_after_the_other_equal_trainings_side_by_side(
    plan_of, algorithms_of, shards, monkeypatch
):
    plan = plan_of("gaussian", 2, 4)
    mapped = algorithms_of(plan, [0, 1])
    runs = []
    for sequential in (False, True):
        monkeypatch.setattr(resident, "_in_turn", lambda *_, answer=sequential: answer)
        runs.append(simulate(mapped.all, plan.releases, shards, SCORED, mapped.seeds))
    assert_same(*runs, rtol=1e-5, atol=1e-6)


def test_trainings_run_one_after_the_other_only_where_gathering_costs_much(
    plan_of, algorithms_of, shards, monkeypatch
):
    some = simulation._stack(algorithms_of(plan_of("gaussian", 2, 2), [0, 1]).all)
    everybody = simulation._stack(algorithms_of(plan_of("gaussian", 5, 2), [0, 1]).all)
    one = simulation._stack(algorithms_of(plan_of("gaussian", 2, 2), [0]).all)
    assert not resident._in_turn(some, shards, 2)
    monkeypatch.setattr(resident, "_GATHER_ELEMENTS", shards.elements)
    assert resident._in_turn(some, shards, 2)
    assert not resident._in_turn(some, shards, 1)
    assert not resident._in_turn(everybody, shards, 2)
    assert not resident._in_turn(one, shards, 1)


@pytest.mark.parametrize("alike", [True, False])
def test_settings_of_one_seed_gather_once_what_the_same_clients_hold(alike, plan_of, algorithms_of, shards):
    """Whom they ask may differ: then each trains with those of its own schedule."""
    plan = plan_of("laplace", 2, 4)
    first, seeds = algorithms_of(plan, [5, 6]).all, [5, 6, 5, 6]
    others = [replace(one, steps=2 * one.steps, cohorts=one.cohorts[:: 1 if alike else -1]) for one in first]
    every, stacked = [*first, *others], simulation._stack([*first, *others])
    known = {"single_uploads": False, "spans": False}
    assert resident._layout(stacked, shards, (), seeds, None, False, **known).alike == alike
    together = simulate(every, plan.releases, shards, SCORED, seeds)
    for place, (one, seed) in enumerate(zip(every, seeds, strict=True)):
        alone = simulate([one], plan.releases, shards, SCORED, [seed])
        np.testing.assert_allclose(together.theta[place], alone.theta[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("clients_at_once", [1, 2, 3, 4, 6, 100])
@pytest.mark.parametrize("cohort", [1, 6, 7])
def test_blocks_of_clients_sum_everybody_exactly_once(clients_at_once, cohort):
    clients = jnp.arange(cohort) + 2
    reply = lambda place, c, memory: (jnp.array([1.0, 10.0]) ** c, memory + c)  # noqa: E731
    asked = (jnp.arange(cohort), clients, 100 * jnp.arange(cohort))
    with jax.numpy_dtype_promotion("standard"):  # floats to the power of whole numbers
        total, memory = resident._sum_in_blocks(reply, asked, clients_at_once)
    expected = [sum(base ** int(c) for c in clients) for base in (1.0, 10.0)]
    np.testing.assert_allclose(total, expected)
    np.testing.assert_array_equal(memory, 100 * np.arange(cohort) + clients)


@pytest.mark.parametrize("clients_at_once", [1, 2, 3, 5])
@pytest.mark.parametrize("cohort", [4, 5])
def test_one_product_of_records_gives_the_sum_of_all_replies(
    plan_of, algorithms_of, shards, clients_at_once, cohort
):
    algorithm = jax.tree.map(jnp.asarray, algorithms_of(plan_of("gaussian", cohort, 4), [0]).all[0])
    state = algorithm.init(start_of(algorithm.task, jax.random.key(0)))
    state = state._replace(theta=state.theta + jnp.linspace(-1, 1, len(state.theta)))
    clients = algorithm.select(state)
    assert algorithm.sums_records
    most = shards.train.x[0].size * clients_at_once
    total = resident._sum_over_records(algorithm, state, clients, clients, shards.train, most)
    each = [
        algorithm.weight(c) * algorithm.local_update(state, c, (), shards.of(int(c)), jax.random.key(1))[0]
        for c in clients
    ]
    np.testing.assert_allclose(total, np.sum(each, axis=0), rtol=1e-5, atol=1e-6)


def test_what_clients_do_otherwise_is_asked_of_each(plan_of, algorithms_of):
    """An algorithm that changes the update of another one must not be passed over by its sum."""

    class Doubled(FedSGDDPC):
        def local_update(self, state, client, memory, shard, key):
            update, memory = super().local_update(state, client, memory, shard, key)
            return 2 * update, memory

    class Around2(Averaged):
        local_update = Doubled.local_update

    sound = algorithms_of(plan_of("gaussian", 2, 4), [0]).all[0]
    doubled = Doubled(**{field.name: getattr(sound, field.name) for field in fields(sound)})
    assert (sound.sums_records, averaged(sound, 4, 0.5).sums_records) == (True, True)
    assert not any(one.sums_records for one in (doubled, averaged(doubled, 4, 0.5), Around2(sound, 1)))
    with pytest.raises(InvalidInput, match="no sums over records"):
        Scheduled.sum_over_records(sound, None, None, None, None)  # pyright: ignore[reportArgumentType]


def test_a_horizon_of_padded_rounds_changes_nothing(plan_of, algorithms_of, shards):
    plan = plan_of("laplace", 2, 4)
    plain = algorithms_of(plan, [3, 4])
    longer = padded(plain.all, 11)
    assert [len(one.cohorts) for one in longer] == [11, 11]
    runs = [simulate(all_, plan.releases, shards, SCORED, plain.seeds) for all_ in (plain.all, longer)]
    assert_same(*runs, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("sampling_rate", [1.0, 0.5])
def test_padding_rows_never_reach_a_result(plan_of, algorithms_of, shards, sampling_rate):
    plan = plan_of("gaussian", 2, 4, sampling_rate=sampling_rate)
    mapped = algorithms_of(plan, [0, 1])
    train = shards.train
    rubbish = train._replace(
        x=jnp.where(train.mask[..., None] > 0, train.x, 1e3), y=jnp.where(train.mask > 0, train.y, 2)
    )
    assert not np.array_equal(train.y, rubbish.y)
    runs = [
        simulate(mapped.all, plan.releases, s, np.array([0, 4]), mapped.seeds)
        for s in (shards, shards._replace(train=rubbish))
    ]
    assert_same(*runs, rtol=0, atol=0)


def test_the_mask_marks_exactly_the_padding(shards, federation):
    np.testing.assert_array_equal(np.asarray(shards.train.mask).sum(axis=1), federation.sizes)
    assert shards.of(3).x.shape == shards.train.x.shape[1:]
    np.testing.assert_array_equal(shards.of(3).mask[:2], 1)


def test_wider_padding_changes_nothing(plan_of, algorithms_of, federation, task, shards):
    """A sixth client with more records would widen the stack; here the stack alone is widened."""
    wide = replace(
        federation, x=np.pad(federation.x, ((0, 0), (0, 4), (0, 0))), y=np.pad(federation.y, ((0, 0), (0, 4)))
    )
    plan = plan_of("laplace", 2, 4)
    mapped = algorithms_of(plan, [0, 1])
    runs = [
        simulate(mapped.all, plan.releases, s, np.array([0, 4]), mapped.seeds)
        for s in (shards, Shards.load(wide, task))
    ]
    assert_same(*runs, rtol=1e-5, atol=1e-6)


# Resume ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["laplace, two of five", "gaussian, poisson batches"])
def test_a_resume_from_every_checkpoint_ends_in_exactly_the_same_state(case, plan_of, algorithms_of, shards):
    family, b, options = CASES[case]
    plan = plan_of(family, b, 4, **options)
    mapped, kept = algorithms_of(plan, [8, 9]), []
    at = np.array([0, 1, 3, 4])
    whole = simulate(mapped.all, plan.releases, shards, at, mapped.seeds, on_segment=kept.append)
    assert [checkpoint.round for checkpoint in kept] == at.tolist()
    for checkpoint in kept:
        rest = simulate(mapped.all, plan.releases, shards, at, mapped.seeds, resume=checkpoint)
        assert_same(rest, whole, rtol=0, atol=0)


def test_checkpoints_carry_the_uploads_charged_so_far(plan_of, algorithms_of, shards):
    plan = plan_of("laplace", 2, 4)
    mapped, kept = algorithms_of(plan, [8, 9]), []
    simulate(mapped.all, plan.releases, shards, np.array([0, 2, 4]), [8, 9], on_segment=kept.append)
    for checkpoint in kept:
        for one, used in zip(mapped.all, checkpoint.used, strict=True):
            expected = np.bincount(one.cohorts[: checkpoint.round].ravel(), minlength=5)
            np.testing.assert_array_equal(used, expected)


# Ledger ------------------------------------------------------------------------------------------------


def test_trainings_that_agree_in_plan_and_schedule_are_charged_once(
    plan_of, algorithms_of, shards, monkeypatch
):
    """Two seeds have two schedules; two settings of each have the same, though not the same arrays."""
    plan, charged, charge = plan_of("laplace", 2, 4), [], Ledger.charge_rounds
    every = [*algorithms_of(plan, [5, 6]).all, *padded(algorithms_of(plan, [5, 6]).all, 11)]
    monkeypatch.setattr(Ledger, "charge_rounds", lambda *asked: charged.append(asked) or charge(*asked))
    run = simulate(every, plan.releases, shards, np.array([4]), [5, 6, 5, 6])
    assert len(charged) == 4 * 2, "padded schedules differ: four, each charged as a whole, and as it goes"
    charged.clear()
    again = simulate([*every[:2]] * 2, plan.releases, shards, np.array([4]), [5, 6, 5, 6])
    assert len(charged) == 2 * 2
    np.testing.assert_array_equal(run.uploads, again.uploads)


@pytest.mark.parametrize(("b", "rounds"), [(2, 4), (5, 4), (3, 4)])
def test_the_ledger_is_charged_what_the_schedule_asks(b, rounds, plan_of, algorithms_of, shards):
    plan = plan_of("laplace", b, rounds)
    mapped = algorithms_of(plan, [0, 1])
    run = simulate(mapped.all, plan.releases, shards, np.array([rounds]), mapped.seeds)
    for one, uploads in zip(mapped.all, run.uploads, strict=True):
        np.testing.assert_array_equal(uploads, np.bincount(one.cohorts.ravel(), minlength=5))
    assert np.all(run.uploads <= plan.releases)
    assert run.uploads.sum() == 2 * b * rounds


def test_a_schedule_beyond_the_plan_is_refused_before_anything_runs(plan_of, algorithms_of, shards):
    """The excess comes in the last round of the second training only."""
    plan = plan_of("laplace", 2, 6)
    mapped, segments = algorithms_of(plan, [0, 1]), []
    greedy = np.array([[0, 1], [0, 1], [0, 1], [2, 3], [2, 3], [0, 4]], np.int32)
    bad = eqx.tree_at(lambda a: a.cohorts, mapped.all[1], greedy)
    with pytest.raises(
        BudgetExceeded, match=r"client 0 has made all of its 3 planned uploads; nothing was charged"
    ):
        simulate([mapped.all[0], bad], plan.releases, shards, np.array([0, 1, 6]), [0, 1],
                 on_segment=segments.append)  # fmt: skip
    assert segments == []


def test_more_rounds_than_the_schedule_are_refused(plan_of, algorithms_of, shards):
    """A compiled gather past the end would repeat the last cohort, which no ledger has seen."""
    plan = plan_of("laplace", 2, 3)
    mapped = algorithms_of(plan, [0])
    with pytest.raises(InvalidInput, match="a schedule of 3 rounds cannot run 5 rounds"):
        simulate(mapped.all, plan.releases + 10, shards, np.array([0, 5]), [0])


def test_seeds_and_algorithms_must_come_in_pairs(plan_of, algorithms_of, shards):
    plan = plan_of("laplace", 2, 3)
    mapped = algorithms_of(plan, [0])
    with pytest.raises(InvalidInput, match="1 algorithms need as many seeds, at least one, got 2"):
        simulate(mapped.all, plan.releases, shards, np.array([3]), [0, 1])
    with pytest.raises(InvalidInput, match="at least one, got 0"):
        simulate([], plan.releases, shards, np.array([3]), [])


# Reproducibility --------------------------------------------------------------------------------------


def test_one_seed_gives_one_training(plan_of, algorithms_of, shards):
    plan = plan_of("gaussian", 2, 4)
    runs = [
        simulate(mapped.all, plan.releases, shards, SCORED, mapped.seeds)
        for mapped in (algorithms_of(plan, [0, 1]), algorithms_of(plan, [1, 0]))
    ]
    np.testing.assert_array_equal(runs[0].theta, runs[1].theta[::-1])
    assert np.abs(runs[0].theta[0] - runs[0].theta[1]).max() > 1e-3


def test_a_score_is_the_mean_test_loss_without_the_ridge(plan_of, algorithms_of, shards, federation):
    plan = plan_of("laplace", 2, 4)
    mapped = algorithms_of(plan, [0, 1])
    run = simulate(mapped.all, plan.releases, shards, SCORED, [0, 1])
    logits = federation.test_x @ run.theta[0].reshape(4, 3)
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(run.final_loss[0], -logs[np.arange(20), federation.test_y].mean(), rtol=1e-4)
    np.testing.assert_allclose(run.final_accuracy[0], (logits.argmax(axis=1) == federation.test_y).mean())
    np.testing.assert_allclose(run.loss[0, 0], np.log(3), rtol=1e-6)


def test_features_are_prepared_once_for_train_and_test(task):
    from noiseworthy.tasks import LinearModel

    pair = ([[3.0, 4.0]], [0])
    fed = Federation.from_clients([pair, pair], test=pair, classes=2, name="x")
    shards = Shards.load(fed, LinearModel(2, 2, "softmax", feature_norm=1.0, normalise=True))
    for rows in (shards.train.x[0], shards.test_x):
        np.testing.assert_allclose(rows, [[0.6, 0.8]], rtol=1e-3)


def test_the_engine_runs_under_strict_promotion(plan_of, algorithms_of, shards):
    """No hidden float64 or weak types in what is compiled."""
    plan = plan_of("laplace", 2, 2)
    mapped = algorithms_of(plan, [0])
    with jax.numpy_dtype_promotion("strict"):
        run = simulate(mapped.all, plan.releases, shards, np.array([0, 2]), [0])
    assert run.theta.dtype == np.float32
