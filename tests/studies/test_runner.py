"""Training by a plan, and the plan beside fixed settings."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noiseworthy._places import CACHE_VARIABLE
from noiseworthy.engines.compilation import cache_folder
from noiseworthy.errors import DataError, InvalidInput, ResumeError
from noiseworthy.methods.dp_fedavg import planner as local_iterations
from noiseworthy.methods.dp_pasgd import planner as averaging_period
from noiseworthy.methods.dp_scaffnew import planner as communication_probability
from noiseworthy.methods.dpfl_bcs import planner as participation
from noiseworthy.methods.fedsgd_dpc import planner as queries_replies
from noiseworthy.plans.plan import Steering, StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.plans.resources import Resources
from noiseworthy.plans.stages import BoughtRanges
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.durable.reading import read_ledger
from noiseworthy.privacy.durable.statement import statement
from noiseworthy.privacy.gaussian import gaussian_mu
from noiseworthy.privacy.gaussian_epsilon import gaussian_epsilon
from noiseworthy.studies import training
from noiseworthy.studies.by_trial import open_bench
from noiseworthy.studies.checkpoints import FILE as CHECKPOINT
from noiseworthy.studies.checkpoints import fingerprint, load_checkpoint
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.planner import decide
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.run_ledger import FILE as LEDGER
from noiseworthy.studies.sweep_tables import CompareTable
from noiseworthy.studies.training import train
from noiseworthy.sweeps import compare as comparing
from noiseworthy.sweeps.compare import Cell, Comparison, compare, grid_of, search_epsilon
from noiseworthy.tasks import model_task

CONSTANTS = {
    "smoothness": 1.0, "strong_convexity": 0.1, "gradient_bound": 1.0, "initial_distance_sq": 25.0,
    "heterogeneity": 0.5,
}  # fmt: skip
RAW = {
    "federation": {"data": "iris", "clients": 4, "partition": "quantity-skew", "alpha": 2.0},
    "task": {"ridge": 0.1, "feature_norm": 1.0},
    "privacy": {"mechanism": "laplace", "epsilon": 6.0, "clip_norm": 0.5},
    "algorithm": {"rounds": 6, "clients_per_round": 2, "step_size": 0.5},
    "constants": CONSTANTS,
    "compare": {"rounds": [1, 3], "clients_per_round": [1, 4], "seeds": [100, 101]},
}


@pytest.fixture(scope="module")
def prepared():
    return prepare(parse_study(RAW))


@pytest.fixture(scope="module")
def plan(prepared):
    return decide(prepared).plan


# Train --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(prepared, plan):
    return train(plan, *prepared.trained(), [0, 1], evaluations=3)


def test_a_training_tells_progress_up_to_the_end(prepared, plan, whole):
    told = []
    again = train(plan, *prepared.trained(), [0, 1], evaluations=3, on_progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0
    np.testing.assert_array_equal(again.theta, whole.theta)


class Killed(Exception):
    """Stands for a kill."""


@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_killed_training_resumes_to_exactly_the_same_end(after, prepared, plan, whole, tmp_path):
    told = []

    def kill(done):
        told.append(done)
        if len(told) == after:
            raise Killed

    common = {"evaluations": 3, "folder": tmp_path, "belongs_to": "iris"}
    with pytest.raises(Killed):
        train(plan, *prepared.trained(), [0, 1], on_progress=kill, **common)
    kept = load_checkpoint(tmp_path, fingerprint(plan, [0, 1], "iris"))
    assert kept.round == told[-1] * plan.rounds
    rest = train(plan, *prepared.trained(), [0, 1], resume=True, **common)
    for name in ("rounds", "loss", "accuracy", "theta", "uploads"):
        np.testing.assert_array_equal(getattr(rest, name), getattr(whole, name))


@pytest.mark.parametrize("change", ["seeds", "plan", "study"])
def test_a_folder_of_another_run_is_not_resumed(change, prepared, plan, tmp_path):
    train(plan, *prepared.trained(), [0, 1], evaluations=3, folder=str(tmp_path), belongs_to="iris")
    other = replace(plan, step=replace(plan.step, initial=0.25)) if change == "plan" else plan
    with pytest.raises(ResumeError, match="belongs to another study, plan or other seeds"):
        train(
            other, *prepared.trained(), [0, 2] if change == "seeds" else [0, 1], evaluations=3,
            folder=tmp_path, resume=True, belongs_to="wine" if change == "study" else "iris",
        )  # fmt: skip


@pytest.mark.parametrize("part", ["x", "y", "test_y"])
def test_a_training_does_not_go_on_with_records_that_were_changed(part, prepared, plan, tmp_path):
    """It went on in silence, so that one curve was of two data sets."""
    federation, task = prepared.trained()
    common = {"evaluations": 3, "folder": tmp_path, "belongs_to": "iris"}
    train(plan, federation, task, [0, 1], **common)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    other = np.array(getattr(federation, part))
    other.flat[0] = 1 - other.flat[0]
    with pytest.raises(ResumeError, match="was trained on other records: something in them was changed"):
        train(plan, replace(federation, **{part: other}), task, [0, 1], resume=True, **common)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before
    assert oct((tmp_path / CHECKPOINT).stat().st_mode & 0o777) == "0o600"
    train(plan, replace(federation, x=federation.x.copy()), task, [0, 1], resume=True, **common)


@pytest.mark.parametrize("seeds", [[], [-1], [1.5], [2**32], [True], ["0"]])
def test_what_is_no_seed_is_refused_before_anything_is_written(seeds, prepared, plan, tmp_path):
    with pytest.raises(InvalidInput, match="seeds must be"):
        train(plan, *prepared.trained(), seeds, folder=tmp_path)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("evaluations", [0, -1, 2.5, True])
def test_so_few_evaluations_are_refused_before_anything_is_written(evaluations, prepared, plan, tmp_path):
    with pytest.raises(InvalidInput, match="evaluations must be"):
        train(plan, *prepared.trained(), evaluations=evaluations, folder=tmp_path)
    assert [*tmp_path.iterdir()] == []


def test_another_federation_than_planned_is_refused(prepared, plan):
    federation, task = prepared.trained()
    with pytest.raises(DataError, match="plan again, because noise depends on them"):
        train(plan, federation.take_records(5), task)


def test_a_loss_that_is_nan_from_the_start_is_refused_before_it_costs_anything(prepared, plan, tmp_path):
    """Every gradient counted as zero: the whole budget was spent, and the model was the start."""
    federation = prepared.trained()[0]
    broken = model_task(lambda theta, x: jnp.sqrt(x @ theta["w"] - 1.0), {"w": np.zeros((4, 3), np.float32)})
    plan = replace(plan, problem=replace(plan.problem, dimension=broken.dimension))
    with pytest.raises(InvalidInput, match=r"loss on test records is nan before training.*nothing was spent"):
        train(plan, federation, broken, [0], folder=tmp_path)
    with read_ledger(tmp_path / LEDGER) as books:
        assert sum(line.spent for line in statement(books)) == 0


# Compare ------------------------------------------------------------------------------------------------


def cell(*losses, rounds=1):
    return Cell({"rounds": rounds, "clients_per_round": 1}, np.array(losses), np.zeros(len(losses)))


def test_the_lost_gain_is_the_missed_share_of_the_attainable_gain():
    """Untrained 2.0, best cell 1.0 on average, plan 1.25: a quarter of the gain of 1 is missed."""
    grid = (cell(1.5, 1.7), cell(0.9, 1.1), cell(3.0, 3.0))
    assert Comparison(cell(1.2, 1.3), grid, 2.0).lost_gain == pytest.approx(0.25)
    assert Comparison(cell(0.8, 0.8), grid, 2.0).lost_gain == pytest.approx(-0.2)
    assert Comparison(cell(2.0, 2.0), grid, 2.0).lost_gain == pytest.approx(1.0)


def test_without_an_attainable_gain_none_can_be_lost():
    assert np.isnan(Comparison(cell(2.0), (cell(2.5),), 2.0).lost_gain)


@pytest.fixture(scope="module")
def watched(prepared, plan):
    """A comparison, and every simulation it ran."""
    calls, original = [], training.simulate

    def watch(algorithms, planned, *rest, **options):
        run = original(algorithms, planned, *rest, **options)
        calls.append((algorithms, planned, run))
        return run

    told = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "simulate", watch)
        comparison = compare(plan, *prepared.trained(), prepared.study, told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0
    return comparison, calls


@pytest.mark.full
def test_the_grid_is_every_pair_and_the_plan_is_beside_it(watched, plan):
    comparison, _ = watched
    assert [tuple(c.setting.values()) for c in comparison.grid] == [(1, 1), (3, 1), (1, 4), (3, 4)]
    assert comparison.planned.setting == {"rounds": 6, "clients_per_round": 2}
    assert all(c.loss.shape == (2,) for c in (*comparison.grid, comparison.planned))
    assert comparison.untrained_loss == pytest.approx(np.log(3))


def test_each_cell_has_the_noise_that_its_own_uploads_need(watched, prepared):
    """By hand: 2 C k / (n epsilon) with k = ceil(bT/N), C = 0.5 but for what people take."""
    comparison, calls = watched
    sizes, usual = prepared.sizes, [(one.cell, one.usual.clip_norm) for one in comparison.usual]
    cells = [*((c, 0.5) for c in comparison.grid), *usual, (comparison.planned, 0.5)]
    for (algorithms, planned, run), (c, clip) in zip(calls, cells, strict=True):
        k = -(-c.setting["rounds"] * c.setting["clients_per_round"] // 4)
        assert planned.tolist() == [k] * 4
        assert np.all(run.uploads <= k)
        for algorithm in algorithms:
            np.testing.assert_allclose(algorithm.noise, 2 * clip * k / (sizes * 6.0), rtol=1e-6)


def test_a_search_costs_the_sum_of_its_pure_cells(watched):
    """By hand: every one of the four cells spends the whole epsilon of 6."""
    comparison, _ = watched
    assert comparison.search_epsilon == pytest.approx(4 * 6.0)


def test_what_was_told_before_a_plan_is_part_of_a_search_once(prepared, plan, monkeypatch):
    """Ranges or a mean, on which all cells stand: by hand, one of the plan's three uploads."""
    told = BoughtRanges(((plan.release, np.ones(4, np.int64)),), plan.budget, {})
    monkeypatch.setattr(comparing, "run_grid", lambda plans, *rest: [cell(1.0) for _ in plans])
    comparison = compare(replace(plan, ranges=told), *prepared.trained(), prepared.study)
    assert comparison.search_epsilon == pytest.approx(4 * 6.0 + 6.0 / 3)


