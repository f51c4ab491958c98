"""Worst cases: a twin of the study in which one record, or one client, moves every upload as far as it may.

The twin has the plan, the clients, the counts and the noise of the study, and a model of few parameters. One
record of every client is a canary; all others are silent, with gradients of zero. The canary's label is so
large that its clipped gradient is C in the same direction at every model:

    present: gradient -C v        absent: gradient +C v (replace-one), or no record (add-remove)

so that an upload moves by what its sensitivity allows, in every round and in every local step. Where a whole
client is hidden, all of its records are canaries; where a person is, all records of one are, each of which
pulls as far and the same way. Second moments move most between records at right angles: one of features
alone, and one of a label alone.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from noiseworthy._jax import jax, jnp
from noiseworthy.audit.targets import Target
from noiseworthy.engines.shards import Shards
from noiseworthy.methods.algorithm import Algorithm
from noiseworthy.plans.plan import Plan
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.batch import Batch
from noiseworthy.tasks.linear import LinearModel
from noiseworthy.tasks.networks import ModelTask, model_task
from noiseworthy.tasks.persons import Persons

Direction = Literal["one", "spread"]
Model = Literal["linear", "network"]
_SHORT, _LONG = 1e-3, 1e3
"""Norm of the canary's features. Short where clients take local steps: the curvature of the squared loss,
1e-6, does not bend their paths back. Long where they send a gradient: almost all of it then belongs to the
shared model, even where a client has a transform of its own (PrivateFL)."""
_BEYOND, _FAR_BEYOND = 1e4, 1e12
"""The canary's gradient, and its unclipped local update, exceed the clip so many times; far more where the
features are long, so that no model comes near the canary's label."""
_HEIGHT = 1e6
"""What a network canary adds to the output: its loss is far above every cap, or below zero."""
ABSENT, PRESENT = 0, 1


@dataclass(frozen=True)
class Twin:
    """A small training with the study's plan and a canary at every client.

    Attributes:
        target: what is audited, with the twin's dimension.
        task: a model of few parameters.
        algorithm: the product's, made by the study's plan.
        shards: records of both worlds; leaves of `train` have shape (N, 2, ...), absent first.
        noise: planned size on every number of an upload, shape (T, N, width).
    """

    target: Target
    task: Task
    algorithm: Algorithm
    shards: Shards
    noise: NDArray[np.float64]

    @property
    def clients(self) -> int:
        """N."""
        return self.target.plan.problem.n_clients


def twin_of(
    target: Target, dimension: int, direction: Direction, *, model: Model, ridge: float, seed: int,
    person: int = 2,
) -> Twin:  # fmt: skip
    """The twin of a training.

    Args:
        target: what is audited.
        dimension: parameters of the twin.
        direction: of the canary's gradient: `one` coordinate, the worst case of Laplace noise, or `spread`
            evenly over all, which finds a clip that is applied to each tensor.
        model: `linear`, or a `network` of two tensors whose loss is linear.
        ridge: of the study's model.
        seed: of the public schedule.
        person: records of every person, where persons are rows.

    Raises:
        InvalidInput, UnsoundClaim: what the algorithm's `make` refuses.
    """
    small = target.of_dimension(dimension)
    linear = LinearModel(dimension, 1, "squared", ridge=ridge, feature_norm=_length(small.plan))
    one = linear if model == "linear" else _network(dimension, ridge)
    task = one if small.plan.problem.row == "record" else Persons(one, person, dimension)
    algorithm = target.make(small.plan, task, seed)
    shards = _shards(small.plan, task, direction, condensed=algorithm.condensed)
    return Twin(small, task, algorithm, shards, small.noise(ridge))


def _network(dimension: int, ridge: float) -> ModelTask:
    """A model of two tensors with loss y (w x + height): gradient y x everywhere, value of the sign of y."""
    first = dimension // 2
    params = {"first": jnp.zeros(first), "second": jnp.zeros(dimension - first)}

    def outputs(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        return jnp.vdot(params["first"], x[:first]) + jnp.vdot(params["second"], x[first:])

    return model_task(outputs, params, lambda z, y: y * (z + _HEIGHT), ridge=ridge, record_shape=(dimension,))


def _shards(plan: Plan, task: Task, direction: Direction, *, condensed: bool) -> Shards:
    """Both worlds of every client as one federation."""
    x, y, mask = _records(plan, task, direction)
    if isinstance(task, Persons):  # every record of a person alike, with an equal share
        shared = np.pad(x, [(0, 0)] * 3 + [(0, 1)], constant_values=1 / task.most)
        x = np.repeat(shared[:, :, :, None], task.most, 3)
        y = np.repeat(y[..., None], task.most, axis=-1)
    train = Batch(jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32), jnp.asarray(mask, jnp.float32))
    if condensed and isinstance(task, LinearModel):
        train = jax.vmap(jax.vmap(task.condense))(train)
    return Shards(train, jnp.zeros((1, task.dimension)), jnp.zeros(1))


def _records(plan: Plan, task: Task, direction: Direction) -> tuple[NDArray[np.float64], ...]:
    """Features (N, 2, n, p), labels and masks (N, 2, n): the canary first, or all of them canaries."""
    held, p = _held(plan), task.dimension
    room = int(held.max())
    mask = np.repeat((np.arange(room) < held[:, None])[:, None], 2, axis=1).astype(float)
    canary = mask * (1.0 if plan.budget.unit == "client" else np.arange(room) == 0)
    other = -1.0 if plan.budget.relation == "replace-one" else 0.0
    signs = np.array([other, 1.0])[:, None]
    length, way = _length(plan), np.full(p, p**-0.5) if direction == "spread" else np.eye(p)[0]
    x = canary[..., None] * (length * way) * np.abs(np.sign(signs))[..., None]
    y = canary * signs * _slope(plan) / length
    if plan.moments is not None:  # at right angles: features alone, or (replace-one) a label alone
        x, y = x * (signs > 0)[..., None], y * (signs < 0)
    return x, y, mask


def _length(plan: Plan) -> float:
    return _LONG if plan.local is None else _SHORT


def _held(plan: Plan) -> NDArray[np.int64]:
    """Records that the twin's clients hold: all where they are dealt into minibatches, else two."""
    sizes = plan.problem.sizes
    dealt = plan.local is not None and plan.local.noised and plan.local.batch_size is not None
    return sizes if dealt else np.minimum(sizes, 2)


def _slope(plan: Plan) -> float:
    """Norm of the canary's unclipped gradient, so large that even one local step of it exceeds the clip."""
    if plan.local is None:
        return _FAR_BEYOND * plan.problem.clip_norm
    return _BEYOND * plan.problem.clip_norm * max(1.0, 1.0 / plan.local_step_sizes.min(initial=1.0))
