"""Public records seen against their mean, as clients would tell it with the study's noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from noiseworthy.data import Records
from noiseworthy.privacy.means import MeanRelease, mean_of
from noiseworthy.tasks import LinearModel, Reference
from noiseworthy.trials.facts import PublicFacts

_SEED = 20


def centred(task: LinearModel, facts: PublicFacts, records: Records, noisier: float) -> LinearModel:
    """The model of public records that are seen against their noised mean.

    Args:
        task: the study's model for them, records of norm 1.
        facts: of the study.
        records: public ones.
        noisier: what noise is multiplied by, where some clients stand for more.
    """
    problem, mean = facts.problem, mean_of(records.x, facts.problem.norm)
    release = MeanRelease.of(problem.sizes, problem.budget, problem.family, len(mean))
    drawn = np.random.default_rng((_SEED, len(mean))).normal(0, noisier * release.deviation, len(mean))
    return seen_against(task, release.shrunk(mean + drawn, noisier))


def seen_against(task: LinearModel, mean: NDArray[np.float64]) -> LinearModel:
    """A model whose records, of norm 1, are seen against a mean."""
    seen = Reference(mean.astype(np.float32), np.zeros((0, len(mean)), np.float32))
    return replace(task, preparation=replace(task.preparation, reference=seen))
