"""One word of a study says whom owners trust, and plan, plan file, noise, ledger and card follow it."""

from __future__ import annotations

import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noiseworthy.deploy.deployment import Deployment
from noiseworthy.errors import ConfigError, InvalidInput, PlanError
from noiseworthy.methods.algorithm import start_of
from noiseworthy.methods.registry import METHODS, make, method
from noiseworthy.privacy.trust import ADVERSARY, LOCAL, Sharing
from noiseworthy.reports.claim_card import claim_card
from noiseworthy.reports.findings import setting
from noiseworthy.reports.schedules import trusted
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.plan_codec import encoded, same
from noiseworthy.studies.plan_file import FILE, load_plan, planned
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.soundness import check_sound
from noiseworthy.studies.studies import train_in
from noiseworthy.studies.typed_record import view
from noiseworthy.sweeps.advisor import entrants

SUMS = {"trust": "secure-sum", "colluders": 1, "dropouts": 1}
CENTRAL = {"trust": "central"}
CONSTANTS = {
    "smoothness": 0.6, "strong_convexity": 0.1, "gradient_bound": 1.0, "initial_distance_sq": 50.0,
    "heterogeneity": 0.02, "optimum_gradient_sq": 0.3,
}  # fmt: skip
ALGORITHMS = {
    "fedsgd-dpc": {"rounds": 12, "clients_per_round": 5, "step_size": 0.5, "weighting": 0.5},
    "dp-fedavg": {"total_iterations": 12, "local_steps": 2, "clients_per_round": 5, "step_size": 0.1},
    "dp-scaffnew": {
        "iterations": 20, "communication_probability": 0.5, "step_size": 0.1, "coin_seed": 3,
    },
    "moments": {"shrinkage": 0.5, "step_size": 2.0, "weighting": 0.5},
}  # fmt: skip
ABLE = [*ALGORITHMS]
UNLIKE = {
    "dp-pasgd": {"algorithm": {"name": "dp-pasgd", "max_iterations": 40}},
    "mr-mtl": {"algorithm": {"name": "mr-mtl", "rounds": 5, "step_size": 0.5}},
}
OTHERS = {"rounds": 5, "clients_per_round": 5, "step_size": 0.5}


def study_of(name="fedsgd-dpc", privacy=SUMS, mechanism="gaussian", **tables):
    """Six owners of unequal sizes and budgets, with everything stated."""
    noise = {"epsilon": [3.0, 4.0, 5.0, 6.0, 7.0, 8.0], "delta": 1e-5 * (mechanism == "gaussian")}
    raw = {
        "federation": {"data": "wine", "clients": 6, "partition": "iid"},
        "task": {"ridge": 0.1, "feature_norm": 1.0},
        "privacy": {"mechanism": mechanism, "clip_norm": 1.0, **noise, **privacy},
        "algorithm": {"name": name, **ALGORITHMS.get(name, OTHERS)},
        "constants": CONSTANTS if name == "dp-scaffnew" else {},
    }
    return parse_study({**raw, **tables})


def plan_of(*of, **tables):
    return planned(prepare(study_of(*of, **tables))).plan


def test_one_word_reaches_the_plan():
    plan = plan_of()
    told, local = plan.as_dict(), plan_of(privacy={}).as_dict()
    assert told["trust"] == {"model": "secure-sum", "colluders": 1, "dropouts": 1}
    assert "other owners" in told["privacy"]["adversary"]
    assert local["privacy"]["adversary"] == ADVERSARY
    assert not {"trust", "sum_noise"} & local.keys()
    assert max(told["noise"]) < max(local["noise"])
    spent = [one["spent_epsilon"] / one["epsilon"] for one in told["privacy"]["clients"]]
    assert 0.995 < max(spent) <= 1
    central = plan_of(privacy=CENTRAL).as_dict()
    assert central["noise"] == [0.0] * 6
    assert central["sum_noise"] == pytest.approx(told["sum_noise"])  # of the fewest: what a record needs


def test_a_local_plan_is_written_as_ever():
    """So that the digests of plans in use stay."""
    text = json.dumps(encoded(plan_of(privacy={})))
    assert not any(word in text for word in ("trust", "sharing", "Sharing"))
    assert "trust" not in study_of(privacy={"trust": "local"}).model_dump_json()


