"""Local steps in the span of the records against steps on parameters, and when the engine takes which."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noiseworthy.data import Federation
from noiseworthy.engines import resident
from noiseworthy.engines.resident import span_of
from noiseworthy.engines.shards import Shards
from noiseworthy.engines.simulation import simulate
from noiseworthy.methods.dp_fedavg import planner as local_steps
from noiseworthy.methods.dp_fedavg.algorithm import DPFedAvg, moved_in_span
from noiseworthy.methods.dp_scaffnew import planner as communication_probability
from noiseworthy.methods.registry import make
from noiseworthy.methods.span import Spanned
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.clipping import ClippingMode, unit_of
from noiseworthy.tasks import Batch, LinearModel

SIZES, FEATURES = np.array([7, 3, 5, 7, 6, 1]), 60
SOFTMAX = LinearModel(FEATURES, 3, "softmax", ridge=0.05, bias=1.0, feature_norm=2.0)
HINGE = LinearModel(FEATURES, 1, "hinge", ridge=0.02, feature_norm=1.0, class_weights=(1.0, 3.0))
CLIPS: dict[ClippingMode, float] = {"B": 0.5, "C": 0.3, "D": 0.4, "E": 0.5}


@pytest.fixture(scope="module")
def federation() -> Federation:
    rng = np.random.default_rng(4)
    clients = [(rng.normal(size=(n, FEATURES)), rng.integers(0, 2, n)) for n in SIZES]
    return Federation.from_clients(clients, test=clients[0], classes=2, name="wide")


def plan_of(task, mode: ClippingMode, family="gaussian", steps=6, clip=None, batch_size=None):
    """A stated plan of three rounds of two clients, whose clip bites."""
    budget = PrivacyBudget.of(5.0, 0.0 if family == "laplace" else 1e-3, len(SIZES), unit=unit_of(mode))
    problem = Problem(SIZES, task.dimension, budget, family, clip or CLIPS[mode], clipping=mode)
    return local_steps.stated(problem, 3 * steps, steps, 2, StepSize(0.3, 20.0), batch_size)


def fedavg(plan, task) -> DPFedAvg:
    made = make(plan, task, 0)
    assert isinstance(made, DPFedAvg)
    return made


def scaffnew(task, batch_size=None):
    budget = PrivacyBudget.of(5.0, 1e-3, len(SIZES), unit="client")
    problem = Problem(SIZES, task.dimension, budget, "gaussian", 0.2, clipping="D")
    return communication_probability.stated(problem, 24, 0.15, StepSize(0.3, np.inf), 3, batch_size)


CASES = {
    "records clipped, L2": (HINGE, plan_of(HINGE, "B")),
    "records clipped, sums noised in L1": (HINGE, plan_of(HINGE, "E", "laplace")),
    "batch gradients clipped": (SOFTMAX, plan_of(SOFTMAX, "C")),
    "minibatch gradients clipped": (SOFTMAX, plan_of(SOFTMAX, "C", steps=12, batch_size=4)),
    "updates clipped": (SOFTMAX, plan_of(SOFTMAX, "D")),
    "updates clipped, L1": (SOFTMAX, plan_of(SOFTMAX, "D", "laplace")),
    "control variates": (SOFTMAX, scaffnew(SOFTMAX)),
    "control variates, minibatches": (SOFTMAX, scaffnew(SOFTMAX, 4)),
}


@pytest.mark.parametrize(("case", "way"), [*((case, "kept") for case in CASES), ("updates clipped", "asked")])
def test_steps_in_the_span_are_the_steps_on_parameters(case, way, federation, monkeypatch):
    task, plan = CASES[case]
    shards, seeds = Shards.load(federation, task), [1, 2]
    algorithms, runs = [make(plan, task, seed) for seed in seeds], []
    for span in ("none", way):
        monkeypatch.setattr(resident, "span_of", lambda *_, answer=span: answer)
        runs.append(simulate(algorithms, plan.uploads, shards, np.array([plan.rounds]), seeds))
    assert np.linalg.norm(runs[0].theta) > 0.01
    np.testing.assert_allclose(runs[1].theta, runs[0].theta, rtol=2e-4, atol=2e-6)
    np.testing.assert_allclose(runs[1].loss, runs[0].loss, rtol=1e-5)


def test_what_records_move_in_clipped_steps_has_the_norm_that_noise_pays_for():
    """Gradients of records cancel to rounding: inner products tell little of the norm of their sum."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1, FEATURES)) * np.ones((8, 1)) + 1e-3 * rng.normal(size=(8, FEATURES))
    task = replace(HINGE, ridge=0.0, feature_norm=None, class_weights=None)
    batch = Batch(jnp.asarray(x, jnp.float32), jnp.arange(8) % 2, jnp.ones(8))
    algorithm = fedavg(plan_of(task, "C", steps=40, clip=1e-4), task)
    moved = moved_in_span(
        algorithm, jnp.zeros(FEATURES), Spanned.of(task, batch), jnp.float32(8), jax.random.key(0),
        jnp.int32(40), lambda j: jnp.float32(0.3),
    )  # fmt: skip
    length = np.linalg.norm(np.asarray(moved, np.float64))
    assert 0.1 * 40 * 0.3 * 1e-4 < length <= 40 * 0.3 * 1e-4


@pytest.mark.parametrize(
    ("records", "steps", "rounds", "expected"),
    [
        (7, 1, 3, "none"),  # a single step needs both products with the records anyway
        (7, 6, 1, "asked"),  # few of the clients are ever asked
        (7, 6, 30, "kept"),
        (120, 6, 30, "none"),  # more records than features
    ],
)
def test_shapes_say_whether_inner_products_pay(records, steps, rounds, expected, federation):
    task, plan = SOFTMAX, plan_of(SOFTMAX, "D", steps=steps)
    algorithm = fedavg(plan, task)
    algorithm = replace(algorithm, cohorts=np.tile(algorithm.cohorts[:1], (rounds, 1)))
    shards = Shards.load(federation, task)
    x, y, mask = shards.train
    wide = [(0, 0), (0, records - 7)]
    train = Batch(jnp.pad(x, [*wide, (0, 0)]), jnp.pad(y, wide), jnp.pad(mask, wide))
    assert span_of([algorithm], shards._replace(train=train)) == expected


def test_no_inner_products_where_an_l1_norm_of_every_step_or_moments_are_needed(federation):
    shards = Shards.load(federation, SOFTMAX)
    assert span_of([make(plan_of(SOFTMAX, "C", "laplace"), SOFTMAX, 0)], shards) == "none"
    squared = replace(SOFTMAX, outputs=1, loss="squared")
    algorithm = make(plan_of(squared, "D"), squared, 0)
    assert span_of([algorithm], Shards.load(federation, squared, condensed=True)) == "none"
