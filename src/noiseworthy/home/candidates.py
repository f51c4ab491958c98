"""What an owner may make of a shared model: none of it, all of it, or what its own records say of it."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from noiseworthy._jax import Array, jax, jnp, lax
from noiseworthy.errors import InvalidInput
from noiseworthy.home.base import FOLDS, AtHome, Own, Parameters, Real, folds_of
from noiseworthy.home.ridge import towards
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.batch import Batch
from noiseworthy.tasks.linear import LinearModel


class Epochs(NamedTuple):
    """What is tried of a network at home.

    Attributes:
        steps: numbers of steps after which it may stop, ascending from 0.
        sizes: of the steps of Adam on the mean gradient of all records.
        folds: of the `FOLDS` that are left out in turn, so many.
    """

    steps: tuple[int, ...]
    sizes: tuple[float, ...] = (1e-3, 1e-2)
    folds: int = FOLDS


def after_epochs(task: Task, start: Parameters, own: Own, seed: int, tried: Epochs) -> Parameters:
    """A model after some steps of Adam on an owner's records, each an epoch.

    Args:
        task: model and loss; its own ridge is left out.
        start: parameters, shape (p,).
        own: the owner's records.
        seed: of the folds.
        tried: what to choose from.

    Returns:
        Parameters, shape (p,), after as many steps of the size whose loss on records that were left out is
        least; the start where none is less than its.
    """
    folds = folds_of(own.y, seed, own.whose)
    n, size = len(folds), 1 << max(3, (len(folds) - 1).bit_length())
    fill = [(0, size - n)]
    x = jnp.asarray(np.pad(own.x, fill + [(0, 0)] * (own.x.ndim - 1)))
    y = jnp.asarray(np.pad(own.y, fill + [(0, 0)] * (own.y.ndim - 1)))
    learnt = np.concatenate([np.arange(tried.folds)[:, None] != folds, np.ones((1, n), bool)])
    masks = jnp.asarray(np.pad(learnt, [(0, 0), *fill]), jnp.float32)
    left_out = jnp.asarray(np.pad(~learnt, [(0, 0), *fill]), jnp.float32)
    begun = jnp.asarray(start, jnp.float32)
    found, losses = _trained(task, begun, x, y, masks, left_out, tried)  # (sizes, folds + 1, steps)
    missed = np.nan_to_num(np.asarray(losses, np.float64)[:, :-1].sum(axis=1), nan=np.inf)
    missed[:, 0] = missed[0, 0]
    size_of_step, stop = np.unravel_index(np.argmin(missed), missed.shape)
    return np.asarray(found[size_of_step, -1, stop], np.float32)


@partial(jax.jit, static_argnums=(0, 6))
def _trained(
    task: Task, start: Array, x: Array, y: Array, masks: Array, left_out: Array, tried: Epochs
) -> tuple[Array, Array]:
    """Parameters (sizes, folds + 1, stops, p), and summed losses of what was left out, without the p."""
    import optax

    def training(step_size: Array, mask: Array, other: Array) -> tuple[Array, Array]:
        adam = optax.adam(1.0)

        def step(_: Array, carry: tuple[Array, optax.OptState]) -> tuple[Array, optax.OptState]:
            theta, state = carry
            moved, state = adam.update(task.gradient(theta, Batch(x, y, mask)), state)
            return theta + step_size * jnp.asarray(moved), state

        carry, kept = (start, adam.init(start)), [start]
        for before, after in pairwise(tried.steps):
            carry = lax.fori_loop(before, after, step, carry)
            kept.append(carry[0])
        thetas = jnp.stack(kept)
        missed = lax.map(lambda theta: task.losses(theta, Batch(x, y, other)), thetas)
        return thetas, jnp.sum(jnp.where(other > 0, missed, 0.0), axis=1)

    folds = jax.vmap(training, in_axes=(None, 0, 0))
    return jax.vmap(folds, in_axes=(0, None, None))(jnp.asarray(tried.sizes), masks, left_out)


EPOCHS_ALONE = Epochs((0, 4, 8, 16, 32, 64, 128))
"""What is tried of a network from its start."""
EPOCHS_TUNED = Epochs((0, 1, 2, 4, 8, 16, 32))
"""What is tried of a network from the shared model."""
CENTRES = (1.0, 0.5, 0.0)
"""Shares of the shared model in the centres that linear models are drawn towards."""
SHARES = np.linspace(0.0, 1.0, 11)
"""Shares of the owner's own model that are tried between it and the shared one."""