@pytest.mark.parametrize("privacy", [SUMS, CENTRAL], ids=["sums", "central"])
@pytest.mark.parametrize("name", ABLE)
def test_what_trains_on_sums_weighs_them_as_its_noise_was_shared(name, privacy, tmp_path):
    prepared = prepare(study_of(name, privacy))
    made = planned(prepared)
    plan = made.plan
    made.file.save(tmp_path)
    assert same(load_plan(tmp_path / FILE).applied(prepared).plan, plan)
    algorithm = make(plan, made.prepared.trained()[1], 0)
    weights = np.array([float(algorithm.weight(jnp.asarray(i))) for i in range(6)])
    np.testing.assert_allclose(weights / weights.sum(), plan.release.sharing.weights, rtol=1e-5)
    np.testing.assert_allclose(weights * plan.noise, (weights * plan.noise)[0], rtol=1e-5)


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("name", ["fedsgd-dpc", "dp-fedavg"])
def test_the_noise_of_a_sum_is_that_of_all_shares(name, mechanism):
    """b shares, of which the fewest that survive carry what the plan calls `sum_noise`."""
    made = planned(prepare(study_of(name, mechanism=mechanism)))
    algorithm = jax.tree.map(jnp.asarray, make(made.plan, made.prepared.trained()[1], 0))
    state = algorithm.init(start_of(algorithm.task, jax.random.key(0)))
    cohort = jnp.asarray(algorithm.cohorts[0])
    draws = jax.vmap(lambda key: algorithm.aggregate_noise(state, cohort, key))
    seen = np.std(np.asarray(draws(jax.random.split(jax.random.key(1), 200)), float))
    fewest = 5 - 1 - 1
    assert seen == pytest.approx(made.plan.sum_noise * (5 / fewest) ** 0.5, rel=0.06)

    def alone(key):
        nothing = jnp.zeros_like(state.theta)
        keys = jax.random.split(key, len(cohort))
        each = [algorithm.privatize(state, nothing, one, k) for one, k in zip(cohort, keys, strict=True)]
        return algorithm.combine(state, cohort, jnp.stack(each))

    one_by_one = np.std(np.asarray(jax.vmap(alone)(jax.random.split(jax.random.key(2), 200)), float))
    assert one_by_one == pytest.approx(seen, rel=0.06)


@pytest.mark.parametrize("name", [one for one in METHODS if one not in ABLE])
def test_what_reads_single_uploads_is_refused_by_name(name):
    assert method(name).reads
    with pytest.raises(ConfigError, match=f'{name} cannot train under trust = "secure-sum": .*take one of'):
        prepare(study_of(name, mechanism=method(name).only or "gaussian", **UNLIKE.get(name, {})))


@pytest.mark.parametrize(
    ("tables", "why"),
    [
        ({"constants": {"source": "bought"}}, "releases a gradient of each client by itself"),
        (
            {"columns": {"age": {"kind": "number", "range": {"buy": [0, 99], "share": 0.1}}}},
            "ranges are bought from each client",
        ),
    ],
)
def test_what_is_bought_of_each_owner_is_refused(tables, why):
    study = study_of()
    if "columns" in tables:
        from noiseworthy.data.schema import read_schema

        columns = {"ill": {"role": "label", "classes": ["no", "yes"]}, **tables["columns"]}
        study = study.model_copy(update={"columns": read_schema(columns)})
    else:
        study = study_of(**tables)
    with pytest.raises(ConfigError, match=why):
        prepare(study)


def test_a_cohort_that_no_protocol_protects_is_refused():
    with pytest.raises(InvalidInput, match="needs at least 4 owners in each round, got 3"):
        plan_of(algorithm={**ALGORITHMS["fedsgd-dpc"], "name": "fedsgd-dpc", "clients_per_round": 3})
    with pytest.raises(ConfigError, match="colluders = 2 is of trust"):
        study_of(privacy={"colluders": 2})


def test_a_plan_that_counts_on_more_noises_than_are_left_is_refused():
    plan = plan_of()
    check_sound(plan)
    sharing, alone = plan.release.sharing, replace(plan.problem, trust=LOCAL)
    lying = {
        "more survivors": replace(plan.release, sharing=Sharing(sharing.weights, sharing.survivors + 1)),
        "none of a local plan": replace(plan.release, sharing=None),
    }
    for release in lying.values():
        with pytest.raises(PlanError, match=r"plan\.release"):
            check_sound(replace(plan, release=release))
    with pytest.raises(PlanError, match=r"plan\.release\.sharing is of another trust"):
        check_sound(replace(plan, problem=alone))


