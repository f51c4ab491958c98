"""What owners reach at home, beside a training in simulation."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike

from noiseworthy._json import strict_json
from noiseworthy.data.federation import Federation
from noiseworthy.home.owners import Scored, owners_at_home
from noiseworthy.studies.prepare import Prepared
from noiseworthy.studies.record import Record
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.linear import LinearModel
from noiseworthy.tasks.networks import ModelTask


def with_home(prepared: Prepared, theta: ArrayLike, record: Record, seed: int) -> Record:
    """The record with what each owner reaches alone, with the shared model and with it tuned at home.

    The models are measured and not kept: they are their owners', and no epsilon covers them.

    Args:
        prepared: the study with the model that was trained.
        theta: parameters of the shared model, shape (p,).
        record: of the run.
        seed: of the training.

    Returns:
        The record as it is, of a study that delivers to others or whose task has no outputs to score.
    """
    federation, task = counted_once(*prepared.trained())
    if not delivers_to_owners(prepared):
        return record
    began = time.monotonic()
    found = owners_at_home(federation, task, theta)
    part = {"seed": seed, **_plain(found), "seconds": time.monotonic() - began}
    return {**record, "home": strict_json(part)}


def delivers_to_owners(prepared: Prepared) -> bool:
    """Whether owners use what a study trains, and its outputs are such as can be scored for each of them."""
    return prepared.study.deliver.to == "owners" and isinstance(prepared.task, LinearModel | ModelTask)


def counted_once(federation: Federation, task: Task) -> tuple[Federation, Task]:
    """Records and model without weights of records, which models at home know nothing of."""
    if federation.most_weight is None or not isinstance(task, LinearModel):
        return federation, task
    x, test_x = federation.x[..., :-1], federation.test_x[..., :-1]
    return replace(federation, x=x, test_x=test_x), replace(task, most_weight=None)


def _plain(found: Scored) -> dict[str, Any]:
    candidates = {
        name: {
            "overall": found.overall[name],
            "scores": scores.tolist(),
            "least": found.limits[name][:, 0].tolist(),
            "most": found.limits[name][:, 1].tolist(),
        }
        for name, scores in found.scores.items()
    }
    return {
        "tests": found.tests.tolist(),
        "named": found.named,
        **candidates,
        "gains": found.gains.tolist(),
        "gains_least": found.gain_limits[:, 0].tolist(),
        "gains_most": found.gain_limits[:, 1].tolist(),
        **{f"error_{name}": error for name, error in found.errors.items()},
    }
