"""Whose test records are whose, what a score on few of them says, and all owners side by side."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from noiseworthy.data.datasets import federate, load_records
from noiseworthy.data.federation import Federation
from noiseworthy.errors import InvalidInput
from noiseworthy.home.owners import owners_at_home, scored, test_owners
from noiseworthy.home.scores import limits_of, limits_of_gain, merits
from noiseworthy.tasks.linear import LinearModel

test_owners.__test__ = False  # pyright: ignore[reportFunctionMemberAccess]
LOGISTIC = LinearModel(2, 1, "logistic", bias=0.3)


def frame(n: int = 60) -> dict:
    rng = np.random.default_rng(0)
    site = np.array(["a", "b", "c"])[np.arange(n) % 3]
    return {"u": rng.normal(size=n), "v": rng.normal(size=n), "label": np.arange(n) % 2, "client": site}


def federation(**keys) -> Federation:
    return federate(load_records(frame()), seed=0, **keys)


def test_test_records_stay_with_the_owners_that_the_data_name():
    records = load_records(frame())
    assert records.test_client_ids is not None
    found = federation().test_owners
    np.testing.assert_array_equal(np.array(["a", "b", "c"])[found], records.test_client_ids)
    joined = federation(clients=2).test_owners  # a and b are one client
    np.testing.assert_array_equal(joined, (records.test_client_ids == "c").astype(int))
    assert federation(clients=2, partition="iid").test_owners is None


def test_a_test_record_of_somebody_without_private_ones_is_nobodys():
    table = frame()
    table["split"] = np.where(np.array(table["client"]) == "b", "test", "train")
    table["split"][0] = "test"
    found = federate(load_records(table), seed=0).test_owners
    assert found is not None
    assert found[0] == 0
    assert set(found[1:].tolist()) == {-1}


def test_without_names_test_records_go_where_their_labels_are():
    x = np.zeros((6, 1), np.float32)
    dealt = Federation.from_clients(
        [(x, np.zeros(6)), (x, np.ones(6)), (x, np.full(6, 2))],
        test=(np.zeros((30, 1)), np.repeat([0, 1, 2], 10)), classes=3, name="shards",
    )  # fmt: skip
    np.testing.assert_array_equal(test_owners(dealt, 0), np.repeat([0, 1, 2], 10))
    ranges = replace(dealt, y=dealt.y.astype(np.float32), test_y=np.array([-3.0, 0.2, 1.9, 7.0], np.float32))
    assert set(test_owners(ranges, 0).tolist()) <= {0, 1, 2}
    alike = replace(dealt, y=np.zeros_like(dealt.y))
    assert set(test_owners(alike, 0)[:10].tolist()) == {0, 1, 2}


def test_merits_are_the_score_record_by_record():
    x, y = np.array([[1.0, 0.0], [-1.0, 0.0], [2.0, 0.0]], np.float32), np.array([1, 1, 0], np.int32)
    plain = LinearModel(2, 1, "logistic")
    np.testing.assert_array_equal(merits(plain, np.array([1.0, 0.0], np.float32), x, y, 0.0), [1, 0, 0])
    lost = np.full(2, np.nan, np.float32)
    assert np.isnan(merits(plain, lost, x, y, 0.0)).all()
    numbers, theta = LinearModel(2, 1, "squared"), np.array([0.5, 0.0], np.float32)
    values = np.array([1.0, 0.0, 3.0], np.float32)
    mean = merits(numbers, theta, x, values, float(values.var())).mean()
    score = numbers.score(jnp.asarray(theta), jnp.asarray(x), jnp.asarray(values))
    assert mean == pytest.approx(float(score.accuracy), rel=1e-5)
    with pytest.raises(InvalidInput, match="outputs"):
        merits(object(), theta, x, y, 0.0)  # pyright: ignore[reportArgumentType]


def test_limits_know_how_few_records_there_are():
    one, many = limits_of(np.ones(1)), limits_of(np.ones(400))
    assert one[0] < 0.25
    assert many[0] > 0.98
    assert np.isnan(limits_of(np.empty(0))).all()
    assert np.isnan(limits_of(np.array([0.3]))).all()
    low, high = limits_of_gain(np.ones(2))
    assert low < 0 < high
    assert limits_of_gain(np.ones(30))[0] > 0
    assert limits_of_gain(np.repeat([1.0, -1.0, 0.0], 20))[0] < 0
    low, high = limits_of_gain(np.linspace(0.1, 0.2, 9))
    assert 0.1 < low < 0.15 < high < 0.2


def test_limits_cover_a_gain_of_nothing_as_often_as_they_say():
    rng = np.random.default_rng(0)
    drawn = rng.choice([-1.0, 0.0, 1.0], (400, 12), p=[0.2, 0.6, 0.2])
    covered = [low <= 0 <= high for low, high in map(limits_of_gain, drawn)]
    assert np.mean(covered) > 0.93


def test_every_owner_is_scored_alone_shared_and_tuned():
    made = federation()
    assert made.test_owners is not None
    none = replace(made, test_owners=np.where(made.test_owners == 2, -1, made.test_owners))
    found = owners_at_home(none, LOGISTIC, np.zeros(3))
    assert found.tests.tolist() == [4, 4, 0]
    assert found.named
    for name in ("alone", "shared", "tuned"):
        assert np.isnan(found.scores[name]).tolist() == [False, False, True]
        assert 0 <= found.overall[name] <= 1
    np.testing.assert_allclose(found.gains[:2], (found.scores["tuned"] - found.scores["alone"])[:2])


def test_a_shared_model_that_diverged_leaves_owners_their_own():
    found = owners_at_home(federation(), LOGISTIC, np.full(3, np.nan))
    assert np.isnan(found.overall["shared"])
    assert found.overall["tuned"] == found.overall["alone"]
    assert found.errors["alone"] == 0
    assert np.isnan(found.errors["shared"])


def test_the_error_is_that_of_a_mean_over_owners_that_are_drawn():
    """Over owners with as many test records each it is that of the mean of their means."""
    rng = np.random.default_rng(0)
    tuned, alone, shared = rng.random((3, 7, 5))
    found = scored(np.ones(7, int), {"tuned": [*tuned], "alone": [*alone], "shared": [*shared]}, named=True)
    for name, apart in (("alone", tuned - alone), ("shared", tuned - shared), ("of_shared", shared - alone)):
        assert found.errors[name] == pytest.approx(apart.mean(axis=1).std(ddof=1) / np.sqrt(7))
