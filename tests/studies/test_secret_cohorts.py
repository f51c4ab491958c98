"""A study whose trusted server keeps to itself whom it asks: plan, training, record, card and refusals."""

from __future__ import annotations

import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noiseworthy.deploy.deployment import Deployment
from noiseworthy.engines.debug import debug
from noiseworthy.engines.shards import Shards
from noiseworthy.engines.simulation import simulate
from noiseworthy.errors import ConfigError, PlanError, UnsoundClaim
from noiseworthy.methods.algorithm import start_of
from noiseworthy.methods.registry import METHODS, make, method
from noiseworthy.privacy.accountants import spent_epsilon
from noiseworthy.privacy.trust import Trust
from noiseworthy.reports.claim_card import claim_card
from noiseworthy.reports.privacy_statement import privacy_statement
from noiseworthy.reports.schedules import asked_in_training
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.plan_codec import encoded, same
from noiseworthy.studies.plan_file import FILE, load_plan, planned
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.soundness import check_sound
from noiseworthy.studies.studies import train_in
from noiseworthy.studies.typed_record import view
from noiseworthy.sweeps.advisor import entrants

SECRET = {"trust": "central", "cohorts": "secret"}
FEDAVG = {
    "name": "dp-fedavg",
    "total_iterations": 12,
    "local_steps": 2,
    "clients_per_round": 2,
    "step_size": 0.5,
}


def study_of(privacy=SECRET, algorithm=FEDAVG, **tables):
    noise = {"mechanism": "gaussian", "epsilon": 4.0, "delta": 1e-3, "relation": "add-remove"}
    return parse_study({
        "federation": {"data": "wine", "clients": 8, "partition": "iid"},
        "task": {"ridge": 0.1, "feature_norm": 1.0},
        "privacy": {**noise, "clip_norm": 1.0, **privacy},
        "algorithm": algorithm,
        **tables,
    })  # fmt: skip


@pytest.fixture(scope="module")
def made():
    return planned(prepare(study_of()))


@pytest.fixture(scope="module")
def record(made, tmp_path_factory):
    return train_in(made, tmp_path_factory.mktemp("secret"), name="wine")


def test_one_word_reaches_the_plan_and_its_file(made, tmp_path):
    told = made.plan.as_dict()
    assert told["trust"] == {"model": "central", "colluders": 0, "dropouts": 0, "cohorts": "secret"}
    assert told["asked_with"] == 0.25
    assert told["releases"] == [6] * 8  # every round may hold an upload of everybody
    assert told["noise"] == [0.0] * 8
    assert told["clipping_mode"] == "D"
    assert told["privacy"]["accountant"].startswith("privacy loss distribution")
    assert "also to tell nobody whom it asked" in told["privacy"]["adversary"]
    public = planned(prepare(study_of({"trust": "central"}, task={"feature_norm": 1.0}))).plan
    assert not any(word in json.dumps(encoded(public)) for word in ("cohorts", "secret"))
    assert "asked_with" not in public.as_dict()
    made.file.save(tmp_path)
    assert same(load_plan(tmp_path / FILE).applied(prepare(study_of())).plan, made.plan)


def test_a_plan_that_counts_on_fewer_clients_than_it_asks_is_refused(made):
    plan = made.plan
    check_sound(plan)
    fewer = replace(plan.release, sampling_rate=0.02, mechanism=plan.problem.law.noise(plan.noise * 0.8))
    assert np.all(spent_epsilon(fewer, plan.releases, plan.budget.delta) < plan.budget.epsilon)
    with pytest.raises(PlanError, match=r"plan\.release\.sampling_rate is less than"):
        check_sound(replace(plan, release=fewer))
    with pytest.raises(PlanError):
        check_sound(replace(plan, problem=replace(plan.problem, trust=Trust("central"))))


def test_every_client_takes_part_by_a_coin_of_its_own_in_each_round_of_each_seed(made):
    algorithm = jax.tree.map(jnp.asarray, make(made.plan, made.prepared.trained()[1], 0))
    shards = Shards.load(*made.prepared.trained(), condensed=algorithm.condensed)
    state = algorithm.init(start_of(algorithm.task, jax.random.key(0)))

    @jax.jit
    @jax.vmap
    def moved(seed):
        def of(client, t):
            shard = jax.tree.map(lambda leaf: leaf[client], shards.train)
            now = state._replace(round=t)
            return jnp.any(algorithm.local_update(now, client, (), shard, jax.random.key(seed))[0] != 0)

        return jax.vmap(lambda t: jax.vmap(lambda client: of(client, t))(jnp.arange(8)))(jnp.arange(6))

    coins = np.asarray(moved(jnp.arange(200)), float)  # seeds, rounds, clients
    assert coins.mean() == pytest.approx(0.25, abs=5 * (0.1875 / coins.size) ** 0.5)
    sizes = coins.sum(axis=2)
    assert sizes.min() == 0  # nobody at times,
    assert sizes.max() >= 5  # and more than are expected at others
    assert sizes.var() == pytest.approx(8 * 0.1875, rel=0.15)
    alike = np.corrcoef(coins.reshape(200, -1).T) - np.eye(48)
    assert np.abs(alike).max() < 5 * 200**-0.5
    noiseless = algorithm.noiseless()
    assert np.any(np.asarray(noiseless.local_update(
        state, jnp.asarray(0), (), jax.tree.map(lambda leaf: leaf[0], shards.train), jax.random.key(3)
    )[0]))  # fmt: skip


