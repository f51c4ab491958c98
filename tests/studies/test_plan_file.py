"""A plan is a file: it reads back to an equal plan; a changed one and that of another study are refused."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from noiseworthy.errors import PlanError, UnsoundClaim
from noiseworthy.methods import registry
from noiseworthy.methods.dpfl_bcs.heterogeneity import ReportedLosses
from noiseworthy.methods.dpfl_bcs.two_stages import FirstStage
from noiseworthy.plans.stages import Pilot
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.plan_codec import same
from noiseworthy.studies.plan_file import FILE, load_plan, planned
from noiseworthy.studies.plan_text import digest_of, sealed
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.record import new_record

CONSTANTS = {
    "smoothness": 0.6, "strong_convexity": 0.1, "gradient_bound": 1.0, "initial_distance_sq": 50.0,
    "heterogeneity": 0.02,
}  # fmt: skip
SCAFFNEW = {**CONSTANTS, "optimum_gradient_sq": 0.3}
PASGD = {**CONSTANTS, "gradient_variance": 0.3, "initial_gap": 1.0}
OF_THEORY = {"dp-scaffnew": SCAFFNEW, "dp-pasgd": PASGD, "moments": {}, "mr-mtl": {}}
CURVED = {"smoothness": 0.6, "strong_convexity": 0.1}
RIVAL = {"rounds": 5, "clients_per_round": 2, "step_size": 0.5, "momentum": 0.5}
METHODS = {
    "fedsgd-dpc": {"max_rounds": 30, "averaging": 0.25},
    "moments": {"shrinkage": 0.5, "step_size": 2.0, "weighting": 0.5},
    "dp-fedavg": {"clients_per_round": 3, "max_iterations": 40},
    "dp-scaffnew": {"max_iterations": 60, "coin_seed": 3},
    "dp-pasgd": {"max_iterations": 40, "batch_size": 20},
    "dpfl-bcs": {**RIVAL, "step_decay": 20.0},
    "mr-mtl": {"rounds": 5, "step_size": 0.5, "pull": 0.2},
    **dict.fromkeys(("fedsgd", "dpsgd", "dmldp", "weiavg", "pfa", "privatefl"), RIVAL),
}
NOISE = {
    "gaussian": {"mechanism": "gaussian", "epsilon": {"uniform": [4.0, 60.0]}, "delta": 1e-5},
    "laplace": {"mechanism": "laplace", "epsilon": 20.0},
    "none": {"mechanism": "none"},
}
RESOURCES = {"cost_per_round": 3.0, "cost_per_step": [1.0, 1.5, 1.0, 1.0, 1.0, 1.0], "budget": 200.0}


def study_of(method="fedsgd-dpc", noise="gaussian", **tables):
    """A study of six clients; a table that is given takes the place of these, `[algorithm]` in part."""
    raw = {
        "federation": {"data": "wine", "clients": 6, "partition": "iid"},
        "task": {"ridge": 0.1, "feature_norm": 1.0},
        "privacy": {**NOISE[noise], "clip_norm": 1.0},
        "algorithm": {"name": method, **METHODS[method]},
        "constants": OF_THEORY.get(method, CONSTANTS),
    }
    return parse_study({**raw, **tables})


def kept(study, folder):
    """A study's plan, and the same plan from its file."""
    prepared = prepare(study)
    made, decision, file = planned(prepared)
    file.save(folder)
    return prepared, made, decision, file, load_plan(folder / FILE)


