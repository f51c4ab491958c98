"""Which studies are planned by trial, for every algorithm, and that no private record has a say in it."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

import noiseworthy as nw
from noiseworthy.errors import ConfigError, InvalidInput
from noiseworthy.methods.space import Grid
from noiseworthy.reports import findings, result
from noiseworthy.reports.limits import limits
from noiseworthy.reports.tables import plan_panel, training_panel
from noiseworthy.studies import by_trial
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.plan_file import load_plan
from noiseworthy.studies.planner import decide, plan_study
from noiseworthy.studies.prepare import prepare, trials_wanted
from noiseworthy.studies.record import new_record
from noiseworthy.studies.typed_record import view
from noiseworthy.trials import race, spaces, stand_ins

IRIS = {
    "federation": {"data": "iris", "clients": 4, "partition": "iid"},
    "task": {"feature_norm": 1.0, "normalise": True},
    "privacy": {"mechanism": "gaussian", "epsilon": 20.0, "delta": 1e-4, "clip_norm": 0.5},
    "planning": {"public": ["wine"], "seeds": 2},
}
TABLES = {
    "fedsgd-dpc": {"rounds": 4, "clients_per_round": 4},
    "dp-fedavg": {"total_iterations": 4, "local_steps": 2, "clients_per_round": 4},
    "dp-scaffnew": {"iterations": 4, "communication_probability": 0.5},
    "dp-pasgd": {"total_iterations": 4, "local_steps": 2},
    "dpfl-bcs": {"rounds": 4, "clients_per_round": 4},
    "mr-mtl": {"rounds": 4},
}
ASKING = {"clients_per_round": 2, "rounds": 6}


def prepared_for(name, **changes):
    table = {"name": name, **(TABLES | {"weiavg": ASKING, "privatefl": ASKING})[name], **changes}
    return prepare(parse_study({**IRIS, "algorithm": table}))


def with_tables(prepared, **tables):
    raw = {**IRIS, "algorithm": {"name": "dp-fedavg"}, **tables}
    return replace(prepared, study=parse_study(raw))


@pytest.fixture
def short(monkeypatch):
    """Races of a first grid and a final, and nothing fitted around them."""
    monkeypatch.setattr(race, "RUNGS", ())
    monkeypatch.setattr(by_trial, "explained", lambda decision, *_: decision)


def with_other_records(prepared):
    """Other features, permuted labels, another test set; sizes, shapes and classes as they were."""
    federation, rng = prepared.federation, np.random.default_rng(9)
    other = replace(
        federation,
        x=rng.normal(size=federation.x.shape).astype(np.float32) * 100,
        y=rng.permutation(federation.y.ravel()).reshape(federation.y.shape),
        test_x=rng.normal(size=federation.test_x.shape).astype(np.float32),
        test_y=rng.permutation(federation.test_y),
    )
    return replace(prepared, federation=other)


@pytest.mark.parametrize("name", TABLES)
def test_the_plan_stays_to_the_last_bit_whatever_the_private_records_are(name, short):
    prepared = prepared_for(name, averaging=0.0)
    plans = [decide(one) for one in (prepared, with_other_records(prepared))]
    assert plans[0].plan.as_dict() == plans[1].plan.as_dict()
    assert plans[0].foretold == plans[1].foretold
    assert plans[0].plan.problem.clip_norm == 0.5
    assert np.all(plans[0].plan.spent() <= 20.0)


@pytest.mark.full
def test_a_study_for_its_owners_is_told_whether_to_share_whatever_their_records_are(short):
    raw = {**IRIS, "algorithm": {"name": "fedsgd-dpc", **TABLES["fedsgd-dpc"]}, "deliver": {"to": "owners"}}
    prepared = prepare(parse_study(raw))
    told, others = decide(prepared), decide(with_other_records(prepared))
    assert told.plan.outcome == others.plan.outcome
    assert told.plan.outcome.startswith("Owners: ")
    home = told.foretold.home
    np.testing.assert_array_equal(home.gains, others.foretold.home.gains)
    record = view(new_record(prepared.study, told, prepared.federation, prepared.dimension, name="iris"))
    assert record.foretold.home.best == home.best
    assert record.foretold.home.tuned == home.scores["tuned"].tolist()
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(plan_panel(record))
    said = console.export_text()
    assert "Owners: " in said
    assert record.foretold.home.planned_for == "tuned"
    assert "planned for what they make of the shared model at home" in " ".join(said.replace("│", "").split())
    assert any("planned for what they make" in point for point in limits(record).points)
    assert any("chosen by the loss of models that owners tune" in note for note in told.plan.notes)

    to_others = decide(prepare(parse_study({**raw, "deliver": {"to": "others"}})))
    assert to_others.foretold.home is None
    assert not any("tune at home" in note for note in to_others.plan.notes)
    assert told.plan.outcome.endswith(to_others.plan.outcome)


@pytest.mark.full
@pytest.mark.data
def test_images_are_seen_against_public_ones_whatever_the_private_ones_are(short, data_dir, monkeypatch):
    """With Laplace noise of epsilon 10 the best of a grid falls from 1.13 to 0.70."""
    monkeypatch.setattr(spaces.Space, "grid", Grid(passes=(20,), work=(1,), clips=(1.0,), reaches=(3, 30)))
    tried = by_trial.treatments_of

    def two(*given):
        plain, *others = tried(*given)
        return [plain, [one for one in others if one.reference][-1]]

    monkeypatch.setattr(by_trial, "treatments_of", two)
    shards = {"clients": 10, "partition": "label-shards", "labels_per_client": 2}
    study = parse_study({
        "federation": {"data": "digits", "data_dir": str(data_dir), **shards},
        "privacy": {"mechanism": "laplace", "epsilon": 10.0},
        "algorithm": {"rounds": 2, "clients_per_round": 10, "averaging": 0.0},
        "planning": {"public": ["mnist", "fashion-mnist"], "seeds": 2},
    })  # fmt: skip
    prepared = prepare(study)
    plans = [decide(one) for one in (prepared, with_other_records(prepared))]
    assert plans[0].study.task.reference == ["mnist", "fashion-mnist"]
    assert plans[0].plan.as_dict() == plans[1].plan.as_dict()
    assert plans[0].study == plans[1].study


@pytest.mark.parametrize("name", TABLES)
def test_a_study_with_data_noise_and_a_free_step_is_planned_by_trial(name):
    assert trials_wanted(prepared_for(name))


@pytest.mark.parametrize("name", ["dp-fedavg", "dp-scaffnew", "dp-pasgd", "dpfl-bcs", "weiavg"])
def test_what_is_stated_is_taken_without_trials(name):
    assert not trials_wanted(prepared_for(name, step_size=0.1))


@pytest.mark.parametrize("levers", [{}, {"momentum": 0.5, "averaging": 0.0, "weighting": 1.0}])
def test_a_fully_stated_fedsgd_dpc_is_taken_as_it_is_without_a_trial(levers, monkeypatch):
    monkeypatch.setattr(by_trial, "plan_by_trial", lambda *_, **__: pytest.fail("a race was started"))
    made, decision = plan_study(prepared_for("fedsgd-dpc", step_size=0.2, step_decay="none", **levers))
    plan = decision.plan
    assert (plan.rounds, plan.clients_per_round, plan.problem.clip_norm) == (4, 4, 0.5)
    assert (plan.step.initial, plan.step.decay_rounds) == (0.2, np.inf)
    assert (plan.momentum, plan.averaging, plan.weighting) == tuple(levers.values() or (0.0,) * 3)
    assert np.all((plan.spent() <= 20.0) & (plan.spent() > 20.0 * (1 - 1e-6)))
    assert made.study.task.normalise
    assert made.study.task.bias == pytest.approx(0.3)


@pytest.mark.parametrize("lever", ["momentum", "averaging", "weighting"])
def test_a_lever_that_is_to_be_chosen_is_chosen_by_trial(lever):
    assert trials_wanted(prepared_for("fedsgd-dpc", step_size=0.2, **{lever: "auto"}))


@pytest.mark.parametrize(
    "tables",
    [
        {"privacy": {"mechanism": "none"}},
        {"constants": {"smoothness": 1.0}},
        {"constants": {"source": "analytic"}},
        {"algorithm": {"name": "dpfl-bcs", "clients_per_round": 2, "estimation_rounds": 3}},
        {"algorithm": {"name": "weiavg", "clients_per_round": 2, "selection": "biased"}},
    ],
)
def test_constants_selections_and_no_noise_are_not_for_trials(tables):
    prepared = prepared_for("dp-fedavg")
    assert trials_wanted(with_tables(prepared))
    assert not trials_wanted(with_tables(prepared, **tables))


def test_sizes_alone_are_not_for_trials_unless_the_study_insists():
    prepared = replace(prepared_for("dp-fedavg"), federation=None, task=None)
    assert not trials_wanted(prepared)
    insisting = with_tables(prepared, constants={"source": "fitted"})
    assert trials_wanted(insisting)
    with pytest.raises(ConfigError, match="or give data to plan by trial"):
        decide(insisting)


def test_a_selection_is_refused_where_the_study_insists_on_trials():
    table = {"name": "weiavg", "clients_per_round": 2, "selection": "biased"}
    prepared = with_tables(prepared_for("dp-fedavg"), algorithm=table, constants={"source": "fitted"})
    with pytest.raises(ConfigError, match="trials ask all clients alike; state clip_norm and step_size"):
        decide(prepared)


@pytest.mark.parametrize(
    ("name", "stated", "said"),
    [
        ("dp-scaffnew", {"rule": "paper"}, 'rule = "paper" needs .constants., not trials'),
        ("dp-pasgd", {"loss_shape": "convex"}, 'loss_shape = "convex" needs .constants., not trials'),
        ("dp-fedavg", {"max_iterations": 20, "local_steps": 30}, "between 1 and 20, got 30; raise max_iter"),
        ("dpfl-bcs", {"rounds": 3, "clients_per_round": 2, "loss_cap": 2.0}, "loss_cap clips losses of a"),
        ("dp-pasgd", {"max_iterations": 20, "local_steps": 30}, "between 1 and 20, got 30; raise max_iter"),
    ],
)
def test_what_trials_would_pass_over_is_refused(name, stated, said):
    with pytest.raises((ConfigError, InvalidInput), match=said):
        decide(with_tables(prepared_for(name), algorithm={"name": name, **stated}))


def test_a_rival_whose_step_no_trial_can_choose_asks_for_a_number():
    prepared = prepared_for("weiavg", selection="biased")
    with pytest.raises(ConfigError, match='step_size = "auto" is chosen for weiavg by trial only'):
        decide(prepared)


@pytest.mark.full
@pytest.mark.parametrize("name", ["dpfl-bcs", "weiavg"])
@pytest.mark.parametrize("stated", [{}, {"momentum": 0.3}])
def test_a_momentum_that_trials_chose_reaches_the_plan_and_a_stated_one_stays(name, stated, monkeypatch):
    """The race is not run: its winner has a momentum of 0.8, or what the space fixed."""
    original = by_trial.plan_by_trial

    def won(bench, space, treatments, **_):
        setting = replace(space.first()[0], momentum=0.8, reach=30.0)
        monkeypatch.setattr(type(space), "first", lambda *_: [setting])
        return original(bench, space, treatments, seeds=1)

    monkeypatch.setattr(race, "RUNGS", ())
    monkeypatch.setattr(by_trial, "plan_by_trial", won)
    monkeypatch.setattr(by_trial, "explained", lambda decision, *_: decision)
    prepared = prepared_for(name, averaging=0.0, **stated)
    _, decision = plan_study(prepared)
    assert decision.plan.train
    assert decision.plan.momentum == stated.get("momentum", 0.8)
    assert decision.study.algorithm.momentum == stated.get("momentum", 0.8)


# One upload or many -------------------------------------------------------------------------------------

UNNAMED = {**IRIS, "privacy": {"mechanism": "gaussian", "epsilon": 20.0, "delta": 1e-4}}


@pytest.fixture
def asked(monkeypatch):
    """Where one upload was tried beside many: it wins."""
    tried = []

    def won(bench, space, found, other, kinds, seeds, deadline):
        tried.append(other.algorithm)
        return by_trial.plan_by_trial(bench, other, kinds, seeds=seeds, deadline=deadline)

    monkeypatch.setattr(by_trial, "in_place_of", won)
    return tried


@pytest.mark.full
@pytest.mark.usefixtures("short")
def test_a_study_that_names_no_algorithm_takes_one_upload_where_trials_advise_it(asked, tmp_path):
    study = parse_study(UNNAMED)
    made = nw.plan(study)
    assert asked == [made.plan.algorithm] == ["moments"]
    assert made.prepared.study.algorithm.name == "moments"
    assert made.decision.study.algorithm.shrinkage == made.plan.moments.shrinkage
    assert "is left out, and in trials one upload is no worse than the" in made.plan.notes[-1]
    again = load_plan(made.keep(tmp_path)).applied(prepare(study))
    assert again.prepared.study == made.prepared.study
    record = view(nw.train_in(again, tmp_path, name="iris"))
    assert record.plan.algorithm == "moments"
    assert record.training.accuracy[0][-1] > 0.5


@pytest.mark.usefixtures("short")
def test_one_upload_is_tried_whatever_the_noise_where_resources_pay_for_few(asked):
    much = {**UNNAMED, "privacy": {**UNNAMED["privacy"], "epsilon": 0.5}}
    paid = {"cost_per_round": 1.0, "cost_per_step": 0.0, "budget": 3.0}
    decide(prepare(parse_study({**much, "resources": paid})))
    assert asked == ["moments"]


@pytest.mark.full
@pytest.mark.parametrize(
    "other",
    [
        {"algorithm": {"name": "fedsgd-dpc"}},
        {"privacy": {**UNNAMED["privacy"], "clip_norm": 0.5}},
        {"privacy": {**UNNAMED["privacy"], "epsilon": 0.5}},
        {"privacy": {**UNNAMED["privacy"], "mechanism": "laplace", "delta": 0.0}},
        {"deliver": {"to": "owners"}},
    ],
    ids=["named", "a clip of gradients", "much noise", "noise in L1", "for owners"],
)
@pytest.mark.usefixtures("short")
def test_one_upload_is_not_tried_where_it_is_not_to_be_chosen(other, asked):
    decision = decide(prepare(parse_study({**UNNAMED, **other})))
    assert asked == []
    assert decision.plan.algorithm == "fedsgd-dpc"


# The metric ---------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.usefixtures("short")
def test_a_metric_is_foretold_and_measured_by_its_name(tmp_path):
    study = parse_study(
        {**IRIS, "algorithm": TABLES["fedsgd-dpc"], "planning": {**IRIS["planning"], "metric": "auc"}}
    )
    made = nw.plan(study)
    said = made.record("iris")["foretold"]["metric"]
    assert said["metric"] == "auc"
    assert 0.5 < said["least"] <= said["mean"] <= said["most"] <= 1
    record = view(nw.train_in(made, tmp_path, name="iris"))
    measured = record.training.metrics.auc
    told = findings.chosen_by(record)
    assert told.startswith("AUC, ")
    assert told.endswith(f"{measured:.3f} measured with seed 0")
    assert ("chosen by", f"The plan was chosen by its {told}.") in result.explained(record)
    for panel in (plan_panel(record), training_panel(record)):
        console = Console(width=200, record=True, file=io.StringIO())
        console.print(panel)
        assert f"{measured:.3f} measured" in console.export_text()
    plain = nw.plan(parse_study({**IRIS, "algorithm": TABLES["fedsgd-dpc"]})).record("iris")
    assert "metric" not in plain["foretold"]
    assert findings.chosen_by(view(plain)) == ""


@pytest.mark.parametrize(
    ("federation", "metric", "said"),
    [
        ("iris", "r2", 'none of these labels; take "loss", "accuracy", "balanced-accuracy" or "auc"'),
        ("diabetes-progression", "auc", 'none of these labels; take "loss" or "r2"'),
    ],
)
def test_a_metric_of_other_labels_is_refused(federation, metric, said):
    tables = {
        "federation": {"data": federation, "clients": 4, "partition": "iid"},
        "planning": {"metric": metric, "label_scale": 1.0},
    }
    with pytest.raises(ConfigError, match=said):
        decide(prepare(parse_study({**IRIS, **tables, "algorithm": {"name": "fedsgd-dpc"}})))


def test_a_metric_without_trials_is_refused():
    stated = {
        "rounds": 4,
        "clients_per_round": 4,
        "step_size": 1.0,
        "momentum": 0.0,
        "averaging": 0.0,
        "weighting": 0.0,
    }
    with pytest.raises(ConfigError, match="is what trials choose by, and this study has none"):
        decide(
            prepare(
                parse_study(
                    {**IRIS, "planning": {"metric": "auc"}, "algorithm": {"name": "fedsgd-dpc", **stated}}
                )
            )
        )


@pytest.mark.parametrize(
    ("data", "model", "stated", "gain"),
    [
        ("iris", "softmax", {}, None),
        ("digits", "softmax", {}, 0.0),
        ("digits", "softmax", {"steering": "auto"}, None),
        ("digits", "softmax", {"steering": 0.1}, 0.1),
        ("digits", "two-layer-cnn", {}, 0.0),
    ],
)
def test_models_of_images_are_steered_only_where_a_study_says_so(data, model, stated, gain):
    study = parse_study({
        "federation": {"data": data, "clients": 4},
        "task": {"model": model},
        "privacy": {"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-5},
        "algorithm": {"name": "fedsgd-dpc", **stated},
    })  # fmt: skip
    assert by_trial.space_of(prepare(study)).steering == gain


def test_a_network_of_images_is_tried_on_two_sets_that_it_can_see(monkeypatch, tmp_path):
    """Its trials take longest; digits, which are grey, stand in for no colours."""
    monkeypatch.setattr(stand_ins, "_PRIOR", ("prior:0", "prior:1", "prior:2"))
    rng = np.random.default_rng(0)
    for name, shape in (("grey", (12, 12)), ("colour", (12, 12, 3))):
        np.savez(tmp_path / f"{name}.npz", x=rng.random((40, *shape), np.float32), label=np.arange(40) % 4)
    found = {}
    for name in ("grey", "colour"):
        for model in ("softmax", "two-layer-cnn"):
            study = parse_study({
                "federation": {"data": str(tmp_path / f"{name}.npz"), "clients": 4, "classes": [0, 1, 2, 3]},
                "task": {"model": model},
                "privacy": {"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-5},
            })  # fmt: skip
            found[name, model] = [*by_trial.open_bench(prepare(study)).sources]
    drawn = ["prior:0", "prior:1", "prior:2"]
    assert found["grey", "softmax"] == ["digits", *drawn]
    assert found["colour", "softmax"] == drawn
    assert found["grey", "two-layer-cnn"] == ["digits", "prior:0"]
    assert found["colour", "two-layer-cnn"] == ["prior:0", "prior:1"]
