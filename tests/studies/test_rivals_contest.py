"""DPFL-BCS beside its rivals: what all share, what they differ by, what is spent, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from noiseworthy.errors import ConfigError, InvalidInput
from noiseworthy.home import owners as homes
from noiseworthy.home.candidates import shared_model
from noiseworthy.home.owners import owners_at_home
from noiseworthy.methods.dpfl_bcs.two_stages import FirstStage
from noiseworthy.methods.rivals.contest import entrants
from noiseworthy.studies import training
from noiseworthy.studies.loading import load_study, parse_study
from noiseworthy.studies.planner import decide
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.record import new_record
from noiseworthy.studies.training import Pace, pace_of
from noiseworthy.sweeps import at_home as in_owners_terms
from noiseworthy.sweeps import contest as rivals
from noiseworthy.sweeps.contest import Contest, Entry, plan_contest, train_contest
from noiseworthy.sweeps.recorded import gap, with_rivals
from noiseworthy.tasks import make_task

RAW = {
    "federation": {"data": "iris", "clients": 6, "partition": "dirichlet", "alpha": 3.0, "seed": 1},
    "task": {"model": "softmax", "feature_norm": 1.0},
    "privacy": {
        "mechanism": "gaussian", "epsilon": {"uniform": [0.5, 40.0]}, "delta": {"uniform": [1e-5, 1e-4]},
        "clip_norm": 0.5,
    },
    "algorithm": {"name": "dpfl-bcs", "rounds": 8, "clients_per_round": 2, "step_size": 0.5},
    "rivals": {
        "mechanisms": ["gaussian", "laplace"], "epsilon_max": [80.0, 10.0], "alpha": [0.5],
        "seeds": [0, 1, 2],
    },
}  # fmt: skip
ALIKE = {"DPSGD", "DMLDP", "WeiAvg", "PFA", "PrivateFL", "FedSGD"}


def changed(**tables):
    """The study with keys of its tables changed; a key that is None is left out."""
    mixed = {name: {**RAW.get(name, {}), **table} for name, table in tables.items()}
    kept = {name: {k: v for k, v in table.items() if v is not None} for name, table in mixed.items()}
    return {**RAW, **kept}


def prepared_from(raw):
    return prepare(parse_study(raw))


def planned_from(raw):
    prepared = prepared_from(raw)
    return plan_contest(Contest.of(prepared), prepared)


@pytest.fixture(scope="module")
def prepared():
    return prepared_from(RAW)


@pytest.fixture(scope="module")
def planned(prepared):
    return plan_contest(Contest.of(prepared), prepared)


@pytest.fixture(scope="module")
def trained():
    """One mechanism, nothing varied: what programs must be compiled for."""
    study = prepared_from(changed(rivals={"mechanisms": None, "epsilon_max": None, "alpha": None}))
    contest, told, estimates = plan_contest(Contest.of(study), study), [], []
    return study, train_contest(contest, study, told.append, estimates.append), told, estimates


# Points -----------------------------------------------------------------------------------------------


def test_one_thing_is_varied_at_a_time_and_every_federation_has_one_reference(prepared):
    points = [(p.mechanism, p.epsilon_max, p.alpha) for p in Contest.of(prepared).points]
    assert points == [
        ("none", 40.0, 3.0), ("gaussian", 40.0, 3.0), ("laplace", 40.0, 3.0),
        ("gaussian", 10.0, 3.0), ("laplace", 10.0, 3.0), ("gaussian", 80.0, 3.0), ("laplace", 80.0, 3.0),
        ("none", 40.0, 0.5), ("gaussian", 40.0, 0.5), ("laplace", 40.0, 0.5),
    ]  # fmt: skip


def test_the_studys_own_place_is_not_trained_twice():
    contest = Contest.of(prepared_from(changed(rivals={"epsilon_max": [40.0, 10.0, 10.0], "alpha": [3.0]})))
    assert len(contest.points) == len(set(contest.points)) == 1 + 2 + 2


def test_without_a_range_and_without_dirichlet_there_is_the_studys_own_point_alone():
    raw = changed(
        federation={"partition": "iid", "alpha": None},
        privacy={"epsilon": 3.0},
        rivals={"mechanisms": None, "epsilon_max": None, "alpha": None},
    )
    points = Contest.of(prepared_from(raw)).points
    assert [(p.mechanism, p.epsilon_max, p.alpha) for p in points] == [
        ("none", None, None),
        ("gaussian", None, None),
    ]


def test_the_example_is_the_documented_contest():
    """If not, look at the numbers in docs/participation.md."""
    from pathlib import Path

    study = load_study(Path(__file__).parents[2] / "examples" / "rivals.toml")
    assert study.algorithm.name == "dpfl-bcs"
    assert study.rivals.seeds == [0, 1, 2, 3, 4]


# Plans ------------------------------------------------------------------------------------------------


def test_all_share_rounds_clients_clip_and_steps(planned):
    for entry in planned.entries:
        plan = entry.plan
        assert (plan.rounds, plan.clients_per_round, plan.problem.clip_norm) == (8, 2, 0.5)
        assert plan.step.at(np.arange(8)).tolist() == [0.5] * 8
        assert plan.releases.sum() == 8 * 2


def test_each_mechanism_has_its_entrants(planned):
    for point in planned.points:
        to_others = [name for name in entrants(point.mechanism) if name != "MR-MTL"]
        assert [entry.name for entry in point.entries] == to_others
        assert {entry.plan.problem.family for entry in point.entries} == {point.mechanism}


def test_who_does_not_choose_asks_all_alike_and_the_others_ask_as_dpfl_bcs_would(planned):
    for point in planned.points:
        ours = point.entries[-1].plan
        for entry in point.entries:
            if entry.name in ALIKE:
                assert np.ptp(entry.plan.releases) <= 1
            else:
                assert entry.plan.releases.tolist() == ours.releases.tolist()
    assert np.ptp(planned.at("gaussian").entries[-1].plan.releases) > 1


def test_the_plan_of_dpfl_bcs_is_that_of_the_study_itself(prepared, planned):
    own = decide(prepared).plan
    assert planned.decision.plan.as_dict() == own.as_dict()


def spent_by_hand(plan):
    """Epsilon of T_n releases from the noise alone: composed in closed form, with plain SciPy."""
    k, shift = plan.releases, 2 * plan.problem.clip_norm / plan.problem.sizes / plan.noise
    if plan.problem.family == "laplace":
        return k * shift
    mus, deltas = np.sqrt(k) * shift, plan.budget.delta

    def epsilon(mu, delta):
        def excess(e):
            return norm.cdf(mu / 2 - e / mu) - np.exp(e) * norm.cdf(-mu / 2 - e / mu) - delta

        return 0.0 if mu == 0 or excess(0.0) <= 0 else brentq(excess, 0, 200, xtol=1e-12)

    return np.array([epsilon(mu, delta) for mu, delta in zip(mus, deltas, strict=True)])


def test_nobody_overspends_at_any_point(planned):
    """The accountant's answer and one of our own, for every client of every private entry."""
    private = [entry.plan for entry in planned.entries if entry.name != "FedSGD"]
    assert len(private) == 6 * 8
    for plan in private:
        budget = plan.problem.budget.epsilon
        assert np.all(plan.spent() <= budget * (1 + 1e-9))
        np.testing.assert_allclose(spent_by_hand(plan), np.where(plan.releases > 0, budget, 0.0), rtol=1e-6)