ONLY = {
    "fedsgd": "none", "dpsgd": "gaussian", "dmldp": "laplace", "dp-pasgd": "gaussian none",
    "dp-scaffnew": "gaussian none",
}  # fmt: skip
"""Mechanisms that a method is planned for, where it is not all of them."""
PAIRS = [(method, noise) for method in METHODS for noise in NOISE if noise in ONLY.get(method, noise)]
ESTIMATING = {"name": "dpfl-bcs", "rounds": 12, "clients_per_round": 2, "estimation_rounds": 4}
STAGES = {
    "bought constants": study_of(
        constants={"source": "bought"}, privacy={**NOISE["gaussian"], "epsilon": 500.0, "clip_norm": 1.0}
    ),
    "bought constants, laplace": study_of(noise="laplace", constants={"source": "bought", **CURVED}),
    "two stages": study_of("dpfl-bcs", algorithm=ESTIMATING, constants=CURVED),
    "two stages, laplace": study_of("dpfl-bcs", "laplace", algorithm=ESTIMATING, constants=CURVED),
    "resources": study_of(resources=RESOURCES),
    "by rule": study_of(
        constants={"source": "rule"},
        privacy={**NOISE["gaussian"], "clip_norm": "auto"},
        task={"model": "softmax", "normalise": True},
    ),
}


def read_back(study, folder):
    """A study's plan goes through its file and on to the study: nothing of it is lost."""
    prepared, made, decision, file, again = kept(study, folder)
    assert same(again.plan, decision.plan)
    assert again.plan.as_dict() == decision.plan.as_dict()
    assert again.content == file.content
    taken, told, _ = again.applied(prepared)
    assert taken.study == made.study
    facts = made.federation, made.dimension
    one, other = (new_record(made.study, said, *facts, name="wine") for said in (decision, told))
    assert {**one, "created": ""} == {**other, "created": ""}
    return again.plan


@pytest.mark.parametrize(("method", "noise"), PAIRS)
def test_every_method_and_mechanism_reads_back_to_an_equal_plan(method, noise, tmp_path):
    plan = read_back(study_of(method, noise), tmp_path)
    assert (plan.algorithm, plan.problem.family) == (method, noise)
    assert plan.train


def test_all_methods_are_there():
    """A method that is new here gets a row above."""
    assert set(METHODS) == set(registry.METHODS)


@pytest.mark.full
@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_reads_back_to_an_equal_plan(stage, tmp_path):
    plan = read_back(STAGES[stage], tmp_path)
    kinds = {"bought": Pilot, "two": FirstStage}
    assert type(plan.pilot) is kinds.get(stage.split()[0], type(None))


def test_a_plan_after_a_stage_reads_back_with_what_the_stage_told(tmp_path):
    prepared, _, decision, file, _ = kept(STAGES["two stages"], tmp_path)
    plan, clients = decision.plan, np.flatnonzero(decision.plan.pilot.plan.releases)
    losses = np.linspace(0.2, 0.9, len(clients))
    told = ReportedLosses(
        clients, 0 * clients, losses, 0.9 * losses, plan.pilot.noise_std, plan.pilot.loss_cap
    )
    after = plan.pilot.rest(plan, told)
    replace(file, plan=after).save(tmp_path)
    again = load_plan(tmp_path / FILE)
    assert same(again.plan, after)
    assert same(again.plan.pilot.told, told)
    assert again.digest != file.digest
    assert again.applied(prepared).plan.pilot.pending is False


@pytest.mark.full
def test_a_plan_by_trial_reads_back_with_its_model_and_all_that_is_said_of_it(tmp_path):
    """The treatment of records is part of the plan, and the trials are drawn again from the file."""
    study = parse_study(
        {
            "federation": {"data": "digits", "clients": 4, "partition": "iid", "records_per_client": 30},
            "privacy": {"mechanism": "gaussian", "epsilon": 8.0, "delta": 1e-5},
            "algorithm": {"max_rounds": 6},
            "planning": {"public": ["prior:0"], "seeds": 1},
        }
    )
    read_back(study, tmp_path)
    said = load_plan(tmp_path / FILE)
    assert said.task["normalise"] is True
    assert {"evidence", "foretold", "what_if"} == said.beside.keys()


# Files that are refused ---------------------------------------------------------------------------------


@pytest.fixture
def planned_study(tmp_path):
    """A prepared study, and its plan as plain values."""
    prepared, *_ = kept(study_of(), tmp_path)
    return prepared, json.loads((tmp_path / FILE).read_text())