@pytest.mark.parametrize("name", ["fedsgd-dpc", "dp-fedavg", "dp-scaffnew", "dp-pasgd", "dpfl-bcs"])
def test_a_search_with_gaussian_noise_composes_in_squares(name):
    """Cells that each spend (epsilon, delta) in full compose to mu sqrt(cells), for the worst client."""
    epsilon = np.array([1.0, 2.0, 4.0, 3.0])
    problem = Problem(np.array([50, 60, 70, 80]), 3, PrivacyBudget.of(epsilon, 1e-5, 4), "gaussian", 1.0)
    step = StepSize(0.1, float("inf"))
    whole = problem.clipped_as("D")
    plans = {
        "fedsgd-dpc": [queries_replies.stated(problem, t, 4, step) for t in (3, 10)],
        "dp-fedavg": [local_iterations.stated(whole, 12, e, 4, step) for e in (2, 6)],
        "dp-scaffnew": [communication_probability.stated(whole, t, 0.5, step) for t in (10, 30)],
        "dp-pasgd": [averaging_period.stated(problem, 12, tau, step) for tau in (1, 4)],
        "dpfl-bcs": [participation.stated(problem, counts, 2, 6, step) for counts in ([3] * 4, [1, 2, 5, 4])],
    }[name]
    expected = gaussian_epsilon(np.sqrt(2) * gaussian_mu(epsilon, 1e-5), 1e-5).max()
    assert search_epsilon(plans) == pytest.approx(expected, rel=1e-9)