def test_laplace_noise_is_planned_for_pure_epsilon(planned):
    for point in planned.points:
        deltas = np.concatenate([entry.plan.budget.delta for entry in point.entries])
        assert np.all((deltas == 0) == (point.mechanism == "laplace"))


def test_budgets_of_another_range_are_the_same_draws(planned):
    """Common random numbers: who is rich under one largest budget is as rich, by rank, under another."""

    def share(point):
        return (point.entries[0].plan.budget.epsilon - 0.5) / (point.epsilon_max - 0.5)

    gaussian = [p for p in planned.points if p.mechanism == "gaussian" and p.alpha == 3.0]
    assert [p.epsilon_max for p in gaussian] == [40.0, 10.0, 80.0]
    for point in gaussian[1:]:
        np.testing.assert_allclose(share(point), share(gaussian[0]), rtol=1e-9)
    assert np.ptp(share(gaussian[0])) > 0.3


def test_another_concentration_is_another_federation(planned):
    by_alpha = {p.alpha: p.entries[0].plan.problem.sizes for p in planned.points}
    assert sorted(by_alpha) == [0.5, 3.0]
    assert by_alpha[0.5].sum() == by_alpha[3.0].sum()
    assert by_alpha[0.5].tolist() != by_alpha[3.0].tolist()


