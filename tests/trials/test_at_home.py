"""What trials foretell of own, shared and tuned models: whose records they draw, and what follows."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np
import pytest

from noiseworthy.data import Records
from noiseworthy.methods.space import Setting
from noiseworthy.studies.at_home import advice
from noiseworthy.tasks import make_task
from noiseworthy.trials import at_home as module
from noiseworthy.trials.at_home import AtHome, Otherwise, at_home
from noiseworthy.trials.bench import Bench, Candidate
from noiseworthy.trials.typical import sites, typical

ONE = Candidate(Setting(1.0, 1.0, 1.0, 1.0))


def records_of(n=60, classes=3, owners=None) -> Records:
    """Records whose first number is their place; test records come after them."""
    y = np.arange(n) % classes
    x = np.stack([np.arange(n), y, y, y], axis=1).astype(np.float32)
    test_x = x[: 3 * classes].copy()
    test_x[:, 0] += 1000
    return Records(x, y, test_x, y[: 3 * classes], classes, "made", client_ids=owners)


def test_typical_owners_stand_for_like_shares_of_all_records():
    sizes = np.array([100, 1, 1, 1, 1, 1, 300, 95])
    found = sizes[typical(sizes, 5)]
    assert found.tolist() == [95, 100, 300, 300, 300]
    assert abs(found.mean() - sizes @ sizes / sizes.sum()) < 30, "an owner counts as often as it has records"


def test_a_typical_owner_draws_as_many_public_records_as_it_has_each_once(facts_of):
    facts = facts_of(sizes=(4, 40, 100))
    for place, site in zip((0, 1, 2), sites(facts, records_of(), np.array([0, 1, 2]), 20), strict=True):
        drawn = site.own.x[:, 0].tolist()
        assert len(drawn) == len(set(drawn)) == min(facts.problem.sizes[place], 60)
        assert site.counts.tolist() == [1.0] * len(site.y)


def test_a_skewed_owner_is_scored_on_classes_in_the_shares_that_it_has(facts_of):
    facts = facts_of(sizes=(30, 30, 30), partition="label-shards", settings={"labels_per_client": 1})
    for site in sites(facts, records_of(n=300), np.array([0, 1, 2]), 20):
        held, scored = set(site.own.y.tolist()), set(site.y[site.counts > 0].tolist())
        assert held == scored
        assert len(held) < 3
        of_tests = [site.counts[site.y == c].sum() for c in sorted(held)]
        assert np.isclose(sum(of_tests), 1.0)


def test_an_owner_of_a_class_that_no_test_record_has_is_scored_on_all_of_them(facts_of):
    facts = facts_of(sizes=(30, 30, 30), partition="label-shards", settings={"labels_per_client": 1})
    records = records_of(n=300)
    kept = records.test_y == 0
    records = replace(records, test_x=records.test_x[kept], test_y=records.test_y[kept])
    found = [site.counts for site in sites(facts, records, np.array([0, 1, 2]), 20)]
    assert all(counts.sum() > 0 for counts in found), "a mean over nothing is none"
    assert all(np.ptp(counts) == 0 for counts in found)


@pytest.mark.parametrize("seed", [21, 23])
def test_a_real_public_owner_is_scored_on_records_that_it_did_not_learn_from(facts_of, seed):
    """Odd deals have real owners stand for the study's, where both name theirs."""
    owners = np.repeat([0, 1, 2], 20)
    facts = facts_of(sizes=(10, 50, 50), partition="natural")
    for size, site in zip(
        (10, 16, 16), sites(facts, records_of(owners=owners), np.arange(3), seed), strict=True
    ):
        learnt, tested = site.own.x[:, 0].astype(int), site.x[:, 0].astype(int)
        assert (len(learnt), len(tested)) == (size, 4)
        assert not set(learnt) & set(tested)
        assert len(set(owners[[*learnt, *tested]])) == 1


def test_a_real_public_owner_of_one_record_learns_from_it_and_is_scored_on_those_of_others(facts_of):
    facts = facts_of(sizes=(10, 10), partition="natural")
    for site in sites(facts, records_of(n=30, owners=np.arange(30)), np.arange(2), 21):
        assert len(site.own.x) == 1
        assert np.all(site.x[:, 0] >= 1000), "test records of the public data"
        assert len(site.x) == len(site.y) == len(site.counts) == 9


