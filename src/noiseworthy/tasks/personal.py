"""Personal input transforms (PrivateFL): each client scales and shifts its records for a shared model."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from noiseworthy._jax import Array, jnp
from noiseworthy.errors import InvalidInput
from noiseworthy.privacy.sensitivity import Norm
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.batch import Batch
from noiseworthy.tasks.clipping import clip, upper_norm
from noiseworthy.tasks.linear import LinearModel
from noiseworthy.tasks.structured_losses import LOSSES

if TYPE_CHECKING:
    from noiseworthy.tasks.networks import ModelTask

_ROUNDING = 2.0**-24
_FLOOR = 2.0**-32


@dataclass(frozen=True)
class Personal:
    """A task behind a transform of its records that belongs to one client. `personalised` makes it.

        x -> gamma x + beta,    phi = [gamma, beta, theta]

    The client keeps the transform (q numbers) and shares theta (p numbers). Both are trained from one clipped
    gradient. Where the transform is trained without noise, it has read every record of the client, and a
    shared gradient that comes through it is no longer bounded in one record, whatever its own clip.

    Attributes:
        shared: the task whose theta is shared. The transform acts on records after its `prepare`.

    Source: Yang et al., PrivateFL (2023); docs/theory/baselines.md#privatefl.
    """

    shared: LinearModel | ModelTask

    @property
    def transform_dimension(self) -> int:
        """Numbers of the transform q: gamma per channel and beta per entry of a record."""
        return self._channels + math.prod(self._shape)

    @property
    def dimension(self) -> int:
        """Length q + p of phi."""
        return self.transform_dimension + self.shared.dimension

    @property
    def ridge(self) -> float:
        """Weight mu of (mu/2)||theta||^2; the transform has none."""
        return self.shared.ridge

    def identity(self) -> Array:
        """The transform that changes nothing, gamma 1 and beta 0, shape (q,)."""
        return jnp.concatenate([jnp.ones(self._channels), jnp.zeros(math.prod(self._shape))])

    def transformed(self, phi: Array, x: Array) -> Array:
        """Records gamma x + beta, as the shared task takes them.

        Args:
            phi: at least the transform, shape (q,) or (q + p,).
            x: records from `prepare`, shape (n, *record_shape), or one of them.

        Returns:
            The shape of `x`. The bias of a linear model stays as it is; a row of zeros, which is what its
            `prepare` makes of a record that is not finite, stays zero.

        Raises:
            InvalidInput: records that are whole numbers or have not been through `prepare`.

        Example:
            >>> personal = personalised(LinearModel(2, 1, "squared", bias=True))
            >>> personal.transformed(jnp.array([2.0, 0.0, 5.0]), jnp.array([[3.0, 1.0, 1.0]])).tolist()
            [[6.0, 7.0, 1.0]]
        """
        self._check(x)
        gamma, beta = phi[: self._channels], phi[self._channels : self.transform_dimension]
        moved = gamma * x[..., : self._shape[-1]] + beta.reshape(self._shape)
        if not isinstance(self.shared, LinearModel):
            return moved
        moved = jnp.concatenate([moved, x[..., self.shared.features :]], axis=-1)
        return jnp.where(jnp.any(x != 0, axis=-1, keepdims=True), moved, 0.0)

    def clipped_gradient_sum(self, phi: Array, batch: Batch, clip_norm: Array | float, norm: Norm) -> Array:
        """Sum of the records' gradients in phi, each clipped as a whole to C.

            x^T W r  for gamma,    W r  for beta,    (gamma x + beta) r^T  for W

        is the gradient of a record of a linear model with weights W and slopes r = dloss/dz. It is linear in
        r, so the sum is a few matrix products of clipped r, as in `LinearModel.clipped_gradient_sum`.

        Args:
            phi: transform and parameters, shape (q + p,).
            batch: records from `prepare`, labels, and a mask that is 0 on padding.
            clip_norm: C above 0, bound on the norm of one record's gradient in phi without the ridge.
            norm: the norm in which C holds.

        Returns:
            Shape (q + p,).

        Raises:
            InvalidInput: records that are whole numbers or have not been through `prepare`.

        Guarantee: each summand has norm at most C over all its q + p entries, float32 rounding included
        (`upper_norm`, `clip`). A record contributes zero if its gradient is not finite or its squared norm
        overflows.
        """
        self._check(batch.x)
        if isinstance(self.shared, LinearModel):
            return self._linear_sum(self.shared, phi, batch, clip_norm, norm)
        return self._joint(self.shared).clipped_gradient_sum(phi, batch, clip_norm, norm)

    def losses(self, phi: Array, batch: Batch) -> Array:
        """Loss of each record without the ridge.

        Args:
            phi: transform and parameters, shape (q + p,).
            batch: records from `prepare` and labels.

        Returns:
            Shape (n,), of any value where the mask is 0. Private: clip and noise what leaves a client.

        Raises:
            InvalidInput: records that are whole numbers or have not been through `prepare`.
        """
        moved = batch._replace(x=self.transformed(phi, batch.x))
        return self.shared.losses(phi[self.transform_dimension :], moved)

    @property
    def _shape(self) -> tuple[int, ...]:
        """Shape of what is transformed of a record."""
        if isinstance(self.shared, LinearModel):
            return (self.shared.features,)
        return self.shared.record_shape or ()

    @property
    def _channels(self) -> int:
        return self._shape[-1] if len(self._shape) == 3 else 1

    def _check(self, x: Array) -> None:
        bias = isinstance(self.shared, LinearModel) and self.shared.bias > 0
        shape = (*self._shape[:-1], self._shape[-1] + bias)
        if not jnp.issubdtype(x.dtype, jnp.floating):
            raise InvalidInput(f"a personal transform needs records of real numbers, got {x.dtype}")
        if x.shape[-len(shape) :] != shape:
            raise InvalidInput(
                f"x must have shape (n, {', '.join(map(str, shape))}), got {x.shape}; "
                "pass records through prepare first"
            )

    def _joint(self, shared: ModelTask) -> ModelTask:
        """The network as a function of phi."""
        q = self.transform_dimension
        return replace(
            shared,
            outputs=lambda phi, x: shared.outputs(phi[q:], self.transformed(phi, x)),
            start=lambda key: jnp.concatenate([self.identity(), shared.start(key)]),
            dimension=self.dimension,
        )

    def _linear_sum(
        self, model: LinearModel, phi: Array, batch: Batch, clip_norm: Array | float, norm: Norm
    ) -> Array:
        matrix = phi[self.transform_dimension :].reshape(-1, model.outputs)
        weights, rows = matrix[: model.features], self.transformed(phi, batch.x)
        used = (batch.mask > 0) & jnp.any(batch.x != 0, axis=1) & jnp.all(jnp.isfinite(rows), axis=1)
        # zeros, for scaling may have made a finite record infinite, which a factor of 0 does not undo
        x, rows = (jnp.where(used[:, None], v, 0.0) for v in (batch.x[:, : model.features], rows))
        slopes = model.slopes(rows @ matrix, batch.x, batch.y)
        back = _product(slopes, weights.T)
        scales = jnp.sum(x * back, axis=1)
        sizes = _sizes(weights, x, rows, slopes, back, scales, norm)
        # x^T W r is linear in r like all else, so that one factor clips the whole gradient
        kept = clip(jnp.column_stack([scales, slopes]), sizes, clip_norm)
        kept = jnp.where(used[:, None], batch.mask[:, None] * kept, 0.0)
        in_gamma, slopes = jnp.sum(kept[:, :1], axis=0), kept[:, 1:]
        in_beta = _product(weights, jnp.sum(slopes, axis=0))
        return jnp.concatenate([in_gamma, in_beta, _product(rows.T, slopes).ravel()])


def personalised(task: Task) -> Personal:
    """The task behind a personal transform of its records: gamma per channel, beta per entry.

    Args:
        task: a `LinearModel` (one gamma for all features; the bias is not transformed), or a `ModelTask` of
            known `record_shape`: (H, W, channels), or any other with one gamma for all entries.

    Returns:
        A frozen value; equal tasks give equal ones.

    Raises:
        InvalidInput: tokens or volumes, a network whose `record_shape` is None, another kind of task.

    Example:
        >>> personal = personalised(LinearModel(2, 1, "squared"))
        >>> phi = jnp.concatenate([personal.identity(), jnp.array([0.0, 2.0])])
        >>> phi.tolist()
        [1.0, 0.0, 0.0, 0.0, 2.0]
        >>> batch = Batch(jnp.array([[3.0, 1.0]]), jnp.zeros(1), jnp.ones(1))
        >>> personal.clipped_gradient_sum(phi, batch, 100.0, "l2").tolist()
        [4.0, 0.0, 4.0, 6.0, 2.0]

    Source: Yang et al., PrivateFL (2023); docs/theory/baselines.md#privatefl.
    """
    if isinstance(task, LinearModel):
        if task.most_weight is not None:
            raise InvalidInput("a personal transform knows no weights of records; leave that column out")
        return Personal(task)
    from noiseworthy.tasks.networks import ModelTask  # here, because a linear model needs none
    from noiseworthy.tasks.persons import Persons

    if isinstance(task, Persons):
        raise InvalidInput('a personal transform is clipped with single records; state unit = "record"')

    if not isinstance(task, ModelTask):
        raise InvalidInput(f"task must be a LinearModel or a ModelTask, got {type(task).__name__}")
    if task.loss in (LOSSES["tokens"], LOSSES["dice"]):
        raise InvalidInput(
            "a personal transform is for features and images, got a task on tokens or volumes; "
            "choose a model of features or images"
        )
    if not task.record_shape:
        raise InvalidInput(
            "privatefl scales and shifts every entry of a record and needs its shape, got record_shape "
            f"{task.record_shape}; write model_task(..., record_shape=(30,)) for records of 30 numbers"
        )
    return Personal(task)


def _sizes(
    weights: Array, x: Array, rows: Array, slopes: Array, back: Array, scales: Array, norm: Norm
) -> Array:
    """Upper bounds on the norms of the records' gradients [x^T W r, W r, x' r^T], shape (n,).

    Sums over outputs and features may cancel, so their rounding is bounded apart, row w_j of W by row:

        |fl((W r)_j) - (W r)_j| <= K 2^-24 |w_j| |r|
        |fl(x^T W r) - x^T W r| <= (K + features) 2^-24 |r| sum_j |x_j| |w_j|

    Twice that is added, with a floor under |w_j| for products that underflow.

    Source: Higham, Accuracy and Stability of Numerical Algorithms, section 3.1.
    """
    reach = upper_norm(weights, "l2") + _FLOOR
    rounding = 2 * (sum(weights.shape) + 2) * _ROUNDING * upper_norm(slopes, "l2")
    in_gamma = jnp.abs(scales) + rounding * jnp.sum(jnp.abs(x) * reach, axis=1)
    in_beta = upper_norm(back, norm) + rounding * upper_norm(reach, norm)
    in_weights = upper_norm(rows, norm) * upper_norm(slopes, norm)
    return upper_norm(jnp.stack([in_gamma, in_beta, in_weights], axis=-1), norm)


def _product(a: Array, b: Array) -> Array:
    return jnp.matmul(a, b, precision="highest")
