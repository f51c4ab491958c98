"""How good models are on an owner's test records, with limits that know how few these are."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from noiseworthy._jax import Array, jax
from noiseworthy.errors import InvalidInput
from noiseworthy.home.base import Parameters, Real
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.linear import LinearModel
from noiseworthy.tasks.networks import ModelTask
from noiseworthy.tasks.structured_losses import LOSSES

CONFIDENCE = 0.95
"""Of the limits, for each owner by itself."""
Limits = tuple[float, float]
UNKNOWN: Limits = (math.nan, math.nan)


def merits(task: Task, theta: Parameters, x: NDArray, y: NDArray, variance: float) -> Real:
    """What a model is worth on each of some records, shape (n,): their mean is the score on them.

    1 or 0 for a class, a share of right labels where a record has many, and 1 - (y - z)^2 / variance for
    numbers, whose mean over all test records is R^2. NaN of a model that diverged, or whose loss is its
    user's own.

    Args:
        task: model and loss.
        theta: parameters, shape (p,).
        x: records that have been through `prepare`, shape (n, ...).
        y: labels, shape (n, *label_shape).
        variance: of all test labels, for numbers.

    Raises:
        InvalidInput: a task of another kind.
    """
    if not isinstance(task, LinearModel | ModelTask):
        raise InvalidInput("only models of nw.make_task, nw.model_task and nw.equinox_task have outputs")
    if not np.all(np.isfinite(theta)):
        return np.full(len(x), np.nan)
    n, size = len(x), 1 << max(3, (len(x) - 1).bit_length())
    x, y = (np.pad(one, [(0, size - n)] + [(0, 0)] * (one.ndim - 1)) for one in (x, y))
    return _worth(task, np.asarray(_each(task, theta, x, y), np.float64)[:n], y[:n], variance)


def merits_of_each(
    task: LinearModel | ModelTask, thetas: Parameters, x: NDArray, y: NDArray, variance: float
) -> Real:
    """`merits` of several models that are finite, shape (models, n)."""
    several = jax.vmap(partial(_each, task), in_axes=(0, None, None))
    return _worth(task, np.asarray(several(thetas, x, y), np.float64), y, variance)


def _worth(task: LinearModel | ModelTask, each: Real, y: NDArray, variance: float) -> Real:
    if _quality(task) is not LOSSES["squared"].quality:
        return each
    return 1 - (each - y) ** 2 / variance if variance > 0 else np.full(each.shape, np.nan)


def _quality(task: LinearModel | ModelTask) -> Callable[[Array, Array], Array]:
    return (LOSSES[task.loss] if isinstance(task, LinearModel) else task.loss).quality


@partial(jax.jit, static_argnums=0)
def _each(task: LinearModel | ModelTask, theta: Array, x: Array, y: Array) -> Array:
    """Quality of each answer by itself; of numbers the answer."""
    z, quality = task.answers(theta, x), _quality(task)
    if quality is LOSSES["squared"].quality:
        return z.reshape(len(x))
    return jax.vmap(lambda *one: quality(*jax.tree.map(lambda array: array[None], one)))(z, y)


def limits_of(values: Real) -> Limits:
    """Limits of the mean of which some values are a sample; NaN where too few of them say nothing.

    Example:
        >>> low, high = limits_of(np.array([1.0, 1.0, 1.0]))
        >>> round(low, 2), high
        (0.44, 1.0)
    """
    if not len(values) or not np.all(np.isfinite(values)):
        return UNKNOWN
    if np.isin(values, (0.0, 1.0)).all():
        from scipy import stats  # here, because it takes half a second to import

        found = stats.binomtest(int(values.sum()), len(values)).proportion_ci(CONFIDENCE, method="wilson")
        return float(found.low), float(found.high)
    return _around(values)


def limits_of_gain(gains: Real) -> Limits:
    """Limits of the mean difference of two models on the same records; NaN where too few say nothing.

    Of classes one right and one wrong answer are added for each model, so that few records that all agree
    prove nothing.

    Source: Agresti & Min, Simple improved confidence intervals for comparing matched proportions (2005).

    Example:
        >>> low, high = limits_of_gain(np.array([1.0, 0.0]))
        >>> bool(low < 0 < high)
        True
    """
    if not len(gains) or not np.all(np.isfinite(gains)):
        return UNKNOWN
    if not np.isin(gains, (-1.0, 0.0, 1.0)).all():
        return _around(gains)
    n = len(gains) + 2
    mean, apart = gains.sum() / n, np.abs(gains).sum() + 1
    reach = ndtri((1 + CONFIDENCE) / 2) * math.sqrt(apart - n * mean**2) / n
    return max(-1.0, mean - reach), min(1.0, mean + reach)


def _around(values: Real) -> Limits:
    if len(values) < 2:
        return UNKNOWN
    error = values.std(ddof=1) / math.sqrt(len(values))
    reach = stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2) * error
    return float(values.mean() - reach), float(values.mean() + reach)
