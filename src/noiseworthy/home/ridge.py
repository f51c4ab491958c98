"""Linear models drawn towards a given one, as strongly as cross-validation at home decides.

    theta = argmin  (1/n) sum_i l_i(theta) + (lambda/2) ||theta - c||^2

The solution differs from c by a combination of the records, so that the search takes place in their singular
directions: at most as many as there are records, and the curvature of the loss is bounded direction by
direction (s_j^2 kappa / n). All folds and all centres c are solved side by side, from the strongest ridge to
the weakest, each from where the one before ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from noiseworthy._jax import Array, jax, jnp, lax
from noiseworthy.home.base import FOLDS, Own, Parameters, Real, folds_of
from noiseworthy.plans.estimation import CURVATURE
from noiseworthy.tasks.linear import LinearModel
from noiseworthy.tasks.structured_losses import LOSSES

STRONGEST, WEAKEST = 10.0, 0.01
"""Ends of the weights lambda of the ridge that are tried beside the centre itself, evenly in logarithms: over
the mean squared norm of the records, the weakest over that of their sum."""


class Effort(NamedTuple):
    """How hard to search: strengths to try, and steps for each; the weakest ends where all before it led."""

    strengths: int
    steps: int


THOROUGH = Effort(12, 25)


def towards(
    task: LinearModel, shared: Parameters, shares: Sequence[float], own: Own, seed: int
) -> Parameters:
    """The linear model of an owner, drawn towards a share of the shared one and the rest of a constant.

    `towards_each` of one shared model.
    """
    return towards_each(task, np.asarray(shared)[None], shares, own, seed)[0]


def towards_each(
    task: LinearModel,
    shared: Parameters,
    shares: Sequence[float],
    own: Own,
    seed: int,
    effort: Effort = THOROUGH,
) -> Parameters:
    """The linear models of an owner, drawn towards a share of each shared one and the rest of a constant.

    Args:
        task: model and loss; its own ridge is left out.
        shared: parameters of shared models, shape (m, p), finite.
        shares: of a shared model in centres to try, falling, the others' being the owner's constant answer.
        own: the owner's records.
        seed: of the folds.
        effort: strengths and steps.

    Returns:
        Parameters, shape (m, p), of the centre and strength whose loss on records that were left out is
        least; the first of several that are.
    """
    x, y = np.asarray(own.x, np.float64), np.asarray(own.y)
    n, k = len(x), task.outputs
    folds = folds_of(y, seed, own.whose)
    learnt = np.concatenate([np.arange(FOLDS)[:, None] != folds, np.ones((1, n), bool)])
    constants = np.stack([_constant(task, y[kept]) for kept in learnt])
    centres = np.stack([_centres(task, shared, shares, one) for one in constants])
    z, directions, squares = _singular(x)
    offsets = np.einsum("nq,fcqk->fcnk", x, centres)
    most = max(task.class_weights or (1.0,)) * CURVATURE[task.loss]
    # Records of zeros have neither curvature nor, without a floor, a ridge: a step would be 0 / 0.
    scale = max(float(squares.sum()) / n, 1e-12)
    size = 1 << max(4, (n - 1).bit_length())
    width = min(x.shape[1], size)
    found, left_out = _path(
        task.loss,
        jnp.asarray(_padded(z, (size, width)), jnp.float32),
        jnp.asarray(_padded(squares, (width,)) * most, jnp.float32),
        jnp.asarray(_padded(offsets, (*offsets.shape[:2], size, k)), jnp.float32),
        jnp.asarray(_padded(y, (size,))),
        jnp.asarray(_padded(learnt * _weights(task, y), (FOLDS + 1, size)), jnp.float32),
        jnp.asarray(np.maximum(1, learnt.sum(axis=1)), jnp.float32),
        jnp.asarray(_padded((~learnt[:-1]) * _weights(task, y), (FOLDS, size)), jnp.float32),
        jnp.asarray(scale * strengths_of(n, effort.strengths), jnp.float32),
        effort.steps,
    )
    losses = np.nan_to_num(np.asarray(left_out, np.float64), nan=np.inf)
    moved, count = np.asarray(found), len(shared)
    last = losses.shape[1] - 1
    models = []
    for i in range(count):
        mine = [place * count + i if share else last for place, share in enumerate(shares)]
        strength, place = np.unravel_index(np.argmin(losses[:, mine]), (len(losses), len(mine)))
        way = directions @ moved[strength, mine[place]].astype(np.float64)[: directions.shape[1]]
        models.append((centres[-1, mine[place]] + way).astype(np.float32).ravel())
    return np.stack(models)


def strengths_of(n: int, count: int = THOROUGH.strengths) -> Real:
    """Weights lambda that are tried, over the mean squared norm of n records, the strongest first.

    The weakest leaves what a hundredth of one record says of the centre: fewer records need more of it.
    """
    return np.geomspace(STRONGEST, WEAKEST / n, count)


def _centres(task: LinearModel, shared: Parameters, shares: Sequence[float], constant: Real) -> Real:
    """Matrices towards which models are drawn, shape (centres, q, outputs).

    Those of all models for each share above 0 in turn; of share 0 there is one for all of them, the last.
    """
    whole = np.asarray(shared, np.float64).reshape(len(shared), -1, task.outputs)
    always = np.zeros_like(whole[:1])
    if task.bias:
        always[:, -1] = constant / task.bias
    return np.concatenate([share * whole + (1 - share) * always if share else always for share in shares])


def _constant(task: LinearModel, y: NDArray) -> Real:
    """Outputs that answer all records alike, shape (outputs,): by counts of classes, half a record more each.

    Example:
        >>> _constant(LinearModel(1, 1, "logistic"), np.array([1, 1])).round(3)
        array([1.609])
    """
    if task.loss == "squared":
        return np.array([y.mean() if len(y) else 0.0])
    classes = max(2, task.outputs)
    counts = (np.bincount(y, minlength=classes) + 0.5) * np.asarray(task.class_weights or (1.0,))
    if task.loss == "softmax":
        return np.log(counts / counts.sum())
    if task.loss == "hinge":
        return np.array([2 * counts[1] / counts.sum() - 1])
    return np.array([np.log(counts[1] / counts[0])])


def _weights(task: LinearModel, y: NDArray) -> Real:
    return np.ones(len(y)) if task.class_weights is None else np.asarray(task.class_weights)[y]


def _singular(x: Real) -> tuple[Real, Real, Real]:
    """Records in their singular directions (n, r), these (q, r), and the squared singular values (r,)."""
    if len(x) > x.shape[1]:
        # Small beside the records, and right to 1e-16 of the sum of its eigenvalues: squaring costs nothing,
        # as the weakest ridge adds 0.01/n of that sum to each.
        squares, directions = np.linalg.eigh(x.T @ x)
        return x @ directions, directions, np.maximum(squares, 0.0)
    left, values, right = np.linalg.svd(x, full_matrices=False)
    return left * values, right.T, values**2


def _padded(values: NDArray, shape: tuple[int, ...]) -> NDArray:
    """Values with zeros past their end, so that owners of like size share a compiled program."""
    return np.pad(values, [(0, most - had) for most, had in zip(shape, values.shape, strict=True)])


@partial(jax.jit, static_argnums=(0, 9))
def _path(
    loss: str, z: Array, curvature: Array, offsets: Array, y: Array, learnt: Array, sizes: Array,
    left_out: Array, strengths: Array, steps: int,
) -> tuple[Array, Array]:  # fmt: skip
    """Solutions of all records, shape (strengths + 1, centres, r, outputs), and losses of records left out.

    Args:
        loss: a key of `LOSSES`.
        z: records, shape (n, r).
        curvature: bound on the summed second derivatives along each direction, shape (r,).
        offsets: outputs of the centres, shape (folds + 1, centres, n, outputs); all records come last.
        y: labels, shape (n,).
        learnt: weights of the records that a fold learns from, shape (folds + 1, n).
        sizes: their numbers, shape (folds + 1,).
        left_out: weights of those that are left out, shape (folds, n).
        strengths: lambda, the strongest first; before them all stands the centre itself.
        steps: for each of them.
    """
    value = LOSSES[loss].value
    slope = jax.vmap(jax.grad(value))
    over = jnp.broadcast_to(y, offsets.shape[:3])
    shape = (*offsets.shape[:2], z.shape[1], offsets.shape[3])

    def outputs(a: Array) -> Array:
        return offsets + jnp.einsum("nr,fcrk->fcnk", z, a)

    def missed(a: Array) -> Array:
        flat = outputs(a)[:-1].reshape(-1, shape[-1])
        losses = jax.vmap(value)(flat, over[:-1].reshape(-1)).reshape(over[:-1].shape)
        weights = left_out[:, None]
        # By `where`, because 0 times an infinite loss is NaN.
        return jnp.sum(jnp.where(weights > 0, weights * losses, 0.0), axis=(0, 2)) / jnp.sum(left_out)

    def solved(a: Array, weight: Array) -> tuple[Array, tuple[Array, Array]]:
        reach = curvature[None, None, :, None] / sizes[:, None, None, None] + weight

        def step(carry: tuple[Array, Array, Array], _: None) -> tuple[tuple[Array, Array, Array], None]:
            a, ahead, t = carry
            slopes = slope(outputs(ahead).reshape(-1, shape[-1]), over.reshape(-1))
            slopes = slopes.reshape(*over.shape, shape[-1]) * learnt[:, None, :, None]
            uphill = jnp.einsum("nr,fcnk->fcrk", z, slopes) / sizes[:, None, None, None] + weight * ahead
            new = ahead - uphill / reach
            # Momentum that leads uphill is dropped, by each fold and centre for itself: their paces differ.
            back = jnp.sum(uphill * (new - a), axis=(2, 3), keepdims=True) > 0
            later = jnp.where(back, 1.0, (1 + jnp.sqrt(1 + 4 * t**2)) / 2)
            return (new, new + jnp.where(back, 0.0, (t - 1) / later) * (new - a), later), None

        first = (a, a, jnp.ones((*shape[:2], 1, 1)))
        a, *_ = lax.scan(step, first, None, length=steps)[0]
        return a, (a[-1], missed(a))

    start = jnp.zeros(shape)
    _, (found, losses) = lax.scan(solved, start, strengths)
    return jnp.concatenate([start[-1:], found]), jnp.concatenate([missed(start)[None], losses])
