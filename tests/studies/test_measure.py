"""Costs of a study: bytes by counting, seconds on records of zeros, and tables that a study file takes."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from noiseworthy.errors import ConfigError, InvalidInput
from noiseworthy.studies import measure as measuring
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.measure import (
    MOST_SIZES,
    Costs,
    TimedStep,
    as_dict,
    as_toml,
    measure,
    resource_tables,
    step_records,
    zeros,
)
from noiseworthy.studies.planner import decide
from noiseworthy.studies.prepare import prepare

WINE = {
    "federation": {"data": "wine", "clients": 3, "partition": "quantity-skew", "alpha": 1.0},
    "task": {"bias": False},
    "privacy": {"mechanism": "gaussian", "epsilon": 8.0, "delta": 1e-4, "clip_norm": 0.5},
}
SIZES_ONLY = {
    "federation": {"sizes": [600] * 10},
    "task": {"dimension": 50},
    "privacy": {"mechanism": "laplace", "epsilon": 5.0, "clip_norm": 3.0},
    "constants": {
        "smoothness": 1.0, "strong_convexity": 0.1, "gradient_bound": 1.0, "initial_distance_sq": 900.0,
        "heterogeneity": 0.5,
    },
}  # fmt: skip


def prepared_of(raw=WINE, **tables):
    return prepare(parse_study({**raw, **{name: {**raw.get(name, {}), **t} for name, t in tables.items()}}))


@pytest.fixture
def no_clock(monkeypatch):
    """A step of n records takes n/1000 seconds; what was timed is kept."""
    seen = []

    def timed(prepared, sizes, on_progress):
        seen.extend(sizes)
        return tuple(TimedStep(size, size / 1000, 1) for size in sizes)

    monkeypatch.setattr(measuring, "_timed", timed)
    return seen


@pytest.mark.full
def test_a_step_of_every_size_is_really_timed():
    """Twenty thousand records take longer than twenty: 39 parameters each, a thousandfold of work."""
    small, large = measuring._timed(prepared_of(), [20, 20_000], lambda done: None)
    assert small.repeats == large.repeats >= 5
    assert 0 < small.seconds < large.seconds < 5


def test_costs_of_a_study_with_data():
    prepared, shares = prepared_of(), []
    costs = measure(prepared, shares.append)
    assert costs.bytes_per_round == 2 * 4 * 13 * 3
    assert [step.records for step in costs.timed] == np.unique(prepared.sizes).tolist()
    assert costs.seconds_per_step is not None
    assert len(costs.seconds_per_step) == 3
    for size, seconds in zip(prepared.sizes, costs.seconds_per_step, strict=True):
        assert seconds in [step.seconds for step in costs.timed if step.records == size]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_no_private_record_enters_a_timed_step():
    """With NaN for every feature and label, what is timed is the same zeros."""
    prepared = prepared_of()
    federation, _ = prepared.trained()
    poisoned = replace(prepared, federation=replace(federation, x=federation.x * np.nan))
    for batch in (zeros(prepared, 7), zeros(poisoned, 7)):
        assert not jnp.any(batch.x)
        assert not jnp.any(batch.y)
        assert batch.x.shape == (7, 13)
        assert batch.mask.tolist() == [1.0] * 7


@pytest.mark.parametrize(
    ("algorithm", "expected"),
    [
        ({}, [20, 200, 400]),
        ({"name": "dp-fedavg", "batch_size": 50}, [50, 50, 50]),
        ({"name": "dp-fedavg"}, [20, 200, 400]),
        ({"name": "dp-scaffnew", "batch_size": 50}, [50, 50, 50]),
        ({"name": "dp-pasgd", "batch_size": 50}, [20, 50, 50]),
        ({"name": "dp-pasgd"}, [20, 200, 400]),
        ({"name": "dpfl-bcs", "clients_per_round": 1}, [20, 200, 400]),
    ],
)
def test_records_in_a_step_are_those_of_the_algorithm(algorithm, expected):
    study = parse_study({**WINE, "algorithm": algorithm})
    prepared = replace(prepare(study), sizes=np.array([20, 200, 400]))
    assert step_records(prepared).tolist() == expected


@pytest.mark.parametrize(
    ("algorithm", "clips"),
    [
        ({}, ["record"]),
        ({"name": "dp-pasgd"}, ["record"]),
        ({"name": "dp-fedavg", "clipping_mode": "A"}, ["record"]),
        ({"name": "dp-fedavg", "clipping_mode": "C"}, ["mean", "whole"]),
        ({"name": "dp-fedavg", "clipping_mode": "D"}, ["mean"]),
        ({"name": "dp-scaffnew"}, ["mean"]),
    ],
)
def test_a_step_clips_what_the_algorithm_clips(algorithm, clips, monkeypatch):
    seen = []

    class Watched:
        def clipped_gradient_sum(self, theta, batch, clip, norm):
            seen.append("record")
            return theta

        def gradient(self, theta, batch):
            seen.append("mean")
            return theta

    prepared = prepared_of(algorithm=algorithm)
    batch = zeros(prepared, 4)
    whole = measuring.clip_whole
    monkeypatch.setattr(measuring, "clip_whole", lambda *a: seen.append("whole") or whole(*a))
    measuring._step(replace(prepared, task=Watched()))(jnp.zeros(39), batch)
    assert seen == clips


def test_many_sizes_are_timed_at_a_few_with_both_ends_and_interpolated(no_clock):
    prepared = replace(prepared_of(), sizes=np.arange(10, 60))
    costs = measure(prepared)
    assert len(no_clock) == MOST_SIZES
    assert (no_clock[0], no_clock[-1]) == (10, 59)
    np.testing.assert_allclose(costs.seconds_per_step, np.arange(10, 60) / 1000)


def test_a_study_without_data_has_bytes_alone():
    prepared = prepared_of(SIZES_ONLY)
    costs = measure(prepared)
    assert (costs.bytes_per_round, costs.seconds_per_step, costs.timed) == (400, None, ())
    assert list(resource_tables(costs, prepared.study, bandwidth=10.0, watts=1.0)) == ["bytes"]
    assert as_dict(costs, {})["seconds_per_step"] is None


def test_an_upload_of_moments_is_counted_as_it_is_sent(no_clock):
    """Products of wine's thirteen features with each other and with its three classes."""
    prepared = prepared_of(task={"bias": False, "feature_norm": 1.0}, algorithm={"name": "moments"})
    costs = measure(prepared)
    told = as_dict(costs, {})
    assert (told["bytes_down"], told["bytes_up"]) == (4 * 39, 4 * (13 * 14 // 2 + 39))
    assert costs.bytes_per_round == told["bytes_down"] + told["bytes_up"]
    timed = measuring._step(prepared)(jnp.zeros(39), zeros(prepared, 5))
    assert timed.size == 13 * 13 + 39, "what is timed is what is sent, and no gradient alone"


# Tables -------------------------------------------------------------------------------------------------

COSTS = Costs(250, np.array([10, 20]), (TimedStep(10, 0.001, 5), TimedStep(20, 0.0030004, 5)), "cpu")


def test_tables_by_hand():
    tables = resource_tables(COSTS, parse_study(SIZES_ONLY), bandwidth=1e5, watts=3.0)
    keys = ("cost_per_round", "cost_per_step", "budget", "unit")
    assert {unit: tuple(table[key] for key in keys) for unit, table in tables.items()} == {
        "bytes": (2000.0, 0.0, 2e5, "bytes"),
        "seconds": (0.02, [0.001, 0.003], 2.3, "seconds"),
        "joules": (0.06, [0.003, 0.009001], 6.9001, "joules"),
    }
    assert list(resource_tables(COSTS, parse_study(SIZES_ONLY))) == ["bytes"]
    assert list(resource_tables(COSTS, parse_study(SIZES_ONLY), bandwidth=1.0)) == ["bytes", "seconds"]


def test_the_budget_of_the_study_is_kept_where_it_is_of_the_unit():
    resources = {"cost_per_round": 1.0, "budget": 7e4, "unit": "bytes"}
    study = parse_study({**SIZES_ONLY, "resources": resources})
    tables = resource_tables(COSTS, study, bandwidth=1e5)
    assert (tables["bytes"]["budget"], tables["seconds"]["budget"]) == (7e4, 2.3)
    assert "yours to choose" not in as_toml(tables["bytes"], study)
    assert "yours to choose" in as_toml(tables["seconds"], study)


@pytest.mark.parametrize("unit", ["bytes", "seconds", "joules"])
def test_a_table_can_be_pasted_into_the_study_and_planned_with(unit):
    raw = {**SIZES_ONLY, "federation": {"sizes": [600, 300]}}
    study = parse_study(raw)
    pasted = tomllib.loads(as_toml(resource_tables(COSTS, study, 1e5, 3.0)[unit], study))
    plan = decide(prepare(parse_study({**raw, **pasted}))).plan
    assert plan.train
    assert plan.cost is not None
    assert np.all(plan.cost <= pasted["resources"]["budget"])
    assert plan.as_dict()["resources"]["unit"] == unit


@pytest.mark.parametrize(
    ("rates", "error", "says"),
    [
        ({"bandwidth": 0.0}, InvalidInput, "--bandwidth must be finite and above 0, got 0"),
        ({"bandwidth": 1.0, "watts": -2.0}, InvalidInput, "--watts must be finite and above 0, got -2"),
        ({"watts": 2.0}, ConfigError, "--watts needs --bandwidth"),
    ],
)
def test_rates_that_make_no_sense_are_refused(rates, error, says):
    with pytest.raises(error, match=says):
        resource_tables(COSTS, parse_study(SIZES_ONLY), **rates)