def places(content, where=()):
    """Every place of a number in plain values."""
    if isinstance(content, dict | list):
        pairs = content.items() if isinstance(content, dict) else enumerate(content)
        for key, part in pairs:
            yield from places(part, (*where, key))
    elif isinstance(content, int | float) and not isinstance(content, bool):
        yield where


def changed(content, where, change):
    again = json.loads(json.dumps(content))
    part = again
    for key in where[:-1]:
        part = part[key]
    part[where[-1]] = change(part[where[-1]])
    return again


def test_one_digit_that_was_changed_is_refused_wherever_it_is(planned_study, tmp_path):
    """Each number in turn, by its last bit."""
    _, content = planned_study
    every = list(places(content))
    assert len(every) > 40
    for where in every:
        if where in (("version",),):
            continue
        one = changed(content, where, lambda v: v + 1 if isinstance(v, int) else np.nextafter(v, 9).item())
        (tmp_path / FILE).write_text(json.dumps(one))
        with pytest.raises(PlanError, match="was changed after it was planned"):
            load_plan(tmp_path / FILE)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 2}, "is a plan of version 2, this program reads version 1; plan the study again"),
        ({"schema": "noiseworthy record"}, 'its schema is not "noiseworthy plan"'),
        ({"plan": {"kind": "Prediction"}}, "plan cannot be 'Prediction' in a plan file"),
        ({"more": 1}, "more is unknown"),
    ],
)
def test_another_version_schema_or_form_is_refused_in_a_sentence(change, said, planned_study, tmp_path):
    content = {**planned_study[1], **change}
    content["digest"] = digest_of(content)
    (tmp_path / FILE).write_text(json.dumps(content))
    with pytest.raises(PlanError, match=said):
        load_plan(tmp_path / FILE)


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"schema": 1, "schema": 1}', '{"version": NaN}', "[" * 99999]
)
def test_what_is_no_plan_is_refused_in_a_sentence(text, tmp_path):
    (tmp_path / FILE).write_text(text)
    with pytest.raises(PlanError, match="is no plan"):
        load_plan(tmp_path / FILE)


OTHERS = {
    "facts.clients": {"federation": {"data": "wine", "clients": 5, "partition": "iid"}},
    "facts.classes": {"federation": {"data": "breast-cancer", "clients": 6, "partition": "iid"}},
    "study.federation.seed": {"federation": {"data": "wine", "clients": 6, "partition": "iid", "seed": 1}},
    "study.privacy.delta": {"privacy": {**NOISE["gaussian"], "clip_norm": 1.0, "delta": 1e-6}},
    "study.privacy.epsilon": {"privacy": {**NOISE["gaussian"], "clip_norm": 1.0, "epsilon": 3.0}},
    "study.resources": {"resources": RESOURCES},
    "study.task.ridge": {"task": {"ridge": 0.2, "feature_norm": 1.0}},
}


@pytest.mark.parametrize("field", OTHERS)
def test_the_plan_of_another_study_is_refused_with_the_field_that_differs(field, planned_study, tmp_path):
    with pytest.raises(PlanError, match=f"made for another study: its {field}"):
        load_plan(tmp_path / FILE).applied(prepare(study_of(**OTHERS[field])))


def test_how_to_train_and_compare_is_no_other_study(planned_study, tmp_path):
    study = study_of(training={"seeds": [7]}, compare={"rounds": [2]}, planning={"seeds": 2})
    assert load_plan(tmp_path / FILE).applied(prepare(study)).plan.train


UNSOUND = {
    "does not pay for the budgets": (("release", "mechanism", "noise_std", "values", 0), lambda v: 0.9 * v),
    "fewer than plan.rounds make": (("rounds",), lambda v: 1),
    "for another sensitivity": (("release", "sensitivity", "value", "values", 0), lambda v: 0.9 * v),
    "its problem.sizes": (("problem", "sizes", "values", 0), lambda v: v + 1),
    "its problem.dimension": (("problem", "dimension"), lambda v: v + 1),
    "its problem.budget.epsilon": (("problem", "budget", "epsilon", "values", 0), lambda v: 2 * v),
}


