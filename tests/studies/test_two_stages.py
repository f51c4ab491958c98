"""Two stages from a study file: planned, trained by every seed's own losses, resumed, kept in the record."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from noiseworthy.engines.shards import Shards
from noiseworthy.engines.simulation import simulate
from noiseworthy.errors import ConfigError, InvalidInput, LedgerError
from noiseworthy.methods.dpfl_bcs.two_stages import FirstStage
from noiseworthy.plans.plan import StepSize
from noiseworthy.privacy.accountants import composed_epsilon
from noiseworthy.privacy.durable.statement import statement
from noiseworthy.studies import checkpoints, two_stages
from noiseworthy.studies.decision import Decision
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.plan_codec import same
from noiseworthy.studies.planner import decide
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.record import new_record, with_training
from noiseworthy.studies.run_folder import opened_ledger
from noiseworthy.studies.training import train
from noiseworthy.sweeps.compare import compare, grid_of, run_grid

WINE = {
    "federation": {"data": "wine", "clients": 6, "partition": "iid"},
    "task": {"ridge": 0.1, "feature_norm": 1.0},
    "privacy": {
        "mechanism": "gaussian", "epsilon": {"uniform": [4.0, 60.0]}, "delta": 1e-5, "clip_norm": 1.0,
    },
    "algorithm": {
        "name": "dpfl-bcs", "rounds": 12, "clients_per_round": 2, "estimation_rounds": 4, "step_size": 0.5,
        "step_decay": 20.0, "momentum": 0.5,
    },
    "constants": {"smoothness": 0.6, "strong_convexity": 0.1},
}  # fmt: skip


def changed(**tables):
    mixed = {name: {**WINE.get(name, {}), **table} for name, table in tables.items()}
    kept = {name: {k: v for k, v in table.items() if v is not None} for name, table in mixed.items()}
    return {**WINE, **kept}


def prepared_and_plan(raw):
    prepared = prepare(parse_study(raw))
    return prepared, decide(prepared).plan


@pytest.fixture(scope="module")
def wine():
    prepared, plan = prepared_and_plan(WINE)
    return prepared, plan, train(plan, *prepared.trained(), [0, 1], evaluations=6)


def test_a_study_with_estimation_rounds_is_planned_in_two_stages():
    _, plan = prepared_and_plan(WINE)
    assert isinstance(plan.pilot, FirstStage)
    assert (plan.pilot.rounds, plan.rounds, plan.all_rounds) == (4, 8, 12)
    assert plan.pilot.loss_cap == pytest.approx(np.log(3))
    assert plan.momentum == plan.pilot.plan.momentum == 0.5
    assert plan.as_dict()["estimation"]["rounds"] == 4


def test_each_seed_plans_stage_2_by_its_own_losses_and_nobody_overspends(wine):
    _, plan, trained = wine
    first, second = trained.stages
    assert not np.array_equal(first.found.raw, second.found.raw)
    for own, used in zip(trained.plans, trained.uploads, strict=True):
        np.testing.assert_array_equal(used, own.releases)
        parts = [*own.pilot.parts, (own.release, used)]
        assert np.all(composed_epsilon(parts, plan.budget.delta) <= plan.budget.epsilon)


def test_curves_run_through_both_stages_without_a_seam(wine):
    """The score at the end of stage 1 is that of a training of stage 1 alone; rounds ascend to T."""
    prepared, plan, trained = wine
    assert trained.rounds[0] == 0
    assert trained.rounds[-1] == 12
    assert np.all(np.diff(trained.rounds) > 0)
    federation, task = prepared.trained()
    shards, first = Shards.load(federation, task), plan.pilot
    starts = [two_stages.loss_reports.make(first, task, seed) for seed in (0, 1)]
    alone = simulate(starts, first.uploads, shards, np.array([4]), [0, 1])
    seam = list(trained.rounds).index(4)
    np.testing.assert_allclose(trained.loss[:, seam], alone.final_loss, rtol=1e-6)


@pytest.mark.full
@pytest.mark.parametrize("shares", [(0.0, 0.0), (0.5, 1 / 3)])
def test_without_noise_to_speak_of_both_stages_are_one_long_training(shares):
    """Epsilon 1e7 and equal clients: steps and momentum go on, so the loss falls as in one stage.

    Half of stage 2 is a third of all 12 rounds: the mean of the last 4 models is delivered.
    """
    quiet = changed(
        privacy={"epsilon": 1e7, "delta": 1e-5}, federation={"clients": 2}, algorithm={"averaging": shares[0]}
    )
    prepared, plan = prepared_and_plan(quiet)
    two = train(plan, *prepared.trained(), [0])
    prepared, alone = prepared_and_plan(
        {**quiet, "algorithm": {**quiet["algorithm"], "estimation_rounds": 0, "averaging": shares[1]}}
    )
    one = train(alone, *prepared.trained(), [0])
    np.testing.assert_allclose(two.final_loss, one.final_loss, rtol=1e-4)
    np.testing.assert_allclose(two.theta, one.theta, rtol=1e-2, atol=1e-3)


def test_a_broken_run_goes_on_to_the_same_end(wine, tmp_path):
    """Stopped in stage 2 after a checkpoint, resumed: parameters, curves and uploads as unbroken."""
    prepared, plan, whole = wine

    class Stop(Exception):
        """The kill."""

    def kill(done: float) -> None:
        if done > 0.6:
            raise Stop

    options = {"evaluations": 6, "folder": tmp_path, "belongs_to": "wine"}
    with pytest.raises(Stop):
        train(plan, *prepared.trained(), [0, 1], on_progress=kill, **options)
    again = train(plan, *prepared.trained(), [0, 1], resume=True, **options)
    np.testing.assert_array_equal(again.theta, whole.theta)
    np.testing.assert_array_equal(again.rounds, whole.rounds)
    np.testing.assert_array_equal(again.loss, whole.loss)
    np.testing.assert_array_equal(again.uploads, whole.uploads)


def test_a_stage_1_that_tells_otherwise_on_resume_is_refused(wine, tmp_path, monkeypatch):
    """Other records under the same name give other losses; the ledger has sealed the first ones."""
    monkeypatch.setattr(checkpoints, "_check_same", lambda *told: None)  # as of records in files
    prepared, plan, _ = wine
    federation, task = prepared.trained()
    options = {"folder": tmp_path, "belongs_to": "wine"}
    train(plan, federation, task, [0, 1], **options)
    other = replace(federation, x=federation.x * np.linspace(0.1, 9, 6, dtype=np.float32)[:, None, None])
    with pytest.raises(LedgerError, match="sealed with other bytes"):
        train(plan, other, task, [0, 1], resume=True, **options)


def test_both_stages_are_entered_and_spend_at_most_the_budget(wine, tmp_path):
    """Recounted by the closed form: gradients, two losses each, and the uploads of stage 2."""
    prepared, plan, trained = wine
    train(plan, *prepared.trained(), [0, 1], folder=tmp_path, belongs_to="wine")
    with opened_ledger(tmp_path) as ledger:
        lines = statement(ledger)
    stage_1 = plan.pilot.uploads
    made = np.array([line.spent for line in lines]).reshape(2, -1)
    np.testing.assert_array_equal(made, trained.uploads + stage_1)
    np.testing.assert_array_equal([line.planned for line in lines], made.ravel())
    assert all(line.spent == line.acknowledged for line in lines)
    for i, (own, used) in enumerate(zip(trained.plans, trained.uploads, strict=True)):
        spent = composed_epsilon([*own.pilot.parts, (own.release, used)], plan.budget.delta)
        told = [line.epsilon for line in lines[i * len(used) : (i + 1) * len(used)]]
        np.testing.assert_allclose(told, spent, rtol=1e-9)
        assert np.all(told <= plan.budget.epsilon)


def test_no_seed_serves_both_stages(wine, monkeypatch):
    """Rounds are counted anew in stage 2: under the same seed the same noise would be drawn again."""
    prepared, plan, _ = wine
    federation, task = prepared.trained()
    given = []

    def noting(algorithms, planned, shards, rounds, seeds, **options):
        given.append(list(seeds))
        return simulate(algorithms, planned, shards, rounds, seeds, **options)

    monkeypatch.setattr(two_stages, "simulate", noting)
    two_stages.run([plan] * 2, Shards.load(federation, task), task, [0, 1], np.array([0, 12]))
    first, second = given
    assert first == [0, 1]
    assert not {*first} & {*second}
    assert len({*two_stages.seeds_of_stage_2(range(200)), *range(200)}) == 400


def test_the_record_counts_what_each_seed_spent_by_its_own_plan(wine):
    prepared, plan, trained = wine
    record = new_record(
        prepared.study, Decision(plan, None), prepared.federation, prepared.dimension, name="w"
    )
    training = with_training(record, trained, [0, 1], 1.0)["training"]
    spent = [own.spent(used) for own, used in zip(trained.plans, trained.uploads, strict=True)]
    np.testing.assert_allclose(training["spent_epsilon"], spent)
    json.dumps(training, allow_nan=False)


def test_a_grid_trains_both_stages_and_one_stage_training_refuses_them(wine):
    """The cell of a comparison is the end of both stages, not stage 2 from the start."""
    prepared, plan, trained = wine
    (cell,) = run_grid([plan], *prepared.trained(), [0, 1])
    np.testing.assert_allclose(cell.loss, trained.final_loss, rtol=1e-6)


def test_a_plan_that_follows_from_a_stage_is_no_beginning(wine):
    """It goes on where that stage ended, and holds what it told."""
    prepared, plan, trained = wine
    assert plan.pilot.pending
    for own, stage in zip(trained.plans, trained.stages, strict=True):
        assert not own.pilot.pending
        assert same(own.pilot.told, stage.reports)
        assert same(plan.pilot.rest(plan, own.pilot.told), own)
        with pytest.raises(InvalidInput, match="follows from what 4 rounds of a training told"):
            train(own, *prepared.trained(), [0])


@pytest.mark.full
def test_a_comparison_holds_both_stages_against_clients_asked_alike(wine):
    prepared, plan, trained = wine
    study = parse_study({**WINE, "compare": {"seeds": [0, 1], "clients_per_round": [2]}})
    found = compare(plan, *prepared.trained(), study)
    np.testing.assert_allclose(found.planned.loss, trained.final_loss, rtol=1e-6)
    assert found.planned.setting == {"clients_per_round": 2, "rounds": 12} == found.grid[0].setting
    rivals = grid_of(plan, plan.pilot.plan.step, study.compare, 1, "A")
    assert rivals[0].step == StepSize(0.5, 20.0)


# One stage or two ---------------------------------------------------------------------------------------


def auto(**tables):
    """The study that leaves the number of stages open."""
    raw = changed(**tables)
    return {**raw, "algorithm": {k: v for k, v in raw["algorithm"].items() if k != "estimation_rounds"}}


@pytest.mark.full
def test_one_stage_is_the_default_and_says_from_which_spread_two_would_pay():
    _, plan = prepared_and_plan(auto())
    assert plan.pilot is None
    assert plan.notes[0].startswith("One stage: ")
    assert "heterogeneity_spread" in plan.notes[0] or "however much clients differ" in plan.notes[0]


def test_a_spread_that_is_worth_it_makes_two_stages_and_a_small_one_does_not():
    rich = {"epsilon": {"uniform": [20.0, 60.0]}, "clip_norm": 0.05}
    _, wide = prepared_and_plan(auto(privacy=rich, constants={"heterogeneity_spread": 0.4}))
    assert isinstance(wide.pilot, FirstStage)
    assert wide.pilot.rounds == 1
    assert wide.notes[0].startswith("Two stages: ")
    _, narrow = prepared_and_plan(auto(constants={"heterogeneity_spread": 1e-3}))
    assert narrow.pilot is None
    assert "is expected to cost" in narrow.notes[0]


def test_what_cannot_be_weighed_is_not_estimated_and_the_plan_says_why():
    _, plan = prepared_and_plan(auto(constants={"smoothness": None, "strong_convexity": None}))
    assert "without smoothness and strong_convexity" in plan.notes[0]


def test_a_loss_cap_that_no_first_stage_reads_is_refused():
    capped = {"estimation_rounds": 0, "loss_cap": 2.0}
    with pytest.raises(ConfigError, match="loss_cap clips losses of a first stage; without one, leave it"):
        prepared_and_plan(changed(algorithm=capped))
    known = auto(algorithm={"loss_cap": 2.0}, constants={"heterogeneity": [0.1] * 6})
    with pytest.raises(ConfigError, match="loss_cap clips"):
        prepared_and_plan(known)


def test_two_stages_need_a_loss_cap_and_constants():
    sizes = {"federation": {"sizes": [30] * 6}, "task": {"dimension": 9}}
    with pytest.raises(ConfigError, match="loss_cap is missing"):
        prepared_and_plan({**WINE, **sizes})
    with pytest.raises(InvalidInput, match="needs smoothness and strong_convexity"):
        prepared_and_plan(changed(constants={"smoothness": None, "strong_convexity": None}))


@pytest.mark.full
def test_training_one_stage_in_two_is_refused():
    prepared, plan = prepared_and_plan(auto())
    federation, task = prepared.trained()
    with pytest.raises(InvalidInput, match="one stage"):
        two_stages.run([plan], Shards.load(federation, task), task, [0], np.array([12]))
    assert StepSize(0.5, 20.0) == plan.step
