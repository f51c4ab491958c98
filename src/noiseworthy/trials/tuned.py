"""What shared models of trials are worth to owners who tune them at home, beside what they reach alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np

from noiseworthy._jax import Array, jax, jnp
from noiseworthy.home.base import Parameters, Real
from noiseworthy.home.candidates import CENTRES, Epochs, own_model, tuned_model
from noiseworthy.home.ridge import Effort, towards_each
from noiseworthy.home.scores import merits_of_each
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.batch import Batch
from noiseworthy.tasks.linear import LinearModel
from noiseworthy.trials.courses import deals_of
from noiseworthy.trials.proxies import DEALS, Proxy, seed_of
from noiseworthy.trials.typical import Home, Site, prepared, sites, typical

if TYPE_CHECKING:
    from noiseworthy.tasks.networks import ModelTask

_OWNERS = 3
"""Typical owners of a trial: each for as many records."""
_QUICK = Effort(strengths=6, steps=6)
"""What a trial spends on the tuning of a model: it ranks settings as the whole search does."""
OWN_EPOCHS, TUNED_EPOCHS = Epochs((0, 16, 64), (1e-3,), folds=1), Epochs((0, 8, 32), (1e-3,), folds=1)
"""The same of networks: a twelfth of the gradients that an owner takes at home, for about as good an own
model, 91 % for 92 % with 88 digits, 67 % for 67 % with 100 images of a mixture of Gaussians."""
_WIDTH = 16
"""Shared linear models that are tuned side by side."""
_AS_IT_IS = 0.1
"""Share of the shared model's own loss in what settings are compared by: noise changes it less from seed to
seed, and it decides where tuned models tell no settings apart."""


def after_tuning(proxy: Proxy, loss: Real, theta: Parameters, seeds: Sequence[int]) -> tuple[Real, Real]:
    """Scores of tuned models, and their losses over those of own models: 1 is staying home.

    Args:
        proxy: where shared models were trained.
        loss: of these over the untrained one, shape (plans, seeds).
        theta: their parameters, shape (plans, seeds, p).
        seeds: of noise, by which public records were dealt.

    Returns:
        Both of shape (plans, seeds). The shared model's own loss is a tenth of the second.
    """
    score, missed = np.full(loss.shape, np.nan), np.ones(loss.shape)
    dealt = np.array(deals_of(seeds)) % DEALS
    for number in np.unique(dealt).tolist():
        columns = np.flatnonzero(dealt == number)
        models = theta[:, columns].reshape(-1, theta.shape[-1])
        finite = np.isfinite(models).all(axis=1, keepdims=True)
        found = _tuned(proxy, number, np.where(finite, models, 0.0).astype(np.float32))
        score[:, columns], missed[:, columns] = (one.reshape(-1, len(columns)) for one in found)
    return score, (1 - _AS_IT_IS) * missed + _AS_IT_IS * np.minimum(loss, 1.0)


def gains_of(proxy: Proxy, theta: Parameters, seeds: Sequence[int]) -> float:
    """Score of tuned models less that of own ones, mean over trainings and typical owners.

    Args:
        proxy, seeds: as `after_tuning`.
        theta: parameters of shared models, shape (seeds, p).
    """
    score, _ = after_tuning(proxy, np.ones((1, len(seeds))), theta[None], seeds)
    return float(np.mean(score[0] - own_scores(proxy, seeds)))


def own_scores(proxy: Proxy, seeds: Sequence[int]) -> Real:
    """Score of own models, mean over typical owners, under each seed of a deal, shape (seeds,)."""
    homes = (_homes(proxy, number % DEALS) for number in deals_of(seeds))
    return np.array([np.mean([home.score for home in each]) for each in homes], np.float64)


def _tuned(proxy: Proxy, number: int, models: Parameters) -> tuple[Real, Real]:
    """Score after tuning, and loss over that of own models, mean over typical owners: shapes (m,)."""
    homes, variance = _homes(proxy, number), float(np.var(proxy.records.test_y))
    every = [_at(proxy.task, home.site, models, number, variance) for home in homes]
    losses, scores = (np.mean(part, axis=0) for part in zip(*every, strict=True))
    return scores, losses / max(float(np.mean([home.alone for home in homes])), 1e-12)


def _homes(proxy: Proxy, number: int) -> list[Home]:
    """Typical owners of a deal, who were scored alone when first asked for."""
    if number not in proxy.homes:
        places = typical(proxy.facts.problem.sizes, _OWNERS)
        task, variance = proxy.task, float(np.var(proxy.records.test_y))
        proxy.homes[number] = [
            Home(site, *_alone(task, site, number, variance))
            for site in sites(proxy.facts, prepared(proxy.records, task), places, seed_of(number))
        ]
    return proxy.homes[number]


def _alone(task: Task, site: Site, seed: int, variance: float) -> tuple[float, float]:
    """Mean test loss and score of an owner's own model."""
    if isinstance(task, LinearModel):
        made = _drawn(task, site, np.zeros((1, task.dimension), np.float32), seed, (0.0,))
    else:
        made = own_model(task, np.empty(0), site.own, seed, tried=OWN_EPOCHS)[None]
    (loss,), (score,) = _scored(task, site, made, variance)
    return float(loss), float(score)


def _at(task: Task, site: Site, models: Parameters, seed: int, variance: float) -> tuple[Real, Real]:
    """Mean test loss and score at one owner of what it makes of each shared model, shapes (m,)."""
    if isinstance(task, LinearModel):
        return _scored(task, site, _drawn(task, site, models, seed, CENTRES), variance)
    made = [tuned_model(task, model, site.own, seed, tried=TUNED_EPOCHS) for model in models]
    return _scored(task, site, np.stack(made), variance)


def _drawn(
    task: LinearModel, site: Site, models: Parameters, seed: int, shares: tuple[float, ...]
) -> Parameters:
    """What ridges towards shared linear models make of them, some side by side, shape (m, p)."""
    found = []
    for first in range(0, len(models), _WIDTH):
        few = models[first : first + _WIDTH]
        room = (1 << (len(few) - 1).bit_length()) - len(few)
        filled = np.concatenate([few, np.repeat(few[-1:], room, axis=0)])
        found.append(towards_each(task, filled, shares, site.own, seed, _QUICK)[: len(few)])
    return np.concatenate(found)


def _scored(task: Task, site: Site, models: Parameters, variance: float) -> tuple[Real, Real]:
    """Mean test loss and score of models at one owner, shapes (m,)."""
    size = 1 << max(3, (len(site.x) - 1).bit_length())
    x, y, counts = (
        np.pad(part, [(0, size - len(part))] + [(0, 0)] * (part.ndim - 1))
        for part in (site.x, site.y, site.counts / site.counts.sum())
    )
    width = _WIDTH if isinstance(task, LinearModel) else 1
    losses, scores = [], []
    for first in range(0, len(models), width):
        few = models[first : first + width]
        each = np.asarray(_losses(task, jnp.asarray(few), jnp.asarray(x), jnp.asarray(y)), np.float64)
        # 0 times the infinite loss of a row that only fills up would be NaN
        losses.append(np.where(counts > 0, each, 0.0) @ counts)
        scores.append(merits_of_each(cast("LinearModel | ModelTask", task), few, x, y, variance) @ counts)
    return np.concatenate(losses), np.concatenate(scores)


@partial(jax.jit, static_argnums=0)
def _losses(task: Task, thetas: Array, x: Array, y: Array) -> Array:
    """Loss of each model on each record, shape (m, n)."""
    return jax.vmap(lambda theta: task.losses(theta, Batch(x, y, jnp.ones(len(x)))))(thetas)