@pytest.mark.parametrize("said", UNSOUND)
def test_a_plan_under_a_new_digest_cannot_claim_what_it_does_not_hold(said, planned_study, tmp_path):
    """Whoever writes the file: noise, counts and sensitivity are held against each other and the study."""
    prepared, content = planned_study
    where, change = UNSOUND[said]
    rest = changed(content, ("plan", *where), change)
    (tmp_path / FILE).write_text(json.dumps(sealed(without_seal(rest))))
    with pytest.raises(PlanError, match=said):
        load_plan(tmp_path / FILE).applied(prepared)


NO_FORM = {
    "plan.problem.sizes is no array of int64 in a plan file: its values are no": (
        "problem",
        "sizes",
        "values",
    ),
    "plan.releases is no array": ("releases", "values"),
    "plan.release is of other clients than plan.problem": ("release", "mechanism", "noise_std", "values"),
    "plan.rounds cannot be 1180591620717411303424": ("rounds",),
    "plan.notes cannot be 'Plan'": ("notes",),
}
ODD = {"noise_std": [1.0], "rounds": 2**70, "notes": {"kind": "Plan"}}


@pytest.mark.parametrize("said", NO_FORM)
def test_a_plan_under_a_new_digest_whose_values_have_no_form_is_refused_in_a_sentence(
    said, planned_study, tmp_path
):
    prepared, content = planned_study
    where = NO_FORM[said]
    odd = next((value for key, value in ODD.items() if key in where), 1)
    rest = changed(content, ("plan", *where), lambda v: odd)
    (tmp_path / FILE).write_text(json.dumps(sealed(without_seal(rest))))
    with pytest.raises(PlanError, match=said):
        load_plan(tmp_path / FILE).applied(prepared)


STAGED = ("pilot", "plan", "release", "mechanism", "noise_std", "values", 0)
UNSOUND_STAGES = {
    "plan.pilot.parts are not what plan.pilot.plan releases": (STAGED, lambda v: 0.5 * v),
    "plan.pilot.plan is not of the clients": (("pilot", "plan", "problem", "clip_norm"), lambda v: 2 * v),
    r"plan.pilot.parts\[1\] is for another sensitivity": (("pilot", "loss_cap"), lambda v: 2 * v),
    "its algorithm is 'fedsgd-dpc', this study has 'dpfl-bcs'": (("algorithm",), lambda v: "fedsgd-dpc"),
}


@pytest.mark.parametrize("said", UNSOUND_STAGES)
def test_a_stage_under_a_new_digest_is_charged_for_what_it_releases(said, tmp_path):
    """Noise that is drawn in stage 1 is that of its own plan; what is charged, that of its parts."""
    prepared, *_ = kept(STAGES["two stages"], tmp_path)
    where, change = UNSOUND_STAGES[said]
    rest = changed(json.loads((tmp_path / FILE).read_text()), ("plan", *where), change)
    (tmp_path / FILE).write_text(json.dumps(sealed(without_seal(rest))))
    with pytest.raises(PlanError, match=said):
        load_plan(tmp_path / FILE).applied(prepared)


def test_a_clipping_mode_without_proof_for_the_model_is_refused(tmp_path):
    """Whatever the digest: 1/n after local steps is proved for convex losses of scalar models alone."""
    prepared, _, decision, file, _ = kept(study_of("dp-fedavg"), tmp_path)
    problem = decision.plan.problem.clipped_as("B")
    release = problem.release(decision.plan.releases)
    replace(file, plan=replace(decision.plan, problem=problem, release=release)).save(tmp_path)
    with pytest.raises(UnsoundClaim, match="clipping mode B has no proof here"):
        load_plan(tmp_path / FILE).applied(prepared)


def without_seal(content):
    return {key: part for key, part in content.items() if key not in ("schema", "version", "digest")}
