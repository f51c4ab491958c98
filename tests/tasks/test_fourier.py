"""Random Fourier features: a kernel's inner products, each record alone, and names that say all of it."""

from __future__ import annotations

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from noiseworthy.deploy.gateway.holding import Holding
from noiseworthy.errors import ConfigError, InvalidInput
from noiseworthy.reports.findings import preparation
from noiseworthy.studies.by_trial import open_bench, treatments_of
from noiseworthy.studies.models import proxy_task
from noiseworthy.studies.planner import decide
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.tables import Study
from noiseworthy.tasks import LinearModel, make_task
from noiseworthy.tasks.preparing import Fourier
from noiseworthy.tasks.table import TaskTable
from noiseworthy.trials.treatment import Treatment, curved

NAME = "fourier:100:1.5:3"
FIXED = {"name": "fedsgd-dpc", "rounds": 2, "clients_per_round": 3, "step_size": 1.0, "step_decay": "none",
         "momentum": 0.0, "averaging": 0.0, "weighting": 0.5, "steering": 0.0}  # fmt: skip


def records(n=30, d=7):
    return jnp.asarray(np.random.default_rng(4).normal(size=(n, d)), jnp.float32)


def study(federation, algorithm=None, **task):
    tables = {
        "federation": federation,
        "privacy": {"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-5, "clip_norm": 1.0},
        "planning": {"public": ["prior:0"]},
        "task": task,
    }
    return Study.model_validate(tables if algorithm is None else {**tables, "algorithm": algorithm})


def test_inner_products_are_those_of_a_gaussian_kernel():
    x = records()
    seen = np.asarray(Fourier(40_000, 2.0, 1)(x), float)
    apart = np.square(np.asarray(x)[:, None] - np.asarray(x)[None]).sum(axis=2)
    np.testing.assert_allclose(seen @ seen.T, np.exp(-apart / (2 * 2.0**2)), atol=0.03)


def test_every_record_is_mapped_alone_to_norm_one_by_its_name():
    x, task = records(), make_task("logistic", (7,), 2, features=NAME)
    assert task.dimension == 100
    seen = task.prepare(x)
    np.testing.assert_allclose(np.linalg.norm(seen, axis=1), 1.0, rtol=1e-6)
    np.testing.assert_allclose(task.prepare(x[3:4])[0], seen[3], atol=1e-6)
    assert (
        np.abs(
            np.asarray(make_task("logistic", (7,), 2, features="fourier:100:1.5:4").prepare(x) - seen)
        ).max()
        > 0.01
    )


def test_curves_that_no_line_separates_are_learned():
    """Inside and outside of a circle, by least squares on the features."""
    x = records(600, 2)
    y = np.where(np.linalg.norm(x, axis=1) < 1.2, 1.0, -1.0)
    seen = np.asarray(Fourier.read("fourier:60:1.5:0")(x), float)
    right = [
        np.mean(np.sign(a @ np.linalg.lstsq(a, y, rcond=1e-3)[0]) == y) for a in (np.asarray(x, float), seen)
    ]
    assert right[0] < 0.7 < 0.95 < right[1]


def test_it_composes_with_a_projection_and_a_norm_and_an_owner_computes_it_from_the_name_alone():
    table = TaskTable(model="logistic", features=NAME, projection=5, feature_norm=0.5, bias=0.0)
    x = np.asarray(records())
    held = Holding(x, (np.arange(30) % 2).astype(np.int32), 2)
    task = held.task(table)
    own = make_task("logistic", (7,), 2, features=NAME, projection=5, feature_norm=0.5)
    assert task == own
    np.testing.assert_allclose(held.batch(task).x, own.prepare(x), atol=1e-6)
    assert np.linalg.norm(held.batch(task).x, axis=1).max() <= 0.5


@pytest.mark.parametrize(
    "name", ["fourier", "fourier:99:1.0:0", "fourier:10:0.0:0", "fourier:10:1.0", "polynomial"]
)
def test_names_that_say_no_map_are_refused(name):
    with pytest.raises(InvalidInput, match=r"fourier:COUNT:BANDWIDTH:SEED"):
        make_task("logistic", (7,), 2, features=name)


def test_maps_that_cannot_be_drawn_are_refused():
    with pytest.raises(InvalidInput, match="take a smaller count"):
        make_task("logistic", (10_000,), 2, features="fourier:9000:1.0:0")


@pytest.mark.data
def test_trials_choose_count_and_bandwidth_from_public_ranges(data_dir):
    hearts = {"data": "heart-disease", "data_dir": str(data_dir)}
    prepared = prepare(study(hearts, features="fourier"))
    facts = SimpleNamespace(record_size=2.0, classes=2)
    bench = SimpleNamespace(facts=facts, sources=["prior:0"])
    tried = treatments_of(prepared, bench)  # pyright: ignore[reportArgumentType]
    assert tried == curved(2.0)
    assert len({one.features for one in tried}) == len(tried) == 4
    stated = treatments_of(prepare(study(hearts, features=NAME)), bench)  # pyright: ignore[reportArgumentType]
    assert stated == [Treatment(features=NAME)]
    seen = proxy_task(study(hearts, features="fourier"), (12,), 2, tried[0], "prior:0")
    assert isinstance(seen, LinearModel)
    assert (seen.preparation.features, seen.dimension) == (tried[0].features, 40 + (seen.bias > 0))


def test_without_ranges_or_trials_its_numbers_must_be_stated():
    unranged = {"data": "breast-cancer", "clients": 3}
    prepared = prepare(study(unranged, features="fourier"))
    with pytest.raises(ConfigError, match="bandwidth from public ranges"):
        treatments_of(prepared, open_bench(prepared))
    with pytest.raises(ConfigError, match='features = "fourier" is chosen by trial, and this study has none'):
        decide(prepare(study(unranged, algorithm=FIXED, features="fourier")))
    assert "random Fourier features (fourier:100:1.5:3" in preparation({"features": NAME})