def test_a_rivals_study_tells_all_what_it_tells_the_rival():
    contest = planned_from(
        changed(
            algorithm={"name": "privatefl", "momentum": 0.5, "personal_step_size": 0.02, "step_decay": 4.0},
            rivals={"epsilon_max": None, "alpha": None},
        )
    )
    assert {entry.plan.momentum for entry in contest.entries} == {0.5}
    assert {entry.plan.step.decay_rounds for entry in contest.entries} == {4.0}
    own = {entry.name: entry.plan.personal_step for entry in contest.entries}
    assert own == dict.fromkeys(own, 0.0) | {"PrivateFL": 0.02, "PrivateFL-BCS": 0.02}
    assert contest.decision.plan.algorithm == "dpfl-bcs"


def test_progress_of_planning_counts_points(prepared):
    told = []
    plan_contest(Contest.of(prepared), prepared, told.append)
    np.testing.assert_allclose(told, np.arange(1, 11) / 10)


# Trainings --------------------------------------------------------------------------------------------


@pytest.mark.full
def test_trainings_are_those_of_each_plan_alone(trained):
    study, contest, *_ = trained
    federation, task = study.trained()
    for entry in contest.entries:
        alone = training.train(entry.plan, federation, task, contest.seeds)
        np.testing.assert_allclose(entry.loss, alone.final_loss, rtol=1e-5)
        np.testing.assert_allclose(entry.accuracy, alone.final_accuracy, rtol=1e-5)


def test_in_training_every_client_replies_and_spends_as_planned(trained):
    _, contest, *_ = trained
    for entry in contest.entries:
        assert entry.replies.tolist() == [entry.plan.releases.tolist()] * 3
        if entry.name == "FedSGD":
            assert np.all(np.isinf(entry.spent))
        else:
            np.testing.assert_allclose(entry.spent, 1.0, rtol=1e-9)


@pytest.fixture(scope="module")
def at_home(trained):
    """The contest with what owners make of its models, by ways that take no time."""
    study, contest, *_ = trained

    def zeros(task, shared, own, seed):
        return 0 * shared

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_owners_terms, "CANDIDATES", {"alone": zeros, "shared": shared_model, "tuned": zeros})
        patch.setattr(in_owners_terms, "PUBLISHED", {"Ditto": zeros})
        return study, in_owners_terms.with_homes(contest, study)


def hits(task, theta, x, y):
    """Right answers of a softmax model, by its definition."""
    return np.argmax(np.asarray(x) @ np.asarray(theta).reshape(-1, 3), axis=1) == y


@pytest.mark.full
def test_shared_models_at_home_are_scored_on_all_test_records(at_home):
    study, contest = at_home
    federation, task = study.trained()
    x = task.prepare(jnp.asarray(federation.test_x))
    for entry in contest.entries:
        assert list(entry.home) == ["alone", "shared", "tuned", "Ditto"]
        assert entry.home["alone"] == contest.entries[0].home["alone"]
        if not entry.name.startswith("PrivateFL"):
            right = hits(task, entry.theta, x, federation.test_y)
            assert entry.home["shared"] == pytest.approx(right.mean())
        assert entry.home["Ditto"] == pytest.approx(np.mean(federation.test_y == 0))


@pytest.mark.full
def test_private_fl_is_used_behind_each_owners_own_transform(at_home):
    study, contest = at_home
    federation, task = study.trained()
    entry = next(one for one in contest.entries if one.name == "PrivateFL")
    transforms = np.array([entry.memory(i)[0] for i in range(6)])
    assert np.ptp(transforms, axis=0).max() > 0
    x, owners = np.asarray(task.prepare(jnp.asarray(federation.test_x))), homes.test_owners(federation, 0)
    right = []
    for owner, (gamma, *beta) in enumerate(transforms):
        mine = x[owners == owner].copy()
        mine[:, : len(beta)] = gamma * mine[:, : len(beta)] + beta
        right += hits(task, entry.theta, mine, federation.test_y[owners == owner]).tolist()
    assert entry.home["shared"] == pytest.approx(np.mean(right))


