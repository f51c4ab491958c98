"""Linear models: softmax, logistic, smooth hinge and least squares, with gradients in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np

from noiseworthy import _validate as check
from noiseworthy._jax import Array, jax, jnp
from noiseworthy.errors import InvalidInput
from noiseworthy.privacy.sensitivity import Norm
from noiseworthy.tasks.batch import SAFETY, Batch, Score
from noiseworthy.tasks.clipping import clip, upper_norm
from noiseworthy.tasks.losses import LINEAR_LOSSES
from noiseworthy.tasks.preparation import AS_THEY_ARE, Preparation

LinearLoss = Literal["softmax", "logistic", "hinge", "squared"]
_MANY = 16
"""Records from which on sums along several outputs are faster with the records last."""


class Moments(NamedTuple):
    """All that the squared loss of n records says about theta, besides a constant.

    Attributes:
        gram: X^T X / n, shape (q, q).
        cross: X^T y / n, shape (q,).
    """

    gram: Array
    cross: Array


@dataclass(frozen=True)
class LinearModel:
    """Outputs z = W^T x of one record x, with W the flat theta as a matrix (features, outputs).

    The gradient of a record is the outer product of x and r = dloss/dz, so its L1 and L2 norms are
    products of norms and no gradient of a single record is ever formed:

        sum_i clip(g_i) = X^T (R min(1, C / (|x_i| |r_i|)))

    With class weights v the loss of a record of class y, and so r, is v_y times as large: before the clip,
    which therefore bounds a record's influence as it does without them. So it is with weights of records:
    the last number of a record is then its weight w, which is no feature.

    Attributes:
        features: numbers per record after `preparation`, before the bias.
        outputs: number of classes K for softmax, 1 otherwise.
        loss: `softmax` (labels 0..K-1), `logistic` or `hinge` (labels 0, 1), or `squared` ((z - y)^2 / 2).
            The hinge is the smooth one of `losses.hinge_value`.
        ridge: weight mu of (mu/2)||theta||^2, at least 0.
        bias: value of a feature appended to every record, whose weight is the intercept; it counts in the
            norm of x. 0 appends none; True stands for 1.
        feature_norm: radius R of the L2 ball onto which each record is projected, or None.
        normalise: scale each record to norm R instead (from below, to 1e-4); a zero record stays zero.
        preparation: public map of each record before it is scaled; none by default.
        class_weights: v, public numbers above 0 by which losses are multiplied, one for each class in order.
        most_weight: public bound above 0 on the weights of records, to which they are clipped; None where
            records have none.
        start: outputs of the untrained model, which need a bias; none are zeros.

    Raises:
        InvalidInput: a size below 1, outputs, weights or a start that do not fit the loss, a negative ridge
            or bias, a radius or bound that is not above 0, `normalise` without a radius; of what reads
            prepared records: some that have not been through `prepare`.

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
    bias: float = 0.0
    feature_norm: float | None = None
    normalise: bool = False
    preparation: Preparation = AS_THEY_ARE
    class_weights: tuple[float, ...] | None = None
    most_weight: float | None = None
    start: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check.count("features", self.features)
        check.one_of("loss", self.loss, get_args(LinearLoss))
        if self.loss == "softmax":
            check.count("outputs", self.outputs, least=2, remedy="softmax has one output per class")
        else:
            check.count("outputs", self.outputs, most=1, remedy=f"{self.loss} has one output")
        check.non_negative("ridge", self.ridge)
        check.non_negative("bias", self.bias, remedy="0 appends no intercept")
        if self.feature_norm is not None:
            check.positive("feature_norm", self.feature_norm, remedy="None keeps records as they are")
        elif self.normalise:
            raise InvalidInput("normalise needs a feature_norm above 0, got None; set the norm to scale to")
        if (stated := self.class_weights) is not None:
            if len(stated) != self.classes:
                raise InvalidInput(
                    f"class_weights must be one number for each of {self.classes} classes, got {stated}"
                )
            check.positive("class_weights", stated, remedy="1 leaves a class as it is", each="class")
        if self.most_weight is not None:
            check.positive("most_weight", self.most_weight, remedy="None where records have no weights")
        fits = len(self.start) == self.outputs and self.bias and np.isfinite(self.start).all()
        if self.start and not fits:
            raise InvalidInput(f"start must be a number for each output, with a bias; got {self.start}")

    @property
    def weighted(self) -> bool:
        """Whether losses of records are multiplied by weights, of classes or their own."""
        return self.class_weights is not None or self.most_weight is not None

    @property
    def dimension(self) -> int:
        """Number of parameters p: outputs times features, and the intercepts if there are any."""
        return self._width * self.outputs

    @property
    def record_norm(self) -> float | None:
        """Public bound on the L2 norm of a prepared record, bias included; None without `feature_norm`."""
        return None if self.feature_norm is None else (self.feature_norm**2 + self.bias**2) ** 0.5

    @property
    def classes(self) -> int:
        """Number of classes K; 0 of numbers to predict."""
        return {"softmax": self.outputs, "squared": 0}.get(self.loss, 2)

    def initial(self, key: Array) -> Array:
        """The origin, but for `start`, shape (p,): the loss is convex, so the key is not needed."""
        # the bias is the last feature, so that its weights are the last numbers of theta
        zeros = np.zeros(self.dimension - len(self.start), np.float32)
        return jnp.asarray(np.append(zeros, np.array(self.start, np.float32) / np.float32(self.bias or 1)))

    def prepare(self, x: Array) -> Array:
        """Records as rows: as `preparation` leaves them, scaled to the norm, with the bias appended.

        Returns:
            float32, shape (n, features), one more with a bias, and one more for the weight of each, which
            comes last. A record with NaN or infinite entries becomes a row of zeros, bias included, so that
            its gradient is zero.

        Raises:
            InvalidInput: records with another number of features, or that `preparation` does not fit.

        Guarantee: rows without their weights have L2 norm at most `record_norm`.
        """
        if self.most_weight is None:
            return self._prepared(x)
        weights = jnp.clip(x[:, -1:], 0.0, self.most_weight)
        known = jnp.isfinite(weights)
        rows = self._prepared(jnp.where(known, x[:, :-1], jnp.nan))
        return jnp.concatenate([rows, jnp.where(known, weights, 0.0)], axis=1)

    def _prepared(self, x: Array) -> Array:
        """Records without weights as rows."""
        rows = self.preparation(x)
        rows = rows.reshape(len(rows), -1)
        self._check_width(rows, self.features, "give every record that many numbers")
        finite = jnp.all(jnp.isfinite(rows), axis=1, keepdims=True)
        rows = self._scaled(jnp.where(finite, rows, 0.0))
        constant = self._constant * finite.astype(rows.dtype)
        return jnp.concatenate([rows, constant], axis=1) if self.bias else rows

    def clipped_gradient_sum(self, theta: Array, batch: Batch, clip_norm: Array | float, norm: Norm) -> Array:
        """Sum of the records' gradients, each clipped to C above 0, as a `Task` does: two matrix products.

        Guarantee: each summand has norm at most C, float32 rounding included (`upper_norm`, `clip`).
        A record contributes zero if its gradient is not finite or its squared norm overflows.

        Source: Goodfellow, Efficient per-example gradient computations (2015).
        """
        if self.outputs > 1 and len(batch.x) >= _MANY:
            return self._sum_by_columns(theta, batch, clip_norm, norm)
        slopes = self.slopes(self.answers(theta, batch.x), batch.x, batch.y)
        kept = self.clipped_slopes(slopes, batch, clip_norm, norm)
        return jnp.matmul(self.rows(batch.x).T, kept, precision="highest").ravel()

    def clipped_slopes(self, slopes: Array, batch: Batch, clip_norm: Array | float, norm: Norm) -> Array:
        """What `clipped_gradient_sum` sums records by, from slopes dloss/dz: both of shape (n, outputs)."""
        sizes = self.norms(batch.x, norm) * upper_norm(slopes, norm)
        weight = batch.mask[:, None]
        # not by the product alone, because padding may hold what gives NaN
        return jnp.where(weight > 0, weight * clip(slopes, sizes, clip_norm), 0.0)

    def gradient(self, theta: Array, batch: Batch | Moments) -> Array:
        """Mean of the records' gradients as a `Task` takes it; for squared loss of their `condense`, too.

            X^T (dloss/dz) / n,    from moments:  (X^T X / n) theta - X^T y / n

        Example:
            >>> model = LinearModel(1, 1, "squared")
            >>> batch = Batch(jnp.array([[1.0], [2.0]]), jnp.array([1.0, 1.0]), jnp.ones(2))
            >>> model.gradient(jnp.zeros(1), batch)
            Array([-1.5], dtype=float32)
        """
        if isinstance(batch, Moments):
            return jnp.matmul(batch.gram, theta, precision="highest") - batch.cross
        slopes = self.slopes(self.answers(theta, batch.x), batch.x, batch.y)
        slopes = jnp.where(batch.mask[:, None] > 0, slopes, 0.0)
        return jnp.matmul(self.rows(batch.x).T, slopes, precision="highest").ravel() / batch.divisor

    def condense(self, batch: Batch) -> Moments | Batch:
        """The moments of a client's records for squared loss, the batch itself for other losses.

        A client that takes many full-batch steps computes them once: a step on n records of q features
        then costs q^2 instead of n q. All moments are zero if no record has mask 1.

        Example:
            >>> batch = Batch(jnp.array([[1.0], [2.0]]), jnp.array([1.0, 1.0]), jnp.ones(2))
            >>> LinearModel(1, 1, "squared").condense(batch)
            Moments(gram=Array([[2.5]], dtype=float32), cross=Array([1.5], dtype=float32))
        """
        if self.loss != "squared":
            return batch
        rows = jnp.where(batch.mask[:, None] > 0, self.rows(batch.x), 0.0)
        labels = jnp.where(batch.mask > 0, batch.y, 0).astype(rows.dtype)
        weighted = self._weighted(rows, batch.x, batch.y)
        gram = jnp.matmul(weighted.T, rows, precision="highest")
        cross = jnp.matmul(weighted.T, labels, precision="highest")
        return Moments(gram / batch.divisor, cross / batch.divisor)

    def losses(self, theta: Array, batch: Batch) -> Array:
        """Loss of each record without the ridge, as a `Task` tells it: clip and noise what leaves a client.

        Example:
            >>> batch = Batch(jnp.array([[1.0], [2.0]]), jnp.array([1.0, 4.0]), jnp.ones(2))
            >>> LinearModel(1, 1, "squared").losses(jnp.ones(1), batch)
            Array([0., 2.], dtype=float32)
        """
        values = jax.vmap(LINEAR_LOSSES[self.loss])(self.answers(theta, batch.x), batch.y)
        return self._weighted(values, batch.x, batch.y)

    def answers(self, theta: Array, x: Array) -> Array:
        """Outputs z of prepared records, shape (n, outputs)."""
        # at default precision, because slopes are clipped as they come out: only products of those need more
        return self.rows(x) @ theta.reshape(self._width, self.outputs)

    def score(self, theta: Array, x: Array, y: Array) -> Score:
        """Mean loss (sum v_y w l / sum v_y w) without the ridge, and accuracy or R^2, on prepared records."""
        from noiseworthy.tasks.structured_losses import LOSSES  # here: gateways score nothing

        outputs, loss = self.answers(theta, x), LOSSES[self.loss]
        losses, quality = jax.vmap(loss.value)(outputs, y), loss.quality(outputs, y)
        weights = self._weighted(jnp.ones_like(losses), x, y) if self.weighted else None
        return Score(jnp.average(losses, weights=weights), quality)

    def slopes(self, outputs: Array, x: Array, y: Array) -> Array:
        """dloss/dz of prepared records with outputs (n, outputs) and labels (n,), shape (n, outputs)."""
        if self.loss == "logistic":  # written out it takes half the time
            return self._weighted(jax.nn.sigmoid(outputs) - y[:, None].astype(outputs.dtype), x, y)
        return self._weighted(jax.vmap(jax.grad(LINEAR_LOSSES[self.loss]))(outputs, y), x, y)

    def rows(self, x: Array) -> Array:
        """Prepared records without their weights, shape (n, width)."""
        weights = int(self.most_weight is not None)
        self._check_width(x, self._width + weights, "pass records through prepare first")
        return x[:, : self._width] if weights else x

    def norms(self, x: Array, norm: Norm) -> Array:
        """Upper bounds on the norms of prepared records, which their clip goes by, shape (n,)."""
        return upper_norm(self.rows(x), norm)

    @property
    def _width(self) -> int:
        return self.features + (self.bias > 0)

    @property
    def _constant(self) -> np.float32:
        """The bias as a float32 that is not above it, so that `record_norm` holds."""
        nearest = np.float32(self.bias)
        return nearest if float(nearest) <= self.bias else np.nextafter(nearest, np.float32(0))

    def _check_width(self, rows: Array, width: int, remedy: str) -> None:
        if rows.ndim != 2 or rows.shape[1] != width:
            raise InvalidInput(f"x must have shape (n, {width}), got {rows.shape}; {remedy}")

    def _weighted(self, values: Array, x: Array, y: Array) -> Array:
        """Values of prepared records, shape (n, ...), times the weights of their classes and their own."""
        each = (-1, *[1] * (values.ndim - 1))
        if self.class_weights is not None:
            values = values * jnp.asarray(self.class_weights, jnp.float32)[y].reshape(each)
        return values if self.most_weight is None else values * x[:, -1].reshape(each)

    def _sum_by_columns(self, theta: Array, batch: Batch, clip_norm: Array | float, norm: Norm) -> Array:
        """`clipped_gradient_sum` with the records last: sums along a few outputs in a row are slow."""
        rows = self.rows(batch.x)
        outputs = theta.reshape(self._width, self.outputs).T @ rows.T
        labels = jax.nn.one_hot(batch.y, self.outputs, axis=0, dtype=outputs.dtype)
        slopes = jax.nn.softmax(outputs, axis=0) - labels
        slopes = self._weighted(slopes.T, batch.x, batch.y).T
        sizes = self.norms(batch.x, norm) * upper_norm(slopes.T, norm)
        kept = jnp.where(batch.mask > 0, batch.mask * clip(slopes.T, sizes, clip_norm).T, 0.0)
        return jnp.matmul(kept, rows, precision="highest").T.ravel()

    def _scaled(self, rows: Array) -> Array:
        """Rows within the ball, or on its sphere; dividing by the peak first avoids over- and underflow."""
        if self.feature_norm is None:
            return rows
        peak = jnp.max(jnp.abs(rows), axis=1, keepdims=True)
        units = rows / jnp.where(peak > 0, peak, 1.0)
        reach = SAFETY * self.feature_norm / upper_norm(units, "l2")[:, None]
        # peak <= reach says that a row has a norm of at most R (1 - 2^-20), without squares that may overflow
        return units * reach if self.normalise else jnp.where(peak <= reach, rows, units * reach)
