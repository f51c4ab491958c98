"""Linear models: softmax, logistic and least squares, with per-record clipping in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import jax
import jax.numpy as jnp
from jax import Array

from noiseworthy import _validate as check
from noiseworthy.errors import InvalidInput
from noiseworthy.privacy.sensitivity import Norm
from noiseworthy.tasks.base import SAFETY, Batch, Score
from noiseworthy.tasks.clipping import clip, upper_norm
from noiseworthy.tasks.losses import LOSSES

LinearLoss = Literal["softmax", "logistic", "squared"]


@dataclass(frozen=True)
class LinearModel:
    """Outputs z = W^T x of one record x, with W the flat theta as a matrix (features, outputs).

    The gradient of a record is the outer product of x and r = dloss/dz, so its L1 and L2 norms are
    products of norms and no gradient of a single record is ever formed:

        sum_i clip(g_i) = X^T (R min(1, C / (|x_i| |r_i|)))

    Attributes:
        features: numbers per record, before the bias.
        outputs: number of classes K for softmax, 1 otherwise.
        loss: `softmax` (labels 0..K-1), `logistic` (labels 0, 1) or `squared` ((z - y)^2 / 2).
        ridge: weight mu of (mu/2)||theta||^2, at least 0.
        bias: append a feature that is always 1; it counts in the norm of x.
        feature_norm: radius R of the L2 ball onto which each record is projected, or None.
        normalise: scale each record to norm R instead (from below, to 1e-4); a zero record stays zero.

    Raises:
        InvalidInput: a size below 1, outputs that do not fit the loss, a negative ridge, a radius that is
            not above 0, `normalise` without a radius.

    Example:
        >>> model = LinearModel(2, 1, "logistic", feature_norm=1.0)
        >>> x = model.prepare(jnp.array([[3.0, 4.0], [0.3, 0.4]]))
        >>> batch = Batch(x, jnp.array([1, 0]), jnp.ones(2))
        >>> model.clipped_gradient_sum(jnp.zeros(2), batch, 0.1, "l2").round(3)
        Array([0., 0.], dtype=float32)
    """

    features: int
    outputs: int
    loss: LinearLoss
    ridge: float = 0.0
    bias: bool = False
    feature_norm: float | None = None
    normalise: bool = False

    def __post_init__(self) -> None:
        check.count("features", self.features)
        check.one_of("loss", self.loss, get_args(LinearLoss))
        if self.loss == "softmax":
            check.count("outputs", self.outputs, least=2, remedy="softmax has one output per class")
        else:
            check.count("outputs", self.outputs, most=1, remedy=f"{self.loss} has one output")
        check.non_negative("ridge", self.ridge)
        if self.feature_norm is not None:
            check.positive(
                "feature_norm", self.feature_norm, remedy="leave it out to keep records as they are"
            )
        elif self.normalise:
            raise InvalidInput(
                "normalise needs a feature_norm above 0, got None; set it to the norm to scale to"
            )

    @property
    def dimension(self) -> int:
        """Number of parameters p = (features + bias) outputs."""
        return self._width * self.outputs

    @property
    def record_norm(self) -> float | None:
        """Public bound on the L2 norm of a prepared record, bias included; None without `feature_norm`."""
        return None if self.feature_norm is None else (self.feature_norm**2 + self.bias) ** 0.5

    def initial(self, key: Array) -> Array:
        """The origin, shape (p,): the loss is convex, so the key is not needed."""
        return jnp.zeros(self.dimension, jnp.float32)

    def prepare(self, x: Array) -> Array:
        """Records as rows: flattened, projected or normalised, with the bias appended.

        Args:
            x: records, shape (n, *record_shape).

        Returns:
            float32, shape (n, features + bias). A record with NaN or infinite entries becomes a row of
            zeros, bias included, so that its gradient is zero.

        Raises:
            InvalidInput: records with another number of features.

        Guarantee: rows have L2 norm at most `record_norm`.
        """
        rows = jnp.asarray(x, jnp.float32)
        rows = rows.reshape(len(rows), -1)
        self._check_width(rows, self.features, "give every record that many numbers")
        finite = jnp.all(jnp.isfinite(rows), axis=1, keepdims=True)
        rows = self._scaled(jnp.where(finite, rows, 0.0))
        return jnp.concatenate([rows, finite.astype(rows.dtype)], axis=1) if self.bias else rows

    def clipped_gradient_sum(self, theta: Array, batch: Batch, clip_norm: Array | float, norm: Norm) -> Array:
        """Sum of the records' gradients, each clipped to C: two matrix products.

        Args:
            theta: parameters, shape (p,).
            batch: records from `prepare`, labels, and a mask that is 0 on padding.
            clip_norm: C above 0, bound on the norm of one record's gradient without the ridge.
            norm: the norm in which C holds.

        Returns:
            Shape (p,).

        Raises:
            InvalidInput: records that have not been through `prepare`.

        Guarantee: each summand has norm at most C, float32 rounding included (`upper_norm`, `clip`).
        A record contributes zero if its gradient is not finite or its squared norm overflows.

        Source: privacy 2; Goodfellow, Efficient per-example gradient computations (2015).
        """
        outputs = self._outputs(theta, batch.x)
        slopes = jax.vmap(jax.grad(LOSSES[self.loss].value))(outputs, batch.y)
        sizes = upper_norm(batch.x, norm) * upper_norm(slopes, norm)
        kept = jnp.where(batch.mask[:, None] > 0, clip(slopes, sizes, clip_norm), 0.0)
        return jnp.matmul(batch.x.T, kept, precision="highest").ravel()

    def score(self, theta: Array, x: Array, y: Array) -> Score:
        """Mean loss without the ridge, and accuracy (R^2 for squared loss), on prepared records."""
        outputs, loss = self._outputs(theta, x), LOSSES[self.loss]
        return Score(jnp.mean(jax.vmap(loss.value)(outputs, y)), loss.quality(outputs, y))

    @property
    def _width(self) -> int:
        return self.features + self.bias

    def _check_width(self, rows: Array, width: int, remedy: str) -> None:
        if rows.ndim != 2 or rows.shape[1] != width:
            raise InvalidInput(f"x must have shape (n, {width}), got {rows.shape}; {remedy}")

    def _outputs(self, theta: Array, x: Array) -> Array:
        self._check_width(x, self._width, "pass records through prepare first")
        return x @ theta.reshape(self._width, self.outputs)

    def _scaled(self, rows: Array) -> Array:
        """Rows within the ball, or on its sphere; dividing by the peak first avoids over- and underflow."""
        if self.feature_norm is None:
            return rows
        peak = jnp.max(jnp.abs(rows), axis=1, keepdims=True)
        units = rows / jnp.where(peak > 0, peak, 1.0)
        reach = SAFETY * self.feature_norm / upper_norm(units, "l2")[:, None]
        return units * reach if self.normalise else jnp.where(peak <= reach, rows, units * reach)