@pytest.mark.full
def test_mr_mtl_enters_for_owners_alone_and_stands_with_each_owners_own_model(at_home, monkeypatch):
    monkeypatch.setattr(in_owners_terms, "PUBLISHED", {})
    assert "MR-MTL" not in {entry.name for entry in at_home[1].entries}
    study = prepared_from(
        changed(deliver={"to": "owners"}, rivals={"mechanisms": None, "epsilon_max": None, "alpha": None})
    )
    contest = in_owners_terms.with_homes(train_contest(plan_contest(Contest.of(study), study), study), study)
    entry = next(one for one in contest.entries if one.name == "MR-MTL")
    assert entry.plan.releases.tolist() == [8] * 6
    federation, task = study.trained()
    own = np.array([entry.memory(i)[0] for i in range(6)])
    assert np.ptp(own, axis=0).max() > 0
    x, owners = np.asarray(task.prepare(jnp.asarray(federation.test_x))), homes.test_owners(federation, 0)
    right = [
        hits(task, own[owner], x[owners == owner], federation.test_y[owners == owner]) for owner in range(6)
    ]
    assert entry.home["shared"] == pytest.approx(np.concatenate(right).mean())
    mean = owners_at_home(federation, task, entry.theta).overall
    assert entry.home["tuned"] == pytest.approx(mean["tuned"])
    assert entry.home["shared"] != pytest.approx(mean["shared"])


def test_mr_mtl_is_taken_as_stated_beside_constants_of_dpfl_bcs(monkeypatch):
    """An averaging that nobody stated had it planned by trial, and constants had the contest refused."""
    monkeypatch.setattr("noiseworthy.studies.by_trial.decide", None)
    study = prepared_from(
        changed(
            deliver={"to": "owners"}, constants={"smoothness": 0.3, "strong_convexity": 0.05},
            rivals={"mechanisms": ["gaussian"], "epsilon_max": None, "alpha": None},
        )
    )  # fmt: skip
    made = plan_contest(Contest.of(study), study)
    (drawn,) = (entry.plan for entry in made.entries if entry.name == "MR-MTL")
    assert drawn.releases.tolist() == [8] * 6
    assert (drawn.averaging, drawn.constants) == (0, {})


def test_what_owners_make_of_models_is_in_the_record_where_it_was_asked_for(at_home, trained):
    study, contest = at_home
    record = new_record(study.study, contest.decision, study.federation, study.dimension, name="iris")
    kept = [one["home"] for point in with_rivals(record, contest, 1.0)["rivals"]["points"]
             for one in point["algorithms"]]  # fmt: skip
    assert kept == [entry.home for entry in contest.entries]
    without = with_rivals(record, trained[1], 1.0)["rivals"]["points"][1]["algorithms"]
    assert not any("home" in one for one in without)


def test_progress_grows_to_1_and_a_linear_model_needs_no_estimate(trained):
    _, contest, told, estimates = trained
    assert np.all(np.diff(told) > 0)
    assert told[-1] == pytest.approx(1)
    assert len(told) > 3 * len(contest.entries)
    assert estimates == []
    assert contest.replies == 3 * 7 * 8 * 2


@pytest.mark.full
def test_two_stages_of_dpfl_bcs_are_trained_and_charged():
    study = prepared_from(
        changed(
            algorithm={"estimation_rounds": 2},
            constants={"smoothness": 1.0, "strong_convexity": 0.1},
            rivals={"mechanisms": None, "epsilon_max": None, "alpha": None},
        )
    )
    contest = plan_contest(Contest.of(study), study)
    ours = contest.at("gaussian").entries[-1]
    assert isinstance(ours.plan.pilot, FirstStage)
    assert ours.work == 8 * 2
    alone = replace(contest, points=(replace(contest.points[1], entries=(ours,)),))
    (done,) = train_contest(alone, study).entries
    assert done.replies.sum(axis=1).tolist() == [16, 16, 16]
    assert np.all(done.spent <= 1 + 1e-9)
    assert np.all(done.spent > 0.5)


