"""Many trainings of a linear model at once: settings that differ in clip and step share one matrix product.

Written beside the product's engine, for speed: of one round and seed all settings see the same cohort and the
same noise, scaled by their clips, so that a round costs one product of records with all models together. The
noise of a cohort is one draw with the law of the sum, exact for Gaussian noise and for one client's Laplace
noise; for several a Gaussian of gamma-distributed variance, drawn by Wilson and Hilferty's cube.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from noiseworthy.plans.plan import Plan
from noiseworthy.tasks import LinearModel
from quality import Arena

DECAY_ROUNDS = 50.0


class Rows(NamedTuple):
    """Records of every client, padded: x (N, n, d), y (N, n), and w (N, n), in how far a record counts."""

    x: Array
    y: Array
    w: Array


@dataclass(frozen=True)
class Field:
    """Where settings are trained: prepared records, test records and the loss.

    Attributes:
        rows: of every client; w is d_i / n_i on the records that are held.
        test_x: (m, d).
        test_y: (m,).
        loss: `softmax`, `logistic` or `squared`.
        outputs: of the model.
        norm: `l1` or `l2`, of the clip.
        gaussian: whether the noise is Gaussian, else Laplace.
        start: weights of the constant that training starts at, shape (outputs,).
    """

    rows: Rows
    test_x: Array
    test_y: Array
    loss: str
    outputs: int
    norm: str
    gaussian: bool
    start: Array

    @classmethod
    def of(cls, arena: Arena, bias: float, start: tuple[float, ...] = ()) -> Field:
        """The records of an arena whose task appends no bias, with a constant appended.

        Args:
            arena: with the records.
            bias: the constant.
            start: outputs of the untrained model; none are zeros.
        """
        task: LinearModel = arena.task
        train, shards = arena.shards.train, arena.shards
        x, test_x = (_with_constant(part, bias) for part in (train.x, shards.test_x))
        return cls(
            Rows(x, train.y, train.mask), test_x, shards.test_y, task.loss, task.outputs,
            arena.problem.norm, arena.problem.family == "gaussian",
            jnp.asarray(start or [0.0] * task.outputs, jnp.float32) / (bias or 1.0),
        )  # fmt: skip

    @cached_property
    def flat(self) -> tuple[Rows, Array]:
        """All records without padding, and whose each is."""
        here = np.flatnonzero(np.asarray(self.rows.w).ravel() > 0)
        rows = Rows(*(leaf.reshape(-1, *leaf.shape[2:])[here] for leaf in self.rows))
        return rows, jnp.asarray(here // self.rows.w.shape[1])


class Law(NamedTuple):
    """Whom to ask, how uploads count and what noise they carry, for T rounds with b clients.

    Attributes:
        rounds: T.
        cohorts: (S, most rounds, b), for each seed.
        share: (N / b) a_i of the clients, shape (N,).
        sizes: records d_i, shape (N,).
        noise: size of the noise in a weighted sum of one cohort for clip 1, as if all of it were alike.
        summands: how many alike draws that noise is the sum of.
    """

    rounds: int
    cohorts: NDArray[np.int64]
    share: NDArray[np.float64]
    sizes: NDArray[np.int64]
    noise: float
    summands: float

    @classmethod
    def of(cls, plan: Plan, cohorts: NDArray[np.int64]) -> Law:
        """The law of a plan with clip 1."""
        clients, b = plan.problem.n_clients, plan.clients_per_round
        share = clients / b * plan.weights
        each = share * plan.noise
        second, fourth = np.mean(each**2), np.mean(each**4)
        summands = b * float(second**2 / fourth)
        noise = float(np.sqrt(b * second / summands))
        return cls(plan.rounds, cohorts, share, plan.problem.sizes, noise, summands)


class Outcome(NamedTuple):
    """Test losses and accuracies (R^2) of M settings under S seeds, shapes (S, M, 2): the last model's, and
    those of the mean of the last half of all models."""

    loss: NDArray[np.float64]
    accuracy: NDArray[np.float64]


def trained(field: Field, law: Law, clips: NDArray, steps: NDArray, seeds: NDArray) -> Outcome:
    """Train M settings, each under every seed.

    Args:
        field: where.
        law: T, b and their noise.
        clips: shape (M,).
        steps: first steps, shape (M,); they fall as 1 / (1 + t / 50).
        seeds: S of them.
    """
    shape = field.rows.x.shape
    flat, owners = field.flat
    whole = law.cohorts.shape[2] * shape[1] >= len(owners)  # unasked records weighing nothing, they are fewer
    rows = flat if whole else field.rows
    counts = jnp.asarray(law.share / law.sizes, jnp.float32)
    rows = rows._replace(w=rows.w * (counts[owners] if whole else counts[:, None]))
    loss, accuracy = _trained(
        rows, owners, field.test_x, field.test_y, field.start, jnp.asarray(law.cohorts, jnp.int32),
        jnp.asarray(clips, jnp.float32), jnp.asarray(steps, jnp.float32), jnp.asarray(seeds, jnp.uint32),
        law.rounds, law.noise, law.summands, field.norm == "l1", field.gaussian,
        loss=field.loss, outputs=field.outputs, clients=shape[0],
    )  # fmt: skip
    found = np.asarray(loss, float)
    return Outcome(np.where(np.isfinite(found), found, np.inf), np.asarray(accuracy, float))


@partial(jax.jit, static_argnames=("loss", "outputs", "clients"))
def _trained(
    rows: Rows, owners: Array, test_x: Array, test_y: Array, intercepts: Array, cohorts: Array, clips: Array,
    steps: Array, seeds: Array, rounds: Array, noise: Array, summands: Array, taxicab: Array, gaussian: Array,
    *, loss: str, outputs: int, clients: int,
) -> tuple[Array, Array]:  # fmt: skip
    d, m = test_x.shape[1], len(clips)
    lengths = _norm(rows.x, -1, taxicab)

    def one_seed(given: tuple[Array, Array]) -> tuple[Array, Array]:
        seed, asked = given
        key = jax.random.key(seed)

        def one_round(t: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
            theta, total = state
            x, y, w, length = _asked(rows, lengths, owners, clients, asked[t])
            r = _slopes((x @ theta.reshape(d, outputs * m)).reshape(-1, outputs, m), y, loss)
            size = _norm(r, 1, taxicab)
            kept = w[:, None] * jnp.minimum(1.0, clips / jnp.maximum(length[:, None] * size, 1e-30))
            kept = jnp.where(w[:, None] > 0, kept, 0.0)
            g = (x.T @ (r * kept[:, None]).reshape(-1, outputs * m)).reshape(d, outputs, m)
            z = _draws(jax.random.fold_in(key, t), (d, outputs), summands, gaussian)
            theta = theta - steps / (1 + t / DECAY_ROUNDS) * (g + clips * noise * z[..., None])
            return theta, total + jnp.where(2 * t >= rounds - 1, theta, 0.0)

        nothing = jnp.zeros((d, outputs, m), jnp.float32)
        start = nothing.at[-1].set(intercepts[:, None])
        last, total = jax.lax.fori_loop(0, rounds, one_round, (start, nothing))
        late = rounds - jnp.ceil((rounds - 1) / 2)
        return _scored(test_x, test_y, jnp.stack([last, total / late], -1), loss)

    return jax.lax.map(one_seed, (seeds, cohorts))


def _asked(
    rows: Rows, lengths: Array, owners: Array, clients: int, who: Array
) -> tuple[Array, Array, Array, Array]:
    """Records of a cohort, with their weights and lengths: gathered, or all with weight 0 for others."""
    if rows.w.ndim == 1:
        asked = jnp.zeros(clients, bool).at[who].set(True)
        return rows.x, rows.y, jnp.where(asked[owners], rows.w, 0.0), lengths
    x = rows.x[who]
    return x.reshape(-1, x.shape[-1]), *(leaf[who].reshape(-1) for leaf in (rows.y, rows.w, lengths))


def _norm(values: Array, axis: int, taxicab: Array) -> Array:
    """The L1 norm or the L2 norm; one program for both."""
    return jnp.where(taxicab, jnp.sum(jnp.abs(values), axis), jnp.linalg.norm(values, axis=axis))


def _draws(key: Array, shape: tuple[int, int], summands: Array, gaussian: Array) -> Array:
    """Noise of unit size: a Gaussian of variance `summands`, or so many Laplace draws summed."""
    first, second = jax.random.split(key)
    z = jax.random.normal(first, shape)
    cube = 1 - 1 / (9 * summands) + jax.random.normal(second, shape) / (3 * jnp.sqrt(summands))
    several = jnp.sqrt(2 * summands * jnp.maximum(cube, 0.0) ** 3) * z
    laplace = jnp.where(summands < 1.5, jax.random.laplace(second, shape), several)
    return jnp.where(gaussian, jnp.sqrt(summands) * z, laplace)


def _slopes(z: Array, y: Array, loss: str) -> Array:
    """Derivatives of the loss in outputs, shape (n, outputs, M)."""
    if loss == "softmax":
        return jax.nn.softmax(z, axis=1) - jax.nn.one_hot(y, z.shape[1])[..., None]
    target = y.astype(jnp.float32)[:, None, None]
    return (jax.nn.sigmoid(z) if loss == "logistic" else z) - target


def _scored(x: Array, y: Array, theta: Array, loss: str) -> tuple[Array, Array]:
    """Loss and accuracy of models (d, outputs, M, 2), shape (M, 2) each."""
    d, outputs, m, kinds = theta.shape
    z = (x @ theta.reshape(d, -1)).reshape(-1, outputs, m * kinds)
    if loss == "softmax":
        picked = jnp.take_along_axis(z, y[:, None, None].astype(jnp.int32), axis=1)[:, 0]
        value = jnp.mean(jax.nn.logsumexp(z, axis=1) - picked, axis=0)
        right = jnp.mean(jnp.argmax(z, axis=1) == y[:, None], axis=0)
    elif loss == "logistic":
        z, sign = z[:, 0], 2 * y[:, None] - 1.0
        value = jnp.mean(jax.nn.softplus(-sign * z), axis=0)
        right = jnp.mean((z > 0) == (y[:, None] > 0), axis=0)
    else:
        error = jnp.mean((z[:, 0] - y[:, None]) ** 2, axis=0)
        value, right = error / 2, 1 - error / jnp.var(y)
    return value.reshape(m, kinds), right.reshape(m, kinds)


def _with_constant(x: Array, bias: float) -> Array:
    return jnp.concatenate([x, jnp.full((*x.shape[:-1], 1), bias, x.dtype)], axis=-1)
