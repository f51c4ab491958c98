"""Persons as rows: all records of one person count as one, and are clipped together."""

from __future__ import annotations

from dataclasses import dataclass

from noiseworthy import _validate as check
from noiseworthy._jax import Array, jax, jnp
from noiseworthy.errors import InvalidInput
from noiseworthy.privacy.sensitivity import Norm
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.batch import Batch, Score
from noiseworthy.tasks.chunks import chunks, formed_sum, without_padding

_AT_ONCE = 2**21
"""Numbers of gradients that are in memory at a time."""


@dataclass(frozen=True)
class Persons:
    """A model whose rows are persons: the loss of one is the mean of the losses of its records.

        l(theta; person) = sum_j share_j l(theta; record_j),        share_j = 1/m for m records, 0 for none

    Every person counts once, however many records it has. Its gradient is formed whole and then clipped, so
    that all of a person moves a sum by what one record would move it. Convexity, smoothness and bounds of the
    loss of one record are those of the mean of some.

    A row is an array (most, features + 1): records as flat numbers, the share of each last. Its labels are
    (most,). Records that test stand alone, (features,), and are scored one by one.

    Attributes:
        task: the model of one record.
        most: records that a person has at most, k.
        features: numbers of one record as it is read.

    Raises:
        InvalidInput: sizes below 1.

    Example:
        >>> from noiseworthy.tasks.linear import LinearModel
        >>> persons = Persons(LinearModel(1, 1, "squared"), 2, 1)
        >>> x = persons.prepare(jnp.array([[[1.0, 0.5], [3.0, 0.5]], [[2.0, 1.0], [0.0, 0.0]]]))
        >>> theta, batch = jnp.zeros(1), Batch(x, jnp.array([[1.0, 1.0], [1.0, 0.0]]), jnp.ones(2))
        >>> persons.gradient(theta, batch), persons.clipped_gradient_sum(theta, batch, 1.0, "l2")
        (Array([-2.], dtype=float32), Array([-1.9999981], dtype=float32))
    """

    task: Task
    most: int
    features: int

    def __post_init__(self) -> None:
        check.count("most", self.most)
        check.count("features", self.features)

    @property
    def dimension(self) -> int:
        """Number of parameters p, of the model of one record."""
        return self.task.dimension

    @property
    def one_by_one(self) -> bool:
        """Whether persons are worked on one after the other, never in a batch."""
        return getattr(self.task, "one_by_one", False)

    @property
    def ridge(self) -> float:
        """Weight mu of (mu/2)||theta||^2."""
        return self.task.ridge

    def initial(self, key: Array) -> Array:
        """Public start theta_0, shape (p,)."""
        return self.task.initial(key)

    def prepare(self, x: Array) -> Array:
        """Rows (n, most, features + 1) with each record prepared and flat; single records (n, features), too.

        Raises:
            InvalidInput: rows of another shape.
        """
        if x.ndim == 2:
            return self.task.prepare(x)
        if x.shape[1:] != (wanted := (self.most, self.features + 1)):
            raise InvalidInput("rows of persons must have shape (n, {}, {}), got {}".format(*wanted, x.shape))
        records, shares = x[..., :-1], x[..., -1:]
        # copies of a person's first record where it has no more: of zeros a loss may be NaN (x over its norm)
        filled = jnp.where(shares > 0, records, records[:, :1])
        rows = self.task.prepare(filled.reshape(-1, self.features)).reshape(*x.shape[:2], -1)
        return jnp.concatenate([rows, shares], axis=-1)

    def clipped_gradient_sum(self, theta: Array, batch: Batch, clip_norm: Array | float, norm: Norm) -> Array:
        """Sum of the persons' gradients, each formed of all its records and then clipped to C.

        Args:
            theta: parameters, shape (p,).
            batch: rows from `prepare`, labels (n, most), and a mask that is 0 on padding.
            clip_norm: C above 0, bound on the norm of one person's gradient without the ridge.
            norm: the norm in which C holds.

        Returns:
            Shape (p,).

        Guarantee: each summand has norm at most C, float32 rounding included (`upper_norm`, `clip`). A person
        contributes zero if its gradient is not finite or its squared norm overflows.
        """
        parts = chunks(batch, max(1, _AT_ONCE // self.dimension))
        return formed_sum(self._loss, theta, parts, clip_norm, norm)

    def gradient(self, theta: Array, batch: Batch) -> Array:
        """Mean of the persons' gradients, unclipped and without the ridge, shape (p,); zero without any."""
        batch = without_padding(batch)

        def total(theta: Array) -> Array:
            return jnp.vdot((batch.mask > 0).astype(theta.dtype), self.losses(theta, batch))

        return jnp.where(batch.size > 0, jax.grad(total)(theta) / batch.divisor, 0.0)

    def losses(self, theta: Array, batch: Batch) -> Array:
        """Loss of each person without the ridge, shape (n,), of any value on padding.

        Private: clip and noise what leaves a client.
        """
        each = self._of_records(theta, batch.x.reshape(-1, batch.x.shape[-1]), batch.y.ravel())
        return jnp.sum(each.reshape(batch.x.shape[:2]), axis=1)

    def score(self, theta: Array, x: Array, y: Array) -> Score:
        """Mean loss and accuracy on prepared records that test, each counted once."""
        return self.task.score(theta, x, y)

    def records(self, x: Array) -> Array:
        """Prepared records that lie flat in rows (m, q + 1), without their shares."""
        shape = jax.eval_shape(self.task.prepare, jnp.zeros((1, self.features))).shape[1:]
        return x[:, :-1].reshape(-1, *shape)

    def _loss(self, theta: Array, x: Array, y: Array) -> Array:
        """Loss of one person, of records (most, q + 1)."""
        return jnp.sum(self._of_records(theta, x, y))

    def _of_records(self, theta: Array, x: Array, y: Array) -> Array:
        """Loss of each record times its share, shape (m,)."""
        return x[:, -1] * self.task.losses(theta, Batch(self.records(x), y, jnp.ones(len(y))))
