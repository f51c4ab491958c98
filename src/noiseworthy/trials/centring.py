"""Public records seen against their mean, as clients would tell it with the study's noise."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from noiseworthy.data import Records
from noiseworthy.privacy.means import MeanRelease, Real
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.linear import LinearModel
from noiseworthy.tasks.reference import Reference
from noiseworthy.trials.facts import PublicFacts

_SEED = 20


def centred(task: LinearModel, facts: PublicFacts, records: Records, noisier: float) -> LinearModel:
    """The model of public records that are seen against their noised mean.

    Args:
        task: the study's model for them, records of norm 1.
        facts: of the study.
        records: public ones, of classes.
        noisier: what noise is multiplied by, where some clients stand for more.
    """
    problem, numbers = facts.problem, math.prod(records.record_shape)
    known = problem.sizes, problem.budget, problem.family
    release = MeanRelease.of(*known, records.record_shape, task.classes)
    answer = release.told(records.x, records.y)
    drawn = np.random.default_rng((_SEED, numbers)).normal(0, noisier * release.deviation, len(answer))
    return seen_against(task, *release.read(answer + drawn, noisier))


def seen_against(task: LinearModel, mean: ArrayLike, shares: ArrayLike) -> LinearModel:
    """A model of records of norm 1 seen against a mean, which starts at these shares, or at those stated."""
    seen = Reference(np.asarray(mean, np.float32), np.zeros((0, np.size(mean)), np.float32))
    against = replace(task, preparation=replace(task.preparation, reference=seen))
    return against if task.start or not np.size(shares) else started(against, shares)


def started(task: LinearModel, shares: ArrayLike) -> LinearModel:
    """A model of classes that starts at the constant of these shares, where it has one."""
    return replace(task, start=constant_of_shares(task, np.asarray(shares, float))) if task.bias else task


def starting_at(task: Task, mean: float) -> Task:
    """A model of numbers that starts at their mean, where it has an intercept."""
    return replace(task, start=(mean,)) if isinstance(task, LinearModel) and task.bias else task


def constant_of_shares(task: LinearModel, shares: Real) -> tuple[float, ...]:
    """The constant outputs of least loss where classes have these shares.

        log(v_k p_k) less their mean (softmax),    log(v_1 p_1 / (v_0 p_0)) (logistic),
        (v_1 p_1 - v_0 p_0) / max_k v_k p_k (hinge)

    Args:
        task: of classes, with weights v of them.
        shares: p, above 0, shape (K,).
    """
    held = shares * np.array(task.class_weights or 1.0)
    if task.loss == "hinge":
        return (float((held[1] - held[0]) / held.max()),)
    logs = np.log(held)
    return tuple((logs - logs.mean()).tolist()) if task.loss == "softmax" else (float(logs[1] - logs[0]),)
