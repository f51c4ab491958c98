"""Local steps of a linear model in the span of the records: coefficients of records move, not parameters.

Every step moves W by a combination of the records, so that all models between two messages are

    W_j = (1 + m_j) W + b_j H + X^T A_j

for the model W that was sent and a constant pull H, where there is one. Outputs follow from inner products of
the records, G = X X^T, which are known before the first step:

    X W_j = (1 + m_j) X W + b_j X H + G A_j

A step on n records of d features and k outputs then costs n^2 k multiplications and not 2 n d k.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Self

from noiseworthy._jax import Array, jax, jnp, lax
from noiseworthy.privacy.sensitivity import Norm
from noiseworthy.tasks.batch import Batch
from noiseworthy.tasks.clipping import clip_factor, flushed
from noiseworthy.tasks.linear import LinearModel


class Spanned(NamedTuple):
    """Records of one client with their inner products.

    Attributes:
        x: prepared records, shape (n, width).
        y: labels, shape (n,).
        mask: 0 on padding, shape (n,).
        products: X X^T, shape (n, n); 0 where it overflows.
    """

    x: Array
    y: Array
    mask: Array
    products: Array

    @classmethod
    def of(cls, task: LinearModel, batch: Batch) -> Self:
        """The records of a batch, with what n^2 d multiplications tell of them."""
        rows = task.rows(batch.x)
        products = jnp.matmul(rows, rows.T, precision="highest")
        # 0 times infinity would be NaN in the outputs of every record that meets one too long to be squared
        return cls(batch.x, batch.y, batch.mask, jnp.where(jnp.isfinite(products), products, 0.0))

    @property
    def batch(self) -> Batch:
        """The records alone."""
        return Batch(self.x, self.y, self.mask)


class Walked(NamedTuple):
    """Where steps have come to.

    Attributes:
        sent: m, what the model that was sent counts beyond once.
        pull: b, what the pull counts.
        records: A, what each record counts, shape (n, k).
        outputs: G A, shape (n, k).
    """

    sent: Array
    pull: Array
    records: Array
    outputs: Array


class Direction(NamedTuple):
    """What a step goes against: X^T S, for S of shape (n, k), with G S beside it."""

    slopes: Array
    outputs: Array

    def clipped(self, clip_norm: Array) -> Direction:
        """Scaled so that X^T S has L2 norm at most C, up to the rounding of |X^T S|^2 = sum S (G S)."""
        # rounding can make the sum too small, even negative, and products that overflowed are missing: no
        # bound on what leaves may rest on this clip alone
        size = jnp.sqrt(jnp.maximum(jnp.sum(self.slopes * self.outputs), 0.0))
        factor = jnp.where(jnp.isfinite(size), clip_factor(size, clip_norm), 0.0)
        return Direction(flushed(factor * self.slopes), factor * self.outputs)


class Walk(NamedTuple):
    """Steps of one client from a model that was sent.

    Attributes:
        task: the model.
        held: the client's records.
        theta: the model that was sent, shape (p,).
        pull: H, which steps go along; None where nothing pulls.
    """

    task: LinearModel
    held: Spanned
    theta: Array
    pull: Array | None = None

    def run(
        self, count: Array, eta: Callable[[Array], Array], against: Callable[[Array, Array], Direction]
    ) -> Walked:
        """All steps, theta <- theta - eta_j (X^T S_j + ridge theta - H).

        Args:
            count: of steps.
            eta: the size of step j.
            against: direction of step j from all records' slopes where it begins, of shape (n, k).
        """
        batch, ridge = self.held.batch, self.task.ridge
        start = self.task.answers(self.theta, batch.x)
        pulled = 0.0 if self.pull is None else self.task.answers(self.pull, batch.x)

        def step(j: Array, at: Walked) -> Walked:
            outputs = (1 + at.sent) * start + at.pull * pulled + at.outputs
            slopes = self.task.slopes(outputs, batch.x, batch.y)
            direction, size = against(j, slopes), eta(j)
            keep = 1 - size * ridge
            return Walked(
                at.sent - size * ridge * (1 + at.sent),
                keep * at.pull + size,
                keep * at.records - size * direction.slopes,
                keep * at.outputs - size * direction.outputs,
            )

        nothing = jnp.zeros_like(start)
        zero = jnp.zeros((), start.dtype)
        return lax.fori_loop(0, count, step, Walked(zero, zero, nothing, nothing))

    def mean(self, slopes: Array, batch_size: int | None, key: Array) -> Direction:
        """Towards the mean gradient of all records, or of a minibatch drawn with replacement."""
        if batch_size is None:
            weights = jnp.where(self.held.mask > 0, 1.0 / self.held.batch.divisor, 0.0)
        else:
            drawn = jax.random.randint(key, (batch_size,), 0, self.held.batch.size)  # as `mean_gradient`
            weights = jnp.zeros_like(self.held.mask).at[drawn].add(1.0 / batch_size)
        return self._of(jnp.where(weights[:, None] > 0, weights[:, None] * slopes, 0.0))

    def clipped_sum(self, slopes: Array, clip_norm: Array, norm: Norm, divisor: Array) -> Direction:
        """Towards the sum of the records' gradients, each clipped to C, over a divisor."""
        return self._of(self.task.clipped_slopes(slopes, self.held.batch, clip_norm, norm) / divisor)

    def moved(self, at: Walked) -> tuple[Array, Array]:
        """Change of the model: what records moved, and what ridge and pull moved, each of shape (p,)."""
        rows = self.task.rows(self.held.x)
        own = jnp.matmul(rows.T, at.records, precision="highest").ravel()
        public = at.sent * self.theta
        return own, public if self.pull is None else public + at.pull * self.pull

    def _of(self, slopes: Array) -> Direction:
        return Direction(slopes, jnp.matmul(self.held.products, slopes, precision="highest"))
