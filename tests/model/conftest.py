"""Models as a run leaves them, without a run."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from noiseworthy.model.description import Description, Statement, TrainedOn
from noiseworthy.model.folder import Kept
from noiseworthy.model.model import Model, probed
from noiseworthy.tasks import Reference, Task, make_task
from noiseworthy.tasks.table import TaskTable

STATEMENT: dict[str, Any] = {
    "private": True, "claim": "Epsilon 2 at delta 1e-05 for each record.", "assurance": "grid-csprng",
    "warning": "", "unit": "record", "relation": "replace-one", "epsilon": [2.0, 2.0], "delta": [1e-5, 1e-5],
    "mechanism": "gaussian", "adversary": "everybody",
}  # fmt: skip


def described(task: dict[str, Any], shape: tuple[int, ...], k: int | None, **more: Any) -> Description:
    fields: dict[str, Any] = {
        "version": "0.1.0", "name": "study", "label_shape": [], "seed": 0, "seeds": [0], "plan_digest": None,
        "trained_on": TrainedOn(data="hearts", clients=["north", "south"], records=[20, 30]),
        "classes": None if k is None else [f"class {i}" for i in range(k)],
        "privacy": Statement(**STATEMENT), "metrics": None, "probe": [0.0],
        "record_shape": list(shape), "task": TaskTable(**{"bias": 0.0, **task}),
    }  # fmt: skip
    return Description(**{**fields, **more})


def model_of(
    task: dict[str, Any], shape: tuple[int, ...], k: int | None, reference: Reference | None = None,
    **more: Any,
) -> Model:  # fmt: skip
    """A model with parameters that are drawn at random."""
    keys = {key: value for key, value in task.items() if key != "reference"}
    made: Task = make_task(record_shape=shape, classes=k, reference=reference, **{"bias": 0.0, **keys})
    draws = np.random.default_rng(1).normal(size=made.dimension).astype(np.float32)
    linear = k is None or task["model"] in ("softmax", "logistic", "svm")
    theta = draws if linear else np.asarray(made.initial(jax.random.key(0)))
    probe = probed(made, theta, list(shape))
    return Model(Kept(described(task, shape, k, probe=probe, **more), theta, reference), made)


@pytest.fixture
def logistic() -> Model:
    return model_of({"model": "logistic", "feature_norm": 1.0, "bias": 0.3}, (3,), 2)