def test_the_noise_of_a_round_is_the_same_whoever_takes_part(made):
    """Of the sum that moves the model: divided by the expected cohort, never by the one that came."""
    algorithm = jax.tree.map(jnp.asarray, make(made.plan, made.prepared.trained()[1], 0))
    state, everybody = algorithm.init(start_of(algorithm.task, jax.random.key(0))), jnp.arange(8)
    keys = jax.random.split(jax.random.key(1), 800)
    drawn = jax.vmap(lambda key: algorithm.aggregate_noise(state, everybody, key))(keys)
    assert np.std(np.asarray(drawn, float)) == pytest.approx(made.plan.sum_noise, rel=0.03)
    weights = [float(algorithm.weight(jnp.asarray(i))) for i in range(8)]
    np.testing.assert_allclose(weights, made.plan.weights / 0.25, rtol=1e-6)


@pytest.mark.full
def test_engines_toss_the_same_coins(made):
    algorithm = make(made.plan, made.prepared.trained()[1], 0)
    shards = Shards.load(*made.prepared.trained(), condensed=algorithm.condensed)
    ends, paid = np.array([1]), made.plan.releases
    fast = simulate([algorithm], paid, shards, ends, [5], single_uploads=True)
    plain = debug(algorithm, paid, shards, ends, 5)
    np.testing.assert_allclose(fast.theta, plain.theta, atol=2e-4)
    np.testing.assert_array_equal(fast.uploads, plain.uploads)


def test_neither_record_nor_report_tells_who_took_part(record):
    assert record["training"]["uploads"] == [[6] * 8]
    assert asked_in_training(view(record)) == "by a secret coin in each of 6 rounds"
    spent = [one["spent_epsilon"] for one in record["plan"]["privacy"]["clients"]]
    np.testing.assert_allclose(record["training"]["spent_epsilon"][0], spent)  # as if asked by every coin
    card = claim_card(record)
    answers = {one["question"]: one["answer"] for one in card["questions"]}
    assert card["trust"].endswith("keeps to itself whom it asks in which round")
    assert "each of 8 clients with probability 0.25 in each round, in secret" in answers["From whom?"]
    assert any("does not hold against anybody who sees traffic" in one for one in card["not_protected"])
    text = " ".join(f"{one.text} {' '.join(one.points)}" for one in privacy_statement(record))
    assert "if one client were never asked, or the other way round" in text
    assert "no amplification by client sampling is claimed" not in text
    assert "privacy loss distributions of the dp-accounting library" in text


@pytest.mark.parametrize("name", [one for one in METHODS if method(one).shows and not method(one).reads])
def test_methods_that_would_show_who_takes_part_are_refused_by_name(name):
    with pytest.raises(
        ConfigError, match=f'{name} cannot train with .* cohorts = "secret": .*; take dp-fedavg'
    ):
        prepare(study_of(algorithm={"name": name}))


@pytest.mark.parametrize(
    ("privacy", "algorithm", "tables", "why"),
    [
        ({"mechanism": "laplace", "delta": 0.0}, {}, {}, "Gaussian noise only, got laplace"),
        ({"relation": "replace-one"}, {}, {}, 'add-remove neighbours only, got relation = "replace-one"'),
        ({}, {"clipping_mode": "C"}, {}, "mode D, got clipping mode C"),
        ({"clip_norm": "auto"}, {}, {}, "trains what a study states and plans nothing"),
        ({}, {"step_size": "auto"}, {}, "trains what a study states and plans nothing"),
        ({}, {}, {"resources": {"cost_per_round": 1.0, "budget": 10.0}}, "count how often each client takes"),
    ],
)
def test_what_shows_cohorts_or_lacks_a_proof_is_refused_in_a_sentence(privacy, algorithm, tables, why):
    with pytest.raises((ConfigError, UnsoundClaim), match=why) as error:
        planned(prepare(study_of({**SECRET, **privacy}, {**FEDAVG, **algorithm}, **tables)))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("trust", ["local", "secure-sum"])
def test_cohorts_that_everybody_sees_are_no_secret(trust):
    with pytest.raises(ConfigError, match='cohorts = "secret" is of trust = "central" only'):
        study_of({"trust": trust, "cohorts": "secret"})


def test_secret_cohorts_are_neither_deployed_nor_advised_on(made):
    with pytest.raises(UnsoundClaim, match='cohorts = "secret" is simulated and not deployed'):
        Deployment.of(made.prepared, made.plan)
    with pytest.raises(ConfigError, match=r'advice plans by trial, which .* cohorts = "secret" cannot'):
        entrants(made.prepared)