def test_a_search_without_a_closed_form_has_no_price():
    problem = Problem(np.array([50, 60]), 3, PrivacyBudget.of(1.0, 1e-5, 2), "gaussian", 1.0)
    step = StepSize(0.1, float("inf"))
    records, clients = (
        local_iterations.stated(one, 4, 1, 2, step) for one in (problem, problem.clipped_as("D"))
    )
    assert search_epsilon([records, clients]) is None
    bare = queries_replies.stated(replace(problem, family="none"), 3, 2, step)
    assert search_epsilon([bare]) is None


def test_a_plan_that_does_not_train_stays_at_the_start(prepared, plan):
    idle = replace(plan, rounds=0, clients_per_round=0, releases=0 * plan.releases, release=None)
    comparison = compare(idle, *prepared.trained(), prepared.study)
    np.testing.assert_allclose(comparison.planned.loss, np.log(3), rtol=1e-5)
    assert comparison.lost_gain == pytest.approx(1.0) or np.isnan(comparison.lost_gain)


def test_fixed_settings_spend_the_whole_budget_where_the_plan_has_bought_constants(monkeypatch):
    raw = {**RAW, "constants": {"source": "bought", "share": 0.3, **CONSTANTS},
           "privacy": {**RAW["privacy"], "mechanism": "gaussian", "delta": 1e-4}}  # fmt: skip
    prepared = prepare(parse_study(raw))
    plan, problems = decide(prepared).plan, []
    assert np.all(plan.problem.budget.epsilon < 6.0)

    def grid(plans, *rest):
        problems.extend(plan.problem for plan in plans)
        return [cell(1.0, 1.0) for _ in plans]

    monkeypatch.setattr(comparing, "run_grid", grid)
    compare(plan, *prepared.trained(), prepared.study)
    *fixed, planned = problems
    assert len(fixed) == 4 + 5  # the grid, and what people take
    assert all(np.all(problem.budget.epsilon == 6.0) for problem in fixed)
    np.testing.assert_array_equal(planned.budget.epsilon, plan.problem.budget.epsilon)