# How long it takes ------------------------------------------------------------------------------------


def test_pace_tells_compiling_rounds_and_scores_apart(monkeypatch):
    """7 s to compile, 2 s a round, 1 s a score: 10 s, then 3 s, then 5 s for two rounds."""
    clock = iter([100.0, 110.0, 113.0, 118.0])
    monkeypatch.setattr(training.time, "monotonic", lambda: next(clock))

    def simulate(algorithms, planned, shards, rounds, seeds, on_segment):
        for stop in rounds:
            on_segment(stop)

    monkeypatch.setattr(training, "simulate", simulate)
    assert pace_of([], np.empty(0, np.int64), None, []) == Pace(7.0, 2.0, 1.0)


def test_networks_say_before_they_train_how_long_it_will_take(prepared, planned, monkeypatch):
    """Every kind is timed once: 0.5 s a round, 1 s a score, 3 s to compile each program that is not yet."""
    timed, told = [], []

    def pace_of(algorithms, uploads, shards, seeds):
        timed.append(type(algorithms[0]).__name__)
        return Pace(3.0, 0.5, 1.0)

    monkeypatch.setattr(rivals, "pace_of", pace_of)
    monkeypatch.setattr(rivals, "_trained", lambda entry, run: told.append("trains") or entry)
    monkeypatch.setattr(rivals, "carried_out_each", lambda plans, *_: iter(plans))
    monkeypatch.setattr(rivals, "LinearModel", ())
    alike = replace(planned, points=planned.points[:3])
    train_contest(alike, prepared, on_estimate=told.append)
    assert sorted(timed) == ["FedSGDDPC", "PFA", "PrivateFL", "WeiAvg"]
    trainings, programs = 1 + 6 + 6, 1 + 4
    assert told[0] == pytest.approx(trainings * (8 * 0.5 + 8 * 1.0) + programs * 3.0)
    assert told[1:] == ["trains"] * trainings


# What is kept -----------------------------------------------------------------------------------------


def entry(loss, accuracy):
    return Entry("any", None, "", np.array(loss), np.array(accuracy))  # pyright: ignore[reportArgumentType]


def test_gaps_are_paired_by_seed():
    """Unpaired, the deviation would be that of the levels, 0.1, and not that of the differences, 0."""
    ours, other = entry([0.5, 0.7], [0.6, 0.8]), entry([0.9, 1.1], [0.5, 0.7])
    assert gap(ours, other, "accuracy") == pytest.approx({"mean": 0.1, "std": 0.0})
    assert gap(ours, other, "loss") == pytest.approx({"mean": 0.4, "std": 0.0})
    assert gap(ours, entry([np.inf, 1.0], [np.nan, 0.5]), "loss") is None


def test_the_record_has_every_seed_mean_deviation_and_gap(trained):
    study, contest, *_ = trained
    record = new_record(study.study, contest.decision, study.federation, study.dimension, name="iris")
    kept = json.loads(json.dumps(with_rivals(record, contest, 1.5), allow_nan=False))["rivals"]
    assert kept["quantity"] == "accuracy"
    assert (kept["seconds"], kept["replies"], kept["seeds"]) == (1.5, 336, [0, 1, 2])
    reference, point = kept["points"]
    assert reference["algorithms"][0]["spent"] is None
    assert point["own"]
    assert point["search_epsilon"] > max(contest.at("gaussian").entries[0].plan.budget.epsilon)
    ours = point["algorithms"][-1]
    assert (ours["name"], ours["gap"]) == ("DPFL-BCS", None)
    assert ours["asked"] == [min(record["plan"]["releases"]), max(record["plan"]["releases"])]
    for one in point["algorithms"]:
        assert one["mean_loss"] == pytest.approx(np.mean(one["loss"]))
        assert one["std_accuracy"] == pytest.approx(np.std(one["accuracy"]))
        assert one["spent"] == pytest.approx(1)
    for one in point["algorithms"][:-1]:
        assert one["gap"]["mean"] == pytest.approx(ours["mean_accuracy"] - one["mean_accuracy"])


