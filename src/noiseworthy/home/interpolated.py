"""An owner's model between its own and the shared one."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from noiseworthy.home.alone import own_model
from noiseworthy.home.base import FOLDS, Own, Parameters, Real, folds_of
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.batch import Batch

SHARES = np.linspace(0.0, 1.0, 11)
"""Shares of the owner's own model that are tried."""


def interpolated_model(task: Task, shared: Parameters, own: Own, seed: int) -> Parameters:
    """a theta_own + (1 - a) theta_shared, a by cross-validation at home; `base.AtHome`.

    Source: Mansour, Mohri, Ro & Suresh, Three approaches for personalization (2020), section 5; Deng,
    Kamani & Mahdavi, Adaptive personalized federated learning (2020), equation 2.
    """
    folds, missed = folds_of(own.y, seed), np.zeros(len(SHARES))
    for fold in range(FOLDS):
        kept, left_out = folds != fold, folds == fold
        if kept.any() and left_out.any():
            learnt = own_model(task, shared, Own(own.x[kept], own.y[kept]), seed)
            missed += _missed(task, _between(learnt, shared), Own(own.x[left_out], own.y[left_out]))
    return _between(own_model(task, shared, own, seed), shared)[int(np.argmin(missed))]


def _between(own: Parameters, shared: Parameters) -> Parameters:
    """Models at every share of the own one, shape (shares, p)."""
    return np.asarray(shared + SHARES[:, None] * (own - shared), np.float32)


def _missed(task: Task, thetas: Parameters, some: Own) -> Real:
    """Summed losses of each model, shape (shares,)."""
    batch = Batch(jnp.asarray(some.x), jnp.asarray(some.y), jnp.ones(len(some.y)))
    each = [float(jnp.sum(task.losses(jnp.asarray(theta), batch))) for theta in thetas]
    return np.nan_to_num(np.array(each), nan=np.inf)
