"""What the outputs of a plan's models are divided by, so that probabilities are as sure as they are right.

Clipping and noise leave models too sure or not sure enough, and trials on public data tell which: the plan's
own models, with its noise, answer public records that they were not trained on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from noiseworthy.tasks.losses import LINEAR_LOSSES
from noiseworthy.tasks.networks import ModelTask
from noiseworthy.trials.bench import Bench, Candidate, final_outputs, on_each
from noiseworthy.trials.proxies import Proxy
from noiseworthy.trials.spaces import Space

SEEDS = range(600_000, 600_004)
"""Noise seeds that races and the trials around a plan do not reach."""
WIDEST = 3.0
"""Outputs are divided by this at most, and multiplied: public data that are easy would be ever surer."""
_DIGITS = 4


class Answered(NamedTuple):
    """Outputs of several models for the test records of a public data set.

    Attributes:
        outputs: shape (S, n, K).
        labels: classes, shape (S, n).
        weights: of the records' classes, shape (S, n).
    """

    outputs: NDArray[np.float64]
    labels: NDArray[np.int64]
    weights: NDArray[np.float64]


def temperature_of(bench: Bench, space: Space, winner: Candidate) -> float | None:
    """The temperature of a race's winner.

    Args:
        bench: the proxies.
        space: what was free in the race.
        winner: of the race.

    Returns:
        T above 0, a function of public inputs alone; None where a model gives no probabilities, or where no
        trial ended in numbers.
    """
    if not all(_gives_probabilities(proxy) for proxy in bench.proxies(winner.treatment)):
        return None

    def on(proxy: Proxy) -> Answered | None:
        plan = bench.plan(space, winner, proxy)
        return None if plan is None else _answered(proxy, *final_outputs(proxy, plan, SEEDS))

    every = [one for one in on_each(bench.proxies(winner.treatment), on) if one and len(one.outputs)]
    return best_temperature(every) if every else None


def best_temperature(every: Sequence[Answered]) -> float:
    """T of the least mean over data sets of the log loss of softmax(z/T), as a share of that of a guess.

    Log losses are convex in 1/T, so that one minimum is all there is.

    Example:
        >>> sure = Answered(np.array([[[3.0, 0.0]] * 4]), np.array([[0, 0, 0, 1]]), np.ones((1, 4)))
        >>> round(best_temperature([sure]), 2)  # 3/T = ln 3
        2.73
    """

    def loss(inverse: float) -> float:
        return float(np.mean([_loss(one, inverse) for one in every]))

    found = minimize_scalar(loss, bounds=(1 / WIDEST, WIDEST), method="bounded", options={"xatol": 1e-6})
    return float(f"{1 / found.x:.{_DIGITS}g}")


def _loss(one: Answered, inverse: float) -> float:
    told = np.take_along_axis(log_softmax(inverse * one.outputs, axis=2), one.labels[..., None], axis=2)
    return float(-np.average(told[..., 0], weights=one.weights) / np.log(one.outputs.shape[2]))


def _answered(proxy: Proxy, outputs: NDArray[np.float64], labels: NDArray[np.int64]) -> Answered:
    """Those of models that ended in numbers; one output is the log odds of the second class."""
    fine = np.all(np.isfinite(outputs), axis=(1, 2))
    outputs, labels = outputs[fine], labels[fine]
    if outputs.shape[2] == 1:
        outputs = np.concatenate([np.zeros_like(outputs), outputs], axis=2)
    weights = getattr(proxy.task, "class_weights", None) or np.ones(outputs.shape[2])
    return Answered(outputs, labels, np.asarray(weights)[labels])


def _gives_probabilities(proxy: Proxy) -> bool:
    task = proxy.task
    if isinstance(task, ModelTask):
        return task.loss == LINEAR_LOSSES["softmax"]
    return getattr(task, "loss", None) in ("softmax", "logistic")
