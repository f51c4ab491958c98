"""How good a model is, at owners: one noised sum of what each of their held-out records says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from noiseworthy._jax import jax
from noiseworthy._validate import Real
from noiseworthy.methods.rows import RowSum, noise_of, parts_of
from noiseworthy.methods.wire import Asked, Job, Vector, Wire, Work
from noiseworthy.privacy.releases import Release
from noiseworthy.privacy.sensitivity import ANSWER_LENGTHS, Norm, of_mean_answer
from noiseworthy.privacy.sums import MARGIN, NoisedSum

if TYPE_CHECKING:
    from noiseworthy.tasks.base import Task
    from noiseworthy.tasks.batch import Batch


class ScoreWork(Work):
    """Whether the model is right on each record, of two classes by class; of numbers, how near it comes."""

    name: Literal["score"] = "score"
    two_classes: bool
    reach: Annotated[float, Field(ge=0, lt=1e30)] = 0.0


def rows_of(task: Task, theta: Vector, batch: Batch, work: ScoreWork, clip_norm: float, norm: Norm) -> Real:
    """What every record adds, as `privacy.scores` has it: (n, 3) of two classes and (n, 1) of others."""
    from noiseworthy.tasks.rightness import rightness  # here, because few owners tell scores

    parts, sent = parts_of(batch, len(theta)), jax.device_put(theta)
    reach = np.float32(work.reach) if work.reach else None  # an array, so that no other one compiles anew
    told = [rightness(task, sent, few, work.two_classes, reach) for few in parts]
    length = ANSWER_LENGTHS[norm] if work.two_classes else 1.0
    return MARGIN * clip_norm / length * np.concatenate([*map(np.asarray, told)]).astype(np.float64)


def _job(request: Asked, work: ScoreWork, task: Task, records: int) -> Job:
    clip, theta, noise = request.clip_norm, request.theta, noise_of(request, request.noise)
    moved = of_mean_answer(clip, [records], noise.norm, two_classes=work.two_classes)
    total = NoisedSum.planned(
        Release(noise, moved), clip, records, 3 if work.two_classes else 1,
        apart=moved.value.item() * records / clip, slack=1 - MARGIN,
    )  # fmt: skip
    return RowSum(task, theta, total, lambda few: rows_of(task, theta, few, work, clip, noise.norm))


WIRE = Wire(
    table=ScoreWork,
    work=lambda how, client, t: ScoreWork(two_classes=how.two_classes, reach=how.reach),
    job=_job,
)