def test_a_training_that_diverged_leaves_no_mean():
    contest = planned_from(changed(rivals={"mechanisms": None, "epsilon_max": None, "alpha": None}))
    ends = np.array([1.0, 2.0, 3.0])

    def ended(one):
        lost = ends if one.name != "PFA" else np.array([1.0, np.inf, 3.0])
        accuracy = np.where(np.isinf(lost), np.nan, 0.5)
        return replace(one, loss=lost, accuracy=accuracy, replies=one.plan.releases[None], spent=np.ones(3))

    points = tuple(replace(p, entries=tuple(map(ended, p.entries))) for p in contest.points)
    study = prepared_from(RAW)
    record = new_record(study.study, contest.decision, study.federation, study.dimension, name="iris")
    kept = with_rivals(record, replace(contest, points=points), 1.0)["rivals"]["points"][1]["algorithms"]
    pfa = next(one for one in kept if one["name"] == "PFA")
    assert (pfa["mean_loss"], pfa["mean_accuracy"], pfa["gap"]) == (None, None, None)
    assert pfa["loss"] == [1.0, None, 3.0]


# What is refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ({"algorithm": {"name": "fedsgd-dpc", "clients_per_round": None}}, "must be one of dpfl-bcs, fedsgd"),
        ({"algorithm": {"step_size": None}}, "step_size is missing: no theory gives one for the rivals"),
        ({"privacy": {"mechanism": "none"}, "rivals": {"mechanisms": None}}, "rivals need noise"),
        ({"privacy": {"epsilon": 3.0}}, "epsilon_max varies the upper end of a range"),
        ({"rivals": {"epsilon_max": [0.25]}}, "epsilon_max must be at least 0.5"),
        ({"federation": {"partition": "iid", "alpha": None}}, 'got partition = "iid"; set partition'),
        ({"constants": {"smoothness": 1.0, "strong_convexity": 0.1, "heterogeneity": [0.1] * 6}},
         "heterogeneity is stated for the clients as they are"),
        ({"federation": {"data": None, "clients": None, "partition": None, "alpha": None, "seed": None,
                         "sizes": [50, 60]}, "task": {"dimension": 12}}, "sizes but no data"),
    ],
    ids=["algorithm", "step", "noise", "range", "below", "partition", "heterogeneity", "data"],
)  # fmt: skip
def test_what_cannot_be_compared_is_refused_before_planning(tables, says):
    with pytest.raises(ConfigError, match=says):
        Contest.of(prepared_from(changed(**tables)))


def test_a_network_whose_records_have_no_transform_is_refused(prepared):
    lstm = make_task("lstm", (10,), 50)
    with pytest.raises(InvalidInput, match="transform"):
        Contest.of(replace(prepared, task=lstm))


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ({"algorithm": {"clients_per_round": 7}}, "the federation has 6 clients"),
        ({"resources": {"cost_per_round": 1.0, "budget": 2.0}}, "budget pays for"),
    ],
    ids=["clients", "resources"],
)
def test_what_cannot_be_planned_is_refused_before_training(tables, says):
    with pytest.raises(InvalidInput, match=says):
        planned_from(changed(**tables))


def test_gaussian_noise_without_a_delta_is_refused_when_the_study_is_read():
    with pytest.raises(ConfigError, match="delta"):
        planned_from(changed(privacy={"delta": 0.0}))


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("mechanisms", ["none"], r"\[rivals\] mechanisms"),
        ("mechanisms", [], r"\[rivals\] mechanisms"),
        ("epsilon_max", [0.0], "above 0"),
        ("alpha", [-1.0], "above 0"),
        ("alpha", [float("inf")], "finite"),
        ("seeds", [], r"\[rivals\] seeds"),
        ("algorithms", ["pfa"], "not a key of this table; allowed: mechanisms, epsilon_max, alpha, seeds"),
    ],
)
def test_bad_values_are_refused_in_the_study(key, value, says):
    with pytest.raises(ConfigError, match=says):
        parse_study(changed(rivals={key: value}))
