"""What a task is: parameters as one flat vector, clipped gradients of records, a score."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from noiseworthy._jax import Array
from noiseworthy.privacy.sensitivity import Norm
from noiseworthy.tasks.batch import Batch, Score


@runtime_checkable
class Task(Protocol):
    """A model with its loss. Parameters are one flat float32 vector theta of length `dimension`.

    Implementations are frozen and hashable, so that a compiled program can be reused for equal tasks.
    `ridge` is the weight mu of (mu/2)||theta||^2. It reads no data: algorithms add mu theta after the
    noise, and a clip never sees it.
    """

    @property
    def dimension(self) -> int:
        """Number of parameters p."""
        ...

    @property
    def ridge(self) -> float:
        """Weight mu of the data-free term (mu/2)||theta||^2."""
        ...

    def initial(self, key: Array) -> Array:
        """Public start theta_0, shape (p,)."""
        ...

    def prepare(self, x: Array) -> Array:
        """Records (n, *shape) as `clipped_gradient_sum` and `score` expect them; called once, not per round.

        Public and record by record: what becomes of one record depends on that record alone.
        """
        ...

    def clipped_gradient_sum(self, theta: Array, batch: Batch, clip_norm: Array, norm: Norm) -> Array:
        """Sum over the records with mask 1 of their gradients, each clipped to `clip_norm` in `norm`.

        `batch.x` has been through `prepare`.

        Guarantee: each record changes the result by a vector of norm at most `clip_norm`; a record whose
        gradient is not finite contributes zero.
        """
        ...

    def gradient(self, theta: Array, batch: Batch) -> Array:
        """Mean over the records with mask 1 of their unclipped gradients, shape (p,); zero without any.

        The ridge is not part of it. It bounds no record's influence: whoever calls it clips what a client
        sends, and decides what becomes of a gradient that is not finite.
        """
        ...

    def losses(self, theta: Array, batch: Batch) -> Array:
        """Loss of each record without the ridge, shape (n,); on padding it is anything, NaN included.

        These are numbers about single records: whoever calls it releases none of them as they are.
        """
        ...

    def score(self, theta: Array, x: Array, y: Array) -> Score:
        """Mean loss and accuracy on public or held-out records that have been through `prepare`."""
        ...