@pytest.mark.full
def test_scores_are_those_of_models_made_by_hand(facts_of, space_of, monkeypatch):
    """A shared model that answers everything with class 1 is right as often as class 1 occurs."""
    facts = facts_of(sizes=(20, 20))
    bench, space = Bench(facts, ["wine"]), space_of("fedsgd-dpc", clients_per_round=2)
    (proxy,) = bench.proxies(None)
    always = np.zeros((proxy.task.dimension // 3, 3), np.float32)
    always[:, 1] = 1.0
    x = np.abs(proxy.records.x)
    proxy = replace(proxy, records=replace(proxy.records, x=x, test_x=np.abs(proxy.records.test_x)))
    monkeypatch.setattr(Bench, "proxies", lambda *_: [proxy])
    monkeypatch.setattr(module, "final_models", lambda *_: np.stack([always.ravel()] * 2))
    found = at_home(bench, space, ONE)
    share = np.mean(proxy.records.test_y == 1)
    np.testing.assert_allclose(found.scores["shared"], share)
    assert found.records.tolist() == [20] * 5
    assert found.scores["alone"].mean() > 0.8
    np.testing.assert_allclose(found.gains[0], found.scores["tuned"] - found.scores["alone"])


@pytest.mark.slow
def test_owners_of_a_network_are_foretold_quickly(facts_of, space_of):
    """Three typical owners, one fold, few steps; and what would change the advice, under two seeds."""

    def network(shape, classes, treatment, public=None):
        return make_task("cnn", shape, classes)

    facts = facts_of(sizes=(60, 60, 60), record_shape=(8, 8), classes=10, make_task=network)
    facts = replace(facts, problem=replace(facts.problem, dimension=network((8, 8), 10, None).dimension))
    space = space_of("fedsgd-dpc", clients_per_round=3, rounds=2)
    with jax.numpy_dtype_promotion("standard"):  # optax counts steps in whole numbers
        found = at_home(Bench(facts, ["digits"]), space, ONE)
    assert found.records.tolist() == [60] * 3
    assert found.best == "alone"
    assert [one.way for one in found.changes] == ["owners", "epsilon", "secure-sum"]
    assert all(abs(one.gain) < 0.3 for one in found.changes)
    assert found.scores["alone"].mean() > 0.7, "60 digits of one's own"
    assert np.all(found.scores["tuned"] >= found.scores["shared"] - 0.2)
    np.testing.assert_allclose(found.gains[0], found.scores["tuned"] - found.scores["alone"])


@pytest.mark.full
def test_with_little_noise_owners_of_few_records_are_told_to_share(facts_of, space_of):
    sizes = (4,) * 30
    generous = at_home(
        Bench(facts_of(sizes=sizes, epsilon=1e4), ["wine"]),
        space_of("fedsgd-dpc", clients_per_round=30, rounds=40, step_size=4.0, momentum=0.5),
        ONE,
    )
    assert generous.best in ("tuned", "shared")
    assert generous.gaining.all()
    poor = at_home(
        Bench(facts_of(sizes=(400, 400), epsilon=0.01), ["wine"]),
        space_of("fedsgd-dpc", clients_per_round=2),
        ONE,
    )
    assert poor.best == "alone"


@pytest.mark.full
def test_a_shared_model_that_diverged_counts_nothing(facts_of, space_of, monkeypatch):
    bench = Bench(facts_of(sizes=(20, 20)), ["wine"])
    (proxy,) = bench.proxies(None)
    monkeypatch.setattr(module, "final_models", lambda *_: np.full((2, proxy.task.dimension), np.nan))
    found = at_home(bench, space_of("fedsgd-dpc", clients_per_round=2), ONE)
    assert found.scores["shared"].tolist() == [0.0] * 5
    np.testing.assert_allclose(found.scores["tuned"], found.scores["alone"])
    assert found.best == "alone"


def test_owners_whom_the_data_name_are_told_to_tune_where_that_helps_even_if_shared_models_look_better():
    """Public owners are dealt alike; the study's own may differ, and then the shared model loses."""

    def best(alone, shared, tuned, named):
        scores = {"alone": np.array([alone]), "shared": np.array([shared]), "tuned": np.array([tuned])}
        one = np.array([10])
        return AtHome(one, scores, np.zeros((1, 1)), np.ones(1), one, named=named).best

    assert best(0.42, 0.46, 0.44, named=True) == "tuned"
    assert best(0.42, 0.46, 0.44, named=False) == "shared"
    assert best(0.42, 0.46, 0.425, named=True) == "shared"
    assert best(0.42, 0.30, 0.425, named=True) == "alone"


def test_owners_of_few_records_are_counted_beside_those_who_hold_most_of_them():
    records, gains = np.array([20, 100, 400]), np.array([[0.03, 0.0, 0.0], [0.03, 0.0, 0.01]])
    sizes = np.array([6, 15, 30, 60, 90, 300, 500])
    scores = dict.fromkeys(("alone", "shared", "tuned"), np.full(3, 0.8))
    home = AtHome(records, scores, gains, np.full(3, 1 / 3), sizes)
    assert home.gainers.tolist() == [True, True, True, False, False, False, False]
    assert "3 of 7 owners gain: those with fewer than 60 records." in advice(home)
    ahead = replace(home, changes=(Otherwise("owners", 28, 0.02), Otherwise("epsilon", 8.0, 0.004)))
    assert "a point ahead of own ones with 28 owners like these (2.0 points); not with epsilon 8" in advice(
        ahead
    )
    never = replace(home, changes=(Otherwise("secure-sum", 0.0, -0.001),))
    assert "nothing would change it" in advice(never)


def test_a_point_decides_and_a_standard_error_is_asked_for():
    def made(tuned, gains):
        scores = {"alone": np.array([0.8]), "shared": np.array([0.7]), "tuned": np.array([tuned])}
        return AtHome(np.array([10]), scores, np.array(gains)[:, None], np.ones(1), np.array([10, 10]))

    assert made(0.809, [0.009, 0.009]).best == "alone"
    assert made(0.811, [0.011, 0.011]).best == "tuned"
    assert made(0.82, [0.02, 0.02]).gaining.tolist() == [True]
    assert made(0.82, [0.2, -0.16]).gaining.tolist() == [False], "public data disagree"
    assert made(0.82, [0.0, 0.08]).gaining.tolist() == [False], "by a standard error of 0.04, for n - 1"