def test_what_people_take_has_its_own_clip_and_step_and_exact_noise_for_the_same_budget(monkeypatch):
    """All clients in each round; Zhou et al. report clip 10 (L2) and 300 (L1), step 0.05, for their MNIST."""
    prepared = prepare(
        parse_study({**RAW, "privacy": {**RAW["privacy"], "mechanism": "gaussian", "delta": 1e-4}})
    )
    plan, tried = decide(prepared).plan, []

    def grid(plans, *rest):
        tried.extend(plans)
        return [cell(1.0, 1.0) for _ in plans]

    monkeypatch.setattr(comparing, "run_grid", grid)
    comparison = compare(plan, *prepared.trained(), prepared.study)
    usual = tried[len(comparison.grid) : -1]
    assert [(one.usual.name, one.usual.rounds, one.usual.clip_norm) for one in comparison.usual] == [
        ("tutorial", 50, 1.0),
        ("tutorial", 100, 1.0),
        ("tutorial", 200, 1.0),
        ("tutorial, larger step", 100, 1.0),
        ("Zhou et al., their MNIST", 100, 10.0),
    ]
    assert [made.step.initial for made in usual] == [0.1, 0.1, 0.1, 1.0, 0.05]
    for one, made in zip(comparison.usual, usual, strict=True):
        assert (made.rounds, made.clients_per_round) == (one.usual.rounds, plan.problem.n_clients)
        np.testing.assert_allclose(made.spent(), plan.budget.epsilon, rtol=1e-9)


def test_a_diverged_cell_never_wins(prepared, plan):
    """A step of 1e30 overflows; NaN losses compare as neither smaller nor larger."""
    study = prepared.study.model_copy(
        update={"compare": prepared.study.compare.model_copy(update={"step_size": 1e38})}
    )
    comparison = compare(plan, *prepared.trained(), study)
    assert all(np.all(np.isinf(c.loss)) for c in comparison.grid if c.setting["rounds"] == 3)
    assert all(np.all(np.isnan(c.accuracy) == np.isinf(c.loss)) for c in comparison.grid), "no score of NaN"
    diverged = Comparison(comparison.planned, (cell(np.inf, np.inf), cell(1.0, 1.0)), 2.0)
    assert diverged.best.loss[0] == 1.0


def test_comparing_needs_steps_and_a_grid_within_the_federation(prepared, plan):
    with pytest.raises(InvalidInput, match=r"step sizes; state \[algorithm\] step_size"):
        compare(replace(plan, step=None), *prepared.trained(), prepared.study)
    table = prepared.study.compare.model_copy(update={"clients_per_round": [5]})
    with pytest.raises(InvalidInput, match="clients_per_round must be between 1 and 4, got 5"):
        compare(plan, *prepared.trained(), prepared.study.model_copy(update={"compare": table}))