def own_model(
    task: Task, shared: Parameters, own: Own, seed: int, *, tried: Epochs = EPOCHS_ALONE
) -> Parameters:
    """A model of the owner's records alone; `base.AtHome`.

    Linear models are drawn by a ridge towards the owner's constant answer, networks start where every
    training of them does and stop early; how strongly, and how early, cross-validation at home decides.
    """
    if isinstance(task, LinearModel):
        return towards(task, np.zeros(task.dimension, np.float32), (0.0,), own, seed)
    return after_epochs(task, np.asarray(task.initial(jax.random.key(seed))), own, seed, tried)


def shared_model(task: Task, shared: Parameters, own: Own, seed: int) -> Parameters:
    """The shared model as it is; `base.AtHome`."""
    return shared


def tuned_model(
    task: Task, shared: Parameters, own: Own, seed: int, *, tried: Epochs = EPOCHS_TUNED
) -> Parameters:
    """The shared model tuned to the owner's records; `base.AtHome`.

    Linear models are drawn by a ridge towards the shared one, the owner's constant answer or what lies half
    way between them, networks start from the shared one and stop early; which, how strongly and how early,
    cross-validation at home decides. Of a shared model that diverged the owner's own remains.
    """
    if not np.all(np.isfinite(shared)):
        return own_model(task, shared, own, seed)
    if isinstance(task, LinearModel):
        return towards(task, shared, CENTRES, own, seed)
    return after_epochs(task, shared, own, seed, tried)


def fine_tuned_model(task: Task, shared: Parameters, own: Own, seed: int) -> Parameters:
    """The shared model after steps of Adam on the owner's records; `base.AtHome`.

    Of networks that is what `tuned_model` does. When to stop, cross-validation at home decides.

    Source: Yu, Bagdasaryan & Shmatikov, Salvaging federated learning by local adaptation (2020).
    """
    return after_epochs(task, shared, own, seed, EPOCHS_TUNED)


def ditto_model(task: Task, shared: Parameters, own: Own, seed: int) -> Parameters:
    """Ditto's own models: argmin of the owner's loss + (lambda/2) ||theta - shared||^2; `base.AtHome`.

    Lambda is chosen by cross-validation at home. The shared model of Ditto is that of DP-FedAvg, which its
    own models do not move; MR-MTL draws them towards their noised mean in the same way.

    Raises:
        InvalidInput: a network, whose optimum nobody computes.

    Source: Li, Hu, Beirami & Smith, Ditto (2021), equation 1; Liu, Hu, Wu & Smith, On privacy and
    personalization in cross-silo federated learning (2022), equation 2.
    """
    if not isinstance(task, LinearModel):
        raise InvalidInput("Ditto's own models are solved for linear models; fine-tune a network")
    return towards(task, shared, (1.0,), own, seed)


def interpolated_model(task: Task, shared: Parameters, own: Own, seed: int) -> Parameters:
    """a theta_own + (1 - a) theta_shared, a by cross-validation at home; `base.AtHome`.

    Source: Mansour, Mohri, Ro & Suresh, Three approaches for personalization (2020), section 5; Deng,
    Kamani & Mahdavi, Adaptive personalized federated learning (2020), equation 2.
    """
    folds, missed = folds_of(own.y, seed, own.whose), np.zeros(len(SHARES))
    for fold in range(FOLDS):
        kept, left_out = folds != fold, folds == fold
        if kept.any() and left_out.any():
            learnt = own_model(task, shared, own.some(kept), seed)
            missed += _missed(task, _between(learnt, shared), own.some(left_out))
    return _between(own_model(task, shared, own, seed), shared)[int(np.argmin(missed))]


def _between(own: Parameters, shared: Parameters) -> Parameters:
    """Models at every share of the own one, shape (shares, p)."""
    return np.asarray(shared + SHARES[:, None] * (own - shared), np.float32)


def _missed(task: Task, thetas: Parameters, some: Own) -> Real:
    """Summed losses of each model, shape (shares,)."""
    batch = Batch(jnp.asarray(some.x), jnp.asarray(some.y), jnp.ones(len(some.y)))
    each = [float(jnp.sum(task.losses(jnp.asarray(theta), batch))) for theta in thetas]
    return np.nan_to_num(np.array(each), nan=np.inf)


CANDIDATES: dict[str, AtHome] = {"alone": own_model, "shared": shared_model, "tuned": tuned_model}
"""What an owner may use."""
PUBLISHED: dict[str, AtHome] = {
    "fine-tuned": fine_tuned_model, "Ditto": ditto_model, "interpolated": interpolated_model,
}  # fmt: skip
"""Published ways to tune, to be held against `tuned`."""
ALONE, SHARED, BEST = "alone", "shared", "tuned"