def test_without_noise_a_secure_sum_trains_to_the_last_bit_as_a_plain_one(tmp_path):
    thetas = []
    for privacy in (SUMS, CENTRAL, {}):
        made = planned(prepare(study_of(privacy=privacy, mechanism="none")))
        algorithm = make(made.plan, made.prepared.trained()[1], 0)
        thetas.append(jax.tree.leaves(algorithm))
    for other in thetas[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(thetas[0], other, strict=True))


def test_a_run_pays_for_the_noise_of_the_sum_and_its_card_says_whom_it_trusts(tmp_path):
    record = train_in(planned(prepare(study_of())), tmp_path, name="wine")
    plan, training = record["plan"], record["training"]
    planned_spending = [one["spent_epsilon"] for one in plan["privacy"]["clients"]]
    np.testing.assert_allclose(training["spent_epsilon"][0], planned_spending)
    assert max(np.array(planned_spending) / [3, 4, 5, 6, 7, 8]) > 0.995
    card = claim_card(record)
    answers = {one["question"]: one["answer"] for one in card["questions"]}
    assert card["trust"].startswith("secure-sum:")
    assert card["mechanism"]["sum_noise"] == plan["sum_noise"]
    assert "the shares of 3 of the 5" in answers["From whom?"]
    assert "one more colluder, as is who looks at models and knows its own noise" in answers["From whom?"]
    assert card["claim"].endswith("against everybody who sees sums of them and 1 other owner.")
    assert "weighted sum of a cohort at least" in answers["By what means?"]
    line = "secure-sum against 1 colluder, 1 may be missing; shares of 3 of 5 hide a record"
    assert trusted(view(record).plan).startswith(line)
    privacy = record["plan"]["privacy"] | {"unit": "person"}
    persons = view(record | {"plan": record["plan"] | {"privacy": privacy}})
    assert "shares of 3 of 5 hide a person" in trusted(persons.plan)
    answers = {one["question"]: one["answer"] for one in claim_card(persons.written)["questions"]}
    assert "that a round asks hide a person" in answers["From whom?"]
    assert "trust = secure-sum" in setting(view(record))
    central = claim_card(
        train_in(planned(prepare(study_of(privacy=CENTRAL))), tmp_path / "central", name="wine")
    )
    assert central["claim"].endswith("against everybody but the server.")
    assert (
        "added once by the server"
        in {one["question"]: one["answer"] for one in central["questions"]}["By what means?"]
    )


def test_advice_leaves_out_what_reads_single_uploads():
    entering, left_out = entrants(prepare(study_of(algorithm={"name": "fedsgd-dpc"})))
    assert {one.algorithm.name for one in entering} == set(ABLE)
    assert "only sums are seen: its server projects" in {one.name: one.reason for one in left_out}["pfa"]


def test_what_a_trusted_server_asks_of_owners_is_paid_for_by_the_noise_of_the_whole_sum():
    """sqrt(V) / w_i over what a record changes, whatever the shares are that simulation draws it in."""
    made = planned(prepare(study_of(privacy=CENTRAL)))
    deployment, release = Deployment.of(made.prepared, made.plan), made.plan.release
    whole = np.sqrt(made.plan.clients_per_round) * release.sharing.weights * release.mechanism.size
    for place, client in enumerate(deployment.federation.clients):
        demand = deployment.demand_of(client)
        hidden = whole[place] / release.sharing.weights[place]
        assert demand.noise == pytest.approx(hidden / release.sensitivity.value[place])
        assert not demand.trust.owners_add


@pytest.mark.full
def test_trials_plan_for_the_noise_of_the_sum_and_say_what_other_trust_would_bring():
    free = {"name": "fedsgd-dpc", "clients_per_round": 6, "rounds": 10, "step_decay": "none"}
    free |= {"momentum": 0.0, "averaging": 0.0, "steering": 0.0, "weighting": 0.0}
    tables = {"algorithm": free, "planning": {"public": ["prior:0"], "seeds": 2}}
    few = {"epsilon": 1.0, "clip_norm": 0.5}
    local, summed = (planned(prepare(study_of(privacy={**few, **word}, **tables))) for word in ({}, SUMS))
    assert summed.plan.release.sharing.survivors == 4
    least = min(one.decision.foretold.loss for one in (local, summed))
    assert least == summed.decision.foretold.loss < local.decision.foretold.loss
    guess = summed.decision.what_if
    assert guess is not None
    rows = {one.trust.model: one.best.loss for one in guess.trusts()}
    assert rows["secure-sum"] < rows["local"]