def test_a_value_of_a_grid_that_is_stated_twice_is_one_setting(plan):
    table = CompareTable(rounds=[3, 1, 3], clients_per_round=[4, 4])
    cells = grid_of(plan, StepSize(0.1), table, 1, "C")
    assert [(cell.rounds, cell.clients_per_round) for cell in cells] == [(3, 4), (1, 4)]


@pytest.mark.full
def test_fixed_settings_that_the_resources_do_not_pay_for_are_left_out():
    """Two replies of each of four clients: T b <= 8."""
    raw = {**RAW, "resources": {"cost_per_round": 1.0, "cost_per_step": 0.5, "budget": 3.0},
           "algorithm": {**RAW["algorithm"], "rounds": 4}}  # fmt: skip
    prepared = prepare(parse_study(raw))
    comparison = compare(decide(prepared).plan, *prepared.trained(), prepared.study)
    cells = [tuple(cell.setting.values()) for cell in comparison.grid]
    assert cells == [(1, 1), (3, 1), (1, 4)]


def test_a_grid_of_its_own_ends_at_what_the_resources_pay_for(prepared, plan):
    resources = Resources.of(1.0, 0.5, 4.6, 4)
    rich = replace(plan, problem=replace(plan.problem, resources=resources))
    cells = grid_of(rich, StepSize(0.1), CompareTable(), 1, "C")
    assert [(cell.rounds, cell.clients_per_round) for cell in cells] == [(10, 1), (12, 1), (6, 2), (3, 4)]


def test_fixed_settings_weigh_uploads_as_the_plan_does_also_where_only_sums_are_seen():
    privacy = {
        "mechanism": "gaussian", "epsilon": [0.5, 1.0, 2.0, 4.0], "delta": 1e-5, "clip_norm": 0.5,
        "trust": "central",
    }  # fmt: skip
    algorithm = {"rounds": 3, "clients_per_round": 4, "step_size": 0.5, "weighting": 1.0}
    prepared = prepare(parse_study({**RAW, "privacy": privacy, "algorithm": algorithm}))
    plan = decide(prepared).plan
    cells = grid_of(plan, plan.step, prepared.study.compare, 1, "C")
    (same,) = [one for one in cells if (one.rounds, one.clients_per_round) == (3, 4)]
    np.testing.assert_allclose(same.weights, plan.weights)
    np.testing.assert_allclose(same.noise, plan.noise)


@pytest.mark.parametrize(
    ("stated", "gains"), [("auto", {2: 0.9, 6: 0.5, 60: 0.05}), (0.5, {2: 0.5, 6: 0.5, 60: 0.5})]
)
def test_fixed_settings_are_steered_as_much_over_all_their_rounds(stated, gains, prepared, plan, monkeypatch):
    """As trials, which count gains over a training; a gain that a study states is that of every round."""
    raw = {**RAW, "algorithm": {**RAW["algorithm"], "steering": stated}, "compare": {"rounds": [2, 6, 60]}}
    made, tried = replace(plan, steering=Steering(0.5, 0.1, closing=0.2)), []

    def grid(plans, *rest):
        tried.extend(plans)
        return [cell(1.0, 1.0) for _ in plans]

    monkeypatch.setattr(comparing, "run_grid", grid)
    fixed = tried[: len(compare(made, *prepared.trained(), parse_study(raw)).grid)]
    assert {one.steering.closing for one in fixed} == {0.2}
    assert {one.rounds: one.steering.gain for one in fixed} == pytest.approx(gains)


@pytest.mark.parametrize("begin", ["planning by trial", "training"])
def test_from_python_too_compiled_programs_are_kept(begin, tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    prepared, before = prepare(parse_study({**RAW, "constants": CONSTANTS})), cache_folder()
    plan, (federation, task) = decide(prepared).plan, prepared.trained()
    assert cache_folder() == before
    try:
        if begin == "training":
            train(plan, federation, task, evaluations=1)
        else:
            open_bench(prepared)
        assert cache_folder() == tmp_path / "noiseworthy"
    finally:
        jax.config.update("jax_compilation_cache_dir", before and str(before))
